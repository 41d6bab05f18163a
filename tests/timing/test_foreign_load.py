"""What else ran: threads of other processes are counted, and a process' own are not."""

from __future__ import annotations

import statistics
import subprocess
import sys

from vitbench.timing.foreign_load import ForeignLoad

# torch's threads spin for a while after each product. A sample that is taken at that moment must know them for its own.
LOOK = """
import time, torch
from vitbench.timing.foreign_load import ForeignLoad
torch.set_num_threads(2)
tokens, weight = torch.randn(64 * 65, 64), torch.randn(64, 256)
at_once, later = ForeignLoad(), ForeignLoad()
for _ in range(60):
    for _ in range(20):
        torch.nn.functional.gelu(tokens @ weight)
    at_once.look()
    time.sleep(0.01)
    later.look()
print(at_once.mean() - later.mean())
"""


def test_threads_of_the_process_that_still_spin_are_its_own() -> None:
    """Both are taken in turn, so that other work on the machine counts in each."""
    differences = [
        float(subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    ]
    assert statistics.median(differences) < 0.3


def test_threads_of_another_process_are_counted() -> None:
    alone, beside = ForeignLoad(), ForeignLoad()
    for _ in range(20):
        alone.look()
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        for _ in range(20):
            beside.look()
    finally:
        busy.kill()
        busy.wait()
    assert beside.mean() is not None and alone.mean() is not None
    assert statistics.median(beside.samples) >= statistics.median(alone.samples) + 1
