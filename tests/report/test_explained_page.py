"""Pictures of models in a real browser: the page of `vitbench explain`, and what a study's report has of them."""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.conftest import REPOSITORY
from tests.report.browser import SCHEMES, WINDOWS, faults_of_page, opened
from tests.report.builders import CellPlan, Plan, build, render, train_values
from tests.report.contrast import LEAST_TEXT, contrast, hexadecimal
from tests.report.shown_models import explanation_of, pictures_of
from tests.small import recipe_with, train_trial
from tests.test_security import HOSTILE, as_read
from vitbench.config.model import ModelSpec
from vitbench.config.trial import TrainTrial
from vitbench.report.figures import colours
from vitbench.report.models.explained_page import render_explanation
from vitbench.store.explanation import FOLDER, read_explanation, write_explanation

pytestmark = pytest.mark.xdist_group("browser")

SPEC = ModelSpec(image_size=32, patch_size=8, dim=32, depth=2, heads=2, num_classes=len(HOSTILE))
CELLS = [CellPlan("learned", {"positions": "learned"}), CellPlan("sinusoidal", {"positions": "sinusoidal"})]


def of_a_model(folder: Path) -> Path:
    """The page of one model, all of whose classes have hostile names."""
    epochs = train_values(Plan(cells=CELLS), CELLS[0], train_trial(train=recipe_with(epochs=3))).epochs
    explanation = explanation_of(SPEC, classes=HOSTILE, learned=False)
    return render_explanation(explanation, HOSTILE[0], epochs, folder / "page")


def of_a_study(folder: Path) -> Path:
    """A report with explanations: one with each picture, and one that lacks some and says why."""
    study = build(folder / "study", Plan(cells=CELLS, time=False))
    for planned, without in zip(study.info.trials, ((), ("attention", "positions")), strict=True):
        assert isinstance(planned.trial, TrainTrial)
        explanation = explanation_of(planned.trial.model, trial=planned.id, without=without, learned=not without)
        write_explanation(study.path / FOLDER / f"{planned.id}.safetensors", explanation)
    return render(study, folder / "report")


MADE: Mapping[str, Callable[[Path], Path]] = {"a model": of_a_model, "a study": of_a_study}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Name → page, rendered when it is first asked for."""
    return functools.cache(lambda name: MADE[name](tmp_path_factory.mktemp("explanations")))


KINDS = ["a model", pytest.param("a study", marks=pytest.mark.slow)]


@pytest.mark.parametrize(("width", "scheme"), WINDOWS)
@pytest.mark.parametrize("name", KINDS)
def test_it_opens_without_a_word_or_a_request_and_everybody_can_read_it(
    browser: Browser, pages: Callable[[str], Path], name: str, width: int, scheme: str
) -> None:
    assert faults_of_page(browser, pages(name), width=width, scheme=scheme) == []


def test_hostile_names_of_classes_are_text(browser: Browser, pages: Callable[[str], Path]) -> None:
    with opened(browser, pages("a model")) as window:
        assert window.value("document.scripts.length") == 1
        assert window.value("document.querySelector('h1').textContent").endswith(as_read(HOSTILE[0]))
        label = window.value("document.querySelector('#examples-wrong svg').getAttribute('aria-label')")
        assert as_read(HOSTILE[0]) in label and as_read(HOSTILE[1]) in label


@pytest.mark.slow
def test_a_studys_report_has_all_pictures_of_each_model_or_says_why_not(
    browser: Browser, pages: Callable[[str], Path]
) -> None:
    with opened(browser, pages("a study")) as window:
        figures = window.value("[...document.querySelectorAll('figure')].map(f => f.id)")
        common = {"filters", "similarity", "examples-right", "examples-wrong", "confusion"}
        assert {f"explanation-{n}-{name}" for n in (1, 2) for name in common} <= set(figures)
        assert {"explanation-1-patches", "explanations-distances"} <= set(figures)
        assert {"explanation-1-attention-1", "explanation-1-attention-2"} <= set(figures)
        assert not {"explanation-2-patches", "explanation-2-attention-1"} & set(figures)
        text = window.value("document.body.textContent")
        assert "sinusoidal, seed 0: Attention of every layer and head, positions as numbers: of a test." in text
        sizes = window.value("[...document.querySelectorAll('svg.pixels')].map(s => s.getBoundingClientRect().width)")
        assert sizes and min(sizes) > 200, "a picture of images is as large as can be seen"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_photographs_keep_their_colours_and_letters_around_them_stand_out(
    browser: Browser, pages: Callable[[str], Path], scheme: str
) -> None:
    ground = {"light": colours.PAPER, "dark": colours.NIGHT}[scheme]
    with opened(browser, pages("a model"), scheme=scheme) as window:
        styles = window.value("""[...document.querySelectorAll('svg.pixels')].map(s => getComputedStyle(s)).map(
            s => [s.filter, s.backgroundColor])""")
        boxes = window.value("""[...document.querySelectorAll('figure[id^=patches] image')].map(
            image => image.getBoundingClientRect()).map(box => [box.width, box.height])""")
        letters = window.value("[...document.querySelectorAll('svg.pixels text')].map(t => getComputedStyle(t).fill)")
    assert set(map(tuple, styles)) == {("none", "rgba(0, 0, 0, 0)")}
    whole, cut = boxes
    assert cut == pytest.approx(whole, abs=0.5), "an image that is cut into patches is as large as the whole one"
    shades = {hexadecimal(colour) for colour in letters} - {*colours.ON_PIXELS}
    assert shades and all(contrast(colour, ground) >= LEAST_TEXT for colour in shades), shades


@pytest.mark.slow
@pytest.mark.parametrize(("width", "beside"), [(1280, True), (390, False)])
def test_models_stand_beside_one_another_where_there_is_room(
    browser: Browser, pages: Callable[[str], Path], width: int, beside: bool
) -> None:
    with opened(browser, pages("a study"), width=width) as window:
        for name in ("filters", "similarity", "examples-right", "confusion"):
            places = [
                window.value(f"(b => [b.left, b.top])(document.querySelector('#explanation-{n}-{name}')"
                            ".getBoundingClientRect())")
                for n in (1, 2)
            ]  # fmt: skip
            (left, top), (other_left, other_top) = places
            assert (other_left > left and other_top == top) if beside else (other_left == left and other_top > top)


def test_a_reference_study_ships_explanations_with_every_picture() -> None:
    """One explanation has learned positions and one sinusoids, so that a clone has each kind of picture."""
    files = sorted((REPOSITORY / "results" / "reference" / "portraits-small" / FOLDER).iterdir())
    explanations = [read_explanation(file) for file in files]
    assert len(files) == 2 and [explanation.about.trial for explanation in explanations] == [f.stem for f in files]
    names = {p.about.model.positions: [picture.name for picture in pictures_of(p)] for p in explanations}
    order = ["patches", "filters", "embedded", "similarity", "scores", "weights", "norms", "attention-1", "attention-2",
             "distances", "examples-right", "examples-wrong", "confusion"]  # fmt: skip
    assert names["learned"] == order
    assert names["sinusoidal"] == [*order[:4], "positions", *order[4:]]
    assert not any(explanation.about.absent for explanation in explanations)
    assert sum(file.stat().st_size for file in files) < 1 << 20
