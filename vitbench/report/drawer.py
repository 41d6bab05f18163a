"""The process of :class:`vitbench.report.studio.Studio`: ``python -m vitbench.report.drawer FOLDER``.

Charts come through standard input. Each is drawn to ``FOLDER/<number>.png`` and ``.svg``, in the order in which they
come, and answered by a line: an empty one, or what is wrong with the folder. When they end, so does this process, and
the folder with it: the process that began it has ended, and what it would still draw nobody waits for.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import sys
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue

from vitbench.report.pictures.charts import Chart

STDIN = 0


def main(folder: Path) -> None:
    """Draw what is ordered until the process ends."""
    orders, writing = SimpleQueue[Chart](), threading.Lock()
    threading.Thread(target=_listen, args=(folder, orders, writing), daemon=True).start()
    from vitbench.report.drawing import draw  # takes a second, in which the end may come

    for number in itertools.count(1):
        drawn = draw(orders.get())
        answer = ""
        try:
            with writing:
                (folder / f"{number}.png").write_bytes(drawn.png)
                (folder / f"{number}.svg").write_text(drawn.svg, encoding="utf-8")
        except OSError as error:
            answer = error.strerror or str(error)
        with contextlib.suppress(BrokenPipeError):  # nobody waits for it: the other thread is about to end this process
            print(answer, flush=True)  # noqa: T201 - its answer to the one that began it, on a pipe


def _listen(folder: Path, orders: SimpleQueue[Chart], writing: threading.Lock) -> None:
    try:
        with contextlib.suppress(EOFError, OSError), Connection(STDIN, writable=False) as charts:
            while True:
                orders.put(charts.recv())  # an OSError where they end in the middle of one
    finally:
        with writing:  # a file that came while the folder is removed would keep it
            shutil.rmtree(folder, ignore_errors=True)
            os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
