"""The report's section of single test images, from real runs to the CSV."""

import pandas as pd
import pytest

from tests.report.builders import render
from tests.runner.runs import Runs, sets
from tests.small import SUITE
from vitbench.analysis.image_outcomes import of_bits
from vitbench.store import StudyFolder, TrainValues


def test_records_keep_which_images_were_told_right_and_the_report_says_where_cells_differ(runs: Runs) -> None:
    runs.suite.write_text(SUITE + '[axes]\npositions = ["learned", "none"]\n')
    runs.complete(*sets("train.seeds=2", "train.learning_rate=1e-2", "train.epochs=12"))
    study = StudyFolder.read(runs.study)
    for _, record in study.records_of(a for tried in study.attempts().values() for a in tried):
        values = record.values
        assert isinstance(values, TrainValues) and values.test_right is not None
        right = of_bits(values.test_right, values.test_images)
        assert 100 * right.mean() == pytest.approx(values.test_accuracy_pct)
    page = render(study, runs.folder / "report").parent
    text = (page / "report.md").read_text()
    section = text.partition("## Test images")[2].partition("\n## ")[0]
    assert "gained" in section and "[tables/images.csv](tables/images.csv)" in section
    table = pd.read_csv(page / "tables" / "images.csv")
    shares = table.drop(columns="image")
    assert len(table) and shares.isin([0.0, 0.5, 1.0]).all(axis=None)
    assert (shares.max(axis=1) > shares.min(axis=1)).all()
