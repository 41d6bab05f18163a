"""Whatever a study's records hold, there is a report, as Markdown and as a page: never a traceback, never a "nan"."""

import base64
import io
import os
import random
import re
import tempfile
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.report.builders import CPU, GPU, CellPlan, Plan, Values, blank, build, factorial
from tests.report.markdown import Page, read_page
from tests.report.shown_models import explanation_of
from vitbench.analysis.frames import level
from vitbench.config.recipe import Level
from vitbench.config.suite import Goal, Hypothesis
from vitbench.config.trial import TrainTrial
from vitbench.report.figures.charts import Chart, Drawn, drawn
from vitbench.report.study_report import render
from vitbench.report.view import View
from vitbench.store import Ceilings, StudyFolder, TimeValues, TrainValues
from vitbench.store.explanation import FOLDER, Picture, write_explanation
from vitbench.store.record import LARGEST, STATES

AXES = {"norm": ("pre", "post"), "heads": (1, 2, 4), "train.learning_rate": (0.001, 0.01), "qkv_bias": (True, False),
        "image_size": (32, (32, 64)), "attention": ("sdpa", "batched", "none"), "num_classes": (4, 10)}  # fmt: skip
FEW, DRAWN, MANY = 5, 1, int(os.environ.get("VITBENCH_EXAMPLES", "60"))
"""Random studies of the fast tests, those whose pictures are drawn, and of the slow tests: drawing takes longest.
They are the same ones each time; a hunt for others takes another number."""
FLOATS = (0.0, 1e-9, 1.0, 1e15)
LOSSES = (0.0, -3e38, 3e38, 2.3)  # A loss is a float32
PERCENTS = (0.0, 1e-9, 37.5, 100.0)
COUNTS = (0, 1, LARGEST)
OF_TRAINING: dict[str, tuple[Any, ...]] = {
    "test_loss": LOSSES, "test_accuracy_pct": PERCENTS, "test_images": COUNTS, "parameters": COUNTS,
    "forward_flops": COUNTS, "steps": COUNTS, "step_ms_p50": FLOATS, "first_step_ms": FLOATS,
    "train_images_per_s": FLOATS, "train_seconds": FLOATS, "seconds": FLOATS, "peak_memory_mib": FLOATS,
    "warm_up_seconds": (None, *FLOATS), "peak_flops_per_s": (None, *FLOATS), "epochs": ((),), "ensemble_size": (1, 3),
    "preparation_flops": COUNTS, "test_readings": COUNTS,
}  # fmt: skip
OF_TIMING: dict[str, tuple[Any, ...]] = {
    "latency_ms_p50": FLOATS, "latency_ms_p25": (None,), "latency_ms_p75": (None,), "images_per_s": FLOATS,
    "peak_memory_mib": FLOATS, "first_ms": FLOATS, "flops": (None, *COUNTS), "bytes": (None, *COUNTS),
    "drift": (None, *FLOATS),
    "ceilings": (None, *(Ceilings(flops_per_s=most, bytes_per_s=most) for most in FLOATS)),
}  # fmt: skip
OF_TUNING: dict[str, tuple[Any, ...]] = {
    "validation_loss": LOSSES, "validation_accuracy_pct": PERCENTS, "epochs": ((),),
}  # fmt: skip
"""Field → values at the ends of what a record may hold."""
LEVELS: tuple[Level, ...] = (
    "model", "block", "patching", "attention", "attention_core", "norm_layer", "positions", "mlp", "pooling",
)  # fmt: skip
PICTURES = get_args(Picture)


def png() -> str:
    packed = io.BytesIO()
    Image.new("RGB", (4, 4)).save(packed, "png")
    return base64.b64encode(packed.getvalue()).decode()


