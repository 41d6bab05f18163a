"""Checks of images and labels before training: a wrong label is a crash or, worse, a wrong result."""

from __future__ import annotations

import torch

from vitbench.data.catalog import DataError
from vitbench.data.images import DataSet, Images


def checked(dataset: DataSet, name: str) -> DataSet:
    """Check a data set, and return it unchanged.

    Args:
        dataset: as its source gave it.
        name: of the source, for the message.

    Raises:
        DataError: for fewer than two classes, no image in a split, labels out of range, or pixels of another form.
    """
    classes = len(dataset.class_names)
    if classes < 2:
        raise DataError(f"{name}: {classes} class(es), and telling apart takes two")
    for part, images in (("train", dataset.train), ("test", dataset.test)):
        if problem := _problem(images, classes):
            raise DataError(f"{name}, {part} images: {problem}")
    return dataset


def _problem(images: Images, classes: int) -> str | None:
    pixels, labels = images.pixels, images.labels
    if pixels.dtype != torch.uint8 or pixels.ndim != 4 or pixels.shape[1] != 3:
        return f"pixels are {pixels.dtype} of shape {tuple(pixels.shape)}, not uint8 of (n, 3, height, width)"
    if labels.dtype != torch.int64 or labels.shape != pixels.shape[:1]:
        return f"{tuple(labels.shape)} labels of {labels.dtype} for {len(pixels)} images"
    if not len(labels):
        return "there are none"
    wrong = (labels < 0) | (labels >= classes)
    if count := int(wrong.sum()):
        first = int(wrong.nonzero()[0])
        return f"{count} label(s) out of range 0 to {classes - 1}; the first is {int(labels[first])}, of image {first}"
    return None
