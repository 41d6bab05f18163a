"""Commands about studies: plan, run, time, status, report. torch is imported by those that train or time only."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from vitbench import registry
from vitbench.cli.console import Terminal, escape
from vitbench.config.reading import MAX_TRIALS, MOST_TRIALS, read_suite
from vitbench.config.suite import Suite
from vitbench.config.suite_errors import TooManyTrials

if TYPE_CHECKING:
    from vitbench.runner.run import Options
    from vitbench.store import Study

Function = TypeVar("Function", bound=Callable[..., Any])
FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)


def suite_options(function: Function) -> Function:
    """What every command that reads a suite takes."""
    for decorate in (
        click.argument("suite", type=FILE),
        click.option("--set", "overrides", multiple=True, metavar="TABLE.KEY=VALUE", help="Replace a value."),
        click.option("--cell", "cells", multiple=True, metavar="NAME", help="This cell alone. Repeatable."),
        click.option("--plugin", "plugins", multiple=True, type=FILE, help="A file with components of your own."),
        click.option("--device", default="auto", metavar="auto|cpu|cuda[:i]|mps", help="Where to run. Default: auto."),
        click.option("--results", type=FOLDER, help="Folder of the study. Default: results/<name of the suite>."),
        click.option("--max-trials", type=click.IntRange(min=1), default=MAX_TRIALS, show_default=True,
                     help="Refuse a suite with more cells x seeds."),
        click.option("--yes", is_flag=True, help=f"Take a suite of up to {MOST_TRIALS:,} cells x seeds."),
        click.option("--small", is_flag=True, help="The suite's small form: what its [small] table says instead."),
    ):  # fmt: skip
        function = decorate(function)
    return function


def _read(
    suite: Path, overrides: tuple[str, ...], cells: tuple[str, ...], plugins: tuple[Path, ...], device: str,
    max_trials: int, *, yes: bool, small: bool,
) -> Suite:  # fmt: skip
    from vitbench.runner.device_kind import device_kind

    for plugin in plugins:
        registry.load_plugin(plugin)
    try:
        most = max(max_trials, MOST_TRIALS) if yes else max_trials
        kind = device_kind(device)
        read = read_suite(suite, overrides, most, small=small, device=kind).only(cells)
    except TooManyTrials as error:
        from vitbench.runner.size import with_time

        raise with_time(error, device) from error
    if plugins:  # they have torch loaded
        from vitbench.model.build import check_plugins

        check_plugins({id(cell.model): cell.model for cell in read.cells}.values())
    return read


def _command(
    verb: str, suite: Path, overrides: tuple[str, ...], cells: tuple[str, ...], plugins: tuple[Path, ...],
    results: Path | None, max_trials: int, *, yes: bool, small: bool,
) -> list[str]:  # fmt: skip
    """Arguments of a command line that plan the same trials, but for the device."""
    made = [verb, _from_here(suite), *(["--small"] if small else [])]
    made += [part for override in overrides for part in ("--set", override)]
    made += [part for cell in cells for part in ("--cell", cell)]
    made += [part for plugin in plugins for part in ("--plugin", _from_here(plugin))]
    made += ["--results", _from_here(results)] if results else []
    made += ["--max-trials", str(max_trials)] if max_trials != MAX_TRIALS else []
    return [*made, *(["--yes"] if yes else [])]


def _from_here(path: Path) -> str:
    """A path as whoever has the same folder elsewhere would write it: relative, where it lies in the working folder."""
    whole, here = path.absolute(), Path.cwd()
    return (whole.relative_to(here) if whole.is_relative_to(here) else path).as_posix()


@click.command()
@suite_options
@click.option("--all", "every", is_flag=True, help="Print every trial, however many.")
def plan(
    suite: Path,
    overrides: tuple[str, ...],
    cells: tuple[str, ...],
    plugins: tuple[Path, ...],
    device: str,
    results: Path | None,
    max_trials: int,
    yes: bool,
    small: bool,
    every: bool,
) -> None:
    """List the trials of SUITE, their number and estimated cost. Runs nothing."""
    from vitbench.analysis.outlook import outlook
    from vitbench.cli.overview import print_plan

    asked = _read(suite, overrides, cells, plugins, device, max_trials, yes=yes, small=small)
    console = Terminal()
    print_plan(asked, device, results, console, every=every, looked=_looked)
    for sentence in outlook(asked):
        console.print(escape(sentence))


def _looked(study: Study) -> Mapping[str, int]:
    """Seeds that each cell needs by what a study's report says; asked of plans with looks alone."""
    from vitbench.report.view import View

    return View(study).seeds_wanted


ONLY: Mapping[str, tuple[str, ...]] = {"training": ("tune", "train"), "timing": ("time",)}
"""Parts of a suite's trials by what a user calls them."""


