"""The facts of a component, read from the source text of its file: nothing is imported, and nothing run."""

import ast
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from vitbench.errors import UserError
from vitbench.options import Option
from vitbench.wording import nearest

DEVICES = ("cpu", "cuda", "mps")
DTYPES = ("float32", "float16", "bfloat16")
SIZES = {
    "n": "tokens", "p": "patches", "o": "offsets between patches", "d": "width", "h": "heads", "k": "width of a head",
    "m": "hidden width", "c": "channels", "s": "pixels of a patch", "y": "classes",
    "i": "width of all heads", "v": "width of what is pooled",
    "a": "every second patch, the first included", "e": "the other patches",
    "r": "pixels of a patch's side", "l": "halvings of that side down to one pixel",
}  # fmt: skip
"""Letters of :attr:`Facts.flops`."""


class FactError(UserError, ValueError):
    """A fact that is unknown, no literal, or not of its kind. The message begins with the file and the line."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Facts about a component that are known without running it. Every field is a literal in the source."""

    source: str  # paper or repository that defines the component
    exact: bool = False  # computes the same function, from the same weights, as the slot's reference
    reference: bool = False  # is that reference (and so exact); at most one a slot
    devices: tuple[str, ...] = DEVICES  # device types on which it runs
    trains_on: tuple[str, ...] | None = None  # device types on which it has a backward pass; ``devices`` unless given
    dtypes: tuple[str, ...] = DTYPES  # floating-point types in which it runs
    packages: tuple[str, ...] = ()  # importable packages that it needs beside torch
    offers: tuple[str, ...] = ()  # features that other components or fields may need, e.g. ``"rotary"``
    needs: Mapping[str, str] = field(default_factory=dict)  # slot → feature that the component in that slot must offer
    # ``"dim"``, ``"head_width"`` or another number of ModelSpec → what must divide it: a number, or the name of an
    # option
    multiple_of: Mapping[str, int | str] = field(default_factory=dict)
    # ``"head_width"`` (or another number of ModelSpec) → values that it may have
    among: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    # device type → such a number → the least value that runs there
    at_least: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    # does nothing: a block goes without the sublayer, its norm and its residual, a model without reduction
    empty: bool = False
    whole: bool = False  # cannot be timed in parts: an attention whose projections and core are one function
    # torch.vmap can run several models with it as one program (it has a rule for all that it calls, and that draws no
    # random numbers); the name of an option: while that has its default
    vmap: bool | str = True
    # products of one image's forward pass, where they are not its slot's usual: letters that are multiplied → a factor,
    # ``{"ndd": 8}`` for 8 N D². The letters are those of :data:`SIZES`; an option's value stands as its name in
    # parentheses, ``{"pd(kernel)(kernel)": 2}``
    flops: Mapping[str, int] | None = None
    every_patch: bool = False  # needs all patches of an image, each in its place: none may be hidden
    one_size: bool = False  # has weights for each place of the grid, and none for images of another size
    prefix: int = 0  # tokens that it puts before those of the patches (the class token)
    vectors: int = 1  # of width D, side by side, that a pooling gives
    # of a reduction the option that says how many patches fewer go on from block to block, half at most
    removes: str = ""
    # what may be chosen of it: name → (default, least, most) of a number, words with the default first, or true or
    # false. The class takes them as keyword arguments of the same defaults
    options: Mapping[str, Any] = field(default_factory=dict)
    summary: str = ""  # first line of the class docstring

    def __post_init__(self) -> None:
        """Check what the type system does not."""
        if self.reference and not self.exact:
            raise ValueError("a reference is exact by definition: declare exact=True")
        of_devices = (self.devices, self.trains_on or (), self.at_least)
        letters = re.sub(r"\(\w+\)", "", "".join(self.flops or ()))
        checked = (*((d, DEVICES) for d in of_devices), (self.dtypes, DTYPES), (letters, SIZES))
        for given, known in checked:
            if strange := set(given) - set(known):
                raise ValueError(f"{sorted(strange)} not among {list(known)}")
        _ = self.checked_options  # raises ValueError for what is no option

    @functools.cached_property
    def checked_options(self) -> Mapping[str, Option]:
        """The options, by name."""
        return {name: Option.of(literal) for name, literal in self.options.items()}

    @functools.cached_property
    def runs_anywhere(self) -> bool:
        """Whether it runs on every device in every dtype, whatever the sizes."""
        return (self.devices, self.trains_on, self.dtypes) == (DEVICES, None, DTYPES) and not self.at_least

    @functools.cached_property
    def asks_nothing(self) -> bool:
        """Whether it asks nothing of the other components, and of no size."""
        return not (self.needs or self.multiple_of or self.among)

    def runs_on(self, device: str, training: bool) -> bool:
        """Whether the component runs on a device type, forward only or with its backward pass."""
        return device in (self.devices if not training or self.trains_on is None else self.trains_on)


def facts_in(path: Path, text: str) -> list[tuple[str | None, str | None, int, Facts]]:
    """(slot, name, line, facts) of every class in a file that is decorated with ``@component(...)``.

    Raises:
        FactError: with the file and the line.
        SyntaxError, ValueError, RecursionError, MemoryError: the text is no Python.
    """
    components = []
    for node in ast.parse(text).body:
        if not isinstance(node, ast.ClassDef):
            continue
        for call in node.decorator_list:
            if not isinstance(call, ast.Call) or ast.unparse(call.func).split(".")[-1] != "component":
                continue
            given = _literals(call, path)
            slot, name = given.pop("slot", None), given.pop("name", None)
            given["summary"] = (ast.get_docstring(node) or "").split("\n")[0].rstrip(".")
            if "source" not in given:
                raise FactError(f"{path}:{call.lineno}: source is missing: the paper or repository of the component")
            try:
                components.append((slot, name, call.lineno, Facts(**given)))
            except (TypeError, ValueError) as error:
                raise FactError(f"{path}:{call.lineno}: {error}") from error
    return components


def _literals(call: ast.Call, path: Path) -> dict[str, Any]:
    known = {f.name for f in fields(Facts)} | {"slot", "name"}
    given = {}
    for keyword in call.keywords:
        where = f"{path}:{keyword.lineno}"
        if keyword.arg not in known:
            raise FactError(f'{where}: unknown fact "{keyword.arg}"{nearest(str(keyword.arg), known)}')
        try:
            given[keyword.arg] = ast.literal_eval(keyword.value)
        except ValueError as error:
            raise FactError(f"{where}: {keyword.arg} must be a literal, so that it is known without import") from error
    return given
