"""Commands for studies: plan, run, time, status, pack, report. torch is imported only by those that train or time."""

from __future__ import annotations

import functools
import re
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vitbench import registry
from vitbench.cli import completion
from vitbench.cli.console import Terminal, escape
from vitbench.config.reading import MAX_TRIALS, MOST_TRIALS, read_suite
from vitbench.config.shipped import names, suite_file
from vitbench.config.suite import ExpandedSuite
from vitbench.config.suite_errors import TooManyTrials
from vitbench.errors import UserError
from vitbench.processes import sigterm_exits

if TYPE_CHECKING:
    from vitbench.report.view import View
    from vitbench.store import Samples, StudyFolder, StudyInfo

FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)


@dataclass(frozen=True)
class Asked:
    """The suite that a command line names, and what it replaces in it; a field for each of :func:`suite_options`."""

    suite: str
    overrides: tuple[str, ...]
    cells: tuple[str, ...]
    plugins: tuple[Path, ...]
    device: str
    results: Path | None
    max_trials: int
    yes: bool
    small: bool

    def read(self) -> ExpandedSuite:
        """Register the plug-ins and read the suite.

        Raises:
            UserError: where the suite has mistakes, or more trials than are allowed.
        """
        from vitbench.runner.device_kind import device_kind

        for plugin in self.plugins:
            registry.load_plugin(plugin)
        try:
            most = max(self.max_trials, MOST_TRIALS) if self.yes else self.max_trials
            kind = device_kind(self.device)
            file = suite_file(self.suite)
            suite = read_suite(file, self.overrides, most, small=self.small, device=kind, only=self.cells)
        except TooManyTrials as error:
            from vitbench.runner.grid_estimate import with_time

            raise with_time(error, self.device) from error
        if self.plugins:  # they have torch loaded
            from vitbench.model.build import check_plugins

            check_plugins({id(cell.model): cell.model for cell in suite.cells}.values())
        return suite

    def command(self, verb: str) -> tuple[str, ...]:
        """Arguments of a command line that plans the same trials, but for the device."""
        suite = self.suite if self.suite in names() else _from_here(Path(self.suite))
        words = [verb, suite, *(["--small"] if self.small else [])]
        words += [part for override in self.overrides for part in ("--set", override)]
        words += [part for cell in self.cells for part in ("--cell", cell)]
        words += [part for plugin in self.plugins for part in ("--plugin", _from_here(plugin))]
        words += ["--results", _from_here(self.results)] if self.results else []
        words += ["--max-trials", str(self.max_trials)] if self.max_trials != MAX_TRIALS else []
        return (*words, *(["--yes"] if self.yes else []))


def _from_here(path: Path) -> str:
    """A path as a user who has the same folder elsewhere would write it: relative, if it is in the working folder."""
    whole, here = path.absolute(), Path.cwd()
    return (whole.relative_to(here) if whole.is_relative_to(here) else path).as_posix()


def suite_options(function: Callable[..., None]) -> Callable[..., None]:
    """Options of every command that reads a suite; the command gets them as its first argument, an :class:`Asked`."""

    @functools.wraps(function)
    def command(**options: Any) -> None:
        function(Asked(**{field.name: options.pop(field.name) for field in fields(Asked)}), **options)

    return _with(
        command,
        click.argument("suite", shell_complete=completion.suites),
        click.option("--set", "overrides", multiple=True, metavar="TABLE.KEY=VALUE", help="Replace a value.",
                     shell_complete=completion.settings),
        click.option("--cell", "cells", multiple=True, metavar="NAME", help="Only this cell. Repeatable."),
        click.option("--plugin", "plugins", multiple=True, type=FILE, help="A file with components of your own."),
        click.option("--device", default="auto", metavar="auto|cpu|cuda[:i]|mps", help="Where to run. Default: auto."),
        click.option("--results", type=FOLDER, help="Folder of the study. Default: results/<name of the suite>."),
        click.option("--max-trials", type=click.IntRange(min=1), default=MAX_TRIALS, show_default=True,
                     help="Refuse a suite with more cells × seeds."),
        click.option("--yes", is_flag=True, help=f"Accept a suite of up to {MOST_TRIALS:,} cells × seeds."),
        click.option("--small", is_flag=True, help="The small form of the suite, as its [small] table defines it."),
    )  # fmt: skip


def run_options(function: Callable[..., None]) -> Callable[..., None]:
    """Options of every command that runs trials."""
    return _with(
        function,
        click.option("--rerun-changed", is_flag=True, help="Repeat trials that other code than this has run."),
        click.option("--heartbeat", "heartbeat_s", type=click.FloatRange(min=0.1, max=3600), default=10.0,
                     show_default=True, metavar="SECONDS", help="Interval between heartbeats to other processes that "
                     "run the same study. After three missed heartbeats they take over the trials of this one."),
        click.option("--leave-leased", is_flag=True,
                     help="Do not wait for trials that other processes are running."),
        click.option("--this-look", is_flag=True, hidden=True),
        click.option("--no-wait", is_flag=True,
                     help="Do not wait for a device that another vitbench on this machine is using."),
    )  # fmt: skip


