"""The command that a report gives for its study is one that plans it again, by the real command line."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.report.builders import build, factorial, render
from tests.report.markdown import read_page
from tests.report.test_reference import STUDIES
from tests.runner.runs import here
from tests.small import SUITE
from tests.test_registry import PLUGIN
from vitbench.cli.main import cli
from vitbench.cli.studies import ONLY
from vitbench.config import read_suite
from vitbench.config.shipped import suite_file
from vitbench.report.document import Code
from vitbench.report.output import Files
from vitbench.report.sections import reproduce
from vitbench.report.view import View
from vitbench.runner.look_plan import Wanted, nothing_seen, nothing_stops
from vitbench.runner.plan import KINDS, plan
from vitbench.store import StudyFolder, StudyInfo


def commands_of(study: StudyFolder) -> list[list[str]]:
    """The command lines in a report's section, as a shell would take them apart."""
    (code,) = [block for block in reproduce.section(View(study), Files()) if isinstance(block, Code)]
    return [shlex.split(line) for line in code.text.splitlines()]


def parsed(line: list[str]) -> dict[str, Any]:
    """The parameters of a command line, read by the real parser."""
    program, verb, *arguments = line
    assert program == "vitbench"
    return cli.commands[verb].make_context(verb, arguments).params


def planned_by(line: list[str], wanted: Wanted = nothing_seen) -> StudyInfo:
    """The plan of a command line, its images in ./data; runs nothing. Of looks the first, or ``nothing_stops``: all."""
    verb, asked = line[1], parsed(line)
    laid = [re.sub("^data.path=.*/", "data.path=data/", override) for override in asked["overrides"]]
    suite = read_suite(
        suite_file(asked["suite"]), laid, asked["max_trials"], small=asked["small"], device=asked["device"],
        only=asked["cells"],
    )  # fmt: skip
    only = "timing" if verb == "time" else asked["only"]
    return plan(suite, asked["device"], kinds=ONLY[only] if only else KINDS, wanted=wanted)


def slow_if_large(folder: Path) -> list[pytest.MarkDecorator]:
    """Unpacking and decoding 60,000 images takes longer than all the plans."""
    return [pytest.mark.slow] if "cifar10-jpeg" in (folder / "study.json").read_text() else []


