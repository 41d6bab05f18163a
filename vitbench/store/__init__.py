"""Studies on disk: what was planned, and one immutable record for each attempt at a trial."""

from vitbench.store.attempts import Attempt
from vitbench.store.builder import TablesBuilder
from vitbench.store.info import Disagreement, StudyInfo
from vitbench.store.leases import Lease, Leases
from vitbench.store.plan_tables import PlannedTrial
from vitbench.store.record import (
    SCHEMA,
    Ceilings,
    Epoch,
    Record,
    Samples,
    State,
    TimeValues,
    TrainValues,
    TuneValues,
)
from vitbench.store.study import StudyError, StudyFolder
from vitbench.store.trials import Trials

__all__ = [
    "SCHEMA",
    "Attempt",
    "Ceilings",
    "Disagreement",
    "Epoch",
    "Lease",
    "Leases",
    "PlannedTrial",
    "Record",
    "Samples",
    "State",
    "StudyError",
    "StudyFolder",
    "StudyInfo",
    "TablesBuilder",
    "TimeValues",
    "TrainValues",
    "Trials",
    "TuneValues",
]
