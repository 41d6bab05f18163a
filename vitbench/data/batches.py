"""Batches of one trial: order and augmentation by the trial's own streams, all of it on the device."""

import hashlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from vitbench.config.recipe import TrainSpec
from vitbench.data.augmentation import boxes, mixing
from vitbench.data.augmentation.mixing import Mixes
from vitbench.data.augmentation.policies import POLICIES, DrawnOperations
from vitbench.data.images import Splits
from vitbench.streams import derive

CHUNK_BYTES = {"cuda": 2**25}
"""Type of device → bytes of images that are changed at once there, in whole batches; elsewhere one batch is. On a GPU
an operation on a batch takes less time than its launch; on a CPU a batch stays in its cache."""

DIGESTED = 2  # Batches of the first epoch that go into the digest by which cells are compared


@dataclass(frozen=True)
class Batch:
    """Some training images, and what is done to them once they are normalised."""

    pixels: Tensor  # (B, 3, height, width) uint8, augmented
    labels: Tensor  # (B,) int64
    normalise: Callable[[Tensor], Tensor]  # pixels → float32, see :meth:`vitbench.data.images.Splits.normalise`
    wiped: tuple[Tensor, ...] = ()  # boxes (B, 4) in which images become 0, the mean of the training images
    mixes: Mixes | None = None  # how images are mixed with one another, and labels with them; None: not at all
    # (B, P) int64, each image's patches by their numbers, in an order of its own; None: none was asked for
    patches: Tensor | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: slice) -> "Batch":
        return self.map(lambda each: each[rows])

    def map(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        """The batch with each of its tensors changed."""
        return replace(
            self, pixels=change(self.pixels), labels=change(self.labels), wiped=tuple(map(change, self.wiped)),
            mixes=None if self.mixes is None else self.mixes.map(change),
            patches=None if self.patches is None else change(self.patches),
        )  # fmt: skip

    def tensors(self) -> list[Tensor]:
        """All that it holds."""
        mixes = () if self.mixes is None else (self.mixes.share, self.mixes.cut, self.mixes.boxes)
        patches = () if self.patches is None else (self.patches,)
        return [self.pixels, self.labels, *self.wiped, *mixes, *patches]

    def images(self) -> Tensor:
        """Images as the model sees them, (B, 3, height, width) float32: normalised, then wiped, then mixed."""
        images = self.normalise(self.pixels)
        for box in self.wiped:
            images = images.masked_fill(boxes.inside(box, (images.shape[-2], images.shape[-1])), 0.0)
        return images if self.mixes is None else self.mixes.images(images)

    def loss(self, logits: Tensor, label_smoothing: float) -> Tensor:
        """Mean cross-entropy of logits (B, classes); of mixed images against both labels, in their shares."""
        if self.mixes is None:
            return F.cross_entropy(logits, self.labels, label_smoothing=label_smoothing)
        losses, other_losses = (
            F.cross_entropy(logits, labels, label_smoothing=label_smoothing, reduction="none")
            for labels in (self.labels, self.labels.roll(1, 0))
        )
        return (self.mixes.share * losses + (1.0 - self.mixes.share) * other_losses).mean()


@dataclass(frozen=True)
class _Draws:
    """The chance of one epoch, a row for each of its images: drawn on the host at once, and then on the device."""

    shift: Tensor
    mirror: Tensor
    policy: DrawnOperations | None
    wiped: tuple[Tensor, ...]
    mixes: Mixes | None
    patches: Tensor | None


class Batches:
    """Training batches: every image once an epoch, in a fresh order, each augmented in its own way.

    Random numbers are drawn on the CPU for a whole epoch at once, so that they are the same on every device, and no
    step waits for them.

    Attributes:
        chunk: so many batches are made at once.

    Args:
        data: on the device where batches are wanted.
        recipe: its batch size (the last batch of an epoch may be smaller) and its augmentation.
        seed: of the trial.
        patches: of an image, where each batch is to have an order of them.
    """

    def __init__(self, data: Splits, recipe: TrainSpec, seed: int, patches: int | None = None) -> None:
        self.patches = patches
        self.data, self.images, self.recipe, self.seed = data, data.train, recipe, seed
        self.policy = POLICIES[recipe.augment](recipe)
        pixels = self.images.pixels
        batch_bytes = recipe.batch_size * pixels[:1].numel()
        self.chunk = max(CHUNK_BYTES.get(pixels.device.type, 0) // batch_bytes, 1)

    def __len__(self) -> int:
        return len(range(0, len(self.images), self.recipe.batch_size))

    def epoch(self, number: int, first: int = 0) -> Iterator[Batch]:
        """The batches of one epoch, from its batch ``first`` on."""
        device, recipe = self.images.pixels.device, self.recipe
        order = self._order(number).to(device, non_blocking=True)
        draws = self._draw(number)
        size = recipe.batch_size
        for start in range(first * size, len(order), self.chunk * size):
            part = slice(start, start + self.chunk * size)
            chosen = order[part]
            pixels = self.images.pixels.index_select(0, chosen)  # on a CPU an eighth of the time of pixels[chosen]
            if recipe.crop_padding or recipe.flip:
                pixels = crop_and_flip(pixels, draws.shift[part], draws.mirror[part], recipe.crop_padding)
            if draws.policy is not None:
                pixels = draws.policy.apply(pixels, part)
            mixes = None if draws.mixes is None else draws.mixes[part]
            wiped = tuple(each[part] for each in draws.wiped)
            patches = None if draws.patches is None else draws.patches[part].long()
            whole = Batch(pixels, self.images.labels[chosen], self.data.normalise, wiped, mixes, patches)
            if self.chunk == 1:
                yield whole
                continue
            for begin in range(0, len(whole), size):
                yield whole[begin : begin + size]

    def _order(self, number: int) -> Tensor:
        """Which images, (n,): each once; with repeats a part of them, each several times in a batch.

        Views of one image lie apart in their batch, since mixing pairs neighbours.
        Source of the repeats: Hoffer et al. 2020, arXiv 1901.09335, and Berman et al. 2019, arXiv 1902.05509. As with
        DeiT, an epoch is as long as it would be without; there the views are in the batches of several processes.
        """
        n, repeats = len(self.images), self.recipe.repeats
        order = torch.randperm(n, generator=self._stream("order", number))
        if repeats == 1:
            return order
        views = order.repeat_interleave(repeats)[:n].split(self.recipe.batch_size)
        return torch.cat([part[first::repeats] for part in views for first in range(repeats)])

    def _draw(self, number: int) -> _Draws:
        """All chance of one epoch but its order. Shifts and mirrors are drawn whether used or not."""
        recipe, n, device = self.recipe, len(self.images), self.images.pixels.device
        size = self.images.pixels.shape[-2], self.images.pixels.shape[-1]
        stream = self._stream("augmentation", number)
        shift = torch.randint(0, 2 * recipe.crop_padding + 1, (n, 2), generator=stream)
        mirror = (torch.rand(n, generator=stream) < 0.5) & recipe.flip
        policy, wiped, mixes = None, [], None
        if self.policy is not None:
            policy = self.policy.draw(n, size, self._stream("augmentation", number, "policy"), device)
        if recipe.cutout:
            wiped.append(boxes.cutout(n, size, recipe.cutout, self._numbers(number, "cutout")))
        if recipe.erasing:
            wiped.append(boxes.erasing(n, size, recipe.erasing, self._numbers(number, "erasing")))
        if recipe.mixup or recipe.cutmix:
            chance = self._numbers(number, "mixing")
            drawn = mixing.draw(n, size, mixup=recipe.mixup, cutmix=recipe.cutmix, chance=chance)
            mixes = drawn.map(lambda each: each.to(device, non_blocking=True))
        patches = None
        if self.patches is not None:
            places = torch.rand(n, self.patches, generator=self._stream("augmentation", number, "patches"))
            patches = places.argsort(dim=1).to(torch.int32).to(device)
        shift, mirror = (t.to(device, non_blocking=True) for t in (shift, mirror))
        boxes_of = tuple(torch.from_numpy(each).to(device) for each in wiped)
        return _Draws(shift, mirror, policy, boxes_of, mixes, patches)

    def _stream(self, name: Literal["order", "augmentation"], *parts: str | int) -> torch.Generator:
        return torch.Generator().manual_seed(derive(self.seed, name, *parts))

    def _numbers(self, number: int, use: str) -> np.random.Generator:
        return np.random.default_rng(derive(self.seed, "augmentation", number, use))

    def digest(self) -> str:
        """Hash of the first batches of the first epoch: equal in all cells that share a seed and data settings."""
        whole = hashlib.sha256()
        for batch in itertools.islice(self.epoch(0), DIGESTED):
            mixed = () if batch.mixes is None else (batch.mixes.share, batch.mixes.boxes)
            hidden = () if batch.patches is None else (batch.patches,)
            for tensor in (batch.pixels, batch.labels, *batch.wiped, *mixed, *hidden):
                whole.update(tensor.cpu().numpy().tobytes())
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
