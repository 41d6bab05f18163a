"""Archetypes: small made-up studies, each of one kind that a report must be able to show, the same at every call."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.report.builders import COMPONENTS, CPU, GPU, SMALL, CellPlan, Plan, Values, build, factorial, no_triton
from tests.report.markdown import HOSTILE
from vitbench.analysis.side_by_side import SideBySide, side_by_side
from vitbench.config.suite import Goal, Hypothesis, Published
from vitbench.environment import Environment
from vitbench.store import StudyFolder, TimeValues, TrainValues, Trials
from vitbench.store.info import Disagreement
from vitbench.store.record import STATES, Ceilings

EQUALS = {"attention": ("per_head", "sdpa"), "positions": ("learned", "sinusoidal", "none")}
NEW_TORCH = {**CPU.packages, "torch": "2.16.0"}
NEWER = CPU.model_copy(update={"code": "fedcba987654", "packages": NEW_TORCH, "dirty": True})
HYPOTHESES = tuple(
    Hypothesis.model_validate(
        {"claim": f"{value} against {against}", "value": value, "against": against, "source": "a test"} | rest
    )
    for value, against, rest in (
        ("none", "learned", {"axis": "positions", "expected": "lower", "size": -4.0}),
        ("sinusoidal", "learned", {"axis": "positions", "expected": "equal"}),
        ("post", "pre", {"axis": "norm", "expected": "lower"}),
    )
)


def every(state: str) -> Callable[[CellPlan, str, int], tuple[str, str]]:
    """Each trial ends in one state."""
    return lambda cell, kind, seed: (state, "it broke")


def by_name(cell: CellPlan, kind: str, seed: int) -> tuple[str, str]:
    """The last word of the cell's name is its state."""
    word = cell.label.split()[-1]
    return word, "" if word in ("ok", "pending") else f"because {word}"


def third_fails(cell: CellPlan, kind: str, seed: int) -> tuple[str, str]:
    """Every third cell fails, with a reason that is as hostile as its name."""
    return ("ok", "") if cell.axes["depth"] % 3 else ("failed", f"{cell.label}\n| {cell.label} |\n\n# {cell.label}")


def some_diverge(cell: CellPlan, kind: str, seed: int) -> tuple[str, str]:
    """One seed of half of the cells has no result."""
    return ("diverged", "loss is nan") if seed == 1 and cell.axes["norm"] == "post" else ("ok", "")


def on_two_machines(cell: CellPlan, seed: int) -> Environment:
    """Some cells on another machine, and one seed of all."""
    return GPU if cell.axes["norm"] == "post" or seed == 2 else CPU


def by_age(cell: CellPlan, seed: int) -> Environment:
    """Code, working tree and plug-in of the first seed are older."""
    return (CPU if seed else NEWER).model_copy(update={"plugins": {"mlp.mine": "ab" * 6 if seed else "cd" * 6}})


def other_batches(values: Values) -> Values:
    """Models without positions are shown other batches."""
    if isinstance(values, TrainValues) and values.parameters == 103_754:
        return values.model_copy(update={"batches_digest": "ef" * 16})
    return values


def other_images(values: Values) -> Values:
    """Some runs read other images."""
    if isinstance(values, TrainValues) and round(values.test_accuracy_pct * 10) % 2:
        return values.model_copy(update={"data_checksum": "ef" * 32})
    return values


def in_turns(number: int = 20, processes: int = 3, wide: float = 1.0, load: float = 1.4) -> Callable[[Values], Values]:
    """Timings in turns with their baseline, with little noise.

    Args:
        number: samples of each process.
        processes: how many there are.
        wide: how many times as slow every second process is.
        load: load average of the machine.
    """

    def jittered(middle: float, step: int) -> tuple[float, ...]:
        return tuple(middle * (1 + 0.002 * (n * step % 5 - 2)) for n in range(number))

    def changed(values: Values) -> Values:
        if not isinstance(values, TimeValues):
            return values
        batch_size = round(values.images_per_s * values.latency_ms_p50 / 1000)
        kept = [
            each.model_copy(update={
                "latencies_ms": jittered(each.first_ms / 6 * (wide if n % 2 else 1 + n / 500), 7),
                "baseline_ms": jittered(0.2 * batch_size, 4 + 2 * n), "control_ms": jittered(0.2 * batch_size, 3 + n),
                "load_average": load,
            })
            for n, each in enumerate(values.processes[:processes])
        ]  # fmt: skip
        return values.model_copy(update={"processes": tuple(kept)})

    return changed


