"""Drivers and trials killed, drivers stopped, clocks set and the disk filled at random, and then the whole promise.

The long form, which prints what it did: ``VITBENCH_KILLS=200 python -m pytest -s tests/runner/test_random_kills.py``.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.runner.runs import Runs, all_end, killed, until
from vitbench.store import StudyFolder
from vitbench.store.leases import at_work
from vitbench.streams import derive

KILLS = int(os.environ.get("VITBENCH_KILLS", "21"))
TRIALS_PER_KILL = 3
FAULTS = ("driver killed", "trial killed", "driver stopped", "trial killed", "clock set", "trial killed", "disk full")

# The seed of a trial is known in its model by torch's own: the stream of dropout is derived from it.
NOTE_START = (
    "self.training and not getattr(self, 'noted', False) and "
    "(STARTS / f'{torch.initial_seed()}-{os.getpid()}').touch(); self.noted = True"
)


@pytest.fixture
def disk(runs: Runs) -> Iterator[Path | None]:
    """A disk of its own for the study, which can be filled; None where only a root could make one."""
    folder = runs.folder / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=40m", "none", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        yield None
        return
    runs.study = folder / "study"
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.slow
def test_f01_f02_f15_f27_f28_whatever_is_killed_nothing_finished_is_lost_or_repeated(
    runs: Runs, disk: Path | None
) -> None:
    chance = random.Random(20261121)
    count = KILLS * TRIALS_PER_KILL
    arguments = [
        *runs.plugin(NOTE_START), "--set", "model.mlp=faulty", "--set", f"train.seeds={list(range(count))}",
        "--set", "suite.max_attempts=100", "--set", "suite.checkpoint_s=0.05", "--set", "train.epochs=4",
        "--heartbeat", "1.0", "--max-trials", "1000000",
    ]  # fmt: skip
    drivers: list[subprocess.Popen[str]] = []
    family: set[int] = set()
    faults: Counter[str] = Counter()
    began = time.monotonic()
    for number in range(KILLS):
        drivers = [d for d in drivers if d.poll() is None]
        while len(drivers) < 2:
            drivers.append(runs.start(*arguments, log=f"log-{number}-{len(drivers)}"))
        if left(runs, count) == 0:
            break
        family |= {p.pid for d in drivers for p in everything_below(d.pid)}
        fault = FAULTS[number % len(FAULTS)]
        victim = chance.choice(drivers)
        if fault == "trial killed" or (fault == "disk full" and disk is None):
            trial = some_trial(drivers, chance)
            family.add(trial.pid)
            time.sleep(chance.uniform(0, 0.15))
            with contextlib.suppress(psutil.NoSuchProcess):
                trial.kill()
        elif fault == "driver killed":
            time.sleep(chance.uniform(0, 3.0))
            family |= {p.pid for p in everything_below(victim.pid)}
            killed(victim)
        elif fault == "driver stopped":  # for longer than its heartbeats may be missed, or not
            some_trial(drivers, chance)
            victim.send_signal(signal.SIGSTOP)
            time.sleep(chance.uniform(0.5, 5.0))
            victim.send_signal(signal.SIGCONT)
        elif fault == "clock set":  # as far as others see it: the times of all that is claimed
            some_trial(drivers, chance)
            then = time.time() + chance.choice((-7200.0, 7200.0))
            for claim in runs.study.glob("leases/*"):
                with contextlib.suppress(FileNotFoundError):
                    os.utime(claim, (then, then))
        elif disk is not None:
            some_trial(drivers, chance)
            with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as stream:
                while stream.write(bytes(4096)):
                    pass
            time.sleep(chance.uniform(0.5, 2.0))
            (disk / "filler").unlink()
        faults[fault] += 1
    for driver in drivers:
        killed(driver)
    interrupted_s = time.monotonic() - began
    assert all_end(family, within_s=30), "a process outlived its driver"
    assert runs.run(*arguments, timeout=600).returncode == 0

    study = StudyFolder.read(runs.study)
    records = study.records()
    assert study.damaged == [] and list(runs.study.glob("records/*.corrupt")) == []
    assert set(records) == {p.id for p in study.info.trials} and len(records) == count
    states = Counter(r.state for attempts in records.values() for r in attempts)
    ok = {r.trial_id: r for attempts in records.values() for r in attempts if r.state == "ok"}
    assert states["ok"] == len(ok) == count, "each trial has exactly one result"
    assert set(states) <= {"ok", "crashed", "interrupted"}
    starts = started(runs, count)
    for planned in study.info.trials:
        finished_at = (runs.study / "records" / f"{planned.id}-{ok[planned.id].attempt}.json").stat().st_mtime
        assert planned.trial.kind == "train"
        assert max(starts[planned.trial.seed]) <= finished_at, "a finished trial was started again"
    assert at_work(runs.study / "leases") == [] and list((runs.study / "checkpoints").glob("*.safetensors")) == []
    values = [ok[p.id].values for p in study.info.trials[:3]]
    alone = Runs(runs.folder / "alone")
    alone.run(*alone.plugin(NOTE_START), *arguments[2:], "--set", "train.seeds=[0, 1, 2]")
    same = {r.trial_id: r.values for r in alone.records()}
    assert [v.test_loss for v in values] == [same[p.id].test_loss for p in study.info.trials[:3]], "killed or not"
    report = [
        f"{sum(faults.values())} faults ({dict(faults)}) in {interrupted_s:.0f} s",
        f"{count} trials, {sum(map(len, starts.values()))} starts of training, records {dict(states)}",
        "0 damaged, 0 lost, 0 repeated, 0 processes left",
    ]
    sys.stderr.write("\n" + "; ".join(report) + "\n")


def left(runs: Runs, count: int) -> int:
    """Trials without a record, as far as names tell."""
    return count - len({p.name.split("-")[0] for p in runs.study.glob("records/*.json")})


def everything_below(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def some_trial(drivers: list[subprocess.Popen[str]], chance: random.Random) -> psutil.Process:
    """A running trial: a child of a fork server, that is one of a driver."""
    trials: list[psutil.Process] = []

    def look() -> bool:
        for driver in drivers:
            for server in everything_below(driver.pid):
                with contextlib.suppress(psutil.NoSuchProcess):
                    trials.extend(server.children())
        return bool(trials)

    until(look, "no trial starts")
    return chance.choice(trials)


def started(runs: Runs, count: int) -> dict[int, list[float]]:
    """Seed → when its processes began to train, by the clock of the file system."""
    seeds = {derive(seed, "dropout"): seed for seed in range(count)}
    times: dict[int, list[float]] = {seed: [] for seed in range(count)}
    for file in runs.starts.iterdir():
        if (seed := seeds.get(int(file.name.split("-")[0]))) is not None:
            times[seed].append(file.stat().st_mtime)
    return times
