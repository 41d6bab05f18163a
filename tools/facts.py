"""Facts: every number, verdict and caveat that reports hold today, written to one file, and two such files compared.

    python -m tools.facts write FACTS.json.gz
    python -m tools.facts compare OLD.json.gz NEW.json.gz --meant tools/facts.meant

Facts are the cells of each CSV file and of the tables that no CSV file holds, and the names of the caveats, for the
reference studies, for the archetypes in :mod:`tools.archetypes` and for comparisons of studies. Sentences and pictures
are not facts. Whoever changes the report writes the facts anew, compares them with ``tools/facts.json.gz``, and lists
in ``tools/facts.meant`` what is meant.
"""

import gzip
import json
import math
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import click
import numpy as np
import pandas as pd

from tests.report.builders import blank, written
from tests.report.markdown import read_page
from tools.archetypes import COMPARISONS, STUDIES
from vitbench.analysis.side_by_side import side_by_side
from vitbench.report.comparisons import limits
from vitbench.report.comparisons.comparison import render_comparison
from vitbench.report.sections.caveats import stated
from vitbench.report.view import View
from vitbench.store import StudyFolder

REFERENCE = Path(__file__).parents[1] / "results" / "reference"
BESIDE_ITSELF = "components-cpu"
"""The reference study that is compared with itself: no two of them share a cell or a timing."""
CLOSE = 1e-9  # Relative difference up to which two numbers are one: a sum may be made in another order
ROWS = "(rows)"  # Stands for a column in the path of rows that are gone or new
ONLY_SHOWN = ("margin ", "gained", "on the front", "condition", "rule", "states in order")
"""How a column begins by which a table of the page is known that no CSV file holds, such as verdicts by margin."""
NAMED = 3  # Places that one line of a comparison names
Column = list[float | str | None]


class Report(TypedDict):
    """The facts of one report: path of each table without its ending → column → values; names of the caveats."""

    tables: dict[str, dict[str, Column]]
    caveats: list[str]


Facts = Mapping[str, Report]


class Mismatch(NamedTuple):
    """A difference between a report and its former self: the kind, where, how many of it, and one of them in words."""

    kind: str
    study: str
    table: str = ""
    column: str = ""
    number: int = 1
    example: str = ""

    @property
    def path(self) -> str:
        """Text that a pattern of ``--meant`` matches."""
        return "/".join(filter(None, (self.study, self.table, self.column)))

    @property
    def subject(self) -> str:
        """Name that differences of one kind in several reports have in common."""
        return self.table if self.column == ROWS else self.column or self.table or self.study


def collect() -> Facts:
    """Render the reference studies, the archetypes and the comparisons, and read what they hold."""
    facts = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        studies = {path.parent.name: StudyFolder.read(path.parent) for path in sorted(REFERENCE.glob("*/study.json"))}
        studies |= {f"made-{kind}": make(folder / kind / "study") for kind, make in STUDIES.items()}
        for kind, study in studies.items():
            named = [name for name, _ in stated(View(study))]
            facts[kind] = read(written(study, folder / "reports" / kind).parent, named)
        compared = {BESIDE_ITSELF: side_by_side([REFERENCE / BESIDE_ITSELF] * 2)}
        compared |= {kind: make(folder / kind) for kind, make in COMPARISONS.items()}
        for kind, comparison in compared.items():
            page = render_comparison(comparison, folder / "reports" / "compared" / kind, blank)
            facts[f"compared-{kind}"] = read(page.parent, [name for name, _ in limits.stated(comparison)])
    return facts


def read(folder: Path, named: Sequence[str]) -> Report:
    """The facts of a report that has been rendered into a folder, with the names of its caveats."""
    tables = {path.relative_to(folder).with_suffix("").as_posix(): columns_of(path)
              for path in sorted(folder.glob("*/*.csv"))}  # fmt: skip
    tables |= shown_alone(folder)
    return {"tables": tables, "caveats": [*named]}


def shown_alone(folder: Path) -> dict[str, dict[str, Column]]:
    """The tables of a page that no CSV file holds, by the heading above and their number below it; values as shown."""
    tables: dict[str, dict[str, Column]] = {}
    for above, rows in read_page(folder).tables:
        if rows and any(column.startswith(ONLY_SHOWN) for column in rows[0]):
            number = sum(name.startswith(f"page/{above[-1]} ") for name in tables)
            tables[f"page/{above[-1]} {number + 1}"] = {name: [row[name] for row in rows] for name in rows[0]}
    return tables


