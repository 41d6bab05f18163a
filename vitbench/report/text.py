"""Text: names and messages as they are, whatever they hold; numbers with as many digits as say something; lists."""

import itertools
import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import NamedTuple, NewType

from markdown_it import MarkdownIt

Md = NewType("Md", str)
"""A piece of Markdown: written here, or escaped. Plain text becomes one through :func:`escape` alone."""

NOTHING = Md("n/a")
"""Text of a table's cell where a value does not exist. Where a trial gave none, the cell shows the state instead."""

_SPECIAL = re.compile(r"[\\`*\[\]|~]")
_LONE_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
_BLOCK_START = re.compile(r"^([-+=#]|\d+(?=[.)](\s|$)))")
_MARKED = re.compile(r"[\\`*_\[\]&<!~|]")
_PARSER = MarkdownIt("commonmark", {"html": False})


def printable(text: str) -> str:
    """Plain text on one line, without what steers a terminal or turns letters round."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def escape(text: object) -> Md:
    """Any text as Markdown that shows just this text, in a paragraph or a table cell: one line, no markup.

    An underscore between letters or digits stays as it is, so that names such as ``per_head`` can be read in
    the source; it cannot begin emphasis there. ``$`` becomes an entity, since some renderers set formulas.
    """
    line = printable(str(text))
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    line = _LONE_UNDERSCORE.sub(r"\\_", _SPECIAL.sub(r"\\\g<0>", line)).replace("$", "&#36;")
    return Md(_BLOCK_START.sub(lambda m: f"{m[0]}\\" if m[0].isdigit() else f"\\{m[0]}", line))


def bold(text: Md) -> Md:
    """Bold text, which marks the best of a column."""
    return Md(f"**{text}**")


def listed(items: Sequence[str], limit: int = 8, more: str = "more") -> Md:
    """Plain names in a row, escaped; above the limit the number of the others in their place."""
    names = ", ".join(map(escape, items[:limit]))
    return Md(f"{names} and {len(items) - limit:,} {more}" if len(items) > limit else names)


class Span(NamedTuple):
    """Letters of a line that look alike."""

    text: str  # as a reader sees it
    styles: tuple[str, ...] = ()  # "strong", "em", "code": HTML's names, the outer one first
    link: str = ""  # where they lead; empty if nowhere


def spans(text: Md) -> list[Span]:
    """The parts of a line of Markdown, each of letters that look alike."""
    if not _MARKED.search(text):
        return [Span(text)]
    parts, styles, link = list[Span](), list[str](), ""
    for token in _PARSER.parseInline(text)[0].children or []:
        if token.type in ("strong_open", "em_open"):
            styles.append(token.tag)
        elif token.type in ("strong_close", "em_close"):
            styles.pop()
        elif token.type in ("link_open", "link_close"):
            link = str(token.attrGet("href") or "")
        elif token.content or token.type == "softbreak":
            code = ["code"] if token.type == "code_inline" else []
            parts.append(Span(token.content or " ", (*styles, *code), link))
    return parts


def plain(text: Md) -> str:
    """The text of a line without its markup."""
    return "".join(span.text for span in spans(text))


MINUS = "\N{MINUS SIGN}"
SURVIVORS = Md("†")  # Marks a mean over fewer seeds than were planned
AT_CHANCE = Md("at chance")  # Of a cell whose interval reaches down to the accuracy of a guess
UNSTABLE = "~"  # Marks a timing that is not to be relied on


def significant(value: float, digits: int = 3) -> Md:
    """A positive quantity with so many significant digits, thousands apart; the whole part stays whole."""
    if not math.isfinite(value):
        return NOTHING
    decimals = max(0, digits - 1 - (math.floor(math.log10(abs(value))) if value else 0))
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


def accuracy_decimals(test_images: float) -> int:
    """Decimals of a percentage that so many images can resolve."""
    return 2 if math.isfinite(test_images) and test_images >= 5000 else 1


def unique(name: str, taken: Collection[str]) -> str:
    """A name; with a number behind it where that is taken."""
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    return next(each for each in names if each not in taken)


def slug(text: str, empty: str, taken: Collection[str] = ()) -> str:
    """A text as a name of small letters, digits and dashes, which is not taken; ``empty`` stands for none of these."""
    return unique(re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or empty, taken)


def clipped(text: str, most: int) -> str:
    """A text of at most so many letters; a longer one ends in an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def cut(number: int, most: int, noun: str = "row") -> list[Md]:
    """The line below a table or a plot that shows the first of so many rows alone; none where it shows all."""
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
    as_text = signed if sign else fixed
    return Md(f"{as_text(low, decimals)} to {as_text(high, decimals)}")


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
    decimals = (n for n in range(fewest, 6) if low <= 1 <= high or not round(low, n) <= 1 <= round(high, n))
    return ranging(low, high, next(decimals, 6))


def distinct(names: Sequence[Sequence[str]], keep: int = 0) -> list[str]:
    """Names of as many parts each, without those that it does not take to tell them apart: the last go first, of the
    first ones so many are kept.
    """
    rows = {tuple(parts) for parts in names}
    places = list(range(len(names[0]))) if names else []
    for place in reversed(places[keep:]):
        fewer = [each for each in places if each != place]
        if len({tuple(parts[n] for n in fewer) for parts in rows}) == len(rows):
            places = fewer
    return [", ".join(parts[n] for n in places if parts[n]) for parts in names]


def seeds(n: int, planned: int) -> Md:
    """Number of the seeds that a mean is over, and of how many where some are missing."""
    return Md(f"{n}" if n == planned else f"{n} of {planned}")


def points(number: float) -> str:
    """Percentage points with their noun: 1 point, 0.5 points."""
    return f"{number:g} {'point' if number == 1 else 'points'}"
