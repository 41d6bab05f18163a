"""The commands ``components`` and ``doctor``."""

from __future__ import annotations

from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from vitbench import registry
from vitbench.cli.console import Terminal


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
