"""Catalog: sizes, classes and identity of a data set before it is read. No torch; used by `vitbench plan`."""

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from vitbench.config.base import pair
from vitbench.config.model import ModelSpec
from vitbench.config.recipe import DataSpec, TrainSpec
from vitbench.errors import UserError
from vitbench.wording import encoded, printable

FORMATS: Mapping[str, tuple[str, ...]] = {
    "PNG": (".png",), "JPEG": (".jpg", ".jpeg"), "BMP": (".bmp",), "WEBP": (".webp",), "PPM": (".ppm",),
    "TIFF": (".tif", ".tiff"),
}  # fmt: skip
"""Pillow's name of each format that is read → suffixes of its files. Content of any other is refused."""

IMAGE_SUFFIXES = frozenset(suffix for suffixes in FORMATS.values() for suffix in suffixes)
SYNTHETIC_VERSION = 2  # Raised whenever the pixels that a seed gives change: the version is the data's identity


class DataError(UserError, ValueError):
    """Images that are missing, damaged or not what the suite says. The message says what to do."""


class MissingData(DataError):
    """Images that are not there and were not, or could not be, fetched: a suite's fallback may stand in."""


@dataclass(frozen=True)
class DatasetFacts:
    """Facts that a model and a recipe must fit: known beforehand of a published set, of a folder once it is read."""

    size: int | tuple[int, int]  # height and width, pixels
    classes: int  # number of classes
    train: int  # training images, before a validation split is cut
    test: int  # test images
    # of a published set's archive, or of its training images' file: the publisher's own checksum, as torchvision states
    # it
    md5: str = ""


@dataclass(frozen=True)
class Prepared:
    """Data that are on disk and readable."""

    spec: DataSpec  # the suite's, or the synthetic one in its place
    identity: str  # see :func:`identity`
    class_names: tuple[str, ...]  # in the order of the labels
    facts: Mapping[DataSpec, DatasetFacts]  # spec of the images of each cell that is trained → what was found in them
    fallback: str | None = None  # why the data are not those that were asked for; None if they are


