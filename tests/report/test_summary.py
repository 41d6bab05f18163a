"""The first screen says nothing that a mark, a correction or an interval does not allow."""

import functools
import math
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.report.builders import SMALL, CellPlan, Plan, Values, blank, build, factorial, reference
from tests.report.markdown import Shown, tables
from vitbench.analysis.multiplicity import ALPHA, holm
from vitbench.config.suite import Published
from vitbench.config.trial import TrainTrial
from vitbench.report.document import Block, Chips, Document, Forest, ForestRow, Note, Table
from vitbench.report.output import Files
from vitbench.report.sections import accuracy, caveats, effects, pareto, summary
from vitbench.report.sections.caveats import stated
from vitbench.report.study_report import compose
from vitbench.report.text import MINUS, plain
from vitbench.report.view import View
from vitbench.store import TimeValues, TrainValues

AXES = {"attention": ("batched", "sdpa")}
BY_LESS = "worse, by less than the margin"


@functools.cache
def document(view: View) -> Document:
    return compose(view, Files(blank))


def first_screen(view: View) -> Sequence[Block]:
    section = document(view).sections[0]
    assert section.title == "Summary" and not section.folded
    return section.blocks


def rows(view: View, title: str) -> list[ForestRow]:
    """Rows of the forest plots of the first screen of whose title this is the beginning."""
    forests = [block for block in first_screen(view) if isinstance(block, Forest)]
    return [row for forest in forests if forest.title.startswith(title) for row in forest.rows]


def text_of(view: View) -> str:
    return "\n".join(plain(block) for block in first_screen(view) if isinstance(block, str))


def table_with(view: View, column: str) -> Shown:
    """The only table with a column."""
    (table,) = [each for each in tables(document(view)) if column in each.columns]
    return table


def number(text: str) -> float:
    return float(text.replace(MINUS, "-").lstrip("×"))


def test_a_number_says_of_what_it_is_in_a_row_and_in_the_line_of_the_answer() -> None:
    view = reference("norm-placement-small")
    names = {row.name: row.context for row in rows(view, "Test accuracy")}
    assert names["post"] == "norm, against pre" and names["depth=12"] == "against 6"
    assert names["warmup_epochs=0 × learning_rate=0.004"] == "against warmup_epochs=2 and learning_rate=0.0005"
    assert effects.compared(view, "norm", "post", "pre") == ("post", "norm, against pre")
    assert plain(summary.answer(view)).endswith("depth=12 undecided (against 6)")


@pytest.mark.parametrize("name", ["components-cpu", "planted", "pooling-small", "positions-small", "portraits-small"])
def test_effects_and_claims_are_those_of_the_numbers(name: str) -> None:
    numbers = effects.frame(view := reference(name))
    known = {row["difference_points"]: row for row in numbers.to_dict("records")}
    drawn = rows(view, "Test accuracy")
    for row in drawn:
        of_csv = known[row.bar.value]
        together = " together" if of_csv["family"] == "interactions" else ""
        assert row.verdict == f"{of_csv['words']}{together}" and row.detail.endswith(f"n = {of_csv['n']}")
        written = [number(row.number[0]), *(map(number, row.number[1].split(" to ")) if row.number[1] else ())]
        ends = [end for end in (of_csv["low"], of_csv["high"]) if math.isfinite(end)]
        assert written == pytest.approx([row.bar.value, *ends], abs=0.00501)
        assert sum(row.bar.points) / of_csv["n"] == pytest.approx(row.bar.value)
    expected = numbers["verdict"].isin(["better", "worse"]) | numbers["family"].isin(["effects", "variants"])
    assert len(drawn) == (expected & (numbers["family"] != "claims")).sum() <= summary.MOST
    chips = [chip for block in first_screen(view) if isinstance(block, Chips) for chip in block.items]
    claims = numbers[numbers["family"] == "claims"]
    assert len(chips) == len(claims)
    for (word, text), claim in zip(chips, claims.to_dict("records"), strict=True):
        assert word.replace(" of 2 points", "").startswith(claim["outcome"]) and claim["comparison"] in plain(text)


