"""Reproduction: the commands that make a study and its pictures, on which images, with what it was made before."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from vitbench.config.base import pair
from vitbench.config.recipe import DataSpec
from vitbench.config.trial import TrainTrial, TuneTrial
from vitbench.report.document import Block, Code
from vitbench.report.inline import Md, escape, listed
from vitbench.report.output import Files
from vitbench.report.sections import setup
from vitbench.report.text import count, plural
from vitbench.report.view import View
from vitbench.store.explanation import FOLDER as EXPLANATIONS
from vitbench.store.explanation import SUFFIX

RESULTS = "results"
"""Folder of studies, where a study does not say where its own lay."""
KEEP = "--keep-weights"
MAX_NAMED = 8
MOST_EXPLAINED = 8
"""Files of weights that are named one by one."""


def section(view: View, _: Files) -> list[Block]:
    """How to run the study again: the suite, the commands, the images, the versions, the commit."""
    info = view.study.info
    made = list(info.commands)
    several = len(made) > 1
    what = "These commands, in their order, made the study" if several else "This command made the study"
    said = f"{what}; run again on the same folder, {'they continue' if several else 'it continues'} it."
    if not made:
        said = "Its plan was not made on a command line."
    found: list[Block] = [Md(f"Suite: {escape(info.suite.name)}, in the file {escape(info.suite_file)}. {said}")]
    explained = _explained(view)
    if explained:
        made = [(*line, KEEP) if line[0] == "run" and KEEP not in line else line for line in made]
    lines = [_line(arguments) for arguments in made]
    lines += _explaining(_folder(view, made), explained)
    found += [Code("\n".join(lines), "sh")] if lines else []
    if explained:
        found.append(Md(f"What the models look at is seen by `vitbench explain` in the weights that `{KEEP}` keeps."))
    found += _images(view)
    for origin, environment in view.origins.environments.items():
        on = f"{view.origins.letter(origin)}: " if view.origins.several else ""
        rest = f"Python {escape(environment.python)}; {escape(environment.platform)}"
        if not view.origins.several:  # Setup has a table of them
            rest = f"{setup.software(environment)}; {rest}; {setup.commits(view, origin)}"
        found.append(Md(f"{on}{rest}."))
    return found


def _line(arguments: Sequence[str]) -> str:
    return " ".join(shlex.join(["vitbench", *arguments]).split())


def _folder(view: View, made: Sequence[Sequence[str]]) -> str:
    """Where the study lies that the commands make, as they see it."""
    for arguments in made:
        if "--results" in arguments:
            return arguments[arguments.index("--results") + 1]
    return f"{RESULTS}/{view.study.info.suite.name}"


def _explained(view: View) -> list[str]:
    """Ids of the planned trials of which the study keeps an explanation, in the plan's order."""
    kept = {file.stem for file in (view.study.path / EXPLANATIONS).glob(f"*{SUFFIX}")}
    return [trial_id for trial_id in view.train["trial_id"].tolist() if trial_id in kept] if kept else []


def _explaining(study: str, trials: Sequence[str]) -> list[str]:
    """The lines that make explanations of some trials."""
    if len(trials) > MOST_EXPLAINED:
        return [f'for file in {shlex.quote(study)}/weights/*{SUFFIX}; do vitbench explain "$file"; done']
    return [_line(("explain", f"{study}/weights/{trial_id}{SUFFIX}")) for trial_id in trials]


def _images(view: View) -> list[Md]:
    """What the images are, how a reader comes by them, and how he knows that they are the same."""
    trained = [p.trial for p in view.planned if isinstance(p.trial, TrainTrial | TuneTrial)]
    found = [_source(view, data) for data in {(t.data.name, t.data.path): t.data for t in trained}.values()]
    checksums = sorted(view.train["data_checksum"].dropna().unique())
    if checksums:
        found.append(Md(f"SHA-256 of the data's pixels and labels: {listed(checksums, MAX_NAMED)}."))
    return found


def _source(view: View, data: DataSpec) -> Md:
    """Of one source, what there is of it, and where it comes from."""
    name, there = view.study.info.data_name, _there(view, data)
    if data.name == "synthetic":
        return Md(f"The images{there} are made from a seed by vitbench itself: there is nothing to fetch.")
    if data.name != "image_folder":
        return Md(f"The images{there} are those of {escape(data.name)}; `--set data.download=true` fetches them where "
                  "they are missing.")  # fmt: skip
    return Md(f"The images of {escape(name)}{there} lie in class folders, `train/<class>/…` and `test/<class>/…`, and "
              "`data.path` says where. Any such folder can be given in its place. Its identity, see Setup, is a "
              "hash of the names and sizes of its files: trials have the same ids where that is the same, and the same "
              "images where the SHA-256 is.")  # fmt: skip


def _there(view: View, data: DataSpec) -> str:
    """How many images there are, of how many classes and of what size, in words."""
    sizes = view.train[["train_images", "validation_images", "test_images"]].dropna().drop_duplicates()
    if len(sizes) != 1:
        return ""
    ((train, validation, test),) = sizes.itertuples(index=False)
    held_out = f", {count(validation)} of them held out for validation," if validation else ""
    said = [f"{count(train + validation)} for training{held_out} and {count(test)} for test"]
    if classes := len(view.study.info.class_names):
        said.append(f"of {plural(classes, 'class', 'classes')}")
    pixels = {pair(p.trial.model.image_size) for p in view.planned if isinstance(p.trial, TrainTrial)}
    if len(pixels) == 1:
        size = " × ".join(map(str, pixels.pop()))
        said.append(f"{'resized to ' if data.resize else ''}{size} pixels")
    return f" ({', '.join(said)})"
