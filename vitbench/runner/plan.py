"""Plan: from a suite to its trials and their ids.

No torch, but where a suite matches parameters, which only the models themselves can count.
"""

import itertools
from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Literal

from vitbench import registry
from vitbench.config.base import by_identity, uncollected
from vitbench.config.model import ModelSpec
from vitbench.config.recipe import DataSpec, Device, Level, TimeTable, TrainTable
from vitbench.config.suite import Cell, ExpandedSuite, Setting
from vitbench.config.suite_errors import SpecError
from vitbench.config.trial import SLOT, TimeTrial, relevant
from vitbench.data import catalog
from vitbench.runner.budget import with_budgets
from vitbench.runner.cost import train_images
from vitbench.runner.look_plan import Wanted, nothing_seen, plan_of_looks, up_to_look
from vitbench.runner.once import once
from vitbench.runner.pretrained_files import with_pretrained_digests
from vitbench.runner.tuning import choose, tuning_seeds
from vitbench.store import Disagreement, PlannedTrial, Record, StudyInfo, TablesBuilder, Trials
from vitbench.store.plan_tables import UNTUNED, CellRow

KINDS = ("tune", "train", "time")
NO_SETTING = "no setting of its tuning could be chosen: of each of them a run has no result"
TIMED_ON = "random images"  # Images that a study which only times is run on


@uncollected()
def plan(
    suite: ExpandedSuite,
    device: Device,
    *,
    kinds: Collection[str] = KINDS,
    prepared: catalog.Prepared | None = None,
    records: Mapping[str, list[Record]] = MappingProxyType({}),
    wanted: Wanted = nothing_seen,
) -> StudyInfo:
    """Every trial of a suite on one type of device, each once: tuning first, then training.

    Where the suite tunes, a cell's training is planned once its tuning runs have ended. Equivalent implementations are
    all trained with the first seed, and by then known to agree or to be trained with every seed, see
    :mod:`vitbench.runner.once`.

    Args:
        suite: read and checked; its data are the ones that will be used.
        device: type of device.
        kinds: some of :data:`KINDS`. Training that is not tuned for without "tune" waits.
        prepared: the data, where they have been read; else what can be known without reading is looked up.
        records: trial id → attempts, of the study so far.
        wanted: of a plan with looks, in which nothing stops early yet, the seeds that are needed by now.

    Raises:
        SpecError: where a model cannot take the data, or nothing is left to run.
        DataError: where the data have no identity (a folder that is not there).
    """
    training = "train" in kinds and any(cell.train for cell in suite.cells)
    known = prepared.facts if prepared else {}
    known_of = by_identity(lambda data: known.get(data) or catalog.facts(data))
    suite = with_pretrained_digests(suite, planning=prepared is None) if training else suite
    suite = with_budgets(suite, lambda data: train_images(data, known_of(data)))
    mismatches = by_identity(lambda model, data: catalog.mismatches(model, data, known_of(data)))
    unfit = by_identity(lambda recipe, data: catalog.unfit(recipe, data, known_of(data)))
    wrong = [
        f"{suite.file}: {m}"
        for cell in suite.cells
        if training and cell.train
        for m in (
            *mismatches(cell.model, cell.data),
            *(m for recipe in (cell.train, *(s.train for s in cell.settings)) for m in unfit(recipe, cell.data)),
        )
    ]
    if wrong:
        raise SpecError(dict.fromkeys(wrong))
    identity, hopeless, waiting = "", list[str](), list[str]()
    planner = Planner(suite, device)
    if training:
        identity = prepared.identity if prepared else catalog.identity(suite.data)
        planner.tune(identity)
        chosen, hopeless = choose(suite, planner.trials(), records)
        settled = {*chosen, *hopeless}
        waiting = [cell.label for cell in suite.cells if cell.settings and cell.label not in settled]
        planner.train(identity, chosen)
    if "time" in kinds:
        planner.time()
    implementations = next(cell.train.implementations for cell in suite.cells if cell.train) if training else None
    trials, split = planner.trials(), tuple[Disagreement, ...]()
    if implementations == "one":
        trials, split = once(trials, records, suite.info.max_attempts)
    if not trials:
        raise SpecError([f"{suite.file}: 0 trials: the suite has no {' or '.join(f'[{k}]' for k in kinds)} table"])
    # Synthetic images may have other classes in each cell.
    names = prepared.class_names if prepared else ()
    shared = all(cell.model.num_classes == len(names) for cell in suite.cells)
    looks = next((cell.train.looks for cell in suite.cells if cell.train), ()) if training else ()
    info = StudyInfo(
        suite=suite.info,
        suite_file=suite.file,
        options=suite.options,
        axes=suite.axes,
        data_name=catalog.display_name(suite.data) if training else TIMED_ON,
        data_identity=identity,
        fallback=prepared.fallback if prepared else None,
        class_names=names if shared else (),
        excluded=(*suite.excluded, *((label, NO_SETTING) for label in hopeless)),
        facts=suite.facts if training else (),
        goals=suite.goals if training else (),
        tuned=suite.tune.axes if training and suite.tune else {},
        untuned=tuple(waiting),
        implementations=implementations,
        split=split,
        looks=plan_of_looks(suite, looks, trials) if looks else None,
        trials=trials,
    )
    return up_to_look(info, wanted)


