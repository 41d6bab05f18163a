"""Frames: a study as tidy tables, one row for each planned trial, for each epoch, for each timed process."""

import json
import math
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.extensions import take

from vitbench.analysis.columnar import compact, factorized
from vitbench.analysis.results import DERIVED, PROCESS, TIMING, TUNING, VALUES, WHERE, Results, results_of
from vitbench.analysis.results import NUMBERS as MEASURED
from vitbench.config.base import Strict
from vitbench.config.model import OF_ANY, ModelSpec
from vitbench.config.suite import as_text
from vitbench.config.trial import TimeTrial, TrainTrial, Trial
from vitbench.store import Epoch, PlannedTrial, StudyFolder, StudyInfo
from vitbench.store.classes import Function, Functions

PENDING = "pending"  # The state of a planned trial that has no record yet
TRIAL = ("trial_id", "kind", "cell", "state", "reason", "attempts", "seed",
         "device", "dtype", "batch_size", "mode", "level", "level_shape")  # fmt: skip
PLAN = ("published", "published_images_per_s", "published_source",
        "function", "pretrained_weights", "factorial", *DERIVED)  # fmt: skip
NUMBERS = (*(name for name in MEASURED if name not in TUNING), "published", "published_images_per_s")

RUN_OF = "run_of"
OF_FUNCTION = frozenset({
    "test_accuracy_pct", "test_loss", "validation_accuracy_pct", "parameters", "forward_flops", "train_flops", "steps",
    "train_images", "validation_images", "test_images", "batches_digest", "data_checksum",
})  # fmt: skip
"""Values that a run shares with those of equivalent implementations; the others are what it costs."""
OF_ONE_CELL = ("cell", "factorial", "published", "published_images_per_s", "published_source")

Column = TypeVar("Column")
Places = npt.NDArray[np.intp]


def trials_frame(study: StudyFolder, results: Results | None = None) -> pd.DataFrame:
    """One row for each planned trial, in the plan's order, whatever became of it.

    Columns: trial_id, kind, cell, state, reason, attempts, seed, device, dtype, batch_size, mode, level and
    level_shape (what is timed, see :class:`TimeTrial`). One for each axis (a component's slot, or a dotted field;
    where a cell leaves it alone, the base's value). The values of :class:`TrainValues` and :class:`TimeValues`
    except those that are lists. machine, software, environment (its key: hardware, code, packages and
    threads), commit, dirty, threads, started_at, notices. published, published_images_per_s, published_source.
    function (cells that differ in exact components alone share it: the label of the first of them),
    pretrained_weights (a file or name, or empty), factorial (whether the cell is one of the grid over the axes).
    train_flops (operations of the whole run), and what else :data:`vitbench.analysis.results.DERIVED` names.
    Missing values are empty, never zero.

    Args:
        study: the study.
        results: what its records say, where they have been read already.
    """
    results = results_of(study) if results is None else results
    planned = _planned(study)
    tried = [results.standing.get(trial_id) for trial_id in planned["trial_id"]]
    states = [attempt.state if attempt else PENDING for attempt in tried]
    columns: dict[str, Any] = planned | {
        "state": states,
        "reason": [attempt.reason if attempt else "" for attempt in tried],
        "attempts": [len(results.tried.get(trial_id, ())) for trial_id in planned["trial_id"]],
    }
    attempts = results.tables["attempts"]  # of which there is no second one in memory
    files = np.array([attempt.file if attempt else None for attempt in tried], dtype=object)
    at = pd.Index(attempts["file"]).get_indexer(files)  # -1 where there is no record
    at_ok = np.where(np.array(states, dtype=object) == "ok", at, -1)
    for name in [*VALUES, *WHERE, *DERIVED]:
        columns[name] = _where(attempts[name].to_numpy(), at_ok if name in VALUES else at)
    joined = {texts: "; ".join(json.loads(texts)) if texts else "" for texts in set(columns["notices"])}
    columns["notices"] = [joined[texts] for texts in columns["notices"]]
    names = [*TRIAL, *axes_of(study), *VALUES, *WHERE, *PLAN]
    frame = pd.DataFrame({name: columns[name] for name in names}, copy=False)
    frame = frame.astype(dict.fromkeys(NUMBERS, "float64"))  # also where every one of them is missing
    # Not left to pandas: with a missing value among them it makes floats, which hold no seed above 2**53.
    frame["seed"] = pd.array(columns["seed"], dtype="UInt64")
    return frame


def epochs_frame(study: StudyFolder, results: Results | None = None) -> pd.DataFrame:
    """One row for each epoch of each training trial that finished.

    Columns: trial_id, cell, seed, device; one for each axis; the fields of :class:`Epoch`. Columns of text are
    categorical: a million runs have many epochs.
    """
    columns, where = _of_finished(study, results, "epochs", "train", [*Epoch.model_fields])
    planned = _planned(study)
    names = ("trial_id", "cell", "seed", "device", *axes_of(study))
    about = {name: (_taken if name == "seed" else _repeated)(planned[name], where) for name in names}
    return pd.DataFrame(about | columns | {"epoch": columns["epoch"].astype(np.int64)}, copy=False)


