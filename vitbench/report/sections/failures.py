"""Failures: trials without a result and why, trials that took several attempts, and what is outside the plan."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from vitbench.analysis.frames import PENDING
from vitbench.report.document import Block, bullets, table
from vitbench.report.inline import Md, escape, listed
from vitbench.report.output import Files
from vitbench.report.text import count, plural
from vitbench.report.view import View

MAX_NAMED = 8
"""Names that a table cell lists before it counts the others."""
MAX_ROWS = 50
"""Rows of a table; the CSV has them all."""
KINDS = {"tune": "tuning", "train": "training", "time": "timing"}


def section(view: View, files: Files) -> list[Block]:
    """Trials that are not ok, retries, excluded combinations, damaged files."""
    blocks = not_run(view)
    if blocks:
        blocks.append(Md(f"Each of them: {files.table('not-run', not_run_frame(view))}."))
    return [*blocks, *retries(view), *left_out(view)]


def not_run(view: View) -> list[Block]:
    """Blocks on every planned trial that is not ok, by state and reason."""
    rows = view.trials[view.trials["state"] != "ok"]
    if rows.empty:
        return []
    lines = []
    for (state, reason), group in rows.groupby(["state", "reason"], sort=False):
        kinds = ", ".join(f"{n} {KINDS[str(k)]}" for k, n in group["kind"].value_counts(sort=False).items())
        why = escape(reason) if reason else Md("no record yet" if state == PENDING else "no reason recorded")
        lines.append({"state": escape(state), "reason": why, "trials": Md(kinds), "cells": _which(view, group)})
    blocks: list[Block] = [table(lines[:MAX_ROWS], right=set())]
    if len(lines) > MAX_ROWS:
        rest = len(lines) - MAX_ROWS
        blocks.append(Md(f"{plural(rest, 'further reason')} {'is' if rest == 1 else 'are'} in tables/not-run.csv."))
    return blocks


def retries(view: View) -> list[Block]:
    """Blocks on trials that took more than one attempt; nothing where none did."""
    again = view.trials[view.trials["attempts"] > 1]
    if again.empty:
        return []
    lines = []
    for row in again.head(MAX_ROWS).to_dict("records"):
        states = [attempt.state for attempt in view.results.tried.get(row["trial_id"], ())]
        what = KINDS[row["kind"]] if pd.isna(row["mode"]) else f"timing, {row['mode']}"
        seed = "" if pd.isna(row["seed"]) else f", seed {row['seed']}"
        cells = {"cell": escape(row["cell"]), "trial": Md(f"{what}{seed}"), "attempts": count(row["attempts"])}
        lines.append(cells | {"states in order": Md(", ".join(states)), "stands": escape(row["state"])})
    blocks: list[Block] = [
        Md(f"{plural(len(again), 'trial')} took more than one attempt:"),
        table(lines, right={"attempts"}),
    ]
    if len(again) > MAX_ROWS:
        blocks.append(Md(f"{len(again) - MAX_ROWS:,} more: see tables/trials.csv."))
    return blocks


def left_out(view: View) -> list[Block]:
    """Blocks on what is not in the plan: excluded combinations, results of an earlier plan, damaged files."""
    blocks: list[Block] = []
    excluded = view.study.info.excluded
    if excluded:
        rules: dict[str, list[str]] = {}
        for label, rule in excluded:
            rules.setdefault(rule, []).append(label)
        lines = [{"rule": escape(rule), "combinations": count(len(labels)), "which": listed(labels, MAX_NAMED)}
                 for rule, labels in rules.items()]  # fmt: skip
        said = f"{plural(len(excluded), 'combination')} cannot be built or tuned, and {_was(excluded)} not trained:"
        blocks += [Md(said), table(lines[:MAX_ROWS], right={"combinations"})]
    planned = set(view.trials["trial_id"].tolist())
    orphans = sum(len(attempts) for trial_id, attempts in view.results.tried.items() if trial_id not in planned)
    if orphans:
        blocks.append(Md(f"{plural(orphans, 'record')} of trials outside the plan, in no table here."))
    if view.damaged:
        said = f"{plural(len(view.damaged), 'record file')} could not be read and {_was(view.damaged)} set aside"
        named = [Md(f"{escape(name)}: {escape(why)}") for name, why in view.damaged[:20]]
        more = [Md(f"{len(view.damaged) - 20:,} more")] if len(view.damaged) > 20 else []
        blocks += [Md(f"{said}; such a trial is run again by the next `vitbench run`:"), bullets([*named, *more])]
    return blocks


def not_run_frame(view: View) -> pd.DataFrame:
    """Every planned trial that is not ok."""
    columns = ["kind", "cell", "seed", "device", "dtype", "batch_size", "mode", "state", "reason", "attempts"]
    return view.trials.loc[view.trials["state"] != "ok", columns]


def _was(items: Sequence[object]) -> str:
    return "was" if len(items) == 1 else "were"


def _which(view: View, group: pd.DataFrame) -> Md:
    """The cells of some trials: all, all with one value of an axis, or by name."""
    mine = set(group["cell"].unique())
    planned = set(view.trials.loc[view.trials["kind"].isin(group["kind"].unique()), "cell"].unique())
    if mine == planned and len(mine) > 1:
        return Md(f"all {len(mine):,} cells")
    if len(mine) > 1:
        for axis, values in view.axes.items():
            for value in values:
                having = {cell for cell in view.cells if view.values_of(cell).get(axis) == value}
                if mine == having & planned:
                    return Md(f"all {len(mine):,} cells with {escape(axis)} = {escape(value)}")
    return listed(list(group["cell"].unique()), MAX_NAMED)
