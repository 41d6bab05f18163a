"""Foreign load: threads of other processes are counted, and a process' own are not.

The system's counts are given here: real ones depend on whatever else the machine does while tests run.
"""

from pathlib import Path

import pytest

from vitbench.timing import foreign_load
from vitbench.timing.foreign_load import ForeignLoad


@pytest.mark.parametrize(
    ("own", "running", "foreign"),
    [
        ((2, 1), 2, 0),  # a thread of OpenMP spins while all are counted, and is asleep a moment later
        ((1, 2), 2, 0),  # one has just begun
        ((1, 1), 1, 0),
        ((1, 1), 3, 2),
        ((2, 2), 4, 2),
    ],
)
def test_a_thread_of_the_process_that_spins_before_or_after_is_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: tuple[int, int], running: int, foreign: int
) -> None:
    (tmp_path / "stat").write_text(f"cpu 1 2 3\nprocs_running {running}\nprocs_blocked 0\n")
    counts = iter(own)  # before and after
    monkeypatch.setattr(foreign_load, "STAT", tmp_path / "stat")
    monkeypatch.setattr(foreign_load, "_own_runnable", lambda: next(counts))
    load = ForeignLoad()
    load.look()
    assert load.mean() == foreign
