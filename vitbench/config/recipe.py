"""DataSpec, TrainSpec, TimeSpec: data, training recipe and timing protocol."""

import itertools
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, ValidationInfo, ValidatorFunctionWrapHandler, field_validator, model_validator

from vitbench.config.architectures import OF_TIMM, of_timm
from vitbench.config.base import Positive, Probability, Seed, Share, Size, Strict
from vitbench.config.model import DECODER_HEAD_WIDTH
from vitbench.config.suite_errors import quote

Source = Literal["cifar10", "cifar100", "mnist", "fashion_mnist", "image_folder", "synthetic"]
Device = Literal["cpu", "cuda", "mps"]
DEVICES: tuple[Device, ...] = get_args(Device)
DType = Literal["float32", "float16", "bfloat16"]
Mode = Literal["inference", "train"]
Level = Literal[
    "model", "block", "patching", "attention", "attention_core", "norm_layer", "positions", "mlp", "pooling"
]  # fmt: skip
"""The part timed: a whole model, one block, one component of a slot, or what an attention component does between the
projections of its input and its output."""
Count = Annotated[int, Field(ge=0, le=10_000_000)]
Rate = Annotated[float, Field(ge=0.0, le=1e12)]
Alpha = Annotated[float, Field(ge=0.0, le=1000.0)]  # Both parameters of a Beta distribution


OF_A_BATCH = 10_000  # Images of each official batch of CIFAR-10


class DataSpec(Strict):
    """Which images, and how they are split. ``path``, ``download`` and ``fallback`` say how to come by them."""

    name: Source = "cifar10"
    path: str | None = Field(
        None,
        description="folder that holds train/<class>/… and test/<class>/…: name becomes image_folder, whatever it was",
    )
    download: bool = Field(False, description="fetch the data set where it is missing")
    fallback: Literal["synthetic"] | None = Field(None, description="what to use where the data cannot be had")
    subset: Annotated[int, Field(gt=0, le=OF_A_BATCH)] | None = Field(
        None, description="cifar10: the first so many images of each of its six official batches; None: all"
    )
    resize: Size | None = Field(None, description="height and width to which the images are resized, pixels")
    train_images: Positive | None = Field(
        None, description="size of the train split before validation is cut; None: all"
    )
    test_images: Positive | None = Field(None, description="size of the test split; None: all")
    validation_images: Count = Field(0, description="cut from train by the harness, drawn by the trial's seed")
    normalize: Literal["dataset", "imagenet", "half", "none"] = Field(
        "dataset", description="channel mean and standard deviation: of the train images, ImageNet's, 0.5 both, or 0, 1"
    )

    # What synthetic images show; flat, so that an axis can name one. Their sum is the number of classes.
    colour_classes: Annotated[int, Field(ge=0, le=12)] = Field(4, description="synthetic: classes by hue alone")
    texture_classes: Annotated[int, Field(ge=0, le=5)] = Field(3, description="synthetic: by local texture alone")
    position_classes: Annotated[int, Field(ge=0, le=4)] = Field(3, description="synthetic: by absolute position alone")
    relation_classes: Annotated[int, Field(ge=0, le=3)] = Field(0, description="synthetic: by how two parts lie alone")
    pixel_noise: Annotated[float, Field(ge=0.0, le=10.0)] = Field(
        0.12, description="synthetic: standard deviation of each pixel's noise, of a range of 1"
    )
    image_seed: Seed = Field(0, description="synthetic: the images' own seed")

    @model_validator(mode="before")
    @classmethod
    def _of_a_folder(cls, given: Any) -> Any:
        """A folder takes the place of a named set, and of all that says how to come by that."""
        if not isinstance(given, dict) or given.get("path") is None:
            return given
        return {
            **{k: v for k, v in given.items() if k not in ("download", "fallback", "subset")},
            "name": "image_folder",
        }

    @field_validator("subset")
    @classmethod
    def _of_cifar10(cls, value: int | None, info: ValidationInfo) -> int | None:
        """Other sets have no such batches. All 10,000 of each are the whole set."""
        if value is not None and (name := info.data.get("name", "cifar10")) != "cifar10":
            raise ValueError(f"{value}, but only cifar10 has official batches, and the images are {name}")
        return None if value == OF_A_BATCH else value

    @field_validator(
        "colour_classes", "texture_classes", "position_classes", "relation_classes", "pixel_noise", "image_seed"
    )
    @classmethod
    def _of_synthetic_images(cls, value: float, info: ValidationInfo) -> float:
        """Other sources are what they are. (A name that is itself wrong is not in ``info.data``, and is reported.)"""
        assert info.field_name is not None
        neutral = value == cls.model_fields[info.field_name].default
        if not neutral and (name := info.data.get("name", "synthetic")) != "synthetic":
            raise ValueError(f'{value}, but only data.name = "synthetic" has it, and the images are {name}')
        return value


