"""Foreign load: what else ran on the machine while something was timed.

Source: pyperf's ``system`` checks (psf/pyperf) look at the load average, which is a minute behind; the number of
runnable threads is of the moment.
"""

import contextlib
import statistics
from pathlib import Path

STAT = Path("/proc/stat")
OWN = Path("/proc/self/task")


class ForeignLoad:
    """Samples of the number of threads of other processes that are running or waiting for a core."""

    def __init__(self) -> None:
        self.samples: list[int] = []

    def look(self) -> None:
        """Take a sample; nothing where the system does not tell."""
        with contextlib.suppress(OSError):  # not Linux
            # Before, too: a thread of OpenMP that still spins when all are counted is asleep when it is looked at.
            before = _own_runnable()
            line = next(text for text in STAT.read_text().splitlines() if text.startswith("procs_running"))
            self.samples.append(max(int(line.split()[1]) - max(before, _own_runnable()), 0))

    def mean(self) -> float | None:
        """Threads in the mean over the samples; None where there are none."""
        return round(statistics.fmean(self.samples), 3) if self.samples else None


def _own_runnable() -> int:
    count = 0
    for task in OWN.iterdir():
        with contextlib.suppress(OSError):  # it has just ended
            count += (task / "stat").read_text().rpartition(")")[2].split()[0] == "R"
    return count
