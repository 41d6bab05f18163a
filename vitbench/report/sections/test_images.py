"""Test images one by one: the luck of the images in a difference, and on which of them cells differ."""

from collections.abc import Iterator

import numpy as np

from vitbench.analysis.image_outcomes import Right, differing, mcnemar, of_bits, two_sources
from vitbench.report.document import Block, table
from vitbench.report.groups import Group
from vitbench.report.output import Files
from vitbench.report.text import Md, escape, probability, ranging, signed
from vitbench.report.view import MAX_CELLS, View

EXPLAINED = Md(
    "The test images are a sample, too. Each row compares a cell with {first}: the difference of their mean test "
    "accuracies over all seeds of each, with a 95 % interval over seeds *and* test images, and the images' share of "
    "the variance. Gained and lost: images that only one of the two classifies correctly, by the majority of its "
    "seeds. p: McNemar's exact test of these models on these images, not corrected for the number of rows."
)

RIGHT = frozenset({"difference, points", "by the images", "gained", "lost", "p"})


def section(view: View, files: Files) -> list[Block]:
    """A table of each group, and the images on which its cells differ; nothing of a study that trains nothing."""

    def of_group(group: Group) -> Iterator[Block]:
        if not (of_cells := _outcomes(view, group)):
            return
        first, *others = of_cells
        rows = []
        for cell in others[:MAX_CELLS]:
            both = two_sources(of_cells[cell], of_cells[first])
            test = mcnemar(of_cells[cell], of_cells[first])
            row = {"cell": escape(cell), "gained": Md(str(test.gained)), "lost": Md(str(test.lost))}
            row["p"] = probability(test.p)
            if both is not None:
                row["difference, points"] = Md(
                    f"{signed(both.delta, 2)} ({ranging(both.low, both.high, 2, sign=True)})"
                )
                row["by the images"] = Md(f"{100 * both.share_of_images:.0f} %")
            rows.append(row)
        link = files.table(f"images{group.ending}", differing(of_cells))
        where = Md(f"Images on which cells differ, by their position in the test split: {link}.")
        yield from (Md(EXPLAINED.format(first=escape(first))), table(rows, RIGHT), where)

    return view.by_group(of_group)


def _outcomes(view: View, group: Group) -> dict[str, Right]:
    """Cell → its outcomes on the test images; of cells that compute one function the first. Empty where fewer than two
    have any, and where they were tested on different images.
    """
    attempts, standing = view.results.tables["attempts"], view.results.standing
    having = set(attempts.loc[attempts["outcomes"] > 0, "file"])
    rows = view.done(group, ["trial_id"])
    rows = rows[rows["cell"].map(view.function_of) == rows["cell"]]
    of_trial, splits, outcomes = dict[str, np.ndarray](), set(), dict[str, list[np.ndarray]]()
    wanted = (trial_id for trial_id in rows["trial_id"] if standing[trial_id].file in having)
    for trial_id, _, values in view.values_of_runs(wanted):
        if values.test_right is not None:
            of_trial[trial_id] = of_bits(values.test_right, values.test_images)
            splits.add((values.data_checksum, values.test_images))
    for trial_id, cell in zip(rows["trial_id"], rows["cell"], strict=True):
        if trial_id in of_trial:
            outcomes.setdefault(cell, []).append(of_trial[trial_id])
    alike = len(outcomes) > 1 and len(splits) == 1
    return {cell: np.stack(of) for cell, of in outcomes.items()} if alike else {}
