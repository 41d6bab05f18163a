"""All seeds of a cell in one process: one record each, and each by itself where the process comes to an end."""

import pytest

from tests.runner.runs import Runs
from tests.small import TRAIN, record, train_trial
from vitbench.runner.ensembles import ensembles
from vitbench.store import PlannedTrial, Record, TrainValues

ENSEMBLE = ("--set", "train.seeds=[0, 1, 2]", "--set", "train.ensemble_seeds=true",
           "--set", "train.implementations=all")  # fmt: skip


def values(record: Record) -> TrainValues:
    assert isinstance(record.values, TrainValues), record.reason
    return record.values


def test_each_seed_has_its_record_and_says_how_many_were_trained_together(runs: Runs) -> None:
    arguments = [*ENSEMBLE, "--set", 'axes.attention=["sdpa", "mha"]', "--set", "train.optimizer=adam"]
    runs.complete(*arguments)
    records = runs.records()
    assert len(records) == 6 and {r.state for r in records} == {"ok"}
    together = {(r.trial.model.attention, values(r).ensemble_size) for r in records}
    assert together == {("sdpa", 3), ("mha", 1)}
    of_seed = {(r.trial.model.attention, r.trial.seed): values(r) for r in records}
    for seed in (0, 1, 2):  # equivalent implementations
        one, other = of_seed["sdpa", seed], of_seed["mha", seed]
        assert one.test_loss == pytest.approx(other.test_loss, abs=1e-3)
        assert one.batches_digest == other.batches_digest
    assert "6 of them finished before" in runs.complete(*arguments) and len(runs.records()) == 6


BATCHED = "torch._C._functorch.is_batchedtensor(hidden)"  # Whether the component sees more than one batch at once


@pytest.mark.parametrize(
    ("body", "state", "reason"),
    [
        (f"{BATCHED} and os.kill(os.getpid(), signal.SIGKILL)", "crashed", "SIGKILL"),
        (
            f'if {BATCHED}: raise torch.OutOfMemoryError("of this device")',
            "failed",
            "oom in a program of 3 seeds: batch",
        ),
    ],
    ids=["killed", "too large"],
)
def test_what_ends_an_ensemble_is_everybodys_attempt_and_the_next_is_ones_own(
    runs: Runs, body: str, state: str, reason: str
) -> None:
    runs.complete(*runs.plugin(body), "--set", "model.mlp=faulty", *ENSEMBLE, "--set", "suite.max_attempts=2")
    records = sorted(runs.records(), key=lambda r: (r.trial_id, r.attempt))
    assert [(r.attempt, r.state) for r in records] == [(1, state), (2, "ok")] * 3
    assert all(reason in r.reason for r in records if r.state == state)
    assert [values(r).ensemble_size for r in records if r.state == "ok"] == [1, 1, 1]


def test_what_was_interrupted_together_is_taken_up_together() -> None:
    trials = [train_trial(train=TRAIN.model_copy(update={"ensemble_seeds": True}), seed=seed) for seed in range(3)]
    pending = [PlannedTrial(id=t.id, cell="c", axes={}, exact={}, trial=t) for t in trials]
    tried = {t.id: [record(t, "interrupted")] for t in trials}
    assert [len(seeds) for seeds in ensembles(pending, tried)] == [3]
    tried[trials[0].id].append(record(trials[0], "crashed"))
    assert [len(seeds) for seeds in ensembles(pending, tried)] == [1, 2]
