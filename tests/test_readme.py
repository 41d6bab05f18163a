"""The README's files, commands and code, executed from top to bottom as a newcomer would."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.conftest import REPOSITORY

README = (REPOSITORY / "README.md").read_text()
BLOCKS = re.findall(r"```(bash|python|toml)\n(.*?)```", README, flags=re.DOTALL)
MAKE = [line for kind, text in BLOCKS if kind == "bash" for line in text.splitlines() if line.startswith("make")]


SMALLER = " --set train.epochs=1 --set data.train_images=600 --set time.rounds=1 --set 'axes.norm=[\"pre\"]'"
"""Added to the GPU's command: the whole grid takes minutes."""


def environment() -> dict[str, str]:
    """`vitbench` and `python` are this environment's."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


QUICK = (
    """--set 'axes.attention=["sdpa", "triton"]' --set 'axes.shape=[{name = "short", set = {dim = 64}}]' """
    "--set time.cpu.rounds=2 --set time.cpu.iterations=5"
)
"""Two components at one length, of the suite that takes three minutes."""


def sh(command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-ec", command], cwd=cwd, env=environment(), capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.slow
def test_every_command_and_every_piece_of_code_runs(tmp_path: Path, lossless: Path) -> None:
    shutil.copytree(REPOSITORY / "ablations", tmp_path / "ablations")
    for name in ("cat", "dog"):
        folder = tmp_path / "photos" / name
        folder.mkdir(parents=True)
        for file in sorted((lossless / "train" / name).iterdir())[:400]:
            shutil.copy(file, folder)
    ran = 0
    for kind, text in BLOCKS:
        if kind != "bash" and (file := re.match(r"# (\S+\.(?:py|toml))\n", text)):
            if "/" not in file[1]:  # one that goes into the package is put there by test_extending.py
                (tmp_path / file[1]).write_text(text)
            continue
        if kind == "python":
            done = subprocess.run(
                [sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
            assert "sinusoidal_2d" in done.stdout
            assert ("tensors for timm" if "to_timm" in text else "parameters") in done.stdout
            continue
        for line in text.splitlines():
            if line in MAKE:
                continue  # in test_make_ablations, and this is `make test`
            ran += 1
            on_gpu = "--device cuda" in line and torch.cuda.is_available()
            less = SMALLER if on_gpu else f" {QUICK}" if line.startswith("vitbench time") else ""
            done = sh(line + less, tmp_path)
            if "--device cuda" in line and not torch.cuda.is_available():
                assert done.returncode == 2 and "cuda requested" in done.stderr
            elif line.startswith("vitbench compare"):  # two quick timings of one thing may differ by more than 5 %
                assert done.returncode in (0, 1) and "attention" in done.stdout, done.stdout + done.stderr
            else:
                assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    assert ran >= 9
    assert (tmp_path / "reports" / "my-suite" / "report.md").is_file()
    reported = sh("vitbench report results/mine", tmp_path)  # without the plug-in: records name it, and are enough
    assert reported.returncode == 0, reported.stderr
    assert "squared_relu" in (tmp_path / "reports" / "mine" / "report.md").read_text().replace("\\", "")


def test_make_targets_exist() -> None:
    assert MAKE == ["make ablations", "make test"]
    for target in ("ablations", "test", "bench", "report", "lint", "clean", "setup"):
        assert subprocess.run(["make", "-n", target], cwd=REPOSITORY, capture_output=True, check=False).returncode == 0


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (REPOSITORY / target).exists(), target


@pytest.mark.slow
def test_make_ablations(tmp_path: Path) -> None:
    """The main job by its one command, in a clone of this checkout, on a smaller budget; then again, for nothing."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(REPOSITORY), str(clone)], check=True)
    (clone / ".venv").symlink_to(Path(sys.executable).parent.parent)
    budget = ["train.epochs=1", "data.train_images=300", "data.test_images=100", "data.validation_images=50",
              "time.rounds=1", "time.iterations=3", "time.warmup=1"]  # fmt: skip
    command = [
        "make",
        "--old-file=.venv/.installed",
        "ablations",
        "ARGS=--device cpu " + " ".join(f"--set {b}" for b in budget),
    ]
    done = subprocess.run(
        command, cwd=clone, env=environment(), capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "144 trials: 108 ok, 36 unsupported" in done.stdout
    page = (clone / "reports" / "components" / "report.md").read_bytes()
    assert page.count(b"unsupported") > 12
    records = sorted(p.name for p in (clone / "results" / "components" / "records").iterdir())
    assert len(records) == 144
    again = subprocess.run(
        command, cwd=clone, env=environment(), capture_output=True, text=True, timeout=300, check=False
    )
    assert again.returncode == 0 and "144 of them finished before" in again.stdout
    assert sorted(p.name for p in (clone / "results" / "components" / "records").iterdir()) == records
    assert (clone / "reports" / "components" / "report.md").read_bytes() == page
