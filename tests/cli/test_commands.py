"""The command line as a user types it."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from tests.conftest import REPOSITORY
from tests.runner.runs import here
from tests.small import SUITE
from vitbench import load, registry
from vitbench.cli.main import cli
from vitbench.runner import device_kind
from vitbench.runner.doctor import _torch

COMPONENTS = str(REPOSITORY / "ablations" / "components.toml")


def test_plan_lists_every_trial_and_runs_nothing_and_a_gpu_takes_all_of_the_images(tmp_path: Path) -> None:
    """By the same command: what the suite says of the device's type takes the place of what it says of all."""
    done = [here("plan", COMPONENTS, "--device", device, cwd=tmp_path) for device in ("cpu", "cuda")]
    assert [each.returncode for each in done] == [0, 0], done
    outputs = [each.stdout for each in done]
    assert "138 trials (90 train, 48 time; 48 cells; 0 excluded; 24 unsupported on cpu), 114 left to run" in outputs[0]
    assert outputs[0].count("conv · sdpa · pre · learned") == 2 and outputs[0].count("seed 7") == 6
    assert list(tmp_path.iterdir()) == []
    assert "batch 64" in outputs[0] and "batch 256" not in outputs[0] and "float32" in outputs[0]
    assert "batch 256" in outputs[1] and "batch 64" not in outputs[1] and "bfloat16" in outputs[1]
    flops = [float(re.findall(r"cost of what is left: ([\d,.]+) TFLOP", text)[0].replace(",", "")) for text in outputs]
    assert flops[1] > 20 * flops[0]
    (tmp_path / "small.toml").write_text(SUITE)
    small = here("plan", "small.toml", "--device", "cpu", cwd=tmp_path).stdout
    assert 0 < float(re.findall(r"cost of what is left: ([\d.]+) GFLOP", small)[0]) < 100


@pytest.mark.parametrize(("option", "value", "launcher"), [("engine", "a=b", "slurm"), ("address", "host:1", "ray")])
def test_an_option_of_a_launcher_that_is_not_asked_for_is_a_mistake(option: str, value: str, launcher: str) -> None:
    done = here("run", COMPONENTS, f"--{option}", value)
    assert done.returncode == 2 and f"--{option}: is for --launcher {launcher}" in done.stderr


def test_a_plan_for_a_gpu_knows_no_pace_of_a_cpu_and_says_that_none_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_kind, "NODES", ())  # as on a machine without one, wherever this runs
    timed = [COMPONENTS, "--set", "train.seeds=9", "--results", str(REPOSITORY / "results/reference/components-cpu")]
    here_, there = (here("plan", *timed, "--device", device).stdout for device in ("cpu", "cuda"))
    assert "at the pace of this study's finished trials" in here_ and "no GPU" not in here_
    assert "time unknown until a trial has been measured" in there and "notice: this machine shows no GPU" in there


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("run posi", {"positions"}),
        ("components qk", {"qk_norm"}),
        ("plan positions --set model.qk_norm=r", {"model.qk_norm=rmsnorm"}),
        ("plan positions --set train.warm", {"train.warmup_epochs="}),
        ("summary simple", {"simple-vit"}),
        ("data fash", {"fashion_mnist"}),
        ("init mine --from posi", {"positions"}),
    ],
)
def test_a_shell_completes_names(typed: str, offered: set[str]) -> None:
    *words, last = typed.split()
    answers = ShellComplete(cli, {}, "vitbench", "_VITBENCH_COMPLETE").get_completions(words, last)
    assert {each.value for each in answers if each.type == "plain"} == offered


