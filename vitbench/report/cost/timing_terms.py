"""Terms: what the words, letters and marks in tables of timings mean; of those alone that are there."""

from __future__ import annotations

import re

import pandas as pd

from vitbench.analysis.summary import finished
from vitbench.analysis.timings import UNSTEADY
from vitbench.report.cost import speed
from vitbench.report.document import Block, bullets
from vitbench.report.markdown import Md
from vitbench.report.view import View

LETTERS = {"N": "N tokens", "D": "width D of the model", "H": "H heads", "K": "width K of a head"}
RESIDENT = (
    "the largest resident set of a fresh process, less what it held before, which differs from process to process, so "
    "that none is marked as the best"
)
MEMORY = {
    "cpu": f"on the CPU {RESIDENT}",
    "mps": f"beside mps, of whose own nothing is known, {RESIDENT}",
    "cuda": "on a GPU the most that torch had allocated, less what it held before; the least is bold",
}
"""Device → what its peak memory is."""


def terms(view: View) -> list[Block]:
    """A list of terms; nothing where no timing finished."""
    rows = finished(view.time)
    rows = rows[rows["latency_ms_p50"].notna()]
    if rows.empty:
        return []
    return [bullets(filter(None, (_latency(rows), _speed(rows), _control(rows), _part(rows), _others(rows))))]


def _latency(rows: pd.DataFrame) -> Md:
    said = "**Latency p50**: the median of the processes' medians"
    if rows["latency_ms_low"].notna().any():
        said += ", with its 95 % interval (bootstrap over processes and rounds, and no narrower than Student's t)"
    if (rows["unstable"].fillna("") != "").any():
        said += (
            f". **{speed.UNSTABLE}**: not to be relied on, since the interval is ±{100 * UNSTEADY:.0f} % or wider, or "
            "for a reason below the table"
        )
    return Md(f"{said}.")


def _speed(rows: pd.DataFrame) -> Md:
    if not rows["speed"].notna().any():
        return Md("**Speed**: the baseline's latency over the cell's; more than 1 is faster.")
    return Md(
        "**Speed**: the median over rounds of the baseline's latency over that of the cell in the same round, which "
        "need not be the ratio of the two latencies in the table; more than 1 is faster. **In bold**: the lowest "
        f"latency without {speed.UNSTABLE}, and every cell whose interval of the speed, each by itself, overlaps that "
        "cell's; nothing where that would be all of them."
    )


def _control(rows: pd.DataFrame) -> Md | None:
    if not rows["control"].notna().any():
        return None
    said = "**A/A control**: the baseline against itself, timed once more in each round; its speed is 1 but for noise."
    return Md(said)


def _part(rows: pd.DataFrame) -> Md | None:
    """What is timed where it is a part of a model, and the letters of its shape."""
    parts = rows[rows["level"] != "model"]
    if parts.empty:
        return None
    letters = {letter for shape in parts["level_shape"].unique() for letter in re.findall(r"\b([A-Z]) \d", shape)}
    said = "A part of a model is timed by itself"
    if "attention_core" in set(parts["level"]):
        said = "**Attention core**: what an attention does between its projections, softmax(QKᵀ / √K) V"
    named = ", ".join(name for letter, name in LETTERS.items() if letter in letters)
    return Md(f"{said}; for {named}." if named else f"{said}.")


def _others(rows: pd.DataFrame) -> Md:
    memory = "; ".join(what for device, what in MEMORY.items() if device in {d.split(":")[0] for d in rows["device"]})
    first = "**First iteration**: in a fresh process, with all that is done once, such as compiling"
    return Md(f"{first}. **Peak memory**: {memory}." if memory else f"{first}.")
