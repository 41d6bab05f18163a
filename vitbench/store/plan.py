"""The trials of a plan, as tables of what they share and a row for each: a hundred thousand take seconds and megabytes.

On disk and in memory a plan names each cell, model, data, recipe and protocol once. A :class:`PlannedTrial` is made
when it is looked at.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, Generic, Literal, TypeVar, overload

from pydantic import Field, GetPydanticSchema
from pydantic_core import core_schema

from vitbench.spec.base import Seed, Strict, dumps
from vitbench.spec.model import ModelSpec
from vitbench.spec.recipe import DataSpec, Device, DType, Level, Mode, TimeSpec, TrainSpec
from vitbench.spec.suite import Published, Value
from vitbench.spec.trial import TimeTrial, TrainTrial, Trial, TuneTrial, images_body, training_id

Item = TypeVar("Item")
UNTUNED: Mapping[str, Value] = MappingProxyType({})


class PlannedTrial(Strict):
    """A trial of a study's plan, and where it belongs in the tables."""

    id: str
    cell: str = Field(description="label of the cell")
    axes: dict[str, Value]
    exact: dict[str, bool] = Field(description="slot → whether its component is exact")
    trial: Trial
    published: Published | None = None
    setting: dict[str, Value] = Field(
        default_factory=dict,
        description="of the nuisance axes: tried by a tuning run, chosen for a training run",
    )


Place = tuple[str, int, tuple[Value, ...], int, int, int | None]
"""What the trials of a cell share beside what they run: its label, index of the names of its axes, their values;
indices of which components are exact, of the setting of the nuisance axes, of the published number if there is one."""

TrainRow = tuple[str, Literal["train", "tune"], int, int, int, int, Device, str, Seed]
"""id, kind, indices of the place, model, data and recipe, device, identity of the data, seed."""

TimeRow = tuple[str, Literal["time"], int, int, int, Level, Device, DType, int, Mode]
"""id, kind, indices of the place, model and protocol, level, device, dtype, batch size, mode."""

Row = TrainRow | TimeRow


class Tables(Strict):
    """A plan's trials as they are stored: what they share, each once, and a row for each, in the plan's order."""

    axes: tuple[tuple[str, ...], ...]
    exact: tuple[dict[str, bool], ...]
    settings: tuple[dict[str, Value], ...]
    published: tuple[Published, ...] = ()
    places: tuple[Place, ...]
    models: tuple[ModelSpec, ...]
    data: tuple[DataSpec, ...] = ()
    recipes: tuple[TrainSpec, ...] = ()
    protocols: tuple[TimeSpec, ...] = ()
    rows: tuple[Row, ...]

    def to_json(self) -> str:
        """JSON text with a line for each entry."""
        body = self.model_dump(mode="json", exclude_defaults=True)
        tables = [f'  "{name}": [\n' + ",\n".join(map(dumps, rows)) + "\n  ]" for name, rows in body.items()]
        return "{\n" + ",\n".join(tables) + "\n }"


