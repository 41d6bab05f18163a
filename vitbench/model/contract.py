"""Contract: what every component keeps. The tests use it for the package, ``vitbench check`` for plug-ins."""

import inspect
from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor, nn

from vitbench import registry
from vitbench.config.model import ModelSpec
from vitbench.model.build import build_model
from vitbench.model.encoder import SUBLAYERS
from vitbench.model.exactness import deviations, is_compared
from vitbench.model.resized import at_size

SMALL = ModelSpec(image_size=16, patch_size=4, num_classes=5, dim=32, depth=2, heads=2)
"""The model that components are tried in."""

STEPS, TOLERANCE = (1e-6, 1e-3), 1e-2
"""Step sizes of finite differences, and how far the gradient may be from them, relative to its norm. A short step
seldom crosses a kink; the long one is for components that compute in float32 whatever their input is."""

Check = Callable[[str, str, torch.device], str | None]
"""Slot, name and device → what is wrong: empty where nothing is, None where the check is not of such a component."""


def fitted(model: ModelSpec, slot: str, name: str) -> ModelSpec:
    """A model with one component in its slot, of the sizes and beside the components that it needs.

    Raises:
        ValueError: where it conflicts with the model all the same.
    """
    facts = registry.facts(slot, name)
    sizes = {quantity: values[0] for quantity, values in facts.among.items() if getattr(model, quantity) not in values}
    beside = {
        other: next(n for n in reversed(registry.names(other)) if feature in registry.facts(other, n).offers)
        for other, feature in facts.needs.items()
        if feature not in registry.facts(other, getattr(model, other)).offers
    }
    spec = model.model_copy(update={slot: name, **sizes, **beside})
    if conflicts := spec.conflicts():
        raise ValueError("; ".join(conflicts))
    return spec


def declares(slot: str, name: str, device: torch.device) -> str:
    """Its source is declared, and its docstring says what it is."""
    facts = registry.facts(slot, name)
    missing = [what for what, given in (("source", facts.source), ("docstring", facts.summary)) if not given]
    return f"has no {' and no '.join(missing)}" if missing else ""


def trains(slot: str, name: str, device: torch.device) -> str:
    """In a model it gives logits of the right shape, and every parameter gets a finite gradient."""
    model = build_model(fitted(SMALL, slot, name), seed=0).to(device)
    logits = model(torch.randn(3, 3, 16, 16, device=device))
    if logits.shape != (3, 5):
        return f"logits of 3 images and 5 classes have the shape {tuple(logits.shape)}"
    logits.square().sum().backward()
    for parameter_name, parameter in model.named_parameters():
        if parameter.grad is None:
            return f"{parameter_name} has no part in the output"
        if not torch.isfinite(parameter.grad).all():
            return f"the gradient of {parameter_name} is not finite"
    return ""


def has_its_derivatives(slot: str, name: str, device: torch.device) -> str | None:
    """Gradients of the images and of its parameters are those of finite differences, in float64 on the CPU."""
    if not registry.facts(slot, name).runs_on("cpu", training=True):
        return None
    spec = fitted(SMALL, slot, name).model_copy(update={"init_std": "fan_in"})
    model, stream = build_model(spec, seed=0).double().eval(), torch.Generator().manual_seed(0)

    def normal(shape: tuple[int, ...]) -> Tensor:
        return torch.randn(shape, dtype=torch.float64, generator=stream)

    images, weights = normal((3, 3, 16, 16)).requires_grad_(), normal((3, 5))
    with torch.no_grad():
        for parameter in model.parameters():  # what begins at zero hides what comes before it, or lies on a kink
            parameter.add_(normal(parameter.shape), alpha=0.02)
    its_class = registry.load(slot, name)
    module = next((each for each in model.modules() if isinstance(each, its_class)), nn.Identity())
    tensors = {"the images": images, **dict(module.named_parameters())}

    def output() -> Tensor:
        logits: Tensor = model(images)
        return (logits * weights).sum()

    output().backward()
    wrong = []
    for what, tensor in tensors.items():
        direction, gradient = normal(tensor.shape), tensor.grad
        if gradient is None:
            return f"{what} has no gradient"
        # A gradient may be zero: softmax ignores a bias that all scores share
        slope, allowed = float((gradient * direction).sum()), TOLERANCE * (float(gradient.norm()) + 1e-3)
        if not any(abs(_slope(output, tensor, direction, step) - slope) <= allowed for step in STEPS):
            wrong.append(what)
    return f"the gradient of {', '.join(wrong)} is not that of finite differences" if wrong else ""


@torch.no_grad()
def _slope(output: Callable[[], Tensor], tensor: Tensor, direction: Tensor, step: float) -> float:
    """By how much an output changes along a direction of a tensor that it depends on: central difference."""
    tensor += step * direction
    ahead = float(output())
    tensor -= 2 * step * direction
    behind = float(output())
    tensor += step * direction
    return (ahead - behind) / (2 * step)


