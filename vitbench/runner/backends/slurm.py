"""A Slurm queue: an array of jobs, each of them a driver of the study on the node that it gets.

The drivers share the study's folder, which must lie on a file system that all nodes have, and divide its trials among
them by their leases. So nothing of a result passes through Slurm: a job that is killed costs what it was running, a
driver at the login node that goes away costs nothing. A job that is pre-empted or out of time stops as after Ctrl-C,
its trial's checkpoint on disk, and is queued again.

Jobs are submitted by submitit (https://github.com/facebookincubator/submitit), which keeps its own files, pickles among
them, in the study's folder ``slurm``: the nodes read those, vitbench does not.
"""

import contextlib
import math
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from vitbench.processes import die_with_parent
from vitbench.runner.backends.backend import BackendError, BackendOptions
from vitbench.runner.device_kind import device_kind
from vitbench.runner.session import Session
from vitbench.store import Leases, StudyFolder
from vitbench.wording import plural

POLL_SECONDS = 1.0
STOP_SECONDS = 30.0  # Time for a job's driver to stop: its trials have ten, and it writes their records
SIGNAL_DELAY_SECONDS = 120  # Time between Slurm's warning and the end of a job
MAX_JOBS = 64  # Most jobs of one array, unless --workers says otherwise
MAX_REQUEUES = 100  # Most times that a job is queued again after its time is over; it goes on from a checkpoint
CLUSTERS = ("slurm", "local")
DEFAULTS = {
    "name": "vitbench",
    "timeout_min": 240,
    "stderr_to_stdout": True,
    "slurm_signal_delay_s": SIGNAL_DELAY_SECONDS,
    "slurm_additional_parameters": {"requeue": True},  # not every site's default
}


class SlurmBackend:
    """Jobs of a Slurm cluster; with the engine option ``cluster=local`` processes of this machine, to try it out."""

    def __init__(self, options: BackendOptions) -> None:
        """Raises BackendError where there is no Slurm, and for parameters that submitit does not know."""
        self.options = options
        if ":" in options.device:
            raise BackendError(f"--device {options.device}: Slurm chooses the GPU of each job; say --device cuda")
        self.device = device_kind(options.device)
        parameters = dict(options.engine)
        self.cluster = str(parameters.pop("cluster", "slurm"))
        if self.cluster not in CLUSTERS:
            raise BackendError(f"--engine cluster={self.cluster}: must be one of {', '.join(CLUSTERS)}")
        self.parameters = {**DEFAULTS, **parameters}
        self.where = f"{self.cluster} jobs, device {self.device}"
        self.logs = options.study / "slurm"
        self.executor = self._executor()

    def _executor(self) -> Any:
        try:
            executor = _submitit().AutoExecutor(
                folder=self.logs.resolve() / "%j",
                cluster=self.cluster,
                slurm_max_num_timeout=MAX_REQUEUES,
                local_max_num_timeout=MAX_REQUEUES,
            )
        except OSError as error:
            raise BackendError(f"{self.options.study}: cannot be written: {error.strerror}") from error
        except RuntimeError as error:
            raise BackendError(
                f"--launcher slurm: {error}; run it on a machine that has Slurm's commands, or try it out with "
                f"--engine cluster=local"
            ) from error
        try:
            executor.update_parameters(**self.parameters)
        except (AssertionError, NameError, TypeError, ValueError) as error:  # each says what it knows instead
            raise BackendError(f"--engine: {str(error).splitlines()[0]}") from error
        return executor

    def submit(self, command: list[str], count: int, parameters: dict[str, Any]) -> list[Any]:
        """An array of so many equal jobs. The user's parameters go before these. Raises BackendError."""
        parameters = {**parameters, **self.parameters}
        # Since Slurm 22.05 srun does not take this over from the job: the driver would have one CPU of those it got.
        cpus = parameters.get("slurm_cpus_per_task", parameters["cpus_per_task"])
        try:
            self.executor.update_parameters(**{"slurm_srun_args": [f"--cpus-per-task={cpus}"], **parameters})
            with _unbroken(), self.executor.batch():
                jobs = [self.executor.submit(Pilot(command)) for _ in range(count)]
        except Exception as error:  # submitit and sbatch raise all kinds
            raise BackendError(f"--launcher slurm: jobs cannot be submitted: {error}") from error
        return jobs

    def cancel(self, jobs: list[Any]) -> None:
        """End the jobs that have not ended, and give their drivers time to write what was interrupted."""
        for job in jobs:
            if not job.done():
                with contextlib.suppress(Exception):  # it may just have ended
                    if self.cluster == "local":  # its own way gives a driver one second
                        os.kill(int(job.job_id), signal.SIGTERM)
                    else:
                        job.cancel()
        end = time.monotonic() + STOP_SECONDS / 2
        while time.monotonic() < end and not all(job.done() for job in jobs):
            time.sleep(POLL_SECONDS / 4)

    def close(self) -> None:
        """Jobs are the queue's."""


