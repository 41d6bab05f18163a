"""Terms: what the words, columns and marks of a report mean; only those that it has, each once."""

import functools
import math
import re
from collections.abc import Callable, Collection

from vitbench.analysis.axis_speeds import MARGIN
from vitbench.analysis.conclusions import OUTCOMES
from vitbench.analysis.multiplicity import ALPHA, seeds_for
from vitbench.analysis.timings import UNSTEADY
from vitbench.analysis.verdicts import BY_LESS, Judged
from vitbench.report.cost import by_axis
from vitbench.report.document import Block, Bullets
from vitbench.report.output import Files
from vitbench.report.sections.caveats import Caveat, in_words
from vitbench.report.sections.changes import Facts
from vitbench.report.sections.effects import is_marked
from vitbench.report.text import SURVIVORS, UNSTABLE, Md, enumerated, escape, points
from vitbench.report.view import View
from vitbench.wording import plural

VERDICTS: dict[str, str] = {
    "better": f"p (Holm) is at most {ALPHA:g}, and the difference is positive.",
    "worse": f"p (Holm) is at most {ALPHA:g}, and the difference is negative.",
    "equivalent": "a difference as large as the margin is ruled out, by a test of its own, corrected likewise; p is "
    f"that of the difference. A difference that is shown, and smaller than the margin, is better or worse, {BY_LESS}.",
    "underpowered": "with these seeds and this spread of runs, the test would find a difference as large as the margin "
    "(any difference, if the suite has no margin) in less than half of all studies.",
    "undecided": "neither a difference nor its absence is shown.",
    "invalid": "more than one seed failed, or what is compared does not run here.",
}


LETTERS = {"N": "N tokens", "D": "model width D", "H": "H heads", "K": "head width K"}
MEMORY = {
    "cpu": "on the CPU, the largest resident set of a fresh process less what it held before, which varies between "
    "processes",
    "mps": "for mps, the largest resident set of the process, since mps reports none of its own",
    "cuda": "on a GPU, the most that torch had allocated less what it held before",
}
"""Device → what its peak memory is."""


def _judged(view: View) -> list[Judged]:
    return [judged for each in view.conclusions for judged in each.judged]


def _has(word: str, view: View) -> bool:
    """Whether a report has a verdict, or an outcome of a claim."""
    outcomes = (tested.outcome for each in view.conclusions for tested in each.hypotheses)
    return word in {*(judged.verdict for judged in _judged(view)), *(f"claim: {outcome}" for outcome in outcomes)}


def _family(view: View) -> Facts:
    if judged := _judged(view):
        fewest = seeds_for(min(j.burden for j in judged))
        yield {"family": plural(judged[0].family, "comparison"), "fewest": plural(fewest, "seed")}


def _looks(view: View) -> Facts:
    if view.looking is not None:
        plan = view.looking.plan
        planned = sum(int(seed) in set(plan.seeds) for seed in view.train["seed"])
        decided = enumerated([str(look) for look in sorted({j.look for j in _judged(view) if j.look})]) or "none yet"
        yield {"at": enumerated([*map(str, plan.at)]), "planned": planned, "of": plan.trainings, "decided": decided,
               "fewer": max(plan.trainings - planned, 0)}  # fmt: skip


def _of_timings(column: str) -> Callable[[View], object]:
    return lambda view: view.measured[column].notna().any()


def _parts(view: View) -> Facts:
    parts = view.measured.loc[lambda rows: rows["level"] != "model"]
    letters = {letter for shape in parts["level_shape"].unique() for letter in re.findall(r"\b([A-Z]) \d", shape)}
    named = ", ".join(name for letter, name in LETTERS.items() if letter in letters)
    return [{"letters": f" ({named})" if named else ""}] if len(parts) else []


def _memory(view: View) -> Facts:
    trained = view.train.loc[view.train["state"] == "ok", "device"].unique()
    devices = {device.split(":")[0] for device in [*view.measured["device"], *trained]}
    return [{"what": "; ".join(MEMORY[d] for d in MEMORY if d in devices)}] if devices & MEMORY.keys() else []


def _speeds(view: View) -> Facts:
    if family := sum(bool(each.verdict) for speeds in by_axis.judged(view).values() for each in speeds):
        yield {"family": plural(family, "comparison"), "margin": f"{100 * MARGIN:.0f} %"}


