"""The account of a study: what was asked, what ran, on what, what did not, and what to keep in mind."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from vitbench import registry
from vitbench.analysis.frames import PENDING, level
from vitbench.config.base import Strict
from vitbench.config.effects import dead
from vitbench.config.model import OF_ANY
from vitbench.config.recipe import TimeSpec, TrainSpec
from vitbench.config.trial import RELEVANT, TimeTrial, TrainTrial, Trial
from vitbench.environment import Environment
from vitbench.report.circumstances import settings as settings_of
from vitbench.report.circumstances import spent
from vitbench.report.document import Block, Bullets, bullets, table
from vitbench.report.markdown import Md, escape, listed
from vitbench.report.numbers import count, plural
from vitbench.report.view import View
from vitbench.runner.looks import in_words as looks_in_words
from vitbench.store.record import STATES

MAX_NAMED = 8
"""Names that a sentence or a table cell lists before it counts the others."""
MAX_ROWS = 50
"""Rows of a table of exceptions; the CSV has them all."""

MODEL_ALWAYS = ("image_size", "patch_size", "dim", "depth", "heads", "mlp_ratio", "num_classes")
TRAIN_ALWAYS = ("epochs", "batch_size", "optimizer", "learning_rate", "weight_decay", "schedule", "precision")
KINDS = {"tune": "tuning", "train": "training", "time": "timing"}


def notes(view: View) -> list[Md]:
    """What a reader must know before any number: other data than asked for, and the notices of the records."""
    said = []
    if view.study.info.fallback is not None:
        what = "These are not the data that the suite asks for."
        said.append(Md(f"**{what}** {escape(view.study.info.fallback)}"))
    count_of = view.results.notices(view.trials["trial_id"].tolist())
    count_of.pop(view.study.info.fallback or "", None)
    for notice, number in list(count_of.items())[:MAX_NAMED]:
        said.append(Md(f"**Notice** in {plural(number, 'record')}: {escape(notice)}"))
    if len(count_of) > MAX_NAMED:
        said.append(Md(f"**{plural(len(count_of) - MAX_NAMED, 'further notice')}**: see tables/trials.csv."))
    return said


def counts(view: View) -> Block:
    """Planned trials by kind and state."""
    present = set(view.trials["state"].unique())
    states = ["ok", *(s for s in (*STATES, PENDING) if s in present and s != "ok")]
    lines = []
    for kind, name in KINDS.items():
        rows = view.trials[view.trials["kind"] == kind]
        if len(rows):
            line = {"trials": Md(name), "cells": count(rows["cell"].nunique()), "planned": count(len(rows))}
            lines.append(line | {state: count((rows["state"] == state).sum()) for state in states})
    return table(lines, right={"cells", "planned", *states}) if lines else Md("The plan holds no trial.")


def settings(view: View) -> Bullets:
    """What every number rests on, as a list."""
    info = view.study.info
    rows = [("design", _design(view)), ("data", _data(view))]
    rows += [("classes", listed(info.class_names, 20))] if info.class_names else []
    rows += [("model", _model(view))]
    recipes = [p.trial.train for p in view.planned if isinstance(p.trial, TrainTrial)]
    if recipes:
        always = tuple(name for name in TRAIN_ALWAYS if not dead(name, recipes))
        rows.append(
            ("training", _fields(TrainSpec, recipes, always, apart=functools.partial(settings_of.in_words, view)))
        )
        seeds = [str(seed) for seed in view.train["seed"].unique()]
        each = "cell"
        if view.stood_for:
            each = "function; all its implementations are trained with the first, and one with the others"
        most = f"up to {plural(len(seeds), 'seed')}" if info.looks else plural(len(seeds), "seed")
        rows.append(("seeds", Md(f"{most} per {each}: {listed(seeds, 20)}")))
        rows += [("looks", Md(escape(sentence))) for sentence in looks_in_words(info)]
        rows += [("budget", spent.budget(view, recipes)), *spent.together(view)]
    protocols = [p.trial.protocol for p in view.planned if isinstance(p.trial, TimeTrial)]
    if protocols:
        rows.append(("timing", _timing(view, protocols)))
    rows += [("dates", span)] if (span := spent.dates(view)) else []
    environments = list(view.origins.environments.values())
    if len(environments) == 1:  # its software and commit are what a reader needs to run it again: see Reproduction
        rows.append(("machine", _machine(environments[0])))
    elif not environments:
        rows.append(("machine", Md("unknown: no record tells it")))
    return bullets(Md(f"**{name}**: {value}") for name, value in rows)


def origins(view: View) -> list[Block]:
    """Where results come from, where that is more than one machine or state of the software; else nothing."""
    if not view.origins.several:
        return []
    lines = []
    for origin, environment in view.origins.environments.items():
        mine = view.trials[view.trials["origin"] == origin]
        lines.append(
            {
                "on": Md(view.origins.letter(origin)),
                "machine": _machine(environment),
                "software": software(environment),
                "commit": commits(view, origin),
                "training runs": count((mine["kind"] == "train").sum()),
                "timings": count((mine["kind"] == "time").sum()),
            }
        )
    said = Md(f"Results came about under {len(lines)} sets of conditions (machine, CPU threads, software). They stand "
              "in columns of their own, marked by letter, and are never averaged.")  # fmt: skip
    return [said, table(lines, right={"training runs", "timings"})]


def not_run(view: View) -> list[Block]:
    """Blocks on every planned trial that is not ok, by state and reason."""
    rows = view.trials[view.trials["state"] != "ok"]
    if rows.empty:
        every = (
            "The one planned trial is ok"
            if len(view.trials) == 1
            else f"All {len(view.trials):,} planned trials are ok"
        )
        return [Md(f"{every}.")] if len(view.trials) else []
    lines = []
    for (state, reason), group in rows.groupby(["state", "reason"], sort=False):
        kinds = ", ".join(f"{n} {KINDS[str(k)]}" for k, n in group["kind"].value_counts(sort=False).items())
        why = escape(reason) if reason else Md("no record yet" if state == PENDING else "no reason recorded")
        lines.append({"state": escape(state), "reason": why, "trials": Md(kinds), "cells": _which(view, group)})
    blocks: list[Block] = [table(lines[:MAX_ROWS], right=set())]
    if len(lines) > MAX_ROWS:
        rest = len(lines) - MAX_ROWS
        blocks.append(Md(f"{plural(rest, 'further reason')} {'is' if rest == 1 else 'are'} in tables/not-run.csv."))
    return blocks


def retries(view: View) -> list[Block]:
    """Blocks on trials that took more than one attempt; nothing where none did."""
    again = view.trials[view.trials["attempts"] > 1]
    if again.empty:
        return []
    lines = []
    for row in again.head(MAX_ROWS).to_dict("records"):
        states = [attempt.state for attempt in view.results.tried.get(row["trial_id"], ())]
        what = KINDS[row["kind"]] if pd.isna(row["mode"]) else f"timing, {row['mode']}"
        seed = "" if pd.isna(row["seed"]) else f", seed {row['seed']}"
        cells = {"cell": escape(row["cell"]), "trial": Md(f"{what}{seed}"), "attempts": count(row["attempts"])}
        lines.append(cells | {"states in order": Md(", ".join(states)), "stands": escape(row["state"])})
    blocks: list[Block] = [
        Md(f"{plural(len(again), 'trial')} took more than one attempt:"),
        table(lines, right={"attempts"}),
    ]
    if len(again) > MAX_ROWS:
        blocks.append(Md(f"{len(again) - MAX_ROWS:,} more: see tables/trials.csv."))
    return blocks


def left_out(view: View) -> list[Block]:
    """Blocks on what is not in the plan: excluded combinations, results of an earlier plan, damaged files."""
    blocks: list[Block] = []
    excluded = view.study.info.excluded
    if excluded:
        rules: dict[str, list[str]] = {}
        for label, rule in excluded:
            rules.setdefault(rule, []).append(label)
        lines = [{"rule": escape(rule), "combinations": count(len(labels)), "which": listed(labels, MAX_NAMED)}
                 for rule, labels in rules.items()]  # fmt: skip
        said = f"{plural(len(excluded), 'combination')} cannot be built or tuned, and {_was(excluded)} not trained:"
        blocks += [Md(said), table(lines[:MAX_ROWS], right={"combinations"})]
    planned = set(view.trials["trial_id"].tolist())
    orphans = sum(len(attempts) for trial_id, attempts in view.results.tried.items() if trial_id not in planned)
    if orphans:
        blocks.append(Md(f"{plural(orphans, 'record')} of trials outside the plan, and so in no table here."))
    if view.damaged:
        said = f"{plural(len(view.damaged), 'record file')} could not be read and {_was(view.damaged)} set aside"
        named = [Md(f"{escape(name)}: {escape(why)}") for name, why in view.damaged[:20]]
        more = [Md(f"{len(view.damaged) - 20:,} more")] if len(view.damaged) > 20 else []
        blocks += [Md(f"{said}; such a trial is run again by the next `vitbench run`:"), bullets([*named, *more])]
    return blocks


def not_run_frame(view: View) -> pd.DataFrame:
    """Every planned trial that is not ok."""
    columns = ["kind", "cell", "seed", "device", "dtype", "batch_size", "mode", "state", "reason", "attempts"]
    return view.trials.loc[view.trials["state"] != "ok", columns]


def _was(items: Sequence[object]) -> str:
    return "was" if len(items) == 1 else "were"


def _design(view: View) -> Md:
    grid = view.trials[view.trials["factorial"].astype(bool)]["cell"].nunique()
    axes = view.study.info.axes
    said = []
    if grid:
        product = " × ".join(
            f"{escape(view.axis_names.get(axis, axis))} ({len(values)})" for axis, values in axes.items()
        )
        excluded = (
            f", {plural(len(view.study.info.excluded), 'combination')} excluded" if view.study.info.excluded else ""
        )
        said.append(f"full factorial, {product}{excluded}: {plural(grid, 'cell')}")
    if len(view.cells) > grid:
        named = len(view.cells) - grid
        said.append(f"{plural(named, 'named variant')} of one base")
    return Md("; ".join(said) or "no cell")


def _data(view: View) -> Md:
    info = view.study.info
    said = escape(info.data_name) + (f" (identity {escape(info.data_identity)})" if info.data_identity else "")
    split = view.train[["train_images", "validation_images", "test_images"]].dropna().drop_duplicates()
    for train, validation, test in list(split.itertuples(index=False))[:MAX_NAMED]:
        held_out = f"{count(validation)} for validation" if validation else "none for validation"
        said += f"; {count(train)} images trained on, {held_out}, {count(test)} for test"
    return Md(said)


def _model(view: View) -> Md:
    models = [planned.trial.model for planned in view.planned]
    if not models:
        return Md("none")
    # Where parts are timed, and nothing is trained, most of the model is not there.
    live = {field for planned in view.planned for field in _live(planned.trial)}
    spec = type(models[0])
    axes = (*view.study.info.axes, *(name for name in spec.model_fields if name not in live))
    made = [model for model in models if model.of_components]
    always = (*MODEL_ALWAYS, *registry.slots())
    if len(made) == len(models):
        return _fields(spec, models, always, leave=axes)
    # A baseline has nothing but what it shares with any other: its other fields say nothing.
    parts = [_fields(spec, models, tuple(OF_ANY), leave=(*axes, *(spec.model_fields.keys() - OF_ANY)))]
    parts += [_fields(spec, made, always, leave=(*axes, *OF_ANY))] if made else []
    return Md("; of the ViTs ".join(part for part in parts if part))


def _live(trial: Trial) -> frozenset[str]:
    """Fields of the model on which a trial's work depends."""
    return RELEVANT[trial.level if isinstance(trial, TimeTrial) else "model"]