def test_a_certain_difference_within_the_margin_is_not_told_as_none(tmp_path: Path) -> None:
    """Post-norm is 1.35 points behind for certain, and no positions 3; the margin is 2."""

    def accuracy(cell: CellPlan, seed: int) -> float:
        away = {"post": -1.35, "none": -3.0}
        return 50.0 + (seed * 7 % 5 - 2) / 20 + sum(away.get(value, 0.0) for value in cell.axes.values())

    view = View(build(tmp_path, factorial(SMALL, seeds=tuple(range(6)), time=False, accuracy=accuracy, margin=2.0)))
    numbers = effects.frame(view).query("family == 'effects'")
    assert numbers[["verdict", "words"]].to_numpy().tolist() == [["equivalent", BY_LESS], ["worse", "worse"]]
    assert {row.name: row.verdict for row in rows(view, "Test accuracy")} == {"none": "worse", "post": BY_LESS}
    (by_axis,) = [t for t in tables(document(view)) if t.above[-1] == "Main effects"]
    place = by_axis.columns.index("verdict")
    assert {row[1]: row[place] for row in by_axis.rows} == {"none": "worse", "post": BY_LESS}
    changed = table_with(view, "margin 1 point")
    assert changed.columns == ["comparison", "margin 1 point", "margin 2 points", "margin 4 points"]
    assert {row[0].split()[0]: row[1:] for row in changed.rows} == {
        "post": ["worse", BY_LESS, BY_LESS], "none": ["worse", "worse", BY_LESS],
    }, "what another margin would change; the interaction is equivalent whatever it is"  # fmt: skip


def test_an_effect_over_tasks_is_their_mean_and_each_task_is_shown() -> None:
    view = reference("planted")
    rows = table_with(view, "position only (points)").rows
    for effect, row in zip(view.conclusions[0].effects, rows, strict=True):
        means = [number(cell) for cell in row[2:]]
        assert means == pytest.approx(list(effect.under.values()), abs=0.00501) and len(means) == 4
        assert row[1] == effect.value and effect.judged.mean == pytest.approx(sum(effect.under.values()) / 4)


def test_the_best_cell_is_one_of_its_task() -> None:
    view = reference("planted")
    by_cell = table_with(view, "parameters")
    bold = {row[0] for row in by_cell.table.rows if any(cell.startswith("**") for cell in row)}
    assert bold == set(view.axes["task"])
    for task in view.axes["task"]:
        best = next(each for each in accuracy.functions(view, view.groups[0]) if each.values["task"] == [task])
        name = " | ".join(best.values["change"])
        assert f"{task}: {name}, {best.mean:.1f} ± {best.std:.1f} % (n = {best.n})" in text_of(view)
        others = view.by_cell[view.by_cell["cell"].str.startswith(task)]
        assert view.noise and best.mean >= others["test_accuracy_pct_mean"].max() - view.noise.largest
    (refused,) = pareto.section(view, Files(blank))
    assert isinstance(refused, str) and "different images" in refused, "accuracy in one task buys nothing in another"


@pytest.mark.parametrize("name", ["attention-timing-cpu", "components-cpu", "planted"])
def test_what_cannot_run_here_is_said(name: str) -> None:
    view = reference(name)
    states = {
        (view.axis_names[axis], value): set(view.trials.loc[view.trials[axis].astype(str) == value, "state"])
        for axis, values in view.axes.items()
        for value in values
    }
    wanted = [f"{axis} {value}" for (axis, value), outcomes in states.items() if outcomes == {"unsupported"}]
    assert (f"Not supported on cpu: {', '.join(wanted)}." in text_of(view)) == bool(wanted)
    assert bool(wanted) == (name != "planted")


def test_intervals_of_a_look_have_their_level_on_the_first_screen() -> None:
    view = reference("positions-small")
    levels = {100 * each.judged.confidence for conclusions in view.conclusions for each in conclusions.effects}
    assert min(levels) > 95.0
    (forest,) = [block for block in first_screen(view) if isinstance(block, Forest)]
    assert f"intervals at {min(levels):.3g}" in forest.note and f"{max(levels):.3g} %, by look" in forest.note


def test_what_limits_the_conclusions_is_above_all_numbers(tmp_path: Path) -> None:
    """Only what changes the conclusions is there, and each is a caveat with its reasons below."""
    alone = View(build(tmp_path, factorial(AXES, time=False)))
    of_mae = {"settings-by-cell", "unequal-budgets"}
    for view, named in ((reference("mae-small"), of_mae), (alone, {"one-seed"})):
        grave = {name: short for short, name in caveats.grave(view)}
        assert grave.keys() == named <= dict(stated(view)).keys()
        (note,) = [block for block in document(view).opening if isinstance(block, Note)]
        assert all(short in note.text for short in grave.values())
    for rates, at_the_end in (((1e-4, 1e-3, 1e-2), False), ((1e-4, 1e-3), True), ((0.0, 1e-3, 1e-2), False)):
        tuned = View(build(tmp_path / str(rates), factorial(AXES, time=False, seeds=(0, 1), tuned=rates)))
        assert ("tuned-to-the-end" in {name for _, name in caveats.grave(tuned)}) == at_the_end
    (note,) = [block for block in document(reference("attention-timing-cpu")).opening if isinstance(block, Note)]
    assert "unstable" in note.text and ";" not in note.text