def judges_each_image_alone(slot: str, name: str, device: torch.device) -> str:
    """In evaluation answers are finite, the same twice, and of one image each; what it is given is left as it is.

    A sublayer gives as many tokens as it is given: a residual would broadcast fewer to the right number.
    """
    spec = fitted(SMALL, slot, name).model_copy(update={"init_std": "fan_in"})  # so that each component has a say
    model = build_model(spec, seed=0).to(device).eval()
    its_class, wrong, before = registry.load(slot, name), list[str](), list[Tensor]()

    def begins(_: nn.Module, given: tuple[object, ...]) -> None:
        before[:] = [each.clone() for each in given if isinstance(each, Tensor)]

    def ends(_: nn.Module, given: tuple[object, ...], out: object) -> None:
        after = [each for each in given if isinstance(each, Tensor)]
        if not all(torch.equal(*pair) for pair in zip(before, after, strict=True)):
            wrong.append("writes into the tensor that it is called with")
        if slot in SUBLAYERS and isinstance(out, Tensor) and out.shape != after[0].shape:
            wrong.append(f"makes {tuple(out.shape)} of {tuple(after[0].shape)}, not the same shape")

    for module in model.modules():
        if isinstance(module, its_class):
            module.register_forward_pre_hook(begins)
            module.register_forward_hook(ends)
    images = torch.randn(3, 3, 16, 16, device=device)
    with torch.no_grad():
        logits, again, alone = model(images), model(images), model(images[:1])
    if not torch.isfinite(logits).all():
        return "logits are not finite"
    if wrong:
        return wrong[0]
    tolerance = 1e-5 * float(logits.abs().max())
    if (logits - again).abs().max() > tolerance:
        return "the same images give other logits the second time, in evaluation"
    return (
        "" if (logits[:1] - alone).abs().max() <= tolerance else "an image's logits depend on the others of its batch"
    )


def takes_rectangles(slot: str, name: str, device: torch.device) -> str:
    """Images and patches need not be square."""
    spec = fitted(SMALL, slot, name).model_copy(update={"image_size": (16, 64)})
    if "patch_size" not in registry.facts(slot, name).among:
        spec = spec.model_copy(update={"patch_size": (4, 8)})
    with torch.no_grad():
        logits = build_model(spec, seed=0).to(device).eval()(torch.randn(2, 3, 16, 64, device=device))
    return "" if logits.shape == (2, 5) else f"logits of 2 images of 16×64 have the shape {tuple(logits.shape)}"


def is_exact(slot: str, name: str, device: torch.device) -> str | None:
    """An exact component keeps the error rule in float32 (:mod:`vitbench.model.exactness`)."""
    if not is_compared(slot, name):
        return None
    spec, backward = fitted(SMALL, slot, name), registry.facts(slot, name).runs_on(device.type, training=True)
    results = deviations(slot, spec, device, torch.float32, backward=backward)
    return "; ".join(str(deviation) for deviation in results if not deviation.within)


def starts_like_the_reference(slot: str, name: str, device: torch.device) -> str | None:
    """An exact component has the parameters of its slot's reference, and their initial values to the last bit."""
    if not is_compared(slot, name):
        return None
    spec = fitted(SMALL, slot, name)
    state, expected = (build_model(each, seed=3).state_dict() for each in (spec, spec.reference()))
    if apart := sorted(state.keys() ^ expected.keys()):
        return f"parameters that only one of it and its reference has: {', '.join(apart)}"
    unequal = [key for key in state if not torch.equal(state[key], expected[key])]
    return f"initial values differ: {', '.join(unequal)}" if unequal else ""


def takes_options(slot: str, name: str, device: torch.device) -> str | None:
    """Its class takes the options that it declares, with their defaults, and trains with other values of each."""
    if not (declared := registry.facts(slot, name).checked_options):
        return None
    signature = inspect.signature(registry.load(slot, name))
    taken = {each.name: each.default for each in signature.parameters.values() if each.kind is each.KEYWORD_ONLY}
    if taken != (defaults := {option: each.default for option, each in declared.items()}):
        return f"declares the options {defaults}, and takes {taken}"
    problems = []
    for option, value in [(option, value) for option, each in declared.items() for value in each.others]:
        called = registry.with_options(slot, name, {option: value})
        if not SMALL.model_copy(update={slot: called}).conflicts() and (problem := trains(slot, called, device)):
            problems.append(f"{called}: {problem}")
    return "; ".join(problems)


def takes_other_sizes(slot: str, name: str, device: torch.device) -> str:
    """A trained model judges images of another size, or the component says that it has weights for one alone."""
    spec, one_size = fitted(SMALL, slot, name), registry.facts(slot, name).one_size
    try:
        logits = at_size(build_model(spec, seed=0).to(device), 32)(torch.randn(2, 3, 32, 32, device=device))
    except ValueError as error:
        return "" if one_size else str(error)
    if one_size:
        return "says that it has weights for one size of images alone, and takes another"
    return "" if logits.shape == (2, 5) else f"logits of 2 images of 32×32 have the shape {tuple(logits.shape)}"


CHECKS: Mapping[str, Check] = {
    "declares source and summary": declares,
    "trains in a model": trains,
    "has the gradients of finite differences": has_its_derivatives,
    "judges each image alone": judges_each_image_alone,
    "takes images and patches that are not square": takes_rectangles,
    "is exact": is_exact,
    "starts like the reference": starts_like_the_reference,
    "takes its options": takes_options,
    "judges images of another size": takes_other_sizes,
}
"""Description → check."""


def checked(slot: str, name: str, device: torch.device) -> Iterator[tuple[str, str]]:
    """Each check that applies to a component, and what it found wrong: an error that it raised, too."""
    for words, check in CHECKS.items():
        try:
            problem = check(slot, name, device)
        except Exception as error:  # code of the user's: whatever it raises is what is wrong with it
            places = [registry.place_in(plugin.path, error) for plugin in registry.plugins({slot: name})]
            problem = ": ".join(filter(None, [*places, type(error).__name__, str(error)]))
        if problem is not None:
            yield words, problem
