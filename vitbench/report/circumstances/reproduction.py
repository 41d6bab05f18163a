"""Reproduction: the commands that make a study and its pictures, on which images, with what it was made before.

A study's file holds the command lines that planned it. One that is older than that holds what its plan was made of, and
the command is put together from there.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from vitbench.report.circumstances import account
from vitbench.report.markdown import Md, escape, fenced, listed
from vitbench.report.numbers import count, plural
from vitbench.report.view import View
from vitbench.spec.base import pair
from vitbench.spec.recipe import SEEDS_OF_A_MASTER, DataSpec
from vitbench.spec.trial import TrainTrial, TuneTrial
from vitbench.store.portrait import FOLDER as PORTRAITS
from vitbench.store.portrait import SUFFIX

SUITES, RESULTS = "ablations", "results"
"""Folders of this repository's suites, and of studies, where a study does not say where its own lay."""
KEEP = "--keep-weights"
MAX_NAMED = 8
MOST_EXPLAINED = 8
"""Files of weights that are named one by one."""


def blocks(view: View) -> list[Md]:
    """How to run the study again: the suite, the commands, the images, the versions, the commit."""
    info = view.study.info
    made = [_with_all(view, line) for line in info.commands or reconstructed(view)]
    several = len(made) > 1
    if info.commands:
        what = "These commands, in their order, made the study" if several else "This command made the study"
        said = f"{what}; run again on the same folder, {'they continue' if several else 'it continues'} it."
    else:
        which = "the commands are, one for each device" if several else "the command is"
        said = f"The study is older than the recording of command lines; put together from its plan, {which}:"
    found = [Md(f"Suite: {escape(info.suite.name)}, in the file {escape(info.suite_file)}. {said}")]
    explained = _explained(view)
    if explained:
        made = [(*line, KEEP) if line[0] == "run" and KEEP not in line else line for line in made]
    lines = [_line(arguments) for arguments in made]
    found.append(fenced("\n".join([*lines, *_explaining(_folder(view, made), explained)]), "sh"))
    if explained:
        found.append(Md(f"What the models look at is seen by `vitbench explain` in the weights that `{KEEP}` keeps."))
    found += _images(view)
    for origin, environment in view.origins.environments.items():
        on = f"{view.origins.letter(origin)}: " if view.origins.several else ""
        rest = f"Python {escape(environment.python)}; {escape(environment.platform)}"
        if not view.origins.several:  # What ran has a table of them
            rest = f"{account.software(environment)}; {rest}; {account.commits(view, origin)}"
        found.append(Md(f"{on}{rest}."))
    return found


def _with_all(view: View, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """A command older than ``train.implementations``, so that it plans what it planned then."""
    seeds_of_functions = view.train.groupby("twin")["seed"].nunique()
    repeated = view.train.groupby("twin")["cell"].nunique()[seeds_of_functions > 1]
    if view.study.info.implementations is not None or arguments[0] != "run" or not (repeated > 1).any():
        return arguments
    return (*arguments[:2], "--set", "train.implementations=all", *arguments[2:])


def _line(arguments: Sequence[str]) -> str:
    return " ".join(shlex.join(["vitbench", *arguments]).split())


def _folder(view: View, made: Sequence[Sequence[str]]) -> str:
    """Where the study lies that the commands make, as they see it."""
    for arguments in made:
        if "--results" in arguments:
            return arguments[arguments.index("--results") + 1]
    return f"{RESULTS}/{view.study.info.suite.name}"


def _explained(view: View) -> list[str]:
    """Ids of the planned trials of which the study keeps a portrait, in the plan's order."""
    kept = {file.stem for file in (view.study.path / PORTRAITS).glob(f"*{SUFFIX}")}
    return [trial_id for trial_id in view.train["trial_id"].tolist() if trial_id in kept] if kept else []


def _explaining(study: str, trials: Sequence[str]) -> list[str]:
    """The lines that make portraits of some trials."""
    if len(trials) > MOST_EXPLAINED:
        return [f'for file in {shlex.quote(study)}/weights/*{SUFFIX}; do vitbench explain "$file"; done']
    return [_line(("explain", f"{study}/weights/{trial_id}{SUFFIX}")) for trial_id in trials]


def reconstructed(view: View) -> list[tuple[str, ...]]:
    """Arguments of the commands that plan a study's trials, by its plan: one for each of its devices."""
    info = view.study.info
    trained = [p.trial for p in view.planned if isinstance(p.trial, TrainTrial | TuneTrial)]
    verb = "run" if trained else "time"
    sets = list(info.options)
    if not sets:  # such a file may be older than the recording of options, too
        sets += [part for option in _of_plan(view, trained) for part in ("--set", option)]
    devices = list(dict.fromkeys(str(device) for device in view.trials["device"]))
    return [(verb, f"{SUITES}/{info.suite_file}", *sets, "--device", device) for device in devices]


def _of_plan(view: View, trained: Sequence[TrainTrial | TuneTrial]) -> Iterable[str]:
    """What the plan holds of data and seeds, as overrides of the suite's file."""
    folders = {(trial.data.name, trial.data.path) for trial in trained}
    if len(folders) == 1:
        name, path = next(iter(folders))
        if path is not None:
            yield from (f"data.name={name}", f"data.path={path}")
    if (looks := view.study.info.looks) is not None:
        yield f"train.seeds={{at_most = {looks.at[-1]}, looks = {list(looks.at)}}}"
        return
    of_cells = {tuple(rows) for _, rows in view.train.groupby(["device", "cell"], sort=False)["seed"]}
    if len(of_cells) == 1:
        seeds = [int(seed) for seed in next(iter(of_cells))]
        first = SEEDS_OF_A_MASTER * view.study.info.suite.seed
        counted = seeds == list(range(first, first + len(seeds)))
        yield f"train.seeds={len(seeds) if counted else seeds}"


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
              "`data.path` says where. Any such folder can be given in its place. Its identity, see What ran, is a "
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
