"""Forest plots and bars of a page in a real browser: marks are where their numbers say, and all can be read."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from playwright.sync_api import Browser

from tests.report.browser import SCHEMES, Opened, faults_of_page, opened
from tests.report.contrast import LEAST_MARK, LEAST_TEXT, contrast, hexadecimal
from tests.test_security import HOSTILE, as_read
from vitbench.report.document import Bar, Document, Figure, Forest, ForestRow, Heading, Scale, Section, table
from vitbench.report.figures.charts import SPOT, Colouring, Front, drawn
from vitbench.report.formats import html
from vitbench.report.formats.bars import MOST_POINTS
from vitbench.report.text import Md, escape

pytestmark = pytest.mark.xdist_group("browser")

NAN = math.nan
VERDICTS = ("better", "worse", "equivalent", "underpowered (both at chance)")
BARS = (Bar(2.5, 1.0, 4.0, (2.0, 3.0)), Bar(-3.0, -6.5, 0.5, (-2.9,)), Bar(0.1, NAN, NAN), Bar(NAN, NAN, NAN))
RATIOS = (Bar(2.0, 1.5, 2.6), Bar(0.5, 0.25, 1.0), Bar(1.0, 0.98, 1.02), Bar(8.0, NAN, NAN))
POINTS, TIMES = Scale(0.0, (-1.0, 1.0)), Scale(1.0, (0.9, 1.1), logarithmic=True)


def plot(bars: tuple[Bar, ...], scale: Scale, name: str = "a long name of a value of an axis") -> Forest:
    rows = [
        ForestRow(f"{name} {n}", f"axis, against {name}", bar, (f"{bar.value:+.2f}", f"{bar.low} to {bar.high}"),
                  VERDICTS[n % 4], f"p = 0.0{n}; {name}")
        for n, bar in enumerate(bars)
    ]  # fmt: skip
    return Forest(f"Difference in points, {name}", tuple(rows), scale, "grey: the margin", {"CSV": "figures/x.csv"})


def numbers() -> Section:
    bars = BARS[:3]
    rows = [{"cell": Md(f"cell {n}"), "value": Md(f"{bar.value:.1f}"), "steps": Md("7")} for n, bar in enumerate(bars)]
    return Section("Numbers", [table(rows, {"value", "steps"}, bars={"value": (bars, Scale())}, optional={"steps"})])


@contextmanager
def page_with(
    browser: Browser, folder: Path, *sections: Section, width: int = 1280, folded: bool = False
) -> Iterator[Opened]:
    file = folder / "index.html"
    file.write_text(html.page(Document("Plots", [], sections)), encoding="utf-8")
    with opened(browser, file, width=width, folded=folded) as page:
        yield page


PLACES = """() => [...document.querySelectorAll('.forest')].map(forest => {
    const middle = e => { const box = e.getBoundingClientRect(); return (box.left + box.right) / 2; };
    const ends = e => { const from = e.ownerSVGElement.getBoundingClientRect().left;
                        return [e.x1, e.x2].map(x => from + x.baseVal.value); };
    return {
        ticks: [...forest.querySelectorAll('thead text')].map(t => [t.textContent, middle(t)]),
        rows: [...forest.tBodies[0].rows].map(row => ({
            mark: [...row.querySelectorAll('.mark')].map(middle), seeds: [...row.querySelectorAll('.seed')].map(middle),
            span: [...row.querySelectorAll('.span')].map(ends), zero: [...row.querySelectorAll('.zero')].map(middle),
            band: [...row.querySelectorAll('.band')].map(b => { const r = b.getBoundingClientRect();
                                                                return [r.left, r.right]; }),
        })),
    };
})"""
"""Of each forest plot the numbers along its axis and what is drawn in its rows, in pixels from the left."""


def placed(ticks: list[tuple[float, float]], scale: Scale) -> Callable[[float], Any]:
    """A value's place in pixels, by the first and the last number along the axis."""
    along = math.log if scale.logarithmic else float
    (first, left), (last, right) = ticks[0], ticks[-1]
    wide = (right - left) / (along(last) - along(first))
    return lambda value: pytest.approx(left + wide * (along(value) - along(first)), abs=1.5)


