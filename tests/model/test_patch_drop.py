"""Patch dropout: each image is trained without some of its patches."""

import pytest
import torch
from torch import Tensor

from tests.components.cases import SMALL
from tests.small import MODEL, train_trial
from tests.training.stages import silent
from vitbench.config.model import ModelSpec
from vitbench.model.build import build_model
from vitbench.model.counting import forward_flops
from vitbench.model.vit import VisionTransformer
from vitbench.runner.cost import approximate_flops
from vitbench.training.loop import train

SPEC = SMALL.model_copy(update={"patch_drop": 0.3, "registers": 1, "depth": 2})
FIRST = SPEC.prefix


def entered(model: VisionTransformer, images: Tensor) -> tuple[Tensor, Tensor | None]:
    """Tokens and rotation that the first block was given."""
    given = []
    hook = model.encoder.blocks[0].register_forward_pre_hook(lambda _, inputs: given.append(inputs))
    model(images)
    hook.remove()
    return given[0]


@pytest.mark.parametrize("positions", ["learned", "rope_2d", "rope_2d_mixed"])
def test_each_image_keeps_others_of_its_patches_with_their_positions_and_all_when_judged(positions: str) -> None:
    spec = SPEC.model_copy(update={"positions": positions})
    model = build_model(spec, seed=0).double()
    images = torch.randn(4, spec.channels, 16, 16, dtype=torch.float64)
    every, rotation = entered(model.eval(), images)
    assert every.shape[1] == FIRST + 16
    some, turned = entered(model.train(), images)
    assert spec.patches_kept == 11 and some.shape[1] == FIRST + 11
    kept = [
        [next(n for n in range(FIRST + 16) if torch.equal(token, every[i, n])) for token in some[i]] for i in range(4)
    ]
    assert all(places == sorted(places) and places[:FIRST] == [*range(FIRST)] for places in kept)
    assert len({tuple(places) for places in kept}) == 4, "images lose the same patches"
    if rotation is not None:
        for i, places in enumerate(kept):
            wanted = rotation[..., places, :]
            assert torch.equal(turned[:, i].squeeze(1), wanted), "a patch is turned by another's place"
    torch.manual_seed(1)
    again, _ = entered(model, images)
    assert not torch.equal(again, some)


def test_operations_of_training_are_of_the_patches_that_are_left() -> None:
    spec = ModelSpec(dim=64, depth=3, heads=2, patch_drop=0.5, reduction="merge(by=4)")
    whole = spec.model_copy(update={"patch_drop": 0.0})
    assert forward_flops(spec) == approximate_flops(spec) == forward_flops(whole)
    assert forward_flops(spec, training=True) == approximate_flops(spec, "model", True) < 0.6 * forward_flops(whole)
    assert forward_flops(whole, training=True) == forward_flops(whole)
    assert spec.patches_by_block(training=True) == [32, 28, 24]


@pytest.mark.parametrize(("slot", "name"), [("attention", "window"), ("bias", "relative")])
def test_what_needs_every_patch_goes_with_none_of_it(slot: str, name: str) -> None:
    conflicts = SPEC.model_copy(update={slot: name}).conflicts()
    assert f'{slot} "{name}" needs every patch, and patch_drop 0.3 makes them fewer' in conflicts


def test_a_run_says_what_it_was_trained_with() -> None:
    model = MODEL.model_copy(update={"patch_drop": 0.5, "dim": 64})
    values = train(train_trial(model=model), torch.device("cpu"), silent)
    assert values.trained_flops == forward_flops(model, training=True) < values.forward_flops
