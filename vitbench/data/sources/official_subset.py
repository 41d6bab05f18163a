"""The first images of each official batch of CIFAR-10: cut from the archive, or from the same images as PNG files.

The 6,000 images that are the first thousand of each batch travel as PNG files of 13 MB, where the archive has 170.
Either way they are one data set, held to one checksum.
"""

import contextlib
import tarfile
import tempfile
from pathlib import Path

import torch

from vitbench.config.recipe import DataSpec
from vitbench.data import catalog
from vitbench.data.catalog import DataError
from vitbench.data.images import DataSet, Images
from vitbench.data.sources import folder, torchvision_sets

FILES = "cifar10-lossless-6k"
"""Folder of the PNG files, ``train/<class>/<index in the official order>.png`` and ``test/…``; or its ``.tar.xz``."""

OF_FILES = 1000  # Images of each batch that are in it
CLASS_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

CHECKSUM = "d260339686756ebee53ff688e033d165c7e3e2fc823b4549605bca5b53a0d885"
"""Of those images, in the official order, as :meth:`vitbench.data.images.DataSet.checksum` takes it."""


def read(spec: DataSpec) -> DataSet:
    """The first ``spec.subset`` images of each batch, in the official order.

    Raises:
        MissingData: where neither form is there, and the archive is not to be, or cannot be, downloaded.
        DataError: where checksums are not as they should be.
    """
    assert spec.subset is not None
    dataset = _first_thousands() if spec.subset <= OF_FILES else None
    if dataset is None:
        return _cut(torchvision_sets.read(spec), spec.subset, 10_000)
    return _cut(dataset, spec.subset, OF_FILES)


def _first_thousands() -> DataSet | None:
    """The images of the PNG files, decoded once; None where the files are not there."""
    cache = catalog.cache() / f"{FILES}.safetensors"
    if (decoded := folder.cached(cache)) is not None:
        dataset = DataSet(decoded["train"], decoded["test"], CLASS_NAMES)
        if dataset.checksum() == CHECKSUM:
            return dataset
    if (files := _files()) is None:
        return None
    dataset = _read_files(files)
    if (actual := dataset.checksum()) != CHECKSUM:
        raise DataError(f"{files}: checksum {actual[:16]}, and the official images' is {CHECKSUM[:16]}; unpack it anew")
    folder.keep(cache, {"train": dataset.train, "test": dataset.test})
    return dataset


def _files() -> Path | None:
    """The folder of PNG files, unpacked first where only the archive is there; None where neither is.

    VITBENCH_DATA may also name the folder itself.
    """
    root = catalog.root()
    there, archive = root if root.name == FILES else root / FILES, root / f"{FILES}.tar.xz"
    if there.is_dir():
        return there
    unpacked = catalog.cache() / FILES
    if not unpacked.is_dir() and archive.is_file():
        with (
            tarfile.open(archive) as tar,
            catalog.filled_cache() as cache,
            tempfile.TemporaryDirectory(dir=cache) as aside,
        ):
            tar.extractall(aside, filter="data")
            with contextlib.suppress(OSError):  # another process was first
                (Path(aside) / FILES).rename(unpacked)
    return unpacked if unpacked.is_dir() else None


def _read_files(path: Path) -> DataSet:
    """The images of the folder in the official order, which their names give."""

    def part(base: Path) -> Images:
        files = list(catalog.folder_images(base))
        if not files or not all(file.stem.isdigit() for file in files):
            raise DataError(f"{base}: files are named by their index in the official order, such as 00000.png")
        files.sort(key=lambda file: int(file.stem))
        classes = [folder.class_of(file, base) for file in files]
        if strange := sorted(set(classes) - set(CLASS_NAMES)):
            raise DataError(f"{base}: classes that CIFAR-10 does not have: {', '.join(strange)}")
        return Images(folder.decode(files, None), torch.tensor([CLASS_NAMES.index(name) for name in classes]))

    return DataSet(part(path / "train"), part(path / "test"), CLASS_NAMES)


def _cut(dataset: DataSet, count: int, of_batch: int) -> DataSet:
    """The first ``count`` images of each batch of ``of_batch``."""

    def cut(images: Images) -> Images:
        return images[torch.cat([start + torch.arange(count) for start in range(0, len(images), of_batch)])]

    return DataSet(cut(dataset.train), cut(dataset.test), dataset.class_names)
