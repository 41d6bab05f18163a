"""A Ray cluster of several nodes on this machine, in a process of its own that is told what to do to it.

``python -m tests.runner.ray_cluster`` reads one JSON command a line and answers each with one line.
"""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

REPOSITORY = Path(__file__).parent.parent.parent


class RayNodes:
    """The cluster as a test sees it."""

    def __init__(self) -> None:
        environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(REPOSITORY)}
        environment["RAY_memory_monitor_refresh_ms"] = "0"  # else it ends workers for the memory that other tests take
        environment["RAY_worker_niceness"] = "0"  # else other tests starve its trials, which then take minutes
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.runner.ray_cluster"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
            cwd=REPOSITORY,
        )  # fmt: skip
        self.address: str = self.ask("address")

    def ask(self, command: str, **arguments: Any) -> Any:
        """Have something done to the cluster; what came of it."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps({"command": command, **arguments}) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, f"the cluster ended at {command}"
        return json.loads(answer)

    def close(self) -> None:
        """End all nodes, also those whose head is dead."""
        family = psutil.Process(self.process.pid).children(recursive=True)
        with self.process:  # closes the pipes; at the end of its input it shuts the cluster down
            assert self.process.stdin is not None
            self.process.stdin.close()
            try:
                self.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self.process.kill()
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def serve() -> None:
    """Hold a head without CPUs, so that trials run on the nodes that are added, and do what is asked."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # Ray prints
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    nodes: list[Any] = []
    for line in sys.stdin:
        asked = json.loads(line)
        command = asked.pop("command")
        answer: Any = None
        if command == "address":
            answer = cluster.address
        elif command == "add":
            nodes.append(cluster.add_node(**asked))
            answer = len(nodes) - 1
        elif command == "lose":
            cluster.remove_node(nodes[asked["node"]], allow_graceful=False)
        elif command == "kill_gcs":
            cluster.head_node.kill_gcs_server()
        answers.write(json.dumps(answer) + "\n")
    cluster.shutdown()


if __name__ == "__main__":
    serve()
