"""Trials: units of work, and the ids by which they are found again."""

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from vitbench import registry
from vitbench.config.architectures import OF_TIMM, architecture_facts
from vitbench.config.base import ID_LENGTH, Positive, Seed, Strict, digest, pair
from vitbench.config.model import ModelSpec
from vitbench.config.recipe import DataSpec, Device, DType, Level, Mode, TimeSpec, TrainSpec
from vitbench.wording import encoded

HOW_TO_COME_BY = frozenset({"path", "download", "fallback"})
"""Fields of DataSpec that lead to the images and do not change them: the data's identity stands in their place."""


def images_body(data: DataSpec, identity: str) -> dict[str, Any]:
    """JSON form of the data in an id."""
    return {**{k: v for k, v in data.canonical().items() if k not in HOW_TO_COME_BY}, "identity": identity}


def training_id(*, kind: str, model: str, images: str, train: str, seed: int, device: str) -> str:
    """The id of a :class:`TrainingTrial` from the canonical JSON texts of its parts, which many trials share."""
    text = f'{{"data":{images},"device":"{device}","kind":"{kind}","model":{model},"seed":{seed},"train":{train}}}'
    return hashlib.sha256(encoded(text)).hexdigest()[:ID_LENGTH]


class TrainingTrial(Strict):
    """A cell trained with one seed on one type of device: what a run and a tuning run share."""

    kind: Literal["train", "tune"]
    model: ModelSpec
    data: DataSpec
    train: TrainSpec
    seed: Seed
    device: Device
    data_identity: str = Field(description="what the images are, wherever they lie; see vitbench.data.catalog")

    def canonical(self) -> dict[str, Any]:
        """JSON form that the id is made of."""
        return {
            "kind": self.kind,
            "model": self.model.canonical(),
            "data": images_body(self.data, self.data_identity),
            "train": self.train.canonical(),
            "seed": self.seed,
            "device": self.device,
        }

    @property
    def id(self) -> str:
        """Hash of the canonical spec; the same on every machine and under every version of the code."""
        return digest(self.canonical())

    @property
    def dtype(self) -> DType:
        """The floating-point type in which the components compute."""
        return self.train.precision

    @property
    def training(self) -> bool:
        """Whether a backward pass is needed."""
        return True

    def unsupported(self, device: str) -> str | None:
        """Why it cannot run on a device type, or None. Says nothing of the machine at hand."""
        return self.train.unsupported(device) or self.model.unsupported(device, self.dtype, training=True)


class TrainTrial(TrainingTrial):
    """A run whose test accuracy counts: the test images are read once, at its end."""

    kind: Literal["train"]

    def ensemble_problem(self) -> str | None:
        """See :func:`ensemble_problem`."""
        return ensemble_problem(self.model, self.train)


MOST_OF_TIMM = 10  # The highest level of RandAugment on timm's scale


def mismatches(model: ModelSpec, recipe: TrainSpec) -> list[tuple[str, str]]:
    """(field of the recipe, message) for what it asks of a model that cannot do it."""
    problems, taught = [], recipe.has_teacher
    if recipe.pretrain_epochs and not model.of_components:
        problems.append(("pretrain_epochs", f'architecture "{model.architecture}" has no patches that could be hidden'))
    elif recipe.pretrain_epochs and model.patches < 2:
        problems.append(("pretrain_epochs", "an image of one patch has none that could be hidden"))
    elif recipe.pretrain_epochs:
        problems += [
            ("pretrain_epochs", f'{slot} "{name}" needs every patch of an image, and some would be hidden')
            for slot, name in model.components.items()
            if registry.facts(slot, name).every_patch
        ]
    if recipe.frozen and model.of_components and "probe" not in registry.facts("head", model.head).offers:
        problems.append(("frozen", f'head "{model.head}" is no linear layer, which a probe of frozen features takes'))
    if recipe.optimizer == "muon" and (recipe.frozen or not model.of_components):
        who = "a head alone" if recipe.frozen else f'architecture "{model.architecture}"'
        problems.append(("optimizer", f"muon is for the matrices of blocks, and none are known of {who}"))
    if recipe.test_sizes and model.architecture.startswith(OF_TIMM):
        problems.append(("test_sizes", f'architecture "{model.architecture}" is asked about images of one size alone'))
    for size in recipe.test_sizes:
        other = model.model_copy(update={"image_size": size})
        wrong = [f"{field}: {problem}" for field, problem in other.problems()] or other.conflicts()
        wrong += [f'{slot} "{name}" has weights for one size of images alone' for slot, name in other.components.items()
                  if registry.facts(slot, name).one_size]  # fmt: skip
        problems += [("test_sizes", f"{size}: {problem}") for problem in wrong]
    if recipe.randaugment_scale == "timm" and recipe.randaugment_level > MOST_OF_TIMM:
        problems.append(("randaugment_level", f"{recipe.randaugment_level}, but timm's scale ends at {MOST_OF_TIMM}"))
    if taught and not model.of_components:
        problems.append(("distillation", f'architecture "{model.architecture}" is a teacher, and no pupil'))
    if taught and recipe.frozen:
        problems.append(("frozen", "a head alone has nothing to learn from a teacher"))
    if not taught and model.answers_teacher:
        problems.append(("distillation", f'pooling "{model.pooling}" has a token for a teacher, and there is none'))
    return problems


