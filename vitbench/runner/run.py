"""Run a study: prepare the data, plan, run what is left on a backend, report the outcome."""

import os
import pkgutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from vitbench.config.recipe import DataSpec
from vitbench.config.suite import ExpandedSuite
from vitbench.data import catalog
from vitbench.data.catalog import Prepared
from vitbench.processes import sigterm_exits
from vitbench.runner.backends.backend import BackendOptions, Machines, Options
from vitbench.runner.forked import forked
from vitbench.runner.look_plan import wanted_in
from vitbench.runner.once import decisive
from vitbench.runner.plan import KINDS, plan, with_data
from vitbench.runner.pretrained_files import with_pretrained_digests
from vitbench.runner.process import Stop
from vitbench.runner.session import Analysis, Planner, Reporter, Session, is_of_other_code
from vitbench.store import Leases, Record, StudyError, StudyFolder, StudyInfo, Trials
from vitbench.store.attempts import Attempt, standing
from vitbench.store.leases import at_work
from vitbench.store.packed import MOST
from vitbench.store.study import study_folder
from vitbench.wording import plural, printable

LARGE = 1_000  # Records with files of their own from which a finished study is packed
DRIVER = "vitbench.runner.driver:run_study"
BACKENDS: Mapping[str, tuple[str, str]] = {
    "local": ("vitbench.runner.backends.local:LocalBackend", DRIVER),
    "ray": ("vitbench.runner.backends.ray:RayBackend", DRIVER),
    "slurm": ("vitbench.runner.backends.slurm:SlurmBackend", "vitbench.runner.backends.slurm:submit_study"),
}
"""Name → class of the backend, and the function that runs a study on it.

Imported when they are asked for, since most machines have no engine.
"""


class RunEnd(NamedTuple):
    """How a run has ended: the study, the signal that stopped it (or None), and the exit status."""

    study: StudyFolder
    signal: int | None
    status: int


def run_suite(
    suite: ExpandedSuite, results: Path | None, options: Options, reporter: Reporter, analysis: Analysis
) -> RunEnd:
    """Prepare the data, plan, and run what is left.

    Args:
        suite: the suite, read and checked.
        results: folder of the study; None: the suite's own.
        options: how it is run.
        reporter: shows the user the progress.
        analysis: what results call for while the study runs.

    Raises:
        BackendError, DataError, DeviceError, SpecError, StudyError: the message says what to do.
    """
    folder, stop = study_folder(suite, results), Stop()
    whole = BackendOptions(**vars(options), study=folder, resources=suite.resources, stop=stop, say=reporter.note)
    open_backend, run = map(pkgutil.resolve_name, BACKENDS[options.launcher])
    with sigterm_exits(), closing(open_backend(whole)) as backend:
        session = _session(suite, folder, stop, options, backend, reporter=reporter, analysis=analysis)
        with _signals(stop), _writable(folder), Leases(folder / "leases", options.heartbeat_s) as leases:
            run(session, backend, leases)
        if session.study.unpacked >= (MOST if session.pending(*KINDS) else LARGE):
            _pack(session.study, reporter)
        if options.keep_weights and (without := _without_weights(session)):
            reporter.note(f"{without} finished without weights in {folder / 'weights'}", "notice: ")
    status = exit_status(session.study, session.trials) if stop.signal is None else 128 + stop.signal
    return RunEnd(session.study, stop.signal, status)


def _pack(study: StudyFolder, reporter: Reporter) -> None:
    """Seal the records, of which there are many: each file of its own costs every later reader."""
    try:
        if sealed := study.pack():
            reporter.note(
                f"{sealed:,} records are packed into {study.segments.folder}; `vitbench pack` does so any time"
            )
    except OSError as error:
        reporter.note(f"records are not packed: {error.strerror}", "notice: ")


