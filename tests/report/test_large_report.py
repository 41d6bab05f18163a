"""Reports of studies that are larger than a page: what is shown is said to be a part, and numbers are of all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.builders import build, factorial
from tests.report.markdown import read_page
from vitbench.report import accuracy, curves, render, speed, view
from vitbench.store import Study

GRID = {"norm": ("pre", "post"), "positions": ("learned", "none"), "depth": (1, 2, 3)}


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return build(tmp_path / "study", factorial(GRID, seeds=(0, 1, 2)))


def test_tables_by_cell_and_curves_are_cut_and_say_so(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = render.render(study, tmp_path / "whole").with_name("report.md")
    for module in (view, accuracy, speed):
        monkeypatch.setattr(module, "MAX_CELLS", 5)
    monkeypatch.setattr(curves, "MAX_RUNS", 12)
    cut = render.render(study, tmp_path / "cut").with_name("report.md")
    assert "are shown" not in whole.read_text() and "are drawn" not in whole.read_text()
    # Accuracy, training speed, and timings in two modes.
    assert cut.read_text().count("Of 12 cells the first 5 are shown; all are in the table of numbers.") == 4
    assert "Of the runs of one colour in one panel the first" in cut.read_text()
    assert len(read_page(cut.parent).tables) == len(read_page(whole.parent).tables)
    for table in sorted((tmp_path / "whole" / "tables").iterdir()):
        assert (tmp_path / "cut" / "tables" / table.name).read_bytes() == table.read_bytes()
