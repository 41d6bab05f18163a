"""Suite → trials: what a run will do, with ids, before anything is started.

No torch, but where a suite matches parameters, which only the models themselves can count.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from vitbench import registry
from vitbench.data import catalog
from vitbench.runner.budget import with_budgets
from vitbench.runner.tuning import choose, tuning_seeds
from vitbench.spec.errors import SpecError
from vitbench.spec.model import ModelSpec
from vitbench.spec.recipe import DataSpec, Device, TrainTable
from vitbench.spec.suite import Cell, Setting, Suite
from vitbench.spec.trial import SLOT, TimeTrial, TrainTrial, Trial, TuneTrial, relevant
from vitbench.store import PlannedTrial, Record, StudyInfo

KINDS = ("tune", "train", "time")
NO_SETTING = "no setting of its tuning could be chosen: of each of them a run has no result"
TIMED_ON = "random images"
"""What a study that only times is run on."""


def plan(
    suite: Suite,
    device: Device,
    *,
    kinds: Collection[str] = KINDS,
    prepared: catalog.Prepared | None = None,
    records: Mapping[str, list[Record]] = MappingProxyType({}),
) -> StudyInfo:
    """Every trial of a suite on one type of device, each once: tuning first, then training.

    Where the suite tunes, a cell's training is planned once its tuning runs have ended.

    Args:
        suite: read and checked; its data are the ones that will be used.
        device: type of device.
        kinds: some of :data:`KINDS`. Training that is not tuned for without "tune" waits.
        prepared: the data, where they have been read; else what can be known without reading is looked up.
        records: trial id → attempts, of the study so far.

    Raises:
        SpecError: where a model cannot take the data, or nothing is left to run.
        DataError: where the data have no identity (a folder that is not there).
    """
    training = "train" in kinds and any(cell.train for cell in suite.cells)
    known = prepared.facts if prepared else {}
    suite = with_budgets(suite, lambda data: _images(data, known.get(data) or catalog.facts(data)))
    wrong = [
        f"{suite.file}: {m}"
        for cell in suite.cells
        if training and cell.train
        for facts in [known.get(cell.data) or catalog.facts(cell.data)]
        for m in (
            *catalog.mismatches(cell.model, cell.data, facts),
            *(m for recipe in [cell.train, *(s.train for s in cell.settings)]
              for m in catalog.unfit(recipe, cell.data, facts)),
        )
    ]  # fmt: skip
    if wrong:
        raise SpecError(dict.fromkeys(wrong))
    identity, hopeless, waiting = "", list[str](), list[str]()
    trials: dict[str, PlannedTrial] = {}
    if training:
        identity = prepared.identity if prepared else catalog.identity(suite.data)
        tuning = _tune_trials(suite, device, identity)
        chosen, hopeless = choose(suite, tuning, records)
        waiting = [cell.label for cell in suite.cells if cell.settings and cell.label not in (*chosen, *hopeless)]
        for planned in [*tuning, *_train_trials(suite, device, identity, chosen)]:
            trials.setdefault(planned.id, planned)
    if "time" in kinds:
        for planned in _time_trials(suite, device):
            trials.setdefault(planned.id, planned)
    if not trials:
        raise SpecError([f"{suite.file}: 0 trials: the suite has no {' or '.join(f'[{k}]' for k in kinds)} table"])
    return StudyInfo(
        suite=suite.info,
        suite_file=suite.file,
        options=suite.options,
        axes=suite.axes,
        data_name=catalog.display_name(suite.data) if training else TIMED_ON,
        data_identity=identity,
        fallback=prepared.fallback if prepared else None,
        class_names=_shared_classes(suite, prepared.class_names) if prepared else (),
        excluded=(*suite.excluded, *((label, NO_SETTING) for label in hopeless)),
        facts=suite.facts if training else (),
        tuned=suite.tune.axes if training and suite.tune else {},
        untuned=tuple(waiting),
        trials=tuple(trials.values()),
    )


def _shared_classes(suite: Suite, names: tuple[str, ...]) -> tuple[str, ...]:
    """Names of the classes, where all cells have these: synthetic images may differ from cell to cell."""
    return names if all(cell.model.num_classes == len(names) for cell in suite.cells) else ()


def _images(data: DataSpec, known: catalog.Facts | None) -> int:
    """Training images of one epoch; 0 where nothing is known of them yet."""
    train = data.train_images or (known.train if known else 0)
    return max(train - data.validation_images, 0)


def _tune_trials(suite: Suite, device: Device, identity: str) -> list[PlannedTrial]:
    """Every setting of every cell, as often for each."""
    seeds = tuning_seeds(suite) if suite.tune else ()
    return [
        _planned(cell, TuneTrial(kind="tune", **_training(cell, setting.train, seed, device, identity)), setting)
        for seed in seeds
        for cell in suite.cells
        for setting in cell.settings
    ]


def _train_trials(suite: Suite, device: Device, identity: str, chosen: Mapping[str, Setting]) -> list[PlannedTrial]:
    # Seed by seed: a study that is stopped early has compared all cells on the seeds that it got to.
    ready = [cell for cell in suite.cells if cell.train and (not cell.settings or cell.label in chosen)]
    settings = {cell.label: chosen.get(cell.label) for cell in ready}
    return [
        _planned(cell, TrainTrial(kind="train", **_training(cell, recipe, seed, device, identity)), setting)
        for seed in dict.fromkeys(s for cell in ready for s in cell.seeds)
        for cell in ready
        if seed in cell.seeds
        for setting in [settings[cell.label]]
        if (recipe := setting.train if setting else cell.train)
    ]


def _training(cell: Cell, recipe: TrainTable, seed: int, device: Device, identity: str) -> dict[str, Any]:
    """Fields of a trial that trains a cell."""
    return {
        "model": cell.model, "data": cell.data, "train": recipe.recipe(), "seed": seed, "device": device,
        "data_identity": identity,
    }  # fmt: skip


def _time_trials(suite: Suite, device: Device) -> list[PlannedTrial]:
    trials = [
        _planned(
            cell,
            TimeTrial(
                kind="time",
                level=level,
                model=relevant(cell.model, level),
                protocol=table.protocol(),
                device=device,
                dtype=dtype,
                batch_size=batch_size,
                mode=mode,
            ),
        )
        for cell in suite.cells
        if cell.time is not None
        for table in [cell.time.on(device)]
        for level, dtype, batch_size, mode in itertools.product(
            table.levels, table.dtypes, table.batch_sizes, table.modes
        )
        if level not in SLOT or not cell.model.leaves_out(SLOT[level])
    ]
    # What is timed together stands together, in the order in which it is first asked for.
    order = {key: i for i, key in enumerate(dict.fromkeys(map(setting, trials)))}
    return sorted(trials, key=lambda planned: order[setting(planned)])


def setting(planned: PlannedTrial) -> tuple[str | int, ...]:
    """What trials share that are timed side by side: level, shape, dtype, batch size, mode, and how long they run.

    Compiling and CUDA graphs are not in it: with and without them is a comparison that is asked for.
    """
    trial = planned.trial
    assert isinstance(trial, TimeTrial)
    how = trial.protocol
    what = (trial.level, trial.shape, trial.dtype, trial.batch_size, trial.mode)
    return (*what, how.rounds, how.iterations, how.warmup)


def _planned(cell: Cell, trial: Trial, setting: Setting | None = None) -> PlannedTrial:
    return PlannedTrial(
        id=trial.id,
        cell=cell.label,
        axes=cell.axes,
        exact=_exact(cell.model),
        trial=trial,
        published=cell.published,
        setting=setting.values if setting else {},
    )


def _exact(model: ModelSpec) -> dict[str, bool]:
    return {slot: registry.facts(slot, name).exact for slot, name in model.components.items()}


def with_data(suite: Suite, data: DataSpec) -> Suite:
    """The suite with all cells on the data that were prepared (the suite's own, or the fallback in their place)."""
    cells = tuple(cell.model_copy(update={"data": catalog.drawn_from(cell.data, data)}) for cell in suite.cells)
    return suite.model_copy(update={"data": data, "cells": cells})
