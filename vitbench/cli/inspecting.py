"""The commands ``components``, ``check`` and ``doctor``."""

from __future__ import annotations

from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from vitbench import registry
from vitbench.cli.console import Terminal, escape


@click.command()
@click.argument("slot", required=False)
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A file with components of your own.",
)
def components(slot: str | None, plugins: tuple[Path, ...]) -> None:
    """What can be combined, and where each runs. Imports neither torch nor the components."""
    for plugin in plugins:
        registry.load_plugin(plugin)
    console = Terminal(soft_wrap=False)
    for name in [slot] if slot else registry.slots():
        table = Table(title=name, title_justify="left", title_style="bold", expand=False)
        for column in ("component", "exact", "devices", "what it is"):
            table.add_column(column, overflow="fold")
        for entry in registry.names(name):
            facts = registry.facts(name, entry)
            exact = "reference" if facts.reference else ("exact" if facts.exact else "")
            trains = facts.devices if facts.trains_on is None else facts.trains_on
            devices = " ".join(d if d in trains else f"{d} (inference)" for d in facts.devices)
            table.add_row(entry, exact, devices, Text(facts.summary))
        console.print(table)


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--device", default="auto", metavar="auto|cpu|cuda[:i]|mps", help="Where to run. Default: auto.")
@click.pass_context
def check(context: click.Context, file: Path, device: str) -> None:
    """Check the components of the plug-in FILE against the contract that those of vitbench keep.

    Each is built and trained one step in a small model. One that declares itself exact is compared with the reference
    of its slot in float64: output, every gradient, and initial values. Exit status 1 if anything is wrong.
    """
    registry.load_plugin(file)
    from vitbench.devices import resolve, unsupported
    from vitbench.model.contract import SMALL, checked, fitted

    console, where, kept = Terminal(), resolve(device), True
    for slot, name in registry.of_plugin(file):
        if reason := unsupported(fitted(SMALL, slot, name), where, "float32", training=True):
            console.print(f"[yellow]unsupported[/] {escape(f'{slot} {name}: {reason}')}")
            continue
        for words, problem in checked(slot, name, where):
            mark = "[red]wrong[/]" if problem else "[green]ok[/]   "
            console.print(f"{mark} {escape(f'{slot} {name}: {words}')}{escape(f': {problem}') if problem else ''}")
            kept &= not problem
    context.exit(0 if kept else 1)


@click.command()
@click.pass_context
def doctor(context: click.Context) -> None:
    """What this machine can run, and why not. Exit status 1 if the main job cannot run."""
    from vitbench.runner.doctor import examine

    healthy = True
    for finding in examine():
        mark = {"ok": "ok  ", "note": "note", "bad": "BAD "}[finding.level]
        click.echo(f"{mark}  {finding.subject}: {finding.text}")
        healthy &= finding.level != "bad"
    context.exit(0 if healthy else 1)
