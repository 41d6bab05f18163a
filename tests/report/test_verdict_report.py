"""Verdicts and claims as a reader of the report finds them, from records whose effects are known."""

from __future__ import annotations

import csv
import random
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.report.builders import CellPlan, Plan, Values, blank, build, factorial
from tests.report.markdown import Page, read_page
from vitbench.config.suite import Fact
from vitbench.report.render import render_view
from vitbench.report.view import View
from vitbench.store import TrainValues

pytestmark = pytest.mark.xdist_group("verdict_report")  # what its fixtures run is run once

DIFFERENCE, VERDICT = "difference (points)", "verdict"
AXES = {"patching": ("conv", "einops"), "norm": ("pre", "post"), "positions": ("learned", "none", "sinusoidal")}
EIGHT = tuple(range(8))


def known(cell: CellPlan, seed: int) -> float:
    """Without positions 5 points less, with post-norm 3 less but for that; sinusoids are as good, within noise."""
    noise = ((seed * 7) % 5 - 2) / 10
    value = 50.0 + seed % 3 / 20
    value -= 5.0 - noise if cell.axes.get("positions") == "none" else 0.0
    value -= noise / 2 if cell.axes.get("positions") == "sinusoidal" else 0.0
    return value - (3.0 if cell.axes.get("norm") == "post" and cell.axes.get("positions") != "none" else 0.0)


def fact(value: str, expected: str, **changes: object) -> Fact:
    given = {"claim": f"{value} is {expected}", "axis": "positions", "value": value, "against": "learned",
             "expected": expected, "source": "someone", **changes}  # fmt: skip
    return Fact.model_validate(given)


FACTS = (
    fact("none", "lower", size=-6.9),
    fact("none", "higher", claim="none is better"),
    fact("sinusoidal", "equal"),
    fact("post", "equal", axis="norm", against="pre", where={"positions": "none"}, claim="the same without positions"),
)


def page(
    folder: Path, seeds: tuple[int, ...] = EIGHT, axes: Mapping[str, tuple[str, ...]] = AXES, **changes: object
) -> Page:
    folder.mkdir(exist_ok=True)
    plan = factorial(axes, seeds=seeds, time=False, **{"accuracy": known, "margin": 1.0, "facts": FACTS, **changes})
    render_view(View(build(folder / "study", plan)), folder / "report", draw=blank)
    return read_page(folder / "report")


@pytest.fixture(scope="module")
def eight(tmp_path_factory: pytest.TempPathFactory) -> Page:
    return page(tmp_path_factory.mktemp("eight"))


def test_each_effect_has_its_verdict_and_exact_twins_have_none(eight: Page) -> None:
    rows = {(r["axis"], r["value"]): r for r in eight.effects()}
    assert {key: r[VERDICT] for key, r in rows.items()} == {
        ("norm", "post"): "worse",
        ("positions", "none"): "worse",
        ("positions", "sinusoidal"): "equivalent",
    }
    assert rows["norm", "post"][DIFFERENCE] == "\N{MINUS SIGN}2.00", "three, where positions are not left out"
    assert rows["norm", "post"]["cell pairs"] == "6 (3 distinct)"
    assert not any("P(better)" in row for row in rows.values()), "means over a grid are no runs"


def test_an_interaction_is_found(eight: Page) -> None:
    rows = {r["interaction"]: r for r in eight.table("interaction", "Interactions")}
    planted = rows["norm: post \N{MINUS SIGN} pre by positions: none \N{MINUS SIGN} learned"]
    assert (planted[DIFFERENCE], planted[VERDICT]) == ("+3.00", "better")
    assert (
        rows["norm: post \N{MINUS SIGN} pre by positions: sinusoidal \N{MINUS SIGN} learned"][VERDICT] == "equivalent"
    )


