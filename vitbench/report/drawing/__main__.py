"""The process of :class:`vitbench.report.studio.Studio`: ``python -m vitbench.report.drawing FOLDER``.

It reads numbers, one a line, draws the chart in ``FOLDER/<number>.chart`` to ``FOLDER/<number>.png`` and answers with
an empty line, or with what is wrong with the folder. When the numbers end, so does it, and the folder with it: the
process that began it has ended, and what it would still draw nobody waits for.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import sys
import threading
from pathlib import Path
from queue import SimpleQueue

from vitbench.report.drawing.draw import draw


def main(folder: Path) -> None:
    """Draw what is ordered until the process ends."""
    orders, writing = SimpleQueue[str](), threading.Lock()
    threading.Thread(target=_listen, args=(folder, orders, writing), daemon=True).start()
    while True:
        order = folder / orders.get()
        try:
            png = draw(pickle.loads(order.with_suffix(".chart").read_bytes()))
            with writing:
                order.with_suffix(".png").write_bytes(png)
            answer = ""
        except OSError as error:
            answer = error.strerror or str(error)
        with contextlib.suppress(BrokenPipeError):  # nobody waits for it: the other thread is about to end this process
            print(answer, flush=True)  # noqa: T201


def _listen(folder: Path, orders: SimpleQueue[str], writing: threading.Lock) -> None:
    for line in sys.stdin:
        orders.put(line.strip())
    with writing:  # a file that came while the folder is removed would keep it
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
