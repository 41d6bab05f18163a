"""A sparse mixture of experts."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitbench.components.contracts import Sublayer, with_loss
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    options={"experts": (8, 2, 256), "chosen": (2, 1, 8), "slots": (16, 1, 1024), "balance": (0.01, 0.0, 10.0)},
    flops={"nd(experts)": 2, "nd(experts)(slots)": 4, "dm(experts)(slots)": 4},
    source="Riquelme et al. 2021, V-MoE, arXiv 2106.05974, §2 and §4.1, an image a group; balance: Fedus et al. 2021, "
    "Switch Transformers, arXiv 2101.03961, eq. 4 to 6; products with one-hot rows: Lepikhin et al. 2020, GShard, "
    "arXiv 2006.16668, algorithm 2",
)
class MoE(Sublayer):
    """Each token goes to the ``chosen`` experts that a router gives most; an expert takes at most ``slots`` an image.

    Of fewer experts than ``chosen`` each is chosen. An expert that more tokens want takes those that give it most; what
    no expert takes is zero. In training the loss gains ``balance`` times experts · Σ (share of the choices that fall on
    an expert) · (its mean share by the router). As many slots as tokens times ``chosen``, over all experts, take the
    operations of ``chosen`` MLPs, and a routing.
    """

    def __init__(
        self, spec: ModelSpec, *, experts: int = 8, chosen: int = 2, slots: int = 16, balance: float = 0.01
    ) -> None:
        super().__init__()
        self.experts, self.chosen, self.slots, self.balance = experts, min(chosen, experts), slots, balance
        self.router = nn.Linear(spec.dim, experts, bias=False)
        self.up = nn.ModuleList(nn.Linear(spec.dim, spec.hidden) for _ in range(experts))
        self.down = nn.ModuleList(nn.Linear(spec.hidden, spec.dim) for _ in range(experts))
        self.dropout = nn.Dropout(spec.dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        logits = self.router(tokens)
        shares = logits.softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))
        places = shares.topk(self.chosen, dim=-1).indices
        wanted = (places[..., None] == torch.arange(self.experts, device=tokens.device)).any(dim=-2)
        taken, numbers = (shares * wanted).transpose(1, 2).topk(min(self.slots, tokens.shape[1]), dim=-1)
        # Rows of one 1 each, (B, E, slots, N): a gather's backward adds in no fixed order on a GPU.
        rows = (numbers[..., None] == torch.arange(tokens.shape[1], device=tokens.device)).to(tokens.dtype)
        given = (rows @ tokens[:, None]).unbind(dim=1)
        outputs = torch.stack(
            [down(self.dropout(F.gelu(up(x)))) for up, down, x in zip(self.up, self.down, given, strict=True)], dim=1
        )
        weighted = outputs * taken[..., None].to(outputs.dtype)
        out: Tensor = self.dropout(rows.flatten(1, 2).transpose(1, 2).to(outputs.dtype) @ weighted.flatten(1, 2))
        if not self.training or not self.balance:
            return out
        falls = wanted.to(shares.dtype).mean(dim=(0, 1)) / self.chosen
        return with_loss(out, self.balance * self.experts * (falls * shares.mean(dim=(0, 1))).sum())