def timed(
    folder: Path, processes: int = 3, rounds: int = 20, jitter: float = 0.002, control: float = 1.0, **changes: object
) -> View:
    """Timings side by side with their baseline, of so many processes and rounds, none of them quite alike."""

    def beside(values: Values) -> Values:
        assert isinstance(values, TimeValues)
        middle = values.first_ms / 6  # as they are built: 12.0 ms for 64 images with sdpa, 13.8 with batched
        base = 13.8 / 64 * round(values.images_per_s * values.latency_ms_p50 / 1000)
        luck = {order: [1 + jitter * (i * order % 5 - 2) / 2 for i in range(rounds)] for order in (7, 4)}
        samples = {"latencies_ms": tuple(middle * each for each in luck[7])}
        samples["baseline_ms"] = tuple(base * each for each in luck[4])
        samples["control_ms"] = tuple(control * each for each in samples["baseline_ms"])
        process = values.processes[0].model_copy(update=samples)
        return values.model_copy(update={"processes": (process,) * processes, "latency_ms_p50": middle})

    return View(build(folder, factorial(AXES, train=False, modes=("inference",), changed=beside, **changes)))


@pytest.mark.parametrize(
    ("of_samples", "verdict"),
    [
        ((3, 20, 0.002), "faster"), ((3, 20, 0.9), "unstable"), ((1, 3, 0.002), "unstable"),
        ((3, 20, 0.002, 1.3), "unstable"),
    ],
)  # fmt: skip
def test_a_speed_has_its_verdict_and_interval(tmp_path: Path, of_samples: tuple[Any, ...], verdict: str) -> None:
    (row,) = rows(timed(tmp_path, *of_samples), "Speed")
    assert (row.name, row.verdict) == ("sdpa", verdict)
    assert math.isnan(row.bar.low) == (row.number[1] == "") == (of_samples[0] == 1)
    if verdict == "faster":
        assert row.number[0] == "×1.15" and 1.1 < row.bar.low < 13.8 / 12.0 < row.bar.high < 1.2


def test_a_wide_interval_that_excludes_1_is_an_answer_and_drifts_are_said() -> None:
    view = reference("runtimes-small")
    wide = [row for row in rows(view, "Speed") if row.bar.high / row.bar.low > 1.25]
    assert {row.verdict for row in wide} == {"faster", "slower", "unstable"}
    assert all((row.verdict == "unstable") == (row.bar.low < 1 < row.bar.high) for row in wide)
    assert re.search(r"torchao\S* 0\.01\d+, \w+ \d\.\d+e-07", text_of(view))


def test_many_settings_are_a_heat_map_and_none_is_left_out(tmp_path: Path) -> None:
    view = timed(tmp_path, batch_sizes=(1, 2, 4, 8, 16, 32, 64, 128))
    (table,) = [block for block in first_screen(view) if isinstance(block, Table)]
    assert [row[1] for row in table.rows] == ["1.15 faster"] * 8 and len(table.shades) == 8
    assert "sdpa in 8" in text_of(view)


@pytest.mark.parametrize("peak", [None, 1e12])
def test_how_fast_training_is_stands_on_the_first_screen_where_it_was_asked(peak: float | None, tmp_path: Path) -> None:
    def measured(values: Values) -> Values:
        return values.model_copy(update={"peak_flops_per_s": peak}) if isinstance(values, TrainValues) else values

    built = build(tmp_path / "speed", factorial(AXES, time=False, seeds=(0, 1, 2), changed=measured))
    screen = [block for block in first_screen(View(built)) if isinstance(block, Table)]
    assert bool(screen) == bool(peak)
    for table in screen:
        runs = [r for each in built.records().values() for r in each if isinstance(r.values, TrainValues)]
        rate = {name: statistics.median(r.values.train_images_per_s for r in runs if r.trial.model.attention == name)
                for name in AXES["attention"]}  # fmt: skip
        named = sorted(rate, key=lambda name: -rate[name])
        assert [row[0] for row in table.rows] == named
        assert [float(row[1].replace(",", "")) for row in table.rows] == pytest.approx(
            [*map(rate.get, named)], rel=0.01
        )
        speeds = [rate[name] / rate["batched"] for name in named]
        assert [float(row[2]) for row in table.rows] == pytest.approx(speeds, abs=0.005)


