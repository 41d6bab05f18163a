"""CIFAR-10, CIFAR-100, MNIST and FashionMNIST: downloaded by torchvision, checksums verified."""

import gzip
import hashlib
import ssl
import urllib.error
from pathlib import Path
from typing import Any

import torch

from vitbench.config.recipe import DataSpec
from vitbench.data import catalog
from vitbench.data.catalog import DataError, MissingData
from vitbench.data.images import DataSet, Images

CLASSES = {"cifar10": "CIFAR10", "cifar100": "CIFAR100", "mnist": "MNIST", "fashion_mnist": "FashionMNIST"}


def read(spec: DataSpec) -> DataSet:
    """The whole set from :func:`vitbench.data.catalog.root`, downloaded first where it is missing and that is asked.

    Raises:
        MissingData: where it is not there and is not to be, or cannot be, downloaded.
        DataError: where a file's checksum is not the publisher's.
    """
    from torchvision import datasets  # here and only here: it does not import beside a CPU-only torch

    cls = getattr(datasets, CLASSES[spec.name])
    files = _files(cls, catalog.root())
    if not all(path.is_file() for path in files):
        _fetch(spec, cls)
    for path, expected in files.items():
        actual = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
        if actual != expected:
            raise DataError(
                f"{path}: MD5 {actual}, and the publisher's is {expected}; remove the file to fetch it again"
            )
    return (_cifar if hasattr(cls, "train_list") else _mnist)(cls, catalog.root())


def _files(cls: Any, root: Path) -> dict[Path, str]:
    """The files that are read, and the MD5 of each as torchvision states it."""
    if hasattr(cls, "train_list"):
        folder = root / cls.base_folder
        listed = [*cls.train_list, *cls.test_list, (cls.meta["filename"], cls.meta["md5"])]
        return {folder / name: md5 for name, md5 in listed}
    return {root / cls.__name__ / "raw" / name: md5 for name, md5 in cls.resources}


def _fetch(spec: DataSpec, cls: Any) -> None:
    """Let torchvision download, verify and unpack; its own progress bar shows the way."""
    root = catalog.root()
    if not spec.download and not (root / getattr(cls, "filename", "nothing")).is_file():
        raise MissingData(f"{cls.__name__} is not in {root}: set data.download = true, or {_by_hand(cls)}")
    try:
        root.mkdir(parents=True, exist_ok=True)
        cls(root, download=True)
    except (urllib.error.URLError, ssl.SSLError, OSError, RuntimeError) as error:
        reason = getattr(error, "reason", None) or error
        why = f"{cls.__name__} is not in {root.resolve()}, and its download failed ({reason})"
        raise MissingData(f"{why}: {_by_hand(cls)}") from error


def _by_hand(cls: Any) -> str:
    """Advice for a user without a network."""
    what = cls.filename if hasattr(cls, "filename") else f"{cls.__name__}/raw/*.gz"
    return f"put {what} there, or set VITBENCH_DATA to the folder that has it"


def _cifar(cls: Any, root: Path) -> DataSet:
    sets = [cls(root, train=part, download=False) for part in (True, False)]
    train, test = (
        Images(torch.from_numpy(s.data).permute(0, 3, 1, 2).contiguous(), torch.tensor(s.targets)) for s in sets
    )
    return DataSet(train, test, tuple(sets[0].classes))


def _mnist(cls: Any, root: Path) -> DataSet:
    """From the compressed files, whose checksums were just held: the unpacked copies have none.

    An IDX file (http://yann.lecun.com/exdb/mnist) begins with 4 bytes, and 4 more for each dimension.
    """
    raw = root / cls.__name__ / "raw"

    def content(name: str, header: int) -> torch.Tensor:
        data = gzip.decompress((raw / f"{name}-ubyte.gz").read_bytes())
        return torch.frombuffer(bytearray(data), dtype=torch.uint8, offset=header)

    def part(prefix: str) -> Images:
        grey = content(f"{prefix}-images-idx3", 16).view(-1, 1, 28, 28)
        return Images(grey.expand(-1, 3, -1, -1).contiguous(), content(f"{prefix}-labels-idx1", 8).long())

    return DataSet(part("train"), part("t10k"), tuple(name.split(" - ")[-1] for name in cls.classes))
