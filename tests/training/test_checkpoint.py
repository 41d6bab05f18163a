"""An interrupted run that goes on from its checkpoint is the same run, bit by bit; a bad file is never used."""

import json
import pickle
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load

from tests.bad_input import Evil
from tests.components.cases import COMPONENTS
from tests.conftest import wants_compiler
from tests.small import DATA, MODEL, TRAIN, train_trial
from tests.training.stages import CPU, discard, silent
from vitbench import registry
from vitbench.config import TrainSpec, TrainTrial
from vitbench.config.trial import TuneTrial
from vitbench.training import checkpoint as files
from vitbench.training import loop, resume, stage
from vitbench.training.checkpoint import BadCheckpoint, Checkpointing, Interrupted, read
from vitbench.training.loop import Fitted, train, tune
from vitbench.training.stepper import CHECK_EVERY, Diverged, Stepper

NEVER = 1e9

# 160 training images: epochs of 50 + 50 + 50 + 10, and a last one that the budget ends after 50 + 50 + 10.
STEPS = 11
RICH = TrainSpec(
    images=430, batch_size=50, learning_rate=0.01, weight_decay=0.05, label_smoothing=0.1, clip_norm=0.5,
    crop_padding=2, flip=True, warmup_epochs=1.5,
)  # fmt: skip
DROPPING = MODEL.model_copy(update={"depth": 2, "dropout": 0.1, "attention_dropout": 0.1, "drop_path": 0.3})


def rich(**changes: object) -> TrainTrial:
    return train_trial(model=DROPPING, train=RICH.model_copy(update=changes))


def fit(trial: TrainTrial | TuneTrial, *rest: Any) -> Fitted:
    return loop.fit([trial], *rest)


def interrupt(
    trial: TrainTrial, path: Path, step: int, run: Callable[..., object] = fit, device: torch.device = CPU
) -> None:
    """Train, and be asked to end while a step is under way."""
    plan = Checkpointing(path, NEVER)
    original = Stepper.step

    def step_and_ask(self: Stepper, *batch: torch.Tensor) -> object:
        out = original(self, *batch)
        if self.steps + 1 == step:
            plan.save_now.ask()
        return out

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stepper, "step", step_and_ask)
        with pytest.raises(Interrupted, match=f"after step {step}, which is kept"):
            run(trial, device, silent, plan)
    torch.rand(7)  # another process's generator is somewhere else


def numbers(fitted: Fitted) -> dict[str, object]:
    """All that a run comes to; two equal ones are equal in every bit."""
    test = stage.judge(fitted.stepper, [fitted.data[0].test], fitted.data, fitted.resumable)
    epochs = [e.model_dump(exclude={"seconds"}) for e in fitted.state.epochs[0]]
    weights = {
        (part, k): v.numpy().tobytes()
        for part, module in fitted.stepper.modules().items()
        for k, v in module.state_dict().items()
    }
    moments = {name: v.numpy().tobytes() for name, v in fitted.stepper.optimiser.state()}
    return {
        "test": test, "epochs": epochs, "weights": weights, "moments": moments, "steps": fitted.stepper.steps,
        "left": fitted.stepper.left, "digest": fitted.batches[0].digest(), "laps": len(fitted.state.step_ms),
    }  # fmt: skip


def test_a_resumed_run_is_the_same_run(tmp_path: Path) -> None:
    """First step of all, inside an epoch, its last step, the next one's first, twice in a row, the last step of all."""
    trial = rich()
    whole = numbers(fit(trial, CPU, silent))
    assert whole["steps"] == whole["laps"] == STEPS
    for stops in [(1,), (3,), (4,), (5,), (6, 7), (2, 4, 9), (10,), (STEPS,)]:
        path = tmp_path / str(stops) / "trial.safetensors"
        for stop in stops:
            interrupt(trial, path, stop)
        resumed = fit(trial, CPU, silent, Checkpointing(path, NEVER))
        assert resumed.state.resumed_at == stops
        assert numbers(resumed) == whole, f"interrupted after {stops}"


