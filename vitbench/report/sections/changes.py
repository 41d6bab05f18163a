"""Changes: what was asked otherwise once results were seen, and finished runs that are gone, for the caveats."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from vitbench.config.base import Strict, digest, dumps
from vitbench.config.model import ModelSpec
from vitbench.config.recipe import DataSpec, TrainSpec
from vitbench.config.suite import Info, as_text
from vitbench.report.text import Md, escape, listed
from vitbench.report.view import View
from vitbench.store.asked import CELLS, GOAL, HYPOTHESIS, SEEDS, TUNED, asked, by_cell
from vitbench.store.history import Ended, Step, ended
from vitbench.wording import plural

MOST = 6  # Changes that are named before they are counted
MAX_NAMED = 8
MOST_CELLS = 3
MOST_LETTERS = 80

DEFAULTS: Mapping[str, type[Strict]] = {"suite": Info, "model": ModelSpec, "data": DataSpec, "train": TrainSpec}
SETTINGS = ("name", "question", "cost", "timeout_s", "checkpoint_s", "max_attempts", "seed", "spread")

IRRELEVANT = frozenset({"implementations", "data_identity", "data.identity", *(f"suite.{name}" for name in SETTINGS)})
"""Names of what no conclusion depends on."""

ORDER = (HYPOTHESIS, "suite.expected", CELLS, "suite.", GOAL, SEEDS, "train.", "data.", "model.", "")
"""Beginnings of the names of what is asked, in the order in which their changes are stated."""

Asking = Mapping[str, Any]
Facts = Iterable[Mapping[str, object]]
"""Facts that are put into a caveat's sentence, once for each time that it is stated; text is escaped."""


def unreadable(view: View) -> Facts:
    """Entries that are missing, damaged or edited."""
    if not missing(view) and (lost := view.study.history.unread(view.study.info.history)):
        number = plural(len(lost), "entry", "entries")
        yield {"entries": number, "which": listed([str(n) for n in lost], MAX_NAMED)}


def late(view: View) -> Facts:
    """A history that begins after results were there."""
    steps = view.study.history.steps()
    if not missing(view) and steps and (runs := steps[0].entry.finished):
        yield {"runs": plural(runs, "training run")}


def missing(view: View) -> bool:
    """Whether a history is not there, though the plan says that it was."""
    history, known = view.study.history, view.study.info.history
    return len(history.unread(known)) == known and not history.steps()


def changed(view: View) -> Facts:
    """Changes that were made when results were there, and still hold; what is judged comes first."""
    ranked = sorted(_changes(view), key=lambda change: _rank(change[0]))
    changes = [{"when": when, "what": words} for name, when, words in ranked if name != SEEDS]
    yield from changes[:MOST]
    if more := changes[MOST:]:
        yield {"when": f"{len(more)} more", "what": "see `history/` in the study's folder"}


def seeds(view: View) -> Facts:
    """Seeds that joined or left when results were there."""
    return ({"when": when, "what": words} for name, when, words in _changes(view) if name == SEEDS)


def edited(view: View) -> Facts:
    """A plan that is not what its history says."""
    steps, now = view.study.history.steps(), asked(view.study.info)
    if steps and digest(now) not in {step.entry.asked for step in steps}:
        last = Step(steps[-1].entry, steps[-1].after, now)
        words = "; ".join(words for _, words in _words(last, _left(steps, now)))
        yield {"what": words or "a change that no conclusion depends on"}


def _changes(view: View) -> Iterator[tuple[str, str, str]]:
    """Changes that were made when results were there: (name, after how many runs, what was changed)."""
    steps = view.study.history.steps()
    left = _left(steps, asked(view.study.info)) if steps else set()
    for step in steps:
        if step.entry.finished and not step.entry.begins:
            when = f"after {plural(step.entry.finished, 'run')}"
            yield from ((name, when, words) for name, words in _words(step, left))


def _left(steps: Sequence[Step], now: Asking) -> set[str]:
    """Names whose values are not as they were before any result, of those on which a conclusion depends."""
    unseen = [step for step in steps if not step.entry.finished]
    base = (unseen[-1] if unseen else steps[0]).after
    return {name for name in {*base, *now} if _pairs(name, base, now)} - IRRELEVANT


def _words(step: Step, left: set[str]) -> Iterator[tuple[str, str]]:
    """(name, words) for what a step has changed of some names; what is judged comes before what is run."""
    for name in sorted(left, key=lambda name: (_rank(name), name)):
        for label, old, new, cells in _pairs(name, step.before, step.after):
            words = f"{_value(name, old)} → {_value(name, new)}{cells}"
            if name in (SEEDS, CELLS):
                moved = ((old, "left out"), (new, "added"))
                words = ", ".join([f"{_value(name, each)} {what}" for each, what in moved if each])
            yield name, f"{label} {words}"


def _rank(name: str) -> int:
    return next(rank for rank, begin in enumerate(ORDER) if name.startswith(begin))


