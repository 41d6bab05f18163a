"""Pictures of a comparison: ratios of timings to the first study's, test accuracy by cell, a mark for each arm."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from vitbench.analysis.arms import Arm, Trained
from vitbench.analysis.comparison import within
from vitbench.analysis.paired import interval
from vitbench.analysis.side_by_side import CellRow, SideBySide, TimingRow
from vitbench.config.trial import TimeTrial
from vitbench.report.figures.charts import Estimate, Forest, Picture
from vitbench.report.numbers import plural

Row = TypeVar("Row")

ROWS_A_PAGE = 40
MAX_PAGES = 4
"""Pages of one picture; rows beyond them are in the tables."""


def arm_name(arm: Arm) -> str:
    """An arm's letter and name."""
    return f"{arm.letter}: {arm.name}"


def ratios(found: SideBySide) -> list[Picture]:
    """Latency of each arm over that of its counterpart, a row for each timing that both have; none without any."""
    rows = [row for row in found.timings if any(change and change.ratio for change in row.changes)]

    def estimate(row: TimingRow, number: int) -> Estimate | None:
        change = row.changes[number]
        if change is None or change.ratio is None:
            return None
        return Estimate(change.ratio.estimate, change.ratio.low, change.ratio.high)

    others = [n for n in range(1, len(found.arms)) if any(estimate(row, n) for row in rows)]
    if not others:
        return []
    bases = {base for row in rows for n in others if estimate(row, n) and (base := row.bases[n]) is not None}
    # One for all is named once, else each arm's name says over what its ratios are.
    single = found.arms[bases.pop()].letter if len(bases) == 1 else None
    first = found.arms[others[0]].letter
    under = next(found.arms[base].letter for row in rows
                 if estimate(row, others[0]) and (base := row.bases[others[0]]) is not None)  # fmt: skip
    than = f"latency, × that of {single}" if single else f"latency ratio, such as {first}/{under}"

    def page(shown: Sequence[TimingRow]) -> Forest:
        who = {n: arm_name(found.arms[n]) if single else f"{found.over(n)}: {found.arms[n].name}" for n in others}
        arms = {who[n]: [estimate(row, n) for row in shown] for n in others}
        return Forest([names[id(row)] for row in shown], arms, f"{than} (to the right: slower)", others, ends,
                      neutral=1.0, band=within(found.margin), logarithmic=True)  # fmt: skip

    ends = _ends([estimate(row, n) for row in rows for n in others], neutral=1.0)
    names = dict(zip(map(id, rows), _short([_parts(row) for row in rows]), strict=True))
    letters = " and ".join(found.arms[n].letter if single else found.over(n) for n in others)
    alt = f"Forest plot of the latency of {letters} over that of {single}" if single else f"Forest plot of {letters}"
    of = f"Latency over that of {single}" if single else (
        f"Latency of the arm before the slash over that of the arm after it ({first}/{under}: that of {first} over "
        f"that of {under})"
    )  # fmt: skip
    ends_of_band = " to ".join(f"{end:.3f}" for end in within(found.margin))
    caption = (
        f"{of}, timing by timing; the line is the 95 % interval, which holds the noise of both. Left of 1 is faster. "
        f"The band is the margin, {ends_of_band}, within which a whole interval lies where two timings are equivalent. "
        "The axis is logarithmic. The table below names each timing in full."
    )
    return _pages("latency-ratios", rows, page, alt, caption)


def accuracies(found: SideBySide) -> list[Picture]:
    """Test accuracy by cell, a mark for each arm; none where fewer than two arms have any."""
    columns = [[accuracy_of(row.cells[n]) for row in found.cells] for n in range(len(found.arms))]
    having = [n for n, column in enumerate(columns) if any(column)]
    if len(having) < 2:
        return []
    rows = [row for row, *estimates in zip(found.cells, *columns, strict=True) if any(estimates)]

    ends = _ends([each for column in columns for each in column])

    def page(shown: Sequence[CellRow]) -> Forest:
        arms = {arm_name(found.arms[n]): [accuracy_of(row.cells[n]) for row in shown] for n in having}
        return Forest([row.label for row in shown], arms, "test accuracy (%)", having, ends)

    several = any(cell and len(cell.runs) > 1 for row in rows for cell in row.cells)
    caption = "Test accuracy by cell. " + (
        "The mark is the mean over seeds, the line its 95 % interval, the small rings are seeds."
        if several
        else "One seed each: nothing tells luck from effect."
    )
    letters = " and ".join(found.arms[n].letter for n in having)
    return _pages("accuracy", rows, page, f"Test accuracy by cell of {letters}", caption)


def accuracy_of(cell: Trained | None) -> Estimate | None:
    """Mean test accuracy over seeds, percent, with its 95 % interval; None where there is no result."""
    if cell is None or not cell.runs:
        return None
    values = [run.accuracy_pct for _, run in sorted(cell.runs.items())]
    width = interval(values)
    return Estimate(math.fsum(values) / len(values), width.low, width.high, values if len(values) > 1 else ())


def _parts(row: TimingRow) -> list[str]:
    """What tells a timing from others, as far as it goes: the cell first, then its setting."""
    trial = row.planned.trial
    assert isinstance(trial, TimeTrial)
    part = "" if trial.level == "model" else f"{trial.level} ({trial.shape})"
    return [row.cell, trial.mode, part, f"batch {trial.batch_size}", trial.dtype]


def _short(timings: Sequence[list[str]]) -> list[str]:
    """Names of timings without what it does not take to tell them apart; the caption's table has them whole."""
    kept = list(range(len(timings[0]))) if timings else []
    for place in reversed(kept[1:]):
        fewer = [each for each in kept if each != place]
        if len({tuple(parts[n] for n in fewer) for parts in timings}) == len(timings):
            kept = fewer
    return [", ".join(parts[n] for n in kept if parts[n]) for parts in timings]


def _ends(estimates: Sequence[Estimate | None], neutral: float = math.nan) -> tuple[float, float] | None:
    """Smallest and largest of all that is drawn; None where nothing is."""
    values = [value for e in estimates if e for value in (e.value, e.low, e.high, *e.points)]
    finite = [value for value in (*values, neutral) if math.isfinite(value)]
    return (min(finite), max(finite)) if finite else None


def _pages(
    name: str, rows: Sequence[Row], page: Callable[[Sequence[Row]], Forest], alt: str, caption: str
) -> list[Picture]:
    pages = [rows[start : start + ROWS_A_PAGE] for start in range(0, len(rows), ROWS_A_PAGE)]
    drawn, pictures = pages[:MAX_PAGES], []
    rest = len(rows) - sum(map(len, drawn))
    for number, shown in enumerate(drawn, 1):
        which = f" (page {number} of {len(drawn)})" if len(drawn) > 1 else ""
        more = f" {plural(rest, 'row')} after these are in the table alone." if rest and number == len(drawn) else ""
        suffix = f"-{number}" if len(drawn) > 1 else ""
        pictures.append(Picture(f"{name}{suffix}", page(shown), f"{alt}{which}", f"{caption}{which}{more}"))
    return pictures
