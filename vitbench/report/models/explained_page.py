"""Explained page: an explanation as a page of its own, or as a part of its study's report."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from vitbench.config.trial import TrainTrial
from vitbench.report.document import Block, Bullets, Document, Heading, Section
from vitbench.report.figures.charts import Colouring, Curves, Draw, Picture, drawn
from vitbench.report.models import explanation_text, pictures
from vitbench.report.models.examples import PictureGroup, ShownModel
from vitbench.report.output import Files
from vitbench.report.text import Md, escape
from vitbench.report.view import View
from vitbench.store import Epoch
from vitbench.store.explanation import FOLDER, SUFFIX, BadExplanation, Explanation, read_explanation
from vitbench.wording import plural

MOST = 3  # Explanations in a study's report; each has a dozen pictures, and more cannot be seen beside one another

MOST_MAPS = 6  # Layers, and heads, whose attention a study's report shows: the model's own page has more

MADE = (
    "What there is to see of models whose weights `vitbench run --keep-weights` has kept, on the test images of their "
    "own trials. Made by `vitbench explain`, which writes a page of each, too, with its training and with more layers "
    "and heads where there are many."
)

MISSING = "What is not shown, and why"
TRAINING, VALIDATION = "training", "validation"
MEASURED = (
    ("loss (nats)", TRAINING, "train_loss"), ("loss (nats)", VALIDATION, "validation_loss"),
    ("accuracy (%)", TRAINING, "train_accuracy_pct"), ("accuracy (%)", VALIDATION, "validation_accuracy_pct"),
    ("gradient norm", TRAINING, "gradient_norm"),
)  # fmt: skip
"""Curves of a training: quantity, the images on which it was measured, field of an epoch."""


def render_explanation(
    explanation: Explanation, title: str, epochs: Sequence[Epoch], out: Path, draw: Draw = drawn
) -> Path:
    """Write the page of one model into a folder, see :meth:`Files.write`; returns the path of ``index.html``.

    Args:
        epochs: of the model's training, where its record is there.
    """
    files = Files(draw)
    groups = pictures.sections([ShownModel(explanation)])
    if epochs:
        groups["Training"] = [PictureGroup("", [training(epochs)])]
    sections = [Section(heading, [*_drawn(some, files)]) for heading, some in groups.items()]
    if missing := [*pictures.missing(explanation), *_no_training(epochs)]:
        sections.append(Section(MISSING, [Bullets(missing)]))
    return files.write(out, Document(f"What a model looks at: {title}", [pictures.about(explanation)], sections))


def of_study(view: View, files: Files) -> Iterator[Block]:
    """The explanations that a study keeps, of the first ``MOST`` of its trials that have one, beside one another."""
    models, unread, number = _kept(view)
    if not number:
        return
    texts = {model.name: pictures.about(model.explanation) for model in models}
    texts |= {name: Md(f"Its explanation cannot be read: {escape(why)}.") for name, why in unread.items()}
    yield from (Md(MADE), Bullets([Md(f"**{escape(name)}.** {text}") for name, text in texts.items()]))
    if number > MOST:
        yield Md(f"Of {plural(number, 'explanation')} the first {MOST} are shown.")
    if models:
        for heading, groups in pictures.sections(models, MOST_MAPS).items():
            yield from (Heading(heading), *_drawn(groups, files))
    if missing := [Md(f"{escape(m.name)}: {line}") for m in models for line in pictures.missing(m.explanation)]:
        yield from (Heading(MISSING), Bullets(missing))


def in_short(view: View) -> list[Md]:
    """Answer of a study's explanations to its question, in sentences; empty where the study keeps none."""
    return [escape(sentence) for sentence in explanation_text.in_short(_kept(view)[0])]


def _kept(view: View) -> tuple[list[ShownModel], dict[str, str], int]:
    """The models that are shown, name → why another one's explanation cannot be read, and how many there are."""
    files = {file.stem: file for file in sorted((view.study.path / FOLDER).glob(f"*{SUFFIX}"))}
    trials = view.study.info.trials
    planned = [trials[index] for index, trial_id in enumerate(trials.ids()) if trial_id in files] if files else []
    trained = [(each, each.trial.seed) for each in planned if isinstance(each.trial, TrainTrial)]
    models, unread = list[ShownModel](), dict[str, str]()
    for each, seed in trained[:MOST]:
        name = f"{each.cell}, seed {seed}"
        if name in unread or name in {model.name for model in models}:  # as the same cell on another device is
            name = f"{name}, trial {each.id}"
        try:
            explanation = read_explanation(files[each.id])
            if explanation.about.trial != each.id:
                raise BadExplanation("it is of another trial than its name says")
        except BadExplanation as error:
            unread[name] = str(error)
        else:
            models.append(ShownModel(explanation, name, f"explanation-{len(models) + 1}-"))
    return models, unread, len(trained)


def training(epochs: Sequence[Epoch]) -> Picture:
    """Loss, accuracy and gradient norm of one run, epoch by epoch."""
    rows = [
        ("", name, metric, "1", epoch.epoch, value)
        for metric, name, field in MEASURED
        for epoch in epochs
        if (value := getattr(epoch, field)) is not None
    ]
    frame = pd.DataFrame(rows, columns=["facet", "colour", "metric", "run", "epoch", "value"])
    metrics, names = list(frame["metric"].unique()), list(frame["colour"].unique())
    chart = Curves(metrics, "", [""], frame, Colouring("", (TRAINING, VALIDATION), names if len(names) > 1 else ()))
    alt = f"{', '.join(metrics)} by epoch"
    caption = f"{alt}, over {plural(len(epochs), 'epoch')}."
    if "gradient norm" in metrics:
        caption += " The gradient's norm is that before clipping, a mean over some steps of the epoch."
    return Picture("training", chart, alt, caption[:1].upper() + caption[1:])


def _no_training(epochs: Sequence[Epoch]) -> list[Md]:
    if not epochs:
        return [Md("Training: the weights lie in no study's folder that has the record of their trial.")]
    if all(epoch.gradient_norm is None for epoch in epochs):
        return [Md("Gradient norm over training: the record holds none, since an earlier vitbench made it.")]
    return []


def _drawn(groups: Sequence[PictureGroup], files: Files) -> Iterator[Block]:
    """Pictures, each with its caption, and before those of one kind how to read them."""
    for group in groups:
        if group.text:
            yield escape(group.text)
        yield from map(files.picture, group.pictures)
