"""Run a study: prepare the data, plan, hand what is left to a launcher, and say how it went."""

from __future__ import annotations

import importlib
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from vitbench.config.recipe import Device
from vitbench.config.suite import Suite
from vitbench.data.load import prepare
from vitbench.model.weights import SUFFIX
from vitbench.runner.launchers.sites import Site
from vitbench.runner.look_plan import Looked, wanted_in
from vitbench.runner.once import decisive
from vitbench.runner.plan import KINDS, plan, with_data
from vitbench.runner.process import Stop
from vitbench.runner.session import Reporter, Session, is_of_other_code
from vitbench.store import Record, Study, StudyError, StudyInfo, Trials
from vitbench.store.attempts import standing
from vitbench.store.leases import INTERVAL_SECONDS
from vitbench.store.packed import MOST
from vitbench.store.study import study_folder
from vitbench.wording import printable

LARGE = 1_000
"""Records with files of their own from which a finished study is packed."""

LAUNCHERS: Mapping[str, str] = {
    "local": "vitbench.runner.launchers.local:Local",
    "ray": "vitbench.runner.launchers.ray:RayCluster",
    "slurm": "vitbench.runner.launchers.slurm:Queue",
}
"""Name → where its places are; imported when it is asked for, since most machines have no engine."""


class Launcher(Protocol):
    """Gets a study's trials run."""

    device: Device
    """Type of device on which all trials run."""
    where: str
    """The machines in words, for the user."""

    def drive(self, session: Session, heartbeat_s: float) -> None:
        """Run what is left of a session, or until it is told to stop; ``heartbeat_s`` between a driver's signs of life.

        Raises:
            LauncherError, StudyError: where the engine or the study's folder is lost.
        """

    def close(self) -> None:
        """Let the engine go, if there is one."""


@dataclass(frozen=True)
class Options:
    """How a study is run; none of it changes what is run."""

    device: str
    workers: int | None = None
    kinds: tuple[str, ...] = KINDS
    launcher: str = "local"
    address: str | None = None
    """Of the launcher's engine."""
    engine: tuple[tuple[str, str | int], ...] = ()
    """Further parameters of it."""
    repeat: tuple[str, ...] = ()
    """Arguments of the command that runs the same suite, without what is of the launcher."""
    command: tuple[str, ...] = ()
    """Arguments of the command line that say what is planned, without the device; the study keeps them."""
    leave_held: bool = False
    patient: bool = True
    """Whether to wait for a device that another vitbench on this machine has."""
    rerun_changed: bool = False
    keep_weights: bool = False
    heartbeat_s: float = INTERVAL_SECONDS


class RunEnd(NamedTuple):
    """How a run has ended: the study, the signal that stopped it (or None), and the exit status."""

    study: Study
    signal: int | None
    status: int


def run_suite(suite: Suite, results: Path | None, options: Options, reporter: Reporter, looked: Looked) -> RunEnd:
    """Prepare the data, plan, and run what is left.

    Args:
        suite: read and checked.
        results: folder of the study; None: the suite's own.
        options: how it is run.
        reporter: shows the user what goes on.
        looked: of a plan with looks, the seeds that each cell needs, by the records.

    Raises:
        DataError, DeviceError, LauncherError, SpecError, StudyError: the message says what to do. All but StudyError
        come before the first trial.
    """
    folder, stop = study_folder(suite, results), Stop()
    site = Site(
        folder, options.device, options.workers, suite.resources, stop, reporter.note,
        address=options.address, engine=options.engine, patient=options.patient, repeat=options.repeat,
    )  # fmt: skip
    with launcher_of(options.launcher, site) as launcher:
        session = _session(suite, site, options, launcher, reporter, looked=looked)
        with _signals(stop), _writable(folder):
            launcher.drive(session, options.heartbeat_s)
        if session.study.unpacked >= (MOST if session.pending(*KINDS) else LARGE):
            _pack(session.study, reporter)
        if options.keep_weights and (without := _without_weights(session)):
            reporter.note(f"{without} finished without weights in {folder / 'weights'}", "notice: ")
    status = exit_status(session.study, session.trials) if stop.signal is None else 128 + stop.signal
    return RunEnd(session.study, stop.signal, status)


def _pack(study: Study, reporter: Reporter) -> None:
    """Seal the records, of which there are many: each file of its own costs every later reader."""
    try:
        if sealed := study.pack():
            reporter.note(
                f"{sealed:,} records are packed into {study.segments.folder}; `vitbench pack` does so any time"
            )
    except OSError as error:
        reporter.note(f"records are not packed: {error.strerror}", "notice: ")


