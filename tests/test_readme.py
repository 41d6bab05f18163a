"""The files, commands and code of the README and the guide, executed from top to bottom as a newcomer would."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.conftest import REPOSITORY, copy_some
from tests.runner.runs import here

CHAPTERS = ("suites", "python", "reports", "verdicts", "timing", "training", "components")
PAGES = [REPOSITORY / "README.md", *(REPOSITORY / "docs" / "guide" / f"{name}.md" for name in CHAPTERS)]
BLOCKS = {
    page.stem: re.findall(r"```(bash|python|toml)\n(.*?)```", page.read_text(), flags=re.DOTALL) for page in PAGES
}
MAKE = [
    line for blocks in BLOCKS.values() for _, text in blocks for line in text.splitlines() if line.startswith("make")
]


Done = subprocess.CompletedProcess[str]

SMALLER = " --set train.epochs=1 --set data.train_images=600 --set time.rounds=1 --set 'axes.norm=[\"pre\"]'"
"""Added to the GPU's command: the whole grid takes minutes."""


def environment() -> dict[str, str]:
    """`vitbench` and `python` are this environment's."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


QUICK = {
    "attention-timing": """ --set 'axes.attention=["sdpa", "triton"]' """
    """--set 'axes.shape=[{name = "short", set = {dim = 64}}]' --set time.cpu.rounds=2 --set time.cpu.iterations=5""",
    "runtimes": """ --set 'axes.runtime=["eager", "onnxruntime"]' --set time.rounds=1 --set time.cpu.iterations=3""",
}
"""Two components of suites that take minutes."""


FEWER = " --set train.seeds=[0]"  # For all but the first example, which has to end in an answer
SHORTER = " --set train.epochs=1"  # And where they have a study of their own


PRINTED = {
    "stats.compare(": ("gated", "better", "equivalent"),
    "to_timm(": ("sinusoidal_2d", "tensors for timm"),
    "vitbench.build(": ("parameters",),
    "vitbench.Study(": ("sinusoidal_2d", "points", "better"),
}
"""What a piece of Python that makes this call prints."""


def less(line: str) -> str:
    """What makes a command of the README take less time, and say as much."""
    if "--device cuda" in line:
        return SMALLER if torch.cuda.is_available() else ""
    if line.startswith("vitbench time"):
        return QUICK[line.split()[2]]
    if not line.startswith("vitbench run my-suite.toml -"):
        return ""
    return FEWER + SHORTER if "--results" in line else FEWER


def at(command: str, cwd: Path) -> Done:
    """A command of the guide, in this process where it is vitbench alone: a start takes seconds."""
    program, *arguments = shlex.split(command)
    return here(*arguments, cwd=cwd) if program == "vitbench" else sh(command, cwd)


def sh(command: str, cwd: Path) -> Done:
    return subprocess.run(
        ["bash", "-ec", command], cwd=cwd, env=environment(), capture_output=True, text=True, timeout=900, check=False
    )


def run(blocks: list[tuple[str, str]], folder: Path, call: Callable[[str, Path], Done] = sh) -> dict[str, str]:
    """Command → what it printed; files are written to the folder, and all else runs in it, by ``call``."""
    printed = {}
    for kind, text in blocks:
        if kind != "bash" and (file := re.match(r"# (\S+\.(?:py|toml))\n", text)):
            if "/" not in file[1]:  # one that goes into the package is put there by test_extending.py
                (folder / file[1]).write_text(text)
            continue
        if kind == "python":
            done = subprocess.run([sys.executable, "-c", text], cwd=folder, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            expected = next(words for call, words in PRINTED.items() if call in text)
            assert all(word in done.stdout for word in expected), done.stdout
            continue
        for line in text.splitlines():
            if line in MAKE:
                continue  # in test_make_ablations, and this is `make test`
            done = call(line + less(line), folder)
            if "--device cuda" in line and not torch.cuda.is_available():
                assert done.returncode == 2 and "cuda requested" in done.stderr
            elif line.startswith("vitbench compare"):  # two quick timings of one thing may differ by more than 5 %
                assert done.returncode in (0, 1) and "attention" in done.stdout, done.stdout + done.stderr
            else:
                assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
            printed[line] = done.stdout
    return printed


@pytest.mark.slow
def test_every_command_and_every_piece_of_code_runs(tmp_path: Path, lossless: Path) -> None:
    copy_some(lossless / "train", tmp_path / "photos", 400)
    printed = run(BLOCKS["README"], tmp_path)
    guide = [block for page, blocks in BLOCKS.items() if page not in ("README", "timing") for block in blocks]
    run(guide, tmp_path, at)
    answer = printed["vitbench report results/my-suite"]
    assert re.search(r"sinusoidal_2d.*\bbetter\b", answer), "the first example ends in an answer"
    assert (tmp_path / "reports" / "my-suite" / "report.md").is_file()
    reported = sh("vitbench report results/mine", tmp_path)  # without the plug-in: records name it, and are enough
    assert reported.returncode == 0, reported.stderr
    assert "squared_relu" in (tmp_path / "reports" / "mine" / "report.md").read_text().replace("\\", "")


@pytest.mark.slow
def test_every_command_of_the_chapter_on_timing_runs(tmp_path: Path) -> None:
    """By themselves: they need nothing of the pages before, and minutes."""
    assert len(run(BLOCKS["timing"], tmp_path, at)) >= 7


def test_a_script_in_the_folder_above_a_clone_imports_the_package_and_not_the_clone(tmp_path: Path) -> None:
    (tmp_path / "vitbench" / "vitbench").mkdir(parents=True)
    (tmp_path / "script.py").write_text("import vitbench; print(vitbench.__file__)")
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, env=bare, capture_output=True, text=True, check=True
    )
    assert Path(done.stdout.strip()) == REPOSITORY / "vitbench" / "__init__.py"


def test_make_targets_exist() -> None:
    assert MAKE == ["make ablations", "make test"]
    for target in ("ablations", "test", "bench", "report", "lint", "clean", "setup"):
        assert subprocess.run(["make", "-n", target], cwd=REPOSITORY, capture_output=True, check=False).returncode == 0


def test_the_readme_is_short_and_leads_to_every_chapter() -> None:
    readme = PAGES[0].read_text()
    assert len(readme.splitlines()) <= 150
    assert {*(REPOSITORY / "docs" / "guide").glob("*.md")} == {*PAGES[1:]}
    assert all(f"](docs/guide/{name}.md)" in readme for name in CHAPTERS)


@pytest.mark.parametrize("page", [*PAGES, *sorted((REPOSITORY / "docs").glob("*.md"))], ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for target, heading in re.findall(r"\]\(([^):#]*)(?:#([^)]+))?\)", page.read_text()):
        file = page.parent / target if target else page
        assert file.exists(), target
        if heading:
            titles = re.findall(r"^#+ (.*)$", file.read_text(), flags=re.MULTILINE)
            assert heading in {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}, heading


BUDGET = ("train.epochs=1", "train.seeds=2", "data.train_images=300", "data.test_images=100",
          "data.validation_images=50", "time.rounds=1", "time.iterations=3", "time.warmup=1")  # fmt: skip
ABLATIONS = ["make", "--old-file=.venv/.run", "ablations",
             "ARGS=--device cpu " + " ".join(f"--set {value}" for value in BUDGET)]  # fmt: skip


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of this checkout, with this environment."""
    folder = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(REPOSITORY), str(folder)], check=True)
    (folder / ".venv").symlink_to(Path(sys.executable).parent.parent)
    return folder


