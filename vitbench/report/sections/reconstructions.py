"""Reconstructions: what masked autoencoders made of images, as the records hold them."""

import base64
import functools

from vitbench.config.trial import TrainTrial
from vitbench.report.document import Block
from vitbench.report.output import Files
from vitbench.report.text import cut, enumerated
from vitbench.report.view import View
from vitbench.store import TrainValues
from vitbench.wording import plural

MOST = 6  # Cells that are shown
CAPTION = (
    "{cells}{same}: {whose} images, below them what was seen of each, and below that what {epochs} of masked "
    "pre-training made of it (loss {first:.3f} in the first, {last:.3f} in the last). Mean and contrast of each hidden "
    "patch are the image's own."
)


def section(view: View, files: Files) -> list[Block]:
    """Pictures of the first seed of the first ``MOST`` cells that were pre-trained without labels, equal ones once."""
    trained = [p for p in view.planned if isinstance(p.trial, TrainTrial) and p.trial.train.pretrain_epochs]
    wanted = [planned for planned in trained if planned.id in view.results.standing]
    values_of = {trial_id: values for trial_id, _, values in view.values_of_runs(p.id for p in wanted[:MOST])}
    pictures: dict[str, tuple[TrainValues, list[str]]] = {}
    for planned in wanted[:MOST]:
        values = values_of.get(planned.id)
        if values is not None and values.reconstructions is not None and values.pretraining:
            pictures.setdefault(values.reconstructions, (values, []))[1].append(planned.cell)
    blocks: list[Block] = []
    for number, (encoded, (values, cells)) in enumerate(pictures.items(), 1):
        epochs, named = values.pretraining, enumerated(cells)
        facts = {
            "cells": named, "same": " (the same in all of them)" if len(cells) > 1 else "",
            "whose": "validation" if values.validation_images else "training", "epochs": plural(len(epochs), "epoch"),
            "first": epochs[0].train_loss, "last": epochs[-1].train_loss,
        }  # fmt: skip
        alt = f"Images, what was seen of them, and what a masked autoencoder made of that: {named}"
        png = functools.partial(base64.b64decode, encoded)
        blocks.append(files.image(f"reconstructions-{number}", png, alt, CAPTION.format_map(facts)))
    return [*blocks, *cut(len(wanted), MOST, "pre-trained cell")] if blocks else []
