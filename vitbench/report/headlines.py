"""The first lines of a report: what was found, as plainly as the numbers allow. Verdicts need their own tests."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pandas as pd

from vitbench.analysis.summary import finished
from vitbench.report import speed, verdicts
from vitbench.report.account import KINDS
from vitbench.report.accuracy import MEAN, STD, decimals_of, seeds
from vitbench.report.answers import answers
from vitbench.report.markdown import Md, bullets, escape
from vitbench.report.numbers import count, fixed, spread
from vitbench.report.view import Place, TimeGroup, View, of_origin, plural

MAX_GROUPS = 6
"""Groups of timings that have a line of their own."""
FEWEST_GROUPS = 3
"""Groups of timings from which it is counted which cells are the fastest."""
MAX_NAMED = 4


def headlines(view: View) -> list[Md]:
    """Blocks: the answer, which are the verdicts in sentences, then the best cells; what ran comes last if all did."""
    said: list[Md] = []
    for device in view.train_devices:
        for origin in view.origins(view.train[view.train["device"] == device]):
            on = _on(view, device, origin)
            place = next((p for p in view.places if (p.runs.device, p.runs.origin) == (device, origin)), None)
            said += [*_conclusions(view, place, on), _best(view, device, origin, on)] if place else []
    said += _fastest_of_all(view)
    for group in view.time_groups[:MAX_GROUPS]:
        said += _fastest(view, group)
    unfinished = (view.trials["state"] != "ok").any() or not said
    said = [_progress(view), *said] if unfinished else [*said, _progress(view)]
    legend = verdicts.legend(view)
    return [bullets(said), *([Md(legend)] if legend else [])]


def _on(view: View, device: str, origin: str) -> str:
    where = device if len(view.train_devices) > 1 else ""
    which = view.letter(origin) if len(view.environments) > 1 else ""
    return f" on {' '.join(filter(None, (where, which)))}" if where or which else ""


def _progress(view: View) -> Md:
    parts = []
    for kind, name in KINDS.items():
        states = view.trials.loc[view.trials["kind"] == kind, "state"]
        if len(states):
            noun = plural(len(states), name if kind == "time" else f"{name} run")
            parts.append(f"{(states == 'ok').sum():,} of {noun} ok")
    cells = plural(len(view.cells), "cell")
    waiting = len(view.study.info.untuned)
    more = f" The training of {plural(waiting, 'cell')} waits for its tuning." if waiting else ""
    claims = view.study.info.facts
    untested = f" None of {plural(len(claims), 'claim')} could be tested yet." if claims and not view.places else ""
    return Md(f"{cells} planned; {', '.join(parts) or 'no trial'}.{more}{untested}")


def _best(view: View, device: str, origin: str, on: str) -> Md:
    mine = view.by_cell[(view.by_cell["device"] == device) & (view.by_cell["origin"] == origin)]
    first = mine.sort_values(MEAN, ascending=False, kind="stable").iloc[0]
    shown = spread(first[MEAN], first[STD], decimals_of(view))
    said = f"Highest test accuracy{on}: {shown} %, {escape(first['cell'])} (n = {seeds(first['n'], first['planned'])})."
    if view.noise is not None and len(mine) > 1:
        near = int((mine[MEAN] >= first[MEAN] - view.noise.largest).sum()) - 1
        if near:
            floor = fixed(view.noise.largest, 2) if view.noise.largest else ""
            verb = "is" if near == 1 else "are"
            where = f"within {floor} points of it, the noise floor" if floor else "exactly as accurate"
            said += f" {plural(near, 'other cell')} {verb} {where}."
    return Md(said)


def _conclusions(view: View, place: Place, on: str) -> list[Md]:
    """The claims that were tested; what each axis does; what exact twins differ by."""
    said = []
    if place.claims:
        said += verdicts.outcomes_in_words(view, place.claims, on)
    said += answers(view, place, on)
    twins = view.twin_axes
    if twins and view.noise is not None:
        what = f"up to {fixed(view.noise.largest, 2)} points" if view.noise.largest else "nothing"
        said.append(Md(f"Exact twins ({', '.join(map(escape, twins))}) differ by {what} in accuracy."))
    return said


def _fastest_of_all(view: View) -> list[Md]:
    """What is the fastest of a group of timings, by in how many groups it is."""
    first = Counter(name for group in view.time_groups if (name := _first(view, group)))
    if first.total() < FEWEST_GROUPS:
        return []
    named = [f"{escape(name)} in {number}" for name, number in first.most_common(MAX_NAMED)]
    more = f" and {len(first) - MAX_NAMED:,} others" if len(first) > MAX_NAMED else ""
    return [Md(f"Fastest, of {first.total()} settings that were timed: {', '.join(named)}{more}.")]


def _first(view: View, group: TimeGroup) -> str:
    """The fastest of a group of timings; empty where results of several origins, or too few, cannot tell."""
    rows = finished(view.timings(group))
    mine = rows[rows["latency_ms_p50"] > 0].sort_values("latency_ms_p50", kind="stable")
    if len(mine) < 2 or mine["origin"].nunique() > 1:
        return ""
    cell, axes = str(mine["cell"].iloc[0]), speed.axes_of(view, group)
    return " · ".join(view.values_of(cell)[axis] for axis in axes) if view.factorial and axes else cell


def _fastest(view: View, group: TimeGroup) -> list[Md]:
    said = []
    rows = view.timings(group)
    for origin in view.origins(rows):
        base = speed.baseline(view, group, origin)
        mine = of_origin(finished(rows), origin)
        mine = mine[mine["latency_ms_p50"] > 0]
        if base is None or len(mine) < 2:
            continue
        first = mine.sort_values("latency_ms_p50", kind="stable").iloc[0]
        on = f" on {view.letter(origin)}" if len(view.environments) > 1 else ""
        against = "the baseline itself" if first["cell"] == base["cell"] else (
            f"{_times(first, base)} as fast as the baseline, {escape(base['cell'])}")  # fmt: skip
        said.append(Md(f"Fastest ({escape(group.title)}{on}): {escape(first['cell'])} with "
                       f"{count(first['images_per_s'])} images/s, {against}."))  # fmt: skip
    return said


def _times(first: pd.Series[Any], base: Mapping[str, Any]) -> str:
    """How many times as fast: with the interval where both were timed side by side, and a word where it holds 1."""
    if not math.isfinite(first["speed"]):
        return f"{fixed(float(base['latency_ms_p50']) / float(first['latency_ms_p50']), 2)} times"
    doubt = "" if first["speed_low"] > 1 else ", which may be noise"
    return (
        f"{fixed(first['speed'], 2)} times ({fixed(first['speed_low'], 2)} to {fixed(first['speed_high'], 2)}{doubt})"
    )