@pytest.mark.parametrize(
    "changes",
    [
        {"optimizer": "adam"},
        {"precision": "bfloat16"},
        {"images": None, "epochs": 2, "schedule": "constant", "clip_norm": 0.0},
        {"optimizer": "muon", "ema": 0.9},
        {"augment": "randaugment", "mixup": 0.8, "cutmix": 1.0, "erasing": 0.5, "cutout": 2, "repeats": 2},
    ],
    ids=["adam", "bfloat16", "whole epochs", "muon and average", "augmentation"],
)
def test_under_other_recipes_too(changes: dict[str, object], tmp_path: Path) -> None:
    trial = rich(**changes)
    interrupt(trial, tmp_path / "c", 5)
    assert numbers(fit(trial, CPU, silent, Checkpointing(tmp_path / "c"))) == numbers(fit(trial, CPU, silent))


@pytest.mark.slow
def test_with_every_component_that_trains_here(tmp_path: Path) -> None:
    seen = set()
    for slot, name in COMPONENTS:
        model = MODEL.model_copy(update={slot: name, "dropout": 0.1, "depth": 2, "drop_path": 0.1})
        if model.unsupported("cpu", "float32", True) is None and not model.conflicts():
            trial = train_trial(model=model)
            path = tmp_path / f"{slot}-{name}"
            interrupt(trial, path, 2)
            resumed = fit(trial, CPU, silent, Checkpointing(path))
            assert resumed.state.resumed_at == (2,)
            assert numbers(resumed) == numbers(fit(trial, CPU, silent)), (slot, name)
            seen.add(slot)
    assert seen == set(registry.slots())


