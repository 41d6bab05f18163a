"""A Ray cluster: Ray Core places one supervisor for each worker, and each supervises its trials as a driver would.

Ray is asked for machines only. States, time-outs, retries and records stay with the driver, which alone writes to the
study's folder: whatever part of the cluster is lost, what was finished is not. A supervisor that dies with its node
costs one attempt at the trial that it ran.

Source: Moritz et al. 2018, "Ray: A Distributed Framework for Emerging AI Applications"; actors of
https://docs.ray.io/en/latest/ray-core/.
"""

import contextlib
import importlib.util
import os
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from vitbench.config.recipe import Device
from vitbench.config.trial import Trial
from vitbench.environment import Environment, code_digest
from vitbench.runner.backends.backend import BackendError, BackendOptions
from vitbench.runner.backends.local import cores, scratch
from vitbench.runner.device_kind import device_kind
from vitbench.runner.messages import Request
from vitbench.runner.process import GRACE_SECONDS, Outcome, Pool, Say, Slot, Started, Stop
from vitbench.runner.turns import turns
from vitbench.wording import plural

LOCAL = "local"
CONNECT_SECONDS = 5.0
PROBE_SECONDS = 20.0
"""Connecting, handshake included; Ray's own patience is longer, and ends with the end of the process."""

POLL_SECONDS = 0.2
ASK_SECONDS = 1.0  # Time between two questions about a trial's progress
ROOM_SECONDS = 1.0  # Time between two looks at how much room the cluster has: nodes come and go
WAIT_SECONDS = 30.0  # Time after which a run that has no supervisor yet says what it waits for
DEATHS_MOST = 5  # Supervisors that die in starting before one has started, after which the run ends
STOP_SECONDS = GRACE_SECONDS + 3.0  # Time after which a supervisor that was told to stop is killed
CARRIED = ("VITBENCH_DATA", "TORCHINDUCTOR_COMPILE_THREADS")
"""Variables of the driver's environment that its supervisors get too."""


