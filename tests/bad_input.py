"""Mistakes as a user makes them: the command line refuses, in a process of its own or, quicker, in this one."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conftest import REPOSITORY
from tests.runner.runs import here
from tests.small import SUITE


def files_of(folder: Path) -> dict[str, bytes | None]:
    """Everything in a folder: relative path → content, None of a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


def process(folder: Path, *arguments: str, package: Path = REPOSITORY) -> subprocess.CompletedProcess[str]:
    """``vitbench`` as it is typed in a folder; ``package`` is looked through before all else that is imported from."""
    environment = {**os.environ, "PYTHONPATH": str(package)}
    return subprocess.run([sys.executable, "-m", "vitbench", *arguments], cwd=folder, env=environment,
                          capture_output=True, text=True, timeout=300, check=False)  # fmt: skip


def refused_by_process(folder: Path, *arguments: str) -> str:
    """The message of a command that a process of its own refuses: status 2, no traceback, nothing written."""
    return _message(folder, lambda: process(folder, *arguments))


def refused_here(folder: Path, *arguments: str) -> str:
    """The message of a command that is refused in this process, which has all modules loaded; nothing is written."""
    return _message(folder, lambda: here(*arguments, cwd=folder))


def _message(folder: Path, call: Callable[[], subprocess.CompletedProcess[str]]) -> str:
    before = files_of(folder)
    done = call()
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr and done.stderr.strip()
    assert files_of(folder) == before, "something was written"
    return done.stderr


def suite_file(folder: Path, *more: str, name: str = "suite.toml", base: str = SUITE) -> str:
    """A small suite on disk, with lines added; its name."""
    (folder / name).write_text("\n".join([base, *more]), encoding="utf-8")
    return name


class Evil:
    """Makes a file when it is unpickled."""

    def __init__(self, sentinel: Path) -> None:
        self.sentinel = sentinel

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.sentinel,)
