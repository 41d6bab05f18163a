"""What limits what a study says of speed: how timings were made, and what else the machine did, in sentences."""

from __future__ import annotations

import math

from vitbench.analysis.summary import finished
from vitbench.report.cost.speed import UNSTABLE
from vitbench.report.markdown import Md, escape
from vitbench.report.numbers import fixed, plural
from vitbench.report.view import View


def caveats(view: View) -> list[Md]:
    """Of the timings, then of the training runs, a sentence each."""
    return [
        *_of_timings(view),
        *_of_load(view),
        *(said for device in view.train_devices for said in _of_runs(view, device)),
    ]


def _of_timings(view: View) -> list[Md]:
    """How far ratios of timings can be trusted."""
    timed = finished(view.time)
    timed, said = timed[timed["latency_ms_p50"].notna()], list[Md]()
    if timed.empty:
        return said
    if marked := int((timed["unstable"].fillna("") != "").sum()):
        verb = "is" if marked == 1 else "are"
        said.append(
            Md(
                f"**{marked} of {plural(len(timed), 'timing')} {verb} marked {UNSTABLE}**: not to be relied on, "
                "for the reasons below their tables. Nothing is said to be faster or slower by them."
            )
        )
    alone = int((view.processes.groupby("trial_id").size() == 1).sum())
    if alone:
        verb = "comes" if alone == 1 else "come"
        said.append(Md(f"{plural(alone, 'timing')} {verb} from one process: how another process would differ is not "
                       "known, and no interval includes it."))  # fmt: skip
    if timed["speed_low"].notna().any():
        said.append(Md("The interval of a ratio of timings holds for it alone: of 20 where there is no difference, one "
                       "excludes 1 by chance. What is said to be faster or slower is corrected for the number of "
                       "comparisons (Holm)."))  # fmt: skip
    elif timed["speed"].notna().any() and len(timed) > 1:
        said.append(Md("Timings were made side by side, of too few samples for an interval of their ratios."))
    return said


def _of_load(view: View) -> list[Md]:
    """What else the machine did while it timed."""
    if view.load_while_timing is None:
        return []
    load, cores = view.load_while_timing
    return [Md(f"The load average reached {fixed(load, 1)} on {cores} cores while timing: other work may have "
               "slowed some processes, and some implementations more than others.")]  # fmt: skip


def _of_runs(view: View, device: str) -> list[Md]:
    """What the machine did beside the training runs on a device."""
    found = view.contention(device)
    if found.alone:
        return []
    parts = []
    if found.shared:
        most = f" (up to {found.at_once} at once)" if found.at_once > 2 else ""
        share = math.floor(100 * found.share)  # 99.6 % is not all
        parts.append(f"during {share} % of their time another of the study was at work on the same machine{most}")
    if found.loaded:
        parts.append(f"they began at a load average of up to {fixed(found.load, 1)} on {plural(found.cores, 'core')}")
    on = f" on {escape(device)}" if len(view.train_devices) > 1 else ""
    return [Md(f"**The training runs{on} did not have their machine to themselves**: {', and '.join(parts)}. Their "
               "images/s and seconds say little of a run alone; no speed is marked as the best.")]  # fmt: skip
