"""A study's conclusions: verdicts on what its axes do, how they interact, and the hypotheses that it puts to the test.

All of them are one family for Holm's correction, in which hypotheses weigh most. Axes whose values are all equivalent
implementations are in no table of effects: they compute the same function, and what differs between them is noise by
construction. Nor are equivalent values of any other axis, unless all of them are trained with every seed.
"""

import itertools
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from vitbench.analysis.factorial import Runs, effect, interactions, one_at_a_time, reference_of
from vitbench.analysis.looks import Look
from vitbench.analysis.replay import Looking, replay
from vitbench.analysis.verdicts import Comparison, Judged, Verdict, judge
from vitbench.config.suite import Hypothesis, Test

Outcome = Literal[
    "reproduced", "equal within the margin", "reproduced, within the margin",
    "reproduced in sign, smaller than claimed", "reproduced in sign, larger than claimed",
    "not reproduced, within the margin", "not reproduced, not equal", "not reproduced, opposite sign", "undecided",
]  # fmt: skip
OUTCOMES: Mapping[Outcome, str] = {
    "reproduced": "the claim came out; a claimed size lies in the interval.",
    "equal within the margin": "equality was claimed; a difference is certain, but smaller than the margin.",
    "reproduced, within the margin": "the claimed sign came out; the claimed size lies outside the interval by no more "
    "than the margin.",
    "reproduced in sign, smaller than claimed": "the claimed sign came out; the claimed size lies beyond the interval.",
    "reproduced in sign, larger than claimed": "the claimed sign came out; the interval lies beyond the claimed size.",
    "not reproduced, within the margin": "a difference was claimed; the verdict is equivalent.",
    "not reproduced, not equal": "equality was claimed; a difference was found.",
    "not reproduced, opposite sign": "a difference of the opposite sign was found.",
    "undecided": "the runs do not decide the claim.",
}
"""Outcome of a hypothesis → what it means to a reader, see :func:`outcome`. Where equality is claimed the verdict alone
decides, whatever size was printed. Undecided are also hypotheses whose verdict is underpowered or invalid."""

EXPECTED_VERDICT: Mapping[str, Verdict] = {"higher": "better", "lower": "worse", "equal": "equivalent"}


@dataclass(frozen=True)
class Effect:
    """Effect of one value of an axis, against the axis' reference."""

    axis: str
    value: str
    against: str  # the reference
    judged: Judged  # over the whole grid
    # values of the task axes → the mean difference under them alone, for each that has a result; empty where there are
    # no such axes. They are in no family, and have no verdict
    under: Mapping[tuple[str, ...], float] = field(default_factory=dict)


@dataclass(frozen=True)
class Tested:
    """A hypothesis, and what the runs say of it."""

    hypothesis: Hypothesis
    judged: Judged
    outcome: Outcome


@dataclass(frozen=True)
class Conclusions:
    """Verdicts on the training runs of one device and environment."""

    runs: Runs
    hypotheses: list[Tested]  # of the suite, put to the test
    effects: list[Effect]  # main effects of the axes under study
    interactions: list[Judged]  # of pairs of them, and of each with an axis that changes the task
    variants: list[Judged]  # named cells against the first
    # cell → seeds that it is trained with by what is known, where the plan has looks; else empty
    seeds: Mapping[str, int] = field(default_factory=dict)

    @property
    def judged(self) -> list[Judged]:
        """All of its comparisons."""
        of_axes = [effect.judged for effect in self.effects]
        return [*(tested.judged for tested in self.hypotheses), *of_axes, *self.interactions, *self.variants]


