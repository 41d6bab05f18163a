"""Arms: what stands side by side when studies are compared.

An arm is one study on one type of device under one set of conditions (machine, CPU threads, packages, code of
vitbench). A study that ran on two devices, or in part on another machine, is two arms: nothing is averaged over them.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from vitbench.analysis.frames import PENDING, trials_frame
from vitbench.analysis.results import results_of
from vitbench.analysis.sides import ComparisonError, Timing, timed
from vitbench.config.base import digest
from vitbench.config.trial import TimeTrial, TrainTrial, images_body
from vitbench.environment import Environment
from vitbench.store import PlannedTrial, Record, Study
from vitbench.store.trials import Trials

MOST_ARMS = 16
"""Arms in one comparison: a table has columns for each."""
LONGEST_NAME = 100
"""Letters of the names that a folder is called after."""
HOME = Path("results")
"""Where studies lie unless a user says otherwise."""


@dataclass(frozen=True)
class Run:
    """A finished training run: what of it stands side by side with others.

    Attributes:
        accuracy_pct: test accuracy, percent.
        checksum: of the pixels and labels that it saw.
        images_per_s: of the median step.
        peak_memory_mib: see :class:`vitbench.store.TrainValues`.
        seconds: of the whole trial.
    """

    accuracy_pct: float
    checksum: str
    images_per_s: float
    peak_memory_mib: float
    seconds: float


@dataclass
class Trained:
    """A cell's training in one arm.

    Attributes:
        planned: the first of its trials.
        states: state → trials.
        runs: seed → the run, of those that finished.
        lost: seeds that ended without a result; one that is still to come did not end.
    """

    planned: PlannedTrial
    states: Counter[str] = field(default_factory=Counter)
    runs: dict[int, Run] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)

    @property
    def trial(self) -> TrainTrial:
        """The first of its trials."""
        assert isinstance(self.planned.trial, TrainTrial)
        return self.planned.trial

    @property
    def model(self) -> str:
        """The same for cells of one label and one model, whatever they were trained on and how."""
        return digest([self.planned.cell, self.trial.model.canonical()])

    @property
    def images(self) -> str:
        """The same for cells that were trained on the same images, split in the same way."""
        return digest(images_body(self.trial.data, self.trial.data_identity))

    @property
    def whole(self) -> str:
        """The same for cells whose trials differ in the seed and the device alone."""
        return digest([self.trial.model.canonical(), self.images, self.trial.train.canonical()])


@dataclass(frozen=True)
class Arm:
    """One study on one type of device under one set of conditions.

    Attributes:
        letter: by which tables name it.
        name: of the study's folder, and what tells it from other arms of the same study.
        study_name: of the study's folder alone.
        place: of the study among those that were given, from 0; one that is given twice has two.
        study: the study.
        device: type of the device.
        environment: of the first result; None where no record tells it.
        trials: the arm's rows of :func:`vitbench.analysis.frames.trials_frame`.
        planned: a trial of each that differs in more than the seed.
        timings: by what is timed, see :func:`_what_is_timed`.
        timed: the planned trials of these.
        cells: the trained cells, in the plan's order.
    """

    letter: str
    name: str
    study_name: str
    place: int
    study: Study
    device: str
    environment: Environment | None
    trials: pd.DataFrame
    planned: tuple[PlannedTrial, ...]
    timings: Mapping[str, Timing]
    timed: Mapping[str, PlannedTrial]
    cells: tuple[Trained, ...]


def names_of(paths: Sequence[Path]) -> list[str]:
    """The folders' names, with as many of the folders above as it takes to tell different folders apart."""
    whole = [path.resolve().parts[1:] or ("root",) for path in paths]
    for depth in range(1, max(map(len, whole)) + 1):
        names = ["/".join(parts[-depth:]) for parts in whole]
        if len(set(names)) == len(set(whole)):
            break
    return names


def folder_of(paths: Sequence[Path], home: Path = HOME) -> str:
    """The name of a folder for the comparison of some studies: other studies, or another order, give another name.

    Studies that lie in ``home`` are told apart by their names. Elsewhere there may be others of the same names, so that
    a digest of the paths is added; as it is where a name is not written out.

    Args:
        paths: folders of the studies.
        home: where studies lie unless a user says otherwise.
    """
    folders = [path.resolve() for path in paths]
    names = [re.sub(r"[^\w.-]+", "-", name).strip("-.") or "study" for name in names_of(paths)]
    joined = f"compare-{'+'.join(names)}"  # what stands between names is in none of them: a-b with c, and a with b-c
    whole = all(each == home.resolve() / name for each, name in zip(folders, names, strict=True))
    if whole and len(joined) <= LONGEST_NAME:
        return joined
    short = joined if len(joined) <= LONGEST_NAME else f"{joined[:LONGEST_NAME].rstrip('+-.')}-and-so-on"
    return f"{short}@{digest([str(each) for each in folders], 8)}"


