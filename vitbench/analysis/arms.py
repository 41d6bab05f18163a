"""Arms: the sides of a comparison, each one study on one device and environment.

An arm is one study on one type of device on one platform (machine, CPU threads, packages, code of
vitbench), or one JSON file of pytest-benchmark. A study that ran on two devices, or in part on another machine, is two
arms: nothing is averaged over them.
"""

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from vitbench.analysis.frames import PENDING, trials_frame
from vitbench.analysis.results import results_of
from vitbench.analysis.sides import ComparisonError, Platform, Timing, benchmarks, platform_of, timed
from vitbench.config.base import digest
from vitbench.config.trial import TimeTrial, TrainTrial, images_body
from vitbench.store import PlannedTrial, Record, StudyFolder, StudyInfo

MOST_ARMS = 16  # Arms in one comparison: a table has columns for each
LONGEST_NAME = 100  # ASCII letters of the names that a folder is called after
HOME = Path("results")  # Where studies lie unless a user says otherwise
NO_TRIALS = pd.DataFrame(
    columns=["trial_id", "kind", "state", "environment", "commit", "dirty", "started_at", "test_images"]
)
Work = tuple[str, ...]
"""Timed work: its digest and, where an arm has several protocols of it, one of the protocol; the full name
of a benchmark."""


class Run(NamedTuple):
    """A finished training run; ``images_per_s`` is of the median step, for the rest see trials_frame."""

    test_accuracy_pct: float
    data_checksum: str
    images_per_s: float
    peak_memory_mib: float
    seconds: float


@dataclass
class Trained:
    """A cell's training in one arm."""

    planned: PlannedTrial  # the first of its trials
    states: Counter[str] = field(default_factory=Counter)  # state → trials
    runs: dict[int, Run] = field(default_factory=dict)  # seed → the run, of those that finished
    # seeds that ended without a result; one that is still to come did not end
    lost: set[int] = field(default_factory=set)

    @property
    def trial(self) -> TrainTrial:
        """The first of its trials."""
        assert isinstance(self.planned.trial, TrainTrial)
        return self.planned.trial

    @property
    def model(self) -> str:
        """Digest of the cell's label and of its model, whatever it was trained on and how."""
        return digest([self.planned.cell, self.trial.model.canonical()])

    @property
    def images(self) -> str:
        """Digest of the images that the cell is trained on, and of how they are split."""
        return digest(images_body(self.trial.data, self.trial.data_identity))

    @property
    def whole(self) -> str:
        """Digest of model, images and recipe: equal for cells whose trials differ in the seed and the device alone."""
        return digest([self.trial.model.canonical(), self.images, self.trial.train.canonical()])


@dataclass(frozen=True)
class Arm:
    """One study on one type of device and platform, or one file of pytest-benchmark."""

    name: str  # of the study's folder, and what distinguishes it from other arms of the same study
    study_name: str  # of the folder or file alone
    study_number: int  # of the study among those that were given, from 0; one that is given twice has two
    path: Path  # of the folder or file
    info: StudyInfo | None  # of the study; None of a file
    damaged: tuple[str, ...]  # files of the study that were set aside
    device: str  # type of the device; empty of a file
    platform: Platform | None  # that of the first result; None where it was not recorded
    trials: pd.DataFrame  # the arm's rows of :func:`vitbench.analysis.frames.trials_frame`
    planned: tuple[PlannedTrial, ...]  # a trial of each that differs in more than the seed
    timings: Mapping[Work, Timing]  # by what is timed
    cells: tuple[Trained, ...]  # the trained cells, in the plan's order
    letter: str = ""  # by which tables name it


def names_of(paths: Sequence[Path]) -> list[str]:
    """The folders' names, with as many of the folders above as it takes to tell different folders apart."""
    whole = [path.resolve().parts[1:] or ("root",) for path in paths]
    for depth in range(1, max(map(len, whole)) + 1):
        names = ["/".join(parts[-depth:]) for parts in whole]
        if len(set(names)) == len(set(whole)):
            break
    return names


def folder_of(paths: Sequence[Path]) -> str:
    """The name of a folder for the comparison of some studies: other studies, or another order, give another name.

    Studies in ``HOME`` are distinguished by their names. Elsewhere there may be others of the same names, so a digest
    of the paths is added, as it is where a name is not written out.

    Args:
        paths: folders of the studies.
    """
    folders = [path.resolve() for path in paths]
    names = [re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII).strip("-.") or "study" for name in names_of(paths)]
    joined = f"compare-{'+'.join(names)}"  # what stands between names is in none of them: a-b with c, and a with b-c
    whole = all(each == HOME.resolve() / name for each, name in zip(folders, names, strict=True))
    if whole and len(joined) <= LONGEST_NAME:
        return joined
    short = joined if len(joined) <= LONGEST_NAME else f"{joined[:LONGEST_NAME].rstrip('+-.')}-and-so-on"
    return f"{short}@{digest([str(each) for each in folders], 8)}"


