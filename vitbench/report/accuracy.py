"""Accuracy in tables: by cell, by axis over matched blocks, and beside published numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd

from vitbench.analysis.paired import Interval
from vitbench.analysis.summary import ACCURACY, Matched, texts
from vitbench.report.cell_tables import SHARED, Result, Results, lines, right, shared
from vitbench.report.document import Block, Table, table
from vitbench.report.markdown import NOTHING, Md, bold, escape, listed
from vitbench.report.numbers import accuracy_decimals, count, fixed, measured, plural, signed, significant, spread
from vitbench.report.origins import states_of
from vitbench.report.view import View

TEST = "test accuracy (%)"
INTERVAL = "95 % interval (%)"
VALIDATION = "validation, last epoch (%)"
SECONDS = "seconds per run"
SEEDS, STEPS, TFLOP, PARAMETERS, FLOPS = "seeds", "steps", "TFLOP per run", "parameters", "FLOPs per image (M)"
SAME: Mapping[str, str] = {
    SEEDS: "n = {} (seeds)",
    STEPS: "{} steps per run",
    TFLOP: "{} TFLOP per run",
    PARAMETERS: "{} parameters",
    FLOPS: "{} million FLOPs per image",
}
"""Columns that are said once where all cells agree → how."""
STANDS_FOR, MAX_NAMED = "stands for", 12
SURVIVORS = Md("†")
AT_CHANCE = Md("at chance")
"""Of a cell whose interval reaches down to the accuracy of a guess."""
MEAN, STD = f"{ACCURACY}_mean", f"{ACCURACY}_std"


def decimals_of(view: View) -> int:
    """Decimals of test accuracy that the study's test images resolve."""
    sizes = view.by_cell["test_images"]
    return accuracy_decimals(float(sizes.min()) if len(sizes) else math.nan)


def ranked_cells(view: View, device: str) -> list[str]:
    """Cells planned on a device: the best mean test accuracy first, those without a result last, in plan order."""
    planned = list(view.train.loc[view.train["device"] == device, "cell"].unique())
    found = view.by_cell[view.by_cell["device"] == device]
    best = found.groupby("cell", sort=False)[MEAN].max().to_dict()
    return sorted(planned, key=lambda cell: -best.get(cell, -math.inf))


def task(view: View, cell: str) -> str:
    """What a cell classifies: its values of the axes that change that; empty where all classify the same."""
    return " · ".join(view.values_of(cell)[axis] for axis in view.conditions)


def by_cell(view: View, device: str) -> list[Block]:
    """What is said of the table of test accuracy, and the table: a row for each planned cell.

    Cells for which an equivalent one stands are named in its row, and have none of their own.

    Bold are the highest mean of each task and origin, and those that cannot be told from it: equal as printed, or no
    further from it than exact twins are from one another. Of single runs none is, since nothing says how far luck goes.
    """
    rows = view.judged_runs(device)
    found = {(r["cell"], r["origin"]): r for r in view.by_cell.to_dict("records") if r["device"] == device}
    stood_for = _stood_for(view)
    validated = bool(view.by_cell["validation_accuracy_pct_mean"].notna().any())
    decimals, states = decimals_of(view), states_of(rows)
    of_mean = view.intervals(device)
    best = _best(view, found) if of_mean and len(found) > 1 else {}
    names = [*([INTERVAL] if of_mean else []), SEEDS, *([VALIDATION] if validated else []), SECONDS, STEPS, TFLOP]

    def values(cell: str, origin: str, result: Result) -> dict[str, Md]:
        shown = spread(result[MEAN], result[STD], decimals)
        shown = bold(shown) if _is_best(view, result, best.get((origin, task(view, cell)))) else shown
        columns = {
            INTERVAL: ends(of_mean.get((cell, origin)), decimals),
            SEEDS: seeds(result["n"], result["planned"]),
            VALIDATION: spread(result["validation_accuracy_pct_mean"], result["validation_accuracy_pct_std"], decimals),
            SECONDS: measured(result["seconds_mean"], result["seconds_std"]),
            STEPS: count(result["steps"]),
            TFLOP: significant(result["train_flops"] / 1e12),
        }
        shown = Md(f"{shown} ({AT_CHANCE})") if view.is_at_chance(cell, of_mean.get((cell, origin))) else shown
        marked = Md(f"{shown} {SURVIVORS}") if states[cell] != "ok" else shown
        also = {STANDS_FOR: listed(stood_for.get(cell, ()), MAX_NAMED) or NOTHING} if stood_for else {}
        return {TEST: marked, **{name: columns[name] for name in names}, **also}

    def absent(word: Md) -> dict[str, Md]:
        return {TEST: word, **(dict.fromkeys(names, NOTHING) if found else {})}

    whole = view.trials[(view.trials["kind"] == "train") | (view.trials["level"] == "model")]
    sizes = whole.groupby("cell", sort=False)[["parameters", "forward_flops"]].first().to_dict("index")
    cells = [cell for cell in ranked_cells(view, device) if cell not in view.stood_for]
    made = [
        {**line, PARAMETERS: count(sizes[cell]["parameters"]), FLOPS: significant(sizes[cell]["forward_flops"] / 1e6)}
        for cell, line in zip(cells, lines(view, rows, cells, found, values=values, absent=absent), strict=False)
    ]
    made, same = shared(made, SAME)
    said = [_order(view, device, bool(best))]
    if stood_for:
        said.append(f'What a cell "{STANDS_FOR}" are equivalent implementations of it: they are trained with the '
                    "first seed alone, and have no row of their own.")  # fmt: skip
    if same:
        said.append(f"{SHARED}: {', '.join(SAME[name].format(value) for name, value in same.items())}.")
    return [Md(" ".join(said)), table(made, right=right(view, made))]


