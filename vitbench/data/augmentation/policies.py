"""Policies: RandAugment and TrivialAugment, as in torchvision: which operations are applied, and how strongly.

All chance is drawn on the host for a whole epoch at once. So it is the same on every device, and which images meet
which operation is known without asking the device: no step waits for it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vitbench.config.recipe import TrainSpec
from vitbench.data.augmentation import operations
from vitbench.data.augmentation.boxes import Floats, Ints, Size

Apply = Callable[[Tensor, Tensor], Tensor]
BINS = 31  # Strengths of each operation, evenly spaced


@dataclass(frozen=True)
class Operation:
    """One operation of a policy."""

    apply: Apply | None  # see :mod:`vitbench.data.augmentation.operations`; None leaves an image as it is
    # strengths (n,), height and width → the operation's parameters (n, p)
    parameters: Callable[[Floats, Size], Floats] = lambda strengths, _: strengths[:, None]
    signed: bool = False  # the strength is negative half of the time


def _map(*rows: Floats | float) -> Floats:
    """Affine maps (n, 6) from their numbers, (n,) or one for all."""
    return np.stack(np.broadcast_arrays(*rows), axis=-1)


def _shear_x(strengths: Floats, size: Size) -> Floats:
    return _map(1.0, strengths, strengths * size[0] / 2, 0.0, 1.0, 0.0)


def _shear_y(strengths: Floats, size: Size) -> Floats:
    return _map(1.0, 0.0, 0.0, strengths, 1.0, strengths * size[1] / 2)


def _translate_x(strengths: Floats, _: Size) -> Floats:
    return _map(1.0, 0.0, -np.trunc(strengths), 0.0, 1.0, 0.0)


def _translate_y(strengths: Floats, _: Size) -> Floats:
    return _map(1.0, 0.0, 0.0, 0.0, 1.0, -np.trunc(strengths))


def _rotate(strengths: Floats, _: Size) -> Floats:
    cos, sin = np.cos(np.deg2rad(strengths)), np.sin(np.deg2rad(strengths))
    return _map(cos, -sin, 0.0, sin, cos, 0.0)


def _shares(strengths: Floats, _: Size) -> Floats:
    return np.stack([1.0 + strengths, -strengths], axis=-1)


OPERATIONS: Mapping[str, Operation] = {
    "identity": Operation(None),
    "shear_x": Operation(operations.affine, _shear_x, signed=True),
    "shear_y": Operation(operations.affine, _shear_y, signed=True),
    "translate_x": Operation(operations.affine, _translate_x, signed=True),
    "translate_y": Operation(operations.affine, _translate_y, signed=True),
    "rotate": Operation(operations.affine, _rotate, signed=True),
    "brightness": Operation(operations.brightness, _shares, signed=True),
    "colour": Operation(operations.colour, _shares, signed=True),
    "contrast": Operation(operations.contrast, _shares, signed=True),
    "sharpness": Operation(operations.sharpness, _shares, signed=True),
    "posterize": Operation(operations.posterize),
    "solarize": Operation(operations.solarize),
    "autocontrast": Operation(operations.autocontrast),
    "equalize": Operation(operations.equalize),
}
"""In torchvision's order."""

NAMES = tuple(OPERATIONS)
PARAMETERS = 6  # Columns in which the parameters of any operation fit


@dataclass(frozen=True)
class DrawnOperations:
    """Operations that the images of an epoch meet, one after another."""

    operation: Ints  # (n, k), its index in :data:`OPERATIONS`; an array, since it stays on the host
    parameters: Tensor  # (n, k, 6) float32; on the device

    def apply(self, pixels: Tensor, rows: slice) -> Tensor:
        """Some images after their operations.

        Args:
            pixels: (B, C, height, width) uint8, on the device.
            rows: which of the epoch's draws are theirs.
        """
        for step in range(self.operation.shape[1]):
            chosen, parameters = self.operation[rows, step], self.parameters[rows, step]
            changed = pixels.clone()
            for apply, members in _groups(chosen):
                # Pinned, since a copy from other memory waits for all that a GPU has to do before it.
                held = members.pin_memory() if pixels.is_cuda else members
                there = held.to(pixels.device, non_blocking=True)
                changed[there] = apply(pixels[there], parameters[there])
            pixels = changed
        return pixels


def _groups(chosen: Ints) -> Iterator[tuple[Apply, Tensor]]:
    """(operation, rows of the images that meet it); the maps of all five affine ones are applied together."""
    members: dict[Apply, list[Ints]] = {}
    for index, name in enumerate(NAMES):
        apply, rows = OPERATIONS[name].apply, np.flatnonzero(chosen == index)
        if apply is not None and len(rows):
            members.setdefault(apply, []).append(rows)
    for apply, rows_of in members.items():
        yield apply, torch.from_numpy(np.concatenate(rows_of))