@pytest.mark.parametrize("reading", [0, 1, 2, 3], ids=["first", "second", "last", "test"])
def test_interrupted_while_it_evaluates(reading: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After each epoch's last step, and while the test images are read."""
    trial = rich()
    whole = train(trial, CPU, silent)
    plan = Checkpointing(tmp_path / "c", NEVER)
    original, readings = stage.evaluate, []

    def ask_and_evaluate(*inputs: object) -> object:
        if len(readings) == reading:
            plan.save_now.ask()
        readings.append(1)
        return original(*inputs)

    with monkeypatch.context() as patch:
        patch.setattr(stage, "evaluate", ask_and_evaluate)
        with pytest.raises(Interrupted):
            train(trial, CPU, silent, plan)
    assert len(readings) == reading + 1, "it ends in the evaluation in which it is asked to"
    resumed = train(trial, CPU, silent, Checkpointing(plan.path))
    assert resumed.resumed_at == ((4, 8, STEPS, STEPS)[reading],)
    assert (resumed.test_loss, resumed.test_accuracy_pct) == (whole.test_loss, whole.test_accuracy_pct)
    assert [e.validation_loss for e in resumed.epochs] == [e.validation_loss for e in whole.epochs]
    assert [e.train_loss for e in resumed.epochs] == [e.train_loss for e in whole.epochs]


def test_a_tuning_run_is_resumed(tmp_path: Path) -> None:
    trial = TuneTrial.model_validate({**dict(rich()), "kind": "tune"})
    interrupt(trial, tmp_path / "c", 6, tune)
    resumed, whole = tune(trial, CPU, silent, Checkpointing(tmp_path / "c")), tune(trial, CPU, silent)
    assert (resumed.resumed_at, whole.resumed_at) == ((6,), ())
    assert resumed.validation_loss == whole.validation_loss and resumed.steps == whole.steps == STEPS


def test_a_killed_process_is_resumed(tmp_path: Path) -> None:
    """SIGKILL in the middle of a step, after saves of the steps before."""
    trial, path = rich(), tmp_path / "c"
    code = """
        import os, signal, sys, torch
        from pathlib import Path
        from vitbench.config import TrainTrial
        from vitbench.training.checkpoint import Checkpointing
        from vitbench.training.loop import fit
        from vitbench.training.stepper import Stepper
        original = Stepper.step
        def step(self, *batch):
            if self.steps == 6:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(self, *batch)
        Stepper.step = step
        torch.set_num_threads(int(sys.argv[3]))
        trial = TrainTrial.model_validate_json(sys.argv[1])
        fit([trial], torch.device("cpu"), print, Checkpointing(Path(sys.argv[2]), every_s=0.0))
    """
    done = python(code, trial.model_dump_json(), str(path), str(torch.get_num_threads()))
    assert done.returncode == -signal.SIGKILL, done.stderr
    resumed = fit(trial, CPU, silent, Checkpointing(path))
    assert resumed.state.resumed_at == (6,)
    assert numbers(resumed) == numbers(fit(trial, CPU, silent))


def test_sigterm_saves_and_the_next_process_goes_on(tmp_path: Path) -> None:
    """As the runner does it: the reply of the first process is "interrupted", the second one's is "ok"."""
    code = """
        import os, signal, sys
        from pathlib import Path
        from vitbench.config import TrainTrial
        from vitbench.runner.work import Request, perform
        from vitbench.training.stepper import Stepper
        original = Stepper.step
        def step(self, *batch):
            if self.steps == 5 and sys.argv[4] == "end":
                os.kill(os.getpid(), signal.SIGTERM)
            return original(self, *batch)
        Stepper.step = step
        trial = TrainTrial.model_validate_json(sys.argv[1])
        request = Request("train", trial, 600.0, "cpu", int(sys.argv[3]), checkpoint=Path(sys.argv[2]))
        reply = perform(request, lambda kind, body: print(body, file=sys.stderr))
        print(reply.model_dump_json())
    """
    trial = rich()
    request = trial.model_dump_json(), str(tmp_path / "c"), str(torch.get_num_threads())
    ended = python(code, *request, "end")
    reply = json.loads(ended.stdout)
    assert (reply["state"], reply["values"], reply["details"]) == ("interrupted", None, ""), ended.stderr
    assert "after step 6" in reply["reason"]
    resumed = python(code, *request, "go on")
    reply = json.loads(resumed.stdout)
    assert reply["state"] == "ok" and "goes on from its checkpoint, after step 6" in resumed.stderr
    whole = train(trial, CPU, silent)
    assert reply["values"]["resumed_at"] == [6]
    assert reply["values"]["test_loss"] == whole.test_loss
    assert [e["train_loss"] for e in reply["values"]["epochs"]] == [e.train_loss for e in whole.epochs]


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments], capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A checkpoint of the rich trial after step 6."""
    path = tmp_path_factory.mktemp("sound") / "c"
    interrupt(rich(), path, 6)
    return path.read_bytes()


def flip(content: bytes, index: int, bit: int = 0) -> bytes:
    return content[:index] + bytes([content[index] ^ 1 << bit]) + content[index + 1 :]


DAMAGE: dict[str, Callable[[bytes, Path], bytes]] = {
    "empty": lambda c, _: b"",
    "cut short": lambda c, _: c[:-10],
    "cut in the header": lambda c, _: c[:100],
    "tensor bit": lambda c, _: flip(c, len(c) - 1000),
    "number in the JSON": lambda c, _: c.replace(rb"\"steps\":6", rb"\"steps\":7"),
    "a tensor's name": lambda c, _: c.replace(b'"model.head.bias"', b'"model.bead.bias"'),
    "pickle": lambda c, sentinel: pickle.dumps(Evil(sentinel)),
    "JSON": lambda c, _: b'{"steps": 6}',
    "other safetensors": lambda c, _: (8).to_bytes(8, "little") + b"{}      ",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_is_set_aside_by_name(damage: str, sound: bytes, tmp_path: Path) -> None:
    path, sentinel = tmp_path / "trial.safetensors", tmp_path / "executed"
    content = DAMAGE[damage](sound, sentinel)
    assert content != sound
    path.write_bytes(content)
    lines: list[str] = []
    fitted = fit(rich(images=50), CPU, lines.append, Checkpointing(path))
    assert fitted.state.resumed_at == () and fitted.stepper.steps == 1
    assert "trial.safetensors.corrupt is damaged, training starts anew" in lines[0]
    assert not path.exists() and path.with_name("trial.safetensors.corrupt").read_bytes() == content
    assert not sentinel.exists()


def test_no_flipped_bit_and_no_cut_passes_for_sound(sound: bytes, tmp_path: Path) -> None:
    trial = rich()
    identity = resume.identity(trial, fit(rich(images=50), CPU, silent).data[0].checksum, CPU)
    path = tmp_path / "c"
    path.write_bytes(sound)
    whole = read(path, identity)
    chance = random.Random(0)
    header = 8 + int.from_bytes(sound[:8], "little")
    for _ in range(300):
        index = chance.randrange(header if chance.random() < 0.7 else len(sound))
        path.write_bytes(chance.choice([flip(sound, index, chance.randrange(8)), sound[:index]]))
        try:
            got = read(path, identity)
        except BadCheckpoint:
            continue
        # A flip that changes nothing, such as a space of the header's padding into another blank.
        assert got.moment == whole.moment and got.tensors.keys() == whole.tensors.keys()
        assert all(torch.equal(got.tensors[k], whole.tensors[k]) for k in whole.tensors)


@pytest.mark.parametrize("what", ["trial", "code", "torch", "threads", "processor"])
def test_a_checkpoint_of_something_else_is_not_used(
    what: str, sound: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c"
    path.write_bytes(sound)
    trial = rich(learning_rate=0.02) if what == "trial" else rich()
    threads = torch.get_num_threads()
    if what == "code":
        monkeypatch.setattr(resume, "code_digest", lambda: "0123456789ab")
    elif what == "torch":
        monkeypatch.setattr(torch, "__version__", "2.11.0")
    elif what == "processor":
        monkeypatch.setattr(resume, "cpu_model", lambda: "Another One")
    elif what == "threads":
        torch.set_num_threads(threads + 1)
    lines: list[str] = []
    try:
        fitted = fit(trial, CPU, lines.append, Checkpointing(path))
    finally:
        torch.set_num_threads(threads)
    assert fitted.state.resumed_at == () and fitted.stepper.steps == STEPS
    assert f"checkpoint c is not used, training starts anew: {what} " in lines[0]
    assert path.read_bytes() == sound, "it is not damaged, and stays until a save replaces it"


def test_a_state_that_a_new_model_cannot_hold_is_not_used(sound: bytes, tmp_path: Path) -> None:
    """As of a component that makes a buffer while it trains: without it the run would be another one."""
    trial, path, lines = rich(), tmp_path / "c", list[str]()
    path.write_bytes(sound)
    identity = resume.identity(trial, fit(rich(images=50), CPU, silent).data[0].checksum, CPU)
    kept = read(path, identity)
    kept.tensors["model.encoder.running_mean"] = torch.zeros(3)
    files.write(path, kept, identity)
    fitted = fit(trial, CPU, lines.append, Checkpointing(path))
    assert fitted.state.resumed_at == ()
    assert lines[0] == "checkpoint is not used, training starts anew: other tensors model.encoder.running_mean"


def test_a_short_trial_writes_none_and_a_save_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trial, path = rich(), tmp_path / "new folder" / "c"
    whole = numbers(fit(trial, CPU, silent, Checkpointing(path)))
    assert not path.parent.exists()
    saves: list[int] = []
    original = files.write
    monkeypatch.setattr(files, "write", lambda p, c, i: (saves.append(c.moment.steps), original(p, c, i)))
    assert numbers(fit(trial, CPU, silent, Checkpointing(path, every_s=0.0))) == whole
    assert saves == list(range(1, STEPS + 1))
    assert [p.name for p in path.parent.iterdir()] == ["c"]
    discard(path)
    discard(path)
    assert not path.exists()


def test_a_save_is_in_no_step_and_no_epoch_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock on which each save takes an hour."""
    real, saves = time.perf_counter, list[int]()
    monkeypatch.setattr(time, "perf_counter", lambda: real() + 3600 * len(saves))
    monkeypatch.setattr(files, "write", lambda *_: saves.append(1))
    values = train(train_trial(), CPU, silent, Checkpointing(tmp_path / "c", every_s=0.0))
    assert values.steps == len(saves) == 4 and values.seconds > 4 * 3600
    assert max(values.train_seconds, values.epochs[0].seconds) < 3600
    assert max(values.first_step_ms, values.step_ms_p50) < 3600e3


