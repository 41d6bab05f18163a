"""Portrait positions: what models know of places, as heatmaps, waves and maps of similarity."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vitbench.report.figures.charts import Heat, Nested, Picture, Waves
from vitbench.report.models import portrait_words
from vitbench.report.models.sitters import Sitter, Wall
from vitbench.report.text import plural
from vitbench.store.portrait import Array

WAVES, NEARLY = 6, 0.1
"""Channels that are shown as waves, and the part of the largest range below which one is hardly a wave."""
MOST_TOKENS = 260
"""In a heatmap of positions, whose rows are tokens: those of 16 × 16 patches, and some before them."""
MOST_PLACES = 16
"""Rows, and columns, of patches that have a map of similarity; of more, evenly chosen ones: a map of 24 × 24 or
32 × 32 places takes so much room that no more of them can be seen side by side, and a table of them all is a million
numbers."""


def walls(sitters: Sequence[Sitter]) -> list[Wall]:
    """How alike positions are, of every model; and of those that are given, what is added to the tokens."""
    given = [s for s in sitters if s.portrait.positions is not None and not s.portrait.about.learned]
    said = ("Cosine similarity of positions: at the place of each patch a map of how alike its position is to those of "
            "all patches, itself (1) among them.")  # fmt: skip
    alike = [picture for sitter in sitters for picture in _similarity(sitter)]
    return [Wall(said, alike), Wall("", [picture for sitter in given for picture in _added(sitter)])]


def _similarity(sitter: Sitter) -> list[Picture]:
    portrait = sitter.portrait
    if (similarity := portrait.similarity) is None:
        return []
    what = "learned position embeddings" if portrait.about.learned else "position embeddings"
    if not portrait.about.added:
        what = "one vector turned to the places of two patches, all its channels alike in length"
    said = f"{what}; {portrait_words.similarity(sitter)}"
    rows, columns = portrait.about.model.grid
    down, across = evenly(rows, MOST_PLACES), evenly(columns, MOST_PLACES)
    if len(down) < rows or len(across) < columns:
        said += (f" Shown, and in the table of numbers, are the maps of {len(down)} of {plural(rows, 'row')} and "
                 f"{len(across)} of {plural(columns, 'column')} of patches.")  # fmt: skip
    maps = similarity.reshape(rows, columns, -1)[np.ix_(down, across)].reshape(-1, rows * columns)
    chart = Nested(maps, portrait.about.model.grid, down, across, "cosine similarity")
    alt = f"cosine similarity of positions: maps in {plural(len(down), 'row')} and {plural(len(across), 'column')}"
    return [Picture(f"{sitter.slug}similarity", chart, sitter.alt(f"{alt}, one for each patch"), sitter.said(said))]


def _added(sitter: Sitter) -> list[Picture]:
    """What is added to the tokens, as a heatmap and as waves."""
    table, spec = sitter.portrait.positions, sitter.portrait.about.model
    assert table is not None
    shown = table[:MOST_TOKENS]
    which = f" of the first {MOST_TOKENS} of {len(table)} tokens" if len(table) > MOST_TOKENS else ""
    first = {0: "", 1: ", the class token first"}.get(spec.prefix, f", the {spec.prefix} before the patches' first")
    said = f"what is added to the tokens{which}: a row for each token{first}, a column for each channel."
    chart = Heat(shown, "added to the token", "token", "channel", centred=True)
    alt = sitter.alt("position embeddings as a heatmap of tokens by channels")
    heatmap = Picture(f"{sitter.slug}positions", chart, alt, sitter.said(said))
    moving = _moving(table)
    channels = [moving[place] for place in evenly(len(moving), WAVES)]
    scale = float(np.abs(table).max()) or 1.0
    waves = Waves("token", [f"channel {c}" for c in channels], (table[:, channels] / scale).T)
    still = table.shape[1] - len(moving)
    said = f"the same as waves: {plural(len(channels), 'channel')} of {table.shape[1]}, from token to token."
    if still and len(moving) > 1:
        said += f" Of the others {still:,} hardly change: by less than a tenth of what the most do."
    alt = sitter.alt("position embeddings of some channels as waves over the tokens")
    return [heatmap, Picture(f"{sitter.slug}waves", waves, alt, sitter.said(said))]


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