PUBLISHED: Mapping[str, DatasetFacts] = {
    "cifar10": DatasetFacts(32, 10, 50_000, 10_000, "c58f30108f718f92721af3b95e74349a"),
    "cifar100": DatasetFacts(32, 100, 50_000, 10_000, "eb9058c3a382ffc7106e4002c42a8d85"),
    "mnist": DatasetFacts(28, 10, 60_000, 10_000, "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
    "fashion_mnist": DatasetFacts(28, 10, 60_000, 10_000, "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
}
OFFICIAL_BATCHES = {"train": 5, "test": 1}
"""Of CIFAR-10, of 10,000 images each: ``data.subset`` takes the first images of each."""

SYNTHETIC = DatasetFacts(32, 10, 50_000, 10_000)
SYNTHETIC_GRID = 4  # Rows and columns of the blocks into which a synthetic image is divided; an object fills one
SYNTHETIC_SIDE = 16  # Least height and width of a synthetic image, pixels: a period of a grating in each block


LEAST_IMAGES = 2  # Of training: with one image there are no two classes to distinguish


def root() -> Path:
    """Folder of downloaded and decoded images: $VITBENCH_DATA, or ./data."""
    return Path(os.environ.get("VITBENCH_DATA") or "data")


def cache() -> Path:
    """Folder of what is decoded and unpacked: in :func:`root`, or where that is read-only, in the user's own.

    Raises:
        DataError: where a file stands in its place.
    """
    beside = root() / "cache"
    there = next(path for path in (beside, *beside.parents) if path.exists())
    if not there.is_dir():
        raise DataError(f"{there} is a file, not a folder for images (VITBENCH_DATA)")
    if os.access(there, os.W_OK) and there.stat().st_mode & 0o222:  # root may write to what is marked as read-only
        return beside
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vitbench"


@contextlib.contextmanager
def filled_cache() -> Iterator[Path]:
    """The folder :func:`cache`, to write into. Raises DataError where that fails, as on a full disk."""
    folder = cache()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
    except OSError as error:
        why = f"cannot be written: {error.strerror or error}"
        raise DataError(f"{folder}, for decoded images, {why}; VITBENCH_DATA may name another folder") from error


def drawn_from(spec: DataSpec, source: DataSpec) -> DataSpec:
    """The sizes, counts and splits of one spec on the images of another: its own, or the fallback in their place."""
    whereabouts = ("name", "path", "download", "fallback", "subset")
    return spec.model_copy(update={name: getattr(source, name) for name in whereabouts})


def facts(spec: DataSpec) -> DatasetFacts | None:
    """Sizes that are known before reading; None for an image folder."""
    classes = spec.colour_classes + spec.texture_classes + spec.position_classes + spec.relation_classes
    known = {**PUBLISHED, "synthetic": replace(SYNTHETIC, classes=classes)}.get(spec.name)
    if known is None or spec.subset is None:
        return known
    train, test = (spec.subset * OFFICIAL_BATCHES[part] for part in ("train", "test"))
    return replace(known, train=train, test=test)


def synthetic_problems(spec: DataSpec) -> list[str]:
    """Why synthetic images cannot be made as the spec asks: too few classes, or no room for the grid of blocks."""
    problems, known = [], facts(spec)
    assert known is not None
    height, width = pair(spec.resize if spec.resize is not None else known.size)
    if height % SYNTHETIC_GRID or width % SYNTHETIC_GRID or min(height, width) < SYNTHETIC_SIDE:
        problems.append(
            f"data.resize: {_by((height, width))}, but synthetic images are a grid of {SYNTHETIC_GRID}×"
            f"{SYNTHETIC_GRID} blocks: each side a multiple of {SYNTHETIC_GRID}, and {SYNTHETIC_SIDE} at least"
        )
    if known.classes < 2:
        counts = "data.colour_classes + texture_classes + position_classes + relation_classes"
        problems.append(f"{counts}: {known.classes}, and telling apart takes two")
    return problems


def identity(spec: DataSpec) -> str:
    """Identity of the images, wherever they lie: part of every trial's id.

    A published set: its publisher's checksum. Synthetic images: their version (what else shapes their pixels is in
    the spec of the data, which is part of the id, too). A folder: a hash of the names and
    sizes of its images (the pixels' own hash goes into each record).

    Raises:
        DataError: where a folder cannot be listed.
    """
    if spec.name == "image_folder":
        whole = hashlib.sha256()
        for path in folder_images(folder(spec)):
            whole.update(encoded(f"{path.relative_to(folder(spec)).as_posix()}\0{path.stat().st_size}\n"))
        return f"image_folder:{whole.hexdigest()[:16]}"
    if spec.name == "synthetic":
        return f"synthetic:{SYNTHETIC_VERSION}"
    return f"{spec.name}:{PUBLISHED[spec.name].md5[:16]}"


def display_name(spec: DataSpec) -> str:
    """Name of the images in a report: the set's, or that of its folder."""
    return printable(folder(spec).resolve().name) if spec.name == "image_folder" else spec.name


def folder(spec: DataSpec) -> Path:
    """The folder of an image_folder. Raises DataError where the spec gives none or there is none."""
    if spec.path is None:
        raise DataError(
            'data.path is required for "image_folder": the folder that holds train/<class>/… and test/<class>/…'
        )
    path = Path(spec.path).expanduser()
    if not path.is_dir():
        raise DataError(f"data.path: {path} is not a folder")
    return path


def folder_images(path: Path) -> Iterator[Path]:
    """The images below a folder, sorted, hidden ones left out; links to folders are followed.

    Raises:
        DataError: where there are none, a folder cannot be listed, or links lead to one folder twice.
    """
    empty, seen = True, dict[tuple[int, int], str]()

    def refuse(error: OSError) -> None:  # os.walk would leave the folder out, and the data would be other data
        raise DataError(f"{error.filename}: {error.strerror}")

    for directory, names, files in os.walk(path, onerror=refuse, followlinks=True):
        place = Path(directory)
        status = place.stat()
        if (first := seen.setdefault((status.st_dev, status.st_ino), directory)) != directory:
            raise DataError(f"{directory}: is the same folder as {first}: each image is read once")
        names[:] = sorted(n for n in names if not n.startswith("."))
        for image in (place / file for file in sorted(files) if not file.startswith(".")):
            if image.suffix.lower() in IMAGE_SUFFIXES:
                empty = False
                if not image.is_file():
                    raise DataError(f"{image}: is no file, or a link to one that is gone")
                yield image
    if empty:
        raise DataError(f"{path}: holds no images ({', '.join(sorted(IMAGE_SUFFIXES))})")


def mismatches(model: ModelSpec, data: DataSpec, known: DatasetFacts | None) -> list[str]:
    """Why a model cannot take these images, as far as they are known (:func:`facts`, or what reading them found)."""
    problems = synthetic_problems(data) if data.name == "synthetic" else []
    name = display_name(data)
    size = pair(data.resize) if data.resize is not None else (pair(known.size) if known else None)
    wanted = pair(model.image_size)
    if size is not None and size != wanted:
        problems.append(
            f"model.image_size: {_by(wanted)}, but the images of {name} are {_by(size)}; "
            f"set data.resize = {_toml(wanted)} or model.image_size = {_toml(size)}"
        )
    if model.channels != 3:
        problems.append(f"model.channels: {model.channels}, but images have 3 (grey ones are repeated)")
    train = data.train_images or (known.train if known else None)
    if train is not None and data.validation_images >= train:
        problems.append(f"data.validation_images: {data.validation_images} leaves nothing of {train} training images")
    if known is None:
        return problems
    if known.classes != model.num_classes:
        problems.append(f"model.num_classes: {model.num_classes}, but {name} has {known.classes} classes")
    for key, asked, there in (
        ("train_images", data.train_images, known.train),
        ("test_images", data.test_images, known.test),
    ):
        if asked is not None and asked > there:
            problems.append(f"data.{key}: {asked}, but {name} has {there}")
    return problems


def unfit(recipe: TrainSpec, data: DataSpec, known: DatasetFacts | None) -> list[str]:
    """Why a recipe cannot train on these images, as far as they are known: too few for it."""
    images = data.train_images or (known.train if known else None)
    if images is None or (left := images - data.validation_images) <= 0:
        return []  # nothing is known, or nothing is left, which :func:`mismatches` says
    sum_of = f"{images} less {data.validation_images} for validation" if data.validation_images else ""
    if left < LEAST_IMAGES:
        given = f"{sum_of} is {left}" if sum_of else str(left)
        return [f"data.train_images: {given}, and training takes {LEAST_IMAGES} at least"]
    if recipe.batch_size > left:
        after = f" ({sum_of})" if sum_of else ""
        return [f"train.batch_size: {recipe.batch_size}, but there are only {left} training images{after}"]
    return []


def _by(size: tuple[int, int]) -> str:
    return f"{size[0]}×{size[1]}"


def _toml(size: tuple[int, int]) -> str:
    return str(size[0]) if size[0] == size[1] else f"[{size[0]}, {size[1]}]"
