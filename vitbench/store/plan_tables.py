"""Tables: a plan's trials as they are stored. Each cell, model, data, recipe and protocol is named once."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from vitbench.config.base import Positive, Seed, Strict, dumps
from vitbench.config.model import ModelSpec
from vitbench.config.recipe import DataSpec, Device, DType, Level, Mode, TimeSpec, TrainSpec
from vitbench.config.suite import Published, Value, setting_in_words
from vitbench.config.trial import Trial

UNTUNED: Mapping[str, Value] = {}


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

    @property
    def description(self) -> str:
        """The trial in words: its cell, and the seed or the setting in which it is timed."""
        trial = self.trial
        if trial.kind == "tune":
            return f"{self.cell}, {setting_in_words(self.setting)}, tuning seed {trial.seed}"
        if trial.kind == "train":
            return f"{self.cell}, seed {trial.seed}"
        part = "" if trial.level == "model" else f"{trial.level} ({trial.shape}), "
        return f"{self.cell}, {part}{trial.mode}, {trial.dtype}, batch {trial.batch_size}"


CellRow = tuple[str, int, tuple[Value, ...], int, int, int | None]
"""Part that the trials of a cell share beside what they run: its label, index of the names of its axes, their values;
indices of which components are exact, of the setting of the nuisance axes, of the published number if there is one."""

TrainRow = tuple[str, Literal["train", "tune"], int, int, int, int, Device, str, Seed]
"""id, kind, indices of the cell, model, data and recipe, device, identity of the data, seed."""

TimeRow = tuple[str, Literal["time"], int, int, int, Level, Device, DType, Positive, Mode]
"""id, kind, indices of the cell, model and protocol, level, device, dtype, batch size, mode."""

Row = TrainRow | TimeRow


class PlanTables(Strict):
    """A plan's trials as they are stored: what they share, each once, and a row for each, in the plan's order."""

    axes: tuple[tuple[str, ...], ...]
    exact: tuple[dict[str, bool], ...]
    settings: tuple[dict[str, Value], ...]
    published: tuple[Published, ...] = ()
    cells: tuple[CellRow, ...]
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
