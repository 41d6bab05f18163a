"""VisionTransformer: the model that components are put into."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from vitbench.components.contracts import Patching, Pooling, Positions, SelfAttention
from vitbench.model.encoder import Encoder, chosen
from vitbench.model.initial import initialise
from vitbench.spec.base import pair
from vitbench.spec.model import ModelSpec


class VisionTransformer(nn.Module):
    """Images (B, C, height, width) → logits (B, classes).

    patching → pooling.prepend → positions → encoder → pooling → head.
    Source: Dosovitskiy et al. 2020, arXiv 2010.11929, fig. 1.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.spec = spec
        self.patching: Patching = chosen("patching", spec)(spec)
        self.pooling: Pooling = chosen("pooling", spec)(spec)
        self.positions: Positions = chosen("positions", spec)(spec)
        self.dropout = nn.Dropout(spec.dropout)
        self.encoder = Encoder(spec)
        self.head = nn.Linear(spec.dim, spec.num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Logits. Raises ValueError for images of another size than the spec's."""
        tokens = self.encoder(self.tokens(images), self.positions.rotation)
        logits: Tensor = self.head(self.pooling(tokens))
        return logits

    def tokens(self, images: Tensor) -> Tensor:
        """Images (B, C, height, width) → what enters the encoder, (B, N, D)."""
        wanted = (self.spec.channels, *pair(self.spec.image_size))
        if tuple(images.shape[1:]) != wanted:
            raise ValueError(
                f"the model takes images of {wanted} (channels, height, width), got {tuple(images.shape[1:])}"
            )
        tokens: Tensor = self.dropout(self.positions(self.pooling.prepend(self.patching(images))))
        return tokens

    @torch.no_grad()
    def attention_maps(self, images: Tensor) -> list[Tensor]:
        """Attention probabilities of every layer, (B, H, N, N) each, row = query; in evaluation mode.

        Raises:
            ValueError: where the attention component has no maps (its tokens do not mix, or it is not exact).
        """
        maps = []

        def keep(attention: SelfAttention, inputs: tuple[Tensor, Tensor | None], _: Tensor) -> None:
            maps.append(attention.maps(*inputs))

        attentions = [m for m in self.encoder.modules() if isinstance(m, SelfAttention)]
        if len(attentions) != self.spec.depth:
            raise ValueError(f'attention "{self.spec.attention}" has no attention maps')
        hooks = [attention.register_forward_hook(keep) for attention in attentions]
        training = self.training
        try:
            self.eval()(images)
        finally:
            self.train(training)
            for hook in hooks:
                hook.remove()
        return maps


def build_model(spec: ModelSpec, seed: int) -> VisionTransformer:
    """A model with the initial weights of a seed, on the CPU in float32.

    Raises:
        ValueError: where fields contradict one another or components cannot be combined; the message says which.
    """
    wrong = [f"{field}: {message}" for field, message in spec.problems()] or spec.conflicts()
    if wrong:
        raise ValueError("; ".join(wrong))
    model = VisionTransformer(spec)
    initialise(model, spec.init_std, seed)
    return model