def _stood_for(view: View) -> dict[str, list[str]]:
    """Cell → the equivalent ones for which its further seeds stand."""
    found: dict[str, list[str]] = {}
    for cell, other in view.stood_for.items():
        found.setdefault(other, []).append(cell)
    return found


def _order(view: View, device: str, is_bold: bool) -> str:
    """In which order the cells stand, and which of them stand out."""
    order = "the highest mean first" if len(view.by_cell) else "none has a result"
    if is_bold:
        floor = _floor(view)
        near = (
            f"what is within {fixed(floor, 2)} points of it, the noise floor" if floor else "what equals it as printed"
        )
        order += f"; in bold the highest{' of each task' if view.conditions else ''}, and {near}"
    return f"Test accuracy by cell on {escape(device)}, {order}."


def _floor(view: View) -> float:
    """By how much two means of test accuracy may differ, in points, and be one as far as is known."""
    return view.noise.largest if view.noise else 0.0


def _best(view: View, found: Results) -> dict[tuple[str, str], float]:
    """(origin, task) → the highest mean."""
    best: dict[tuple[str, str], float] = {}
    for (cell, origin), of_cell in found.items():
        key = origin, task(view, cell)
        best[key] = max(best.get(key, -math.inf), of_cell[MEAN])
    return best


def _is_best(view: View, result: Result, best: float | None) -> bool:
    """Whether a mean cannot be told from the highest; there may be none to compare with."""
    if best is None:
        return False
    decimals = decimals_of(view)
    return result[MEAN] >= best - _floor(view) or fixed(result[MEAN], decimals) == fixed(best, decimals)


def ends(of_mean: Interval | None, decimals: int) -> Md:
    """An interval of an accuracy in words; of one seed there is none."""
    return Md(f"{fixed(of_mean.low, decimals)} to {fixed(of_mean.high, decimals)}" if of_mean else "one seed")


def seeds(n: int, planned: int) -> Md:
    """How many seeds a mean is over, and of how many where some are missing."""
    return Md(f"{n}" if n == planned else f"{n} of {planned}")


