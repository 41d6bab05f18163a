"""Setup: what the numbers rest on: design, data, model, recipe, seeds, budget, timing, machines and software."""

import functools
from collections.abc import Callable
from datetime import UTC
from typing import Any

from vitbench import registry
from vitbench.analysis.frames import PENDING, commits, level
from vitbench.config.base import Strict
from vitbench.config.dead_fields import dead
from vitbench.config.model import OF_ANY
from vitbench.config.recipe import TimeSpec, TrainSpec
from vitbench.config.trial import RELEVANT, TimeTrial
from vitbench.report.document import Block, Bullets, table
from vitbench.report.output import Files
from vitbench.report.text import Md, count, escape, listed, significant, span
from vitbench.report.view import View
from vitbench.runner.look_plan import in_words as looks_in_words
from vitbench.store.record import STATES
from vitbench.wording import duration, plural

MODEL_ALWAYS = ("image_size", "patch_size", "dim", "depth", "heads", "mlp_ratio", "num_classes")
EXTRAS = frozenset({"block", "residual", "qk_norm", "gate", "bias", "reduction", "head", "runtime"})
"""Slots that are named where something else than the usual is in them."""
TRAIN_ALWAYS = ("epochs", "batch_size", "optimizer", "learning_rate", "weight_decay", "schedule", "precision")
KINDS = {"tune": "tuning", "train": "training", "time": "timing"}


def section(view: View, files: Files) -> list[Block]:
    """Trials by state, the settings, the environments, and every trial as numbers."""
    link = Md(f"Every trial with its state, settings, values and machine: {files.table('trials', view.trials)}.")
    return [counts(view), settings(view), link]


def counts(view: View) -> Block:
    """Planned trials by kind and state."""
    present = set(view.trials["state"].unique())
    states = ["ok", *(s for s in (*STATES, PENDING) if s in present and s != "ok")]
    lines = []
    for kind, name in KINDS.items():
        rows = view.trials.loc[view.trials["kind"] == kind, ["cell", "state"]]
        if len(rows):
            line = {"trials": Md(name), "cells": count(rows["cell"].nunique()), "planned": count(len(rows))}
            lines.append(line | {state: count((rows["state"] == state).sum()) for state in states})
    return table(lines, right={"cells", "planned", *states}) if lines else Md("The plan holds no trial.")


def settings(view: View) -> Bullets:
    """A list of what every number rests on."""
    info = view.study.info
    rows = [("design", _design(view)), ("data", _data(view))]
    rows += [("classes", listed(info.class_names, 20))] if info.class_names else []
    rows += [("model", _model(view))]
    if trained := [trial.train for trial in view.trained.values()]:
        always = tuple(name for name in TRAIN_ALWAYS if not dead(name, trained))
        rows.append(("training", _fields(TrainSpec, trained, always, apart=functools.partial(who_has, view))))
        seeds = [str(seed) for seed in view.train["seed"].unique()]
        fewest = int(view.train.groupby(["device", "cell"])["seed"].nunique().min())
        unit = "cell"
        if view.stood_for:
            unit = "function; all its implementations are trained with the first, and one with the others"
        number = f"{'up to ' if info.looks or fewest < len(seeds) else ''}{plural(len(seeds), 'seed')}"
        rows.append(("seeds", Md(f"{number} per {unit}: {listed(seeds, 20)}")))
        rows += [("looks", Md(escape(sentence))) for sentence in looks_in_words(info)]
        rows.append(("budget", _budget(view)))
    if protocols := [p.trial.protocol for p in view.planned if isinstance(p.trial, TimeTrial)]:
        rows.append(("timing", _timing(view, protocols)))
    starts = [attempt.started_at for attempts in view.results.tried.values() for attempt in attempts]
    if moments := sorted(moment.replace(tzinfo=moment.tzinfo or UTC) for moment in starts):
        first, last = (f"{moments[n].astimezone(UTC):%Y-%m-%d %H:%M}" for n in (0, -1))
        rows.append(("first and last start", Md(f"{first} UTC, {last} UTC")))
    several, letter = view.environments.several, view.environments.letter
    rows += [(f"environment {letter(key)}" if several else "environment", _environment(view, key))
             for key in view.environments.fingerprints]  # fmt: skip
    return Bullets([Md(f"**{name}**: {value}") for name, value in rows])


def _design(view: View) -> Md:
    info, grid = view.study.info, view.trials.loc[view.trials["factorial"].astype(bool), "cell"].nunique()
    parts = []
    if grid:
        product = " × ".join(f"{escape(view.axis_names.get(a, a))} ({len(values)})" for a, values in info.axes.items())
        excluded = f", {plural(len(info.excluded), 'combination')} excluded" if info.excluded else ""
        parts.append(f"full factorial, {product}{excluded}: {plural(grid, 'cell')}")
    if named := len(view.cells) - grid:
        parts.append(f"{plural(named, 'named variant')} of one base")
    return Md("; ".join(parts) or "no cell")


def _data(view: View) -> Md:
    info = view.study.info
    text = escape(info.data_name) + (f" (identity {escape(info.data_identity)})" if info.data_identity else "")
    split = view.train[["train_images", "validation_images", "test_images"]].dropna().drop_duplicates()
    for train, validation, test in split.head(8).itertuples(index=False):
        text += f"; {count(train)} images to train on, {count(validation)} for validation, {count(test)} for test"
    return Md(text)


def _budget(view: View) -> Md:
    seconds = float(view.train.loc[view.train["state"] == "ok", "seconds"].sum())
    steps, flops = span(view.by_cell["steps"]), span(view.by_cell["train_flops"] / 1e12, significant)
    return Md(f"{steps} steps and {flops} TFLOP a run; the finished runs add up to {duration(seconds)}")


