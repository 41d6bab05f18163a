"""Main effects, interactions, variants one at a time: against computations by hand; what failed; what is missing."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np
import pandas as pd
import pytest

from tests.report.builders import COMPONENTS, CPU, GPU, CellPlan, Plan, build, factorial, grid, no_triton
from vitbench.analysis.factorial import Runs, effect, interactions, one_at_a_time, reference_of, runs_of
from vitbench.analysis.frames import trials_frame
from vitbench.analysis.grouped import ACCURACY
from vitbench.analysis.verdicts import Comparison, judge

AXES = {axis: tuple(values) for axis, values in COMPONENTS.items()}
SMALL = {"norm": ("pre", "post"), "positions": ("learned", "sinusoidal", "none")}
SEEDS = (0, 1, 2)
POST = "norm: post \N{MINUS SIGN} pre"
NONE, SINUSOIDAL = (f"positions: {value} \N{MINUS SIGN} learned" for value in ("none", "sinusoidal"))

State = Callable[[CellPlan, str, int], tuple[str, str]]


def frame_of(path: Path, plan: Plan) -> pd.DataFrame:
    return trials_frame(build(path, plan))


def runs_in(path: Path, plan: Plan, axes: Mapping[str, tuple[str, ...]] = AXES) -> Runs:
    (runs,) = runs_of(frame_of(path, plan), axes)
    return runs


def small(**changes: object) -> Plan:
    return factorial(SMALL, **{"seeds": SEEDS, "time": False, **changes})


def failing(*failed: tuple[str, str, int], state: str = "diverged") -> State:
    """The state of (norm, positions, seed)."""
    return lambda cell, kind, seed: (state, "why") if (*cell.axes.values(), seed) in failed else ("ok", "")


def by_label(comparisons: list[Comparison]) -> dict[str, Comparison]:
    return {c.label: c for c in comparisons}


def main_effects(runs: Runs, axes: Mapping[str, Sequence[str]], among: Iterable[str] | None = None) -> list[Comparison]:
    """Effect of each value of some axes, all where None, against the axis' reference."""
    chosen = [(axis, reference_of(runs, axes, axis)) for axis in (axes if among is None else among)]
    return [
        effect(runs, axes, axis, value, against) for axis, against in chosen for value in axes[axis] if value != against
    ]


def crossed(runs: Runs, axes: Mapping[str, Sequence[str]]) -> list[Comparison]:
    """Interactions of every pair of axes."""
    pairs = itertools.combinations([axis for axis in axes if len(axes[axis]) > 1], 2)
    return [each for pair in pairs for each in interactions(runs, axes, *pair)]


@pytest.fixture
def whole(tmp_path: Path) -> tuple[Runs, dict[tuple[str, ...], float]]:
    """The components suite without Triton, and its accuracies by values of all axes and seed."""
    frame = frame_of(tmp_path, factorial(COMPONENTS, seeds=SEEDS, state=no_triton, time=False))
    (runs,) = runs_of(frame, AXES)
    ok = frame.query("state == 'ok'").to_dict("records")
    return runs, {(*(row[axis] for axis in AXES), row["seed"]): row[ACCURACY] for row in ok}


def test_rule_10_a_main_effect_is_over_every_matched_pair_averaged_within_its_seed(
    whole: tuple[Runs, dict[tuple[str, ...], float]],
) -> None:
    runs, known = whole
    effects = by_label(main_effects(runs, AXES))
    assert list(effects) == [f"{a}: {v} \N{MINUS SIGN} {values[0]}" for a, values in AXES.items() for v in values[1:]]
    for (place, axis), seed in itertools.product(enumerate(AXES), SEEDS):
        for value in AXES[axis][1:]:
            if value == "triton":
                continue
            pairs = [
                (result, known[(*key[:place], AXES[axis][0], *key[place + 1 :])])
                for key, result in known.items()
                if key[place] == value and key[-1] == seed
            ]
            comparison = effects[f"{axis}: {value} \N{MINUS SIGN} {AXES[axis][0]}"]
            i = comparison.seeds.index(seed)
            assert comparison.deltas[i] == pytest.approx(fmean(v - b for v, b in pairs))
            assert comparison.variant[i] == pytest.approx(fmean(v for v, _ in pairs))
            assert comparison.baseline[i] == pytest.approx(fmean(b for _, b in pairs))
            assert comparison.blocks == len(pairs)
    assert all(c.planned == 3 and c.failed == 0 for c in effects.values() if "triton" not in c.label)
    assert (effects[POST].distinct, effects[NONE].distinct) == (3, 2)


