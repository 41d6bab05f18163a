"""The first lines of a report: what was found, as plainly as the numbers allow. Verdicts need their own tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from vitbench.report import accuracy
from vitbench.report.accuracy import MEAN, STD, decimals_of, seeds
from vitbench.report.circumstances.account import KINDS
from vitbench.report.cost import fastest
from vitbench.report.document import Block, bullets
from vitbench.report.findings import legends, outcomes
from vitbench.report.findings.answers import SHOWN, answers, opening
from vitbench.report.findings.judgements import Place
from vitbench.report.markdown import Md, escape, listed
from vitbench.report.models import explained
from vitbench.report.numbers import fixed, plural, spread
from vitbench.report.view import View

MAX_TASKS = 4
"""Tasks of which the best cell is named."""
MAX_NAMED = 8
"""Names of what cannot run."""
SAME = "cells that compute the same function from the same weights"
"""What exact twins are, for the first sentence that speaks of them."""


def headlines(view: View) -> list[Block]:
    """Blocks: the answer, which are the verdicts in sentences, then the best cells; what ran is counted last."""
    said: list[Md] = []
    for device in view.train_devices:
        for origin in view.origins.of(view.runs(device)):
            on = _on(view, device, origin)
            place = next((p for p in view.places if (p.runs.device, p.runs.origin) == (device, origin)), None)
            said += [*_conclusions(view, place, on), _best(view, place, on)] if place else []
    said += [*fastest.sentences(view), *explained.in_short(view)]
    said += [*_untested(view), _progress(view)]
    return [bullets(said), *legends.legend(view)]


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


def _untested(view: View) -> list[Md]:
    """What of the plan cannot run where it was asked to, so that nothing that is expected of it is tested."""
    states = view.trials.groupby("cell", sort=False)["state"].unique()
    without = {str(cell) for cell, found in states.items() if set(found) == {"unsupported"}}
    if not without:
        return []
    named, single, rest = [], len(without) == 1, set(without)
    for axis, values in view.axes.items():
        having = {value: {cell for cell in view.cells if view.values_of(cell)[axis] == value} for value in values}
        lost = [value for value, cells in having.items() if cells and cells <= without]
        if lost:
            named.append(f"{escape(view.axis_names[axis])} {listed(lost, MAX_NAMED)}")
            rest -= {cell for value in lost for cell in having[value]}
            single = single or len(lost) == 1
    if rest:
        named.append(listed(sorted(rest, key=view.cells.index), MAX_NAMED))
    devices = listed(list(view.trials.loc[view.trials["cell"].isin(without), "device"].unique()), MAX_NAMED)
    which, whose = ("which does", "it") if single and len(named) == 1 else ("which do", "them")
    is_open = f", so that what is expected of {whose} stays open" if view.study.info.suite.expected else ""
    return [Md(f"Not tested here: {' and '.join(named)}, {which} not run on {devices}{is_open}.")]


def _best(view: View, place: Place, on: str) -> Md:
    """The cell with the highest mean; where axes change what is classified, that of each task."""
    found = view.by_cell
    mine = found[(found["device"] == place.runs.device) & (found["origin"] == place.runs.origin)]
    mine = mine.sort_values(MEAN, ascending=False, kind="stable")
    if not view.conditions:
        first, near = mine.iloc[0], _near(view, mine)
        said = f"Highest test accuracy{on}: {_shown(view, first)}, {escape(first['cell'])} "
        said += f"(n = {seeds(first['n'], first['planned'])})."
        beyond = mine.iloc[1 + len(near) :]
        return Md(f"{said}{_beside(view, first['cell'], near)}{_next(view, place, first, beyond)}")
    tasks = mine.groupby(mine["cell"].map(lambda cell: accuracy.task(view, cell)), sort=False)
    order = {accuracy.task(view, cell): None for cell in view.cells}
    parts, several = [], False
    for task, rows in sorted(tasks, key=lambda each: list(order).index(str(each[0])))[:MAX_TASKS]:
        first, near = rows.iloc[0], _near(view, rows)
        several = several or bool(near)
        name = " · ".join(v for axis, v in view.values_of(first["cell"]).items() if axis not in view.conditions)
        with_it = f" and {plural(len(near), 'other')}" if near else ""
        parts.append(f"{escape(task)} {_shown(view, first)} ({escape(name or first['cell'])}{with_it})")
    rest = len(tasks) - len(parts)
    more = f"; and of {plural(rest, 'more task')}" if rest else ""
    floor = view.noise.largest if view.noise else 0.0
    alike = (
        f"no more than {fixed(floor, 2)} points below the highest of their task, {_floor(view)}"
        if floor
        else "exactly as accurate"
    )
    as_good = f" The others that are counted are {alike}." if several else ""
    return Md(f"Highest test accuracy{on} in each task: {'; '.join(parts)}{more}.{as_good}")


def _shown(view: View, row: pd.Series[Any]) -> str:
    return f"{spread(row[MEAN], row[STD], decimals_of(view))} %"


def _near(view: View, mine: pd.DataFrame) -> list[str]:
    """Of cells in the order of their means those that are as good as the first but for the noise floor."""
    floor = view.noise.largest if view.noise else 0.0
    return [str(cell) for cell in mine.loc[mine[MEAN] >= mine[MEAN].iloc[0] - floor, "cell"].iloc[1:]]


def _beside(view: View, first: str, near: Sequence[str]) -> str:
    """The cells that are as good as the first: as its exact twins, and as others."""
    twins = sum(view.twins[cell] == view.twins[first] for cell in near)
    others, floor = len(near) - twins, view.noise.largest if view.noise else 0.0
    how = f"within {fixed(floor, 2)} points of it, {_floor(view)}" if floor else "exactly as accurate, by chance"
    said = [f"{plural(twins, 'other cell')} {'is' if twins == 1 else 'are'} exact twins of it"] if twins else []
    said = [said[0].replace("is exact twins", "is an exact twin")] if twins == 1 else said
    noun = f"{others:,} more" if twins else plural(others, "other cell")
    said += [f"{noun} {'is' if others == 1 else 'are'} {how}"] if others else []
    return f" {', and '.join(said)}." if said else ""


def _next(view: View, place: Place, first: pd.Series[Any], beyond: pd.DataFrame) -> str:
    """The best of the cells that are not as good, and whether any comparison sets the two against each other."""
    if beyond.empty:
        return ""
    second = beyond.iloc[0]
    both = {view.twins[first["cell"]], view.twins[second["cell"]]}
    tested = [j.words for j in place.judged if {view.twins[cell] for cell in j.comparison.cells} == both]
    if not tested:
        known = "; the two were not tested against each other"
    else:
        known = "" if tested[0] in SHOWN else f"; the verdict on their difference: **{tested[0]}**"
    return f" The next, {escape(second['cell'])}: {_shown(view, second)}{known}."


def _floor(view: View) -> str:
    """The noise floor by its name, with what it is where no sentence before has told that."""
    return "the noise floor" if view.twin_axes else f"the noise floor, by which exact twins ({SAME}) differ at most"


def _conclusions(view: View, place: Place, on: str) -> list[Md]:
    """What each axis does, with the claims that were tested; what exact twins differ by."""
    said = opening(view, place, on)
    if place.claims:
        said += outcomes.in_words(view, place.claims, on)
    said += answers(view, place, on)
    twins = view.twin_axes
    if twins and view.noise is not None:
        floor = view.noise.largest
        what = f"differ by up to {fixed(floor, 2)} points in accuracy" if floor else "do not differ in accuracy"
        named = " and ".join(escape(view.axis_names[axis]) for axis in twins)
        said.append(Md(f"Exact twins, {SAME} (here by their {named}), {what}."))
    return said
