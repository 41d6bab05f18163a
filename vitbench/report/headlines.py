"""The first lines of a report: what was found, as plainly as the numbers allow. Verdicts need their own tests."""

from __future__ import annotations

from typing import Any

import pandas as pd

from vitbench.report import accuracy, explained, fastest, training_speed, verdicts
from vitbench.report.account import KINDS
from vitbench.report.accuracy import MEAN, STD, decimals_of, seeds
from vitbench.report.answers import answers
from vitbench.report.judgements import Place
from vitbench.report.markdown import Md, bullets, escape
from vitbench.report.numbers import fixed, plural, spread
from vitbench.report.view import View

MAX_TASKS = 4
"""Tasks of which the best cell is named."""


def headlines(view: View) -> list[Md]:
    """Blocks: the answer, which are the verdicts in sentences, then the best cells; what ran comes last if all did."""
    said: list[Md] = []
    for device in view.train_devices:
        for origin in view.origins.of(view.train[view.train["device"] == device]):
            on = _on(view, device, origin)
            place = next((p for p in view.places if (p.runs.device, p.runs.origin) == (device, origin)), None)
            said += [*_conclusions(view, place, on), _best(view, device, origin, on)] if place else []
    said += [*fastest.sentences(view), *training_speed.sentences(view), *explained.in_short(view)]
    unfinished = (view.trials["state"] != "ok").any() or not said
    said = [_progress(view), *said] if unfinished else [*said, _progress(view)]
    legend = verdicts.legend(view)
    return [bullets(said), *([Md(legend)] if legend else [])]


def _on(view: View, device: str, origin: str) -> str:
    where = device if len(view.train_devices) > 1 else ""
    which = view.origins.letter(origin) if view.origins.several else ""
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
    """The cell with the highest mean; where axes change what is classified, that of each task."""
    mine = view.by_cell[(view.by_cell["device"] == device) & (view.by_cell["origin"] == origin)]
    if not view.conditions:
        first, near = _first(view, mine)
        said = f"Highest test accuracy{on}: {_shown(view, first)}, {escape(first['cell'])} "
        said += f"(n = {seeds(first['n'], first['planned'])})."
        verb = "is" if near == 1 else "are"
        return Md(f"{said} {plural(near, 'other cell')} {verb} {_as_good(view)}." if near else said)
    tasks = mine.groupby([accuracy.task(view, cell) for cell in mine["cell"]], sort=False)
    parts, near = [], 0
    for task, rows in list(tasks)[:MAX_TASKS]:
        first, others = _first(view, rows)
        near = max(near, others)
        name = " · ".join(v for axis, v in view.values_of(first["cell"]).items() if axis not in view.conditions)
        with_it = f" and {plural(others, 'other')}" if others else ""
        parts.append(f"{escape(task)} {_shown(view, first)} ({escape(name or first['cell'])}{with_it})")
    rest = len(tasks) - len(parts)
    more = f"; and of {plural(rest, 'more task')}" if rest else ""
    as_good = f" The others are {_as_good(view)}." if near else ""
    return Md(f"Highest test accuracy{on} in each task: {'; '.join(parts)}{more}.{as_good}")


def _shown(view: View, row: pd.Series[Any]) -> str:
    return f"{spread(row[MEAN], row[STD], decimals_of(view))} %"


def _first(view: View, mine: pd.DataFrame) -> tuple[pd.Series[Any], int]:
    """The cell with the highest mean of some, and how many others are as good but for the noise floor."""
    first = mine.sort_values(MEAN, ascending=False, kind="stable").iloc[0]
    if view.noise is None:
        return first, 0
    return first, int((mine[MEAN] >= first[MEAN] - view.noise.largest).sum()) - 1


def _as_good(view: View) -> str:
    floor = view.noise.largest if view.noise else 0.0
    return f"within {fixed(floor, 2)} points of it, the noise floor" if floor else "exactly as accurate"


def _conclusions(view: View, place: Place, on: str) -> list[Md]:
    """The claims that were tested; what each axis does; what exact twins differ by."""
    said = []
    if place.claims:
        said += verdicts.outcomes_in_words(view, place.claims, on)
    said += answers(view, place, on)
    twins = view.twin_axes
    if twins and view.noise is not None:
        floor = view.noise.largest
        what = f"differ by up to {fixed(floor, 2)} points in accuracy" if floor else "do not differ in accuracy"
        said.append(Md(f"Exact twins ({', '.join(map(escape, twins))}) {what}."))
    return said
