"""Steps of training: a model, its optimiser and its progress."""

import functools
import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import torch
from torch import Tensor, nn

from vitbench.config.recipe import TrainSpec
from vitbench.data.batches import Batch, Batches
from vitbench.devices import Stopwatch, synchronise
from vitbench.model.optimiser import learning_rate, make_optimiser, steps_of
from vitbench.store import Epoch
from vitbench.training.ema import Ema
from vitbench.training.ensemble import Run, beside, clip, gradient_norms, logits
from vitbench.training.graphs import CapturePace, Graph

CHECK_EVERY = 25  # Steps between looks at the loss: a lost run should not go on for long


class Diverged(ArithmeticError):
    """The loss or a gradient is no longer a finite number."""


@dataclass(frozen=True)
class Tally:
    """Loss (mean) and accuracy (percent) over some images."""

    loss: float
    accuracy_pct: float


def tallies(loss_sums: Tensor, correct: Tensor, images: int) -> list[Tally]:
    """Tally of each member, from its sums (S,) over so many images."""
    sums = zip(loss_sums.tolist(), correct.tolist(), strict=True)
    return [Tally(loss / images, 100.0 * right / images) for loss, right in sums]


class TrainState:
    """How far some trials have come, beside their models and their optimiser: finished epochs, and the one under way.

    Attributes:
        epoch: number of the epoch under way, from 0.
        batches: batches of it that have been trained on.
        seen: images of it.
        loss_sum: (S,) float32, sum of its images' losses; on the device, so that nothing in a step waits for the host.
        correct: (S,) int64, how many of its images were classified correctly; on the device.
        norm_sum: (S,) float32, sum of the gradient norms that were taken in it; on the device.
        seconds: of training in it.
        epochs: for each member the finished ones.
        train_seconds: of training in those.
        step_ms: duration of each step of the trial.
        resumed_at: steps at which another process took the trial up again.
    """

    def __init__(self, device: torch.device, members: int = 1) -> None:
        self.epochs: list[list[Epoch]] = [[] for _ in range(members)]
        self.step_ms: list[float] = []
        self.train_seconds = 0.0
        self.resumed_at: tuple[int, ...] = ()
        self.loss_sum = torch.zeros(members, device=device)
        self.correct = torch.zeros(members, dtype=torch.int64, device=device)
        self.norm_sum = torch.zeros(members, device=device)
        self.begin(0)

    def begin(self, epoch: int) -> None:
        """Start an epoch. The sums stay where they are: a CUDA graph adds to them there."""
        self.epoch, self.batches, self.seen, self.seconds = epoch, 0, 0, 0.0
        for each in (self.loss_sum, self.correct, self.norm_sum):
            each.zero_()

    def end(self, epochs: Mapping[int, Epoch]) -> None:
        """Finish the epoch under way, of the members that are not lost, and start the next."""
        for member, epoch in epochs.items():
            self.epochs[member].append(epoch)
        self.train_seconds += self.seconds
        self.begin(self.epoch + 1)

    def tallies(self) -> list[Tally]:
        """Loss and accuracy on the way, of the epoch under way."""
        return tallies(self.loss_sum, self.correct, self.seen)

    @property
    def takes_norms(self) -> bool:
        """Whether the gradients of the batch just trained on are looked at: those of each epoch's first are."""
        return self.batches % CHECK_EVERY == 1

    def gradient_norms(self) -> list[float | None]:
        """Each member's mean gradient norm so far in the epoch under way; None where it is no number."""
        means = (self.norm_sum / -(-self.batches // CHECK_EVERY)).tolist()
        return [mean if math.isfinite(mean) else None for mean in means]


class Hook(Protocol):
    """Something that wants a pause between two steps now and then, such as a checkpoint."""

    def due(self) -> bool:
        """Whether it wants one now; asked after each step, and so cheap."""

    def take(self) -> None:
        """Take the pause; its time and memory are not the step's."""


Objective = Callable[[nn.Module, Run, Sequence[Batch]], tuple[Tensor, Tensor]]
"""What is trained for: a model (what it is made of, and itself or its compiled form) and a batch of each member → the
losses (S,) and how many images were classified correctly (S,)."""


def label_loss(label_smoothing: float) -> Objective:
    """The objective of classification: cross-entropy with the images' labels."""

    def objective(module: nn.Module, run: Run, batches: Sequence[Batch]) -> tuple[Tensor, Tensor]:
        outputs = logits(module, run, [batch.images() for batch in batches])
        losses = beside([batch.loss(output, label_smoothing) for batch, output in zip(batches, outputs, strict=True)])
        labels = beside([batch.labels for batch in batches])
        return losses, (outputs.detach().argmax(dim=-1) == labels).sum(dim=-1)

    return objective


class Stepper:
    """A model or an ensemble, the optimiser, and the steps taken so far of all that the budget allows.

    Attributes:
        lost: member → why its run is lost; the others go on without it.
        graph: runs its steps, where the recipe asks for CUDA graphs.

    Args:
        model: of one trial, or a :class:`vitbench.training.ensemble.Ensemble`.
        recipe: of all members.
        images: on which each of them is trained in an epoch.
        device: where the model is.
        per_epoch: steps.
        objective: what is trained for. Default: the labels.
    """

    def __init__(
        self, model: nn.Module, recipe: TrainSpec, *, images: int, device: torch.device, per_epoch: int,
        objective: Objective | None = None,
    ) -> None:  # fmt: skip
        self.recipe, self.device, self.per_epoch = recipe, device, per_epoch
        self.objective = objective or label_loss(recipe.label_smoothing)
        self.total = steps_of(recipe, images)
        self.left = self.recipe.images
        self.module = model
        self.optimiser = make_optimiser(model, self.recipe, device)
        self.lost: dict[int, str] = {}
        self.size = min(recipe.batch_size, images)
        self.model = cast("nn.Module", torch.compile(model, dynamic=False)) if recipe.compile else model
        self.pace = CapturePace(per_epoch, device) if recipe.cuda_graphs else None
        self.graph = Graph(self.size, self.optimiser.parameters, device) if recipe.cuda_graphs else None
        self.ema = Ema(model, self.recipe.ema) if self.recipe.ema else None
        self.steps = 0
        self.state: TrainState | None = None
        self.ones: Tensor | None = None
        self.glimpse: _Glimpse | None = None

    @torch.no_grad()
    def judge(self, pixels: Sequence[Tensor]) -> Tensor:
        """Logits (S, B, classes) of normalised images of each member, by the average where there is one.

        Nothing is compiled for it: compiling would take longer than it saves.
        """
        run = self.module if self.ema is None else self.ema.module
        run.eval()
        return viewed(functools.partial(logits, self.module, run), pixels, self.recipe, self.device)

    def modules(self) -> dict[str, nn.Module]:
        """Name → what holds the weights of the run so far."""
        average = {} if self.ema is None else {"ema": self.ema.module}
        return {"model": self.module, **average}

    def epoch(self, batches: Sequence[Batches], state: TrainState, hook: Hook | None = None) -> list[Tally]:
        """The steps that are left of the epoch under way, or of the budget: each member's loss and accuracy in it all.

        Raises:
            Diverged: where all members are lost, at most ``CHECK_EVERY`` steps after the last one's loss or gradient
                norm stops being finite; on a GPU more by as much as the host is ahead of it, within an epoch.
        """
        self.model.train()
        norms = None
        chunk = batches[0].chunk
        began, watch = time.perf_counter(), Stopwatch(self.device)
        left = self.total - self.steps
        self.state = self.state or state
        assert self.graph is None or self.state is state, "a CUDA graph adds to the sums of one state"
        if self.pace is not None:
            coming = range(self.steps, self.steps + min(left, self.per_epoch - state.batches))
            self.pace.begin([(self.rate(step), self.ema.share(step) if self.ema else 0.0) for step in coming])

        def work(batch: Sequence[Batch]) -> Tensor | None:
            losses, correct, norms = self.step(batch)
            state.loss_sum += losses * len(batch[0])
            state.correct += correct
            return norms

        streams = zip(*(each.epoch(state.epoch, state.batches) for each in batches), strict=True)
        for whole in itertools.islice(streams, left):
            if chunk > 1:
                watch.lap()
            batch = whole if self.left is None or self.left >= len(whole[0]) else [each[: self.left] for each in whole]
            images = len(batch[0])
            if self.left is not None:
                self.left -= images
            norms = work(batch) if self.graph is None else self.graph.step(batch, work)
            self.steps += 1
            state.seen += images
            state.batches += 1
            if state.takes_norms:
                state.norm_sum += gradient_norms(self.module) if norms is None else norms
            if self.steps % CHECK_EVERY == 0 or self.steps == 1:
                self.glance(state.loss_sum, norms)
            watch.lap()
            if hook is not None and hook.due():
                self.look(state.loss_sum, norms)  # a lost run is not kept
                state.step_ms += shared(watch.intervals_ms(), chunk)
                state.seconds += time.perf_counter() - began
                hook.take()
                began, watch = time.perf_counter(), Stopwatch(self.device)
        self.look(state.loss_sum, norms)
        results = state.tallies()
        synchronise(self.device)
        state.step_ms += shared(watch.intervals_ms(), chunk)
        state.seconds += time.perf_counter() - began
        return results

    def step(self, batch: Sequence[Batch]) -> tuple[Tensor, Tensor, Tensor | None]:
        """One optimiser step on a batch of each member: losses, right answers and, if clipped, gradient norms, (S,).

        It may be captured as a CUDA graph, and so it counts nothing on the host. A batch of another size than the rest
        is run by the model that is not compiled, since compiling for it would take longer than it saves.
        """
        rate: float | Tensor
        share: float | Tensor
        if self.pace is None:
            rate, share = self.rate(self.steps), self.ema.share(self.steps) if self.ema else 0.0
        else:
            self.pace.tick()
            rate, share = self.pace.rate, self.pace.share
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        with autocast(self.device, self.recipe.precision):
            run = self.model if len(batch[0]) == self.size else self.module
            losses, correct = self.objective(self.module, run, batch)
        self.optimiser.zero_grad()
        if self.ones is None:
            self.ones = torch.ones_like(losses)
        losses.backward(self.ones)  # the gradient of their sum
        norms = clip(self.module, self.recipe.clip_norm) if self.recipe.clip_norm else None
        self.optimiser.step()
        if self.ema is not None:
            self.ema.update(self.module, share)
        return losses.detach(), correct, norms

    def rate(self, step: int) -> float:
        """Learning rate of a step, counted from 0."""
        return learning_rate(self.recipe, step, self.per_epoch, self.total)

    def look(self, loss_sums: Tensor, norms: Tensor | None, when: str = "") -> None:
        """Note which members are lost: those whose sum of losses, which keeps any NaN, or last norm is no number.

        Raises:
            Diverged: where none is left.
        """
        self.glimpse = None
        self._note(_finite(loss_sums, norms).tolist(), when or f"by step {self.steps}")

    def glance(self, loss_sums: Tensor, norms: Tensor | None) -> None:
        """Note lost members without waiting for a GPU: there, those of an earlier glance, once its flags have come.

        Raises:
            Diverged: where no member is left.
        """
        if self.device.type != "cuda":
            self.look(loss_sums, norms)
            return
        if self.glimpse is not None:
            if not self.glimpse.come.query():
                return  # asked for again, it would never come to a host that is far ahead
            self._note(self.glimpse.finite.tolist(), f"by step {self.glimpse.step}")
        self.glimpse = _Glimpse(_finite(loss_sums, norms), self.steps)

    def _note(self, finite: list[list[bool]], when: str) -> None:
        for what, members in zip(("loss", "gradient norm"), finite, strict=False):
            for member, fine in enumerate(members):
                if not fine:
                    self.lost.setdefault(member, f"{what} not finite {when}")
        if len(self.lost) == len(finite[0]):
            raise Diverged(self.lost[0])


def shared(laps_ms: Sequence[float], chunk: int) -> list[float]:
    """Durations of steps whose batches are made so many at once: each has an equal share of the making of its chunk's.

    Args:
        laps_ms: of each step in turn how long its batch took to come, and how long the rest; where batches are made
            one by one, the step as a whole.
        chunk: batches.
    """
    if chunk == 1:
        return list(laps_ms)
    making, stepping = laps_ms[::2], laps_ms[1::2]
    durations: list[float] = []
    for start in range(0, len(stepping), chunk):
        steps = stepping[start : start + chunk]
        share = sum(making[start : start + chunk]) / len(steps)
        durations += [step + share for step in steps]
    return durations


def _finite(loss_sums: Tensor, norms: Tensor | None) -> Tensor:
    """Whether each quantity of each member is a number, (1 or 2, S)."""
    return torch.isfinite(torch.stack([loss_sums] if norms is None else [loss_sums, norms.to(loss_sums.dtype)]))


class _Glimpse:
    """Flags on their way from a GPU to the host."""

    def __init__(self, flags: Tensor, step: int) -> None:
        self.finite = torch.empty(flags.shape, dtype=torch.bool, pin_memory=True)
        self.finite.copy_(flags, non_blocking=True)
        self.come = torch.cuda.Event()
        self.come.record(torch.cuda.current_stream(flags.device))
        self.step = step


def viewed(
    call: Callable[[Sequence[Tensor]], Tensor], pixels: Sequence[Tensor], recipe: TrainSpec, device: torch.device
) -> Tensor:
    """Logits, float32, of images as a recipe has them judged: of each by itself, or with its mirror image, the mean.

    Source of the second: KellerJordan/cifar10-airbench, ``infer_mirror``.
    """
    with autocast(device, recipe.precision):
        outputs = call(pixels).float()
        if recipe.flip_test:
            outputs = (outputs + call([each.flip(-1) for each in pixels]).float()) / 2
    return outputs


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """The autocast context of a precision; in float32 one that is switched off."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bfloat16")
