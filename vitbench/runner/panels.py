"""Panels: the timing trials of one setting, first each alone, then side by side with a common baseline."""

import itertools
import random
import statistics
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from vitbench.config.base import digest
from vitbench.config.trial import TimeTrial
from vitbench.runner.backends.backend import Workers
from vitbench.runner.messages import Request
from vitbench.runner.process import Outcome
from vitbench.runner.spinning import TOLERATED
from vitbench.store import Ceilings, Samples, TimeValues
from vitbench.timing.values import Alone, Panel, combine

LARGEST_PANEL = 48
"""Variants of one process, beside the baseline and its control: more would make a round long, and neighbours in a round
are compared because they are neighbours in time."""

Keep = Callable[[TimeTrial, Outcome, TimeValues | None], None]


@dataclass
class TimingSetting:
    """Timing trials of one level, shape, dtype, batch size and mode.

    A variant that fails in any of its processes gets the record of that failure, and the others go on without it.
    """

    workers: Workers
    request: Callable[..., Request]
    say: Callable[[Request, str], None]
    keep: Keep  # Writes the record of an attempt
    half_width: Callable[[Mapping[str, Sequence[Samples]]], float]
    """Trial id → its processes so far → half the width of the widest interval that is made of them, as a fraction."""
    pending: Sequence[TimeTrial]
    earlier: TimeTrial | None  # The baseline, where it has been timed before: first of the setting, and ok
    ceilings: list[Ceilings] = field(default_factory=list)  # Those that each process has measured
    by_itself: dict[str, Alone] = field(default_factory=dict)
    outcomes: dict[str, list[Outcome]] = field(default_factory=dict)
    samples: dict[str, list[Samples]] = field(default_factory=dict)

    def run(self) -> None:
        """One attempt at each pending trial."""
        for outcome in self.workers.run((self.request(t, "alone") for t in self.pending), self.say):
            trial = outcome.request.trial
            assert isinstance(trial, TimeTrial)
            self.outcomes[trial.id] = [outcome]
            if outcome.state == "ok":
                self.by_itself[trial.id] = Alone.model_validate_json(outcome.values_json())
                self.samples[trial.id] = []
            else:
                self.keep(trial, outcome, None)
        baseline = self.earlier or next(iter(self.alive()), None)
        if baseline is not None:
            self.side_by_side(baseline)

    def alive(self) -> list[TimeTrial]:
        """The trials that have not failed, in the plan's order."""
        return [t for t in self.pending if t.id in self.samples]

    def side_by_side(self, baseline: TimeTrial) -> None:
        """All panels; the trials' records are written when the last process has ended."""
        panels: deque[tuple[int, list[TimeTrial]]] = deque()
        for outcome in self.workers.run(self.requests(baseline, panels), self.say):
            process, panel = outcome.request.process, list(outcome.request.panel)
            if outcome.state == "ok":
                measured = Panel.model_validate_json(outcome.values_json())
                self.ceilings.append(measured.ceilings)
                for trial in panel:
                    self.samples[trial.id].append(measured.samples[trial.id])
                    self.outcomes[trial.id].append(outcome)
            elif outcome.state == "interrupted" and self.through() >= baseline.protocol.rounds:
                break  # what is there is enough for records
            elif outcome.state == "oom" and len(panel) > 1:  # together they do not fit; by halves they may
                half = len(panel) // 2
                panels.extend([(process, panel[:half]), (process, panel[half:])])
            elif rest := self.without_culprit(outcome, panel, baseline):
                panels.append((process, rest))
        self.finish(baseline)

    def requests(self, baseline: TimeTrial, panels: deque[tuple[int, list[TimeTrial]]]) -> Iterator[Request]:
        """Process by process, all that is alive in panels drawn anew; and what had to be done again."""
        for process in itertools.takewhile(lambda so_far: self.needs_more(baseline, so_far), itertools.count()):
            variants = self.alive()
            random.Random(digest([process, *(t.id for t in variants)])).shuffle(variants)
            panels.extend(
                (process, variants[start : start + LARGEST_PANEL]) for start in range(0, len(variants), LARGEST_PANEL)
            )
            while panels:
                number, panel = panels.popleft()
                if left := [t for t in panel if t.id in self.samples]:
                    yield self.request(baseline, "panel", panel=tuple(left), process=number)

    def needs_more(self, baseline: TimeTrial, processes: int) -> bool:
        """Whether so many processes are too few: fewer than asked for, or their intervals wider.

        Other work on the machine would make intervals wide for as long as it lasts, so it is not waited for.
        """
        how = baseline.protocol
        if processes < how.rounds or how.within is None or processes >= how.rounds_most:
            return processes < how.rounds
        loads = [p.foreign_threads or 0.0 for samples in self.samples.values() for p in samples]
        quiet = bool(loads) and statistics.fmean(loads) <= TOLERATED
        return quiet and self.half_width(self.samples) > how.within

    def through(self) -> int:
        """Processes that all have gone through."""
        return min(map(len, self.samples.values()), default=0)

    def finish(self, baseline: TimeTrial) -> None:
        """The records of what went through all processes; none of a setting that was stopped before."""
        if (through := self.through()) < baseline.protocol.rounds:
            return
        # The highest of each: what slowed a process down is no property of the device.
        best = Ceilings(**{name: max(dict(each)[name] for each in self.ceilings) for name in Ceilings.model_fields})
        for trial in self.alive():
            values = combine(
                trial, self.by_itself[trial.id], self.samples[trial.id][:through],
                baseline=baseline.id, ceilings=best,
            )  # fmt: skip
            self.keep(trial, whole(self.outcomes[trial.id]), values)

    def without_culprit(self, outcome: Outcome, panel: list[TimeTrial], baseline: TimeTrial) -> list[TimeTrial]:
        """Give a panel's failure to the trial that was at work; what is left of the panel.

        Where the baseline was, or nobody knows, all of the panel have failed: there is nothing to compare them with.
        """
        culprits = [t for t in panel if t.id == outcome.at and t.id != baseline.id] or panel
        if outcome.at == baseline.id:
            outcome = replace(outcome, reason=f"the baseline beside it: {outcome.reason}")
        for trial in culprits:
            self.samples.pop(trial.id, None)
            self.keep(trial, whole([*self.outcomes[trial.id], outcome]), None)
        return [t for t in panel if t not in culprits] if outcome.state != "interrupted" else []


def whole(outcomes: Sequence[Outcome]) -> Outcome:
    """Several processes of one trial as one: how the last ended, when the first began, and the time of all."""
    return replace(outcomes[-1], started_at=outcomes[0].started_at, seconds=sum(o.seconds for o in outcomes))
