"""Changes: what was asked otherwise once results had been seen, and finished runs that are gone, in sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from vitbench.report.markdown import Md, escape, listed
from vitbench.report.numbers import plural
from vitbench.report.view import View
from vitbench.runner.progress import describe
from vitbench.spec.base import Strict, digest, dumps
from vitbench.spec.model import ModelSpec
from vitbench.spec.recipe import DataSpec, TrainSpec
from vitbench.spec.suite import Info, as_text
from vitbench.store.asked import CELLS, CLAIM, GOAL, SEEDS, asked, by_cell
from vitbench.store.history import Ended, Step, ended
from vitbench.store.plan import Trials

MOST = 6
"""Changes that are named before they are counted."""
MAX_NAMED = 8
MOST_CELLS = 3
MOST_LETTERS = 80

CHANGED = "**Changed after results had been seen**"
DEFAULTS: Mapping[str, type[Strict]] = {"suite": Info, "model": ModelSpec, "data": DataSpec, "train": TrainSpec}
SETTINGS = ("name", "question", "cost", "timeout_s", "checkpoint_s", "max_attempts", "seed", "spread")

UNTOLD = frozenset(
    {CELLS, "implementations", "data_identity", "data.identity", *(f"suite.{name}" for name in SETTINGS)}
)
"""What no conclusion hangs on. Further cells are counted by the correction for the number of comparisons."""


def caveats(view: View) -> list[Md]:
    """A sentence each."""
    return [*_unread(view), *_changed(view), *_gone(view)]


def _unread(view: View) -> list[Md]:
    """What is missing of the history itself."""
    history, known = view.study.history, view.study.info.history
    lost, steps = history.unread(known), history.steps()
    if len(lost) == known and not steps:
        return [Md("**The history of this study is missing**: it had one, and whether the suite was changed after "
                   "results had been seen, or finished runs were removed, cannot be told.")]  # fmt: skip
    said = []
    if lost:
        which = listed([str(n) for n in lost], MAX_NAMED)
        said.append(Md(f"**{plural(len(lost), 'entry', 'entries')} of this study's history cannot be read** (number "
                       f"{which}): missing, damaged or edited. What was changed then is not known."))  # fmt: skip
    if steps and (runs := steps[0].entry.finished):
        said.append(Md(f"The history of this study begins when {plural(runs, 'training run')} had finished: what was "
                       "changed before is not known."))  # fmt: skip
    return said


def _changed(view: View) -> list[Md]:
    """What was changed when results were there, and is not as it was before."""
    steps = view.study.history.steps()
    if not steps:
        return []
    unseen = [step for step in steps if not step.entry.finished]
    base, now = (unseen[-1] if unseen else steps[0]).after, asked(view.study.info)
    left = {name for name in {*base, *now} if _apart(name, base, now)} - UNTOLD
    said: list[Md] = []
    for step in steps:
        if step.entry.finished and not step.entry.begins:
            when = f"after {plural(step.entry.finished, 'run')}"
            said += [Md(f"{_bold(name)}: {words} {when}{_why(name)}.") for name, words in _words(step, left)]
    if digest(now) not in {step.entry.asked for step in steps}:
        last = Step(steps[-1].entry, steps[-1].after, now)
        words = "; ".join(words for _, words in _words(last, left)) or "in what no conclusion hangs on"
        said.append(Md(f"**study.json is not what its history says**: {words}. It was edited by hand."))
    if len(said) > MOST:
        said = [*said[:MOST], Md(f"{CHANGED}: {len(said) - MOST} more, see `history/` in the study's folder.")]
    return said


def _bold(name: str) -> str:
    return "**Seeds changed after a look**" if name == SEEDS else CHANGED


def _why(name: str) -> str:
    return ". The p-values take no account of that" if name == SEEDS else ""


def _words(step: Step, left: set[str]) -> Iterator[tuple[str, str]]:
    """(name, words) for what a step has changed of some names."""
    for name in sorted(left, key=_order):
        if _apart(name, step.before, step.after):
            words = next(words for prefix, words in WORDS if name.startswith(prefix))
            for each in words(name, step.before, step.after):
                yield name, each


def _order(name: str) -> tuple[int, str]:
    """What is judged comes before what is run."""
    return next(i for i, (prefix, _) in enumerate(WORDS) if name.startswith(prefix)), name


Asking = Mapping[str, Any]


def _apart(name: str, before: Asking, after: Asking) -> bool:
    """Whether a field differs; of one that cells have, in a cell that is there both times."""
    if before.get(name) == after.get(name):
        return False
    return bool(_of_cells(name, before, after)) if name.partition(".")[0] in ("model", "data", "train") else True


def _of_cells(name: str, before: Asking, after: Asking) -> list[tuple[Any, Any, list[str]]]:
    """(old value, new value, cells) for the cells that are there both times, or for all where none is."""
    old, new = before.get(name), after.get(name)
    cells = [cell for cell in after.get(CELLS, ()) if cell in set(before.get(CELLS, ()))]
    if not cells:
        were, are = _values(old), _values(new)
        return [] if were == are or not before.get(CELLS) or not after.get(CELLS) else [(were, are, [])]
    of_old, of_new = by_cell(old), by_cell(new)
    found: dict[str, tuple[Any, Any, list[str]]] = {}
    for cell in cells:
        pair = old if of_old is None else of_old.get(cell), new if of_new is None else of_new.get(cell)
        if pair[0] != pair[1]:
            found.setdefault(digest(pair), (*pair, []))[2].append(cell)
    return list(found.values())


def _values(value: Any) -> list[Any]:
    """The distinct values of a field, whatever cell has them."""
    of_cells = by_cell(value)
    every = [value] if of_cells is None else of_cells.values()
    return sorted({digest(each): each for each in every}.values(), key=str)


def _said(name: str, value: Any) -> Md:
    """A value as a reader writes it; a missing one is the field's default."""
    table, _, field = name.partition(".")
    if value is None and table in DEFAULTS and field in DEFAULTS[table].model_fields:
        value = DEFAULTS[table].model_fields[field].default
    if isinstance(value, list) and not any(isinstance(each, (list, dict)) for each in value):
        return Md(", ".join(_said(name, each) for each in value[:MAX_NAMED]) + (" …" if len(value) > MAX_NAMED else ""))
    if isinstance(value, (list, dict)):
        return escape(dumps(value)[:MOST_LETTERS])
    if value is None or type(value) is int:  # however large
        return escape("none" if value is None else value)
    return escape(as_text(value))