def _parameter(text: str) -> tuple[str, str | int]:
    key, sign, value = text.partition("=")
    if not sign or not key:
        raise click.UsageError(f'--engine "{text}": write KEY=VALUE')
    return key, int(value) if re.fullmatch("[0-9]{1,18}", value) else value


def run_options(function: Function) -> Function:
    """What both commands take that run trials."""
    for decorate in (
        click.option("--rerun-changed", is_flag=True,
                     help="Run again what was run by another state of vitbench's code."),
        click.option("--heartbeat", type=click.FloatRange(min=0.1, max=3600), default=10.0, show_default=True,
                     metavar="SECONDS", help="Between signs of life to other drivers of the same study; after three "
                     "that are missed its trials are taken over."),
        click.option("--leave-held", is_flag=True,
                     help="End when all that is left is at work in other drivers, instead of waiting for them."),
        click.option("--no-wait", is_flag=True,
                     help="End where another vitbench on this machine has the device, instead of waiting for it."),
    ):  # fmt: skip
        function = decorate(function)
    return function


@click.command()
@suite_options
@run_options
@click.option(
    "--launcher",
    type=click.Choice(["local", "ray", "slurm"]),
    default="local",
    show_default=True,
    help="What places processes.",
)
@click.option(
    "--address",
    metavar="HOST:PORT",
    help="Of the Ray cluster. Default: $RAY_ADDRESS, else a Ray of this run's own on this machine.",
)
@click.option(
    "--engine",
    multiple=True,
    metavar="KEY=VALUE",
    help="A parameter of submitit, e.g. slurm_partition=gpu or timeout_min=600. Repeatable.",
)
@click.option("--keep-weights", is_flag=True, help="Keep what is trained, as <results>/weights/<trial>.safetensors.")
@click.option("--only", type=click.Choice(list(ONLY)), help="Leave the other trials alone.")
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    help="Trials trained at once. Default: 1 here, what there is room for on a cluster.",
)
@click.pass_context
def run(
    context: click.Context, suite: Path, overrides: tuple[str, ...], cells: tuple[str, ...], plugins: tuple[Path, ...],
    device: str, results: Path | None, max_trials: int, yes: bool, small: bool, launcher: str, address: str | None,
    workers: int | None, rerun_changed: bool, heartbeat: float, leave_held: bool, no_wait: bool,
    engine: tuple[str, ...], only: str | None, keep_weights: bool,
) -> None:  # fmt: skip
    """Train and time every trial of SUITE that has not been run yet.

    Several drivers may run one study at once, on one machine or on many that share its folder.

    Exit status: 0 if every trial is ok or unsupported, 1 if one is not, 2 for a mistake in the suite, 130 after Ctrl-C.
    """
    asked = _read(suite, overrides, cells, plugins, device, max_trials, yes=yes, small=small)
    if keep_weights and launcher == "ray":
        raise click.UsageError("--keep-weights: Ray's nodes need not have the study's folder; use local or slurm")
    parameters = tuple(_parameter(text) for text in engine)
    again = _command("run", suite, overrides, cells, plugins, results, max_trials, yes=yes, small=small)
    again += ["--keep-weights"] if keep_weights else []
    command = [*again, *(["--only", only] if only else [])]
    again += ["--heartbeat", str(heartbeat), *(["--rerun-changed"] if rerun_changed else [])]

    from vitbench.runner.plan import KINDS
    from vitbench.runner.run import Options  # after the suite: a mistake in it is said before torch loads

    options = Options(
        device=device, workers=workers, launcher=launcher, address=address, rerun_changed=rerun_changed,
        keep_weights=keep_weights, heartbeat_s=heartbeat, leave_held=leave_held, patient=not no_wait, engine=parameters,
        kinds=ONLY[only] if only else KINDS, repeat=tuple(again), command=tuple(command),
    )  # fmt: skip
    context.exit(_run(asked, results, options))


def _run(suite: Suite, results: Path | None, options: Options) -> int:
    """Run a study, and say how it went. Returns the exit status."""
    from vitbench.analysis.axis_speeds import widest
    from vitbench.cli.overview import print_status
    from vitbench.cli.progress import LiveReporter
    from vitbench.runner.run import run_suite
    from vitbench.runner.session import Analysis

    console = Terminal()
    with LiveReporter(console) as reporter:
        ended = run_suite(suite, results, options, reporter, Analysis(_looked, widest))
    print_status(ended.study, console)
    if ended.signal is not None:
        console.print("stopped; the same command goes on from here")
    else:
        console.print(escape(f"what came out: vitbench report {shlex.quote(str(ended.study.path))} --print"))
    return ended.status