REFERENCE = REPOSITORY / "results" / "reference"
TIMED, TRAINED = str(REFERENCE / "attention-timing-cpu"), str(REFERENCE / "pooling-small")
TORCH, NUMBERS = {"torch", "triton"}, {"pandas", "numpy", "scipy"}


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (("components", "attention"), TORCH | NUMBERS),
        (("plan", COMPONENTS), TORCH | NUMBERS),
        (("compare", TIMED, TIMED), TORCH),
        (("report", TRAINED), TORCH | {"matplotlib.pyplot", "scipy.stats", "seaborn"}),
    ],
)
def test_what_a_command_has_no_use_for_is_not_loaded(
    arguments: tuple[str, ...], heavy: set[str], tmp_path: Path
) -> None:
    """Not even numpy, unless something is judged: planning has the formulas of its own."""
    code = (
        "import sys\nfrom vitbench.cli.main import main\n"
        f"try:\n    main({list(arguments)!r})\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        f"assert not {heavy!r} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert arguments[0] != "plan" or "the smallest effect found 80% of the time" in done.stdout


def test_a_listing_waits_for_no_validator_to_be_built() -> None:
    code = (
        "from vitbench.cli.main import main\nfrom vitbench.config.base import Strict\n"
        "try:\n    main(['components', 'attention'])\nexcept SystemExit:\n    pass\n"
        "built = [each.__name__ for each in Strict.__subclasses__() if each.__pydantic_complete__]\n"
        "assert Strict.__subclasses__() and not built, built"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_components_shows_what_is_exact_and_where_it_runs() -> None:
    lines = [" ".join(line.split()) for line in here("components", "attention").stdout.splitlines()]
    (triton,) = (line for line in lines if line.startswith("triton "))
    (flex,) = (line for line in lines if line.startswith("flex "))
    assert triton.startswith("triton exact cuda ") and flex.startswith("flex exact cpu (inference) cuda ")
    assert len(lines) == 1 + len(registry.names("attention"))
    assert "did you mean" in here("components", "atention").stderr


def test_components_with_all_that_is_known_of_each() -> None:
    everything = json.loads(here("components", "--json").stdout)
    assert set(everything) == set(registry.slots())
    assert everything["attention"]["triton"]["devices"] == ["cuda"] and everything["attention"]["sdpa"]["exact"]
    text = here("components", "qk_norm", "--verbose").stdout
    for name, facts in json.loads(here("components", "qk_norm", "--json").stdout)["qk_norm"].items():
        assert f"\n{name} " in text and facts["source"] in text


def test_a_mistake_is_a_message_and_status_2(tmp_path: Path) -> None:
    """Those of suites, devices, folders and plug-ins: tests/test_bad_input_*.py."""
    for arguments, expected in (
        (("plan", "absent.toml"), "absent.toml: No such file"),
        (("run", COMPONENTS, "--launcher", "magic"), "'magic' is not"),
        (("run",), "Missing argument"),
        (("plam",), "No such command 'plam'"),
    ):
        done = here(*arguments, cwd=tmp_path)
        assert done.returncode == 2 and expected in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_one_cell_of_a_suite_by_its_name(tmp_path: Path) -> None:
    suite = tmp_path / "suite.toml"
    heads = '[[variants]]\nname = "{} head"\nset = {{ heads = {} }}\n'
    suite.write_text(SUITE + heads.format("one", 1) + heads.format("two", 2))
    done = here("plan", str(suite), "--device", "cpu", "--cell", "two head", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "; 1 cell;" in done.stdout and "two head" in done.stdout and "one head" not in done.stdout
    wrong = here("plan", str(suite), "--cell", "two haed", cwd=tmp_path)
    assert wrong.returncode == 2
    assert '--cell "two haed": no cell of suite.toml; did you mean "two head"?' in wrong.stderr


@pytest.mark.parametrize("command", [["components"], ["status", "results/reference/planted"]])
def test_output_that_cannot_be_written_is_said_in_a_sentence(command: list[str]) -> None:
    line = [sys.executable, "-m", "vitbench", *command]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(line, cwd=REPOSITORY, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "vitbench: output cannot be written: No space left on device\n")


def test_debug_shows_the_traceback() -> None:
    command = [sys.executable, "-m", "vitbench", "--debug", "plan", "absent.toml"]
    assert "Traceback" in subprocess.run(command, capture_output=True, text=True, check=False).stderr


INTERRUPTED = """
import builtins, os, signal
from vitbench.__main__ import main
real = builtins.__import__
def slow(name, *rest, **more):
    if name == "vitbench.cli.main":
        os.kill(os.getpid(), signal.SIGINT)
    return real(name, *rest, **more)
builtins.__import__ = slow
main()
"""


def test_ctrl_c_while_a_command_is_imported_is_quiet() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_run_status_report_and_load(tmp_path: Path) -> None:
    """The main job from start to end, in a folder of its own, with defaults for every place."""
    (tmp_path / "small.toml").write_text(SUITE)
    grid = ("--set", 'axes.attention=["sdpa", "triton"]', "--set", "time.rounds=1", "--device", "cpu")
    assert here("run", "small.toml", *grid, cwd=tmp_path).returncode == 0
    status = here("status", "results/small", cwd=tmp_path).stdout
    assert "6 trials: 3 ok, 3 unsupported" in status and 'attention "triton" runs on cuda' in status
    report = here("report", "results/small", cwd=tmp_path)
    assert report.returncode == 0, report.stderr
    page = tmp_path / "reports" / "small" / "index.html"
    answer, page_printed = report.stdout.strip().rsplit("\n", 1)
    assert page_printed.startswith("reports/small/index.html  (") and answer.startswith("Small\n")
    assert here("report", "results/small", "--print", "short", cwd=tmp_path).stdout.strip() == answer
    assert "unsupported" in page.read_text() and list((page.parent / "figures").glob("*.png"))
    frame = load(tmp_path / "results" / "small")
    assert len(frame) == 6 and set(frame["state"]) == {"ok", "unsupported"}
    row = frame[(frame["kind"] == "train") & (frame["attention"] == "sdpa")].iloc[0]
    (file,) = (tmp_path / "results" / "small" / "records").glob(f"{row['trial_id']}-*")
    assert row["test_accuracy_pct"] == json.loads(file.read_text())["record"]["values"]["test_accuracy_pct"]


@pytest.mark.parametrize(
    ("torch", "message"),
    [
        ("raise ImportError('no libcudart')", "does not import (ImportError: no libcudart): pip install torch"),
        ("import os; os._exit(3)", "does not import (ended with exit status 3): pip install torch"),
    ],
)
def test_doctor_says_what_to_do_where_torch_does_not_import(
    torch: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch.py").write_text(torch)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert {finding.subject: finding for finding in _torch()}["torch"].text.startswith(message)


@pytest.mark.parametrize("library", ["_C.so", "_C_stable.so", "none"])
def test_doctor_names_a_torchvision_of_another_build(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One whose operators this torch cannot load, or that has none."""
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text("")
    (tmp_path / "torchvision" / library).write_bytes(b"of another build")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    findings = {finding.subject: finding for finding in _torch()}
    version, text = findings["torch"].text.split(",")[0], findings["torchvision"].text
    assert findings["torchvision"].level == "bad" and text.startswith(f"does not fit torch {version} (")
    assert "CPU-only torch" in text and (library in text or "nms" in text)


def test_doctor_says_what_works() -> None:
    done = here("doctor")
    assert done.returncode == 0 and "torchvision: " in done.stdout and "BAD" not in done.stdout