def on_a_gpu(values: Values) -> Values:
    """Values that only a GPU gives, and ceilings of the device."""
    if isinstance(values, TrainValues):
        return values.model_copy(update={
            "peak_flops_per_s": 1e12, "peak_reserved_mib": 200.0, "test_most_common_pct": 12.0,
        })  # fmt: skip
    if not isinstance(values, TimeValues):
        return values
    timed = in_turns()(values)
    assert isinstance(timed, TimeValues)
    processes = tuple(
        each.model_copy(update={"wall_ms": tuple(1.1 * ms for ms in each.latencies_ms)}) for each in timed.processes
    )
    return timed.model_copy(update={
        "processes": processes, "flops": 10**9, "bytes": 10**7, "peak_reserved_mib": 200.0, "energy_mj_per_image": 3.5,
        "largest_batch": 4096, "ceilings": Ceilings(flops_per_s=1e13, bytes_per_s=1e12),
    })  # fmt: skip


def by_length(values: Values) -> Values:
    """The cost of a run follows from its epochs."""
    if isinstance(values, TrainValues):
        return values.model_copy(update={"train_flops": 10**10 * values.steps})
    return values


def guessing(cell: CellPlan, seed: int) -> float:
    """Models without positions guess."""
    return 10.0 + seed / 2 if cell.axes["positions"] == "none" else 40.0 + seed


def named(**settings: dict[str, Any]) -> list[CellPlan]:
    """Named cells with what each sets."""
    return [CellPlan(name, axes) for name, axes in settings.items()]


