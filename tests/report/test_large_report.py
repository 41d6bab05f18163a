"""Reports of studies that are larger than a page: what is shown is said to be a part, and numbers are of all."""

from pathlib import Path

import pytest

from tests.bad_input import files_of, process
from tests.report.builders import COMPONENTS, SMALL, build, factorial, written
from tests.report.markdown import read_page
from vitbench.report.cost import speed
from vitbench.report.sections import accuracy, curves, timing
from vitbench.store import StudyFolder

FIVE_MB = 5_000_000


def large_enough(folder: Path) -> StudyFolder:
    """A study of more than 500 records with all that a report shows: four axes, seven seeds, timings in two dtypes."""
    study = build(folder, factorial(COMPONENTS, seeds=tuple(range(7)), dtypes=("float32", "bfloat16"), epochs=10))
    assert len(list((folder / "records").iterdir())) > 500
    return study


def test_tables_by_cell_and_curves_are_cut_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = build(tmp_path / "study", factorial({**SMALL, "depth": (1, 2, 3)}, seeds=(0, 1, 2)))
    whole = written(study, tmp_path / "whole").with_name("report.md")
    for module in (accuracy, speed, timing):
        monkeypatch.setattr(module, "MAX_CELLS", 5)
    monkeypatch.setattr(curves, "MAX_RUNS", 12)
    cut = written(study, tmp_path / "cut").with_name("report.md")
    assert "rows the first" not in whole.read_text() and "are drawn" not in whole.read_text()
    assert cut.read_text().count("Of 12 rows the first 5 are shown.") == 1
    assert cut.read_text().count("Of 12 cells the first 5 are shown.") == 2, "timings in two modes"
    assert "Of the runs of one colour in one panel the first" in cut.read_text()
    assert len(read_page(cut.parent).tables) == len(read_page(whole.parent).tables)
    for table in sorted((tmp_path / "whole" / "tables").iterdir()):
        assert (tmp_path / "cut" / "tables" / table.name).read_bytes() == table.read_bytes()


@pytest.mark.slow
def test_over_500_records_a_report_is_small_and_the_same_bytes_twice(tmp_path: Path) -> None:
    """A user's report: neither the page alone nor the folder, pictures and tables included, is above 5 MB."""
    large_enough(tmp_path / "study")
    made = []
    for name in ("first", "second"):
        done = process(tmp_path, "report", "study", "--out", name)
        assert done.returncode == 0 and not done.stderr, done.stderr
        made.append({file: content for file, content in files_of(tmp_path / name).items() if content is not None})
    assert made[0] == made[1]
    assert len(made[0]["index.html"]) <= FIVE_MB
    assert sum(map(len, made[0].values())) <= FIVE_MB