@pytest.mark.xdist_group("archives")
@pytest.mark.parametrize("folder", [pytest.param(p, id=p.name, marks=slow_if_large(p)) for p in STUDIES])
def test_the_command_of_a_reference_study_plans_its_trials(
    folder: Path, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ablations").symlink_to(REPOSITORY / "ablations")
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    study = StudyFolder.read(folder)
    images: Path = request.getfixturevalue("jpeg" if "jpeg" in study.info.data_name else "lossless")
    (tmp_path / "data" / images.name).symlink_to(images)
    lines = [line for line in commands_of(study) if line[1] != "explain"]
    least, most = ([planned_by(line, wanted) for line in lines] for wanted in (nothing_seen, nothing_stops))
    least_ids, most_ids = ({i for info in plans for i in info.trials.ids()} for plans in (least, most))
    assert least_ids <= set(study.info.trials.ids()) <= most_ids
    assert least_ids == most_ids or study.info.looks is not None
    assert {info.suite.name for info in least} == {study.info.suite.name}


def test_what_the_models_look_at_is_made_again_by_the_commands_of_the_report() -> None:
    """A study with explanations: its weights are kept, and each model that the report shows is explained."""
    study = StudyFolder.read(REPOSITORY / "results" / "reference" / "portraits-small")
    first, *others = commands_of(study)
    asked = parsed(first)
    assert first[1] == "run" and asked["keep_weights"] and asked["results"] is None
    weights = Path("results") / study.info.suite.name / "weights"
    explained = {file.stem for file in (study.path / "explanations").iterdir()}
    assert {parsed(line)["checkpoint"] for line in others} == {weights / f"{i}.safetensors" for i in explained}
    assert explained <= set(study.info.trials.ids())
    assert "--keep-weights" not in "".join(commands_of(StudyFolder.read(REPOSITORY / "results/reference/mae-small"))[0])


def test_explanations_of_a_study_lie_where_its_command_put_it(tmp_path: Path) -> None:
    study = build(tmp_path / "study", factorial({"norm": ("pre", "post")}, seeds=tuple(range(6)), time=False))
    info = study.info.model_copy(update={"commands": (("run", "mine.toml", "--results", "else where"),)})
    (tmp_path / "study" / "study.json").write_text(info.to_json())
    ids = info.trials.ids()
    folder = tmp_path / "study" / "explanations"
    folder.mkdir()
    for trial_id in [*ids[:2], "0" * 20]:
        (folder / f"{trial_id}.safetensors").write_bytes(b"")
    run, *explained = commands_of(StudyFolder.read(tmp_path / "study"))
    assert run == ["vitbench", "run", "mine.toml", "--results", "else where", "--keep-weights"]
    assert explained == [["vitbench", "explain", f"else where/weights/{i}.safetensors"] for i in ids[:2]]
    for trial_id in ids:
        (folder / f"{trial_id}.safetensors").write_bytes(b"")
    (_, loop) = commands_of(StudyFolder.read(tmp_path / "study"))
    assert loop[:4] == ["for", "file", "in", "else where/weights/*.safetensors;"]


SETS = ("--set", 'axes.attention=["sdpa", "batched"]', "--set", 'time.modes=["inference"]', "--set", "time.rounds=1",
        "--set", "time.iterations=2", "--set", "time.batch_sizes=[2]")  # fmt: skip


def test_what_was_asked_on_the_command_line_is_in_the_report(tmp_path: Path) -> None:
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "mine.toml").write_text(SUITE)
    (tmp_path / "own.py").write_text(PLUGIN.format(name="sine"))
    asked = ("suites/mine.toml", *SETS, "--plugin", str(tmp_path / "own.py"), "--results", "kept/here")
    done = here("time", *asked, "--device", "cpu", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    study = StudyFolder.read(tmp_path / "kept" / "here")
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

    def started(name: str, info: StudyInfo, *command: str) -> tuple[tuple[str, ...], ...]:
        """The commands that the study in a folder keeps once one more has started it."""
        return StudyFolder.start(tmp_path / name, info.model_copy(update={"commands": (command,)})).info.commands

    assert started("a", train, "run", "--only", "training") == (("run", "--only", "training"),)
    assert started("a", whole, "run") == (("run",),), "it plans the others' trials, too"
    assert started("a", whole, "run", "--results", "x") == (("run",),)
    # The same trials, judged otherwise: the old command would bring the old verdicts back.
    other = whole.model_copy(update={"suite": whole.suite.model_copy(update={"margin": 20.0})})
    assert started("a", other, "run", "--set", "suite.margin=20") == (("run", "--set", "suite.margin=20"),)
    assert started("a", other, "run", "--set", "suite.margin=20", "--results", "x")[0][-1] == "suite.margin=20"
    # Two that plan different trials, both run: the study is what both made of it.
    started("b", build(tmp_path / "b", factorial(axes, seeds=(0,), time=False)).info, "run", "one")
    second = build(tmp_path / "other", factorial(axes, seeds=(1,), time=False)).info
    assert started("b", second, "run", "two") == (("run", "one"), ("run", "two"))
    # Fewer seeds, judged otherwise: what is left of the first's, and the question of the second.
    fewer = second.model_copy(update={"suite": second.suite.model_copy(update={"margin": 20.0})})
    assert started("b", fewer, "run", "three") == (("run", "one"), ("run", "two"), ("run", "three"))
    # Of a study without any recorded command a later one would pass for the whole.
    build(tmp_path / "c", factorial(axes, seeds=(0,), time=False))
    assert started("c", second, "run", "two") == ()
