"""MLflow: the records of a study as runs of one experiment, in a database that ``mlflow ui`` opens.

The database is SQLite's and MLflow's own code writes it: its store of plain files takes no new runs by default since
version 3.7.
"""

from __future__ import annotations

import logging
import os
import re
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from vitbench.report.exports.export_runs import TrackedRun, runs
from vitbench.report.text import clipped
from vitbench.report.view import View

if TYPE_CHECKING:
    from mlflow import MlflowClient

DATABASE = "mlflow.db"
PARAMETER, TAG, NAME = 6000, 5000, 250  # Letters that MLflow takes of each; longer text ends in an ellipsis
MOST_METRICS, MOST_PARAMETERS = 1000, 100  # Entries that one call takes
REFUSED = re.compile(r"[^\w. /:-]")  # What no name of a parameter may hold
NOWHERE = "mlflow-artifacts:/"
"""Where MLflow would put artifacts, of which there are none: it would write this machine's working folder otherwise."""


def exported(view: View) -> dict[str, bytes]:
    """Name of a file → its content: the database with all runs."""
    # It reports its use over the network unless told not to, before it is imported.
    os.environ.update({"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"})
    with warnings.catch_warnings(), tempfile.TemporaryDirectory(prefix="vitbench-") as folder:
        # What its parts say of one another, and every step in which it makes its tables, is nothing for our user.
        warnings.simplefilter("ignore")
        from mlflow import MlflowClient
        from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

        for library in ("alembic", "mlflow"):
            logging.getLogger(library).setLevel(logging.WARNING)
        uri = f"sqlite:///{Path(folder) / DATABASE}"
        SqlAlchemyStore(uri, NOWHERE)  # makes the tables
        client = MlflowClient(tracking_uri=uri)
        name = clipped(view.study.info.suite.name, NAME)
        experiment = client.create_experiment(name, artifact_location=NOWHERE)
        for run in runs(view):
            _log(client, experiment, run)
        return {DATABASE: (Path(folder) / DATABASE).read_bytes()}


def _log(client: MlflowClient, experiment: str, run: TrackedRun) -> None:
    from mlflow.entities import Metric, Param

    tags = {f"vitbench.{name}": clipped(value, TAG) for name, value in run.tags.items()}
    began, ended = (round(1000 * moment) for moment in (run.began, run.ended))
    name = clipped(run.planned.description, NAME)
    made = client.create_run(experiment, start_time=began, run_name=name, tags=tags).info.run_id
    metrics = [
        Metric(name, value, round(1000 * step.at), step.number)
        for step in run.steps for name, value in step.metrics.items()
    ]  # fmt: skip
    metrics += [Metric(f"final/{name}", value, ended, 0) for name, value in run.final.items()]
    parameters = [
        Param(REFUSED.sub("_", name)[:NAME], clipped(str(value), PARAMETER)) for name, value in run.parameters.items()
    ]
    for start in range(0, len(metrics), MOST_METRICS):
        client.log_batch(made, metrics=metrics[start : start + MOST_METRICS])
    for start in range(0, len(parameters), MOST_PARAMETERS):
        client.log_batch(made, params=parameters[start : start + MOST_PARAMETERS])
    client.set_terminated(made, status="FINISHED" if run.record.state == "ok" else "FAILED", end_time=ended)
