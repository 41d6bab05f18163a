"""Runtimes: each installed one runs the model that it is given, on as many threads as PyTorch, and is timed."""

import importlib.util
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from tests.components.cases import device_for, slow_where_compiled
from tests.runner.runs import Runs, here
from tests.small import time_trial
from tests.timing.test_subject import CPU, MODEL, trial
from vitbench import registry
from vitbench.config.model import ModelSpec
from vitbench.config.trial import relevant
from vitbench.devices import unsupported
from vitbench.model.build import build_model
from vitbench.model.exactness import Incorrect
from vitbench.store import TimeValues
from vitbench.timing.measure import alone
from vitbench.timing.subject import Subject

RUNTIMES = registry.names("runtime")
RICH = {"registers": 2, "qk_norm": "rmsnorm", "gate": "headwise", "mlp": "swiglu", "positions": "rope_2d",
        "pooling": "mean"}  # fmt: skip
"""What ViTs are made of today."""
WORST_OF_INT8 = 0.25  # Drift up to which int8 has rounded and nothing else: a wrong layer drifts by 1


def drifts(name: str, batch: int = 8, **changes: object) -> float | None:
    """The drift of a model's output under a runtime, after the checks that a timing makes."""
    device = device_for(MODEL.model_copy(update={"runtime": name}), training=False)
    subject = Subject(trial(batch=batch, runtime=name, **changes), device)
    for _ in range(2):
        subject.iterate()
    return subject.verify()


@pytest.mark.parametrize("name", slow_where_compiled(*((name,) for name in RUNTIMES)))
def test_a_runtime_gives_what_the_model_gives(name: str) -> None:
    """By the rule where it is exact; the drift is recorded either way, and rounding alone makes it."""
    most = 1e-5 if registry.facts("runtime", name).exact else WORST_OF_INT8
    for changes in ({}, RICH):
        drift = drifts(name, **changes)
        assert drift is not None and 0 < drift < most, changes


def test_another_output_is_incorrect_where_a_runtime_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """And none is where it is not: how far it drifts is recorded."""

    def prepare(self: object, module: nn.Module, example: Tensor) -> Callable[[Tensor], Tensor]:
        return lambda images: 1.01 * module(images)

    monkeypatch.setattr(registry.load("runtime", "eager"), "prepare", prepare)
    with pytest.raises(Incorrect, match="after timing, output"):
        alone(trial(), CPU)
    facts = replace(registry.facts("runtime", "eager"), exact=False, reference=False)
    monkeypatch.setitem(registry._plugin_facts, ("runtime", "eager"), facts)
    assert alone(trial(), CPU).drift == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize("name", slow_where_compiled(*((name,) for name in RUNTIMES)))
def test_a_runtime_has_as_many_threads_as_pytorch(name: str) -> None:
    """With one thread the process' time is no more than the clock's."""
    device = device_for(MODEL.model_copy(update={"runtime": name}), training=False)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        subject = Subject(trial(batch=64, runtime=name, dim=128, depth=4), device)
        for _ in range(3):
            subject.iterate()
        wall, cpu = time.perf_counter(), time.process_time()
        while time.perf_counter() - wall < 1.0:
            subject.iterate()
        assert time.process_time() - cpu < 1.3 * (time.perf_counter() - wall)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("name", [name for name in RUNTIMES if registry.facts("runtime", name).packages])
def test_without_its_package_a_runtime_is_unsupported(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None)
    (device, *_), (package, *_) = (getattr(registry.facts("runtime", name), fact) for fact in ("devices", "packages"))
    spec = ModelSpec(runtime=name)
    reason = f'runtime "{name}" needs the package {package}, which is not installed'
    assert unsupported(spec, torch.device(device), "float32", training=False) == reason


@pytest.mark.parametrize("name", [name for name in RUNTIMES if name != "eager"])
def test_a_runtime_is_for_inference(name: str) -> None:
    (device, *_) = registry.facts("runtime", name).devices
    reason = time_trial(ModelSpec(runtime=name), mode="train").unsupported(device)
    assert reason == f'runtime "{name}" has no backward pass on {device}'


def test_a_part_is_timed_once_whatever_the_runtime() -> None:
    other = MODEL.model_copy(update={"runtime": "openvino"})
    assert relevant(other, "attention") == relevant(MODEL, "attention")
    assert relevant(other, "model") == other != MODEL


@pytest.mark.slow
def test_int8_leaves_the_compiler_s_settings_alone() -> None:
    """They are the process's, in which other variants are compiled too."""
    device_for(ModelSpec(runtime="torchao_int8"), training=False)
    before = torch._inductor.config.save_config_portable(), torch.get_float32_matmul_precision()
    registry.load("runtime", "torchao_int8")(MODEL).prepare(build_model(MODEL, 0).eval(), torch.randn(1, 3, 16, 16))
    assert (torch._inductor.config.save_config_portable(), torch.get_float32_matmul_precision()) == before


@pytest.mark.slow
def test_runtimes_are_timed_side_by_side(runs: Runs) -> None:
    """The command, from the suite to the report: states, reasons, and the drift of each that ran."""
    names = ("eager", "onnxruntime", "openvino", "tensorrt")
    for name in names[1:3]:
        device_for(ModelSpec(runtime=name), training=False)
    text = runs.suite.read_text()
    model = text[text.index("[model]") : text.index("[data]")]
    runs.suite.write_text(
        f'[suite]\nname = "small"\nquestion = "Does it run?"\n{model}[axes]\nruntime = {list(names)}\n'
        '[time]\nbatch_sizes = [2]\nmodes = ["inference"]\nrounds = 1\niterations = 4\n'
    )
    done = here("time", str(runs.suite), "--results", str(runs.study), "--device", "cpu")
    assert done.returncode == 0, done.stderr
    records = {record.trial.model.runtime: record for record in runs.records()}
    assert {name: record.state for name, record in records.items()} == {
        "eager": "ok", "onnxruntime": "ok", "openvino": "ok", "tensorrt": "unsupported",
    }  # fmt: skip
    assert records["tensorrt"].reason == 'runtime "tensorrt" runs on cuda, not on cpu'
    for name in names[:3]:
        values = records[name].values
        assert isinstance(values, TimeValues) and values.drift is not None and 0 < values.drift < 1e-5
    assert "drift of the output" in (page := runs.report()) and "**drift of the output:**" in page
