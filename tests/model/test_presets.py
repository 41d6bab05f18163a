"""Published models have exactly the published sizes."""

import pytest
import torch

import vitbench
from vitbench import registry
from vitbench.config.model import ModelSpec
from vitbench.config.presets import PRESETS, preset
from vitbench.model.counting import forward_flops, parameters
from vitbench.model.vit import VisionTransformer
from vitbench.runner.cost import approximate_flops

# shared with the papers and repositories that PRESETS names
PUBLISHED = {
    "cifar-48": 119_098,
    "fashion-56": 1_636_362,
    "cifar-tiny": 1_205_898,
    "lesson-tiny": 2_822_602,
    "vit-b/16": 86_567_656,
}


def on_meta(spec: ModelSpec) -> VisionTransformer:
    with torch.device("meta"):
        return VisionTransformer(spec)


MILLIONS = {"vit-lite-7/4": 3.72, "cct-7/3x1": 3.76, "cct-7/3x2": 3.85, "vit-cifar": 6.3}  # As published, rounded


@pytest.mark.parametrize(("name", "millions"), MILLIONS.items())
def test_rounded_parameter_counts(name: str, millions: float) -> None:
    digits = len(str(millions).partition(".")[2])
    assert round(parameters(on_meta(preset(name))) / 1e6, digits) == millions


@pytest.mark.parametrize(("name", "count"), PUBLISHED.items())
def test_parameter_counts(name: str, count: int) -> None:
    assert parameters(on_meta(preset(name))) == count


def test_a_preset_is_built_by_its_name() -> None:
    assert parameters(vitbench.build("cifar-48")) == PUBLISHED["cifar-48"]
    with pytest.raises(ValueError, match=r'"vit-x/16" is no preset; did you mean "vit-s/16"\?'):
        vitbench.build("vit-x/16")


@pytest.mark.parametrize("name", ["vit-ti/16", "vit-s/16", "vit-b/16"])
def test_timm_counts_the_same(name: str) -> None:
    timm = pytest.importorskip("timm")
    spec = preset(name)
    with torch.device("meta"):
        theirs = timm.models.vision_transformer.VisionTransformer(
            img_size=224, patch_size=16, embed_dim=spec.dim, depth=spec.depth, num_heads=spec.heads
        )
    assert parameters(on_meta(spec)) == parameters(theirs)


STANDARD = [
    n
    for n in PRESETS
    if (s := preset(n)).of_components and registry.facts("patching", s.patching).exact and s.prefix == 1
]


@pytest.mark.parametrize("name", sorted(set(PRESETS) - set(STANDARD)))
def test_flops_of_other_stems_and_networks_are_near_the_closed_form(name: str) -> None:
    """A plan's cost is made of this count, which is exact for models that are made of components."""
    near = 1e-12 if preset(name).of_components else 0.05
    assert forward_flops(preset(name)) == pytest.approx(approximate_flops(preset(name)), rel=near)


@pytest.mark.parametrize("name", STANDARD)
def test_flops_are_those_of_the_closed_form(name: str) -> None:
    """Products of the linear layers and of attention: nothing else is counted, and nothing is left out."""
    spec = preset(name)
    n, d, hidden = spec.patches + 1, spec.dim, spec.hidden
    patch = spec.patch_size
    assert isinstance(patch, int)
    linear = spec.patches * 3 * patch**2 * d + spec.depth * n * (4 * d * d + 2 * d * hidden) + d * spec.num_classes
    scores_and_values = spec.depth * 2 * n * n * d
    assert forward_flops(spec) == 2 * (linear + scores_and_values) == approximate_flops(spec)


@pytest.mark.parametrize("attention", ["sdpa", "per_head", "triton", "flex", "mha"])
def test_flops_belong_to_the_function_not_to_its_implementation(attention: str) -> None:
    spec = ModelSpec(dim=32, depth=1)
    assert forward_flops(spec.model_copy(update={"attention": attention})) == forward_flops(spec)
