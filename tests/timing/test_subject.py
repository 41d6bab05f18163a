"""Subjects of timing: every level and mode runs, is counted, and is checked again after timing."""

from typing import get_args

import pytest
import torch

from vitbench import registry
from vitbench.config import ModelSpec, TimeSpec, TimeTrial
from vitbench.config.recipe import Level
from vitbench.config.trial import relevant
from vitbench.devices import unsupported
from vitbench.model.build import build_model
from vitbench.model.contract import fitted
from vitbench.model.counting import forward_flops, parameters
from vitbench.model.exactness import Incorrect
from vitbench.runner.cost import approximate_flops
from vitbench.timing.sizes import count
from vitbench.timing.subject import Subject

CPU = torch.device("cpu")
MODEL = ModelSpec(image_size=16, patch_size=4, dim=32, depth=2, heads=2)
RICH = {"registers": 2, "qk_norm": "l2", "gate": "headwise", "bias": "relative", "block": "parallel",
        "residual": "layerscale"}  # fmt: skip
LEVELS: tuple[Level, ...] = get_args(Level)


def trial(level: Level = "model", mode: str = "inference", batch: int = 8, **changes: object) -> TimeTrial:
    model = MODEL.model_copy(update=changes)
    return TimeTrial.model_validate(
        {"kind": "time", "level": level, "model": model, "protocol": TimeSpec(), "device": "cpu", "dtype": "float32",
         "batch_size": batch, "mode": mode}
    )  # fmt: skip


@pytest.mark.parametrize("changes", [{}, RICH], ids=["plain", "rich"])
@pytest.mark.parametrize("mode", ["inference", "train"])
@pytest.mark.parametrize("level", LEVELS)
def test_every_level_runs_and_verifies(level: Level, mode: str, changes: dict[str, object]) -> None:
    given = relevant(MODEL.model_copy(update=changes), level)
    subject = Subject(trial(level, mode).model_copy(update={"model": given}), CPU)
    for _ in range(3):
        subject.iterate()
    subject.verify()


@pytest.mark.parametrize("name", [n for n in registry.names("attention") if not registry.facts("attention", n).empty])
def test_the_core_of_every_attention_is_timed_and_estimated(name: str) -> None:
    """Those with fewer heads of keys than of queries, too, whose input is narrower."""
    spec = fitted(MODEL, "attention", name)
    timed = trial("attention_core", "train").model_copy(update={"model": relevant(spec, "attention_core")})
    if reason := timed.unsupported("cpu") or unsupported(spec, CPU, "float32", training=True):
        pytest.skip(reason)
    subject = Subject(timed, CPU)
    subject.iterate()
    subject.verify()
    assert count(timed).forward_flops == approximate_flops(spec, "attention_core") > 0


@pytest.mark.parametrize("mode", ["inference", "train"])
@pytest.mark.parametrize("level", LEVELS)
def test_a_result_that_went_wrong_after_the_gate_is_refused(level: Level, mode: str) -> None:
    """As by a buffer that a later call overwrites: the timed calls' own output is looked at, all of it."""
    for spoil in (lambda out: out[-1].mul_(1.01), lambda out: out[3].fill_(float("nan")), lambda out: out.zero_()):
        subject = Subject(trial(level, mode), CPU)
        subject.iterate()
        with torch.no_grad():
            spoil(subject.out.data)
        with pytest.raises(Incorrect, match="after timing, output"):
            subject.verify()


def test_a_part_s_gradients_are_checked_after_timing() -> None:
    subject = Subject(trial("attention", "train"), CPU)
    subject.iterate()
    assert subject.x.grad is not None
    subject.x.grad.mul_(1.01)
    with pytest.raises(Incorrect, match="gradient of the input: error"):
        subject.verify()
    subject.iterate()
    next(subject.module.parameters()).grad = None
    with pytest.raises(Incorrect, match="there is none"):
        subject.verify()


def test_a_training_step_leaves_the_weights_where_they_are() -> None:
    """Its rate is zero: the work of AdamW, and outputs that can be compared after any number of steps."""
    subject = Subject(trial(mode="train"), CPU)
    before = {name: value.clone() for name, value in subject.module.state_dict().items()}
    subject.iterate()
    first = subject.out.detach().clone()
    subject.iterate()
    assert torch.equal(subject.out, first)
    assert all(torch.equal(value, before[name]) for name, value in subject.module.state_dict().items())
    state = next(iter(subject.optimiser.parts[0].state.values()))
    assert float(state["step"]) == 2 and bool((state["exp_avg"] != 0).any()), "AdamW did not do its work"


def test_equivalent_implementations_do_the_same_work_on_the_same_numbers() -> None:
    outputs = []
    for attention in ("batched", "sdpa", "per_head"):
        subject = Subject(trial("attention", attention=attention), CPU)
        subject.iterate()
        outputs.append(subject.out)
    torch.testing.assert_close(outputs[0], outputs[1])
    torch.testing.assert_close(outputs[0], outputs[2])


