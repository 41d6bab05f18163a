"""Verdicts and claims as a reader of the report finds them, from records whose effects are known."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.report.builders import CPU, GPU, CellPlan, Plan, Values, build, factorial, page_of, written
from tests.report.markdown import Archetypes, Page, read_page
from vitbench.config.suite import Hypothesis
from vitbench.report.text import MINUS
from vitbench.report.view import View
from vitbench.store import TrainValues

pytestmark = pytest.mark.xdist_group("verdict_report")  # what its fixtures run is run once

DIFFERENCE, VERDICT = "difference (points)", "verdict"
AXES = {"patching": ("conv", "einops"), "norm": ("pre", "post"), "positions": ("learned", "none", "sinusoidal")}
EIGHT = tuple(range(8))


def known(cell: CellPlan, seed: int) -> float:
    """No positions cost 5 points, and post-norm 3 where there are positions; sinusoids are as good, within noise."""
    noise = ((seed * 7) % 5 - 2) / 10
    value = 50.0 + seed % 3 / 20
    value -= 5.0 - noise if cell.axes.get("positions") == "none" else 0.0
    value -= noise / 2 if cell.axes.get("positions") == "sinusoidal" else 0.0
    return value - (3.0 if cell.axes.get("norm") == "post" and cell.axes.get("positions") != "none" else 0.0)


def fact(value: str, expected: str, **changes: object) -> Hypothesis:
    given = {"claim": f"{value} is {expected}", "axis": "positions", "value": value, "against": "learned",
             "expected": expected, "source": "someone", **changes}  # fmt: skip
    return Hypothesis.model_validate(given)


PLANTED: dict[str, Any] = {"time": False, "accuracy": known, "margin": 1.0}
FACTS = (
    fact("none", "lower", size=-6.9),
    fact("none", "higher", claim="none is better"),
    fact("sinusoidal", "equal"),
    fact("post", "equal", axis="norm", against="pre", where={"positions": "none"}, claim="the same without positions"),
)


def report(folder: Path, seeds: tuple[int, ...] = EIGHT, axes: Mapping[str, tuple[str, ...]] = AXES, **of: Any) -> Page:
    return page_of(folder, factorial(axes, seeds=seeds, **{**PLANTED, "facts": FACTS, **of}))


@pytest.fixture(scope="module")
def eight(tmp_path_factory: pytest.TempPathFactory) -> Page:
    return report(tmp_path_factory.mktemp("eight"))


def test_each_effect_has_its_verdict_and_equivalent_implementations_have_none(eight: Page) -> None:
    rows = {(r["axis"], r["value"]): r for r in eight.effects()}
    assert {key: r[VERDICT] for key, r in rows.items()} == {
        ("norm", "post"): "worse",
        ("positions", "none"): "worse",
        ("positions", "sinusoidal"): "equivalent",
    }
    assert rows["norm", "post"][DIFFERENCE] == f"{MINUS}2.00", "three, where positions are not left out"
    assert rows["norm", "post"]["pairs of cells"] == "6 (3 distinct)"
    assert not any("P(better)" in row for row in rows.values()), "means over a grid are no runs"


def test_an_interaction_is_found(eight: Page) -> None:
    planted, other = eight.table("together")
    assert planted["together"] == "post × none"
    assert planted["interaction"] == "norm by positions, against pre and learned"
    assert (planted[DIFFERENCE], planted[VERDICT], other[VERDICT]) == ("+3.00", "better together", "equivalent")


def test_every_claim_gets_its_outcome_beside_the_published_number(eight: Page) -> None:
    rows = eight.table("claim")
    assert [r["outcome"] for r in rows] == [
        "reproduced in sign, smaller than claimed", "not reproduced, opposite sign", "reproduced", "reproduced"
    ]  # fmt: skip
    assert (rows[0]["claimed (points)"], rows[0][DIFFERENCE]) == (f"{MINUS}6.9", f"{MINUS}3.50")
    assert rows[3][DIFFERENCE] == "0.00" and rows[3]["compared"] == "norm post against pre, positions none"
    assert list(rows[0])[:3] == ["claim", "outcome", "verdict"], "what matters stands where it is seen first"


def test_the_numbers_are_in_the_csv_and_so_is_each_seed(eight: Page) -> None:
    rows = eight.csv("verdicts")
    assert [r["family"] for r in rows] == ["claims"] * 4 + ["effects"] * 3 + ["interactions"] * 2
    worse = next(r for r in rows if r["family"] == "effects" and r["comparison"].startswith("positions: none"))
    assert float(worse["low"]) < float(worse["difference_points"]) < float(worse["high"]) < 0
    assert worse["verdict"] == "worse" and int(worse["n"]) == 8 and float(worse["p"]) == pytest.approx(2 / 12870)
    seeds: dict[tuple[str, str], list[float]] = {}
    for row in eight.csv("effects-by-seed"):
        seeds.setdefault((row["family"], row["comparison"]), []).append(float(row["difference_points"]))
    assert {key: pytest.approx(sum(differences) / 8) for key, differences in seeds.items()} == {
        (row["family"], row["comparison"]): float(row["difference_points"]) for row in rows
    }


def test_what_is_open_says_how_many_seeds_would_decide_it(tmp_path: Path) -> None:
    """A difference of half a standard deviation, and one that is nearly as large as the margin."""

    def near(cell: CellPlan, seed: int) -> float:
        luck = random.Random(f"{cell.axes}{seed}").gauss(0.0, 1.5)
        return 50.0 + luck + {"learned": 0.0, "none": 0.5, "sinusoidal": -0.5}[cell.axes["positions"]]

    plan = {"accuracy": near, "facts": (), "margin": 1.5, "axes": {"positions": AXES["positions"]}}
    page = report(tmp_path, seeds=tuple(range(6)), **plan)
    needed = [int(row["seeds_needed"]) for row in page.csv("verdicts")]
    assert {r[VERDICT] for r in page.effects()} <= {"undecided", "underpowered"} and min(needed) > 6
    assert "Open: 2 comparisons" in page.text and f"{max(needed)} seeds a cell would decide all" in page.text
    # Arms that vary unlike have a larger p than power reckons with: no number that these seeds already have.
    plan["accuracy"] = lambda cell, seed: 65.0 + 6.5 * seed if cell.axes["positions"] == "none" else 50.0 + 0.5 * seed
    unlike = report(tmp_path / "unlike", (0, 1, 2, 3), **{**plan, "axes": {"positions": ("learned", "none")}})
    assert "1 comparison undecided or underpowered." in unlike.text
    plan["accuracy"] = near
    decided = report(tmp_path / "more", tuple(range(4 * max(needed))), **plan)
    assert "Open:" not in decided.text and "undecided" not in {r[VERDICT] for r in decided.effects()}


def test_what_each_device_leaves_open_is_counted(tmp_path: Path) -> None:
    for device, environment, spread in (("cpu", CPU, 6.0), ("cuda", GPU, 1.2)):

        def near(cell: CellPlan, seed: int, spread: float = spread) -> float:
            higher = cell.axes["positions"] == "none"
            return 40.0 + higher + spread * (-1.0, 1.0, -0.5, 0.5)[(seed + 2 * higher) % 4]

        plan = factorial({"positions": ("learned", "none")}, seeds=(0, 1, 2, 3), accuracy=near, device=device,
                         environment=lambda cell, seed, known=environment: known, time=False)  # fmt: skip
        study = build(tmp_path / "study", plan)
    needed = [max(row.judged.seeds_needed or 0 for row in of.effects) for of in View(study).conclusions]
    page = read_page(written(study, tmp_path / "report").parent)
    assert len(needed) == 2 and "Open: 2 comparisons" in page.text
    assert f"{max(needed)} seeds a cell would decide all" in page.text


def test_named_cells_are_compared_with_the_first(tmp_path: Path) -> None:
    chosen = {"plain": {}, "without": {"positions": "none"}, "waves": {"positions": "sinusoidal"}}
    claim = fact("without", "lower", axis=None, against="plain")
    cells = [CellPlan(name, axes) for name, axes in chosen.items()]
    page = page_of(tmp_path, Plan(cells, seeds=EIGHT, facts=(claim,), **PLANTED))
    expected = {"without": "worse", "waves": "equivalent"}
    assert {r["cell"]: r[VERDICT] for r in page.table("P(better)", "Named cells")} == expected
    by_cell = {r["cell"]: r for r in page.table("test accuracy (%)", "Accuracy")}
    assert {name: row[VERDICT] for name, row in by_cell.items()} == {"plain": "n/a", **expected}
    assert by_cell["without"][DIFFERENCE] == f"{MINUS}5.00"
    assert page.table("outcome")[0]["outcome"] == "reproduced"


def test_one_seed_has_no_interval_and_shows_nothing(archetypes: Archetypes) -> None:
    page = archetypes("one-seed")
    assert {row["95 % interval (%)"] for row in page.table("test accuracy (%)", "Accuracy")} == {"n/a"}
    assert {(r["verdict"], r["low"], r["p_holm"]) for r in page.csv("verdicts")} == {("underpowered", "", "")}
    assert "At least 5 seeds are needed" in page.text


def test_cells_at_chance_are_marked_and_so_are_comparisons_of_two_of_them(tmp_path: Path) -> None:
    """One of three learns: in the table, its numbers, the caveats and the verdicts."""

    def guessed(cell: CellPlan, seed: int) -> float:
        return 10 + (seed % 5 - 2) / 4 + (30 if cell.axes["positions"] == "learned" else 0)

    facts = (fact("none", "lower"), fact("none", "equal", against="sinusoidal", claim="both fail"))
    page = report(tmp_path, axes={"positions": AXES["positions"]}, accuracy=guessed, margin=0.1, facts=facts)
    at_chance = {"learned": False, "none": True, "sinusoidal": True}
    by_cell = page.table("test accuracy (%)", "Accuracy")
    assert {row["positions"]: "(at chance)" in row["test accuracy (%)"] for row in by_cell} == at_chance
    assert {row["cell"]: row["at_chance"] == "True" for row in page.csv("accuracy")} == at_chance
    assert "At chance: none, sinusoidal." in page.text
    marked = {row["claim"]: "(both at chance)" in row[VERDICT] for row in page.table("claim")}
    assert marked == {"none is lower": False, "both fail": True}
    short = page.text[page.text.index("Summary") : page.text.index("Effects")]
    assert short.count("(both at chance)") == 1, "with the claim"
    assert "at chance" not in report(tmp_path / "2").text.lower()


def test_two_seeds_far_above_a_guess_are_not_at_chance(tmp_path: Path) -> None:
    """Their interval reaches down to it, as that of any two seeds; their test images tell that something is learned."""

    def accuracy(cell: CellPlan, seed: int) -> float:
        return (50.0 + 10 * seed) if cell.axes["norm"] == "pre" else 5.0 + 10 * seed

    page = report(tmp_path, axes={"norm": ("pre", "post")}, facts=(), accuracy=accuracy, seeds=(0, 1))
    rows = page.csv("accuracy")
    assert all(float(row["test_accuracy_pct_low"]) < 10 for row in rows)
    assert {row["cell"]: row["at_chance"] for row in rows} == {"pre": "False", "post": "True"}


def test_at_chance_is_what_the_most_frequent_class_gives(tmp_path: Path) -> None:
    """Half of the test images are in one of ten classes: 50 % is no more than a guess."""

    def lopsided(values: Values) -> Values:
        return values.model_copy(update={"test_most_common_pct": 50.0}) if isinstance(values, TrainValues) else values

    def accuracy(cell: CellPlan, seed: int) -> float:
        return (50.0 if cell.axes["norm"] == "pre" else 60.0) + (seed % 5 - 2) / 4

    page = report(tmp_path, axes={"norm": ("pre", "post")}, facts=(), accuracy=accuracy, changed=lopsided)
    assert {row["cell"]: row["at_chance"] for row in page.csv("accuracy")} == {"pre": "True", "post": "False"}