class RayBackend:
    """A Ray cluster; with the address "local" of a Ray that is started for this run, on this machine."""

    def __init__(self, options: BackendOptions) -> None:
        """Raises BackendError within half a minute where the cluster cannot be used."""
        self.options = options
        self.address = options.address or os.environ.get("RAY_ADDRESS") or LOCAL
        self.ray = _connect(self.address)
        self.total = total = self.ray.cluster_resources()
        self.device: Device = device_kind(options.device) if options.device != "auto" else "cpu"
        if options.device == "auto" and total.get("GPU", 0) > 0:
            self.device = "cuda"
        if ":" in options.device:
            raise BackendError(f"--device {options.device}: Ray chooses the GPU of each trial; say --device cuda")
        self.cpus, gpus = options.resources.cpus or 1, options.resources.gpus
        self.gpus = (1.0 if self.device == "cuda" else 0.0) if gpus is None else gpus
        self.share = plural(self.cpus, "CPU") + (f" and {self.gpus:g} of its GPUs" if self.gpus else "")
        nodes = sum(node["Alive"] for node in self.ray.nodes())
        there = f"{total.get('CPU', 0):g} CPUs, {total.get('GPU', 0):g} GPUs"
        self.where = f"Ray at {self.address}: {plural(nodes, 'node')}, {there}"

    def refuses(self, trial: Trial) -> tuple[str, Environment | None] | None:
        """Why no device of this type can run a trial; the rest is found out where the trial runs."""
        reason = trial.unsupported(self.device)
        return (reason, None) if reason else None

    def training(self, started: Started) -> AbstractContextManager["RayPool"]:
        """A pool of as many supervisors as workers were asked for, else as many as the cluster has room for."""
        if self.address == LOCAL and not self.room():
            raise BackendError(f"{self.where}; each trial asks for {self.share}: change [resources], or name a cluster")
        reserved = {"num_cpus": self.cpus, "num_gpus": self.gpus}
        return self._pool(reserved, self.cpus, self.options.workers, alone=False)

    def timing(self, started: Started) -> AbstractContextManager["RayPool"]:
        """One supervisor that has all CPUs of a node, so that nothing else of Ray's runs there."""
        node = self.roomiest()
        cpus = node["Resources"].get("CPU", 1.0)
        affinity = self.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        gpus = 1.0 if self.device == "cuda" else 0.0
        reserved = {"num_cpus": cpus, "num_gpus": gpus, "scheduling_strategy": affinity}
        return self._pool(reserved, int(cpus), 1, alone=True)

    @contextlib.contextmanager
    def _pool(self, reserved: dict[str, Any], threads: int, count: int | None, *, alone: bool) -> Iterator["RayPool"]:
        """A pool; that of a Ray of this run's own holds this machine's devices against other drivers."""
        options, gpus = self.options, range(int(self.total.get("GPU", 0)))
        devices: list[str] = [f"cuda:{i}" for i in gpus] if self.device == "cuda" else [str(self.device)]
        turn = turns(devices, options.study, options.stop, options.say, alone=alone, patient=not options.no_wait)
        with (
            turn if self.address == LOCAL else contextlib.nullcontext(),
            contextlib.closing(RayPool(self, reserved, threads, count)) as pool,
        ):
            yield pool

    def roomiest(self) -> dict[str, Any]:
        """The node with the device and the most CPUs. Raises BackendError where there is none."""
        alive = [n for n in self.ray.nodes() if n["Alive"]]
        fit = [n for n in alive if self.device != "cuda" or n["Resources"].get("GPU", 0) >= 1]
        if not fit:
            raise BackendError(f"Ray at {self.address}: none of its {len(alive)} nodes has a {self.device} device")
        node: dict[str, Any] = max(fit, key=lambda n: n["Resources"].get("CPU", 0))
        return node

    def room(self) -> int:
        """Trials that the cluster could train at once, were it empty."""
        trials = 0
        for node in self.ray.nodes():
            if node["Alive"]:
                have = node["Resources"]
                by_gpu = have.get("GPU", 0) // self.gpus if self.gpus else float("inf")
                trials += int(min(have.get("CPU", 0) // self.cpus, by_gpu))
        return trials

    def close(self) -> None:
        """Leave the cluster; end it, if it was started for this run."""
        self.ray.shutdown()


@dataclass
class RemoteWorker:
    """A supervisor on a node, seen from the driver."""

    actor: Any
    ready: Any  # Object reference of its first answer; None once that has come
    request: Request | None = None
    result: Any = None  # Object reference of how the request ends
    progress: Any = None  # Object reference of the progress that the supervisor was last asked for
    ask_at: float = 0.0
    since: datetime = field(default_factory=lambda: datetime.now(UTC))
    stop_by: float | None = None  # When it is killed, after it was told to stop


class RayPool:
    """Workers of a cluster. Supervisors that die are replaced as long as there is room and work."""

    def __init__(self, cluster: RayBackend, reserved: dict[str, Any], threads: int, count: int | None) -> None:
        """``reserved``: by Ray for each supervisor; ``count``: None for as many as there is room for."""
        self.cluster, self.ray, self.stop = cluster, cluster.ray, cluster.options.stop
        self.slot = Slot("cuda:0" if cluster.device == "cuda" else cluster.device, threads)
        self.remote = self.ray.remote(Supervisor).options(max_concurrency=2, max_restarts=0, **reserved)
        self.count = count
        self.workers: list[RemoteWorker] = []
        self.waits = False
        self.began: float | None = time.monotonic()
        """When the first supervisor was asked for; None once one has started."""
        self.deaths = 0
        self.room, self.look_at_room, self.look_at_alive = 0, 0.0, 0.0

    def run(self, requests: Iterator[Request], say: Say) -> Iterator[Outcome]:
        """Outcomes as they come. Raises BackendError where the cluster itself is lost."""
        exhausted = False
        while True:
            self.replace_dead(exhausted)
            for worker in [w for w in self.workers if w.ready is None and w.request is None]:
                if not exhausted and self.stop.signal is None:
                    request = next(requests, None)
                    exhausted = request is None
                    if request is not None:
                        self.begin(worker, request)
            if not any(w.request for w in self.workers) and (exhausted or self.stop.signal is not None):
                return
            yield from self.look(say)

    def replace_dead(self, exhausted: bool) -> None:
        """Ask for as many supervisors as there is room for."""
        if exhausted or self.stop.signal is not None:
            return
        try:
            if self.count is None and time.monotonic() >= self.look_at_room:
                self.room, self.look_at_room = self.cluster.room(), time.monotonic() + ROOM_SECONDS
        except Exception as error:
            raise self.lost(error) from error
        wanted = self.count or self.room
        if wanted == 0 and not self.waits:
            self.cluster.options.say(f"waiting: {self.cluster.where}, and none has room for a trial of "
                                     f"{self.cluster.share}")  # fmt: skip
            self.waits = True
        while len(self.workers) < wanted:
            variables = {name: os.environ[name] for name in CARRIED if name in os.environ}
            actor = self.remote.remote(self.slot, str(Path.cwd()), variables)
            self.workers.append(RemoteWorker(actor, actor.code.remote()))

    def begin(self, worker: RemoteWorker, request: Request) -> None:
        """Send a request to a supervisor that waits for one."""
        worker.request, worker.since, worker.ask_at = request, datetime.now(UTC), time.monotonic() + ASK_SECONDS
        worker.result = worker.actor.run.remote(request)

    def look(self, say: Say) -> Iterator[Outcome]:
        """Wait a moment for something to happen; outcomes of what has ended by then."""
        self.look_at_nodes()
        if self.began is not None and time.monotonic() - self.began > WAIT_SECONDS and not self.waits:
            self.cluster.options.say(f"waiting: {self.cluster.where}, and no worker has started in {WAIT_SECONDS:g} "
                                     "s; other work may hold them (`ray status` shows it)")  # fmt: skip
            self.waits = True
        waiting = [ref for w in self.workers for ref in (w.ready, w.result, w.progress) if ref is not None]
        if not waiting:
            time.sleep(POLL_SECONDS)
            return
        try:
            ready, _ = self.ray.wait(waiting, num_returns=1, timeout=POLL_SECONDS)
        except Exception as error:
            raise self.lost(error) from error
        for worker in [w for w in self.workers if any(ref in ready for ref in (w.ready, w.result, w.progress))]:
            if worker.ready is not None:
                self.greet(worker)
            elif worker.result in ready:
                yield self.outcome(worker)
            else:
                self.pass_on(worker, say)
        for worker in [w for w in self.workers if w.result is not None and w.progress is None]:
            if time.monotonic() >= worker.ask_at:
                worker.progress, worker.ask_at = worker.actor.progress.remote(), time.monotonic() + ASK_SECONDS
        yield from self.press()

    def look_at_nodes(self) -> None:
        """Raises BackendError where no node is left of a Ray that was started for this run: no other will come."""
        if self.cluster.address != LOCAL or time.monotonic() < self.look_at_alive:
            return
        self.look_at_alive = time.monotonic() + ROOM_SECONDS
        try:
            alive = any(node["Alive"] for node in self.ray.nodes())
        except Exception as error:
            raise self.lost(error) from error
        if not alive:
            raise self.lost(RuntimeError("no node is left"))

    def pass_on(self, worker: RemoteWorker, say: Say) -> None:
        """Hand on a running request's progress since the last time."""
        with contextlib.suppress(self.ray.exceptions.RayError):  # if it is lost, its result will say so
            for text in self.ray.get(worker.progress):
                if worker.request is not None:
                    say(worker.request, text)
        worker.progress = None

    def greet(self, worker: RemoteWorker) -> None:
        """A supervisor has started, or failed to. Raises BackendError where it has other code than the driver."""
        try:
            code = self.ray.get(worker.ready)
        except self.ray.exceptions.RayTaskError as error:
            raise BackendError(f"Ray at {self.cluster.address}: vitbench cannot start on a node: {error}") from error
        except self.ray.exceptions.RayError as error:
            self.workers.remove(worker)
            self.deaths += 1
            if self.began is not None and self.deaths >= DEATHS_MOST:
                raise BackendError(f"Ray at {self.cluster.address}: {self.deaths} workers died in starting: "
                                   f"{_first_line(error)}") from error  # fmt: skip
            return
        self.began = None
        if code != code_digest():
            raise BackendError(f"Ray at {self.cluster.address}: a node has vitbench of code {code}, the driver "
                                f"{code_digest()}; install the same on all of them")  # fmt: skip
        worker.ready = None

    def outcome(self, worker: RemoteWorker) -> Outcome:
        """How a request ended, or what became of it without its supervisor."""
        assert worker.request is not None
        request = worker.request
        try:
            outcome: Outcome = replace(self.ray.get(worker.result), request=request)
        except self.ray.exceptions.RayTaskError as error:
            last = str(error.cause or error).splitlines()[-1]
            seconds = (datetime.now(UTC) - worker.since).total_seconds()
            outcome = Outcome(request, "crashed", worker.since, seconds, f"the supervisor failed: {last}")
        except self.ray.exceptions.RayError as error:
            self.workers.remove(worker)
            return self.without_supervisor(worker, error)
        worker.request = worker.result = worker.progress = worker.stop_by = None
        return outcome

    def without_supervisor(self, worker: RemoteWorker, error: Exception) -> Outcome:
        """Outcome of a request whose supervisor is gone: with its node, killed, or ended when it did not stop."""
        assert worker.request is not None
        seconds = (datetime.now(UTC) - worker.since).total_seconds()
        if self.stop.signal is not None:
            reason = f"stopped by signal {self.stop.signal}"
            return Outcome(worker.request, "interrupted", worker.since, seconds, reason)
        reason = f"its Ray worker or node was lost ({_first_line(error)})"
        return Outcome(worker.request, "crashed", worker.since, seconds, reason)

    def press(self) -> Iterator[Outcome]:
        """Once the driver is to stop: tell the supervisors, and kill those that do not."""
        if self.stop.signal is None:
            return
        for worker in [w for w in self.workers if w.request is not None]:
            if worker.stop_by is None:
                worker.stop_by = time.monotonic() + STOP_SECONDS
                worker.actor.stop.remote(self.stop.signal)
            elif time.monotonic() >= worker.stop_by:
                self.ray.kill(worker.actor)
                self.workers.remove(worker)
                yield self.without_supervisor(worker, TimeoutError())

    def lost(self, error: Exception) -> BackendError:
        """The cluster cannot be asked any more."""
        return BackendError(
            f"Ray at {self.cluster.address} is lost: {error}; what had finished is recorded, and the same command goes "
            f"on from here, also with --launcher local"
        )

    def close(self) -> None:
        """Give the machines back."""
        for worker in self.workers:
            with contextlib.suppress(Exception):  # the cluster may be gone
                self.ray.kill(worker.actor)
        self.workers.clear()


class Supervisor:
    """Runs on a node: one trial at a time, each in a process of its own."""

    def __init__(self, slot: Slot, folder: str, variables: dict[str, str]) -> None:
        """``folder``: the driver's, to which paths in a suite are relative; ``variables``: of its environment."""
        os.environ.update(variables)
        # Each trial's process would run the main script of this one again, which imports all of Ray; a package's main
        # module is what multiprocessing leaves alone.
        sys.modules["__main__"].__spec__ = importlib.util.find_spec("vitbench.__main__")
        if Path(folder).is_dir():
            os.chdir(folder)
        self.to_stop = Stop()
        self.texts: deque[str] = deque()
        self.scratch = contextlib.ExitStack()
        self.pool = Pool([slot], self.scratch.enter_context(scratch()), self.to_stop)

    def code(self) -> str:
        """State of the code on this node."""
        return code_digest()

    def run(self, request: Request) -> Outcome:
        """How the process of a request ended."""
        if request.checkpoint and not request.checkpoint.parent.is_dir():  # the study's folder is not on this node
            request = replace(request, checkpoint=None)
        self.pool.start(request)
        while True:
            for outcome in self.pool.tick(lambda _, text: self.texts.append(text)):
                self.texts.clear()
                return outcome

    def progress(self) -> list[str]:
        """The last text of the process since this was last asked."""
        texts = [self.texts.popleft() for _ in range(len(self.texts))]
        return texts[-1:]

    def stop(self, number: int) -> None:
        """End what runs, as after a signal."""
        self.to_stop.signal = number


def _first_line(error: Exception) -> str:
    """Type and first line of one of Ray's errors, whose messages run to pages."""
    what = next((line.strip() for line in str(error).splitlines() if line.strip()), "no reason given")
    return f"{type(error).__name__}: {what[:200]}"


def _connect(address: str) -> Any:
    """Ray, connected, with telemetry and dashboard off. Raises BackendError."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # CPU trials leave CUDA_VISIBLE_DEVICES alone
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError as error:
        raise BackendError("--launcher ray needs the package ray: pip install 'vitbench[ray]'") from error
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if address == LOCAL:
        os.environ.setdefault("RAY_worker_niceness", "0")  # 15 is Ray's: any process beside a trial would starve it
        ray.init(address=LOCAL, num_cpus=cores(), include_dashboard=False, **quiet)
        return ray
    _probe(address, ray.__version__)
    ray.init(address=address, **quiet)
    return ray


def _probe(address: str, version: str) -> None:
    """Make sure that a cluster answers, in a process of its own: Ray ends a process that cannot connect."""
    remedy = (
        "start one with `ray start --head --port=6379` and name it with --address HOST:6379, or use --launcher local"
    )
    host, colon, port = address.rpartition(":")
    if address != "auto" and (not colon or not port.isdigit() or "/" in host):
        raise BackendError(f'--address {address}: must be HOST:PORT of a Ray head, "auto" or "{LOCAL}"')
    if address != "auto":
        try:
            socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
        except OSError as error:
            raise BackendError(f"Ray at {address} cannot be reached: {error}; {remedy}") from error
    code = f"import ray; ray.init(address={address!r}, log_to_driver=False, logging_level='error'); ray.shutdown()"
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=PROBE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise BackendError(
            f"{address} answers, but not as a Ray {version} within {PROBE_SECONDS:g} s; {remedy}"
        ) from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        message = " ".join(line.strip() for line in lines[-4:]) if lines else f"exit status {done.returncode}"
        raise BackendError(f"Ray at {address} cannot be used from Ray {version}: {message[:500]}; {remedy}")