def test_speeds_of_runs_that_shared_the_machine_are_not_on_the_first_screen(tmp_path: Path) -> None:
    def measured(values: Values) -> Values:
        return values.model_copy(update={"peak_flops_per_s": 1e12}) if isinstance(values, TrainValues) else values

    view = View(build(tmp_path, factorial(AXES, time=False, seeds=(0, 1, 2), changed=measured, apart=0.1)))
    assert not [block for block in first_screen(view) if isinstance(block, Table)]
    assert "Throughput of training: runs shared the machine" in text_of(view)


def test_what_failed_and_what_has_not_run_is_named_on_the_first_screen(tmp_path: Path) -> None:
    def state(cell: CellPlan, kind: str, seed: int) -> tuple[str, str]:
        return {("post", 1): "diverged", ("pre", 2): "pending"}.get((cell.axes["norm"], seed), "ok"), ""

    view = View(build(tmp_path, factorial({"norm": ("pre", "post")}, seeds=range(4), time=False, state=state)))
    assert "Failed: 1 of 8 trials, of post. Not finished yet: 1 of 8 trials, of pre." in text_of(view)


@pytest.mark.parametrize("numbers", [(64.0, 41.5), (64.0, None)])
def test_a_study_of_published_cells_is_answered_by_what_is_apart(
    numbers: tuple[float | None, ...], tmp_path: Path
) -> None:
    known = [Published(test_accuracy=number, train_images_per_s=5.0, source="a paper") for number in numbers]
    one, two = known
    cells = [CellPlan("one", {"heads": 1}, published=one), CellPlan("two", {"heads": 2}, published=two)]
    plan = Plan(cells, seeds=(0, 1), time=False, accuracy=lambda cell, _: 40.0)
    text = plain(summary.answer(View(build(tmp_path, plan))))
    apart = f"Measured less published, points: one {MINUS}24.0; two {MINUS}1.5"
    if None not in numbers:
        assert text == apart
    else:
        assert not text.startswith("Measured"), "a cell without such a number is compared with the others"


def test_a_study_of_goals_is_answered_by_them() -> None:
    assert plain(summary.answer(reference("speedrun-h200"))).startswith("Goals: 90.0 %: yes, in 52.0 s ")


def test_counts_of_the_reference_timings_are_what_their_numbers_say() -> None:
    """Corrected over all ratios of the study, anew; of what is unstable, what has a wide interval alone is counted."""
    view = reference("attention-timing-cpu")
    done = view.time[view.time["state"] == "ok"]
    bases = done[done["attention"] == "sdpa"].set_index(["level_shape", "mode"])["unstable"]
    others = done[done["attention"] != "sdpa"]
    tested = others[others["speed_p"].notna()]
    whys = [f"{r['unstable']}; {bases[r['level_shape'], r['mode']]}" for r in others.to_dict("records")]
    stable = [
        re.sub(r"the 95 % interval of its (speed|A/A control|latency) is ±\d+ %", "", why) == "; " for why in whys
    ]
    assert any("interval" in why for why in whys)
    adjusted = dict(zip(tested["trial_id"], holm(tested["speed_p"].tolist()), strict=True))
    sure = others[stable]
    sure = sure[sure["trial_id"].map(adjusted).fillna(1.0) <= ALPHA]
    slower = Counter(sure.loc[sure["speed"] < 1, "attention"])
    assert not (sure["speed"] > 1).any()
    assert 0 < slower.total() < (others["speed_high"] < 1).sum(), "some were chance"
    of = Counter(others["attention"])
    counted = ", ".join(f"{name} in {times} of {of[name]}" for name, times in slower.most_common())
    assert counted in text_of(view) and f"{len(adjusted)} comparisons" in text_of(view)


def test_at_other_image_sizes_the_best_cells_are_those_of_the_records() -> None:
    view = reference("resolution-small")
    records = [r for attempts in view.study.records().values() for r in attempts if isinstance(r.values, TrainValues)]
    at_48 = dict[str, list[float]]()
    for record in records:
        assert isinstance(record.values, TrainValues) and isinstance(record.trial, TrainTrial)
        at_48.setdefault(record.trial.model.positions, []).append(record.values.test_accuracies_at[-1])
    assert record.trial.train.test_sizes[-1] == 48
    means = {name: sum(accuracies) / len(accuracies) for name, accuracies in at_48.items()}
    best = max(means, key=lambda name: means[name])
    assert f"48 px: {best} {means[best]:.1f} %, " in text_of(view)
    assert "image sizes" not in text_of(reference("positions-small"))
