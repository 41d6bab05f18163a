"""Heads of another width than D / H."""

import pytest
import torch

from tests.components.cases import COMPILED, SMALL, device_for, small
from tests.components.test_formulas import filled
from vitbench import registry
from vitbench.config.model import ModelSpec
from vitbench.model.build import build_model
from vitbench.model.counting import forward_flops
from vitbench.model.encoder import chosen
from vitbench.model.exactness import deviations, is_compared
from vitbench.model.timm_weights import to_timm
from vitbench.model.weights import WeightsError
from vitbench.runner.cost import approximate_flops

WIDE = {"head_dim": 16, "heads": 3, "gate": "elementwise", "qk_norm": "rmsnorm", "positions": "rope_2d"}
PLAIN = {"gate": "none", "qk_norm": "none", "positions": "learned"}
NAMES = [name for name in registry.names("attention") if "head_dim" in registry.facts("attention", name).offers]


def of(name: str, **changes: object) -> ModelSpec:
    """With all that crosses with it, or with what it takes."""
    whole = small("attention", name).model_copy(update={**WIDE, "bias": "none", **changes})
    return whole.model_copy(update=PLAIN) if whole.conflicts() else whole


@pytest.mark.parametrize("name", sorted({*NAMES} - COMPILED))
def test_it_is_counted_by_its_width_and_exact_ones_agree(name: str) -> None:
    spec = of(name)
    device = device_for(spec, training=True)
    attention = filled(chosen("attention", spec)(spec))
    assert attention.proj.weight.shape == (spec.dim, 48) and not spec.conflicts() and not spec.problems()
    assert approximate_flops(spec) == forward_flops(spec) > forward_flops(spec.model_copy(update={"head_dim": 8}))
    assert build_model(spec, 0).to(device)(torch.randn(2, spec.channels, 16, 16, device=device)).shape == (
        2,
        spec.num_classes,
    )
    if is_compared("attention", name):
        assert all(d.within for d in deviations("attention", spec, device, torch.float32))


def test_what_cannot_have_it_says_so() -> None:
    spec = SMALL.model_copy(update={"attention": "mha", "head_dim": 16})
    assert 'attention "mha" has no head_dim, and 16 is asked' in spec.conflicts()
    assert SMALL.model_copy(update={"heads": 3, "dim": 32}).problems() == [("heads", "3 does not divide dim 32")]
    with pytest.raises(WeightsError, match="head_dim = 16"):
        to_timm(build_model(SMALL.model_copy(update={"head_dim": 16, "attention": "batched"}), 0))
