"""Throughput and memory of the training runs themselves, in a table: medians over seeds with their deviation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from vitbench.report.accuracy import seeds
from vitbench.report.markdown import NOTHING, Md, bold, escape, table
from vitbench.report.numbers import count, measured, significant, spread
from vitbench.report.origins import states_of
from vitbench.report.speed import MEMORY, SPEED
from vitbench.report.view import MAX_CELLS, View

STEP, FIRST_STEP, OF_PEAK = "step p50 (ms)", "first step (ms)", "of peak (%)"
TOGETHER = "seeds in a program"
EPOCH, WHOLE, WARM_UP = "epoch (images/s)", "trial (images/s)", "warm-up (s)"

EXTRA: Mapping[str, Callable[[float, float], Md]] = {
    WARM_UP: measured,
    OF_PEAK: lambda share, std: spread(100.0 * share, 100.0 * std, 1),
    TOGETHER: lambda seeds, _: count(seeds),
}
"""Columns of training that not every run has, and how a median and its standard deviation are written there."""


def by_cell(view: View, device: str) -> Md:
    """Throughput and memory of the training runs themselves, a row for each planned cell."""
    rows = view.train[view.train["device"] == device]
    found = {(r["cell"], r["origin"]): r for r in view.by_cell.to_dict("records") if r["device"] == device}
    states, origins, missing = states_of(rows), view.origins.of(rows), view.origins.missing(rows)
    speed = {cell: max((found[cell, o]["train_images_per_s"] for o in origins if (cell, o) in found), default=-1)
             for cell in states}  # fmt: skip
    best = {o: max(r["train_images_per_s"] for (_, where), r in found.items() if where == o) for o in origins}
    asked = {WARM_UP: "warm_up_seconds", OF_PEAK: "of_peak", TOGETHER: "stacked"}
    least = {WARM_UP: 0.0, OF_PEAK: 0.0, TOGETHER: 2.0}  # a value that is missing is no less than that, and no more
    some = [name for name, key in asked.items() if any(result[key] >= least[name] for result in found.values())]
    lines = []
    for cell in sorted(states, key=lambda c: -speed[c])[:MAX_CELLS]:
        line = {**view.identity(cell), "state": escape(states[cell])}
        for origin in origins or ["none"]:
            on = f"{view.origins.letter(origin)}: " if len(origins) > 1 else ""
            result = found.get((cell, origin))
            if result is None:
                line |= {f"{on}seeds": Md("0"), f"{on}{SPEED}": escape(missing[cell])}
                line |= {f"{on}{name}": NOTHING for name in (EPOCH, WHOLE, STEP, FIRST_STEP, *some, MEMORY)}
                continue
            shown = _rate(result, "train_images_per_s")
            fastest = result["train_images_per_s"] >= best[origin] and len(found) > 1
            columns = {
                "seeds": seeds(result["n"], result["planned"]),
                SPEED: bold(shown) if fastest else shown,
                EPOCH: _rate(result, "epoch_images_per_s"),
                WHOLE: _rate(result, "trial_images_per_s"),
                STEP: measured(result["step_ms_p50"], result["step_ms_p50_std"]),
                FIRST_STEP: measured(result["first_step_ms"], result["first_step_ms_std"]),
                **{name: EXTRA[name](result[asked[name]], result[f"{asked[name]}_std"]) for name in some},
                MEMORY: significant(result["peak_memory_mib"]),
            }
            line |= {f"{on}{name}": value for name, value in columns.items()}
        lines.append(line)
    return table(lines, right={name for line in lines for name in line} - {"cell", "state", *view.axis_names.values()})


def _rate(result: Mapping[Any, Any], name: str) -> Md:
    """Images per second over seeds, whole."""
    return spread(result[name], result[f"{name}_std"], 0)
