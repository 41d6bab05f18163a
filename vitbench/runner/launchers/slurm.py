"""A Slurm queue: an array of jobs, each of them a driver of the study on the node that it gets.

The drivers share the study's folder, which must lie on a file system that all nodes have, and divide its trials among
them by their claims. So nothing of a result passes through Slurm: a job that is killed costs what it was running, a
driver at the login node that goes away costs nothing. A job that is pre-empted or out of time stops as after Ctrl-C,
its trial's checkpoint on disk, and is queued again.

Jobs are submitted by submitit (https://github.com/facebookincubator/submitit), which keeps its own files, pickles among
them, in the study's folder ``slurm``: the nodes read those, vitbench does not.
"""

from __future__ import annotations

import contextlib
import functools
import math
import signal
import subprocess
import sys
import time
from collections import Counter
from typing import Any

from vitbench.environment import Environment
from vitbench.runner.driver import Session
from vitbench.runner.launchers.places import LauncherError, Site
from vitbench.runner.overview import device_kind
from vitbench.runner.process import die_with_parent
from vitbench.spec.trial import Trial

POLL_SECONDS = 1.0
STOP_SECONDS = 30.0
"""Given to a job's driver to stop: its trials have ten, and it writes their records."""

SIGNAL_DELAY_SECONDS = 120
"""Between Slurm's warning and the end of a job."""

MAX_JOBS = 64
"""Of one array, unless --workers says otherwise."""

MAX_REQUEUES = 100
"""After a job's time is over; each goes on from a checkpoint."""

DEFAULTS = {"timeout_min": 240, "stderr_to_stdout": True}


