"""A trial's whole state as a checkpoint, and back: what makes a resumed run the same run, bit by bit on the CPU.

Not in it, because the trial's seed gives it again: the split, the order and augmentation of every epoch, the learning
rate of every step. Floating point repeats itself on one machine, in one version of torch, with one number of threads,
so a checkpoint of another one is not used. A component's state is its parameters and buffers; what it keeps elsewhere
is lost with its process.
"""

import contextlib
import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from vitbench import registry
from vitbench.config.trial import TrainingTrial
from vitbench.devices import PeakMemory
from vitbench.environment import code_digest, cpu_model, versions
from vitbench.training import checkpoint as files
from vitbench.training.checkpoint import (
    BadCheckpoint,
    Checkpoint,
    Checkpointing,
    Identity,
    Interrupted,
    Moment,
    OtherCheckpoint,
)
from vitbench.training.stepper import Stepper, TrainState


def identity(trial: TrainingTrial, data_checksum: str, device: torch.device) -> Identity:
    """All that must be equal for a checkpoint to be used; its words are those of the message where it is not."""
    return {
        "trial": trial.id,
        "data": data_checksum[:12],
        "code": code_digest(),
        "plug-ins": ", ".join(plugin.digest for plugin in registry.plugins()) or "none",
        "torch": torch.__version__,
        "packages": ", ".join(f"{name} {version}" for name, version in versions().items() if name != "torch"),
        "device": device.type,
        "processor": torch.cuda.get_device_name(device) if device.type == "cuda" else cpu_model(),
        "threads": str(torch.get_num_threads()),
    }


