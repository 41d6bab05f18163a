"""A model stage by stage: nothing is counted twice or forgotten, whatever the components."""

import itertools
from pathlib import Path

import pytest

from tests.components.cases import COMPILED, COMPONENTS
from tests.conftest import REPOSITORY
from tests.runner.runs import here
from tests.small import MODEL, SUITE
from tests.timing.test_subject import CPU
from vitbench import registry
from vitbench.config.model import ModelSpec
from vitbench.config.presets import preset
from vitbench.model.counting import forward_flops, parameters_of
from vitbench.timing import stages
from vitbench.timing.stages import summarise

SPECS = {f"{slot}-{name}": MODEL.model_copy(update={slot: name, "depth": 2}) for slot, name in COMPONENTS} | {
    name: ModelSpec(architecture=name, image_size=16) for name in ("cnn", "resnet18")
}
RICH = {"registers": 2, "residual": "layerscale", "norm": "sandwich", "qk_norm": "layernorm", "gate": "elementwise"}
SPECS |= {form: MODEL.model_copy(update={**RICH, "block": form, "depth": 2}) for form in registry.names("block")}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name.partition("-")[2] in COMPILED)) for name in SPECS]
)
def test_stages_are_all_of_the_model(name: str) -> None:
    spec = SPECS[name]
    if spec.problems() or spec.conflicts():
        pytest.skip("a component that needs others")
    if reason := spec.unsupported("cpu", "float32", training=False):
        pytest.skip(reason)
    summary = summarise(spec, CPU, 2)
    assert summary.parameters == parameters_of(spec) == sum(stage.parameters for stage in summary.stages)
    assert summary.flops == forward_flops(spec) == sum(stage.flops for stage in summary.stages)
    assert all(stage.share >= 0.0 for stage in summary.stages) and summary.ms > 0
    assert max(stage.share for stage in summary.stages) > 0.0
    assert summary.stages[-1].shape == (10,)
    if spec.of_components:
        assert summary.stages[0].shape[-1] == spec.dim


@pytest.mark.slow
def test_times_are_milliseconds_of_a_whole_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that goes on by a millisecond each time it is looked at: twice a stage, and at the end."""
    looks = itertools.count()
    monkeypatch.setattr(stages.time, "perf_counter", lambda: next(looks) / 1000)
    summary = summarise(MODEL, CPU, 2)
    assert summary.ms == pytest.approx(2 * len(summary.stages) + 1) and summary.spread == pytest.approx(0.0, abs=1e-9)
    assert [stage.share for stage in summary.stages] == pytest.approx([1 / summary.ms] * len(summary.stages))


def test_the_command_shows_a_preset_and_a_cell_of_a_suite(tmp_path: Path) -> None:
    done = here("summary", "cifar-tiny", "--device", "cpu", "--batch", "1")
    assert done.returncode == 0, done.stderr
    assert f"{parameters_of(preset('cifar-tiny')):,}" in done.stdout and "blocks 2 to 6" in done.stdout
    suite = tmp_path / "small.toml"
    suite.write_text(SUITE + '[axes]\nmlp = ["gelu", "none"]\n')
    outputs = [here("summary", str(suite), "--cell", cell, "--device", "cpu").stdout for cell in ("gelu", "none")]
    assert "\n block 1 " in outputs[0] and ("  mlp " in outputs[0], "  mlp " in outputs[1]) == (True, False)
    assert all("  attention " in each for each in outputs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("cifar-tin",), 'neither a preset nor a suite; did you mean "cifar-tiny"?'),
        (("cifar-tiny", "--cell", "x"), "is a preset"),
        (("ablations/components.toml", "--cell", "conv"), "no cell of components.toml"),
        (("missing.toml",), "missing.toml"),
        (("cifar-tiny", "--batch", "1000000000000", "--device", "cpu"), "cifar-tiny, 1000000000000 image(s) at once"),
    ],
)
def test_what_is_not_there_is_said_with_the_nearest_name(arguments: tuple[str, ...], message: str) -> None:
    done = here("summary", *arguments, cwd=REPOSITORY)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr, done.stderr
