"""What limits a study's conclusions, in sentences."""

from __future__ import annotations

import math

from vitbench.analysis.results import MOVING
from vitbench.environment import Environment
from vitbench.report.accuracy import MEAN, SURVIVORS
from vitbench.report.circumstances import caveats_of_speed, changes, fairness
from vitbench.report.markdown import Md, escape, listed
from vitbench.report.numbers import count, fixed, plural
from vitbench.report.origins import with_changes
from vitbench.report.view import View

DIFFERING = {
    "cpu": "processor", "cpu_cores": "number of cores", "device_name": "device", "packages": "versions of packages",
    "threads": "CPU threads", "vitbench": "version of vitbench",
}  # fmt: skip
"""Fields of Environment as a reader says them."""


def caveats(view: View) -> list[Md]:
    """What limits the conclusions, one sentence each."""
    return [
        *changes.caveats(view), *_about_seeds(view), *_about_chance(view), *_about_implementations(view),
        *caveats_of_speed.caveats(view), *_about_origins(view), *_about_data(view),
        *fairness.caveats(view),
    ]  # fmt: skip


def _about_seeds(view: View) -> list[Md]:
    planned = view.train.groupby(["device", "cell"], sort=False).size()
    if planned.empty:
        return []
    counted = view.by_cell["n"] if len(view.by_cell) else planned
    smallest, largest = int(counted.min()), int(counted.max())
    said = []
    if smallest == 1:
        which = "" if largest == 1 else " for some cells"
        said.append(Md(f"**n = 1, no inference**{which}: one seed tells nothing of the spread between runs, so that "
                       "no difference between two cells is shown to be more than chance."))  # fmt: skip
    if largest > 1:
        span = f"{largest}" if smallest == largest else f"{smallest} to {largest}"
        about = "± is the sample standard deviation over seeds, not the interval of their mean, which stands beside it."
        said.append(Md(f"n = {span} seeds: {about}"))
        said.append(Md("Intervals and p-values are over seeds, for one set of training images and the same test "
                       "images: other test images could move a difference between two cells, too, and no verdict "
                       "includes that."))  # fmt: skip
    if (broken := _survivors(view)) > 0:
        noun = "The mean of 1 cell is" if broken == 1 else f"The means of {broken} cells are"
        said.append(Md(f"{noun} over survivors: some of the seeds have no result. Marked {SURVIVORS}."))
    if readings := int(view.results.tables["attempts"]["test_readings"].sum()):  # also of those that no longer stand
        runs = int((view.train["state"] == "ok").sum())
        said.append(Md(f"The test images were read {plural(readings, 'time')} for {plural(runs, 'finished run')}; "
                       "sorting cells by test accuracy is itself a selection, and flatters the first."))  # fmt: skip
    return said


def _about_chance(view: View) -> list[Md]:
    """Cells that no more than guess, so that nothing that they share or lack can be told from another by accuracy."""
    of_means = [each for device in view.train_devices for each in view.intervals(device).items()]
    found = list(dict.fromkeys(cell for (cell, _), each in of_means if view.is_at_chance(cell, each)))
    if not found:
        return []
    whose = "its" if len(found) == 1 else "their"
    return [Md(f"**At chance**: {listed(found, 12)}. The 95 % interval of {whose} mean test accuracy reaches down to "
               "that of a guess: nothing is known to be learned there, and that two such cells are alike says nothing "
               "of what they differ in.")]  # fmt: skip


def _about_implementations(view: View) -> list[Md]:
    """Seeds of one implementation that stand for others, and implementations that disagree."""
    said = [
        Md(f"**Implementations that disagree**: {listed(each.cells, 12)} ought to compute one function, and differ "
           f"with the first seed by more than rounding explains ({escape(each.reason)}). One of them is incorrect, or "
           "rounding grows fast in this recipe: each is trained with every seed, and a mean over them may be one of "
           "several functions.")
        for each in view.study.info.split
    ]  # fmt: skip
    if view.stood_for:
        cells, verb = plural(len(view.stood_for), "cell"), "is" if len(view.stood_for) == 1 else "are"
        said.append(Md(f"Each function is trained once a seed: {cells} {verb} trained with the first alone, in "
                       "agreement with an equivalent one, whose further seeds stand for the function."))  # fmt: skip
    return said


