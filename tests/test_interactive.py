"""Suites and studies in Python: what a script and a notebook get is what the command line gets."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest

import vitbench
from tests.conftest import REPOSITORY
from tests.report.builders import CellPlan, build, factorial
from tests.runner.runs import here, records_of, until
from tests.small import SUITE, record
from vitbench import interactive
from vitbench.config.reading import read_suite
from vitbench.config.suite_errors import SpecError
from vitbench.errors import UserError
from vitbench.own_source import definitions, set_by_running
from vitbench.runner.plan import plan
from vitbench.store import Record, StudyFolder, TrainValues

REFERENCE = REPOSITORY / "results" / "reference"
SCRIPT = '''
import torch
import vitbench
from vitbench.components.contracts import MLP

FACTOR = 2.0


@vitbench.component(slot="mlp", name="cubed", source="a test", exact=False)
class Cubed(MLP):
    """An MLP whose activation is 2 x^3."""

    def activate(self, x):
        return FACTOR * x**3


suite = vitbench.Suite(
    "mine",
    margin=5.0,
    model={"image_size": 16, "patch_size": 4, "dim": 32, "depth": 1, "heads": 2},
    data={"name": "synthetic", "resize": 16, "train_images": 100, "test_images": 50},
    train={"epochs": 1, "batch_size": 50, "seeds": 4},
    axes={"mlp": ["gelu", "cubed"]},
)
'''
"""No ``if __name__ == "__main__"``: a script's author need not know how trials are started."""


def losses(results: list[Record]) -> dict[str, float]:
    return {r.trial_id: r.values.test_loss for r in results if isinstance(r.values, TrainValues)}


