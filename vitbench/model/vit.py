"""VisionTransformer: the model that components are put into."""

from collections.abc import Callable, Iterable
from typing import ClassVar

import torch
from torch import Tensor, nn

from vitbench import registry
from vitbench.components.contracts import Patching, Pooling, Positions, SelfAttention
from vitbench.config.base import pair
from vitbench.config.model import ModelSpec
from vitbench.model.encoder import Encoder, chosen


class Registers(nn.Module):
    """Learned tokens that take part in attention and are given up before pooling.

    They stand between the class token, if there is one, and the patches, and have no positions.
    Source: Darcet et al. 2023, Vision Transformers Need Registers, arXiv 2309.16588, §3.
    """

    token_tables: ClassVar[tuple[str, ...]] = ("table",)

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.after, self.count = spec.pooled_prefix, spec.registers
        self.table = nn.Parameter(torch.empty(1, spec.registers, spec.dim))

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, N - R, D) → (B, N, D)."""
        first, rest = tokens.split([self.after, tokens.shape[1] - self.after], dim=1)
        return torch.cat((first, self.table.expand(len(tokens), -1, -1), rest), dim=1)

    def taken_out(self, tokens: Tensor) -> Tensor:
        """(B, N, D) → (B, N - R, D)."""
        return torch.cat((tokens[:, : self.after], tokens[:, self.after + self.count :]), dim=1)


class PatchDrop(nn.Module):
    """Patch dropout: in training each image goes into the encoder without some of its patches, drawn for each step.

    Tokens before the patches stay. Source: Liu et al. 2022, PatchDropout, arXiv 2208.07220; timm's PatchDropout.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.prefix, self.patches, self.kept = spec.prefix, spec.patches, spec.patches_kept

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """(B, N, D) → (B, N', D), and the numbers (B, N') of the tokens that are kept, in their order."""
        chance = torch.rand(len(tokens), self.patches, device=tokens.device)
        return seen_alone(tokens, chance.argsort(dim=1)[:, : self.kept].sort(dim=1).values, self.prefix)


def seen_alone(tokens: Tensor, seen: Tensor, prefix: int) -> tuple[Tensor, Tensor]:
    """Tokens (B, N, D), ``prefix`` of no patch first, without those of patches that are not ``seen`` (B, V).

    Returns:
        The tokens (B, prefix + V, D), and their numbers (B, prefix + V) among all.
    """
    first = torch.arange(prefix, device=tokens.device).expand(len(tokens), -1)
    places = torch.cat((first, seen + prefix), dim=1)
    return tokens.gather(1, places[..., None].expand(-1, -1, tokens.shape[-1])), places


