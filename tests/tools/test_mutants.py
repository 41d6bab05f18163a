"""The list of mutants is up to date, and the script sees a test that fails."""

import pytest

from tools.mutants import MUTANTS, REPOSITORY, Mutant, fails


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_changes_what_is_there_and_names_a_test(name: str) -> None:
    mutant = MUTANTS[name]
    assert mutant.before in (REPOSITORY / "vitbench" / mutant.file).read_text()
    file, _, test = mutant.test.partition("::")
    assert f"def {test.partition('[')[0]}(" in (REPOSITORY / file).read_text()


@pytest.mark.slow
def test_a_dead_mutant_is_told_from_one_that_lives_and_from_one_that_is_out_of_date() -> None:
    dead = MUTANTS["base of RoPE"]
    assert fails(dead.test, dead) and not fails(dead.test)
    assert not fails(dead.test, dead._replace(before='"base": (100.0,', after='"base": (1e2,'))
    with pytest.raises(ValueError, match="out of date"):
        fails(dead.test, Mutant("clock.py", "what is not there", "", dead.test))
