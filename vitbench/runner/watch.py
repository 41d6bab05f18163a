"""Watch: snapshots of a running study, read without writing anything. No torch."""

import heapq
import time
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from vitbench.runner.plan import KINDS
from vitbench.runner.turns import waiting
from vitbench.store import Attempt, Record, StudyError, StudyFolder
from vitbench.store.attempts import finished, standing
from vitbench.store.leases import AtWork, at_work

PENDING, RUNNING = "pending", "running"
LATEST = 8  # Results that are shown as the latest ones
RATED = 40  # Latest results of a kind whose pace says how long the others will take


@dataclass(frozen=True)
class Running:
    """A trial at work: in words, and for how many seconds; None where it waits for others of its setting."""

    label: str
    seconds: float | None


@dataclass(frozen=True)
class Snapshot:
    """A study at one moment."""

    name: str  # of the suite
    question: str  # of the suite
    total: int  # planned trials
    states: Mapping[str, int]  # state → planned trials; what is at work counts as running
    running: Sequence[Running]  # what is at work, the longest first
    drivers: int  # how many are at work
    latest: Sequence[tuple[str, Record]]  # (trial in words, its record) of the latest attempts, the last one first
    troubles: Mapping[tuple[str, str], int]  # (state, reason) → trials that are not ok, neither pending nor running
    # trials that end in a minute, since the drivers at work began; None where that is not known yet
    per_minute: float | None
    left_s: float | None  # seconds that what is left of the kinds of which some have ended will take; None likewise
    unpaced: int  # trials that are left of the other kinds
    untuned: int  # cells whose training waits for the choice of a setting, and is not planned yet
    ended: bool  # whether nothing is left to run
    waiting: Sequence[str] = ()  # drivers that wait for a device of this machine, in words


def tally(
    tried: Mapping[str, Sequence[Attempt]], busy: Container[str]
) -> tuple[Counter[str], Counter[tuple[str, str]]]:
    """How the planned trials stand: state → how many, and (state, reason) → how many, of those that are not ok.

    Args:
        tried: the attempts at each planned trial.
        busy: trials at work, which count as running.
    """
    states, troubles = Counter[str](), Counter[tuple[str, str]]()
    for trial_id, attempts in tried.items():
        state = RUNNING if trial_id in busy else standing(attempts).state if attempts else PENDING
        states[state] += 1
        if state not in ("ok", RUNNING, PENDING):
            tries = f" (after {len(attempts)} attempts)" if len(attempts) > 1 else ""
            troubles[state, standing(attempts).reason + tries] += 1
    return states, troubles


class Watch:
    """A study that is looked at again and again."""

    def __init__(self, study: StudyFolder) -> None:
        self.study = study
        self.records: dict[str, Record] = {}  # File → record, of the latest attempts
        self._plan()

    def _plan(self) -> None:
        self.trials = self.study.info.trials
        self.kinds = dict(self.trials.kinds())
        self.planned_at = (self.study.path / "study.json").stat().st_mtime_ns

    def look(self) -> Snapshot:
        """The study as it is now."""
        self._read_plan()
        tried = self.study.attempts(lambda attempt, record: self.records.update({attempt.file: record}))
        attempts = [attempt for each in tried.values() for attempt in each]
        now, working = time.time(), at_work(self.study.path / "leases")
        most = self.study.info.suite.max_attempts
        left = [i for i in self.kinds if not finished(tried.get(i, []), most)]
        still = set(left)
        busy = {each.trial_id: each for each in working if each.trial_id in still}
        states, troubles = tally({trial_id: tried.get(trial_id, []) for trial_id in self.kinds}, busy)
        per_minute, left_s, unpaced = self._pace(attempts, left, busy.values())
        return Snapshot(
            name=self.study.info.suite.name, question=self.study.info.suite.question, total=len(self.kinds),
            states=states, running=self._running(busy.values(), now), drivers=len({w.driver for w in busy.values()}),
            latest=self._latest(attempts), troubles=troubles, per_minute=per_minute, left_s=left_s, unpaced=unpaced,
            untuned=len(self.study.info.untuned), ended=not left and not self.study.info.untuned,
            waiting=waiting(self.study.path),
        )  # fmt: skip

    def _read_plan(self) -> None:
        """The plan anew, where it has been written anew: tuned cells, further seeds."""
        try:
            if (self.study.path / "study.json").stat().st_mtime_ns != self.planned_at:
                self.study = StudyFolder.read(self.study.path)
                self._plan()
        except OSError as error:
            raise StudyError(f"{self.study.path}: the study is not there any more: {error.strerror}") from error

    def _latest(self, attempts: Iterable[Attempt]) -> list[tuple[str, Record]]:
        last = heapq.nlargest(LATEST, attempts, key=lambda a: (a.ended, a.file))
        unread = [attempt for attempt in last if attempt.file not in self.records]
        self.records |= {attempt.file: record for attempt, record in self.study.records_of(unread)}
        self.records = {attempt.file: self.records[attempt.file] for attempt in last if attempt.file in self.records}
        return [
            (self.trials.of_id(attempt.trial_id).description, self.records[attempt.file])
            for attempt in last
            if attempt.file in self.records and attempt.trial_id in self.kinds
        ]

    def _running(self, busy: Iterable[AtWork], now: float) -> list[Running]:
        return [
            Running(
                self.trials.of_id(each.trial_id).description, None if each.since is None else max(now - each.since, 0)
            )
            for each in sorted(busy, key=lambda each: (each.since is None, each.since or 0.0))
        ]

    def _pace(
        self, attempts: Sequence[Attempt], left: Sequence[str], busy: Iterable[AtWork]
    ) -> tuple[float | None, float | None, int]:
        """(trials a minute, seconds for those left, number of which nothing can be said).

        By what has ended since the drivers at work began, kind by kind, on the wall's clock: so that it holds for
        any number of drivers side by side, and a night between two runs does not count.
        """
        of_kind = Counter(self.kinds[trial_id] for trial_id in left)
        begun = [each.driver_since for each in busy if each.driver_since]
        if not begun:
            return None, None, len(left)
        per_second = {kind: pace for kind in of_kind if (pace := _per_second(attempts, kind, min(begun)))}
        seconds = sum(number / per_second[kind] for kind, number in of_kind.items() if kind in per_second)
        current = next((per_second[kind] for kind in KINDS if kind in per_second), None)
        if current is None:
            return None, None, len(left)
        return 60.0 * current, seconds, sum(n for kind, n in of_kind.items() if kind not in per_second)


def _per_second(attempts: Iterable[Attempt], kind: str, since: float) -> float | None:
    """Trials of a kind that end in a second, those apart that need no process; None where none has ended."""
    ended = sorted(
        (a for a in attempts if a.kind == kind and a.state != "unsupported" and a.ended >= since),
        key=lambda attempt: attempt.ended,
    )[-RATED:]
    if not ended:
        return None
    first = max(min(attempt.started_at.timestamp() for attempt in ended), since)
    return len(ended) / max(ended[-1].ended - first, 1e-3)