def test_what_does_not_run_on_the_device_is_invalid_and_leaves_the_other_axes_alone(
    whole: tuple[Runs, dict[tuple[str, ...], float]],
) -> None:
    effects = by_label(main_effects(whole[0], AXES))
    triton = effects["attention: triton \N{MINUS SIGN} per_head"]
    assert (triton.deltas, triton.failed, triton.planned) == ((), 3, 3)
    assert judge([triton], margin=None, noise_floor=None)[0].verdict == "invalid"
    assert effects[POST].failed == 0


def test_an_interaction_is_a_difference_of_differences_over_every_matched_quadruple(
    whole: tuple[Runs, dict[tuple[str, ...], float]],
) -> None:
    runs, known = whole
    comparisons = by_label(interactions(runs, AXES, "norm", "positions"))
    assert list(comparisons) == [f"{POST} by {SINUSOIDAL}", f"{POST} by {NONE}"]
    comparison = comparisons[f"{POST} by {NONE}"]
    for seed, delta in zip(comparison.seeds, comparison.deltas, strict=True):
        quadruples = [
            known[p, a, "post", "none", seed]
            - known[p, a, "pre", "none", seed]
            - known[p, a, "post", "learned", seed]
            + known[p, a, "pre", "learned", seed]
            for p, a in itertools.product(AXES["patching"], ("per_head", "batched", "sdpa"))
        ]
        assert delta == pytest.approx(fmean(quadruples))
    assert (comparison.blocks, comparison.distinct) == (6, 1)
    arms = np.array(comparison.variant) - np.array(comparison.baseline)
    assert arms == pytest.approx(comparison.deltas), "of the two diagonals, each with a value for every seed"
    assert comparison.factors == (("norm", "post", "pre"), ("positions", "none", "learned"))
    assert not comparison.equivalent
    # All pairs of axes, and of each all pairs of values that are no reference.
    assert len(crossed(runs, AXES)) == 1 * 3 + 1 * 1 + 1 * 2 + 3 * 1 + 3 * 2 + 1 * 2


def test_a_comparison_knows_equivalent_implementations_from_what_may_differ(whole: tuple[Runs, object]) -> None:
    runs, _ = whole
    for axis, value in (("patching", "einops"), ("attention", "sdpa")):
        assert effect(runs, AXES, axis, value, AXES[axis][0]).equivalent
    assert not effect(runs, AXES, "norm", "post", "pre").equivalent
    for pair in (("patching", "norm"), ("norm", "attention")):
        assert all(c.equivalent for c in interactions(runs, AXES, *pair) if c.deltas), "its effect is 0 in either"


def test_variants_are_compared_with_the_first_cell_seed_by_seed(tmp_path: Path) -> None:
    cells = [CellPlan("base", {}), CellPlan("post", {"norm": "post"}), CellPlan("none", {"positions": "none"})]
    frame = frame_of(tmp_path, Plan(cells=cells, seeds=SEEDS, time=False))
    (runs,) = runs_of(frame)
    known = {(row["cell"], row["seed"]): row[ACCURACY] for row in frame.to_dict("records")}
    post, none = one_at_a_time(runs)
    assert (post.label, none.label, post.seeds) == ("post", "none", SEEDS)
    assert post.deltas == pytest.approx([known["post", s] - known["base", s] for s in SEEDS])
    assert post.variant == tuple(known["post", s] for s in SEEDS)
    assert (post.blocks, post.distinct) == (1, 1)
    assert (post.cells, post.factors, post.equivalent) == (("post", "base"), (), False)
    (turned,) = one_at_a_time(runs, ["post", "base"])
    assert turned.deltas == pytest.approx([-d for d in post.deltas])
    assert main_effects(runs, {}) == crossed(runs, {}) == []


def given(results: Mapping[tuple[str, str, str, int], float]) -> Runs:
    """Runs over attention (equivalent), norm and positions: one function for each norm and positions."""
    cells = {(a, n, p): {"attention": a, "norm": n, "positions": p} for a, n, p, _ in results}
    levels = {" ".join(key): at for key, at in cells.items()}
    function_of = {cell: f"{at['norm']} {at['positions']}" for cell, at in levels.items()}
    seeds = tuple(dict.fromkeys(key[3] for key in results))
    values = np.array([[results.get((*key, seed), np.nan) for seed in seeds] for key in cells])
    nowhere, none = np.zeros(len(cells), dtype=bool), np.zeros(values.shape, dtype=bool)
    starts = np.full(len(cells), -1)
    return Runs("cpu", "here", seeds, levels, function_of, values, ~none, np.isinf(values), nowhere, none, starts)