LOADED = CPU.model_copy(update={"load_average": 6.3})
SEEDS = (0, 1, 2)
PLANS: Mapping[str, Plan] = {
    "tuned": factorial(SMALL, tuned=(0.0003, 0.001, 0.003), seeds=SEEDS),
    "changed-images": factorial(SMALL, seeds=(0, 1, 2, 3), changed=other_images),
    "tuned-to-the-end": factorial(SMALL, tuned=(0.0003, 0.001), seeds=SEEDS),
    "grid": factorial(COMPONENTS, state=no_triton, epochs=2),
    "one-seed": factorial(SMALL),
    "eight-seeds": factorial(
        {"norm": ("pre", "post"), "positions": ("learned", "sinusoidal", "none")}, seeds=tuple(range(8)), margin=1.0,
        facts=HYPOTHESES, goals=(Goal(cell="pre · learned", test_accuracy=38.0),), changed=in_turns(),
    ),
    "nothing-ok-pending": factorial(COMPONENTS, state=every("pending")),
    "nothing-ok-failed": factorial(COMPONENTS, state=every("failed")),
    "nothing-ok-oom": factorial(COMPONENTS, state=every("oom")),
    "nothing-planned": Plan(cells=[]),
    "all-states": Plan(
        cells=[CellPlan(f"the cell {state}", {"depth": n}) for n, state in enumerate([*STATES, "pending"], 1)],
        state=by_name,
    ),
    "survivors": factorial(SMALL, seeds=SEEDS, state=some_diverge),
    "hostile-names": Plan(
        cells=[
            CellPlan(name, {"depth": depth}, Published(test_accuracy=30, source=name))
            for depth, name in enumerate(HOSTILE, 1)
        ],
        state=third_fails, question="\n# ".join(HOSTILE), suite_file="a`b```c; rm -rf $HOME.toml",
        data_name=HOSTILE[0], fallback=HOSTILE[1], notices=tuple(HOSTILE[:6]),
        excluded=tuple((name, name) for name in HOSTILE),
        commands=(("run", "ablations/a`b```c; rm -rf $HOME.toml", "--device", "cpu"),),
    ),
    "two-machines": factorial(SMALL, seeds=SEEDS, environment=on_two_machines),
    "published": Plan(cells=[
        CellPlan("no attention", {"attention": "none"}),
        CellPlan("one head", {"heads": 1}, Published(test_accuracy=26.5, source="a blog")),
        CellPlan("four heads", {"heads": 4}, Published(test_accuracy=33.9, source="a blog")),
    ], seeds=SEEDS),
    "many-settings": factorial(
        EQUALS, train=False, dtypes=("float32", "bfloat16"), batch_sizes=(1, 64), levels=("model", "attention_core"),
        changed=in_turns(),
    ),
    "fallback": Plan(
        cells=[CellPlan("a", {}, Published(test_accuracy=50, source="paper"))],
        fallback="cifar10 is not on disk", notices=("cifar10 is not on disk", "clocks were throttled"),
    ),
    "training-alone": factorial(SMALL, time=False, seeds=SEEDS, data_name="cifar100: 5,000 train, 1,000 test images"),
    "no-validation": Plan(cells=[CellPlan("base", {})], validation_images=0, epochs=1),
    "retries": factorial(
        SMALL, excluded=(("rope · none", "rope needs attention"), ("rope · mean", "rope needs attention")),
        attempts=lambda c, k, s: ["crashed"] if c.axes["norm"] == "post" and k == "train" else [],
    ),
    "gpu": factorial(
        EQUALS, device="cuda", environment=lambda *_: GPU, seeds=(0, 1), dtypes=("float32", "bfloat16"),
        levels=("model", "attention_core"), changed=on_a_gpu,
    ),
    "other-recipes": Plan(
        cells=named(short={"train.epochs": 2}, long={"train.epochs": 6, "train.learning_rate": 0.0003}), seeds=SEEDS,
        changed=by_length,
    ),
    "at-chance": factorial(EQUALS, seeds=SEEDS, accuracy=guessing, time=False),
    "other-batches": factorial(EQUALS, seeds=tuple(range(5)), changed=other_batches, time=False),
    "old-code": factorial(SMALL, seeds=(0, 1), environment=by_age, time=False),
    "crowded": factorial(SMALL, seeds=(0, 1), apart=10.0, environment=lambda *_: LOADED, changed=in_turns(load=9.5)),
    "unstable": factorial(EQUALS, train=False, changed=in_turns(wide=1.9)),
    "one-process": factorial(EQUALS, train=False, changed=in_turns(processes=1)),
    "few-samples": factorial(EQUALS, train=False, changed=in_turns(number=2, processes=1)),
}  # fmt: skip
"""Name → what a study is built from."""


def with_damage(path: Path) -> StudyFolder:
    """One record is torn, and one is of a trial outside the plan."""
    study = build(path, PLANS["retries"])
    whole = sorted((path / "records").iterdir())[0].read_text()
    (path / "records" / "0-torn.json").write_text(whole[:300])
    return StudyFolder(path, study.info.model_copy(update={"trials": Trials.of(study.info.trials[1:])}))


def with_changes(path: Path, letters: str = "a") -> StudyFolder:
    """Margin, seeds and claims were changed after results."""
    hypotheses = [HYPOTHESES[1].model_copy(update={"claim": f"claim {letter}"}) for letter in letters]
    plan = factorial({"positions": ("learned", "sinusoidal")}, seeds=(0, 1), margin=0.5, facts=HYPOTHESES[1:2])
    build(path, plan)
    return build(path, replace(plan, margin=4.0, seeds=(0, 2), facts=tuple(hypotheses)))


