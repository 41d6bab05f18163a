"""MLP with GELU after both of its layers."""

from torch import Tensor

from vitbench.components.mlp.gelu import GELU
from vitbench.registry import component


@component(source="omihub777/ViT-CIFAR, layers.py, TransformerEncoder")
class GELUTwice(GELU):
    """gelu(down(gelu(up(x))))."""

    def forward(self, tokens: Tensor) -> Tensor:
        """Transform each token."""
        hidden = self.dropout(self.activate(self.up(tokens)))
        out: Tensor = self.dropout(self.activate(self.down(hidden)))
        return out