def columns_of(path: Path) -> dict[str, Column]:
    """The columns of a CSV file: of numbers where each value is one, else of text; what is empty is None."""
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    return {str(name): values_of(frame[name].tolist()) for name in frame.columns}


def values_of(texts: Sequence[str]) -> Column:
    """Some cells as numbers where each is one; else as they are."""
    try:
        numbers = [float(text) if text else None for text in texts]
    except ValueError:
        numbers = [math.nan]
    finite = all(number is None or math.isfinite(number) for number in numbers)
    return [*numbers] if finite else [text or None for text in texts]


def differences(old: Facts, new: Facts) -> Iterator[Mismatch]:
    """Every difference between two sets of facts."""
    for gone, study in apart(old, new):
        yield Mismatch(f"study {gone}", study)
    for study in [name for name in old if name in new]:
        tables = old[study]["tables"], new[study]["tables"]
        for gone, table in apart(*tables):
            yield Mismatch(f"table {gone}", study, table)
        for table in [name for name in tables[0] if name in tables[1]]:
            yield from table_differences(study, table, tables[0][table], tables[1][table])
        caveats = Counter(old[study]["caveats"]), Counter(new[study]["caveats"])
        for kind, more in (("gone", caveats[0] - caveats[1]), ("new", caveats[1] - caveats[0])):
            yield from (Mismatch(f"caveat {kind}", study, "caveats", name, n) for name, n in more.items())


def apart(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Names that one of two mappings alone has, each with the word for it."""
    yield from (("gone", name) for name in old if name not in new)
    yield from (("new", name) for name in new if name not in old)


def table_differences(
    study: str, table: str, old: Mapping[str, Column], new: Mapping[str, Column]
) -> Iterator[Mismatch]:
    """Differences between two versions of a table: columns, then rows, then cells."""
    if old == new:
        return
    yield from (Mismatch(f"column {kind}", study, table, name) for kind, name in apart(old, new))
    shared = [name for name in old if name in new]
    frames = [pd.DataFrame(each, dtype=object)[shared] for each in (old, new)]
    keys = key_columns(*frames)
    before, after = (indexed(frame, keys) for frame in frames)
    for kind, rows in (("gone", before.index.difference(after.index)), ("new", after.index.difference(before.index))):
        if len(rows):
            yield Mismatch(f"rows {kind}", study, table, ROWS, len(rows), row_in_words(keys, rows[0]))
    rows = before.index[before.index.isin(after.index)]
    before, after = before.loc[rows], after.loc[rows]
    for name in shared:
        unlike = rows[~same(before[name], after[name]).to_numpy(bool)]
        if len(unlike):
            first = unlike[0]
            values = f"{before.at[first, name]!s} → {after.at[first, name]!s}"
            yield Mismatch("cells differ", study, table, name, len(unlike), f"{row_in_words(keys, first)}: {values}")


def key_columns(*frames: pd.DataFrame) -> list[str]:
    """Columns that tell the rows of each of some tables apart: as few as will do, text before whole numbers.

    Where these do not tell all rows apart, the order of the others counts, see :func:`indexed`.
    """
    names = [str(name) for name in frames[0].columns]
    text = [name for name in names if all(is_text(frame[name]) for frame in frames)]
    whole = [name for name in names if name not in text and all(is_whole(frame[name]) for frame in frames)]
    chosen: list[str] = []
    for name in [*text, *whole]:
        if groups(frames, [*chosen, name]) > groups(frames, chosen):
            chosen.append(name)
    for name in list(chosen):
        rest = [other for other in chosen if other != name]
        if groups(frames, rest) == groups(frames, chosen):
            chosen = rest
    return chosen


def is_text(column: "pd.Series[Any]") -> bool:
    """Whether some value of a column is a word. Numbers may stand among words, and words in place of numbers."""
    return bool((column.notna() & as_numbers(column).isna()).any())


def is_whole(column: "pd.Series[Any]") -> bool:
    """Whether a column may be of seeds, epochs or batch sizes, and is of no measurements."""
    numbers = as_numbers(column).dropna()
    words = any(isinstance(value, str) for value in column)
    return not words and bool(((numbers % 1 == 0) & (numbers.abs() < 1e6)).all())


def as_numbers(column: "pd.Series[Any]") -> "pd.Series[float]":
    """The values of a column that are numbers; NaN for the others."""
    return pd.to_numeric(column, errors="coerce").astype("float64")


def groups(frames: Sequence[pd.DataFrame], columns: list[str]) -> int:
    """How many rows of some tables differ from the others of their table in some columns."""
    return sum(frame.groupby(columns, dropna=False).ngroups if columns else 1 for frame in frames)


def indexed(frame: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Rows by their key, and by their number among those of one key."""
    index = frame[keys].astype(str)
    number = 1 + (index.groupby(keys).cumcount() if keys else pd.Series(range(len(frame)), index=frame.index))
    return frame.set_index(pd.MultiIndex.from_frame(index.assign(**{"": number})))


def same(old: "pd.Series[Any]", new: "pd.Series[Any]") -> "pd.Series[bool]":
    """Whether each cell is what it was; a number may be so to nine digits."""
    close = np.isclose(as_numbers(old), as_numbers(new), rtol=CLOSE, atol=0.0)
    return (old == new) | (old.isna() & new.isna()) | close


def row_in_words(keys: list[str], row: object) -> str:
    """A row by its key, and by its number where several have that; pandas gives the number alone where that is all."""
    *values, number = row if isinstance(row, tuple) else (row,)
    words = [f"{name} {value}" for name, value in zip(keys, values, strict=True)]
    return ", ".join([*words, *([f"number {number}"] if number != 1 or not keys else [])])


def meant(text: str) -> list[str]:
    """The patterns in the text of a file, one a line, without comments."""
    return [line for each in text.splitlines() if (line := each.partition("#")[0].strip())]


def fits(pattern: str, path: str) -> bool:
    """Whether a pattern matches a path; ``*`` stands for any text, also for none."""
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), path, flags=re.DOTALL) is not None


