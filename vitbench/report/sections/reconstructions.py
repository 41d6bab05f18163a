"""Reconstructions: what masked autoencoders made of images, as the records hold them."""

from __future__ import annotations

import base64
import functools
from dataclasses import dataclass

from vitbench.config.trial import TrainTrial
from vitbench.report.document import Block
from vitbench.report.inline import Md
from vitbench.report.output import Files
from vitbench.report.text import enumerated, plural
from vitbench.report.view import View
from vitbench.store import PlannedTrial, TrainValues

MOST = 6
"""Cells that are shown."""


@dataclass(frozen=True)
class Sheet:
    """A picture that a trial made.

    Attributes:
        name: of its file, without folder and ending.
        png: its bytes.
        alt: what it shows, for those who do not see it; plain text.
        caption: how to read it; plain text.
    """

    name: str
    png: bytes
    alt: str
    caption: str


def section(view: View, files: Files) -> list[Block]:
    """A sheet for each pre-training; nothing where no cell was pre-trained."""
    made = sheets(view)
    found = [files.image(each.name, functools.partial(bytes, each.png), each.alt, each.caption) for each in made]
    return [*found, *beyond(view)] if found else []


def sheets(view: View) -> list[Sheet]:
    """Of each cell that was pre-trained without labels, the picture of its first seed; of the first ``MOST`` cells.

    Cells that start from the same pre-training have the same picture, which is shown once.
    """
    found: dict[bytes, tuple[TrainValues, list[str]]] = {}
    wanted = _wanted(view)[:MOST]
    standing = view.results.standing
    records = view.study.records_of([standing[planned.id] for planned in wanted])
    values_of = {attempt.trial_id: record.values for attempt, record in records}
    for planned in wanted:
        values = values_of.get(planned.id)
        if isinstance(values, TrainValues) and values.reconstructions is not None and values.pretraining:
            found.setdefault(base64.b64decode(values.reconstructions), (values, []))[1].append(planned.cell)
    return [_sheet(number, png, *of) for number, (png, of) in enumerate(found.items(), 1)]


def beyond(view: View) -> list[Md]:
    """What is said where more cells were pre-trained than are shown."""
    number = len(_wanted(view))
    return [Md(f"Of {number:,} cells that were pre-trained the first {MOST} are shown.")] if number > MOST else []


def _wanted(view: View) -> list[PlannedTrial]:
    """The first seed of each cell that was pre-trained and has a record."""
    trained = [p for p in view.planned if isinstance(p.trial, TrainTrial) and p.trial.train.pretrain_epochs]
    return [planned for planned in trained if planned.id in view.results.standing]


def _sheet(number: int, png: bytes, values: TrainValues, cells: list[str]) -> Sheet:
    epochs, whose = values.pretraining, "validation" if values.validation_images else "training"
    named = enumerated(cells)
    same = " (the same in all of them)" if len(cells) > 1 else ""
    return Sheet(
        f"reconstructions-{number}",
        png,
        f"Images, what was seen of them, and what a masked autoencoder made of that: {named}",
        f"{named}{same}: {whose} images, below them what was seen of each, and below that what "
        f"{plural(len(epochs), 'epoch')} of masked pre-training made of it (loss {epochs[0].train_loss:.3f} "
        f"in the first, {epochs[-1].train_loss:.3f} "
        "in the last). Mean and contrast of each hidden patch are the image's own.",
    )
