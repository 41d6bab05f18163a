"""Speed by axis: verdicts over matched blocks, of timings and of training runs, as sentences, a table and numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import pandas as pd

from vitbench.analysis.axis_speeds import MARGIN, AxisSpeed, axis_speeds, judge
from vitbench.analysis.differences import paired
from vitbench.analysis.frames import level
from vitbench.analysis.paired import CONFIDENCE
from vitbench.analysis.summary import finished
from vitbench.report.accuracy import absence_of
from vitbench.report.cost.speed import CONTROL, geometric_mean
from vitbench.report.cost.time_groups import TimeGroup
from vitbench.report.document import Block, table
from vitbench.report.markdown import NOTHING, Md, bold, escape
from vitbench.report.numbers import count, fixed, plural, probability
from vitbench.report.origins import of_origin
from vitbench.report.view import View

RUNS = "training run"
RIGHT = frozenset({"speed (×)", "95 % interval", "p (Holm)", "blocks", "least to most", "peak memory (×)"})


@dataclass(frozen=True)
class Measured:
    """Speeds that may be compared.

    Attributes:
        group: of timings; None of training runs.
        device: where.
        origin: whose.
    """

    group: TimeGroup | None
    device: str
    origin: str


def judged(view: View) -> dict[Measured, list[AxisSpeed]]:
    """The speeds of all axes along which the cells of the grid were measured, with verdicts over the whole study."""
    if view.axis_speeds is None:
        every = [*_of_timings(view), *_of_training(view)]
        found: dict[Measured, list[AxisSpeed]] = {}
        for each in judge(every):
            assert isinstance(each.group, Measured)
            found.setdefault(each.group, []).append(each)
        view.axis_speeds = found
    return view.axis_speeds


def sentences(view: View) -> dict[Measured, Md]:
    """What was found of each axis, where a verdict could be told over two blocks or more: of timings alone."""
    said, busy = {}, ""
    if view.load_while_timing is not None:
        load, cores = view.load_while_timing
        busy = (
            f" **The machine was busy** (load average up to {fixed(load, 1)} on {cores} cores): on an idle one the "
            "ratios may differ."
        )
    for measured, found in judged(view).items():
        told = [each for each in found if each.verdict and each.blocks > 1]
        if measured.group is None or not told:
            continue
        parts = []
        for axis in dict.fromkeys(each.axis for each in told):
            mine = sorted((e for e in told if e.axis == axis), key=lambda e: -e.ratio)
            each_said = [f"{escape(e.value)} **{e.verdict}** ({_ratio(e)})" for e in mine]
            parts.append(f"{escape(view.axis_names[axis])}: {', '.join(each_said)}, against {escape(mine[0].against)}")
        on = f" on {view.origins.letter(measured.origin)}" if view.origins.several else ""
        what = escape(f"{measured.group.mode_name}, {measured.group.setting}")
        said[measured] = Md(f"Speed ({what}{on}), times as fast over matched blocks: {'; '.join(parts)}.{busy}")
    return said


def by_axis(view: View, group: TimeGroup | None, device: str) -> list[Block]:
    """Blocks: what the table says, and the table; none where no axis was measured with two values."""
    mine = {m: found for m, found in judged(view).items() if (m.group, m.device) == (group, device)}
    if not any(each.blocks for found in mine.values() for each in found):
        return []
    rows = view.timings(group) if group else view.runs(device)
    rows = rows[rows["factorial"].astype(bool)]
    lines = []
    for measured, found in mine.items():
        on = {"on": Md(view.origins.letter(measured.origin))} if len(mine) > 1 else {}
        for each in found:
            missing = absence_of(view, rows, each.axis, each.value)
            lines.append(on | _line(view, each, escape(missing)) | _memory(view, measured, each))
        lines += [on | line for line in _control(view, measured, list(lines[-1]))]
    return [_reading(view, [each for found in mine.values() for each in found], group), table(lines, right=set(RIGHT))]


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
            yield from axis_speeds(rows, view.axes, telling, Measured(group, group.device, origin))


def _of_training(view: View) -> Iterable[AxisSpeed]:
    for device in view.train_devices:
        planned = view.train[(view.train["device"] == device) & view.train["factorial"].astype(bool)]
        for origin in view.origins.of(planned):
            rows = of_origin(finished(planned), origin)
            rows = rows[rows["train_images_per_s"] > 0]
            # Seeds of one program have one start and one speed: together they are one repetition.
            unit = rows.groupby(["cell", "started_at"], sort=False)["seed"].transform("min")
            rows = rows.assign(repetition=unit, log_speed=np.log(rows["train_images_per_s"].to_numpy(np.float64)))
            found = axis_speeds(rows, view.axes, view.axes, Measured(None, device, origin))
            yield from found if _is_shuffled(rows) and view.contention(device).alone else map(_untold, found)


def _is_shuffled(rows: pd.DataFrame) -> bool:
    """Whether cells did not come in one order in all seeds: else a drift of the machine is taken for an effect."""
    several = rows[rows.groupby("cell")["repetition"].transform("nunique") == rows["repetition"].nunique()]
    orders = {tuple(mine.sort_values("started_at", kind="stable")["cell"]) for _, mine in several.groupby("repetition")}
    return len(orders) > 1


def _untold(each: AxisSpeed) -> AxisSpeed:
    """The same ratio without what would be told from it."""
    return replace(each, low=math.nan, high=math.nan, p=math.nan, p_equivalent=math.nan)


def _line(view: View, each: AxisSpeed, missing: Md) -> dict[str, Md]:
    known = bool(each.blocks)
    interval = Md(f"{fixed(each.low, 2)} to {fixed(each.high, 2)}") if math.isfinite(each.low) else NOTHING
    return {
        "axis": escape(view.axis_names[each.axis]),
        "value": escape(each.value),
        "verdict": bold(Md(each.verdict)) if each.verdict else NOTHING,
        "against": escape(each.against),
        "speed (×)": fixed(each.ratio, 2) if known else missing,
        "95 % interval": interval,
        "p (Holm)": probability(each.p_holm),
        "blocks": count(each.blocks),
        "least to most": Md(f"{fixed(each.least, 2)} to {fixed(each.most, 2)}") if each.blocks > 1 else NOTHING,
    }


def _memory(view: View, measured: Measured, each: AxisSpeed) -> dict[str, Md]:
    """Peak memory over that with the reference, the geometric mean over matched blocks; of timings."""
    if measured.group is None:
        return {}
    found = view.timing_over(each.axis, measured.origin, measured.group, "peak_memory_mib")
    known = each.value in found.table and len(found.table)
    mean = geometric_mean(found.ratios()[each.value]) if known else math.nan
    return {"peak memory (×)": fixed(mean, 2) if math.isfinite(mean) else NOTHING}


def _control(view: View, measured: Measured, columns: Sequence[str]) -> list[dict[str, Md]]:
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


def _reading(view: View, found: Sequence[AxisSpeed], group: TimeGroup | None) -> Md:
    """How the table is to be read."""
    several = max(each.repetitions for each in found)
    each_time = plural(several, "process", "processes") if group else plural(several, "seed")
    said = f"By axis: times as fast, the geometric mean over matched blocks (all other axes equal) in {each_time}."
    if family := sum(bool(each.verdict) for each in _every(view)):
        said += (
            f" The interval is over both, by itself; the verdict is corrected for the {plural(family, 'comparison')} "
            f"of speed by axis in this study (Holm). Equivalent: within {100 * MARGIN:.0f} %."
        )
    if not group and not any(each.verdict for each in found):
        said += (
            " No interval: it takes two seeds, runs in an order drawn anew for each, and a machine with nothing beside."
        )
    return Md(said)


def _every(view: View) -> Iterable[AxisSpeed]:
    return (each for found in judged(view).values() for each in found)


def _ratio(each: AxisSpeed) -> str:
    return f"{fixed(each.ratio, 2)}, {fixed(each.low, 2)} to {fixed(each.high, 2)}"
