"""Suite: a TOML file in ``ablations/`` read into cells; every mistake in it is reported at once."""

from __future__ import annotations

import itertools
import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from vitbench.registry import NAME, nearest
from vitbench.spec.base import Strict, digest
from vitbench.spec.errors import SpecError, explain, quote
from vitbench.spec.model import ModelSpec
from vitbench.spec.presets import PRESETS
from vitbench.spec.recipe import DEVICES, DataSpec, TimeTable, TrainTable

MAX_TRIALS = 10_000
"""Trials above which a suite must be asked for by number: a slip in an axis is a week of machine time."""

MAX_SUITE_BYTES = 1 << 20
TABLES: Mapping[str, type[BaseModel]] = {
    "model": ModelSpec,
    "data": DataSpec,
    "train": TrainTable,
    "time": TimeTable,
}
SHARED = frozenset(f"data.{name}" for name in ("name", "path", "download", "fallback"))
"""Fields that are the same in all cells of a study."""

KEYS = ("suite", *TABLES, "axes", "variants")

Value = str | int | float | bool | tuple[Any, ...]


class Info(Strict):
    """The ``[suite]`` table: what is asked, and how patient the harness is."""

    name: Annotated[str, Field(pattern=f"^{NAME.pattern}$")]
    question: str
    cost: str = ""
    expected: str = ""
    timeout_s: Annotated[float, Field(gt=0.0, le=1e7)] = Field(3600.0, description="per process, seconds")
    max_attempts: Annotated[int, Field(gt=0, le=100)] = Field(2, description="tries of a trial that fails or crashes")


class Published(Strict):
    """A number that someone printed for this cell, and who."""

    test_accuracy: Annotated[float, Field(ge=0.0, le=100.0)] = Field(description="percent")
    source: str


class Variant(Strict):
    """A named cell: the base with some fields replaced."""

    name: Annotated[str, Field(min_length=1, max_length=80, pattern=r"^[^\x00-\x1f\x7f]+$")]
    set: dict[str, Any] = Field(default_factory=dict)
    published: Published | None = None


class Cell(Strict):
    """One model + training configuration, with the label and the axis values that tell it from the others."""

    label: str
    axes: dict[str, Value]
    model: ModelSpec
    data: DataSpec
    train: TrainTable | None
    time: TimeTable | None
    published: Published | None = None


class Suite(Strict):
    """A suite that has been read, checked and expanded."""

    file: str = Field(description="name of the file it came from, without its folder")
    info: Info
    axes: dict[str, tuple[Value, ...]]
    cells: tuple[Cell, ...]
    data: DataSpec
    notices: tuple[str, ...] = ()
    excluded: tuple[tuple[str, str], ...] = Field((), description="(label, rule) of combinations that cannot be built")

    @property
    def identity(self) -> str:
        """Hash of what the suite runs; two studies with different ones are not the same study."""
        return digest({"name": self.info.name, "cells": [c.model_dump(mode="json") for c in self.cells]})


def read_suite(path: Path, overrides: Sequence[str] = (), max_trials: int = MAX_TRIALS) -> Suite:
    """Read, check and expand a suite.

    Args:
        path: the TOML file.
        overrides: ``table.key=value`` strings, the value in TOML (a bare word is a string).
        max_trials: largest number of cells × seeds that is taken for meant.

    Raises:
        SpecError: with everything that is wrong, each message naming file, key, value and what is allowed.
    """
    raw = _parse(path)
    messages = []
    for override in overrides:
        messages += _apply(raw, override)
    return _Reader(path.name, raw, messages).suite(max_trials)


def _parse(path: Path) -> dict[str, Any]:
    if path.suffix.lower() in {".yaml", ".yml"}:
        raise SpecError([f"{path.name}: suites are TOML, not YAML; see ablations/ for examples"])
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SpecError([f"{path}: {error.strerror or error}"]) from error
    if len(data) > MAX_SUITE_BYTES:
        raise SpecError([f"{path.name}: {len(data):,} bytes; a suite has at most {MAX_SUITE_BYTES:,}"])
    try:
        return _with_tuples(tomllib.loads(data.decode("utf-8")))  # type: ignore[no-any-return]
    except UnicodeDecodeError as error:
        raise SpecError([f"{path.name}: not UTF-8 text (byte {error.start})"]) from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SpecError([f"{path.name}: {error}"]) from error


def _with_tuples(value: Any) -> Any:
    """TOML's arrays as tuples: specs are frozen, and strict about it."""
    if isinstance(value, dict):
        return {k: _with_tuples(v) for k, v in value.items()}
    return tuple(_with_tuples(v) for v in value) if isinstance(value, list) else value


