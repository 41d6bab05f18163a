"""Same batches: whether cells with equal data settings saw equal batches, by the digests in their records."""

from collections import Counter
from collections.abc import Iterable

import pandas as pd

from vitbench.config.base import by_identity, dumps
from vitbench.config.trial import TrainTrial, images_body
from vitbench.store.plan_tables import PlannedTrial

OF_BATCHES = (
    "batch_size", "crop_padding", "flip", "augment", "randaugment_operations", "randaugment_level", "randaugment_scale",
    "cutout", "erasing", "mixup", "cutmix", "repeats",
)  # fmt: skip
"""Fields of the recipe that make a batch, beside the data and the seed."""


def unlike_batches(train: pd.DataFrame, planned: Iterable[PlannedTrial]) -> list[tuple[int, list[str], str]]:
    """(seed, cells, one of the others) where cells saw other batches than most that ask for the same with that seed,
    among finished training trials of one device and environment.

    Args:
        train: rows of kind "train" of :func:`vitbench.analysis.frames.trials_frame`.
        planned: the trials of the plan; of those that differ in the seed alone one is enough.
    """
    recipe = by_identity(lambda train: dumps([getattr(train, name) for name in OF_BATCHES]))
    asked = {
        (p.cell, p.trial.device): recipe(p.trial.train) + dumps(images_body(p.trial.data, p.trial.data_identity))
        for p in planned
        if isinstance(p.trial, TrainTrial)
    }
    rows = train[(train["state"] == "ok") & train["batches_digest"].notna()]
    batches = [asked.get(key, "") for key in zip(rows["cell"], rows["device"], strict=True)]
    exceptions = []
    for _, alike in rows.assign(batches=batches).groupby(["device", "environment", "seed", "batches"], sort=False):
        digests = Counter(alike["batches_digest"])
        if len(digests) > 1:
            usual = alike["batches_digest"] == digests.most_common(1)[0][0]
            others, most = alike.loc[~usual, "cell"], alike.loc[usual, "cell"].iloc[0]
            exceptions.append((int(alike["seed"].iloc[0]), list(others), str(most)))
    return exceptions
