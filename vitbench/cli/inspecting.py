"""The commands ``components``, ``check`` and ``doctor``."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from vitbench import registry
from vitbench.cli import completion
from vitbench.cli.console import Terminal, escape
from vitbench.component_facts import Facts

WIDE = 240  # Columns of a list that goes into a file or another program, where nothing is cut off


@click.command()
@click.argument("slot", required=False, shell_complete=completion.slots)
@click.option("-v", "--verbose", is_flag=True, help="With source, options, needs and offers.")
@click.option("--json", "as_json", is_flag=True, help="All that is known of each, as JSON.")
@click.option(
    "--plugin", "plugins", multiple=True, type=click.Path(path_type=Path), help="A file with components of your own."
)
def components(slot: str | None, verbose: bool, as_json: bool, plugins: tuple[Path, ...]) -> None:
    """What can be combined, and where each runs. Imports neither torch nor the components."""
    for plugin in plugins:
        registry.load_plugin(plugin)
    known = {
        name: {entry: registry.facts(name, entry) for entry in registry.names(name)}
        for name in ([slot] if slot else registry.slots())
    }
    if as_json:
        listed = {
            name: {entry: dataclasses.asdict(facts) for entry, facts in each.items()} for name, each in known.items()
        }
        click.echo(json.dumps(listed, indent=2, ensure_ascii=False, default=dict))
        return
    console = Terminal(soft_wrap=False)
    if not console.is_terminal:
        console.width = WIDE
    for name, entries in known.items():
        table = Table(title=name, title_justify="left", title_style="bold", box=None, show_header=False, pad_edge=False)
        for _ in range(3):
            table.add_column(no_wrap=True)
        table.add_column(no_wrap=not verbose, overflow="fold" if verbose else "ellipsis")
        for entry, facts in entries.items():
            exact = "reference" if facts.reference else ("exact" if facts.exact else "")
            trains = facts.devices if facts.trains_on is None else facts.trains_on
            devices = " ".join(d if d in trains else f"{d} (inference)" for d in facts.devices)
            lines = [facts.summary, *(_more(facts) if verbose else ())]
            table.add_row(entry, exact, devices, Text("\n".join(lines)))
        console.print(table, end="\n\n" if len(known) > 1 else "\n")


def _more(facts: Facts) -> Iterator[str]:
    """Needs, offers, options and source of a component, one per line."""
    numbers = [f"{name} a multiple of {factor}" for name, factor in facts.multiple_of.items()]
    numbers += [f"{name} of {', '.join(map(str, among))}" for name, among in facts.among.items()]
    needs = [*facts.packages, *(f"{feature} of the {slot}" for slot, feature in facts.needs.items()), *numbers]
    for word, each in (("needs", needs), ("offers", facts.offers)):
        if each:
            yield f"{word} {', '.join(each)}"
    for name, option in facts.checked_options.items():
        yield f"option {name}: {option.allowed}"
    yield facts.source


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

    console, where, correct = Terminal(), resolve(device), True
    for slot, name in registry.of_plugin(file):
        if reason := unsupported(fitted(SMALL, slot, name), where, "float32", training=True):
            console.print(f"[yellow]unsupported[/] {escape(f'{slot} {name}: {reason}')}")
            continue
        for words, problem in checked(slot, name, where):
            mark = "[red]wrong[/]" if problem else "[green]ok[/]   "
            console.print(f"{mark} {escape(f'{slot} {name}: {words}')}{escape(f': {problem}') if problem else ''}")
            correct &= not problem
    context.exit(0 if correct else 1)


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