def arms_of(paths: Sequence[Path]) -> list[Arm]:
    """The arms of some studies or files, in their order; the first is what the others are compared with.

    Raises:
        ComparisonError: where studies and files are mixed, a study plans nothing, a file cannot be read, or there are
            more arms than can stand side by side.
        StudyError: where a folder holds no study.
    """
    files, folders = [path for path in paths if not path.is_dir()], [path for path in paths if path.is_dir()]
    if files and folders:
        raise ComparisonError(
            f"{folders[0]} is a folder (a study), {files[0]} a file (benchmarks): two of one kind can be compared"
        )
    named = enumerate(zip(paths, names_of(paths), strict=True))
    arms = [
        arm
        for study_number, (path, name) in named
        for arm in (_of_file if files else _of_study)(path, name, study_number)
    ]
    if len(arms) > MOST_ARMS:
        raise ComparisonError(
            f"{len(arms)} columns, and at most {MOST_ARMS} can stand side by side (a study that ran on several "
            "devices or under several conditions has a column for each): compare fewer studies at once"
        )
    several = {work for arm in arms for work, n in Counter(key[0] for key in arm.timings).items() if n > 1}
    return [
        replace(
            arm, letter=letter, timings={key if key[0] in several else key[:1]: t for key, t in arm.timings.items()}
        )
        for letter, arm in zip(string.ascii_uppercase, arms, strict=False)
    ]


def _of_file(path: Path, name: str, study_number: int) -> list[Arm]:
    by_name, under = benchmarks(path)
    timings: dict[Work, Timing] = {(key,): timing for key, timing in by_name.items()}
    return [Arm(name, name, study_number, path, None, (), "", under, NO_TRIALS, (), timings, ())]


def _of_study(path: Path, name: str, study_number: int) -> list[Arm]:
    study = StudyFolder.read(path)
    results = results_of(study)
    frame = trials_frame(study, results)
    frame = frame[frame["kind"] != "tune"]
    if frame.empty:
        raise ComparisonError(f"{path}: its plan holds nothing that is trained or timed")
    first_of = dict(zip(study.info.trials.ids(), study.info.trials.firsts, strict=True))
    timed_trials = frame.loc[frame["kind"] == "time", "trial_id"]
    attempts = (results.standing[trial_id] for trial_id in timed_trials if trial_id in results.standing)
    records = {record.trial_id: record for _, record in study.records_of(attempts)}
    devices, arms = list(frame["device"].unique()), []
    for device in devices:
        rows = frame[frame["device"] == device]
        # Of this device's trials alone: another device's environment tells nothing of it.
        environments = results.environments(rows["trial_id"].tolist())
        keys = list(rows.loc[(rows["state"] == "ok") & rows["environment"].notna(), "environment"].unique())
        for number, key in enumerate(keys or [None], 1):
            # What has no result on any of the platforms counts on each.
            trials = rows[~rows["environment"].isin([other for other in keys if other != key])]
            on = [device] if len(devices) > 1 else []
            on += [f"environment {number}"] if len(keys) > 1 else []
            planned = {trial_id: first_of[trial_id] for trial_id in trials["trial_id"]}
            used = {p.id: p for p in planned.values()}
            timings = [planned[trial_id] for trial_id in trials.loc[trials["kind"] == "time", "trial_id"]]
            # A training may have had fewer threads than the timings that are compared.
            timed_in = (records[p.id].environment for p in timings if p.id in records and records[p.id].state == "ok")
            known = (environments.get(key),) if key else environments.values()
            environment = next(filter(None, (*timed_in, *known)), None)
            arms.append(
                Arm(", ".join([name, *on]), name, study_number, path, study.info, tuple(study.damaged), device,
                    platform_of(environment) if environment else None, trials,
                    tuple(used.values()), _timings(path, timings, records), _cells(trials, planned))
            )  # fmt: skip
    return arms


def _timings(path: Path, planned: Sequence[PlannedTrial], records: Mapping[str, Record]) -> dict[Work, Timing]:
    repeated = Counter(p.description for p in planned)
    timings: dict[Work, Timing] = {}
    for p in planned:
        # The protocol, and whatever else two timings of one description differ in, is in the id.
        label = p.description if repeated[p.description] == 1 else f"{p.description} ({p.id[:8]})"
        record = records.get(p.id)
        timings[_work(p)] = timed(path, p, label, record) if record else Timing(label, PENDING, planned=p)
    return timings


def _work(planned: PlannedTrial) -> Work:
    """Digests of the work that is timed, wherever and however long, and of the protocol."""
    trial = planned.trial
    assert isinstance(trial, TimeTrial)
    how = trial.protocol.compile, trial.protocol.cuda_graphs
    work = [trial.level, trial.model.canonical(), trial.dtype, trial.batch_size, trial.mode, how]
    return digest(work), digest(trial.protocol.canonical())


def _cells(trials: pd.DataFrame, planned: Mapping[str, PlannedTrial]) -> tuple[Trained, ...]:
    cells: dict[int, Trained] = {}
    for row in trials[trials["kind"] == "train"].to_dict("records"):
        trial = planned[row["trial_id"]]
        cell = cells.setdefault(id(trial), Trained(trial))
        state, seed = str(row["state"]), int(row["seed"])
        cell.states[state] += 1
        if state == "ok":
            cell.runs[seed] = Run(
                row["test_accuracy_pct"], row["data_checksum"], row["train_images_per_s"],
                row["peak_memory_mib"], row["seconds"],
            )  # fmt: skip
        elif state != PENDING:
            cell.lost.add(seed)
    return tuple(cells.values())
