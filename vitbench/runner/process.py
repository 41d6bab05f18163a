"""Processes of trials: forked from a server with torch loaded, supervised, and ended as a group."""

import contextlib
import json
import os
import shutil
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from multiprocessing.connection import Connection, Pipe, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from vitbench.runner import spinning
from vitbench.runner.forked import end_server, start
from vitbench.runner.messages import Request
from vitbench.store import State
from vitbench.store.record import MAX_BYTES
from vitbench.wording import MOST_CHARACTERS, MOST_LINES

GRACE_SECONDS = 10.0  # Time between SIGTERM and SIGKILL
POLL_SECONDS = 0.1

AWAY_SECONDS = 5.0
"""Time between two looks at the processes, beyond which the driver was stopped itself: that time is not a trial's."""

START_SECONDS = 180.0
"""Time for the fork server to start itself and a process; one that takes longer is stuck, and is replaced."""

LOG_TAIL = 4 * MOST_LINES * MOST_CHARACTERS
"""Bytes at the end of a process's log of which the lines that a record keeps are taken, at most four a character."""


@dataclass(frozen=True)
class Outcome:
    """How one process ended."""

    request: Request
    state: State
    started_at: datetime
    seconds: float
    reason: str = ""
    details: str = ""
    values: dict[str, Any] | None = None
    environment: dict[str, Any] | None = None
    at: str | None = None  # Id of the trial that the process was last at work on, where it had several

    def values_json(self) -> str:
        """The values as JSON text: strict models read arrays as tuples from JSON only."""
        return json.dumps(self.values)


@dataclass
class Stop:
    """Set by a signal handler; looked at between events. A trial that is running when it is set is interrupted."""

    signal: int | None = None


@dataclass
class Job:
    """One running process."""

    request: Request
    slot: "Slot"
    process: ForkServerProcess
    connection: Connection
    log: Path
    compiled: Path  # Folder of what torch compiles and of temporary files, which the process has for itself
    deadline: float
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    began: float = field(default_factory=time.monotonic)
    reply: dict[str, Any] | None = None
    at: str | None = None
    ended_because: tuple[State, str] | None = None
    kill_at: float | None = None

    def receive(self, progress: Callable[[Request, str], None]) -> None:
        """Take what the process has sent, as far as a record could hold it."""
        with contextlib.suppress(EOFError, OSError):
            while not self.connection.closed and self.connection.poll():
                message = json.loads(self.connection.recv_bytes(MAX_BYTES))
                if message["kind"] == "progress":
                    progress(self.request, message["body"])
                elif message["kind"] == "at":
                    self.at = message["body"]
                else:
                    self.reply = message["body"]
                    # It has nothing left to do, but a component may have left threads that never end.
                    self.kill_at = self.kill_at or time.monotonic() + GRACE_SECONDS
        if self.connection.closed:  # it closes itself at the head of a message that is too long
            self.end(("failed", f"sent a message of more than {MAX_BYTES:,} bytes"))

    def end(self, because: tuple[State, str]) -> None:
        """Ask the whole group to end; :meth:`press` insists."""
        if self.ended_because is None:
            self.ended_because = because
            self.kill_at = time.monotonic() + GRACE_SECONDS
            self.send(signal.SIGTERM)

    def press(self) -> None:
        """Kill the group if its grace is over, and end it if its time is."""
        now = time.monotonic()
        if self.kill_at is not None and now >= self.kill_at:
            self.send(signal.SIGKILL)
        elif self.kill_at is None and now >= self.deadline:
            self.end(("timeout", f"still running after {now - self.began:.0f} s"))

    def give(self, seconds: float) -> None:
        """More time, which nobody could use."""
        self.deadline += seconds
        self.kill_at = None if self.kill_at is None else self.kill_at + seconds

    def ends(self) -> bool:
        """Whether the process has ended; the fork server reports that.

        A server that reports nothing long after the group was killed is stopped or stuck. It is killed, and its
        children die with it.
        """
        if not self.process.is_alive():
            return True
        if self.kill_at is not None and time.monotonic() > self.kill_at + GRACE_SECONDS:
            end_server()
        return False

    def send(self, number: signal.Signals) -> None:
        """A signal to the process and all of its children."""
        pid = self.process.pid
        assert pid is not None
        try:
            os.killpg(pid, number)
        except ProcessLookupError:
            with contextlib.suppress(ProcessLookupError):  # not yet a group of its own
                if self.process.is_alive():
                    os.kill(pid, number)

    def outcome(self) -> Outcome:
        """The outcome of the process, which has ended. Whatever is left of its group is killed."""
        self.process.join()
        code = self.process.exitcode
        self.send(signal.SIGKILL)
        self.connection.close()
        log = _tail(self.log)
        self.log.unlink(missing_ok=True)
        seconds = time.monotonic() - self.began
        if self.reply is not None and (self.ended_because is None or self.reply["state"] == "ok"):
            return Outcome(self.request, started_at=self.started_at, seconds=seconds, at=self.at, **self.reply)
        if self.ended_because is not None:
            state, reason = self.ended_because
        elif code is not None and code < 0:
            state, reason = "crashed", f"killed by signal {-code} ({signal.Signals(-code).name})"
        else:
            state, reason = "crashed", f"ended with exit status {code} and no result"
        return Outcome(self.request, state, self.started_at, seconds, reason, log, at=self.at)