def processes_frame(study: StudyFolder, results: Results | None = None) -> pd.DataFrame:
    """One row for each process of each timing trial that finished.

    Columns: trial_id, process (from 0), latency_ms_p50 (the process's median), images_per_s (batch size over
    it), first_ms, peak_memory_mib, load_average; log_speed (logarithm of the speed over the baseline's, the median over
    rounds) and log_control (the same of the baseline's second instance), missing where nothing was timed beside it.
    """
    columns, where = _of_finished(study, results, "processes", "time", PROCESS)
    return pd.DataFrame(_ids(study, where) | columns | {"process": columns["process"].astype(np.int64)})


def timings_frame(study: StudyFolder, results: Results | None = None) -> pd.DataFrame:
    """One row for each timing trial that finished: what its samples say, see :mod:`vitbench.analysis.timings`.

    Columns: trial_id, latency_ms_low and _high (95 % interval), speed, speed_low and speed_high (times as fast as the
    baseline beside it), speed_p (of a speed of 1, two-sided, not corrected for the number of comparisons), control,
    control_low and control_high (the same of the baseline's second instance), outliers, unstable (why, or empty),
    wall_ms_p50 (by the host's clock, where the device has events of its own), flops_per_s, bytes_per_s, of_flops,
    of_bytes, of_roofline (fractions of the measured ceilings), intensity (operations per byte), ceiling_flops_per_s,
    ceiling_bytes_per_s, drift (of the output: largest error against float64 over the largest true value). Missing where
    there is none.
    """
    columns, where = _of_finished(study, results, "timings", "time", TIMING)
    return pd.DataFrame(_ids(study, where) | columns)


def with_stand_ins(train: pd.DataFrame) -> pd.DataFrame:
    """Training trials, and behind them a row for each seed that another implementation is trained with for a cell.

    The column run_of names the cell whose run it is. A cell whose own runs have no result has no row but these: nobody
    stands for what does not run.

    Args:
        train: rows of kind "train" of :func:`trials_frame`, with the column
            validation_accuracy_pct joined to it.
    """
    runs = train.assign(**{RUN_OF: train["cell"]})
    ok = runs.index[runs["state"] == "ok"]
    several = runs.groupby(["device", "function"], sort=False)["cell"].transform("nunique") > 1
    made = []
    for _, rows in runs[several].groupby(["device", "function"], sort=False):
        once = rows.drop_duplicates("seed")
        if len(once) * rows["cell"].nunique() == len(rows):
            continue  # each was trained with every seed
        best = rows.assign(last=rows["state"] != "ok").sort_values("last", kind="stable").drop_duplicates("seed")
        for cell, of_cell in rows[rows.index.isin(ok)].groupby("cell", sort=False):
            has = set(rows.loc[rows["cell"] == cell, "seed"])
            lent = best[~best["seed"].isin(has)].drop(columns="last")
            made.append(_in_the_row_of(lent, of_cell.iloc[0]))
    return pd.concat([runs, *(rows for rows in made if len(rows))], ignore_index=True) if made else runs


def _in_the_row_of(lent: pd.DataFrame, own: pd.Series) -> pd.DataFrame:
    """Runs of one cell as those of another, which has a row of its own, without what they cost."""
    known = {*TRIAL, *VALUES, *WHERE, *PLAN, RUN_OF, "validation_accuracy_pct"}
    axes = [name for name in lent.columns if name not in known]
    rows = lent.copy()
    for name in (*OF_ONE_CELL, *axes):
        rows[name] = pd.Series([own[name]] * len(rows), index=rows.index, dtype=lent[name].dtype)
    for name in {*VALUES, *PLAN} - {*OF_FUNCTION, *OF_ONE_CELL, "function"}:
        rows[name] = pd.Series([None] * len(rows), index=rows.index, dtype=lent[name].dtype)
    return rows


def axes_of(study: StudyFolder) -> list[str]:
    """Names of the suite's axes, then of the other fields that its variants replace, in the plan's order."""
    first = study.info.trials.up_to_seed
    given = [*study.info.axes, *(name for planned in first for name in planned.axes)]
    taken = {*TRIAL, *VALUES, *WHERE, *PLAN}
    return [name for name in dict.fromkeys(given) if name not in taken]


def where(frame: pd.DataFrame, condition: "pd.Series[bool]") -> pd.DataFrame:
    """The rows for which a condition holds; where it holds for all, the frame itself, and not another in memory."""
    return frame if condition.all() else frame[condition]


def commits(trials: pd.DataFrame) -> list[str]:
    """The commits of some trials, and whether there were changes beside them."""
    known = trials.loc[trials["commit"].notna(), ["commit", "dirty"]].drop_duplicates()
    changed = {True: " with local changes"}
    return [f"{str(commit)[:12]}{changed.get(dirty, '')}" for commit, dirty in known.itertuples(index=False)]


def level(value: Any) -> str:
    """An axis value as text, the same for the same value whatever the column's type has made of it."""
    if value is None or (isinstance(value, float) and math.isnan(value)) or value is pd.NA:
        return "n/a"
    return str(as_text(value))


