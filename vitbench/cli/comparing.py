"""The command about two studies or more: compare. It imports what reads and judges them only when it runs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich import box
from rich.table import Table
from rich.text import Text

from vitbench.cli.console import Terminal

if TYPE_CHECKING:
    from vitbench.analysis.regressions import Change, Changes
    from vitbench.analysis.side_by_side import SideBySide, TimingRow
    from vitbench.analysis.timings import Measurement

COLOURS = {"slower": "yellow", "faster": "green", "ok now": "green", "undecided": "", "equivalent": "", "identical": ""}
EITHER = click.Path(path_type=Path, exists=True)
FOLDER = click.Path(path_type=Path, file_okay=False)
MOST_WHOLE = 3
"""Studies beside the first whose ratios are printed with their intervals; of more the page has these."""
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
@click.argument("sides", nargs=-1, required=True, type=EITHER, metavar="OLD NEW | DIR [DIR]...")
@click.option("--fail-over", callback=fraction, metavar="PERCENT",
              help='Exit with 1 if a timing became slower by more than this, such as "5%" (or "0.05").')  # fmt: skip
@click.option("--equivalent-within", "margin", callback=fraction, metavar="PERCENT", default="5%", show_default=True,
              help="Call a timing equivalent if the whole interval of its ratio lies within this of 1; it moves no "
              "regression.")  # fmt: skip
@click.option("--out", type=FOLDER,
              help="Write a page of the studies side by side into this folder. Default for three studies or more: "
              "reports/compare-<names of their folders>, and a digest of their paths unless all lie in results/; of "
              "fewer none is written unless it is asked for.")  # fmt: skip
@click.pass_context
def compare(
    context: click.Context, sides: tuple[Path, ...], fail_over: float | None, margin: float, out: Path | None
) -> None:
    """What changed between studies, or from OLD to NEW: two folders of studies, or two JSON files of pytest-benchmark.

    \b
        vitbench compare results/main results/branch --fail-over 5%
        pytest --benchmark-only --benchmark-json=new.json
        vitbench compare old.json new.json --fail-over 5%
        vitbench compare results/cpu results/gpu --out reports/devices
        vitbench compare results/v1 results/v2 results/v3

    Each timing that both have, by trial id or by the benchmark's full name, is shown with its latency in OLD (A) and
    NEW (B) and their ratio with its 95 % interval. It is "slower" or "faster" if that interval excludes 1, which by
    chance alone one in 20 does (no verdict is corrected for their number), "equivalent" if the whole interval lies
    within a margin around 1 and nothing speaks against the two timings, "undecided" if neither is shown, and
    "identical" if both sides hold the same samples.

    A regression is a timing that is slower by its interval and by more than --fail-over, or that was ok and is not any
    more. What only one side has is listed and is no regression; pytest-benchmark leaves out benchmarks that raise, so
    watch its own exit status too. Two runs of pytest-benchmark are one process each, whose luck no interval holds:
    allow for it.

    Three studies or more, and one or two with --out, are set side by side, each against the first, and rendered as a
    page: what differs between them, timings, memory, and test accuracy seed by seed. A study that ran on several
    devices or under several conditions has a column for each, which is compared with the first study's on the same
    device and machine; one study alone is compared across its own. Rows are matched with the device left out, so that
    a study on a CPU can stand beside the same one on a GPU.

    Exit status: 0, or 1 if --fail-over is given and there is any regression, 2 for a mistake, and where there is
    nothing to compare.
    """
    if len(sides) < 2 and out is None:
        raise click.UsageError(
            f"Missing argument 'NEW': {sides[0]} alone is nothing to compare (with --out, the devices and conditions "
            "of one study are)"
        )
    if len(sides) == 2 and out is None:
        context.exit(_two(*sides, fail_over, margin))
    if files := [side for side in sides if not side.is_dir()]:
        why = "--out writes a page of studies" if len(sides) <= 2 else "three or more are compared as studies"
        raise click.UsageError(f"{files[0]} is a file: {why}, and takes their folders")
    context.exit(_several(sides, fail_over, margin, out))


def _two(old: Path, new: Path, fail_over: float | None, margin: float) -> int:
    """Print what changed from one side to the other. Returns the exit status."""
    from vitbench.analysis.regressions import compare as compared
    from vitbench.analysis.sides import read_side

    comparison = compared(read_side(old), read_side(new), margin)
    console = Terminal()
    console.print(Text(f"A = {old}\nB = {new}"))
    for note in comparison.notes:
        console.print(Text(note, style="yellow"))
    print_changes(comparison, fail_over, console)
    print_meanings(comparison.changes, margin, console)
    console.print(Text(comparison.summary(fail_over)))
    return comparison.exit_status(fail_over)


def _several(sides: tuple[Path, ...], fail_over: float | None, margin: float, out: Path | None) -> int:
    """Render the page of several studies and print their timings against the first. Returns the exit status."""
    from vitbench.analysis.arms import folder_of
    from vitbench.analysis.side_by_side import side_by_side
    from vitbench.report.comparisons.comparison import render_comparison

    found = side_by_side(sides, margin)
    status = found.exit_status(fail_over)
    page = render_comparison(found, out or Path("reports") / folder_of(sides))
    console = Terminal()
    for arm in found.arms:
        console.print(Text(f"{arm.letter} = {arm.name}"))
    print_side_by_side(found, fail_over, console)
    console.print(Text(str(page)))
    return status


def print_side_by_side(found: SideBySide, fail_over: float | None, console: Terminal) -> None:
    """One row for each timing that is compared: its latency where others are compared with it, and their ratios."""
    rows = [row for row in found.timings if any(row.changes)]
    bases = sorted({base for _, base in found.pairs})
    others = [n for n in range(1, len(found.arms)) if any(row.changes[n] for row in rows)]
    narrow = console.is_terminal and console.width < NARROW
    if not console.is_terminal:
        console.width = 100_000
    table = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, pad_edge=False, show_edge=False)
    table.add_column("timing", overflow="fold")
    for base in bases:
        table.add_column(f"{found.arms[base].letter}, ms", justify="right")
    for number in others:
        table.add_column(found.over(number))
    short = narrow or len(others) > MOST_WHOLE
    for row in rows:
        cells = [_changed(row.changes[n], found.limit(n, fail_over), short=short) for n in others]
        for number, cell in zip(others, cells, strict=True):
            than = row.bases[number]
            if than is not None and row.changes[number] and len(found.bases(number)) > 1:
                cell.append(f", over {found.arms[than].letter}")
        table.add_row(Text(row.label), *(Text(_latency_in(row, base)) for base in bases), *cells)
    if rows:
        console.print(table, soft_wrap=False)
    print_meanings([change for row in rows for change in row.changes if change], found.margin, console)
    for line in found.summaries(fail_over):
        console.print(Text(line))


def _latency_in(row: TimingRow, number: int) -> str:
    from vitbench.analysis.timings import latency

    timing = row.timings[number]
    if timing is None:
        return "not planned"
    return _latency(latency(timing.values)) if timing.values else timing.state


def _changed(change: Change | None, fail_over: float | None, *, short: bool) -> Text:
    """A change in one cell: the ratio, with its interval where there is room, and the word."""
    if change is None:
        return Text("")
    regressed = fail_over is not None and change.regressed(fail_over)
    style = "bold red" if regressed else COLOURS.get(change.word, "red" if change.lost else "yellow")
    ratio = f"{change.ratio.estimate:.3f}" if change.ratio and short else _ratio(change.ratio)
    return Text(" ".join(filter(None, (ratio, change.word, "(regression)" if regressed else ""))), style=style)


def print_changes(comparison: Changes, fail_over: float | None, console: Terminal) -> None:
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


def print_meanings(changes: Iterable[Change], margin: float, console: Terminal) -> None:
    """What the words of a table mean."""
    from vitbench.analysis.regressions import meanings

    for said in meanings({change.word for change in changes}, margin):
        console.print(Text(said, style="dim"))


def _ratio(ratio: Measurement | None) -> str:
    if ratio is None:
        return ""
    if math.isnan(ratio.low):
        return f"{ratio.estimate:.3f}"
    return f"{ratio.estimate:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"


def _latency(latency: Measurement | None) -> str:
    from vitbench.report.text import significant

    return "" if latency is None else significant(latency.estimate, 4)
