"""What a report answers and warns of in sentences: nothing is claimed that a mark or an interval does not allow."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.report.builders import CellPlan, Values, blank, build, factorial
from tests.report.markdown import tables, written
from vitbench.analysis.multiplicity import ALPHA, holm
from vitbench.analysis.timings import WIDE
from vitbench.config import read_suite
from vitbench.report.circumstances import spent
from vitbench.report.cost import pareto, roofline, speed
from vitbench.report.cost.fastest import COSTS, sentences
from vitbench.report.files import Files
from vitbench.report.findings import axis, headlines, verdicts
from vitbench.report.formats import markdown
from vitbench.report.formats.terminal import fitting
from vitbench.report.models import reconstructions
from vitbench.report.render import compose
from vitbench.report.sections.caveats import stated
from vitbench.report.view import View
from vitbench.store import Study, TimeValues

REFERENCE = REPOSITORY / "results" / "reference"
AXES = {"attention": ("batched", "sdpa")}


@functools.cache
def text_of(view: View) -> str:
    return markdown.text(compose(view, Files(blank)))


def reference(name: str) -> View:
    return View(Study.read(REFERENCE / name))


def beside(processes: int, rounds: int, jitter: float) -> Callable[[Values], Values]:
    """Timings side by side with their baseline, of so many processes and rounds, none of them quite alike."""

    def samples(middle: float, order: int = 7) -> tuple[float, ...]:
        return tuple(middle * (1 + jitter * (i * order % 5 - 2) / 2) for i in range(rounds))

    def changed(values: Values) -> Values:
        assert isinstance(values, TimeValues)
        middle = values.first_ms / 6  # as they are built: 12.0 ms for 64 images with sdpa, 13.8 with batched
        base = 13.8 / 64 * round(values.images_per_s * values.latency_ms_p50 / 1000)
        one = values.processes[0].model_copy(
            update={"latencies_ms": samples(middle), "baseline_ms": samples(base, 4), "control_ms": samples(base, 4)}
        )
        return values.model_copy(update={"processes": (one,) * processes, "latency_ms_p50": middle})

    return changed


def timed(folder: Path, *of_samples: float, **changes: object) -> View:
    processes, rounds, jitter = of_samples or (3, 20, 0.002)
    changed = beside(int(processes), int(rounds), jitter)
    plan = factorial(AXES, train=False, modes=("inference",), changed=changed, **changes)
    return View(build(folder, plan))


def test_a_ratio_that_is_shown_is_told_with_its_interval_and_no_doubt(tmp_path: Path) -> None:
    (said,) = sentences(timed(tmp_path))
    assert re.fullmatch(
        r"Lowest latency \(cpu, float32, batch size 64, inference\): sdpa, 12\.0 ms, 1\.15 times "
        r"\(1\.1\d to 1\.1\d\) as fast as the baseline, batched\.",
        said,
    )


def test_a_timing_that_is_marked_shows_nothing(tmp_path: Path) -> None:
    (said,) = sentences(view := timed(tmp_path, 3, 20, 0.9))
    ending = r"batched, 13\.8 ms\. Nothing is shown by that: (both|it) \(±\d+ %\)( and .+ \(±\d+ %\))? are marked ~\.$"
    assert re.search(ending, said)
    assert dict(stated(view))["unstable-timings"].startswith("**Unstable timings: 2 of 2** (marked ~;")


def test_what_has_no_interval_is_said_in_words(tmp_path: Path) -> None:
    (said,) = sentences(view := timed(tmp_path, 1, 3, 0.002))
    assert said.endswith("by that: both (fewer than 6 samples give no interval) are marked ~.")
    assert "n/a" not in said and "one-process" in dict(stated(view))
    assert "timing**: on cpu; float32; batch size 64; inference" in text_of(view)


def test_many_settings_are_counted_and_none_is_left_out(tmp_path: Path) -> None:
    view = timed(tmp_path, batch_sizes=(1, 2, 4, 8, 16, 32, 64, 128))
    said = sentences(view)
    assert said[0] == "Lowest latency, in 8 settings that were timed: sdpa in 8."
    assert sum(s.startswith("Faster than the baseline (") for s in said) == 6
    assert f"In 2 more settings a cell is shown to be faster than the baseline: see {COSTS}." in said


def test_the_answer_of_the_reference_timings_is_what_their_numbers_say() -> None:
    view = reference("attention-timing-cpu")
    rows = view.time[view.time["state"] == "ok"].sort_values("latency_ms_p50")
    settings = rows.groupby(["level_shape", "mode"])
    first = Counter(str(mine["attention"].iloc[0]) for _, mine in settings)
    said = sentences(view)
    assert said[0] == f"Lowest latency, in {len(settings)} settings that were timed: " + (
        ", ".join(f"{name} in {number}" for name, number in first.most_common()) + "."
    )
    sure = rows[rows["unstable"] == ""]
    bases = rows[rows["attention"] == "sdpa"].set_index(["level_shape", "mode"])["unstable"]
    sure = sure[[bases[key] == "" for key in zip(sure["level_shape"], sure["mode"], strict=True)]]
    assert not (sure["speed_low"] > 1).any() and "In none of them is a cell shown to be faster" in said[1]
    others = rows[(rows["attention"] != "sdpa") & rows["speed_p"].notna()]
    adjusted = dict(zip(others["trial_id"], holm(others["speed_p"].tolist()), strict=True))
    sure = sure.assign(adjusted=sure["trial_id"].map(adjusted).fillna(1.0))
    slower = Counter(sure.loc[(sure["speed_high"] < 1) & (sure["adjusted"] <= ALPHA), "attention"])
    counted = ", ".join(f"{name} in {number}" for name, number in slower.most_common())
    assert 0 < slower.total() < ((sure["speed_high"] < 1) & (sure["attention"] != "sdpa")).sum(), "some were chance"
    corrected = f"corrected for {len(adjusted)} comparisons (Holm)"
    assert said[2] == f"Shown to be slower than the baseline, sdpa, {corrected}: {counted}."
    most = rows.loc[rows["unstable"] == "", "of_roofline"].max()
    assert said[3].startswith("Nearest to the roofline") and f"with {100 * most:.0f} % of it" in said[3]
    marked = int((rows["unstable"] != "").sum())
    assert f"timings: {marked} of {len(rows)}**" in dict(stated(view))["unstable-timings"]


def test_the_best_cell_is_one_of_its_task() -> None:
    view = reference("planted")
    (said,) = [s for s in written(headlines.headlines(view)[0]).splitlines() if "Highest test accuracy" in s]
    for task in view.axes["task"]:
        mine = view.by_cell[view.by_cell["cell"].str.startswith(task)]
        best = mine.sort_values("test_accuracy_pct_mean", ascending=False, kind="stable").iloc[0]
        change = best["cell"].removeprefix(f"{task} · ")
        assert f"{task} {best['test_accuracy_pct_mean']:.1f} ± {best['test_accuracy_pct_std']:.1f} % ({change}" in said
    document = compose(view, Files(blank))
    text = markdown.text(document)
    (by_cell,) = [table for table in tables(document) if "parameters" in table.columns]
    bold = {row[0] for row in by_cell.table.rows if any(cell.startswith("**") for cell in row)}
    assert bold == set(view.axes["task"])
    assert pareto.without(view) == [
        "Not drawn: task changes what is classified, and accuracy in one task buys nothing in another."
    ]
    assert pareto.without(view)[0] in text and text.count("P(better) is how often") == 1
    of_accuracy = [
        table for table in tables(document) if "verdict" in table.columns and "speed (×)" not in table.columns
    ]
    assert [table.columns[1] for table in of_accuracy] == ["outcome", "verdict", "verdict"]


def test_every_median_of_training_runs_has_its_deviation() -> None:
    document = compose(view := reference("positions-small"), Files(blank))
    (table,) = [table for table in tables(document) if "step p50 (ms)" in table.columns]
    for row in table.rows:
        cells = dict(zip(table.columns, row, strict=True))
        runs = view.train.loc[view.train["cell"] == cells["positions"], "step_ms_p50"]
        middle, deviation = map(float, cells["step p50 (ms)"].split(" ± "))
        assert (middle, deviation) == pytest.approx((runs.median(), runs.std()), abs=0.051)
        assert all(" ± " in cells[name] for name in ("images/s", "epoch (images/s)", "trial (images/s)"))


def test_an_equal_picture_is_shown_once_and_names_its_cells() -> None:
    view = reference("mae-small")
    (sheet,) = reconstructions.sheets(view)
    assert "masked autoencoder · linear probe and masked autoencoder · everything (the same in all" in sheet.caption


def test_a_cell_is_called_by_the_values_that_its_columns_have() -> None:
    view = reference("norm-placement-small")
    suite = read_suite(REPOSITORY / "ablations/norm-placement.toml", view.study.info.options[2:], small=True)
    assert view.cells == [cell.label for cell in suite.cells]
    assert "pre · depth=6 · warmup_epochs=2 · learning_rate=0.0005" in view.cells


def test_why_there_is_no_roofline_is_said_where_timings_are_and_nowhere_else(tmp_path: Path) -> None:
    timed = View(build(tmp_path / "timed", factorial(AXES, train=False)))
    assert roofline.without(timed) == ["No roofline is drawn: what the device can do at most was not measured."]
    assert not roofline.rooflines(timed, []) and roofline.rooflines(reference("components-cpu"), ["attention"])
    assert not roofline.without(reference("planted"))
    planned = View(build(tmp_path / "planned", factorial(AXES, train=False, state=lambda *_: ("pending", ""))))
    document = compose(planned, Files(blank))
    text = markdown.text(document)
    assert not [*stated(planned)] and "## Caveats" not in text and "No roofline" not in text


@pytest.mark.parametrize(("seconds", "said"), [(1.08, "1.08 seconds"), (90.0, "1.50 minutes"), (7200.0, "2.00 hours")])
def test_a_time_is_said_in_the_unit_that_fits(seconds: float, said: str) -> None:
    assert spent.duration(seconds) == said


def test_the_noise_floor_s_reason_is_given_once() -> None:
    document = compose(view := reference("norm-placement-small"), Files(blank))
    text = markdown.text(document)
    assert len(view.axes) > 1 and text.count("Noise floor: not known.") == text.count(axis.noise(view)) == 1


def answer(name: str) -> list[str]:
    return written(headlines.headlines(reference(name))[0]).removeprefix("- ").split("\n- ")


def certain(folder: Path) -> View:
    """A grid in which post-norm is 1.35 points behind for certain, and no positions 3; the margin is 2."""

    def accuracy(cell: CellPlan, seed: int) -> float:
        away = {"post": -1.35, "none": -3.0}
        return 50.0 + (seed * 7 % 5 - 2) / 20 + sum(away.get(value, 0.0) for value in cell.axes.values())

    axes = {"norm": ("pre", "post"), "positions": ("learned", "none")}
    return View(build(folder, factorial(axes, seeds=tuple(range(6)), time=False, accuracy=accuracy, margin=2.0)))


def test_a_certain_difference_within_the_margin_is_not_told_as_none(tmp_path: Path) -> None:
    view = certain(tmp_path)
    said = written(headlines.headlines(view)[0]).removeprefix("- ").split("\n- ")
    (post,) = [e.judged for e in view.places[0].effects if e.axis == "norm"]
    assert post.verdict == "equivalent" and post.certain
    assert post.words == "worse, by less than the margin"
    number = f"{post.mean:.2f} points, {post.interval.low:.2f} to {post.interval.high:.2f}".replace("-", "−")  # noqa: RUF001
    assert f"norm: post ({number}) is **worse, by less than the margin** of 2 points, than pre." in said
    assert any(each.startswith('positions: "none" is **worse** than learned by 3.00 points (') for each in said)
    document = compose(view, Files(blank))
    assert "worse, by less than the margin" in {row[1] for table in tables(document) for row in table.rows}


def test_axes_of_the_recipe_are_called_by_their_short_names() -> None:
    document = compose(reference("norm-placement-small"), Files(blank))
    text = markdown.text(document)
    below = text[text.index("## Claims") : text.index("## Throughput")]
    assert "## Axis: learning_rate" in below and "train." not in below.replace("effect-of-train", "")


def test_numbers_of_claims_are_told_once_and_counts_last() -> None:
    said = answer("positions-small")
    assert said[0] == (
        'positions: rope_2d is **better** than learned; sinusoidal_2d, sinusoidal and "none" are **underpowered**.'
    )
    assert sum("4.13" in each for each in said) == 1
    assert "3 comparisons are open: " in " ".join(said) and "open: " not in " ".join(answer("portraits-small"))
    for name in ("positions-small", "components-cpu", "attention-timing-cpu"):
        assert "planned; " in answer(name)[-1] and not any("planned; " in each for each in answer(name)[:-1])
    first, second = answer("planted")[:2]
    assert first == "8 of 11 claims are **reproduced**: see Claims."
    assert second.startswith("3 of 11 claims are **reproduced, within the margin of 2 points**: classes of position ")


def test_a_report_shows_the_verdicts_that_another_margin_would_change(tmp_path: Path) -> None:
    document = compose(certain(tmp_path / "certain"), Files(blank))
    ((changed,),) = [[t for t in tables(document) if "margin 1 point" in t.columns]]
    assert list(changed.columns) == ["comparison", "margin 1 point", "margin 2 points", "margin 4 points"]
    rows = {row[0]: row[1:] for row in changed.rows}
    less = "worse, by less than the margin"
    assert rows["norm: post − pre"] == ["worse", less, less]  # noqa: RUF001
    assert rows["positions: none − learned"] == ["worse", "worse", less]  # noqa: RUF001
    assert len(rows) == 2, "the interaction is equivalent whatever the margin"
    assert "With half or twice the margin no verdict changes." in text_of(reference("positions-small"))
    without = View(build(tmp_path, factorial(AXES, seeds=(0, 1, 2, 3), time=False)))
    assert "half or twice the margin" not in text_of(without)


def test_claims_of_a_small_form_are_told_as_such() -> None:
    """In sentences, in the table and in the numbers; and of a whole suite nothing of it."""
    view = reference("pooling-small")
    said = "not reproduced, opposite sign, in small"
    assert f"**{said}**" in answer("pooling-small")[1]
    document = compose(view, Files(blank))
    text = markdown.text(document)
    assert said in {row[1] for table in tables(document) if "outcome" in table.columns for row in table.rows}
    assert "tests another claim than the one that was published" in text
    assert verdicts.frame(view)["small"].iloc[0] and "in small" not in text_of(reference("planted"))


def test_a_mean_over_tasks_is_told_with_its_ends() -> None:
    (said,) = [each for each in answer("planted") if each.startswith("change, a mean over 4 values of task: ")]
    (under,) = [t for t in tables(compose(reference("planted"), Files(blank))) if "position only (points)" in t.columns]
    row = under.rows[0]
    assert row[0] == "no positions" and set(row[1:]) == {"−0.04", "−0.11", "−73.89", "−48.57"}  # noqa: RUF001
    assert f"no positions from {row[2]} (texture only) to {row[3]} (position only)" in said


def test_the_highest_is_set_apart_from_its_twins_from_ties_and_from_the_next(tmp_path: Path) -> None:
    (said,) = [each for each in answer("components-cpu") if each.startswith("Highest")]
    view = reference("components-cpu")
    means = view.by_cell.set_index("cell")["test_accuracy_pct_mean"].sort_values(ascending=False, kind="stable")
    twins = [cell for cell in means.index if view.twins[cell] == view.twins[means.index[0]]]
    assert f"{len(twins) - 1} other cells are exact twins of it. The next, " in said
    assert said.endswith("34.5 ± 1.4 %; the two were not tested against each other.")
    level = factorial({"norm": ("pre", "post")}, seeds=(0, 1), time=False, accuracy=lambda *_: 50.0)
    said = written(headlines.headlines(View(build(tmp_path, level)))[0]).split("\n- ")
    (tied,) = [each for each in said if "Highest" in each]
    assert "exactly as accurate" in tied
    (ladder,) = [each for each in answer("attention-ladder") if each.startswith("Highest")]
    assert ladder.endswith("The next, 4 heads: 36.9 ± 0.6 %."), "which a claim has set against it"


def test_what_cannot_run_here_is_said_to_be_untested() -> None:
    untested = "which do not run on cpu, so that what is expected of them stays open."
    assert (
        answer("attention-timing-cpu")[-2]
        == f"Not tested here: attention sdpa_efficient, sdpa_cudnn, triton, {untested}"
    )
    assert not any("Not tested here" in each for each in answer("planted"))


def test_an_axis_of_twins_that_agree_is_a_sentence_and_a_single_pair_has_one_table() -> None:
    document = compose(reference("components-cpu"), Files(blank))
    text = markdown.text(document)
    patching = text[text.index("## Axis: patching") : text.index("## Axis: attention")]
    assert "18 matched blocks (runs that differ in patching alone)" in patching
    assert "30 blocks left out, since one implementation is trained for all" in patching
    assert "Every difference between them is 0." in patching
    assert "|" not in patching and "![" not in patching
    assert "P(better)" not in text and "matched runs |" in text
    document = compose(reference("positions-small"), Files(blank))
    text = markdown.text(document)
    below = text[text.index("## Axis: positions") : text.index("## Throughput")]
    assert "matched runs" not in below and "cell pairs" in below and "P(better)" in below


def test_a_narrow_terminal_keeps_the_columns_that_answer() -> None:
    def shown(name: str, column: str) -> set[str]:
        document = compose(reference(name), Files(blank))
        table = next(table for table in tables(document) if column in table.columns)
        return {table.columns[number] for number in fitting(table, 80)}

    assert {"attention", "latency p50 (ms)", "speed (× baseline)"} <= shown("attention-timing-cpu", "GFLOP/s")
    assert {"claim", "outcome", "verdict", "difference (points)"} <= shown("positions-small", "claim")


def test_marks_are_counted_by_reason() -> None:
    view = reference("components-cpu")
    for group in view.time_groups:
        (said,) = speed.unstable(view, group)
        wide = view.timings(group)["unstable"].fillna("").str.contains(WIDE, regex=False).sum()
        assert f"{speed.WIDER} ({wide})" in said and " · " not in said, "the table has each one's interval"