CONTENT = "#sha256="
"""Sign between the path of a file of weights and the digest of its content."""


class TrainSpec(Strict):
    """Optimiser, schedule, regularisation and precision of one training run."""

    epochs: Annotated[int, Field(gt=0, le=100_000)] = 10
    images: Annotated[int, Field(gt=0, le=10**12)] | None = Field(
        None, description="budget in training images, the last epoch cut short; None: whole epochs"
    )
    batch_size: Positive = 128
    optimizer: Literal["adamw", "adam", "muon"] = "adamw"
    learning_rate: Annotated[float, Field(gt=0.0, le=1e12)] = 1e-3
    weight_decay: Rate = Field(0.0, description="on weights; never on norms, biases, positions and the class token")
    betas: tuple[Probability, Probability] = (0.9, 0.999)
    schedule: Literal["cosine", "constant"] = "cosine"
    warmup_epochs: Annotated[float, Field(ge=0.0, le=100_000.0)] = Field(0.0, description="linear, from zero")
    label_smoothing: Probability = 0.0
    clip_norm: Rate = Field(0.0, description="largest global gradient norm; 0 leaves gradients alone")
    crop_padding: Annotated[int, Field(ge=0, le=256)] = Field(0, description="random crops after zero padding, pixels")
    flip: bool = Field(False, description="random horizontal flips")
    augment: Literal["none", "randaugment", "trivialaugment"] = Field("none", description="random operations on images")
    randaugment_operations: Annotated[int, Field(ge=1, le=14)] = Field(2, description="randaugment: so many an image")
    randaugment_level: Annotated[int, Field(ge=0, le=30)] = Field(9, description="randaugment: strength of them all")
    randaugment_scale: Literal["torchvision", "timm"] = Field(
        "torchvision", description="randaugment: whose levels these are, from 0 to 30 or from 0 to 10"
    )
    cutout: Annotated[int, Field(ge=0, le=4096, multiple_of=2)] = Field(
        0, description="side of a square that is wiped, pixels; even, for it has a pixel's corner in its middle"
    )
    erasing: Share = Field(
        0.0, description="random erasing: probability of an image to have a part wiped, to the mean (DeiT: to noise)"
    )
    mixup: Alpha = Field(0.0, description="alpha of the shares in which images are blended; 0 for none")
    cutmix: Alpha = Field(0.0, description="alpha of the shares of images that others replace; 0 for none")
    repeats: Annotated[int, Field(ge=1, le=64)] = Field(
        1, description="repeated augmentation: views of an image a batch"
    )
    ema: Annotated[float, Field(ge=0.0, lt=1.0)] = Field(
        0.0, description="decay of the average of weights that is judged in the model's place; 0 for none"
    )
    pretrained: Annotated[str, Field(min_length=1, max_length=4096)] | None = Field(
        None, description="weights to start from: a .safetensors file of vitbench's or timm's, or timm:NAME"
    )
    pretrain_epochs: Annotated[int, Field(ge=0, le=100_000)] = Field(
        0, description="epochs as a masked autoencoder, without labels, before those with; 0 for none"
    )
    pretrain_learning_rate: Annotated[float, Field(gt=0.0, le=1e12)] = Field(1e-3, description="of those epochs")
    mask_ratio: Annotated[float, Field(gt=0.0, lt=1.0)] = Field(0.75, description="share of the patches that is hidden")
    decoder_dim: Annotated[int, Field(ge=32, le=65_536, multiple_of=DECODER_HEAD_WIDTH)] = Field(
        64, description="width of the decoder that is thrown away afterwards; heads are 32 wide"
    )
    decoder_depth: Annotated[int, Field(ge=1, le=1024)] = Field(1, description="its blocks")
    distillation: Literal["none", "soft", "hard"] = Field(
        "none",
        description="learn from a teacher's answers, too: its probabilities, or its first choices. The loss is a mean "
        "over images; DeiT's own code divides soft's by the number of classes, too",
    )
    teacher: Literal["cnn", "resnet18"] = Field(
        "cnn", description="architecture of what is trained first, on the same images"
    )
    teacher_epochs: Annotated[int, Field(gt=0, le=100_000)] = Field(10, description="of the teacher's training")
    teacher_learning_rate: Annotated[float, Field(gt=0.0, le=1e12)] = Field(1e-3, description="in it")
    distillation_share: Share = Field(0.5, description="of the loss that is the teacher's")
    distillation_temperature: Annotated[float, Field(gt=0.0, le=1000.0)] = Field(
        3.0, description="soft: of both answers"
    )
    flip_test: bool = Field(
        False, description="judge an image together with its mirror image, by the mean of their logits"
    )
    frozen: bool = Field(False, description="train the head alone, on what the rest gives: a linear probe")
    test_sizes: tuple[Positive, ...] = Field(
        (), description="further heights and widths of the test images, pixels, at which the trained model is judged"
    )
    precision: Literal["float32", "bfloat16"] = Field("float32", description="bfloat16: autocast")
    compile: bool = Field(False, description="torch.compile the model")
    cuda_graphs: bool = Field(False, description="cuda: capture a whole step as one CUDA graph, and replay it")
    ensemble_seeds: bool = Field(
        False, description="train all seeds of a cell as one program, where its components allow"
    )
    ensemble_at_most: Annotated[int, Field(gt=0, le=4096)] = Field(4096, description="of these, so many to a program")
    measure_peak: bool = Field(
        False, description="time a large matrix product first, for the share of the device's peak that training reaches"
    )

    def unsupported(self, device: str) -> str | None:
        """Why it cannot be followed on a device type, or None."""
        return f"CUDA graphs run on cuda, not on {device}" if self.cuda_graphs and device != "cuda" else None

    @property
    def has_teacher(self) -> bool:
        """Whether a teacher is trained first."""
        return self.distillation in ("soft", "hard")

    @property
    def augments(self) -> bool:
        """Whether the images of a batch are changed at random."""
        operations = self.augment in ("randaugment", "trivialaugment")
        return operations or any((self.crop_padding, self.flip, self.cutout, self.erasing, self.mixup, self.cutmix))

    def canonical(self) -> dict[str, Any]:
        """JSON form, in which a file of weights is identified by its content, not its path."""
        body = super().canonical()
        return {**body, "pretrained": self.pretrained.rpartition(CONTENT)[2]} if self.pretrained is not None else body

    @field_validator("pretrained")
    @classmethod
    def _of_timms_own(cls, value: str | None) -> str | None:
        """A name of timm's may lead nowhere else: no other hub, and no file."""
        if value is not None and value.startswith(OF_TIMM) and not of_timm(value):
            raise ValueError(f"{quote(value)}: {OF_TIMM} takes the name of a model, such as vit_small_patch16_224")
        return value


