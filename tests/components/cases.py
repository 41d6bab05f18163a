"""Small models that range over the registry, as the tests of components share them."""

from __future__ import annotations

import shutil

import pytest
import torch

from vitbench import registry
from vitbench.config.model import ModelSpec

SMALL = ModelSpec(image_size=16, patch_size=4, num_classes=5, dim=32, depth=2, heads=2)
COMPONENTS = [(slot, name) for slot in registry.slots() for name in registry.names(slot)]
NO_WEIGHTED_MEAN = {"gem", "map"}
"""Poolings whose vector is no weighted mean of tokens."""
EXACT = [(s, n) for s, n in COMPONENTS if registry.facts(s, n).exact and not registry.facts(s, n).reference]


def small(slot: str, name: str) -> ModelSpec:
    """SMALL with one component in its place."""
    return fitted(SMALL, slot, name)


def fitted(model: ModelSpec, slot: str, name: str) -> ModelSpec:
    """A model with one component in its place, of the sizes and beside the components that it takes."""
    among = registry.facts(slot, name).among
    sizes = {quantity: values[0] for quantity, values in among.items() if getattr(model, quantity) not in values}
    beside = {
        other: next(n for n in reversed(registry.names(other)) if feature in registry.facts(other, n).offers)
        for other, feature in registry.facts(slot, name).needs.items()
        if feature not in registry.facts(other, getattr(model, other)).offers
    }
    spec = model.model_copy(update={slot: name, **sizes, **beside})
    assert not spec.conflicts(), spec.conflicts()
    return spec


def device_for(spec: ModelSpec, *, training: bool, dtype: str = "float32") -> torch.device:
    """A device of this machine on which the spec runs; skips, with the reason, where there is none."""
    reasons = []
    for kind in ("cpu", "cuda"):
        reason = spec.unsupported(kind, dtype, training)
        if reason is None and (kind == "cpu" or torch.cuda.is_available()):
            if "flex" in spec.components.values() and kind == "cpu" and shutil.which("c++") is None:
                pytest.skip("compiling flex_attention for the CPU needs a C++ compiler")
            return torch.device(kind)
        reasons.append(reason or f"no {kind} on this machine")
    pytest.skip("; ".join(reasons))
