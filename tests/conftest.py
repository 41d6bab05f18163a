"""Real images, and small specs that train in under a second."""

import atexit
import contextlib
import hashlib
import os
import shutil
import signal
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from tests.runner.runs import Runs

REPOSITORY = Path(__file__).parent.parent
SHARED = REPOSITORY.parent / "shared" / "data"
TEMPORARY = "of-vitbench-tests-"
LONGEST = frozenset({"test_planted.py", "test_readme.py"})  # Files with tests of several minutes, which begin first
LOSSLESS = ("cifar10-lossless-6k.tar.xz", "ff34e6982bc3d3a8712b3e3a4d2617c7d395c250d243b26876c531d15762bc02")
JPEG = ("cifar10-jpeg.tar.xz", "4580f01b796d7842348f6b49e686d1998319e1ffc1f6a36c2eeb435faa16e32d")


def pytest_configure() -> None:
    """Ctrl-C works in the processes that tests start, also where the tests themselves are started in the background.

    A shell has its background jobs ignore it, and so does all that they start. What workers start shares the cores.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # OpenVINO imports absl, whose handler closes its stream, which is pytest's, when submitit configures logging.
    with contextlib.suppress(ImportError):
        import absl.logging

        absl.logging.get_absl_handler().python_handler.stream = sys.__stderr__
    # Threads that wait for one another by spinning take the cores from the tests of the other workers: a trial of two
    # seconds then takes two minutes. Those of processes that tests start sleep instead.
    if int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) > 1:
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        # Studies of one user take turns in timing on a machine, and find one another in the folder of temporary files.
        # Here a test would wait for the training of another, until its own time is up.
        folder = os.environ["TMPDIR"] = tempfile.mkdtemp(prefix=TEMPORARY)
        tempfile.tempdir = None  # looked up anew
        # After what multiprocessing, which is imported later, has there: what is registered last is called first.
        atexit.register(shutil.rmtree, folder, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """GPU tests skip, with the reason, where there is no GPU. Workers of the suite divide the cores among them.

    Else each would have a thread for every core, and they would wait for one another: up to ten times as long. The
    longest tests come first: a worker that begins one at the end has the others wait for it.
    """
    import torch

    items.sort(key=lambda item: item.path.name not in LONGEST)
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    torch.set_num_threads(max(1, torch.get_num_threads() // workers))
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="needs a CUDA device; this machine has none"))


def not_there(message: str) -> NoReturn:
    """Skip the test, with the reason; under CI, where everything has to be there, fail it."""
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


def copy_some(source: Path, target: Path, count: int) -> None:
    """Copy the first images of two classes, each into its folder."""
    for name in ("cat", "dog"):
        (target / name).mkdir(parents=True)
        for file in sorted((source / name).iterdir())[:count]:
            shutil.copy(file, target / name)


def wants_compiler() -> None:
    """Skip where there is none: torch makes C++ of what it compiles for a CPU, and a user may do without."""
    if shutil.which("c++") is None:
        pytest.skip("compiling for the CPU needs a C++ compiler")


@pytest.fixture(scope="session")
def lossless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """5,000 train and 1,000 test images of CIFAR-10, the original pixels, as class folders."""
    return unpacked(*LOSSLESS, tmp_path_factory)


@pytest.fixture(scope="session")
def jpeg(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of CIFAR-10 as JPEG, as class folders."""
    return unpacked(*JPEG, tmp_path_factory)


def unpacked(name: str, expected: str, factory: pytest.TempPathFactory) -> Path:
    """The folder of an archive of real images."""
    archive = SHARED / name
    if not archive.is_file():
        not_there(f"the real images {name} are not beside the repository (../shared/data)")
    actual = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert actual == expected, f"{archive}: SHA-256 {actual}, expected {expected}"
    folder = factory.mktemp("images")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    (images,) = (p.parent for p in folder.rglob("train") if p.is_dir())
    return images


@pytest.fixture(autouse=True, scope="session")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Downloads and decoded images of the tests lie in a folder of their own, for child processes too."""
    root = tmp_path_factory.mktemp("data-root")
    os.environ["VITBENCH_DATA"] = str(root)
    return root


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    """A suite of trials that take a tenth of a second, and the folder of its study."""
    each = Runs(tmp_path)
    yield each
    each.close()
