"""Origins: on which machine, and by which code, results were made."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from vitbench.analysis.frames import where
from vitbench.analysis.grouped import ACCURACY, words
from vitbench.environment import Environment


class Origins:
    """The origins of a study's results, in the plan's order: each with the environment of its first standing record."""

    def __init__(self, environments: Mapping[str, Environment]) -> None:
        names = [*string.ascii_uppercase, *(f"{a}{b}" for a in string.ascii_uppercase for b in string.digits)]
        self.environments = dict(environments)
        self.letters: dict[str, str] = dict(zip(self.environments, names, strict=False))  # by which tables name them

    @property
    def several(self) -> bool:
        """Whether there is more than one, so that tables have to say which."""
        return len(self.environments) > 1

    def letter(self, origin: str) -> str:
        """Letter of an origin; "?" where its records tell no environment."""
        return self.letters.get(origin, "?")

    def letters_of(self, origins: pd.Series[str]) -> list[str]:
        """The letter of each origin in a column; empty where there is none."""
        return [self.letter(origin) if isinstance(origin, str) else "" for origin in origins]

    def of(self, rows: pd.DataFrame) -> list[str]:
        """Origins of those among some trials that have a result, in the order of their letters."""
        return self._in_order(dict.fromkeys(_origin(rows.loc[_has_result(rows), ["origin"]].drop_duplicates())))

    def on(self, origin: str, among: Sequence[str]) -> tuple[str, str]:
        """(words, ending of a file's name) that tell an origin from others; nothing where there is but one."""
        if len(among) < 2:
            return "", ""
        letter = self.letter(origin)
        # A question mark would end the path of a link.
        return f" on {letter}", f"-{letter}" if letter.isalnum() else f"-unknown-{among.index(origin) + 1}"

    def missing(self, rows: pd.DataFrame) -> dict[str, str]:
        """Cell → the word where it has no result: its state, or the letters of the origins where it has one."""
        elsewhere: dict[str, list[str]] = {}
        with_result = rows.loc[_has_result(rows), ["cell", "origin"]].drop_duplicates()
        for cell, origin in zip(with_result["cell"].tolist(), _origin(with_result).tolist(), strict=True):
            elsewhere.setdefault(cell, []).append(origin)
        return {
            cell: self._absence(states, self._in_order(elsewhere.get(cell, ())))
            for cell, states in _states(rows).items()
        }

    def absence(self, rows: pd.DataFrame) -> str:
        """The word that stands for some trials where they have no result: their states, or where they have one."""
        if rows.empty:
            return "not planned"
        return self._absence(Counter(rows["state"].tolist()), self.of(rows))

    def _absence(self, states: Counter[str], elsewhere: Sequence[str]) -> str:
        if elsewhere:
            return f"on {', '.join(map(self.letter, elsewhere))}"
        return words(states) if "ok" not in states else "no value"

    def _in_order(self, present: Iterable[str]) -> list[str]:
        order = list(self.environments)
        return sorted(present, key=lambda o: order.index(o) if o in order else len(order))


def of_origin(rows: pd.DataFrame, origin: str) -> pd.DataFrame:
    """The trials whose records come from one origin."""
    return where(rows, _origin(rows) == origin)


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


def _origin(rows: pd.DataFrame) -> pd.Series:
    """The origin of each row; "unknown" where no process came so far as to look."""
    origin = rows["origin"].astype(object)
    return origin.where(origin.notna(), "unknown")
