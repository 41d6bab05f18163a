"""Reading a suite: a TOML file into cells; every mistake in it is reported at once."""

import itertools
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from vitbench import registry
from vitbench.config.base import by_identity, uncollected
from vitbench.config.dead_fields import dead_letters
from vitbench.config.forms import forms, set_values
from vitbench.config.hypotheses import read_facts, read_goals
from vitbench.config.model import ModelSpec
from vitbench.config.nuisance import read_tune
from vitbench.config.recipe import Device, TrainTable
from vitbench.config.suite import (
    BETWEEN,
    LABEL,
    RESERVED,
    Cell,
    ExpandedSuite,
    Info,
    Resources,
    Setting,
    Tune,
    Value,
    Variant,
    in_label,
    setting_in_words,
)
from vitbench.config.suite_errors import SpecError, TooManyTrials, quote
from vitbench.config.suite_tables import BUDGETS, TABLES, SuiteTables, of_components
from vitbench.config.toml import leaves
from vitbench.config.trial import compiled_twice, ensemble_problem, mismatches
from vitbench.environment import has_bfloat16
from vitbench.wording import nearest, plural, printable

MAX_TRIALS = 10_000
"""Trials above which a suite must be asked for by number: a slip in an axis is a week of machine time."""

MOST_TRIALS = 1_000_000  # Trials that ``--yes`` allows: more of them do not fit into memory, whatever was meant
KEYS = ("suite", *TABLES, "axes", "variants", "tune", "facts", "goals", "resources", "device", "small")


@uncollected()
def read_suite(
    path: Path, overrides: Sequence[str] = (), max_trials: int = MAX_TRIALS, *, small: bool = False,
    device: Device | None = None, text: str | None = None, only: Collection[str] = (),
) -> ExpandedSuite:  # fmt: skip
    """Read, check and expand a suite.

    Args:
        path: the TOML file.
        overrides: ``table.key=value`` strings, the value in TOML (a bare word is a string).
        max_trials: largest number of cells × seeds that is taken for meant.
        small: whether the suite's ``[small]`` table replaces what stands in its other tables.
        device: type of device whose ``[device.<type>]`` table does, before that.
        text: of the file, where that is known already: the file is then not looked at.
        only: labels of the cells that are meant; none for all of them.

    Raises:
        SpecError: with everything that is wrong, each message naming file, key, value and what is allowed.
    """
    raw, others = forms(path, text, small=small, device=device)
    for other in others:
        _Reader(path.name, other, []).suite(max(max_trials, MAX_TRIALS))  # a mistake in it is one in the suite
    messages = set_values(raw, overrides)
    options = [*(["--small"] if small else []), *(part for override in overrides for part in ("--set", override))]
    reader = _Reader(path.name, raw, messages)
    suite = replace(reader.suite(max_trials), options=tuple(options)).only(only)
    if idle := [
        f'--set "{printable(override)}": has no effect, since it is set in every cell by {by}'
        for override in overrides
        if (by := reader.in_every_cell(suite, override.partition("=")[0].strip()))
    ]:
        raise SpecError(idle)
    notices = (*suite.notices, *(_slow_precision(suite.cells) if device == "cpu" else ()))
    return replace(suite, notices=notices)


class Move(NamedTuple):
    """One value of an axis: what it is called in a label, and what it changes, table by table."""

    value: Value
    label: str
    fields: Mapping[str, Mapping[str, Any]]


class Candidate(NamedTuple):
    """A cell to be, if its parts go together."""

    label: str
    axes: dict[str, Value]
    tables: Mapping[str, Any]
    variant: Variant | None = None


