"""Studies on disk: what was planned, and one immutable record for each attempt at a trial."""

from vitbench.store.claims import Claims, Held
from vitbench.store.index import Attempt
from vitbench.store.plan import PlannedTrial, Trials, TrialsBuilder
from vitbench.store.record import SCHEMA, Ceilings, Epoch, Record, Samples, State, TimeValues, TrainValues, TuneValues
from vitbench.store.study import Study, StudyError, StudyInfo

__all__ = [
    "SCHEMA",
    "Attempt",
    "Ceilings",
    "Claims",
    "Epoch",
    "Held",
    "PlannedTrial",
    "Record",
    "Samples",
    "State",
    "Study",
    "StudyError",
    "StudyInfo",
    "TimeValues",
    "TrainValues",
    "Trials",
    "TrialsBuilder",
    "TuneValues",
]
