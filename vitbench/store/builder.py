"""Builder: the tables of a plan, made trial by trial."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from vitbench.config.base import Strict, dumps
from vitbench.config.model import ModelSpec
from vitbench.config.recipe import DataSpec, Device, TimeSpec, TrainSpec
from vitbench.config.suite import Published, Value
from vitbench.config.trial import TimeTrial, images_body, training_id
from vitbench.store.plan_tables import UNTUNED, CellRow, PlannedTrial, PlanTables, Row

Item = TypeVar("Item")


@dataclass
class InternTable(Generic[Item]):
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


def text_of_spec(spec: Strict) -> str:
    """The text of a spec in the ids of trials."""
    return dumps(spec.canonical())


class TablesBuilder:
    """Trials being planned, each once. Their ids are spliced from the texts of their parts, each written once."""

    def __init__(self) -> None:
        self.axes, self.exact = InternTable[tuple[str, ...]](dumps), InternTable[Mapping[str, bool]](dumps)
        self.settings = InternTable[Mapping[str, Value]](lambda setting: dumps([*setting.items()]))
        self.published, self.cells = InternTable[Published](text_of_spec), InternTable[CellRow](dumps)
        self.models, self.data = InternTable[ModelSpec](text_of_spec), InternTable[DataSpec](text_of_spec)
        self.recipes, self.protocols = InternTable[TrainSpec](text_of_spec), InternTable[TimeSpec](text_of_spec)
        self.images: dict[tuple[int, str], str] = {}  # Index of the data's spec, identity → their text in an id
        self.rows: dict[str, Row] = {}

    def cell_row(
        self, cell: str, axes: Mapping[str, Value], exact: Mapping[str, bool], published: Published | None = None,
        setting: Mapping[str, Value] = UNTUNED,
    ) -> CellRow:  # fmt: skip
        """The part that the trials of a cell share, to be kept for all of them."""
        number = None if published is None else self.published(published)
        return cell, self.axes(tuple(axes)), tuple(axes.values()), self.exact(exact), self.settings(setting), number

    def training(
        self, cell: CellRow, *, kind: Literal["train", "tune"], model: ModelSpec, data: DataSpec, train: TrainSpec,
        seed: int, device: Device, data_identity: str,
    ) -> None:  # fmt: skip
        """Plan the training of a cell with a seed, see :class:`TrainingTrial`."""
        m, d, t = self.models(model), self.data(data), self.recipes(train)
        if (images := self.images.get((d, data_identity))) is None:
            images = self.images[d, data_identity] = dumps(images_body(data, data_identity))
        model_text, train_text = self.models.texts[m], self.recipes.texts[t]
        trial_id = training_id(kind=kind, model=model_text, images=images, train=train_text, seed=seed, device=device)
        if trial_id not in self.rows:
            self.rows[trial_id] = trial_id, kind, self.cells(cell), m, d, t, device, data_identity, seed

    def timing(self, cell: CellRow, trial: TimeTrial) -> None:
        """Plan the timing of a cell."""
        if (trial_id := trial.id) not in self.rows:
            self.rows[trial_id] = (
                trial_id, "time", self.cells(cell), self.models(trial.model), self.protocols(trial.protocol),
                trial.level, trial.device, trial.dtype, trial.batch_size, trial.mode,
            )  # fmt: skip

    def add(self, planned: PlannedTrial) -> None:
        """Take over a trial that was planned elsewhere."""
        cell = self.cell_row(planned.cell, planned.axes, planned.exact, planned.published, planned.setting)
        if isinstance(planned.trial, TimeTrial):
            self.timing(cell, planned.trial)
        else:
            self.training(cell, **dict(planned.trial))

    def tables(self) -> PlanTables:
        """The tables of all trials that have been planned."""
        names = PlanTables.model_fields.keys() - {"rows"}
        entries: dict[str, Any] = {name: tuple(getattr(self, name).entries) for name in names}
        return PlanTables(**entries, rows=tuple(self.rows.values()))