def _apply(raw: dict[str, Any], override: str) -> list[str]:
    path, equals, text = override.partition("=")
    keys = path.strip().split(".")
    if not equals or not all(keys):
        return [f'--set "{override}": write table.key=value, e.g. train.epochs=3']
    try:
        value = _with_tuples(tomllib.loads(f"value = {text}"))["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    if len(keys) == 1:
        return [f'--set "{override}": name the table too, e.g. model.{keys[0]}=…']
    table = raw
    for key in keys[:-1]:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            return [f'--set "{override}": {key} is not a table']
    table[keys[-1]] = value
    return []


class _Reader:
    """Turns a parsed file into a Suite, gathering every complaint on the way."""

    def __init__(self, file: str, raw: dict[str, Any], messages: list[str]) -> None:
        self.file, self.raw, self.messages, self.notices = file, raw, messages, list[str]()
        self.joint: dict[str, dict[str, dict[str, Any]]] = {}
        """Axis that moves several fields at once → name of its value → field → value."""

    def suite(self, max_trials: int) -> Suite:
        for key in self.raw.keys() - set(KEYS):
            self.complain(key, f"unknown key{nearest(key, KEYS)}; known: {', '.join(KEYS)}")
        info = self.table("suite", Info, required=True)
        base = {name: self.table(name, model) for name, model in TABLES.items()}
        axes = self.axes(base)
        variants = self.variants(base)
        if not axes and not variants and "axes" not in self.raw and "variants" not in self.raw:
            variants = [(Variant(name="base"), [])]
        if base["train"] is None and base["time"] is None and not self.messages:
            self.complain("train", "is required, or [time]: the suite asks for nothing")
        if self.messages:
            raise SpecError(self.messages)
        assert info is not None and base["data"] is not None
        train = base["train"]
        seeds = len(train.seeds) if isinstance(train, TrainTable) else 0
        count = (math.prod(len(v) for v in axes.values()) if axes else 0) + len(variants)
        if count * max(seeds, 1) > max_trials:
            raise SpecError([f"{self.file}: {count:,} cells × {max(seeds, 1)} seed(s) exceed {max_trials:,} trials; "
                             f"if that is meant, allow it with --max-trials"])  # fmt: skip
        cells, excluded = self.cells(base, axes, variants)
        if self.messages:
            raise SpecError(self.messages)
        if not cells:
            why = f"all {len(excluded)} combinations are excluded: {excluded[0][1]}" if excluded else "an axis is empty"
            raise SpecError([f"{self.file}: 0 trials: {why}"])
        return Suite(
            file=self.file, info=info, axes=axes, cells=tuple(cells), data=base["data"],
            notices=tuple(self.notices), excluded=tuple(excluded),
        )  # fmt: skip

    def complain(self, place: str, message: str) -> None:
        self.messages.append(f"{self.file}: {place}: {message}")

    def table(self, name: str, model: type[BaseModel], required: bool = False) -> Any:
        """One table of the file as its spec; None where it is absent (model and data have neutral defaults)."""
        raw = self.raw.get(name)
        if raw is None and name in {"train", "time"}:
            return None
        if raw is None and required:
            self.complain(name, "the table is required")
            return None
        raw = {} if raw is None else raw
        if not isinstance(raw, dict):
            self.complain(name, f"must be a table, got {quote(raw)}")
            return None
        if name == "model" and "preset" in raw:
            preset = raw["preset"]
            if not isinstance(preset, str) or preset not in PRESETS:
                hint = nearest(str(preset), PRESETS)
                self.complain("model.preset", f"{quote(preset)} is no preset{hint}; known: {', '.join(PRESETS)}")
                return None
            raw = {**dict(PRESETS[preset]), **{k: v for k, v in raw.items() if k != "preset"}}
        try:
            return model.model_validate(raw)
        except ValidationError as error:
            for key, message in explain(error, model):
                self.complain(f"{name}.{key}", message)
            return None

    def axes(self, base: Mapping[str, Any]) -> dict[str, tuple[Value, ...]]:
        raw = self.raw.get("axes", {})
        if not isinstance(raw, dict):
            self.complain("axes", f"must be a table, got {quote(raw)}")
            return {}
        axes = {}
        for path, values in _leaves(raw):
            if not isinstance(values, tuple):
                self.complain(f"axes.{path}", f"must be an array of values, got {quote(values)}")
                continue
            if not values:
                self.complain(f"axes.{path}", "0 trials: the axis is empty")
                continue
            distinct = tuple(v for i, v in enumerate(values) if not any(_same(v, w) for w in values[:i]))
            if len(distinct) < len(values):
                self.notices.append(f"axes.{path}: {len(values) - len(distinct)} repeated value(s) left out")
            before = len(self.messages)
            if any(isinstance(value, dict) for value in values):
                distinct = self.joint_axis(base, path, values)
            else:
                for value in distinct:
                    self.replaced(base, {path: value}, f"axes.{path}")
            if len(self.messages) == before:
                axes[path] = distinct
        return axes

    def joint_axis(self, base: Mapping[str, Any], path: str, values: tuple[Any, ...]) -> tuple[str, ...]:
        """Names of the values of an axis whose values are tables: ``[[axes.shape]]``, each a name and its ``set``."""
        if path in ModelSpec.model_fields or "." in path:
            self.complain(f"axes.{path}", "is a field; an axis of tables needs a name of its own")
        found: dict[str, dict[str, Any]] = {}
        for index, table in enumerate(values):
            try:
                value = Variant.model_validate(table)
            except ValidationError as error:
                for key, message in explain(error, Variant):
                    self.complain(f"axes.{path}[{index + 1}].{key}" if key else f"axes.{path}[{index + 1}]", message)
                continue
            if value.name in found:
                self.complain(f"axes.{path}[{index + 1}].name", f"{quote(value.name)} is the name of another value")
            found[value.name] = dict(_leaves(value.set))
            self.replaced(base, found[value.name], f"axes.{path}[{index + 1}].set")
        self.joint[path] = found
        return tuple(found)

    def variants(self, base: Mapping[str, Any]) -> list[tuple[Variant, list[tuple[str, Any]]]]:
        raw = self.raw.get("variants", ())
        if not isinstance(raw, tuple):
            self.complain("variants", "must be an array of tables: [[variants]]")
            return []
        found: list[tuple[Variant, list[tuple[str, Any]]]] = []
        for index, table in enumerate(raw):
            place = f"variants[{index + 1}]"
            try:
                variant = Variant.model_validate(table)
            except ValidationError as error:
                for key, message in explain(error, Variant):
                    self.complain(f"{place}.{key}", message)
                continue
            if variant.name in {v.name for v, _ in found}:
                self.complain(f"{place}.name", f"{quote(variant.name)} is the name of another variant")
            changes = list(_leaves(variant.set))
            self.replaced(base, dict(changes), f"{place}.set")
            found.append((variant, changes))
        return found

    def replaced(self, base: Mapping[str, Any], changes: Mapping[str, Any], place: str) -> dict[str, Any]:
        """The base tables with some fields replaced. A path is a field of the model, or ``table.field``."""
        tables = dict(base)
        by_table: dict[str, dict[str, Any]] = {}
        for path, value in changes.items():
            table, _, field = path.rpartition(".")
            table = table or "model"
            if table not in TABLES:
                hint = nearest(table, TABLES)
                self.complain(place, f'"{path}": unknown table{hint}; a bare name is a field of the model')
            elif path in SHARED:
                self.complain(place, f"a study never mixes data; set {path} in [data], for all cells")
            elif field not in TABLES[table].model_fields or field in ("seeds", *DEVICES):
                known = [f if table == "model" else f"{table}.{f}" for f in TABLES[table].model_fields]
                self.complain(place, f'"{path}": unknown key{nearest(path, known)}')
            else:
                by_table.setdefault(table, {})[field] = value
        for table, fields in by_table.items():
            model = TABLES[table]
            # A base that is itself wrong has been reported; its variants are still checked, against the defaults.
            start = base[table] if base[table] is not None else model()
            try:
                tables[table] = model.model_validate({**dict(start), **fields})
            except ValidationError as error:
                for key, message in explain(error, model):
                    if key not in fields:
                        continue  # a field of the base, reported where it stands
                    path = key if table == "model" else f"{table}.{key}"
                    self.complain(place if place.endswith(f".{path}") else f"{place}.{path}", message)
        return tables

    def cells(
        self, base: Mapping[str, Any], axes: Mapping[str, tuple[Value, ...]],
        variants: Iterable[tuple[Variant, list[tuple[str, Any]]]],
    ) -> tuple[list[Cell], list[tuple[str, str]]]:  # fmt: skip
        """The factorial over the axes, then the variants; what its components rule out is listed, not built."""
        candidates: list[tuple[str, dict[str, Value], dict[str, Any], Published | None, bool]] = []
        if axes:
            for values in itertools.product(*axes.values()):
                chosen = dict(zip(axes, values, strict=True))
                label, changes = " · ".join(_show(p, v) for p, v in chosen.items()), dict[str, Any]()
                for axis, value in chosen.items():
                    changes |= self.joint[axis][str(value)] if axis in self.joint else {axis: value}
                candidates.append((label, chosen, changes, None, False))
        candidates += [(v.name, dict(changes), dict(changes), v.published, True) for v, changes in variants]
        cells, excluded = [], []
        for label, place, changes, published, named in candidates:
            tables = self.replaced(base, changes, f"cell {label}")
            model = tables["model"]
            for field, problem in model.problems():
                self.complain(f"model.{field}" if not changes else f"cell {label}: {field}", problem)
            if conflicts := model.conflicts():
                if named:
                    self.complain(f"variant {quote(label)}", "; ".join(conflicts))
                excluded.append((label, "; ".join(conflicts)))
                continue
            cells.append(Cell(label=label, axes=place, model=model, data=tables["data"],
                              train=tables["train"], time=tables["time"], published=published))  # fmt: skip
        self.messages = list(dict.fromkeys(self.messages))
        return cells, excluded


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """(dotted path, value) of every leaf of nested tables."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _same(a: object, b: object) -> bool:
    return type(a) is type(b) and a == b


def _show(path: str, value: Value) -> str:
    """A component by its name; any other field with its own."""
    return value if isinstance(value, str) else f"{path.rpartition('.')[2]}={str(value).lower()}"