def _fields(
    spec: type[Strict], values: list[Any], always: tuple[str, ...], leave: tuple[str, ...] = (),
    apart: Callable[[str], Md | None] = lambda _: None,
) -> Md:  # fmt: skip
    """Fields of some specs: those in ``always`` and those not at their default; what varies is named as such.

    ``apart`` says of a field that varies which cells have which value, where that can be said.
    """
    said, values = [], list({id(value): value for value in values}.values())  # most trials share theirs
    for name, field in spec.model_fields.items():
        if name in leave:
            continue
        given = list(dict.fromkeys(level(getattr(value, name)) for value in values))
        if len(given) > 1:
            said.append(f"{escape(name)} {apart(name) or f'varied ({listed(given, MAX_NAMED)})'}")
        elif name in always or given[0] != level(field.default):
            said.append(f"{escape(name)} {escape(given[0])}")
    return Md(", ".join(said))


def _timing(view: View, protocols: list[TimeSpec]) -> Md:
    columns = ["device", "dtype", "batch_size", "level"]
    what = ["/".join(dict.fromkeys(level(v) for v in view.time[name])) for name in columns]
    modes = " and ".join(dict.fromkeys(group.mode_name for group in view.time_groups))
    how = [f"{plural(p.rounds, 'process', 'processes')} × {plural(p.iterations, 'iteration')} after {p.warmup} for "
           + "warm-up" + (", compiled" if p.compile else "") + (", as CUDA graphs" if p.cuda_graphs else "")
           for p in protocols]  # fmt: skip
    parts = "" if what[3] == "model" else f"{escape(what[3].replace('_', ' '))}; "
    return Md(f"{parts}on {what[0]}; {what[1]}; batch size {what[2]}; {modes}; {'; '.join(dict.fromkeys(how))}")


