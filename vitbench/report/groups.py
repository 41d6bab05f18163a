"""Groups: what a mean may be taken over, and origins: on which machine, and by which code, results were made."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from vitbench.analysis.conclusions import Conclusions
from vitbench.analysis.frames import where
from vitbench.analysis.grouped import ACCURACY, words
from vitbench.environment import Environment
from vitbench.report.document import Heading

RUNS = "training run"  # The mode of training runs, whose speed is that of their median step


@dataclass(frozen=True)
class TimeGroup:
    """Timings that may be compared: one device, dtype, batch size, mode, level and shape, and one environment."""

    device: str
    dtype: str = ""
    batch_size: int = 0
    mode: str = RUNS
    level: str = "model"
    shape: str = ""
    origin: str = ""  # the environment; empty where nothing has a result
    letter: str = ""  # tells it from others of the same setting; empty where it is the only one

    @property
    def setting(self) -> str:
        """All but the mode, as a heading."""
        return f"{self.what}{self.device}, {self.dtype}, batch size {self.batch_size}{self.on}"

    @property
    def on(self) -> str:
        """Its environment as the end of a heading; empty where it is the only one."""
        return f" on {self.letter}" if self.letter else ""

    @property
    def title(self) -> str:
        """As a heading."""
        return f"{self.setting}, {self.mode_name}"

    @property
    def what(self) -> str:
        """The part of a model that is timed, and its shape; empty for whole models."""
        return "" if self.level == "model" else f"{self.level.replace('_', ' ')} ({self.shape}), "

    @property
    def mode_name(self) -> str:
        """The mode as a reader says it: what it is for a whole model, and for a part of one."""
        if self.mode != "train":
            return self.mode
        return "training step" if self.level == "model" else "forward and backward"

    @property
    def item(self) -> str:
        """What a batch has so many of: what comes after the patching are sequences of tokens."""
        return "image" if self.level in ("model", "patching") else "sequence"

    @property
    def slug(self) -> str:
        """As part of a file's name."""
        part = "" if self.level == "model" else re.sub(r"[^A-Za-z0-9]+", "-", f"{self.level} {self.shape}") + "-"
        on = f"-{self.letter if self.letter.isalnum() else 'unknown'}" if self.letter else ""  # "?" would end a link
        return f"{part}{self.device}-{self.dtype}-{self.batch_size}-{self.mode}{on}"


@dataclass(frozen=True)
class Group:
    """What a mean may be taken over: training runs of one device and one environment."""

    device: str  # where
    origin: str  # whose results; empty where nothing has one
    label: str  # what tells it from the other groups; empty where it is the only one
    slug: str  # the same as the ending of a file's name
    conclusions: Conclusions | None  # verdicts on its runs; None where nothing has a result

    @property
    def on(self) -> str:
        """Its name as the end of a heading; empty where it is the only one."""
        return f" on {self.label}" if self.label else ""

    @property
    def heading(self) -> list[Heading]:
        """Its name as a heading; none where it is the only one."""
        return [Heading(f"On {self.label}")] if self.label else []

    @property
    def place(self) -> str:
        """Its name, or its device where it is the only one."""
        return self.label or self.device


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
        """The letter of an origin; "?" where its records tell no environment."""
        return self.letters.get(origin, "?")

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
    """Those of some trials whose records come from one origin."""
    return where(rows, _origin(rows) == origin)


def with_changes(rows: pd.DataFrame) -> pd.Series[bool]:
    """Whether each of some trials ran on code with changes that no commit has; not where its record does not say."""
    return rows["dirty"].astype(object).eq(True)


def states_of(rows: pd.DataFrame) -> dict[str, str]:
    """Cell → what became of its trials, in words."""
    return {cell: words(of_cell) for cell, of_cell in _states(rows).items()}


def _states(rows: pd.DataFrame) -> dict[str, Counter[str]]:
    """Cell → state → trials, in the order in which they come."""
    found: dict[str, Counter[str]] = {}
    numbers = rows.groupby(["cell", "state"], sort=False).size().reset_index(name="trials")
    for cell, state, number in numbers.itertuples(index=False):
        found.setdefault(cell, Counter())[state] = number
    return found


def _has_result(rows: pd.DataFrame) -> pd.Series[bool]:
    return (rows["state"] == "ok") & (rows[ACCURACY].notna() | rows["latency_ms_p50"].notna())


def _origin(rows: pd.DataFrame) -> pd.Series:
    """The origin of each row; "unknown" where no process came so far as to look."""
    origin = rows["origin"].astype(object)
    return origin.where(origin.notna(), "unknown")
