"""Inputs: the images that a model is explained with, from the data of its trial or from a folder."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import ValidationError
from torch import Tensor

from vitbench.config.base import STORED, Seed, Strict, pair
from vitbench.config.model import ModelSpec
from vitbench.config.recipe import DataSpec
from vitbench.config.trial import TrainTrial
from vitbench.data import catalog
from vitbench.data.catalog import DataError, folder_images
from vitbench.data.load import splits
from vitbench.data.sources.folder import class_of, decode
from vitbench.store import StudyFolder
from vitbench.wording import printable

Split = Literal["test", "validation"]


@dataclass(frozen=True)
class Inputs:
    """Some images."""

    pixels: Tensor  # (n, 3, height, width) uint8, of the model's size
    labels: tuple[int | None, ...]  # of each image the index of its class; None where it is not known
    names: tuple[str, ...]  # of each image
    words: str  # which they are


class _Trained(Strict):
    """Data of the trial that a file of weights comes from, as the file describes them."""

    data: DataSpec
    identity: str
    seed: Seed


def study_of(weights: Path) -> StudyFolder | None:
    """The study that a file of weights lies in; None where it lies elsewhere.

    Raises:
        StudyError: of a study that cannot be read.
    """
    folder = weights.resolve().parent.parent
    inside = weights.resolve().parent.name == "weights" and (folder / "study.json").is_file()
    return StudyFolder.read(folder) if inside else None


def of_trial(about: Mapping[str, Any], spec: ModelSpec, study: StudyFolder | None, split: Split) -> Inputs:
    """Test or validation images of the trial that trained a model.

    Args:
        about: what the file of weights says of itself, see :func:`vitbench.training.kept.keep`.
        spec: of the model.
        study: that knows where images in folders lie.
        split: which of them.

    Raises:
        DataError: where they cannot be had, or are not those of the trial; says what to do.
    """
    trained = _trained(about, study)
    if (now := catalog.identity(trained.data)) != trained.identity:
        raise DataError(f"the images of the trial are {trained.identity}, and those that are there now {now}; "
                        "bring them back, or give others with --images")  # fmt: skip
    data = splits(trained.data, spec, trained.seed)
    chosen = data.test if split == "test" else data.validation
    if not len(chosen):
        raise DataError(f"the trial has no {split} images; give another --split")
    names = tuple(f"{split} image {number}" for number in range(1, len(chosen) + 1))
    words = f"{len(chosen):,} {split} images of {catalog.display_name(trained.data)}"
    return Inputs(chosen.pixels, tuple(chosen.labels.tolist()), names, words)


def of_folder(folder: Path, spec: ModelSpec, classes: tuple[str, ...]) -> Inputs:
    """All images below a folder, each brought to the model's size; the folder's own folders are named like the classes.

    Args:
        folder: of images, or a single one.
        spec: of the model.
        classes: their names.

    Raises:
        DataError: where there are none, or one cannot be read.
    """
    height, width = pair(spec.image_size)
    size = f"at the model's {height} × {width} pixels"
    if folder.is_file():
        return Inputs(decode([folder], (height, width)), (None,), (folder.name,), f"the image {folder.name}, {size}")
    files = list(folder_images(folder))
    pixels = decode(files, (height, width))
    number = {name: index for index, name in enumerate(classes)}
    labels = tuple(number.get(printable(class_of(file, folder))) if file.parent != folder else None for file in files)
    names = tuple(file.relative_to(folder).as_posix() for file in files)
    words = f"{len(files):,} image{'s' if len(files) > 1 else ''} in {folder.resolve().name}, {size}"
    return Inputs(pixels, labels, names, words)


def statistics(about: Mapping[str, Any], file: Path) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each channel by which a model's images are normalised, (3, 1, 1) each.

    Raises:
        DataError: of a file that does not say.
    """
    values = [about.get(name) for name in ("mean", "std")]
    if not all(isinstance(each, list) and len(each) == 3 and all(map(_finite, each)) for each in values):
        raise DataError(f"{file}: does not say how the images of its model are normalised; "
                        "`vitbench run --keep-weights` writes files that do")  # fmt: skip
    mean, std = (torch.tensor(each).view(3, 1, 1) for each in values)
    return mean, std


def _finite(number: object) -> bool:
    return isinstance(number, float) and math.isfinite(number)


def class_names(about: Mapping[str, Any], spec: ModelSpec, file: Path) -> tuple[str, ...]:
    """The names of a model's classes, in the order of its logits; their numbers, where the file has no names.

    Raises:
        DataError: of a file whose names are not those of this model's classes.
    """
    names = about.get("classes", [str(number) for number in range(spec.num_classes)])
    named = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not named or len(names) != spec.num_classes:
        there = f"{len(names):,} names" if named else "no list of names"
        raise DataError(f"{file}: what it says of itself is damaged: classes: {there}, and its model has "
                        f"{spec.num_classes:,} classes")  # fmt: skip
    return tuple(names)


def _trained(about: Mapping[str, Any], study: StudyFolder | None) -> _Trained:
    """The trial's data: as the study has it, which knows its folder, else as the file says."""
    if study is not None:
        for planned in study.info.trials:
            if planned.id == about.get("trial") and isinstance(planned.trial, TrainTrial):
                trial = planned.trial
                return _Trained(data=trial.data, identity=trial.data_identity, seed=trial.seed)
    try:
        spec = dict(about["spec"])
        data = {key: value for key, value in spec["data"].items() if key != "identity"}
        body = {"data": data, "identity": spec["data"]["identity"], "seed": spec["seed"]}
        trained = _Trained.model_validate_json(json.dumps(body), context=STORED)
    except (KeyError, TypeError, AttributeError, ValueError, ValidationError) as error:
        raise DataError("the weights do not say on which images they were trained; give some with --images") from error
    if catalog.facts(trained.data) is None and trained.data.path is None:
        raise DataError("the weights do not say where the images of their trial lie, and are in no "
                        "study's folder, which does; give images with --images")  # fmt: skip
    return trained
