"""timm's VisionTransformer and ours with the same weights give the same logits, at any image size."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import vitbench
from tests.components.cases import COMPILED
from tests.model.shaken import shaken
from vitbench import ModelSpec, registry
from vitbench.config.presets import preset
from vitbench.model.encoder import chosen
from vitbench.model.resized import resampled
from vitbench.model.timm_weights import load_timm, timm_name, to_timm
from vitbench.model.weights import WeightsError, read_weights

timm = pytest.importorskip("timm")

NAMED = {"vit-ti/16": "vit_tiny_patch16_224", "vit-s/16": "vit_small_patch16_224", "vit-b/16": "vit_base_patch16_224"}
SMALL = ModelSpec(image_size=32, patch_size=4, dim=48, depth=2, heads=3)


def theirs(spec: ModelSpec, **options: Any) -> nn.Module:
    """timm's model of a spec, its weights of a size that shows each of them in the logits."""
    size, patch = spec.image_size, spec.patch_size
    options = {"img_size": size, "patch_size": patch, "embed_dim": spec.dim, "depth": spec.depth,
               "num_heads": spec.heads, "num_classes": spec.num_classes, **options}  # fmt: skip
    return shaken(timm.models.vision_transformer.VisionTransformer(**options))


def images(spec: ModelSpec) -> Tensor:
    size = spec.image_size if isinstance(spec.image_size, tuple) else (spec.image_size,) * 2
    return torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(1))


def alike(ours: nn.Module, other: nn.Module, batch: Tensor) -> None:
    with torch.no_grad():
        actual, expected = ours.eval()(batch), other(batch)
    assert expected.std() > 0.05
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if preset(name).dim > 400 else []) for name in NAMED]
)
def test_logits_are_timms_and_the_way_back_leads_to_the_same(name: str, tmp_path: Path) -> None:
    spec = preset(name)
    other = shaken(timm.create_model(NAMED[name], pretrained=False))
    save_file(other.state_dict(), tmp_path / "timm.safetensors")
    ours = vitbench.build(spec, seed=0)
    load_timm(ours, read_weights(tmp_path / "timm.safetensors"))
    alike(ours, other, images(spec))
    back = timm.create_model(NAMED[name], pretrained=False)
    back.load_state_dict(to_timm(ours), strict=True)
    for key, tensor in other.state_dict().items():
        assert torch.equal(back.state_dict()[key], tensor)


EXACT = [(slot, name) for slot in ("patching", "attention") for name in registry.names(slot)
         if registry.facts(slot, name).exact and "cpu" in registry.facts(slot, name).devices]  # fmt: skip


@pytest.mark.parametrize(
    ("slot", "name"),
    [pytest.param(*each, marks=[pytest.mark.slow] if each[1] in COMPILED else []) for each in EXACT],
)
def test_every_exact_component_takes_timms_weights(slot: str, name: str) -> None:
    spec = SMALL.model_copy(update={slot: name})
    if spec.conflicts() or spec.unsupported("cpu", "float32", training=False):
        pytest.skip("not on a CPU with this head width")
    ours, other = vitbench.build(spec, seed=0), theirs(spec)
    load_timm(ours, other.state_dict())
    alike(ours, other, images(spec))


