"""Numbers of a comparison as tables for a spreadsheet: a row for each timing, cell or run of each arm."""

from __future__ import annotations

import math

import pandas as pd

from vitbench.analysis import timings as samples
from vitbench.analysis.grouped import words
from vitbench.analysis.side_by_side import SideBySide, verdict
from vitbench.report.comparisons.comparison_tables import NOT_PLANNED
from vitbench.report.comparisons.forest import accuracy_of


def timings(found: SideBySide) -> pd.DataFrame:
    """Every timing as numbers, a row for each arm."""
    lines = []
    for row in found.timings:
        for arm, timing, base, change in zip(found.arms, row.timings, row.bases, row.changes, strict=True):
            values = timing.values if timing else None
            latency = samples.latency(values) if values else None
            ratio = change.ratio if change else None
            lines.append(
                {
                    "timing": row.label, "arm": arm.letter, "study": arm.name,
                    "state": timing.state if timing else NOT_PLANNED,
                    "latency_ms": latency.estimate if latency else math.nan,
                    "latency_ms_low": latency.low if latency else math.nan,
                    "latency_ms_high": latency.high if latency else math.nan,
                    "images_per_s": values.images_per_s if values else math.nan,
                    "peak_memory_mib": values.peak_memory_mib if values else math.nan,
                    "against": _letter(found, base),
                    "ratio": ratio.estimate if ratio else math.nan,
                    "ratio_low": ratio.low if ratio else math.nan,
                    "ratio_high": ratio.high if ratio else math.nan,
                    "change": change.word if change else "",
                    "equivalent_within": found.margin,
                    "unstable": "; ".join(timing.unstable) if timing else "",
                }
            )  # fmt: skip
    return pd.DataFrame(lines)


def accuracy(found: SideBySide) -> pd.DataFrame:
    """Every cell as numbers, a row for each arm."""
    lines = []
    for row in found.cells:
        for n, (arm, cell, judged) in enumerate(zip(found.arms, row.cells, row.judged, strict=True)):
            estimate = accuracy_of(cell)
            lines.append(
                {
                    "cell": row.label, "arm": arm.letter, "study": arm.name,
                    "states": words(cell.states) if cell else NOT_PLANNED,
                    "seeds": len(cell.runs) if cell else 0,
                    "test_accuracy_pct": estimate.value if estimate else math.nan,
                    "low": estimate.low if estimate else math.nan,
                    "high": estimate.high if estimate else math.nan,
                    "against": _letter(found, row.bases[n]),
                    "paired_seeds": judged.n if judged else 0,
                    "difference_points": judged.mean if judged else math.nan,
                    "difference_low": judged.interval.low if judged else math.nan,
                    "difference_high": judged.interval.high if judged else math.nan,
                    "p": judged.p if judged else math.nan,
                    "p_holm": judged.p_holm if judged else math.nan,
                    "verdict": verdict(judged),
                    "trained_otherwise_in": "; ".join(row.apart[n]),
                }
            )  # fmt: skip
    return pd.DataFrame(lines)


def runs(found: SideBySide) -> pd.DataFrame:
    """Every finished training run as numbers."""
    lines = [
        {"cell": row.label, "arm": arm.letter, "study": arm.name, "seed": seed, "test_accuracy_pct": run.accuracy_pct,
         "images_per_s": run.images_per_s, "peak_memory_mib": run.peak_memory_mib, "seconds": run.seconds}
        for row in found.cells
        for arm, cell in zip(found.arms, row.cells, strict=True)
        for seed, run in (sorted(cell.runs.items()) if cell else ())
    ]  # fmt: skip
    columns = ["cell", "arm", "study", "seed", "test_accuracy_pct", "images_per_s", "peak_memory_mib", "seconds"]
    return pd.DataFrame(lines, columns=columns)


def _letter(found: SideBySide, number: int | None) -> str:
    return "" if number is None else found.arms[number].letter
