"""Masked autoencoder: an encoder that sees a quarter of the patches, and a small decoder that predicts the others."""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitbench.components.contracts import Positions, flat_patches
from vitbench.config.base import pair
from vitbench.config.model import ModelSpec
from vitbench.config.recipe import TrainSpec
from vitbench.model.counting import flops_of_call
from vitbench.model.encoder import Encoder, chosen
from vitbench.model.initial import initialise
from vitbench.model.vit import VisionTransformer, seen_alone

EPSILON = 1e-6  # Added to the variance of a patch: one of a single colour has none


class Decoder(nn.Module):
    """Encoder's output of the patches that it saw → all patches.

    Args:
        spec: of the encoder's model.
        recipe: says how wide and how deep it is.
    """

    token_tables: ClassVar[tuple[str, ...]] = ("mask_token",)

    def __init__(self, spec: ModelSpec, recipe: TrainSpec) -> None:
        super().__init__()
        decoder = spec.decoder(recipe.decoder_dim, recipe.decoder_depth)
        height, width = pair(spec.patch_size)
        self.prefix, self.patches = spec.pooled_prefix, spec.patches
        self.embed = nn.Linear(spec.dim, decoder.dim)
        self.mask_token = nn.Parameter(torch.empty(1, 1, decoder.dim))
        self.positions: Positions = chosen("positions", decoder)(decoder)
        self.encoder = Encoder(decoder)
        self.head = nn.Linear(decoder.dim, spec.channels * height * width)

    def forward(self, encoded: Tensor, seen: Tensor) -> Tensor:
        """Tokens (B, prefix + V, D) of the patches ``seen`` (B, V), by their numbers → patches (B, P, C·P·P)."""
        first, tokens = self.embed(encoded).split([self.prefix, seen.shape[1]], dim=1)
        hidden = self.mask_token.to(tokens.dtype).expand(len(seen), self.patches, -1)
        tokens = hidden.scatter(1, seen[..., None].expand(-1, -1, tokens.shape[-1]), tokens)
        decoded = self.encoder(self.positions(torch.cat((first, tokens), dim=1)))
        patches: Tensor = self.head(decoded[:, self.prefix :])
        return patches


class MaskedAutoencoder(nn.Module):
    """Images (B, C, height, width) → the mean squared error of their predicted hidden patches, a scalar.

    Each image has its own patches hidden. The encoder is given the tokens of the others; where a patching's tokens
    overlap (``conv_tokenizer``) these know the edges of what is hidden.

    Encoder and position embedding are those of the model, which is trained in place; pooling and head have no part in
    it. What is predicted of a patch is its pixels, less their mean and over their standard deviation.
    Source: He et al. 2022, Masked autoencoders are scalable vision learners, arXiv 2111.06377, §3 and §4.1.

    Args:
        model: on any device; the decoder is drawn on the CPU by the seed, and moved to it.
        recipe: the share of the patches that is hidden (one at least is, and one is seen), and the decoder.
        seed: of the decoder's initial weights.
    """

    def __init__(self, model: VisionTransformer, recipe: TrainSpec, seed: int) -> None:
        super().__init__()
        spec = model.spec
        if spec.patches < 2:
            raise ValueError("a masked autoencoder needs two patches, one to see and one to predict")
        self.model, self.patch_size = model, pair(spec.patch_size)
        self.prefix, self.patches = spec.prefix, spec.patches
        self.visible = spec.patches_seen(recipe.mask_ratio)
        decoder = Decoder(spec, recipe)
        initialise(decoder, spec.init_std, seed)
        self.decoder = decoder.to(next(model.parameters()).device)

    def forward(self, images: Tensor, order: Tensor) -> Tensor:
        """The loss; of each image the first of its patches in its ``order`` (B, P), by their numbers, are seen."""
        seen = order[:, : self.visible]
        wanted, _, _ = self.targets(images)
        errors = (self.predict(images, seen).float() - wanted).square().mean(dim=-1)
        hidden = torch.ones_like(errors).scatter(1, seen, 0.0)
        return (errors * hidden).sum() / hidden.sum()

    def predict(self, images: Tensor, seen: Tensor) -> Tensor:
        """Every patch as the decoder tells it, (B, P, C·P·P): less its mean and over its standard deviation."""
        tokens, places = seen_alone(self.model.tokens(images), seen, self.prefix)
        encoded = self.model.without_registers(self.model.encoder(tokens, self.model.positions.turning(), places))
        patches: Tensor = self.decoder(encoded, seen)
        return patches

    def targets(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Patches (B, P, C·P·P) as they are to be predicted, and their means and standard deviations (B, P, 1)."""
        patches = flat_patches(images, self.patch_size)
        mean = patches.mean(dim=-1, keepdim=True)
        std = (patches.var(dim=-1, keepdim=True) + EPSILON).sqrt()
        return (patches - mean) / std, mean, std

    @torch.no_grad()
    def reconstruct(self, images: Tensor, order: Tensor) -> tuple[Tensor, Tensor]:
        """The images with predicted hidden patches, and 1 where a pixel was seen and 0 where it was predicted.

        Both have the images' shape. A patch is predicted up to mean and standard deviation, which are the image's own.
        What is seen is said by ``order``, as in :meth:`forward`.
        """
        seen = order[:, : self.visible]
        wanted, mean, std = self.targets(images)
        seen_mask = torch.zeros_like(mean).scatter(1, seen[..., None], 1.0)
        predicted = seen_mask * wanted + (1.0 - seen_mask) * self.predict(images, seen).float()
        size = (images.shape[-2], images.shape[-1])
        whole, mask = (
            F.fold(patches.transpose(1, 2), size, self.patch_size, stride=self.patch_size)
            for patches in (predicted * std + mean, seen_mask.expand_as(wanted))
        )
        return whole, mask


def masked_flops(spec: ModelSpec, recipe: TrainSpec) -> int:
    """Operations of one image's forward pass, counted as by :func:`vitbench.model.counting.forward_flops`."""
    with torch.device("meta"):
        autoencoder = MaskedAutoencoder(VisionTransformer(spec.reference()), recipe, seed=0)
        images = torch.empty(1, spec.channels, *pair(spec.image_size))
        return flops_of_call(autoencoder, images, torch.empty(1, spec.patches, dtype=torch.int64))[""]
