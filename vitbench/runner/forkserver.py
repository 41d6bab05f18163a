"""The module that the fork server imports, and with it all that trials need; nothing else imports it.

It ends with its driver: by itself it would not, since each trial inherits the pipe by whose end it learns that the
driver is gone, so that a trial that is stuck in C code would keep it alive, and it the trial.

What it has imported is put out of the garbage collector's sight: a collection in a trial would write to each object,
and so copy all of their pages into that process. While it imports, it looks for no cycles: that took a seventh of its
start, to free a few megabytes.
"""

import gc
import signal

from vitbench.config.base import uncollected
from vitbench.processes import die_with_parent

with uncollected():
    # Optimisers and meta tensors import it on their first use, which takes a second or two, in each trial anew.
    import torch._dynamo  # noqa: F401

    # The entry points of its processes, and torch with them: loaded here once.
    import vitbench.runner.forked
    import vitbench.runner.work  # noqa: F401

    gc.freeze()

die_with_parent(signal.SIGKILL)
