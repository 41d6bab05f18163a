"""Suites that come with the package, by name."""

import os
import tomllib
from pathlib import Path
from typing import NamedTuple

from vitbench.errors import UserError
from vitbench.wording import nearest

SUFFIX = ".toml"
FOLDER = Path(__file__).parents[1] / "ablations"
"""Folder of the suites; in a checkout a link to the folder of that name beside the package."""


class UnknownSuite(UserError, ValueError):
    """A name that is neither a suite of the package nor a file."""


class Shipped(NamedTuple):
    """A suite of the package, as its file describes it."""

    name: str
    question: str
    cost: str
    expected: str
    small: bool  # Whether it has a small form (``--small``)


def names() -> list[str]:
    """Names of the suites, sorted."""
    return sorted(file.stem for file in FOLDER.glob(f"*{SUFFIX}"))


def described(name: str) -> Shipped:
    """A suite of the package, by its name. Raises UnknownSuite."""
    if name not in names():
        raise _unknown(name)
    tables = tomllib.loads((FOLDER / f"{name}{SUFFIX}").read_text(encoding="utf-8"))
    question, cost, expected = (tables["suite"].get(key, "") for key in ("question", "cost", "expected"))
    return Shipped(name, question, cost, expected, "small" in tables)


def suite_file(suite: str) -> Path:
    """The file of a suite: one of the package's by its name, or a path.

    Raises:
        UnknownSuite: with the nearest name.
    """
    path = Path(suite)
    if path.suffix or os.sep in suite or path.is_file():
        return path
    if suite not in names():
        raise _unknown(suite)
    return FOLDER / f"{suite}{SUFFIX}"


def _unknown(suite: str) -> UnknownSuite:
    return UnknownSuite(
        f'"{suite}" is no suite of vitbench{nearest(suite, names())} (a path ends in {SUFFIX}; '
        "`vitbench suites` lists the names)"
    )
