"""Drawing by a process of its own: the same bytes, and an end of it whatever happens."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from pathlib import Path

import psutil
import pytest

from tests.report.builders import build, factorial
from vitbench.report.charts import Panel, Rows
from vitbench.report.drawing import draw
from vitbench.report.render import render, render_view
from vitbench.report.studio import DrawingStopped, Studio
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


def ended(process: psutil.Process) -> bool:
    try:
        process.wait(20)
    except psutil.TimeoutExpired:
        return False
    return True


def test_what_was_not_asked_for_is_not_waited_for() -> None:
    with pytest.raises(KeyError), Studio() as studio:
        assert studio.draw(CHART)() == draw(CHART)  # it is there
        waiting = [studio.draw(LONG) for _ in range(200)]
        raise KeyError
    assert sum(map(was_given_up, waiting)) > len(waiting) / 2  # and were not drawn before it was left
    assert not studio.folder.exists()


def was_given_up(picture: Callable[[], bytes]) -> bool:
    try:
        picture()
    except (CancelledError, DrawingStopped) as error:
        return isinstance(error, CancelledError)
    raise AssertionError("it is left, and there is a picture")


def drawers(process: psutil.Process) -> list[psutil.Process]:
    """The processes that a process began, but for the one that watches over its semaphores."""
    return [p for p in process.children(recursive=True) if "resource_tracker" not in " ".join(p.cmdline())]


def drawer_of_this_process() -> psutil.Process:
    (drawer,) = [p for p in drawers(psutil.Process()) if "spawn_main" in " ".join(p.cmdline())]
    return drawer


def test_ctrl_c_is_not_for_the_drawer() -> None:
    with Studio() as studio:
        assert studio.draw(CHART)()
        drawer, waiting = drawer_of_this_process(), [studio.draw(LONG) for _ in range(4)]
        for _ in waiting:
            time.sleep(0.1)
            drawer.send_signal(signal.SIGINT)
        assert {picture() for picture in waiting} == {draw(LONG)}


def test_a_killed_drawer_is_said() -> None:
    with Studio() as studio:
        assert studio.draw(CHART)()
        drawer = drawer_of_this_process()
        waiting = studio.draw(LONG)
        drawer.kill()
        with pytest.raises(DrawingStopped, match="killed"):
            waiting()
        with pytest.raises(DrawingStopped, match="killed"):
            studio.draw(CHART)


def test_a_folder_that_is_gone_is_named_and_not_the_reports(study: Study, tmp_path: Path) -> None:
    with Studio() as studio:
        shutil.rmtree(studio.folder)
        with pytest.raises(DrawingStopped, match=f"{studio.folder}: pictures cannot be put there"):
            render_view(View(study), tmp_path / "report", studio.draw)
        studio.folder.mkdir()
    assert not (tmp_path / "report").exists()


def test_no_temporary_folder_is_one_line(study: Study, tmp_path: Path) -> None:
    code = "import tempfile\ntempfile.tempdir = '/nowhere'\nfrom vitbench.cli.main import main\nmain()\n"
    command = [sys.executable, "-c", code, "report", str(study.path), "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "Error: there is no temporary folder for pictures: No such file or directory\n"


BUSY = """
import sys, time
from tests.report.test_studio import LONG
from vitbench.report.studio import Studio
if __name__ == "__main__":
    with Studio() as studio:
        studio.draw(LONG)()
        for _ in range(1000):
            studio.draw(LONG)
        print("drawing", flush=True)
        time.sleep(600)
"""


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that waits while a thousand pictures are drawn for it, in a group of its own, as a shell starts it."""
    script = tmp_path / "busy.py"
    script.write_text(BUSY)
    with subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TMPDIR": str(tmp_path)},
    ) as process:  # fmt: skip
        assert process.stdout and process.stdout.readline() == "drawing\n"
        yield process
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_the_process_that_began_it(busy: subprocess.Popen[str], number: signal.Signals) -> None:
    ours = drawers(psutil.Process(busy.pid))
    assert ours
    if number is signal.SIGINT:
        os.killpg(busy.pid, number)  # as a terminal sends Ctrl-C: to all of them
    else:
        busy.send_signal(number)
    busy.wait(20)
    assert all(map(ended, ours))
    assert busy.stderr
    said = busy.stderr.read()
    assert ("KeyboardInterrupt" in said) == (number is signal.SIGINT), said
    assert said.count("Traceback") <= 1, said
