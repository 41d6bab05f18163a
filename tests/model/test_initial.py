"""Initial weights: their spread, and what they depend on."""

import torch

from vitbench.config.model import ModelSpec
from vitbench.model.build import build_model
from vitbench.model.initial import initialise

SPEC = ModelSpec(dim=64, depth=2)


def test_spread_biases_and_norms() -> None:
    state = build_model(SPEC, seed=0).state_dict()
    weight = state["encoder.blocks.0.mlp.up.weight"]
    assert abs(float(weight.std()) / 0.02 - 1) < 0.03  # of what is drawn, not of what is cut
    assert 0.044 < float(weight.abs().max()) < 0.0455  # cut at two deviations of the wider normal, 0.0227
    assert not state["encoder.blocks.0.mlp.up.bias"].any() and not state["patching.bias"].any()
    assert torch.equal(state["encoder.final_norm.weight"], torch.ones(64))
    assert float(state["positions.table"].std()) > 0.015 and float(state["pooling.class_token"].std()) > 0.01


def test_fan_in_is_the_spread_of_torchs_own_layers() -> None:
    model = build_model(SPEC.model_copy(update={"init_std": "fan_in"}), seed=0)
    torch.manual_seed(0)
    for path, layer in (("mlp.up", torch.nn.Linear(64, 256)), ("attention.proj", torch.nn.Linear(64, 64))):
        weight = model.get_parameter(f"encoder.blocks.0.{path}.weight").detach()
        assert abs(float(weight.std() / layer.weight.detach().std()) - 1) < 0.05


def test_a_shared_parameter_starts_the_same_in_every_cell() -> None:
    one = build_model(SPEC, seed=1).state_dict()
    other = build_model(SPEC.model_copy(update={"positions": "none", "norm": "post", "depth": 1}), seed=1).state_dict()
    assert other.keys() < one.keys() and all(torch.equal(one[k], other[k]) for k in other)
    more = {"residual": "layerscale", "qk_norm": "rmsnorm", "gate": "headwise", "registers": 2}
    model = build_model(SPEC.model_copy(update=more), seed=1)
    rich = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert one.keys() < rich.keys() and all(torch.equal(one[k], rich[k]) for k in one)
    initialise(model, 0.02, seed=1)
    assert all(torch.equal(tensor, rich[name]) for name, tensor in model.state_dict().items())
    again = build_model(SPEC, seed=2).state_dict()
    assert not torch.equal(one["head.weight"], again["head.weight"])
    assert not torch.equal(one["encoder.blocks.0.mlp.up.weight"], one["encoder.blocks.1.mlp.up.weight"])


def test_drop_path_leaves_out_whole_images_and_keeps_the_mean() -> None:
    from vitbench.model.encoder import DropPath

    torch.manual_seed(0)
    x = torch.ones(4000, 3, 2)
    dropped = DropPath(0.25)(x)
    assert set(dropped.flatten(1).std(dim=1).tolist()) == {0.0}
    assert abs(float(dropped.mean()) - 1) < 0.05 and abs(float((dropped == 0).float().mean()) - 0.25) < 0.03
    assert torch.equal(DropPath(0.25).eval()(x), x)