def extreme(chance: random.Random, values: Values) -> Values:
    """A trial's values with some of their fields at an end."""
    ends = (
        OF_TRAINING if isinstance(values, TrainValues) else OF_TIMING if isinstance(values, TimeValues) else OF_TUNING
    )
    chosen = chance.sample(sorted(ends), chance.randint(0, min(8, len(ends))))
    return values.model_copy(update={name: chance.choice(ends[name]) for name in chosen})


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Studies of every kind: grids and named cells, states, machines, stages, claims, goals, tuning, any values."""
    axes = {axis: AXES[axis] for axis in draw(st.lists(st.sampled_from(sorted(AXES)), max_size=3, unique=True))}
    seeds = tuple(range(draw(st.integers(0, 3))))
    states = [
        *draw(st.lists(st.sampled_from([*STATES, "pending"]), min_size=1, max_size=4)),
        *["ok"] * draw(st.integers(0, 6)),
    ]
    chance = random.Random(draw(st.integers(0, 1000)))
    masked = draw(st.booleans())
    plan = factorial(axes) if axes else Plan(cells=[CellPlan("base", {})])
    if draw(st.booleans()):
        plan.cells.append(CellPlan("by name", {"depth": 3}))
    first, last = plan.cells[0].label, plan.cells[-1].label
    axis, named = next(((a, v) for a, v in axes.items() if a not in ("image_size", "num_classes")), ("", ()))
    facts: list[Hypothesis] = []
    if last != first:
        facts.append(Hypothesis(claim="cells", value=last, against=first, expected="higher", source="someone"))
    if axis:
        against, value = map(level, named[:2])
        facts.append(Hypothesis(claim="axis", axis=axis, value=value, against=against, expected="equal", size=-1.5,
                          source="someone"))  # fmt: skip
    awkward = draw(st.booleans())

    def changed(values: Values) -> Values:
        if masked and isinstance(values, TrainValues):
            values = values.model_copy(update={"pretraining": values.epochs, "reconstructions": png()})
        return extreme(chance, values) if awkward else values

    return replace(
        plan, seeds=seeds, facts=tuple(facts) if draw(st.booleans()) else (), changed=changed,
        environment=lambda cell, seed: chance.choice([None, CPU, CPU, CPU, GPU]),
        state=lambda cell, kind, seed: (chance.choice(states), chance.choice(["", "it broke", "no memory"])),
        attempts=lambda cell, kind, seed: ["crashed"] * chance.choice([0, 0, 0, 2]),
        goals=(Goal(cell=first, test_accuracy=38.0),) if draw(st.booleans()) else (),
        margin=draw(st.sampled_from([None, 1.0])), tuned=draw(st.sampled_from([(), (1e-3, 1e-2)])),
        recipe={**({"pretrain_epochs": 2} if masked else {}), "ensemble_seeds": draw(st.booleans())},
        epochs=draw(st.integers(1, 4)), modes=draw(st.sampled_from([("inference",), ("train", "inference")])),
        levels=tuple(draw(st.lists(st.sampled_from(LEVELS), min_size=1, max_size=3, unique=True))),
        time=draw(st.booleans()), dtypes=draw(st.sampled_from([("float32",), ("float32", "bfloat16")])),
        test_images=draw(st.sampled_from([1, 100, 10_000])), validation_images=draw(st.sampled_from([0, 500])),
    )  # fmt: skip


def hang(study: StudyFolder, chance: random.Random) -> None:
    """Explanations of some of a study's models, whole ones and damaged ones, and files that are none."""
    folder = study.path / FOLDER
    folder.mkdir()
    for planned in study.info.trials[:6]:
        kind = chance.choice(["none", "none", "whole", "some", "another", "damaged", "empty"])
        if not isinstance(planned.trial, TrainTrial) or kind == "none":
            continue
        file = folder / f"{planned.id}.safetensors"
        if kind in ("damaged", "empty"):
            file.write_bytes(b"damaged" if kind == "damaged" else b"")
            continue
        right, wrong, unknown = (chance.randint(0, 3) for _ in range(3))
        without = chance.sample(PICTURES, chance.randint(0, 8)) if kind == "some" else []
        write_explanation(file, explanation_of(
            planned.trial.model, trial="another" if kind == "another" else planned.id, right=right, wrong=wrong,
            unknown=unknown, without=without, learned=chance.random() < 0.5, seed=chance.randint(0, 9),
        ))  # fmt: skip
    (folder / "stray.safetensors").write_bytes(b"stray")
    (folder / "notes.txt").write_text("mine")


def check(plan: Plan, out: Path) -> None:
    """Check what is true of every report."""
    page = read_page(out)
    assert not re.search(r"\b(nan|None(?! of)|NaT|inf)\b", page.text)
    if plan.seeds:
        accuracy = page.csv("accuracy")
        assert {row["cell"] for row in accuracy} == {cell.label for cell in plan.cells}
        assert all(row["state"] for row in accuracy)
    html = check_html(out, page)
    assert all(f'id="{name}"' in html for name in ("setup", "reproduction"))


def check_html(out: Path, page: Page) -> str:
    """The text of a page, whose pictures are those of the Markdown."""
    html = (out / "index.html").read_text(encoding="utf-8")
    HTMLParser().feed(html)
    assert html.count("<figure") == len(page.pictures)
    assert not re.search(r">(nan|None|NaT|inf)<", html)
    return html


SETTINGS = settings(
    deadline=None, phases=(Phase.generate,), derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


def render_all(plan: Plan, explanations: int | None, draw: Callable[[Chart], Drawn]) -> None:
    """Build the study, render and check it; a second time from what it left on the disk."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        study = build(folder / "study", plan)
        if explanations is not None:
            hang(study, random.Random(explanations))
        page = render(View(study), folder / "report", draw, exports=["latex"])
        check(plan, page.parent)
        again = render(View(StudyFolder.read(folder / "study")), folder / "again", draw)
        assert again.read_bytes() == page.read_bytes()


EXAMPLES = [
    (blank, FEW), (drawn, DRAWN), pytest.param(blank, MANY, marks=pytest.mark.slow),
    pytest.param(drawn, DRAWN + MANY // 10, marks=pytest.mark.slow),
]  # fmt: skip
"""Whether pictures are drawn, and the number of random studies."""


@pytest.mark.parametrize(("draw", "examples"), EXAMPLES)
def test_there_is_a_report_of_any_records_with_its_pictures(draw: Callable[[Chart], Drawn], examples: int) -> None:
    @given(plan=plans(), explanations=st.one_of(st.none(), st.integers(0, 1000)))
    @settings(SETTINGS, max_examples=examples)
    def rendered(plan: Plan, explanations: int | None) -> None:
        render_all(plan, explanations, draw)

    rendered()
