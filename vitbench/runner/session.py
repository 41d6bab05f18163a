"""Session: one run of a study, with its trials and attempts, on any backend."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from vitbench import registry
from vitbench.environment import code_digest, code_with
from vitbench.runner.backends.backend import Options
from vitbench.runner.cost import cost_of, pace_of, remaining
from vitbench.runner.look_plan import Looked, in_words
from vitbench.runner.once import DISAGREE, decisive
from vitbench.runner.plan import KINDS
from vitbench.runner.process import Stop
from vitbench.store import PlannedTrial, Record, Samples, StudyFolder, StudyInfo, Trials
from vitbench.store.attempts import Attempt, finished, standing
from vitbench.store.classes import classes


class Reporter(Protocol):
    """Progress of a run for the user, whoever shows it and how."""

    def expect(self, total: int, done: int, costs: Mapping[str, float], untuned: int = 0) -> None:
        """So many trials are planned, of which so many have ended; seconds that each of the others may take, by id.

        ``untuned``: cells whose training comes on top, see :class:`vitbench.runner.cost.Estimate`.
        """

    def note(self, text: str, prefix: str = "") -> None:
        """A sentence for the user."""

    def started(self, planned: PlannedTrial) -> None:
        """A trial has begun."""

    def say(self, planned: PlannedTrial, text: str) -> None:
        """A running trial reports its progress."""

    def ended(self, planned: PlannedTrial, record: Record, final: bool, *, elsewhere: bool = False) -> None:
        """One attempt has ended, maybe in another driver; ``final`` unless the trial is tried again."""


class Analysis(NamedTuple):
    """Decisions that results call for while a study runs; handed in, since the analysis is above the runner."""

    seeds: Looked  # Seeds that each cell of a plan with looks needs, by the records
    half_width: Callable[[StudyInfo, Mapping[str, Sequence[Samples]]], float]
    """Plan, and timing trial → its processes so far → half the width of the widest interval, as a fraction."""


Planner = Callable[[Mapping[str, list[Record]]], StudyInfo]


@dataclass
class Session:
    """One run of a study, whatever carries it out."""

    study: StudyFolder
    trials: Trials  # Trials of this run; the study may hold more, of earlier runs
    planner: Planner  # Records → plan
    options: Options
    reporter: Reporter
    analysis: Analysis
    stop: Stop
    attempts: dict[str, list[Attempt]]  # Trial id → attempts, in order

    def done(self, trial_id: str) -> bool:
        """Whether a trial needs no further attempt."""
        attempts = self.attempts.get(trial_id, [])
        if not finished(attempts, self.study.info.suite.max_attempts):
            return False
        return not (self.options.rerun_changed and is_of_other_code(standing(attempts), self.trials))

    def catch_up(self) -> None:
        """Take in what other drivers have recorded since."""
        known = {(t, a.attempt) for t, attempts in self.attempts.items() for a in attempts}
        self.attempts = self.study.attempts()
        planned_ids = set(self.trials.ids())
        fresh = [a for tried in self.attempts.values() for a in tried if (a.trial_id, a.attempt) not in known]
        for attempt, record in self.study.records_of(fresh):
            if attempt.trial_id in planned_ids:
                planned = self.trials.of_id(attempt.trial_id)
                self.reporter.ended(planned, record, self.done(planned.id), elsewhere=True)

    def more_to_train(self) -> bool:
        """Plan again where results may ask for more; whether that adds a trial.

        Equivalent implementations may have come out otherwise, and looks may leave some cells open.
        """
        once = self.study.info.implementations == "one" and bool(classes(self.trials))
        if not once and self.study.info.looks is None:
            return False
        before, split = set(self.trials.ids()), set(self.study.info.split)
        self.plan_again()
        for sentence in in_words(self.study.info):
            self.reporter.note(sentence)
        for each in self.study.info.split:
            if each not in split:
                self.reporter.note(f"{', '.join(each.cells)}: {DISAGREE}: {each.reason}", "notice: ")
        return not before.issuperset(self.trials.ids())

    def plan_again(self) -> None:
        """Plan with the records that there are by now."""
        info = self.planner(decisive(self.study))  # another driver may have run some of it
        self.study = StudyFolder.start(self.study.path, info, planned_elsewhere=self.options.planned_elsewhere)
        self.trials, self.attempts = info.trials, self.study.attempts()
        self.expect()

    def expect(self) -> str:
        """Report what is left. Returns its cost in a sentence."""
        pace = pace_of(self.study, self.attempts, self.study.info)
        estimate, seconds = remaining(self.study.info, self.attempts, pace)
        done = len(self.trials) - len(self.pending(*KINDS))
        self.reporter.expect(len(self.trials), done, seconds, estimate.untuned)
        return cost_of(estimate, pace)

    def pending(self, *kinds: str) -> Trials:
        """Trials of some kinds that still need an attempt, in the plan's order."""
        return self.trials.where(lambda trial_id, kind: kind in kinds and not self.done(trial_id))


def is_of_other_code(attempt: Attempt, trials: Trials) -> bool:
    """Whether an attempt was made by another state of vitbench's code, or of its plug-ins, than this one."""
    if attempt.code is None or not registry.plugins():
        return attempt.code is not None and attempt.code != code_digest()
    plugins = registry.digests(trials.of_id(attempt.trial_id).trial.model.components)
    return attempt.code != code_with(code_digest(), plugins)
