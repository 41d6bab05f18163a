"""Drawing by a process of its own: the same bytes, and an end of it whatever happens."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.report.builders import build, factorial
from tests.runner.runs import all_end
from vitbench.report.drawing import draw
from vitbench.report.pictures.row_charts import Panel, Rows
from vitbench.report.render import render, render_view
from vitbench.report.studio import DRAWER, ENDED, HANDS, DrawingStopped, Studio
from vitbench.report.view import View
from vitbench.store import Study

GRID = {"norm": ("pre", "post"), "positions": ("learned", "none")}
CHART = Rows(["a", "b"], [Panel("accuracy (%)", [[1.0, 2.0], [3.0]], [1.5, 3.0])], ["", ""], ["", ""])
LONG = Rows([*"abc"] * 20, [Panel("x", [[1.0]] * 60, [1.0] * 60)] * 3, [""] * 60, [""] * 60)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return build(tmp_path / "study", factorial(GRID, seeds=(0, 1)))


def contents(out: Path) -> dict[str, bytes]:
    return {p.relative_to(out).as_posix(): p.read_bytes() for p in sorted(out.rglob("*")) if p.is_file()}


def test_a_report_is_the_same_bytes_wherever_its_pictures_are_drawn(study: Study, tmp_path: Path) -> None:
    render(study, tmp_path / "here")
    with Studio() as studio:
        render_view(View(study), tmp_path / "there", studio.draw)
    assert contents(tmp_path / "here") == contents(tmp_path / "there")


def test_the_process_of_a_report_does_not_load_what_draws(study: Study, tmp_path: Path) -> None:
    code = (
        "import sys\nfrom vitbench.cli.main import main\n"
        "try:\n    main()\nfinally:\n    assert not {'matplotlib', 'PIL', 'torch'} & set(sys.modules)\n"
    )
    command = [sys.executable, "-c", code, "report", str(study.path), "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "out" / "figures").glob("*.png"))


def test_the_drawer_imports_nothing_that_lies_where_it_is_called(study: Study, tmp_path: Path) -> None:
    (tmp_path / "pickle.py").write_text("raise SystemExit('not for import')")
    command = [sys.executable, "-P", "-m", "vitbench", "report", str(study.path), "--out", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "out" / "figures").glob("*.png"))


def test_what_was_not_asked_for_is_not_waited_for() -> None:
    with pytest.raises(KeyError), Studio() as studio:
        assert [studio.draw(CHART)() for _ in range(HANDS)] == [draw(CHART)] * HANDS  # all of them are there
        drawers = drawers_of(os.getpid())
        for _ in range(200):
            studio.draw(LONG)
        raise KeyError
    assert all_end(drawers) and not any(hand.folder.exists() for hand in studio.hands)
    assert [hand.answered for hand in studio.hands] == [1] * HANDS and studio.ordered > 200


def drawers_of(pid: int) -> set[int]:
    found = {p.pid for p in psutil.Process(pid).children() if DRAWER in p.cmdline()}
    assert len(found) == HANDS
    return found


def test_one_chart_is_drawn_by_one_process() -> None:
    with Studio() as studio:
        assert studio.draw(CHART)() and len(studio.hands) == 1


def test_a_killed_drawer_is_said() -> None:
    with Studio() as studio:
        assert [studio.draw(CHART)() for _ in range(HANDS)]
        drawers = [psutil.Process(pid) for pid in drawers_of(os.getpid())]
        for drawer in drawers:
            drawer.suspend()  # so that it does not come to it
        waiting = studio.draw(CHART)
        for drawer in drawers:
            drawer.kill()
        with pytest.raises(DrawingStopped, match="has ended"):
            waiting()
        with pytest.raises(DrawingStopped, match="has ended"):
            studio.draw(CHART)()


def test_a_folder_that_is_gone_is_named_and_not_the_reports(study: Study, tmp_path: Path) -> None:
    with Studio() as studio:
        folder = studio.hands[0].folder
        shutil.rmtree(folder)
        with pytest.raises(DrawingStopped, match=f"{folder}: pictures cannot be put there"):
            render_view(View(study), tmp_path / "report", studio.draw)
    assert not (tmp_path / "report").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("import tempfile; tempfile.tempdir = '/nowhere'",
         "there is no temporary folder for pictures: No such file or directory"),
        ("sys.executable = '/nowhere'", "no process can be begun that draws: No such file or directory"),
        ("sys.executable = '/bin/false'", ENDED),
    ],
)  # fmt: skip
def test_a_drawer_that_cannot_begin_is_one_line(change: str, said: str, study: Study, tmp_path: Path) -> None:
    code = f"import sys\n{change}\nfrom vitbench.cli.main import main\nmain()\n"
    command = [sys.executable, "-c", code, "report", str(study.path), "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"Error: {said}\n"
    assert not (tmp_path / "out").exists()


BUSY = """
import sys, time
from tests.report.test_studio import LONG, Panel, Rows
from vitbench.report.studio import Studio
with Studio() as studio:
    for picture in [studio.draw(LONG), studio.draw(LONG)]:
        picture()
    for _ in range(1000):
        studio.draw(LONG)
    print("drawing", flush=True)
    if "sending" in sys.argv:
        large = Rows(["a"], [Panel("x", [[1.0] * 10**6], [1.0])], [""], [""])
        while True:
            studio.draw(large)
    time.sleep(600)
"""


@pytest.fixture(params=["waiting", "sending"])
def busy(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """A process for which a thousand pictures are drawn, in a group of its own, as a shell starts it.

    It waits, or is in the middle of handing over a chart.
    """
    with subprocess.Popen(
        [sys.executable, "-c", BUSY, request.param],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TMPDIR": str(tmp_path)},
    ) as process:  # fmt: skip
        assert process.stdout and process.stdout.readline() == "drawing\n"
        yield process
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_the_process_that_began_it(
    busy: subprocess.Popen[str], number: signal.Signals, tmp_path: Path
) -> None:
    drawers = drawers_of(busy.pid)
    os.killpg(busy.pid, number)  # as a terminal sends Ctrl-C: to all of the group
    busy.wait(60)
    assert all_end(drawers, within_s=60)
    assert not list(tmp_path.iterdir()), "pictures are left behind"
    assert busy.stderr
    said = busy.stderr.read()
    assert ("KeyboardInterrupt" in said) == (number is signal.SIGINT), said
    assert said.count("Traceback") <= 1, said


@pytest.mark.parametrize(
    "after_s", [0.0, 0.01, *(pytest.param(s, marks=pytest.mark.slow) for s in (0.002, 0.005, 0.05, 0.15))]
)
def test_a_second_ctrl_c_does_not_make_it_wait(busy: subprocess.Popen[str], after_s: float) -> None:
    drawers = drawers_of(busy.pid)
    for pause in (after_s, 0.0):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(busy.pid, signal.SIGINT)
        time.sleep(pause)
    busy.wait(60)
    assert all_end(drawers, within_s=60)