def _with(function: Callable[..., None], *options: Callable[[Any], Any]) -> Callable[..., None]:
    for option in reversed(options):  # --help lists the last that was added first
        function = option(function)
    return function


@click.command()
@suite_options
@click.option("--all", "every", is_flag=True, help="Print every trial, however many.")
def plan(asked: Asked, every: bool) -> None:
    """List the trials of SUITE, their number and estimated cost. Runs nothing."""
    from vitbench.analysis.outlook import outlook
    from vitbench.cli.overview import print_plan

    suite, console = asked.read(), Terminal()
    print_plan(suite, asked.device, asked.results, console, every=every, looked=_looked)
    for sentence in outlook(suite):
        console.print(escape(sentence))


def _looked(study: StudyFolder) -> Mapping[str, int]:
    """Seeds that each cell needs by what a study's report says; asked of plans with looks alone."""
    from vitbench.report.view import View

    return View(study).seeds_wanted


def _widest(info: StudyInfo, processes: Mapping[str, Sequence[Samples]]) -> float:
    """See :attr:`vitbench.runner.session.Analysis.half_width`; imported when there are timings."""
    from vitbench.analysis.axis_speeds import widest

    return widest(info, processes)


ONLY: Mapping[str, tuple[str, ...]] = {"training": ("tune", "train"), "timing": ("time",)}
"""Parts of a suite's trials by what a user calls them."""


def _parameter(text: str) -> tuple[str, str | int]:
    key, sign, value = text.partition("=")
    if not sign or not key:
        raise click.UsageError(f'--engine "{text}": write KEY=VALUE')
    return key, int(value) if re.fullmatch("[0-9]{1,18}", value) else value


@click.command()
@suite_options
@run_options
@click.option(
    "--launcher",
    type=click.Choice(["local", "ray", "slurm"]),
    default="local",
    show_default=True,
    help="Where trials run: this machine, a Ray cluster, or Slurm.",
)
@click.option(
    "--address",
    metavar="HOST:PORT",
    help="Address of the Ray cluster. Default: $RAY_ADDRESS, else Ray is started on this machine for this run.",
)
@click.option(
    "--engine",
    multiple=True,
    metavar="KEY=VALUE",
    help="A parameter of submitit, e.g. slurm_partition=gpu or timeout_min=600. Repeatable.",
)
@click.option("--keep-weights", is_flag=True, help="Keep trained weights, as <results>/weights/<trial>.safetensors.")
@click.option("--only", type=click.Choice(list(ONLY)), help="Run only these trials.")
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    help="How many trials train at once. Default: 1 on this machine, as many as fit on a cluster.",
)
@click.pass_context
def run(
    context: click.Context, /, asked: Asked, launcher: str, address: str | None, workers: int | None,
    engine: tuple[str, ...], only: str | None, keep_weights: bool, **how: Any,
) -> None:  # fmt: skip
    """Train and time every trial of SUITE that has not been run yet.

    Several processes may run one study at once, on one machine or on many that share its folder.

    Exit status: 0 if every trial is ok or unsupported, 1 if one is not, 2 for a mistake in the suite, 130 after Ctrl-C.
    """
    suite = asked.read()
    if keep_weights and launcher == "ray":
        raise click.UsageError("--keep-weights: Ray's nodes need not have the study's folder; use local or slurm")
    for name, value, where in (("address", address, "ray"), ("engine", engine, "slurm")):
        if value and launcher != where:
            raise click.UsageError(f"--{name}: is for --launcher {where}")
    again = (*asked.command("run"), *(["--keep-weights"] if keep_weights else []))
    repeat = (*again, "--heartbeat", str(how["heartbeat_s"]), *(["--rerun-changed"] if how["rerun_changed"] else []))
    options = {"kinds": ONLY[only]} if only else {}
    options |= how | {"workers": workers, "launcher": launcher, "address": address, "keep_weights": keep_weights,
                      "engine": tuple(map(_parameter, engine)), "repeat": repeat,
                      "command": (*again, *(["--only", only] if only else []))}  # fmt: skip
    context.exit(_run(suite, asked, **options))


@click.command()
@suite_options
@run_options
@click.pass_context
def time(context: click.Context, /, asked: Asked, **how: Any) -> None:
    """Run only the timing trials of SUITE."""
    suite = asked.read()
    context.exit(_run(suite, asked, **how, kinds=ONLY["timing"], command=asked.command("time")))