TERMS: tuple[Caveat[View], ...] = (
    Caveat("difference", lambda view: bool(_judged(view)),
         "of test accuracies, in percentage points; its mean over seeds."),
    Caveat("interval",
         lambda view: _judged(view)
         and {"level": "95 %, or the level of the look that decided, beside it" if view.looking else "95 %"},
         "confidence interval of that mean by Welch's t ({level}), not corrected: it may exclude 0 where the "
         "verdict, which goes by p (Holm), leaves the difference open. Dots are single seeds."),
    Caveat("p", lambda view: bool(_judged(view)),
         "two-sided: the larger of the p of a permutation test and that of Welch's t times (r / 1.25)², at least 1 and "
         "at most 10, where r is the larger standard deviation of the two arms over the smaller: noise that is wide "
         "and skewed in one arm makes Welch's p too small. In simulated studies without any effect at most 5 % of "
         "reports show one; up to 9 % where the noise of one arm is skewed and twice as wide. A difference of the "
         "margin is called equivalent in at most 5 %, and up to 13 % there."),
    Caveat("p (Holm)", _family,
         "p corrected for the {family} of this report by Holm's method with weights: 2 for a claim, ¼ where equality "
         "is expected, 1 for all others. More weight needs a less small p. At least {fewest} are needed to show a "
         "difference."),
    Caveat("paired", lambda view: any(j.paired for j in _judged(view)),
         "arms that start from the same weights are compared seed by seed: Student's t, with the sign-flip test."),
    Caveat("interval of an accuracy", lambda view: any(n > 1 for n in view.by_cell["n"]),
         "95 %, of a cell's mean over seeds: the union of Student's t interval and a bootstrap's (BCa, expanded for "
         "few seeds)."),
    Caveat("margin",
         lambda view: (margin := view.study.info.suite.margin) and _judged(view) and {"margin": points(margin)},
         "{margin}, set by the suite: a smaller difference does not matter to it."),
    Caveat("P(better)", lambda view: any(not math.isnan(j.improvement) for j in _judged(view)),
         "how often a run of the one beats a run of the other, over all pairs of runs; ties count half."),
    Caveat("pairs of cells", lambda view: any(j.comparison.blocks > 1 for j in _judged(view)),
         "matched pairs, alike in all other axes, over which each seed is averaged; those that equivalent "
         "implementations repeat are not distinct."),
    Caveat("looks", _looks,
         "results are tested after {at} seeds, and what is decided stops (here decided at: {decided}). Of at most {of} "
         "trainings {planned} were planned by the last look, {fewer} fewer. After a fraction f of the seeds, f² of the "
         "5 % error may be spent (Kim and DeMets 1987). A difference that "
         "was shown early is on average a little too large."),
    *(Caveat(word, functools.partial(_has, word), text)
      for word, text in (VERDICTS | {f"claim: {outcome}": text for outcome, text in OUTCOMES.items()}).items()),
    Caveat("small form", lambda view: view.small and any(each.hypotheses for each in view.conclusions),
         "this is the suite's small form, which tests another claim than the published one."),
    Caveat("interaction", lambda view: any(each.interactions for each in view.conclusions),
         "by how much the effect of one axis changes with the value of another. *a × c, against b and d* is the gain "
         "of a over b where c is chosen, minus its gain where d is. *Better together* means that a and c gain more "
         "than their two effects added, and *worse together* less."),
    Caveat("effects by condition",
         lambda view: any(effect.under for each in view.conclusions for effect in each.effects)
         and {"axes": enumerated([escape(view.axis_names[axis]) for axis in view.task_axes])},
         "{axes} changes what is classified. Main effects are means over its values; each value by itself has no "
         "verdict."),
    Caveat("‡", lambda view: any(map(is_marked, _judged(view))),
         "no larger than equivalent implementations differ by."),
    Caveat(str(SURVIVORS), lambda view: any(j.survivors for j in _judged(view)),
         "over survivors: not every planned seed has a result."),
    Caveat("bold accuracy", lambda view: len(view.by_cell) > 1,
         "the highest mean of each task, and what is no further from it than equivalent implementations are from each "
         "other."),
    Caveat("equivalent implementations", lambda view: {*view.function_of.values()} < view.function_of.keys(),
         "cells that compute the same function from the same weights: one row, the values of their axes joined by “|”, "
         "costs from the least to the largest."),
    Caveat("speed by axis", _speeds,
         "times as fast, the geometric mean over matched blocks. The interval is over blocks and repetitions; the "
         "verdict is corrected for the {family} of speed by axis (Holm). Equivalent: within {margin}."),
    Caveat("latency p50", _of_timings("latency_ms_p50"),
         "the median of the processes' medians; its 95 % interval is a bootstrap over processes and rounds, no "
         "narrower than Student's t."),
    Caveat("speed", _of_timings("speed"),
         "the median over rounds of the baseline's latency over the cell's in the same round; above 1 is faster. Bold: "
         "the lowest stable latency, and those whose interval of the speed overlaps with that of its speed."),
    Caveat("A/A control", _of_timings("control"),
         "the baseline against itself, timed once more in each round: 1 but for noise."),
    Caveat(UNSTABLE, lambda view: (view.measured["unstable"] != "").any(),
         f"unstable: the interval of its speed beside the baseline is ±{100 * UNSTEADY:.0f} % or wider, or a reason is "
         "below the table. The interval of a latency may be wider than that of a speed, which compares round by round. "
         "A wide interval alone leaves the verdicts faster and slower possible, but by how much is uncertain."),
    Caveat("parts of a model", _parts, "timed by themselves{letters}. Attention core: softmax(QKᵀ / √K) V."),
    Caveat("first iteration", _of_timings("first_ms"), "in a fresh process, compilation and all else that is done once "
         "included."),
    Caveat("drift of the output", lambda view: bool(view.by_other_runtimes),
         "of a few images: the largest error against the model in float64, over the largest true value. A runtime that "
         "is not exact is held to no limit."),
    Caveat("runtime", lambda view: bool(view.by_other_runtimes),
         "what runs the model. What it takes to convert it is in no latency; on a CPU it is in the peak memory."),
    Caveat("training (images/s)", lambda view: (view.train["state"] == "ok").any(),
         "throughput of the median step of the cells' own runs."),
    Caveat("peak memory", _memory, "{what}."),
)  # fmt: skip
"""Every term, in the order of the list."""


def section(view: View, _: Files) -> list[Block]:
    """The terms that a report has."""
    items = [Md(f"**{name}:** {text}") for name, text in in_words(TERMS, view)]
    return [Bullets(items)] if items else []


def meanings(verdicts: Collection[str]) -> list[Md]:
    """Meanings of some verdicts, for pages of several studies."""
    return [Md(f"**{word}:** {text}") for word, text in VERDICTS.items() if word in verdicts]
