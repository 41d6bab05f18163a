"""Reconstructions: what masked autoencoders made of images, as the records hold them."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from vitbench.report.view import View, plural
from vitbench.spec.trial import TrainTrial
from vitbench.store import TrainValues

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


def sheets(view: View) -> list[Sheet]:
    """Of each cell that was pre-trained without labels, the pictures of its first seed; of the first ``MOST`` cells."""
    wanted = [p for p in view.planned if isinstance(p.trial, TrainTrial) and p.trial.train.pretrain_epochs]
    standing = view.results.standing
    attempts = [standing[p.id] for p in wanted if p.id in standing][:MOST]
    found = {attempt.trial_id: record.values for attempt, record in view.study.records_of(attempts)}
    made: list[Sheet] = []
    for planned in wanted:
        values = found.get(planned.id)
        if not isinstance(values, TrainValues) or values.reconstructions is None or not values.pretraining:
            continue
        epochs, whose = values.pretraining, "validation" if values.validation_images else "training"
        made.append(
            Sheet(
                f"reconstructions-{len(made) + 1}",
                base64.b64decode(values.reconstructions),
                f"Images, what was seen of them, and what a masked autoencoder made of that: {planned.cell}",
                f"{planned.cell}: {whose} images, below what was seen of them, and below that what "
                f"{plural(len(epochs), 'epoch')} of masked pre-training made of it (loss {epochs[0].train_loss:.3f} "
                f"in the first, {epochs[-1].train_loss:.3f} "
                "in the last). Mean and contrast of each hidden patch are the image's own.",
            )
        )
    return made
