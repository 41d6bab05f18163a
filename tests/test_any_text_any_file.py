"""Whatever the operating system gives: any text in an option, and anything in the place of a study's file."""

import os
import shutil
import time
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import click
import pytest

from tests.bad_input import SUITE, suite_file
from tests.report.builders import CellPlan, Plan, build
from tests.runner.runs import here
from tests.small import record, time_trial, train_trial
from vitbench.cli.main import cli, main
from vitbench.store import Leases, StudyFolder
from vitbench.store.leases import at_work

BYTES = os.fsdecode(b"a\xff\xed\xa0\x80")  # A name that is no UTF-8, as Python has it
OF_TEXT = (click.types.StringParamType, click.types.UnprocessedParamType, click.Path, click.Choice)
RUNS = ("run", "time")  # Commands that would train: their --results and --out are in tests/runner/test_faults.py
OPTIONS = [
    (name, parameter)
    for name, command in sorted(cli.commands.items())
    for parameter in command.params
    if isinstance(parameter.type, OF_TEXT) and not (name in RUNS and parameter.name == "results")
]


@pytest.mark.parametrize(("name", "parameter"), OPTIONS, ids=[f"{n} {p.name}" for n, p in OPTIONS])
def test_f26_no_text_of_an_option_ends_a_command(
    tmp_path: Path, name: str, parameter: click.Parameter, capsys: pytest.CaptureFixture[str]
) -> None:
    study = build(tmp_path / "study", Plan([CellPlan("a", {})], time=False)).path
    given = {"suite": str(tmp_path / suite_file(tmp_path)), "study": str(study), "folders": str(study)}
    arguments = []
    for each in cli.commands[name].params:
        if each is parameter or (isinstance(each, click.Argument) and each.required):
            value = BYTES if each is parameter else given.get(str(each.name), str(study))
            arguments += [value] if isinstance(each, click.Argument) else [each.opts[0], value]
    with chdir(tmp_path), pytest.raises(SystemExit) as end:
        main([name, *arguments])
    assert end.value.code in (None, 0, 1, 2)
    output = capsys.readouterr()
    assert "Traceback" not in output.err and (output.err or output.out)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def sparse(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(40 << 30)


def garbage(path: Path) -> None:
    path.write_bytes(b"\xff\x00{" * 100)


def nested(path: Path) -> None:
    path.write_bytes(b"[" * 200_000)


GARBAGE: dict[str, Callable[[Path], None]] = {
    each.__name__: each for each in (pipe, loop, sparse, garbage, nested, Path.mkdir)
}
TRIAL = "0" * 20
STRAYS = (
    f"records/{TRIAL}-1.json", f"records/{TRIAL}-2.json.corrupt", f"leases/{TRIAL}.1.json", f"leases/{TRIAL}.zz.json",
    f"leases/{TRIAL}.1.sync-conflict.json", f"weights/{TRIAL}.safetensors", f"explanations/{TRIAL}.safetensors",
    f"checkpoints/{TRIAL}.safetensors", "history/2.json", "history/999999.json", "history/finished-x.log",
    "packed/x.jsonl.gz", "cache/x.npz", "records/.x.tmp", "strange",
)  # fmt: skip


def littered(folder: Path, how: str) -> StudyFolder:
    """A study of three cells with such a thing in each folder, and in the place of one of its records."""
    study = build(folder / "study", Plan([CellPlan(f"depth {n}", {"depth": n}) for n in (1, 2, 3)], time=False))
    study.history.begin()
    for name in STRAYS:
        path = study.path / name
        path.parent.mkdir(exist_ok=True)
        GARBAGE[how](path)
    first, second, _ = sorted(study.path.glob("records/*-1.json"))[1:]
    for name in ("leases/{}.1.json", "weights/{}.safetensors", "explanations/{}.safetensors"):
        GARBAGE[how](study.path / name.format(second.stem.removesuffix("-1")))
    first.unlink()
    GARBAGE[how](first)
    return study


@pytest.mark.parametrize("how", GARBAGE)
def test_i30_what_is_no_file_of_a_study_is_set_aside_by_name_within_a_second(tmp_path: Path, how: str) -> None:
    study = littered(tmp_path, how)
    began = time.monotonic()
    opened = StudyFolder.read(study.path)
    assert len(opened.records()) == 2 and len(opened.damaged) == 3
    assert len(opened.set_aside()) == 4, "one of them lay there as damaged"
    assert {each.trial_id for each in at_work(study.path / "leases")} >= {TRIAL}, "it may be a claim, for a while"
    opened.history.unread(1)
    with Leases(study.path / "leases") as leases:
        assert leases.take(TRIAL) is not None and leases.take("1" * 20) is None
    again = StudyFolder.start(study.path, study.info)
    assert len(again.attempts()) == 2 and again.history.numbers() == [1, 2]
    assert [again.history.append({"asked": n}, 0) for n in (1, 2)] == [3, 4], "after the number that leaps is no room"
    assert time.monotonic() - began < 10.0


@pytest.mark.slow
@pytest.mark.parametrize("how", GARBAGE)
def test_anything_may_lie_in_the_place_of_a_studys_file(tmp_path: Path, how: str) -> None:
    study = littered(tmp_path, how)
    suite = suite_file(tmp_path, base=SUITE.replace('"small"', f'"{study.info.suite.name}"'))
    for command in (["status", "study"], ["report", "study", "--print"], ["plan", suite, "--results", "study"]):
        done = here(*command, cwd=tmp_path)
        assert done.returncode == 0 and "Traceback" not in done.stderr, done.stdout + done.stderr
    shutil.rmtree(study.path, ignore_errors=True)


def test_i30_a_plan_of_30_gb_is_refused_at_once(tmp_path: Path) -> None:
    study = build(tmp_path / "study", Plan([CellPlan("a", {})], time=False))
    for how in GARBAGE.values():
        (study.path / "study.json").unlink()
        how(study.path / "study.json")
        began = time.monotonic()
        with pytest.raises(ValueError, match=r"study\.json: "):
            StudyFolder.read(study.path)
        assert time.monotonic() - began < 10.0
        if (study.path / "study.json").is_dir():
            break


def test_i30_a_number_that_leaps_is_not_believed(tmp_path: Path) -> None:
    """The next attempt would have no number: a record holds none above a million."""
    study = build(tmp_path / "study", Plan([CellPlan("a", {})], time=False))
    trial = train_trial(seed=77)
    study.write(record(trial, "failed", 2))
    study.write(record(trial, "ok", 1_000_000))
    opened = StudyFolder.read(study.path)
    assert [each.attempt for each in opened.records()[trial.id]] == [2]
    assert [each.partition(": ")[0] for each in opened.damaged] == [f"{trial.id}, attempt 1000000"]


@pytest.mark.parametrize("values", [None, "of another kind"])
def test_i30_a_record_that_is_ok_has_values_of_its_kind(tmp_path: Path, values: str | None) -> None:
    study = build(tmp_path / "study", Plan([CellPlan("a", {})], time=False))
    trial, of_other = record(train_trial(seed=77), "ok"), record(time_trial(), "ok").values
    path = study.write(trial.model_copy(update={"values": of_other if values else None}))
    opened = StudyFolder.read(study.path)
    assert trial.trial_id not in opened.records()
    assert opened.damaged == [f'{path.name}: state "ok" of a trial of kind "train", and no values of such a one']
