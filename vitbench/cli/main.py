"""``vitbench``: the commands, and how their errors are shown."""

import errno
import io
import os
import sys
from collections.abc import Sequence

import click

from vitbench.cli import comparing, explaining, inspecting, model_summary, studies, suites
from vitbench.cli.console import visible
from vitbench.environment import VERSION
from vitbench.errors import UserError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def cli(debug: bool) -> None:
    """Benchmark and ablation harness for Vision Transformers in PyTorch."""


for command in (
    suites.suites,
    suites.init,
    inspecting.components,
    studies.plan,
    studies.run,
    studies.time,
    studies.status,
    studies.report,
    studies.pack,
    comparing.compare,
    comparing.leaderboard,
    model_summary.summary,
    model_summary.profile,
    explaining.explain,
    inspecting.check,
    inspecting.doctor,
    suites.data,
):
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line. A user's mistake is a message on stderr and exit status 2, without a traceback."""
    arguments = sys.argv[1:] if arguments is None else arguments
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # to look for one reads every package installed here
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what its encoding cannot say ends no command
            stream.reconfigure(errors="backslashreplace")
    try:
        status = cli.main(args=arguments, prog_name="vitbench", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        status = 2
    except click.Abort:
        status = 130
    except UserError as error:
        if "--debug" in arguments:
            raise
        message = visible(str(error))  # a name in it may hold what a terminal obeys
        click.echo(f"vitbench: {message}" if "\n" not in message else message, err=True)
        status = 2
    except OSError as error:
        if "--debug" in arguments or error.errno != errno.ENOSPC:
            raise
        sys.stdout = io.StringIO()  # which Python would try to write once more at its end
        click.echo(f"vitbench: output cannot be written: {error.strerror}", err=True)
        status = 2
    sys.exit(status)
