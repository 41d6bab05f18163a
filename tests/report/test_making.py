"""Files of a report made side by side: the same bytes, errors that are heard, and nobody left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.report.builders import build, factorial
from vitbench.report import making
from vitbench.report.render import render

ALONE = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}

several_cores = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")


def python(code: str) -> subprocess.CompletedProcess[str]:
    """Run some code in a process that has one thread."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, check=False, env=ALONE, capture_output=True, text=True, timeout=120)


@several_cores
def test_a_report_is_the_same_bytes_whether_its_files_are_made_side_by_side_or_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = build(tmp_path / "study", factorial({"norm": ("pre", "post"), "mlp": ("gelu", "relu")}, seeds=(0, 1)))
    done = python(
        "import pathlib, vitbench.report.making as making\n"
        "from vitbench.report.render import render\n"
        "from vitbench.store import Study\n"
        "used = []\n"
        "start = making.ProcessPoolExecutor\n"
        "making.ProcessPoolExecutor = lambda *a: used.append(a) or start(*a)\n"
        f"render(Study.read(pathlib.Path({str(study.path)!r})), pathlib.Path({str(tmp_path / 'beside')!r}))\n"
        "assert used, 'no process was started'\n"
    )
    assert done.returncode == 0, done.stderr
    monkeypatch.setattr(making, "_cores", lambda: 1)
    render(study, tmp_path / "alone")
    beside, alone = (
        {file.relative_to(tmp_path / name).as_posix(): file.read_bytes() for file in (tmp_path / name).rglob("*.*")}
        for name in ("beside", "alone")
    )
    assert beside == alone and any(name.endswith(".png") for name in alone)


@several_cores
def test_an_error_in_one_of_them_is_raised_and_no_process_is_left() -> None:
    done = python(
        "import multiprocessing\n"
        "from vitbench.report.making import Making\n"
        "making = Making({'good': lambda: b'1', 'bad': lambda: 1 / 0})\n"
        "try:\n"
        "    making.results()\n"
        "except ZeroDivisionError:\n"
        "    print(len(multiprocessing.active_children()), making.pool is not None)\n"
    )
    assert done.stdout.split() == ["0", "True"], done.stderr


@several_cores
def test_one_that_is_killed_is_an_error_and_no_wait_for_ever() -> None:
    done = python(
        "import os, signal\n"
        "from vitbench.report.making import Making\n"
        "Making({'good': lambda: b'1', 'bad': lambda: os.kill(os.getpid(), signal.SIGKILL)}).results()\n"
    )
    assert done.returncode == 1 and "BrokenProcessPool" in done.stderr


def test_a_process_with_threads_is_not_forked() -> None:
    done = python(
        "import threading\n"
        "from vitbench.report.making import Making\n"
        "held = threading.Event()\n"
        "threading.Thread(target=held.wait).start()\n"
        "making = Making({'a': lambda: b'1', 'b': lambda: b'2'})\n"
        "print(making.pool, making.results())\n"
        "held.set()\n"
    )
    assert done.stdout.strip() == "None {'a': b'1', 'b': b'2'}", done.stderr
