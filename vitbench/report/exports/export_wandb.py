"""Weights & Biases: the records of a study as runs that were offline, which ``wandb sync`` uploads."""

import os
import tempfile
import time
from pathlib import Path

from vitbench.report.exports.export_runs import TrackedRun, runs
from vitbench.report.text import clipped
from vitbench.report.view import View

LONGEST = 128  # Letters that W&B takes of a name; longer text ends in an ellipsis
SLASHES = str.maketrans(dict.fromkeys("/\\#?%:", "-"))
"""Letters that no project of W&B's has in its name."""
PRIVATE = {
    "silent": True, "console": "off", "save_code": False, "disable_git": True, "disable_job_creation": True,
    "x_disable_stats": True, "x_disable_meta": True, "x_disable_machine_info": True, "x_disable_viewer": True,
    "x_save_requirements": False, "host": "", "program": "",
}  # fmt: skip
"""Settings: nothing of this machine and this process, which only write down what others measured."""


def exported(view: View) -> dict[str, bytes]:
    """Path of a file → its content: a folder for each run, as W&B's own code writes it."""
    os.environ.update({"WANDB_ERROR_REPORTING": "false", "WANDB_SILENT": "true"})
    import wandb

    with tempfile.TemporaryDirectory(prefix="vitbench-") as scratch:
        names = {f"run-{run.planned.id}.wandb": _write(view, run, scratch) for run in runs(view)}
        wandb.teardown()  # which waits for its writer: a run that is finished need not be in its file
        return {
            f"{names[file.name]}/{file.name}": file.read_bytes() for file in sorted(Path(scratch).rglob("run-*.wandb"))
        }


def _write(view: View, run: TrackedRun, scratch: str) -> str:
    """Write a run; returns W&B's own name for its folder, with the moment when the trial began."""
    import wandb

    settings = wandb.Settings(**PRIVATE)
    # W&B's own beginning is that of the export.
    config = {**run.parameters, "vitbench": {**run.tags, "began": run.record.started_at.isoformat()}}
    made = wandb.init(
        mode="offline", dir=scratch, id=run.planned.id, job_type=run.planned.trial.kind, settings=settings,
        project=clipped(view.study.info.suite.name.translate(SLASHES), LONGEST), config=config,
        group=clipped(run.planned.cell, LONGEST), name=clipped(run.planned.description, LONGEST),
    )  # fmt: skip
    for number, step in enumerate(run.steps):  # W&B's steps only grow, and each stage of a training counts from 0
        made.log({"epoch": step.number, **step.metrics, "_timestamp": step.at}, step=number)
    made.summary.update({f"final/{key}": value for key, value in run.final.items()})
    made.finish(exit_code=0 if run.record.state == "ok" else 1)
    return f"offline-run-{time.strftime('%Y%m%d_%H%M%S', time.gmtime(run.began))}-{run.planned.id}"
