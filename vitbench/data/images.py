"""Images and their splits: uint8 on the device, labels beside them."""

import functools
import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from vitbench.data.catalog import DataError
from vitbench.streams import derive

FIXED_STATISTICS = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "half": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "none": ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
}
"""Name in a suite → mean and deviation of each channel, whatever the training images have."""


@dataclass(frozen=True)
class Images:
    """Some images and what they show."""

    pixels: Tensor  # (n, 3, height, width) uint8
    labels: Tensor  # (n,) int64

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: Tensor) -> "Images":
        return Images(self.pixels[index], self.labels[index])

    def most_common_pct(self) -> float:
        """Share of the images that are of the most frequent class, in percent: what a guess attains."""
        return 100 * int(self.labels.bincount().max()) / len(self) if len(self) else 0.0

    def to(self, device: torch.device) -> "Images":
        """Copy on a device."""
        return Images(self.pixels.to(device), self.labels.to(device))

    def resized(self, size: tuple[int, int] | None) -> "Images":
        """At another height and width: bilinear with antialiasing, rounded, as torchvision's Resize does."""
        if size is None or tuple(self.pixels.shape[-2:]) == size or len(self) == 0:
            return self
        chunks = (
            F.interpolate(chunk.cpu(), size=size, mode="bilinear", antialias=True, align_corners=False)
            for chunk in self.pixels.split(1024)  # torch has no such kernel for whole numbers on a GPU
        )
        return Images(torch.cat(list(chunks)).to(self.pixels.device), self.labels)


@dataclass(frozen=True)
class DataSet:
    """A source as it was read: before subsets, validation and resizing."""

    train: Images
    test: Images
    class_names: tuple[str, ...]

    def checksum(self) -> str:
        """SHA-256 of all pixels and labels."""
        whole = hashlib.sha256()
        for part in (self.train, self.test):
            whole.update(str(tuple(part.pixels.shape)).encode())
            whole.update(part.pixels.contiguous().numpy().data)
            whole.update(part.labels.contiguous().numpy().data)
        return whole.hexdigest()


@dataclass(frozen=True)
class Splits:
    """Images that one trial trains on, watches, and is judged by."""

    train: Images
    validation: Images
    test: Images
    class_names: tuple[str, ...]
    mean: Tensor
    std: Tensor
    checksum: str

    def to(self, device: torch.device) -> "Splits":
        """Copy on a device."""
        return Splits(
            self.train.to(device), self.validation.to(device), self.test.to(device), self.class_names,
            self.mean.to(device), self.std.to(device), self.checksum,
        )  # fmt: skip

    def normalise(self, pixels: Tensor) -> Tensor:
        """uint8 (B, 3, height, width) → float32 of mean 0 and deviation 1 for each channel."""
        return normalised(pixels, self.mean, self.std)


def normalised(pixels: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """uint8 (B, 3, height, width) → float32, by mean and deviation of each channel, (3, 1, 1), of pixels in [0, 1]."""
    shift, scale = _affine(mean, std, pixels.shape[1:])
    images = pixels.to(torch.float32, copy=True)
    return torch.addcmul(shift, images, scale, out=images)


@functools.lru_cache(maxsize=128)
def _affine(mean: Tensor, std: Tensor, shape: torch.Size) -> tuple[Tensor, Tensor]:
    """Shift and scale of the normalisation, (3, height, width): a CPU takes three times as long to broadcast them."""
    return (-mean / std).expand(shape).contiguous(), (1.0 / (255.0 * std)).expand(shape).contiguous()


def take(images: Images, count: int | None, what: str) -> Images:
    """A subset that is the same in every trial: the head of one fixed permutation."""
    if count is None or count == len(images):
        return images
    generator = torch.Generator().manual_seed(derive(0, "subset", what))
    return images[torch.randperm(len(images), generator=generator)[:count]]


def cut_validation(train: Images, count: int, seed: int) -> tuple[Images, Images]:
    """(train, validation): drawn by the trial's seed, so that seeds do not share the luck of one split."""
    generator = torch.Generator().manual_seed(derive(seed, "split"))
    order = torch.randperm(len(train), generator=generator)
    return train[order[count:]], train[order[:count]]


def channel_statistics(pixels: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each channel, (3, 1, 1) each, of uint8 pixels scaled to [0, 1]."""
    counts = torch.stack([torch.bincount(pixels[:, c].flatten(), minlength=256) for c in range(pixels.shape[1])])
    levels = torch.arange(256, dtype=torch.float64) / 255.0
    weights = counts.double() / counts.sum(dim=1, keepdim=True)
    mean = weights @ levels
    std = (weights @ levels.square() - mean.square()).clamp_min(0).sqrt()
    if bool((std == 0).any()):
        raise DataError("a channel of the training images is constant: they cannot be normalised")
    return mean.float().view(-1, 1, 1), std.float().view(-1, 1, 1)
