"""Mutation score: a sample of small changes to the package, each made in a copy, and the share that some test notices.

    pip install cosmic-ray coverage
    python -m tools.mutation [--package analysis ...] [--sample 50] [--seed 0]

A change is one of Cosmic Ray's: a number plus one, ``<`` for ``<=``, ``-`` for ``+``, a condition turned round. Only
tests that run the changed line are asked. Run by hand: it takes an hour on two cores.
"""

import argparse
import difflib
import importlib
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import coverage
import pytest
from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.mutating import apply_mutation
from cosmic_ray.plugins import get_operator, operator_names

from tools.mutants import REPOSITORY

PACKAGES = {
    "components": ("components", "model"),
    "analysis": ("analysis",),
    "timing": ("timing",),
    "data": ("data", "training"),
}
"""Package → folders of tests that are asked."""

UNASKED = ("BitOr", "BitAnd", "RemoveDecorator", "VariableReplacer", "VariableInserter")
"""Operators whose changes are mostly of annotations (``int | None``) or need arguments."""

MOST_TESTS, SECONDS = 40, 240


class Place(NamedTuple):
    """One place where one of Cosmic Ray's operators applies."""

    file: str
    operator: str
    occurrence: int
    line: int


def changes(package: str) -> Iterator[Place]:
    """All changes of a package's code, docstrings and annotations left alone."""
    for path in sorted((REPOSITORY / "vitbench" / package).rglob("*.py")):
        tree = get_ast_from_path(path)
        for name in operator_names():
            if any(part in name for part in UNASKED) or get_operator(name).arguments():
                continue
            operator = get_operator(name)()
            places = (start for node in ast_nodes(tree) for start, _ in operator.mutation_positions(node))
            for occurrence, (line, _) in enumerate(places):
                yield Place(str(path.relative_to(REPOSITORY)), name, occurrence, line)


def copy_of_the_repository(folder: Path) -> Path:
    """A copy in which changes are made."""
    for part in ("vitbench", "tests", "docs", "ablations", "tools", "examples", "results"):
        shutil.copytree(REPOSITORY / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "CHANGELOG.md"):
        shutil.copy(REPOSITORY / file, folder)
    return folder


def first(copy: Path) -> str:
    """PYTHONPATH with a copy before all else."""
    return os.pathsep.join((str(copy), *filter(None, [os.environ.get("PYTHONPATH")])))


def run_tests(copy: Path, tests: list[str]) -> None:
    """End this process with pytest's exit status in a copy."""
    os.chdir(copy)
    sys.path[0], os.environ["PYTHONPATH"] = str(copy), first(copy)
    sys.dont_write_bytecode = True
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    os._exit(int(pytest.main(["-x", "-n0", "-p", "no:cacheprovider", *tests])))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Have coverage attribute lines to tests: this module is a plug-in of the pytest that it starts."""
    if measuring := coverage.Coverage.current():
        measuring.switch_context(item.nodeid.partition("[")[0])


def tests_by_line(package: str, copy: Path) -> dict[tuple[str, int], list[str]]:
    """(file, line) → tests that run it; of a line that runs on import, all tests that run something of its file."""
    data = copy / "coverage.data"
    subprocess.run(
        [sys.executable, "-m", "coverage", "run", "--source", copy / "vitbench", "--data-file", data, "-m", "pytest",
         "-p", "tools.mutation", "-n0", "-m", "not slow", "-p", "no:cacheprovider",
         *(f"tests/{folder}" for folder in PACKAGES[package])],
        cwd=copy, env={**os.environ, "PYTHONPATH": first(copy)}, check=True,
    )  # fmt: skip
    measured = coverage.CoverageData(str(data))
    measured.read()
    asked: dict[tuple[str, int], list[str]] = {}
    for path in measured.measured_files():
        file, lines = str(Path(path).relative_to(copy)), measured.contexts_by_lineno(path)
        tests_of = {line: {test for test in tests if test.startswith("tests/")} for line, tests in lines.items()}
        of_file = set().union(*tests_of.values())
        asked |= {(file, line): sorted(tests or of_file) for line, tests in tests_of.items()}
    return asked


def outcome(change: Place, tests: list[str], copies: list[Path]) -> tuple[str, str]:
    """Fate of a change that is made in one of the copies: killed, survived or not run; and its diff."""
    copy = copies.pop()
    path = copy / change.file
    before, after = apply_mutation(path, get_operator(change.operator)(), change.occurrence)
    try:
        diff = "".join(
            difflib.unified_diff(before.splitlines(True), after.splitlines(True), change.file, change.file, n=0)
        )
        if not tests:
            return "not run", diff
        child = multiprocessing.get_context("fork").Process(target=run_tests, args=(copy, tests[:MOST_TESTS]))
        child.start()
        child.join(SECONDS)
        if child.is_alive():
            child.kill()
            child.join()
        if child.exitcode == pytest.ExitCode.NO_TESTS_COLLECTED:  # not USAGE_ERROR: what they import is broken then
            raise ValueError(f"{tests}: no such tests")
        return "survived" if child.exitcode == 0 else "killed", diff
    finally:
        path.write_text(before, encoding="utf-8")
        copies.append(copy)


def main() -> int:
    """Print each change that no test notices, then the score by package."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--package", action="append", choices=PACKAGES)
    parser.add_argument("--sample", type=int, default=50, help="changes of each package")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    importlib.import_module("torch")  # once, before the forks
    with tempfile.TemporaryDirectory() as folder:
        copies = [copy_of_the_repository(Path(folder) / str(number)) for number in range(2)]
        for package in given.package or PACKAGES:
            tests = tests_by_line(package, copies[0])
            sample = random.Random(given.seed).sample(list(changes(package)), given.sample)
            states: Counter[str] = Counter()
            asked = [
                sorted(tests.get((at.file, at.line), []), key=lambda test: f"/test_{Path(at.file).stem}.py" not in test)
                for at in sample
            ]
            with ThreadPoolExecutor(len(copies)) as pool:
                outcomes = pool.map(outcome, sample, asked, [copies] * len(sample))
                for change, (state, diff) in zip(sample, outcomes, strict=True):
                    states[state] += 1
                    if state != "killed":
                        sys.stdout.write(f"{state}: {change.operator}\n{diff}\n")
            sys.stdout.write(f"{package}: {', '.join(f'{count} {state}' for state, count in states.items())}\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
