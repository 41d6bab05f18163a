"""Attention pooling."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitbench.components.contracts import Pooling
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    offers=("patches",),
    flops={"ndd": 4, "nd": 4, "dd": 20},
    source="Zhai et al. 2021, arXiv 2106.04560, §3.3; big_vision, models/vit.py, MAPHead; timm's AttentionPoolLatent",
)
class AttentionPooling(Pooling):
    """A learned query attends to all tokens; y = its output, y + mlp(norm(y)), with a norm and an MLP of its own."""

    token_tables = ("probe",)

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.heads = spec.heads
        self.probe = nn.Parameter(torch.empty(1, 1, spec.dim))
        self.q, self.kv = nn.Linear(spec.dim, spec.dim), nn.Linear(spec.dim, 2 * spec.dim)
        self.proj = nn.Linear(spec.dim, spec.dim)
        self.norm = nn.LayerNorm(spec.dim, eps=1e-6)
        self.up, self.down = nn.Linear(spec.dim, 4 * spec.dim), nn.Linear(4 * spec.dim, spec.dim)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, N, D) → (B, D)."""
        q = self.q(self.probe).unflatten(-1, (self.heads, -1)).transpose(1, 2).expand(len(tokens), -1, -1, -1)
        k, v = self.kv(tokens).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        probabilities = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).softmax(dim=-1)  # of one query: it is small
        mixed = (probabilities @ v).transpose(1, 2).flatten(2)
        pooled = self.proj(mixed).squeeze(1)
        out: Tensor = pooled + self.down(F.gelu(self.up(self.norm(pooled))))
        return out
