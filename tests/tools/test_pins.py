"""The pins name all that is needed, each by version and hash, and nothing of where it comes from."""

import re
from importlib.metadata import version

import pytest

from tests.conftest import REPOSITORY
from tools import pins


def read(name: str) -> dict[str, tuple[str, int]]:
    """Package → its version and how many hashes it has."""
    text = (REPOSITORY / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    packages = {}
    for entry in re.sub(r"^#.*\n", "", text).replace(" \\\n", " ").splitlines():
        package, *hashes = entry.split()
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", each) for each in hashes), entry
        packages[package.partition("==")[0]] = package.partition("==")[2], len(hashes)
    return packages


@pytest.mark.parametrize(("name", "extra"), [("run", ""), ("test", "dev")])
def test_every_package_that_is_needed_is_pinned_with_its_hashes_and_no_other(name: str, extra: str) -> None:
    pinned = read(name)
    assert set(pinned) == pins.needed(extra)
    assert all(hashes for _, hashes in pinned.values())
    assert {package: of for package, (of, _) in pinned.items()} == {package: version(package) for package in pinned}


def test_a_run_needs_less_than_the_tests_and_the_same_versions() -> None:
    run, test = read("run"), read("test")
    assert run.items() <= test.items() and len(run) < len(test) / 2
    assert not {"pytest", "ray", "mlflow-skinny", "playwright"} & set(run)


def test_a_hash_is_of_a_file_that_this_platform_takes() -> None:
    taken = ["numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl",
             "click-8.5.1-py3-none-any.whl",
             "ruff-0.17.5-py3-none-manylinux_2_17_x86_64.whl", "submitit-1.5.4.tar.gz"]  # fmt: skip
    assert all(pins.fits(file, file.split("-")[1].removesuffix(".tar.gz")) for file in taken)
    other = ["numpy-2.4.6-cp314-cp314-manylinux_2_27_x86_64.whl", "numpy-2.4.6-cp311-cp311-macosx_14_0_arm64.whl",
             "numpy-2.4.6-cp311-cp311-manylinux_2_27_aarch64.whl", "numpy-2.4.5-cp311-cp311-manylinux_2_27_x86_64.whl",
             "numpy-2.4.6-cp311-cp311-musllinux_1_2_x86_64.whl", "numpy-2.4.6.exe"]  # fmt: skip
    assert not any(pins.fits(file, "2.4.6") for file in other)
