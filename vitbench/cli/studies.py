"""Commands about studies: plan, run, time, status, report. torch is imported by those that train or time only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.console import Console
from rich.markup import escape

from vitbench import registry
from vitbench.spec.reading import MAX_TRIALS, read_suite
from vitbench.spec.suite import Suite

if TYPE_CHECKING:
    from vitbench.runner.run import Options

Function = TypeVar("Function", bound=Callable[..., Any])
FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)


def suite_options(function: Function) -> Function:
    """What every command that reads a suite takes."""
    for decorate in (
        click.argument("suite", type=FILE),
        click.option("--set", "overrides", multiple=True, metavar="TABLE.KEY=VALUE", help="Replace a value."),
        click.option("--plugin", "plugins", multiple=True, type=FILE, help="A file with components of your own."),
        click.option("--device", default="auto", metavar="auto|cpu|cuda[:i]|mps", help="Where to run. Default: auto."),
        click.option("--results", type=FOLDER, help="Folder of the study. Default: results/<name of the suite>."),
        click.option("--max-trials", type=click.IntRange(min=1), default=MAX_TRIALS, show_default=True,
                     help="Refuse a suite with more cells x seeds."),
        click.option("--small", is_flag=True, help="The suite's small form: what its [small] table says instead."),
    ):  # fmt: skip
        function = decorate(function)
    return function


def _read(suite: Path, overrides: tuple[str, ...], plugins: tuple[Path, ...], max_trials: int, *, small: bool) -> Suite:
    for plugin in plugins:
        registry.load_plugin(plugin)
    return read_suite(suite, overrides, max_trials, small=small)


@click.command()
@suite_options
@click.option("--all", "every", is_flag=True, help="Print every trial, however many.")
def plan(
    suite: Path,
    overrides: tuple[str, ...],
    plugins: tuple[Path, ...],
    device: str,
    results: Path | None,
    max_trials: int,
    small: bool,
    every: bool,
) -> None:
    """List the trials of SUITE, their number and estimated cost. Runs nothing."""
    from vitbench.analysis.outlook import outlook
    from vitbench.runner.overview import print_plan

    asked = _read(suite, overrides, plugins, max_trials, small=small)
    console = Console(highlight=False, soft_wrap=True)
    print_plan(asked, device, results, console, every=every)
    for sentence in outlook(asked):
        console.print(escape(sentence))


def run_options(function: Function) -> Function:
    """What both commands take that run trials."""
    for decorate in (
        click.option("--rerun-changed", is_flag=True,
                     help="Run again what was run by another state of vitbench's code."),
        click.option("--heartbeat", type=click.FloatRange(min=0.1, max=3600), default=10.0, show_default=True,
                     metavar="SECONDS", help="Between signs of life to other drivers of the same study; after three "
                     "that are missed its trials are taken over."),
    ):  # fmt: skip
        function = decorate(function)
    return function


def _run(
    suite: Path, overrides: tuple[str, ...], plugins: tuple[Path, ...], results: Path | None, max_trials: int,
    small: bool, options: Callable[[], Options],
) -> int:  # fmt: skip
    from vitbench.runner.run import run_suite

    read = _read(suite, overrides, plugins, max_trials, small=small)
    return run_suite(read, results, options(), Console(highlight=False, soft_wrap=True))


@click.command()
@suite_options
@run_options
@click.option(
    "--launcher", type=click.Choice(["local", "ray"]), default="local", show_default=True, help="What places processes."
)
@click.option("--address", metavar="HOST:PORT", help="Of the launcher's cluster. Default: Ray's own choice.")
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Trials trained at once.")
@click.pass_context
def run(
    context: click.Context, suite: Path, overrides: tuple[str, ...], plugins: tuple[Path, ...], device: str,
    results: Path | None, max_trials: int, small: bool, launcher: str, address: str | None, workers: int,
    rerun_changed: bool, heartbeat: float,
) -> None:  # fmt: skip
    """Train and time every trial of SUITE that has not been run yet.

    Several drivers may run one study at once, on one machine or on many that share its folder.

    Exit status: 0 if every trial is ok or unsupported, 1 if one is not, 2 for a mistake in the suite, 130 after Ctrl-C.
    """

    def options() -> Options:
        from vitbench.runner.run import Options

        return Options(device=device, workers=workers, launcher=launcher, address=address,
                       rerun_changed=rerun_changed, heartbeat_s=heartbeat)  # fmt: skip

    context.exit(_run(suite, overrides, plugins, results, max_trials, small, options))


@click.command()
@suite_options
@run_options
@click.pass_context
def time(
    context: click.Context, suite: Path, overrides: tuple[str, ...], plugins: tuple[Path, ...], device: str,
    results: Path | None, max_trials: int, small: bool, rerun_changed: bool, heartbeat: float,
) -> None:  # fmt: skip
    """Run the timing trials of SUITE only."""

    def options() -> Options:
        from vitbench.runner.run import Options

        return Options(device=device, kinds=("time",), rerun_changed=rerun_changed, heartbeat_s=heartbeat)

    context.exit(_run(suite, overrides, plugins, results, max_trials, small, options))


@click.command()
@click.argument("study", type=FOLDER)
def status(study: Path) -> None:
    """What is done, failed and left of the study in the folder STUDY."""
    from vitbench.runner.overview import print_status
    from vitbench.store import Study

    print_status(Study.read(study), Console(highlight=False, soft_wrap=True))


@click.command()
@click.argument("study", type=FOLDER)
@click.option("--out", type=FOLDER, help="Folder of the report. Default: reports/<name of the study's folder>.")
def report(study: Path, out: Path | None) -> None:
    """Render the report of the study in the folder STUDY."""
    from vitbench.report.render import render
    from vitbench.store import Study
    from vitbench.store.study import standing

    opened = Study.read(study)
    page = render(opened, out or Path("reports") / study.resolve().name)
    console = Console(highlight=False, soft_wrap=True)
    for damaged in opened.damaged:
        console.print(f"[yellow]set aside[/] {escape(damaged)}")
    states = Counter(standing(attempts).state for attempts in opened.states().values())
    console.print(escape(f"{page}  ({', '.join(f'{n} {s}' for s, n in states.most_common()) or 'no records yet'})"))
