"""Other image sizes: the accuracy of trained models on test images of other sizes than they were trained on."""

from collections.abc import Iterator

import pandas as pd

from vitbench.analysis.paired import interval
from vitbench.config.base import pair
from vitbench.report.document import Block, table
from vitbench.report.figures.charts import Colouring, Picture, Trends
from vitbench.report.groups import Group
from vitbench.report.output import Files
from vitbench.report.text import Md, cut, escape, fixed, ranging, signed, spread
from vitbench.report.view import MAX_CELLS, View

MOST_LINES = 8
SHORT = (
    "**Other image sizes{on}**, the highest mean, and the best change from the size of training in points (neither is "
    "tested): {sizes}."
)
EXPLAINED = Md(
    "Trained at one size, judged at others: learned positions are resampled, computed ones are those of the larger or "
    "smaller grid. The change is that from the size of training, in points, with its 95 % interval over seeds; "
    "intervals are not corrected for their number."
)


def section(view: View, files: Files) -> list[Block]:
    """A table and a picture of each group, and the numbers; nothing where the suite asks for no other size."""

    def of_group(group: Group) -> Iterator[Block]:
        if (numbers := frame(view, group)).empty:
            return
        order = [cell for cell in view.ranked(group.device) if cell in set(numbers["cell"])]
        lines = [_line(view, numbers, cell) for cell in order[:MAX_CELLS]]
        yield table(lines, right={name for line in lines for name in line} - {"cell"})
        yield from cut(len(order), MAX_CELLS, "cell")
        if len(order) <= MOST_LINES:
            yield files.picture(_picture(view, numbers, group, order))
        yield Md(f"As numbers: {files.table(f'other-sizes{group.ending}', numbers)}.")

    blocks = view.by_group(of_group) if _asked(view) else []
    return [EXPLAINED, *blocks] if blocks else []


def in_short(view: View) -> list[Md]:
    """At each other size the cell of the highest mean, and the one that changes least; nothing where there is none."""
    sentences = []
    for group in view.groups if _asked(view) else ():
        if (numbers := frame(view, group)).empty:
            continue
        runs = numbers.pivot_table(index=["cell", "seed"], columns="image_size", values="test_accuracy_pct")
        trained = numbers[numbers["trained_at"]].set_index(["cell", "seed"])["test_accuracy_pct"]
        means, changes = (each.groupby("cell", sort=False).mean() for each in (runs, runs.sub(trained, axis=0)))
        parts = [
            f"{size} px: {escape(means[size].idxmax())} {fixed(means[size].max(), view.decimals)} %, "
            f"{escape(changes[size].idxmax())} {signed(changes[size].max(), view.decimals)}"
            for size in means
            if size not in set(numbers.loc[numbers["trained_at"], "image_size"])
        ]
        sentences += [Md(SHORT.format(on=group.on, sizes="; ".join(parts)))] if parts else []
    return sentences


def frame(view: View, group: Group) -> pd.DataFrame:
    """A row for each cell, seed and size in a group: its test accuracy, and whether the model was trained at it."""
    runs = view.done(group, ["trial_id"])
    rows = []
    for trial_id, trial, values in view.values_of_runs(runs["trial_id"]):
        sizes = trial.train.test_sizes
        accuracies = dict(zip(sizes, values.test_accuracies_at, strict=False))
        accuracies[pair(trial.model.image_size)[0]] = values.test_accuracy_pct
        rows += [(trial_id, trial.seed, size, size not in sizes, accuracy)
                 for size, accuracy in sorted(accuracies.items())]  # fmt: skip
    numbers = pd.DataFrame(rows, columns=["trial_id", "seed", "image_size", "trained_at", "test_accuracy_pct"])
    cell_of = dict(zip(runs["trial_id"], runs["cell"], strict=True))
    return numbers.assign(cell=numbers["trial_id"].map(cell_of))[["cell", *numbers.columns]]


def _asked(view: View) -> bool:
    return any(trial.train.test_sizes for trial in view.trained.values())


def _line(view: View, numbers: pd.DataFrame, cell: str) -> dict[str, Md]:
    rows = numbers[numbers["cell"] == cell]
    runs = rows.pivot_table(index="seed", columns="image_size", values="test_accuracy_pct")
    base = runs[int(rows.loc[rows["trained_at"], "image_size"].iloc[0])]
    line, trained = {"cell": escape(cell)}, set(numbers.loc[numbers["trained_at"], "image_size"])
    for size in runs:
        title = f"{size} px (%){', trained' if size in trained else ''}"
        line[title] = spread(runs[size].mean(), runs[size].std(), view.decimals)
        if size != base.name:
            change = (runs[size] - base).dropna()
            ends = interval(change.tolist())
            reach = ranging(ends.low, ends.high, view.decimals, sign=True)
            line[f"change at {size} px"] = Md(f"{signed(change.mean(), view.decimals)} ({reach})")
    return line


def _picture(view: View, numbers: pd.DataFrame, group: Group, order: list[str]) -> Picture:
    points = numbers[["cell", "image_size", "test_accuracy_pct"]].set_axis(["colour", "at", "value"], axis=1)
    points = points.assign(at=points["at"].astype("float64"), place=points["colour"].map(order.index))
    points = points.sort_values(["place", "at"], kind="stable").drop(columns="place")
    alt, sizes = f"Test accuracy by image size on {group.name}", sorted(points["at"].unique())
    colouring = Colouring("cell", view.in_colour(order), order)
    chart = Trends("image size (pixels)", "test accuracy (%)", sizes, points, colouring, logarithmic=False)
    return Picture(f"other-sizes{group.ending}", chart, alt, f"{alt}: points are single runs, lines join their means.")
