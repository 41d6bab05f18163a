"""The numbers of pictures of models have the shape of what is seen, are all there, and are no file of megabytes."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.report.markdown import csv_text
from tests.report.sitters import pictures_of, portrait_of
from vitbench.config.model import ModelSpec
from vitbench.report.figures.data import frame
from vitbench.store.portrait import Portrait

MOST_BYTES = 3 << 20


def tables(portrait: Portrait) -> dict[str, pd.DataFrame]:
    """Name of a picture → its numbers, as they are read from its file."""
    charts = {picture.name: picture.chart for picture in pictures_of(portrait)}
    texts = {name: csv_text(frame(chart)) for name, chart in charts.items() if len(frame(chart))}
    assert max(map(len, texts.values())) <= MOST_BYTES, {name: len(text) for name, text in texts.items()}
    return {name: pd.read_csv(io.StringIO(text)) for name, text in texts.items()}


def test_they_are_those_of_the_portrait() -> None:
    spec = ModelSpec(image_size=(12, 16), patch_size=(3, 8), dim=32, depth=2, heads=2, num_classes=3, pooling="cls")
    portrait = portrait_of(spec, classes=["ant", "bee", "=cat"], learned=False)
    found = tables(portrait)
    assert set(found) == {"positions", "waves", "similarity", "attention-1", "attention-2", "distances", "looks-right",
                          "looks-wrong", "confusion"}  # fmt: skip
    confusion = found["confusion"].set_index("true class")
    assert [*confusion.columns] == ["predicted class ant", "predicted class bee", "predicted class =cat"]
    assert [*confusion.index] == ["ant", "bee", "'=cat"], "a spreadsheet computes nothing"
    np.testing.assert_array_equal(confusion.to_numpy(), portrait.confusion)
    similarity = found["similarity"].set_index(["row", "column"])
    assert portrait.similarity is not None and portrait.attention is not None and portrait.positions is not None
    np.testing.assert_allclose(similarity.to_numpy(), portrait.similarity, atol=1e-6)
    assert similarity.loc[(4, 1), "row 1 column 2"] == pytest.approx(portrait.similarity[6, 1], abs=1e-6)
    attention = found["attention-2"].set_index(["strip", "title"]).loc[("layer 2", "head 1")]
    wrong = next(i for i, exhibit in enumerate(portrait.about.shown) if exhibit.label != exhibit.told)
    np.testing.assert_allclose(attention.drop("tile").to_numpy(float), portrait.attention[wrong, 1, 0], atol=1e-6)
    np.testing.assert_allclose(found["positions"].set_index("token").to_numpy(), portrait.positions, atol=1e-6)


LARGE: list[dict[str, Any]] = [
    {"image_size": 32, "patch_size": 1, "depth": 12, "heads": 12, "dim": 768},
    {"num_classes": 1000, "dim": 1024, "image_size": 224, "patch_size": 14},
]


@pytest.mark.parametrize("large", LARGE, ids=["1,024 positions", "1,000 classes"])
def test_they_are_never_a_number_a_row_of_a_million(large: dict[str, Any]) -> None:
    tables(portrait_of(ModelSpec.model_validate(large), learned=False))
