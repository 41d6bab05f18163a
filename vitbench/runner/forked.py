"""Forked: processes come from a server that has torch loaded, so that none of them, nor the driver, waits for that.

The driver itself never loads torch: two seconds and 200 MiB that it would spend beside its trials, and on a GPU memory
of the device. What it has to know of devices and images is found out in such a process.
"""

from __future__ import annotations

import multiprocessing
import os
import pkgutil
import signal
import traceback
from collections.abc import Mapping
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from typing import Any

from vitbench.runner.orphans import die_with_parent

PRELOADED = ["__main__", "vitbench.runner.work", "vitbench.runner.forkserver"]
""""__main__" too: a process would otherwise import it by itself, from files that may have changed since."""


def server() -> ForkServerContext:
    """The context whose processes are forked from the server; the first of them starts it."""
    # Inductor would start a pool of compilers in each process, which takes the cores from what is timed there.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def forked(function: str, *arguments: object) -> Any:
    """What a function returns in a process of its own. It is named as in "vitbench.devices:named".

    Raises:
        Exception: what the function raises.
        RuntimeError: where the process ends without an answer.
    """
    context = server()
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(theirs, dict(os.environ), function, arguments))
    process.start()
    theirs.close()
    try:
        answer, error = mine.recv()
    except EOFError:
        process.join()
        raise RuntimeError(f"{function} ended with exit status {process.exitcode} and no answer") from None
    finally:
        process.kill()  # after Ctrl-C, too
        process.join()
        mine.close()
    if error is not None:
        raise error
    return answer


def _answer(
    connection: Connection, environment: Mapping[str, str], function: str, arguments: tuple[object, ...]
) -> None:
    """Entry point of the process. Its environment is the caller's of now, not that in which the server was started."""
    die_with_parent(signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller's, which ends this
    os.environ.clear()
    os.environ.update(environment)
    try:
        connection.send((pkgutil.resolve_name(function)(*arguments), None))
    except Exception as error:
        error.add_note(traceback.format_exc())  # a traceback does not travel
        connection.send((None, error))
