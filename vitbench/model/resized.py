"""Models for images of another size than they were trained on."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from vitbench.config.model import ModelSpec
from vitbench.model.build import Model, network
from vitbench.model.weights import WeightsError

POSITIONS = "positions.table"


def at_size(model: Model, size: int) -> Model:
    """A model with the same weights for square images of another size, in pixels; in evaluation mode.

    Learned positions are resampled as timm does (:func:`resampled`), computed ones are computed for the new grid of
    patches, and all other weights are those of the model.

    Raises:
        ValueError: where a component has weights for each place of the grid.
    """
    spec, state = model.spec.model_copy(update={"image_size": size}), model.state_dict()
    if (table := state.get(POSITIONS)) is not None:
        state[POSITIONS] = resampled(table, spec, model.spec.grid)
    other = network(spec)
    try:
        other.load_state_dict(state)
    except RuntimeError as error:
        raise ValueError(f"no model for images of {size} pixels: {error}") from error
    return other.to(next(model.parameters()).device).eval()


def resampled(positions: Tensor, spec: ModelSpec, grid: tuple[int, int] | None = None) -> Tensor:
    """Learned positions (1, prefix + n, D) for the grid of patches of a model, bicubic and antialiased.

    Args:
        positions: those of tokens that are no patches first.
        spec: of the model.
        grid: rows and columns of the n patches; a square where it is not known.

    Raises:
        WeightsError: where n is neither the model's number of patches nor that of a known or square grid.

    Source: huggingface/pytorch-image-models, timm/layers/pos_embed.py, resample_abs_pos_embed.
    """
    patches = positions.shape[1] - spec.pooled_prefix
    side = math.isqrt(max(patches, 0))
    rows, columns = grid or (spec.grid if patches == spec.patches else (side, side))
    if not patches or rows * columns != patches:
        count = positions.shape[1]
        raise WeightsError(f"of {count} positions {patches} are of patches: no square, and their grid is not known")
    if (rows, columns) == spec.grid:
        return positions
    prefix, table = positions[:, : spec.pooled_prefix], positions[:, spec.pooled_prefix :]
    image = table.float().reshape(1, rows, columns, -1).permute(0, 3, 1, 2)
    image = F.interpolate(image, size=spec.grid, mode="bicubic", antialias=True)
    return torch.cat([prefix, image.flatten(2).transpose(1, 2).to(positions.dtype)], dim=1)