THREE = {"attention": ("per_head", "sdpa"), "norm": ("pre", "post"), "positions": ("learned", "none")}


def test_an_effect_within_a_part_of_the_grid(whole: tuple[Runs, dict[tuple[str, ...], float]]) -> None:
    runs, known = whole
    part = AXES | {"norm": ("post",), "attention": ("sdpa",)}
    comparison = effect(runs, part, "positions", "none", "sinusoidal")
    for seed, delta in zip(comparison.seeds, comparison.deltas, strict=True):
        pairs = [known[p, "sdpa", "post", "none", seed] - known[p, "sdpa", "post", "sinusoidal", seed]
                 for p in AXES["patching"]]  # fmt: skip
        assert delta == pytest.approx(fmean(pairs))
    nowhere = effect(runs, part, "norm", "post", "pre-and-post")
    assert (nowhere.deltas, nowhere.failed, nowhere.blocks) == ((), 0, 0)


def test_seeds_that_are_planned_for_other_cells_alone_are_not_missing(tmp_path: Path) -> None:
    """A cell that a look has stopped keeps its seeds where others get more, or where the looks are taken away."""
    frame = frame_of(tmp_path, factorial({"norm": ("pre", "post", "none")}, seeds=range(8), time=False))
    stopped = frame[(frame["norm"] != "post") | (frame["seed"] < 6)]
    (runs,) = runs_of(stopped, ["norm"])
    post, none = one_at_a_time(runs)
    assert (len(post.deltas), post.planned) == (6, 6)
    assert (len(none.deltas), none.planned) == (8, 8)


def test_equivalent_implementations_differ_by_exactly_nothing() -> None:
    """Sums of floats could leave a rest, and a rest of one sign in all seeds would be a sure difference."""
    results = {
        (a, n, p, s): 50 + 0.1 * s + 0.7 * (n == "post") - 0.3 * (p == "none") * (s + 1) / 7
        for a, n, p in itertools.product(*THREE.values())
        for s in range(8)
    }
    runs = given(results)
    (attention,) = main_effects(runs, THREE, ["attention"])
    assert attention.deltas == (0.0,) * 8
    for comparison in crossed(runs, THREE):
        if "attention" in comparison.label:
            assert comparison.deltas == (0.0,) * 8
    uneven = {("per_head", n, p, s): 0.1 * (k + 1) for k, (n, p, s) in enumerate(
        itertools.product(("pre", "post"), ("learned", "none"), range(2)))}  # fmt: skip
    shifted = given({key: 60.3 + value - (0.8 if key[1] == "post" else 0.4) for key, value in uneven.items()})
    (norm,) = main_effects(shifted, THREE, ["norm"])
    assert norm.deltas == (0.0, 0.0)


def test_equal_results_have_equal_means_in_whatever_order_of_blocks() -> None:
    """The chance of a better run counts ties, and a rest of rounding would break them."""
    shades = [f"p{i}" for i in range(7)]
    values = [0.1, 70.3, 61.7, 33.3, 8.9, 50.01, 99.99]
    results = {("per_head", n, p, 0): v for n, order in (("pre", values), ("post", values[::-1]))
               for p, v in zip(shades, order, strict=True)}  # fmt: skip
    (norm,) = main_effects(given(results), {**THREE, "positions": tuple(shades)}, ["norm"])
    assert norm.variant == norm.baseline == (fmean(values),)