def _plain(name: str, before: Asking, after: Asking) -> list[str]:
    called = escape(name.rpartition(".")[2])
    return [f"{called} {_said(name, before.get(name))} → {_said(name, after.get(name))}"]


def _by_cell(name: str, before: Asking, after: Asking) -> list[str]:
    called, every = escape(name.partition(".")[2]), len(after.get(CELLS, ()))
    return [
        f"{called} {_said(name, old)} → {_said(name, new)}"
        + (f" ({listed(cells, MOST_CELLS, 'more cells')})" if cells and len(cells) < every else "")
        for old, new, cells in _of_cells(name, before, after)
    ]


def _claim(name: str, before: Asking, after: Asking) -> list[str]:
    old, new, claim = before.get(name), after.get(name), escape(name.removeprefix(CLAIM))
    if old is None or new is None:
        return [f"claim {'stated' if old is None else 'dropped'}: “{claim}”"]
    differs = [key for key in dict.fromkeys([*old, *new]) if old.get(key) != new.get(key)]
    turned = "turned" if {"expected", "value", "against"} & {*differs} else "changed"
    values = ", ".join(f"{escape(key)} {_said('', old.get(key))} → {_said('', new.get(key))}" for key in differs)
    return [f"claim {turned}: “{claim}” {values}"]


def _goal(name: str, before: Asking, after: Asking) -> list[str]:
    values = f"{_said('', before.get(name))} → {_said('', after.get(name))}"
    return [f"goal of {escape(name.removeprefix(GOAL))}: {values}"]


def _seeds(name: str, before: Asking, after: Asking) -> list[str]:
    old, new = before.get(name, []), after.get(name, [])
    found = ("joined", [s for s in new if s not in set(old)]), ("left", [s for s in old if s not in set(new)])
    return [f"{listed([str(s) for s in seeds], 12)} {verb}" for verb, seeds in found if seeds]


def _rewritten(name: str, before: Asking, after: Asking) -> list[str]:
    return ["the expected result was rewritten"]


Words = Callable[[str, Asking, Asking], list[str]]
WORDS: Sequence[tuple[str, Words]] = (
    (CLAIM, _claim),
    ("suite.expected", _rewritten),
    ("suite.", _plain),
    (GOAL, _goal),
    (SEEDS, _seeds),
    ("train.", _by_cell),
    ("data.", _by_cell),
    ("model.", _by_cell),
    ("", _plain),
)
"""How the name of what is asked begins → what is said of it; the first that fits."""


def _gone(view: View) -> list[Md]:
    """Finished runs without a record, those that were run again, and results that no list has."""
    # By their hashes: of a million trials the sets themselves are a gigabyte.
    there = {hash(each) for each in _ended(view)}
    aside = {name.removesuffix(".json") for name, _ in view.damaged}
    known, missing = set[int](), set[Ended]()
    for each in view.study.history.finished():
        known.add(hash(each))
        if hash(each) not in there and f"{each.trial_id}-{each.attempt}" not in aside:
            missing.add(each)
    again = {each.trial_id for each in missing if ended(view.results.tried.get(each.trial_id, ()))}
    trials, said = Trials.of(view.study.info.trials), list[Md]()
    for what, ids, then in (
        ("no longer there", {e.trial_id for e in missing if e.trial_id not in again}, "No number here includes them."),
        ("not the first", {e.trial_id for e in missing if e.trial_id in again},
         "The record of an earlier run was removed, and the trial run again."),
    ):  # fmt: skip
        if ids:
            named = [describe(trials.of_id(trial_id)) for trial_id in trials.ids() if trial_id in ids]
            of_none = [f"{len(ids) - len(named)} of no planned cell"] if len(ids) > len(named) else []
            noun, verb = plural(len(ids), "finished run"), "is" if len(ids) == 1 else "are"
            which = "; ".join([*(escape(name) for name in named[:MAX_NAMED]),
                               *([f"{len(named) - MAX_NAMED} more"] if len(named) > MAX_NAMED else []),
                               *of_none])  # fmt: skip
            said.append(Md(f"**{noun} {verb} {what}**: {which}. {then}"))
    if unlisted := len({each.trial_id for each in _ended(view) if hash(each) not in known}):
        verb = "is" if unlisted == 1 else "are"
        said.append(Md(f"{plural(unlisted, 'result')} {verb} not in the study's list of finished runs: brought from "
                       "elsewhere, or stored by a driver that was killed at that moment, or the list was cut. The "
                       "next `vitbench run` adds them."))  # fmt: skip
    return said


def _ended(view: View) -> Iterator[Ended]:
    return (each for attempts in view.results.tried.values() for each in ended(attempts))