def _pairs(name: str, before: Asking, after: Asking) -> list[tuple[str, Any, Any, str]]:
    """(label, old value, new value, which cells) for what differs under a name, the label and the cells escaped."""
    old, new, (table, _, field) = before.get(name), after.get(name), name.partition(".")
    if old == new:
        return []
    if table in ("model", "data", "train"):
        planned = len(after.get(CELLS, ()))
        return [
            (escape(field), a, b, f" ({listed(cells, MOST_CELLS, 'more cells')})" if 0 < len(cells) < planned else "")
            for a, b, cells in _of_cells(name, before, after)
        ]
    if name == TUNED or name.startswith(HYPOTHESIS):
        label = "tuned" if name == TUNED else f"claim “{escape(name.removeprefix(HYPOTHESIS))}”"
        if name != TUNED and (old is None or new is None):
            return [(label, None if old is None else "stated", None if new is None else "stated", "")]
        was, is_now = old or {}, new or {}
        keys = [key for key in dict.fromkeys([*was, *is_now]) if was.get(key) != is_now.get(key)]
        return [(f"{label}: {escape(key)}", was.get(key), is_now.get(key), "") for key in keys]
    if name in (SEEDS, CELLS):  # those that left, and of seeds those that joined: more cells are corrected for
        were, are = dict.fromkeys(old or []), dict.fromkeys(new or [])
        gone, come = [each for each in were if each not in are], [each for each in are if each not in were]
        if name == CELLS:  # where none of the old ones is left, the axes changed, and with them all labels
            gone, come = gone if len(gone) < len(were) else [], []
        return [(name, gone, come, "")] if gone or come else []
    label = f"goal of {escape(name.removeprefix(GOAL))}" if name.startswith(GOAL) else escape(name.rpartition(".")[2])
    return [(label, old, new, "")]


def _of_cells(name: str, before: Asking, after: Asking) -> list[tuple[Any, Any, list[str]]]:
    """(old value, new value, cells) for the cells that are there both times, or for all where none is."""
    old, new = before.get(name), after.get(name)
    cells = [cell for cell in after.get(CELLS, ()) if cell in set(before.get(CELLS, ()))]
    if not cells:
        were, are = _values(old), _values(new)
        return [] if were == are or not before.get(CELLS) or not after.get(CELLS) else [(were, are, [])]
    of_old, of_new = by_cell(old), by_cell(new)
    groups: dict[str, tuple[Any, Any, list[str]]] = {}
    for cell in cells:
        pair = old if of_old is None else of_old.get(cell), new if of_new is None else of_new.get(cell)
        if pair[0] != pair[1]:
            groups.setdefault(digest(pair), (*pair, []))[2].append(cell)
    return list(groups.values())


def _values(value: Any) -> list[Any]:
    """The distinct values of a field, whatever cell has them."""
    of_cells = by_cell(value)
    values = [value] if of_cells is None else of_cells.values()
    return sorted({digest(each): each for each in values}.values(), key=str)


def _value(name: str, value: Any) -> Md:
    """A value as a reader writes it; a missing one is the field's default."""
    table, _, field = name.partition(".")
    if value is None and table in DEFAULTS and field in DEFAULTS[table].model_fields:
        value = DEFAULTS[table].model_fields[field].default
    if isinstance(value, list) and not any(isinstance(each, (list, dict)) for each in value):
        return Md(", ".join(_value(name, e) for e in value[:MAX_NAMED]) + (" …" if len(value) > MAX_NAMED else ""))
    if isinstance(value, (list, dict)):
        return escape(dumps(value)[:MOST_LETTERS])
    if value is None or type(value) is int:  # however large
        return escape("none" if value is None else value)
    return escape(as_text(value)[:MOST_LETTERS])


def gone(view: View, *, again: bool) -> Facts:
    """Finished runs whose record is gone: those whose trial was run again, or the others."""
    # By their hashes: of a million trials the set itself is half a gigabyte.
    there, tried = {hash(each) for each in _ended(view)}, view.results.tried
    aside = {name.removesuffix(".json") for name, _ in view.damaged}
    lost = {each.trial_id for each in view.study.history.finished()
            if hash(each) not in there and f"{each.trial_id}-{each.attempt}" not in aside}  # fmt: skip
    if ids := {trial_id for trial_id in lost if bool(ended(tried.get(trial_id, ()))) == again}:
        trials = view.study.info.trials
        named = [escape(trials.of_id(trial_id).description) for trial_id in trials.ids() if trial_id in ids]
        more = [f"{len(named) - MAX_NAMED} more"] if len(named) > MAX_NAMED else []
        of_none = [f"{len(ids) - len(named)} of no planned cell"] if len(ids) > len(named) else []
        yield {"number": len(ids), "which": "; ".join([*named[:MAX_NAMED], *more, *of_none])}


def unlisted(view: View) -> int:
    """Number of results that no list of finished runs has."""
    known = {hash(each) for each in view.study.history.finished()}
    return len({each.trial_id for each in _ended(view) if hash(each) not in known})


def _ended(view: View) -> Iterator[Ended]:
    return (each for attempts in view.results.tried.values() for each in ended(attempts))