@click.command()
@suite_options
@run_options
@click.pass_context
def time(
    context: click.Context, suite: Path, overrides: tuple[str, ...], cells: tuple[str, ...], plugins: tuple[Path, ...],
    device: str, results: Path | None, max_trials: int, yes: bool, small: bool, rerun_changed: bool, heartbeat: float,
    leave_held: bool, no_wait: bool,
) -> None:  # fmt: skip
    """Run the timing trials of SUITE only."""
    asked = _read(suite, overrides, cells, plugins, device, max_trials, yes=yes, small=small)
    from vitbench.runner.run import Options  # after the suite: a mistake in it is said before torch loads

    command = _command("time", suite, overrides, cells, plugins, results, max_trials, yes=yes, small=small)
    options = Options(device=device, kinds=ONLY["timing"], rerun_changed=rerun_changed, heartbeat_s=heartbeat,
                      leave_held=leave_held, patient=not no_wait, command=tuple(command))  # fmt: skip
    context.exit(_run(asked, results, options))


@click.command()
@click.argument("study", type=FOLDER)
@click.option("-f", "--follow", is_flag=True,
              help="On a terminal, keep looking until it has ended: what runs, latest results, time left.")  # fmt: skip
@click.pass_context
def status(context: click.Context, study: Path, follow: bool) -> None:
    """What is done, failed and left of the study in the folder STUDY.

    With --follow the view is drawn anew every second, whoever runs the study and wherever. It ends with the study
    (exit status 0) or with Ctrl-C (130), which leaves the study alone. Where the output is no terminal, it is printed
    once.
    """
    from vitbench.cli.overview import print_status
    from vitbench.store import Study

    opened, console = Study.read(study), Terminal()
    if follow and console.is_terminal:
        from vitbench.cli.live import follow as followed

        context.exit(followed(opened, console))
    print_status(opened, console)


@click.command()
@click.argument("study", type=FOLDER)
def pack(study: Path) -> None:
    """Pack the records of STUDY into a few files, in place of one each. Every command reads both."""
    from vitbench.store import Study

    opened = Study.read(study)
    try:
        sealed = opened.pack()
    except OSError as error:
        raise click.ClickException(f"{error.filename or study}: cannot be packed: {error.strerror}") from error
    console = Terminal()
    console.print(escape(f"{sealed:,} records packed into {opened.segments.folder}; {opened.unpacked:,} left unpacked"))
    for damaged in opened.damaged:
        console.print(f"[yellow]set aside[/] {escape(damaged)}")


@click.command()
@click.argument("study", type=FOLDER)
@click.option("--out", type=FOLDER, help="Folder of the report. Default: reports/<name of the study's folder>.")
@click.option("--print", "printed", is_flag=True, help="Print the answer and the main tables, and write no report.")
@click.option(
    "--export",
    "exports",
    multiple=True,
    type=click.Choice(["latex", "mlflow", "tensorboard"]),
    help="Write into a folder of that name, too: its tables for a paper, or its records as runs of a tracker.",
)
def report(study: Path, out: Path | None, printed: bool, exports: tuple[str, ...]) -> None:
    """Render the report of the study in the folder STUDY; of a folder of studies all of them, with an index.html."""
    if printed:
        if out or exports:
            raise click.UsageError("--print writes no report: leave out --out and --export")
        _print_report(study)
        return
    from vitbench.report.exports.extras import require
    from vitbench.report.index import render_all, studies_in
    from vitbench.report.study_report import render_view
    from vitbench.report.view import View
    from vitbench.store import Study

    for name in exports:
        require(name)  # what is missing is said before anything is drawn
    if not (study / "study.json").exists() and (studies := studies_in(study)):
        console = Terminal()
        for page, set_aside in render_all(studies, out or Path("reports") / study.resolve().name, exports):
            for each in set_aside:
                console.print(f"[yellow]set aside[/] {escape(each)}")
            console.print(escape(page))
        return
    opened = Study.read(study)
    folder = out or Path("reports") / study.resolve().name
    view = View(opened)
    page = render_view(view, folder, exports=exports)
    console = Terminal()
    for damaged in opened.damaged:
        console.print(f"[yellow]set aside[/] {escape(damaged)}")
    states = Counter(attempt.state for attempt in view.results.standing.values())
    console.print(escape(f"{page}  ({', '.join(f'{n} {s}' for s, n in states.most_common()) or 'no records yet'})"))


def _print_report(study: Path) -> None:
    """What is seen of a report in a terminal."""
    from vitbench.report.formats.terminal import printed
    from vitbench.report.output import Files
    from vitbench.report.study_report import compose
    from vitbench.report.view import View
    from vitbench.store import Study

    console, opened = Terminal(soft_wrap=False), Study.read(study)
    for part in printed(compose(View(opened), Files()), console.width):
        console.print(part)
    for damaged in opened.damaged:
        console.print(f"[yellow]set aside[/] {escape(damaged)}")