def _model(view: View) -> Md:
    models = [planned.trial.model for planned in view.planned]
    if not models:
        return Md("none")
    # Where parts are timed, and nothing is trained, most of the model is not there.
    levels = {trial.level if isinstance(trial := p.trial, TimeTrial) else "model" for p in view.planned}
    live = {field for each in levels for field in RELEVANT[each]}
    spec = type(models[0])
    axes = (*view.study.info.axes, *(name for name in spec.model_fields if name not in live))
    made = [model for model in models if model.of_components]
    always = (*MODEL_ALWAYS, *(slot for slot in registry.slots() if slot not in EXTRAS))
    if len(made) == len(models):
        return _fields(spec, models, always, leave=axes)
    # A baseline has nothing but what it shares with any other: its other fields say nothing.
    parts = [_fields(spec, models, tuple(OF_ANY), leave=(*axes, *(spec.model_fields.keys() - OF_ANY)))]
    parts += [_fields(spec, made, always, leave=(*axes, *OF_ANY))] if made else []
    return Md("; of the ViTs ".join(part for part in parts if part))


def _fields(
    spec: type[Strict], values: list[Any], always: tuple[str, ...], leave: tuple[str, ...] = (),
    apart: Callable[[str], Md | None] = lambda _: None,
) -> Md:  # fmt: skip
    """Fields of some specs: those in ``always`` and those not at their default; what varies is named as such.

    ``apart`` says of a field that varies which cells have which value, where that can be said.
    """
    texts, values = [], list({id(value): value for value in values}.values())  # most trials share theirs
    for name, field in spec.model_fields.items():
        if name in leave:
            continue
        given = list(dict.fromkeys(level(getattr(value, name)) for value in values))
        if len(given) > 1:
            texts.append(f"{escape(name)} {apart(name) or f'varied ({listed(given)})'}")
        elif name in always or given[0] != level(field.default):
            texts.append(f"{escape(name)} {escape(given[0])}")
    return Md(", ".join(texts))


def _timing(view: View, protocols: list[TimeSpec]) -> Md:
    columns = ["device", "dtype", "batch_size", "level"]
    devices, dtypes, sizes, levels = ("/".join(dict.fromkeys(map(level, view.time[name]))) for name in columns)
    modes = " and ".join(dict.fromkeys(group.mode_name for group in view.time_groups))
    how = [
        (plural(p.rounds, "process", "processes") if p.within is None or p.rounds >= p.rounds_most
         else f"{p.rounds} to {p.rounds_most} processes")
        + f" × {plural(p.iterations, 'iteration')} after {p.warmup} for warm-up"
        + (", compiled" if p.compile else "") + (", as CUDA graphs" if p.cuda_graphs else "")
        for p in protocols
    ]  # fmt: skip
    parts = "" if levels == "model" else f"{escape(levels.replace('_', ' '))}; "
    return Md(f"{parts}on {devices}; {dtypes}; batch size {sizes}; {modes}; {'; '.join(dict.fromkeys(how))}")


WORDS = {"tune": "tuning run", "train": "training run", "time": "timing"}


def _environment(view: View, key: str) -> Md:
    """The machine and the software of the results of one environment, their commits, and how many there are."""
    trials = view.trials[view.trials["environment"] == key]
    e, threads = view.environments.fingerprints[key], trials.dropna(subset="threads").groupby("kind")["threads"]
    counted = {
        str(kind): f"{plural(len(rows), WORDS[str(kind)])} ({plural(int(rows.iloc[0]), 'CPU thread')} each)"
        for kind, rows in threads
    }
    packages = ", ".join(f"{name} {version}" for name, version in sorted(e.packages.items()))
    parts = [
        escape(f"{e.machine}, {e.memory_gib:g} GiB memory"),
        escape(", ".join(f"{name} {value}" for name, value in (("driver", e.driver), ("CUDA", e.cuda)) if value)),
        escape(f"vitbench {e.vitbench} (its files: {e.code}), {packages}"),
        escape(f"Python {e.python}; {e.platform}"),
        f"commit {listed(commits(trials)) or 'unknown'}",
        ", ".join(counted[kind] for kind in WORDS if kind in counted),
    ]  # fmt: skip
    return Md("; ".join(filter(None, parts)))


MOST_NAMED = 3  # Values of an axis, or cells, that are named for one value of a field before they are counted
MOST_VALUES = 4  # Values of a field that are told apart by who has them


def who_has(view: View, field: str) -> Md | None:
    """The values of a field of the recipe, each with the values of the axis that sets it, or with its cells by name.

    None where all cells have one value, or where the field is an axis of its own.
    """
    of_cell = {cell: level(getattr(trial.train, field)) for cell, trial in view.trained.items()}
    if f"train.{field}" in view.axes or len(set(of_cell.values())) < 2:
        return None
    holders = dict[str, list[str]]()
    for axis in (*(view.axes if view.factorial else ()), ""):  # the first that decides the field, else the cell itself
        pairs = dict.fromkeys((view.values_of[cell][axis] if axis else cell, of_cell[cell]) for cell in of_cell)
        if len({name for name, _ in pairs}) == len(pairs):
            break
    for name, value in pairs:
        holders.setdefault(value, []).append(name)
    texts = [f"{escape(value)} ({listed(names, MOST_NAMED)})" for value, names in list(holders.items())[:MOST_VALUES]]
    texts += [plural(len(holders) - MOST_VALUES, "further value")] if len(holders) > MOST_VALUES else []
    return Md(f"{', '.join(texts[:-1])} or {texts[-1]}")
