"""CIFAR and MNIST as torchvision lays them out: made from real images, with checksums of their own."""

import gzip
import hashlib
import pickle
import struct
from pathlib import Path

import pytest
import torch
from torchvision import datasets

from tests.bad_input import Evil
from vitbench.config import DataSpec
from vitbench.data.catalog import PUBLISHED, DataError, MissingData
from vitbench.data.images import DataSet
from vitbench.data.load import prepare, read


def md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VITBENCH_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def images(lossless: Path) -> DataSet:
    return read(DataSpec(name="image_folder", path=str(lossless)))


@pytest.fixture
def cifar10(root: Path, images: DataSet, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The real lossless images as CIFAR-10's own batch files; torchvision is told these files' checksums."""
    cls = datasets.CIFAR10
    folder = root / cls.base_folder
    folder.mkdir()
    parts = [images.train[torch.arange(i, 5000, 5)] for i in range(5)] + [images.test]
    listed = []
    for (name, _), part in zip([*cls.train_list, *cls.test_list], parts, strict=True):
        data = pickle.dumps({"data": part.pixels.flatten(1).numpy(), "labels": part.labels.tolist()})
        (folder / name).write_bytes(data)
        listed.append((name, md5(data)))
    meta = pickle.dumps({"label_names": list(images.class_names)})
    (folder / cls.meta["filename"]).write_bytes(meta)
    monkeypatch.setattr(cls, "train_list", listed[:5])
    monkeypatch.setattr(cls, "test_list", listed[5:])
    monkeypatch.setattr(cls, "meta", {**cls.meta, "md5": md5(meta)})
    return folder


def test_cifar10_is_read_in_its_own_form(cifar10: Path, images: DataSet) -> None:
    dataset = read(DataSpec(name="cifar10"))
    assert dataset.class_names == images.class_names
    assert torch.equal(dataset.test.pixels, images.test.pixels) and torch.equal(dataset.test.labels, images.test.labels)
    assert torch.equal(dataset.train.pixels[:1000], images.train.pixels[::5])


def test_f22_i19_a_damaged_file_is_refused_before_it_is_unpickled(cifar10: Path) -> None:
    """The file holds a pickle that would write another file: reading it at all would show."""
    trace = cifar10 / "was-executed"
    (cifar10 / "data_batch_3").write_bytes(pickle.dumps(Evil(trace)))
    with pytest.raises(DataError, match=r"data_batch_3: MD5 [0-9a-f]{32}, and the publisher's is [0-9a-f]{32}"):
        read(DataSpec(name="cifar10"))
    assert not trace.exists()
    (cifar10 / "data_batch_3").write_bytes(b"")
    with pytest.raises(DataError, match="data_batch_3"):
        prepare(DataSpec(name="cifar10", fallback="synthetic"))  # damaged is not missing: nothing stands in for it


@pytest.mark.parametrize(("name", "cls"), [("mnist", datasets.MNIST), ("fashion_mnist", datasets.FashionMNIST)])
def test_grey_sets_become_three_equal_channels(
    root: Path, name: str, cls: type[datasets.MNIST], monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = root / cls.__name__ / "raw"
    raw.mkdir(parents=True)
    generator = torch.Generator().manual_seed(0)
    resources, made = [], {}
    for prefix, n in (("train", 30), ("t10k", 12)):
        pixels = torch.randint(0, 256, (n, 28, 28), generator=generator, dtype=torch.uint8)
        labels = torch.randint(0, 10, (n,), generator=generator, dtype=torch.uint8)
        made[prefix] = (pixels, labels)
        for kind, dims, tensor in (("images-idx3", (n, 28, 28), pixels), ("labels-idx1", (n,), labels)):
            data = gzip.compress(struct.pack(f">{1 + len(dims)}I", 0x800 + len(dims), *dims) + tensor.numpy().tobytes())
            (raw / f"{prefix}-{kind}-ubyte.gz").write_bytes(data)
            resources.append((f"{prefix}-{kind}-ubyte.gz", md5(data)))
    monkeypatch.setattr(cls, "resources", resources)
    dataset = read(DataSpec.model_validate({"name": name}))
    assert tuple(dataset.train.pixels.shape) == (30, 3, 28, 28) and len(dataset.class_names) == 10
    for channel in range(3):
        assert torch.equal(dataset.test.pixels[:, channel], made["t10k"][0])
    assert torch.equal(dataset.train.labels, made["train"][1].long())


@pytest.mark.parametrize("name", PUBLISHED)
def test_f22_missing_data_say_what_to_do(root: Path, name: str) -> None:
    with pytest.raises(MissingData, match=r"is not in .*: set data.download = true, or put .* there, or set VIT"):
        prepare(DataSpec.model_validate({"name": name}))