@dataclass(frozen=True)
class Policy:
    """How operations are chosen for an image."""

    # height and width → operation → its strengths (31,), or of timm's levels (11,), ascending in effect
    strengths: Callable[[Size], Mapping[str, Floats]]
    operations: int  # how many each image meets, one after another
    level: int | None  # index of the strength of all of them; None: drawn for each

    def draw(self, images: int, size: Size, chance: torch.Generator, device: torch.device) -> DrawnOperations:
        """Operations that so many images of one size (height, width) meet.

        Args:
            chance: on the CPU; three tensors are drawn from it.
        """
        shape = images, self.operations
        chosen = torch.randint(len(NAMES), shape, generator=chance).numpy()
        level = torch.randint(BINS, shape, generator=chance).numpy()
        level = level if self.level is None else np.full_like(level, self.level)
        sign = 1.0 - 2.0 * torch.randint(2, shape, generator=chance).numpy()
        parameters = np.zeros((*shape, PARAMETERS))
        table = self.strengths(size)
        for index, name in enumerate(NAMES):
            operation, places = OPERATIONS[name], chosen == index
            if operation.apply is not None and places.any():
                strength = table[name][level[places]] * (sign[places] if operation.signed else 1.0)
                values = operation.parameters(strength, size)
                parameters[places, : values.shape[-1]] = values
        return DrawnOperations(chosen, torch.from_numpy(parameters).float().to(device, non_blocking=True))


def _space(
    shear: float, translate: tuple[float, float], rotate: float, blend: float, *, bits: Floats, solarize: Floats
) -> Mapping[str, Floats]:
    """Strengths of all operations, as many as there are ``bits``; ``translate`` is (down, across)."""
    none = np.zeros(len(bits))
    ramps = {
        "shear_x": shear, "shear_y": shear, "translate_x": translate[1], "translate_y": translate[0],
        "rotate": rotate, "brightness": blend, "colour": blend, "contrast": blend, "sharpness": blend,
    }  # fmt: skip
    return {
        **{name: _ramp(0.0, end, len(bits)) for name, end in ramps.items()},
        "posterize": bits, "solarize": solarize, "identity": none, "autocontrast": none, "equalize": none,
    }  # fmt: skip


def _ramp(first: float, last: float, bins: int = BINS) -> Floats:
    return torch.linspace(first, last, bins).double().numpy()  # in float32 first, as torchvision's are


def _bits(least: int) -> Floats:
    return (8 - (torch.arange(BINS) / ((BINS - 1) / (8 - least))).round()).double().numpy()


def _torchvision(size: Size) -> Mapping[str, Floats]:
    translate = 150.0 / 331.0 * size[0], 150.0 / 331.0 * size[1]
    return _space(0.3, translate, 30.0, 0.9, bits=_bits(4), solarize=_ramp(255.0, 0.0))


def _timm(size: Size) -> Mapping[str, Floats]:
    tenths = np.arange(11) / 10
    bits, solarize = 4.0 - np.trunc(4 * tenths), 256.0 - np.trunc(256 * tenths)
    return _space(0.3, (0.45 * size[0], 0.45 * size[1]), 30.0, 0.9, bits=bits, solarize=solarize)


SCALES: Mapping[str, Callable[[Size], Mapping[str, Floats]]] = {"torchvision": _torchvision, "timm": _timm}
"""Name in a recipe → height and width → the strengths of RandAugment's levels."""


def randaugment(operations: int, level: int, scale: str = "torchvision") -> Policy:
    """So many operations, all of one strength: of torchvision's scale from 0 to 30, or of timm's from 0 to 10.

    The operations are torchvision's: timm has inversion and addition of light for the identity, and draws a strength
    around the level where it is asked to.

    Source: Cubuk et al. 2019, RandAugment, arXiv 1909.13719; strengths as in torchvision.transforms.RandAugment, or as
    of timm's rand-m9-inc1, which DeiT (arXiv 2012.12877) uses.
    """
    return Policy(SCALES[scale], operations, level)


def trivialaugment() -> Policy:
    """One operation of any strength.

    Source: Müller and Hutter 2021, TrivialAugment, arXiv 2103.10158; the wide strengths, as in
    torchvision.transforms.TrivialAugmentWide.
    """
    return Policy(lambda _: _space(0.99, (32.0, 32.0), 135.0, 0.99, bits=_bits(2), solarize=_ramp(255.0, 0.0)), 1, None)


POLICIES: Mapping[str, Callable[[TrainSpec], Policy | None]] = {
    "none": lambda _: None,
    "randaugment": lambda recipe: randaugment(
        recipe.randaugment_operations, recipe.randaugment_level, recipe.randaugment_scale
    ),
    "trivialaugment": lambda _: trivialaugment(),
}
"""Name in a recipe → policy."""