def test_every_claim_gets_its_outcome_beside_the_published_number(eight: Page) -> None:
    rows = eight.table("claim", "Claims")
    assert [r["outcome"] for r in rows] == [
        "reproduced in sign, smaller than claimed", "not reproduced, opposite sign", "reproduced", "reproduced"
    ]  # fmt: skip
    assert rows[0]["claimed (points)"] == "\N{MINUS SIGN}6.9" and rows[0][DIFFERENCE] == "\N{MINUS SIGN}3.50"
    assert rows[3][DIFFERENCE] == "0.00" and "post against pre, positions none (source: someone)" in eight.text
    short = eight.text[eight.text.index("In short") : eight.text.index("What ran")]
    claimed = "claimed: \N{MINUS SIGN}6.9 points; found: \N{MINUS SIGN}3.50 points"
    assert f"1 of 4 claims is reproduced in sign, smaller than claimed: none is lower ({claimed}" in short
    assert "1 of 4 claims is not reproduced, opposite sign: none is better (claimed: higher; found" in short
    assert "2 of 4 claims are reproduced: sinusoidal is equal (claimed: equal; found" in short
    place = eight.text[eight.text.index("Claims\n") : eight.text.index("Accuracy\n")]
    assert (
        "smaller than claimed: the difference has the claimed sign, and the claimed size lies outside the int" in place
    )
    assert "by more than the margin of 1 point. Not reproduced, opposite sign: a difference of the other" in place
    assert "What the outcomes of claims mean: see Claims." in short
    assert list(rows[0])[:3] == ["claim", "outcome", "verdict"], "what matters stands where it is seen first"
    assert "none is better" in short


def test_the_numbers_are_in_the_csv(eight: Page) -> None:
    rows = eight.csv("verdicts")
    assert [r["family"] for r in rows] == ["claims"] * 4 + ["effects"] * 3 + ["interactions"] * 2
    worse = next(r for r in rows if r["family"] == "effects" and r["comparison"].startswith("positions: none"))
    assert float(worse["low"]) < float(worse["difference_points"]) < float(worse["high"]) < 0
    assert worse["verdict"] == "worse" and int(worse["n"]) == 8 and float(worse["p"]) == pytest.approx(2 / 12870)


def test_what_is_open_says_how_many_seeds_would_decide_it(tmp_path: Path) -> None:
    """A difference of half a standard deviation, and one that is nearly as large as the margin."""

    def near(cell: CellPlan, seed: int) -> float:
        luck = random.Random(f"{cell.axes}{seed}").gauss(0.0, 1.5)
        return 50.0 + luck + {"learned": 0.0, "none": 0.5, "sinusoidal": -0.5}[cell.axes["positions"]]

    axes = {"positions": AXES["positions"]}
    found = page(tmp_path, seeds=tuple(range(6)), accuracy=near, facts=(), margin=1.5, axes=axes)
    needed = [int(row["seeds_needed"]) for row in found.csv("verdicts")]
    assert {r[VERDICT] for r in found.effects()} <= {"undecided", "underpowered"} and min(needed) > 6
    assert (
        f"2 comparisons are open: were the differences as large as they look, {max(needed)} seeds would decide each 4 "
        "times out of 5; this study has 6."
    ) in found.text
    decided = page(tmp_path / "more", tuple(range(4 * max(needed))), accuracy=near, facts=(), margin=1.5, axes=axes)
    assert "open: were" not in decided.text and "undecided" not in {r[VERDICT] for r in decided.effects()}


def test_too_few_seeds_are_underpowered_and_the_number_that_would_do_is_said(tmp_path: Path) -> None:
    found = page(tmp_path, seeds=(0, 1, 2))
    assert {r[VERDICT] for r in found.effects()} == {"underpowered"}
    assert {r["outcome"] for r in found.table("claim", "Claims")} == {"undecided"}
    assert found.text.count("5 seeds are the fewest") == 1, "with the first table"
    assert (
        "with 3 seeds none can reach p \N{LESS-THAN OR EQUAL TO} 0.05 after correction for 6 comparisons" in found.text
    )
    assert "it may exclude 0 where the verdict is undecided or underpowered" in found.text


def test_two_failed_seeds_make_a_comparison_invalid_and_one_marks_it(tmp_path: Path) -> None:
    def state(lost: tuple[int, ...]):
        def of(cell: CellPlan, kind: str, seed: int) -> tuple[str, str]:
            diverges = cell.axes["positions"] == "none" and cell.axes["norm"] == "post" and seed in lost
            return ("diverged", "loss not finite") if diverges else ("ok", "")

        return of

    two = {r["value"]: r for r in page(tmp_path / "two", state=state((3, 4))).effects()}
    assert (two["none"][VERDICT], two["sinusoidal"][VERDICT]) == ("invalid", "equivalent")
    one = {r["value"]: r for r in page(tmp_path / "one", state=state((3,))).effects()}
    assert one["none"][VERDICT] == "worse" and one["none"]["seeds"] == "7 of 8 †"