def _session(
    suite: ExpandedSuite,
    folder: Path,
    stop: Stop,
    options: Options,
    backend: Machines,
    *,
    reporter: Reporter,
    analysis: Analysis,
) -> Session:
    """Plan the study for the backend, and show the user its state and cost."""
    device = backend.device if options.device == "auto" else options.device
    commands = (tuple(map(printable, (*options.command, "--device", device))),) if options.command else ()

    def planner_on(prepared: Prepared | None) -> Planner:
        on = with_data(suite, prepared.spec) if prepared else suite
        if trained_on:  # once: a file of weights that changes during the run ends trials, and changes no plan
            on = with_pretrained_digests(on, planning=prepared is None)

        def planner(records: Mapping[str, list[Record]]) -> StudyInfo:
            wanted = wanted_in(folder, analysis.seeds)
            info = plan(on, backend.device, kinds=options.kinds, prepared=prepared, records=records, wanted=wanted)
            return info.model_copy(update={"commands": commands})

        return planner

    before = StudyFolder.of_suite(folder, suite.info.name)
    records = decisive(before) if before else {}
    trained_on = list(dict.fromkeys(c.data for c in suite.cells if c.train)) if "train" in options.kinds else []
    planner = None if trained_on else planner_on(None)
    # A study that is over is planned with what is known of its images; where a trial is left, they are prepared.
    if before and trained_on and (known := _known(suite.data, trained_on, before.info)):
        planner = planner_on(known)
        as_planned = StudyFolder(folder, planner(records))
        trials, states = as_planned.info.trials, before.attempts()
        left = Session(as_planned, trials, planner, options, reporter, analysis, stop, states).pending(*KINDS)
        planner = None if left else planner
    planner = planner or planner_on(forked("vitbench.data.load:prepare", suite.data, trained_on))
    info = planner(records)
    study, trials = StudyFolder.start(folder, info, planned_elsewhere=options.planned_elsewhere), info.trials
    study.damaged += before.damaged if before else []
    states = study.attempts()
    session = Session(study, trials, planner, options, reporter, analysis, stop, states)
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
        why = "and are not repeated; whose record is removed is trained again"
        reporter.note(f"{without} trained before have no weights, {why}", "notice: ")
    for gone in _left_out(before.info.trials, study, states) if before else ():
        reporter.note(gone, "notice: ")
    cost = session.expect()
    more = len(study.info.trials) - len(info.trials)
    kept = f"; the study keeps {more:,} more, of earlier runs" if more else ""
    many = plural(len(info.trials), "trial")
    reporter.note(f"{study.path}: {many}, {done} of them finished before{kept}; {backend.where}")
    if done < len(info.trials):
        reporter.note(f"{cost}{', one after another' if (options.workers or 1) > 1 else ''}")
    return session


def _known(data: DataSpec, trained_on: Sequence[DataSpec], before: StudyInfo) -> Prepared | None:
    """The images as the earlier run found them; None where they may have changed: a folder, or after a fallback.

    A run with nothing left to train does not read them again, which takes torch: three of its four seconds.
    """
    if before.fallback or not all(map(catalog.facts, trained_on)) or catalog.identity(data) != before.data_identity:
        return None
    return Prepared(data, before.data_identity, before.class_names, {})


def _left_out(before: Trials, study: StudyFolder, states: Mapping[str, Sequence[Attempt]]) -> Iterator[str]:
    """Sentences on the trials that are in the plan no more: those that finished, and those that nobody runs."""
    left = set(before.ids()).difference(study.info.trials.ids())
    if gone := sum(standing(states[trial_id]).state == "ok" for trial_id in left.intersection(states)):
        finished = plural(gone, "finished trial")
        yield f"{finished} of earlier runs had other settings and left the study; --results OTHER would keep both"
    if (never := len(left.difference(states))) and not at_work(study.path / "leases"):
        yield f"{plural(never, 'trial')} of the earlier plan never ran and left the study: this command plans others"


def _without_weights(session: Session) -> int:
    """Trained trials of a study whose weights were not kept."""
    kept = {file.stem for file in (session.study.path / "weights").glob("*.safetensors")}

    def wanting(trial_id: str, kind: str) -> bool:
        attempts = session.attempts.get(trial_id)
        unkept = kind == "train" and attempts is not None and trial_id not in kept
        return unkept and session.done(trial_id) and standing(attempts or []).state == "ok"

    return len(session.trials.where(wanting))


def exit_status(study: StudyFolder, trials: Trials) -> int:
    """0 where every one of these trials is ok or unsupported, else 1."""
    attempts = study.attempts()
    states = {standing(attempts[i]).state if i in attempts else "pending" for i in trials.ids()}
    return 0 if states <= {"ok", "unsupported"} else 1


@contextmanager
def _writable(folder: Path) -> Iterator[None]:
    """A record, lease or history that cannot be written ends the run with one sentence."""
    try:
        yield
    except OSError as error:
        path = error.filename or folder
        raise StudyError(
            f"{path}: cannot be written: {error.strerror or error}; what was running is ended, and the same command "
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
