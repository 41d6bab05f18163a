"""Batches of one trial: order and augmentation by the trial's own streams, all of it on the device."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from vitbench.data.images import Images
from vitbench.streams import derive

DIGESTED = 2
"""Batches of the first epoch that go into the digest by which cells are compared."""


class Batches:
    """Training batches: every image once an epoch, in a fresh order, each with its own crop and flip.

    Random numbers are drawn on the CPU for a whole epoch at once, so that they are the same on every device, and no
    step waits for them.

    Args:
        images: on the device where batches are wanted.
        batch_size: B; the last batch of an epoch may be smaller.
        seed: of the trial.
        crop_padding: zero pixels around the image before a random crop to its size; 0 for none.
        flip: mirror each image with probability one half.
    """

    def __init__(
        self, images: Images, batch_size: int, seed: int, *, crop_padding: int = 0, flip: bool = False
    ) -> None:
        self.images, self.batch_size, self.seed = images, batch_size, seed
        self.crop_padding, self.flip = crop_padding, flip

    def __len__(self) -> int:
        return len(range(0, len(self.images), self.batch_size))

    def epoch(self, number: int, first: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """(pixels (B, 3, height, width) uint8, labels (B,)) of one epoch, from its batch ``first`` on."""
        device, n = self.images.pixels.device, len(self.images)
        order_stream = torch.Generator().manual_seed(derive(self.seed, "order", number))
        order = torch.randperm(n, generator=order_stream).to(device, non_blocking=True)
        shift, mirror = (t.to(device, non_blocking=True) for t in self._draw(number, n))
        for start in range(first * self.batch_size, n, self.batch_size):
            part = slice(start, start + self.batch_size)
            pixels = self.images.pixels[order[part]]
            if self.crop_padding or self.flip:
                pixels = crop_and_flip(pixels, shift[part], mirror[part], self.crop_padding)
            yield pixels, self.images.labels[order[part]]

    def _draw(self, number: int, n: int) -> tuple[Tensor, Tensor]:
        """Shifts (n, 2) and mirrors (n,) of one epoch, drawn whether used or not."""
        stream = torch.Generator().manual_seed(derive(self.seed, "augmentation", number))
        shift = torch.randint(0, 2 * self.crop_padding + 1, (n, 2), generator=stream)
        mirror = torch.rand(n, generator=stream) < 0.5
        return shift, mirror & self.flip

    def digest(self) -> str:
        """Hash of the first batches of the first epoch: equal in all cells that share a seed and data settings."""
        whole = hashlib.sha256()
        for index, (pixels, labels) in enumerate(self.epoch(0)):
            if index == DIGESTED:
                break
            whole.update(pixels.cpu().numpy().tobytes() + labels.cpu().numpy().tobytes())
        return whole.hexdigest()[:16]


def crop_and_flip(pixels: Tensor, shift: Tensor, mirror: Tensor, padding: int) -> Tensor:
    """Each image's own crop and mirror, in one gather.

    Args:
        pixels: (B, C, height, width).
        shift: (B, 2) row and column of the crop in the padded image, each in [0, 2 · padding].
        mirror: (B,) bool, whether the crop is flipped left to right.
        padding: zero pixels on each side.

    Source: RandomCrop(padding) and RandomHorizontalFlip of torchvision, image by image.
    """
    batch, channels, height, width = pixels.shape
    padded = F.pad(pixels, (padding, padding, padding, padding))
    across = torch.arange(width, device=pixels.device)
    columns = shift[:, 1:] + torch.where(mirror[:, None], width - 1 - across, across)
    rows = shift[:, :1] + torch.arange(height, device=pixels.device)
    index = rows[:, :, None] * (width + 2 * padding) + columns[:, None, :]
    index = index.view(batch, 1, height * width).expand(-1, channels, -1)
    return padded.flatten(2).gather(2, index).view(batch, channels, height, width)
