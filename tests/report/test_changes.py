"""Someone wants a result, and bends what was claimed beforehand: the report tells of it, by the real command line."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.bad_input import files_of
from tests.runner.runs import VITBENCH, Runs
from tests.small import SUITE
from vitbench.config.base import digest
from vitbench.report.sections.caveats import stated
from vitbench.report.view import View
from vitbench.store import StudyFolder

ABOUT = {"history-missing", "history-unreadable", "history-begins-late", "changed-after-results", "seeds-changed",
         "plan-edited", "removed-runs", "repeated-runs", "unlisted-results"}  # fmt: skip
CLAIMING = SUITE.replace('"Does it run?"', '"Does it run?"\nmargin = 0.5').replace("[train]", "[train]\nseeds = [0, 1]")
CLAIMING += """
[axes]
mlp = ["gelu", "relu"]
[[facts]]
claim = "ReLU is worse"
axis = "mlp"
value = "relu"
against = "gelu"
expected = "lower"
source = "a test"
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of two cells and two seeds that has been run."""
    runs = Runs(tmp_path_factory.mktemp("finished"), CLAIMING)
    runs.complete()
    return runs.folder


@pytest.fixture
def runs(finished: Path, tmp_path: Path) -> Runs:
    """A copy of the finished study, in a folder of its own."""
    copied = Runs(tmp_path / "copied", CLAIMING)
    shutil.copytree(finished / "study", copied.study)
    return copied


def caveats(runs: Runs) -> dict[str, str]:
    """Name of each caveat on the history → its sentences."""
    sentences: dict[str, str] = {}
    for name, sentence in stated(View(StudyFolder.read(runs.study))):
        if name in ABOUT:
            sentences[name] = sentences.get(name, "") + sentence
    return sentences


def again(runs: Runs, old: str = "", new: str = "") -> None:
    """Edit the suite, and run it once more."""
    text = runs.suite.read_text()
    assert old in text
    runs.suite.write_text(text.replace(old, new))
    runs.complete()


def entries(runs: Runs) -> list[str]:
    return sorted(path.name for path in (runs.study / "history").glob("*.json"))


def test_what_is_not_changed_is_not_told(runs: Runs) -> None:
    before = files_of(runs.study / "history")
    assert entries(runs) == ["1.json"]
    again(runs)
    again(runs, "Does it run?", "Does it run well?")
    assert before.items() <= files_of(runs.study / "history").items(), "a history only grows"
    assert entries(runs) == ["1.json", "2.json"], "an unchanged run adds nothing"
    assert caveats(runs) == {}, "and the words of a question decide nothing"


def test_a_wider_margin(runs: Runs) -> None:
    again(runs, "margin = 0.5", "margin = 4")
    ((name, sentence),) = caveats(runs).items()
    assert name == "changed-after-results" and "(after 4 runs): margin 0.5 → 4" in sentence
    text = runs.report()
    assert "changed after results" in text[: text.index("## Summary")], "above all numbers"
    assert sentence in text[text.index("## Caveats") :]
    again(runs, "margin = 4", "margin = 0.5")
    assert caveats(runs) == {}, "what was taken back moves nothing"
    assert entries(runs) == ["1.json", "2.json", "3.json"]


RELU = '[[variants]]\nname = "relu"\nset = { mlp = "relu", "train.learning_rate" = 0.003 }\n'
NAMED = '[[variants]]\nname = "gelu"\nset = { mlp = "gelu" }\n' + RELU


@pytest.mark.parametrize(
    ("edits", "sentence"),
    [
        ({"[train]": "[train]\nlearning_rate = 0.003"}, "learning_rate 0.001 → 0.003"),
        # The grid's cells with other labels, one of them under a recipe of its own: what cells have is compared.
        ({'axis = "mlp"\n': "", '[axes]\nmlp = ["gelu", "relu"]\n': NAMED}, "learning_rate 0.001 → 0.003 (relu)"),
        ({'expected = "lower"': 'expected = "higher"'}, "claim “ReLU is worse”: expected lower → higher"),
        ({'claim = "ReLU is worse"': 'claim = "ReLU is better"'}, "claim “ReLU is better” none → stated"),
    ],
    ids=["learning rate", "of one cell", "claim turned", "another claim"],
)
def test_what_is_changed_after_results_is_told(runs: Runs, edits: dict[str, str], sentence: str) -> None:
    for old, new in edits.items():
        assert old in runs.suite.read_text()
        runs.suite.write_text(runs.suite.read_text().replace(old, new))
    again(runs)
    changes = caveats(runs)["changed-after-results"]
    assert sentence in changes
    assert "better" not in sentence or "claim “ReLU is worse” stated → none" in changes


def test_the_worst_seeds_are_removed(runs: Runs) -> None:
    for trial in StudyFolder.read(runs.study).info.trials:
        if trial.trial.kind == "train" and trial.trial.seed == 1:
            (runs.study / "records" / f"{trial.id}-1.json").unlink()
    sentences = caveats(runs)
    assert sentences.keys() == {"removed-runs"} and "(2): gelu, seed 1; relu, seed 1." in sentences["removed-runs"]
    again(runs, "seeds = [0, 1]", "seeds = [0, 2]")
    sentences = caveats(runs)
    assert "seeds 1 left out, 2 added" in sentences["seeds-changed"]
    assert "(2): 2 of no planned cell" in sentences["removed-runs"]
    again(runs, "seeds = [0, 2]", "seeds = [0, 1, 2]")
    assert "(2): gelu, seed 1;" in caveats(runs)["repeated-runs"]


def test_a_cell_that_is_left_out(runs: Runs) -> None:
    """With another recipe, so that no plan has it; one that is added is corrected for, and no caveat."""
    again(runs, '"relu"]', '"relu", "silu"]')
    assert caveats(runs) == {}
    facts = CLAIMING.index("[[facts]]")
    again(runs, CLAIMING[facts:])
    again(runs, '"gelu", "relu", "silu"]', '"gelu", "silu"]')
    assert "cells" not in caveats(runs)["changed-after-results"], "the study keeps what it has"
    again(runs, "epochs = 1", "epochs = 2")
    assert "cells relu left out" in caveats(runs)["changed-after-results"]


def test_a_record_that_is_set_aside_is_not_said_to_be_removed(runs: Runs) -> None:
    path = next((runs.study / "records").glob("*.json"))
    path.write_text("{")
    assert caveats(runs) == {} and path.name in runs.report()


def test_a_history_that_is_removed_or_edited(runs: Runs) -> None:
    again(runs, "margin = 0.5", "margin = 4")
    entry = runs.study / "history" / "2.json"
    entry.write_text(entry.read_text().replace('"finished": 4', '"finished": 0'))
    sentences = caveats(runs)
    assert sentences.keys() == {"history-unreadable", "plan-edited"}
    assert "1 entry" in sentences["history-unreadable"] and "margin 0.5 → 4" in sentences["plan-edited"]
    shutil.rmtree(runs.study / "history")
    assert "history-missing" in caveats(runs)
    again(runs)
    ((name, sentence),) = caveats(runs).items()
    assert name == "history-begins-late" and "after 4 training runs" in sentence


STRANGE = {
    "cells": [5, ["a"]], "seeds": [["a"], [1]], "claim.x": [[1], {}], "claim.y": [{"expected": [[1]]}, {}],
    "suite.margin": [10**400, 1], "suite.test": [{"by cell": 1}, [[1], {"<b>": 2}]],
    "train.x": [{"by cell": {"gelu": 1}}, 1], "model.dim": [1, {"by cell": 7}], "data.y": [[], {"a": [1]}],
    "": [1, 2], "goal.<script>": [1, "|"],
}  # fmt: skip


@pytest.mark.parametrize("name", STRANGE)
def test_i16_entries_of_another_hand_end_no_report(runs: Runs, name: str) -> None:
    """The checksums are right: only what is in the entries tells that no vitbench wrote them."""
    folder, (old, new) = runs.study / "history", STRANGE[name]
    entry = json.loads((folder / "1.json").read_text())["entry"]
    entry["changed"][name] = [None, old]
    later = {**entry, "begins": False, "finished": 4, "changed": {name: [old, new]}}
    for file, body in (("1", entry), ("2", later), ("1000000000000", later)):
        (folder / f"{file}.json").write_text(json.dumps({"sha256": digest(body, 64), "entry": body}))
    assert "<script>" not in " ".join(caveats(runs).values())
    assert caveats(runs).keys() & {"changed-after-results", "seeds-changed", "history-unreadable"}


def test_a_plan_that_is_edited_by_hand_and_a_list_that_is_cut(runs: Runs) -> None:
    plan = runs.study / "study.json"
    plan.write_text(plan.read_text().replace('"margin": 0.5', '"margin": 4.0'))
    assert caveats(runs).keys() == {"plan-edited"} and "margin 0.5 → 4" in caveats(runs)["plan-edited"]
    for path in (runs.study / "history").glob("finished-*.log"):
        path.unlink()
    assert caveats(runs).keys() == {"plan-edited", "unlisted-results"}
    assert "finished runs: 4." in caveats(runs)["unlisted-results"]


KILLED = """
import os, signal, sys
from vitbench.store import history
def killed(self, more):
    if list(more):
        os.kill(os.getpid(), signal.SIGKILL)
