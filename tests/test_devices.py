"""Devices: true float32 on them, and what is told of a process's memory."""

import os
import subprocess
import sys

import pytest
import torch

from vitbench.devices import PeakMemory, resolve

CPU = torch.device("cpu")


def test_float32_is_true_float32_on_a_device_once_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for backend in (torch.backends.cudnn, torch.backends.cuda.matmul):
        monkeypatch.setattr(backend, "allow_tf32", True)
    resolve("cpu")
    assert not torch.backends.cudnn.allow_tf32 and not torch.backends.cuda.matmul.allow_tf32


KEEPING = """
import sys, torch
from vitbench.memory import keep_freed_memory, status_mib
keep_freed_memory() if sys.argv[1] == "keep" else None
before = status_mib("VmRSS")
held = torch.ones(2**24)
del held
print(status_mib("VmRSS") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="of glibc")
@pytest.mark.parametrize(("what", "kept"), [("keep", True), ("as it is", False)])
def test_what_a_process_frees_is_kept_where_that_is_asked_for(what: str, kept: bool) -> None:
    done = subprocess.run([sys.executable, "-c", KEEPING, what], capture_output=True, text=True, check=True)
    assert (float(done.stdout) > 60) is kept, "of 64 MiB"


def test_what_is_uncounted_leaves_the_peak_alone() -> None:
    if not os.access("/proc/self/clear_refs", os.W_OK):
        pytest.skip("this kernel does not let a process forget its peak")
    memory = PeakMemory(CPU)
    with memory.uncounted():
        torch.ones(50_000_000)
    before = memory.mib()
    assert before < 150, "200 MB were used"
    torch.ones(50_000_000)
    assert memory.mib() > before + 150


def test_what_was_freed_before_does_not_hide_the_peak() -> None:
    held = [torch.ones(2**14) for _ in range(4000)]  # 250 MiB in parts small enough to lie on the heap
    pin = held[-1]  # at its end: the system gets nothing back by itself
    del held
    memory = PeakMemory(CPU)
    taken = [torch.ones(2**14) for _ in range(4000)]
    assert memory.mib() > 200
    assert len(taken) == 4000 and pin.sum() == 2**14
