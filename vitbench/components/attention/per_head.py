"""Attention head by head, as a lesson writes it."""

import torch
from torch import Tensor
from torch.nn import functional as F

from vitbench.components.contracts import SelfAttention, rotate
from vitbench.registry import component


@component(
    exact=True,
    whole=True,
    offers=("rotary", "rotary by head", "dropout", "qk_norm", "gate", "bias", "head_dim"),
    source="Vaswani et al. 2017, arXiv 1706.03762, §3.2.2; tintn/vision-transformer-from-scratch, vit.py",
)
class PerHead(SelfAttention):
    """A loop over heads: each projects, attends, and the results are concatenated."""

    def forward(self, tokens: Tensor, rotation: Tensor | None = None) -> Tensor:
        """(B, N, D) → (B, N, D), one head after another."""
        weights = self.qkv.weight.unflatten(0, (3, self.heads, self.head_width))
        biases = None if self.qkv.bias is None else self.qkv.bias.unflatten(0, (3, self.heads, self.head_width))
        bias, outputs = self.bias(), []
        for head in range(self.heads):
            q, k, v = (
                F.linear(tokens, weights[i, head], None if biases is None else biases[i, head]) for i in range(3)
            )
            own = rotation
            if rotation is not None and rotation.ndim > 3 and rotation.shape[-3] > 1:
                own = rotation[..., head : head + 1, :, :]
            q, k = (rotate(norm(x.unsqueeze(1)), own).squeeze(1) for norm, x in ((self.q_norm, q), (self.k_norm, k)))
            scores = q @ k.transpose(-2, -1) * self.scale
            probabilities = (scores if bias is None else scores + bias[head].to(scores.dtype)).softmax(dim=-1)
            outputs.append(F.dropout(probabilities, self.dropout_now) @ v)
        return self.project(torch.cat(outputs, dim=-1), tokens)