@contextmanager
def launcher_of(name: str, site: Site) -> Iterator[Launcher]:
    """A launcher by its name; an engine that was reached for it is let go at the end."""
    module, _, kind = LAUNCHERS[name].partition(":")
    make: Callable[[Site], Launcher] = getattr(importlib.import_module(module), kind)
    launcher = make(site)
    try:
        yield launcher
    finally:
        launcher.close()


def _session(
    suite: Suite, site: Site, options: Options, launcher: Launcher, reporter: Reporter, *, looked: Looked
) -> Session:
    """The study as it stands, planned for the launcher, and what is told before the first trial."""
    trained_on = [cell.data for cell in suite.cells if cell.train] if "train" in options.kinds else []
    prepared = prepare(suite.data, trained_on) if trained_on else None
    if prepared:
        suite = with_data(suite, prepared.spec)

    device = launcher.device if options.device == "auto" else options.device
    commands = (tuple(map(printable, (*options.command, "--device", device))),) if options.command else ()

    def planner(records: Mapping[str, list[Record]]) -> StudyInfo:
        wanted = wanted_in(folder, looked)
        made = plan(suite, launcher.device, kinds=options.kinds, prepared=prepared, records=records, wanted=wanted)
        return made.model_copy(update={"commands": commands})

    folder = site.study
    before = Study.read(folder) if (folder / "study.json").exists() else None
    info = planner(decisive(before) if before else {})
    study, trials = Study.start(folder, info), Trials.of(info.trials)
    study.damaged += before.damaged if before else []
    states = study.states()
    session = Session(
        study, trials, reporter, planner, site.stop, states, rerun_changed=options.rerun_changed,
        leave_held=options.leave_held, keep_weights=options.keep_weights,
    )  # fmt: skip
    for notice in filter(None, [*suite.notices, info.fallback]):
        reporter.note(notice, "notice: ")
    for label, rule in suite.excluded:
        reporter.note(f"{label}: {rule}", "excluded: ")
    changed = sum(i in states and is_of_other_code(standing(states[i]), trials) for i in trials.ids())
    if changed:
        number, them = ("1 result is", "it") if changed == 1 else (f"{changed} results are", "them")
        how = f"running {them} again" if options.rerun_changed else f"--rerun-changed runs {them} again"
        reporter.note(f"{number} of other code than this; {how}", "notice: ")
    done = len(info.trials) - len(session.pending(*KINDS))
    if options.keep_weights and (without := _without_weights(session)):
        why = "without --keep-weights; whose record is removed is trained again"
        reporter.note(f"{without} trained before have no weights: {why}", "notice: ")
    cost = session.expect()
    reporter.note(f"{study.path}: {len(info.trials)} trials, {done} of them finished before; {launcher.where}")
    if done < len(info.trials):
        reporter.note(f"{cost}{', one after another' if (site.workers or 1) > 1 else ''}")
    return session


def _without_weights(session: Session) -> int:
    """Trained trials of a study whose weights were not kept."""
    kept = {file.stem for file in (session.study.path / "weights").glob(f"*{SUFFIX}")}

    def wanting(trial_id: str, kind: str) -> bool:
        attempts = session.attempts.get(trial_id)
        of_it = kind == "train" and attempts is not None and trial_id not in kept
        return of_it and session.settled(trial_id) and standing(attempts or []).state == "ok"

    return len(session.trials.where(wanting))


def exit_status(study: Study, trials: Trials) -> int:
    """0 where every one of these trials is ok or unsupported, else 1."""
    found = study.states()
    states = {standing(found[i]).state if i in found else "pending" for i in trials.ids()}
    return 0 if states <= {"ok", "unsupported"} else 1


@contextmanager
def _writable(folder: Path) -> Iterator[None]:
    """A record, claim or history that cannot be written ends the run with one sentence."""
    try:
        yield
    except OSError as error:
        what = error.filename or folder
        raise StudyError(
            f"{what}: cannot be written: {error.strerror or error}; what was running is ended, and the same command "
            f"goes on from here"
        ) from error


@contextmanager
def _signals(stop: Stop) -> Iterator[None]:
    """Ctrl-C and SIGTERM set a flag; a Ctrl-C after that ends the driver at once, and its trials with it.

    Another SIGTERM does not: whoever supervises a driver may send several of them for one stop.
    """

    def handle(number: int, _: object) -> None:
        if stop.signal is not None and number == signal.SIGINT:
            os._exit(128 + number)
        stop.signal = stop.signal or number

    before = {n: signal.signal(n, handle) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
