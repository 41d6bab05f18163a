"""Summary: the first screen. What was asked, every effect on one scale, the claims, the speeds, the best cell."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from vitbench.analysis.axis_speeds import MARGIN
from vitbench.analysis.conclusions import Tested
from vitbench.analysis.factorial import ABSENT
from vitbench.report.cost import by_axis
from vitbench.report.cost.speed import Beside, beside_baseline, heat_map
from vitbench.report.document import Bar, Block, Byline, Chips, Forest, ForestRow, Note, Scale, table
from vitbench.report.groups import RUNS, Group, of_environment
from vitbench.report.models import explained_page
from vitbench.report.output import Files
from vitbench.report.sections import accuracy, caveats, effects, other_sizes, time_to_accuracy
from vitbench.report.sections.timing import SETTING
from vitbench.report.text import (
    Md,
    enumerated,
    escape,
    fixed,
    interval_text,
    listed,
    probability,
    seeds,
    signed,
    significant,
    span,
    spread,
)
from vitbench.report.view import JOIN, View
from vitbench.wording import plural

MOST = 12  # Rows of a forest plot on the first screen; the sections below have all
MOST_NAMED, FEW = 6, 3  # Differences that an answer in a line names; others, up to which it names them too
SMALL = " in the suite's small form, which is another setting than the published one"
OPEN = ("undecided", "underpowered")
SHOWN = ("better", "worse")


def opening(view: View) -> Iterator[Block]:
    """The question, what the study is made of in one line, and what limits its conclusions in another."""
    yield Md(f"**{escape(view.study.info.suite.question)}**")
    yield Byline(escape(" · ".join(facts(view).values()) or "nothing has run yet"))
    yield from map(Note, caveats.notes(view))
    if grave := [name for name, _ in caveats.grave(view)]:
        yield Note(Md(f"**Limits the conclusions:** {'; '.join(grave)}. See Caveats."))


def section(view: View, files: Files) -> list[Block]:
    """Effects and speeds as forest plots, claims, and a few sentences."""
    groups = [group for group in view.groups if group.conclusions is not None]
    blocks = [block for group in groups for block in _effects(view, group, files)]
    blocks += [block for group in groups for block in accuracy.published(view, group)]
    blocks += _speeds(view, files)
    blocks += [block for group in groups for block in _throughput(view, group)]
    blocks += [Md(best) for group in groups if (best := _best(view, group))]
    blocks += [block for group in groups for block in _claims(view, group)]
    blocks += time_to_accuracy.in_short(view)
    sentences = [_drift(view), _of_roofline(view), _to_decide(view), _equivalent(view), _without_result(view)]
    return [*blocks, *map(Md, filter(None, sentences)), *other_sizes.in_short(view), *explained_page.in_short(view)]


def facts(view: View) -> dict[str, str]:
    """Form, data, model, epochs, seeds, device, trials, date and commit of the study, each where it is known."""
    info, trained = view.study.info, view.trained.values()
    texts: dict[str, str] = {"form": "small form"} if view.small else {}
    if trained:
        sizes = view.train[["train_images", "test_images"]].dropna().drop_duplicates()
        counted = [f" ({train:,.0f} training and {test:,.0f} test images)" for train, test in sizes.to_numpy()]
        texts["data"] = f"{info.data_name}{counted[0] if len(counted) == 1 else ''}"
    if (parameters := view.trials["parameters"].dropna().loc[lambda values: values > 0]).size:
        texts["model"] = f"{span(parameters / 1e6, lambda value: significant(value, 2))} M parameters"
    if trained and all(each.train.images is None for each in trained):
        epochs = {each.train.epochs for each in trained}
        texts["epochs"] = f"{span(epochs)} {'epoch' if epochs == {1} else 'epochs'}"
    if trained:
        texts["seeds"] = f"{'up to ' if info.looks else ''}{plural(view.train['seed'].nunique(), 'seed')}"
    if environments := list(view.environments.fingerprints.values()):
        named = dict.fromkeys(each.machine for each in environments)
        texts["device"] = next(iter(named)) if len(named) == 1 else f"{len(named)} machines"
    if (states := view.trials["state"]).size:
        apart = (states == "unsupported").sum()
        texts["trials"] = f"{(states == 'ok').sum():,} of {plural(len(states), 'trial')} ok"
        texts["trials"] += f", {apart:,} unsupported" if apart else ""
    if moments := [attempt.started_at for attempts in view.results.tried.values() for attempt in attempts]:
        texts["date"] = f"{max(moments):%Y-%m-%d}"
    if commits := list(dict.fromkeys(each.commit[:7] for each in environments if each.commit)):
        texts["commit"] = f"commit {commits[0]}" if len(commits) == 1 else f"{len(commits)} commits"
    return texts


def answer(view: View) -> Md:
    """The answer in a line: which goals are reached, what is apart from published numbers, or the verdicts.

    Of those what is better or worse, and the others: by name where they are few.
    """
    if goals := time_to_accuracy.in_short(view):
        return goals[0]
    apart = [(group, accuracy.less_published(view, group)) for group in view.groups]
    if view.train["published"].notna().all() and any(of for _, of in apart):
        parts = [f"{escape(cell)}{group.on} {signed(points, view.decimals)}" for group, of in apart
                 for cell, points in of.items()]  # fmt: skip
        return Md(f"**Measured less published, points:** {'; '.join(parts)}")
    rows = [row for conclusions in view.conclusions for row in effects.rows_of(view, conclusions)]
    rows = [row for row in rows if row.family in ("effects", "variants") and row.judged.n]
    if not rows:
        timings = beside_baseline(view)
        return _counted(timings) if timings else Md("no comparison has a result")
    different = effects.largest_first(row for row in rows if row.judged.verdict in SHOWN)[:MOST_NAMED]
    parts = [
        f"**{escape(row.name)}** {effects.words_of(view, row.judged)} "
        f"({signed(row.judged.mean, view.decimals + 1)} points, {escape(row.context)})"
        for row in different
    ]
    rest = [row for row in rows if row not in different]
    if len(rest) <= FEW:
        parts += [f"**{escape(row.name)}** {row.judged.verdict} ({escape(row.context)})" for row in rest]
    else:
        parts += [f"{number} {verdict}" for verdict, number in Counter(row.judged.verdict for row in rest).items()]
    return Md("; ".join(parts))


def _effects(view: View, group: Group, files: Files) -> Iterator[Block]:
    assert group.conclusions is not None
    rows = [row for row in effects.rows_of(view, group.conclusions) if row.judged.n and row.family != "claims"]
    open_ones = [row for row in rows if row.family == "interactions" and row.judged.verdict not in SHOWN]
    drawn = effects.largest_first(row for row in rows if row not in open_ones)
    if drawn:
        yield files.forest(f"effects{group.ending}", forest_of(view, drawn[:MOST], group.on))
    if len(drawn) > MOST:
        yield Md(f"The {MOST} largest of {len(drawn):,} effects are shown; all are under Effects.")
    if open_ones:
        number = f"{len(open_ones):,}, under Claims, interactions and margins"
        yield Md(f"Interactions without a shown effect: {number}.")
    if drawn and view.task_axes:
        axes = enumerated([escape(view.axis_names[axis]) for axis in view.task_axes])
        yield Md(f"Each effect is the mean over all values of {axes}; each value by itself is under Effects.")


def _claims(view: View, group: Group) -> Iterator[Block]:
    """The suite's claims: how many were reproduced, and what was claimed and found of each."""
    assert group.conclusions is not None
    rows = effects.rows_of(view, group.conclusions)
    if hypotheses := [(row, row.tested) for row in rows if row.tested is not None]:
        reproduced = sum(tested.outcome.startswith("reproduced") for _, tested in hypotheses)
        yield Md(f"**Claims:** {reproduced} of {len(hypotheses)} reproduced{SMALL if view.small else ''}.")
        yield Chips(tuple((effects.outcome(view, tested), _chip(view, row, tested)) for row, tested in hypotheses))


