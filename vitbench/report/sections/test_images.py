"""Test images one by one: the luck of the images in a difference, and on which of them cells differ."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vitbench.analysis.image_outcomes import Right, differing, mcnemar, of_bits, two_sources
from vitbench.report.document import Block, Heading, table
from vitbench.report.output import Files
from vitbench.report.text import Md, escape
from vitbench.report.view import MAX_CELLS, View
from vitbench.store import TrainValues

SAID = Md(
    "The test images are a sample, too. Each row compares a cell with {first}: the difference of their mean test "
    "accuracies over all seeds of each, with a 95 % interval over seeds *and* test images, and the images' share of "
    "the variance. Gained and lost: images that only one of the two classifies correctly, by the majority of its "
    "seeds. p: McNemar's exact test of these models on these images, not corrected for the number of rows."
)

RIGHT = frozenset({"difference, points", "by the images", "gained", "lost", "p"})


def section(view: View, files: Files) -> list[Block]:
    """The section's blocks; none of a study that trains nothing."""
    blocks: list[Block] = []
    groups = list(_groups(view))
    for number, (place, of_cells) in enumerate(groups, 1):
        first, *others = of_cells
        rows = []
        for cell in others[:MAX_CELLS]:
            both = two_sources(of_cells[cell], of_cells[first])
            told = mcnemar(of_cells[cell], of_cells[first])
            row = {"cell": escape(cell), "gained": Md(str(told.gained)), "lost": Md(str(told.lost))}
            row["p"] = Md(f"{told.p:.3g}")
            if both is not None:
                row["difference, points"] = Md(f"{both.delta:+.2f} ({both.low:+.2f} to {both.high:+.2f})")
                row["by the images"] = Md(f"{100 * both.share_of_images:.0f} %")
            rows.append(row)
        name = "images" if len(groups) == 1 else f"images-{number}"
        link = files.table(name, differing(of_cells))
        blocks += [Heading(f"On {place}")] if len(groups) > 1 else []
        blocks.append(Md(SAID.format(first=escape(first))))
        blocks.append(table(rows, RIGHT))
        blocks.append(Md(f"Images on which cells differ, by their position in the test split: {link}."))
    return blocks


def _groups(view: View) -> Iterator[tuple[str, dict[str, Right]]]:
    """Device and origin → the cells' outcomes on one test split, those that compute one function once."""
    attempts = view.results.tables["attempts"]
    having = set(attempts.loc[attempts["outcomes"] > 0, "file"])
    done = view.train[(view.train["state"] == "ok") & (view.train["cell"].map(view.function_of) == view.train["cell"])]
    for (device, origin), rows in done.groupby(["device", "origin"], sort=False):
        standing = view.results.standing
        cell_of = dict(zip(rows["trial_id"], rows["cell"], strict=True))
        of_trial, found = dict[str, np.ndarray](), dict[str, list[np.ndarray]]()
        splits = set()
        wanted = [a for trial_id in cell_of if (a := standing[trial_id]).file in having]
        for attempt, record in view.study.records_of(wanted):
            values = record.values
            if isinstance(values, TrainValues) and values.test_right is not None:
                of_trial[attempt.trial_id] = of_bits(values.test_right, values.test_images)
                splits.add((values.data_checksum, values.test_images))
        for trial_id, cell in cell_of.items():
            if trial_id in of_trial:
                found.setdefault(cell, []).append(of_trial[trial_id])
        if len(found) > 1 and len(splits) == 1:
            which = f" {view.origins.letter(str(origin))}" if view.origins.several else ""
            yield f"{device}{which}", {cell: np.stack(of) for cell, of in found.items()}
