"""What `pytest --benchmark-only` prints, and that the components can be timed by it."""

import subprocess
import sys

import pytest

from tests.conftest import REPOSITORY


def benchmarks(*options: str) -> subprocess.CompletedProcess[str]:
    """pytest's run of the components' benchmarks, which has succeeded."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/benchmarks/test_components.py"]
    done = subprocess.run(
        [*command, *options], cwd=REPOSITORY, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.mark.slow
def test_every_component_in_each_of_its_places_runs_once() -> None:
    assert " passed, " in benchmarks("--override-ini", "addopts=", "--benchmark-disable").stdout


@pytest.mark.slow
def test_four_columns_that_fit_a_terminal() -> None:
    done = benchmarks("--benchmark-only", "-k", "pooling and (cls or mean)")
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 120 and "Outliers" not in done.stdout
    heads = [line.split() for line in lines if "median" in line]
    assert heads == [["median", "IQR", "rounds", "×", "first"]] * 2
    firsts = [line.split()[-1] for line in lines if "-cls-" in line]
    assert firsts == ["1.00", "1.00"]
