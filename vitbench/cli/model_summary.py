"""The commands ``summary`` and ``profile``: a model stage by stage, and operation by operation."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.table import Table
from rich.text import Text

from vitbench import registry
from vitbench.cli import completion
from vitbench.cli.console import Terminal, escape
from vitbench.component_facts import DTYPES
from vitbench.config.architectures import of_timm
from vitbench.config.model import ModelSpec
from vitbench.config.presets import PRESETS, preset
from vitbench.config.reading import MOST_TRIALS, read_suite
from vitbench.config.recipe import Mode
from vitbench.config.shipped import UnknownSuite, names, suite_file
from vitbench.errors import UserError
from vitbench.wording import nearest

if TYPE_CHECKING:
    from vitbench.timing.stages import Stage, Summary


UNSTEADY = 0.2  # Interquartile range of a model's passes, over their median, above which a summary says so


def of_one_model(function: Callable[..., None]) -> Callable[..., None]:
    """Options of a command about one model, which gets it as ``model``: a label, and what it is."""

    @functools.wraps(function)
    def command(
        name: str, cell: str | None, overrides: tuple[str, ...], small: bool, plugins: tuple[Path, ...], device: str,
        **others: Any,
    ) -> None:  # fmt: skip
        for plugin in plugins:
            registry.load_plugin(plugin)
        function(_chosen(name, cell, overrides, device, small=small), device, **others)

    for option in (
        click.option("--batch", type=click.IntRange(min=1), default=16, show_default=True, help="Images at once."),
        click.option("--device", default="auto", metavar="auto|cpu|cuda[:i]|mps", help="Where to run it."),
        click.option("--plugin", "plugins", multiple=True, type=click.Path(path_type=Path),
                     help="A file with components."),
        click.option("--small", is_flag=True, help="The suite's small form."),
        click.option("--set", "overrides", multiple=True, metavar="TABLE.KEY=VALUE",
                     help="Replace a value of the suite.", shell_complete=completion.settings),
        click.option("--cell", help="Label of a cell of the suite, as `vitbench plan` prints it. Default: the first."),
        click.argument("name", metavar="PRESET|SUITE", shell_complete=completion.models),
    ):  # fmt: skip
        command = option(command)
    return command


@contextmanager
def _in_one_line(label: str, batch: int) -> Iterator[None]:
    """Report an error of a model in one line. RuntimeError is also torch's for too little memory."""
    try:
        yield
    except (ValueError, RuntimeError) as error:
        raise UserError(f"{label}, {batch} image(s) at once: {str(error).splitlines()[0]}") from error


@click.command()
@of_one_model
@click.option("--mode", type=click.Choice(["inference", "train"]), default="train", show_default=True)
@click.option("--dtype", type=click.Choice(DTYPES), default="float32", show_default=True)
@click.option("--top", type=click.IntRange(min=1), default=15, show_default=True, help="Operations that are printed.")
@click.option("--trace", type=click.Path(path_type=Path, dir_okay=False), default="trace.json", show_default=True,
              help="File for the timeline, which chrome://tracing and perfetto.dev show.")  # fmt: skip
def profile(
    model: tuple[str, ModelSpec], device: str, batch: int, mode: Mode, dtype: str, top: int, trace: Path
) -> None:
    """Which operations an iteration of a model spends its time in, as torch.profiler sees it."""
    label, spec = model
    from vitbench.devices import resolve, unsupported
    from vitbench.timing.profiling import profiled

    where = resolve(device)
    if reason := unsupported(spec, where, dtype, training=mode == "train"):
        raise UserError(reason)
    try:
        with _in_one_line(label, batch):
            operations = profiled(spec, where, batch_size=batch, mode=mode, dtype=dtype, trace=trace)
    except OSError as error:
        raise UserError(f"{trace}: cannot be written: {error.strerror}") from error
    title = Text(f"{label}, {mode}, {dtype}, {batch} images on {where.type}", style="bold")
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("operation", "calls", "ms", "time (%)"):
        table.add_column(column, justify="left" if column == "operation" else "right", overflow="fold")
    for each in operations[:top]:
        table.add_row(Text(each.name), f"{each.calls:g}", f"{each.ms:.3f}", f"{100 * each.share:.1f}")
    console = Terminal(soft_wrap=False)
    console.print(table)
    seen = sum(each.share for each in operations)
    console.print(escape(f"All {len(operations)} operations take {100 * seen:.0f} % of an iteration; the rest is "
                         f"Python, waiting, or another runtime, which the profiler does not see. It slows what it "
                         f"watches. The timeline: {trace}"))  # fmt: skip