def forest_of(view: View, rows: Sequence[effects.Row], on: str = "") -> Forest:
    """Some differences in test accuracy on one scale; ``on``: which device, where there are several."""
    title = f"Test accuracy{on}, difference in percentage points"
    margin = view.study.info.suite.margin
    note = effects.note_of(margin, [row.judged for row in rows])
    return Forest(title, tuple(_row(view, row) for row in rows), effects.scale_of(margin), note)


def _row(view: View, row: effects.Row) -> ForestRow:
    judged, decimals = row.judged, view.decimals + 1
    bar = Bar(judged.mean, judged.interval.low, judged.interval.high, judged.comparison.deltas)
    ends = interval_text(bar.low, bar.high, decimals, sign=True)
    noise, mean = " ‡" if effects.is_marked(judged) else "", signed(judged.mean, decimals)
    corrected = f" after Holm's correction for {judged.family} comparisons" if judged.family > 1 else ""
    p = f"p {'' if judged.p_holm < 0.0005 else '= '}{probability(judged.p_holm)}{corrected}"
    detail = [
        f"{mean} points", f"{100 * judged.confidence:.3g} % interval {ends}" if ends else "",
        p if math.isfinite(judged.p_holm) else "", f"n = {judged.n}",
        "‡ no larger than equivalent implementations differ by" if noise else "",
    ]  # fmt: skip
    words = effects.words_of(view, judged)
    return ForestRow(row.name, row.context, bar, (f"{mean}{noise}", ends), words, "; ".join(filter(None, detail)))


