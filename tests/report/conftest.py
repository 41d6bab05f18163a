"""One browser for all tests of pages, and one rendering of each archetype."""

import functools
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.conftest import not_there
from tests.report.builders import written
from tests.report.markdown import Archetypes, Page, read_page
from tools.archetypes import STUDIES


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium without a window."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        not_there("Chromium is not installed: make browser")
    with sync_playwright() as playwright:
        # Its sandbox needs user namespaces, which containers do not have; the pages are our own.
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def archetypes(tmp_path_factory: pytest.TempPathFactory) -> Archetypes:
    """Name of an archetype → its report as its reader sees it, rendered when it is first asked for."""

    def rendered(name: str) -> Page:
        folder = tmp_path_factory.mktemp(name)
        return read_page(written(STUDIES[name](folder / "study"), folder / "report").parent)

    return functools.cache(rendered)
