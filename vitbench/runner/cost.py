"""Cost of a study, estimated before it is run and without torch."""

import functools
import math
import os
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from vitbench import registry
from vitbench.config.architectures import architecture_facts
from vitbench.config.base import by_identity, pair
from vitbench.config.model import ModelSpec
from vitbench.config.recipe import DataSpec, Level, TrainSpec
from vitbench.config.trial import TimeTrial, TrainTrial, Trial
from vitbench.data import catalog
from vitbench.errors import UserError
from vitbench.store import Record, StudyFolder, StudyInfo, TimeValues, TrainValues
from vitbench.store.attempts import Attempt, finished, standing
from vitbench.wording import duration, plural

CPU_FLOPS_PER_CORE = 35e9
"""Sustained rate of small ViTs in float32 on one core of a 2020s server CPU; used until a trial has been measured."""

GPU_FLOPS = 1e13
"""Nominal rate of a GPU, by which its trials are weighed against one another; no time is estimated by it."""

LEAST_WARMUP = 10  # Iterations that a warm-up takes at the least to see that it is steady
SHARED_BY = 4  # Approximate number of timing trials that share a process
MAX_RATED = 2000  # Finished trials whose rate is looked up to say how long the others will take
START_SECONDS = 1.0  # Overhead of each process: fork, data, model, evaluation; used until a trial has been measured


def approximate_flops(model: ModelSpec, level: Level = "model", training: bool = False) -> int:
    """Forward operations of one image by closed form, a multiply-add counting two; softmax and norms left out.

    In training the blocks of a whole model go without the patches that ``patch_drop`` leaves out.
    """
    if not model.of_components:
        by_pixel = architecture_facts(model.architecture).flops_per_pixel
        return _counted(model) if by_pixel is None else by_pixel * math.prod(pair(model.image_size))
    d, by_block = model.dim, model.patches_by_block(training=training and level == "model")
    known = {patches: _operations(model, patches) for patches in {model.patches, *by_block}}
    of, last = known[model.patches], known[by_block[-1]]
    n, (block, attention) = model.prefix + model.patches, _block(model, of)
    heads = of["head"] + (2 * d * model.num_classes if model.answers_teacher else 0)
    blocks = sum(times * _block(model, known[patches])[0] for patches, times in Counter(by_block).items())
    between = sum(known[patches]["reduction"] for patches in by_block[:-1])
    core = _products("attention", model.attention, {**_sizes(model, model.patches), "d": 0})  # projections take D
    whole = of["patching"] + of["positions"] + blocks + between + last["pooling"] + heads
    parts: Mapping[Level, int] = {
        "model": whole, "block": block, "patching": of["patching"], "attention": attention,
        "attention_core": core + of["bias"], "norm_layer": 8 * n * d,
        "positions": n * d + of["positions"], "mlp": of["mlp"], "pooling": n * d + of["pooling"],
    }  # fmt: skip
    return parts[level]


@functools.lru_cache
def _counted(model: ModelSpec) -> int:
    """Operations of a model of another package, counted in it, once: that takes a second, and each trial asks.

    0 where the package is missing: the trial cannot run then.

    Raises:
        UserError: where it cannot be built, or takes no images of this size.
    """
    if model.missing_package():
        return 0
    from vitbench.model.counting import forward_flops  # with torch, for which suites without such a model do not wait

    try:
        return forward_flops(model)
    except Exception as error:  # whatever the package raises
        why = (str(error).splitlines() or [""])[0][:200]
        size = "x".join(map(str, pair(model.image_size)))
        raise UserError(f'architecture "{model.architecture}" does not run on images of {size}: {why}') from error


def _operations(model: ModelSpec, patches: int) -> dict[str, int]:
    """Slot → operations of its component, which is given so many patches."""
    sizes = _sizes(model, patches)
    return {slot: _products(slot, name, sizes) for slot, name in model.components.items()}


def _block(model: ModelSpec, of: Mapping[str, int]) -> tuple[int, int]:
    """Operations of a block, and those of its attention."""
    slots = () if model.leaves_out("attention") else ("attention", "gate", "bias")
    attention = sum(of[slot] for slot in slots)
    return attention + of["mlp"], attention


USUAL: Mapping[str, Mapping[str, int]] = {
    "patching": {"pcds": 2}, "attention": {"ndi": 8, "nni": 4}, "mlp": {"ndm": 4},
}  # fmt: skip
"""Slot → the products of most of its components, see :class:`vitbench.component_facts.Facts`; of the others none."""