def test_whole_models_are_counted_as_they_always_were() -> None:
    sizes = count(trial())
    assert sizes.parameters == parameters(build_model(MODEL, 0))
    assert sizes.forward_flops == forward_flops(MODEL) and sizes.flops == 8 * forward_flops(MODEL)
    assert count(trial(mode="train")).flops == 8 * 3 * forward_flops(MODEL, training=True)


def test_sizes_agree_with_the_closed_form() -> None:
    n, d, hidden, batch = 17, 32, 128, 8
    core, train = count(trial("attention_core")), count(trial("attention_core", "train"))
    assert core.parameters == 0 and core.flops == batch * 4 * n * n * d and train.flops == 3 * core.flops
    assert core.bytes == 4 * batch * 4 * n * d, "q, k, v read and the output written"
    assert train.bytes == core.bytes + 4 * batch * 8 * n * d, "q, k, v, o, do read; dq, dk, dv written"
    mlp = count(trial("mlp"))
    assert mlp.flops == batch * 4 * n * d * hidden and mlp.parameters == 2 * d * hidden + hidden + d
    assert mlp.bytes == 4 * (2 * batch * n * d + mlp.parameters)
    back = count(trial("mlp", "train")).bytes - mlp.bytes
    assert back == 4 * (3 * batch * n * d + 2 * mlp.parameters), "x, weights, dy read; dx, dw written"
    attention = count(trial("attention"))
    assert attention.flops == core.flops + batch * 8 * n * d * d
    assert count(trial("block")).flops == attention.flops + mlp.flops
    more = count(trial("block", norm="sandwich")).bytes - count(trial("block")).bytes
    assert more == 2 * count(trial("norm_layer")).bytes, "norms of the outputs"
    patching = count(trial("patching"))
    assert patching.flops == batch * 2 * 16 * 48 * d and patching.bytes == 4 * (
        batch * (3 * 16 * 16 + 16 * d) + patching.parameters
    )


@pytest.mark.parametrize(("mode", "times"), [("inference", 1), ("train", 3)])
def test_a_whole_model_moves_what_its_parts_move_and_the_weights_of_its_head(mode: str, times: int) -> None:
    of = {level: count(trial(level, mode)).bytes for level in ("patching", "attention", "mlp", "norm_layer", "model")}
    head = 4 * times * parameters(build_model(MODEL, 0).head)
    block = of["attention"] + of["mlp"] + 2 * of["norm_layer"]
    assert of["model"] == of["patching"] + MODEL.depth * block + of["norm_layer"] + head


def test_a_baseline_moves_what_its_layers_move() -> None:
    spec = ModelSpec(architecture="cnn", image_size=16)
    model = build_model(spec, 0).eval()
    read, wrote = [parameters(model)], list[int]()

    def see(_: torch.nn.Module, inputs: tuple[torch.Tensor], output: torch.Tensor) -> None:
        read.append(inputs[0].numel())
        wrote.append(output.numel())

    for layer in model.modules():
        if isinstance(layer, (torch.nn.Conv2d, torch.nn.BatchNorm2d, torch.nn.Linear)):
            layer.register_forward_hook(see)
    model(torch.randn(8, 3, 16, 16))
    for mode, moved in (("inference", sum(read) + sum(wrote)), ("train", 3 * sum(read) + 2 * sum(wrote))):
        assert count(trial(mode=mode).model_copy(update={"model": spec})).bytes == 4 * moved


def test_what_does_not_matter_at_a_level_does_not_make_another_trial() -> None:
    one, other = (
        relevant(MODEL.model_copy(update={"norm": n, "positions": "none"}), "attention") for n in ("pre", "post")
    )
    assert one == other and one.attention == MODEL.attention and one.tokens == MODEL.tokens
    rich = MODEL.model_copy(update=RICH)
    changed: dict[Level, set[str]] = {
        "block": set(RICH), "attention": {"registers", "qk_norm", "gate", "bias"},
        "attention_core": {"registers", "qk_norm", "bias"}, "mlp": {"registers"}, "norm_layer": {"registers"},
        "positions": set(), "pooling": set(), "patching": set(),
    }  # fmt: skip
    for level, fields in changed.items():
        assert relevant(rich, level).canonical().keys() - relevant(MODEL, level).canonical().keys() == fields
    assert relevant(MODEL, "model") == MODEL


def test_the_images_of_a_large_batch_differ() -> None:
    subject = Subject(trial(batch=1), CPU)
    tokens = subject.draw("x", (2**12, 5, 2**9)).view(-1, 2**9)  # more numbers than are drawn
    assert len(tokens.unique(dim=0)) == len(tokens)
    assert torch.equal(tokens.view(2**12, 5, -1)[:8], subject.draw("x", (2**13, 5, 2**9))[:8])
