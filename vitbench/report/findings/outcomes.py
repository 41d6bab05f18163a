"""Outcomes: what became of the claims that a suite puts to the test, in sentences, one for each outcome."""

from __future__ import annotations

from collections.abc import Sequence

from vitbench.analysis.conclusions import Outcome, Tested
from vitbench.report.findings.answers import number
from vitbench.report.findings.legends import OUTCOMES, told
from vitbench.report.markdown import Md, escape
from vitbench.report.numbers import signed
from vitbench.report.view import View

MOST = 4
"""Claims of one outcome that a sentence names; of more that are reproduced it names none."""


def in_words(view: View, tested: Sequence[Tested], on: str) -> list[Md]:
    """How the claims came out, those of one outcome together, each with what was claimed and what was found.

    Args:
        view: the study.
        tested: the claims of one device and origin; one or more.
        on: which these are, where there are others; begins with a space.
    """
    groups = {name: [each for each in tested if each.outcome == name] for name in OUTCOMES}
    return [_sentence(view, name, mine, len(tested), on) for name, mine in groups.items() if mine]


def _sentence(view: View, outcome: Outcome, mine: Sequence[Tested], every: int, on: str) -> Md:
    if every == 1:
        who = f"The claim{on} is"
    elif len(mine) == every:
        who = f"{'Both' if every == 2 else f'All {every:,}'} claims{on} are"
    else:
        who = f"{len(mine):,} of {every:,} claims{on} {'is' if len(mine) == 1 else 'are'}"
    if outcome == "reproduced" and len(mine) > MOST:
        sized = sum(each.fact.size is not None and each.fact.expected != "equal" for each in mine)
        return Md(
            f"{who} **{told(view, outcome)}**{f', {sized:,} of them in their size, too' if sized else ''}: see Claims."
        )
    named = "; ".join(_claim(view, each) for each in mine[:MOST])
    more = f"; and {len(mine) - MOST:,} more, see Claims" if len(mine) > MOST else ""
    return Md(f"{who} **{told(view, outcome)}**: {named}{more}.")


def _claim(view: View, tested: Tested) -> str:
    """A claim with what was claimed and found, and with what its outcome does not say of the verdict."""
    fact, judged = tested.fact, tested.judged
    size = f"{signed(fact.size, 1)} points" if fact.size is not None else ""
    claimed = ", ".join(filter(None, ("" if size and fact.expected != "equal" else fact.expected, size)))
    more = judged.verdict in ("underpowered", "invalid") or judged.words != judged.verdict
    doubt = f": {judged.words}" if more else ""
    return f"{escape(fact.claim)} (claimed: {claimed}; found: {number(view, judged)}{doubt})"
