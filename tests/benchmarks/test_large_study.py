"""Large studies: what planning, looking at and reporting 100,000 trials takes, in seconds and in memory.

``pytest --benchmark-only tests/benchmarks/test_large_study.py -s`` gives all figures again, each of a process of its
own, as a user would start it; the peak of its memory is printed beside.
VITBENCH_TRIALS sets another number of trials.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from tests.conftest import REPOSITORY
from tests.large import study_of, suite_of_cells, suite_of_seeds
from tests.report.test_large_report import large_enough

TRIALS = int(os.environ.get("VITBENCH_TRIALS", "100000"))
WITH_PEAK = """
import os, pathlib, sys
from vitbench.cli.main import main

def peak_mib(pid):  # not getrusage, which counts what the parent had when it forked
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024

try:
    main()
finally:
    print(f"peak memory: {peak_mib(os.getpid()):.0f} MiB", file=sys.stderr)
"""


def vitbench(*arguments: object) -> str:
    """Run a command; its peak of memory, in words."""
    done = subprocess.run(
        [sys.executable, "-c", WITH_PEAK, *map(str, arguments)],
        cwd=REPOSITORY, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stderr.strip().splitlines()[-1]


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a suite of 200 cells with many seeds, and its study, all of it run and none of it packed."""
    folder = tmp_path_factory.mktemp("seeds")
    study_of(folder / "study", suite_of_seeds(folder, TRIALS))
    return folder


def measure(benchmark: BenchmarkFixture, *arguments: object, rounds: int = 1) -> None:
    peak = benchmark.pedantic(vitbench, args=arguments, rounds=rounds)
    benchmark.extra_info["peak"] = peak
    print(f"\n{benchmark.name}: {peak}")  # noqa: T201


@pytest.mark.slow
def test_plan_of_many_seeds(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    suite_of_seeds(tmp_path, TRIALS)
    measure(benchmark, "plan", tmp_path / "large.toml", "--max-trials", 10**6, "--results", tmp_path / "none")


@pytest.mark.slow
def test_plan_of_many_cells(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    suite_of_cells(tmp_path)
    measure(benchmark, "plan", tmp_path / "large.toml", "--max-trials", 10**6, "--results", tmp_path / "none")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["unpacked", "packed", "cached"])
@pytest.mark.parametrize("command", ["status", "plan", "report"])
def test_looking_at_a_study(benchmark: BenchmarkFixture, seeds: Path, command: str, form: str) -> None:
    """A file for each record; after `vitbench pack`; and once a report has left its tables in the cache."""
    study = seeds / form
    if not study.exists():
        shutil.copytree(seeds / "study", study)
        if form != "unpacked":
            print(f"\npack: {vitbench('pack', study)}")  # noqa: T201
        if form == "cached":
            vitbench("report", study, "--out", seeds / "report")
    print(f"\n{form}: {_size(study)}")  # noqa: T201
    arguments: dict[str, list[object]] = {"status": [study], "report": [study, "--out", seeds / "report"],
                 "plan": [seeds / "large.toml", "--max-trials", 10**6, "--results", study]}  # fmt: skip
    measure(benchmark, command, *arguments[command])
    if form == "packed":
        shutil.rmtree(study / "cache", ignore_errors=True)


def _size(study: Path) -> str:
    files = [file for file in study.rglob("*") if file.is_file()]
    return f"{len(files):,} files, {sum(file.stat().st_size for file in files) / 2**20:,.0f} MiB"


@pytest.mark.slow
def test_report_of_500_records(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """It is to take no more than ten seconds on two cores; its size is tested in tests/report/test_large_report.py."""
    large_enough(tmp_path / "study")
    measure(benchmark, "report", tmp_path / "study", "--out", tmp_path / "report", rounds=3)
