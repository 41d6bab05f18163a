"""Change of one timing between two arms, and whether it is a regression.

The earlier arm is called A and the later B. A timing has changed if the 95 % interval of its ratio B/A excludes 1; it
is a regression if its estimate is also slower by more than what the user allows, or if it was ok in A and is not in B.
An interval that holds 1 shows no change, and does not show either that there is none: it takes one that lies within a
margin as a whole (Schuirmann 1987, J. Pharmacokin. Biopharm. 15; here with a 95 % interval, where 90 % would do).
"""

import math
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from vitbench.analysis import timings
from vitbench.analysis.sides import Timing
from vitbench.analysis.timings import FEW, Measurement
from vitbench.store import TimeValues
from vitbench.wording import plural

SLOWER, FASTER, UNDECIDED, EQUIVALENT = "slower", "faster", "undecided", "equivalent"
IDENTICAL = "identical"  # Said of two results that agree in every digit: there is nothing to be tested
TOO_FEW = "too few samples"
OK_NOW = "ok now"
WORDS = (SLOWER, TOO_FEW, UNDECIDED, EQUIVALENT, IDENTICAL, FASTER, OK_NOW)
"""Changes of a timing, worst first: before all comes the new state of one that is no longer ok, and after all what
only one side has."""
ONLY = "only in "

MARGIN = 0.05
"""Change of a latency that passes for none where a user names no other: a convention, and no property of a machine."""

FEWEST_PROCESSES = 2
"""Processes on each side below which nothing is equivalent: no interval holds the luck of a single one."""


@dataclass(frozen=True)
class Change:
    """Change of one timing between two arms."""

    label: str  # what was timed, in words
    word: str  # one of WORDS, the new state of a timing that was ok and is not any more, or which arm alone has it
    old: Measurement | None = None  # latency in A, ms; None where it was not ok there, or is not there
    new: Measurement | None = None  # latency in B, ms
    ratio: Measurement | None = None  # B/A; above 1 is slower
    note: str = ""  # the reason of a state, for a reader
    doubtful: bool = False  # whether one of the two timings is not to be relied on
    lost: bool = False  # whether it was ok in A, and is in B but not ok

    @property
    def judged(self) -> bool:
        """Whether its ratio has an interval, so that it can be judged."""
        return self.ratio is not None and not math.isnan(self.ratio.low) and not math.isnan(self.ratio.high)

    def regressed(self, fail_over: float) -> bool:
        """Whether it counts as a regression where so large a fraction is allowed (0.05: 5 % slower is allowed)."""
        if self.lost:
            return True
        if self.word != SLOWER or self.ratio is None:
            return False
        # The estimate has gone through log and exp: its last bits are no slowdown.
        allowed = 1.0 + fail_over
        return self.ratio.estimate > allowed and not math.isclose(self.ratio.estimate, allowed, rel_tol=1e-12)


@dataclass(frozen=True)
class Changes:
    """Changes from A to B."""

    changes: tuple[Change, ...]  # what is no longer ok, then by ratio, slowest change first
    alone: tuple[Change, ...] = ()  # what only one side has
    neither: int = 0  # number of timings that both plan and that are ok in neither

    def summary(self, fail_over: float | None) -> str:
        """Counts by word, and of the regressions where a limit is given, in one line."""
        counts = Counter(c.word for c in (*self.changes, *self.alone))
        parts = [f"{counts[w]} {w}" for w in sorted(counts, key=_severity)]
        parts += [f"{self.neither} ok in neither"] if self.neither else []
        text = f"{plural(counts.total() + self.neither, 'timing')}: {', '.join(parts)}"
        if fail_over is None:
            return text
        regressions = sum(c.regressed(fail_over) for c in self.changes)
        text += f"; {plural(regressions, 'regression') if regressions else 'no regression'}"
        return f"{text} beyond {100 * fail_over:g} %"


def change(a: Timing | None, b: Timing | None, margin: float) -> Change | None:
    """Change of a timing; None of one that a side does not plan, or that is ok on neither side.

    Args:
        a: the earlier timing.
        b: the later one.
        margin: fraction by which a latency may differ and still be equivalent.
    """
    if a is None or b is None or (a.values is None and b.values is None):
        return None
    if b.values is None:
        assert a.values is not None
        return Change(b.label, b.state, timings.latency(a.values), note=b.reason, lost=True)
    if a.values is None:
        return Change(b.label, OK_NOW, new=timings.latency(b.values), note=f"{a.state} in A")
    ratio, doubtful = timings.ratio_between(b.values, a.values), bool(a.unstable or b.unstable)
    word = _judged(ratio, a.values, b.values, margin, doubtful=doubtful)
    return Change(b.label, word, timings.latency(a.values), timings.latency(b.values), ratio, doubtful=doubtful)


def _judged(ratio: Measurement, a: TimeValues, b: TimeValues, margin: float, *, doubtful: bool) -> str:
    """Verdict of a ratio and its interval, in a word."""
    if math.isnan(ratio.low) or math.isnan(ratio.high):
        return TOO_FEW  # an interval without ends excludes 1 as little as it holds it
    if not ratio.holds(1.0):
        return SLOWER if ratio.estimate > 1.0 else FASTER
    if [p.latencies_ms for p in a.processes] == [p.latencies_ms for p in b.processes]:
        return IDENTICAL
    low, high = within(margin)
    enough = min(len(a.processes), len(b.processes)) >= FEWEST_PROCESSES
    return EQUIVALENT if enough and not doubtful and low <= ratio.low and ratio.high <= high else UNDECIDED


def within(margin: float) -> tuple[float, float]:
    """Ratios between which two latencies are equivalent; the lower is the upper's inverse, so that A/B says as B/A."""
    return 1.0 / (1.0 + margin), 1.0 + margin


def meanings(words: Collection[str], margin: float) -> list[str]:
    """Meanings of the words that judge a ratio, a sentence for each word that is there."""
    low, high = within(margin)
    texts = {
        (SLOWER, FASTER): "the 95 % interval of the ratio excludes 1, by however little",
        (UNDECIDED,): "the interval holds 1, and the two are not shown to be equivalent",
        (EQUIVALENT,): f"the whole interval lies between {low:.3f} and {high:.3f} (a margin of {100 * margin:g} %), "
                       f"both timings are to be relied on, and each has {FEWEST_PROCESSES} processes or more",
        (IDENTICAL,): "both sides hold the same samples: this is one measurement and not two, and the interval that of "
                      "two such",
        (TOO_FEW,): f"fewer than {FEW} samples on one side give no interval",
    }  # fmt: skip
    used = {*words, EQUIVALENT} if UNDECIDED in words else {*words}
    named = [(" and ".join(word for word in group if word in used), text) for group, text in texts.items()]
    return [f"{names.capitalize()}: {text}." for names, text in named if names]


def alone(timing: Timing, letter: str, *, later: bool) -> Change:
    """A timing that one arm alone plans."""
    latency = timings.latency(timing.values) if timing.values is not None else None
    old, new = (None, latency) if later else (latency, None)
    return Change(timing.label, f"{ONLY}{letter}", old, new, note="" if timing.state == "ok" else timing.state)


def _severity(word: str) -> int:
    """Place among WORDS; of a state before all, of what only one side has after all."""
    return WORDS.index(word) if word in WORDS else len(WORDS) if word.startswith(ONLY) else -1


def order(change: Change) -> tuple[int, float, int, str]:
    """Sorts changes, worst first."""
    group = 0 if change.lost else 1 if change.ratio is not None else 2
    return group, -change.ratio.estimate if change.ratio else 0.0, _severity(change.word), change.label
