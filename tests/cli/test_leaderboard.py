"""The leaderboard: cells are ranked among those of the same images and recipe, and no others."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from tests.conftest import REPOSITORY
from vitbench.cli.main import main
from vitbench.report.comparisons.leaderboard import leaderboard
from vitbench.store import StudyFolder

REFERENCE = REPOSITORY / "results" / "reference"
STUDIES = [str(REFERENCE / name) for name in ("components-cpu", "norm-placement-small", "positions-small")]


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["leaderboard", *arguments])
    return int(ended.value.code or 0)


def test_cells_are_ranked_among_those_of_one_recipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*STUDIES, "--csv", str(tmp_path / "all.csv"), "--top", "2") == 0
    frame = pd.read_csv(tmp_path / "all.csv")
    for _, rows in frame.groupby("board"):
        assert rows["recipe"].nunique() == rows["images"].nunique() == 1
        assert rows["rank"].tolist() == list(range(1, len(rows) + 1))
        assert rows["test_accuracy_pct_mean"].is_monotonic_decreasing
    assert len(frame[frame["study"] == "components"]) == 6, "functions, of 36 cells"
    placed = frame[frame["study"] == "norm-placement-small"]
    assert placed["board"].nunique() == 4, "two learning rates, with and without warm-up: four recipes"
    output = capsys.readouterr().out
    assert "epochs, batch size" in output and "more (--top, --csv)" in output


def test_boards_that_differ_in_more_than_words_stand_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*STUDIES, "--top", "1") == 0
    boards = leaderboard([StudyFolder.read(Path(study)) for study in STUDIES])["board"].nunique()
    assert capsys.readouterr().out.count("seeds") == boards


def test_of_one_study_given_twice_cells_stand_side_by_side() -> None:
    study = StudyFolder.read(REFERENCE / "positions-small")
    one, both = leaderboard([study]), leaderboard([study, study])
    assert len(both) == 2 * len(one) and set(both["board"]) == set(one["board"]) == {1}
    assert both["cell"].tolist()[::2] == one["cell"].tolist()


def test_cells_are_chosen_by_their_models(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*STUDIES, "--having", "positions=learned", "--having", "norm=pre") == 0
    assert "post" not in capsys.readouterr().out
    assert run(*STUDIES, "--having", "position=learned") == 2
    assert 'did you mean "positions"' in capsys.readouterr().err
    assert run(*STUDIES, "--having", "positions=none", "--having", "depth=99") == 2
    assert "no finished cell has positions=none, depth=99" in capsys.readouterr().err
