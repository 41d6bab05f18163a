"""Exactness: a component compared with its slot's reference in float64, output and every gradient."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vitbench import registry
from vitbench.config.base import pair
from vitbench.config.model import ModelSpec
from vitbench.model.build import network
from vitbench.model.encoder import chosen
from vitbench.model.initial import initialise
from vitbench.streams import derive

FACTOR = 2.0  # Error allowed, as a multiple of that of the plain PyTorch form (the reference) in the same dtype
FLOOR_EPS = 4.0
"""Floor of the allowed error, in units of the dtype's epsilon times the largest value of the true result."""

COMPARED = 4  # Images of the random input


@dataclass(frozen=True)
class Deviation:
    """How far one result (the output, or one gradient) is from the truth; largest absolute differences."""

    quantity: str
    error: float
    allowed: float

    @property
    def within(self) -> bool:
        """Whether the rule is kept; NaN never is."""
        return self.error <= self.allowed

    def __str__(self) -> str:
        """For a record's reason."""
        return f"{self.quantity}: error {self.error:.3g}, allowed {self.allowed:.3g}"


class Incorrect(ValueError):
    """An exact component that does not compute its slot's function."""


def input_shape(spec: ModelSpec, part: str, images: int) -> tuple[int, ...]:
    """Shape of what a model, a block or a slot's component is given for so many images: those, or tokens (B, N, D)."""
    if part in ("model", "runtime", "patching"):
        return (images, spec.channels, *pair(spec.image_size))
    tokens = spec.placed if part in ("positions", "pooling") else spec.tokens
    return (images, tokens, spec.dim)


def is_compared(slot: str, name: str) -> bool:
    """Whether a component is held to its slot's reference: it is exact, and not that itself."""
    return registry.facts(slot, name).exact and name != registry.reference(slot)


def deviations(
    slot: str, spec: ModelSpec, device: torch.device, dtype: torch.dtype, *, backward: bool = True
) -> list[Deviation]:
    """Compare the component in a slot of ``spec`` with the slot's reference in float64.

    The rule (Dao-AILab/flash-attention's): its error is at most twice that of the reference run in the same dtype,
    plus a floor of four units of rounding of the largest true value.

    Returns:
        One Deviation for the output and, with ``backward``, for the gradient of the input and of each parameter.

    Raises:
        ValueError: where the slot has no reference or the component is not exact.
    """
    name, reference = spec.components[slot], registry.reference(slot)
    if reference is None or not registry.facts(slot, name).exact:
        raise ValueError(f'{slot} "{name}" is not exact: there is nothing to compare it with')
    expected = spec.model_copy(update={slot: reference})
    generator = torch.Generator().manual_seed(derive(0, "inputs", slot))
    x = torch.randn(input_shape(spec, slot, COMPARED), generator=generator, dtype=torch.float64)
    rotation = chosen("positions", spec)(spec).rotation if slot == "attention" else None

    def run(of: ModelSpec, where: torch.device, kind: torch.dtype) -> Mapping[str, Tensor]:
        whole = slot == "runtime"  # which runs a model, and is no part of one
        module: nn.Module = network(of) if whole else chosen(slot, of)(of)
        initialise(module, of.init_std, seed=0)
        # Rounded to the dtype first, in the true run too: its operands are the same numbers, its arithmetic is exact.
        module = module.to(dtype).to(where, kind).eval()
        given = x.to(dtype).to(where, kind).detach().requires_grad_(backward)
        call: Callable[..., Tensor] = chosen(slot, of)(of).prepare(module, given) if whole else module
        with torch.set_grad_enabled(backward):
            out = call(given) if rotation is None else call(given, rotation.to(where, kind))
        results = {"output": out.detach()}
        if backward:
            generator = torch.Generator().manual_seed(derive(0, "inputs", "cotangent"))
            cotangent = torch.randn(out.shape, generator=generator, dtype=torch.float64).to(dtype)
            out.backward(cotangent.to(where, kind))
            gradients = {"the input": given.grad, **{n: p.grad for n, p in module.named_parameters()}}
            results |= {f"gradient of {n}": g for n, g in gradients.items() if g is not None}
        return {k: v.to("cpu", torch.float64) for k, v in results.items()}

    truth = run(expected, torch.device("cpu"), torch.float64)
    plain, actual = run(expected, device, dtype), run(spec, device, dtype)
    if missing := sorted(truth.keys() - actual.keys()):
        raise Incorrect(f'{slot} "{name}" gives no {", no ".join(missing)}')
    if more := sorted(actual.keys() - truth.keys()):
        raise Incorrect(f'{slot} "{name}" gives a {", a ".join(more)}, which the reference does not have')
    results = []
    for quantity, true in truth.items():
        if actual[quantity].shape != true.shape:
            shapes = f"{tuple(actual[quantity].shape)}, not {tuple(true.shape)}"
            raise Incorrect(f'{slot} "{name}", {quantity}: shape {shapes}')
        largest = float(true.abs().max()) if true.numel() else 0.0
        floor = FLOOR_EPS * torch.finfo(dtype).eps * largest
        error, of_plain = (float((r[quantity] - true).abs().max()) for r in (actual, plain))
        results.append(Deviation(quantity, error, FACTOR * of_plain + floor))
    return results


def check(
    spec: ModelSpec, device: torch.device, dtype: torch.dtype, *, backward: bool, slots: Collection[str] | None = None
) -> None:
    """The gate before timing. Raises Incorrect, naming each deviation beyond the rule of any slot's exact component.

    Args:
        spec: whose components are checked.
        device: where.
        dtype: in which.
        backward: gradients too.
        slots: those that are looked at; None for all.
    """
    wrong = []
    for slot, name in spec.components.items():
        if (slots is not None and slot not in slots) or not is_compared(slot, name):
            continue
        results = deviations(slot, spec, device, dtype, backward=backward)
        wrong += [f'{slot} "{name}", {deviation}' for deviation in results if not deviation.within]
    if wrong:
        raise Incorrect("; ".join(wrong))
