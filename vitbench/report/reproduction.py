"""Reproduction: the command that makes a study, with what it was made before.

A study's file holds the command lines that planned it. One that is older than that holds what its plan was made of, and
the command is put together from there.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from vitbench.report import account
from vitbench.report.markdown import Md, escape, fenced, listed
from vitbench.report.view import View
from vitbench.spec.recipe import SEEDS_OF_A_MASTER
from vitbench.spec.trial import TrainTrial, TuneTrial

SUITES = "ablations"
"""Folder of this repository's suites, where a study does not say where its own lay."""
MAX_NAMED = 8


def blocks(view: View) -> list[Md]:
    """How to run the study again: the suite, the command, the versions, the commit."""
    info = view.study.info
    made = info.commands or reconstructed(view)
    several = len(made) > 1
    if info.commands:
        what = "These commands, in their order, made the study" if several else "This command made the study"
        said = f"{what}; run again on the same folder, {'they continue' if several else 'it continues'} it."
    else:
        which = "the commands are, one for each device" if several else "the command is"
        said = f"The study is older than the recording of command lines; put together from its plan, {which}:"
    lines = [" ".join(shlex.join(["vitbench", *arguments]).split()) for arguments in made]
    found = [Md(f"Suite: {escape(info.suite.name)}, in the file {escape(info.suite_file)}. {said}"),
             fenced("\n".join(lines), "sh")]  # fmt: skip
    for origin, environment in view.origins.environments.items():
        on = f"{view.origins.letter(origin)}: " if view.origins.several else ""
        found.append(Md(f"{on}{account.software(environment)}; Python {escape(environment.python)}; "
                        f"{escape(environment.platform)}; {account.commits(view, origin)}."))  # fmt: skip
    checksums = sorted(view.train["data_checksum"].dropna().unique())
    if checksums:
        found.append(Md(f"SHA-256 of the data's pixels and labels: {listed(checksums, MAX_NAMED)}."))
    return found


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
    of_cells = {tuple(rows) for _, rows in view.train.groupby(["device", "cell"], sort=False)["seed"]}
    if len(of_cells) == 1:
        seeds = [int(seed) for seed in next(iter(of_cells))]
        first = SEEDS_OF_A_MASTER * view.study.info.suite.seed
        counted = seeds == list(range(first, first + len(seeds)))
        yield f"train.seeds={len(seeds) if counted else seeds}"