class Trials(Sequence[PlannedTrial]):
    """The trials of a plan, in its order. Each is made anew when it is asked for; the specs in it are shared."""

    def __init__(self, tables: Tables) -> None:
        """Check that rows name what is there. Raises ValueError."""
        of_place = [len(table) for table in (tables.axes, tables.exact, tables.settings, tables.published)]
        for _, axes, values, exact, setting, published in tables.places:
            if not _there((axes, exact, setting, published or 0), (*of_place[:3], of_place[3] or 1)):
                raise ValueError("a cell names an entry of a table that is not there")
            if len(tables.axes[axes]) != len(values):
                raise ValueError("a cell has other axes than values")
        of_time = len(tables.places), len(tables.models), len(tables.protocols)
        of_training = len(tables.places), len(tables.models), len(tables.data), len(tables.recipes)
        for row in tables.rows:
            if not (_there(row[2:5], of_time) if row[1] == "time" else _there(row[2:6], of_training)):
                raise ValueError(f"trial {row[0]} names an entry of a table that is not there")
        self.tables = tables

    @classmethod
    def of(cls, trials: Iterable[PlannedTrial] | Tables) -> Trials:
        """The same trials as tables; of two with the same id, the first."""
        if isinstance(trials, Trials):
            return trials
        if isinstance(trials, Tables):
            return cls(trials)
        found = TrialsBuilder()
        for planned in trials:
            found.add(planned)
        return found.trials()

    def ids(self) -> list[str]:
        """The trials' ids, none of them made."""
        return [row[0] for row in self.tables.rows]

    def where(self, wanted: Callable[[str, str], bool]) -> Trials:
        """Those whose (id, kind) is wanted, in the plan's order, none of them made."""
        some = object.__new__(type(self))  # the rows have been checked
        some.tables = self.tables.model_copy(
            update={"rows": tuple(row for row in self.tables.rows if wanted(row[0], row[1]))}
        )
        return some

    @functools.cached_property
    def up_to_seed(self) -> tuple[list[int], list[PlannedTrial]]:
        """Trials that differ in the seed alone, as one: (index into the others of each trial, the first of each)."""
        known: dict[tuple[Any, ...], int] = {}
        first: list[Row] = []
        numbers = []
        for row in self.tables.rows:
            alike = row[1:] if row[1] == "time" else row[1:8]
            number = known.setdefault(alike, len(first))
            if number == len(first):
                first.append(row)
            numbers.append(number)
        return numbers, [self._made(row) for row in first]

    def kinds(self) -> list[tuple[str, str]]:
        """(id, kind) of each, none of them made."""
        return [(row[0], row[1]) for row in self.tables.rows]

    def seeds(self) -> list[Seed | None]:
        """The trials' seeds, none of them made; a timing has none."""
        return [None if row[1] == "time" else row[8] for row in self.tables.rows]

    def identities(self) -> Iterator[tuple[str, str]]:
        """(id in the plan, id that the trial itself gives) of each, at the cost of writing what they share once."""
        tables = self.tables
        models, recipes = [*map(_text, tables.models)], [*map(_text, tables.recipes)]
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
        return self[self._places[trial_id]]

    @functools.cached_property
    def _places(self) -> dict[str, int]:
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

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Trials) and self.tables == other.tables:
            return True
        if not isinstance(other, (Trials, tuple, list)) or len(self) != len(other):
            return NotImplemented if not isinstance(other, Sequence) else False
        return all(mine == its for mine, its in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} planned trials>"

    def _made(self, row: Row) -> PlannedTrial:
        tables = self.tables
        cell, axes, values, exact, setting, published = tables.places[row[2]]
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


def _schema(source: Any, handler: Callable[[Any], core_schema.CoreSchema]) -> core_schema.CoreSchema:
    """Trials, Tables, or a list of planned trials (the form of schema version 1)."""
    known = core_schema.union_schema(
        [core_schema.is_instance_schema(Trials), handler(Tables), handler(tuple[PlannedTrial, ...])]
    )
    return core_schema.no_info_after_validator_function(Trials.of, known)


PlannedTrials = Annotated[Sequence[PlannedTrial], GetPydanticSchema(_schema)]
"""A field that holds :class:`Trials`, made of whatever gives some."""


@dataclass
class Table(Generic[Item]):
    """Entries, each once; what tells them apart is their text, and an object that is known by itself is not written."""

    text_of: Callable[[Item], str]
    entries: list[Item] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    by_text: dict[str, int] = field(default_factory=dict)
    by_object: dict[int, tuple[int, Item]] = field(default_factory=dict)

    def __call__(self, entry: Item) -> int:
        """The index of an entry."""
        if (known := self.by_object.get(id(entry))) is not None:
            return known[0]
        text = self.text_of(entry)
        index = self.by_text.setdefault(text, len(self.entries))
        if index == len(self.entries):
            self.entries.append(entry)
            self.texts.append(text)
        self.by_object[id(entry)] = index, entry  # kept alive: an id is of a living object
        return index


