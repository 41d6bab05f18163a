"""The page of a report in a real browser: silent, self-contained, sortable, readable by all, on any screen."""

import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page

from tests.conftest import REPOSITORY
from tests.report.browser import SCHEMES, WINDOWS, Opened, faults_of_page, opened
from tests.report.builders import build, factorial, render
from tests.report.contrast import LEAST_MARK, LEAST_TEXT, contrast, hexadecimal, over
from tests.test_security import HOSTILE, as_read, hostile_study
from tools.archetypes import STUDIES
from vitbench.report.figures import colours
from vitbench.report.output import PAGE
from vitbench.store import StudyFolder

pytestmark = pytest.mark.xdist_group("browser")

SHIPPED = sorted(p.parent.name for p in (REPOSITORY / "results" / "reference").glob("*/study.json"))
GRID = {"attention": ("per_head", "batched", "sdpa", "triton"), "positions": ("learned", "sinusoidal", "none")}


MADE = ("no-validation", "nothing-ok-failed", "nothing-planned", "all-states", "two-machines")
COMMANDS = (("run", "ablations/components.toml", "--small", "--set", "train.seeds=3", "--results", "results/mine"),)
KINDS: Mapping[str, Callable[[Path], StudyFolder]] = {
    "grid": lambda folder: build(folder, factorial(GRID, seeds=(0, 1, 2), commands=COMMANDS)),
    "hostile": hostile_study,
    **{name: STUDIES[name] for name in MADE},
}