def with_an_edit(path: Path) -> StudyFolder:
    """The plan was edited by hand, an entry of the history is gone, and so are a run and the first run of a trial."""
    plan = factorial(SMALL, seeds=(0, 1), margin=0.5)
    build(path, plan)
    study = build(path, replace(plan, margin=1.0))
    first, second = study.info.trials[:2]
    record = study.records()[first.id][0]
    for trial in (first, second):
        (path / "records" / f"{trial.id}-1.json").unlink()
    study.write(record.model_copy(update={"started_at": record.started_at + timedelta(days=1)}))
    (path / "history" / "1.json").unlink()
    return StudyFolder(
        path, study.info.model_copy(update={"suite": study.info.suite.model_copy(update={"margin": 4.0})})
    )


def without_history(path: Path) -> StudyFolder:
    """The history was removed."""
    study = build(path, factorial(SMALL))
    shutil.rmtree(path / "history")
    return study


def with_a_late_history(path: Path) -> StudyFolder:
    """The history begins after results."""
    without_history(path)
    return build(path, factorial(SMALL))


def with_stand_ins(path: Path) -> StudyFolder:
    """One of some equivalent implementations alone is trained with every seed, and some are said to disagree."""

    def state(cell: CellPlan, kind: str, seed: int) -> tuple[str, str]:
        return ("pending" if kind == "train" and seed and cell.axes["attention"] == "sdpa" else "ok"), ""

    plan = factorial(EQUALS, seeds=SEEDS, state=state, accuracy=lambda cell, seed: 40.0 + seed)
    study = build(path, plan)
    there = study.records()
    kept = study.info.trials.where(lambda trial_id, _: trial_id in there)
    split = (Disagreement(cells=("per_head · none", "sdpa · none"), reason="test loss 1.6 and 1.7"),)
    return StudyFolder(path, study.info.model_copy(update={"trials": kept, "split": split, "implementations": "one"}))


STUDIES: Mapping[str, Callable[[Path], StudyFolder]] = {
    **{name: lambda path, plan=plan: build(path, plan) for name, plan in PLANS.items()},  # type: ignore[misc]
    "damaged": with_damage,
    "changed": with_changes,
    "much-changed": lambda path: with_changes(path, "abcdefgh"),
    "edited": with_an_edit,
    "no-history": without_history,
    "late-history": with_a_late_history,
    "stand-ins": with_stand_ins,
}
"""Name → writes the study into a folder."""


def devices_and_versions(folder: Path) -> SideBySide:
    """One study, with newer versions, and on another device with other epochs."""
    plan = factorial(EQUALS, seeds=SEEDS, changed=in_turns())
    better = replace(plan, accuracy=lambda cell, seed: 41.0 + seed, changed=in_turns(wide=1.9))
    plans = {
        "first": plan,
        "newer": replace(better, environment=lambda *_: NEWER),
        "gpu": replace(plan, seeds=(0, 1), device="cuda", epochs=4, environment=lambda *_: GPU),
    }
    return side_by_side([build(folder / name, each).path for name, each in plans.items()])


def unlike_studies(folder: Path) -> SideBySide:
    """A study of two machines, one without a record of its machine, and one with other images, twice."""
    plans = {
        "first": factorial(SMALL, environment=on_two_machines),
        "unknown": factorial(SMALL, environment=lambda *_: None, changed=in_turns(processes=1)),
        "other": factorial(SMALL, test_images=500, fallback="not on disk"),
    }
    paths = {name: build(folder / name, plan).path for name, plan in plans.items()}
    (paths["unknown"] / "records" / "0-torn.json").write_text("{")
    return side_by_side([*paths.values(), paths["other"]])


def nothing_ok(folder: Path) -> SideBySide:
    """Two studies of which everything failed."""
    plan = factorial(SMALL, state=every("failed"))
    return side_by_side([build(folder / name, plan).path for name in ("bad", "worse")])


COMPARISONS: Mapping[str, Callable[[Path], SideBySide]] = {
    "devices-and-versions": devices_and_versions,
    "unlike-studies": unlike_studies,
    "nothing-ok": nothing_ok,
}
"""Name → writes some studies into a folder, and sets them side by side."""
