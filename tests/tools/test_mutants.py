"""The list of mutants is up to date, and the script sees a test that fails."""

import subprocess
import sys

import pytest

from tools.mutants import MUTANTS, REPOSITORY, Mutant, fails


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_changes_what_is_there(name: str) -> None:
    mutant = MUTANTS[name]
    assert mutant.before in (REPOSITORY / "vitbench" / mutant.file).read_text()


def test_mutants_name_tests_that_there_are() -> None:
    named = sorted({mutant.test for mutant in MUTANTS.values()})
    collect = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *named]
    done = subprocess.run(collect, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.mark.slow
def test_a_dead_mutant_is_told_from_one_that_lives_and_from_one_that_is_out_of_date() -> None:
    dead = MUTANTS["base of RoPE"]
    assert fails(dead.test, dead) and not fails(dead.test)
    assert not fails(dead.test, dead._replace(before='"base": (100.0,', after='"base": (1e2,'))
    with pytest.raises(ValueError, match="out of date"):
        fails(dead.test, Mutant("clock.py", "what is not there", "", dead.test))
