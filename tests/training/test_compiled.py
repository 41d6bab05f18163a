"""torch.compile in training and timing: the same numbers, to rounding."""

import shutil

import pytest
import torch

from tests.small import TRAIN, time_trial, train_trial
from tests.training.stages import CPU, silent
from vitbench.config import TimeSpec
from vitbench.timing.measure import alone, side_by_side
from vitbench.training.loop import train

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("c++") is None, reason="compiling for the CPU needs a C++ compiler"),
    # torch's own compiler warns of its own deprecations.
    pytest.mark.filterwarnings("default"),
]


@pytest.fixture(autouse=True)
def nothing_compiled() -> None:
    """Other tests of this process may have compiled the same code, for any batch size."""
    torch.compiler.reset()


def test_compiled_training_is_training() -> None:
    plain, compiled = (
        train(train_trial(train=TRAIN.model_copy(update={"compile": c, "epochs": 2})), CPU, silent)
        for c in (False, True)
    )
    assert compiled.test_loss == pytest.approx(plain.test_loss, rel=1e-3)
    assert compiled.first_step_ms > compiled.step_ms_p50, "the first step compiles"


def test_a_compiled_model_is_timed() -> None:
    trial = time_trial(protocol=TimeSpec(rounds=1, warmup=2, iterations=5, compile=True))
    first_ms = alone(trial, CPU).first_ms
    samples = side_by_side(trial, [trial], CPU, 0).samples[trial.id]
    assert first_ms > 3 * max(samples.latencies_ms), "compilation is in the first iteration, not in the rest"
