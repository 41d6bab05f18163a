"""Pre-training without labels: the first epochs of a trial whose recipe has some, as a masked autoencoder."""

import io
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F

from vitbench.config.recipe import TrainSpec
from vitbench.data.batches import Batch
from vitbench.data.images import Splits
from vitbench.model.masked import MaskedAutoencoder, masked_flops
from vitbench.model.vit import VisionTransformer
from vitbench.streams import derive
from vitbench.training import stage
from vitbench.training.ensemble import Run
from vitbench.training.stepper import autocast

BETAS = (0.9, 0.95)  # Of Adam. Source: He et al. 2022, arXiv 2111.06377, table 8.
WEIGHT_DECAY = 0.05
"""Likewise: not the trial's, so that a linear probe, which has none, is one of the weights that are fine-tuned."""

SHOWN = 8  # Images of a sheet of reconstructions
MARGIN = 1  # White pixels around each image of a sheet
SIDE = 96  # Smallest width of an image of a sheet: smaller ones are shown enlarged, each pixel as a square
GREY = 128.0  # Of a hidden pixel


@dataclass(frozen=True)
class Pretrained(stage.Done):
    """A pre-training that is over."""

    flops: int  # of all its steps, forward and backward
    sheet: bytes  # PNG, see :func:`sheet`


def recipe_of(recipe: TrainSpec) -> TrainSpec:
    """How a trial is pre-trained: by its own recipe, with nothing in it that is about labels or wipes what is hidden.

    Crops and mirrored images are all of its augmentation, as the source has it; the average of weights is of the
    training with labels.
    """
    return TrainSpec(
        epochs=recipe.pretrain_epochs, batch_size=recipe.batch_size, optimizer=recipe.optimizer,
        learning_rate=recipe.pretrain_learning_rate, weight_decay=WEIGHT_DECAY, betas=BETAS,
        schedule=recipe.schedule, warmup_epochs=min(recipe.warmup_epochs, recipe.pretrain_epochs / 2),
        clip_norm=recipe.clip_norm, crop_padding=recipe.crop_padding, flip=recipe.flip, precision=recipe.precision,
        compile=recipe.compile, cuda_graphs=recipe.cuda_graphs,
    )  # fmt: skip


def pretrain(model: VisionTransformer, where: stage.StageSetting) -> Pretrained:
    """Train a model in place as a masked autoencoder on the images that it will be trained on with labels.

    Args:
        model: with its initial weights, on the device.
        where: the trial, whose recipe says how, and its data.

    Raises:
        Diverged, Interrupted: as :func:`vitbench.training.loop.train`.
    """
    trial, data, recipe = where.trial, where.data, recipe_of(where.trial.train)
    autoencoder = MaskedAutoencoder(model, trial.train, derive(trial.seed, "pretraining"))
    done = stage.run(
        "pretraining", autoencoder, recipe, where, words="pre-training", objective=hidden_patch_loss,
        patches=trial.model.patches,
    )  # fmt: skip
    some = data.validation if len(data.validation) else data.train
    pixels = some.pixels[:SHOWN]
    chance = torch.Generator().manual_seed(derive(trial.seed, "pretraining", "shown"))
    order = torch.rand(len(pixels), trial.model.patches, generator=chance).argsort(dim=1).to(where.device)
    with where.memory.uncounted():
        picture = sheet(autoencoder, data, pixels, order, autocast(where.device, recipe.precision))
    flops = 3 * masked_flops(trial.model, trial.train) * len(data.train) * recipe.epochs
    return Pretrained(**vars(done), flops=flops, sheet=picture)


def hidden_patch_loss(module: nn.Module, run: Run, batches: Sequence[Batch]) -> tuple[Tensor, Tensor]:
    """The objective of pre-training; there are no answers that could be right."""
    (batch,) = batches
    assert batch.patches is not None
    loss = run(batch.images(), batch.patches).unsqueeze(0)
    return loss, torch.zeros(1, dtype=torch.int64, device=batch.pixels.device)


@torch.no_grad()
def sheet(
    autoencoder: MaskedAutoencoder, data: Splits, pixels: Tensor, order: Tensor, precision: torch.autocast
) -> bytes:
    """A PNG with a column for each image (n, 3, height, width): it, what was seen of it, and what was made of that.

    What is seen is said by ``order`` (n, P), see :meth:`vitbench.model.masked.MaskedAutoencoder.forward`.
    """
    autoencoder.eval()
    with precision:
        whole, mask = autoencoder.reconstruct(data.normalise(pixels), order)
    predicted = 255.0 * (whole.float() * data.std + data.mean)
    given = pixels.float()
    rows = [given, torch.where(mask > 0, given, GREY), torch.where(mask > 0, given, predicted)]
    times = -(-SIDE // pixels.shape[-1])
    rows = [row.repeat_interleave(times, dim=-1).repeat_interleave(times, dim=-2) for row in rows]
    tiles = [F.pad(row.cpu(), (MARGIN, MARGIN, MARGIN, MARGIN), value=255.0) for row in rows]
    joined = torch.cat([torch.cat(list(row), dim=-1) for row in tiles], dim=-2)
    made = Image.fromarray(joined.round().clamp(0, 255).to(torch.uint8).permute(1, 2, 0).numpy())
    packed = io.BytesIO()
    made.save(packed, "png", optimize=True)
    return packed.getvalue()
