"""Small models that range over the registry, as the tests of components share them."""

from typing import Any

import pytest
import torch

from tests.conftest import not_there, wants_compiler
from vitbench import registry
from vitbench.config.model import ModelSpec
from vitbench.model.contract import SMALL, fitted
from vitbench.model.exactness import is_compared

COMPONENTS = [(slot, name) for slot in registry.slots() for name in registry.names(slot)]
COMPILED = {"flex", "compiled", "torchao_int8"}
"""Compiling one takes a quarter of a minute, for each type and shape anew: such tests are slow ones."""
NO_WEIGHTED_MEAN = {"gem", "map", "cls_mean"}  # Poolings whose vector is no weighted mean of tokens
EXACT = [each for each in COMPONENTS if is_compared(*each)]


def slow_where_compiled(*cases: tuple[str, ...]) -> list[Any]:
    """Cases as parameters; those of a compiled component are slow tests."""
    return [pytest.param(*case, marks=[pytest.mark.slow] * bool(COMPILED & {*case})) for case in cases]


def small(slot: str, name: str) -> ModelSpec:
    """SMALL with one component in its place."""
    return fitted(SMALL, slot, name)


def device_for(spec: ModelSpec, *, training: bool, dtype: str = "float32") -> torch.device:
    """A device of this machine on which the spec runs; skips, with the reason, where there is none, or no package."""
    reasons = []
    for kind in ("cpu", "cuda"):
        reason = spec.unsupported(kind, dtype, training)
        if reason is None and (kind == "cpu" or torch.cuda.is_available()):
            if COMPILED & {*spec.components.values()} and kind == "cpu":
                wants_compiler()
            if (missing := spec.missing_package()) is not None:
                not_there(missing)
            return torch.device(kind)
        reasons.append(reason or f"no {kind} on this machine")
    pytest.skip("; ".join(reasons))
