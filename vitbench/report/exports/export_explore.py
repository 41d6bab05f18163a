"""Explore: one page on which a reader chooses x, y, colour, panels and a baseline for all runs or all timings.

plotly draws it, and is in the page: it opens without a network.
"""

import json
from collections.abc import Mapping

import pandas as pd
from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from vitbench.analysis.frames import axes_of
from vitbench.report.formats.html import TEMPLATES
from vitbench.report.view import View

FILE = "index.html"
MATCHED = {"seed", "device", "dtype", "mode", "level", "batch_size"}
"""Columns in which a point and its baseline agree, together with every axis but the chosen one."""
COLUMNS: Mapping[str, Mapping[str, str]] = {
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
"""Kind of trial → column → what the page calls it. The last one is what it shows first."""
TITLES = {"train": "training runs", "time": "timings"}


def exported(view: View) -> dict[str, bytes]:
    """Name of a file → its content: the page."""
    from plotly.offline import get_plotlyjs

    axes, kinds = [*axes_of(view.study)], dict[str, object]()
    for kind, title in TITLES.items():
        rows = view.trials[(view.trials["kind"] == kind) & (view.trials["state"] == "ok")]
        if len(rows):
            kinds[kind] = {"title": title, **_points(rows, axes, COLUMNS[kind])}
    suite = view.study.info.suite
    text = json.dumps(kinds, allow_nan=False).replace("<", "\\u003c")
    page = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True).get_template("explore.html.j2").render(
        title=suite.name, question=suite.question, library=Markup(get_plotlyjs()), kinds=Markup(text)
    )  # fmt: skip
    return {FILE: page.encode()}


def _points(rows: pd.DataFrame, axes: list[str], measured: Mapping[str, str]) -> dict[str, object]:
    """Columns that every row has a value in, and the rows; "last" is the column that y shows first."""
    named = {"cell": "cell", **{axis: axis for axis in axes if axis in rows}, **measured}
    named = {column: label for column, label in named.items() if rows[column].notna().all()}
    numbers = {c for c in named if c in measured and pd.api.types.is_numeric_dtype(rows[c])}
    kept = rows[[*named]].astype({column: float if column in numbers else str for column in named})
    columns = [
        {"key": key, "label": label, "number": key in numbers, "axis": key in axes, "matched": key in {*axes, *MATCHED}}
        for key, label in named.items()
    ]
    return {"columns": columns, "rows": kept.to_dict("records"), "last": [*named][-1]}
