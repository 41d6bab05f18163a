"""The leaderboard: cells are ranked among those of the same images and recipe, and no others."""

import functools
import re
import resource
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from tests.conftest import REPOSITORY
from tests.report.builders import CPU, CellPlan, Plan, build
from tests.runner.runs import here
from vitbench.report.comparisons.leaderboard import leaderboard
from vitbench.store import StudyFolder

REFERENCE = REPOSITORY / "results" / "reference"
STUDIES = [str(REFERENCE / name) for name in ("components-cpu", "norm-placement-small", "positions-small")]


def test_cells_are_ranked_among_those_of_one_recipe(tmp_path: Path) -> None:
    done = here("leaderboard", *STUDIES, "--csv", str(tmp_path / "all.csv"), "--top", "2")
    frame = pd.read_csv(tmp_path / "all.csv")
    boards = frame["board"].nunique()
    assert done.returncode == 0 and done.stdout.count("seeds") == boards, "those that differ in more than words"
    for _, rows in frame.groupby("board"):
        assert rows["recipe"].nunique() == rows["images"].nunique() == 1
        assert rows["rank"].tolist() == list(range(1, len(rows) + 1))
        assert rows["test_accuracy_pct_mean"].is_monotonic_decreasing
    assert len(frame[frame["study"] == "components-cpu"]) == 6, "functions, of 36 cells"
    placed = frame[frame["study"] == "norm-placement-small"]
    assert placed["board"].nunique() == 4, "two learning rates, with and without warm-up: four recipes"
    assert (
        "epochs, batch size" in " ".join(done.stdout.split()) and "more rows and 1 more column in --csv" in done.stdout
    )


def test_a_recipe_of_so_many_images_names_no_epochs(tmp_path: Path) -> None:
    build(tmp_path / "study", Plan([CellPlan("a", {"depth": 1})], recipe={"images": 700}, time=False))
    (recipe,) = leaderboard([StudyFolder.read(tmp_path / "study")])["recipe"]
    assert "images 700" in recipe and "epoch" not in recipe


def test_heads_say_which_images_and_seeds_of_one_program_are_on_one_board(tmp_path: Path) -> None:
    recipes = {"alone": {}, "together": {"ensemble_seeds": True}}
    studies = [build(tmp_path / name, Plan([CellPlan("a", {"depth": 1})], recipe=recipe, time=False))
               for name, recipe in recipes.items()]  # fmt: skip
    frame = leaderboard([*studies, StudyFolder.read(REFERENCE / "resolution-small")])
    assert frame["board"].tolist().count(2) == 2 and frame["images"].iloc[0].endswith("test_images 1000")


def test_of_one_study_given_twice_cells_stand_side_by_side() -> None:
    study = StudyFolder.read(REFERENCE / "positions-small")
    one, both = leaderboard([study]), leaderboard([study, study])
    assert len(both) == 2 * len(one) and set(both["board"]) == set(one["board"]) == {1}
    assert both["cell"].tolist()[::2] == one["cell"].tolist()


def test_a_study_that_is_given_twice_counts_once_and_numbers_are_those_of_its_report() -> None:
    once, twice = here("leaderboard", STUDIES[2]), here("leaderboard", STUDIES[2], f"{STUDIES[2]}/../positions-small")
    assert once.stdout == twice.stdout
    report = (REPOSITORY / "reports" / "reference" / "positions-small" / "report.md").read_text()
    lines = [line for line in once.stdout.splitlines() if " ± " in line]
    accuracies = re.findall(r"[0-9.]+ ± [0-9.]+", "\n".join(lines))
    assert len(accuracies) == len(lines) > 3 and all(accuracy in report for accuracy in accuracies)


def test_a_cell_that_was_trained_in_two_environments_says_in_which(tmp_path: Path) -> None:
    changed = CPU.model_copy(update={"code": "0" * 12})
    build(tmp_path / "mine", Plan([CellPlan("a", {"depth": 1})], seeds=(0, 1, 2, 3), time=False,
                                  environment=lambda _, seed: CPU if seed < 2 else changed))  # fmt: skip
    done = here("leaderboard", str(tmp_path / "mine"))
    assert "mine, cpu A" in done.stdout and "mine, cpu B" in done.stdout, done.stdout


