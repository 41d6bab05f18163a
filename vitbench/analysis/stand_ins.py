"""Stand-ins: runs of one implementation, counted for the equivalent ones that were not trained with those seeds."""

from __future__ import annotations

import pandas as pd

from vitbench.analysis.frames import PLAN, TRIAL
from vitbench.analysis.results import VALUES, WHERE

RUN_OF = "run_of"
OF_FUNCTION = frozenset({
    "test_accuracy_pct", "test_loss", "validation_accuracy_pct", "parameters", "forward_flops", "train_flops", "steps",
    "train_images", "validation_images", "test_images", "batches_digest", "data_checksum",
})  # fmt: skip
"""Values that a run shares with those of equivalent implementations; the others are what it costs."""
OF_CELL = ("cell", "factorial", "published", "published_images_per_s", "published_source")


def with_stand_ins(train: pd.DataFrame) -> pd.DataFrame:
    """Training trials, and behind them a row for each seed that another implementation is trained with for a cell.

    The column run_of names the cell whose run it is. A cell whose own runs have no result has no row but these: nobody
    stands for what does not run.

    Args:
        train: rows of kind "train" of :func:`vitbench.analysis.frames.trials_frame`, with the column
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
    for name in (*OF_CELL, *axes):
        rows[name] = pd.Series([own[name]] * len(rows), index=rows.index, dtype=lent[name].dtype)
    for name in {*VALUES, *PLAN} - {*OF_FUNCTION, *OF_CELL, "function"}:
        rows[name] = pd.Series([None] * len(rows), index=rows.index, dtype=lent[name].dtype)
    return rows