def _chip(view: View, row: effects.Row, tested: Tested) -> Md:
    hypothesis, judged, decimals = tested.hypothesis, row.judged, view.decimals + 1
    size = (
        hypothesis.expected
        if hypothesis.size is None
        else f"{hypothesis.expected}, {signed(hypothesis.size, 1)} points"
    )
    ends = interval_text(judged.interval.low, judged.interval.high, decimals, sign=True)
    result = f"{signed(judged.mean, decimals)} points{f' ({ends})' if ends else ''}" if judged.n else "no seed"
    result += f", {effects.words_of(view, judged)}"
    return Md(f"{escape(hypothesis.claim)} (claimed: {escape(size)}; found: {escape(result)})")


def _speeds(view: View, files: Files) -> list[Block]:
    """The speed of each axis over matched blocks; where none was timed so, of each cell beside the baseline."""
    blocks: list[Block] = []
    judged = {group: [e for e in each if e.verdict and e.blocks > 1] for group, each in by_axis.judged(view).items()}
    settings = [(group, speeds) for group, speeds in judged.items() if speeds and group.mode != RUNS]
    for number, (group, speeds) in enumerate(settings[:2]):
        rows = [
            ForestRow(
                *effects.compared(view, e.axis, e.value, e.against), Bar(e.ratio, e.low, e.high),
                (f"×{fixed(e.ratio, 2)}", interval_text(e.low, e.high, 2)), e.verdict,
                f"{plural(e.blocks, 'matched block')} in {plural(e.repetitions, 'process', 'processes')}; "
                f"p = {probability(e.p_holm)} after Holm's correction",
            )
            for e in sorted(speeds, key=lambda e: -abs(math.log(e.ratio)))[:MOST]
        ]  # fmt: skip
        title = f"Speed in {group.mode_name}, × the reference ({group.setting})"
        forest = Forest(title, tuple(rows), by_axis.scale(), f"band: the margin of {100 * MARGIN:.0f} %")
        blocks.append(files.forest(f"speeds-{number + 1}" if number else "speeds", forest))
    if len(settings) > 2:
        blocks.append(Md(f"Speeds of {len(settings) - 2} more settings are under Speed and memory."))
    known = {group for group, _ in settings}
    if left := [each for each in beside_baseline(view) if each.group not in known]:
        blocks += _beside(view, left, files)
    if blocks and view.load_while_timing is not None:
        load, cores = view.load_while_timing
        blocks.append(Note(Md(f"The machine was busy while timing (load average up to {fixed(load, 1)} on {cores} "
                              "cores): on an idle one the ratios may differ.")))  # fmt: skip
    return blocks


