"""Failures: trials without a result and why, trials that took several attempts, and what is outside the plan."""

from collections import Counter
from collections.abc import Iterator

import pandas as pd

from vitbench.analysis.frames import PENDING
from vitbench.report.document import Block, Bullets, table
from vitbench.report.output import Files
from vitbench.report.sections.setup import KINDS
from vitbench.report.text import Md, count, cut, escape, listed
from vitbench.report.view import View

NOT_RUN = ["kind", "cell", "seed", "device", "dtype", "batch_size", "mode", "state", "reason", "attempts"]
MAX_ROWS = 50  # Rows of a table; the CSV has them all


def section(view: View, files: Files) -> Iterator[Block]:
    """Trials that are not ok, retries, excluded combinations, damaged files."""
    rows = view.trials[view.trials["state"] != "ok"]
    if len(rows):
        yield from (*not_run(view, rows), Md(f"Each of them: {files.table('not-run', rows[NOT_RUN])}."))
    yield from (*retries(view), *left_out(view))


def not_run(view: View, rows: pd.DataFrame) -> list[Block]:
    """Blocks on the planned trials that are not ok, by state and reason."""
    lines = []
    for (state, reason), group in rows.groupby(["state", "reason"], sort=False):
        every = Counter(view.trials.loc[view.trials["cell"].isin(group["cell"]), "kind"])
        numbers = [(KINDS[kind], n, every[kind]) for kind, n in Counter(group["kind"]).items()]
        kinds = ", ".join(f"{n}{f' of {of}' if of > n else ''} {name}" for name, n, of in numbers)
        why = escape(reason) if reason else Md("no record yet" if state == PENDING else "no reason recorded")
        lines.append({"state": escape(state), "reason": why, "trials": Md(kinds), "cells": _which(view, group)})
    return [table(lines[:MAX_ROWS], right=set()), *cut(len(lines), MAX_ROWS, "reason")]


def retries(view: View) -> list[Block]:
    """Blocks on trials that took more than one attempt, but for those that somebody stopped; nothing where none did."""
    states_of = {trial_id: [attempt.state for attempt in tried] for trial_id, tried in view.results.tried.items()}
    failed = {i for i, states in states_of.items() if len(states) > 1 and {*states} - {"ok", "interrupted"}}
    again = view.trials[view.trials["trial_id"].isin(failed)]
    lines = []
    for row in again.head(MAX_ROWS).to_dict("records"):
        states = states_of[row["trial_id"]]
        what = KINDS[row["kind"]] if pd.isna(row["mode"]) else f"timing, {row['mode']}"
        seed = "" if pd.isna(row["seed"]) else f", seed {row['seed']}"
        cells = {"cell": escape(row["cell"]), "trial": Md(f"{what}{seed}"), "attempts": count(row["attempts"])}
        lines.append(cells | {"states in order": Md(", ".join(states)), "counted": escape(row["state"])})
    caption = f"Trials with more than one attempt: {len(again):,}."
    return [table(lines, {"attempts"}, caption=caption), *cut(len(again), MAX_ROWS, "trial")] if lines else []


def left_out(view: View) -> Iterator[Block]:
    """Blocks on what is not in the plan: excluded combinations, results of an earlier plan, damaged files."""
    rules: dict[str, list[str]] = {}
    for label, rule in view.study.info.excluded:
        rules.setdefault(rule, []).append(label)
    lines = [{"rule": escape(rule), "combinations": count(len(labels)), "which": listed(labels)}
             for rule, labels in rules.items()]  # fmt: skip
    if lines:
        caption = f"Combinations that cannot be built or tuned, and are left out: {len(view.study.info.excluded):,}."
        yield table(lines[:MAX_ROWS], right={"combinations"}, caption=caption)
    planned = set(view.trials["trial_id"].tolist())
    if orphans := sum(len(attempts) for trial_id, attempts in view.results.tried.items() if trial_id not in planned):
        yield Md(f"Records of trials outside the plan, in no table here: {orphans:,}.")
    if view.damaged:
        yield Md(f"Record files that could not be read and are set aside: {len(view.damaged):,}. The next "
                 "`vitbench run` runs their trials again.")  # fmt: skip
        yield Bullets([Md(f"{escape(name)}: {escape(why)}") for name, why in view.damaged[:MAX_ROWS]])


def _which(view: View, group: pd.DataFrame) -> Md:
    """The cells of some trials: all, all with one value of an axis, or by name."""
    names = list(group["cell"].unique())
    planned = set(view.trials.loc[view.trials["kind"].isin(group["kind"].unique()), "cell"].unique())
    if len(names) > 1:
        if set(names) == planned:
            return Md(f"all {len(names):,} cells")
        for (axis, value), having in view.cells_with.items():
            if set(names) == having & planned:
                return Md(f"all {len(names):,} cells with {escape(axis)} = {escape(value)}")
    return listed(names)