@pytest.mark.slow
def test_make_ablations_that_is_stopped_reports_what_is_there(clone: Path) -> None:
    """Ctrl-C reaches make, its shell and the run, all of them."""
    run = subprocess.Popen(
        ABLATIONS, cwd=clone, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    assert run.stdout
    lines = []
    for line in run.stdout:
        lines.append(line)
        if ": ok" in line:  # the first trial's
            os.killpg(run.pid, signal.SIGINT)
            break
    lines.append(run.communicate(timeout=120)[0])
    assert run.returncode != 0 and "the same command goes on from here" in lines[-1], "".join(lines)
    assert "reports/components/index.html" in lines[-1]  # whether the second trial had begun is chance
    assert "pending" in (clone / "reports" / "components" / "report.md").read_text()


@pytest.mark.slow
def test_make_ablations(clone: Path) -> None:
    """The main job by its one command, on a smaller budget; then again, for nothing."""
    done = sh(shlex.join(ABLATIONS), clone)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "102 trials: 78 ok, 24 unsupported" in done.stdout
    page = (clone / "reports" / "components" / "report.md").read_bytes()
    assert page.count(b"unsupported") > 12
    records = sorted(p.name for p in (clone / "results" / "components" / "records").iterdir())
    assert len(records) == 102
    again = sh(shlex.join(ABLATIONS), clone)
    assert again.returncode == 0 and "102 of them finished before" in again.stdout
    assert sorted(p.name for p in (clone / "results" / "components" / "records").iterdir()) == records
    assert (clone / "reports" / "components" / "report.md").read_bytes() == page
