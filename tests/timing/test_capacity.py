"""The search for the largest batch, on a device of which it is known what fits."""

import pytest
import torch

from tests.small import time_trial
from vitbench.config.trial import TimeTrial
from vitbench.timing import capacity


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, RuntimeError])
@pytest.mark.parametrize("memory", [0, 1, 7, 8, 1000, 1029])
def test_it_ends_within_five_percent_of_what_fits(
    memory: int, error: type[RuntimeError], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def iterate(trial: TimeTrial, _: torch.device) -> None:
        asked.append(trial.batch_size)
        if trial.batch_size > memory:
            raise error("too large")

    monkeypatch.setattr(capacity, "_iterate", iterate)
    monkeypatch.setattr(capacity, "synchronise", lambda _: None)
    if error is RuntimeError and memory < time_trial().batch_size:  # what fails with the first batch is another fault
        with pytest.raises(RuntimeError, match="too large"):
            capacity.largest_batch(time_trial(), torch.device("cuda"))
        return
    size = capacity.largest_batch(time_trial(), torch.device("cuda"))
    assert size is not None and size <= memory <= max(size * 1.05, size + 0.5)
    assert len(asked) <= 16, "by doubling and halving"
    assert capacity.largest_batch(time_trial(), torch.device("cpu")) is None


def test_a_device_that_an_error_has_left_unusable_has_no_largest_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an illegal address every later call fails, and would pass for a batch that is too large."""

    def iterate(trial: TimeTrial, _: torch.device) -> None:
        if trial.batch_size > 100:
            raise RuntimeError("an illegal memory access was encountered")

    def synchronise(_: torch.device) -> None:
        raise RuntimeError("an illegal memory access was encountered")

    monkeypatch.setattr(capacity, "_iterate", iterate)
    monkeypatch.setattr(capacity, "synchronise", synchronise)
    with pytest.raises(RuntimeError, match="illegal"):
        capacity.largest_batch(time_trial(), torch.device("cuda"))
