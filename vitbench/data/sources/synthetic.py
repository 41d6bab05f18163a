"""Synthetic images, made from a seed, whose classes differ in one known cue: colour, texture, position or relation.

An image is a grid of 4 × 4 blocks, each pixel with noise of its own that depends on nothing. Three cues are those of
an object on grey, which fills exactly one block and is never clipped; one is that of two parts of the whole image. How
they are drawn tells which cue counts, so that a mixture has no ambiguous images:

- filled: the hue gives the class. Light and block are random.
- grating: its slant gives the class. Hue, light, block and (a little) phase are random. Its waves are 4 pixels long,
  so that a patch of 4 pixels or more sees a whole one.
- frame: the block's row gives the class. Hue, light and column are random.
- two parts of eight blocks each, one light and one dark: their arrangement gives the class (one above the other, side
  by side, or crosswise). Which of them is where, and how light and how dark, is random.

What follows by construction, for patches whose side divides a block's (4 or 8 pixels of a 32 × 32 image) and without
crops, from however many images is learned:

- Colour and texture: one patch of the object gives the class, wherever it is. Neither positions nor a mixing of
  tokens is needed: a sum over tokens can be right everywhere.
- Position: the same draw gives the same patches in each class, in other places. Without positions, where tokens are
  a set, nothing is better than chance; with them a sum over tokens can be right everywhere.
- Relation: again the same draw gives the same patches in each class, so that positions are needed. And each block by
  itself looks the same in each class: light or dark, with equal chances, of the same shades. So of all sums over
  tokens (no attention, mean pooling), positions or not, the one of least expected cross-entropy makes no difference
  between the classes: without a mixing of tokens there is nothing to learn. That is exact for the loss. Accuracy is
  chance up to the luck of the training images: a sum that has learned their noise can be right on 25 to 75 % of two
  classes.
- A mirrored image keeps its class, so that flips do no harm. Labels are balanced: a constant guess is right on
  100 / classes percent of the images.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from vitbench.config.base import pair
from vitbench.config.recipe import DataSpec
from vitbench.data import catalog
from vitbench.data.catalog import SYNTHETIC_GRID as GRID
from vitbench.data.catalog import DataError
from vitbench.data.images import DataSet, Images
from vitbench.streams import derive

GREY = 0.5
CONTRAST = 0.45
WAVE = 4.0  # Length of a grating's waves, pixels
RELATIONS = ("one above the other", "side by side", "crosswise")

CHUNK = 4096  # Images painted at a time: in floating point they are four times the size of what is kept


@dataclass(frozen=True)
class Draws:
    """Random numbers of n images. They are drawn for all of them alike, whatever their classes turn out to be."""

    # (n, 8) in [0, 1): hue, its deviation, light, slant's side, its deviation, phase, which part is light, dark
    uniform: Tensor
    row: Tensor  # (n,) of the object, where the class does not fix it
    column: Tensor  # (n,) of the object


def read(spec: DataSpec) -> DataSet:
    """As many images as the suite asks for (by default as many as CIFAR-10), at its size (by default 32 × 32).

    Raises:
        DataError: where there are fewer than two classes, or the size does not hold the grid.
    """
    if problems := catalog.synthetic_problems(spec):
        raise DataError("; ".join(problems))
    counts = (spec.train_images or catalog.SYNTHETIC.train, spec.test_images or catalog.SYNTHETIC.test)
    train, test = (_make(n, spec, part) for n, part in zip(counts, ("train", "test"), strict=True))
    return DataSet(train, test, class_names(spec))


def class_names(spec: DataSpec) -> tuple[str, ...]:
    """In the order of the labels: the classes of colour, texture, position, relation."""
    return (
        *(f"colour {360 * i / spec.colour_classes:g}°" for i in range(spec.colour_classes)),
        *(f"texture {90 * i / max(spec.texture_classes - 1, 1):g}°" for i in range(spec.texture_classes)),
        *(f"position row {row + 1}" for row in rows(spec.position_classes).tolist()),
        *(f"relation {how}" for how in RELATIONS[: spec.relation_classes]),
    )


def rows(classes: int) -> Tensor:
    """(classes,) the row of blocks of each class of position: spread over the image."""
    return torch.arange(classes) * (GRID - 1) // max(classes - 1, 1)


def parts() -> Tensor:
    """(relations, 16) whether a block belongs to the second part. Any two relations agree on half of the blocks."""
    right = (torch.arange(GRID) >= GRID // 2).expand(GRID, GRID)
    return torch.stack((right.T, right, right.T ^ right)).flatten(1)


def draw(n: int, generator: torch.Generator) -> Draws:
    """The chances of n images."""
    row, column = torch.randint(GRID, (2, n), generator=generator).unbind(0)
    return Draws(torch.rand(n, 8, generator=generator), row, column)


def paint(labels: Tensor, draws: Draws, spec: DataSpec) -> Tensor:
    """(n, 3, height, width) in [0, 1], before noise: what the class fixes is fixed, all else is as it was drawn."""
    n = len(labels)
    height, width = (side // GRID for side in pair(spec.resize or catalog.SYNTHETIC.size))
    counts = (spec.colour_classes, spec.texture_classes, spec.position_classes, spec.relation_classes)
    first = torch.tensor([0, *counts]).cumsum(0)
    cue = torch.bucketize(labels, first[1:], right=True)
    within = labels - first[cue]
    filled, grating, frame, halved = (cue == i for i in range(len(counts)))
    hue, hue_off, light, side, slant_off, phase, swap, dark = draws.uniform.unbind(1)

    # Bins of hue and of slant, with a gap between neighbours.
    hue = torch.where(filled, (within + 0.5 * hue_off - 0.25) / max(spec.colour_classes, 1), hue)
    slant = (within + 0.4 * slant_off - 0.2) * (math.pi / 2) / max(spec.texture_classes - 1, 1)
    slant = torch.where(side < 0.5, slant, -slant)[:, None, None]
    tint = 0.5 + 0.5 * torch.cos(2 * math.pi * (hue[:, None] - torch.arange(3) / 3))
    light, dark = (CONTRAST * (0.6 + 0.4 * shade) for shade in (light, dark))
    colour = (light[:, None] * tint)[:, :, None, None]  # above grey, whatever the hue

    y, x = torch.arange(height)[:, None], torch.arange(width)
    # From the middle of the block and with a phase that varies by an eighth of a wave: one filter finds a slant.
    along = (x - (width - 1) / 2) * slant.cos() + (y - (height - 1) / 2) * slant.sin()
    wave = torch.cos(2 * math.pi * (along / WAVE + (0.25 * phase - 0.125)[:, None, None]))
    border = (torch.minimum(y, height - 1 - y) < height // 4) | (torch.minimum(x, width - 1 - x) < width // 4)
    block = torch.where(border | ~_per_image(frame), colour, 0.0)
    block = torch.where(_per_image(grating), colour * wave[:, None], block)

    row = torch.where(frame, rows(max(spec.position_classes, 1))[within % max(spec.position_classes, 1)], draws.row)
    second = parts()[within % len(RELATIONS)] ^ (swap < 0.5)[:, None]
    shades = torch.where(second, -dark[:, None], light[:, None]) * halved[:, None]
    canvas = shades[:, :, None, None, None].repeat(1, 1, 3, height, width)
    objects = ~halved
    canvas[objects, (row * GRID + draws.column)[objects]] = block[objects]
    blocks = (GREY + canvas).view(n, GRID, GRID, 3, height, width).permute(0, 3, 1, 4, 2, 5)
    return blocks.reshape(n, 3, GRID * height, GRID * width)


def _per_image(of: Tensor) -> Tensor:
    return of[:, None, None, None]


def _make(count: int, spec: DataSpec, part: str) -> Images:
    """Labels, chances and noise have streams of their own: another noise leaves all else as it is."""
    labelling, chances, noise = (
        torch.Generator().manual_seed(derive(spec.image_seed, "inputs", "synthetic", part, what))
        for what in ("labels", "chances", "noise")
    )
    labels = torch.randperm(count, generator=labelling) % len(class_names(spec))
    chunks = []
    for chunk in labels.split(CHUNK):
        image = paint(chunk, draw(len(chunk), chances), spec)
        if spec.pixel_noise:
            image += spec.pixel_noise * torch.randn(image.shape, generator=noise)
        chunks.append((image.clamp_(0, 1) * 255).round().to(torch.uint8))
    return Images(torch.cat(chunks), labels)
