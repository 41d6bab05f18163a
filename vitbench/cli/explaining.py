"""The command ``explain``: what a trained model looks at."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from vitbench import registry
from vitbench.cli.console import Terminal, escape
from vitbench.errors import UserError
from vitbench.wording import nearest

if TYPE_CHECKING:
    from vitbench.explaining.inputs import Split
    from vitbench.store import Epoch, StudyFolder

FILE = click.Path(path_type=Path, dir_okay=False)
EITHER = click.Path(path_type=Path)
FOLDER = click.Path(path_type=Path, file_okay=False)


@click.command()
@click.argument("checkpoint", type=EITHER)
@click.option("--cell", metavar="NAME", help="Of a study's folder: the model of the cell that tables call so.")
@click.option("--seed", type=int, help="Its seed. Default: the first of which there are weights.")
@click.option("--images", type=EITHER,
              help="Folder of images, by class or not, or one image. Default: the model's own trial's.")  # fmt: skip
@click.option("--split", type=click.Choice(["test", "validation"]), default="test", show_default=True,
              help="Which images of the model's own trial.")  # fmt: skip
@click.option("--out", type=FOLDER,
              help="Folder of the page. Default: reports/explained/<trial>, or <trial>-<images>.")  # fmt: skip
@click.option("--device", default="auto", metavar="auto|cpu|cuda[:i]|mps", help="Where to run it. Default: auto.")
@click.option("--plugin", "plugins", multiple=True, type=FILE, help="A file with components of your own.")
@click.pass_context
def explain(
    context: click.Context, checkpoint: Path, cell: str | None, seed: int | None, images: Path | None, split: Split,
    out: Path | None, device: str, plugins: tuple[Path, ...],
) -> None:  # fmt: skip
    """Show what the model whose weights are in CHECKPOINT looks at, as a page of pictures.

    CHECKPOINT is a file such as results/<study>/weights/<trial>.safetensors, which `vitbench run --keep-weights`
    writes, or the study's folder, with --cell. What is seen of one in a study's folder is kept there, too, and shown in
    the study's report, if the images are the test images of its own trial; what is seen on others (--images, --split
    validation) is on the page alone.
    """
    if not checkpoint.exists():
        raise click.UsageError(f"{checkpoint}: No such file or folder")
    if (cell is not None or seed is not None) and checkpoint.is_file():
        raise click.UsageError(f"--cell and --seed choose a file in a study's folder, and {checkpoint} is a file")
    if cell is not None or seed is not None:
        checkpoint = _of_cell(checkpoint, cell, seed)
    elif checkpoint.is_dir():
        raise click.UsageError(
            f"{checkpoint} is a folder, and CHECKPOINT is a file of weights{_weights_in(checkpoint)}"
        )
    if images is not None and context.get_parameter_source("split") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--split is of the images of the model's own trial, and --images gives others: give one")
    for plugin in plugins:
        registry.load_plugin(plugin)
    from vitbench.devices import resolve, unsupported
    from vitbench.explaining.explain import explain_model
    from vitbench.explaining.inputs import class_names, of_folder, of_trial, study_of
    from vitbench.model.weights import WeightsError, read_about, read_spec
    from vitbench.report.models.explained_page import render_explanation
    from vitbench.store.explanation import FOLDER as KEPT
    from vitbench.store.explanation import BadExplanation, write_explanation

    about, spec, where = read_about(checkpoint), read_spec(checkpoint), resolve(device)
    if spec is None:
        raise WeightsError(f"{checkpoint}: does not say of which model it is: it is no file of vitbench's. "
                           "`vitbench run --keep-weights` writes files that do; it can start from timm's weights "
                           "(train.pretrained)")  # fmt: skip
    if reason := unsupported(spec, where, "float32", training=False):
        raise UserError(reason)
    study, console = study_of(checkpoint), Terminal()
    classes = class_names(about, spec, checkpoint)
    inputs = of_folder(images, spec, classes) if images else of_trial(about, spec, study, split)
    explanation = explain_model(checkpoint, inputs, where)
    if study is not None and (images is not None or split != "test"):
        console.print("not kept with the study: its report shows what is seen on the trial's own test images")
    elif study is not None and explanation.about.trial == checkpoint.stem:
        try:
            console.print(escape(f"kept as {write_explanation(study.path / KEPT / checkpoint.name, explanation)}"))
        except (OSError, BadExplanation) as error:  # a study that can only be read is still explained
            reason = getattr(error, "strerror", None) or str(error)
            console.print(f"[yellow]not kept with the study[/]: {escape(reason)}")
    title, epochs = _training(study, explanation.about.trial)
    of = images.resolve().name if images else "" if split == "test" else split  # each has a page of its own
    folder = out or Path("reports") / "explained" / "-".join(filter(None, (checkpoint.stem, of)))
    page = render_explanation(explanation, title or checkpoint.stem, epochs, folder)
    console.print(escape(str(page)))


def _of_cell(folder: Path, cell: str | None, seed: int | None) -> Path:
    """The file of weights of a cell's model in a study's folder."""
    from vitbench.config.trial import TrainTrial
    from vitbench.store import StudyFolder

    trained = [(p.cell, p.trial) for p in StudyFolder.read(folder).info.trials if isinstance(p.trial, TrainTrial)]
    for name, trial in trained:
        file = folder / "weights" / f"{trial.id}.safetensors"
        if cell in {None, name} and seed in {None, trial.seed} and file.exists():
            return file
    names = list(dict.fromkeys(name for name, _ in trained))
    if cell is not None and cell not in names:
        known = ", ".join(f'"{each}"' for each in names)
        raise click.UsageError(f'--cell: {folder} trains no cell "{cell}"{nearest(cell, names)}; known: {known}')
    which = f"cell {cell}" if cell is not None else "any cell"
    which += f", seed {seed}" if seed is not None else ""
    raise click.UsageError(f"{folder} holds no weights of {which}: `vitbench run --keep-weights` keeps them")


def _weights_in(folder: Path) -> str:
    """Which files of weights a folder has, for who gave the folder."""
    files = sorted([*folder.glob("*.safetensors"), *folder.glob("weights/*.safetensors")])
    if not files:
        return ", such as `vitbench run --keep-weights` writes; it holds none"
    more = f", or one of {len(files) - 1:,} others" if len(files) > 1 else ""
    return f": give {files[0]}{more}"


def _training(study: StudyFolder | None, trial: str | None) -> tuple[str, tuple[Epoch, ...]]:
    """Label of a model in a study, and the epochs of its training; nothing where the study knows no such trial."""
    from vitbench.store import TrainValues
    from vitbench.store.attempts import standing

    if study is None or trial is None:
        return "", ()
    labels = [planned.cell for planned in study.info.trials if planned.id == trial]
    records = study.records(lambda attempt: attempt.trial_id == trial).get(trial)
    values = standing(records).values if records else None
    return (labels[0] if labels else ""), values.epochs if isinstance(values, TrainValues) else ()
