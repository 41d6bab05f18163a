"""Attention maps: rollout, attention distance and entropy.

Shapes: B images, L layers, H heads, N tokens, P patches. A map is (B, H, N, N), row = query, rows of sum 1; tokens that
are no patches come first.
"""

import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from vitbench.config.base import pair
from vitbench.config.model import ModelSpec


def rollout(maps: Sequence[Tensor], *, residual: bool = True) -> Tensor:
    """Maps of all layers, from the first → how much of each token reaches each, (B, N, N); rows have the sum 1.

    The product of the layers' maps, each the mean over its heads and, where a residual connection passes tokens on,
    half the identity. Source: Abnar and Zuidema 2020, arXiv 2005.00928, eq. 1 and §3.
    """

    def passed_on(attention: Tensor) -> Tensor:
        mean = attention.mean(dim=1)
        return (mean + torch.eye(mean.shape[-1], dtype=mean.dtype, device=mean.device)) / 2 if residual else mean

    return functools.reduce(lambda so_far, each: each @ so_far, map(passed_on, maps))


def attention_to_patches(shares: Tensor, attention: Tensor, prefix: int) -> Tensor:
    """Attention to each patch of tokens that weigh ``shares`` (B, N): (B, …, N, N) → (B, …, P).

    The rest, up to the sum 1, is attention to the ``prefix`` tokens before those of the patches.
    """
    queries = shares.view(len(shares), *[1] * (attention.ndim - 3), 1, -1)
    return (queries @ attention).squeeze(-2)[..., prefix:]


def distances(attention: Tensor, spec: ModelSpec) -> Tensor:
    """Mean attention distance of every image and head, in pixels of the image: (B, H, N, N) → (B, H).

    The distance between the centres of the querying patch and of the others, weighted by attention, as a mean over the
    patches. Attention to tokens before those of the patches is left out of account, since they are nowhere: weights are
    those among patches, of sum 1. Source: Dosovitskiy et al. 2021, arXiv 2010.11929, fig. 7 and appendix D.7.
    """
    among = attention[..., spec.prefix :, spec.prefix :]
    total = among.sum(dim=-1)
    mean = (among * between(spec).to(among)).sum(dim=-1) / total
    return torch.where(total > 0, mean, torch.nan).nanmean(dim=-1)  # a patch may attend to what is no patch alone


def between(spec: ModelSpec) -> Tensor:
    """Distance between the centres of each two patches, (P, P), pixels."""
    (height, width), (rows, columns) = pair(spec.patch_size), spec.grid
    y, x = torch.meshgrid(torch.arange(rows) * float(height), torch.arange(columns) * float(width), indexing="ij")
    centres = torch.stack((y.flatten(), x.flatten()), dim=-1)
    return torch.cdist(centres, centres, compute_mode="donot_use_mm_for_euclid_dist")
