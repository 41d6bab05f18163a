"""Bad requests: devices, recipes that do not fit the data, folders of results, plug-ins (I21 to I27)."""

import ast
import json
import re
import shutil
from pathlib import Path

import pytest
import torch

from tests.bad_input import refused_here, suite_file
from tests.conftest import REPOSITORY
from tests.report.builders import CellPlan, Plan, build, factorial
from tests.runner.runs import here, sets
from vitbench import registry
from vitbench.component_facts import Facts
from vitbench.config import DataSpec, ModelSpec, TrainSpec
from vitbench.data.catalog import DatasetFacts, unfit
from vitbench.devices import DeviceError, resolve, unsupported
from vitbench.registry import PluginError, load_plugin
from vitbench.store import StudyError, StudyFolder, StudyInfo


def test_every_row_of_the_page_has_a_test_that_bears_its_number() -> None:
    """A test is named after the rows of docs/reliability.md that it keeps."""
    names = set()
    for path in Path(__file__).parent.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and (rows := re.match(r"test((?:_[fi]\d\d)+)_", node.name)):
                names |= set(re.findall(r"[fi]\d\d", rows[1]))
    page = (REPOSITORY / "docs" / "reliability.md").read_text(encoding="utf-8")
    assert names == {f"{kind.lower()}{int(row):02}" for kind, row in re.findall(r"^\| ([FI])(\d+) \|", page, re.M)}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_i21_a_gpu_that_is_not_there_is_never_replaced(tmp_path: Path) -> None:
    message = refused_here(tmp_path, "run", suite_file(tmp_path), "--device", "cuda:7")
    build_of = "a CPU build" if torch.version.cuda is None else f"built for CUDA {torch.version.cuda}"
    assert message == f"vitbench: cuda:7 requested, and torch {torch.__version__}, {build_of}, sees no GPU\n"


def test_i21_each_kind_of_absent_device_has_its_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.version.cuda", None)
    with pytest.raises(DeviceError, match=r"^cuda requested, and torch \S+, a CPU build, sees no GPU$"):
        resolve("cuda")
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    with pytest.raises(DeviceError, match="mps requested, and this machine or this build of torch has none"):
        resolve("mps")
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    with pytest.raises(DeviceError, match="cuda:7 requested, and there are 2 CUDA devices"):
        resolve("cuda:7")


@pytest.mark.parametrize("device", ["tpu", "cuda:x", "cuda:", "cuda:-1", "cpu:0", "CPU", "", "cuda:0:1"])
def test_i21_what_is_no_device(device: str) -> None:
    with pytest.raises(DeviceError, match=f'^"{device}" is no device; allowed: auto, cpu, cuda, cuda:0, …, mps$'):
        resolve(device)


def test_i22_a_dtype_or_a_package_that_is_missing_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._plugin_facts, ("mlp", "half"), Facts(source="a test", dtypes=("float16",)))
    half = ModelSpec(mlp="half").unsupported("cuda", "bfloat16", training=True)
    assert half == 'mlp "half" runs in float16, not in bfloat16'
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda device: (7, 5))
    monkeypatch.setattr("torch.cuda.get_device_name", lambda device: "Old GPU")
    reason = unsupported(ModelSpec(), torch.device("cuda", 0), "bfloat16", training=True)
    assert reason == "Old GPU has no bfloat16"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    missing = ModelSpec(attention="triton", dim=64, heads=1)
    reason = unsupported(missing, torch.device("cuda", 0), "float32", training=False)
    assert reason == 'attention "triton" needs the package triton, which is not installed'


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (("data.train_images=1", "data.validation_images=0"), "data.train_images: 1, and training takes 2 at least"),
        (("data.train_images=41",), "data.train_images: 41 less 40 for validation is 1, and training takes 2 at least"),
        (("data.train_images=40",), "data.validation_images: 40 leaves nothing of 40 training images"),
        (("model.num_classes=1",), "model.num_classes: 1, but synthetic has 10 classes"),
        (("model.num_classes=11",), "model.num_classes: 11, but synthetic has 10 classes"),
        (("data.colour_classes=1", "data.texture_classes=0", "data.position_classes=0", "model.num_classes=1"),
         "1, and telling apart takes two"),
        (("axes.train.batch_size=[20, 500]",), "train.batch_size: 500, but there are only 160 training images (200 "),
        (("tune.train.batch_size=[50, 1000]",), "train.batch_size: 1000, but there are only 160 training images"),
    ],
)  # fmt: skip
def test_i23_too_few_images_or_classes(tmp_path: Path, changes: tuple[str, ...], expected: str) -> None:
    message = refused_here(tmp_path, "plan", suite_file(tmp_path), *sets(*changes), "--device", "cpu")
    assert f"suite.toml: {expected}" in message or (expected in message and "telling apart" in expected)


def test_i23_as_many_images_as_a_batch_are_enough() -> None:
    known = DatasetFacts(16, 2, 50, 10)
    assert unfit(TrainSpec(batch_size=50), DataSpec(), known) == []
    assert unfit(TrainSpec(batch_size=51), DataSpec(), known) != []
    assert unfit(TrainSpec(batch_size=51), DataSpec(name="image_folder"), None) == [], "known once it has been read"