def key(values: Mapping[Any, object]) -> str:
    """The same for the same values, also where some are tuples."""
    return dumps(list(values.items()))


def _text(spec: Strict) -> str:
    return dumps(spec.canonical())


class TrialsBuilder:
    """Trials being planned, each once. Their ids are spliced from the texts of their parts, each written once."""

    def __init__(self) -> None:
        self.axes, self.exact = Table[tuple[str, ...]](dumps), Table[Mapping[str, bool]](dumps)
        self.settings, self.published = Table[Mapping[str, Value]](key), Table[Published](_text)
        self.models, self.data = Table[ModelSpec](_text), Table[DataSpec](_text)
        self.recipes, self.protocols = Table[TrainSpec](_text), Table[TimeSpec](_text)
        self.places = Table[Place](lambda place: key(dict(enumerate(place))))
        self.images: dict[tuple[int, str], str] = {}
        """Index of the data's spec, identity → their text in an id."""
        self.rows: dict[str, Row] = {}

    def place(
        self, cell: str, axes: Mapping[str, Value], exact: Mapping[str, bool], published: Published | None = None,
        setting: Mapping[str, Value] = UNTUNED,
    ) -> Place:  # fmt: skip
        """What the trials of a cell share, to be kept for all of them."""
        number = None if published is None else self.published(published)
        return cell, self.axes(tuple(axes)), tuple(axes.values()), self.exact(exact), self.settings(setting), number

    def training(
        self, place: Place, *, kind: Literal["train", "tune"], model: ModelSpec, data: DataSpec, train: TrainSpec,
        seed: int, device: Device, data_identity: str,
    ) -> str:  # fmt: skip
        """Plan the training of a cell with a seed, see :class:`TrainingTrial`. Returns the trial's id."""
        m, d, t = self.models(model), self.data(data), self.recipes(train)
        if (images := self.images.get((d, data_identity))) is None:
            images = self.images[d, data_identity] = dumps(images_body(data, data_identity))
        model_text, train_text = self.models.texts[m], self.recipes.texts[t]
        trial_id = training_id(kind=kind, model=model_text, images=images, train=train_text, seed=seed, device=device)
        if trial_id not in self.rows:
            self.rows[trial_id] = trial_id, kind, self.places(place), m, d, t, device, data_identity, seed
        return trial_id

    def timing(self, place: Place, trial: TimeTrial) -> None:
        """Plan the timing of a cell."""
        if (trial_id := trial.id) not in self.rows:
            self.rows[trial_id] = (
                trial_id, "time", self.places(place), self.models(trial.model), self.protocols(trial.protocol),
                trial.level, trial.device, trial.dtype, trial.batch_size, trial.mode,
            )  # fmt: skip

    def add(self, planned: PlannedTrial) -> None:
        """Take over a trial that was planned elsewhere, with the id that it has there."""
        place = self.place(planned.cell, planned.axes, planned.exact, planned.published, planned.setting)
        trial = planned.trial
        if planned.id in self.rows:
            return
        if isinstance(trial, TimeTrial):
            self.rows[planned.id] = (
                planned.id, "time", self.places(place), self.models(trial.model), self.protocols(trial.protocol),
                trial.level, trial.device, trial.dtype, trial.batch_size, trial.mode,
            )  # fmt: skip
        else:
            self.rows[planned.id] = (
                planned.id, trial.kind, self.places(place), self.models(trial.model), self.data(trial.data),
                self.recipes(trial.train), trial.device, trial.data_identity, trial.seed,
            )  # fmt: skip

    def trials(self) -> Trials:
        """What has been planned."""
        return Trials(
            Tables(
                axes=tuple(self.axes.entries),
                exact=tuple(map(dict, self.exact.entries)),
                settings=tuple(map(dict, self.settings.entries)),
                published=tuple(self.published.entries),
                places=tuple(self.places.entries),
                models=tuple(self.models.entries),
                data=tuple(self.data.entries),
                recipes=tuple(self.recipes.entries),
                protocols=tuple(self.protocols.entries),
                rows=tuple(self.rows.values()),
            )
        )