def by_cell_frame(view: View) -> pd.DataFrame:
    """The same as numbers: a row for each device, cell and origin; for a cell without a result, one with its state."""
    values = view.trials.drop_duplicates("cell").set_index("cell")[list(view.axes)]
    states = {device: states_of(rows) for device, rows in view.judged.groupby("device", sort=False)}
    planned = view.judged.groupby(["device", "cell"], sort=False).size().rename("planned").reset_index()
    frame = planned.merge(view.by_cell.drop(columns="planned"), on=["device", "cell"], how="left")
    frame = frame.join(values, on="cell")
    of_mean = {device: view.intervals(device) for device in view.train_devices}
    found = [of_mean[d].get((c, o)) for d, c, o in frame[["device", "cell", "origin"]].itertuples(index=False)]
    place = list(frame.columns).index(STD) + 1
    for name in ("high", "low"):
        frame.insert(place, f"{ACCURACY}_{name}", [getattr(each, name) if each else math.nan for each in found])
    at_chance = [view.is_at_chance(cell, each) for cell, each in zip(frame["cell"], found, strict=True)]
    frame.insert(place + 2, "at_chance", at_chance)
    frame["n"] = frame["n"].astype("float64").fillna(0).astype(int)
    stood_for = {"seeds_of": frame["cell"].map(view.stood_for)} if view.stood_for else {}
    frame = frame.assign(**stood_for)
    frame["state"] = [states[d][c] for d, c in zip(frame["device"], frame["cell"], strict=True)]
    frame["origin"] = [view.origins.letter(o) if isinstance(o, str) else "" for o in frame["origin"]]
    first = ["device", "cell", *view.axes, "state", "origin", "n", "planned", *stood_for]
    return frame[[*first, *(c for c in frame.columns if c not in first)]]


def over_axis(view: View, device: str, axis: str) -> list[Block]:
    """Blocks for one axis: what was matched, and the table of its values; none where nothing can be matched."""
    rows = view.train[(view.train["device"] == device) & view.train["factorial"].astype(bool)]
    origins = view.origins.of(rows)
    exact = [view.exact(axis, value) for value in view.axes[axis]]
    lines: list[dict[str, Md]] = []
    said, comparable = list[str](), False
    for origin in origins:
        found = view.accuracy_over(axis, origin, device)
        on = f"On {view.origins.letter(origin)}: " if len(origins) > 1 else ""
        said.append(on + matching(view, found, "run", repeats=not all(exact)))
        comparable = comparable or len(found.table.columns) > 1
        for value in view.axes[axis]:
            line = {"on": Md(view.origins.letter(origin))} if len(origins) > 1 else {}
            absence = "" if value in found.table else absence_of(view, rows, axis, value)
            lines.append(line | {view.axis_names[axis]: escape(value)} | _effect(view, found, value, absence))
    if not lines:
        return []
    if all(exact) and comparable:
        said.append("All of its values are exact twins, so that every difference here is noise.")
    if comparable:
        said.append("± is the standard deviation of the differences over blocks.")
    return [Md(" ".join(escape(s) for s in said)), table(lines, right=set(NUMBERS))]


MATCHED = "matched runs"
MARGINAL, DIFFERENCE, RANGE = "mean test accuracy (%)", "difference (points)", "smallest to largest (points)"
NUMBERS = (MATCHED, MARGINAL, DIFFERENCE, RANGE)
ITSELF = Md("\N{EM DASH}")
"""What stands for the difference of the reference from itself."""


def _effect(view: View, found: Matched, value: str, absence: str) -> dict[str, Md]:
    if value not in found.table:
        return {MATCHED: Md("0"), MARGINAL: escape(absence), "remark": Md("no result")}
    if not len(found.table):
        return {MATCHED: Md("0"), MARGINAL: Md("not matched"), "remark": Md("no complete block")}
    decimals = decimals_of(view) + 1
    line = {MATCHED: count(len(found.table)), MARGINAL: fixed(float(found.table[value].mean()), decimals)}
    if value == found.reference:
        return line | {DIFFERENCE: ITSELF, RANGE: ITSELF, "remark": Md("reference")}
    differences = found.differences()[value]
    mean, std = float(differences.mean()), float(differences.std(ddof=1)) if len(differences) > 1 else math.nan
    width = Md(f" ± {fixed(std, decimals)}") if math.isfinite(std) else Md("")
    ends = [signed(float(d), decimals) for d in (differences.min(), differences.max())]
    line |= {DIFFERENCE: Md(f"{signed(mean, decimals)}{width}"), RANGE: Md(f"{ends[0]} to {ends[1]}")}
    return line | {"remark": Md(remark(view, found, value))}