class Resumable:
    """A trial that saves its state between steps, and goes on from the state that was saved last.

    Args:
        plan: where the checkpoint is, and how often it is saved.
        made_by: see :func:`identity`.
        stepper: its model and optimiser, at the beginning.
        state: how far it is.
        memory: of this process.
        progress: called with a line for the user.
    """

    def __init__(
        self, plan: Checkpointing, made_by: Identity, stepper: Stepper, state: TrainState, *, memory: PeakMemory,
        progress: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.plan, self.made_by = plan, made_by
        self.stepper, self.state, self.memory, self.progress = stepper, state, memory, progress
        self.began, self.earlier_s = time.perf_counter(), 0.0
        self.last_save = time.monotonic()

    def resume(self) -> None:
        """Take up the last checkpoint. Where there is one that may not be used, the user hears why.

        A damaged file is kept as ``*.corrupt``; one of something else stays until the first save replaces it.
        """
        path, anew = self.plan.path, "training starts anew"
        with self.memory.uncounted():
            try:
                checkpoint = files.read(path, self.made_by)
            except FileNotFoundError:
                pass
            except BadCheckpoint as error:
                aside = path.with_name(f"{path.name}.corrupt")
                with contextlib.suppress(OSError):  # what cannot be renamed is replaced by the first save
                    path.replace(aside)
                self.progress(f"checkpoint {aside.name} is damaged, {anew}: {error}")
            except OtherCheckpoint as error:
                self.progress(f"checkpoint {path.name} is not used, {anew}: {error}")
            except OSError as error:
                self.progress(f"checkpoint {path.name} cannot be read, {anew}: {error.strerror}")
            else:
                if names := self.misfits(checkpoint):
                    self.progress(f"checkpoint is not used, {anew}: other tensors {', '.join(names)}")
                else:
                    self.restore(checkpoint)
                    self.progress(f"goes on from its checkpoint, after step {self.stepper.steps}")
        self.last_save = time.monotonic()

    def due(self) -> bool:
        """Whether it is time for a save."""
        return self.plan.save_now.asked or time.monotonic() - self.last_save >= self.plan.every_s

    def take(self) -> None:
        """Save this moment. A save that fails costs a line, not the trial: the checkpoint before it still stands.

        Raises:
            Interrupted: where the save was asked for.
        """
        outcome = "kept in a checkpoint"
        with self.memory.uncounted():
            try:
                files.write(self.plan.path, self.capture(), self.made_by)
            except OSError as error:
                outcome = "not kept"
                self.progress(f"checkpoint {self.plan.path.name} cannot be written: {error.strerror}")
        self.last_save = time.monotonic()
        if self.plan.save_now.asked:
            raise Interrupted(f"asked to end after step {self.stepper.steps}, which is {outcome}")

    def between_batches(self) -> None:
        """Save and raise Interrupted if asked to, in an evaluation, which leaves the state as the last step left it."""
        if self.plan.save_now.asked:
            self.take()

    def capture(self) -> Checkpoint:
        """The state after the last step."""
        stepper, state = self.stepper, self.state
        moment = Moment(
            steps=stepper.steps, left=stepper.left, epoch=state.epoch, batches=state.batches, seen=state.seen,
            seconds=state.seconds, epochs=tuple(map(tuple, state.epochs)), train_seconds=state.train_seconds,
            elapsed_s=self.earlier_s + time.perf_counter() - self.began, peak_memory_mib=self.memory.mib(),
            resumed_at=state.resumed_at,
        )  # fmt: skip
        return Checkpoint(moment, {name: t.detach().to("cpu", copy=True).contiguous() for name, t in self.tensors()})

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Every tensor of the state, by its name in the file."""
        yield from _weights(self.stepper)
        for name, tensor in self.stepper.optimiser.state():
            yield f"optimiser.{name}", tensor
        yield "epoch.loss_sum", self.state.loss_sum
        yield "epoch.correct", self.state.correct
        yield "epoch.norm_sum", self.state.norm_sum
        yield "step_ms", torch.tensor(self.state.step_ms, dtype=torch.float64)
        yield "random.cpu", torch.get_rng_state()
        if self.stepper.device.type != "cpu":
            yield "random.device", _random_state(self.stepper.device)

    def misfits(self, checkpoint: Checkpoint) -> list[str]:
        """Tensors that the model or the checkpoint alone has, or that differ in shape.

        There are some where a component of a plug-in made a buffer as it trained, which a new model does not have.
        """
        present = {name: tensor.shape for name, tensor in _weights(self.stepper)}
        parts = tuple(f"{part}." for part in self.stepper.modules())
        saved = {name: tensor.shape for name, tensor in checkpoint.tensors.items() if name.startswith(parts)}
        return sorted(name for name in {**present, **saved} if present.get(name) != saved.get(name))

    @torch.no_grad()
    def restore(self, checkpoint: Checkpoint) -> None:
        """Put everything back as it was when the checkpoint was captured."""
        stepper, state, moment, tensors = self.stepper, self.state, checkpoint.moment, checkpoint.tensors
        for name, tensor in _weights(stepper):
            tensor.copy_(tensors[name])
        # The groups' settings are the recipe's, and the rate is set at each step: the state is all that has moved.
        prefix = "optimiser."
        stepper.optimiser.restore({n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)})
        stepper.steps, stepper.left = moment.steps, moment.left
        state.begin(moment.epoch)
        state.batches, state.seen, state.seconds = moment.batches, moment.seen, moment.seconds
        state.loss_sum.copy_(tensors["epoch.loss_sum"])
        state.correct.copy_(tensors["epoch.correct"])
        state.norm_sum.copy_(tensors["epoch.norm_sum"])
        state.epochs, state.train_seconds = [list(each) for each in moment.epochs], moment.train_seconds
        state.step_ms = tensors["step_ms"].tolist()
        state.resumed_at = (*moment.resumed_at, moment.steps)
        self.earlier_s = moment.elapsed_s
        self.memory.earlier = moment.peak_memory_mib
        # Last: nothing after this may draw.
        torch.set_rng_state(tensors["random.cpu"])
        if stepper.device.type != "cpu":
            _set_random_state(stepper.device, tensors["random.device"])


def _weights(stepper: Stepper) -> Iterator[tuple[str, Tensor]]:
    """Parameters and buffers of the modules themselves (not of a compiled form, whose names differ), each once.

    Buffers that a state_dict leaves out are included: a component may change them as it trains.
    """
    for part, module in stepper.modules().items():
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            yield f"{part}.{name}", tensor


def _random_state(device: torch.device) -> Tensor:
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.mps.get_rng_state()


def _set_random_state(device: torch.device, state: Tensor) -> None:
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.mps.set_rng_state(state)
