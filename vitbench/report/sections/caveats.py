"""Caveats: what limits a study's conclusions: a name, a condition and a sentence for each."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

import pandas as pd

from vitbench.analysis.grouped import NoiseFloor
from vitbench.analysis.results import MOVING
from vitbench.analysis.same_batches import unlike_batches
from vitbench.config.dead_fields import dead
from vitbench.config.recipe import TrainSpec
from vitbench.config.suite import as_text
from vitbench.environment import Environment
from vitbench.report.document import Block, Bullets
from vitbench.report.groups import with_changes
from vitbench.report.sections import changes
from vitbench.report.sections.changes import Facts
from vitbench.report.sections.setup import who_has
from vitbench.report.text import Md, count, enumerated, escape, fixed, listed, significant, span
from vitbench.report.view import MEAN, View
from vitbench.wording import plural

Subject = TypeVar("Subject")


class Caveat(NamedTuple, Generic[Subject]):
    """A limit of a conclusion: when it applies, and the sentence that states it."""

    name: str  # that it keeps, whatever its words
    when: Callable[[Subject], object]  # whether it applies: its facts, or some for each time; or a number, or truth
    text: str  # the sentence, with a field for each fact
    short: str = ""  # what the first screen calls it; empty where it does not change the conclusion

    def facts(self, subject: Subject) -> Facts:
        """Values for the fields of the sentence, one mapping for each time that it is stated."""
        facts = self.when(subject)
        if isinstance(facts, Iterable):
            return [facts] if isinstance(facts, Mapping) else facts
        return [{"number": facts}] if facts else []


def stated(view: View) -> Iterator[tuple[str, Md]]:
    """The name and the sentence of each caveat that applies, the gravest kinds first."""
    return in_words(CAVEATS, view)


def in_words(caveats: Sequence[Caveat[Subject]], subject: Subject) -> Iterator[tuple[str, Md]]:
    """The name and the sentence of each of some caveats that applies to a study or a comparison, in their order."""
    for caveat in caveats:
        for facts in caveat.facts(subject):
            yield caveat.name, Md(caveat.text.format_map(facts))


def grave(view: View) -> Iterator[tuple[str, str]]:
    """The short form, for the first screen, and the name of each caveat that changes the conclusion."""
    for caveat in CAVEATS:
        for facts in [*caveat.facts(view)][:1] if caveat.short else []:
            yield caveat.short.format_map(facts), caveat.name


def notes(view: View) -> list[Md]:
    """Notes before any number: other data than asked for, and the notices of the records."""
    fallback = view.study.info.fallback
    lines = [] if fallback is None else [Md(f"**Not the data that the suite names.** {escape(fallback)}")]
    count_of = view.results.notices(view.trials["trial_id"].tolist())
    count_of.pop(fallback or "", None)
    for notice, number in list(count_of.items())[:MAX_NOTICES]:
        lines.append(Md(f"**Notice** in {plural(number, 'record')}: {escape(notice)}"))
    if (more := len(count_of) - MAX_NOTICES) > 0:
        lines.append(Md(f"**{plural(more, 'more notice')}**: see tables/trials.csv."))
    return lines


def section(view: View, _: object) -> list[Block]:
    """All caveats, in full."""
    sentences = [sentence for _, sentence in stated(view)]
    return [Bullets(sentences)] if sentences else []


MAX_NAMED, FEW_NAMED, MAX_NOTICES = 12, 3, 8
DIFFERING = {
    "cpu": "processor", "cpu_cores": "number of cores", "device_name": "device", "packages": "versions of packages",
    "threads": "CPU threads", "vitbench": "version of vitbench",
}  # fmt: skip
"""Fields of Environment as a reader says them."""
NUISANCES = ("learning_rate", "weight_decay", "warmup_epochs", "schedule", "optimizer", "batch_size", "epochs")
"""Fields of the recipe on whose tuning a comparison may hang."""
UNEQUAL = 1.1  # Largest over smallest budget, in operations, from which cells count as differently paid


def _names(names: Iterable[str]) -> Facts:
    if distinct := list(dict.fromkeys(names)):
        yield {"names": listed(distinct, MAX_NAMED)}


def _noise(floor: NoiseFloor) -> Mapping[str, object]:
    runs = f"{plural(floor.runs, 'run')} in {plural(floor.groups, 'group')}"
    return {"runs": runs, "points": fixed(floor.largest, 2), "std": fixed(floor.std, 2)}


def _seeds(view: View) -> tuple[int, int]:
    """Fewest and most seeds of a cell, of those that have a result where any has; 0 where nothing is trained."""
    planned = view.train.groupby(["device", "cell"], sort=False).size()
    counted = view.by_cell["n"] if len(view.by_cell) else planned
    return (0, 0) if planned.empty else (int(counted.min()), int(counted.max()))


def _several_seeds(view: View) -> Facts:
    if (seeds := _seeds(view))[1] > 1:
        yield {"seeds": span(seeds)}


def _readings(view: View) -> Facts:
    readings = int(view.results.tables["attempts"]["test_readings"].sum())  # also of those that no longer stand
    if readings and _seeds(view)[1]:
        runs = int((view.train["state"] == "ok").sum())
        yield {"times": plural(readings, "time"), "runs": plural(runs, "finished run")}


def _shared_machine(view: View) -> Facts:
    for device in view.train_devices:
        contention = view.contention[device]
        if contention.alone:
            continue
        parts = []
        if contention.shared:
            most = f" (up to {contention.at_once} at once)" if contention.at_once > 2 else ""
            share = math.floor(100 * contention.share)  # 99.6 % is not all
            parts.append(f"another run of the study was at work for {share} % of their time{most}")
        if contention.loaded:
            load, cores = fixed(contention.load, 1), plural(contention.cores, "core")
            parts.append(f"load average of up to {load} on {cores} at their start")
        yield {"on": f" on {escape(device)}" if len(view.train_devices) > 1 else "", "how": "; ".join(parts)}


def _environments(view: View) -> Facts:
    if view.environments.several:
        (key, first), *others = view.environments.fingerprints.items()
        names = [n for n in Environment.model_fields if n not in MOVING or n == "threads"]
        differing = [DIFFERING.get(n, n) for n in names if any(getattr(e, n) != getattr(first, n) for _, e in others)]
        other = (view.trials["state"] == "ok") & (view.trials["environment"] != key)
        yield {"number": int(other.sum()), "what": ", ".join(differing)}


def _other_code(view: View) -> Facts:
    codes = {key: environment.code for key, environment in view.environments.fingerprints.items()}
    if len(set(codes.values())) > 1:
        made = view.trials[["environment", "started_at"]].dropna()
        latest = codes[made.sort_values("started_at", kind="stable")["environment"].iloc[-1]]
        yield {"number": int((made["environment"].map(codes) != latest).sum())}


def _plugins(view: View) -> Facts:
    for component, digests in view.results.plugins(view.trials["trial_id"].tolist()).items():
        latest = list(digests.values())[-1]
        if other := sum(digest != latest for digest in digests.values()):
            yield {"number": other, "component": escape(component)}


def _near_duplicates(view: View) -> Facts:
    name = view.study.info.data_name.lower().replace("-", "")
    if len(view.train) and view.study.info.fallback is None and name.startswith("cifar10"):
        hundred = name.startswith("cifar100")
        yield {"share": "10 %" if hundred else "3.3 %", "data": "CIFAR-100" if hundred else "CIFAR-10"}


def _sampling(view: View) -> Facts:
    rows = view.by_cell[[MEAN, "test_images"]].dropna()
    rows = rows[rows["test_images"] > 0]
    errors = [100 * math.sqrt(mean / 100 * (1 - mean / 100) / n) for mean, n in rows.itertuples(index=False)]
    if errors and len(view.train):
        images = {f"{count(images)} test images" for images in rows["test_images"]}
        yield {
            "images": next(iter(images)) if len(images) == 1 else "as many test images as each had",
            "upto": "up to " if len(errors) > 1 else "", "error": fixed(max(errors), 1),
        }  # fmt: skip


def _other_batches(view: View) -> Facts:
    seeds = unlike_batches(view.train, view.planned)
    for seed, cells, most in seeds[:FEW_NAMED]:
        yield {"seed": f"seed {seed}", "what": f"{listed(cells, FEW_NAMED)} saw other batches than {escape(most)}"}
    if (more := len(seeds) - FEW_NAMED) > 0:
        yield {"seed": plural(more, "more seed"), "what": "cells saw different batches"}


def _other_images(view: View) -> Facts:
    """Cells whose runs were trained on images that are not the same, though their names and sizes are."""
    checksums = view.train.groupby("cell", sort=False)["data_checksum"].nunique()
    return _names(checksums.index[checksums > 1])


def _settings(view: View, *, alike: bool) -> Facts:
    """Fields of the recipe that matter and were not tuned: the value that all runs have, or which cells have which.

    Cells of different tasks are not compared: a field that differs between tasks alone is in neither list.
    """
    trained = [trial.train for trial in view.trained.values()]
    left = [name for name in NUISANCES if f"train.{name}" not in view.study.info.tuned and not dead(name, trained)]
    tasks = dict[str, list[TrainSpec]]()
    for cell, trial in view.trained.items():
        tasks.setdefault(view.task(cell), []).append(trial.train)
    if alike:
        values = {name: {getattr(recipe, name) for recipe in trained} for name in left}
        texts = {name: escape(as_text(of.pop())) for name, of in values.items() if len(of) == 1}
    else:
        texts = {name: who_has(view, name) or Md("") for name in left
                 if any(len({getattr(recipe, name) for recipe in of}) > 1 for of in tasks.values())}  # fmt: skip
    if parts := [f"{name.replace('_', ' ')} {text}" for name, text in texts.items() if text]:
        yield {"settings": (", " if alike else "; ").join(parts)}


def _at_the_end(view: View) -> Facts:
    """Tuned numbers of which some cell has the smallest or the largest that was tried; below 0 there is nothing."""
    for field, values in view.study.info.tuned.items():
        numbers = [value for value in values if type(value) in (int, float)]
        ends = {min(values), max(values)} - {0} if 1 < len(values) == len(numbers) else set()
        if cells := {p.cell for p in view.planned if p.trial.kind == "train" and p.setting.get(field) in ends}:
            yield {"field": field, "cells": listed([cell for cell in view.cells if cell in cells], FEW_NAMED)}


def _budgets(view: View) -> Facts:
    """Budgets that differ between cells that are compared, in the operations of a run."""
    budgets = view.by_cell[["cell", "train_flops", "steps"]].dropna()
    budgets = budgets[budgets["train_flops"] > 0]
    tasks = dict(iter(budgets.groupby(budgets["cell"].map(view.task), sort=False)))
    widest = max(tasks, key=lambda name: _apart(tasks[name]["train_flops"]), default="")
    if widest not in tasks or _apart(tasks[widest]["train_flops"]) < UNEQUAL:
        return
    rows = tasks[widest]
    axes = [escape(axis) for axis in _deciding(view, rows)]
    yield {
        "by": enumerated(axes) or "cell",
        "flops": span(rows["train_flops"] / 1e12, significant),
        "where": f' (in the task "{escape(widest)}", where they differ most)' if widest else "",
        "steps": span(rows["steps"]),
    }


def _apart(flops: "pd.Series[float]") -> float:
    return float(flops.max() / flops.min())


def _deciding(view: View, rows: pd.DataFrame) -> list[str]:
    """The axes between whose values some cells' operations differ on average."""
    values = {
        axis: rows["cell"].map({cell: view.values_of[cell][axis] for cell in rows["cell"]})
        for axis in (view.axes if view.factorial else ())
    }
    return [axis for axis, of in values.items() if _apart(rows.groupby(of)["train_flops"].mean()) >= UNEQUAL]