SEEDS_OF_A_MASTER = 1000  # Seeds that a master seed gives: with 7 they are 7000, 7001, …
FIRST_LOOK = 4
"""Seeds below which no comparison is decided, and so the fewest at which a look is worth its share of the error."""

USUAL_LOOKS = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384)
"""Numbers of seeds at which is looked where a suite says no more than how many there are at most."""


class Looks(Strict):
    """As many seeds as it takes: results are looked at on the way, and cells that are decided stop."""

    at_most: Annotated[int, Field(ge=FIRST_LOOK, le=SEEDS_OF_A_MASTER // 2)] = Field(description="seeds of a cell")
    looks: tuple[int, ...] = Field(
        (), description="numbers of seeds after which results are looked at, the last of them at_most"
    )

    @model_validator(mode="before")
    @classmethod
    def _usual(cls, given: Any) -> Any:
        """Looks that nobody has set are the usual ones."""
        if not isinstance(given, dict) or "looks" in given:
            return given
        most = given.get("at_most")
        if not isinstance(most, int) or most < FIRST_LOOK:
            return given  # a mistake of its own
        return {**given, "looks": (*(n for n in USUAL_LOOKS if n < most), most)}

    @field_validator("looks")
    @classmethod
    def _in_order(cls, looks: tuple[int, ...], info: ValidationInfo) -> tuple[int, ...]:
        """Ascending, from the fewest seeds that tell anything to all of them."""
        most = info.data.get("at_most")
        if not looks:
            raise ValueError("must be an array of 1 or more values, or left out for the usual looks")
        if any(before >= after for before, after in itertools.pairwise(looks)):
            raise ValueError(f"must ascend, each number of seeds once, got {list(looks)}")
        if looks[0] < FIRST_LOOK:
            raise ValueError(f"no comparison is decided by fewer than {FIRST_LOOK} seeds: look at {FIRST_LOOK} first, "
                             f"not at {looks[0]}")  # fmt: skip
        if most is not None and looks[-1] != most:
            raise ValueError(f"must end with at_most, {most}, got {list(looks)}")
        return looks


Seeds = (
    Annotated[tuple[Seed, ...], Field(min_length=1)] | Annotated[int, Field(gt=0, le=SEEDS_OF_A_MASTER // 2)] | Looks
)
Flops = Annotated[float, Field(gt=0.0, le=1e30)]


class TrainTable(TrainSpec):
    """The ``[train]`` table of a suite: the recipe, the budget's currency, and the seeds of each cell."""

    seeds: Seeds = Field((0,), description="the seeds, how many, or at most how many and when to look at them")
    implementations: Literal["one", "all"] = Field(
        "one",
        description="of equivalent implementations all are trained with the first seed, and with the others one, "
        "which stands for all, or each",
    )
    flops: Flops | None = Field(
        None, description="budget in floating-point operations, forward and backward, by the closed form"
    )
    match: Literal["flops", "parameters"] | None = Field(
        None,
        description="what all cells share with the first: the operations of a run, by more or fewer images; "
        "or the parameters, by a wider or narrower MLP",
    )

    @field_validator("seeds", mode="wrap")
    @classmethod
    def _table_of_looks(cls, given: Any, others: ValidatorFunctionWrapHandler) -> Any:
        """A table is judged as looks alone: what is wrong in it is no failed attempt at an array. Seeds count once."""
        seeds = Looks.model_validate(given) if isinstance(given, dict) else others(given)
        return tuple(dict.fromkeys(seeds)) if isinstance(seeds, tuple) else seeds

    @property
    def looks(self) -> tuple[int, ...]:
        """Numbers of seeds after which cells that are decided stop; empty where all are run whatever comes out."""
        return self.seeds.looks if isinstance(self.seeds, Looks) else ()

    def seeds_of(self, master: int) -> tuple[int, ...]:
        """All seeds that there may be; those of a master seed where only their number is given."""
        if isinstance(self.seeds, tuple):
            return self.seeds
        count = self.seeds.at_most if isinstance(self.seeds, Looks) else self.seeds
        return tuple(SEEDS_OF_A_MASTER * master + i for i in range(count))

    def recipe(self) -> TrainSpec:
        """The recipe without the seeds: what belongs to one trial."""
        return TrainSpec(**{name: getattr(self, name) for name in TrainSpec.model_fields})


Within = Annotated[float, Field(gt=0.0, lt=1.0)]
Rounds = Annotated[int, Field(gt=0, le=1000)]
Warmup = Annotated[int, Field(ge=0, le=100_000)]
Iterations = Annotated[int, Field(gt=0, le=100_000)]
DTypes = Annotated[tuple[DType, ...], Field(min_length=1)]
BatchSizes = Annotated[tuple[Positive, ...], Field(min_length=1)]
Modes = Annotated[tuple[Mode, ...], Field(min_length=1)]
Levels = Annotated[tuple[Level, ...], Field(min_length=1)]


class TimeSpec(Strict):
    """How something is timed: fresh processes, and in each of them rounds in which every variant has its turn."""

    rounds: Rounds = Field(3, description="fresh processes")
    within: Within | None = Field(
        None, description="further processes until the 95 % interval of each axis' speed is at most so wide to either "
        "side, as a fraction; none on a machine that has other work"
    )  # fmt: skip
    rounds_most: Rounds = Field(8, description="fresh processes at the most, with `within`")
    warmup: Warmup = Field(5, description="least iterations before the clock starts; more until they are steady")
    iterations: Iterations = Field(20, description="rounds in each process, in each of which each variant has a turn")
    compile: bool = Field(False, description="torch.compile what is timed")
    cuda_graphs: bool = Field(False, description="capture an iteration once, and time its replays")
    largest_batch: bool = Field(False, description="look for the largest batch that fits into a GPU's memory, too")


class TimeChanges(Strict):
    """``[time.cpu]``, ``[time.cuda]``, ``[time.mps]``: what is otherwise on one type of device."""

    rounds: Rounds | None = None
    within: Within | None = None
    rounds_most: Rounds | None = None
    warmup: Warmup | None = None
    iterations: Iterations | None = None
    dtypes: DTypes | None = None
    batch_sizes: BatchSizes | None = None
    modes: Modes | None = None


class TimeTable(TimeSpec):
    """The ``[time]`` table of a suite: the protocol, and what is timed with it."""

    dtypes: DTypes = ("float32",)
    batch_sizes: BatchSizes = (64,)
    modes: Modes = ("inference", "train")
    levels: Levels = ("model",)
    cpu: TimeChanges | None = None
    cuda: TimeChanges | None = None
    mps: TimeChanges | None = None

    def on(self, device: Device) -> "TimeTable":
        """The table for one type of device."""
        changes: TimeChanges | None = getattr(self, device)
        given = {name: value for name, value in changes or () if value is not None}
        return self.model_copy(update={**given, **dict.fromkeys(DEVICES)})

    def protocol(self) -> TimeSpec:
        """The protocol without the lists: what belongs to one trial."""
        return TimeSpec(**{name: getattr(self, name) for name in TimeSpec.model_fields})
