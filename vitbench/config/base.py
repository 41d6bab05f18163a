"""The base of every spec: strict, frozen, without unknown keys and infinities; and its canonical form."""

import contextlib
import gc
import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Annotated, Any, ParamSpec, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from vitbench.wording import encoded, printable

Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")

Positive = Annotated[int, Field(gt=0, le=1_000_000)]
Probability = Annotated[float, Field(ge=0.0, lt=1.0)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Seed = Annotated[int, Field(ge=0, lt=2**64)]


def _square(size: int | tuple[int, int]) -> int | tuple[int, int]:
    """One spelling for one size, so that 32 and [32, 32] are the same trial."""
    return size[0] if isinstance(size, tuple) and size[0] == size[1] else size


def _pair(given: object) -> object:
    return tuple(given) if isinstance(given, list) else given  # JSON's, where a validator has seen the whole table


Size = Annotated[Positive | tuple[Positive, Positive], BeforeValidator(_pair), AfterValidator(_square)]
"""Height and width in pixels: one number for a square, or [height, width]."""


def _printable(text: object) -> object:
    return printable(text) if isinstance(text, str) else text  # what is no text, the type refuses


Text = Annotated[str, BeforeValidator(_printable)]
"""Text that may come from the operating system, made printable where it enters what is stored."""


class Strict(BaseModel):
    """A frozen value: no coercion between types, no unknown keys, no NaN or infinity."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=(),
        defer_build=True,  # a command makes few of the hundred kinds, and building all is a fifth of its start
    )  # fmt: skip

    def canonical(self) -> dict[str, Any]:
        """JSON form with fields at their default left out, so that a new field leaves old ids alone."""
        return self.model_dump(mode="json", exclude_defaults=True)


STORED = {"stored": True}
"""Validation context of what is read back from disk or from another process: it was checked when it was made, and a
component that it names may be a plug-in's that is not loaded here."""


def pair(size: int | tuple[int, int]) -> tuple[int, int]:
    """(height, width) of a :data:`Size`."""
    return size if isinstance(size, tuple) else (size, size)


def dumps(value: object) -> str:
    """The one JSON text of a value: sorted keys, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


RARELY = 100_000  # Objects made, in excess of those that were let go, before a search for cycles among them
ID_LENGTH = 20  # Hex digits of a trial's id


def digest(value: object, length: int = ID_LENGTH) -> str:
    """First hex digits of the SHA-256 of a value's canonical JSON."""
    return hashlib.sha256(encoded(dumps(value))).hexdigest()[:length]


def by_identity(function: Callable[Asked, Answer]) -> Callable[Asked, Answer]:
    """A function of frozen specs that remembers what it was asked, by the objects themselves.

    The cells of a suite share their specs, so that a hundred thousand of them ask a few hundred questions; a hash of
    a spec's fields would cost as much as most answers. The memory is the returned function's own, and ends with it.
    """
    known: dict[tuple[int, ...], tuple[Answer, tuple[object, ...]]] = {}

    def remembered(*specs: Asked.args, **options: Asked.kwargs) -> Answer:
        assert not options
        key = tuple(map(id, specs))
        if (answer := known.get(key)) is None:
            answer = known[key] = function(*specs, **options), specs  # kept alive: an id is of a living object
        return answer[0]

    return remembered


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """No search for reference cycles while many specs are made: they have none, and are all kept."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextlib.contextmanager
def uncollected_so_far() -> Iterator[None]:
    """Searches for reference cycles are rare, and leave out what is there now: of what will be made, few are in one."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(RARELY, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
