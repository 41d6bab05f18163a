"""Loading: fetch the images of a DataSpec, read and check them, and split them for a trial."""

from collections.abc import Callable, Iterable, Mapping

import torch

from vitbench.config.base import pair
from vitbench.config.model import ModelSpec
from vitbench.config.recipe import DataSpec
from vitbench.data import catalog
from vitbench.data.catalog import DataError, Prepared
from vitbench.data.images import (
    FIXED_STATISTICS,
    DataSet,
    Images,
    Splits,
    channel_statistics,
    cut_validation,
    take,
)
from vitbench.data.sources import folder, official_subset, synthetic, torchvision_sets

SOURCES: Mapping[str, Callable[[DataSpec], DataSet]] = {
    "image_folder": folder.read,
    "synthetic": synthetic.read,
    **dict.fromkeys(catalog.PUBLISHED, torchvision_sets.read),
}


def prepare(spec: DataSpec, others: Iterable[DataSpec] = ()) -> Prepared:
    """Fetch what is missing, if the suite asks for that; check it; decode it once for all trials.

    Args:
        spec: the suite's images.
        others: the same images with other sizes, counts or splits, as single cells may ask for them.

    Raises:
        DataError: where the data cannot be had and the suite names no fallback; says what to do.
    """
    fallback = None
    try:
        dataset = read(spec)
    except catalog.MissingData as error:
        if spec.fallback is None:
            raise
        fallback = f"synthetic images stand in for {spec.name}, which could not be had: {error}"
        spec = spec.model_copy(update={"name": spec.fallback, "download": False, "subset": None})
        dataset = read(spec)
    facts = {spec: _facts(dataset)}
    for asked in dict.fromkeys(catalog.drawn_from(other, spec) for other in others):
        if asked not in facts:
            facts[asked] = _facts(read(asked))
    return Prepared(spec, catalog.identity(spec), dataset.class_names, facts, fallback)


def _facts(dataset: DataSet) -> catalog.DatasetFacts:
    height, width = dataset.train.pixels.shape[-2:]
    return catalog.DatasetFacts((height, width), len(dataset.class_names), len(dataset.train), len(dataset.test))


def read(spec: DataSpec) -> DataSet:
    """The whole source at its native size, on the CPU. Raises DataError."""
    source = official_subset.read if spec.subset else SOURCES[spec.name]
    return checked(source(spec), catalog.display_name(spec))


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


def splits(spec: DataSpec, model: ModelSpec, seed: int) -> Splits:
    """The train, validation and test images of one trial, resized where the suite asks for it.

    Raises:
        DataError: where sizes, classes or counts do not fit the model.
    """
    dataset = read(spec)
    if problems := catalog.mismatches(model, spec, _facts(dataset)):
        raise DataError("; ".join(problems))
    train = take(dataset.train, spec.train_images, "train_images")
    test = take(dataset.test, spec.test_images, "test_images")
    train, validation = cut_validation(train, spec.validation_images, seed)
    size = pair(spec.resize) if spec.resize is not None else None
    train, validation, test = (part.resized(size) for part in (train, validation, test))
    if spec.normalize == "dataset":
        mean, std = channel_statistics(train.pixels)
    else:
        mean, std = (torch.tensor(channels).view(3, 1, 1) for channels in FIXED_STATISTICS[spec.normalize])
    return Splits(train, validation, test, dataset.class_names, mean, std, dataset.checksum())
