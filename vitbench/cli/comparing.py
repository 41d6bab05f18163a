"""The command about two studies: compare. It imports what reads and judges them only when it runs."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich import box
from rich.table import Table
from rich.text import Text

from vitbench.runner.terminal import Terminal

if TYPE_CHECKING:
    from vitbench.analysis.comparison import Comparison
    from vitbench.analysis.timings import Interval

COLOURS = {"slower": "yellow", "faster": "green", "unchanged": "", "ok now": "green"}
EITHER = click.Path(path_type=Path, exists=True)
NARROW = 72
"""Columns of a terminal below which numbers go under the word, so that words stay whole."""


def fraction(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """The positive fraction that "5%", "5 %" or "0.05" stands for; None of None.

    Raises:
        click.BadParameter: for anything else; a bare "5" too, which may mean 5 % or 500 %.
    """
    if value is None:
        return None
    found = re.fullmatch(r"\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*(%?)\s*", value)
    number = float(found[1]) / (100 if found[2] else 1) if found else math.nan
    if not found or not math.isfinite(number) or number <= 0 or (number >= 1 and not found[2]):
        raise click.BadParameter(f'"{value}" is no percentage above 0; write "5%" or "0.05"', context, parameter)
    return number


@click.command()
@click.argument("old", type=EITHER)
@click.argument("new", type=EITHER)
@click.option("--fail-over", callback=fraction, metavar="PERCENT",
              help='Exit with 1 if a timing became slower by more than this, such as "5%" (or "0.05").')  # fmt: skip
@click.pass_context
def compare(context: click.Context, old: Path, new: Path, fail_over: float | None) -> None:
    """What changed from OLD to NEW: two folders of studies, or two JSON files of pytest-benchmark.

    \b
        vitbench compare results/main results/branch --fail-over 5%
        pytest --benchmark-only --benchmark-json=new.json
        vitbench compare old.json new.json --fail-over 5%

    Each timing that both have, by trial id or by the benchmark's full name, is shown with its latency in OLD (A) and
    NEW (B) and their ratio with its 95 % interval. It is "slower" or "faster" if that interval excludes 1, which by
    chance alone one in 20 does.

    A regression is a timing that is slower by its interval and by more than --fail-over, or that was ok and is not any
    more. What only one side has is listed and is no regression; pytest-benchmark leaves out benchmarks that raise, so
    watch its own exit status too. Two runs of pytest-benchmark are one process each, whose luck no interval holds:
    allow for it.

    Exit status: 0, or 1 if --fail-over is given and there is any regression, 2 for a mistake, and where there is
    nothing to compare.
    """
    from vitbench.analysis.comparison import compare as compared
    from vitbench.analysis.comparison import read_side

    comparison = compared(read_side(old), read_side(new))
    console = Terminal()
    console.print(Text(f"A = {old}\nB = {new}"))
    for note in comparison.notes:
        console.print(Text(note, style="yellow"))
    print_changes(comparison, fail_over, console)
    console.print(Text(comparison.summary(fail_over)))
    context.exit(comparison.exit_status(fail_over))


def print_changes(comparison: Comparison, fail_over: float | None, console: Terminal) -> None:
    """One row for each timing; on a terminal within its width, elsewhere one line each, however long."""
    if not console.is_terminal:
        console.width = 100_000
    table = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, pad_edge=False, show_edge=False)
    narrow = console.width < NARROW
    for name in ("change", "timing") if narrow else ("change", "B/A", "A, ms", "B, ms", "timing"):
        table.add_column(name, justify="right" if "ms" in name else "left", overflow="fold")
    for change in comparison.changes:
        regressed = fail_over is not None and change.regressed(fail_over)
        style = "bold red" if regressed else COLOURS.get(change.word, "red" if change.lost else "yellow")
        word = Text(f"{change.word}, regression" if regressed else change.word, style=style)
        ratio, old, new = _ratio(change.ratio), _latency(change.old), _latency(change.new)
        label = Text(f"{change.label} ({change.note})" if change.note else change.label)
        if narrow:
            word.append("".join(f"\n{line}" for line in (ratio, f"{old or 'none'} → {new or 'none'} ms") if line))
            table.add_row(word, label)
        else:
            table.add_row(word, Text(ratio), Text(old), Text(new), label)
    console.print(table, soft_wrap=False)  # cells are folded, which soft wrapping would prevent


def _ratio(ratio: Interval | None) -> str:
    if ratio is None:
        return ""
    if math.isnan(ratio.low):
        return f"{ratio.estimate:.3f}"
    return f"{ratio.estimate:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"


def _latency(latency: Interval | None) -> str:
    from vitbench.report.numbers import significant

    return "" if latency is None else significant(latency.estimate, 4)
