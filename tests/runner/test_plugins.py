"""A trial runs the plug-in that its driver read, and only one that it names; its record says which text that was."""

import hashlib
from pathlib import Path

import pytest

import vitbench
from tests.report.builders import CPU
from tests.runner.runs import Runs, plugins_apart
from tests.small import record, train_trial
from vitbench import registry
from vitbench.environment import code_digest
from vitbench.errors import UserError
from vitbench.store import Record

REFUSES = """
import multiprocessing
if multiprocessing.parent_process() is not None:
    raise RuntimeError("imported in a trial")
"""
SPOILS = """pathlib.Path(__file__).write_text("raise RuntimeError('edited')")"""
BOTH = ["--set", 'axes.mlp=["gelu", "faulty"]']
ALONE = ["--set", "model.mlp=faulty"]


def mlp(each: Record) -> str:
    return each.trial.model.mlp


def plugins(each: Record) -> dict[str, str]:
    assert each.environment is not None
    return each.environment.plugins


def test_a_plug_in_is_loaded_by_trials_that_name_it_alone(runs: Runs) -> None:
    """One that cannot be imported beside a trial fails those that need it, by name, and no other."""
    arguments = runs.plugin("pass")
    path = Path(arguments[1])
    path.write_text(path.read_text() + REFUSES)
    assert runs.run_here(*arguments, *BOTH, "--set", "suite.max_attempts=1").returncode == 1
    of = {mlp(each): each for each in runs.records()}
    assert (of["gelu"].state, of["faulty"].state) == ("ok", "failed")
    assert "faulty.py:" in of["faulty"].reason and "imported in a trial" in of["faulty"].reason
    assert plugins(of["gelu"]) == {} and plugins(of["faulty"]) == {"mlp.faulty": digest(path)}
    assert of["gelu"].code == code_digest() != of["faulty"].code


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


POOLED = """
import vitbench
from vitbench.components.contracts import Pooling


@vitbench.component(slot="pooling", name="greatest", source="a test", offers=("patches",))
class Greatest(Pooling):
    def forward(self, tokens):
        return tokens.amax(dim=1)
"""


@pytest.mark.slow
def test_timings_of_a_plug_in_are_read_without_it(runs: Runs) -> None:
    """And more seeds are not promised of a study whose last command asked for timings alone."""
    (plugin := runs.folder / "pooled.py").write_text(POOLED)
    with runs.suite.open("a") as suite:
        suite.write('[time]\nmodes = ["inference"]\nbatch_sizes = [4]\n')
    pooled = ["--set", 'axes.pooling=["cls", "greatest"]', "--only", "timing"]
    done = runs.run("--plugin", str(plugin), *pooled)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "greatest" in runs.report()
    with pytest.raises(UserError, match="was last run in part, by --only"):
        vitbench.Study(runs.study).extend(6)


@pytest.mark.slow
def test_f31_a_plug_in_that_is_edited(runs: Runs) -> None:
    """During a run it changes nothing; between runs the report tells of it, and --rerun-changed runs again."""
    arguments = [*runs.plugin(SPOILS), *ALONE]
    path = Path(arguments[1])
    text, before = path.read_text(), digest(path)
    runs.complete(*arguments, "--set", "train.seeds=[0, 1]")
    assert path.read_text().startswith("raise"), "it was edited by the first trial"
    assert [plugins(each) for each in runs.records()] == [{"mlp.faulty": before}] * 2

    path.write_text(text + "# another text\n")
    after = digest(path)
    printed = runs.complete(*arguments, "--set", "train.seeds=[0, 1, 2]")
    assert "2 results are of other code than this" in printed
    assert sorted(plugins(each)["mlp.faulty"] for each in runs.records()) == sorted([before, before, after])
    assert "**Results of a plug-in that was edited since: 2** (mlp.faulty)" in runs.report()

    path.write_text(text + "# another text\n")
    runs.complete(*arguments, "--set", "train.seeds=[0, 1, 2]", "--rerun-changed")
    assert len(runs.records()) == 5 and "that was edited since" not in runs.report()


def test_a_text_that_was_read_is_not_read_again(tmp_path: Path) -> None:
    text = (
        'import vitbench\n@vitbench.component(slot="mlp", name="own", source="a test")\nclass Own:\n    """Mine."""\n'
    )
    with plugins_apart():
        registry.load_plugin(tmp_path / "nowhere.py", text)
        assert registry.load("mlp", "own").__name__ == "Own"
        (plugin,) = registry.plugins({"mlp": "own", "attention": "sdpa"})
        assert plugin.text == text and registry.digests({"mlp": "own", "norm": "pre"}) == {"mlp.own": plugin.digest}
        assert registry.plugins({"mlp": "gelu"}) == ()


def test_a_record_without_a_plug_in_is_of_the_code_alone() -> None:
    plain = record(train_trial()).model_copy(update={"environment": CPU})
    assert plain.code == CPU.code
    own = CPU.model_copy(update={"plugins": {"mlp.own": "0" * 12}})
    assert plain.model_copy(update={"environment": own}).code not in (None, CPU.code)