def test_named_cells_are_compared_with_the_first(tmp_path: Path) -> None:
    cells = [
        CellPlan("plain", {}),
        CellPlan("without", {"positions": "none"}),
        CellPlan("waves", {"positions": "sinusoidal"}),
    ]
    claim = fact("without", "lower", axis=None, against="plain")
    plan = Plan(cells, seeds=EIGHT, time=False, accuracy=known, margin=1.0, facts=(claim,))
    render_view(View(build(tmp_path / "study", plan)), tmp_path / "report", draw=blank)
    found = read_page(tmp_path / "report")
    verdicts = {r["cell"]: r[VERDICT] for r in found.table("P(better)", 'Cells against "plain"')}
    assert verdicts == {"without": "worse", "waves": "equivalent"}
    assert found.table("claim", "Claims")[0]["outcome"] == "reproduced"


def test_results_of_two_machines_are_judged_apart(tmp_path: Path) -> None:
    from tests.report.builders import CPU

    other = CPU.model_copy(update={"cpu": "Other CPU", "device_name": "Other CPU"})
    found = page(tmp_path, seeds=tuple(range(14)), environment=lambda cell, seed: CPU if seed < 7 else other)
    for machine in ("On cpu A", "On cpu B"):
        rows = found.effects(machine)
        assert {r["axis"] for r in rows} == {"norm", "positions"} and {r["seeds"] for r in rows} == {"7 of 14 †"}


def test_seeds_that_join_after_a_look_are_told(tmp_path: Path) -> None:
    assert "Seeds changed after" not in page(tmp_path, seeds=(0, 1)).text
    text = page(tmp_path, seeds=(0, 1, 2, 3)).text
    assert "Seeds changed after results were seen (after 24 runs): 2, 3 joined" in text


def test_the_page_goes_from_the_answer_to_how_to_do_it_again(tmp_path: Path) -> None:
    plan = factorial(AXES, seeds=(0, 1), accuracy=known, facts=FACTS[:1], modes=("inference",))
    cells = [*plan.cells, CellPlan("named", {"depth": 3})]
    study = build(tmp_path / "study", replace(plan, cells=cells))
    render_view(View(study), tmp_path / "report", draw=blank)
    lines = (tmp_path / "report" / "report.md").read_text(encoding="utf-8").splitlines()
    assert [line.removeprefix("## ") for line in lines if line.startswith("## ")] == [
        "In short", "What ran", "Caveats", "Claims", "Accuracy", "Axis: patching", "Axis: norm", "Axis: positions",
        f'Cells against "{plan.cells[0].label}"', "Interactions", "Throughput, latency and memory",
        "Accuracy against cost", "Learning curves", "What did not run, and why", "Reproduction",
    ]  # fmt: skip


def test_the_answer_says_of_every_value_what_was_found(eight: Page) -> None:
    short = eight.text[eight.text.index("In short") : eight.text.index("What ran")]
    assert short.splitlines()[1] == 'positions: "none" is worse than learned; sinusoidal is equivalent.', (
        "claims number it"
    )
    assert "norm: post is worse than pre by 2.00 points (" in short
    assert (
        "1 of 2 interactions is beyond chance: the effect of post against pre (norm) is 3.00 points higher with none "
        "than with learned (positions; " in short
    )
    order = [short.index(f"{word}: ") for word in ("Equivalent", "Worse", "Undecided") if f"{word}: " in short]
    assert order == sorted(order)
    assert "Equivalent: a difference as large as the margin of 1 point, which the suite sets" in short
    lines = short.splitlines()
    counted = lines.index("12 cells planned; 96 of 96 training runs ok.")
    assert lines[counted + 1].startswith("A range beside a difference is its 95 % interval."), "counts come last"
    assert "Invalid" not in short


