"""Conversion of weights between timm's VisionTransformer and ours.

Source: huggingface/pytorch-image-models, timm/models/vision_transformer.py.
"""

from collections.abc import Mapping

from torch import Tensor

from vitbench import registry
from vitbench.config.model import ModelSpec
from vitbench.model.resized import POSITIONS, resampled
from vitbench.model.vit import VisionTransformer
from vitbench.model.weights import WeightsError, mismatch

OF_MODEL: Mapping[str, str] = {
    "patching.": "patch_embed.proj.",
    "pooling.class_token": "cls_token",
    "positions.table": "pos_embed",
    "encoder.blocks.": "blocks.",
    "encoder.final_norm.": "norm.",
    "head.": "head.",
}
"""How a tensor's name begins here, and there."""

OF_BLOCK: Mapping[str, str] = {
    "attention_norm.": "norm1.",
    "attention.q_norm.norm.": "attn.q_norm.",
    "attention.k_norm.norm.": "attn.k_norm.",
    "attention.": "attn.",
    "attention_residual.scale": "ls1.gamma",
    "mlp_residual.scale": "ls2.gamma",
    "mlp_norm.": "norm2.",
    "mlp.up.": "mlp.fc1.",
    "mlp.down.": "mlp.fc2.",
}
"""How it goes on after the block's number."""

THEIRS: Mapping[str, frozenset[str]] = {
    "norm": frozenset({"pre"}), "norm_layer": frozenset({"layernorm"}), "mlp": frozenset({"gelu"}),
    "pooling": frozenset({"cls"}), "positions": frozenset({"learned"}), "block": frozenset({"serial"}),
    "residual": frozenset({"plain", "layerscale"}), "qk_norm": frozenset({"none", "layernorm"}),
    "gate": frozenset({"none"}), "bias": frozenset({"none"}), "reduction": frozenset({"none"}),
    "head": frozenset({"linear"}),
}  # fmt: skip
"""Components with which a model of ours computes what timm's does; of the other slots any exact one."""


def load_timm(model: VisionTransformer, tensors: Mapping[str, Tensor], *, head: bool = True) -> None:
    """Copy the weights of a timm VisionTransformer into a model of the same width, depth and heads.

    Positions of another grid of patches are resampled (bicubic, antialiased), as timm does for another image size.
    Everything is checked before the first value is copied.

    Args:
        model: as built, e.g. by :func:`vitbench.build`.
        tensors: timm's ``state_dict``, e.g. of :func:`vitbench.model.weights.read_weights`.
        head: take the classifier, too; without it the model keeps its own, for other classes.

    Raises:
        WeightsError: where the model computes another function than timm's, and for tensors that are missing,
            unexpected or of another shape.
    """
    _demand_alike(model.spec)
    state = model.state_dict()
    names = {name: timm_name(name) for name in state if head or not name.startswith("head.")}
    given = {theirs: tensor for theirs, tensor in tensors.items() if head or not theirs.startswith("head.")}
    wanted = {theirs: tuple(state[ours].shape) for ours, theirs in names.items()}
    if (positions := given.get(table := names[POSITIONS])) is not None and set(wanted) == set(given):
        given[table] = resampled(positions, model.spec)
    if problem := mismatch(wanted, {name: tuple(tensor.shape) for name, tensor in given.items()}):
        raise WeightsError(f"timm's weights do not fit the model: {problem}")
    model.load_state_dict({**state, **{ours: given[theirs] for ours, theirs in names.items()}})


def to_timm(model: VisionTransformer) -> dict[str, Tensor]:
    """The weights of a model as timm's VisionTransformer names them.

    Raises:
        WeightsError: where the model computes another function than timm's.
    """
    _demand_alike(model.spec)
    return {timm_name(name): tensor.detach() for name, tensor in model.state_dict().items()}


def timm_name(name: str) -> str:
    """The name in timm of one of our tensors."""
    start, renamed = _prefix(name, OF_MODEL)
    rest = name.removeprefix(start)
    if not renamed.startswith("blocks."):
        return f"{renamed}{rest}"
    number, _, rest = rest.partition(".")
    start, of_block = _prefix(rest, OF_BLOCK)
    return f"{renamed}{number}.{of_block}{rest.removeprefix(start)}"


def _prefix(name: str, table: Mapping[str, str]) -> tuple[str, str]:
    try:
        return next(pair for pair in table.items() if name.startswith(pair[0]))
    except StopIteration:
        raise WeightsError(f'timm\'s VisionTransformer has nothing like the tensor "{name}"') from None


def _demand_alike(spec: ModelSpec) -> None:
    """Raise WeightsError unless timm's VisionTransformer computes what a spec describes."""
    other = [
        f'{slot} = "{name}"'
        for slot, name in spec.components.items()
        if (name not in THEIRS[slot] if slot in THEIRS else not registry.facts(slot, name).exact)
    ]
    other += [] if spec.final_norm else ["final_norm = false"]
    other += [f"{field} = {value}" for field in ("registers", "head_dim") if (value := getattr(spec, field))]
    if other:
        raise WeightsError(f"timm's VisionTransformer is another function than a model with {', '.join(other)}")