@pytest.mark.parametrize("width", [390, 1280])
def test_marks_are_where_their_numbers_are_on_the_axis(browser: Browser, tmp_path: Path, width: int) -> None:
    plots = [(BARS, POINTS), (RATIOS, TIMES)]
    with page_with(browser, tmp_path, Section("Plots", [plot(*each) for each in plots]), width=width) as page:
        forests = page.value(PLACES)
    for (bars, scale), forest in zip(plots, forests, strict=True):
        ticks = [(float(text.replace("\N{MINUS SIGN}", "-")), x) for text, x in forest["ticks"]]
        assert len(ticks) > 1 and ticks == sorted(ticks)
        place = placed(ticks, scale)
        assert [x for _, x in ticks] == [place(value) for value, _ in ticks]
        for bar, row in zip(bars, forest["rows"], strict=True):
            assert row["mark"] == ([place(bar.value)] if math.isfinite(bar.value) else [])
            assert row["span"] == ([[place(bar.low), place(bar.high)]] if math.isfinite(bar.low) else [])
            assert row["seeds"] == ([place(point) for point in bar.points] if len(bar.points) > 1 else [])
            assert row["zero"] == [place(scale.neutral)] and row["band"] == [[*map(place, scale.margin)]]


def test_many_values_are_drawn_as_their_interval_alone(browser: Browser, tmp_path: Path) -> None:
    many = [Bar(0.0, -1.0, 1.0, tuple(n / 100 for n in range(count))) for count in (MOST_POINTS, MOST_POINTS + 1)]
    with page_with(browser, tmp_path, Section("Plots", [plot(tuple(many), POINTS)])) as page:
        (drawn,) = page.value(PLACES)
    assert [len(row["seeds"]) for row in drawn["rows"]] == [MOST_POINTS, 0]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", [390, 1280])
def test_everybody_can_read_it_and_it_fits_the_window(
    browser: Browser, tmp_path: Path, width: int, scheme: str
) -> None:
    plots = [plot(BARS, POINTS), plot(RATIOS, TIMES, "x" * 90)]
    with page_with(
        browser, tmp_path, Section("Plots", plots), Section("Folded", [plot(BARS, POINTS)], folded=True), numbers()
    ):
        pass
    file = tmp_path / "index.html"
    assert faults_of_page(browser, file, width=width, scheme=scheme) == []
    with opened(browser, file, width=width, scheme=scheme) as page:
        ground = hexadecimal(page.value("getComputedStyle(document.body).backgroundColor"))
        words = page.value("[...document.querySelectorAll('.verdict')].map(e => getComputedStyle(e).color)")
        marks = page.value("[...document.querySelectorAll('.bar .mark')].map(e => getComputedStyle(e).fill)")
        assert min(contrast(hexadecimal(colour), ground) for colour in words) >= LEAST_TEXT
        assert min(contrast(hexadecimal(colour), ground) for colour in marks) >= LEAST_MARK
        assert len(set(words[:4])) == 4, "each kind of verdict has a colour"
        seen = page.value("[...document.querySelectorAll('.forest .verdict')].map(e => [e.textContent, "
                          "e.scrollWidth <= e.clientWidth, e.getBoundingClientRect().right])")  # fmt: skip
        assert all(whole and right <= width for _, whole, right in seen)
        assert [text for text, *_ in seen[:4]] == list(VERDICTS)


def test_what_is_folded_opens_where_a_link_leads_into_it(browser: Browser, tmp_path: Path) -> None:
    folded = [
        Section(title, [Md("word " * 900), Heading(f"Within {title}"), plot(BARS, POINTS)], True) for title in "AB"
    ]
    state = "[...document.querySelectorAll('details')].map(box => box.open)"
    with page_with(browser, tmp_path, *folded, folded=True) as page:
        assert page.value(state) == [False, False]
        page.page.click("nav a[href='#b']")
        page.page.wait_for_function("document.querySelectorAll('details')[1].open")
        assert page.value(state) == [False, True] and page.page.locator("#b").is_visible()
        page.page.goto(f"{(tmp_path / 'index.html').as_uri()}#within-a")
        page.page.wait_for_function("document.querySelectorAll('details')[0].open")
        top = page.value("document.getElementById('within-a').getBoundingClientRect().top")
        assert 0 <= top < 900, "and is where the reader looks"