history.History.add = killed
from vitbench.cli.main import main
main(sys.argv[1:])
"""


@pytest.mark.slow
def test_a_driver_that_is_killed_between_a_record_and_the_list(runs: Runs) -> None:
    shutil.rmtree(runs.study)
    command = [VITBENCH[0], "-c", KILLED, *runs.command()[3:]]
    assert subprocess.run(command, capture_output=True, check=False, timeout=120).returncode == -9
    assert len(list(runs.study.glob("records/*.json"))) == 1 and not list(runs.study.glob("history/*.log"))
    assert caveats(runs).keys() == {"unlisted-results"} and "finished runs: 1." in caveats(runs)["unlisted-results"]
    half = runs.study / "history" / "finished-0.log"
    half.write_text("\ntrain 0123")  # what another killed writer leaves
    again(runs)
    assert caveats(runs) == {} and half.exists()
    assert len({*StudyFolder.read(runs.study).history.finished()}) == 4


@pytest.mark.slow
def test_two_drivers_share_a_history(runs: Runs) -> None:
    shutil.rmtree(runs.study)
    drivers = [runs.start(log=f"log{i}") for i in range(2)]
    assert [driver.wait(timeout=300) for driver in drivers] == [0, 0]
    assert entries(runs) == ["1.json"] and caveats(runs) == {}
    assert len({*StudyFolder.read(runs.study).history.finished()}) == 4


@pytest.mark.slow
def test_another_folder_is_another_history(runs: Runs) -> None:
    again(runs, "margin = 0.5", "margin = 4")
    shutil.rmtree(runs.study)
    again(runs)
    assert caveats(runs) == {}
