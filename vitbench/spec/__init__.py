"""Typed, frozen descriptions of what is to be run: model, data, training, timing, trials, suites. No torch."""

from vitbench.spec.errors import SpecError
from vitbench.spec.model import ModelSpec
from vitbench.spec.reading import read_suite
from vitbench.spec.recipe import DataSpec, TimeSpec, TrainSpec
from vitbench.spec.suite import Suite
from vitbench.spec.trial import TimeTrial, TrainTrial, Trial, TuneTrial

__all__ = [
    "DataSpec",
    "ModelSpec",
    "SpecError",
    "Suite",
    "TimeSpec",
    "TimeTrial",
    "TrainSpec",
    "TrainTrial",
    "Trial",
    "TuneTrial",
    "read_suite",
]
