"""Forked: processes that are forked from a server with torch loaded, so that each starts at once.

The driver itself never loads torch, which would take it two seconds and 650 MiB, and memory of a GPU. Questions about
devices and images are answered by such a process.
"""

import contextlib
import multiprocessing
import os
import pkgutil
import signal
import sys
import threading
import traceback
from collections.abc import Mapping
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from vitbench.errors import UserError
from vitbench.processes import die_with_parent, mark

PRELOADED = ["__main__", "vitbench.runner.forkserver"]
""""__main__" too, which Python takes note of from 3.13.9 and 3.14.1 on: a process would otherwise import it by itself,
from files that may have changed since."""


PATHS = ("PYTHONPATH", "PYTHONSAFEPATH")
"""Variables that say from where Python imports."""


def start(function: str, *arguments: object) -> ForkServerProcess:
    """Start a process that calls a function, and first the server where there is none, or it was killed.

    Args:
        function: its module and name, such as "vitbench.devices:names"; the caller need not import it.
        arguments: its arguments, which are pickled.

    Raises:
        EOFError, ConnectionError: where the server has gone twice.
    """
    try:
        return _start(function, arguments)
    except (EOFError, ConnectionError):
        end_server()  # its files are closed a moment before it is dead, and it would be asked again
        return _start(function, arguments)


def _start(function: str, arguments: tuple[object, ...]) -> ForkServerProcess:
    """Start a process, and the server where none runs.

    The server imports from where this process does: by itself it would look into the current folder first, where a
    ``random.py`` may lie, or another vitbench. It ignores Ctrl-C from its first moment: multiprocessing has it do so
    only once all is loaded. It inherits that, which a thread cannot arrange; those of Ray's actors have no terminal.
    """
    # Inductor would start a pool of compilers in each process, which takes the cores from what is timed there.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    mark()  # into the environment of the server and its processes: a later driver ends what this one leaves running
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    paths = {name: os.environ.get(name) for name in PATHS}
    process = context.Process(target=_call, args=(function, arguments, paths), daemon=False)
    os.environ.update(PYTHONPATH=os.pathsep.join(str(Path(path).absolute()) for path in sys.path), PYTHONSAFEPATH="1")
    try:
        if threading.current_thread() is threading.main_thread():
            before = signal.signal(signal.SIGINT, signal.SIG_IGN)
            try:
                forkserver.ensure_running()
            finally:
                signal.signal(signal.SIGINT, before)
        process.start()
    finally:
        _set(paths)
    return process


def _call(function: str, arguments: tuple[object, ...], paths: Mapping[str, str | None]) -> None:
    _set(paths)
    pkgutil.resolve_name(function)(*arguments)


def _set(variables: Mapping[str, str | None]) -> None:
    """Variables of the environment as they are given; None removes one."""
    for name, value in variables.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


def end_server() -> None:
    """End the fork server, if there is one: the next process starts another, which reads the environment anew."""
    pid = getattr(forkserver._forkserver, "_forkserver_pid", None)
    if pid is not None:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # multiprocessing itself takes the exit status


def forked(function: str, *arguments: object) -> Any:
    """Call a function in a process of its own and return its result. For its name see :func:`start`.

    Raises:
        Exception: what the function raises.
        UserError: where the process ends without an answer.
    """
    receiver, sender = multiprocessing.Pipe(duplex=False)
    try:
        process = start("vitbench.runner.forked:_answer", sender, dict(os.environ), function, arguments)
        sender.close()
        answer, error = receiver.recv()
        process.join()
    except (EOFError, ConnectionError):
        raise UserError("the process that looks for devices and images was ended: out of memory?") from None
    except (KeyboardInterrupt, SystemExit):
        end_server()  # and with it the process, whether it has started or is still to
        raise
    finally:
        receiver.close()
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
    with contextlib.suppress(BrokenPipeError):  # the caller was killed
        try:
            connection.send((pkgutil.resolve_name(function)(*arguments), None))
        except Exception as error:  # whatever it is: the caller raises it
            error.add_note(traceback.format_exc())  # a traceback does not travel
            connection.send((None, error))
