"""Boxes: the part of each image that is erased or replaced, drawn on the host for a whole epoch."""

import math

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Size = tuple[int, int]

SCALE, RATIO = (0.02, 0.33), (0.3, 3.3)  # Share of the image's area and ratio of the sides of what random erasing wipes
TRIES = 10


def erasing(images: int, size: Size, probability: float, chance: np.random.Generator) -> Ints:
    """Boxes of random erasing, (n, 4): top, left, bottom, right; all zero where nothing is wiped.

    Args:
        images: n.
        size: height and width, pixels.
        probability: of an image to be wiped at all.
        chance: what is drawn from.

    Source: Zhong et al. 2017, Random Erasing, arXiv 1708.04896; as torchvision.transforms.RandomErasing draws, whose
    tries are all drawn here and the first that fits is taken.
    """
    height, width = size
    shape = images, TRIES
    area = height * width * chance.uniform(*SCALE, shape)
    ratio = np.exp(chance.uniform(math.log(RATIO[0]), math.log(RATIO[1]), shape))
    tall, wide = (np.rint(np.sqrt(x)).astype(np.int64) for x in (area * ratio, area / ratio))
    fits = (tall < height) & (wide < width)
    rows, first = np.arange(images), fits.argmax(axis=1)
    tall, wide = tall[rows, first], wide[rows, first]
    top = _below(height - tall + 1, chance)
    left = _below(width - wide + 1, chance)
    wiped = fits.any(axis=1) & (chance.random(images) < probability)
    return np.where(wiped[:, None], np.stack([top, left, top + tall, left + wide], axis=1), 0)


def cutout(images: int, size: Size, side: int, chance: np.random.Generator) -> Ints:
    """Boxes of cutout, (n, 4): squares of this side whose centres lie anywhere, less what lies beyond the edge.

    Source: DeVries and Taylor 2017, Cutout, arXiv 1708.04552, and uoguelph-mlrg/Cutout.
    """
    return _around(images, size, np.full(images, side // 2), np.full(images, side // 2), chance)


def cutmix(share: Floats, size: Size, chance: np.random.Generator) -> Ints:
    """Boxes of CutMix, (n, 4): of the image's form, of 1 - ``share`` (n,) of its area, less what lies beyond the edge.

    Source: Yun et al. 2019, CutMix, arXiv 1905.04899; as torchvision.transforms.v2.CutMix draws.
    """
    tall, wide = (np.floor(0.5 * np.sqrt(1.0 - share) * side).astype(np.int64) for side in size)
    return _around(len(share), size, tall, wide, chance)


def outside(boxes: Ints, size: Size) -> Floats:
    """Share of each image that does not lie in its box, (n,)."""
    top, left, bottom, right = boxes.T
    area: Floats = (bottom - top) * (right - left) / (size[0] * size[1])
    return 1.0 - area


def inside(boxes: Tensor, size: Size) -> Tensor:
    """Boxes (B, 4) → whether each pixel lies in its image's, (B, 1, height, width) bool."""
    top, left, bottom, right = boxes[:, :, None].unbind(1)
    places = {side: torch.arange(side, device=boxes.device) for side in dict.fromkeys(size)}
    down, across = (places[side] for side in size)
    rows, columns = (down >= top) & (down < bottom), (across >= left) & (across < right)
    return (rows[:, :, None] & columns[:, None, :]).unsqueeze(1)


def _around(images: int, size: Size, half_tall: Ints, half_wide: Ints, chance: np.random.Generator) -> Ints:
    height, width = size
    column, row = chance.integers(width, size=images), chance.integers(height, size=images)
    return np.stack(
        [
            np.maximum(row - half_tall, 0), np.maximum(column - half_wide, 0),
            np.minimum(row + half_tall, height), np.minimum(column + half_wide, width),
        ],
        axis=1,
    )  # fmt: skip


def _below(ends: Ints, chance: np.random.Generator) -> Ints:
    """A whole number from 0 to below each end; 0 for an end that leaves none."""
    return chance.integers(np.maximum(ends, 1))
