"""The plan and the status of a study, printed. No torch."""

import contextlib
from collections import Counter
from pathlib import Path

from rich.console import Console

from vitbench.cli.console import coloured, escape
from vitbench.config.suite import ExpandedSuite
from vitbench.data import catalog
from vitbench.data.catalog import DataError
from vitbench.registry import UnknownComponent
from vitbench.runner.cost import cost_of, pace_of, remaining
from vitbench.runner.device_kind import device_kind, shows_no_gpu
from vitbench.runner.look_plan import Looked, nothing_stops, up_to_look, wanted_in
from vitbench.runner.look_plan import in_words as looks_in_words
from vitbench.runner.once import decisive, in_words
from vitbench.runner.plan import plan
from vitbench.runner.turns import waiting
from vitbench.runner.watch import PENDING, RUNNING, tally
from vitbench.store import StudyFolder
from vitbench.store.attempts import finished, standing
from vitbench.store.leases import at_work
from vitbench.store.study import study_folder
from vitbench.wording import plural

MAX_PRINTED = 200  # Trials, and excluded combinations, that a plan prints unless all are asked for


def print_plan(
    suite: ExpandedSuite, device: str, results: Path | None, console: Console, *, every: bool = False,
    looked: Looked = lambda _: {},
) -> None:  # fmt: skip
    """The trials (the first of many, or every one), the count, what is left out, and the estimated cost.

    Of a suite with looks these are the trials that are needed by now, as ``looked`` finds them in the study, and the
    cost is given for them and for all that there may be.
    """
    folder = study_folder(suite, results)
    study = StudyFolder.of_suite(folder, suite.info.name)
    states = study.attempts() if study else {}
    whole = plan(suite, device_kind(device), records=decisive(study) if study else {}, wanted=nothing_stops)
    info = up_to_look(whole, wanted_in(folder, looked))
    lines = [f"[bold]{escape(suite.info.name)}[/]  {escape(suite.info.question)}"]
    for text, label in ((suite.info.cost, "cost"), (suite.info.expected, "expected")):
        if text:
            lines.append(escape(f"{label}: {text}"))
    lines.append("")
    trials, refused, counts = info.trials, Counter[tuple[str, str]](), Counter[str]()
    printed = left = 0
    for i, ((trial_id, kind), first) in enumerate(zip(trials.kinds(), trials.firsts, strict=True)):
        counts[kind] += 1
        if (reason := trials.unsupported.get(first.id)) is not None:
            refused[reason, kind] += 1
            continue
        attempts = states.get(trial_id, [])
        done = finished(attempts, suite.info.max_attempts)
        left += not done
        if every or printed < MAX_PRINTED:
            mark = f"  {coloured(standing(attempts).state)}" if done else ""
            lines.append(f"{trial_id}  {kind:5}  {escape(trials[i].description)}{mark}")
            printed += 1
    unsupported = sum(refused.values())
    if printed + unsupported < len(info.trials):
        lines.append(f"… and {len(info.trials) - printed - unsupported:,} more (--all shows them)")
    for reason in dict.fromkeys(reason for reason, _ in refused):
        of_kinds = ", ".join(f"{n} {kind}" for (why, kind), n in refused.items() if why == reason)
        lines.append(f"[yellow]unsupported:[/] {escape(f'{of_kinds}: {reason}')}")
    lines.append("")
    for label, rule in suite.excluded if every else suite.excluded[:MAX_PRINTED]:
        lines.append(escape(f"excluded: {label}: {rule}"))
    if not every and len(suite.excluded) > MAX_PRINTED:
        lines.append(f"… and {len(suite.excluded) - MAX_PRINTED:,} more excluded (--all shows them)")
    elsewhere = ["this machine shows no GPU"] if device_kind(device) == "cuda" and shows_no_gpu() else []
    lines += [escape(f"notice: {notice}") for notice in (*suite.notices, *elsewhere)]
    if info.untuned:
        untuned = set(info.untuned)
        seeds = sum(len(cell.seeds) for cell in suite.cells if cell.label in untuned)
        lines.append(
            f"to come: {seeds} train trials of {len(info.untuned)} cells, each with the best of its "
            f"{len(suite.cells[0].settings)} settings of {', '.join(info.tuned)}"
        )
    lines += map(escape, (*in_words(info), *looks_in_words(info)))
    lines.append(
        f"{plural(len(info.trials), 'trial')} ({', '.join(f'{n} {k}' for k, n in counts.items())}; "
        f"{plural(len(suite.cells), 'cell')}; "
        f"{len(suite.excluded)} excluded; {unsupported} unsupported on {device_kind(device)}), {left} left to run"
    )
    identity = f" ({info.data_identity}){_whereabouts(suite)}" if info.data_identity else ""
    lines.append(escape(f"data: {info.data_name}{identity}"))
    pace = pace_of(study, states, info) if study else None
    estimate, to_run = remaining(info, states, pace)
    lines.append(cost_of(estimate, pace))
    if info.looks is not None and to_run:
        lines.append(f"if nothing stops early, {cost_of(remaining(whole, states, pace)[0], pace)}")
    console.print("\n".join(lines))  # at once: rich takes three times as long for them one by one


def print_status(study: StudyFolder, console: Console) -> None:
    """Counts by state, then everything that is not ok, with its reason."""
    tried = study.attempts()
    planned = {trial_id: tried.get(trial_id, []) for trial_id in study.info.trials.ids()}
    outside = sum(len(attempts) for trial_id, attempts in tried.items() if trial_id not in planned)
    working, most = at_work(study.path / "leases"), study.info.suite.max_attempts
    busy = {each.trial_id for each in working if not finished(planned.get(each.trial_id, []), most)}
    states, troubles = tally(planned, busy)
    console.print(f"[bold]{escape(study.info.suite.name)}[/]  {escape(study.info.suite.question)}")
    counts = [coloured(state, f"{n} ") for state, n in states.most_common()]
    console.print(f"{plural(len(study.info.trials), 'trial')}: {', '.join(counts)}")
    for sentence in waiting(study.path):
        console.print(f"[yellow]waiting:[/] {escape(sentence)}")
    with contextlib.suppress(UnknownComponent):  # of a plug-in that is not loaded here
        for sentence in (*in_words(study.info), *looks_in_words(study.info)):
            console.print(escape(sentence))
    if study.info.fallback:
        console.print(f"[yellow]data:[/] {escape(study.info.fallback)}")
    for (state, reason), count in sorted(troubles.items()):
        console.print(f"  {count:>4} × {coloured(state)}: {escape(reason)}")
    if states[PENDING] or states["interrupted"] or states[RUNNING]:
        with contextlib.suppress(DataError, UnknownComponent):  # the images are on another machine, or the plug-in is
            pace = pace_of(study, tried, study.info)
            console.print(cost_of(remaining(study.info, tried, pace)[0], pace))
    if outside:
        console.print(f"  {outside} record{'s' * (outside > 1)} of trials outside the plan")
    for damaged in study.damaged:
        console.print(f"  [yellow]set aside[/] {escape(damaged)}")


def _whereabouts(suite: ExpandedSuite) -> str:
    if suite.data.name not in catalog.PUBLISHED:
        return ""
    return f", looked for in {catalog.root()}" + (", downloaded where missing" if suite.data.download else "")