def test_a_narrow_terminal_breaks_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for width in (60, 80):
        monkeypatch.setenv("COLUMNS", str(width))  # which a command asks for the width of its terminal
        out = here("leaderboard", str(REFERENCE / "vit5-small"), "--top", "3").stdout
        assert out.count("learned_rope_2d") == 3 and "13 more rows" in out, out
    long = "pretrained_" * 5 + "by_nobody"
    build(tmp_path / "study", Plan([CellPlan(long, {"depth": 2}), CellPlan("other", {"depth": 1})], time=False))
    out = here("leaderboard", str(tmp_path / "study")).stdout
    assert out.count("pretrained_") >= 3 and len(re.findall(r"\d\d\.\d", out)) >= 2, "folded, with its accuracy"


@pytest.mark.parametrize("width", ["40", "80"])
def test_cells_of_one_name_are_told_apart_by_their_studies(
    width: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for study in ("before", "after"):
        build(tmp_path / study, Plan([CellPlan("base", {"depth": 2})], time=False))
    monkeypatch.setenv("COLUMNS", width)
    out = here("leaderboard", str(tmp_path / "before"), str(tmp_path / "after")).stdout
    assert "base, before" in out and "base, after" in out and re.search(r"\d\d\.\d", out), out


def test_i14_formulas_are_text_to_a_spreadsheet(tmp_path: Path) -> None:
    build(tmp_path / "study", Plan([CellPlan("=1+1", {"depth": 2}), CellPlan("other", {"depth": 1})], time=False))
    done = here("leaderboard", str(tmp_path / "study"), "--csv", str(tmp_path / "all.csv"))
    assert done.returncode == 0 and "'=1+1" in (tmp_path / "all.csv").read_text(), done.stderr


def test_a_file_that_cannot_be_written_is_said_in_a_sentence(tmp_path: Path) -> None:
    done = here("leaderboard", STUDIES[2], "--csv", str(tmp_path / "none" / "all.csv"))
    assert done.returncode == 2 and "all.csv cannot be written: " in done.stderr and "Traceback" not in done.stderr


def test_the_file_that_was_there_stays_where_the_disk_is_full(tmp_path: Path) -> None:
    (tmp_path / "all.csv").write_text("the last one")
    done = own_process("--csv", str(tmp_path / "all.csv"), most_bytes=100)
    assert done.returncode == 2 and "all.csv cannot be written: " in done.stderr, done.stderr
    assert (tmp_path / "all.csv").read_text() == "the last one"
    done = own_process("--csv", str(tmp_path / "new.csv"), most_bytes=100)
    assert done.returncode == 2 and [file.name for file in tmp_path.iterdir()] == ["all.csv"], "no part of one, either"


def test_the_file_is_written_in_its_place_and_in_utf_8(tmp_path: Path) -> None:
    build(tmp_path / "caf\udce9", Plan([CellPlan("a", {"depth": 2})], time=False))
    (file := tmp_path / "private.csv").touch(mode=0o600)
    (tmp_path / "link.csv").symlink_to(file)
    assert here("leaderboard", str(tmp_path / "caf\udce9"), "--csv", str(tmp_path / "link.csv")).returncode == 0
    assert file.stat().st_mode & 0o777 == 0o600 and "caf\\udce9" in file.read_text(encoding="utf-8")


def test_rows_go_into_a_pipe_too() -> None:
    done = own_process("--csv", "/dev/stdout")
    assert done.returncode == 0 and '\n1,"cifar10' in done.stdout, done.stdout[:300]


def own_process(*options: str, most_bytes: int = resource.RLIM_INFINITY) -> subprocess.CompletedProcess[str]:
    """A leaderboard made in a process of its own, in which a file can have so many bytes."""
    line = [sys.executable, "-m", "vitbench", "leaderboard", STUDIES[2], *options]
    limit = functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    return subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True, check=False, preexec_fn=limit)


def test_cells_are_chosen_by_their_models() -> None:
    done = here("leaderboard", *STUDIES[1:], "--having", "positions=learned", "--having", "norm=pre")
    assert done.returncode == 0 and "post" not in done.stdout
    wrong = here("leaderboard", *STUDIES, "--having", "position=learned")
    assert wrong.returncode == 2 and 'did you mean "positions"' in wrong.stderr
    bare = here("leaderboard", *STUDIES, "--having", "norm")
    assert bare.returncode == 2 and '"norm": write FIELD=VALUE' in bare.stderr
    none = here("leaderboard", STUDIES[2], "--having", "positions=none", "--having", "depth=99")
    assert none.returncode == 2 and "no finished cell has positions=none, depth=99" in none.stderr
