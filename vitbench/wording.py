"""Text: outside text as a record may hold it, plurals, durations, and the nearest of some names.

The operating system gives file names and messages that are no UTF-8; Python keeps such bytes as lone surrogates, which
can be neither encoded nor written as JSON that others read.
"""

from collections.abc import Iterable

MOST_CHARACTERS = 1_000  # Characters of a line that a record holds, at the most
MOST_LINES = 50  # Last lines of a traceback or log that a record keeps


def encoded(text: str) -> bytes:
    """The bytes of a text, for a hash or for a file that only this program reads: UTF-8 wherever there is such."""
    return text.encode("utf-8", "surrogatepass")


def printable(text: str) -> str:
    r"""Text that every reader of UTF-8 takes: what is no character is spelled out, ``\udcff``."""
    return text.encode("utf-8", "backslashreplace").decode()


def sentence(text: str) -> str:
    """A text that is printable and has at most ``MOST_CHARACTERS``."""
    whole = printable(text[: MOST_CHARACTERS + 1])
    return whole if len(whole) <= MOST_CHARACTERS else f"{whole[: MOST_CHARACTERS - 1]}…"


def last_lines(text: str) -> str:
    """The last ``MOST_LINES`` lines of a text, each a :func:`sentence`."""
    return "\n".join(map(sentence, text.splitlines()[-MOST_LINES:]))


def plural(number: int, one: str, many: str = "") -> str:
    """A number with its noun: 1 cell, 1,000 cells."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def duration(seconds: float) -> str:
    """Seconds in the unit that a reader would choose."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds > 172_800:
        return f"{seconds / 86_400:,.0f} days"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def nearest(given: str, known: Iterable[str]) -> str:
    """``; did you mean "…"?`` with the closest known name, or nothing where none is close."""
    import difflib  # here, for errors alone: at the top it would slow the start of every command

    close = difflib.get_close_matches(given, list(known), n=1, cutoff=0.6)
    return f'; did you mean "{close[0]}"?' if close else ""