class _Reader(SuiteTables):
    """Turns a parsed file into an ExpandedSuite, gathering every complaint on the way."""

    def __init__(self, file: str, raw: dict[str, Any], messages: list[str]) -> None:
        super().__init__(file, raw, messages)
        self.notices: list[str] = []
        self.joint: dict[str, dict[str, dict[str, Any]]] = {}
        """Axis that moves several fields at once → name of its value → field → value."""

    def suite(self, max_trials: int) -> ExpandedSuite:
        for key in self.raw.keys() - set(KEYS):
            self.complain(key, f"unknown key{nearest(key, KEYS)}; known: {', '.join(KEYS)}")
        info = self.table("suite", Info, required=True)
        base = {name: self.table(name, model) for name, model in TABLES.items()}
        resources = self.table("resources", Resources)
        self.repeated_seeds()
        axes = self.axes(base)
        variants = self.variants(base)
        moved = {path for named in self.joint.values() for changes in named.values() for path in changes}
        replaced = {path for _, changes in variants for path, _ in changes}
        tune = read_tune(self, base, {*axes, *moved, *replaced})
        self.budget(base)
        if not axes and not variants and "axes" not in self.raw and "variants" not in self.raw:
            variants = [(Variant(name="base"), [])]
        if base["train"] is None and base["time"] is None and not self.messages:
            self.complain("train", "is required, or [time]: the suite asks for nothing")
        if self.messages:
            raise SpecError(self.messages)
        assert info is not None and base["data"] is not None and resources is not None
        train = base["train"]
        seeds = len(train.seeds_of(info.seed)) if isinstance(train, TrainTable) else 0
        if tune is not None:
            seeds += tune.seeds * math.prod(len(values) for values in tune.axes.values())
        count = (math.prod(len(v) for v in axes.values()) if axes else 0) + len(variants)
        if count * max(seeds, 1) > max_trials:
            raise TooManyTrials(self.file, count, max(seeds, 1), max_trials, {**base, "suite": info})
        cells, excluded = self.cells(base, axes, variants, tune, info.seed)
        self.notices += [*_one_by_one(cells), *(_further_apart(cells, variants) if axes else [])]
        asked = ((cell.train, *(setting.train for setting in cell.settings)) for cell in cells)
        self.notices += dead_letters(recipe for each in asked for recipe in each if recipe is not None)
        labels = [cell.label for cell in cells]
        facts, goals = read_facts(self, axes, labels, info.margin), read_goals(self, labels)
        if self.messages:
            raise SpecError(self.messages)
        if not cells:
            why = f"all {len(excluded)} combinations are excluded: {excluded[0][1]}" if excluded else "an axis is empty"
            raise SpecError([f"{self.file}: 0 trials: {why}"])
        return ExpandedSuite(
            file=self.file, info=info, axes=axes, cells=tuple(cells), data=base["data"], tune=tune, facts=facts,
            goals=goals, resources=resources, notices=tuple(self.notices), excluded=tuple(excluded),
        )  # fmt: skip

    def repeated_seeds(self) -> None:
        """A seed that is given twice is one: the notice that says so."""
        train = self.raw.get("train")
        seeds = train.get("seeds") if isinstance(train, dict) else None
        if isinstance(seeds, tuple) and (repeated := len(seeds) - len(dict.fromkeys(map(repr, seeds)))):
            self.notices.append(f"train.seeds: {plural(repeated, 'repeated value')} left out")

    def budget(self, base: Mapping[str, Any]) -> None:
        """A run has one budget, in one currency."""
        raw = self.raw.get("train")
        given = [key for key in BUDGETS if key in raw] if isinstance(raw, dict) else []
        if len(given) > 1:
            self.complain("train", f"{' and '.join(given)} are budgets of one run: give one of them")
        train = base["train"]
        if isinstance(train, TrainTable) and train.match == "flops" and train.flops is not None:
            self.complain("train.match", '"flops" and train.flops say the same twice: give one of them')

    def axes(self, base: Mapping[str, Any]) -> dict[str, tuple[Value, ...]]:
        raw = self.raw.get("axes", {})
        if not isinstance(raw, dict):
            self.complain("axes", f"must be a table, got {quote(raw)}")
            return {}
        axes = {}
        for path, given in leaves(raw):
            values = given
            if not isinstance(values, tuple):
                self.complain(f"axes.{path}", f"must be an array of values, got {quote(values)}")
                continue
            if not values:
                self.complain(f"axes.{path}", "0 trials: the axis is empty")
                continue
            slot, _, option = path.partition(".")
            if path in registry.slots():  # a component with options is a table
                values = tuple(self.component(path, value) for value in values)
            # By type and text: 1 is not true, and an axis of 10^5 values is looked through once.
            distinct = tuple({(type(v), repr(v)): v for v in values}.values())
            if len(distinct) < len(values):
                self.notices.append(f"axes.{path}: {plural(len(values) - len(distinct), 'repeated value')} left out")
            before = len(self.messages)
            if any(isinstance(value, dict) for value in values):
                distinct = self.joint_axis(base, path, values)
            elif slot in registry.slots() and option:
                problems = (registry.option_problem(slot, option, value) for value in distinct)
                for problem in filter(None, problems):
                    self.complain(f"axes.{path}", problem)
            else:
                for value in distinct:
                    self.replaced(base, {path: value}, f"axes.{path}")
            if len(self.messages) == before:
                axes[path] = distinct
        return axes

    def component(self, slot: str, value: Any) -> Any:
        """A component as text, without defaults: ``{name = "rope_2d", base = 10}`` is ``rope_2d(base=10)``."""
        if isinstance(value, str):
            try:
                return registry.with_options(slot, value, {})
            except registry.UnknownComponent:
                return value  # which is said of it where it is put into a model
        if not isinstance(value, dict) or not isinstance(value.get("name"), str) or "set" in value:
            return value
        try:
            return registry.with_options(slot, value["name"], {o: v for o, v in value.items() if o != "name"})
        except registry.UnknownComponent as error:
            self.complain(f"axes.{slot}", str(error))
            return value["name"]

    def joint_axis(self, base: Mapping[str, Any], path: str, values: tuple[Any, ...]) -> tuple[str, ...]:
        """Names of the values of an axis whose values are tables: ``[[axes.shape]]``, each a name and its ``set``."""
        if path in ModelSpec.model_fields or "." in path:
            self.complain(f"axes.{path}", "is a field; an axis of tables needs a name of its own")
        if not re.fullmatch(LABEL, path):
            self.complain(f"axes.{path}", "must be a name without control characters")
        if path in RESERVED:
            self.complain(f"axes.{path}", "is the name of a column of every report; call the axis something else")
        changes: dict[str, dict[str, Any]] = {}
        for where, value in self.each(f"axes.{path}", values, Variant):
            if value.name in changes:
                self.complain(f"{where}.name", f"{quote(value.name)} is the name of another value")
            changes[value.name] = self.changes(base, value.set, where)
            self.replaced(base, changes[value.name], f"{where}.set")
        self.joint[path] = changes
        return tuple(changes)

    def variants(self, base: Mapping[str, Any]) -> list[tuple[Variant, list[tuple[str, Any]]]]:
        variants: list[tuple[Variant, list[tuple[str, Any]]]] = []
        for where, variant in self.each("variants", self.array("variants"), Variant):
            if variant.name in {v.name for v, _ in variants}:
                self.complain(f"{where}.name", f"{quote(variant.name)} is the name of another variant")
            changes = self.changes(base, variant.set, where)
            self.replaced(base, changes, f"{where}.set")
            variants.append((variant, list(changes.items())))
        return variants

    def changes(self, base: Mapping[str, Any], table: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Path → value of a ``set`` table; a preset in it is what its model has otherwise than the base's."""
        changes = dict(leaves(table))
        if "preset" not in changes:
            return changes
        preset = self.preset(changes.pop("preset"), f"{where}.set.preset")
        other = {name: value for name, value in preset or () if base["model"] and value != getattr(base["model"], name)}
        return {**other, **changes}

    def cells(
        self, base: Mapping[str, Any], axes: Mapping[str, tuple[Value, ...]],
        variants: Sequence[tuple[Variant, list[tuple[str, Any]]]], tune: Tune | None, master: int,
    ) -> tuple[list[Cell], list[tuple[str, str]]]:  # fmt: skip
        """The factorial over the axes, then the variants; what its components rule out is listed, not built."""
        candidates: list[Iterable[Candidate]] = [self.grid(base, axes)] if axes else []
        # A preset may leave a field of the base out, which is no value that a file could give.
        candidates.append(
            Candidate(v.name, {path: value for path, value in changes if value is not None},
                      self.replaced(base, dict(changes), f"cell {v.name}"), v)
            for v, changes in variants
        )  # fmt: skip
        checked = by_identity(lambda model: (model.problems(), model.conflicts()))
        fitting = by_identity(lambda model, train: mismatches(model, train) if train is not None else [])
        settings, seeds_of = by_identity(partial(self.settings, tune=tune)), by_identity(TrainTable.seeds_of)
        cells, excluded = [], []
        named = {variant.name for variant, _ in variants}
        for label, values, tables, variant in itertools.chain.from_iterable(candidates):
            model, train = tables["model"], tables["train"]
            if variant is None and label in named:
                self.complain(
                    "variants", f"{quote(label)} is the label of a combination of the axes; choose another name"
                )
            problems, broken = checked(model)
            for field, problem in problems:
                self.complain(f"cell {label}: {field}" if values else f"model.{field}", problem)
            if broken:
                if variant is not None:
                    self.complain(f"variant {quote(label)}", "; ".join(broken))
                excluded.append((label, "; ".join(broken)))
                continue
            if tables["time"] is not None and (twice := compiled_twice(model, tables["time"])):
                self.complain(f"cell {label}: time.compile" if values else "time.compile", twice)
            chosen_from = settings(train) if train is not None else ()
            of_all, cell = fitting(model, train), f"cell {label}: " if values else ""
            for field, problem in of_all:
                self.complain(f"{cell}train.{field}", problem)
            for setting in chosen_from:
                for field, problem in fitting(model, setting.train):
                    if (field, problem) not in of_all:
                        self.complain(f"{cell}tune: {setting_in_words(setting.values)}: train.{field}", problem)
            if chosen_from and not tables["data"].validation_images:
                self.complain("tune", "needs data.validation_images: settings are chosen on validation")
            seeds = seeds_of(train, master) if train is not None else ()
            cells.append(Cell(label=label, axes=values, model=model, data=tables["data"], train=train,
                              time=tables["time"], published=variant.published if variant else None,
                              seeds=seeds, settings=chosen_from))  # fmt: skip
        self.messages = list(dict.fromkeys(self.messages))
        return cells, excluded

    def grid(self, base: Mapping[str, Any], axes: Mapping[str, tuple[Value, ...]]) -> Iterator[Candidate]:
        """Every combination of the axes' values. Combinations that share a table's values share the table itself."""
        moves = {axis: [self.move(base, axis, value, axes) for value in values] for axis, values in axes.items()}
        movers = {
            table: [i for i, of_axis in enumerate(moves.values()) if any(table in move.fields for move in of_axis)]
            for table in TABLES
        }
        made: dict[str, dict[tuple[int, ...], Any]] = {table: {} for table in TABLES}
        for chosen in itertools.product(*(list(enumerate(of_axis)) for of_axis in moves.values())):
            label = BETWEEN.join([move.label for _, move in chosen])
            tables = {}
            for table, of_table in movers.items():
                key = tuple([chosen[i][0] for i in of_table])
                if key not in made[table]:
                    made[table][key] = self.combined(base, table, [chosen[i][1] for i in of_table], f"cell {label}")
                tables[table] = made[table][key]
            yield Candidate(label, {axis: move.value for axis, (_, move) in zip(moves, chosen, strict=True)}, tables)

    def move(self, base: Mapping[str, Any], axis: str, value: Value, axes: Collection[str]) -> Move:
        """The changes of one value of an axis; it has been checked with the base by itself."""
        if axis.partition(".")[0] in registry.slots() and "." in axis:
            return Move(value, in_label(axis, value, axes), {"model": {axis: value}})
        changes = self.joint[axis][str(value)] if axis in self.joint else {axis: value}
        alone = self.replaced(base, changes, f"axes.{axis}")
        fields: dict[str, dict[str, Any]] = {}
        for path in of_components(base.get("model"), changes):
            table, _, field = path.rpartition(".")
            fields.setdefault(table or "model", {})[field] = getattr(alone[table or "model"], field)
        return Move(value, in_label(axis, value, axes), fields)

    def combined(self, base: Mapping[str, Any], table: str, moves: Sequence[Move], where: str) -> Any:
        """One table of a combination.

        No rule of a table alone is about two of its fields (those about two fields of a model are asked of each
        cell), so that values which passed one by one are not checked again in each of a hundred thousand combinations.
        """
        fields = {field: value for move in moves for field, value in move.fields.get(table, {}).items()}
        if not fields:
            return base[table]
        if fields.keys() & set(BUDGETS):  # one budget makes the others give way, and two are a mistake
            changes = {f"{table}.{field}": value for field, value in fields.items()}
            return self.replaced(base, changes, where)[table]
        start = base[table] if base[table] is not None else TABLES[table]()
        made = start.model_copy(update={field: value for field, value in fields.items() if "." not in field})
        for path, value in fields.items():
            slot, _, option = path.partition(".")
            if option:
                assert isinstance(made, ModelSpec)
                made = made.with_options(slot, {option: value})
        return made

    def in_every_cell(self, suite: ExpandedSuite, key: str) -> str | None:
        """The table that sets a field in every cell, so that no cell has the base's value; None where some cell has."""
        field = key.removeprefix("model.")
        if suite.tune is not None and field in suite.tune.axes:
            return "tune"
        for cell in suite.cells:
            by = [
                axis for axis, value in cell.axes.items()
                if axis == field or field in self.joint.get(axis, {}).get(str(value), ())
            ]  # fmt: skip
            if not by:
                return None
        return f"axes.{by[0]}" if by[0] in suite.axes else "variants"

    def settings(self, train: TrainTable, tune: Tune | None) -> tuple[Setting, ...]:
        """Every combination of the nuisance axes' values, all of them fields of the recipe, in the suite's order."""
        if tune is None:
            return ()
        combined = [dict(zip(tune.axes, values, strict=True)) for values in itertools.product(*tune.axes.values())]
        return tuple(
            Setting(values=values, train=self.replaced({"train": train}, values, "tune")["train"])
            for values in combined
        )


def _slow_precision(cells: Iterable[Cell]) -> list[str]:
    """A notice where cells train in bfloat16 on a CPU without instructions for it."""
    slow = sum(cell.train is not None and cell.train.precision == "bfloat16" for cell in cells)
    if not slow or has_bfloat16():
        return []
    return [f"train.precision: {plural(slow, 'cell')} in bfloat16, for which this CPU has no instructions: a step took "
            f"eight times as long as in float32 on such a CPU; --set train.precision=float32"]  # fmt: skip


def _further_apart(cells: Sequence[Cell], variants: Iterable[tuple[Variant, list[tuple[str, Any]]]]) -> list[str]:
    """Notices about variants that differ from the first cell, which is their baseline, in more than what they set."""
    first, of_label = _fields(cells[0]) if cells else {}, {cell.label: cell for cell in cells}
    alike: dict[str, list[str]] = {}
    for variant, changes in variants:
        own = of_components(None, dict(changes))
        fields = _fields(of_label[variant.name]) if variant.name in of_label else first
        if others := [name for name, value in fields.items() if name not in own and value != first.get(name)]:
            alike.setdefault(", ".join(others), []).append(variant.name)
    return [
        f"variants: {', '.join(names)}: their baseline, the first cell {quote(cells[0].label)}, "
        f"also differs in {others}" for others, names in alike.items()
    ]  # fmt: skip


def _fields(cell: Cell) -> dict[str, Any]:
    """Path of a field → its value, as in a ``set`` table."""
    tables = {"": cell.model, "data.": cell.data, "train.": cell.train}
    return {f"{of}{name}": value for of, table in tables.items() if table is not None for name, value in table}


def _one_by_one(cells: Iterable[Cell]) -> list[str]:
    """Notices about cells whose seeds should be trained together, and cannot be."""
    reason_of = by_identity(ensemble_problem)
    asked = ((cell.model, cell.train) for cell in cells if cell.train is not None and cell.train.ensemble_seeds)
    reasons = Counter(reason for model, train in asked if (reason := reason_of(model, train)))
    return [
        f"train.ensemble_seeds: {plural(n, 'cell')} train seeds one by one: {reason}" for reason, n in reasons.items()
    ]
