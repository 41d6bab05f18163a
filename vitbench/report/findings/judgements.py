"""Judgements: the verdicts on a study's training runs, for each device and origin apart."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pandas as pd

from vitbench.analysis.conclusions import Conclusions, conclude
from vitbench.analysis.factorial import runs_of
from vitbench.analysis.replay import Looking
from vitbench.config.suite import Fact, Test

Place = Conclusions
"""What the training runs of one device and origin say."""


def places(
    train: pd.DataFrame, axes: Mapping[str, Sequence[str]], under_study: Sequence[str], conditions: Collection[str],
    facts: Sequence[Fact], *, margin: float | None, noise_floor: float | None, test: Test | None = None,
    looking: Looking | None = None,
) -> list[Place]:  # fmt: skip
    """Verdicts on the runs of each device and origin that has a result.

    Args:
        train: the planned training runs, see :func:`vitbench.analysis.frames.trials_frame`.
        axes: axis → its values as text: all that the grid is made of.
        under_study: the axes whose values are compared.
        conditions: the axes that change what is classified.
        facts: the suite's claims.
        margin: within which two cells are equivalent, in points of test accuracy.
        noise_floor: largest difference between exact twins, in points; None where there are none.
        test: what the suite sets in place of the rule.
        looking: the looks of the plan; None where it has none.
    """
    outside = [str(cell) for cell in train.loc[~train["factorial"].astype(bool), "cell"].unique()]
    cells = list(dict.fromkeys([str(cell) for cell in train["cell"].head(1)] + outside))
    return [
        conclude(
            runs,
            axes,
            under_study,
            conditions=conditions,
            facts=facts,
            cells=cells,
            margin=margin,
            noise_floor=noise_floor,
            test=test,
            looking=looking,
        )
        for runs in runs_of(train, axes)
    ]