def _tail(log: Path) -> str:
    """The end of a log, however long the whole is; empty where there is none."""
    with contextlib.suppress(FileNotFoundError), log.open("rb") as stream:
        stream.seek(max(stream.seek(0, os.SEEK_END) - LOG_TAIL, 0))
        return stream.read(LOG_TAIL).decode(errors="replace")
    return ""


@dataclass(frozen=True)
class Slot:
    """Where one process at a time runs."""

    device: str  # With its index, e.g. "cuda:0".
    threads: int  # CPU threads of the process


Say = Callable[["Request", str], None]
Started = Callable[["Request", int], None]  # Called with a request and the process group that is at work on it


class Pool:
    """Runs requests in processes of their own, one in each slot at a time."""

    def __init__(self, slots: Sequence[Slot], folder: Path, stop: Stop, started: Started = lambda *_: None) -> None:
        """``folder``: where logs of running processes lie; ``stop``: looked at between events."""
        self.free, self.folder, self.stop, self.started = deque(slots), folder, stop, started
        self.jobs: list[Job] = []
        self.compiled: list[Path] = []
        """Folders of what trials that ended well have compiled: each is one process's at a time, and one in which a
        compiler may have been killed is never used again."""
        self.count = 0
        self.looked_at = time.monotonic()

    def run(self, requests: Iterator[Request], say: Say) -> Iterator[Outcome]:
        """Outcomes as they come. A request is drawn when a slot is free, so it may depend on earlier outcomes."""
        exhausted = False
        while True:
            while not exhausted and self.stop.signal is None and self.free:
                request = next(requests, None)
                if request is None:
                    exhausted = True
                else:
                    self.start(request)
            if not self.jobs:
                return
            yield from self.tick(say)

    def start(self, request: Request) -> None:
        """Start one process in a free slot, whose device and threads it gets."""
        slot = self.free.popleft()
        if not self.jobs:
            spinning.choose(slot.threads)
        request = replace(request, device=slot.device, threads=slot.threads)
        receiver, sender = Pipe(duplex=False)
        self.count += 1
        log = self.folder / f"{self.count}.log"
        compiled = self.compiled.pop() if self.compiled else self.folder / f"{self.count}-compiled"
        work = ("vitbench.runner.work:main", request, sender, str(log), str(compiled))
        limit = threading.Timer(START_SECONDS, end_server)
        limit.daemon = True
        limit.start()
        try:
            process = start(*work)  # a server that is killed meanwhile is replaced
        finally:
            limit.cancel()
        sender.close()
        assert process.pid is not None
        self.jobs.append(Job(request, slot, process, receiver, log, compiled, time.monotonic() + request.timeout_s))
        self.started(request, process.pid)
        self.looked_at = time.monotonic()  # what a start takes is no pause of the driver

    def tick(self, say: Say) -> list[Outcome]:
        """Wait a moment for something to happen; outcomes of the processes that have ended by then."""
        heard = [j.connection for j in self.jobs if j.reply is None and not j.connection.closed]
        wait([*heard, *(j.process.sentinel for j in self.jobs)], POLL_SECONDS)
        now = time.monotonic()
        away, self.looked_at = now - self.looked_at, now
        for job in self.jobs:
            job.receive(say)
            if away > AWAY_SECONDS:
                job.give(away)
            if self.stop.signal is not None:
                job.end(("interrupted", f"stopped by signal {self.stop.signal}"))
            job.press()
        outcomes = []
        for job in [j for j in self.jobs if j.ends()]:
            job.receive(say)
            self.jobs.remove(job)
            self.free.append(job.slot)
            outcomes.append(job.outcome())
            if outcomes[-1].state == "ok":
                self.compiled.append(job.compiled)
            else:
                shutil.rmtree(job.compiled, ignore_errors=True)  # the same of a trial that compiled nothing
        return outcomes

    def close(self) -> None:
        """End whatever is still running, at once and without an outcome: the driver is in trouble."""
        for job in self.jobs:
            job.send(signal.SIGKILL)
            job.outcome()
            self.free.append(job.slot)
        self.jobs.clear()
