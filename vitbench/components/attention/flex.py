"""Attention by torch's flex_attention."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import flex_attention

from vitbench.components.contracts import SelfAttention
from vitbench.registry import component


@functools.cache
def _compiled() -> Callable[..., Any]:
    """flex_attention is a kernel only when compiled; uncompiled it forms the whole score matrix.

    ``fullgraph`` makes the compiler's limit on recompilations an error, where it would fall back to that form.
    """
    return torch.compile(flex_attention, dynamic=False, fullgraph=True)


@component(
    exact=True,
    offers=("rotary", "rotary by head", "qk_norm", "gate", "head_dim"),
    devices=("cpu", "cuda"),
    trains_on=("cuda",),
    dtypes=("float32", "float16", "bfloat16"),
    at_least={"cuda": {"head_width": 16}},
    source="torch.nn.attention.flex_attention; Dong et al. 2024, arXiv 2412.05496",
)
class Flex(SelfAttention):
    """torch's flex_attention, compiled, without a score modification; it has no backward pass on the CPU."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """(B, H, N, K) → (B, H, N, K)."""
        out: Tensor = _compiled()(q, k, v, scale=self.scale)
        return out
