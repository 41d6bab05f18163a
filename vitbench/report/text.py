"""Text of numbers: as many digits as say something, intervals, p-values, lists, and marks beside them."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext

from vitbench.report.inline import NOTHING, Md

MINUS = "\N{MINUS SIGN}"
SURVIVORS = Md("†")
"""Marks a mean over fewer seeds than were planned."""
AT_CHANCE = Md("at chance")
"""Of a cell whose interval reaches down to the accuracy of a guess."""
UNSTABLE = "~"
"""Marks a timing that is not to be relied on."""


def decimals_for(value: float, digits: int = 3) -> int:
    """Decimals with which a quantity has so many significant digits; none of what has as many before the point."""
    return max(0, digits - 1 - (math.floor(math.log10(abs(value))) if value else 0))


def significant(value: float, digits: int = 3) -> Md:
    """A positive quantity with so many significant digits, thousands apart; the whole part stays whole."""
    if not math.isfinite(value):
        return NOTHING
    decimals = decimals_for(value, digits)
    return Md(f"{_rounded(value, decimals):,f}") if decimals <= 6 else Md(f"{value:.{digits - 1}e}")


def _rounded(value: float, decimals: int) -> Decimal:
    """A number rounded as one does by hand: a half goes up, and not to the even digit. p = 2/32 is 0.063, not 0.062."""
    with localcontext(prec=400):  # of the largest float
        return Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)


def count(value: float) -> Md:
    """A whole number, thousands apart."""
    return Md(f"{value:,.0f}") if math.isfinite(value) else NOTHING


def fixed(value: float, decimals: int) -> Md:
    """A number with so many decimals."""
    return Md(f"{_rounded(value, decimals):,f}") if math.isfinite(value) else NOTHING


def signed(value: float, decimals: int) -> Md:
    """A difference, its sign always shown; one that rounds to nothing has none."""
    if not math.isfinite(value):
        return NOTHING
    rounded = _rounded(value, decimals)
    return Md(f"{rounded:+f}".replace("-", MINUS)) if rounded else Md(f"{0:.{decimals}f}")


def spread(mean: float, std: float, decimals: int) -> Md:
    """Mean ± standard deviation; the mean alone where there is no deviation to tell."""
    return Md(f"{fixed(mean, decimals)} ± {fixed(std, decimals)}") if math.isfinite(std) else fixed(mean, decimals)


def measured(value: float, std: float, digits: int = 3) -> Md:
    """A positive quantity with so many significant digits ± its standard deviation, to the same decimal."""
    if not math.isfinite(value) or not math.isfinite(std) or decimals_for(value, digits) > 6:
        return significant(value, digits)
    return spread(value, std, decimals_for(value, digits))


def accuracy_decimals(test_images: float) -> int:
    """Decimals of a percentage that so many images can resolve."""
    return 2 if math.isfinite(test_images) and test_images >= 5000 else 1


def unique(name: str, taken: Collection[str]) -> str:
    """A name; with a number behind it where that is taken."""
    numbered = (f"{name}-{number}" for number in itertools.count(2))
    return name if name not in taken else next(each for each in numbered if each not in taken)


def slug(text: str, empty: str, taken: Collection[str] = ()) -> str:
    """A text as a name of small letters, digits and dashes, which is not taken; ``empty`` stands for none of these."""
    return unique(re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or empty, taken)


def cut(number: int, most: int, noun: str = "row") -> list[Md]:
    """What is below a table or a plot that shows the first of so many rows alone; nothing where it shows all."""
    return [Md(f"Of {number:,} {noun}s the first {most:,} are shown.")] if number > most else []


def enumerated(parts: Sequence[str]) -> str:
    """Parts of a sentence: a, b and c; empty of none."""
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def probability(p: float) -> Md:
    """A p-value: three decimals, or that it is smaller."""
    return Md("< 0.001") if p < 0.0005 else fixed(p, 3)


def ranging(low: float, high: float, decimals: int, *, sign: bool = False) -> Md:
    """An interval: its ends, with their signs or without; nothing where it has none."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return NOTHING
    shown = signed if sign else fixed
    return Md(f"{shown(low, decimals)} to {shown(high, decimals)}")


def span(values: Iterable[float], show: Callable[[float], Md] = count) -> Md:
    """The smallest and the largest of some values, or the only one; nothing of none."""
    known = [value for value in values if math.isfinite(value)]
    ends = dict.fromkeys([show(min(known)), show(max(known))]) if known else [NOTHING]
    return Md(" to ".join(ends))


def interval_text(low: float, high: float, decimals: int, *, sign: bool = False) -> str:
    """An interval as plain text; empty where it has no ends."""
    return str(ranging(low, high, decimals, sign=sign)).replace(NOTHING, "")


def ratio_ends(low: float, high: float, fewest: int = 2) -> Md:
    """Ends of a ratio's interval, with as many decimals as it takes to see that 1 is not in it."""
    shown = (n for n in range(fewest, 6) if low <= 1 <= high or not round(low, n) <= 1 <= round(high, n))
    return ranging(low, high, next(shown, 6))


def distinct(names: Sequence[Sequence[str]], keep: int = 0) -> list[str]:
    """Names made of parts, without those that it does not take to tell them apart; the last parts go first.

    Args:
        names: parts of each name, of all as many.
        keep: how many of the first parts every name has.
    """
    every = {tuple(parts) for parts in names}
    kept = list(range(len(names[0]))) if names else []
    for place in reversed(kept[keep:]):
        fewer = [each for each in kept if each != place]
        if len({tuple(parts[n] for n in fewer) for parts in every}) == len(every):
            kept = fewer
    return [", ".join(parts[n] for n in kept if parts[n]) for parts in names]


def seeds(n: int, planned: int) -> Md:
    """How many seeds a mean is over, and of how many where some are missing."""
    return Md(f"{n}" if n == planned else f"{n} of {planned}")


def points(number: float) -> str:
    """Percentage points with their noun: 1 point, 0.5 points."""
    return f"{number:g} {'point' if number == 1 else 'points'}"