class Pages(dict[str, Path]):
    """Name → page of a report: the shipped ones, and one of each kind of study, rendered when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__({name: REPOSITORY / "reports" / "reference" / name / PAGE for name in SHIPPED})
        self.folder = folder

    def __missing__(self, name: str) -> Path:
        page = render(KINDS[name](self.folder / "studies" / name), self.folder / "reports" / name)
        return self.setdefault(name, page)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    return Pages(tmp_path_factory.mktemp("pages"))


OFTEN = ("grid", "hostile")
SELDOM = [*(kind for kind in KINDS if kind not in OFTEN), *SHIPPED]
NAMES = [*OFTEN, *(pytest.param(name, marks=pytest.mark.slow) for name in SELDOM)]


@pytest.mark.parametrize(("width", "scheme"), WINDOWS)
@pytest.mark.parametrize("name", NAMES)
def test_it_opens_without_a_word_or_a_request_and_everybody_can_read_it(
    browser: Browser, pages: Pages, name: str, width: int, scheme: str
) -> None:
    assert faults_of_page(browser, pages[name], width=width, scheme=scheme) == []


@pytest.fixture
def grid(browser: Browser, pages: Pages) -> Iterator[Page]:
    with opened(browser, pages["grid"]) as window:
        yield window.page


BOX = "#speed-and-memory ~ .table"
TABLE, LATENCY = f"{BOX} table", "latency p50 (ms)"
FIRST = 1  # Of the columns that name a row the first: before them stands one that joins them, for narrow windows


def column(page: Page, number: int, table: str = TABLE) -> list[str]:
    """The cells of a column that are seen, from the top."""
    cells: list[str] = page.evaluate(
        "([table, n]) => [...document.querySelector(table).tBodies[0].rows].filter(r => !r.hidden)"
        ".map(r => r.cells[n].textContent)", [table, number],
    )  # fmt: skip
    return cells


def heads(page: Page) -> list[str]:
    names: list[str] = page.evaluate(
        "t => [...document.querySelector(t).tHead.rows[0].cells].map(c => c.textContent)", TABLE
    )
    return names


def sorter(page: Page, number: int) -> Locator:
    """The button that sorts a column."""
    return page.locator(TABLE).first.locator("th button").nth(number)


def numbers(cells: list[str]) -> list[float]:
    return [float(cell.split()[0]) for cell in cells if cell[0].isdigit()]


def test_a_click_sorts_a_column_up_then_down_then_as_it_was(grid: Page) -> None:
    place = heads(grid).index(LATENCY)
    before = column(grid, place)
    button = sorter(grid, place)
    button.click()
    up = column(grid, place)
    assert numbers(up) == sorted(numbers(before)) and len(up) == len(before)
    assert grid.locator(TABLE).first.locator("th").nth(place).get_attribute("aria-sort") == "ascending"
    button.click()
    assert numbers(column(grid, place)) == sorted(numbers(before), reverse=True)
    button.click()
    assert column(grid, place) == before
    assert grid.locator(f"{TABLE} th[aria-sort]").count() == 0


def test_words_are_sorted_as_words_and_states_come_after_numbers(browser: Browser, pages: Pages) -> None:
    with opened(browser, pages["all-states"]) as window:
        page = window.page
        place = heads(page).index(LATENCY)
        for _ in range(2):
            sorter(page, place).click()
            cells = column(page, place)
            assert [bool(re.match(r"\d+\.\d", cell)) for cell in cells] == [True, *[False] * (len(cells) - 1)]
        sorter(page, 0).click()
        assert column(page, 0) == sorted(column(page, 0))


def test_the_keyboard_sorts_and_filters(grid: Page) -> None:
    words = [*dict.fromkeys(column(grid, FIRST))]
    sorter(grid, FIRST).focus()
    grid.keyboard.press("Enter")
    assert column(grid, FIRST) == sorted(column(grid, FIRST))
    grid.keyboard.press("Tab")
    assert grid.evaluate("document.activeElement.textContent") == heads(grid)[FIRST + 1]
    grid.locator(f"{BOX} input").first.focus()
    grid.keyboard.type(f"{words[1]} none")
    assert column(grid, FIRST) == [words[1]]
    assert grid.locator(f"{BOX} output").first.text_content() == "1 of 12 rows"
    grid.keyboard.press("Control+A")
    grid.keyboard.type("27.")
    assert grid.locator(f"{BOX} output").first.text_content() != "12 of 12 rows"
    grid.keyboard.press("Control+A")
    grid.keyboard.press("Delete")
    assert len(column(grid, 0)) == 12


def test_hostile_names_are_text(browser: Browser, pages: Pages) -> None:
    with opened(browser, pages["hostile"]) as window:
        assert sorted(column(window.page, 0, "#summary ~ .table table")) == sorted(map(as_read, HOSTILE))
        rows = window.value("[...document.querySelectorAll('.forest tbody th')].map(th => th.firstChild.data.trim())")
        assert rows and set(rows) <= {*map(as_read, HOSTILE)}
        assert window.value("document.scripts.length") == 1
        assert window.value("[...document.querySelectorAll('iframe, object, embed, form, style ~ style')].length") == 0
        links = window.value("[...document.querySelectorAll('a')].map(a => a.getAttribute('href'))")
        assert all(link.startswith(("#", "tables/", "figures/")) for link in links)
        texts = window.value("[...document.querySelectorAll('svg text')].map(t => t.textContent)")
        assert HOSTILE[0] in texts, "in a legend"
        ids = window.value("[...document.querySelectorAll('[id]')].map(e => e.id)")
        assert len(ids) == len(set(ids))


SMALLEST_LETTERS = 9.0  # Pixels, of a picture's smallest letters


@pytest.mark.parametrize("name", ["grid", *(pytest.param(name, marks=pytest.mark.slow) for name in SHIPPED)])
def test_on_a_phone_the_letters_of_pictures_are_read_and_a_wide_one_rolls_in_its_frame(
    browser: Browser, pages: Pages, name: str
) -> None:
    with opened(browser, pages[name], width=390) as window:
        sizes = window.value(
            """() => [...document.querySelectorAll('figure svg text')].map(text => [text, text.getScreenCTM()])
                .map(([text, m]) => parseFloat(getComputedStyle(text).fontSize) * Math.hypot(m.a, m.b))"""
        )
        assert min(sizes, default=99) >= SMALLEST_LETTERS and sizes
        assert window.value("document.documentElement.scrollWidth") <= 390
        assert window.value(BROKEN) == []


def test_what_is_rolled_has_a_name_a_shadow_and_keeps_its_first_column(browser: Browser, pages: Pages) -> None:
    with opened(browser, pages["grid"], width=390) as window:
        boxes = window.value(
            "[...document.querySelectorAll('.scroll')].map(b => [b.tabIndex, b.getAttribute('aria-label'),"
            " b.scrollWidth > b.clientWidth, getComputedStyle(b).backgroundImage.split('linear-gradient').length - 1])"
        )
        assert all(shadows == 4 for *_, shadows in boxes)
        assert {(place == 0) == is_rolled for place, _, is_rolled, _ in boxes} == {True}, "the rest is no place to stop"
        assert any(is_rolled for _, _, is_rolled, _ in boxes)
        names = [name for _, name, *_ in boxes]
        assert all(re.match(r"(Table|Picture|Code): .{5}", name) for name in names)
        assert len(set(names)) == len(names), "each says what it is"
        first, second, after, moved = window.value(
            """() => {
                const box = [...document.querySelectorAll('.table .scroll')].find(
                    b => b.scrollWidth > b.clientWidth + 60);
                const left = () => [0, 3].map(n => box.querySelector('tbody tr').cells[n].getBoundingClientRect().left);
                const before = left();
                box.scrollLeft = 50;
                return [...before, ...left()];
            }"""
        )
        assert after == first and moved == second - 50


def test_on_a_phone_a_row_says_which_cell_it_is_and_how_good(browser: Browser, pages: Pages) -> None:
    with opened(browser, pages["grid"], width=390) as window:
        script = "t => [...document.querySelector(t).tBodies[0].rows].map(r => r.cells[0].innerText)"
        names = window.value(script, TABLE)
        assert len(set(names)) == 12 and all(re.fullmatch(r"\w+\s· \w+", name) for name in names)
        ends = window.value(
            "t => [0, 3].map(n => document.querySelector(`${t} tbody tr`).cells[n].getBoundingClientRect().right)",
            TABLE,
        )
        assert heads(window.page)[3] == LATENCY and 0 < ends[0] < ends[1] <= 390
        assert heads(window.page)[0] == "attention\u00a0· positions"
        assert [sorter(window.page, n).is_visible() for n in range(4)] == [True, False, False, True]
    with opened(browser, pages["grid"], width=1280) as window:
        assert [sorter(window.page, n).is_visible() for n in range(4)] == [False, True, True, True], "each axis sorts"


def test_who_has_a_table_read_out_hears_whose_numbers_these_are(grid: Page) -> None:
    headers = grid.evaluate(
        "[...document.querySelectorAll('tbody tr')].map(r => [...r.cells].filter(c => c.scope === 'row').length)"
    )
    assert headers and min(headers) >= 1
    assert grid.evaluate("[...document.querySelectorAll('thead th')].every(h => h.scope === 'col')")


def test_one_row_has_nothing_to_sort_and_few_need_no_filter(browser: Browser, pages: Pages) -> None:
    rows = []
    for name in ("grid", "no-validation"):
        with opened(browser, pages[name]) as window:
            rows += window.value(
                "[...document.querySelectorAll('.table')].map(b => [b.querySelectorAll('tbody tr').length,"
                " b.querySelectorAll('th button').length > 0, b.querySelector('input') !== null])"
            )
    assert {(count > 1, count > 11) for count, *_ in rows} >= {(False, False), (True, False), (True, True)}
    assert all((sorts, filters) == (count > 1, count > 11) for count, sorts, filters in rows)


def test_tables_may_be_as_wide_as_the_window_and_text_is_not(browser: Browser, pages: Pages) -> None:
    with opened(browser, pages["grid"], width=1920) as window:
        text, table = window.value(
            "['figure', '.table'].map(s => document.querySelector(s).getBoundingClientRect().right)"
        )
        assert text < 1700 and 1850 < table <= 1920


def test_a_command_is_not_broken_within_an_option(browser: Browser, pages: Pages) -> None:
    with opened(browser, pages["grid"], width=390) as window:
        commands = window.value(
            """() => [...document.querySelectorAll('pre code')].map(code => {
                const range = document.createRange();
                range.setStart(code.firstChild, 0);
                range.setEnd(code.firstChild, code.textContent.trimEnd().length);
                return [code.textContent, new Set([...range.getClientRects()].map(box => box.top)).size];
            })"""
        )
        assert commands and all("--" in text and lines == len(text.strip().splitlines()) for text, lines in commands)


def test_a_number_and_its_unit_stay_on_one_line(grid: Page) -> None:
    text = grid.evaluate("document.querySelector('main').textContent")
    assert "95\u00a0%" in text and "(×\u00a0baseline)" in text
    assert not re.findall(r"\d %|\d ± |\(× ", text)


SEEN = """() => [...document.querySelectorAll('figure svg:not(.pixels)')].flatMap(svg =>
    [...svg.querySelectorAll('path, use, text')].filter(e => !e.closest('defs, clipPath')).map(e => {
        const style = getComputedStyle(e), paint = kind => [style[kind], style[`${kind}Opacity`] * style.opacity];
        return [e.tagName, e.textContent, paint('fill'), paint('stroke')];
    }))"""
"""What is drawn: kind, text, and of fill and stroke the colour that the browser shows and its opacity."""


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", ["grid", *(pytest.param(name, marks=pytest.mark.slow) for name in SHIPPED)])
def test_letters_and_marks_of_pictures_stand_out(browser: Browser, pages: Pages, name: str, scheme: str) -> None:
    """Colours are the browser's, on the page's ground. Lines that guide the eye, and the paper, need not stand out."""
    guides = {colour if scheme == "light" else colours.DARK[colour] for colour in (colours.RULE, colours.PAPER)}
    with opened(browser, pages[name], scheme=scheme) as window:
        ground = hexadecimal(window.value("getComputedStyle(document.body).backgroundColor"))
        assert ground == {"light": colours.PAPER, "dark": colours.NIGHT}[scheme], "the colours are made for this ground"
        drawn = window.value(SEEN)
    assert drawn
    bad, letters = set[str](), 0
    for tag, text, *paints in drawn:
        seen = [
            contrast(over(hexadecimal(colour), float(opacity), ground), ground)
            for colour, opacity in paints
            if colour != "none" and hexadecimal(colour) not in guides
        ]
        least = LEAST_TEXT if tag == "text" else LEAST_MARK
        letters += tag == "text"
        if seen and max(seen) < least:
            bad.add(f"{tag} {text} {paints}: {max(seen):.2f}")
    assert letters and not bad, "\n".join(sorted(bad))


BROKEN = """() => [...document.querySelectorAll('th:not(.long), td:not(.long)')].flatMap(cell => {
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), broken = [];
    for (let text; (text = texts.nextNode());) for (const word of text.data.matchAll(/\\w+/g)) {
        const range = document.createRange();
        range.setStart(text, word.index);
        range.setEnd(text, word.index + word[0].length);
        const lines = [...range.getClientRects()].filter(box => box.width > 1).map(box => Math.round(box.top));
        if (new Set(lines).size > 1) broken.push(word[0]);
    }
    return broken;
})"""
"""Words of tables that stand in two lines; those that are too long for one are known to the page."""
A4 = 703  # CSS pixels of a line on A4 paper: 210 mm, less the margins of 12 mm


@pytest.mark.parametrize("name", ["grid", "hostile", *(pytest.param(n, marks=pytest.mark.slow) for n in SHIPPED)])
def test_on_paper_nothing_is_cut_off(browser: Browser, pages: Pages, name: str) -> None:
    with opened(browser, pages[name], width=A4) as window:
        window.page.emulate_media(media="print")
        wide = window.value(
            "w => [...document.querySelectorAll('table, figure svg, pre')].filter(e => e.scrollWidth > w + 1 ||"
            " e.getBoundingClientRect().right > w + 1).map(e => `${e.tagName} ${e.textContent.slice(0, 60)}`)",
            A4,
        )
        assert wide == [] and window.value(BROKEN) == []
        assert window.value("document.documentElement.scrollWidth") <= A4
        letters = window.value(
            """() => {
                const scale = text => Math.hypot(text.getScreenCTM().a, text.getScreenCTM().b);
                return [...document.querySelectorAll('td, figure svg text')].map(t =>
                    parseFloat(getComputedStyle(t).fontSize) * (t.getScreenCTM ? scale(t) : 1));
            }"""
        )
        assert min(letters) >= 6.9, "five points"


def test_what_is_folded_is_on_paper(browser: Browser, pages: Pages) -> None:
    with opened(browser, pages["grid"], folded=True) as window:
        assert window.value("document.querySelectorAll('details:not([open])').length") > 5
        window.page.pdf()
        assert window.value("document.querySelectorAll('details:not([open])').length") == 0


def texts(window: Opened) -> int:
    """Texts that a page has on paper."""
    streams = re.findall(rb"stream\r?\n(.*?)endstream", window.page.pdf(format="A4"), re.DOTALL)
    drawn = [zlib.decompress(each) for each in streams if each.startswith(b"x")]  # of zlib; others are fonts
    return sum(len(re.findall(rb"\bT[jJ]\b", each)) for each in drawn)


def test_on_paper_a_table_s_heads_stand_on_each_of_its_pages(browser: Browser, pages: Pages) -> None:
    with opened(browser, pages["grid"]) as window:
        with_buttons = texts(window)
        window.value("document.querySelectorAll('th button').forEach(b => b.replaceWith(b.textContent))")
        assert with_buttons == texts(window)


def test_on_paper_the_whole_table_is_there(grid: Page) -> None:
    grid.locator(f"{BOX} input").first.fill("nothing has this name")
    assert not column(grid, 0)
    grid.emulate_media(media="print")
    assert not grid.locator("nav").is_visible() and not grid.locator(".filter").first.is_visible()
    assert grid.locator(f"{TABLE} tbody tr").first.is_visible(), "a filter is for the screen"
