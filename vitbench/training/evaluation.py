"""Evaluation: loss and accuracy on images without augmentation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from vitbench.data.images import Images, Splits
from vitbench.training.stepper import Tally, tallies

EVALUATION_BATCH = 256


@dataclass(frozen=True)
class Evaluated(Tally):
    """Loss and accuracy over some images, and which of them were classified correctly."""

    right: bytes  # a bit for each image, in their order, the first in the highest of its byte


@torch.no_grad()
def evaluate(
    judge: Callable[[Sequence[Tensor]], Tensor], images: Sequence[Images], data: Sequence[Splits],
    watch: Callable[[], None] | None = None,
) -> list[Evaluated]:  # fmt: skip
    """How well each member does on its whole images, unaugmented.

    Args:
        judge: normalised images of each member → logits (S, B, classes).
        images: of each member.
        data: says how they are normalised.
        watch: called before each batch.
    """
    losses = torch.zeros(len(images), device=images[0].pixels.device)
    right: list[Tensor] = []
    for start in range(0, len(images[0]), EVALUATION_BATCH):
        if watch is not None:
            watch()
        part = slice(start, start + EVALUATION_BATCH)
        pixels = [splits.normalise(each.pixels[part]) for splits, each in zip(data, images, strict=True)]
        labels = torch.stack([each.labels[part] for each in images])
        outputs = judge(pixels)
        losses += torch.stack(
            [F.cross_entropy(output, truth, reduction="sum") for output, truth in zip(outputs, labels, strict=True)]
        )
        right.append(outputs.argmax(dim=-1) == labels)
    hits = torch.cat(right, dim=1)
    bits = np.packbits(hits.cpu().numpy(), axis=1)
    results = zip(tallies(losses, hits.sum(dim=1), len(images[0])), bits, strict=True)
    return [Evaluated(tally.loss, tally.accuracy_pct, row.tobytes()) for tally, row in results]
