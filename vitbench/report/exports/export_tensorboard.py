"""TensorBoard: the records of a study as event files, a folder for each run.

Written by TensorBoard's own writer. The one in torch would load torch, and tensorboardX loads torch where it is there.
"""

import re
import tempfile
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from vitbench.config.trial import TimeTrial
from vitbench.report.exports.export_runs import TrackedRun, runs
from vitbench.report.text import unique
from vitbench.report.view import View

FILE = "events.out.tfevents.{began:010d}.vitbench"
"""TensorBoard's own name for it holds the host's name, which no report of ours does."""
LONGEST = 120  # Letters of a folder's name


def exported(view: View) -> dict[str, bytes]:
    """Path of a file → its content: the events of each run."""
    files: dict[str, tuple[str, bytes]] = {}
    several = view.trials["device"].nunique() > 1
    with tempfile.TemporaryDirectory(prefix="vitbench-") as scratch:
        ordered = sorted(runs(view), key=lambda run: (run.planned.trial.kind, run.planned.description))
        for number, run in enumerate(ordered):
            folder = _folder(run, several, files)
            files[folder] = FILE.format(began=int(run.began)), _written(run, Path(scratch) / str(number))
    return {f"{folder}/{name}": content for folder, (name, content) in files.items()}


def _folder(run: TrackedRun, several: bool, taken: Collection[str]) -> str:
    trial, cell = run.planned.trial, run.planned.cell
    rest = run.planned.description.removeprefix(f"{cell}, ")
    if several or isinstance(trial, TimeTrial):
        rest = f"{rest}, {trial.device}"
    return unique("/".join([trial.kind, *(_slug(part) for part in (cell, rest))]), taken)


def _slug(text: str) -> str:
    return re.sub(r"[^\w.=-]+", "-", text, flags=re.ASCII).strip("-.")[:LONGEST] or "run"


def _written(run: TrackedRun, folder: Path) -> bytes:
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(folder))
    for event in _events(run):
        writer.add_event(event)
    writer.close()
    (file,) = folder.iterdir()
    return file.read_bytes()


def _events(run: TrackedRun) -> Iterator[Any]:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams.summary_v2 import hparams_pb
    from tensorboard.plugins.scalar.summary import scalar_pb
    from tensorboard.plugins.text.summary import text_pb

    parameters = {name: _plain(value) for name, value in run.parameters.items()}
    summary = hparams_pb(parameters, trial_id=run.planned.id, start_time_secs=run.began)
    yield Event(wall_time=run.began, step=0, summary=summary)
    for name, table in (("tags", run.tags), ("parameters", parameters)):
        yield Event(wall_time=run.began, step=0, summary=text_pb(name, _table(table.items())))
    last = 0
    for step in run.steps:
        last = step.number
        merged = Summary(value=[v for name, x in step.metrics.items() for v in scalar_pb(name, x).value])
        yield Event(wall_time=step.at, step=step.number, summary=merged)
    final = Summary(value=[v for name, x in run.final.items() for v in scalar_pb(f"final/{name}", x).value])
    yield Event(wall_time=run.ended, step=last, summary=final)


def _plain(value: Any) -> bool | int | float | str:
    return value if isinstance(value, (bool, int, float, str)) else str(value)


def _table(items: Iterable[tuple[str, Any]]) -> str:
    """A Markdown table, which is how TensorBoard shows text; each value as code, so that it is shown as it is."""
    rows = (f"| {name} | `{str(value).replace('`', chr(39)).replace('|', '/')}` |" for name, value in items)
    return "\n".join(["| | |", "| --- | --- |", *(" ".join(row.split()) for row in rows)])
