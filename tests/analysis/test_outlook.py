"""The outlook of a plan: what it says of its seeds before anything runs."""

import math
import re
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from vitbench.analysis.outlook import burden, families, outlook
from vitbench.analysis.power import equality_power, power
from vitbench.config import read_suite

SUITE = """
[suite]
name = "t"
question = "?"
[axes]
attention = ["batched", "sdpa"]
norm = ["pre", "post"]
positions = ["learned", "none", "sinusoidal"]
[train]
seeds = 8
"""
CLAIMED = {"none": "lower", "sinusoidal": "equal"}


def read(folder: Path, text: str = SUITE, *overrides: str) -> list[str]:
    (folder / "suite.toml").write_text(text)
    return outlook(read_suite(folder / "suite.toml", overrides))


def test_equivalent_implementations_are_in_no_family(tmp_path: Path) -> None:
    (tmp_path / "suite.toml").write_text(SUITE)
    assert families(read_suite(tmp_path / "suite.toml")) == {"effects of axes": 3, "interactions": 2}


def test_of_an_axis_with_twins_the_others_are_compared(tmp_path: Path) -> None:
    (tmp_path / "suite.toml").write_text(
        SUITE.replace('["pre", "post"]', '["pre", "post"]\npatching = ["conv", "einops", "einops_layernorm"]')
    )
    # norm 1, positions 2, patching 1 by one another: 2 + 1 + 2
    assert families(read_suite(tmp_path / "suite.toml")) == {"effects of axes": 4, "interactions": 5}


def test_a_choice_of_cells_is_a_family_of_what_it_compares() -> None:
    grid = [f"conv · batched · {rest}" for rest in ("pre · learned", "pre · none", "post · learned")]
    suite = read_suite(REPOSITORY / "ablations" / "components.toml", only=grid)
    assert families(suite) == {"effects of axes": 2}


def test_the_smallest_effect_is_the_one_with_the_power_that_is_said(tmp_path: Path) -> None:
    (sentence,) = read(tmp_path)
    start = "3 effects of axes, 2 interactions, 8 seeds: the smallest effect found 80% of the time is "
    assert sentence.startswith(start)
    assert power(float(sentence.removeprefix(start).split()[0]), 8, 5) == pytest.approx(0.8, abs=0.01)


def test_too_few_seeds_are_said_to_be_too_few(tmp_path: Path) -> None:
    """Six seeds show an effect of 2 among five comparisons: a seventh may be lost."""
    (sentence,) = read(tmp_path, SUITE, "train.seeds=4")
    assert "4 seeds: underpowered" in sentence
    assert "; 5 seeds are the fewest" in sentence and "; 7 seeds would find one of 2 " in sentence
    assert "1 seed: underpowered" in read(tmp_path, SUITE, "train.seeds=1")[0]
    assert power(2.0, 6, 5) >= 0.8 > power(2.0, 5, 5)
    lost = "; 7 seeds would find one of 2 standard deviations with a run lost"
    assert lost in read(tmp_path, SUITE, "train.seeds=6")[0]
    assert "run lost" not in read(tmp_path, SUITE, "train.seeds=7")[0]


def test_a_spread_that_is_known_tells_the_effect_in_points(tmp_path: Path) -> None:
    sentences = [read(tmp_path, SUITE, override)[0] for override in ("suite.spread=1.5", "suite.spread=3")]
    points = [float(re.findall(r"at most ([\d.]+) points \(a run's is", sentence)[0]) for sentence in sentences]
    deviations = float(re.findall(r"is ([\d.]+) standard deviations", sentences[0])[0])
    assert points[0] == pytest.approx(1.5 * math.sqrt(2) * deviations, abs=0.06) and points[1] > 1.9 * points[0]


def test_a_test_that_the_suite_sets_is_that_of_its_plan(tmp_path: Path) -> None:
    """A paired t has no least p, a sign-flip test has; arms that share weights are paired unless it is set."""
    by = {test: read(tmp_path, SUITE, "train.seeds=4", f'suite.test="{test}"')[0]
          for test in ("unpaired", "paired", "permutation")}  # fmt: skip
    assert "5 seeds are the fewest" in by["unpaired"] and by["permutation"] == by["unpaired"]
    assert "underpowered" not in by["paired"]
    assert power(float(by["paired"].split("time is ")[1].split()[0]), 4, 5, paired=True) == pytest.approx(0.8, abs=0.01)
    started = SUITE + 'pretrained = "weights.safetensors"\n'
    assert read(tmp_path, started, "train.seeds=4") == [by["paired"]]
    assert read(tmp_path, started, "train.seeds=4", 'suite.test="unpaired"') == [by["unpaired"]]
    assert "8 seeds are the fewest" in read(tmp_path, started, "train.seeds=4", 'suite.test="permutation"')[0]


@pytest.mark.parametrize(("axes", "times"), [(2, True), (3, False)])
def test_an_interaction_of_two_axes_takes_more(tmp_path: Path, axes: int, times: bool) -> None:
    """It is of four runs, where a unit is of two: a third axis has it a mean over as many again."""
    third = "" if axes == 2 else '[axes]\nmlp = ["gelu", "relu"]'
    (sentence,) = read(tmp_path, SUITE.replace("[axes]", third or "[axes]"))
    assert ("an interaction must be 1.4 times as large" in sentence) == times


def test_the_weights_of_claims_count_in_the_smallest_effect(tmp_path: Path) -> None:
    """One effect is claimed, one claimed to be none: the lightest that is asked for is one of four."""
    fact = '[[facts]]\nclaim = "c"\naxis = "positions"\nagainst = "learned"\nsource = "s"\n'
    claims = [f'{fact}value = "{value}"\nexpected = "{expected}"\n' for value, expected in CLAIMED.items()]
    (sentence,) = read(tmp_path, "".join([SUITE.replace('question = "?"', 'question = "?"\nmargin = 1'), *claims]))
    assert sentence.startswith("1 claim, 1 claim of equality, 1 effect of an axis, 2 interactions, 8 seeds: ")
    assert power(float(sentence.split("time is ")[1].split()[0]), 8, 2 + 0.25 + 1 + 2) == pytest.approx(0.8, abs=0.01)
    spread = float(sentence.split("within 1 points, where that deviation is at most ")[1].split()[0])
    assert equality_power(0.0, 1 / spread, 8, (2 + 0.25 + 1 + 2) / 2) == pytest.approx(0.8, abs=0.02)
    alone = burden({"claims": 3}), burden({"claims of equality": 2})
    assert alone == (3, 2) and burden({"claims": 1, "claims of equality": 4}) == 1.5


def test_named_cells_and_claims_are_families_too() -> None:
    suite = read_suite(REPOSITORY / "ablations" / "attention-ladder.toml")
    assert families(suite) == {"claims": 3, "cells against the first": 2}, "one is a claim, too"


def test_a_suite_that_only_times_has_nothing_to_show() -> None:
    assert outlook(read_suite(REPOSITORY / "ablations" / "attention-timing.toml")) == []