def compare(old: Facts, new: Facts, patterns: Sequence[str] = ()) -> list[str]:
    """A line for each kind of difference that is not meant, and for each pattern that matches no difference."""
    mismatches = list(differences(old, new))
    left = [each for each in mismatches if not any(fits(pattern, each.path) for pattern in patterns)]
    grouped: dict[tuple[str, str], list[Mismatch]] = {}
    for each in left:
        grouped.setdefault((each.kind, each.subject), []).append(each)
    lines = [in_words(kind, subject, some) for (kind, subject), some in grouped.items()]
    rotten = [pattern for pattern in patterns if not any(fits(pattern, each.path) for each in mismatches)]
    return [*lines, *(f"meant, but nothing differs there: {pattern}" for pattern in rotten)]


def in_words(kind: str, subject: str, some: Sequence[Mismatch]) -> str:
    """Differences of one kind in a line."""
    paths = list(dict.fromkeys(each.path for each in some))
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    example = f"; {some[0].example}" if some[0].example else ""
    number = sum(each.number for each in some)
    return f"{kind} {subject}: {number}, in {', '.join(paths[:NAMED])}{more}{example}"


def load(path: Path) -> Facts:
    """The facts in a file."""
    content = path.read_bytes()
    facts: Facts = json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
    return facts


def dump(facts: Facts, path: Path) -> None:
    """Write facts to a file: the same bytes for the same facts."""
    content = json.dumps(facts, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    path.write_bytes(gzip.compress(content, 9, mtime=0) if path.suffix == ".gz" else content)


@click.group()
def main() -> None:
    """What reports hold, as one file, and two such files compared."""


@main.command("write")
@click.argument("path", type=click.Path(path_type=Path))
def write_command(path: Path) -> None:
    """Render every study anew and write its facts."""
    dump(collect(), path)


@main.command("compare")
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option("--meant", "file", type=click.Path(path_type=Path), help="What is meant to differ, a pattern a line.")
def compare_command(old: Path, new: Path, file: Path | None) -> None:
    """Show what differs; exit with 1 where something does."""
    lines = compare(load(old), load(new), meant(file.read_text(encoding="utf-8")) if file else ())
    for line in lines:
        click.echo(line)
    sys.exit(1 if lines else 0)


if __name__ == "__main__":
    main()