@pytest.mark.parametrize("draw", [0, 1, 2, 5, 10, 13, 16, 17])
def test_an_effect_is_that_of_a_plain_loop_over_seeds_and_blocks(draw: int) -> None:
    """Some runs failed, are missing, do not run on the device, or are equivalent to others."""
    chance = np.random.default_rng(draw)
    ladder = ("per_head", "batched", "sdpa", "triton")
    axes = {**THREE, "attention": ladder}
    keys = list(itertools.product(ladder, *list(THREE.values())[1:]))
    runs = given({(*key, seed): chance.normal(60, 5) for key in keys for seed in range(6)})
    unsupported = np.array([key[0] == "triton" and draw % 2 == 0 for key in keys])
    failed = (chance.random(runs.results.shape) < (0.0, 0.03, 0.3)[draw % 3]) & ~unsupported[:, None]
    missing = chance.random(failed.shape) < (0.0, 0.2)[draw // 10]
    results = np.where(failed | missing | unsupported[:, None], np.nan, runs.results)
    norm = effect(replace(runs, results=results, failed=failed, unsupported=unsupported), axes, "norm", "post", "pre")

    cell = {" ".join(key): i for i, key in enumerate(keys)}
    planned = [(cell[f"{a} post {p}"], cell[f"{a} pre {p}"]) for a in ladder for p in THREE["positions"]]
    possible = [b for b in planned if not unsupported[list(b)].any()]
    blocks = [b for b in possible if min(failed[list(b)].sum(axis=1)) <= 1] or possible
    seeds = [s for s in range(6) if not any(failed[c, s] for b in blocks for c in b)]
    assert norm.failed == 6 - len(seeds)
    there = {b: [s for s in seeds if not np.isnan(results[list(b), s]).any()] for b in blocks}
    there = {b: of_block for b, of_block in there.items() if of_block}
    ragged = len(set(map(tuple, there.values()))) > 1
    levels = {b: fmean(results[c, s] for c in b for s in of_block) if ragged else 0.0 for b, of_block in there.items()}
    level = fmean(levels.values() or [0.0])
    means: dict[int, list[float]] = {}
    for seed in seeds:
        groups: dict[str, list[tuple[int, int]]] = {}
        for block in there:
            if seed in there[block]:
                groups.setdefault(keys[block[0]][2], []).append(block)
        if groups:
            means[seed] = [
                fmean(fmean(results[b[i], seed] - levels[b] + level for b in group) for group in groups.values())
                for i in (0, 1)
            ]
    assert norm.seeds == tuple(means)
    known = np.array([norm.variant, norm.baseline, norm.deltas]).T
    wanted = np.array([(a, b, a - b) for a, b in means.values()]).reshape(-1, 3)
    np.testing.assert_allclose(known, wanted, rtol=0, atol=1e-12 if ragged else 0)


def test_a_run_that_is_missing_leaves_an_effect_as_certain_as_it_was() -> None:
    """Blocks lie 30 points apart: a seed without one of them is no further from the other seeds than before."""
    chance = np.random.default_rng(0)
    results = {("per_head", n, p, s): 50 + 2 * (n == "post") + 30 * (p == "learned") + chance.normal(0, 0.3)
               for n, p, s in itertools.product(("pre", "post"), ("learned", "none"), range(6))}  # fmt: skip
    axes = {**THREE, "positions": ("learned", "none")}
    for comparisons in (lambda runs: main_effects(runs, axes, ["norm"]), lambda runs: crossed(runs, axes)):
        runs = given(results)
        some = runs.results.copy()
        some[runs.number["per_head post none"], 5] = np.nan
        whole, part = (
            judge(comparisons(each), margin=1.0, noise_floor=None)[0] for each in (runs, replace(runs, results=some))
        )
        assert part.verdict == whole.verdict
        width, before = (each.interval.high - each.interval.low for each in (part, whole))
        assert width < 1.6 * before


def test_rule_9_one_failed_seed_is_left_out_whole_and_two_are_invalid(tmp_path: Path) -> None:
    runs = runs_in(tmp_path / "1", small(state=failing(("post", "none", 1))), SMALL)
    for comparison in main_effects(runs, SMALL):
        hit = comparison.label != SINUSOIDAL
        assert comparison.failed == int(hit)
        assert comparison.seeds == ((0, 2) if hit else (0, 1, 2)), "also its seed's blocks that did not fail"
    runs = runs_in(tmp_path / "2", small(state=failing(("post", "none", 1), ("pre", "none", 2), state="oom")), SMALL)
    effects = by_label(main_effects(runs, SMALL))
    assert (effects[NONE].failed, effects[POST].failed, effects[SINUSOIDAL].failed) == (2, 2, 0)


def test_a_block_in_which_all_cells_fail_says_nothing_of_the_axis(tmp_path: Path) -> None:
    """Neither norm trains without positions: the other blocks tell of the norm, and none tells of positions."""
    failed = [(norm, "none", seed) for norm in SMALL["norm"] for seed in SEEDS]
    runs = runs_in(tmp_path / "both", small(state=failing(*failed)), SMALL)
    effects = by_label(main_effects(runs, SMALL))
    norm = effects[POST]
    assert (norm.failed, norm.blocks, len(norm.deltas)) == (0, 2, 3)
    assert effects[NONE].failed == 3
    # Where that block is all that there is, nothing can be said.
    variant, baseline = (cell for cell, at in runs.levels.items() if at["positions"] == "none")
    assert one_at_a_time(runs, [baseline, variant])[0].failed == 3
    # Where post-norm alone fails, that is an effect of the norm, which no mean over survivors shows.
    failed = [("post", "none", seed) for seed in SEEDS]
    runs = runs_in(tmp_path / "one", small(state=failing(*failed)), SMALL)
    assert by_label(main_effects(runs, SMALL))[POST].failed == 3


@pytest.mark.parametrize("state", ["pending", "interrupted"])
def test_what_is_still_to_come_has_not_failed(tmp_path: Path, state: str) -> None:
    runs = runs_in(tmp_path, small(state=failing(("post", "none", 1), ("post", "none", 2), state=state)), SMALL)
    norm = main_effects(runs, SMALL)[0]
    assert (norm.label, norm.failed, norm.seeds) == (POST, 0, SEEDS)
    known = {(at["norm"], at["positions"]): runs.results[runs.number[cell]] for cell, at in runs.levels.items()}
    assert np.isnan(known["post", "none"]).tolist() == [False, True, True]
    matched = [known["post", p][1] - known["pre", p][1] for p in ("learned", "sinusoidal")]
    assert norm.deltas[1] == pytest.approx(fmean(matched)), "every pair that is there"


def test_rule_22_environments_and_devices_never_meet(tmp_path: Path) -> None:
    """Seeds 0 and 1 were trained on one machine, seed 2 on another; and of seed 1 one cell was, too."""
    frame = frame_of(tmp_path / "a", small(environment=lambda cell, seed: (
        GPU if seed == 2 or (seed == 1 and cell.axes["norm"] == "post") else CPU)))  # fmt: skip
    groups = runs_of(pd.concat([frame, frame_of(tmp_path / "b", small(device="cuda"))]), SMALL)
    assert [r.device for r in groups] == ["cpu", "cpu", "cuda"]
    assert len({r.environment for r in groups[:2]}) == 2
    norms = [main_effects(r, SMALL, ["norm"])[0] for r in groups]
    assert [c.seeds for c in norms] == [(0,), (2,), SEEDS]
    assert all(c.planned == 3 and c.failed == 0 for c in norms)
    known = {(r["cell"], r["seed"]): r[ACCURACY] for r in frame.to_dict("records")}
    pairs = [(known[f"post · {p}", 0], known[f"pre · {p}", 0]) for p in SMALL["positions"]]
    assert norms[0].deltas[0] == pytest.approx(fmean(v - b for v, b in pairs))


def test_a_run_that_failed_counts_wherever_it_did(tmp_path: Path) -> None:
    plan = small(environment=lambda cell, seed: GPU if seed == 2 else CPU, state=failing(("post", "none", 2)))
    assert [main_effects(r, SMALL, ["norm"])[0].failed for r in runs_of(frame_of(tmp_path, plan), SMALL)] == [1, 1]


def test_the_reference_is_the_first_value_with_a_result(tmp_path: Path) -> None:
    axes = {"attention": ("triton", "sdpa", "batched"), "norm": ("pre", "post")}
    runs = runs_in(tmp_path, factorial(axes, seeds=SEEDS, state=no_triton, time=False), axes)
    labels = [c.label for c in main_effects(runs, axes, ["attention"])]
    assert labels == ["attention: triton \N{MINUS SIGN} sdpa", "attention: batched \N{MINUS SIGN} sdpa"]
    assert reference_of(runs, axes, "attention") == "sdpa"
    assert reference_of(runs, axes, "norm") == "pre"


def test_only_cells_of_the_grid_enter_it_and_what_is_not_planned_is_no_comparison(tmp_path: Path) -> None:
    cells = [c for c in grid(SMALL) if c.axes != {"norm": "post", "positions": "none"}]
    cells.append(CellPlan("aside", {"norm": "post", "positions": "none", "train.learning_rate": 0.01}))
    runs = runs_in(tmp_path, Plan(cells=cells, axes=dict(SMALL), seeds=SEEDS, time=False), SMALL)
    assert len(runs.levels) == 5 and len(runs.function_of) == 6
    effects = by_label(main_effects(runs, SMALL))
    assert effects[POST].blocks == 2
    assert list(by_label(crossed(runs, SMALL))) == [f"{POST} by {SINUSOIDAL}"]
