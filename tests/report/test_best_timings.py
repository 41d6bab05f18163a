"""What stands out among timings, what is said of all settings at once, and that a colour means one thing."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.report.builders import charts_of
from tests.report.markdown import written
from vitbench.report.cost import best, costs, speed, timing_overview
from vitbench.report.document import mentions
from vitbench.report.figures.charts import Forest, Roofline, Rows
from vitbench.report.files import Files
from vitbench.report.markdown import Md
from vitbench.report.view import View
from vitbench.store import Study

REFERENCE = REPOSITORY / "results" / "reference"


def row(name: str, latency: float, speeds: tuple[float, float], **changes: Any) -> dict[str, Any]:
    low, high = speeds
    values = {"trial_id": name, "latency_ms_p50": latency, "unstable": "", "speed_low": low, "speed_high": high}
    return {**values, "peak_memory_mib": 10.0, "peak_reserved_mib": 16.0, **changes}


BASE = row("base", 10.0, (math.nan, math.nan))


@pytest.mark.parametrize(
    ("others", "bold"),
    [
        ([row("fast", 5.0, (1.9, 2.1)), row("slow", 20.0, (0.4, 0.6))], {"fast"}),
        ([row("near", 9.9, (0.97, 1.05)), row("slow", 20.0, (0.4, 0.6))], {"near", "base"}),
        ([row("near", 9.9, (0.97, 1.05))], set()),  # nothing is behind
        ([row("wide", 5.0, (1.9, 2.1), unstable="a reason"), row("slow", 20.0, (0.4, 0.6))], {"base"}),
        ([row("alone", 5.0, (math.nan, math.nan))], set()),  # how far it may be luck is not known
        ([], set()),
    ],
)
def test_what_cannot_be_told_from_the_fastest_stands_out_with_it(others: list[dict[str, Any]], bold: set[str]) -> None:
    assert best.fastest([BASE, *others], "base") == bold


def test_memory_stands_out_where_it_is_counted() -> None:
    lean = row("lean", 1.0, (1.0, 1.0), peak_memory_mib=9.0)
    assert best.leanest([BASE, lean]) == {"lean"}
    assert best.leanest([BASE, BASE | {"trial_id": "same", "peak_memory_mib": 10.01}]) == set(), "equal as printed"
    assert best.leanest([BASE, lean | {"peak_reserved_mib": math.nan}]) == set(), "a resident set is no count"


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(0.958, 0.998, "0.958 to 0.998"), (0.9, 1.1, "0.90 to 1.10"), (1.2, 1.3, "1.20 to 1.30"),
     (0.998, 1.001, "1.00 to 1.00"), (1.0004, 1.1, "1.0004 to 1.1000")],
)  # fmt: skip
def test_an_interval_that_excludes_1_is_seen_to(low: float, high: float, said: str) -> None:
    assert speed.ends(low, high) == said


@pytest.mark.parametrize("name", ["attention-timing-cpu", "components-cpu"])
def test_a_colour_means_one_thing_in_the_section_of_costs(name: str) -> None:
    view = View(Study.read(REFERENCE / name))
    charts = charts_of(view)
    blocks = costs.throughput(view, Files())
    coloured = [
        chart for chart in charts if isinstance(chart, Roofline) or (isinstance(chart, Rows) and len(chart.panels) > 1)
    ]
    assert len(coloured) > 1 and {chart.colouring.title for chart in coloured} == {"attention"}
    # Each of these is explained where it stands for something, and nothing else is.
    terms = written(blocks[0])
    assert "**~**" in terms and "**Peak memory**: on the CPU" in terms and "GPU" not in terms
    assert ("**Attention core**" in terms) == name.startswith("attention")
    assert "**In bold**" in terms, "timings of both were made side by side"
    assert not mentions(blocks, Md("sdpa · CIFAR")), "what all rows of a table share is said above it"
    assert not [chart for chart in charts if isinstance(chart, Rows) and len(chart.panels) > 1 and any(chart.words)], (
        "the table has the words"
    )


def test_the_overview_has_every_setting_and_the_ratios_of_the_records() -> None:
    view = View(Study.read(REFERENCE / "attention-timing-cpu"))
    found = timing_overview.overview(view, speed.telling(view))
    assert found is not None and found.picture is not None and isinstance(found.picture.chart, Forest)
    chart, rows = found.picture.chart, view.time[view.time["state"] == "ok"]
    assert len(chart.names) == len(view.time_groups) == 10 == len(set(chart.names))
    drawn = {(round(e.value, 9), round(e.low, 9), round(e.high, 9)) for arm in chart.arms.values() for e in arm if e}
    others = rows[rows["attention"] != "sdpa"][["speed", "speed_low", "speed_high"]]
    assert drawn == {tuple(round(float(value), 9) for value in each) for each in others.itertuples(index=False)}
    assert (
        written(found.table).count("unsupported") == 5
        and "Without any result: sdpa_efficient, sdpa_cudnn, triton." in found.said
    )
    # A ratio is as sure as the surer of its two timings at the most.
    bases = rows[rows["attention"] == "sdpa"].set_index(["level_shape", "mode"])["unstable"]
    marked = [
        r["unstable"] or bases[r["level_shape"], r["mode"]] for r in rows.to_dict("records") if r["attention"] != "sdpa"
    ]
    assert len(re.findall(r"\) ~ +\|", written(found.table))) == sum(map(bool, marked)) > 0


def test_few_settings_have_no_overview() -> None:
    view = View(Study.read(REFERENCE / "components-cpu"))
    assert timing_overview.overview(view, speed.telling(view)) is None
