"""Every write of a run fails once: for a full disk, and for a folder that is gone."""

import contextlib
import errno
import fcntl
import io
import os
import pkgutil
import re
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.small import SUITE
from vitbench.cli.main import main
from vitbench.runner import run
from vitbench.runner.backends import local
from vitbench.store import StudyFolder, files
from vitbench.store.leases import at_work

CELLS = 'axes.attention=["triton", "sdpa_cudnn"]'
"""Neither runs on a CPU, so that all of a run's writes are there without a process for each trial."""
WRITING = {
    "open": (os, 0), "link": (os, 1), "rename": (os, 1), "replace": (os, 1), "mkdir": (os, 0), "utime": (os, 0),
    "fsync": (os, None), "unlink": (os, 0),
}  # fmt: skip
"""Function of the system → which of its arguments is the path; None: a handle."""


class Faults:
    """The calls that write below a folder; one of them fails."""

    def __init__(self, folder: Path, fails: int, error: int) -> None:
        self.folder, self.fails, self.error, self.count = str(folder), fails, error, 0

    def look(self, path: object) -> None:
        """One more write, of a path below the folder; the one that is to fail raises."""
        if str(path).startswith(self.folder):
            self.count += 1
            if self.count == self.fails:
                raise OSError(self.error, os.strerror(self.error), str(path))

    def opened(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(file: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
            if set(mode) & set("wxa+"):
                self.look(file)
            return function(file, mode, *rest, **options)

        return call

    def wrapped(self, name: str, function: Callable[..., Any], which: int | None) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            path = Path(f"/proc/self/fd/{arguments[0]}").readlink() if which is None else os.fspath(arguments[which])
            reads = name == "open" and not arguments[1] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if not reads:
                self.look(path)
            return function(*arguments, **options)

        return call


def attempt(folder: Path, fails: int, error: int) -> tuple[int, str, int]:
    """Run the suite with a fault, in a fork of this process. Returns its exit status, output and number of writes."""
    log = folder / "log"
    if (pid := os.fork()) == 0:
        status = 70
        with contextlib.suppress(BaseException):
            handle = os.open(log, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
            os.dup2(handle, 1), os.dup2(handle, 2)
            sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
            faults = Faults(folder / "study", fails, error)
            for name, (module, which) in WRITING.items():
                setattr(module, name, faults.wrapped(name, getattr(module, name), which))
            io.open = faults.opened(io.open)  # what Path.open calls
            for module in (local, run):  # asked here and not of a process of a server, which would take 2 s to start
                module.forked = lambda name, *arguments: pkgutil.resolve_name(name)(*arguments)
            try:
                main(["run", str(folder / "small.toml"), "--results", str(folder / "study"), "--device", "cpu",
                      "--only", "training", "--set", CELLS])  # fmt: skip
            except SystemExit as end:
                status = int(end.code or 0)
            except BaseException:
                traceback.print_exc()
            sys.stdout.write(f"writes: {faults.count}\n")
            sys.stdout.flush(), sys.stderr.flush()
        os._exit(status)
    _, status = os.waitpid(pid, 0)
    text = log.read_text()
    (count,) = re.findall(r"writes: (\d+)", text)
    return os.waitstatus_to_exitcode(status), text, int(count)


@pytest.mark.slow
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.ENOENT], ids=errno.errorcode.get)
def test_f28_each_write_of_a_run_fails_once(tmp_path: Path, error: int) -> None:
    def folder(name: str) -> Path:
        (tmp_path / name).mkdir()
        (tmp_path / name / "small.toml").write_text(SUITE)
        return tmp_path / name

    status, text, writes = attempt(folder("whole"), 0, error)
    assert status == 0 and writes > 15, text
    ended = 0
    for number in range(1, writes + 1):
        place = folder(str(number))
        status, text, _ = attempt(place, number, error)
        assert "Traceback" not in text and status in (0, 2), f"write {number}: {status}\n{text}"
        assert status == 0 or "cannot be written" in text, f"write {number}: {text}"
        ended += status == 2
        if error != errno.ENOSPC:  # what is left behind is the same
            continue
        status, text, _ = attempt(place, 0, error)
        assert status == 0, f"after write {number}: {text}"
        records = StudyFolder.read(place / "study").records()
        assert [len(attempts) for attempts in records.values()] == [1, 1], f"write {number}"
        strays = [path for path in (place / "study").rglob(".*.tmp") if not os.utime(path, (1, 1))]
        assert not strays or attempt(place, 0, error)[0] == 0, f"write {number}"
        assert not [p for p in (place / "study").rglob("*") if p.suffix in {".tmp", ".corrupt"}], f"write {number}"
        assert not at_work(place / "study" / "leases"), f"write {number}"
    assert ended > writes / 2


def test_a_folder_for_temporary_files_without_locks_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can tell a stray there: what another vitbench has stays."""

    def flock(handle: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(files, "fcntl", SimpleNamespace(flock=flock, LOCK_EX=fcntl.LOCK_EX, LOCK_NB=fcntl.LOCK_NB))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with local.scratch() as one:
        with local.scratch() as other:
            assert one.is_dir() and other.is_dir() and one != other
        assert one.is_dir() and not other.is_dir()
