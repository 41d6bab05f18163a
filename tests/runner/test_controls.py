"""Controls that must bite: planted defects are refused before they get a number, each by a real run.

The components are a user's plug-in that declares each of them exact; the study times them as it would any other.
"""

import json
from pathlib import Path

import pytest

from tests.runner.runs import here, records_of, sets
from tests.small import SUITE
from vitbench.store import Record, StudyFolder, TimeValues

pytestmark = pytest.mark.xdist_group("controls")  # what its fixtures run is run once

HEAD = """
import os, signal
import torch
from torch.nn import functional as F
from vitbench import component
from vitbench.components.contracts import SelfAttention

def right(q, k, v, scale):
    return (q @ k.transpose(-2, -1) * scale).softmax(-1) @ v
"""

ONE = '''
@component(slot="attention", name="{name}", exact=True, source="test")
class {name}(SelfAttention):
    """{name}."""
    calls = 0
    def attend(self, q, k, v):
        {body}
'''

GRADIENT = '''
class Half(torch.autograd.Function):
    """The identity, whose gradient is half of what it ought to be."""
    @staticmethod
    def forward(ctx, x):
        return x.clone()
    @staticmethod
    def backward(ctx, grad):
        return 0.5 * grad
'''

DEFECTS = {
    "zeros": ("return v * 0", "output: error"),
    "wrong_scale": ("return right(q, k, v, (self.heads * self.head_width) ** -0.5)", "output: error"),
    "wrong_gradient": ("return right(q, Half.apply(k), v, self.scale)", "gradient of qkv.weight: error"),
    "missing_gradient": ("return right(q, k, v, self.scale).detach()", "gives no gradient of"),
    "nan_in_one_row": (
        "out = right(q, k, v, self.scale).clone(); out[-1, :, -1] = float('nan'); return out",
        "output: ",
    ),
    "right_at_one_length": (
        "return right(q, k, v, self.scale) if q.shape[-2] == 17 else right(q, k, v, 1.1 * self.scale)",
        "output: error",
    ),
    "right_for_small_batches": (
        "return right(q, k, v, self.scale) if len(q) <= 4 else right(q, k, v, 1.1 * self.scale)",
        "after timing, output: error",
    ),
    "right_at_first": (
        "type(self).calls += 1; return right(q, k, v, self.scale * (1.1 if type(self).calls > 8 else 1))",
        "after timing, output: error",
    ),
}


def write_plugin(folder: Path, bodies: dict[str, str]) -> Path:
    path = folder / "planted.py"
    path.write_text(HEAD + GRADIENT + "".join(ONE.format(name=name, body=body) for name, body in bodies.items()))
    return path


def timed(folder: Path, plugin: Path, names: list[str], *more: str) -> list[Record]:
    """Records of one run in which the named components are timed beside the reference; the study is left in folder."""
    suite = folder / "small.toml"
    suite.write_text(SUITE)
    axis = f"axes.attention={json.dumps(['batched', *names])}"
    chosen = ("time.rounds=2", "time.iterations=8", "time.batch_sizes=[8]", axis, *more)
    command = ["time", str(suite), "--results", str(folder / "study"), "--device", "cpu", "--plugin", str(plugin)]
    done = here(*command, *sets(*chosen))
    assert done.returncode in (0, 1), done.stdout + done.stderr
    study = StudyFolder.read(folder / "study")
    cells = {p.id: p.cell for p in study.info.trials}
    records = records_of(folder / "study")
    assert {cells[r.trial_id] for r in records} == {"batched", *names}
    return records


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Record]]:
    """Defect → its records, of all defects timed together with the gradients in play."""
    folder = tmp_path_factory.mktemp("controls")
    plugin = write_plugin(folder, {name: body for name, (body, _) in DEFECTS.items()})
    longer = ("model.image_size=20", 'time.modes=["train"]', "data.resize=20")  # 25 patches: N = 26
    records: dict[str, list[Record]] = {}
    for record in timed(folder, plugin, list(DEFECTS), *longer):
        records.setdefault(record.trial.model.attention, []).append(record)
    return records


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_gets_no_number(name: str, refused: dict[str, list[Record]]) -> None:
    (record,) = refused[name]
    assert record.state == "incorrect" and record.values is None
    assert DEFECTS[name][1] in record.reason


def test_the_right_one_beside_them_gets_its_number(refused: dict[str, list[Record]]) -> None:
    (record,) = refused["batched"]
    assert record.state == "ok" and record.values is not None
    assert record.environment is not None and record.environment.packages["torch"], "a row without its versions"


@pytest.mark.slow
def test_what_is_right_at_one_length_passes_there(tmp_path: Path) -> None:
    """So it is the length that the gate looks at, and not luck."""
    plugin = write_plugin(tmp_path, {"right_at_one_length": DEFECTS["right_at_one_length"][0]})
    records = timed(tmp_path, plugin, ["right_at_one_length"], 'time.modes=["inference"]')
    assert {r.state for r in records} == {"ok"}


@pytest.mark.slow
def test_one_that_dies_beside_others_takes_none_of_them_along(tmp_path: Path) -> None:
    """It survives alone, and dies in the process that it shares: the others are timed without it."""
    fine = "return right(q, k, v, self.scale)"
    fatal = f"type(self).calls += 1; type(self).calls > 8 and os.kill(os.getpid(), signal.SIGKILL); {fine}"
    plugin = write_plugin(tmp_path, {"fatal": fatal, "fine": fine})
    records = timed(tmp_path, plugin, ["fatal", "fine"], 'time.modes=["inference"]')
    states = {(r.trial.model.attention, r.state) for r in records}
    assert states == {("batched", "ok"), ("fine", "ok"), ("fatal", "crashed")}
    assert all("SIGKILL" in r.reason for r in records if r.state == "crashed")
    for record in records:
        if record.state == "ok":
            assert record.values is not None and len(record.values.processes) == 2


@pytest.mark.slow
def test_what_fits_alone_and_not_together_is_timed_by_halves(tmp_path: Path) -> None:
    """Six variants of which a process can hold four: the panel of six runs out of memory, those of three do not."""
    body = """
        from vitbench.components.contracts import SelfAttention as base
        base.held = getattr(base, "held", set()) | {id(self)}
        base.kept = getattr(base, "kept", []) + [self]
        if len(base.held) > 4:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return right(q, k, v, self.scale)"""
    names = [f"hungry{i}" for i in range(6)]
    plugin = write_plugin(tmp_path, dict.fromkeys(names, body.strip()))
    records = timed(tmp_path, plugin, names, 'time.modes=["inference"]', "time.iterations=3")
    assert {(r.state, r.attempt) for r in records} == {("ok", 1)} and len(records) == 7


@pytest.mark.slow
def test_trials_that_are_added_are_timed_beside_the_same_baseline(tmp_path: Path) -> None:
    fine = "return right(q, k, v, self.scale)"
    plugin = write_plugin(tmp_path, {"fine": fine, "other": fine})
    alone = timed(tmp_path, plugin, ["fine"], 'time.modes=["inference"]')
    (baseline,) = (record for record in alone if record.trial.model.attention == "batched")
    records = timed(tmp_path, plugin, ["fine", "other"], 'time.modes=["inference"]')
    assert len(records) == 3
    for record in records:
        assert isinstance(record.values, TimeValues) and record.values.baseline == baseline.trial_id
        assert record.values.ceilings is not None and record.values.ceilings.flops_per_s > 0
        for samples in record.values.processes:
            assert len(samples.latencies_ms) == len(samples.baseline_ms) == len(samples.control_ms) == 8
