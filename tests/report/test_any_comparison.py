"""Whatever the records of some studies hold, they are compared as a page, or it is said why not: never a traceback."""

import random
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.report.builders import CPU, GPU, Plan, build
from tests.report.markdown import read_page
from tests.report.test_any_records import EXAMPLES, SETTINGS, check_html, plans
from vitbench.analysis.side_by_side import side_by_side
from vitbench.analysis.sides import ComparisonError
from vitbench.report.comparisons.comparison import render_comparison
from vitbench.report.figures.charts import Chart, Drawn
from vitbench.store.record import STATES

NEWER = CPU.model_copy(update={"cpu": "another processor", "packages": {"torch": "3.0.0"}, "dirty": True})


@st.composite
def sets(draw: st.DrawFn) -> list[Plan]:
    """Studies to compare: one, others like it on other machines or of other recipes, and others that share nothing."""
    plan = draw(plans())
    if not plan.seeds and not plan.time and draw(st.booleans()):
        plan = replace(plan, seeds=(0, 1))  # else it plans nothing, and there is nothing to compare
    others = draw(st.lists(st.sampled_from(["like it", "like it", "like it", "another"]), max_size=2))
    return [plan, *(draw(plans()) if kind == "another" else draw(like(plan)) for kind in others)]


@st.composite
def like(draw: st.DrawFn, plan: Plan) -> Plan:
    """Studies of some of a plan's cells, with other seeds, states, machines, budgets and timings."""
    chance = random.Random(draw(st.integers(0, 1000)))
    states = draw(st.lists(st.sampled_from(["ok", "ok", "ok", "pending", *STATES]), min_size=1, max_size=4))
    train, time = draw(st.sampled_from([(True, True), (True, False), (False, True)]))
    places = draw(st.lists(st.sampled_from([None, CPU, NEWER, GPU]), min_size=1, max_size=3))
    return replace(
        plan, cells=plan.cells[: draw(st.integers(1, 12))], seeds=tuple(range(draw(st.integers(1, 3)))),
        state=lambda cell, kind, seed: (chance.choice(states), "why"), environment=lambda *_: chance.choice(places),
        device=draw(st.sampled_from(["cpu", "cuda"])), epochs=draw(st.integers(1, 3)), train=train,
        time=time, margin=draw(st.sampled_from([None, 1.0])), levels=draw(st.sampled_from([
            plan.levels, ("model", "attention")])),
        accuracy=draw(st.sampled_from([None, lambda cell, seed: 40.0])),
    )  # fmt: skip


def check(out: Path) -> None:
    """Check what is true of every comparison."""
    page = read_page(out)
    assert not re.search(r"\b(nan|None|NaT|inf)\b", page.text)
    check_html(out, page)


def compare_all(studies: Sequence[Plan], draw: Callable[[Chart], Drawn]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = [build(folder / f"study {n}", plan).path for n, plan in enumerate(studies)]
        try:
            comparison = side_by_side(paths)
        except ComparisonError as error:
            assert str(error)
            return
        page = render_comparison(comparison, folder / "page", draw)
        check(page.parent)
        assert comparison.summaries(0.05) is not None
        again = render_comparison(side_by_side(paths), folder / "again", draw)
        assert again.read_bytes() == page.read_bytes()


@pytest.mark.parametrize(("draw", "examples"), EXAMPLES)
def test_any_studies_are_compared_or_it_is_said_why_not(draw: Callable[[Chart], Drawn], examples: int) -> None:
    @given(studies=sets())
    @settings(SETTINGS, max_examples=examples)
    def compared(studies: list[Plan]) -> None:
        compare_all(studies, draw)

    compared()