AXES = {"norm": ("pre", "post"), "positions": ("learned", "none")}


def study_of(folder: Path) -> Path:
    """A finished study of another suite."""
    return build(folder, Plan([CellPlan("a", {})], name="other", time=False)).path


def test_i25_results_of_another_suite_are_not_mixed(tmp_path: Path) -> None:
    study_of(tmp_path / "theirs")
    for command in ("run", "plan"):
        message = refused_here(tmp_path, command, suite_file(tmp_path), "--results", "theirs", "--device", "cpu")
        assert message == (
            'vitbench: theirs: holds the study "other", not "small"; choose another folder with --results\n'
        )


@pytest.mark.parametrize(
    ("command", "whose", "step"),
    [*((each, "a newer", 1) for each in ("status", "report", "compare", "run", "plan")), ("status", "an older", -1)],
)
def test_i25_results_of_another_version_are_refused_by_name(
    tmp_path: Path, command: str, whose: str, step: int
) -> None:
    file = study_of(tmp_path / "theirs") / "study.json"
    latest = StudyInfo.model_fields["schema_version"].default
    file.write_text(json.dumps(json.loads(file.read_text()) | {"schema_version": latest + step, "a_field": [1]}))
    suite = suite_file(tmp_path)
    arguments = {"compare": ("theirs", "theirs"), "run": (suite, "--results", "theirs", "--device", "cpu"),
                 "plan": (suite, "--results", "theirs", "--device", "cpu")}  # fmt: skip
    message = refused_here(tmp_path, command, *arguments.get(command, ("theirs",)))
    assert re.fullmatch(
        rf"vitbench: theirs/study\.json: written by {whose} vitbench: schema version {latest + step}, and this one "
        rf"\(\S+\) reads {latest}; use that version, or choose another folder with --results\n",
        message,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "cannot be read: "),
        ("[" * 100_000, "cannot be read: "),
        ("[]", "cannot be read: "),
        ("{}", "cannot be read: suite: Field required (and "),
        ('{"schema_version": 0}', "cannot be read: schema_version: "),
        ('{"schema_version": "2"}', "cannot be read: schema_version: "),
        ('{"schema_version": 1e999}', "cannot be read: "),
    ],
)
def test_i25_a_plan_that_is_none(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "study.json").write_text(text)
    with pytest.raises(StudyError) as caught:
        StudyFolder.read(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / 'study.json'}: {expected}") and "\n" not in str(caught.value)


def test_i25_a_plan_whose_ids_belong_to_other_trials(tmp_path: Path) -> None:
    study = build(tmp_path, factorial(AXES, time=False)).path
    whole = json.loads((study / "study.json").read_text())
    first, second = (row[0] for row in whole["trials"]["rows"][:2])
    whole["trials"]["rows"][0][0] = second
    (study / "study.json").write_text(json.dumps(whole))
    with pytest.raises(StudyError, match=f"2 of the plan's trials are not what they say: trial {second} has the id "
                                         f"{first}; trial {second} is there twice"):  # fmt: skip
        StudyFolder.read(study)


@pytest.mark.parametrize("command", ["status", "report", "compare"])
@pytest.mark.parametrize("what", ["missing", "empty", "file"])
def test_i26_a_folder_that_holds_no_study(tmp_path: Path, command: str, what: str) -> None:
    folder = tmp_path / "folder"
    if what == "empty":
        folder.mkdir()
    elif what == "file":
        folder.write_text("no study")
    message = refused_here(tmp_path, command, *(["folder"] * (2 if command == "compare" else 1)))
    expected = {
        "missing": "does not exist" if command == "compare" else "folder: holds no study (no study.json)",
        "empty": "folder: holds no study (no study.json); `vitbench run SUITE` makes one",
        "file": "not JSON" if command == "compare" else "is a file",
    }
    assert expected[what] in message and "folder" in message


def test_i26_a_report_that_cannot_be_written(tmp_path: Path) -> None:
    study_of(tmp_path / "study")
    (tmp_path / "taken").write_text("")
    message = refused_here(tmp_path, "report", "study", "--out", "taken/report")
    assert "taken/report" in message and "cannot be written: Not a directory" in message


@pytest.mark.parametrize("command", ["report study --out page", "status study"])
def test_i26_records_that_cannot_be_listed(command: str, tmp_path: Path) -> None:
    study_of(tmp_path / "study")
    shutil.rmtree(tmp_path / "study" / "records")
    (tmp_path / "study" / "records").write_text("")
    message = refused_here(tmp_path, *command.split())
    assert "study/records: cannot be read: Not a directory" in message


PLUGIN = '''
from vitbench import component
from vitbench.components.contracts import MLP

@component(slot="mlp", name="{name}", source="test")
class Mine(MLP):
    """Mine."""
    def activate(self, hidden):
        return hidden.sin()
'''
GOOD = PLUGIN.format(name="a")


def test_i27_plugin_that_is_missing(tmp_path: Path) -> None:
    message = refused_here(tmp_path, "plan", suite_file(tmp_path), "--plugin", "mine.py")
    assert message == f"vitbench: {tmp_path.resolve() / 'mine.py'}: no such file\n"


