"""The tables of a suite's file as specs. Mistakes are collected."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from vitbench import registry
from vitbench.config.model import ModelSpec
from vitbench.config.presets import UnknownPreset, preset
from vitbench.config.recipe import DEVICES, DataSpec, TimeTable, TrainTable
from vitbench.config.suite_errors import explain, quote
from vitbench.wording import nearest

Spec = TypeVar("Spec", bound=BaseModel)

TABLES: Mapping[str, type[BaseModel]] = {
    "model": ModelSpec,
    "data": DataSpec,
    "train": TrainTable,
    "time": TimeTable,
}
SHARED = frozenset(f"data.{name}" for name in ("name", "path", "download", "fallback"))
"""Fields that are the same in all cells of a study."""

OF_ALL_CELLS = ("seeds", "implementations")  # Keys of [train] that no cell has of its own
BUDGETS = ("epochs", "images", "flops")  # Keys of [train], one of which says how long a run is


class SuiteTables:
    """A file's tables, and every complaint about it so far."""

    def __init__(self, file: str, raw: dict[str, Any], messages: list[str]) -> None:
        self.file, self.raw, self.messages = file, raw, messages

    def complain(self, where: str, message: str) -> None:
        """Gather what is wrong at a key of the file."""
        self.messages.append(f"{self.file}: {where}: {message}")

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
        suite = self.raw.get("suite")
        seed = suite.get("seed") if isinstance(suite, dict) else None
        if name == "data" and raw.get("name") == "synthetic" and isinstance(seed, int):
            raw = {"image_seed": seed, **raw}
        if name == "model" and "preset" in raw:
            preset = self.preset(raw["preset"], "model.preset")
            if preset is None:
                return None
            raw = {**dict(preset), **{k: v for k, v in raw.items() if k != "preset"}}
        return self.validated(raw, model, name)

    def validated(self, raw: Any, model: type[Spec], where: str) -> Spec | None:
        """A table as its spec; None where it has mistakes, which are gathered."""
        try:
            return model.model_validate(raw)
        except ValidationError as error:
            for key, message in explain(error, model):
                self.complain(f"{where}.{key}" if key else where, message)
            return None

    def preset(self, name: Any, where: str) -> ModelSpec | None:
        """A published model by its name, one of timm's among them; None where there is none of it."""
        try:
            return preset(str(name))
        except UnknownPreset as error:
            self.complain(where, str(error))
            return None

    def array(self, name: str) -> tuple[Any, ...]:
        """An array of tables of the file; empty where it is absent, or something else, which is a mistake."""
        raw = self.raw.get(name, ())
        if isinstance(raw, tuple):
            return raw
        self.complain(name, f"must be an array of tables: [[{name}]]")
        return ()

    def each(self, where: str, tables: Iterable[Any], model: type[Spec]) -> Iterator[tuple[str, Spec]]:
        """(key, spec) of each of an array of tables; one with a mistake is left out, and the mistake gathered."""
        for number, raw in enumerate(tables, 1):
            here = f"{where}[{number}]"
            if (spec := self.validated(raw, model, here)) is not None:
                yield here, spec

    def replaced(self, base: Mapping[str, Any], changes: Mapping[str, Any], where: str) -> dict[str, Any]:
        """The base tables with some fields replaced. A path is a field of the model, or ``table.field``."""
        tables = dict(base)
        budgets = [path for path in changes if path in {f"train.{name}" for name in BUDGETS}]
        if len(budgets) > 1:
            self.complain(where, f"{' and '.join(budgets)} are budgets of one run: give one of them")
        if budgets:  # the base's own budget gives way
            changes = {"train.images": None, "train.flops": None, **changes}
        by_table: dict[str, dict[str, Any]] = {}
        for path, value in of_components(base.get("model"), changes).items():
            table, _, field = path.rpartition(".")
            table = table or "model"
            if table not in TABLES:
                hint = nearest(table, TABLES)
                self.complain(where, f'"{path}": unknown table{hint}; a bare name is a field of the model')
            elif path in SHARED:
                self.complain(where, f"a study never mixes data; set {path} in [data], for all cells")
            elif table == "train" and field in OF_ALL_CELLS:
                self.complain(where, f"all cells of a study have the same {path}: set it in [train]")
            elif field not in TABLES[table].model_fields or field in DEVICES:
                known = [f if table == "model" else f"{table}.{f}" for f in TABLES[table].model_fields]
                elsewhere = [f"{other}.{field}" for other, each in TABLES.items()
                             if other != table and field in each.model_fields]  # fmt: skip
                self.complain(where, f'"{path}": unknown key{nearest(path, elsewhere or known)}')
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
                    self.complain(where if where.endswith(f".{path}") else f"{where}.{path}", message)
        return tables


def of_components(model: ModelSpec | None, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Changes in which ``positions.base`` and ``positions.name`` are one component with its options."""
    fields: dict[str, Any] = {}
    changes = {path.removeprefix("model."): value for path, value in changes.items()}
    for path, value in changes.items():
        slot, _, option = path.partition(".")
        if slot in registry.slots() and option:
            name = fields.get(slot, changes.get(slot, getattr(model or ModelSpec(), slot)))
            table = name if isinstance(name, dict) else {"name": name}
            fields[slot] = {**table, option: value}
        elif path not in fields:
            fields[path] = value
    return fields