def _survivors(view: View) -> int:
    states = view.train.groupby(["device", "cell"], sort=False)["state"]
    return int(sum(0 < (s == "ok").sum() < len(s) for _, s in states))


def _about_origins(view: View) -> list[Md]:
    said = []
    if view.origins.several:
        ok = view.trials[view.trials["state"] == "ok"]
        other = int((ok["origin"] != next(iter(view.origins.environments))).sum())
        differs = ", ".join(_differing(list(view.origins.environments.values())))
        said.append(Md(f"{plural(other, 'result')} came about under other conditions than A "
                       f"(different: {differs}): in columns apart, never averaged with it."))  # fmt: skip
    codes = {origin: environment.code for origin, environment in view.origins.environments.items()}
    if len(set(codes.values())) > 1:
        made = view.trials.dropna(subset=["origin", "started_at"])
        latest = codes[made.sort_values("started_at", kind="stable")["origin"].iloc[-1]]
        other = int((made["origin"].map(codes) != latest).sum())
        verb = "is" if other == 1 else "are"
        said.append(Md(f"{plural(other, 'result')} {verb} of other code than the latest; `vitbench run … "
                       "--rerun-changed` runs such trials again."))  # fmt: skip
    for component, digests in view.results.plugins(view.trials["trial_id"].tolist()).items():
        latest = list(digests.values())[-1]
        if other := sum(digest != latest for digest in digests.values()):
            verb = "is" if other == 1 else "are"
            said.append(Md(f"**{plural(other, 'result')} {verb} of other code than the latest**: {escape(component)} "
                           "comes from a plug-in that has been edited. They stand in the same means; `vitbench run … "
                           "--rerun-changed` runs such trials again."))  # fmt: skip
    dirty = int(with_changes(view.trials).sum())
    if dirty:
        said.append(Md(f"{plural(dirty, 'result')} came from a working tree with changes that no commit holds."))
    return said


def _differing(environments: list[Environment]) -> list[str]:
    """In what the conditions of some results differ, as far as it keeps them apart."""
    names = [name for name in Environment.model_fields if name not in MOVING]
    return [
        DIFFERING.get(n, n) for n in names if any(getattr(e, n) != getattr(environments[0], n) for e in environments)
    ]


def _about_data(view: View) -> list[Md]:
    if view.train.empty:
        return []  # of images that nothing is trained on nothing depends
    said, name = [], view.study.info.data_name.lower().replace("-", "")
    if view.study.info.fallback is not None:
        said.append(Md("The data are a fallback: accuracies say nothing about the data that the suite names."))
    elif name.startswith("cifar10"):
        share, which = ("10 %", "CIFAR-100") if name.startswith("cifar100") else ("3.3 %", "CIFAR-10")
        said.append(Md(f"{share} of the test images of {which} have near-duplicates among its train images "
                       "(ciFAIR, Barz and Denzler 2020), which favours memorising."))  # fmt: skip
    found = view.by_cell[[MEAN, "test_images"]].dropna()
    found = found[found["test_images"] > 0]
    errors = [100 * math.sqrt(mean / 100 * (1 - mean / 100) / n) for mean, n in found.itertuples(index=False)]
    if errors:
        of_each = {f"{count(images)} test images" for images in found["test_images"]}
        which = next(iter(of_each)) if len(of_each) == 1 else "as many test images as each had"
        upto = "up to " if len(errors) > 1 else ""
        said.append(Md(f"With {which} one run's accuracy has a sampling error of {upto}±{fixed(max(errors), 1)} points "
                       "(one standard error, √(p(1 − p)/n))."))  # noqa: RUF001  # fmt: skip
    return said