def _machine(environment: Environment) -> Md:
    driver = f", driver {environment.driver}" if environment.driver else ""
    cuda = f", CUDA {environment.cuda}" if environment.cuda else ""
    memory = f", {environment.memory_gib:g} GiB memory, {plural(environment.threads, 'thread')}"
    return escape(f"{environment.machine}{memory}{driver}{cuda}")


def software(environment: Environment) -> Md:
    """The versions of vitbench, of its code and of the packages that it stands on."""
    packages = ", ".join(f"{name} {version}" for name, version in sorted(environment.packages.items()))
    return escape(f"vitbench {environment.vitbench} (code {environment.code}), {packages}")


def commits(view: View, origin: str) -> Md:
    """The commits of the results of one origin."""
    rows = view.trials[view.trials["origin"] == origin]
    known = rows[rows["commit"].notna()][["commit", "dirty"]].drop_duplicates()
    named = [f"{str(commit)[:12]}{' with local changes' if dirty is True else ''}"
             for commit, dirty in known.itertuples(index=False)]  # fmt: skip
    return Md(f"commit {listed(named, MAX_NAMED)}" if named else "commit unknown")


def _which(view: View, group: pd.DataFrame) -> Md:
    """The cells of some trials: all, all with one value of an axis, or by name."""
    mine = set(group["cell"].unique())
    planned = set(view.trials.loc[view.trials["kind"].isin(group["kind"].unique()), "cell"].unique())
    if mine == planned and len(mine) > 1:
        return Md(f"all {len(mine):,} cells")
    if len(mine) > 1:
        for axis, values in view.axes.items():
            for value in values:
                having = {cell for cell in view.cells if view.values_of(cell).get(axis) == value}
                if mine == having & planned:
                    return Md(f"all {len(mine):,} cells with {escape(axis)} = {escape(value)}")
    return listed(list(group["cell"].unique()), MAX_NAMED)
