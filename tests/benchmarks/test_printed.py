"""What `pytest --benchmark-only` prints."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import REPOSITORY


@pytest.mark.slow
def test_four_columns_that_fit_a_terminal() -> None:
    command = [sys.executable, "-m", "pytest", "--benchmark-only", "tests/benchmarks/test_components.py",
               "-k", "pooling and (cls or mean)", "-p", "no:cacheprovider"]  # fmt: skip
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 120 and "Outliers" not in done.stdout
    heads = [line.split() for line in lines if "median" in line]
    assert heads == [["median", "IQR", "rounds", "×", "first"]] * 2
    firsts = [line.split()[-1] for line in lines if "-cls-" in line]
    assert firsts == ["1.00", "1.00"]
