"""Groups: trials of one device and environment, over which means may be taken, and what environments are called."""

import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pandas as pd

from vitbench.analysis.conclusions import Conclusions
from vitbench.analysis.frames import where
from vitbench.analysis.grouped import ACCURACY, words
from vitbench.environment import Environment
from vitbench.report.document import Heading

RUNS = "training run"  # The mode of training runs, whose speed is that of their median step


def ending(letter: str) -> str:
    """The letter of an environment as the ending of a file's name; a question mark would end the path of a link."""
    return f"-{letter if letter.isalnum() else 'unknown'}" if letter else ""


@dataclass(frozen=True)
class TimeGroup:
    """Timings that may be compared: one device, dtype, batch size, mode, level and shape, and one environment."""

    device: str
    dtype: str = ""
    batch_size: int = 0
    mode: str = RUNS
    level: str = "model"
    shape: str = ""
    environment: str = ""  # its key; empty where nothing has a result
    letter: str = ""  # of the environment; empty if the setting was timed in one only

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of its heading; the mode is the last."""
        parts = self.what, self.device, self.dtype, f"batch size {self.batch_size}{self.on}", self.mode_name
        return tuple(filter(None, parts))

    @property
    def setting(self) -> str:
        """Its heading without the mode."""
        return ", ".join(self.parts[:-1])

    @property
    def on(self) -> str:
        """Its environment as the end of a heading; empty where it is the only one."""
        return f" on {self.letter}" if self.letter else ""

    @property
    def title(self) -> str:
        """Its heading."""
        return ", ".join(self.parts)

    @property
    def what(self) -> str:
        """The part of a model that is timed, and its shape; empty for whole models."""
        return "" if self.level == "model" else f"{self.level.replace('_', ' ')} ({self.shape})"

    @property
    def mode_name(self) -> str:
        """The mode as a reader says it: what it is for a whole model, and for a part of one."""
        if self.mode != "train":
            return self.mode
        return "training step" if self.level == "model" else "forward and backward"

    @property
    def item(self) -> str:
        """The unit of a batch: images, or sequences of tokens for parts that come after the patching."""
        return "image" if self.level in ("model", "patching") else "sequence"

    @property
    def slug(self) -> str:
        """Its part of a file's name."""
        part = "" if self.level == "model" else re.sub(r"[^A-Za-z0-9]+", "-", f"{self.level} {self.shape}") + "-"
        return f"{part}{self.device}-{self.dtype}-{self.batch_size}-{self.mode}{ending(self.letter)}"


@dataclass(frozen=True)
class Group:
    """Training runs of one device and one environment, over which means may be taken."""

    device: str
    environment: str  # key of the one whose results these are; empty where nothing has one
    letter: str  # of the environment; empty if its device has one only
    label: str  # its name among the groups; empty if there is only one
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
    def name(self) -> str:
        """Its name, or its device where it is the only one."""
        return self.label or self.device

    @property
    def slug(self) -> str:
        """Ending of its files' names where these name its device; empty if that has one environment only."""
        return ending(self.letter)

    @property
    def ending(self) -> str:
        """Its name as the ending of a file's; empty where it is the only one."""
        return "".join(f"-{word}" for word in re.findall(r"\w+", self.label))


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

    def letters_of(self, environments: "pd.Series[str]") -> list[str]:
        """The letter of each environment in a column; empty where there is none."""
        return [self.letter(environment) if isinstance(environment, str) else "" for environment in environments]

    def of(self, rows: pd.DataFrame) -> list[tuple[str, str]]:
        """(key, letter) of the environments in which some of the trials have a result, in the order of their letters.

        Where there is only one, its letter is empty.
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


def with_changes(rows: pd.DataFrame) -> "pd.Series[bool]":
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


def _has_result(rows: pd.DataFrame) -> "pd.Series[bool]":
    return (rows["state"] == "ok") & (rows[ACCURACY].notna() | rows["latency_ms_p50"].notna())


def _keys(rows: pd.DataFrame) -> pd.Series:
    """Key of each row's environment; "unknown" where no process came so far as to look."""
    keys = rows["environment"].astype(object)
    return keys.where(keys.notna(), "unknown")
