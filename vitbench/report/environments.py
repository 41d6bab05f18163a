"""Environments: on which machine, and by which code, results were made."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterable, Mapping

import pandas as pd

from vitbench.analysis.frames import where
from vitbench.analysis.grouped import ACCURACY, words
from vitbench.environment import Environment


class Environments:
    """The environments of a study's results by key, in the plan's order: each as its first standing record has it."""

    def __init__(self, fingerprints: Mapping[str, Environment]) -> None:
        names = [*string.ascii_uppercase, *(f"{a}{b}" for a in string.ascii_uppercase for b in string.digits)]
        self.fingerprints = dict(fingerprints)
        self.letters: dict[str, str] = dict(zip(self.fingerprints, names, strict=False))  # by which tables name them

    @property
    def several(self) -> bool:
        """Whether there is more than one, so that tables have to say which."""
        return len(self.fingerprints) > 1

    def letter(self, environment: str) -> str:
        """Letter of an environment; "?" where its records tell none."""
        return self.letters.get(environment, "?")

    def letters_of(self, environments: pd.Series[str]) -> list[str]:
        """The letter of each environment in a column; empty where there is none."""
        return [self.letter(environment) if isinstance(environment, str) else "" for environment in environments]

    def of(self, rows: pd.DataFrame) -> list[tuple[str, str]]:
        """(key, letter) of the environments in which some of the trials have a result, in the order of their letters.

        The letter is empty where there is but one, which need not be told from others.
        """
        keys = self._in_order(_keys(rows[_has_result(rows)]).drop_duplicates())
        return [(key, self.letter(key) if len(keys) > 1 else "") for key in keys]

    def missing(self, rows: pd.DataFrame) -> dict[str, str]:
        """Cell → the word where it has no result: its state, or the letters of the environments where it has one."""
        absent = {cell: "no value" if "ok" in states else words(states) for cell, states in _states(rows).items()}
        having = rows.loc[_has_result(rows), ["cell", "environment"]].drop_duplicates()
        for cell, keys in _keys(having).groupby(having["cell"], sort=False):
            absent[str(cell)] = f"on {', '.join(map(self.letter, self._in_order(keys)))}"
        return absent

    def absence(self, rows: pd.DataFrame) -> str:
        """The word that stands for some trials where they have no result: their states, or where they have one."""
        return next(iter(self.missing(rows.assign(cell="")).values()), "not planned")

    def _in_order(self, present: Iterable[str]) -> list[str]:
        order = list(self.fingerprints)
        return sorted(present, key=lambda o: order.index(o) if o in order else len(order))


def of_environment(rows: pd.DataFrame, environment: str) -> pd.DataFrame:
    """The trials whose records come from one environment."""
    return where(rows, _keys(rows) == environment)


def with_changes(rows: pd.DataFrame) -> pd.Series[bool]:
    """Whether each of some trials ran on code with changes that no commit has; not where its record does not say."""
    return rows["dirty"].astype(object).eq(True)


def states_of(rows: pd.DataFrame) -> dict[str, str]:
    """Cell → what became of its trials, in words."""
    return {cell: words(of_cell) for cell, of_cell in _states(rows).items()}


def _states(rows: pd.DataFrame) -> dict[str, Counter[str]]:
    """Cell → state → number of trials, in the order in which they come."""
    counts: dict[str, Counter[str]] = {}
    numbers = rows.groupby(["cell", "state"], sort=False).size().reset_index(name="trials")
    for cell, state, number in numbers.itertuples(index=False):
        counts.setdefault(cell, Counter())[state] = number
    return counts


def _has_result(rows: pd.DataFrame) -> pd.Series[bool]:
    return (rows["state"] == "ok") & (rows[ACCURACY].notna() | rows["latency_ms_p50"].notna())


def _keys(rows: pd.DataFrame) -> pd.Series:
    """Key of each row's environment; "unknown" where no process came so far as to look."""
    keys = rows["environment"].astype(object)
    return keys.where(keys.notna(), "unknown")
