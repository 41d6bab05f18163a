"""Evaluation: loss and accuracy on images that nothing is done to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch.nn import functional as F

from vitbench.data.images import Images, Splits
from vitbench.training.stepper import Stepper, Tally, tallies

EVALUATION_BATCH = 256


def evaluate(
    stepper: Stepper, images: Sequence[Images], data: Sequence[Splits], watch: Callable[[], None] | None = None
) -> list[Tally]:
    """Each member's loss and accuracy on its whole images, unaugmented; ``watch`` is called before each batch.

    A member whose loss is not finite is lost.

    Raises:
        Diverged: where none is left.
    """
    members, device = len(images), stepper.device
    losses = torch.zeros(members, device=device)
    correct = torch.zeros(members, dtype=torch.int64, device=device)
    for start in range(0, len(images[0]), EVALUATION_BATCH):
        if watch is not None:
            watch()
        part = slice(start, start + EVALUATION_BATCH)
        pixels = [one.normalise(each.pixels[part]) for one, each in zip(data, images, strict=True)]
        labels = torch.stack([each.labels[part] for each in images])
        found = stepper.judge(pixels)
        losses += torch.stack(
            [F.cross_entropy(of_it, right, reduction="sum") for of_it, right in zip(found, labels, strict=True)]
        )
        correct += (found.argmax(dim=-1) == labels).sum(dim=-1)
    stepper.look(losses, None, "in evaluation")
    return tallies(losses, correct, len(images[0]))
