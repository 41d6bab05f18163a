"""DataSpec, TrainSpec, TimeSpec: on what, how, and how long a model is trained or timed."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from vitbench.spec.base import Positive, Probability, Size, Strict

Source = Literal["cifar10", "cifar100", "mnist", "fashion_mnist", "image_folder", "synthetic"]
DType = Literal["float32", "float16", "bfloat16"]
Mode = Literal["inference", "train"]
Count = Annotated[int, Field(ge=0, le=10_000_000)]
Rate = Annotated[float, Field(ge=0.0, le=1e12)]


class DataSpec(Strict):
    """Which images, and how they are split. ``path``, ``download`` and ``fallback`` say how to come by them."""

    name: Source = "cifar10"
    path: str | None = Field(None, description="image_folder: folder that holds train/<class>/… and test/<class>/…")
    download: bool = Field(False, description="fetch the data set where it is missing")
    fallback: Literal["synthetic"] | None = Field(None, description="what to use where the data cannot be had")
    resize: Size | None = Field(None, description="height and width to which the images are resized, pixels")
    train_images: Positive | None = Field(
        None, description="size of the train split before validation is cut; None: all"
    )
    test_images: Positive | None = Field(None, description="size of the test split; None: all")
    validation_images: Count = Field(0, description="cut from train by the harness, drawn by the trial's seed")
    normalize: Literal["dataset", "imagenet"] = Field(
        "dataset", description="channel mean and standard deviation: of the train images, or ImageNet's"
    )


class TrainSpec(Strict):
    """Optimiser, schedule, regularisation and precision of one training run."""

    epochs: Annotated[int, Field(gt=0, le=100_000)] = 10
    batch_size: Positive = 128
    optimizer: Literal["adamw", "adam"] = "adamw"
    learning_rate: Annotated[float, Field(gt=0.0, le=1e12)] = 1e-3
    weight_decay: Rate = Field(0.0, description="on weights; never on norms, biases, positions and the class token")
    betas: tuple[Probability, Probability] = (0.9, 0.999)
    schedule: Literal["cosine", "constant"] = "cosine"
    warmup_epochs: Annotated[float, Field(ge=0.0, le=100_000.0)] = Field(0.0, description="linear, from zero")
    label_smoothing: Probability = 0.0
    clip_norm: Rate = Field(0.0, description="largest global gradient norm; 0 leaves gradients alone")
    crop_padding: Annotated[int, Field(ge=0, le=256)] = Field(0, description="random crops after zero padding, pixels")
    flip: bool = Field(False, description="random horizontal flips")
    precision: Literal["float32", "bfloat16"] = Field("float32", description="bfloat16: autocast")
    compile: bool = Field(False, description="torch.compile the model")


class TrainTable(TrainSpec):
    """The ``[train]`` table of a suite: the recipe, and the seeds with which each cell is trained."""

    seeds: Annotated[tuple[Annotated[int, Field(ge=0, lt=2**64)], ...], Field(min_length=1)] = (0,)

    def recipe(self) -> TrainSpec:
        """The recipe without the seeds: what belongs to one trial."""
        return TrainSpec(**{name: getattr(self, name) for name in TrainSpec.model_fields})


class TimeSpec(Strict):
    """How a model is timed: rounds of fresh processes, and iterations in each."""

    rounds: Annotated[int, Field(gt=0, le=1000)] = Field(3, description="fresh processes, interleaved between variants")
    warmup: Annotated[int, Field(ge=0, le=100_000)] = Field(5, description="iterations before the clock starts")
    iterations: Annotated[int, Field(gt=0, le=100_000)] = Field(20, description="iterations timed in each process")
    compile: bool = Field(False, description="torch.compile the model")


class TimeTable(TimeSpec):
    """The ``[time]`` table of a suite: the protocol, and what is timed with it."""

    dtypes: Annotated[tuple[DType, ...], Field(min_length=1)] = ("float32",)
    batch_sizes: Annotated[tuple[Positive, ...], Field(min_length=1)] = (64,)
    modes: Annotated[tuple[Mode, ...], Field(min_length=1)] = ("inference", "train")

    def protocol(self) -> TimeSpec:
        """The protocol without the lists: what belongs to one trial."""
        return TimeSpec(**{name: getattr(self, name) for name in TimeSpec.model_fields})