def _throughput(view: View, group: Group) -> list[Block]:
    """How fast each cell trains and how much of the device it uses, the fastest first, where both were measured."""
    cells = view.cost_by_cell[view.cost_by_cell["device"] == group.device]
    cells = of_environment(cells, group.environment)
    cells = cells[cells["of_peak"].notna()]
    if len(cells) < 2:
        return []
    if not view.contention[group.device].alone:
        return [Md(f"**Throughput of training:** {accuracy.NOT_ALONE[0].lower()}{accuracy.NOT_ALONE[1:]}")]
    first = cells.iloc[0]
    rows = cells.sort_values("train_images_per_s", ascending=False).head(MOST).to_dict("records")
    lines = [
        view.identity([row["cell"]])
        | {
            "images/s": significant(row["train_images_per_s"]),
            "speed (×)": fixed(row["train_images_per_s"] / first["train_images_per_s"], 2),
            "of the measured peak (%)": significant(100 * row["of_peak"]),
        }
        for row in rows
    ]
    caption = f"Throughput of training{group.on}, the median of seeds; speed: over that of {first['cell']}."
    caption += f" The {MOST} fastest of {len(cells):,} cells are shown." if len(cells) > MOST else ""
    return [table(lines, set(lines[0]) - view.identity([first["cell"]]).keys(), caption=escape(caption))]


def _beside(view: View, timings: Sequence[Beside], files: Files) -> list[Block]:
    """Cells beside their baselines: a forest plot of a few, a heat map of many."""
    if (heat := heat_map(view)) is not None:
        return [_counted(timings), heat]
    same = [part for part in timings[0].group.parts if all(part in each.group.parts for each in timings)]
    rows = [
        ForestRow(
            each.name, "; ".join(filter(None, (f"against {each.base}", other))), Bar(each.ratio, *ends),
            (f"×{fixed(each.ratio, 2)}", interval_text(*ends, 2)),
            each.verdict, f"p = {probability(each.p_holm)} after Holm's correction" if each.p_holm >= 0 else "",
        )
        for each in sorted(timings, key=lambda each: (each.verdict == "unstable", -each.ratio))[:MOST]
        for ends in [(float(each.row["speed_low"]), float(each.row["speed_high"]))]
        for other in [", ".join(part for part in each.group.parts if part not in same)]
    ]  # fmt: skip
    title = "Speed, × the baseline" + (f" ({', '.join(same)})" if same else "")
    forest = files.forest("speeds-of-cells", Forest(title, tuple(rows), Scale(1.0, logarithmic=True)))
    more = Md(f"The {MOST} fastest of {len(timings):,} are shown; all are under Speed and memory.")
    return [forest, more] if len(timings) > MOST else [forest]


def _counted(timings: Sequence[Beside]) -> Md:
    """Number of the settings in which each cell is shown to be faster or slower than the baseline."""
    if not any(math.isfinite(each.p_holm) for each in timings):
        return Md("**Speeds are not tested:** too few samples for an interval.")
    bases = {each.base for each in timings}
    names, tested = {}, Counter(each.name for each in timings)
    for word in ("faster", "slower"):
        times = Counter(each.name for each in timings if each.verdict == word).most_common(MOST_NAMED)
        names[word] = ", ".join(f"{escape(name)} in {number} of {tested[name]}" for name, number in times) or "none"
    return Md(f"**Shown to be faster than {escape(bases.pop()) if len(bases) == 1 else 'the baseline'}:** "
              f"{names['faster']}. **Slower:** {names['slower']}. Tested in "
              f"{plural(len({each.group for each in timings}), 'setting')} (of shape and mode), corrected for "
              f"{plural(sum(math.isfinite(each.p_holm) for each in timings), 'comparison')} (Holm).")  # fmt: skip


def _best(view: View, group: Group) -> str:
    """The cell with the highest mean; where axes change what is classified, that of each task."""
    tasks: dict[str, list[accuracy.Function]] = {}
    for each in accuracy.functions(view, group):
        tasks.setdefault(view.task(each.cells[0]), []).append(each)
    texts = []
    for task, (first, *others) in tasks.items():
        of_task = f"{escape(task)}: " if task else ""
        n = seeds(first.n, first.planned)
        best = f"{of_task}{escape(_called(view, first))}, {spread(first.mean, first.std, view.decimals)} % (n = {n})"
        if others and not task:
            best += f"; next: {escape(others[0].name)}, {spread(others[0].mean, others[0].std, view.decimals)} %"
        texts.append(best)
    rest = f"; {plural(len(texts) - 4, 'more task')} under Accuracy" if len(texts) > 4 else ""
    return f"**Highest test accuracy{group.on}:** {'; '.join(texts[:4])}{rest}." if texts else ""


