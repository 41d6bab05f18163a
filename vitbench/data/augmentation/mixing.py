"""Mixing: MixUp and CutMix of images and labels.

It comes after normalisation, and so does wiping: what is wiped is 0, the mean of the training images.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from vitbench.data.augmentation import boxes
from vitbench.data.augmentation.boxes import Size


@dataclass(frozen=True)
class Mixes:
    """How the images of an epoch are mixed, each with the one before it in its batch."""

    share: Tensor  # (n,) float32, of the image in what comes out; of the other it is 1 - share
    cut: Tensor  # (n,) bool, whether a part of the other replaces a part of the image; else they are blended
    boxes: Tensor  # (n, 4) int64, that part; see :mod:`vitbench.data.augmentation.boxes`
    blends: bool  # whether some images may be blended

    def __getitem__(self, rows: slice) -> "Mixes":
        return self.map(lambda each: each[rows])

    def map(self, change: Callable[[Tensor], Tensor]) -> "Mixes":
        """Mixes with each of the tensors changed."""
        return replace(self, share=change(self.share), cut=change(self.cut), boxes=change(self.boxes))

    def images(self, images: Tensor) -> Tensor:
        """Images (B, C, height, width), mixed; of one that is alone in its batch, the same."""
        others = images.roll(1, 0)
        size = (images.shape[-2], images.shape[-1])
        replaced = torch.where(boxes.inside(self.boxes, size), others, images)
        if not self.blends:
            return replaced
        share = self.share[:, None, None, None]
        return torch.where(self.cut[:, None, None, None], replaced, share * images + (1.0 - share) * others)


def draw(images: int, size: Size, *, mixup: float, cutmix: float, chance: np.random.Generator) -> Mixes:
    """How so many images are mixed: each by MixUp or by CutMix, with even chances where both are asked for.

    Args:
        images: n.
        size: height and width, pixels.
        mixup: α of the Beta distribution of its shares; 0 for none.
        cutmix: α of the shares of CutMix; one of them is positive.
        chance: what is drawn from.

    Sources: Zhang et al. 2017, mixup, arXiv 1710.09412; Yun et al. 2019, CutMix, arXiv 1905.04899; both as
    torchvision.transforms.v2 has them, but with a share for each image as in timm's "elem" mode.
    """
    cut = chance.random(images) < (0.5 if mixup and cutmix else float(bool(cutmix)))
    blended = chance.beta(mixup, mixup, images) if mixup else np.ones(images)
    replaced = chance.beta(cutmix, cutmix, images) if cutmix else np.ones(images)
    places = np.where(cut[:, None], boxes.cutmix(replaced, size, chance), 0)
    share = torch.from_numpy(np.where(cut, boxes.outside(places, size), blended)).float()
    return Mixes(share, torch.from_numpy(cut), torch.from_numpy(places), blends=mixup > 0)
