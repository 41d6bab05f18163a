"""Records as runs of trackers, read back, and as a page to explore; and what is said where a library is absent."""

import importlib.util
import json
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.conftest import REPOSITORY, not_there
from tests.report.browser import opened
from tests.report.builders import SMALL, CellPlan, Plan, blank, build, factorial, no_triton, written
from tests.test_security import hostile_study
from vitbench.cli.main import main
from vitbench.report.exports.export_runs import EXTRAS, runs
from vitbench.report.study_report import EXPORTS, render
from vitbench.report.view import View
from vitbench.store import StudyFolder

GRID = {"attention": ("sdpa", "triton"), "positions": ("learned", "none")}


def wanted(name: str) -> None:
    missing = [module for module in EXTRAS[name] if importlib.util.find_spec(module) is None]
    if missing:
        not_there(f"{', '.join(missing)} not installed: pip install 'vitbench[{name}]'")


def made(folder: Path) -> StudyFolder:
    return build(folder / "study", factorial(GRID, seeds=(0, 1), state=no_triton))


@pytest.mark.parametrize("name", EXTRAS)
def test_where_the_extra_is_missing_one_line_says_how_to_get_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    made(tmp_path)
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda module: None if module in EXTRAS[name] else find(module))
    with pytest.raises(SystemExit) as end:
        main(["report", str(tmp_path / "study"), "--out", str(tmp_path / "out"), "--export", name])
    (line,) = capsys.readouterr().err.splitlines()
    assert end.value.code == 2 and f"pip install 'vitbench[{name}]'" in line
    assert not (tmp_path / "out").exists(), "it is said before anything is rendered"


