"""Position pictures: what models know of places, as heatmaps, waves and maps of similarity."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vitbench.report.figures.charts import Heat, Nested, Picture, Waves
from vitbench.report.models import explanation_text
from vitbench.report.models.examples import PictureGroup, ShownModel
from vitbench.report.text import plural
from vitbench.store.explanation import Array

WAVES, NEARLY = 6, 0.1
"""Channels that are shown as waves, and the part of the largest range below which one is hardly a wave."""
MOST_TOKENS = 260
"""In a heatmap of positions, whose rows are tokens: those of 16 × 16 patches, and some before them."""
MOST_PLACES = 16
"""Rows, and columns, of patches that have a map of similarity; of more, evenly chosen ones: a map of 24 × 24 or
32 × 32 places takes so much room that no more of them can be seen side by side, and a table of them all is a million
numbers."""


def groups(models: Sequence[ShownModel]) -> list[PictureGroup]:
    """How alike positions are, of every model; and of those that are not learned, what is added to the tokens."""
    fixed = [s for s in models if s.explanation.positions is not None and not s.explanation.about.learned]
    said = ("Cosine similarity of positions: at the place of each patch a map of how alike its position is to those of "
            "all patches, itself (1) among them.")  # fmt: skip
    alike = [picture for model in models for picture in _similarity(model)]
    return [PictureGroup(said, alike), PictureGroup("", [picture for model in fixed for picture in _added(model)])]


def _similarity(model: ShownModel) -> list[Picture]:
    explanation = model.explanation
    if (similarity := explanation.similarity) is None:
        return []
    what = "learned position embeddings" if explanation.about.learned else "position embeddings"
    if not explanation.about.added:
        what = "one vector turned to the places of two patches, all its channels alike in length"
    said = f"{what}; {explanation_text.similarity(model)}"
    rows, columns = explanation.about.model.grid
    down, across = evenly(rows, MOST_PLACES), evenly(columns, MOST_PLACES)
    if len(down) < rows or len(across) < columns:
        said += (f" Shown, and in the table of numbers, are the maps of {len(down)} of {plural(rows, 'row')} and "
                 f"{len(across)} of {plural(columns, 'column')} of patches.")  # fmt: skip
    maps = similarity.reshape(rows, columns, -1)[np.ix_(down, across)].reshape(-1, rows * columns)
    chart = Nested(maps, explanation.about.model.grid, down, across, "cosine similarity")
    alt = f"cosine similarity of positions: maps in {plural(len(down), 'row')} and {plural(len(across), 'column')}"
    return [Picture(f"{model.slug}similarity", chart, model.alt(f"{alt}, one for each patch"), model.said(said))]


def _added(model: ShownModel) -> list[Picture]:
    """What is added to the tokens, as a heatmap and as waves."""
    table, spec = model.explanation.positions, model.explanation.about.model
    assert table is not None
    shown = table[:MOST_TOKENS]
    which = f" of the first {MOST_TOKENS} of {len(table)} tokens" if len(table) > MOST_TOKENS else ""
    first = {0: "", 1: ", the class token first"}.get(
        spec.pooled_prefix, f", the {spec.pooled_prefix} before the patches' first"
    )
    said = f"what is added to the tokens{which}: a row for each token{first}, a column for each channel."
    chart = Heat(shown, "added to the token", "token", "channel", centred=True)
    alt = model.alt("position embeddings as a heatmap of tokens by channels")
    heatmap = Picture(f"{model.slug}positions", chart, alt, model.said(said))
    moving = _moving(table)
    channels = [moving[place] for place in evenly(len(moving), WAVES)]
    scale = float(np.abs(table).max()) or 1.0
    waves = Waves("token", [f"channel {c}" for c in channels], (table[:, channels] / scale).T)
    still = table.shape[1] - len(moving)
    said = f"the same as waves: {plural(len(channels), 'channel')} of {table.shape[1]}, from token to token."
    if still and len(moving) > 1:
        said += f" Of the others {still:,} hardly change: by less than a tenth of what the most do."
    alt = model.alt("position embeddings of some channels as waves over the tokens")
    return [heatmap, Picture(f"{model.slug}waves", waves, alt, model.said(said))]


def _moving(table: Array) -> list[int]:
    """Channels whose values are not nearly the same at all tokens; all of them where none are."""
    ranges = np.ptp(table, axis=0)
    moving = np.flatnonzero(ranges >= NEARLY * ranges.max()).tolist()
    return moving or list(range(table.shape[1]))


def evenly(count: int, most: int) -> list[int]:
    """At most so many of the numbers below ``count``, the first and the last among them."""
    if count <= most:
        return list(range(count))
    return [round(i * (count - 1) / (most - 1)) for i in range(most)]
