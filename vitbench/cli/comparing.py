"""The command ``compare``, for studies or benchmarks. What it needs is imported when it runs."""

from __future__ import annotations

import io
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich import box
from rich.table import Table
from rich.text import Text

from vitbench.cli.console import Terminal
from vitbench.config.model import ModelSpec
from vitbench.errors import UserError
from vitbench.wording import nearest, printable

if TYPE_CHECKING:
    from vitbench.analysis.regressions import Changes
    from vitbench.analysis.side_by_side import SideBySide
    from vitbench.analysis.timings import Measurement

COLOURS = {"slower": "yellow", "faster": "green", "ok now": "green", "undecided": "", "equivalent": "", "identical": ""}
EITHER = click.Path(path_type=Path, exists=True)
FOLDER = click.Path(path_type=Path, file_okay=False)
NOTES = ("unrecorded-machine", "other-machines", "other-images", "fallback-data", "one-process", "unstable-timings",
         "records-set-aside")  # fmt: skip
"""Limits of a comparison that a terminal shows, too; the page has all of them."""
NARROW = 72  # Columns of a terminal below which numbers go under the word, so that words stay whole


def fraction(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """The positive fraction that "5%", "5 %" or "0.05" stands for; None of None.

    Raises:
        click.BadParameter: for anything else; a bare "5" too, which may mean 5 % or 500 %.
    """
    if value is None:
        return None
    parts = re.fullmatch(r"\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*(%?)\s*", value)
    number = float(parts[1]) / (100 if parts[2] else 1) if parts else math.nan
    if not parts or not math.isfinite(number) or number <= 0 or (number >= 1 and not parts[2]):
        raise click.BadParameter(f'"{value}" is no percentage above 0; write "5%" or "0.05"', context, parameter)
    return number


@click.command()
@click.argument("sides", nargs=-1, required=True, type=EITHER, metavar="OLD NEW...")
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
    """Compare studies, or JSON files of pytest-benchmark, with the first of them.

    \b
        vitbench compare results/main results/branch --fail-over 5%
        pytest --benchmark-only --benchmark-json=new.json
        vitbench compare old.json new.json --fail-over 5%
        vitbench compare results/cpu results/gpu --out reports/devices
        vitbench compare results/v1 results/v2 results/v3

    Each timing that both have is shown with its latency in OLD (A) and NEW (B) and their ratio with its 95 % interval.
    It is "slower" or "faster" if that interval excludes 1, which by chance alone one in 20 does (no verdict is
    corrected for their number), "equivalent" if the whole interval lies within a margin around 1 and nothing speaks
    against the two timings, "undecided" if neither is shown, and "identical" if both sides hold the same samples.

    Timings are matched by the work that is timed, without the device and the length of the timing, so that a study on a
    CPU can be compared with the same one on a GPU; benchmarks are matched by their full names. A study that ran on
    several devices or under several conditions is an arm for each, which is compared with the first study's on the same
    device and machine.

    A regression is a timing that is slower by its interval and by more than --fail-over, or that was ok and is not any
    more, on a type of device that OLD has too. What only one side has is listed and is no regression; pytest-benchmark
    leaves out benchmarks that raise, so watch its own exit status too. Two runs of pytest-benchmark are one process
    each, whose luck no interval holds: allow for it.

    Three studies or more, and one or two with --out, are rendered as a page, too: what differs between them, timings,
    memory, and test accuracy seed by seed. One study alone is compared across its own devices and conditions.

    Exit status: 0, or 1 if --fail-over is given and there is any regression, 2 for a mistake, and where there is
    nothing to compare.
    """
    if len(sides) < 2 and out is None:
        raise click.UsageError(
            f"Missing argument 'NEW': {sides[0]} alone is nothing to compare (with --out, the devices and conditions "
            "of one study are)"
        )
    files = [side for side in sides if not side.is_dir()]
    if files and out is not None:
        raise click.UsageError(f"{files[0]} is a file: --out writes a page of studies, and takes their folders")
    from vitbench.analysis.arms import folder_of
    from vitbench.analysis.side_by_side import side_by_side

    comparison = side_by_side(sides, margin)
    print_comparison(comparison, fail_over, console := Terminal())
    status = comparison.exit_status(fail_over)
    if out is not None or (len(sides) > 2 and not files):
        from vitbench.report.comparisons.comparison import render_comparison

        page = render_comparison(comparison, out or Path("reports") / folder_of(sides))
        console.print(Text(str(page)))
    context.exit(status)


def pairs(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """FIELD=VALUE of a model, repeated, as a table."""
    fields = dict(value.partition("=")[::2] for value in values)
    for given, field in zip(values, fields, strict=False):
        if "=" not in given:
            raise click.BadParameter(f'"{given}": write FIELD=VALUE, such as positions=learned')
        if field not in ModelSpec.model_fields:
            raise click.BadParameter(f'"{field}" is no field of a model{nearest(field, ModelSpec.model_fields)}')
    return fields


@click.command()
@click.argument("studies", nargs=-1, required=True, type=FOLDER, metavar="STUDY...")
@click.option("--having", multiple=True, callback=pairs, metavar="FIELD=VALUE",
              help="Only cells whose model has it, such as positions=learned. Repeatable.")  # fmt: skip
@click.option("--top", type=click.IntRange(min=1), default=20, show_default=True, help="Rows of each board.")
@click.option("--csv", "file", type=click.Path(path_type=Path, dir_okay=False), help="Write every row into this file.")
def leaderboard(studies: tuple[Path, ...], having: dict[str, str], top: int, file: Path | None) -> None:
    """Rank the cells of studies that were trained on the same images by the same recipe.

    A board for each combination of images and recipe, the one with most cells first. The order is that of the mean test
    accuracies; no test compares cells of different studies.
    """
    from vitbench.report.comparisons.leaderboard import leaderboard as ranked
    from vitbench.report.document import table
    from vitbench.report.formats.terminal import grid
    from vitbench.report.output import csv
    from vitbench.report.text import Md, escape, significant, spread
    from vitbench.report.view import MEAN, STD
    from vitbench.store import StudyFolder
    from vitbench.store.files import write_in_place

    studies = tuple({folder.resolve(): folder for folder in studies}.values())
    frame, console = ranked([StudyFolder.read(folder) for folder in studies], having), Terminal(soft_wrap=False)
    if file is not None:
        csv(frame, text := io.StringIO())
        try:
            write_in_place(file, printable(text.getvalue()))
        except OSError as error:
            raise UserError(f"{file} cannot be written: {error.strerror or error}") from error
    for _, rows in frame.groupby("board"):
        console.print(Text(f"{rows['images'].iloc[0]}; {rows['recipe'].iloc[0]}", style="italic"))
        within = rows["cell"].duplicated().any()  # a cell is named with its study, which no narrow terminal leaves out
        sources = [", ".join(filter(None, each)) for each in zip(rows["study"], rows["on"], strict=True)]
        lines = [
            {
                "cell": escape(f"{row['rank']}. {row['cell']}{f', {source}' if within else ''}"),
                "test accuracy (%)": spread(row[MEAN], row[STD], 1),
                **({} if within else {"study": escape(source)}),
                "seeds": Md(f"{row['n']}"),
                "parameters (M)": significant(row["parameters"] / 1e6),
            }
            for row, source in zip(rows.to_dict("records"), sources, strict=True)
        ]
        board = table(lines, right={"test accuracy (%)", "seeds", "parameters (M)"})
        console.print(grid(board, console.width, top, "in --csv"))
    if frame.empty:
        asked = ", ".join(f"{field}={value}" for field, value in having.items())
        raise UserError(f"no finished cell has {asked or 'a test accuracy'}")


def print_comparison(comparison: SideBySide, fail_over: float | None, console: Terminal) -> None:
    """A table of what changed for each pair of arms, what limits it, and a summary."""
    from vitbench.analysis.regressions import meanings
    from vitbench.report.comparisons.limits import differences, stated
    from vitbench.report.text import plain

    if not console.is_terminal:
        console.width = 100_000
    for arm in comparison.arms:
        console.print(Text(f"{arm.letter} = {arm.name}"))
    for note in (differences(comparison), *(text for name, text in stated(comparison) if name in NOTES)):
        console.print(Text(plain(note), style="yellow"))
    for (number, base), changes in comparison.sections.items():
        if len(comparison.sections) > 1 and (changes.changes or changes.alone):
            console.print(Text(f"\n{comparison.against(number, base)}", style="bold"))
        letters = comparison.arms[base].letter, comparison.arms[number].letter
        print_changes(changes, letters, comparison.limit(number, fail_over), console)
    words = {change.word for changes in comparison.sections.values() for change in changes.changes}
    for meaning in meanings(words, comparison.margin):
        console.print(Text(meaning, style="dim"))
    for line in comparison.summaries(fail_over):
        console.print(Text(line))


def print_changes(changes: Changes, letters: tuple[str, str], fail_over: float | None, console: Terminal) -> None:
    """One row for each timing; on a terminal within its width, elsewhere one line each, however long."""
    old, new = letters
    table = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, pad_edge=False, show_edge=False)
    narrow = console.width < NARROW
    for name in ("change", "timing") if narrow else ("change", f"{new}/{old}", f"{old}, ms", f"{new}, ms", "timing"):
        table.add_column(name, justify="right" if "ms" in name else "left", overflow="fold")
    for change in (*changes.changes, *changes.alone):
        regressed = fail_over is not None and change.regressed(fail_over)
        style = "bold red" if regressed else COLOURS.get(change.word, "red" if change.lost else "yellow")
        word = Text(f"{change.word}{' ~' if change.doubtful else ''}{', regression' if regressed else ''}", style=style)
        ratio, before, after = _ratio(change.ratio), _latency(change.old), _latency(change.new)
        label = Text(f"{change.label} ({change.note})" if change.note else change.label)
        if narrow:
            word.append("".join(f"\n{line}" for line in (ratio, f"{before or 'none'} → {after or 'none'} ms") if line))
            table.add_row(word, label)
        else:
            table.add_row(word, Text(ratio), Text(before), Text(after), label)
    if table.row_count:
        console.print(table, soft_wrap=False)  # cells are folded, which soft wrapping would prevent


def _ratio(ratio: Measurement | None) -> str:
    if ratio is None:
        return ""
    if math.isnan(ratio.low):
        return f"{ratio.estimate:.3f}"
    return f"{ratio.estimate:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"


def _latency(latency: Measurement | None) -> str:
    from vitbench.report.text import significant

    return "" if latency is None else significant(latency.estimate, 4)
