"""Studies run by the real command line in real processes, with components that do harm."""

import contextlib
import io
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import psutil
import pytest

from tests.small import SUITE
from vitbench import registry
from vitbench.cli.main import main
from vitbench.config import read_suite
from vitbench.config.recipe import Device
from vitbench.runner.plan import KINDS, plan
from vitbench.store import Record, StudyFolder, StudyInfo

VITBENCH = [sys.executable, "-m", "vitbench"]

PLUGIN = '''
import os, pathlib, signal, time
import torch
from vitbench import component
from vitbench.components.contracts import MLP

STARTS = pathlib.Path({starts!r})

@component(slot="mlp", name="faulty", source="test")
class Faulty(MLP):
    """Does harm."""
    def activate(self, hidden):
        if hidden.is_meta:
            return hidden
        (STARTS / str(os.getpid())).touch()
        {body}
        return hidden.relu()
'''


class Runs:
    """A suite in a folder, run again and again."""

    def __init__(self, folder: Path, text: str = SUITE) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.study = folder, folder / "study"
        self.suite = folder / "small.toml"
        self.suite.write_text(text)
        self.starts, self.log = folder / "starts", folder / "log"
        self.starts.mkdir()
        self.started: list[subprocess.Popen[str]] = []
        self.began = time.time()

    def close(self) -> None:
        """End what a test that failed left running: it would take the cores and the cluster from the tests after it."""
        for driver in self.started:
            if driver.poll() is None:
                family = psutil.Process(driver.pid).children(recursive=True)
                killed(driver)
                psutil.wait_procs(family, timeout=10)
        for pid in living(self.pids()):
            with contextlib.suppress(psutil.NoSuchProcess):
                if (trial := psutil.Process(pid)).create_time() > self.began:  # not one of another namespace's number
                    trial.kill()

    def plugin(self, body: str) -> list[str]:
        path = self.folder / "faulty.py"
        path.write_text(PLUGIN.format(starts=str(self.starts), body=body))
        return ["--plugin", str(path)]

    def command(self, *arguments: str) -> list[str]:
        return [*VITBENCH, "run", str(self.suite), "--results", str(self.study), "--device", "cpu", *arguments]

    def run(self, *arguments: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command(*arguments), capture_output=True, text=True, timeout=timeout, check=False)

    def run_here(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """As :meth:`run`, with the driver in this process; trials have processes of their own as ever.

        Their server, which takes three seconds to load torch, is started once for many tests.
        """
        return here(*self.command(*arguments)[len(VITBENCH) :])

    def complete(self, *arguments: str) -> str:
        """Run here, to the end and without a fault; what was printed."""
        done = self.run_here(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def vitbench(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*VITBENCH, *arguments], capture_output=True, text=True, timeout=120, check=False)

    def report(self) -> str:
        """The study's page, rendered anew."""
        done = here("report", str(self.study), "--out", str(self.folder / "report"))
        assert done.returncode == 0, done.stderr
        return (self.folder / "report" / "report.md").read_text()

    def start(self, *arguments: str, log: str = "log") -> subprocess.Popen[str]:
        with (self.folder / log).open("wb") as stream:
            driver = subprocess.Popen(self.command(*arguments), stdout=stream, stderr=subprocess.STDOUT, text=True)
        self.started.append(driver)
        return driver

    def records(self) -> list[Record]:
        return records_of(self.study)

    def states(self) -> Counter[str]:
        return Counter(r.state for r in self.records())

    def pids(self) -> set[int]:
        """Processes of the faulty component that have started so far: each leaves a file."""
        return {int(path.name) for path in self.starts.iterdir() if path.name.isdigit()}

    def wait_for_starts(self, count: int) -> None:
        """Until so many processes of the faulty component have started."""
        until(lambda: len(list(self.starts.iterdir())) >= count, "no trial started")

    def wait_for(self, count: int) -> None:
        """Until so many records are on disk."""
        until(lambda: len(list(self.study.glob("records/*.json"))) >= count, "no record in time")


def records_of(study: Path) -> list[Record]:
    return [r for attempts in StudyFolder.read(study).records().values() for r in attempts]


def here(*arguments: str, cwd: Path | str = ".") -> subprocess.CompletedProcess[str]:
    """A command of vitbench, in this process, and what it printed. Plug-ins that it loads are gone afterwards."""
    out, errors = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd),
        plugins_apart(),
        within(300),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(errors),
        pytest.raises(SystemExit) as ended,
    ):
        main(arguments)
    return subprocess.CompletedProcess(arguments, int(ended.value.code or 0), out.getvalue(), errors.getvalue())


@contextlib.contextmanager
def within(seconds: int) -> Iterator[None]:
    """Fail where it takes longer: what hangs in this process would hold up all the tests."""

    def late(*_: object) -> None:
        pytest.fail(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def plugins_apart() -> Iterator[None]:
    """Plug-ins that are loaded meanwhile are no part of the registry of the tests that follow."""
    before = set(registry._plugin_files)
    try:
        yield
    finally:
        for where in registry._plugin_files.keys() - before:
            for known in (registry._classes, registry._plugin_facts, registry._plugin_files):
                known.pop(where, None)


def planned(
    folder: Path, text: str, *overrides: str, device: Device = "cpu", kinds: Collection[str] = KINDS
) -> StudyInfo:
    """The plan of a suite with such a text, which is left in a folder."""
    (folder / "suite.toml").write_text(text)
    return plan(read_suite(folder / "suite.toml", overrides), device, kinds=kinds)


def sets(*changes: str) -> list[str]:
    """Options of a command that changes some values of its suite."""
    return [part for change in changes for part in ("--set", change)]


def killed(process: subprocess.Popen[str]) -> None:
    """SIGKILL, and the end of it."""
    process.kill()
    process.wait()


@contextlib.contextmanager
def busy(processes: int) -> Iterator[None]:
    """Other processes, as many as that, that want a core each."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"], text=True) for _ in range(processes)]
    try:
        yield
    finally:
        for each in running:
            killed(each)


def until(happened: Callable[[], bool], else_say: str, within_s: float = 480.0) -> None:
    """Wait for something that other processes do."""
    deadline = time.monotonic() + within_s
    while not happened():
        assert time.monotonic() < deadline, else_say
        time.sleep(0.02)


def living(pids: set[int]) -> list[int]:
    return [p for p in pids if psutil.pid_exists(p) and psutil.Process(p).status() != psutil.STATUS_ZOMBIE]


def all_end(pids: set[int], within_s: float = 10.0) -> bool:
    """Whether all of these processes are gone soon: the fork server needs a moment to see that its driver is."""
    deadline = time.monotonic() + within_s
    while living(pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not living(pids)


def descendants(process: subprocess.Popen[str]) -> set[int]:
    return {c.pid for c in psutil.Process(process.pid).children(recursive=True)}
