"""The command that profiles a model: its operations by time, and a timeline that other programs show."""

import json
from pathlib import Path

import pytest
import torch

from tests.runner.runs import here
from tests.small import MODEL
from vitbench.timing.profiling import profiled


def test_an_iteration_spends_its_time_in_what_it_calls(tmp_path: Path) -> None:
    cpu = torch.device("cpu")
    operations = profiled(MODEL, cpu, batch_size=4, mode="inference", dtype="float32", trace=tmp_path / "trace.json")
    assert [each.ms for each in operations] == sorted((each.ms for each in operations), reverse=True)
    assert 0.1 < sum(each.share for each in operations) <= 1.0
    calls = {each.name: each.calls for each in operations}
    assert calls["aten::addmm"] == 5 * MODEL.depth, (
        "qkv, projection, two of the MLP, and the head of a model of one block"
    )
    assert not any("backward" in name.lower() for name in calls)
    training = profiled(MODEL, cpu, batch_size=4, mode="train", dtype="float32", trace=tmp_path / "train.json")
    assert any("backward" in each.name.lower() for each in training)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert any(event.get("name") == "aten::addmm" for event in events)


@pytest.mark.gpu
def test_each_kernel_of_a_gpu_is_counted_once(tmp_path: Path) -> None:
    model, gpu = MODEL.model_copy(update={"dim": 256}), torch.device("cuda")
    kernels = profiled(model, gpu, batch_size=4096, mode="inference", dtype="float32", trace=tmp_path / "trace.json")
    assert 0.3 < sum(each.share for each in kernels) < 1.1 and not any("aten::" in each.name for each in kernels)


def test_operations_of_a_runtime_that_is_not_seen_take_none_of_the_time(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model, cpu = MODEL.model_copy(update={"runtime": "onnxruntime", "dim": 64}), torch.device("cpu")
    operations = profiled(model, cpu, batch_size=256, mode="inference", dtype="float32", trace=tmp_path / "trace.json")
    assert sum(each.share for each in operations) < 0.2


def test_the_command_profiles_a_cell_of_a_suite(tmp_path: Path) -> None:
    options = ("--small", "--cell", "mean", "--device", "cpu", "--batch", "2", "--top", "3")
    done = here("profile", "pooling", *options, cwd=tmp_path)
    assert done.returncode == 0
    assert "mean, train, float32, 2 images on cpu" in done.stdout and "aten::" in done.stdout
    assert (tmp_path / "trace.json").stat().st_size > 1000
    assert done.stderr == "", "what the profiler says of itself"
    done = here("profile", "pooling", *options, "--trace", "nowhere/trace.json", cwd=tmp_path)
    assert done.returncode == 2 and "nowhere/trace.json: cannot be written: No such file" in done.stderr
