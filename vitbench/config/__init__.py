"""Typed, frozen descriptions of what is to be run: model, data, training, timing, trials, suites. No torch."""

from vitbench.config.model import ModelSpec
from vitbench.config.reading import read_suite
from vitbench.config.recipe import DataSpec, TimeSpec, TrainSpec
from vitbench.config.suite import ExpandedSuite
from vitbench.config.suite_errors import SpecError
from vitbench.config.trial import TimeTrial, TrainTrial, Trial, TuneTrial

__all__ = [
    "DataSpec",
    "ExpandedSuite",
    "ModelSpec",
    "SpecError",
    "TimeSpec",
    "TimeTrial",
    "TrainSpec",
    "TrainTrial",
    "Trial",
    "TuneTrial",
    "read_suite",
]