def test_every_seed_of_an_effect_is_drawn_and_its_interval_and_the_noise_floor_are_said(tmp_path: Path) -> None:
    def noisy(cell: CellPlan, seed: int) -> float:
        return known(cell, seed) + (0.2 if cell.axes["patching"] == "einops" and seed == 1 else 0.0)

    found = page(tmp_path, accuracy=noisy)
    with (found.folder / "figures" / "effect-of-positions-cpu.csv").open(encoding="utf-8") as stream:
        drawn = [r for r in csv.DictReader(stream) if r["column"] == "every seed" and r["value"] == "none"]
    (row,) = [r for r in found.effects() if r["value"] == "none"]
    assert [r["what"] for r in drawn] == ["point"] * 8 + ["mean", "from", "to"]
    points, (mean, low, high) = [float(r["difference"]) for r in drawn[:8]], [float(r["difference"]) for r in drawn[8:]]
    assert (
        mean == pytest.approx(sum(points) / 8, abs=1e-6)
        and low < min(mean, high)
        and f"{abs(mean):.2f}" in row[DIFFERENCE]
    )
    for axis in AXES:
        below = found.text[found.text.index(f"Axis: {axis}\n") :]
        assert "Noise floor: 0.20 points" in below
    whole = "Noise floor: 0.20 points, the largest difference among 96 runs in 48 groups of exact twins."
    assert found.text.count(whole) == 1
    assert "No verdict: its values are exact twins" in found.text
    by_cell = found.table("95 % interval (%)", "Accuracy")
    assert len(by_cell) == 12 and all(re.fullmatch(r"\d+\.\d to \d+\.\d", r["95 % interval (%)"]) for r in by_cell)


def test_without_twins_the_noise_floor_is_not_known_and_one_seed_has_no_interval(tmp_path: Path) -> None:
    plan = factorial({"norm": ("pre", "post")}, seeds=(0,), time=False)
    render_view(View(build(tmp_path / "study", plan)), tmp_path / "report", draw=blank)
    found = read_page(tmp_path / "report")
    assert "Noise floor: not known. No two finished runs of one seed are exact twins" in found.text
    assert "95 % interval (%)" not in found.table("test accuracy (%)", "Accuracy")[0]
    assert "No effect of an axis can be told from chance: with 1 seed none can reach p" in found.text
    assert "whatever its size; 4 seeds could." in found.text
    with (found.folder / "figures" / "effect-of-norm-cpu.csv").open(encoding="utf-8") as stream:
        assert [r["what"] for r in csv.DictReader(stream)] == ["state", "point"], "no bar over the only seed"


def test_cells_at_chance_are_marked_and_so_are_comparisons_of_two_of_them(tmp_path: Path) -> None:
    """One of three learns: in the table, its numbers, the caveats and the verdicts."""

    def guessed(cell: CellPlan, seed: int) -> float:
        return 10 + (seed % 5 - 2) / 4 + (30 if cell.axes["positions"] == "learned" else 0)

    facts = (fact("none", "lower"), fact("none", "equal", against="sinusoidal", claim="both fail"))
    axes = {"positions": ("learned", "none", "sinusoidal")}
    plan = factorial(axes, seeds=EIGHT, time=False, accuracy=guessed, margin=0.1, facts=facts)
    render_view(View(build(tmp_path / "study", plan)), tmp_path / "report", draw=blank)
    found = read_page(tmp_path / "report")
    assert {r["positions"]: "(at chance)" in r["test accuracy (%)"] for r in found.table("seconds per run")} == {
        "learned": False, "none": True, "sinusoidal": True,
    }  # fmt: skip
    assert {row["cell"]: row["at_chance"] for row in found.csv("accuracy")}["none"] == "True"
    assert "At chance: none, sinusoidal. The 95 % interval of the mean test accuracy" in found.text
    marked = {row["claim"]: "(both at chance)" in row[VERDICT] for row in found.table("claim")}
    assert marked == {"none is lower": False, "both fail": True}
    assert "at chance" not in page(tmp_path / "2").text.lower()


def test_at_chance_is_what_the_most_frequent_class_gives(tmp_path: Path) -> None:
    """Of ten classes, half of the test images in one: 50 % is no more than a guess."""

    def lopsided(values: Values) -> Values:
        return values.model_copy(update={"test_most_common_pct": 50.0}) if isinstance(values, TrainValues) else values

    def accuracy(cell: CellPlan, seed: int) -> float:
        return (50.0 if cell.axes["norm"] == "pre" else 60.0) + (seed % 5 - 2) / 4

    found = page(tmp_path, axes={"norm": ("pre", "post")}, facts=(), accuracy=accuracy, changed=lopsided)
    assert {row["cell"]: row["at_chance"] for row in found.csv("accuracy")} == {"pre": "True", "post": "False"}