def script(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "mine.py").write_text(SCRIPT + text)
    command = [sys.executable, "mine.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.slow
def test_a_script_runs_a_study_of_its_own_component_and_extends_it(tmp_path: Path) -> None:
    done = script(tmp_path, 'print("started")\nstudy = suite.run(device="cpu")\nprint(study.verdicts["n"].tolist())\n'
                            'print(study.extend(5).verdicts["n"].tolist())\n')  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("started") == 1, "no trial ran the script again"
    assert "[4]" in done.stdout and "[5]" in done.stdout
    by_script = records_of(tmp_path / "results" / "mine")
    of_mine = [r for r in by_script if r.environment is not None and r.environment.plugins]
    assert len(of_mine) == 5, "records have the digest of the component's text"

    made_by = StudyFolder.read(tmp_path / "results" / "mine").info.commands[0]
    again = here(*made_by, "--results", "by-command", cwd=tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr
    assert losses(records_of(tmp_path / "by-command")) == losses(by_script)


def started(folder: Path, epochs: int, wanted: str) -> subprocess.Popen[bytes]:
    """A script that runs a study, once a file of the study is there."""
    (folder / "mine.py").write_text(SCRIPT.replace('"epochs": 1', f'"epochs": {epochs}') + 'suite.run(device="cpu")\n')
    with (folder / "log").open("w") as log:
        running = subprocess.Popen([sys.executable, "mine.py"], cwd=folder, stdout=log, stderr=log)
    until(lambda: any((folder / "results" / "mine").glob(wanted)), f"no {wanted} in time", 120)
    return running


@pytest.mark.slow
def test_a_study_that_is_stopped_goes_on(tmp_path: Path) -> None:
    running = started(tmp_path, 30, "records/*.json")
    running.send_signal(signal.SIGINT)
    running.wait(timeout=60)
    assert running.returncode != 0 and "KeyboardInterrupt" in (tmp_path / "log").read_text()
    study = tmp_path / "results" / "mine"
    first = losses(records_of(study))
    assert 0 < len(first) < 8
    done = script(tmp_path, 'suite.text = suite.text.replace("epochs = 1", "epochs = 30")\nsuite.run(device="cpu")\n')
    assert done.returncode == 0 and f"{len(first)} of them finished before" in done.stdout, done.stdout + done.stderr
    after = losses(records_of(study))
    assert len(after) == 8 and first.items() <= after.items()


@pytest.mark.slow
def test_a_run_stops_where_its_script_is_killed(tmp_path: Path) -> None:
    running = started(tmp_path, 30_000, "leases/*")
    (run,) = (child for child in psutil.Process(running.pid).children() if "vitbench" in child.cmdline())
    running.kill()
    running.wait(timeout=60)
    until(lambda: not run.is_running(), "the run goes on without its script", 60)
    assert not any((tmp_path / "results" / "mine" / "leases").glob("*")), "it has stopped, as by Ctrl-C"


@pytest.mark.slow
def test_seeds_are_added_to_those_that_a_study_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # That it starts a process is seen above; a failure of this command leaves the seeds as they were.
    monkeypatch.setattr(interactive, "_run", lambda line: here(*line))
    study = vitbench.Suite(
        "mine", model={"image_size": 16, "patch_size": 4, "dim": 32, "depth": 1, "heads": 2},
        data={"name": "synthetic", "resize": 16, "train_images": 100, "test_images": 50},
        train={"epochs": 1, "batch_size": 50, "seeds": [3, 5]},
    ).run(device="cpu")  # fmt: skip
    with pytest.raises(UserError, match="has 2 seeds a cell already; 1 would be fewer"):
        study.extend(1)
    assert sorted(study.extend(4).trials["seed"]) == [0, 1, 3, 5]


@pytest.mark.parametrize(("changed", "devices"), [((), ["cpu", "cuda"]), (("train.epochs=7",), ["cuda"])], ids=str)
def test_seeds_are_added_on_each_device_that_trained(
    changed: tuple[str, ...], devices: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A training with another recipe takes the place of the first device's: that device has timings alone."""
    (suite := tmp_path / "small.toml").write_text(f"{SUITE}\n[time]\nmodes = ['inference']\n")
    for device, overrides in (("cpu", ()), ("cuda", changed)):
        info = plan(read_suite(suite, overrides, device=device), device)
        command = ("run", str(suite), *(part for each in overrides for part in ("--set", each)), "--device", device)
        study = StudyFolder.start(tmp_path / "study", info.model_copy(update={"commands": (command,)}))
        for planned in info.trials:
            study.write(record(planned.trial, "ok"))
    ran: list[Sequence[str]] = []
    monkeypatch.setattr(interactive, "_run", ran.append)
    vitbench.Study(study.path).extend(9)
    assert [line[line.index("--device") + 1] for line in ran] == devices
    assert all(list(line[-4:-2]) == ["--set", "train.seeds=9"] for line in ran)


def test_what_is_typed_at_a_prompt_is_refused_with_what_to_do(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "write it into a file and import that" in done.stderr


def test_a_module_s_component_can_be_built(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SCRIPT)
    text = "import mine, vitbench; print(vitbench.build(vitbench.ModelSpec(dim=32, heads=2, mlp='cubed')).spec.mlp)"
    done = subprocess.run([sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "cubed\n", done.stderr


def test_what_a_component_lacks_is_known_before_it_is_trained() -> None:
    """A value that a call sets, used by the class or by a function that it calls; a local name is none of it."""
    text = (
        "import os\nSCALE = float(os.environ['S'])\nmodel = make()\nTWICE = {'x': 2}\n"
        "def times(x): return x * SCALE\n"
        "def build():\n    model = TWICE\n    return model\n"
        "class A:\n    def f(self, x):\n        return times(x), build()\n"
        "class B:\n    def f(self, model):\n        return model, TWICE, os\n"
        "def show(): print(model)\n"
    )
    assert set_by_running([text], "A") == ["SCALE"]
    assert set_by_running([text], "B") == [] and set_by_running(["%matplotlib inline", text], "show") == ["model"]
    assert set_by_running([text, "SCALE = 3"], "A") == [], "defined after all"


LATE: Mapping[str, tuple[str, list[str]]] = {
    "a call after a plain value": ("N = 1.0\nN = float('3.0')\n", ["N"]),
    "a plain value after a call": ("N = float('3.0')\nN = 1.0\n", []),
    "added to": ("N = 2\nN += 1\n", ["N"]),
    "changed by a method": ("N = [1]\nN.append(3)\n", ["N"]),
    "a method that changes nothing of a module": ("import torch as N\nN.manual_seed(0)\n", []),
    "in a choice": ("import os\nif os.sep == '/':\n    N = 1\nelse:\n    N = 2\n", ["N"]),
    "in a loop": ("for N in range(3):\n    pass\n", ["N"]),
    "another's loop within": ("N = 2\nprint([N for N in (1, 2)])\n", []),
    "an import that may fail": ("try:\n    import math as N\nexcept ImportError:\n    N = None\n", []),
    "what follows an import": ("try:\n    import math\nexcept ImportError:\n    N = 1\nelse:\n    N = abs(2)\n", ["N"]),
    "an item": ("N = {}\nN['a'] = 1\n", []),
    "an item by a call": ("N = {}\nN['a'] = float('1')\n", ["N"]),
}


@pytest.mark.parametrize("before, unset", LATE.values(), ids=LATE)
def test_values_that_running_code_sets_are_refused_and_others_are_those_of_the_script(
    before: str, unset: list[str]
) -> None:
    text = f"{before}@component(source='x')\nclass A:\n    def f(self):\n        return N\n"
    assert set_by_running([text], "A") == unset
    if not unset:
        script, trial = ({"component": lambda **_: lambda cls: cls} for _ in range(2))
        exec(text, script)
        exec(definitions([text]), trial)
        assert script["A"]().f() == trial["A"]().f()


def test_definitions_are_what_a_component_needs_and_nothing_that_runs() -> None:
    first = (
        "import math\nhalf = 0.5\nrun = start()\n\n@component()\nclass A:\n    pass\n\ndef f(): return half\n\n"
        "def plot(): return 1\n"
    )
    assert definitions([first, "%matplotlib inline", "@component()\nclass A:\n    x = f()\n", "print(1)"]) == (
        "import math\n\nhalf = 0.5\n\ndef f(): return half\n\n@component()\nclass A:\n    x = f()\n"
    )


CELLS = """
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
later = ["GAIN = 50.0", "import os; os.chdir('/')", "def plot(): pass"]
again = "from vitbench import registry; registry.read_notebook_again(); print(registry.plugins()[0].text)"
for cell in ["GAIN = 1.0", "def grown(x): return GAIN * x", FIRST, *later, again]:
    assert shell.run_cell(cell, store_history=True).success
"""


def test_a_component_has_what_later_cells_make_of_what_it_uses(tmp_path: Path) -> None:
    pytest.importorskip("IPython")
    text = f"FIRST = {SCRIPT.replace('FACTOR * x**3', 'grown(x)')!r}\n{CELLS}"
    done = subprocess.run([sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "GAIN = 50.0" in done.stdout and "GAIN = 1.0" not in done.stdout and "plot" not in done.stdout


CHANGES: dict[str, object] = {"train.epochs": 3, "train.optimizer": "adamw"}


def ids(frame: pd.DataFrame) -> list[str]:
    return [str(each) for each in frame["trial_id"]]


def test_a_suite_of_the_package_is_planned_as_by_the_command_line() -> None:
    suite = vitbench.Suite.load("positions", small=True, changes=CHANGES)
    options = ["train.epochs=3", 'train.optimizer="adamw"']
    read = read_suite(REPOSITORY / "ablations" / "positions.toml", options, small=True, device="cpu")
    assert ids(suite.plan("cpu")) == [each.id for each in plan(read, "cpu").trials]
    assert suite.name == "positions-small" and "6 cells" in repr(suite)
    assert 'did you mean "relu"' in repr(vitbench.Suite(axes={"mlp": ["relo"]})), "shown, though it cannot be run"


def test_what_is_written_in_python_is_a_file_of_the_command_line(tmp_path: Path) -> None:
    model = vitbench.ModelSpec(image_size=(16, 24), patch_size=8, dim=32, heads=2, positions="rope_2d(base=1000)")
    train = {"epochs": 1, "batch_size": 50, "seeds": {"looks": [4, 6], "at_most": 6}}
    suite = vitbench.Suite(
        "mine", model=model, train=train, margin=1.5, seed=7, axes={"norm": ["pre", "post"]},
        data={"name": "synthetic", "resize": [16, 24], "train_images": 100, "test_images": 50},
        facts=[{"claim": "it is", "axis": "norm", "value": "post", "against": "pre", "expected": "lower",
                "source": "a test"}],
        time={"modes": ["inference"]},
    )  # fmt: skip
    (tmp_path / "other.toml").write_text(suite.to_toml())
    read = read_suite(tmp_path / "other.toml", device="cpu")
    assert ids(suite.plan("cpu")) == [each.id for each in plan(read, "cpu").trials]
    assert read.info.margin == 1.5 and len(read.facts) == 1 and read.cells[0].model.components == model.components


def test_values_of_a_suite_are_numpy_s_and_tables_too() -> None:
    suite = vitbench.Suite(train={"epochs": 1, "seeds": 4}, axes={"depth": np.arange(1, 3), "dim": range(32, 97, 64)})
    assert {cell.model.depth for cell in suite.read().cells} == {1, 2} and len(suite.read().cells) == 4
    changes = {"axes.positions": ["learned", "none", {"name": "rope_2d", "base": 50.0}], "train.seeds": {"at_most": 6}}
    of = vitbench.Suite.load("registers", changes=changes | {"suite.margin": 2}).read()
    assert "rope_2d(base=50)" in {cell.model.positions for cell in of.cells} and of.info.margin == 2


def test_every_table_is_a_keyword() -> None:
    tune = {"seeds": 2, "train.learning_rate": [1e-3, 3e-3]}
    goals = [{"cell": "pre", "test_accuracy": 90.0}]
    made = vitbench.Suite(
        axes={"norm": ["pre", "post"]}, train={"epochs": 1}, data={"name": "synthetic", "validation_images": 100},
        tune=tune, goals=goals, resources={"cpus": 1},
    ).read()  # fmt: skip
    assert made.tune is not None and made.tune.axes == {"train.learning_rate": (1e-3, 3e-3)}
    assert made.goals[0].test_accuracy == 90.0 and made.resources.cpus == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: vitbench.Suite(axes={"norm": ["pre", "postt"]}, train={"seeds": 4}).plan(), 'did you mean "post"'),
        (lambda: vitbench.Suite(train={"epochs": 0}).run(), "train.epochs"),
        (lambda: vitbench.Suite.load("positons"), 'did you mean "positions"'),
        (lambda: vitbench.Suite.load("positions", changes={"train.epoch": 3}).plan(), "train.epoch"),
        (lambda: vitbench.Suite.load("positions", changes={"suite.margin": None}), "suite.margin: .* cannot hold None"),
        (lambda: vitbench.Suite(axes={"depth": {1, 2}}), "axes.depth: .* cannot hold {1, 2}"),
    ],
)
def test_mistakes_are_said_before_anything_runs(make: Callable[[], object], message: str, tmp_path: Path,
                                                monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message) as raised:
        make()
    assert isinstance(raised.value, SpecError) or "no suite" in str(raised.value)
    assert not list(tmp_path.iterdir())


def test_a_notebook_prints_a_mistake_without_frames(tmp_path: Path) -> None:
    pytest.importorskip("IPython")
    text = """
from IPython.core.interactiveshell import InteractiveShell

InteractiveShell.instance().run_cell('import vitbench; vitbench.Suite(axes={"norm": ["pre", "postt"]}).read()')
"""
    done = subprocess.run([sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("SpecError: ") and 'did you mean "post"' in done.stdout, done.stdout + done.stderr
    assert "reading.py" not in done.stdout, "no file of the package"


def test_a_model_is_built_from_its_fields() -> None:
    assert vitbench.build({"dim": 32, "heads": 2}).spec == vitbench.ModelSpec(dim=32, heads=2)


def test_a_study_s_frames_agree_with_one_another() -> None:
    study = vitbench.Study(REFERENCE / "components-cpu")
    effects = study.effects().frame.set_index("name")
    verdicts = study.verdicts.query("family == 'effects'")
    of_norm = verdicts[verdicts["comparison"].str.startswith("norm: post")]
    assert [effects.loc["post", "points"]] == of_norm["difference_points"].tolist()
    right = 100 * study.predictions.groupby("trial_id")["correct"].mean()
    trained = study.trials.query("kind == 'train' and state == 'ok'").set_index("trial_id")["test_accuracy_pct"]
    pd.testing.assert_series_equal(right.sort_index(), trained.sort_index(), check_names=False)
    assert set(study.epochs["trial_id"]) == set(trained.index)
    assert set(study.timings["kind"]) == {"time"}
    page = study._repr_html_()
    assert "better" in page and "<img" in page and "sinusoidal" in repr(study)
    assert study.effects("norm").plot()._repr_png_().startswith(b"\x89PNG")


def test_what_has_no_result_yet_is_in_no_answer(tmp_path: Path) -> None:
    def begun(cell: CellPlan, kind: str, seed: int) -> tuple[str, str]:
        return ("pending" if cell.axes["norm"] == "post" else "ok"), ""

    axes = {"norm": ["pre", "post"], "positions": ["learned", "none"]}
    build(tmp_path / "begun", factorial(axes, state=begun, seeds=(0, 1, 2)))
    assert repr(vitbench.Study(tmp_path / "begun")).endswith(": none underpowered (positions, against learned)>")
    build(tmp_path / "untouched", factorial(axes, state=lambda *_: ("pending", ""), seeds=(0, 1, 2)))
    assert repr(vitbench.Study(tmp_path / "untouched")).endswith("no comparison has a result>")


def test_a_study_that_is_open_stays_as_it_was_read(tmp_path: Path) -> None:
    axes = {"norm": ["pre", "post"]}
    study = vitbench.Study(build(tmp_path / "study", factorial(axes, time=False, seeds=(0, 1, 2))).path)
    shutil.rmtree(tmp_path / "study")
    build(tmp_path / "study", factorial(axes, time=False, seeds=(0, 1, 2, 3)))
    assert [study.effects("norm", against=each).frame["n"].tolist() for each in ("pre", "post")] == [[3], [3]]


def test_effects_against_another_value_turn_round() -> None:
    study = vitbench.Study(REFERENCE / "components-cpu")
    one, other = (study.effects("norm", against=value).frame.iloc[0] for value in ("pre", "post"))
    assert (one["name"], other["name"]) == ("post", "pre")
    assert one["points"] == pytest.approx(-other["points"]) and one["low"] == pytest.approx(-other["high"])
    assert (one["verdict"], other["verdict"]) == ("worse", "better")
    for axis, against, message in (
        ("nrm", None, 'did you mean "norm"'),
        ("norm", "pst", 'did you mean "post"'),
        (None, "post", 'against="post": name the axis'),
    ):
        with pytest.raises(ValueError, match=message):
            study.effects(axis, against=against)


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path) -> None:
    """With an epoch in place of five: that it runs, and that a component of a cell reaches the trials."""
    nbformat = pytest.importorskip("nbformat")
    client = pytest.importorskip("nbclient")
    notebook = nbformat.read(REPOSITORY / "examples" / "first-study.ipynb", 4)
    for cell in notebook.cells:
        cell["source"] = cell["source"].replace('"epochs": 5', '"epochs": 1')
    place = {"metadata": {"path": str(tmp_path)}}
    client.NotebookClient(notebook, timeout=600, kernel_name="python3", resources=place).execute()
    assert [r.state for r in records_of(tmp_path / "results" / "snake")] == ["ok"] * 10
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    text = "".join(output.get("text", "") for output in outputs)
    assert "15/15" in text and "\x1b" not in text, "a line for each trial, no live view"