def _ids(study: StudyFolder, where: Places) -> dict[str, Any]:
    return {"trial_id": pd.Series(_taken(study.info.trials.ids(), where), dtype=object)}


def _repeated(values: Sequence[Any], where: Places) -> Any:
    """Values at some places, each of them several times: as categories, which take half the memory or less.

    Not where two are equal that are not alike, as 1 and True are, nor where there is something else than plain values.
    """
    codes, distinct = factorized(values)
    plain = all(isinstance(value, str | int | float) for value in distinct)
    if not plain or len(set(distinct)) < len(distinct):
        return _taken(values, where)
    return pd.Categorical.from_codes(codes[where], dtype=pd.CategoricalDtype(distinct))


def _of_finished(
    study: StudyFolder, results: Results | None, table: str, kind: str, names: Sequence[str]
) -> tuple[dict[str, "pd.Series[Any]"], Places]:
    """Columns of a table, for each planned trial of a kind that is ok, in the plan's order, and the rows' places in it.

    One by one, so that no second table is in memory.
    """
    results = results_of(study) if results is None else results
    trials = study.info.trials
    places: dict[str, int] = {}
    for place, (trial_id, of_kind) in enumerate(trials.kinds()):
        if of_kind == kind and (attempt := results.standing.get(trial_id)) and attempt.state == "ok":
            places[attempt.file] = place
    rows, at = results.tables[table], results.places(table, [*places])
    where = np.array([places[file] for file in rows["file"].to_numpy()[at].tolist()], dtype=np.intp)
    # As what they are, not as pandas would have them.
    return {name: pd.Series(rows[name].to_numpy()[at], dtype=rows[name].dtype, copy=False) for name in names}, where


def _where(known: npt.NDArray[Any], at: Places) -> Any:
    """The values at some places; NaN, or None among others than numbers, where the place is -1."""
    values: npt.NDArray[Any] = np.asarray(take(known, at, allow_fill=True))
    if known.dtype == np.float64:
        return compact(values)
    values[at < 0] = None
    return values.tolist()


def _taken(values: Sequence[Column], where: Places) -> list[Column]:
    taken: list[Column] = np.array(values, dtype=object)[where].tolist()
    return taken


def _planned(study: StudyFolder) -> dict[str, list[Any]]:
    """The columns of the trials' frame that the plan alone decides."""
    trials = study.info.trials
    axes, function_of, cells = axes_of(study), Functions(), dict[Function, str]()
    rows = {p.id: _row(study, p, axes, cells.setdefault(function_of(p), p.cell)) for p in trials.up_to_seed}
    of_trials = [rows[first.id] for first in trials.firsts]
    names = list(of_trials[0]) if of_trials else [*TRIAL, *axes, *PLAN]
    return {
        **{name: [row[name] for row in of_trials] for name in names},
        "trial_id": trials.ids(),
        "seed": trials.seeds(),
    }


def _row(study: StudyFolder, planned: PlannedTrial, axes: list[str], function: str) -> dict[str, Any]:
    """Columns of a trial; ``function`` is the label of the first cell that computes the same."""
    trial, gridded = planned.trial, in_grid(study.info, planned)
    # What only ViTs have is missing of a baseline, except where an axis of the grid gives it to all.
    lacks = set[str]() if gridded or trial.model.of_components else ModelSpec.model_fields.keys() - OF_ANY
    return {
        "kind": trial.kind,
        "cell": planned.cell,
        "device": trial.device,
        "dtype": trial.dtype,
        "batch_size": trial.batch_size if isinstance(trial, TimeTrial) else trial.train.batch_size,
        "mode": trial.mode if isinstance(trial, TimeTrial) else None,
        "level": trial.level if isinstance(trial, TimeTrial) else None,
        "level_shape": trial.shape if isinstance(trial, TimeTrial) else None,
        **{axis: None if axis in lacks else _plain(planned.axes.get(axis, _field(trial, axis))) for axis in axes},
        "published": planned.published.test_accuracy if planned.published else None,
        "published_images_per_s": planned.published.train_images_per_s if planned.published else None,
        "published_source": planned.published.source if planned.published else None,
        "function": function,
        "pretrained_weights": trial.train.pretrained if isinstance(trial, TrainTrial) else None,
        "factorial": gridded,
    }


def in_grid(info: StudyInfo, planned: PlannedTrial) -> bool:
    """Whether a trial's cell is one of the grid over the suite's axes."""
    grid = info.axes
    return bool(grid) and planned.axes.keys() == grid.keys() and all(v in grid[a] for a, v in planned.axes.items())


def _field(trial: Trial, axis: str) -> Any:
    """Value of a field that a trial's cell leaves alone; None where its kind of trial has no such field."""
    table, _, name = axis.rpartition(".")
    owner = getattr(trial, table or "model", None)
    known = isinstance(owner, Strict) and name in type(owner).model_fields
    return getattr(owner, name) if known else None


def _plain(value: Any) -> Any:
    """An axis value that a table can hold: arrays as text."""
    return "x".join(map(str, value)) if isinstance(value, tuple) else value
