"""Reproduction: the commands that make a study and its pictures, on which images, with what it was made before."""

import shlex
from collections.abc import Iterator, Sequence

from vitbench.config.trial import TrainTrial, TuneTrial
from vitbench.report.document import Block, Code
from vitbench.report.output import Files
from vitbench.report.text import Md, escape, listed
from vitbench.report.view import View
from vitbench.store.explanation import FOLDER as EXPLANATIONS
from vitbench.store.explanation import SUFFIX

HOW = (
    "Its plan was not made on a command line.",
    "This command made the study. On the same folder it continues the study; on another it begins anew.",
    "These commands made the study, in this order. On the same folder they continue it; on another they begin anew.",
)
"""Sentence for no command, one, and more."""
RESULTS = "results"  # Folder of studies, where a study does not say where its own lay
KEEP = "--keep-weights"
MOST_EXPLAINED = 8  # Files of weights that are named one by one


def section(view: View, _: Files) -> Iterator[Block]:
    """Blocks on running the study again: the suite, the commands, the images, the versions, the commit."""
    info = view.study.info
    names = {file.stem for file in (view.study.path / EXPLANATIONS).glob(f"*{SUFFIX}")}
    made, explained = list(info.commands), [i for i in view.train["trial_id"].tolist() if i in names]
    how = HOW[min(len(made), 2)]
    yield Md(f"Suite: {escape(info.suite.name)}, in the file {escape(info.suite_file)}. {how}")
    if explained:
        made = [(*line, KEEP) if line[0] == "run" and KEEP not in line else line for line in made]
    if lines := [*map(_line, made), *_explaining(_folder(view, made), explained)]:
        yield Code("\n".join(lines))
    yield from (*_images(view), Md("The versions of all software, and the commit, are under Setup."))


def _line(arguments: Sequence[str]) -> str:
    return " ".join(shlex.join(["vitbench", *arguments]).split())


def _folder(view: View, made: Sequence[Sequence[str]]) -> str:
    """Folder of the study that the commands make, as they see it."""
    for arguments in made:
        if "--results" in arguments:
            return arguments[arguments.index("--results") + 1]
    return f"{RESULTS}/{view.study.info.suite.name}"


def _explaining(study: str, trials: Sequence[str]) -> list[str]:
    if len(trials) > MOST_EXPLAINED:
        return [f'for file in {shlex.quote(study)}/weights/*{SUFFIX}; do vitbench explain "$file"; done']
    return [_line(("explain", f"{study}/weights/{trial_id}{SUFFIX}")) for trial_id in trials]


IMAGES = {
    "synthetic": "The images are made from a seed by vitbench itself: there is nothing to fetch.",
    "image_folder": "The images of {name} are in class folders, `train/<class>/…` and `test/<class>/…`, to which "
    "`data.path` points. Trials have the same ids where the identity (see Setup: a hash of the names and sizes of the "
    "files) is the same, and the same images where the SHA-256 is.",
}
"""Source of images → where a reader has them from."""
FETCHED = "The images are those of {name}; `--set data.download=true` fetches them where they are missing."


def _images(view: View) -> list[Md]:
    """The images, how to get them, and how to verify that they are the same."""
    sources = dict.fromkeys(p.trial.data.name for p in view.planned if isinstance(p.trial, TrainTrial | TuneTrial))
    names = {source: view.study.info.data_name if source == "image_folder" else source for source in sources}
    lines = [Md(IMAGES.get(source, FETCHED).format(name=escape(name))) for source, name in names.items()]
    if checksums := sorted(view.train["data_checksum"].dropna().unique()):
        lines.append(Md(f"SHA-256 of the data's pixels and labels: {listed(checksums)}."))
    return lines
