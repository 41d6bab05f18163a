"""Speed by axis: verdicts over matched blocks, of timings and of training runs, as a table and as numbers."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import asdict, replace

import numpy as np
import pandas as pd

from vitbench.analysis.axis_speeds import MARGIN, AxisSpeed, axis_speeds, judge
from vitbench.analysis.differences import paired
from vitbench.analysis.grouped import finished, texts
from vitbench.analysis.paired import CONFIDENCE
from vitbench.report.cost.speed import CONTROL, axes_of, geometric_mean
from vitbench.report.document import Bar, Block, Scale, table
from vitbench.report.groups import RUNS, TimeGroup, of_environment
from vitbench.report.text import NOTHING, Md, bold, count, escape, fixed, probability, ranging
from vitbench.report.view import View
from vitbench.wording import plural

OPTIONAL = frozenset({"p (Holm)", "blocks", "least to most"})
SPEED, INTERVAL = "speed (×)", "95 % interval"
RIGHT = frozenset({SPEED, INTERVAL, "p (Holm)", "blocks", "least to most", "peak memory (×)"})
NO_INTERVAL = " No interval: that takes two processes."


def judged(view: View) -> dict[TimeGroup, list[AxisSpeed]]:
    """The speeds of all axes along which the cells of the grid were measured, with verdicts over the whole study."""
    if view.axis_speeds is None:
        measured = dict([*_of_timings(view), *_of_training(view)])
        verdicts = iter(judge([*itertools.chain(*measured.values())]))
        view.axis_speeds = {group: [next(verdicts) for _ in speeds] for group, speeds in measured.items()}
    return view.axis_speeds


def scale() -> Scale:
    """The scale of speeds relative to a reference, with the margin around 1."""
    return Scale(1.0, (1 / (1 + MARGIN), 1 + MARGIN), logarithmic=True)


def table_of(view: View, group: TimeGroup) -> list[Block]:
    """The table of a group of timings, or of training runs where they have verdicts; none without two values."""
    speeds = judged(view).get(group, [])
    known = [each for each in speeds if each.blocks]
    runs = group.mode == RUNS
    if not known or (runs and not any(each.verdict for each in known)):
        return []
    lines = [_line(view, each) | ({} if runs else _memory(view, group, each)) for each in known]
    bars: list[Bar | None] = [Bar(each.ratio, each.low, each.high) for each in known]
    if (control := None if runs else _control(view, group)) is not None:
        lines.append({"axis": Md(CONTROL), SPEED: fixed(control.value, 2),
                      INTERVAL: ranging(control.low, control.high, 2)})  # fmt: skip
        bars.append(None)
    over = plural(max(each.repetitions for each in speeds), *(("seed",) if runs else ("process", "processes")))
    caption = f"By axis{group.on}: geometric mean over matched blocks in {over}."
    caption += "" if any(each.verdict for each in speeds) else NO_INTERVAL
    if without := [each for each in speeds if not each.blocks]:
        rows = view.runs(group.device) if runs else view.timings(group)
        rows = rows[rows["factorial"].astype(bool)]
        words = [view.environments.absence(rows[[text == e.value for text in texts(rows[e.axis])]]) for e in without]
        named = (f"{view.axis_names[e.axis]} {e.value} ({word})" for e, word in zip(without, words, strict=True))
        caption += f" Without a result: {', '.join(named)}."
    return [table(lines, RIGHT, caption=escape(caption), bars={SPEED: (bars, scale())}, optional=OPTIONAL)]


def axes_frame(view: View) -> pd.DataFrame:
    """Speeds by axis as numbers: a row for each device, setting, environment, axis and value but the reference."""
    lines = []
    for group, speeds in judged(view).items():
        of_runs = {"batch_size": "", "level": ""} if group.mode == RUNS else {}
        where = {"device": group.device, "dtype": group.dtype, "batch_size": group.batch_size, "mode": group.mode,
                 "level": group.level, "level_shape": group.shape,
                 "environment": view.environments.letter(group.environment)} | of_runs  # fmt: skip
        lines += [{**where, **asdict(each)} for each in speeds]
    return pd.DataFrame(lines)


def _of_timings(view: View) -> Iterator[tuple[TimeGroup, list[AxisSpeed]]]:
    for group in view.time_groups:
        rows = view.timed(group)
        rows = rows.loc[rows["factorial"].astype(bool), ["trial_id", *view.axes]].merge(view.processes, on="trial_id")
        rows = rows.rename(columns={"process": "repetition"})
        yield group, axis_speeds(rows, view.axes, axes_of(view, group))


def training(view: View, device: str) -> list[TimeGroup]:
    """The training runs on a device, of each environment."""
    keys = view.environments.of(view.runs(device))
    return [TimeGroup(device, environment=key, letter=letter) for key, letter in keys]


def _of_training(view: View) -> Iterator[tuple[TimeGroup, list[AxisSpeed]]]:
    for group in [group for device in view.train_devices for group in training(view, device)]:
        runs = view.runs(group.device, [*view.axes, "factorial", "started_at", "train_images_per_s"])
        rows = of_environment(finished(runs[runs["factorial"].astype(bool)]), group.environment)
        rows = rows[rows["train_images_per_s"] > 0]
        # Seeds of one program have one start and one speed: together they are one repetition.
        unit = rows.groupby(["cell", "started_at"], sort=False)["seed"].transform("min")
        rows = rows.assign(repetition=unit, log_speed=np.log(rows["train_images_per_s"].to_numpy(np.float64)))
        reliable = _is_shuffled(rows) and view.contention[group.device].alone
        speeds, unknown = axis_speeds(rows, view.axes, view.axes), math.nan
        if not reliable:
            speeds = [replace(each, low=unknown, high=unknown, p=unknown, p_equivalent=unknown) for each in speeds]
        yield group, speeds


def _is_shuffled(rows: pd.DataFrame) -> bool:
    """Whether cells did not come in one order in all seeds: else a drift of the machine is taken for an effect."""
    several = rows[rows.groupby("cell")["repetition"].transform("nunique") == rows["repetition"].nunique()]
    runs = several.sort_values("started_at", kind="stable").groupby("repetition")["cell"]
    return len({tuple(cells) for _, cells in runs}) > 1


def _line(view: View, each: AxisSpeed) -> dict[str, Md]:
    return {
        "axis": escape(view.axis_names[each.axis]),
        "value": escape(each.value),
        "verdict": bold(Md(each.verdict)) if each.verdict else NOTHING,
        "against": escape(each.against),
        SPEED: fixed(each.ratio, 2),
        INTERVAL: ranging(each.low, each.high, 2),
        "p (Holm)": probability(each.p_holm),
        "blocks": count(each.blocks),
        "least to most": ranging(each.least, each.most, 2) if each.blocks > 1 else NOTHING,
    }


def _memory(view: View, group: TimeGroup, each: AxisSpeed) -> dict[str, Md]:
    """Peak memory over that with the reference, the geometric mean over matched blocks."""
    blocks = view.timing_over(each.axis, group, "peak_memory_mib")
    known = each.value in blocks.table and len(blocks.table)
    return {"peak memory (×)": fixed(geometric_mean(blocks.ratios()[each.value]) if known else math.nan, 2)}


def _control(view: View, group: TimeGroup) -> Bar | None:
    """The A/A control: the speed of the baseline's second instance, with Student's t over processes."""
    beside = view.processes[view.processes["trial_id"].isin(view.timed(group)["trial_id"])]
    controls = beside[["process", "log_control"]].dropna().drop_duplicates()["log_control"].to_numpy(np.float64)
    if len(controls) < 2:
        return None
    difference = paired(controls)
    mean, reach = float(difference.mean), float(difference.reach(CONFIDENCE))
    return Bar(math.exp(mean), math.exp(mean - reach), math.exp(mean + reach))