def conclude(
    runs: Runs, axes: Mapping[str, Sequence[str]], scientific: Collection[str], *,
    task_axes: Collection[str] = (), hypotheses: Sequence[Hypothesis] = (), cells: Sequence[str] = (),
    margin: float | None, noise_floor: float | None, test: Test | None = None, looking: Looking | None = None,
    once: bool = False,
) -> Conclusions:  # fmt: skip
    """Everything that is to be compared, judged as one family.

    A hypothesis about an axis is a main effect over the matched pairs of the cells that it holds for (``where``); one
    about two cells is their difference.

    Args:
        runs: of one device and environment.
        axes: axis → its values as text: all that the grid is made of.
        scientific: the axes under study; the others are equivalent implementations, or change the task.
        task_axes: see :func:`vitbench.analysis.design.task_axes`.
        hypotheses: of the suite.
        cells: that are compared with the first of them.
        margin: see :func:`vitbench.analysis.verdicts.judge`.
        noise_floor: see the same.
        test: see the same.
        looking: the looks of the plan; None where it has none.
        once: whether of equivalent implementations one is trained for all.
    """
    wanted = [
        (axis, value, against)
        for axis in axes
        if axis in scientific
        for against in [reference_of(runs, axes, axis)]
        for value in axes[axis]
        if value != against
    ]
    pairs = [
        pair
        for pair in itertools.combinations([axis for axis in axes if axis in {*scientific, *task_axes}], 2)
        if not set(pair) <= set(task_axes)
    ]

    # What is planned on one device alone, and what an edited plan names, is not there to be compared.
    hypotheses = [h for h in hypotheses if h.axis is not None or {h.value, h.against} <= runs.number.keys()]
    cells = [cell for cell in cells if cell in runs.number]

    def is_asked(each: Comparison) -> bool:
        """By the plan alone, so that no result changes the family."""
        return bool(each.key) and not (once and each.equivalent)

    def parts_of(runs: Runs) -> list[list[Comparison]]:
        return [
            [_of_hypothesis(runs, axes, hypothesis) for hypothesis in hypotheses],
            [each for names in wanted if is_asked(each := effect(runs, axes, *names))],
            [each for pair in pairs for each in interactions(runs, axes, *pair) if is_asked(each)],
            one_at_a_time(runs, cells) if cells else [],
        ]

    def judged_at(rows: Sequence[Comparison], look: Look | None) -> list[Judged]:
        return judge(rows, margin=margin, noise_floor=noise_floor, test=test, look=look)

    parts, seeds = parts_of(runs), dict[str, int]()
    if looking is None:
        verdicts = iter(judged_at([*itertools.chain(*parts)], None))
    else:
        judged, seeds = replay(runs, looking, lambda some: [*itertools.chain(*parts_of(some))], judged_at, test)
        verdicts = iter(judged)
    tested, effects, crossed, variants = ([next(verdicts) for _ in part] for part in parts)
    return Conclusions(
        runs,
        [Tested(h, each, outcome(h, each, margin)) for h, each in zip(hypotheses, tested, strict=True)],
        [
            Effect(*names, judged=each, under=_under(_seen(runs, each, looking), axes, names, task_axes))
            for each in effects
            for names in each.comparison.factors
        ],
        crossed,
        variants,
        seeds,
    )


def _of_hypothesis(runs: Runs, axes: Mapping[str, Sequence[str]], hypothesis: Hypothesis) -> Comparison:
    if hypothesis.axis is None:
        return replace(one_at_a_time(runs, [hypothesis.against, hypothesis.value])[0], expected=hypothesis.expected)
    held = {axis: (hypothesis.where[axis],) if axis in hypothesis.where else values for axis, values in axes.items()}
    return replace(
        effect(runs, held, hypothesis.axis, hypothesis.value, hypothesis.against), expected=hypothesis.expected
    )


def _seen(runs: Runs, judged: Judged, looking: Looking | None) -> Runs:
    """The runs that a comparison was judged by: of a plan with looks those of the look that decided it."""
    return runs.of_seeds(looking.plan.seeds[: judged.look]) if looking is not None and judged.look else runs


def _under(
    runs: Runs, axes: Mapping[str, Sequence[str]], names: tuple[str, str, str], task_axes: Collection[str]
) -> dict[tuple[str, ...], float]:
    """The mean of an effect under each combination of the task axes' values by itself."""
    given = [axis for axis in axes if axis in task_axes]
    means = {}
    for values in itertools.product(*(axes[axis] for axis in given)) if given else ():
        held = {**axes, **{axis: (value,) for axis, value in zip(given, values, strict=True)}}
        if deltas := effect(runs, held, *names).deltas:
            means[values] = statistics.fmean(deltas)
    return means


def outcome(hypothesis: Hypothesis, judged: Judged, margin: float | None) -> Outcome:
    """Outcome of a hypothesis by a verdict and the interval beside it: see :data:`OUTCOMES`."""
    if judged.verdict not in EXPECTED_VERDICT.values():
        return "undecided"
    if judged.verdict != EXPECTED_VERDICT[hypothesis.expected]:
        if hypothesis.expected == "equal":
            return "not reproduced, not equal"
        within = judged.verdict == "equivalent"
        return "not reproduced, within the margin" if within else "not reproduced, opposite sign"
    if hypothesis.expected == "equal" or hypothesis.size is None or judged.interval.holds(hypothesis.size):
        return "equal within the margin" if hypothesis.expected == "equal" and judged.certain else "reproduced"
    sign, room = (1 if hypothesis.expected == "higher" else -1), margin or 0.0
    if judged.interval.low - room <= hypothesis.size <= judged.interval.high + room:
        return "reproduced, within the margin"
    smaller = sign * hypothesis.size > sign * judged.mean
    return "reproduced in sign, smaller than claimed" if smaller else "reproduced in sign, larger than claimed"