@contextlib.contextmanager
def _unbroken() -> Iterator[None]:
    """A Ctrl-C waits: it would end sbatch, whose jobs may be in the queue by then, and nobody would cancel them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # which a program that is started here inherits
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def submit_study(session: Session, backend: SlurmBackend, leases: Leases) -> None:
    """Submit drivers for the training, then one with a node to itself for the timing, and wait for them.

    Raises:
        BackendError: where jobs cannot be submitted.
        OSError: where the study's folder cannot be read or written; the jobs are cancelled.
    """
    options, on_slurm = backend.options, backend.cluster == "slurm"
    resources = options.resources
    gpus = (1.0 if backend.device == "cuda" else 0.0) if resources.gpus is None else resources.gpus
    shared: dict[str, Any] = {"cpus_per_task": resources.cpus or 1}
    if gpus:
        shared["gpus_per_node"] = math.ceil(gpus)
    most = options.workers or (MAX_JOBS if on_slurm else 1)
    rounds(session, backend, leases, ("tune", "train"), only="training", most=most, parameters=shared)
    alone = {**shared, **({"slurm_exclusive": True} if on_slurm else {})}
    rounds(session, backend, leases, ("time",), only="timing", most=1, parameters=alone)
    # Whoever gave another command to this folder meanwhile has left out what was only planned: it is put back.
    session.study = StudyFolder.start(session.study.path, session.study.info)


def rounds(
    session: Session, backend: SlurmBackend, leases: Leases, kinds: tuple[str, ...], *, only: str, most: int,
    parameters: dict[str, Any],
) -> None:  # fmt: skip
    """Submit arrays of jobs until nothing of these kinds is left, or as many have gone as a trial has attempts."""
    most_rounds, waits = session.study.info.suite.max_attempts + 1, False
    rounds_left = most_rounds
    command = [sys.executable, "-m", "vitbench", *backend.options.repeat, "--only", only, "--leave-leased",
               "--this-look", "--device", backend.device, "--workers", "1"]  # fmt: skip
    while session.stop.signal is None:
        if "tune" in kinds and session.study.info.untuned:
            session.plan_again()
        pending = session.pending(*kinds)
        free = sum(leases.current(trial_id) is None for trial_id in pending.ids())
        if not pending:
            if "train" in kinds and session.more_to_train():
                rounds_left = most_rounds  # what is new has not been tried
                continue
            return
        if not free:  # of other drivers, such as jobs that an earlier call of this command has left
            if session.options.leave_leased:
                return
            if not waits:
                session.reporter.note(f"waiting for {plural(len(pending), 'trial')} in other processes")
                waits = True
            time.sleep(POLL_SECONDS)
            session.catch_up()
            continue
        if not rounds_left:
            left = f"{plural(len(pending), 'trial')} left after {most_rounds} rounds of jobs"
            session.reporter.note(f"{left}; what they said is in {backend.logs}", "notice: ")
            return
        rounds_left -= 1
        jobs = backend.submit(command, min(free, most), parameters)
        ids = ", ".join(job.job_id for job in jobs[:8]) + (", …" if len(jobs) > 8 else "")
        session.reporter.note(f"submitted {plural(len(jobs), f'{backend.cluster} job')}: {ids}")
        watch(session, backend, jobs)


def watch(session: Session, backend: SlurmBackend, jobs: list[Any]) -> None:
    """Report records as they come, until all jobs have ended or this process is to stop, and they with it."""
    before: Counter[str] = Counter()
    try:
        while session.stop.signal is None and not all(job.done() for job in jobs):
            time.sleep(POLL_SECONDS)
            session.catch_up()
            states = Counter(str(job.state).lower() for job in jobs)
            if states != before:
                session.reporter.note("jobs: " + ", ".join(f"{n} {state}" for state, n in states.most_common()))
                before = states
    finally:  # also where the study's folder is lost: nobody would take what the jobs do
        backend.cancel(jobs)
    session.catch_up()


class Pilot:
    """A job's work: run a driver, and stop it in time. submitit calls ``checkpoint`` before the job's end."""

    def __init__(self, command: list[str]) -> None:
        """``command``: starts the driver."""
        self.command = command
        self.process: subprocess.Popen[bytes] | None = None
        self.ended_by: int | None = None

    def __call__(self) -> int:
        """Run the driver, and return its exit status. A job that is cancelled ends with its signal's."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # see :func:`_unbroken`: a local job inherits it
        for number in (signal.SIGTERM, signal.SIGINT):  # submitit lets SIGTERM pass, until SIGKILL comes
            signal.signal(number, self.end)
        # A group of its own: what ends the job is sent to its whole group, and the driver gets it once, by stop.
        self.process = subprocess.Popen(self.command, process_group=0, preexec_fn=_with_pilot)  # noqa: PLW1509
        while (status := self.process.poll()) is None:
            if self.ended_by is not None:
                self.stop()
            time.sleep(0.1)
        if self.ended_by is not None:
            sys.exit(128 + self.ended_by)
        return status

    def end(self, number: int, _: object) -> None:
        """Note that the job is cancelled, or pre-empted without a warning."""
        self.ended_by = number

    def checkpoint(self) -> Any:
        """Stop the driver before the job ends, and go on in the next job."""
        self.stop()
        return _submitit().helpers.DelayedSubmission(Pilot(self.command))

    def stop(self) -> None:
        """End the driver as SIGTERM does, and insist after its grace."""
        if self.process is None:
            return
        self.process.terminate()
        end = time.monotonic() + STOP_SECONDS
        while self.process.poll() is None and time.monotonic() < end:
            time.sleep(0.1)
        self.process.kill()


def _with_pilot() -> None:
    """Prepare the driver's process, before the driver starts in it."""
    # A job that is killed outright must not leave its driver behind; Slurm's own clean-up does not cover all cases.
    die_with_parent(signal.SIGTERM)
    # Where Slurm warns every process of a job, the warning would end this one before the pilot can.
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)


def _submitit() -> Any:
    try:
        import submitit
    except ImportError as error:
        raise BackendError("--launcher slurm needs the package submitit: pip install 'vitbench[slurm]'") from error
    return submitit
