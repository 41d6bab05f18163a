"""Throughput and memory of the training runs themselves, by cell over seeds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from vitbench.report.accuracy import seeds
from vitbench.report.cell_tables import bare
from vitbench.report.cost.speed import MEMORY, SPEED
from vitbench.report.document import Block, table
from vitbench.report.markdown import NOTHING, Md, bold, escape
from vitbench.report.numbers import count, measured, significant, spread
from vitbench.report.origins import states_of
from vitbench.report.view import MAX_CELLS, View

STATE, SEEDS = "state", "seeds"
STEP, FIRST_STEP, OF_PEAK = "step p50 (ms)", "first step (ms)", "of peak (%)"
TOGETHER = "seeds in a program"
EPOCH, WHOLE, WARM_UP = "epoch (images/s)", "trial (images/s)", "warm-up (s)"

EXTRA: Mapping[str, Callable[[float, float], Md]] = {
    WARM_UP: measured,
    OF_PEAK: lambda share, std: spread(100.0 * share, 100.0 * std, 1),
    TOGETHER: lambda seeds, _: count(seeds),
}
"""Columns of training that not every run has, and how a median and its standard deviation are written there."""

CONSTANT: Mapping[str, Callable[[Md], str]] = {
    STATE: lambda state: "all are ok" if state == "ok" else f"of all of them {state}",
    SEEDS: lambda n: "one seed each" if n == "1" else f"{n} seeds each",
    TOGETHER: lambda n: f"{n} seeds in a program",
}
"""Columns that say nothing where every row has the same, and what is said instead."""

Row = Mapping[Any, Any]


def about(view: View, device: str) -> Md:
    """What the columns of the table by cell are."""
    mine = view.cost_by_cell[view.cost_by_cell["device"] == device]
    rows = view.runs(device)
    said = (
        "Images/s of the training runs themselves: of the median step, of the epochs with the loading of their data, "
    )
    said += "and of the whole trial, its evaluation and all else"
    if (rows["preparation_seconds"] > 0).any():
        said += (
            ": there what comes before a run's own epochs, such as pre-training, counts with its time, and not with "
        )
        said += "its images"
    if (mine["stacked"] > 1).any():
        said += "; where seeds are trained as one program, the images of all of them"
    if (rows["warm_up_seconds"] > 0).any():
        said += ". Warm-up is what the first steps took longer than the others: compiling, choosing kernels, allocating"
    several = bool((mine["n"] > 1).any())
    parts = [f"{said}.", *(["Medians over seeds ± standard deviation."] if several else [])]
    return Md(" ".join([*parts, *([_of_memory(rows, device)] if len(mine) else [])]))


def _of_memory(rows: pd.DataFrame, device: str) -> str:
    """What peak memory is on a device, and what differences it cannot tell."""
    if device == "cuda":
        return "Peak memory is what torch had allocated at most, less what it held before the model was built."
    said = "Peak memory is by how much the process's resident set grew from before the model was built, with libraries "
    said += "that are loaded at first use"
    of_cells = rows[rows["state"] == "ok"].groupby(["cell", "origin"], sort=False)["peak_memory_mib"]
    apart = float((of_cells.max() - of_cells.min()).max()) if (of_cells.size() > 1).any() else math.nan
    if math.isfinite(apart):
        said += (
            f": runs of one cell differ in it by up to {significant(apart)} MiB here, and as much between two cells "
        )
        return f"{said}says nothing."
    return f"{said}: a few MiB tell nothing."


def by_cell(view: View, device: str) -> list[Block]:
    """Blocks: throughput and memory of the training runs, a row for each planned cell, and what all of them share."""
    rows = view.runs(device)
    found = {(r["cell"], r["origin"]): r for r in view.cost_by_cell.to_dict("records") if r["device"] == device}
    states, origins, missing = states_of(rows), view.origins.of(rows), view.origins.missing(rows)
    speed = {cell: max((found[cell, o]["train_images_per_s"] for o in origins if (cell, o) in found), default=-1)
             for cell in states}  # fmt: skip
    best = {o: _best([r for (_, where), r in found.items() if where == o]) for o in origins}
    marked = view.contention(device).alone
    asked = {WARM_UP: "warm_up_seconds", OF_PEAK: "of_peak", TOGETHER: "stacked"}
    least = {WARM_UP: 0.0, OF_PEAK: 0.0, TOGETHER: 2.0}  # a value that is missing is no less than that, and no more
    some = [name for name, key in asked.items() if any(result[key] >= least[name] for result in found.values())]
    lines = []
    for cell in sorted(states, key=lambda c: -speed[c])[:MAX_CELLS]:
        line = {**view.identity(cell), STATE: escape(states[cell])}
        for origin in origins or ["none"]:
            on = f"{view.origins.letter(origin)}: " if len(origins) > 1 else ""
            result = found.get((cell, origin))
            if result is None:
                line |= {f"{on}{SEEDS}": Md("0"), f"{on}{SPEED}": escape(missing[cell])}
                line |= {f"{on}{name}": NOTHING for name in (EPOCH, WHOLE, STEP, FIRST_STEP, *some, MEMORY)}
                continue
            shown = _rate(result, "train_images_per_s")
            columns = {
                SEEDS: seeds(result["n"], result["planned"]),
                SPEED: bold(shown) if marked and cell == best[origin] else shown,
                EPOCH: _rate(result, "epoch_images_per_s"),
                WHOLE: _rate(result, "trial_images_per_s"),
                STEP: measured(result["step_ms_p50"], result["step_ms_p50_std"]),
                FIRST_STEP: measured(result["first_step_ms"], result["first_step_ms_std"]),
                **{name: EXTRA[name](result[asked[name]], result[f"{asked[name]}_std"]) for name in some},
                MEMORY: significant(result["peak_memory_mib"]),
            }
            line |= {f"{on}{name}": value for name, value in columns.items()}
        lines.append(line)
    said = _taken_out(lines, view)
    right = {name for line in lines for name in line} - {"cell", STATE, *view.axis_names.values()}
    return [Md(f"By cell, the fastest first{''.join(f'; {each}' for each in said)}."), table(lines, right)]


def _best(rows: Sequence[Row]) -> str | None:
    """The cell that is so far ahead that its ± does not reach that of the next; None where there is no such."""
    first, *others = sorted(rows, key=lambda row: -row["train_images_per_s"])
    if not others:
        return None
    ahead = first["train_images_per_s"] - others[0]["train_images_per_s"]
    # Of one run there is no deviation: it is NaN, and nothing is more than that.
    return str(first["cell"]) if ahead > first["train_images_per_s_std"] + others[0]["train_images_per_s_std"] else None


def _taken_out(lines: Sequence[dict[str, Md]], view: View) -> list[str]:
    """What every row with a result has in common, in words; the columns that say it are taken out of the rows.

    A row without a result says why not in the column of its speed.
    """
    said = []
    axes = set(view.axis_names.values())
    with_result = [line for line in lines if any(bare(name) == STEP and line[name] != NOTHING for name in line)]
    for name, words in CONSTANT.items():
        where = {column for line in lines for column in line if column not in axes and bare(column) == name}
        values = {line[column] for line in with_result for column in where if line.get(column, Md("0")) != "0"}
        if len(values) == 1:
            value = values.pop()
            said += [words(value)] if len(with_result) == len(lines) or name != STATE else []
            for line, column in itertools.product(lines, where):
                line.pop(column, None)
    return said


def _rate(result: Row, name: str) -> Md:
    """Images per second over seeds, whole."""
    return spread(result[name], result[f"{name}_std"], 0)
