"""Torch's own multi-head attention."""

from torch import Tensor
from torch.nn import functional as F

from vitbench.components.contracts import SelfAttention
from vitbench.registry import component


@component(
    exact=True,
    whole=True,
    vmap=False,  # torch.vmap has no rule for the fused attention inside, and would call it once for each model
    offers=("dropout",),
    source="torch.nn.functional.multi_head_attention_forward",
)
class MHA(SelfAttention):
    """torch's multi_head_attention_forward, as torch.nn.MultiheadAttention calls it; it takes no rotation."""

    def forward(self, tokens: Tensor, rotation: Tensor | None = None) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        assert rotation is None, "components that rotate need a feature which this one does not offer"
        x = tokens.transpose(0, 1)  # the functional form is sequence-first
        mixed, _ = F.multi_head_attention_forward(
            x, x, x, x.shape[-1], self.heads, self.qkv.weight, self.qkv.bias, None, None, False,
            self.attention_dropout, self.proj.weight, self.proj.bias, training=self.training, need_weights=False,
        )  # fmt: skip
        out: Tensor = self.proj_dropout(mixed.transpose(0, 1))
        return out