class VisionTransformer(nn.Module):
    """Images (B, C, height, width) → logits (B, classes).

    patching → pooling.prepend → positions → encoder → pooling → head.
    Source: Dosovitskiy et al. 2020, arXiv 2010.11929, fig. 1.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.spec = spec
        self.initial_std = spec.init_std  # spread of its weights, see :func:`vitbench.model.initial.initialise`
        self.patching: Patching = chosen("patching", spec)(spec)
        self.pooling: Pooling = chosen("pooling", spec)(spec)
        self.positions: Positions = chosen("positions", spec)(spec)
        self.registers = Registers(spec) if spec.registers else None
        self.dropout = nn.Dropout(spec.dropout)
        self.patch_drop = PatchDrop(spec) if spec.patch_drop else None
        self.encoder = Encoder(spec)
        self.head = chosen("head", spec)(spec)
        self.teacher_head = nn.Linear(spec.dim, spec.num_classes) if spec.answers_teacher else None

    def forward(self, images: Tensor) -> Tensor:
        """Logits; the mean of both heads' where one answers a teacher (facebookresearch/deit, models.py).

        Raises ValueError for images of another size than the spec's.
        """
        if self.teacher_head is not None:
            return self.both(images).mean(dim=1)
        logits: Tensor = self.head(self.features(images))
        return logits

    def features(self, images: Tensor) -> Tensor:
        """Images (B, C, height, width) → what the head sees, (B, V), V the pooled width."""
        pooled: Tensor = self.pooling(self.encoded(images))
        return pooled

    def encoded(self, images: Tensor) -> Tensor:
        """Images (B, C, height, width) → what is pooled: the encoder's output without registers, (B, N - R, D)."""
        tokens, places = self.tokens(images), None
        if self.patch_drop is not None and self.training:
            tokens, places = self.patch_drop(tokens)
        return self.without_registers(self.encoder(tokens, self.positions.turning(), places))

    def without_registers(self, tokens: Tensor) -> Tensor:
        """(B, N, D) → (B, N - R, D)."""
        return tokens if self.registers is None else self.registers.taken_out(tokens)

    def both(self, images: Tensor) -> Tensor:
        """Answers to the labels and to a teacher, (B, 2, classes): the same where there is one head."""
        tokens = self.encoded(images)
        to_labels: Tensor = self.head(self.pooling(tokens))
        if self.teacher_head is None:
            return torch.stack((to_labels, to_labels), dim=1)
        return torch.stack((to_labels, self.teacher_head(self.pooling.for_teacher(tokens))), dim=1)

    def tokens(self, images: Tensor) -> Tensor:
        """Images (B, C, height, width) → what enters the encoder, (B, N, D)."""
        wanted = (self.spec.channels, *pair(self.spec.image_size))
        if tuple(images.shape[1:]) != wanted:
            raise ValueError(
                f"the model takes images of {wanted} (channels, height, width), got {tuple(images.shape[1:])}"
            )
        tokens = self.positions(self.pooling.prepend(self.patching(images)))
        out: Tensor = self.dropout(tokens if self.registers is None else self.registers(tokens))
        return out

    def shares(self, encoded: Tensor) -> Tensor | None:
        """Share of each token of the encoder's output (B, N, D) in the pooled vector, (B, N): registers have none.

        None where the pooling does not say.
        """
        shares = self.pooling.shares(self.without_registers(encoded))
        if shares is None or self.registers is None:
            return shares
        first, rest = shares.split([self.registers.after, shares.shape[1] - self.registers.after], dim=1)
        return torch.cat((first, shares.new_zeros(len(shares), self.spec.registers), rest), dim=1)

    @property
    def _attends_exactly(self) -> bool:
        return registry.facts("attention", self.spec.attention).exact

    def attention_maps(self, images: Tensor) -> list[Tensor]:
        """Attention probabilities of every layer, (B, H, N, N) each, row = query; in evaluation mode.

        Raises:
            ValueError: where the attention component has no maps (its tokens do not mix, or it is not exact), and where
                not every block has all tokens.
        """
        attentions = self._attentions()
        if any(type(a).maps is SelfAttention.maps for a in attentions) and not self._attends_exactly:
            raise ValueError(f'attention "{self.spec.attention}" is not exact, and does not say what its maps are')
        return self._read(attentions, images, lambda attention, given, _: attention.maps(*given))

    def attention_scores(self, images: Tensor) -> list[Tensor]:
        """Scores before the softmax of every layer, (B, H, N, N) each, row = query; in evaluation mode.

        Raises:
            ValueError: where the attention component is not exact, and as of :meth:`attention_maps`.
        """
        attentions = self._attentions()
        if not self._attends_exactly:
            raise ValueError(f'attention "{self.spec.attention}" is not exact: it may have no scores')

        def scores(attention: SelfAttention, given: tuple[Tensor, Tensor | None], _: Tensor) -> Tensor:
            tokens, rotation = given
            q, k, _ = attention.split(attention.qkv(tokens), rotation)
            return attention.scores(q, k)

        return self._read(attentions, images, scores)

    def token_norms(self, images: Tensor) -> Tensor:
        """Length of each token after each block, (B, L, N); in evaluation mode. Raises ValueError with a reduction."""
        self._whole()
        norms = self._read(self.encoder.blocks, images, lambda _, __, tokens: tokens.float().norm(dim=-1))
        return torch.stack(norms, dim=1)

    def _whole(self) -> None:
        if self.encoder.reductions:
            raise ValueError(f'reduction "{self.spec.reduction}" leaves no map of all tokens')

    def _attentions(self) -> list[SelfAttention]:
        """Attention of every block. Raises ValueError."""
        self._whole()
        attentions = [m for m in self.encoder.modules() if isinstance(m, SelfAttention)]
        if len(attentions) != self.spec.depth:
            raise ValueError(f'attention "{self.spec.attention}" has no attention maps')
        return attentions

    @torch.no_grad()
    def _read(self, modules: Iterable[nn.Module], images: Tensor, read: Callable[..., Tensor]) -> list[Tensor]:
        """``read(module, inputs, output)`` of each module, in order, for a forward pass in evaluation mode."""
        results = list[Tensor]()
        hooks = [m.register_forward_hook(lambda *call: results.append(read(*call))) for m in modules]
        training = self.training
        try:
            self.eval()(images)
        finally:
            self.train(training)
            for hook in hooks:
                hook.remove()
        return results
