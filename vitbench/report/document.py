"""Document: a report as data. Sections make it, and each format renders it."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from types import MappingProxyType

import pandas as pd

from vitbench.report.text import NOTHING, Md, bold, escape

TONES: Mapping[str, str] = {
    "better": "good", "faster": "good", "worse": "bad", "slower": "bad", "equivalent": "same", "identical": "same",
    "reproduced": "good", "equal within the margin": "good", "not reproduced": "bad",
}  # fmt: skip
"""Beginning of the word for a verdict or an outcome → its colour; all others are "open"."""


def tone(word: str) -> str:
    """The colour of a verdict or an outcome: "good", "bad", "same" or "open"; none of what is neither."""
    if word == NOTHING:
        return ""
    return next((colour for begin, colour in TONES.items() if word.startswith(begin)), "open")


@dataclass(frozen=True)
class Heading:
    """A heading within a section, as plain text."""

    text: str
    level: int = 3  # 3 below a section's title, 4 below that


@dataclass(frozen=True)
class Bullets:
    """A list, an item a line."""

    items: Sequence[Md]


@dataclass(frozen=True)
class Note:
    """A warning above the report, such as that the data are not those asked for."""

    text: Md


@dataclass(frozen=True)
class Byline:
    """A line in small letters: data, model, budget, device and date."""

    text: Md


@dataclass(frozen=True)
class Chips:
    """Short findings, each a word in the colour of its tone, and a sentence."""

    items: Sequence[tuple[str, Md]]


@dataclass(frozen=True)
class Bar:
    """An estimate with its interval (not numbers where it has none), and the single values that it is made of."""

    value: float
    low: float
    high: float
    points: tuple[float, ...] = ()


@dataclass(frozen=True)
class Scale:
    """The scale that bars share."""

    neutral: float | None = None  # where nothing differs; None for no line
    margin: tuple[float, float] | None = None  # ends of what is too small to matter; None for no band
    logarithmic: bool = False  # whether equal lengths are equal ratios


@dataclass(frozen=True)
class ForestRow:
    """A row of a forest plot."""

    name: str  # what is compared, such as the value of an axis
    context: str  # its axis, and what it is compared with
    bar: Bar  # the difference or ratio
    number: tuple[str, str]  # the bar's value as text, and its interval
    verdict: str  # in words
    detail: str = ""  # what a reader may want to know beside: p, seeds, family


@dataclass(frozen=True)
class Forest:
    """A forest plot: effects by row on one scale."""

    title: str  # what is compared, with its unit
    rows: Sequence[ForestRow]  # the effects
    scale: Scale  # of all of them
    note: str = ""  # what the band around the neutral value is; empty where there is none
    files: Mapping[str, str] = field(default_factory=dict)  # kinds of its files → path, such as CSV

    @property
    def frame(self) -> pd.DataFrame:
        """A row for each number, as the CSV file of the figure has them."""
        lines = [
            (row.name, row.context, what, value, row.verdict)
            for row in self.rows
            for what, value in (
                ("estimate", row.bar.value), ("low", row.bar.low), ("high", row.bar.high),
                *(("point", point) for point in row.bar.points),
            )
            if math.isfinite(value)
        ]  # fmt: skip
        return pd.DataFrame(lines, columns=["name", "context", "what", "value", "verdict"])

    @property
    def table(self) -> "Table":
        """A table of the effects, for formats that draw nothing."""
        rows = [
            {
                "comparison": escape(f"{each.name} ({each.context})"),
                "value": escape(each.number[0]),
                "interval": escape(each.number[1]) or NOTHING,
                "verdict": bold(escape(each.verdict)) if each.verdict else NOTHING,
            }
            for each in self.rows
        ]
        note = f" ({self.note})" if self.note else ""
        return table(rows, right={"value", "interval"}, caption=escape(f"{self.title}{note}"))


@dataclass(frozen=True)
class Code:
    """Lines of a shell to be copied."""

    text: str


@dataclass(frozen=True)
class Figure:
    """A picture."""

    path: str  # of its PNG file, relative to the report
    alt: str  # plain text, for who does not see it
    caption: Md  # what it shows; empty where the text around it says so
    files: Mapping[str, str]  # kinds of its files → path, such as CSV
    # draws it for a page, as HTML without an accessible name; ids in it begin with
    # :data:`vitbench.report.figures.charts.OWN`
    element: Callable[[], str]


@dataclass(frozen=True)
class Table:
    """A table."""

    columns: tuple[str, ...]  # heads, plain text
    right: tuple[bool, ...]  # whether each column is aligned to the right
    rows: tuple[tuple[Md, ...], ...]  # cells
    # number of a column → for each row the bar beneath its text, or None; and their scale
    bars: Mapping[int, tuple[Sequence[Bar | None], Scale]]
    caption: Md  # what is in it; empty where the heading above says so
    optional: frozenset[str]  # heads of columns that a page hides until a reader wants them
    # for each row the labels of the cells that it is about, by which a page marks them in figures and tables; empty
    # where rows are about something else
    cells: tuple[tuple[str, ...], ...]
    shades: Mapping[tuple[int, int], float] = field(default_factory=dict)  # (row, column) → -1 to 1, colour of a cell

    @property
    def telling(self) -> int:
        """Number of the first columns that tell the rows apart; 1 where no number of columns of words does."""
        for number in range(1, len(self.columns)):
            if self.right[number - 1]:
                break
            if len({row[:number] for row in self.rows}) == len(self.rows):
                return number
        return 1


Block = Md | Heading | Bullets | Note | Byline | Chips | Code | Figure | Table | Forest
"""A part of a section; a line of text by itself is a paragraph."""


@dataclass(frozen=True)
class Section:
    """A title and its blocks."""

    title: str
    blocks: Sequence[Block]
    folded: bool = False  # whether a page shows the title alone until a reader opens it


@dataclass(frozen=True)
class Document:
    """A report."""

    title: str  # plain text
    opening: Sequence[Block]  # before the first section
    sections: Sequence[Section]  # in their order, those without anything left out

    def tables(self) -> Iterator[tuple[tuple[str, ...], Table]]:
        """The headings over each table, and the table."""
        for section in self.sections:
            above: tuple[str, ...] = (section.title,)
            for block in section.blocks:
                if isinstance(block, Heading):
                    above = (*above[: block.level - 2], block.text)
                elif isinstance(block, Table):
                    yield above, block


def table(
    rows: Sequence[Mapping[str, Md]],
    right: Set[str],
    *,
    columns: Iterable[str] = (),
    caption: str = "",
    bars: Mapping[str, tuple[Sequence[Bar | None], Scale]] = MappingProxyType({}),
    optional: Set[str] = frozenset(),
    cells: Iterable[Sequence[str]] = (),
) -> Table:
    """A table of rows (column → cell), its columns in the order of the first row that has them, those in ``right``
    aligned to the right. A row without a column shows :data:`NOTHING` there.

    Args:
        columns: the first columns, in their order, where it is not that of the rows.
        bars: column → what is drawn beneath its text.
    """
    columns = tuple(dict.fromkeys([*columns, *(name for row in rows for name in row)]))
    return Table(
        columns,
        tuple(name in right for name in columns),
        tuple(tuple(row.get(name, NOTHING) for name in columns) for row in rows),
        {number: bars[name] for number, name in enumerate(columns) if name in bars},
        Md(caption),
        frozenset(optional),
        tuple(map(tuple, cells)),
    )


def filled(rows: Sequence[Mapping[str, Md]]) -> list[dict[str, Md]]:
    """Rows without the columns that hold nothing in any of them."""
    names = {name for row in rows for name, cell in row.items() if cell != NOTHING}
    return [{name: cell for name, cell in row.items() if name in names} for row in rows]