def test_each_process_warms_up() -> None:
    both = loop.step_times_ms
    assert both([90.0, 50.0, 50.0, 40.0, 1.0, 2.0, 3.0], (), 10) == (2.0, 88.0 + 48.0 + 48.0 + 38.0)
    interrupted = [90.0, 50.0, 50.0, 40.0, 1.0, 2.0, 3.0, 80.0, 70.0, 60.0, 50.0, 2.0]
    assert both(interrupted, (7,), 20) == (2.0, 88.0 + 48.0 + 48.0 + 38.0 + 78.0 + 68.0 + 58.0 + 48.0)
    assert both([9.0, 2.0, 2.0, 2.0, 2.0, 40.0, 2.0], (), 6) == (2.0, 7.0 + 38.0), "a last batch of another shape"
    assert both([9.0, 8.0], (), 10) == (8.5, 0.5), "where there are no others"


def test_a_disk_that_is_full_costs_a_line_not_the_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    trial, lines = rich(), list[str]()
    whole = numbers(fit(trial, CPU, silent))
    monkeypatch.setattr(files, "write_atomically", full)
    assert numbers(fit(trial, CPU, lines.append, Checkpointing(tmp_path / "c", every_s=0.0))) == whole
    assert "checkpoint c cannot be written: No space left on device" in lines
    plan = Checkpointing(tmp_path / "c", NEVER)
    plan.save_now.ask()
    with pytest.raises(Interrupted, match="after step 1, which is not kept"):
        fit(trial, CPU, silent, plan)