def test_columns_that_few_need_can_be_shown_and_hidden_again(browser: Browser, tmp_path: Path) -> None:
    with page_with(browser, tmp_path, numbers()) as page:
        head, button = page.page.locator("th.optional"), page.page.locator(".more")
        assert head.text_content() == "steps" and not head.is_visible()
        assert (button.text_content(), button.get_attribute("aria-expanded")) == ("Show 1 more column", "false")
        button.focus()
        page.page.keyboard.press("Enter")
        assert head.is_visible() and button.get_attribute("aria-expanded") == "true"
        assert page.page.locator("td.optional").count() == 3
        button.click()
        assert not head.is_visible()
        assert page.page.locator("td .bar .mark").count() == 3, "bars stand beneath their numbers"


def test_a_row_tells_its_details_under_the_pointer(browser: Browser, tmp_path: Path) -> None:
    with page_with(browser, tmp_path, Section("Plots", [plot(BARS, POINTS)]), width=390) as page:
        tip = page.page.locator("#tip")
        assert not tip.is_visible()
        page.page.hover(".forest tbody tr:nth-child(2)")
        assert tip.is_visible() and tip.text_content() == "p = 0.01; a long name of a value of an axis"
        box = tip.bounding_box()
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 390
        page.page.hover("h1")
        assert not tip.is_visible()


def test_hostile_names_are_text(browser: Browser, tmp_path: Path) -> None:
    rows = [ForestRow(text, text, Bar(1.0, 0.0, 2.0), ("+1.0", ""), "better", text) for text in HOSTILE]
    block = Forest(HOSTILE[0], tuple(rows), POINTS, HOSTILE[1])
    with page_with(browser, tmp_path, Section("Plots", [block])) as page:
        names = page.value("[...document.querySelectorAll('.forest tbody th')].map(e => [e.firstChild.data.trim(), "
                           "e.querySelector('small').textContent])")  # fmt: skip
        tips = page.value("[...document.querySelectorAll('.forest tbody tr')].map(e => e.dataset.tip)")
        assert names == [[as_read(text)] * 2 for text in HOSTILE] and tips == [as_read(text) for text in HOSTILE]
        assert page.page.locator(".forest caption").text_content().startswith(f"{HOSTILE[0]} {HOSTILE[1]}")
        for number, text in enumerate(HOSTILE, 1):
            page.page.hover(f".forest tbody tr:nth-child({number})")
            assert page.page.locator("#tip").text_content() == as_read(text)
        assert page.value("document.scripts.length") == 1 and not page.messages
        assert page.value("document.querySelectorAll('img, iframe, object, form, [onerror]').length") == 0


def test_a_click_on_a_row_marks_its_cells_in_tables_and_figures_and_the_link_leads_there(
    browser: Browser, tmp_path: Path
) -> None:
    names = [HOSTILE[0], "b & c", "third"]
    spots = [(name, "", 100.0 + n, 90.0, 120.0, False, 50.0 + n, 1.0, not n, "") for n, name in enumerate(names)]
    chart = Front("cost", "gain", False, pd.DataFrame(spots, columns=SPOT), Colouring(), logarithmic=False)
    picture = Figure("a.png", "cells", Md(""), {"CSV": "a.csv"}, lambda: drawn(chart).svg)
    rows = table([{"cell": escape(name)} for name in names], set(), cells=[[name] for name in names])
    both = table([{"function": Md("f")}], set(), cells=[names[:2]])
    document = Document("Cells", [], [Section("One", [rows, both, picture])])
    file = tmp_path / "index.html"
    file.write_text(html.page(document), encoding="utf-8")
    marked = "[...document.querySelectorAll('[data-cell]')].map(e => e.classList.contains('marked'))"
    with opened(browser, file) as page:
        assert page.value("document.querySelectorAll('[data-cell]').length") == 3
        page.page.click("tr[data-cells] >> nth=1")
        assert page.value(marked) == [False, True, False]
        assert page.value("[...document.querySelectorAll('tr.marked')].map(e => e.rowIndex)") == [2, 1]
        link = page.value("location.href")
        page.page.click("tr[data-cells] >> nth=3")
        assert page.value(marked) == [True, True, False], "a function has several cells"
        page.page.click("tr[data-cells] >> nth=3")
        assert page.value(marked) == [False, False, False] and "#cell" not in page.value("location.href")
        page.page.goto("about:blank")
        page.page.goto(link)
        assert page.value(marked) == [False, True, False] and not page.messages
        page.page.hover("[data-cell] >> nth=2")
        assert str(page.page.locator("#tip").text_content()).startswith("third: 52.0 %")
