"""Explore: one page with every run and every timing as a line across its settings and values, to brush and reorder.

plotly draws it, and is in the page: it opens without a network.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

import pandas as pd

from vitbench.analysis.frames import axes_of
from vitbench.report.view import View

if TYPE_CHECKING:
    from plotly.graph_objects import Parcoords

FILE = "index.html"
MEASURED: Mapping[str, Mapping[str, str]] = {
    "train": {
        "seed": "seed", "train_flops": "training FLOPs", "parameters": "parameters", "step_ms_p50": "step (ms)",
        "peak_memory_mib": "peak memory (MiB)", "test_loss": "test loss", "test_accuracy_pct": "test accuracy (%)",
    },
    "time": {
        "device": "device", "dtype": "precision", "mode": "mode", "level": "level", "batch_size": "batch",
        "parameters": "parameters", "peak_memory_mib": "peak memory (MiB)", "latency_ms_p50": "latency (ms)",
        "images_per_s": "images/s",
    },
}  # fmt: skip
"""Kind of trial → column → what the page calls it. The last one gives the lines their colours."""
TITLES = {"train": "Training runs", "time": "Timings"}
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>body {{ font-family: sans-serif; margin: 1em; background: #fff; color: #111; }}</style></head>
<body><h1>{title}</h1><p>{question}</p>
<p>A line is a run. Drag along an axis to keep the lines that pass there; drag a name to move its axis.</p>
{charts}</body></html>
"""


def exported(view: View) -> dict[str, bytes]:
    """Name of a file → its content: the page."""
    from plotly.graph_objects import Figure

    charts = ""
    for kind, title in TITLES.items():
        rows = view.trials[(view.trials["kind"] == kind) & (view.trials["state"] == "ok")]
        if rows.empty:
            continue
        figure = Figure(lines(rows, [*axes_of(view.study)], MEASURED[kind]), layout={"margin": {"t": 80}})
        drawn = figure.to_html(full_html=False, include_plotlyjs=not charts, div_id=kind, config={"displaylogo": False})
        charts += f"<h2>{title}</h2>\n{drawn}\n"
    title, question = escape(view.study.info.suite.name), escape(view.study.info.suite.question)
    page = PAGE.format(title=title, question=question, charts=charts or "<p>No results yet.</p>")
    return {FILE: page.encode()}


def lines(rows: pd.DataFrame, axes: list[str], measured: Mapping[str, str]) -> Parcoords:
    """One line a row, across the axes that vary and what was measured of every row."""
    from plotly.graph_objects import Parcoords

    named = {**{axis: axis for axis in axes if axis in rows}, **measured}
    *_, last = measured
    kept = {
        column: label for column, label in named.items()
        if rows[column].notna().all() and (column == last or rows[column].astype(str).nunique() > 1)
    }  # fmt: skip
    dimensions = [_dimension(rows[column], label, as_text=column in axes) for column, label in kept.items()]
    colours = {"color": rows[last].astype(float).tolist(), "colorscale": "Viridis", "showscale": True,
               "colorbar": {"title": measured[last]}}  # fmt: skip
    return Parcoords(line=colours, dimensions=dimensions, labelfont={"size": 14}, tickfont={"size": 12})


def _dimension(values: pd.Series[str], label: str, *, as_text: bool) -> dict[str, object]:
    """An axis of the chart: numbers as they are, anything else by its names."""
    label = escape(label)
    if not as_text and pd.api.types.is_numeric_dtype(values):
        return {"label": label, "values": values.astype(float).tolist()}
    places, names = pd.factorize(values.astype(str))
    return {
        "label": label,
        "values": places.tolist(),
        "tickvals": [*range(len(names))],
        "ticktext": [*map(escape, names)],
    }
