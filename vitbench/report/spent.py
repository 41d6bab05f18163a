"""Spent: what the runs of a study were given, what they took, and when."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pandas as pd

from vitbench.report.markdown import Md
from vitbench.report.numbers import count, significant
from vitbench.report.view import View
from vitbench.spec.recipe import TrainSpec

A_MINUTE, AN_HOUR = 60.0, 3600.0


def budget(view: View, recipes: list[TrainSpec]) -> Md:
    """What a run is given, what that is in steps and operations, and what all runs took."""
    images = list(dict.fromkeys(recipe.images for recipe in recipes))
    epochs = list(dict.fromkeys(recipe.epochs for recipe in recipes if recipe.images is None))
    given = [f"{_range(epochs)} {'epoch' if epochs == [1] else 'epochs'}"] if epochs else []
    given += [f"{_range([n for n in images if n is not None])} images"] if any(images) else []
    said = f"{' or '.join(given)} a run"
    done = view.train[view.train["state"] == "ok"]
    of_cells = view.by_cell[["steps", "train_flops"]].dropna()
    if len(of_cells):
        said += f"; {_range(of_cells['steps'].tolist())} steps, {_spent(of_cells['train_flops'])} TFLOP"
    if (seconds := float(done["seconds"].sum())) > 0:
        said += f"; those that finished add up to {duration(seconds)}"
    return Md(said)


def duration(seconds: float) -> str:
    """Hours, minutes or seconds, whichever says it in the fewest digits."""
    if seconds >= AN_HOUR:
        return f"{significant(seconds / AN_HOUR)} hours"
    return f"{significant(seconds / A_MINUTE)} minutes" if seconds >= A_MINUTE else f"{significant(seconds)} seconds"


def _range(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{count(low)}" if low == high else f"{count(low)} to {count(high)}"


def _spent(flops: pd.Series[float]) -> str:
    low, high = (significant(float(end) / 1e12) for end in (flops.min(), flops.max()))
    return f"{low}" if low == high else f"{low} to {high}"


def dates(view: View) -> Md | None:
    """When the trials were begun, by their records; None where there are none."""
    moments = [_utc(attempt.started_at) for attempts in view.results.tried.values() for attempt in attempts]
    if not moments:
        return None
    first, last = (f"{moment:%Y-%m-%d %H:%M}" for moment in (min(moments), max(moments)))
    return Md(f"{first} UTC" if first == last else f"{first} to {last} UTC (starts of the first and last trial)")


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
