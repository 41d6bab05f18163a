"""Imported by the fork server alone, when it starts: it ends with its driver.

By itself it would not: each trial inherits the pipe by whose end it learns that the driver is gone, so that a trial
that is stuck in C code would keep it alive, and it the trial.
"""

import signal

from vitbench.runner.process import die_with_parent

die_with_parent(signal.SIGKILL)