def remark(view: View, found: Matched, value: str) -> str:
    """What to keep in mind of a mean difference from the reference: noise, no more than noise, or how steady it is."""
    if view.exact(found.axis, value) and view.exact(found.axis, found.reference):
        return "exact twin: noise"
    differences = found.differences()[value]
    mean = float(differences.mean())
    if view.noise is not None and 0 < abs(mean) <= view.noise.largest:
        return "below the noise floor"
    if not mean:
        return "no difference"
    return f"{'above' if mean > 0 else 'below'} 0 in {(differences * mean > 0).sum():,} of {len(differences):,}"


def matching(view: View, found: Matched, noun: str, repeats: bool = False) -> str:
    """What a comparison over matched blocks rests on, in a sentence.

    Args:
        view: the study.
        found: the comparison.
        noun: what is compared.
        repeats: whether to tell how many of the blocks are more than exact twins of others.
    """
    if len(found.table.columns) == 1:
        return f"Of its values only {found.reference} has a result: nothing can be compared."
    said = f"{plural(len(found.table), 'matched block')} ({noun}s that differ in {view.axis_names[found.axis]} alone)"
    if repeats and found.distinct < len(found.table):
        said += f", {found.distinct:,} of them distinct and the others exact twins of these"
    if found.incomplete:
        by_plan = view.stood_for and all(view.exact(found.axis, value) for value in found.table.columns)
        why = "since one implementation is trained for all" if by_plan else "where one of the values has no result"
        said += f"; {plural(found.incomplete, 'block')} left out, {why}"
    if found.absent:
        said += f"; no result for {', '.join(found.absent)}"
    return f"{said}."


def absence_of(view: View, rows: pd.DataFrame, axis: str, value: str) -> str:
    """The word that stands for the trials with one value of an axis where they have no result."""
    return view.origins.absence(rows[[text == value for text in texts(rows[axis])]])


def axes_frame(view: View) -> pd.DataFrame:
    """Marginal means as numbers: a row for each device, origin, axis and value."""
    lines = []
    for device in view.train_devices:
        rows = view.runs(device)
        for origin in view.origins.of(rows):
            for axis in view.axes:
                found = view.accuracy_over(axis, origin, device)
                for value in found.table.columns:
                    column = found.table[value]
                    lines.append(
                        {
                            "device": device,
                            "origin": view.origins.letter(origin),
                            "axis": axis,
                            "value": value,
                            "reference": found.reference,
                            "blocks": len(column),
                            "incomplete_blocks": found.incomplete,
                            MEAN: column.mean(),
                            "difference_points_mean": found.differences()[value].mean(),
                            "difference_points_std": found.differences()[value].std(ddof=1),
                        }
                    )
    columns = ["device", "origin", "axis", "value", "reference", "blocks", "incomplete_blocks", MEAN,
               "difference_points_mean", "difference_points_std"]  # fmt: skip
    return pd.DataFrame(lines, columns=columns)


def published(view: View, device: str) -> Table | None:
    """Published and measured test accuracy side by side; None where the suite names no published number."""
    rows = view.train[(view.train["device"] == device) & view.train["published"].notna()]
    if rows.empty:
        return None
    decimals, lines, origins = decimals_of(view), list[dict[str, Md]](), view.origins.of(rows)
    states = states_of(rows)
    found = {(r["cell"], r["origin"]): r for r in view.by_cell.to_dict("records") if r["device"] == device}
    for row in rows.drop_duplicates("cell").to_dict("records"):
        for origin in [o for o in origins if (row["cell"], o) in found] or [""]:
            line = {"cell": escape(row["cell"]), "published (%)": significant(row["published"])}
            if len(origins) > 1:
                line["on"] = Md(view.origins.letter(origin)) if origin else Md("nowhere")
            if origin:
                result = found[row["cell"], origin]
                mark = f" {SURVIVORS}" if states[row["cell"]] != "ok" else ""
                line["measured (%)"] = Md(f"{spread(result[MEAN], result[STD], decimals)}{mark}")
                comparable = view.study.info.fallback is None
                difference = signed(result[MEAN] - row["published"], decimals)
                line["difference (points)"] = difference if comparable else Md("other data")
                line["seeds"] = seeds(result["n"], result["planned"])
            else:
                line |= {"measured (%)": escape(states[row["cell"]]), "seeds": Md("0")}
            lines.append(line | {"source": escape(row["published_source"])})
    return table(lines, right={"published (%)", "measured (%)", "difference (points)", "seeds"})