def _sizes(model: ModelSpec, patches: int) -> dict[str, int]:
    """Letter of :data:`vitbench.component_facts.SIZES` → its number, of a block that is given so many patches."""
    height, width = model.grid
    side, _ = pair(model.patch_size)
    return {
        "n": model.prefix + patches, "p": patches, "o": (2 * height - 1) * (2 * width - 1), "d": model.dim,
        "h": model.heads, "k": model.head_width, "i": model.heads_width, "m": model.hidden, "c": model.channels,
        "s": math.prod(pair(model.patch_size)), "y": model.num_classes,
        "v": model.pooled_width, "a": (patches + 1) // 2, "e": patches // 2,
        "r": side, "l": side.bit_length() - 1,
    }  # fmt: skip


def _products(slot: str, name: str, sizes: Mapping[str, int]) -> int:
    """Operations of one component."""
    facts = registry.facts(slot, name)
    terms = {} if facts.empty else USUAL.get(slot, {}) if facts.flops is None else facts.flops
    if not terms:
        return 0
    settings = registry.settings(slot, name)
    known = {**sizes, **{f"({option})": value for option, value in settings.items() if isinstance(value, int)}}
    return sum(factor * math.prod(known[size] for size in _letters(product)) for product, factor in terms.items())


@functools.cache
def _letters(product: str) -> list[str]:
    """The letters of a product, and its options in parentheses."""
    return re.findall(r"\(\w+\)|\w", product)


def train_images(data: DataSpec, known: catalog.DatasetFacts | None = None) -> int:
    """Training images of one epoch; ``known`` once the data have been read."""
    known = known or catalog.facts(data)
    train = data.train_images or (known.train if known else None)
    if train is None:
        train = sum(1 for path in catalog.folder_images(catalog.folder(data)) if "test" not in path.parts)
    return max(train - data.validation_images, 0)


def trial_flops(trial: Trial, train_images: int, forward: Callable[..., int] = approximate_flops) -> int:
    """Operations of a whole trial: forward and backward over all epochs, or all timed iterations.

    Args:
        trial: the trial.
        train_images: training images of one epoch.
        forward: :func:`approximate_flops`, or a form of it that remembers its results.
    """
    if not isinstance(trial, TimeTrial):
        return training_flops(trial.model, trial.train, train_images, forward)
    protocol = trial.protocol
    warmup = max(protocol.warmup, LEAST_WARMUP)
    images = (warmup * (protocol.rounds + 1) + protocol.iterations * protocol.rounds) * trial.batch_size
    return (3 if trial.training else 1) * forward(trial.model, trial.level, trial.training) * images


def training_flops(
    model: ModelSpec, recipe: TrainSpec, train_images: int, forward: Callable[..., int] = approximate_flops
) -> int:
    """Operations of a run of so many images an epoch, pre-training and a teacher included."""
    images = recipe.images or train_images * recipe.epochs
    before = preparation_flops(model, recipe, train_images, forward)
    return before + images * image_flops(model, recipe, forward)


def image_flops(model: ModelSpec, recipe: TrainSpec, forward: Callable[..., int] = approximate_flops) -> int:
    """Operations of a training image: forward and backward, or forward alone if the model is frozen; and a teacher's.

    A backward pass makes two products for each of the forward pass.
    """
    own = forward(model) if recipe.frozen else 3 * forward(model, "model", True)
    return own + (forward(model.teacher(recipe.teacher)) if recipe.has_teacher else 0)


def preparation_flops(
    model: ModelSpec, recipe: TrainSpec, train_images: int, forward: Callable[..., int] = approximate_flops
) -> int:
    """Operations of what comes before a training with labels: pre-training, and the training of a teacher."""
    flops = 0
    if recipe.pretrain_epochs:
        # The encoder's blocks go without what is hidden. The decoder's last layer is as large as its own patching.
        seen = model.patches_seen(recipe.mask_ratio)
        encoder = model.model_copy(update={"patch_drop": 1.0 - (seen + 0.5) / model.patches})
        of_decoder = forward(model.decoder(recipe.decoder_dim, recipe.decoder_depth))
        between = 2 * (model.pooled_prefix + seen) * model.dim * recipe.decoder_dim
        each = forward(encoder, "model", True) + between + of_decoder
        flops += 3 * each * train_images * recipe.pretrain_epochs
    if recipe.has_teacher:
        flops += 3 * forward(model.teacher(recipe.teacher)) * train_images * recipe.teacher_epochs
    return flops


class Pace(NamedTuple):
    """How fast trials run: operations per second, and seconds that each process takes beside them."""

    rate: float
    start_s: float