def arms_of(paths: Sequence[Path]) -> list[Arm]:
    """The arms of some studies, in their order; the first is what the others are compared with.

    Raises:
        ComparisonError: where a study plans nothing, or there are more arms than can stand side by side.
        StudyError: where a folder holds no study.
    """
    named = enumerate(zip(paths, names_of(paths), strict=True))
    parts = [part for place, (path, name) in named for part in _parts_of(path, name, place)]
    if len(parts) > MOST_ARMS:
        raise ComparisonError(
            f"{len(parts)} columns, and at most {MOST_ARMS} can stand side by side (a study that ran on several "
            "devices or under several conditions has a column for each): compare fewer studies at once"
        )
    several = {base for part in parts for base, n in Counter(map(_what_is_timed, part.timed())).items() if n > 1}
    return [part.arm(letter, several) for letter, part in zip(string.ascii_uppercase, parts, strict=False)]


@dataclass(frozen=True)
class _Part:
    """An arm in the making."""

    name: str
    study_name: str
    place: int
    study: Study
    device: str
    environment: Environment | None
    trials: pd.DataFrame
    first: Sequence[PlannedTrial]
    numbers: Mapping[str, int]
    """Trial id → its place in ``first``."""
    records: Mapping[str, Record]
    """Of its timings that have one: trial id → the record that stands."""

    def timed(self) -> Iterator[PlannedTrial]:
        """The timing trials."""
        rows = self.trials
        for trial_id in rows.loc[rows["kind"] == "time", "trial_id"]:
            yield self.first[self.numbers[trial_id]]

    def arm(self, letter: str, several: Iterable[str]) -> Arm:
        used = dict.fromkeys(self.numbers[trial_id] for trial_id in self.trials["trial_id"])
        planned = tuple(self.first[number] for number in used)
        by_work = dict(self._by_work(set(several)))
        return Arm(
            letter, self.name, self.study_name, self.place, self.study, self.device, self.environment, self.trials,
            planned, self._timings(by_work), by_work, tuple(self._cells()),
        )  # fmt: skip

    def _by_work(self, several: set[str]) -> Iterator[tuple[str, PlannedTrial]]:
        """Timings by what is timed; where an arm has several protocols of one, by the protocol, too."""
        for p in self.timed():
            assert isinstance(p.trial, TimeTrial)
            base = _what_is_timed(p)
            yield digest([base, p.trial.protocol.canonical()]) if base in several else base, p

    def _timings(self, by_work: Mapping[str, PlannedTrial]) -> dict[str, Timing]:
        repeated = Counter(p.description for p in by_work.values())
        found: dict[str, Timing] = {}
        for key, p in by_work.items():
            label = p.description if repeated[p.description] == 1 else f"{p.description} ({p.id[:8]})"
            record = self.records.get(p.id)
            found[key] = timed(self.study.path, p, label, record) if record else Timing(label, PENDING)
        return found

    def _cells(self) -> Iterator[Trained]:
        found: dict[int, Trained] = {}
        for row in self.trials[self.trials["kind"] == "train"].to_dict("records"):
            number = self.numbers[row["trial_id"]]
            cell = found.setdefault(number, Trained(self.first[number]))
            state, seed = str(row["state"]), int(row["seed"])
            cell.states[state] += 1
            if state == "ok":
                cell.runs[seed] = Run(
                    row["test_accuracy_pct"], row["data_checksum"], row["train_images_per_s"],
                    row["peak_memory_mib"], row["seconds"],
                )  # fmt: skip
            elif state != PENDING:
                cell.lost.add(seed)
        return iter(found.values())


def _parts_of(path: Path, name: str, place: int) -> list[_Part]:
    study = Study.read(path)
    results = results_of(study)
    frame = trials_frame(study, results)
    frame = frame[frame["kind"] != "tune"]
    if frame.empty:
        raise ComparisonError(f"{path}: its plan holds nothing that is trained or timed")
    numbers, first = Trials.of(study.info.trials).up_to_seed
    places = dict(zip(Trials.of(study.info.trials).ids(), numbers, strict=True))
    wanted = {results.standing[i].file for i in frame.loc[frame["kind"] == "time", "trial_id"] if i in results.standing}
    records = {
        record.trial_id: record
        for _, record in study.records_of(a for a in results.standing.values() if a.file in wanted)
    }
    devices, parts = list(frame["device"].unique()), []
    for device in devices:
        rows = frame[frame["device"] == device]
        # Of this device's trials alone: another device's environment tells nothing of it.
        environments = results.environments(rows["trial_id"].tolist())
        origins = list(rows.loc[(rows["state"] == "ok") & rows["origin"].notna(), "origin"].unique())
        for number, origin in enumerate(origins or [None], 1):
            # What has no result under any of the conditions counts under each.
            others = [other for other in origins if other != origin]
            on = [device] if len(devices) > 1 else []
            on += [f"conditions {number}"] if len(origins) > 1 else []
            environment = environments.get(origin) if origin else next(iter(environments.values()), None)
            parts.append(
                _Part(", ".join([name, *on]), name, place, study, device, environment,
                      rows[~rows["origin"].isin(others)], first, places, records)
            )  # fmt: skip
    return parts


def _what_is_timed(planned: PlannedTrial) -> str:
    """The same for timings of the same work, wherever and however long it is timed."""
    trial = planned.trial
    assert isinstance(trial, TimeTrial)
    how = trial.protocol.compile, trial.protocol.cuda_graphs
    return digest([trial.level, trial.model.canonical(), trial.dtype, trial.batch_size, trial.mode, how])