def same_function(
    ours: nn.Module, other: nn.Module, given: Tensor, theirs_of: Callable[[str], str] = timm_name
) -> None:
    """Outputs, and the gradient of every parameter, are equal in float64; ``theirs_of`` is its name in timm."""
    actual, expected = ours(given), other(given)
    assert expected.std() > 0.05
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-12)
    cotangent = torch.randn(actual.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    for out in (actual, expected):
        out.backward(cotangent)
    assert sum(1 for _ in ours.parameters()) == sum(1 for _ in other.parameters())
    for name, parameter in ours.named_parameters():
        true = other.get_parameter(theirs_of(name)).grad
        assert parameter.grad is not None and true is not None and true.any(), name
        torch.testing.assert_close(parameter.grad, true, rtol=1e-9, atol=1e-12, msg=lambda text, n=name: f"{n}: {text}")


@pytest.mark.parametrize("attention", ["sdpa", "batched", "per_head"])
@pytest.mark.parametrize(
    ("changes", "options"),
    [
        ({"qk_norm": "layernorm"}, {"qk_norm": True}),
        ({"residual": "layerscale"}, {"init_values": 1.0}),
        ({"qk_norm": "layernorm", "residual": "layerscale"}, {"qk_norm": True, "init_values": 1.0}),
    ],
    ids=["qk_norm", "layerscale", "both"],
)
def test_scaled_residuals_and_normed_queries_are_timms(
    changes: dict[str, Any], options: dict[str, Any], attention: str
) -> None:
    spec = SMALL.model_copy(update={**changes, "attention": attention})
    ours, other = vitbench.build(spec, seed=0).double().eval(), theirs(spec, **options).double()
    chance = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, parameter in other.named_parameters():
            if name.endswith("gamma") or "q_norm" in name or "k_norm" in name:
                parameter.copy_(torch.randn(parameter.shape, generator=chance, dtype=torch.float64))
    load_timm(ours, other.state_dict())
    same_function(ours, other, images(spec).double())
    assert all(torch.equal(tensor, other.state_dict()[name]) for name, tensor in to_timm(ours).items())


def test_registers_are_timms() -> None:
    """timm's ``reg_tokens`` with ``no_embed_class``, as DINOv2 has them: they and the class token have no positions."""
    spec = SMALL.model_copy(update={"registers": 3})
    ours = vitbench.build(spec, seed=0).double().eval()
    other = theirs(spec, reg_tokens=3, no_embed_class=True).double()
    names = {name: "reg_token" if name == "registers.table" else timm_name(name) for name in ours.state_dict()}
    tensors = {our_name: other.state_dict()[name] for our_name, name in names.items()}
    first = torch.zeros(1, 1, spec.dim, dtype=torch.float64)
    ours.load_state_dict(tensors | {"positions.table": torch.cat((first, tensors["positions.table"]), dim=1)})
    given = images(spec).double()
    torch.testing.assert_close(ours(given), other(given), rtol=1e-10, atol=1e-12)


def test_norms_after_the_sublayer_are_timms() -> None:
    """timm's ResPostBlock: x + norm(f(x))."""
    spec = SMALL.model_copy(update={"norm": "res_post"})
    ours = vitbench.build(spec, seed=0).double().eval()
    other = theirs(spec, block_fn=timm.models.vision_transformer.ResPostBlock).double()
    ours.load_state_dict({name: other.state_dict()[timm_name(name)] for name in ours.state_dict()})
    same_function(ours, other, images(spec).double())


def test_attention_pooling_is_timms() -> None:
    """AttentionPoolLatent, as SigLIP has it."""
    spec = SMALL.model_copy(update={"pooling": "map"})
    norm = functools.partial(nn.LayerNorm, eps=1e-6)
    other = shaken(timm.layers.AttentionPoolLatent(spec.dim, num_heads=spec.heads, norm_layer=norm)).double()
    ours = chosen("pooling", spec)(spec).double()

    def theirs_of(name: str) -> str:
        return {"probe": "latent"}.get(name, name.replace("up.", "mlp.fc1.").replace("down.", "mlp.fc2."))

    ours.load_state_dict({name: other.state_dict()[theirs_of(name)] for name in ours.state_dict()})
    tokens = torch.randn(3, spec.tokens, spec.dim, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    same_function(ours, other, tokens, theirs_of)


def test_gated_attention_is_timms() -> None:
    """Attention with ``gated``, a sigmoid for each channel."""
    spec = SMALL.model_copy(update={"gate": "elementwise", "qkv_bias": False, "attention": "batched"})
    other = shaken(timm.layers.Attention(spec.dim, num_heads=spec.heads, gated=True)).double()
    ours = chosen("attention", spec)(spec).double()

    def theirs_of(name: str) -> str:
        return name.replace("gate.scores", "gate")

    ours.load_state_dict({name: other.state_dict()[theirs_of(name)] for name in ours.state_dict()})
    tokens = torch.randn(3, spec.tokens, spec.dim, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    same_function(ours, other, tokens, theirs_of)


@pytest.mark.parametrize("size", [24, 48, (24, 40)])
def test_other_image_sizes_have_timms_interpolated_positions(size: int | tuple[int, int]) -> None:
    spec = SMALL.model_copy(update={"image_size": size})
    small = theirs(SMALL)
    expected = timm.layers.resample_abs_pos_embed(small.state_dict()["pos_embed"], list(spec.grid), num_prefix_tokens=1)
    torch.testing.assert_close(resampled(small.state_dict()["pos_embed"], spec), expected, atol=1e-6, rtol=0)
    ours, other = vitbench.build(spec, seed=0), theirs(spec)
    load_timm(ours, small.state_dict())
    other.load_state_dict({**small.state_dict(), "pos_embed": expected})
    alike(ours, other, images(spec))


def test_another_head_stays_the_models_own() -> None:
    spec = SMALL.model_copy(update={"num_classes": 7})
    ours = vitbench.build(spec, seed=0)
    before = ours.head.weight.clone()
    load_timm(ours, theirs(SMALL).state_dict(), head=False)
    assert torch.equal(ours.head.weight, before)
    assert torch.equal(ours.encoder.final_norm.weight, theirs(SMALL).state_dict()["norm.weight"])


def test_positions_of_an_unknown_grid_are_refused() -> None:
    tensors = theirs(SMALL).state_dict()
    with pytest.raises(WeightsError, match="10 are of patches: no square"):
        load_timm(vitbench.build(SMALL, seed=0), {**tensors, "pos_embed": tensors["pos_embed"][:, :11]})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"norm": "post"}, 'norm = "post"'), ({"pooling": "mean"}, 'pooling = "mean"'),
        ({"positions": "none"}, 'positions = "none"'), ({"norm_layer": "rmsnorm"}, 'norm_layer = "rmsnorm"'),
        ({"attention": "none"}, 'attention = "none"'), ({"final_norm": False}, "final_norm = false"),
        ({"mlp": "relu", "residual": "none"}, 'mlp = "relu", residual = "none"'),
        ({"gate": "headwise", "qk_norm": "rmsnorm"}, 'gate = "headwise", qk_norm = "rmsnorm"'),
        ({"block": "parallel"}, 'block = "parallel"'), ({"registers": 2}, "registers = 2"),
    ],
)  # fmt: skip
def test_a_model_of_another_function_is_refused(changes: dict[str, Any], message: str) -> None:
    ours = vitbench.build(SMALL.model_copy(update=changes), seed=0)
    with pytest.raises(WeightsError, match="another function") as error:
        load_timm(ours, theirs(SMALL).state_dict())
    assert message in str(error.value)
    with pytest.raises(WeightsError, match="another function"):
        to_timm(ours)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": 3}, "unexpected: blocks.2.attn"), ({"depth": 1}, "missing: blocks.1."),
        ({"embed_dim": 96}, "patch_embed.proj.weight is (96, 3, 4, 4), and the model's is (48, 3, 4, 4)"),
        ({"num_classes": 7}, "head.weight is (7, 48), and the model's is (10, 48)"),
        ({"global_pool": "avg", "class_token": False}, "missing: cls_token"),
        ({"reg_tokens": 4}, "unexpected: reg_token"),
    ],
)  # fmt: skip
def test_weights_of_another_model_are_refused_before_anything_is_copied(options: dict[str, Any], message: str) -> None:
    ours = vitbench.build(SMALL, seed=0)
    before = {name: tensor.clone() for name, tensor in ours.state_dict().items()}
    with pytest.raises(WeightsError) as error:
        load_timm(ours, theirs(SMALL, **options).state_dict())
    assert message in str(error.value)
    assert all(torch.equal(before[name], tensor) for name, tensor in ours.state_dict().items())
