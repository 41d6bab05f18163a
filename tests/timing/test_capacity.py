"""The search for the largest batch, on a device of which it is known what fits."""

from __future__ import annotations

import pytest
import torch

from tests.small import time_trial
from vitbench.config.trial import TimeTrial
from vitbench.timing import capacity


@pytest.mark.parametrize("memory", [0, 1, 7, 8, 1000, 1029])
def test_it_ends_within_five_percent_of_what_fits(memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def fits(trial: TimeTrial, _: torch.device) -> bool:
        asked.append(trial.batch_size)
        return trial.batch_size <= memory

    monkeypatch.setattr(capacity, "_fits", fits)
    size = capacity.largest_batch(time_trial(), torch.device("cuda"))
    assert size is not None and size <= memory <= max(size * 1.05, size + 0.5)
    assert len(asked) <= 16, "by doubling and halving"
    assert capacity.largest_batch(time_trial(), torch.device("cpu")) is None
