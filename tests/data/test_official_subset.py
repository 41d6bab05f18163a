"""CIFAR-10's first images of each batch: the same data set from the archive and from PNG files."""

import resource
import shutil
from pathlib import Path

import pytest
import torch
from PIL import Image

from tests.conftest import SHARED, not_there
from vitbench.config import DataSpec
from vitbench.data import catalog
from vitbench.data.catalog import DataError, MissingData
from vitbench.data.images import DataSet, Images
from vitbench.data.load import prepare, read
from vitbench.data.sources import torchvision_sets
from vitbench.data.sources.official_subset import FILES


@pytest.fixture
def root(lossless: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VITBENCH_DATA", str(tmp_path))
    (tmp_path / FILES).symlink_to(lossless)
    return tmp_path


def archive_of(dataset: DataSet) -> DataSet:
    """All 60,000 places of the archive: the images that there are, where they belong, and black ones elsewhere."""

    def spread(images: Images, batches: int) -> Images:
        pixels = torch.zeros(batches, 10_000, 3, 32, 32, dtype=torch.uint8)
        labels = torch.zeros(batches, 10_000, dtype=torch.int64)
        pixels[:, :1000] = images.pixels.view(batches, 1000, 3, 32, 32)
        labels[:, :1000] = images.labels.view(batches, 1000)
        return Images(pixels.flatten(0, 1), labels.flatten())

    return DataSet(spread(dataset.train, 5), spread(dataset.test, 1), dataset.class_names)


def test_files_and_archive_are_one_data_set(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = DataSpec(name="cifar10", subset=1000)
    from_files = read(spec)
    assert from_files.train.labels[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]  # of data_batch_1, as all print them
    assert from_files.test.labels[:10].tolist() == [3, 8, 8, 0, 6, 6, 1, 6, 3, 1]
    monkeypatch.setattr(torchvision_sets, "read", lambda _: archive_of(from_files))
    (root / FILES).unlink()
    (catalog.cache() / f"{FILES}.safetensors").unlink()  # what was decoded
    assert read(spec).checksum() == from_files.checksum()
    assert catalog.identity(spec) == catalog.identity(DataSpec(name="cifar10"))


def test_files_are_decoded_once_and_again_where_that_copy_is_damaged(root: Path) -> None:
    spec = DataSpec(name="cifar10", subset=1000)
    first = read(spec).checksum()
    (root / FILES).rename(root / "aside")
    assert read(spec).checksum() == first
    copy = catalog.cache() / f"{FILES}.safetensors"
    damaged = bytearray(copy.read_bytes())
    damaged[-1] ^= 1
    copy.write_bytes(damaged)
    with pytest.raises(MissingData):
        read(spec)
    (root / "aside").rename(root / FILES)
    assert read(spec).checksum() == first


def test_the_folder_of_files_itself_may_be_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITBENCH_DATA", str(root / FILES))
    monkeypatch.setenv("XDG_CACHE_HOME", str(root / "cache"))
    assert len(read(DataSpec(name="cifar10", subset=1000)).test) == 1000


def test_fewer_are_the_first_of_each_batch(root: Path) -> None:
    whole, few = (read(DataSpec(name="cifar10", subset=n)) for n in (1000, 30))
    assert (len(few.train), len(few.test)) == (150, 30)
    assert torch.equal(few.train.pixels[30:60], whole.train.pixels[1000:1030])
    facts = prepare(DataSpec(name="cifar10", subset=30)).facts
    assert next(iter(facts.values())).train == 150


def test_the_archive_of_files_is_read_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the folder of someone else's data commonly is: what is unpacked goes to the user's own cache."""
    if not (SHARED / f"{FILES}.tar.xz").is_file():
        not_there("the archive of real images is not beside the repository")
    monkeypatch.setenv("VITBENCH_DATA", str(SHARED))
    monkeypatch.setattr(catalog.os, "access", lambda path, _: not Path(path).is_relative_to(SHARED.parent))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert len(read(DataSpec(name="cifar10", subset=1000)).train) == 5000
    assert (tmp_path / "vitbench" / FILES / "train").is_dir()


def test_a_full_disk_is_named_with_the_folder(root: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(DataError, match=f"{root}/cache, for decoded images, cannot be written: File too large"):
            read(DataSpec(name="cifar10", subset=1000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_other_pixels_under_the_official_names_are_refused(root: Path, lossless: Path) -> None:
    (root / FILES).unlink()
    shutil.copytree(lossless, root / FILES)
    image = next((root / FILES / "test" / "cat").iterdir())
    Image.new("RGB", (32, 32)).save(image)
    with pytest.raises(DataError, match="the official images' is d260339686756ebe"):
        read(DataSpec(name="cifar10", subset=1000))


def test_without_either_the_message_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITBENCH_DATA", str(tmp_path))
    with pytest.raises(MissingData, match=r"put cifar-10-python.tar.gz there, or set VITBENCH_DATA"):
        read(DataSpec(name="cifar10", subset=1000))


def test_a_folder_takes_the_place_of_a_named_set() -> None:
    spec = DataSpec.model_validate({"name": "cifar10", "subset": 1000, "download": True, "path": "photos"})
    assert spec == DataSpec(name="image_folder", path="photos")
    with pytest.raises(ValueError, match="only cifar10 has official batches"):
        DataSpec(name="mnist", subset=10)
