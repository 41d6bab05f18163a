"""Tuning in a report: every setting of the nuisance axes with its validation accuracy, and which was chosen."""

import statistics

import pandas as pd

from vitbench.analysis.frames import PENDING
from vitbench.analysis.grouped import words
from vitbench.analysis.results import TUNING
from vitbench.config.suite import as_text, setting_in_words
from vitbench.config.trial import TuneTrial
from vitbench.report.document import Block, table
from vitbench.report.output import Files
from vitbench.report.text import Md, bold, cut, escape, fixed
from vitbench.report.view import View

MAX_ROWS = 50  # Cells of the table; the CSV has them all
EXPLAINED = Md("Validation accuracy (%) after the last epoch, mean over the tuning runs of each setting. Bold: chosen "
               "for all seeds. Tuning never reads the test images.")  # fmt: skip


def section(view: View, files: Files) -> list[Block]:
    """The choice of each cell's setting; nothing where the suite tunes none."""
    runs = frame(view)
    if runs.empty:
        return []
    lines, settings = [], list(dict.fromkeys(runs["setting"]))
    several = runs["device"].nunique() > 1
    for (device, cell), of_cell in runs.groupby(["device", "cell"], sort=False):
        line = ({"on": escape(device)} if several else {}) | {"cell": escape(cell)}
        for setting, trials in of_cell.groupby("setting", sort=False):
            scores = trials["validation_accuracy_pct"]
            score = escape(words(trials["state"])) if scores.isna().any() else fixed(statistics.fmean(scores), 1)
            line[str(setting)] = bold(score) if trials["chosen"].all() else score
        lines.append(line)
    link = Md(f"As numbers: {files.table('tuning', runs)}.")
    return [EXPLAINED, table(lines[:MAX_ROWS], right=set(settings)), *cut(len(lines), MAX_ROWS, "cell"), link]


def frame(view: View) -> pd.DataFrame:
    """Every tuning run: cell, seed, setting, what became of it, and whether the cell went on with the setting."""
    chosen = {(p.trial.device, p.cell): p.setting for p in view.planned if p.trial.kind == "train"}
    tuned = view.study.info.trials.where(lambda _, kind: kind == "tune")
    tried = {trial_id: attempt for trial_id in tuned.ids() if (attempt := view.results.standing.get(trial_id))}
    measured = view.results.of("attempts", [attempt.file for attempt in tried.values()]).set_index("file")
    rows = []
    for planned in tuned:
        assert isinstance(planned.trial, TuneTrial)
        attempt = tried.get(planned.id)
        rows.append(
            {
                "device": planned.trial.device,
                "cell": planned.cell,
                "setting": setting_in_words(planned.setting),
                **{name: as_text(value) for name, value in planned.setting.items()},
                "seed": planned.trial.seed,
                "state": attempt.state if attempt else PENDING,
                **{name: measured.at[attempt.file, name] if attempt else None for name in TUNING},
                "chosen": chosen.get((planned.trial.device, planned.cell)) == planned.setting,
            }
        )
    return pd.DataFrame(rows).astype(dict.fromkeys(TUNING, "float64")) if rows else pd.DataFrame()
