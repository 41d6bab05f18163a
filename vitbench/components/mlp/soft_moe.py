"""A soft mixture of experts."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitbench.components.contracts import Sublayer
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    options={"experts": (8, 1, 256), "slots": (8, 1, 1024)},
    flops={"nd(experts)(slots)": 6, "dm(experts)(slots)": 4},
    source="Puigcerver et al. 2023, From Sparse to Soft Mixtures of Experts, arXiv 2308.00951, §2.1 and §2.3",
)
class SoftMoE(Sublayer):
    """Each expert's MLP with GELU works on ``slots`` mixtures of all tokens, and every token mixes what they give.

    As many slots over all experts as there are tokens take the operations of one MLP, and a mixing beside.
    """

    constants = (("scale", 1.0),)

    def __init__(self, spec: ModelSpec, *, experts: int = 8, slots: int = 8) -> None:
        super().__init__()
        self.experts = experts
        self.queries = nn.Parameter(torch.empty(experts * slots, spec.dim))
        self.scale = nn.Parameter(torch.empty(1))
        self.up = nn.ModuleList(nn.Linear(spec.dim, spec.hidden) for _ in range(experts))
        self.down = nn.ModuleList(nn.Linear(spec.hidden, spec.dim) for _ in range(experts))
        self.dropout = nn.Dropout(spec.dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        queries = self.scale * F.normalize(self.queries, dim=-1)
        logits = F.normalize(tokens, dim=-1) @ queries.T.to(tokens.dtype)
        given = logits.softmax(dim=1).transpose(1, 2) @ tokens
        outputs = [
            down(self.dropout(F.gelu(up(each))))
            for up, down, each in zip(self.up, self.down, given.chunk(self.experts, dim=1), strict=True)
        ]
        out: Tensor = self.dropout(logits.softmax(dim=2) @ torch.cat(outputs, dim=1))
        return out
