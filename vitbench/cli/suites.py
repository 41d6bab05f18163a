"""The commands ``suites``, ``init`` and ``data``: what can be run, a suite of one's own, and its images."""

import contextlib
import re
from pathlib import Path

import click
from rich import box
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from vitbench import registry
from vitbench.cli import completion
from vitbench.cli.console import Terminal, escape
from vitbench.config import shipped
from vitbench.errors import UserError


@click.command()
@click.argument("names", nargs=-1, shell_complete=completion.suites)
def suites(names: tuple[str, ...]) -> None:
    """List the suites that come with vitbench, a line each; of those named, question, cost and expected result."""
    console = Terminal(soft_wrap=False)
    if not names:
        table = Table("suite", "small form", box=box.SIMPLE_HEAD, pad_edge=False, expand=True)
        table.add_column("question", ratio=1)
        for each in map(shipped.described, shipped.names()):
            table.add_row(Text(each.name, style="bold"), "--small" if each.small else "", Text(each.question))
        console.print(table)
        console.print("vitbench suites NAME: cost, and what is expected")
    for name in names:
        each = shipped.described(name)
        console.print(Text(each.name, style="bold"))
        for title, text in (("question", each.question), ("cost", each.cost), ("expected", each.expected)):
            console.print(Padding(Text(f"{title}: {text}"), (0, 0, 0, 2)))


@click.command()
@click.argument("name")
@click.option("--from", "source", default="positions", show_default=True, shell_complete=completion.suites,
              help="The suite to start from: a name or a path.")  # fmt: skip
def init(name: str, source: str) -> None:
    """Write NAME.toml, a suite of your own: a copy of another suite, under its new name."""
    name = name.removesuffix(shipped.SUFFIX)
    if problem := registry.name_problem(name):
        raise click.BadParameter(problem)
    text = shipped.suite_file(source).read_text(encoding="utf-8")
    renamed, times = re.subn(r'(?m)^(name\s*=\s*)".*"$', rf'\1"{name}"', text, count=1)
    if not times:
        raise UserError(f'{source}: has no line such as name = "positions" under [suite]')
    file = Path(f"{name}{shipped.SUFFIX}")
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(renamed)
    except FileExistsError as error:
        raise UserError(f"{file}: exists already, and is left as it is") from error
    except OSError as error:
        with contextlib.suppress(OSError):
            file.unlink()  # half of a suite
        raise UserError(f"{file}: cannot be written: {error.strerror}") from error
    Terminal().print(escape(f"{file}: change what you like, then `vitbench plan {file}` and `vitbench run {file}`"))


@click.command()
@click.argument("name", shell_complete=completion.published)
def data(name: str) -> None:
    """Download the data set NAME (cifar10, cifar100, mnist, fashion_mnist), verify it, and say where it is."""
    from vitbench.config.recipe import DataSpec
    from vitbench.data import catalog
    from vitbench.wording import nearest

    if name not in catalog.PUBLISHED:
        raise UserError(f'"{name}" cannot be downloaded{nearest(name, catalog.PUBLISHED)}; known: '
                        f"{', '.join(catalog.PUBLISHED)}")  # fmt: skip
    from vitbench.data.load import prepare

    prepared = prepare(DataSpec.model_validate({"name": name, "download": True}))
    facts = next(iter(prepared.facts.values()))
    Terminal().print(
        escape(
            f"{catalog.root()}: {name} ({prepared.identity}), {facts.train:,} training and {facts.test:,} test images"
        )
    )
