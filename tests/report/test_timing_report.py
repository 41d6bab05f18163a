"""The report of a study that was really timed: the control, intervals, marks, parts of a model, the roofline."""

import re
import shutil
from pathlib import Path

import pytest

from tests.report.builders import written
from tests.report.markdown import Page, read_page
from tests.runner.runs import here, sets
from tests.small import SUITE
from vitbench.analysis.timings import WIDE
from vitbench.report.cost import speed
from vitbench.store import StudyFolder, TimeValues

pytestmark = pytest.mark.xdist_group("timing_report")  # what its fixtures run is run once

CHOSEN = ('axes.attention=["sdpa", "batched", "triton"]', 'time.levels=["attention_core", "model"]',
          'time.modes=["inference"]', "time.rounds=3", "time.iterations=6", "time.batch_sizes=[4]")  # fmt: skip
CONTROL = "A/A control: the baseline again"
SPEED = "speed (× baseline)"


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Page, StudyFolder]:
    folder = tmp_path_factory.mktemp("timed")
    (folder / "small.toml").write_text(SUITE)
    done = here("time", "small.toml", "--results", "study", "--device", "cpu", *sets(*CHOSEN), cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    study = StudyFolder.read(folder / "study")
    return read_page(written(study, folder / "report").parent), study


@pytest.mark.parametrize("of", ["Attention core (N 17, H 2, K 16), ", ""])
def test_the_control_stands_in_every_table(timed: tuple[Page, StudyFolder], of: str) -> None:
    rows = timed[0].table(SPEED, f"{of}cpu, float32, batch size 4, inference")
    assert [r["attention"] for r in rows].count(CONTROL) == 1
    speeds = {r["attention"]: r[SPEED] for r in rows}
    assert speeds["sdpa"] == "1", "the baseline"
    for name in ("batched", CONTROL):
        estimate, low, _, high, *_ = re.sub("[(),]", "", speeds[name]).split()
        assert float(low) <= float(estimate) <= float(high)
    assert next(r for r in rows if r["attention"] == "triton")["latency p50 (ms)"] == "unsupported"


def test_what_is_not_to_be_relied_on_is_marked_with_its_reason(timed: tuple[Page, StudyFolder]) -> None:
    page, _ = timed
    marked = [t for t in page.csv("timing") if t["unstable"]]
    printed = [r for _, rows in page.tables for r in rows if "~" in r.get("latency p50 (ms)", "")]
    assert len(printed) == len(marked)
    for row in printed:
        assert row.get("images/s", row.get("sequences/s", "")).endswith(" ~"), "a rate is no surer than its latency"
    for row in marked:
        first = row["unstable"].split("; ")[0]
        assert (speed.WIDER if first.startswith(WIDE) else first) in page.text
    assert not marked or "**~:**" in (page.folder / "report.md").read_text(encoding="utf-8"), "the mark is explained"


def test_numbers_of_the_table_are_those_of_the_records(timed: tuple[Page, StudyFolder]) -> None:
    page, study = timed
    by_cell = {(r.trial.level, r.trial.model.attention): r.values for r in study.outcomes().values() if r.values}
    for row in page.csv("timing"):
        if row["state"] != "ok":
            continue
        values = by_cell[row["level"], row["attention"]]
        assert isinstance(values, TimeValues) and values.flops is not None and values.ceilings is not None
        achieved = values.flops / values.latency_ms_p50 * 1000
        assert float(row["flops_per_s"]) == pytest.approx(achieved)
        assert float(row["of_flops"]) == pytest.approx(achieved / values.ceilings.flops_per_s)
        assert float(row["speed_low"]) <= float(row["speed"]) <= float(row["speed_high"])
    assert "figures/roofline-cpu-float32.png" in page.pictures


def test_a_table_s_header_does_not_come_from_its_first_row(timed: tuple[Page, StudyFolder], tmp_path: Path) -> None:
    """The first planned timing may be the one that did not run: the columns are there all the same."""
    _, study = timed
    (tmp_path / "study").mkdir()
    shutil.copy(study.path / "study.json", tmp_path / "study")
    first = shutil.ignore_patterns(f"{study.info.trials[0].id}*")
    shutil.copytree(study.path / "records", tmp_path / "study" / "records", ignore=first)
    rows = read_page(written(StudyFolder.read(tmp_path / "study"), tmp_path / "report").parent).csv("timing")
    assert rows[0]["state"] == "pending" and rows[0]["latency_ms_p50"] == ""
    assert any(row["latency_ms_p50"] for row in rows)