@click.command()
@of_one_model
def summary(model: tuple[str, ModelSpec], device: str, batch: int) -> None:
    """A model stage by stage: operation, shape, parameters, FLOPs, and its share of the time of a forward pass."""
    label, spec = model
    from vitbench.devices import resolve, unsupported  # after the name: a mistake in it is said before torch loads
    from vitbench.timing.stages import summarise

    where = resolve(device)
    if reason := unsupported(spec, where, "float32", training=False):
        raise UserError(reason)
    with _in_one_line(label, batch):
        measured = summarise(spec, where, batch)
    console = Terminal(soft_wrap=False)
    console.print(_table(label, measured))
    console.print(
        escape(f"Of one image; time: of {batch} in {measured.ms:.2f} ms on {where.type}, each stage waited for.")
    )
    if measured.spread > UNSTEADY:
        console.print(escape(f"Passes differ by {100 * measured.spread:.0f} % of their median, as on a machine with "
                             f"other work: the shares are uncertain."))  # fmt: skip


def _chosen(
    name: str, cell: str | None, overrides: Sequence[str], device: str, *, small: bool
) -> tuple[str, ModelSpec]:
    """Label and model that are asked for."""
    from vitbench.runner.budget import with_matched_parameters
    from vitbench.runner.device_kind import device_kind

    if name in PRESETS or of_timm(name):
        if cell or overrides or small:
            raise click.UsageError(f'"{name}" is a preset: --cell, --set and --small are of suites')
        return name, preset(name)
    try:
        file = suite_file(name)
    except UnknownSuite as error:
        raise click.UsageError(
            f'"{name}" is neither a preset nor a suite{nearest(name, [*PRESETS, *names()])}; '
            f"presets: {', '.join(PRESETS)}; suites: {', '.join(names())}"
        ) from error
    # What a cell is trained with: a suite may make its models alike in parameters.
    only = () if cell is None else (cell,)
    asked = read_suite(file, overrides, MOST_TRIALS, small=small, device=device_kind(device), only=only)
    first = with_matched_parameters(asked).cells[0]
    return first.label, first.model


def _table(label: str, measured: Summary) -> Table:
    table = Table(title=escape(label), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("stage", no_wrap=True)
    table.add_column("what", overflow="fold")
    for column in ("shape", "parameters", "MFLOPs", "time (%)"):
        table.add_column(column, justify="right", no_wrap=True)
    block = ""
    for stage in _folded(measured.stages):
        of_block, colon, part = stage.name.partition(": ")
        if colon and of_block != block:
            table.add_row(of_block)
        block = of_block if colon else ""
        table.add_row(
            Text(f"  {part}" if colon else stage.name), Text(stage.what),
            " × ".join(f"{size:,}" for size in stage.shape), f"{stage.parameters:,}",
            f"{stage.flops / 1e6:,.2f}", f"{100 * stage.share:.1f}",
        )  # fmt: skip
    # Medians of parts may come to more than the whole.
    rest = max(0.0, 1.0 - sum(stage.share for stage in measured.stages))
    others = measured.parameters - sum(stage.parameters for stage in measured.stages)
    flops = (measured.flops - sum(stage.flops for stage in measured.stages)) / 1e6
    table.add_row("between them", "", "", f"{others:,}", f"{flops:,.2f}", f"{100 * rest:.1f}", end_section=True)
    table.add_row("all", "", "", f"{measured.parameters:,}", f"{measured.flops / 1e6:,.2f}", "100.0", style="bold")
    return table


def _folded(stages: Sequence[Stage]) -> Iterator[Stage]:
    """The stages, those of all blocks after the first as one: blocks are alike."""
    from vitbench.timing.stages import Stage

    later = [stage for stage in stages if stage.name.startswith("block ") and not stage.name.startswith("block 1:")]
    last = later[-1].name.partition(":")[0].removeprefix("block ") if later else ""
    for stage in stages:
        if stage not in later:
            yield stage
        elif stage is later[0]:
            name = f"blocks 2 to {last}" if last != "2" else "block 2"
            sums = (sum(s.parameters for s in later), sum(s.flops for s in later), sum(s.share for s in later))
            yield Stage(name, "alike", later[-1].shape, *sums)
