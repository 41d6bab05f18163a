"""The parts of a report: escaping, numbers, pictures."""

import math
from typing import Any

import matplotlib as mpl
import pandas as pd
import pytest
from markdown_it import MarkdownIt

from tests.report.markdown import HOSTILE as MARKDOWN
from tests.report.markdown import csv_text, written
from tests.test_security import HOSTILE, as_read
from vitbench.report import text as numbers
from vitbench.report.document import Bar, Code, Forest, ForestRow, Scale, table
from vitbench.report.figures.draw import draw
from vitbench.report.figures.parts import shorten
from vitbench.report.text import Md, escape, listed


@pytest.mark.parametrize(
    "text",
    [*map(as_read, HOSTILE), *MARKDOWN, "per_head", "a__b__c", "_x_", "- item", "---", "===", "1) one", "> quote", ""],
)
def test_escaped_text_reads_as_itself_and_is_nothing_but_text(text: str) -> None:
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    tokens = parser.parse(str(escape(text)))
    assert [t.type for t in tokens] == (["paragraph_open", "inline", "paragraph_close"] if text else [])
    children = [c for t in tokens for c in t.children or []]
    assert {c.type for c in children} <= {"text"}
    assert "".join(c.content for c in children) == text


def test_names_stay_readable_in_the_source_and_no_formula_is_left_for_a_renderer() -> None:
    assert escape("per_head · train.learning_rate 0.001") == "per_head · train.learning_rate 0.001"
    assert escape("a\r\n\tb\x00\x1b[31m\u202ec") == "a b \\[31m c"
    assert "$" not in escape("$x$ $$y$$")


@pytest.mark.parametrize("text", ["plain", "a ``` b", "````\nfence\n````"])
def test_a_fence_holds_what_it_is_given(text: str) -> None:
    (token,) = MarkdownIt("commonmark").parse(written(Code(text)))
    assert (token.type, token.content) == ("fence", f"{text}\n")


def test_tables_keep_numbers_as_they_are_written_and_say_so_where_there_is_none() -> None:
    text = written(table([{"a": Md("1e5"), "b (ms)": Md("007")}, {"a": escape("x|y")}], right={"b (ms)"}))
    assert text.splitlines()[1].endswith("---:|")
    assert [c.strip() for c in text.splitlines()[2].split("|")[1:-1]] == ["1e5", "007"]
    assert text.splitlines()[3].count("n/a") == 1


TEXT = ["a,b", 'say "x"', "two\nlines", "", None, "=1", "-x", "\rb\r", " ", "'", "a;b", "漢字", *HOSTILE]
FLOATS = [0.0, -0.0, math.nan, math.inf, -math.inf, 1e300, 5e-324, 1 / 3, 123456789012.0, 1e7, 100.0, -2.5]
COLUMNS: dict[str, list["pd.Series[Any]"]] = {
    "text": [pd.Series(TEXT), pd.Series(TEXT, dtype=object), pd.Series(TEXT).astype("category")],
    "floats": [pd.Series(FLOATS), pd.Series([0.1, -0.0], dtype="float32"), pd.Series(FLOATS[:3], dtype="Float64")],
    "integers": [pd.Series([1, -2, 2**62]), pd.Series([2**64 - 1, None, 0], dtype="UInt64")],
    "truth": [pd.Series([True, False]), pd.Series([True, None], dtype="boolean"), pd.Series([True, None, False])],
    "mixed": [pd.Series(["-a", -2, 1, True, 1.0, None, 0, False, math.nan, 0.1, "=\n,"], dtype=object)],
    "numbers as objects": [pd.Series([1.5, None, -0.0, 1e7], dtype=object), pd.Series([2**70, 1, None], dtype=object)],
    "nothing": [pd.Series([None, None]), pd.Series([math.nan]), pd.Series([], dtype=object), pd.Series([""] * 3)],
    "others": [pd.Series(pd.to_datetime(["2026-01-01", None])), pd.Series([(1, 2), "x"]), pd.Series([b"-1", None])],
}  # fmt: skip


@pytest.mark.parametrize("kind", COLUMNS)
def test_csv_is_what_pandas_writes_however_many_rows_at_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for column in COLUMNS[kind]:
        beside = pd.concat([column, pd.Series(range(len(column))), column], axis=1, keys=["x", 'a "b", c', "x"])
        whole = csv_text(beside)
        if column.dtype.kind in "biuf":
            assert whole == beside.to_csv(index=False, lineterminator="\n", float_format="%.10g")
        with monkeypatch.context() as patch:
            patch.setattr("vitbench.report.output.PART", 2)
            assert csv_text(beside) == whole


def test_numbers_are_rounded_to_what_is_read() -> None:
    values = [0.01234, 1.234, 12.34, 1234.5, 0, math.nan, math.inf]
    assert [*map(numbers.significant, values)] == ["0.0123", "1.23", "12.3", "1,235", "0.00", "n/a", "n/a"]
    assert [numbers.signed(value, 1) for value in (0.04, -1.26, 2)] == ["0.0", "\N{MINUS SIGN}1.3", "+2.0"]
    assert [numbers.spread(40.123, std, 1) for std in (0.456, math.nan)] == ["40.1 ± 0.5", "40.1"]
    assert [numbers.accuracy_decimals(images) for images in (1000, 10_000)] == [1, 2]
    assert listed([str(i) for i in range(1200)], 2) == "0, 1 and 1,198 more"
    assert shorten("short") == "short" and shorten("x" * 40 + "y" * 40, 11) == "xxxxxx…yyyy"


def test_drawing_uses_nothing_of_the_callers_style_and_changes_nothing() -> None:
    bars = Bar(1.5, 1.0, 2.0, (1.0, 2.0)), Bar(math.nan, math.nan, math.nan)
    names = ("a $x$ b$", "漢字")
    plot = tuple(ForestRow(name, "", bar, ("", ""), "") for name, bar in zip(names, bars, strict=True))
    rows = Forest("accuracy (%)", plot, Scale())
    first = draw(rows)
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "red", "figure.dpi": 20}):
        before = dict(mpl.rcParams)
        assert draw(rows) == first
        assert dict(mpl.rcParams) == before
    assert first.png.startswith(b"\x89PNG") and first.svg.startswith("<svg ") and "a $x$ b$" in first.svg
    assert b"matplotlib" not in first.png.lower() and "matplotlib" not in first.svg.lower()
