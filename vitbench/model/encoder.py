"""Blocks, and the encoder that stacks them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from vitbench import registry
from vitbench.components.contracts import Placement, Transform
from vitbench.config.model import ModelSpec


def chosen(slot: str, spec: ModelSpec) -> Any:
    """The class of the component that a spec puts into a slot; its base is the contract of that slot."""
    return registry.load(slot, spec.components[slot])


class DropPath(nn.Module):
    """Stochastic depth: in training, a sublayer's output is left out for a whole image with probability ``rate``.

    Source: Huang et al. 2016, arXiv 1603.09382; scaled by the rate of survival as in timm.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        if not self.training or self.rate == 0.0:
            return x
        keep = 1.0 - self.rate
        return x * torch.empty(x.shape[0], 1, 1, device=x.device, dtype=x.dtype).bernoulli_(keep).div_(keep)


class Block(nn.Module):
    """Attention and MLP, each with norm and residual as the spec places them; an empty sublayer is passed over."""

    def __init__(self, spec: ModelSpec, drop_path: float) -> None:
        super().__init__()
        placement, norm_layer = chosen("norm", spec), chosen("norm_layer", spec)
        self.placement: Placement = placement()
        self.residual = spec.residual
        self.drop_path = DropPath(drop_path)
        self.attention, self.attention_norm = None, None
        self.mlp, self.mlp_norm = None, None
        if not spec.leaves_out("attention"):
            self.attention = chosen("attention", spec)(spec)
            self.attention_norm = norm_layer(spec) if self.placement.normalizes else None
        if not spec.leaves_out("mlp"):
            self.mlp = chosen("mlp", spec)(spec)
            self.mlp_norm = norm_layer(spec) if self.placement.normalizes else None

    def forward(self, tokens: Tensor, rotation: Tensor | None = None) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        if (attention := self.attention) is not None:
            tokens = self.step(tokens, lambda x: attention(x, rotation), self.attention_norm)
        if self.mlp is not None:
            tokens = self.step(tokens, self.mlp, self.mlp_norm)
        return tokens

    def step(self, tokens: Tensor, sublayer: Transform, norm: Transform | None) -> Tensor:
        """One sublayer in its place."""
        out: Tensor = self.placement(tokens, sublayer, norm, self.join)
        return out

    def join(self, tokens: Tensor, output: Tensor) -> Tensor:
        """The residual connection, with stochastic depth; without it, the output alone."""
        if not self.residual:
            return output
        dropped: Tensor = self.drop_path(output)
        return tokens + dropped


class Encoder(nn.Module):
    """``depth`` blocks and, where the spec has it, one more norm."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        last = max(spec.depth - 1, 1)
        self.blocks = nn.ModuleList(Block(spec, spec.drop_path * i / last) for i in range(spec.depth))
        self.final_norm = chosen("norm_layer", spec)(spec) if spec.final_norm else nn.Identity()

    def forward(self, tokens: Tensor, rotation: Tensor | None = None) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        for block in self.blocks:
            tokens = block(tokens, rotation)
        out: Tensor = self.final_norm(tokens)
        return out