def ensemble_problem(model: ModelSpec, recipe: TrainSpec) -> str | None:
    """Why seeds of a cell cannot be trained as one program with what each gives alone; None if they can."""
    called = [(slot, name, registry.vmap(slot, name)) for slot, name in model.components.items()]
    called += [("architecture", model.architecture, architecture_facts(model.architecture).vmap)]
    reasons = [f'{slot} "{name}" has to be called once for each model' for slot, name, vmap in called if not vmap]
    if recipe.pretrain_epochs:
        reasons.append("masked autoencoders would hide other patches for each model than they hide alone")
    if recipe.has_teacher:
        reasons.append("each seed has a teacher of its own")
    if recipe.frozen:
        reasons.append("a head alone is trained for each model by itself")
    if chances := [
        name for name in ("dropout", "attention_dropout", "drop_path", "patch_drop") if getattr(model, name)
    ]:
        reasons.append(f"{' and '.join(chances)} would draw other numbers for each model than it draws alone")
    return reasons[0] if reasons else None


class TuneTrial(TrainingTrial):
    """A run that helps to choose a setting of the nuisance axes: judged on validation, blind to the test images."""

    kind: Literal["tune"]


SLOT: Mapping[Level, str] = {
    "patching": "patching", "attention": "attention", "attention_core": "attention", "norm_layer": "norm_layer",
    "positions": "positions", "mlp": "mlp", "pooling": "pooling",
}  # fmt: skip
"""Level → the slot whose component is timed by itself."""

OF_TOKENS = frozenset({"image_size", "patch_size", "pooling", "registers", "dim", "heads"})
"""Fields of ModelSpec that give the shape (N, D) of tokens; heads, since they must divide D."""

OF_CORE = OF_TOKENS | {"attention", "head_dim", "attention_dropout", "qk_norm", "bias"}
OF_ATTENTION = OF_CORE | {"qkv_bias", "dropout", "gate"}
OF_MLP = OF_TOKENS | {"mlp", "mlp_ratio", "dropout"}
RELEVANT: Mapping[Level, frozenset[str]] = {
    "model": frozenset(ModelSpec.model_fields),
    "block": OF_ATTENTION | OF_MLP | {"norm", "norm_layer", "residual", "block"},
    "patching": frozenset({"patching", "image_size", "patch_size", "channels", "dim", "heads"}),
    "attention": OF_ATTENTION,
    "attention_core": OF_CORE,
    "norm_layer": OF_TOKENS | {"norm_layer"},
    "positions": OF_TOKENS - {"registers"} | {"positions"},
    "mlp": OF_MLP,
    "pooling": OF_TOKENS - {"registers"},
}
"""Fields of ModelSpec on which the work of each level depends."""


def relevant(model: ModelSpec, level: Level) -> ModelSpec:
    """A model with what does not matter at a level set back to its default: cells that share the rest are one trial."""
    return ModelSpec.model_validate({name: getattr(model, name) for name in RELEVANT[level]})


def compiled_twice(model: ModelSpec, protocol: TimeSpec) -> str | None:
    """Why a cell cannot be timed as its ``[time]`` table asks, or None."""
    if protocol.compile and model.runtime != registry.reference("runtime"):
        return f'torch.compile and runtime "{model.runtime}" cannot both run a model: leave one of the two out'
    return None


class TimeTrial(Strict):
    """A model, or a part of it, timed on one type of device, dtype, batch size and mode."""

    kind: Literal["time"]
    level: Level = "model"
    model: ModelSpec
    protocol: TimeSpec
    device: Device
    dtype: DType
    batch_size: Positive
    mode: Mode

    def canonical(self) -> dict[str, Any]:
        """JSON form that the id is made of."""
        return {
            "kind": self.kind,
            **({"level": self.level} if self.level != "model" else {}),
            "model": self.model.canonical(),
            "protocol": self.protocol.canonical(),
            "device": self.device,
            "dtype": self.dtype,
            "batch_size": self.batch_size,
            "mode": self.mode,
        }

    @property
    def id(self) -> str:
        """Hash of the canonical spec; the same on every machine and under every version of the code."""
        return digest(self.canonical())

    @property
    def training(self) -> bool:
        """Whether a backward pass is needed."""
        return self.mode == "train"

    def unsupported(self, device: str) -> str | None:
        """Why it cannot run on a device type, or None. Says nothing of the machine at hand."""
        if self.level == "attention_core" and registry.facts("attention", self.model.attention).whole:
            return f'attention "{self.model.attention}" has no core apart from its projections'
        if self.protocol.cuda_graphs and device != "cuda":
            return f"CUDA graphs run on cuda, not on {device}"
        return self.model.unsupported(device, self.dtype, self.training)

    @property
    def shape(self) -> str:
        """Sizes that two trials with the same work share, in words; empty for whole models, which may differ in all."""
        model = self.model
        if self.level == "model":  # whose tokens may be a plug-in's to say, which a report has not at hand
            return ""
        if self.level == "patching":
            height, width = pair(model.image_size)
            patch = "×".join(map(str, dict.fromkeys(pair(model.patch_size))))
            return f"{height}×{width} pixels, patch {patch}, D {model.dim}"
        if self.level == "attention_core":
            return f"N {model.tokens}, H {model.heads}, K {model.head_width}"
        heads = f", H {model.heads}" if self.level in ("block", "attention") else ""
        return f"N {model.tokens}, D {model.dim}{heads}"


Trial = Annotated[TrainTrial | TuneTrial | TimeTrial, Field(discriminator="kind")]