def test_the_library_is_loaded_by_its_own_export_alone() -> None:
    code = (
        "import sys, vitbench.report.study_report;"
        "libraries = {'mlflow', 'tensorboard', 'tensorboardX', 'sqlalchemy', 'torch', 'wandb', 'plotly'};"
        "print(sorted(libraries & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]" and EXPORTS.keys() >= EXTRAS.keys()


@pytest.mark.slow
def test_mlflow_reads_every_record_as_a_run(tmp_path: Path) -> None:
    wanted("mlflow")
    study = made(tmp_path)
    view = View(study)
    out = render(view, tmp_path / "out", blank, exports=["mlflow"]).parent
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{out / 'mlflow' / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("example")
    runs = client.search_runs([experiment.experiment_id], max_results=1000)
    assert len(runs) == len(study.info.trials) == 16
    by_trial = {run.data.tags["vitbench.trial"]: run for run in runs}
    for planned in study.info.trials:
        run, record = by_trial[planned.id], view.study.outcomes()[planned.id]
        assert run.data.tags["vitbench.state"] == record.state
        assert run.info.status == ("FINISHED" if record.state == "ok" else "FAILED")
        assert run.data.params["model.attention"] == planned.trial.model.attention
        assert run.info.start_time == round(1000 * record.started_at.timestamp())
        if planned.trial.kind == "train" and record.state == "ok":
            assert run.data.metrics["final/test_accuracy_pct"] == record.values.test_accuracy_pct
            history = [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, "train_loss")]
            assert history == [(epoch.epoch, epoch.train_loss) for epoch in record.values.epochs]
        elif planned.trial.kind == "time" and record.state == "ok":
            assert run.data.metrics["final/latency_ms_p50"] == record.values.latency_ms_p50
        else:
            assert run.data.tags["vitbench.reason"] == 'attention "triton" runs on cuda, not on cpu'
    assert by_trial[study.info.trials[0].id].data.tags["vitbench.commit"].startswith("89abcdef")
    whole = (out / "mlflow" / "mlflow.db").read_bytes()
    assert str(tmp_path).encode() not in whole and str(Path.cwd()).encode() not in whole, "no path of this machine"


def test_trackers_have_accuracies_at_every_size_and_no_setting_without_effect() -> None:
    for run in runs(View(StudyFolder.read(REPOSITORY / "results/reference/resolution-small"))):
        at = zip((24, 40, 48), run.record.values.test_accuracies_at, strict=True)
        assert {f"test_accuracy_pct_at_{size}": accuracy for size, accuracy in at}.items() <= run.final.items()
        assert run.parameters["train.epochs"] == run.record.trial.train.epochs
        assert not [name for name in run.parameters if name.startswith(("train.randaugment_", "train.teacher"))]


def test_tensorboard_tells_the_trainings_of_two_devices_apart(tmp_path: Path) -> None:
    wanted("tensorboard")
    for device in ("cpu", "cuda"):
        study = build(tmp_path / "study", factorial({"norm": ("pre",)}, seeds=(0, 1), device=device, time=False))
    out = written(study, tmp_path / "out", exports=["tensorboard"]).parent
    folders = {file.parent.name for file in (out / "tensorboard").rglob("*tfevents*")}
    assert folders == {f"seed-{seed}-{device}" for seed in (0, 1) for device in ("cpu", "cuda")}


def test_tensorboard_reads_every_record_as_a_run(tmp_path: Path) -> None:
    wanted("tensorboard")
    study = made(tmp_path)
    out = written(study, tmp_path / "out", exports=["tensorboard"]).parent
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    files = sorted((out / "tensorboard").rglob("*tfevents*"))
    assert len(files) == len(study.info.trials) and not [f for f in files if socket.gethostname() in f.name]
    outcomes = study.outcomes()
    for file in files:
        events = EventAccumulator(str(file)).Reload()
        tensors = events.Tensors("tags/text_summary" if "tags/text_summary" in events.Tags()["tensors"] else "tags")
        text = tensors[0].tensor_proto.string_val[0].decode()
        record = next(r for trial_id, r in outcomes.items() if trial_id in text)
        assert f"`{record.state}`" in text
        if record.state == "ok" and record.trial.kind == "train":
            losses = [(epoch.epoch, pytest.approx(epoch.train_loss)) for epoch in record.values.epochs]
            assert scalars(events, "train_loss") == losses
            ((_, last),) = scalars(events, "final/test_accuracy_pct")
            assert last == pytest.approx(record.values.test_accuracy_pct)


def scalars(events, name: str) -> list[tuple[int, float]]:
    """The points of a scalar, whichever of the two forms the writer gave it."""
    if name in events.Tags()["scalars"]:
        return [(event.step, event.value) for event in events.Scalars(name)]
    from tensorboard.util import tensor_util

    return [(event.step, float(tensor_util.make_ndarray(event.tensor_proto))) for event in events.Tensors(name)]


def test_wandb_has_every_record_as_a_run(tmp_path: Path) -> None:
    wanted("wandb")
    study = made(tmp_path)
    out = written(study, tmp_path / "out", exports=["wandb"]).parent / "wandb"
    outcomes, files = study.outcomes(), sorted(out.glob("offline-run-*/run-*.wandb"))
    assert {file.stem.removeprefix("run-") for file in files} == set(outcomes)
    for file in files:
        record, parts = outcomes[file.stem.removeprefix("run-")], [*entries(file)]
        (run,) = (part.run for part in parts if part.WhichOneof("record_type") == "run")
        config = {each.key: json.loads(each.value_json) for each in run.config.update}
        assert run.project == "example" and config["model.attention"] == record.trial.model.attention
        assert config["vitbench"]["state"] == record.state and run.host == ""
        assert config["vitbench"]["began"] == record.started_at.isoformat()
        (end,) = (part.exit for part in parts if part.WhichOneof("record_type") == "exit")
        assert end.exit_code == (record.state != "ok")
        losses = [
            json.loads(item.value_json) for part in parts if part.WhichOneof("record_type") == "history"
            for item in part.history.item if "train_loss" in (item.key, *item.nested_key)
        ]  # fmt: skip
        assert losses == [epoch.train_loss for epoch in getattr(record.values, "epochs", ())]
        whole = file.read_bytes()
        assert not [word for word in (str(tmp_path), str(Path.cwd())) if word.encode() in whole]


def entries(file: Path) -> Iterator[Any]:
    """The records of a W&B file: LevelDB's log, in blocks of 32 KiB, in which no record of ours is split."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, at = file.read_bytes(), 7
    assert len(data) < 2**15
    while at < len(data):
        length, kind = struct.unpack_from("<HB", data, at + 4)
        assert kind == 1
        yield Record.FromString(data[at + 7 : at + 7 + length])
        at += 7 + length


DRAWN = """document.getElementById('plot').data.flatMap(trace =>
    trace.x.map((x, i) => [x, trace.y[i], trace.name, trace.xaxis]))"""


def test_the_page_to_explore_has_every_run_and_asks_for_nothing(tmp_path: Path, browser: Browser) -> None:
    wanted("explore")
    study = build(tmp_path / "study", factorial(SMALL, seeds=(0, 1)))
    page = written(study, tmp_path / "out", exports=["explore"]).parent / "explore" / "index.html"
    accuracy = {(r["norm"], r["positions"], r["seed"]): r["test_accuracy_pct"]
                for r in View(study).trials.query("kind == 'train'").to_dict("records")}  # fmt: skip
    with opened(browser, page) as window:
        assert window.requests == [page.as_uri()] and not [m for m in window.messages if "GL Driver" not in m]
        drawn = window.value(DRAWN)
        assert sorted((x, y, name) for x, y, name, _ in drawn) == sorted(
            (norm, y, positions) for (norm, positions, _), y in accuracy.items()
        )
        window.page.select_option("[name=baseline]", label="positions = learned")
        window.page.select_option("[name=facet]", label="norm")
        differences = sorted((norm, y - accuracy[norm, "learned", seed]) for (norm, _, seed), y in accuracy.items())
        drawn = window.value(DRAWN)
        assert {panel for _, _, _, panel in drawn} == {"x", "x2"}
        assert [x for x, *_ in sorted(drawn)] == [x for x, _ in differences]
        assert [y for _, y, *_ in sorted(drawn)] == pytest.approx([y for _, y in differences])
        window.page.select_option("[name=show]", label="timings")
        assert len(window.value(DRAWN)) == len(View(study).trials.query("kind == 'time'"))


def test_hostile_names_are_text_to_the_page_to_explore(tmp_path: Path, browser: Browser) -> None:
    wanted("explore")
    page = written(hostile_study(tmp_path / "hostile"), tmp_path / "out", exports=["explore"]).parent / "explore"
    with opened(browser, page / "index.html") as window:
        for axis in window.value("[...document.querySelectorAll('[name=facet] option')].map(o => o.value)"):
            window.page.select_option("[name=facet]", value=axis)
        assert window.value(DRAWN) and not window.value("document.querySelectorAll('img, #plot script').length")
        assert not [m for m in window.messages if "GL Driver" not in m] and len(window.requests) == 1


@pytest.mark.parametrize("name", [pytest.param("mlflow", marks=pytest.mark.slow), "tensorboard", "wandb", "explore"])
def test_hostile_names_and_empty_studies_are_exported(tmp_path: Path, name: str) -> None:
    wanted(name)
    out = tmp_path / "out"
    written(hostile_study(tmp_path / "hostile"), out, exports=[name])
    assert all(file.resolve().is_relative_to(out.resolve()) for file in out.rglob("*"))
    pending = Plan([CellPlan("a", {})], state=lambda *_: ("pending", ""))
    written(build(tmp_path / "empty", pending), tmp_path / "none", exports=[name])


@pytest.mark.slow
@pytest.mark.parametrize("later", [(), ("latex",)])
def test_f36_exports_that_a_later_report_is_not_asked_for_stay(tmp_path: Path, later: tuple[str, ...]) -> None:
    for name in ("mlflow", "tensorboard"):
        wanted(name)
    study, out = made(tmp_path), tmp_path / "report"
    written(study, out, exports=("latex", "mlflow", "tensorboard"))
    before = {file: file.read_bytes() for name in ("latex", "mlflow", "tensorboard") for file in (out / name).rglob("*")
              if file.is_file()}  # fmt: skip
    assert len({file.relative_to(out).parts[0] for file in before}) == 3
    stale = out / "latex" / "gone.tex"
    stale.write_bytes(next((out / "latex").glob("*.tex")).read_bytes())
    written(study, out, exports=later)
    assert {file: file.read_bytes() for file in before} == before
    assert stale.exists() == ("latex" not in later), "of an export that is asked for again nothing old is left"