def measured_pace(records: Iterable[Record]) -> Pace | None:
    """The pace of the trials that have finished, in the median; None where there are none."""
    rates, starts = list[float](), list[float]()
    for record in records:
        trial = record.trial
        if isinstance(record.values, TrainValues) and isinstance(trial, TrainTrial):
            before = (*record.values.pretraining, *record.values.teaching)
            seconds = record.values.train_seconds + sum(epoch.seconds for epoch in before)
            rates.append(training_flops(trial.model, trial.train, record.values.train_images) / max(seconds, 1e-9))
            if record.values.ensemble_size == 1:
                starts.append(max(record.seconds - seconds, 0.0))
        if isinstance(record.values, TimeValues) and isinstance(trial, TimeTrial):
            passes = 3 if trial.mode == "train" else 1
            rates.append(passes * record.values.forward_flops * record.values.images_per_s)
    return Pace(statistics.median(rates), statistics.median(starts or [START_SECONDS])) if rates else None


class Estimate:
    """Cost of some trials, added one by one.

    Attributes:
        flops: operations of the trials added.
        known: whether anything is known of the device's speed.
        untuned: cells whose training comes on top: it is planned when they are tuned.
    """

    def __init__(self, device: str, pace: Pace | None) -> None:
        """``pace``: measured on finished trials; None where there are none."""
        self.known = pace is not None or device == "cpu"
        nominal = CPU_FLOPS_PER_CORE * (os.cpu_count() or 1) if device == "cpu" else GPU_FLOPS
        self.pace = pace or Pace(nominal, START_SECONDS)
        self.forward, self.images = by_identity(approximate_flops), by_identity(train_images)
        self.flops, self.total, self.untuned = 0, 0.0, 0

    def add(self, trial: Trial, times: int = 1) -> float:
        """One more trial, or several that differ in the seed alone. Returns the seconds of one, as far as is known."""
        images = 0 if isinstance(trial, TimeTrial) else self.images(trial.data)
        flops = trial_flops(trial, images, self.forward)
        processes = 0.3 * (1 + trial.protocol.rounds / SHARED_BY) if isinstance(trial, TimeTrial) else 1.0
        start = self.pace.start_s * processes
        seconds = flops / self.pace.rate + start
        self.flops += times * flops
        self.total += times * seconds
        return seconds

    @property
    def seconds(self) -> float | None:
        """Seconds of all trials, one after another; None where nothing is known of the device."""
        return self.total if self.known else None


def remaining(
    info: StudyInfo, attempts: Mapping[str, Sequence[Attempt]], pace: Pace | None
) -> tuple[Estimate, dict[str, float]]:
    """Cost of the trials that are left to run: of all together, and the seconds of each by its id.

    Every estimate is made here, for a plan and for a study that runs.
    """
    trials = info.trials
    left = {
        trial_id: first.id
        for trial_id, first in zip(trials.ids(), trials.firsts, strict=True)
        if not finished(attempts.get(trial_id, []), info.suite.max_attempts) and first.id not in trials.unsupported
    }
    estimate, times = Estimate(trials.firsts[0].trial.device, pace), Counter(left.values())
    estimate.untuned = len(info.untuned)
    seconds = {p.id: estimate.add(p.trial, times[p.id]) for p in trials.up_to_seed if p.id in times}
    return estimate, {trial_id: seconds[first] for trial_id, first in left.items()}


def cost_of(estimate: Estimate, pace: Pace | None) -> str:
    """An estimate in a sentence."""
    time = "time unknown until a trial has been measured"
    if estimate.seconds is not None:
        rate = "the pace of this study's finished trials" if pace else "a nominal rate; measured once trials have run"
        time = f"about {duration(estimate.seconds)} (at {rate})"
    unit, name = (1e12, "TFLOP") if estimate.flops >= 1e11 else (1e9, "GFLOP")
    later = f", without the training of {plural(estimate.untuned, 'cell')} to be tuned" if estimate.untuned else ""
    return f"cost of what is left{later}: {estimate.flops / unit:,.1f} {name}, {time}"


def pace_of(study: StudyFolder, states: Mapping[str, Sequence[Attempt]], info: StudyInfo) -> Pace | None:
    """The pace of finished trials on a plan's device; where there are many, of a sample spread over all."""
    device = info.trials[0].trial.device
    ok = [attempt for attempts in states.values() if (attempt := standing(attempts)).state == "ok"]
    some = ok[:: math.ceil(len(ok) / MAX_RATED) or 1]
    return measured_pace(record for _, record in study.records_of(some) if record.trial.device == device)