class Queue:
    """Jobs of a Slurm cluster; with the engine option ``cluster=local`` processes of this machine, to try it out."""

    def __init__(self, site: Site) -> None:
        """Raises LauncherError where there is no Slurm."""
        self.site = site
        self.device = device_kind(site.device)
        given = dict(site.engine)
        self.cluster = str(given.pop("cluster", "slurm"))
        self.parameters = {**DEFAULTS, **given}
        self.where = f"{self.cluster} jobs, device {self.device}"
        self.submitit = _submitit()
        self.executor = self._executor()

    def _executor(self) -> Any:
        try:
            return self.submitit.AutoExecutor(
                folder=self.site.study.resolve() / "slurm" / "%j",
                cluster=self.cluster,
                slurm_max_num_timeout=MAX_REQUEUES,
                local_max_num_timeout=MAX_REQUEUES,
            )
        except (RuntimeError, ValueError) as error:
            raise LauncherError(
                f"--launcher slurm: {error}; run it on a machine that has Slurm's commands, or try it out with "
                f"--engine cluster=local"
            ) from error

    def drive(self, session: Session, heartbeat_s: float) -> None:
        """Submit drivers for the training, then one with a node to itself for the timing, and wait for them."""
        resources = self.site.resources
        gpus = (1.0 if self.device == "cuda" else 0.0) if resources.gpus is None else resources.gpus
        shared = {"cpus_per_task": resources.cpus or 1, "gpus_per_node": math.ceil(gpus)}
        self.rounds(session, ("tune", "train"), "training", self.site.workers or MAX_JOBS, shared)
        alone = {**shared, **({"slurm_exclusive": True} if self.cluster == "slurm" else {})}
        self.rounds(session, ("time",), "timing", 1, alone)

    def rounds(
        self, session: Session, kinds: tuple[str, ...], only: str, most: int, parameters: dict[str, Any]
    ) -> None:  # fmt: skip
        """Arrays of jobs, until nothing of these kinds is left or as many have gone as a trial has attempts."""
        for _ in range(session.study.info.suite.max_attempts + 1):
            waiting = session.study.info.untuned if "tune" in kinds else ()
            left = len(session.pending(*kinds)) + len(waiting)
            if not left or session.stop.signal is not None:
                return
            command = [sys.executable, "-m", "vitbench", *self.site.repeat, "--only", only, "--leave-held",
                       "--device", self.site.device]  # fmt: skip
            jobs = self.submit(command, min(left, most), {**parameters, **self.parameters})
            ids = ", ".join(job.job_id for job in jobs[:8])
            session.reporter.note(f"submitted {len(jobs)} {self.cluster} job(s): {ids}"
                                  + (", …" if len(jobs) > 8 else ""))  # fmt: skip
            self.watch(session, jobs)
            session.catch_up()
        if session.stop.signal is None and (left := len(session.pending(*kinds))):
            session.reporter.note(f"{left} trial(s) are left after {session.study.info.suite.max_attempts + 1} rounds "
                                  f"of jobs; what they said is in {self.site.study / 'slurm'}", "notice: ")  # fmt: skip

    def submit(self, command: list[str], count: int, parameters: dict[str, Any]) -> list[Any]:
        """An array of so many equal jobs. Raises LauncherError."""
        try:
            self.executor.update_parameters(**parameters)
            with self.executor.batch():
                jobs = [self.executor.submit(Pilot(command)) for _ in range(count)]
        except Exception as error:  # submitit and sbatch raise all kinds
            raise LauncherError(f"--launcher slurm: jobs cannot be submitted: {error}") from error
        return jobs

    def watch(self, session: Session, jobs: list[Any]) -> None:
        """Tell of records as they come, until all jobs have ended or this driver is to stop, and they with it."""
        told: Counter[str] = Counter()
        while not all(job.done() for job in jobs):
            time.sleep(POLL_SECONDS)
            session.catch_up()
            if session.stop.signal is not None:
                for job in jobs:
                    with contextlib.suppress(Exception):  # it may just have ended
                        job.cancel()
                end = time.monotonic() + STOP_SECONDS / 2
                while time.monotonic() < end and not all(job.done() for job in jobs):
                    time.sleep(POLL_SECONDS / 4)
                session.catch_up()
                return
            states = Counter(str(job.state).lower() for job in jobs)
            if states != told:
                session.reporter.note("jobs: " + ", ".join(f"{n} {state}" for state, n in states.most_common()))
                told = states

    def refuses(self, trial: Trial) -> tuple[str, Environment | None] | None:
        """Nothing is refused here: each job's driver knows its node."""
        return None

    def close(self) -> None:
        """Jobs are the queue's."""


class Pilot:
    """What a job does: run a driver, and stop it in time. submitit calls ``checkpoint`` before the job's end."""

    def __init__(self, command: list[str]) -> None:
        """``command``: of the driver."""
        self.command = command
        self.process: subprocess.Popen[bytes] | None = None

    def __call__(self) -> int:
        """The driver's exit status."""
        # A job that is killed outright must not leave its driver behind; Slurm's own clean-up does not cover all cases.
        ended = functools.partial(die_with_parent, signal.SIGTERM)
        self.process = subprocess.Popen(self.command, preexec_fn=ended)  # noqa: PLW1509 (a job has one thread)
        try:
            while (status := self.process.poll()) is None:
                time.sleep(0.1)
        except BaseException:
            self.stop()
            raise
        return status

    def checkpoint(self) -> Any:
        """Called in the job before it ends: stop the driver, and go on in the next job."""
        self.stop()
        return _submitit().helpers.DelayedSubmission(Pilot(self.command))

    def stop(self) -> None:
        """End the driver as Ctrl-C would, and insist after its grace."""
        assert self.process is not None
        self.process.terminate()
        end = time.monotonic() + STOP_SECONDS
        while self.process.poll() is None and time.monotonic() < end:
            time.sleep(0.1)
        self.process.kill()


def _submitit() -> Any:
    try:
        import submitit
    except ImportError as error:
        raise LauncherError("--launcher slurm needs the package submitit: pip install 'vitbench[slurm]'") from error
    return submitit