class Planner:
    """A suite's trials, added kind by kind. What cells share is worked out once."""

    def __init__(self, suite: ExpandedSuite, device: Device) -> None:
        self.suite, self.device = suite, device
        self.builder = TablesBuilder()
        self.exact, self.recipe = by_identity(_exact), by_identity(TrainTable.recipe)

    def trials(self) -> Trials:
        """The trials that have been planned so far."""
        return Trials(self.builder.tables())

    def tune(self, identity: str) -> None:
        """Every setting of every cell, as often for each."""
        tuned = [(cell, s.train, self.row_of(cell, s)) for cell in self.suite.cells for s in cell.settings]
        for seed in tuning_seeds(self.suite) if tuned else ():
            for cell, table, row in tuned:
                self.training("tune", cell, row, table=table, seed=seed, identity=identity)

    def train(self, identity: str, chosen: Mapping[str, Setting]) -> None:
        """Every seed of every cell that is not tuned, or has been."""
        ready = [
            (cell, setting.train if setting else cell.train, self.row_of(cell, setting), frozenset(cell.seeds))
            for cell in self.suite.cells
            if cell.train and (not cell.settings or cell.label in chosen)
            for setting in [chosen.get(cell.label)]
        ]
        # Seed by seed: a study that is stopped early has compared all cells on the seeds that it got to.
        for seed in dict.fromkeys(seed for cell, *_ in ready for seed in cell.seeds):
            for cell, table, row, seeds in ready:
                if table is not None and seed in seeds:
                    self.training("train", cell, row, table=table, seed=seed, identity=identity)

    def training(
        self, kind: Literal["train", "tune"], cell: Cell, row: CellRow, *, table: TrainTable, seed: int, identity: str
    ) -> None:
        """A cell with one seed."""
        self.builder.training(
            row, kind=kind, model=cell.model, data=cell.data, train=self.recipe(table), seed=seed,
            device=self.device, data_identity=identity,
        )  # fmt: skip

    def time(self) -> None:
        """Every level, type, batch size and mode of every cell."""
        part, protocol_of = by_identity(relevant), by_identity(TimeTable.protocol)
        on_device = by_identity(lambda table: table.on(self.device))
        timed = [
            (
                cell,
                TimeTrial(
                    kind="time", level=level, model=part(cell.model, level), protocol=protocol_of(table),
                    device=self.device, dtype=dtype, batch_size=batch_size, mode=mode,
                ),
            )
            for cell in self.suite.cells
            if cell.time is not None
            for table in [on_device(cell.time)]
            for level, dtype, batch_size, mode in itertools.product(
                table.levels, table.dtypes, table.batch_sizes, table.modes
            )
            if _has(cell.model, level)
        ]  # fmt: skip
        # What is timed together stands together, in the order in which it is first asked for.
        groups: dict[tuple[str | float | None, ...], list[tuple[Cell, TimeTrial]]] = {}
        for cell, trial in timed:
            groups.setdefault(_setting(trial), []).append((cell, trial))
        for cell, trial in itertools.chain.from_iterable(groups.values()):
            self.builder.timing(self.row_of(cell), trial)

    def row_of(self, cell: Cell, setting: Setting | None = None) -> CellRow:
        """Where a cell's trials belong."""
        values = setting.values if setting else UNTUNED
        return self.builder.cell_row(cell.label, cell.axes, self.exact(cell.model), cell.published, values)


def setting(planned: PlannedTrial) -> tuple[str | float | None, ...]:
    """Key of trials that are timed side by side: level, shape, dtype, batch size, mode, and how long they run.

    Compiling and CUDA graphs are not in it: with and without them is a comparison that is asked for.
    """
    assert isinstance(planned.trial, TimeTrial)
    return _setting(planned.trial)


def _setting(trial: TimeTrial) -> tuple[str | float | None, ...]:
    how = trial.protocol
    what = (trial.level, trial.shape, trial.dtype, trial.batch_size, trial.mode)
    return (*what, how.rounds, how.within, how.rounds_most, how.iterations, how.warmup)


def _has(model: ModelSpec, level: Level) -> bool:
    """Whether there is something to time: a baseline is timed as a whole, and an empty component not at all."""
    if not model.of_components:
        return level == "model"
    return level not in SLOT or not model.leaves_out(SLOT[level])


def _exact(model: ModelSpec) -> dict[str, bool]:
    return {slot: registry.facts(slot, getattr(model, slot)).exact for slot in registry.slots()}


def with_data(suite: ExpandedSuite, data: DataSpec) -> ExpandedSuite:
    """The suite with all cells on the data that were prepared (the suite's own, or the fallback in their place)."""
    drawn = by_identity(catalog.drawn_from)
    cells = tuple(replace(cell, data=drawn(cell.data, data)) for cell in suite.cells)
    return replace(suite, data=data, cells=cells)
