"""A real browser for the tests of pages: Chromium of the system, driven by Playwright."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

from tests.conftest import REPOSITORY, not_there

SCHEMES = ("light", "dark")
WINDOWS = ((390, "dark"), (1280, "light"))
"""Width in CSS pixels and scheme: a phone at night, a laptop by day. Each page is opened in both."""

AXE = REPOSITORY / ".venv" / "node_modules" / "axe-core" / "axe.min.js"


@dataclass
class Opened:
    """A page, and what it said and asked for while it was opened."""

    page: Page
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def value(self, script: str, argument: Any = None) -> Any:
        return self.page.evaluate(script, argument)


UNFOLD = """async () => {
    document.querySelectorAll('details').forEach(box => { box.open = true; });
    await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
}"""
ALL_COLUMNS = "document.querySelectorAll('.more[aria-expanded=false]').forEach(button => button.click())"
"""Shows what a reader may unfold, and the columns that he may add."""


@contextmanager
def opened(
    browser: Browser, file: Path, *, width: int = 1280, scheme: str = "light", folded: bool = False
) -> Iterator[Opened]:
    """A file in a window of a width in CSS pixels, for who likes it light or dark; all is unfolded unless wanted."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    window = Opened(context.new_page())
    window.page.on("console", lambda message: window.messages.append(message.text))
    window.page.on("pageerror", lambda error: window.messages.append(str(error)))
    window.page.on("request", lambda request: window.requests.append(request.url))
    window.page.goto(file.as_uri())
    if not folded:
        window.value(UNFOLD)
    try:
        yield window
    finally:
        context.close()


def violations(window: Opened) -> list[str]:
    """Violations that axe-core calls serious or worse."""
    if not AXE.is_file():
        not_there("axe-core is not installed: make browser")
    window.value(AXE.read_text(encoding="utf-8"))
    return [
        f"{each['id']}: {node['html'][:200]}"
        # Alone: to copy what else axe tells, each rule that is kept, takes longer than its run.
        for each in window.value("axe.run().then(result => result.violations)")
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


SILENT_PICTURES = """[...document.querySelectorAll('figure')].filter(f => {
    const p = f.querySelector('svg[role=img], img');
    return !p || !(p.getAttribute('aria-label') || p.getAttribute('alt'));
}).map(f => f.id)"""


TOUCHING = """() => [...document.querySelectorAll('figure svg')].flatMap(svg => {
    const frame = svg.getBoundingClientRect();
    const boxes = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
    const bad = boxes.filter(([_, b]) => b.left < frame.left - 1 || b.right > frame.right + 1
                                         || b.top < frame.top - 1 || b.bottom > frame.bottom + 1);
    const touch = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
                            && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4;
    boxes.forEach(([name, a], i) => boxes.slice(i + 1).forEach(([other, b]) => {
        if (touch(a, b)) bad.push([`${name} / ${other}`, a]);
    }));
    return bad.map(([name]) => name);
})"""
"""Texts of pictures that touch another, or that their picture cuts off."""


def faults_of_page(browser: Browser, file: Path, *, width: int, scheme: str) -> list[str]:
    """Faults of a page in a window: it speaks, asks for something, is wider, or cannot be read by everybody."""
    with opened(browser, file, width=width, scheme=scheme) as window:
        window.value(ALL_COLUMNS)
        faults = [f"says {message}" for message in window.messages]
        faults += [f"asks for {url}" for url in window.requests if url != file.as_uri()]
        if (wide := window.value("document.documentElement.scrollWidth")) > width:
            faults.append(f"is {wide} pixels wide")
        dark = window.value("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
        if dark != (scheme == "dark"):
            faults.append(f"is {'dark' if dark else 'light'}")
        faults += [f"{figure}: a picture without words" for figure in window.value(SILENT_PICTURES)]
        faults += [f"{text}: touches another text of its picture, or is cut off" for text in window.value(TOUCHING)]
        return [*faults, *violations(window)]