def _run(suite: ExpandedSuite, asked: Asked, **options: Any) -> int:
    """Run a study, and say how it went. Returns the exit status.

    Args:
        suite: read.
        asked: by the user.
        options: further fields of :class:`vitbench.runner.backends.backend.Options`.
    """
    from vitbench.cli.overview import print_status
    from vitbench.cli.progress import LiveReporter
    from vitbench.runner.backends.backend import Options
    from vitbench.runner.run import run_suite
    from vitbench.runner.session import Analysis

    console = Terminal()
    with LiveReporter(console) as reporter:
        ended = run_suite(suite, asked.results, Options(asked.device, **options), reporter, Analysis(_looked, _widest))
    print_status(ended.study, console)
    if ended.signal is not None:
        console.print("stopped; the same command goes on from here")
    else:
        console.print(escape(f"what came out: vitbench report {shlex.quote(str(ended.study.path))}"))
    return ended.status


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
    from vitbench.store import StudyFolder

    opened, console = StudyFolder.read(study), Terminal()
    if follow and console.is_terminal:
        from vitbench.cli.live import follow as followed

        context.exit(followed(opened, console))
    print_status(opened, console)


@click.command()
@click.argument("study", type=FOLDER)
def pack(study: Path) -> None:
    """Pack the records of STUDY into a few files, in place of one each. Every command reads both."""
    from vitbench.store import StudyFolder

    opened = StudyFolder.read(study)
    try:
        sealed = opened.pack()
    except OSError as error:
        raise UserError(f"{error.filename or study}: cannot be packed: {error.strerror}") from error
    left = f"{opened.unpacked:,} left unpacked"
    Terminal().print(escape(f"{sealed:,} records packed into {opened.segments.folder}; {left}"))
    _print_damaged(opened)


@click.command()
@click.argument("study", type=FOLDER, required=False, metavar="STUDY")
@click.option("--out", type=FOLDER, help="Folder of the report. Default: reports/<name of the study's folder>.")
@click.option(
    "--print",
    "printed",
    is_flag=False,
    flag_value="tables",
    metavar="[short]",
    help="Print the answer and the main tables, or with short the answer alone, and write no report.",
)
@click.option(
    "--export",
    "exports",
    multiple=True,
    type=click.Choice(["latex", "explore", "mlflow", "tensorboard", "wandb"]),
    help="Write into a folder of that name, too: its tables for a paper, a page to explore, or its records as runs "
    "of a tracker.",
)
@sigterm_exits()
def report(study: Path | None, out: Path | None, printed: str | None, exports: tuple[str, ...]) -> None:
    """Render the report of the study in the folder STUDY, and print its answer; of a folder of studies render all of
    them, with an index.html.
    """
    if printed not in (None, "tables", "short"):  # the folder, where it comes after the option
        if study is not None:
            raise click.UsageError(f'--print "{printed}": give nothing, or short')
        study, printed = Path(printed), "tables"
    if study is None:
        raise click.UsageError("Missing argument 'STUDY'.")
    from vitbench.report.formats.terminal import SECTIONS, SUMMARY
    from vitbench.report.view import View
    from vitbench.store import StudyFolder

    if printed:
        if out or exports:
            raise click.UsageError("--print writes no report: leave out --out and --export")
        opened = StudyFolder.read(study)
        _print_report(View(opened), [SUMMARY] if printed == "short" else SECTIONS)
        _print_damaged(opened)
        return
    from vitbench.report.exports.export_runs import require
    from vitbench.report.study_report import render, render_all, studies_in

    for name in exports:
        require(name)  # what is missing is said before anything is drawn
    console, folder = Terminal(), out or Path("reports") / study.resolve().name
    if not (study / "study.json").exists() and (studies := studies_in(study)):
        for page, set_aside in render_all(studies, folder, exports):
            for each in set_aside:
                console.print(f"[yellow]set aside[/] {escape(each)}")
            console.print(escape(page))
        return
    opened = StudyFolder.read(study)
    view = View(opened)
    page = render(view, folder, exports=exports)
    _print_report(view, [SUMMARY])
    _print_damaged(opened)
    states = Counter(view.trials["state"])
    console.print(escape(f"{page}  ({', '.join(f'{n} {s}' for s, n in states.most_common())})"))


def _print_report(view: View, titles: Sequence[str]) -> None:
    """Print the sections of a report that have one of some titles."""
    from vitbench.report.formats.terminal import printed
    from vitbench.report.output import Files
    from vitbench.report.study_report import compose

    console = Terminal(soft_wrap=False)
    for part in printed(compose(view, Files(), titles), console.width):
        console.print(part)


def _print_damaged(study: StudyFolder) -> None:
    for damaged in study.damaged:
        Terminal().print(f"[yellow]set aside[/] {escape(damaged)}")