def test_a_lost_run_diverges_with_checkpoints_too_and_is_not_kept(tmp_path: Path) -> None:
    lost = TrainSpec(epochs=50, batch_size=10, learning_rate=1e9, optimizer="adam", clip_norm=1.0)
    trial = train_trial(train=lost, data=DATA)
    with pytest.raises(Diverged) as plain:
        fit(trial, CPU, silent)
    path = tmp_path / "c"
    with pytest.raises(Diverged) as saving:
        fit(trial, CPU, silent, Checkpointing(path, every_s=0.0))
    late, early = (int(str(e.value).rpartition(" ")[2]) for e in (plain, saving))
    assert early <= late < early + CHECK_EVERY
    kept = load(path.read_bytes())
    assert kept["epoch.loss_sum"].isfinite() and len(kept["step_ms"]) < early
    with pytest.raises(Diverged) as resumed:
        fit(trial, CPU, silent, Checkpointing(path, NEVER))
    assert str(resumed.value) == str(plain.value), "the state before it was sound, and leads to the same end"


@pytest.mark.gpu
def test_on_a_gpu_it_goes_on_to_rounding(tmp_path: Path) -> None:
    """Sums are in no fixed order there; another dropout mask would be far off."""
    gpu = torch.device("cuda", 0)
    trial = rich()
    whole = fit(trial, gpu, silent)
    interrupt(trial, tmp_path / "c", 6, device=gpu)
    torch.rand(7, device=gpu)
    resumed = fit(trial, gpu, silent, Checkpointing(tmp_path / "c"))
    assert resumed.state.resumed_at == (6,)
    for one, other in zip(resumed.state.epochs[0], whole.state.epochs[0], strict=True):
        assert one.train_loss == pytest.approx(other.train_loss, rel=1e-3)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_compiled_run_is_resumed(tmp_path: Path) -> None:
    """To rounding: the compiler may choose another kernel for the batch at which a process begins."""
    wants_compiler()
    trial = train_trial(train=TRAIN.model_copy(update={"epochs": 2, "compile": True}))
    interrupt(trial, tmp_path / "c", 5)
    torch.compiler.reset()
    resumed = train(trial, CPU, silent, Checkpointing(tmp_path / "c"))
    assert resumed.resumed_at == (5,)
    torch.compiler.reset()
    assert resumed.test_loss == pytest.approx(train(trial, CPU, silent).test_loss, rel=1e-3)