CAVEATS: tuple[Caveat[View], ...] = (
    Caveat("history-missing", changes.missing,
           "**The study's history is missing**: whether the suite was changed after results were seen, or finished "
           "runs were removed, is unknown.",
           short="the study's history is missing"),
    Caveat("history-unreadable", changes.unreadable,
           "**{entries} of the study's history cannot be read** (number {which}): missing, damaged or edited. What "
           "changed then is unknown.",
           short="the study's history cannot be read"),
    Caveat("history-begins-late", changes.late,
           "The study's history begins after {runs}: what changed before is unknown.",
           short="the history begins after results"),
    Caveat("changed-after-results", changes.changed, "**Changed after results were seen** ({when}): {what}.",
           short="changed after results were seen"),
    Caveat("seeds-changed", changes.seeds,
           "**Seeds changed after results were seen** ({when}): {what}. The p-values do not account for that.",
           short="seeds changed after results were seen"),
    Caveat("plan-edited", changes.edited, "**study.json was edited by hand**: its history does not have {what}.",
           short="plan edited by hand"),
    Caveat("removed-runs", lambda view: changes.gone(view, again=False),
           "**Finished runs are gone** ({number}): {which}. No number here includes them.",
           short="finished runs are gone"),
    Caveat("repeated-runs", lambda view: changes.gone(view, again=True),
           "**Finished runs were removed and run again** ({number}): {which}. Numbers here are of the later runs.",
           short="finished runs were removed and repeated"),
    Caveat("unlisted-results", changes.unlisted,
           "Results missing from the list of finished runs: {number}. They were brought from elsewhere, stored by a "
           "driver that was killed at that moment, or the list was cut. The next `vitbench run` adds them."),
    Caveat("one-seed",
           lambda view: (seeds := _seeds(view))[0] == 1 and {"which": "" if seeds[1] == 1 else " for some cells"},
           "**n = 1, no inference**{which}: one seed says nothing about the spread between runs, so no difference is "
           "shown to be more than chance.",
           short="one seed, no inference"),
    Caveat("standard-deviation", _several_seeds,
           "n = {seeds} seeds. ± is the sample standard deviation over seeds, not the interval of their mean."),
    Caveat("one-test-set", _several_seeds,
           "Intervals and p-values are over seeds, for one set of training and test images. Verdicts do not include "
           "how other images would move a difference."),
    Caveat("mean-over-survivors",
           lambda view: sum(0 < (s == "ok").sum() < len(s) for _, s in view.train.groupby(["device", "cell"])["state"]),
           "Cells of which some seeds have no result: {number}. Their means are over the others (marked †)."),
    Caveat("test-images-read", _readings,
           "The test images were read {times} for {runs}. Sorting cells by test accuracy is a selection and flatters "
           "the first."),
    Caveat("at-chance",
           lambda view: _names(view.by_cell.loc[view.by_cell["at_chance"].astype(bool), "cell"]),
           "**At chance**: {names}. Neither seeds nor test images tell the mean accuracy from a guess. Nothing is "
           "known to be learned there, so that two such cells are alike shows nothing."),
    Caveat("disagreeing-implementations",
           lambda view: ({"cells": listed(each.cells, MAX_NAMED), "why": escape(each.reason)}
                         for each in view.study.info.split),
           "**Implementations that disagree**: {cells} should compute one function, but differ with the first seed by "
           "more than rounding explains ({why}). One is incorrect, or rounding grows fast in this recipe. Each is "
           "trained with every seed, and a mean over them may mix functions.",
           short="equivalent implementations disagree"),
    Caveat("seeds-of-equivalents", lambda view: len(view.stood_for),
           "Each function is trained once a seed: {number} of the cells were trained with the first seed alone, and "
           "agree with an equivalent one, whose further seeds stand for the function."),
    Caveat("unstable-timings",
           lambda view: (n := (view.measured["unstable"] != "").sum()) and {"marked": n, "timings": len(view.measured)},
           "**Unstable timings: {marked} of {timings}** (marked ~; reasons below their tables). A timing whose "
           "interval is wide can still be shown to be faster or slower, but not by how much. One that is unstable for "
           "another reason has no verdict.",
           short="unstable timings: {marked} of {timings}"),
    Caveat("one-process", lambda view: (view.processes.groupby("trial_id").size() == 1).sum(),
           "Timings from a single process: {number}. How another process would differ is unknown and in no interval."),
    Caveat("uncorrected-intervals", lambda view: view.measured["speed_low"].notna().any(),
           "Intervals of ratios of timings are not corrected: 1 in 20 excludes 1 by chance. Verdicts on speed are "
           "corrected for the number of comparisons (Holm)."),
    Caveat("no-interval-of-ratios",
           lambda view: len(view.measured) > 1 and view.measured["speed"].notna().any()
           and not view.measured["speed_low"].notna().any(),
           "Timings were made side by side, with too few samples for an interval of their ratios."),
    Caveat("load-while-timing",
           lambda view: view.load_while_timing and {"load": view.load_while_timing},
           "The load average reached {load[0]:.1f} on {load[1]} cores while timing: other work may have slowed some "
           "processes, and some implementations more than others."),
    Caveat("shared-machine", _shared_machine,
           "**Training runs{on} shared the machine** ({how}): ignore their absolute speed, of which none "
           "is marked as the best."),
    Caveat("several-environments", _environments,
           "Results from other environments than A: {number} (different: {what}). They are shown apart and never "
           "averaged with it.",
           short="results from several environments"),
    Caveat("other-code", _other_code,
           "Results of other code than the latest: {number}. `vitbench run … --rerun-changed` runs such trials again."),
    Caveat("edited-plug-in", _plugins,
           "**Results of a plug-in that was edited since: {number}** ({component}). Means mix old and new code; "
           "`vitbench run … --rerun-changed` runs such trials again.",
           short="a plug-in was edited between runs"),
    Caveat("uncommitted-changes", lambda view: with_changes(view.trials).sum(),
           "Results from a working tree with uncommitted changes: {number}."),
    Caveat("fallback-data", lambda view: len(view.train) and view.study.info.fallback is not None,
           "The data are a fallback: accuracies say nothing about the data that the suite names."),
    Caveat("near-duplicate-test-images", _near_duplicates,
           "{share} of the test images of {data} have near-duplicates among its training images (ciFAIR, Barz and "
           "Denzler 2020), which favours memorising."),
    Caveat("sampling-error", _sampling,
           "With {images} the accuracy of one run has a sampling error of {upto}±{error} points (one standard error, "
           "√(p(1 − p)/n))."),  # noqa: RUF001
    Caveat("changed-images", _other_images,
           "**The images changed between runs** of {names}: their SHA-256 differs. Their means mix what was learned "
           "from different images.",
           short="the images changed between runs"),
    Caveat("other-batches", _other_batches,
           "**Other batches**: with {seed}, {what}, though data, seed and recipe are the same. A difference between "
           "them may come from that.",
           short="cells saw different batches"),
    Caveat("tuned-settings", lambda view: _names(view.study.info.tuned),
           "Tuned for each cell on validation, with as many runs for each: {names}."),
    Caveat("tuned-to-the-end", _at_the_end,
           "**{field} is tuned to the end of its range** for {cells}: a value beyond may be better.",
           short="tuned to the end of a range"),
    Caveat("untuned-settings", lambda view: _settings(view, alike=True),
           "Fixed for all cells and not tuned for each, which may favour some: {settings}."),
    Caveat("settings-by-cell", lambda view: _settings(view, alike=False),
           "**Set differently for some cells**, and not tuned: {settings}. A difference between these cells may come "
           "from that.",
           short="training settings differ by cell"),
    Caveat("unequal-budgets", _budgets,
           "**Budgets differ by {by}**: {flops} TFLOP a run{where}, all stages of the run included, and {steps} steps "
           "with labels. What a cell would reach with the budget of another is unknown.",
           short="budgets differ by {by}"),
    Caveat("noise-floor", lambda view: view.noise and view.noise.largest and _noise(view.noise),
           "**Noise floor**: equivalent implementations, from the same weights and seed, differ by up to {points} "
           "points of accuracy (standard deviation {std} points; {runs}). Smaller effects are marked."),
    Caveat("no-noise-seen", lambda view: view.noise and not view.noise.largest and _noise(view.noise),
           "**Noise floor**: equivalent implementations agree in test accuracy to the last digit ({runs}). The spread "
           "between seeds is another matter."),
)  # fmt: skip
"""Every caveat, in the order in which they are stated."""
