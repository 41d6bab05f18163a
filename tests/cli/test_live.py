"""The live view of a study: what it says at each moment, in a terminal of any width, and how it is left."""

import io
import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.bad_input import process
from tests.report.builders import CellPlan, Plan, build, factorial, no_triton
from tests.runner.runs import Runs, here, until
from tests.terminal import on_a_terminal
from tests.test_security import hostile_study, steers
from vitbench.cli.console import Terminal
from vitbench.cli.live import _Bar, clock, view
from vitbench.processes import start_time, wall_clock
from vitbench.runner.watch import Snapshot, Watch
from vitbench.store import Leases, StudyFolder

GRID = {"attention": ("per_head", "sdpa", "triton"), "positions": ("learned", "none")}


def half_done(folder: Path) -> StudyFolder:
    """12 of 18 training runs have ended, a third of those unsupported and one failed; 12 timings are to come."""

    def state(cell: CellPlan, kind: str, seed: int) -> tuple[str, str]:
        if kind == "time" or seed == 2:
            return "pending", ""
        if cell.label == "sdpa · none" and seed == 1:
            return "diverged", "the loss is not finite at step 12"
        return no_triton(cell, kind, seed)

    return build(folder, factorial(GRID, seeds=(0, 1, 2), state=state))


def screen(moment: Snapshot, width: int, height: int = 40) -> list[str]:
    stream = io.StringIO()
    console = Terminal(soft_wrap=False)
    console.file, console.width = stream, width
    console.print(view(moment, height))
    return [line.rstrip() for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize("width", [60, 120])
def test_it_says_what_runs_since_when_what_came_out_and_what_did_not(tmp_path: Path, width: int) -> None:
    study = half_done(tmp_path)
    watch = Watch(study)
    before = watch.look()
    assert before.states == {"ok": 7, "unsupported": 4, "diverged": 1, "pending": 18} and not before.ended
    assert "nobody is at work on it" in "\n".join(screen(before, width))
    third = [p for p in study.info.trials if p.trial.kind == "train" and p.trial.seed == 2]
    first, second = (p.id for p in third if "sdpa" in p.cell)
    with Leases(tmp_path / "leases") as leases:
        leases.take(first)
        leases.note_group(first, os.getpid())
        leases.take(second)
        moment = watch.look()
        lines = screen(moment, width)
        printed = here("status", str(tmp_path)).stdout
    assert "16 pending, 7 ok, 4 unsupported, 2 running, 1 diverged" in printed, "as without --follow"
    assert moment.states["running"] == 2 and moment.states["pending"] == 16 and moment.drivers == 1
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert lines[1] == "━" * width, "the bar is as wide as the terminal"
    assert "● 7 ok" in text and "● 2 running" in text and "of 30" in text
    assert re.search(r"^\d+:\d\d +sdpa · learned, seed 2$", text, re.M) and "waits  sdpa · none, seed 2" in text
    assert re.search(r"^ok +test \d\d\.\d %, 20\.0 s +\S", text, re.M)
    for failed in ("1 × +diverged +the loss is not finite", "4 × +unsupported"):
        assert re.search(f"^{failed}", text, re.M)
    assert [clock(s) for s in (7.9, 750, 11_225)] == ["0:07", "12:30", "3:07:05"]


def test_pace_and_time_left_are_those_of_the_drivers_at_work(tmp_path: Path) -> None:
    """Results of before the driver began, of another day or machine, say nothing of it."""
    study = half_done(tmp_path)
    todo = [p for p in study.info.trials if p.trial.kind == "train" and p.trial.seed == 2]
    done = next(r for (r, *_) in study.records().values() if r.state == "ok")
    with Leases(tmp_path / "leases") as leases:
        leases.take(todo[0].id)
        watch = Watch(study)
        assert (watch.look().per_minute, watch.look().left_s) == (None, None)
        begun = datetime.fromtimestamp(wall_clock(start_time(os.getpid()) or 0.0), UTC)
        for planned in todo[1:4]:
            now = {"started_at": begun, "seconds": time.time() - begun.timestamp()}
            study.write(done.model_copy(update={"trial_id": planned.id, "trial": planned.trial, **now}))
        moment, took = watch.look(), time.time() - begun.timestamp()
    assert moment.per_minute == pytest.approx(3 * 60 / took, rel=0.2)
    assert moment.left_s == pytest.approx(took, rel=0.2), "three of six are left"
    assert moment.unpaced == 12, "timings, of which none has ended"
    assert f"{moment.per_minute:,.1f} trials a minute, about " in "\n".join(screen(moment, 100))


@pytest.mark.parametrize("width", [40, 60, 80])
def test_what_became_of_a_trial_is_said_however_narrow_the_terminal_is(tmp_path: Path, width: int) -> None:
    study = build(tmp_path, factorial(GRID, state=no_triton))
    moment = Watch(study).look()
    lines = screen(moment, width)
    assert max(map(len, lines)) <= width
    assert len(screen(moment, width, 12)) <= 12 < len(screen(Watch(half_done(tmp_path / "half")).look(), 80, 60))
    latest = lines[lines.index("latest") + 1 :][: len(moment.latest)]
    assert [line.split()[0] for line in latest] == [record.state for _, record in moment.latest][: len(latest)]


@pytest.mark.parametrize("width", [40, 60, 80])
def test_how_long_it_takes_is_said_whole_however_narrow_the_terminal_is(tmp_path: Path, width: int) -> None:
    moment = replace(
        Watch(half_done(tmp_path)).look(), drivers=1, per_minute=7.5, left_s=8 * 3600.0, untuned=3, unpaced=2
    )
    words = " ".join(" ".join(screen(moment, width)).split())
    left = "about 8.0 h left, and 2 trials of kinds that have not run yet"
    assert f"7.5 trials a minute, {left}; the training of 3 cells is planned when they are tuned" in words


def test_every_state_has_a_part_of_the_bar(tmp_path: Path) -> None:
    """One failure among a thousand is seen, too."""
    for width in (10, 60, 200):
        shares = dict(_Bar({"ok": 998, "failed": 1, "pending": 1}).widths(width))
        assert sum(shares.values()) == width and min(shares.values()) >= 1


def test_hostile_names_steer_no_terminal(tmp_path: Path) -> None:
    moment = Watch(hostile_study(tmp_path / "study")).look()
    assert steers("\n".join(screen(moment, 300, 200))) == []


def test_it_ends_with_the_study(tmp_path: Path) -> None:
    build(tmp_path / "study", factorial(GRID, state=no_triton))
    status, written = on_a_terminal(tmp_path, 80, "status", "study", "--follow")
    assert status == 0 and "ended" in written and written.endswith("\x1b[?25h"), "the cursor is there again"


def test_ctrl_c_leaves_it_without_a_word(tmp_path: Path) -> None:
    study = half_done(tmp_path / "study")
    before = {file.name for file in study.path.rglob("*")}
    status, written = on_a_terminal(tmp_path, 60, "status", "study", "--follow", stop=lambda text: "not ok" in text)
    assert status == 130 and "Traceback" not in written and "Abort" not in written
    assert {file.name for file in study.path.rglob("*")} == before, "who looks on writes nothing"


def test_a_pipe_gets_it_once(tmp_path: Path) -> None:
    half_done(tmp_path / "study")
    once, followed = (process(tmp_path, "status", "study", *more).stdout for more in ([], ["--follow"]))
    assert followed == once and "\x1b" not in once and "30 trials: 18 pending" in once


@pytest.mark.slow
def test_a_running_study_is_followed_to_its_end(runs: Runs, tmp_path: Path) -> None:
    """A driver in a process of its own, two terminals in others."""
    slow = runs.plugin("time.sleep(0.5)")  # each step: longer than a look takes beside other work
    driver = runs.start(*slow, "--set", 'axes.mlp=["gelu", "faulty"]', "--set", "train.seeds=[0, 1]")
    until((runs.study / "study.json").exists, "no study in time")
    widths = (60, 120)
    with ThreadPoolExecutor() as pool:
        seen = [*pool.map(lambda width: on_a_terminal(tmp_path, width, "status", str(runs.study), "--follow"), widths)]
    assert driver.wait(timeout=60) == 0
    for width, (status, written) in zip(widths, seen, strict=True):
        frames = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", written)
        assert status == 0 and re.search(r"\b0:0\d  \S+, seed [01]", frames), "what ran, and for how long"
        assert "1 running" in frames and "ended" in frames and "4 ok" in frames
        lines = [line.rstrip("\r") for line in frames.split("\n")]
        assert [line for line in lines if "\r" not in line and len(line) > width] == []


def test_a_plan_that_grows_is_seen_to_grow(tmp_path: Path) -> None:
    study = build(tmp_path, Plan([CellPlan("a", {})], time=False))
    watch = Watch(study)
    assert watch.look().ended
    build(tmp_path, Plan([CellPlan("a", {})], time=False, seeds=(0, 1), state=lambda c, k, s: ("pending", "")))
    moment = watch.look()
    assert not moment.ended and moment.total == 2 and moment.states == {"ok": 1, "pending": 1}
