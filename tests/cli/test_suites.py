"""Suites by name, from any folder and from a wheel."""

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.bad_input import process
from tests.conftest import REPOSITORY
from tests.runner.runs import here

SHIPPED = {path.stem: tomllib.loads(path.read_text()) for path in (REPOSITORY / "ablations").glob("*.toml")}


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of a table is a line."""
    monkeypatch.setenv("COLUMNS", "200")


def test_every_suite_is_listed_with_its_question(tmp_path: Path) -> None:
    listed = here("suites", cwd=tmp_path).stdout
    for name, tables in SHIPPED.items():
        (row,) = [line for line in listed.splitlines() if line.split()[:1] == [name]]
        assert tables["suite"]["question"].split()[0] in row and ("--small" in row) == ("small" in tables)
    described = " ".join(here("suites", "vit5", "gates", cwd=tmp_path).stdout.split())
    for name in ("vit5", "gates"):
        assert all(SHIPPED[name]["suite"][key] in described for key in ("question", "cost", "expected"))
    wrong = here("suites", "vit6", cwd=tmp_path)
    assert wrong.returncode == 2 and 'did you mean "vit5"?' in wrong.stderr


def test_a_suite_is_planned_by_its_name_from_any_folder(tmp_path: Path) -> None:
    by_name, by_path = (
        here("plan", suite, "--device", "cpu", cwd=tmp_path).stdout
        for suite in ("positions", str(REPOSITORY / "ablations" / "positions.toml"))
    )
    assert by_name == by_path and "trials" in by_name


def test_weights_of_timm_are_planned_with_where_timm_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "timm.py").write_text("raise ImportError('no')")
    done = process(tmp_path, "plan", "fine-tune", package=tmp_path / "package")
    assert done.returncode == 0 and "28 trials" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("name", "message"),
    [("position", 'did you mean "positions"?'), ("zebra", "is no suite of vitbench"), ("gone.toml", "gone.toml")],
)
def test_a_wrong_name_is_one_line_with_the_nearest(tmp_path: Path, name: str, message: str) -> None:
    done = here("plan", name, cwd=tmp_path)
    assert done.returncode == 2 and message in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_suite_of_ones_own_begins_as_a_copy(tmp_path: Path) -> None:
    assert here("init", "mine", "--from", "pooling", cwd=tmp_path).returncode == 0
    text = (tmp_path / "mine.toml").read_text()
    own, shipped = tomllib.loads(text), SHIPPED["pooling"]
    assert own == {**shipped, "suite": {**shipped["suite"], "name": "mine"}}
    assert here("plan", "mine.toml", "--small", cwd=tmp_path).returncode == 0
    nowhere = here("init", "mine", cwd=Path("/proc"))  # nobody can make a file there
    assert nowhere.returncode == 2 and nowhere.stderr.startswith("vitbench: mine.toml: cannot be written: ")
    again = here("init", "mine", cwd=tmp_path)
    assert again.returncode == 2 and "exists already" in again.stderr and (tmp_path / "mine.toml").read_text() == text
    for name in ("../mine", "_mine", "\N{LATIN SMALL LETTER E WITH ACUTE}", "con"):
        assert here("init", name, cwd=tmp_path).returncode == 2, "no name of a suite"


def test_what_cannot_be_downloaded_is_said(tmp_path: Path) -> None:
    done = here("data", "cifar11", cwd=tmp_path)
    assert done.returncode == 2 and 'did you mean "cifar10"?' in done.stderr


@pytest.mark.slow
def test_a_wheel_has_all_suites_and_runs_them_by_name(tmp_path: Path) -> None:
    source = tmp_path / "source"  # a build writes into it
    for folder in ("vitbench", "ablations"):
        shutil.copytree(REPOSITORY / folder, source / folder, symlinks=True)
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / file, source / file)
    build = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path)]
    subprocess.run([sys.executable, *build, str(source)], check=True, capture_output=True, timeout=300)
    (wheel,) = tmp_path.glob("vitbench-*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    assert {path.stem for path in (tmp_path / "site" / "vitbench" / "ablations").iterdir()} == set(SHIPPED)
    listed = process(tmp_path, "suites", package=tmp_path / "site")
    assert {words[0] for line in listed.stdout.splitlines() if (words := line.split())} >= set(SHIPPED)
    planned = process(tmp_path, "plan", "components", "--device", "cpu", package=tmp_path / "site")
    assert planned.returncode == 0 and "138 trials" in planned.stdout, planned.stderr
