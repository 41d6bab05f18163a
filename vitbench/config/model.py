"""ModelSpec: one Vision Transformer, as data."""

import importlib.util
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from vitbench import registry
from vitbench.config.architectures import ARCHITECTURES, OF_TIMM, architecture_facts, missing_in_timm, of_timm
from vitbench.config.base import Positive, Probability, Size, Strict, pair
from vitbench.config.suite_errors import quote
from vitbench.options import listed_options, options_of
from vitbench.wording import nearest

DECODER_HEAD_WIDTH = 32
LEAST_HIDDEN = 2  # Units of an MLP: of one a gated MLP, two thirds as wide, has none

OF_ANY = frozenset({"architecture", "image_size", "channels", "num_classes"})
"""Fields that a model of any architecture has."""

RESIDUALS = {True: "plain", False: "none"}  # Earlier values of ``residual``, a boolean before it was a slot → component


class ModelSpec(Strict):
    """One Vision Transformer: a component for each slot, and the sizes they share.

    The fields named as the folders of ``vitbench/components`` are the slots. Defaults are neutral: they are left out
    of trial ids, and so must never change.
    """

    architecture: str = Field(
        "vit",
        description="a Vision Transformer of the components below, or a baseline that is of itself as it is: cnn, "
        "resnet18, resnet18_imagenet, or a whole model of timm's, timm:NAME",
    )

    # Slots
    patching: str = "conv"
    attention: str = "sdpa"
    norm: str = "pre"
    norm_layer: str = "layernorm"
    positions: str = "learned"
    mlp: str = "gelu"
    pooling: str = "cls"
    block: str = "serial"
    residual: str = Field(
        "plain", description="how a sublayer's input is added to its output; true: plain, false: none"
    )
    qk_norm: str = Field("none", description="of queries and keys")
    gate: str = Field("none", description="on the heads' outputs")
    bias: str = Field("none", description="added to the scores of attention")
    reduction: str = Field("none", description="of the tokens, between two blocks")
    head: str = Field("linear", description="from the pooled vector to the classes")
    runtime: str = Field("eager", description="what a whole model is run by in inference")

    # Images and classes
    image_size: Size = Field(32, description="height and width of the images, pixels")
    channels: Annotated[int, Field(gt=0, le=1024)] = 3
    patch_size: Size = Field(4, description="height and width of a patch, pixels")
    num_classes: Positive = 10

    # Encoder
    dim: Annotated[int, Field(gt=0, le=65_536)] = Field(128, description="model width D")
    depth: Annotated[int, Field(gt=0, le=1024)] = Field(6, description="number of blocks")
    heads: Annotated[int, Field(gt=0, le=1024)] = Field(4, description="attention heads H")
    head_dim: Annotated[int, Field(gt=0, le=65_536)] | None = Field(
        None, description="width K of one head; dim / heads unless given"
    )
    mlp_ratio: Annotated[float, Field(gt=0.0, le=64.0)] = Field(4.0, description="hidden width of the MLP over dim")
    qkv_bias: bool = True
    registers: Annotated[int, Field(ge=0, le=1024)] = Field(0, description="learned tokens that are not pooled")
    final_norm: bool = Field(True, description="one more norm after the last block")
    dropout: Probability = Field(0.0, description="after positions, attention projection and each MLP layer")
    attention_dropout: Probability = Field(0.0, description="on attention probabilities")
    drop_path: Probability = Field(0.0, description="stochastic depth rate of the last block; earlier ones less")
    patch_drop: Probability = Field(0.0, description="share of its patches that each image is trained without")
    init_std: Annotated[float, Field(gt=0.0, le=10.0)] | Literal["fan_in"] = Field(
        0.02,
        description='standard deviation of initial weights; "fan_in" for sqrt(1 / (3 fan_in)), PyTorch\'s own',
    )

    @field_validator("architecture")
    @classmethod
    def _known_architecture(cls, given: str) -> str:
        if given not in ARCHITECTURES and not of_timm(given):
            known = f"{', '.join(ARCHITECTURES)}, {OF_TIMM}NAME"
            raise ValueError(f"{quote(given)} is no architecture{nearest(given, ARCHITECTURES)}; known: {known}")
        return given

    @field_validator("residual", mode="before")
    @classmethod
    def _residual_or_none(cls, given: Any) -> Any:
        return RESIDUALS[given] if isinstance(given, bool) else given

    @field_validator(*registry.slots(), mode="before")
    @classmethod
    def _known_component(cls, given: Any, info: ValidationInfo) -> Any:
        """A component by its name, options behind it; or a table of both: ``{name = "rope_2d", base = 10000}``."""
        assert info.field_name is not None
        stored = info.context and info.context.get("stored")
        if isinstance(given, str) and not stored:
            return registry.with_options(info.field_name, given, {})
        if isinstance(given, dict) and isinstance(given.get("name"), str):
            options = {option: value for option, value in given.items() if option != "name"}
            return registry.with_options(info.field_name, given["name"], options)
        return given

    def canonical(self) -> dict[str, Any]:
        """JSON form; no residual connection is ``false``, as it was first, so that ids stay what they are."""
        body = super().canonical()
        if body.get("residual") == RESIDUALS[False]:
            body["residual"] = False
        return body

    @property
    def components(self) -> dict[str, str]:
        """Slot → name of the component in it; none where the architecture is not made of them."""
        return {slot: getattr(self, slot) for slot in registry.slots()} if self.of_components else {}

    @property
    def of_components(self) -> bool:
        """Whether the architecture is made of components, in sizes of this spec."""
        return architecture_facts(self.architecture).of_components

    @property
    def grid(self) -> tuple[int, int]:
        """Patches along the height and the width of an image."""
        (height, width), (patch_height, patch_width) = pair(self.image_size), pair(self.patch_size)
        return height // patch_height, width // patch_width

    @property
    def grid_height(self) -> int:
        """Patches along the height of an image."""
        return self.grid[0]

    @property
    def grid_width(self) -> int:
        """Patches along its width."""
        return self.grid[1]

    @property
    def patches(self) -> int:
        """Patches of one image; the class token, if any, comes on top."""
        return self.grid[0] * self.grid[1]

    @property
    def prefix(self) -> int:
        """Tokens before those of the patches: one where a class token is pooled, and the registers."""
        return self.pooled_prefix + self.registers

    @property
    def pooled_prefix(self) -> int:
        """Tokens before those of the patches and the registers: one where a class token is pooled."""
        return registry.facts("pooling", self.pooling).prefix

    @property
    def pooled_width(self) -> int:
        """Width of what is pooled of an image, which the head is given."""
        return self.dim * registry.facts("pooling", self.pooling).vectors

    @property
    def answers_teacher(self) -> bool:
        """Whether one of the tokens before the patches, and a head of its own, answers a teacher."""
        return self.of_components and "teacher" in registry.facts("pooling", self.pooling).offers

    @property
    def tokens(self) -> int:
        """N, the tokens that enter the encoder."""
        return self.prefix + self.patches

    @property
    def patches_kept(self) -> int:
        """Patches that the blocks are given in training: those that ``patch_drop`` leaves, one at least."""
        return max(1, int(self.patches * (1.0 - self.patch_drop)))

    def patches_seen(self, mask_ratio: float) -> int:
        """Patches of an image that a masked autoencoder sees: one at least, and not all."""
        return min(max(round(self.patches * (1.0 - mask_ratio)), 1), self.patches - 1)

    def patches_by_block(self, *, training: bool = False) -> list[int]:
        """Patches, or what they have become, that each block is given."""
        removes = registry.facts("reduction", self.reduction).removes
        fewer = int(registry.settings("reduction", self.reduction)[removes]) if removes else 0
        patches = [self.patches_kept if training else self.patches]
        while len(patches) < self.depth:
            patches.append(patches[-1] - min(fewer, patches[-1] // 2))
        return patches

    @property
    def placed(self) -> int:
        """Tokens that have positions, and are there when tokens are pooled: all but the registers."""
        return self.pooled_prefix + self.patches

    def leaves_out(self, slot: str) -> bool:
        """Whether the blocks go without a sublayer, or there are none."""
        return not self.of_components or registry.facts(slot, getattr(self, slot)).empty

    @property
    def head_width(self) -> int:
        """K, the width of one head."""
        return self.head_dim or self.dim // self.heads

    @property
    def heads_width(self) -> int:
        """HK, the width of all heads side by side: D unless ``head_dim`` is given."""
        return self.heads * self.head_width

    @property
    def hidden(self) -> int:
        """Hidden width of the MLP."""
        return int(self.dim * self.mlp_ratio)

    def problems(self) -> list[tuple[str, str]]:
        """(field, message) for each pair of fields that cannot stand together, whatever the components are."""
        if not self.of_components:
            missing = missing_in_timm(self.architecture)
            problems = [] if missing is None else [("architecture", missing)]
            return problems + [
                (name, f'architecture "{self.architecture}" has no such thing: leave it out, or name the baseline by '
                       'set.preset, which takes nothing from [model]')
                for name, field in type(self).model_fields.items()
                if name not in OF_ANY and getattr(self, name) != field.default
            ]  # fmt: skip
        problems = []
        sides = zip(pair(self.image_size), pair(self.patch_size), ("height", "width"), strict=True)
        wrong = [f"{patch} does not divide the image {side} {size}" for size, patch, side in sides if size % patch]
        if wrong:
            problems.append(("patch_size", " and ".join(wrong)))
        if self.hidden < LEAST_HIDDEN and not self.leaves_out("mlp"):
            least = f"at least {LEAST_HIDDEN / self.dim:.3g}"
            problems.append(
                ("mlp_ratio", f"{self.mlp_ratio:g} of dim {self.dim} leaves the MLP no hidden units; {least}")
            )
        if self.head_dim is None and self.dim % self.heads:
            problems.append(("heads", f"{self.heads} does not divide dim {self.dim}"))
        return problems

    def conflicts(self) -> list[str]:
        """Why the chosen components cannot be combined: one sentence for each rule that is broken."""
        reasons, names = [], self.components
        chosen = {slot: registry.facts(slot, name) for slot, name in names.items()}
        for slot, facts in chosen.items():
            if facts.asks_nothing and "(" not in names[slot]:
                continue
            who = f'{slot} "{names[slot]}"'
            if strange := options_of(names[slot]).keys() - facts.options.keys():
                reasons.append(f"{who} has no option {', '.join(sorted(strange))}")
            for other, feature in facts.needs.items():
                if feature not in chosen[other].offers:
                    reasons.append(f'{who} needs "{feature}", which {other} "{names[other]}" does not offer')
            options = registry.settings(slot, names[slot]) if facts.multiple_of and not strange else {}
            for quantity, given in facts.multiple_of.items():
                divisor = options.get(given, 1) if isinstance(given, str) else given
                if getattr(self, quantity) % divisor:
                    reasons.append(f"{who} needs a {quantity} divisible by {divisor}, not {getattr(self, quantity)}")
            for quantity, values in facts.among.items():
                if getattr(self, quantity) not in values:
                    allowed = ", ".join(map(str, values))
                    reasons.append(f"{who} takes a {quantity} of {allowed}, not {getattr(self, quantity)}")
        fewer = [] if not chosen or chosen["reduction"].empty else [f'reduction "{self.reduction}"']
        fewer += [f"patch_drop {self.patch_drop:g}"] if self.patch_drop else []
        reasons += [
            f'{slot} "{names[slot]}" needs every patch, and {" and ".join(fewer)} makes them fewer'
            for slot in ("attention", "bias")
            if fewer and chosen[slot].every_patch
        ]
        asked = {"dropout": ("attention_dropout", self.attention_dropout), "head_dim": ("head_dim", self.head_dim)}
        reasons += [
            f'attention "{self.attention}" has no {field}, and {value} is asked'
            for feature, (field, value) in asked.items()
            if value and chosen and feature not in chosen["attention"].offers
        ]
        return reasons

    def with_options(self, slot: str, options: Mapping[str, Any]) -> "ModelSpec":
        """The model with options of a slot's component, also those that it does not have: a conflict then."""
        name = getattr(self, slot)
        try:
            name = registry.with_options(slot, name, options)
        except registry.UnknownComponent:
            given = {**options_of(name), **options}
            name = f"{name.partition('(')[0]}({listed_options(given)})"
        return self.model_copy(update={slot: name})

    def decoder(self, dim: int, depth: int) -> "ModelSpec":
        """The blocks by which a masked autoencoder of this model tells patches; ``dim`` is a multiple of 32."""
        return ModelSpec(
            image_size=self.image_size, patch_size=self.patch_size, channels=self.channels, pooling=self.pooling,
            positions="sinusoidal_2d", dim=dim, depth=depth, heads=dim // DECODER_HEAD_WIDTH,
        )  # fmt: skip

    def teacher(self, architecture: Literal["cnn", "resnet18"]) -> "ModelSpec":
        """A model that takes the same images and tells the same classes."""
        return ModelSpec(
            architecture=architecture, image_size=self.image_size, channels=self.channels, num_classes=self.num_classes
        )

    def reference(self) -> "ModelSpec":
        """The model with each exact component replaced by its slot's reference, which computes the same function."""
        changes = {}
        for slot, name in self.components.items():
            if registry.facts(slot, name).exact and (reference := registry.reference(slot)):
                changes[slot] = reference
        return self.model_copy(update=changes)

    def unsupported(self, device: str, dtype: str, training: bool) -> str | None:
        """Why these components cannot run on a device type in a dtype, or None. Says nothing of the machine at hand."""
        for slot, name in self.components.items():
            known = registry.facts(slot, name)
            if known.runs_anywhere:
                continue
            if not known.runs_on(device, training):
                forward = known.runs_on(device, training=False)
                runs = "has no backward pass on" if forward else f"runs on {', '.join(known.devices)}, not on"
                return f'{slot} "{name}" {runs} {device}'
            if dtype not in known.dtypes:
                return f'{slot} "{name}" runs in {", ".join(known.dtypes)}, not in {dtype}'
            for quantity, least in known.at_least.get(device, {}).items():
                if (given := getattr(self, quantity)) < least:
                    return f'{slot} "{name}" needs a {quantity} of at least {least} on {device}, not {given}'
        return None

    def missing_package(self) -> str | None:
        """Which of these components, or the architecture, needs a package that is not installed here, or None."""
        whole = architecture_facts(self.architecture).package
        if whole is not None and importlib.util.find_spec(whole) is None:
            return f'architecture "{self.architecture}" needs the package {whole}, which is not installed'
        for slot, name in self.components.items():
            for package in registry.facts(slot, name).packages:
                if importlib.util.find_spec(package) is None:
                    return f'{slot} "{name}" needs the package {package}, which is not installed'
        return None
