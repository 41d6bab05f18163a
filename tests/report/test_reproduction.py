"""The command that a report gives for its study is one that plans it again, by the real command line."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.report.builders import build, factorial
from tests.report.markdown import read_page
from tests.report.test_reference import STUDIES
from tests.small import SUITE
from tests.test_registry import PLUGIN
from vitbench.cli.main import cli
from vitbench.cli.studies import ONLY
from vitbench.report import reproduction
from vitbench.report.render import render
from vitbench.report.view import View
from vitbench.runner.plan import KINDS, plan
from vitbench.spec import read_suite
from vitbench.store import Study, StudyInfo, Trials


def commands_of(study: Study) -> list[list[str]]:
    """The command lines in a report's section, as a shell would take them apart."""
    fence = next(block for block in reproduction.blocks(View(study)) if block.startswith("```"))
    return [shlex.split(line) for line in fence.splitlines()[1:-1]]


def planned_by(line: list[str]) -> StudyInfo:
    """What a command line plans, read by the real parser; runs nothing."""
    program, verb, *arguments = line
    assert program == "vitbench"
    asked = cli.commands[verb].make_context(verb, arguments).params
    suite = read_suite(asked["suite"], asked["overrides"], asked["max_trials"], small=asked["small"])
    only = "timing" if verb == "time" else asked["only"]
    return plan(suite, asked["device"], kinds=ONLY[only] if only else KINDS)


@pytest.mark.parametrize("folder", STUDIES, ids=lambda p: p.name)
def test_the_command_of_a_reference_study_plans_its_trials(
    folder: Path, lossless: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a checkout with the images where they lay when it ran."""
    (tmp_path / "ablations").symlink_to(REPOSITORY / "ablations")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "cifar10-lossless-6k").symlink_to(lossless)
    monkeypatch.chdir(tmp_path)
    study = Study.read(folder)
    found = [planned_by(line) for line in commands_of(study)]
    assert {i for info in found for i in Trials.of(info.trials).ids()} == set(Trials.of(study.info.trials).ids())
    assert {info.suite.name for info in found} == {study.info.suite.name}


def ran(folder: Path, *arguments: str) -> None:
    """Runs vitbench in a folder."""
    command = [sys.executable, "-m", "vitbench", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


SETS = ("--set", 'axes.attention=["sdpa", "batched"]', "--set", 'time.modes=["inference"]', "--set", "time.rounds=1",
        "--set", "time.iterations=2", "--set", "time.batch_sizes=[2]")  # fmt: skip


def test_what_was_asked_on_the_command_line_is_in_the_report(tmp_path: Path) -> None:
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "mine.toml").write_text(SUITE)
    (tmp_path / "own.py").write_text(PLUGIN.format(name="sine"))
    asked = ("suites/mine.toml", *SETS, "--plugin", str(tmp_path / "own.py"), "--results", "kept/here")
    ran(tmp_path, "time", *asked, "--device", "cpu")
    study = Study.read(tmp_path / "kept" / "here")
    expected = ["vitbench", "time", "suites/mine.toml", *SETS, "--plugin", "own.py", "--results", "kept/here",
                "--device", "cpu"]  # fmt: skip
    assert commands_of(study) == [expected]
    render(study, tmp_path / "report")
    (code,) = read_page(tmp_path / "report").code
    assert shlex.split(code) == expected and str(tmp_path) not in (tmp_path / "report" / "report.md").read_text()


def test_a_study_keeps_the_commands_of_all_of_its_trials(tmp_path: Path) -> None:
    axes = {"norm": ("pre", "post")}
    whole = build(tmp_path / "whole", factorial(axes, seeds=(0, 1))).info
    train = build(tmp_path / "train", factorial(axes, seeds=(0, 1), time=False)).info

    def by(info: StudyInfo, *command: str) -> StudyInfo:
        return info.model_copy(update={"commands": (command,) if command else ()})

    one, all_of_it = by(train, "run", "--only", "training"), by(whole, "run")
    assert Study.start(tmp_path / "a", one).info.commands == (("run", "--only", "training"),)
    assert Study.start(tmp_path / "a", all_of_it).info.commands == (("run",),), "it plans the others' trials, too"
    assert Study.start(tmp_path / "a", by(whole, "run", "--results", "x")).info.commands == (("run",),)
    # Two that plan different trials, both run: the study is what both made of it.
    first = build(tmp_path / "b", factorial(axes, seeds=(0,), time=False))
    Study.start(tmp_path / "b", by(first.info, "run", "one"))
    second = build(tmp_path / "other", factorial(axes, seeds=(1,), time=False)).info
    assert Study.start(tmp_path / "b", by(second, "run", "two")).info.commands == (("run", "one"), ("run", "two"))
    # Of a study without any recorded command a later one would pass for the whole.
    build(tmp_path / "c", factorial(axes, seeds=(0,), time=False))
    assert Study.start(tmp_path / "c", by(second, "run", "two")).info.commands == ()


def test_an_old_study_s_command_has_its_data_seeds_and_device(tmp_path: Path) -> None:
    study = build(tmp_path / "study", factorial({"norm": ("pre", "post")}, seeds=(3, 5), device="cuda"))
    assert commands_of(study) == [
        ["vitbench", "run", "ablations/example.toml", "--set", "train.seeds=[3, 5]", "--device", "cuda"]
    ]
    timed = build(tmp_path / "timed", factorial({"norm": ("pre", "post")}, train=False))
    assert commands_of(timed) == [["vitbench", "time", "ablations/example.toml", "--device", "cpu"]]
