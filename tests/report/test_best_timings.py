"""What stands out among timings, what is said of all settings at once, and that a colour means one thing."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.report.builders import reference
from vitbench.report.cost import speed
from vitbench.report.cost.beside import beside_baseline, heat_map
from vitbench.report.text import plain, ratio_ends


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
    assert speed.fastest([BASE, *others], "base") == bold


def test_memory_stands_out_where_it_is_counted() -> None:
    lean = row("lean", 1.0, (1.0, 1.0), peak_memory_mib=9.0)
    assert speed.leanest([BASE, lean]) == {"lean"}
    assert speed.leanest([BASE, BASE | {"trial_id": "same", "peak_memory_mib": 10.01}]) == set(), "equal as printed"
    assert speed.leanest([BASE, lean | {"peak_reserved_mib": math.nan}]) == set(), "a resident set is no count"


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(0.958, 0.998, "0.958 to 0.998"), (0.9, 1.1, "0.90 to 1.10"), (1.2, 1.3, "1.20 to 1.30"),
     (0.998, 1.001, "1.00 to 1.00"), (1.0004, 1.1, "1.0004 to 1.1000")],
)  # fmt: skip
def test_an_interval_that_excludes_1_is_seen_to(low: float, high: float, said: str) -> None:
    assert ratio_ends(low, high) == said


def test_the_heat_map_has_every_setting_and_the_ratios_of_the_records() -> None:
    assert heat_map(reference("components-cpu")) is None, "few settings"
    view = reference("attention-timing-cpu")
    found = heat_map(view)
    assert found is not None
    rows = view.time[(view.time["state"] == "ok") & (view.time["attention"] != "sdpa")]
    shapes = [plain(line[0]) for line in found.rows]
    assert len(view.time_groups) == 10 == 2 * len(set(shapes)) == 2 * len(shapes), "a column for each mode"
    # A ratio is as sure as the surer of its two timings at the most, and has a colour only then.
    timed = view.time[view.time["attention"] == "sdpa"].set_index(["level_shape", "mode"])["unstable"]
    unsure = {r["trial_id"] for r in rows.to_dict("records") if r["unstable"] or timed[r["level_shape"], r["mode"]]}
    assert {each.row["trial_id"] for each in beside_baseline(view) if each.unstable} == unsure
    shown = {(shapes[at], column): cell for at, line in enumerate(found.rows) for column, cell in enumerate(line)}
    for each in beside_baseline(view):
        head = f"{each.name}, {each.group.mode_name}"
        column = found.columns.index(head)
        (place,) = [at for at, shape in enumerate(shapes) if speed.shared(view, each.group).startswith(shape)]
        ratio = float(each.row["speed"])
        words = {"undecided": "", "unstable": " ~"}
        assert shown[shapes[place], column] == f"{ratio:.2f}{words.get(each.verdict, f' {each.verdict}')}"
        shade = found.shades.get((place, column))
        assert (shade is None) == each.unstable and (shade is None or (shade > 0) == (ratio > 1))
