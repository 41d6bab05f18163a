"""Judgements: the verdicts on a study's training runs, for each device and origin apart."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from vitbench.analysis import conclusions
from vitbench.analysis.conclusions import Effect, Tested
from vitbench.analysis.factorial import Runs, runs_of
from vitbench.analysis.verdicts import Judged
from vitbench.spec.suite import Fact


@dataclass(frozen=True)
class Place:
    """What the training runs of one device and origin say.

    Attributes:
        runs: the runs.
        effects: of the axes under study, see :func:`vitbench.analysis.conclusions.effects`.
        interactions: of pairs of them.
        variants: named cells against the first.
        claims: of the suite, put to the test.
    """

    runs: Runs
    effects: list[Effect]
    interactions: list[Judged]
    variants: list[Judged]
    claims: list[Tested]

    @property
    def judged(self) -> list[Judged]:
        """All of its comparisons."""
        of_axes = [effect.judged for effect in self.effects]
        return [*(tested.judged for tested in self.claims), *of_axes, *self.interactions, *self.variants]


def places(
    train: pd.DataFrame, axes: Mapping[str, Sequence[str]], under_study: Sequence[str], conditions: Collection[str],
    facts: Sequence[Fact], *, margin: float | None, noise_floor: float | None,
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
    """
    outside = [str(cell) for cell in train.loc[~train["factorial"].astype(bool), "cell"].unique()]
    compared = list(dict.fromkeys([str(cell) for cell in train["cell"].head(1)] + outside))
    return [
        Place(
            runs,
            conclusions.effects(runs, axes, under_study, conditions, margin=margin, noise_floor=noise_floor),
            conclusions.two_way(runs, axes, under_study, conditions, margin=margin, noise_floor=noise_floor),
            conclusions.against_first(runs, compared, margin=margin, noise_floor=noise_floor),
            conclusions.claims(runs, axes, facts, margin=margin, noise_floor=noise_floor),
        )
        for runs in runs_of(train, axes)
    ]