BAD_PLUGINS: dict[str, tuple[str | bytes, str]] = {
    "import error": ("import nonsense_of_mine\n" + GOOD, ":1: ModuleNotFoundError: No module named"),
    "raises": (GOOD + "1 / 0\n", ":10: ZeroDivisionError: division by zero"),
    "exits": (GOOD + "raise SystemExit(0)\n", ":10: SystemExit: 0"),
    "syntax": ("x = 1\ndef broken(:\n", ":2: "),
    "existing name": (PLUGIN.format(name="gelu"), ':5: mlp "gelu" exists already'),
    "exact as nothing": (
        GOOD.replace('source="test"', 'source="test", exact=True'),
        ":5: exact=True, but mlp has no reference that it could be compared with",
    ),
    "second reference": (
        GOOD.replace('"mlp"', '"attention"').replace('"test"', '"test", exact=True, reference=True'),
        ':5: reference=True, but the reference of attention is "batched"',
    ),
    "same name twice": (GOOD * 2, ':5: mlp "a" exists already'),
    "name of a device": (PLUGIN.format(name="con"), ':5: "con" is not a name: Windows keeps it for a device'),
    "name that is a path": (PLUGIN.format(name="../x"), ':5: "../x" is not a name'),
    "unknown fact": (GOOD.replace("source=", "sauce="), ':5: unknown fact "sauce"; did you mean "source"?'),
    "no literal": (GOOD.replace('"test"', "str(1)"), ":5: source must be a literal"),
    "no slot": (GOOD.replace('slot="mlp", ', ""), ":5: a plug-in's component must give slot=... and name=..."),
    "unknown slot": (GOOD.replace('"mlp"', '"mpl"'), ':5: "mpl" is not a slot; did you mean "mlp"?'),
    "unknown device": (GOOD.replace('"test"', '"t", devices=("gpu",)'), ":5: "),
    "no option": (GOOD.replace('"test"', '"t", options={"b": 1.0}'), ":5: "),
    "no text": (b"\xff\xfe\x00", ": 'utf-8' codec can't decode"),
    "null byte": (b"x = 1\x00", ":1: source code string cannot contain null bytes"),
    "deep": ("x = " + "-" * 100_000 + "1", ": "),
    "no component": ("x = 1\n", ": registers no component; decorate a class with @vitbench.component(...)"),
}


@pytest.mark.parametrize("how", BAD_PLUGINS)
def test_i27_plugin_errors_name_module_and_line(tmp_path: Path, how: str) -> None:
    text, expected = BAD_PLUGINS[how]
    plugin = tmp_path / "mine.py"
    plugin.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(PluginError) as caught:
        load_plugin(plugin)
    assert str(caught.value).startswith(f"{plugin.resolve()}{expected}")


def test_i27_plugin_of_another_suffix(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text(PLUGIN.format(name="a"))
    with pytest.raises(PluginError, match=r"mine\.txt: a plug-in is a Python file, \*\.py"):
        load_plugin(tmp_path / "mine.txt")


def test_i27_plugins_are_said_to_be_code_that_is_trusted() -> None:
    sentence = "A plug-in is code and runs with your rights: pass only files that you trust."
    assert sentence in (REPOSITORY / "docs" / "guide" / "components.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", ["plan", "time"])
def test_i33_more_gpus_than_a_trial_can_use(tmp_path: Path, command: str) -> None:
    message = refused_here(tmp_path, command, suite_file(tmp_path), "--set", "resources.gpus=2")
    why = "2, but a trial runs on one GPU: 1 at the most, or a fraction where several share one"
    assert message == f"vitbench: suite.toml: resources.gpus: {why}\n"


UNBUILDABLE = {
    "raises": ("def __init__(self, spec):\n        super().__init__(spec)\n        raise RuntimeError('no')", 9,
               "RuntimeError: no"),
    "takes more": ("def __init__(self, spec, more):\n        super().__init__(spec)", 5, "TypeError: "),
    "abstract": ("@property\n    def hidden(self):\n        return self.missing\n    def __init__(self, spec):\n"
                 "        self.a = self.b", 11, "AttributeError: "),
}  # fmt: skip


@pytest.mark.parametrize("how", UNBUILDABLE)
def test_i34_a_plug_in_that_cannot_be_built_is_told_by_plan(tmp_path: Path, how: str) -> None:
    body, line, reason = UNBUILDABLE[how]
    (tmp_path / "mine.py").write_text(
        "from vitbench import component\nfrom vitbench.components.contracts import MLP\n\n\n"
        f'@component(slot="mlp", name="mine", source="test")\nclass Mine(MLP):\n    {body}\n'
    )
    arguments = ("plan", suite_file(tmp_path), "--plugin", "mine.py")
    message = refused_here(tmp_path, *arguments, "--set", "model.mlp=mine")
    assert message.startswith(f'vitbench: {tmp_path / "mine.py"}:{line}: mlp "mine" cannot be built: {reason}')
    assert here(*arguments, cwd=tmp_path).returncode == 0, "no model has it"
