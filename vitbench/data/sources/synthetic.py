"""Images made from a seed, whose classes are told apart by colour, by local texture, or by absolute position.

So it is known beforehand what a component is good for: without positions, the classes that differ by position alone
cannot be told apart; without colour or texture the rest cannot. A mirrored image keeps its class, so that flips do no
harm; so does one that is shifted by an eighth.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from vitbench.data import catalog
from vitbench.data.images import DataSet, Images
from vitbench.spec.base import pair
from vitbench.spec.recipe import DataSpec
from vitbench.streams import derive

COLOURS, TEXTURES, PLACES = 4, 3, 3
CLASS_NAMES = (
    *(f"colour {name}" for name in ("red", "yellow-green", "cyan", "violet")),
    *(f"texture {kind}" for kind in ("upright", "level", "slanted")),
    *(f"position {place}" for place in ("top", "middle", "bottom")),
)
NOISE = 0.12
"""Standard deviation of each pixel's noise, of a range of 1."""


def read(spec: DataSpec) -> DataSet:
    """As many images as the suite asks for (by default as many as CIFAR-10), at its size (by default 32 × 32)."""
    size = pair(spec.resize) if spec.resize is not None else pair(catalog.SYNTHETIC.size)
    counts = (spec.train_images or catalog.SYNTHETIC.train, spec.test_images or catalog.SYNTHETIC.test)
    train, test = (_make(n, size, part) for n, part in zip(counts, ("train", "test"), strict=True))
    return DataSet(train, test, CLASS_NAMES)


def _make(count: int, size: tuple[int, int], part: str) -> Images:
    generator = torch.Generator().manual_seed(derive(catalog.SYNTHETIC_VERSION, "inputs", "synthetic", part))
    labels = torch.randint(len(CLASS_NAMES), (count,), generator=generator)
    # In chunks: the float images are four times the size of what is kept.
    chunks = [_paint(chunk, size, generator) for chunk in labels.split(4096)]
    return Images(torch.cat(chunks), labels)


def _paint(labels: Tensor, size: tuple[int, int], generator: torch.Generator) -> Tensor:
    """(n, 3, height, width) uint8: a soft disc on grey, filled with a colour and a grating.

    What the class fixes is fixed; every other attribute (hue, orientation, place) is drawn at random.
    """
    n, (height, width) = len(labels), size

    def uniform(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(n, 1, 1, generator=generator)

    by_colour, by_texture, by_place = (
        labels < COLOURS,
        (labels - COLOURS).clamp(0),
        (labels - COLOURS - TEXTURES).clamp(0),
    )
    of_colour, of_place = by_colour.view(n, 1, 1), (labels >= COLOURS + TEXTURES).view(n, 1, 1)
    of_texture = ~of_colour & ~of_place

    hue = torch.where(of_colour, (labels.view(n, 1, 1) + uniform(-0.25, 0.25)) / COLOURS, uniform(0, 1))
    slant = torch.where(uniform(0, 1) < 0.5, 0.25, 0.75)
    quarter = torch.tensor([0.0, 0.5, 0.0])[by_texture.clamp(max=TEXTURES - 1)].view(n, 1, 1)
    fixed = torch.where(by_texture.view(n, 1, 1) == TEXTURES - 1, slant, quarter) + uniform(-0.05, 0.05)
    turn = fixed * math.pi
    anchors = torch.tensor([0.15, 0.5, 0.85])[by_place.clamp(max=PLACES - 1)].view(n, 1, 1)
    row = torch.where(of_place, anchors + uniform(-0.03, 0.03), uniform(0.2, 0.8))
    column = uniform(0.2, 0.8)

    y = ((torch.arange(height) + 0.5) / height).view(1, height, 1)
    x = ((torch.arange(width) + 0.5) / width).view(1, 1, width)
    # Classes of colour and place carry no grating and the gratings no fixed hue: each class has one cue.
    wave = torch.sin(2 * math.pi * (8.0 * (x * turn.cos() + y * turn.sin()) + uniform(0, 1)))
    brightness = 0.5 + torch.where(of_texture, 0.4 * wave, 0.4 * uniform(0.2, 1.0))
    disc = torch.sigmoid((0.2 - ((y - row) ** 2 + (x - column) ** 2).sqrt()) * 40)
    phases = torch.tensor([0.0, 1 / 3, 2 / 3]).view(1, 3, 1, 1)
    tint = 0.5 + 0.5 * torch.cos(2 * math.pi * (hue[:, None] - phases))
    image = 0.5 + disc[:, None] * (brightness[:, None] * (0.3 + 0.7 * tint) - 0.5)
    image = image + NOISE * torch.randn(n, 3, height, width, generator=generator)
    return (image.clamp(0, 1) * 255).round().to(torch.uint8)
