"""Figures with a row for each cell: accuracy, timings, training speed. What goes in, and what is said beneath.

Results of different origins never share a mean: accuracy has a panel for each, timings a picture for each.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from vitbench.analysis.summary import ACCURACY, finished
from vitbench.config.suite import BETWEEN
from vitbench.report import accuracy
from vitbench.report.cost import speed
from vitbench.report.cost.time_groups import TimeGroup
from vitbench.report.figures.charts import Panel, Picture, Rows
from vitbench.report.figures.marks import Colouring, Values, is_many, limits, reading
from vitbench.report.numbers import plural
from vitbench.report.origins import of_origin
from vitbench.report.view import View

ROWS_A_PAGE = 60
MAX_PAGES = 4
"""Pages of one figure; cells beyond them are in the tables."""
TIMES = "\N{MULTIPLICATION SIGN}"
MAX_WORDS = 8
"""Cells without a result that a figure shows by their state; of more it says the number instead."""


def accuracy_by_cell(view: View, device: str) -> list[Picture]:
    """Test accuracy of the seeds, a row for each cell, a panel for each origin; nothing without any result."""
    planned = view.judged_runs(device)
    origins = view.origins.of(planned)
    if not origins:
        return []
    results = finished(planned)
    every = [*results[ACCURACY].dropna(), *(end for i in view.intervals(device).values() for end in (i.low, i.high))]
    columns = [_Column(f"test accuracy (%){view.origins.on(o, origins)[0]}", _values(of_origin(results, o), ACCURACY),
                       pd.Series.mean, spans=_intervals(view, device, o)) for o in origins]  # fmt: skip
    several = any(len(values) > 1 for column in columns for values in column.points.values())

    means = " The upright bar is the mean over seeds, the box its 95 % interval." if several else ""
    chart = _Chart(view, columns, limits(every), view.telling)
    ranked = accuracy.ranked_cells(view, device)
    # A cell for which another stands is in its row, whatever rounding made of the first seed.
    lent = [results[results["cell"] == other].assign(cell=cell) for cell, other in view.stood_for.items()]
    alike = pd.concat([results[~results["cell"].isin(view.stood_for)], *lent])
    together = _together(alike, ranked, ACCURACY, {cell: chart.colour_of(cell) for cell in ranked})
    chart = replace(chart, together=together)
    agreeing = "for which one stands" if view.stood_for else "that agree to the last digit"
    shared = f" Exact twins {agreeing} have one row." if together else ""

    def caption(rows: Sequence[Values]) -> str:
        shown = reading(rows, "every seed as a point", "of a cell's seeds")
        return f"Test accuracy on {device}, {shown}.{means}{shared}"

    alt = f"plot of test accuracy by cell on {device}"
    return chart.pages(f"accuracy-{device}", ranked, planned, alt, caption)


def timings(view: View, group: TimeGroup, colour_by: Sequence[str]) -> list[Picture]:
    """Latency, throughput and memory of one group's processes, a row for each cell that has a result.

    Args:
        view: the study.
        group: the timings.
        colour_by: axes, of which the first colours the rows.
    """
    planned = view.timings(group)
    pictures, origins = [], view.origins.of(planned)
    ranked = speed.ranked_cells(view, group)
    for origin in origins:
        on, suffix = view.origins.on(origin, origins)
        mine = of_origin(finished(planned), origin)
        mine = mine[mine["latency_ms_p50"].notna()]
        processes = mine[["trial_id", "cell"]].merge(view.processes, on="trial_id")
        spans = {str(r["cell"]): (r["latency_ms_low"], r["latency_ms_high"]) for r in mine.to_dict("records")}
        labels = {"latency_ms_p50": "latency (ms)", "images_per_s": f"throughput ({group.rate})",
                  "peak_memory_mib": "peak memory (MiB)"}  # fmt: skip
        columns = [
            # Of memory there may be one value, of the process that the variant had for itself.
            _Column(
                label, _values(processes, name) or _values(mine, name),
                middles=dict(zip(mine["cell"], mine[name], strict=True)),
                spans=spans if name == "latency_ms_p50" else {}, from_zero=True,
            )
            for name, label in labels.items()
        ]  # fmt: skip
        title, alone = f"{speed.headed(view, group)}{on}", bool(processes["peak_memory_mib"].isna().all())
        spanned = any(math.isfinite(low) for low, _ in spans.values())

        def caption(rows: Sequence[Values], title: str = title, spanned: bool = spanned, alone: bool = alone) -> str:
            rest = "the upright bar the value in the table"
            rest += "; the box around the latency is its 95 % interval" if spanned else ""
            rest += "; memory is that of one process" if alone else ""
            said = reading(rows, "a point is the median of one process", "of the medians of a cell's processes", rest)
            return f"{title}. {said[:1].upper()}{said[1:]}."

        alt = f"plots of latency, throughput and peak memory by cell: {title}"
        chart = _Chart(view, columns, None, colour_by, speed.called(view, group, ranked), most_words=0)
        pictures += chart.pages(f"timing-{group.slug}{suffix}", ranked, planned, alt, caption)
    return pictures


def training_speed(view: View, device: str, colour_by: Sequence[str]) -> list[Picture]:
    """Throughput and memory of the training runs, a row for each cell; the first of some axes colours them."""
    planned = view.runs(device)
    pictures, origins = [], view.origins.of(planned)
    for origin in origins:
        on, suffix = view.origins.on(origin, origins)
        mine = of_origin(finished(planned), origin)
        labels = {"train_images_per_s": "training throughput (images/s)", "peak_memory_mib": "peak memory (MiB)"}
        columns = [
            _Column(label, _values(mine, name), pd.Series.median, from_zero=True) for name, label in labels.items()
        ]
        order = mine.groupby("cell", sort=False)["train_images_per_s"].median()
        ranked = list(
            dict.fromkeys([*order.sort_values(ascending=False, kind="stable").index, *planned["cell"].unique()])
        )

        def caption(rows: Sequence[Values], on: str = on) -> str:
            said = reading(rows, "a point is one seed", "of a cell's seeds", "the upright bar the median of several")
            return f"Training runs on {device}{on}: {said}."

        alt = f"plots of training throughput and peak memory by cell on {device}{on}"
        chart = _Chart(view, columns, None, colour_by)
        pictures += chart.pages(f"training-{device}{suffix}", ranked, planned, alt, caption)
    return pictures


@dataclass(frozen=True)
class Together:
    """Cells that share a row: what it is called, and their labels."""

    name: str
    cells: Sequence[str]


def _together(
    results: pd.DataFrame, cells: Iterable[str], value: str, colours: Mapping[str, str]
) -> dict[str, Together]:
    """First cell of a row → the cells that share it, of those rows that two cells or more share.

    Args:
        results: finished trials, rows of :func:`vitbench.analysis.frames.trials_frame`.
        cells: in the order of their rows.
        value: column in which equivalent cells of one colour must be equal, seed by seed and origin by origin.
        colours: cell → what colours its row.
    """
    known = results[results[value].notna()]
    of_cell = {
        str(cell): (str(rows["twin"].iloc[0]), *sorted(zip(rows["origin"], rows["seed"], rows[value], strict=True)))
        for cell, rows in known.groupby("cell", sort=False)
    }
    alike: dict[object, list[str]] = {}
    for cell in cells:
        if cell in of_cell:
            alike.setdefault((colours[cell], of_cell[cell]), []).append(cell)
    rows, names = [row for row in alike.values() if len(row) > 1], set[str]()
    found = {}
    for row in rows:
        name = next(name for name in (_shared(row), row[0]) if name and name not in names)
        names.add(name)
        found[row[0]] = Together(f"{name} ({TIMES} {len(row)} twins)", row)
    return found


def _shared(labels: Sequence[str]) -> str:
    """The parts that the labels of some cells share; empty where the labels have different numbers of parts."""
    parts = [label.split(BETWEEN) for label in labels]
    if len({len(each) for each in parts}) > 1:
        return ""
    return BETWEEN.join(one for one, *others in zip(*parts, strict=True) if all(other == one for other in others))


@dataclass(frozen=True)
class _Column:
    """One quantity over all cells: its single values, and what stands for them.

    Attributes:
        label: of the axis, with the unit.
        points: cell → every value; a cell without any is absent.
        middle: what stands for several values; used where ``middles`` is empty.
        middles: cell → the value that stands for it, where it was not made from the points.
        spans: cell → ends of a bar.
        from_zero: times, rates and sizes are compared by ratio, and their axis begins at zero.
    """

    label: str
    points: Mapping[str, npt.NDArray[np.float64]]
    middle: Callable[[pd.Series[float]], float] | None = None
    middles: Mapping[str, float] | None = None
    spans: Mapping[str, tuple[float, float]] | None = None
    from_zero: bool = False

    def panel(self, cells: Sequence[str], ends: tuple[float, float] | None) -> Panel:
        """The column for the cells of one page."""
        middles = [self._middle(cell) for cell in cells]
        spans = [self.spans.get(cell, (math.nan, math.nan)) for cell in cells] if self.spans else ()
        return Panel(self.label, [self.points.get(cell, []) for cell in cells], middles, spans, ends or self._limits())

    def _middle(self, cell: str) -> float:
        if self.middles is not None:
            return self.middles.get(cell, math.nan)
        values = self.points.get(cell, np.zeros(0))
        return float(self.middle(pd.Series(values))) if len(values) and self.middle else math.nan

    def _limits(self) -> tuple[float, float] | None:
        spans = [np.ravel([*(self.spans or {}).values()])]
        every = np.concatenate([*self.points.values(), [*(self.middles or {}).values()], *spans])
        return limits(every, floor=0.0 if self.from_zero else None)


@dataclass(frozen=True)
class _Chart:
    """Columns over the same rows, in as many pages as it takes.

    Attributes:
        view: the study.
        columns: what is shown.
        ends: of every x axis; None: each column has its own.
        colour_by: axes, of which the first colours the rows.
        called: cell → name of its row, where that is not its label.
        most_words: rows without a result that are drawn all the same, with the word for it.
        together: first cell of a row → the cells that share it.
    """

    view: View
    columns: Sequence[_Column]
    ends: tuple[float, float] | None
    colour_by: Sequence[str]
    called: Mapping[str, str] = field(default_factory=dict)
    most_words: int = MAX_WORDS
    together: Mapping[str, Together] | None = None

    def pages(
        self, name: str, ranked: Sequence[str], planned: pd.DataFrame, alt: str,
        caption: Callable[[Sequence[Values]], str],
    ) -> list[Picture]:  # fmt: skip
        """The pictures: those of the ranked cells that have a result, and a word for the few that have none.

        Args:
            name: of the file, less the page.
            ranked: cells, in the order of the rows.
            planned: the trials that were to give the results.
            alt: what is shown, after the word for how.
            caption: how the rows of a page are to be read.
        """
        together = self.together or {}
        shared = {cell for row in together.values() for cell in row.cells[1:]}
        ranked = [cell for cell in ranked if cell not in shared]
        have = {cell for column in self.columns for cell in (*column.points, *(column.middles or {}))}
        words = {cell: "" if cell in have else word for cell, word in self.view.origins.missing(planned).items()}
        without, absent = Counter(words[cell] for cell in ranked if words[cell]), ""
        if without.total() > self.most_words:
            ranked = [cell for cell in ranked if not words[cell]]
            absent = f" Not drawn, for want of a result: {', '.join(f'{n} {word}' for word, n in without.items())}."
        colouring = self._colouring(have)
        pages = [ranked[start : start + ROWS_A_PAGE] for start in range(0, len(ranked), ROWS_A_PAGE)]
        drawn = pages[:MAX_PAGES]
        rest = len(ranked) - sum(map(len, drawn))
        pictures = []
        for number, page in enumerate(drawn, 1):
            which = f" (page {number} of {len(drawn)})" if len(drawn) > 1 else ""
            last = rest and number == len(drawn)
            more = f" The {plural(rest, 'cell')} after these are in the table alone." if last else ""
            suffix = f"-{number}" if len(drawn) > 1 else ""
            rows = [column.points[cell] for column in self.columns for cell in page if cell in column.points]
            how = "Range" if rows and all(map(is_many, rows)) else "Dot"
            said = f"{caption(rows)}{absent}{which}{more}"
            names = [together[cell].name if cell in together else self.called.get(cell, cell) for cell in page]
            chart = self._rows(page, names, words, colouring)
            pictures.append(Picture(f"{name}{suffix}", chart, f"{how} {alt}{which}", said))
        return pictures

    def _rows(self, cells: Sequence[str], names: Sequence[str], words: Mapping[str, str], colouring: Colouring) -> Rows:
        panels = [column.panel(cells, self.ends) for column in self.columns]
        return Rows(names, panels, [words[cell] for cell in cells], [*map(self.colour_of, cells)], colouring)

    @property
    def _axis(self) -> str:
        """The axis that colours the rows: the first; empty for none."""
        return self.colour_by[0] if self.view.factorial and self.colour_by else ""

    def colour_of(self, cell: str) -> str:
        """The value that colours a row."""
        return self.view.values_of(cell).get(self._axis, "")

    def _colouring(self, have: Collection[str]) -> Colouring:
        """The first axis colours the rows; its values that no row with a result has are not in the legend."""
        if not self._axis:
            return Colouring()
        shown, values = {self.colour_of(cell) for cell in have}, self.view.axes[self._axis]
        return Colouring(self.view.axis_names[self._axis], values, [value for value in values if value in shown])


def _values(rows: pd.DataFrame, name: str) -> dict[str, npt.NDArray[np.float64]]:
    """Cell → its values of a column, those that are missing left out."""
    known = rows[rows[name].notna()]
    return {str(cell): values.to_numpy(np.float64) for cell, values in known.groupby("cell", sort=False)[name]}


def _intervals(view: View, device: str, origin: str) -> dict[str, tuple[float, float]]:
    """Cell → ends of the interval of its mean over the seeds of an origin."""
    return {cell: (i.low, i.high) for (cell, of), i in view.intervals(device).items() if of == origin}


def axis_slugs(view: View) -> dict[str, str]:
    """Axis → its name as part of a file's, none of them twice."""
    found: dict[str, str] = {}
    for axis in view.axes:
        slug = re.sub(r"[^A-Za-z0-9]+", "-", axis).strip("-")
        found[axis] = slug if slug and slug not in found.values() else f"{slug}-{len(found) + 1}".strip("-")
    return found
