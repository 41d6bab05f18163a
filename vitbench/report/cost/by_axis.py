"""Speed by axis: verdicts over matched blocks, of timings and of training runs, as a table and as numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import pandas as pd

from vitbench.analysis.axis_speeds import MARGIN, AxisSpeed, axis_speeds, judge
from vitbench.analysis.differences import paired
from vitbench.analysis.frames import level
from vitbench.analysis.grouped import finished, texts
from vitbench.analysis.paired import CONFIDENCE
from vitbench.report.cost.speed import CONTROL, geometric_mean
from vitbench.report.cost.time_groups import TimeGroup
from vitbench.report.document import Bar, Block, Scale, table
from vitbench.report.inline import NOTHING, Md, bold, escape
from vitbench.report.origins import of_origin
from vitbench.report.text import count, fixed, plural, probability
from vitbench.report.view import View

RUNS = "training run"
OPTIONAL = frozenset({"p (Holm)", "blocks", "least to most"})
RIGHT = frozenset({"speed (×)", "95 % interval", "p (Holm)", "blocks", "least to most", "peak memory (×)"})


@dataclass(frozen=True)
class SpeedGroup:
    """Speeds that may be compared.

    Attributes:
        group: of timings; None of training runs.
        device: where.
        origin: whose.
    """

    group: TimeGroup | None
    device: str
    origin: str


def judged(view: View) -> dict[SpeedGroup, list[AxisSpeed]]:
    """The speeds of all axes along which the cells of the grid were measured, with verdicts over the whole study."""
    if view.axis_speeds is None:
        every = [*_of_timings(view), *_of_training(view)]
        found: dict[SpeedGroup, list[AxisSpeed]] = {}
        for each in judge(every):
            assert isinstance(each.group, SpeedGroup)
            found.setdefault(each.group, []).append(each)
        view.axis_speeds = found
    return view.axis_speeds


def tables(view: View, group: TimeGroup | None, device: str) -> list[Block]:
    """A table for each origin of one setting, or of the training runs; none where no axis has two values."""
    blocks: list[Block] = []
    mine = {m: found for m, found in judged(view).items() if (m.group, m.device) == (group, device)}
    rows = view.timings(group) if group else view.runs(device)
    rows = rows[rows["factorial"].astype(bool)]
    for measured, found in mine.items():
        if not any(each.blocks for each in found):
            continue
        known = [each for each in found if each.blocks]
        lines = [_line(view, each) | _memory(view, measured, each) for each in known]
        bars: list[Bar | None] = [Bar(each.ratio, each.low, each.high) for each in known]
        controls = _control(view, measured, list(lines[-1]))
        made = table([*lines, *controls], right=set(RIGHT))
        scale = Scale(1.0, (1 / (1 + MARGIN), 1 + MARGIN), logarithmic=True)
        on = f" on {view.origins.letter(measured.origin)}" if view.origins.several else ""
        over = plural(max(e.repetitions for e in found), *(("process", "processes") if group else ("seed",)))
        said = f"By axis{on}: geometric mean over matched blocks in {over}."
        if not any(each.verdict for each in found):
            said += NO_INTERVAL
        without = [
            f"{view.axis_names[e.axis]} {e.value} ({absence_of(view, rows, e.axis, e.value)})"
            for e in found
            if not e.blocks
        ]
        said += f" Without a result: {', '.join(without)}." if without else ""
        bars += [None for _ in controls]
        blocks.append(made.with_bars({"speed (×)": (bars, scale)}).captioned(escape(said)).hiding(OPTIONAL))
    return blocks


NO_INTERVAL = (
    " No interval: that takes two repetitions, in an order drawn anew for each, on a machine with no other load."
)


def absence_of(view: View, rows: pd.DataFrame, axis: str, value: str) -> str:
    """The word that stands for the trials with one value of an axis where they have no result."""
    return view.origins.absence(rows[[text == value for text in texts(rows[axis])]])


def axes_frame(view: View) -> pd.DataFrame:
    """Speeds by axis as numbers: a row for each device, setting, origin, axis and value but the reference."""
    lines = []
    for measured, found in judged(view).items():
        group = measured.group
        where = {
            "device": measured.device,
            "dtype": group.dtype if group else "",
            "batch_size": group.batch_size if group else "",
            "mode": group.mode if group else RUNS,
            "level": group.level if group else "",
            "level_shape": group.shape if group else "",
            "origin": view.origins.letter(measured.origin),
        }
        for each in found:
            numbers = asdict(each)
            del numbers["group"]
            lines.append({**where, **numbers})
    return pd.DataFrame(lines)


def _of_timings(view: View) -> Iterable[AxisSpeed]:
    for group in view.time_groups:
        planned = view.timings(group)
        telling = [axis for axis in view.axes if planned[axis].map(level).nunique() > 1]
        for origin in view.origins.of(planned):
            rows = of_origin(finished(planned[planned["factorial"].astype(bool)]), origin)
            rows = rows[["trial_id", *view.axes]].merge(view.processes, on="trial_id")
            rows = rows.rename(columns={"process": "repetition"})
            yield from axis_speeds(rows, view.axes, telling, SpeedGroup(group, group.device, origin))


def _of_training(view: View) -> Iterable[AxisSpeed]:
    for device in view.train_devices:
        runs = view.runs(device, [*view.axes, "factorial", "started_at", "train_images_per_s"])
        for origin in view.origins.of(view.runs(device)):
            rows = of_origin(finished(runs[runs["factorial"].astype(bool)]), origin)
            rows = rows[rows["train_images_per_s"] > 0]
            # Seeds of one program have one start and one speed: together they are one repetition.
            unit = rows.groupby(["cell", "started_at"], sort=False)["seed"].transform("min")
            rows = rows.assign(repetition=unit, log_speed=np.log(rows["train_images_per_s"].to_numpy(np.float64)))
            found = axis_speeds(rows, view.axes, view.axes, SpeedGroup(None, device, origin))
            yield from found if _is_shuffled(rows) and view.contention(device).alone else map(_untold, found)


def _is_shuffled(rows: pd.DataFrame) -> bool:
    """Whether cells did not come in one order in all seeds: else a drift of the machine is taken for an effect."""
    several = rows[rows.groupby("cell")["repetition"].transform("nunique") == rows["repetition"].nunique()]
    orders = {tuple(mine.sort_values("started_at", kind="stable")["cell"]) for _, mine in several.groupby("repetition")}
    return len(orders) > 1


def _untold(each: AxisSpeed) -> AxisSpeed:
    """The same ratio without what would be told from it."""
    return replace(each, low=math.nan, high=math.nan, p=math.nan, p_equivalent=math.nan)


def _line(view: View, each: AxisSpeed) -> dict[str, Md]:
    interval = Md(f"{fixed(each.low, 2)} to {fixed(each.high, 2)}") if math.isfinite(each.low) else NOTHING
    return {
        "axis": escape(view.axis_names[each.axis]),
        "value": escape(each.value),
        "verdict": bold(Md(each.verdict)) if each.verdict else NOTHING,
        "against": escape(each.against),
        "speed (×)": fixed(each.ratio, 2),
        "95 % interval": interval,
        "p (Holm)": probability(each.p_holm),
        "blocks": count(each.blocks),
        "least to most": Md(f"{fixed(each.least, 2)} to {fixed(each.most, 2)}") if each.blocks > 1 else NOTHING,
    }


def _memory(view: View, measured: SpeedGroup, each: AxisSpeed) -> dict[str, Md]:
    """Peak memory over that with the reference, the geometric mean over matched blocks; of timings."""
    if measured.group is None:
        return {}
    found = view.timing_over(each.axis, measured.origin, measured.group, "peak_memory_mib")
    known = each.value in found.table and len(found.table)
    mean = geometric_mean(found.ratios()[each.value]) if known else math.nan
    return {"peak memory (×)": fixed(mean, 2) if math.isfinite(mean) else NOTHING}


def _control(view: View, measured: SpeedGroup, columns: Sequence[str]) -> list[dict[str, Md]]:
    """The row of the A/A control: the speed of the baseline's second instance, Student's t over processes."""
    if measured.group is None:
        return []
    rows = of_origin(finished(view.timings(measured.group)), measured.origin)
    beside = view.processes[view.processes["trial_id"].isin(rows["trial_id"])]
    controls = beside[["process", "log_control"]].dropna().drop_duplicates()["log_control"].to_numpy(np.float64)
    if len(controls) < 2:
        return []
    found = paired(controls)
    mean, reach = float(found.mean), float(found.reach(CONFIDENCE))
    line = dict.fromkeys(columns, NOTHING) | {
        "axis": Md(CONTROL),
        "speed (×)": fixed(math.exp(mean), 2),
        "95 % interval": Md(f"{fixed(math.exp(mean - reach), 2)} to {fixed(math.exp(mean + reach), 2)}"),
    }
    return [line]
