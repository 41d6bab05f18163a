"""What a user sees while a study runs."""

import io
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from tests.report.builders import CellPlan, Plan, build
from vitbench.cli import progress
from vitbench.cli.progress import LiveReporter


@pytest.mark.parametrize(("untuned", "until"), [(0, ""), (2, " until cells are tuned")])
def test_the_time_left_counts_how_far_running_trials_are(
    untuned: int, until: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two at once, each a second faster than estimated: of six the first ends when the second has nearly ended."""
    study = build(tmp_path, Plan([CellPlan("a", {})], seeds=tuple(range(6)), time=False))
    planned, clock, written = [*study.info.trials], [100.0], io.StringIO()
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    with LiveReporter(Console(file=written, width=200)) as reporter:
        reporter.expect(6, 0, {each.id: 5.0 for each in planned}, untuned)
        clock[0] += 7.0  # imports, a fork server
        for first, second in zip(planned[::2], planned[1::2], strict=True):
            for each in (first, second):
                reporter.started(each)
                reporter.say(each, "epoch 1")
            for each in (first, second):
                clock[0] += 4.0 if each is first else 0.0
                (record,) = study.records()[each.id]
                reporter.ended(each, record, final=True)
    lines = written.getvalue().splitlines()
    assert [line.partition("; ")[2] for line in lines] == [
        *[f"about 8 s left{until}"] * 2, *[f"about 4 s left{until}"] * 2, "", ""
    ]  # fmt: skip


def test_a_notice_of_records_is_printed_with_the_first_of_them(tmp_path: Path) -> None:
    study = build(tmp_path, Plan([CellPlan("a", {})], seeds=(0, 1, 2), time=False))
    written, notices = io.StringIO(), ("of the run", "its weights are not kept: No space left on device")
    with LiveReporter(Console(file=written, width=200)) as reporter:
        reporter.expect(3, 0, {}, 0)
        reporter.note("of the run", "notice: ")
        for planned in study.info.trials:
            (record,) = study.records()[planned.id]
            reporter.ended(planned, record.model_copy(update={"notices": notices}), final=True)
    lines = written.getvalue().splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["notice:", "1/3", "notice:", "2/3", "3/3"]
    assert lines[2] == "notice: its weights are not kept: No space left on device"


def test_what_was_interrupted_is_still_to_be_run(tmp_path: Path) -> None:
    study = build(tmp_path, Plan([CellPlan("a", {})], seeds=(0, 1), time=False))
    first, second = study.info.trials
    written = io.StringIO()
    with LiveReporter(Console(file=written, width=200)) as reporter:
        reporter.expect(2, 0, {each.id: 5.0 for each in (first, second)}, 0)
        for each, state in ((first, "ok"), (second, "interrupted")):
            reporter.started(each)
            (record,) = study.records()[each.id]
            reporter.ended(each, record.model_copy(update={"state": state}), final=True)
    last = written.getvalue().splitlines()[-1]
    assert last.startswith("1/2 ") and "interrupted" in last and "left" not in last and "again" not in last
