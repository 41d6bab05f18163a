"""The trials of a plan, as tables of shared parts and a row each: 100,000 take seconds and megabytes.

A :class:`PlannedTrial` is made when it is looked at.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, overload

from pydantic import GetCoreSchemaHandler
from pydantic_core import core_schema

from vitbench.config.base import Seed, dumps
from vitbench.config.trial import TimeTrial, TrainTrial, Trial, TuneTrial, images_body, training_id
from vitbench.store.builder import TablesBuilder, text_of_spec
from vitbench.store.plan_tables import PlannedTrial, PlanTables, Row


class Trials(Sequence[PlannedTrial]):
    """The trials of a plan, in its order. Each is made anew when it is asked for; the specs in it are shared."""

    def __init__(self, tables: PlanTables) -> None:
        """Check that rows name what is there. Raises ValueError."""
        of_cell = [len(table) for table in (tables.axes, tables.exact, tables.settings, tables.published)]
        for _, axes, values, exact, setting, published in tables.cells:
            if not _there((axes, exact, setting, published or 0), (*of_cell[:3], of_cell[3] or 1)):
                raise ValueError("a cell names an entry of a table that is not there")
            if len(tables.axes[axes]) != len(values):
                raise ValueError("a cell has other axes than values")
        of_time = len(tables.cells), len(tables.models), len(tables.protocols)
        of_training = len(tables.cells), len(tables.models), len(tables.data), len(tables.recipes)
        for row in tables.rows:
            if not (_there(row[2:5], of_time) if row[1] == "time" else _there(row[2:6], of_training)):
                raise ValueError(f"trial {row[0]} names an entry of a table that is not there")
        self.tables = tables

    @classmethod
    def __get_pydantic_core_schema__(cls, _: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """A field of these is given Trials; in JSON, as in ``study.json``, PlanTables."""
        of_tables = core_schema.no_info_after_validator_function(cls, handler(PlanTables))
        return core_schema.json_or_python_schema(of_tables, core_schema.is_instance_schema(cls))

    @classmethod
    def of(cls, trials: Iterable[PlannedTrial]) -> "Trials":
        """Trials as tables; of two with the same id, the first."""
        builder = TablesBuilder()
        for planned in trials:
            builder.add(planned)
        return cls(builder.tables())

    def ids(self) -> list[str]:
        """The trials' ids, none of them made."""
        return [row[0] for row in self.tables.rows]

    def where(self, wanted: Callable[[str, str], bool]) -> "Trials":
        """The trials whose (id, kind) is wanted, in the plan's order, none of them made."""
        return self._with_rows(row for row in self.tables.rows if wanted(row[0], row[1]))

    def drawn(self) -> "Trials":
        """Training trials seed by seed, within each in an order of its own, so that no cell always follows another.

        A drift of the machine then falls on all cells. The order is that of the ids, which are hashes: every driver
        has the same.
        """
        seeds = {seed: number for number, seed in enumerate(dict.fromkeys(row[-1] for row in self.tables.rows))}
        return self._with_rows(sorted(self.tables.rows, key=lambda row: (seeds[row[-1]], row[0])))

    def _with_rows(self, rows: Iterable[Row]) -> "Trials":
        trials = object.__new__(type(self))  # the rows have been checked
        trials.tables = self.tables.model_copy(update={"rows": tuple(rows)})
        return trials

    @functools.cached_property
    def firsts(self) -> list[PlannedTrial]:
        """For each trial the first that differs from it in the seed alone, which may be itself."""
        known: dict[tuple[Any, ...], PlannedTrial] = {}
        firsts = []
        for row in self.tables.rows:
            alike = row[1:] if row[1] == "time" else row[1:8]
            firsts.append(known.get(alike) or known.setdefault(alike, self._made(row)))
        return firsts

    @functools.cached_property
    def up_to_seed(self) -> list[PlannedTrial]:
        """The first of those that differ in the seed alone, each once."""
        return list({planned.id: planned for planned in self.firsts}.values())

    @functools.cached_property
    def unsupported(self) -> dict[str, str]:
        """Id of one of :attr:`up_to_seed` → why it cannot run on its type of device, and with it all of its seeds."""
        reasons = ((planned.id, planned.trial.unsupported(planned.trial.device)) for planned in self.up_to_seed)
        return {trial_id: reason for trial_id, reason in reasons if reason}

    def kinds(self) -> list[tuple[str, str]]:
        """(id, kind) of each, none of them made."""
        return [(row[0], row[1]) for row in self.tables.rows]

    def seeds(self) -> list[Seed | None]:
        """The trials' seeds, none of them made; a timing has none."""
        return [None if row[1] == "time" else row[8] for row in self.tables.rows]

    def identities(self) -> Iterator[tuple[str, str]]:
        """(id in the plan, id that the trial itself gives) of each, at the cost of writing what they share once."""
        tables = self.tables
        models, recipes = [*map(text_of_spec, tables.models)], [*map(text_of_spec, tables.recipes)]
        images = functools.cache(lambda data, identity: dumps(images_body(tables.data[data], identity)))
        for row in tables.rows:
            if row[1] == "time":
                yield row[0], self._trial(row).id
            else:
                trial_id, kind, _, model, data, recipe, device, identity, seed = row
                yield trial_id, training_id(
                    kind=kind, model=models[model], images=images(data, identity), train=recipes[recipe], seed=seed,
                    device=device,
                )  # fmt: skip

    def of_id(self, trial_id: str) -> PlannedTrial:
        """The trial with an id. Raises KeyError."""
        return self[self._number_of[trial_id]]

    @functools.cached_property
    def _number_of(self) -> dict[str, int]:
        return {row[0]: i for i, row in enumerate(self.tables.rows)}

    def __len__(self) -> int:
        return len(self.tables.rows)

    @overload
    def __getitem__(self, index: int) -> PlannedTrial: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[PlannedTrial, ...]: ...
    def __getitem__(self, index: int | slice) -> PlannedTrial | tuple[PlannedTrial, ...]:
        """One trial, or some as a tuple."""
        if isinstance(index, slice):
            return tuple(map(self._made, self.tables.rows[index]))
        return self._made(self.tables.rows[index])

    def __iter__(self) -> Iterator[PlannedTrial]:
        return map(self._made, self.tables.rows)

    def __repr__(self) -> str:
        return f"<{len(self)} planned trials>"

    def _made(self, row: Row) -> PlannedTrial:
        tables = self.tables
        cell, axes, values, exact, setting, published = tables.cells[row[2]]
        return PlannedTrial(
            id=row[0], cell=cell, axes=dict(zip(tables.axes[axes], values, strict=True)), exact=tables.exact[exact],
            trial=self._trial(row), published=None if published is None else tables.published[published],
            setting=tables.settings[setting],
        )  # fmt: skip

    def _trial(self, row: Row) -> Trial:
        tables, model = self.tables, self.tables.models[row[3]]
        if row[1] == "time":
            _, _, _, _, protocol, level, device, dtype, batch_size, mode = row
            return TimeTrial(
                kind="time", level=level, model=model, protocol=tables.protocols[protocol], device=device, dtype=dtype,
                batch_size=batch_size, mode=mode,
            )  # fmt: skip
        _, kind, _, _, data, recipe, device, identity, seed = row
        shared: dict[str, Any] = {
            "model": model, "data": tables.data[data], "train": tables.recipes[recipe], "seed": seed, "device": device,
            "data_identity": identity,
        }  # fmt: skip
        return TrainTrial(kind="train", **shared) if kind == "train" else TuneTrial(kind="tune", **shared)


def _there(indices: Sequence[Any], lengths: Sequence[int]) -> bool:
    return all(0 <= index < length for index, length in zip(indices, lengths, strict=True))