def _called(view: View, each: accuracy.Function) -> str:
    """A function by what tells it from others of its task, which is named before it."""
    left = [JOIN.join(values) for axis, values in each.values.items() if axis not in view.task_axes]
    return " · ".join(left) if left and view.task_axes else each.name


def _drift(view: View) -> str:
    """The largest drift of the output of each model that something else than PyTorch as it is runs."""
    drifts = view.measured[view.measured["trial_id"].isin(view.by_other_runtimes)].groupby("cell")["drift"].max()
    most = drifts.dropna().sort_values(ascending=False, kind="stable").head(MOST_NAMED)
    named = ", ".join(f"{escape(str(cell))} {significant(drift)}" for cell, drift in most.items())
    return f"**Drift of the output** (largest error, as a fraction of the largest value): {named}." if named else ""


def _of_roofline(view: View) -> str:
    """Share of what the device can do that the fastest of each setting reaches; of a study that only times."""
    if len(view.train) or not view.measured["of_roofline"].notna().any():
        return ""
    by_latency = view.measured.sort_values("latency_ms_p50", kind="stable")
    fastest = by_latency.drop_duplicates(["device", "dtype", *SETTING])["of_roofline"]
    reached = span(100 * fastest.dropna(), lambda share: fixed(share, 0))
    return f"**Of what the device can do** (roofline) the fastest of each setting reaches {reached} %."


def _to_decide(view: View) -> str:
    """Number of seeds that would decide what the runs leave open."""
    left = {
        (number, row.judged.comparison.key or row.judged.comparison.label): row.judged
        for number, conclusions in enumerate(view.conclusions)  # of each device
        for row in effects.rows_of(view, conclusions)
        if row.family != "interactions" and row.judged.verdict in OPEN and row.judged.n > 1
    }
    if not left:
        return ""
    needed = [judged.seeds_needed or math.inf for judged in left.values()]
    many = f"{max(needed):,}" if math.isfinite(max(needed)) else "more than 1,000"
    planned = len(looks.seeds) if (looks := view.study.info.looks) else max(j.comparison.planned for j in left.values())
    # Where one arm varies more than the other p is larger than power assumes: a number already reached is not stated.
    number = f"; with the differences found, {many} seeds a cell would decide all (80 % power; planned: {planned})"
    more = number if max(needed) > max(judged.n for judged in left.values()) else ""
    return f"**Open:** {plural(len(left), 'comparison')} undecided or underpowered{more}."


def _equivalent(view: View) -> str:
    if not view.equivalents or view.noise is None:
        return ""
    floor = view.noise.largest
    how = f"differ by up to {fixed(floor, 2)} points" if floor else "agree to the last digit"
    named = enumerated([
        escape(view.axis_names[axis] + ("" if axis in view.equivalent_axes else f" {enumerated(values)}"))
        for axis, values in view.equivalents.items()
    ])  # fmt: skip
    return f"**Equivalent implementations** ({named}) {how} in accuracy."


def _without_result(view: View) -> str:
    """Name the trials without a result: failed, not finished, not supported, or waiting for tuning."""
    parts, states = [], view.trials["state"]
    for left, what in (
        (~states.isin({*ABSENT, "unsupported"}), "Failed"),
        (states.isin(ABSENT - {"ok"}), "Not finished yet"),
    ):
        if left.any():
            which = listed(list(view.trials.loc[left, "cell"].unique()), MOST_NAMED)
            parts.append(f"**{what}:** {left.sum():,} of {plural(len(states), 'trial')}, of {which}.")
    refused = view.trials[view.trials["state"] == "unsupported"]
    touched = set(refused["cell"])
    without = touched - set(view.trials.loc[view.trials["state"] != "unsupported", "cell"])
    for cells, what in ((without, "Not supported on"), (touched - without, "Supported in part on")):
        if cells:
            devices = refused.loc[refused["cell"].isin(cells), "device"].unique()
            named = [f"{view.axis_names[a]} {v}" for (a, v), of in view.cells_with.items() if of and of <= cells]
            named = named or sorted(cells, key=view.cells.index)
            parts.append(f"**{what} {listed(list(devices), MOST_NAMED)}:** {listed(named, MOST_NAMED)}.")
    if waiting := len(view.study.info.untuned):
        parts.append(f"**Waiting for tuning:** {plural(waiting, 'cell')}.")
    return " ".join(parts)
