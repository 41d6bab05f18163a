"""Conditions: machine, software, data and recipe of each arm of a comparison, and where they differ."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from vitbench.analysis.arms import Arm
from vitbench.analysis.frames import commits, level
from vitbench.analysis.sides import NAMES, Platform
from vitbench.config.base import Strict
from vitbench.config.recipe import DataSpec, TimeSpec, TrainSpec
from vitbench.config.trial import TimeTrial, TrainTrial

Kind = Literal["study", "machine", "software", "data", "recipe", "protocol"]
"""Kinds of conditions. Those of the study itself (its name, its dates) explain no difference."""

ALWAYS = ("epochs", "images", "batch_size", "optimizer", "learning_rate", "precision")
"""Fields of a recipe that are shown also where all arms share them."""
PROTOCOL = ("rounds", "iterations", "warmup")  # Fields of a timing's protocol that say how long, and not what, is timed
DEVICE, ACCELERATOR = NAMES["device_name"], "accelerator"
"""A device's name is recorded where it is another than the processor's."""
NONE = "none"  # Said of what an arm does not have, such as a driver where there is no GPU
MOST_NAMED = 4  # Values of one condition that a cell lists before it counts the others


@dataclass(frozen=True)
class Condition:
    """One thing that is known of every arm."""

    name: str  # as a reader says it
    kind: Kind  # see :data:`Kind`
    values: tuple[str, ...]  # of each arm, in words; empty where nothing is known

    @property
    def differs(self) -> bool:
        """Whether it explains a difference between any of the arms."""
        return self.kind != "study" and self.apart

    @property
    def apart(self) -> bool:
        """Whether not all arms have the same."""
        return len({value for value in self.values if value}) > 1

    @property
    def alike(self) -> bool:
        """Whether all arms are known to have the same; a study's name tells arms apart, even where it is one name."""
        return self.known and not self.apart and self.name != "study"

    @property
    def known(self) -> bool:
        """Whether something is known of every arm."""
        return all(self.values)


def conditions_of(arms: Sequence[Arm]) -> list[Condition]:
    """Conditions of the arms, in the order in which a reader asks."""

    def row(name: str, kind: Kind, value: Callable[[Arm], str]) -> Condition:
        return Condition(name, kind, tuple(value(arm) for arm in arms))

    rows = [
        row("study", "study", lambda arm: arm.name),
        row("suite", "study", lambda arm: arm.info.suite.name if arm.info else ""),
        row("runs on", "machine", lambda arm: arm.device),
        *_recorded(arms),
        row("commit", "study", lambda arm: _named(commits(arm.trials))),
        row("dates", "study", lambda arm: _dates(arm.trials)),
        row("data", "data", _data),
        *(
            each
            for each in _fields(arms, DataSpec, "data", (), lambda arm: [cell.trial.data for cell in arm.cells])
            if each.name != "name"
        ),
        *_fields(arms, TrainSpec, "recipe", ALWAYS, lambda arm: [cell.trial.train for cell in arm.cells]),
        *_fields(arms, TimeSpec, "protocol", PROTOCOL, _protocols),
        row("seeds", "study", lambda arm: _named({seed: None for cell in arm.cells for seed in sorted(cell.runs)})),
        row("training runs ok", "study", lambda arm: _ok(arm.trials, "train")),
        row("timings ok", "study", lambda arm: _ok(arm.trials, "time")),
    ]
    return [each for each in rows if any(each.values)]


def _recorded(arms: Sequence[Arm]) -> list[Condition]:
    """Machine and software, a row for each thing that any arm's records tell."""
    known = [arm.platform or Platform({}, {}) for arm in arms]
    rows = []
    for kind, parts in (("machine", [k.machine for k in known]), ("software", [k.software for k in known])):
        for name in dict.fromkeys(name for part in parts for name in part):
            # A field that does not apply, such as a driver on a CPU, is absent there; of no record nothing is known.
            values = tuple(_known(part.get(name)) if part else "" for part in parts)
            if set(values) - {NONE, ""}:
                label = ACCELERATOR if name == DEVICE else name
                rows.append(Condition(label, "machine" if kind == "machine" else "software", values))
    return rows


def _known(value: str | None) -> str:
    return NONE if value in (None, str(None)) else str(value)


def _fields(
    arms: Sequence[Arm], spec: type[Strict], kind: Kind, always: Sequence[str],
    of: Callable[[Arm], Iterable[Strict]],
) -> list[Condition]:  # fmt: skip
    """Fields of a spec: some always, the others where the arms differ in them."""
    known = [list({id(each): each for each in of(arm)}.values()) for arm in arms]
    rows = []
    for name in spec.model_fields:
        texts = tuple(_named({_said(getattr(each, name)): None for each in given}) for given in known)
        condition = Condition(name.replace("_", " "), kind, texts)
        if condition.apart or (name in always and set(texts) - {"", _said(None)}):
            rows.append(condition)
    return rows


def _said(value: object) -> str:
    return "not set" if value is None else level(value)


def _protocols(arm: Arm) -> list[TimeSpec]:
    return [planned.trial.protocol for planned in arm.planned if isinstance(planned.trial, TimeTrial)]


def _data(arm: Arm) -> str:
    trained = any(isinstance(planned.trial, TrainTrial) for planned in arm.planned)
    known = trained and arm.info and arm.info.data_identity
    return f"{arm.info.data_name} ({known})" if arm.info and known else ""


def _ok(trials: pd.DataFrame, kind: str) -> str:
    states = trials.loc[trials["kind"] == kind, "state"]
    return f"{(states == 'ok').sum():,} of {len(states):,}" if len(states) else ""


def _dates(trials: pd.DataFrame) -> str:
    days = sorted({str(moment)[:10] for moment in trials["started_at"].dropna()})
    return " to ".join(dict.fromkeys([days[0], days[-1]])) if days else ""


def _named(values: Iterable[object]) -> str:
    """Some values in a row, the first few by name."""
    every = [str(value) for value in values]
    more = f" and {len(every) - MOST_NAMED} more" if len(every) > MOST_NAMED else ""
    return ", ".join(every[:MOST_NAMED]) + more
