"""Checks of a study's files before they are used: they may be foreign, newer, edited or duplicated."""

import json
from collections.abc import Iterable, Sequence

from pydantic import ValidationError

from vitbench.environment import VERSION
from vitbench.store.attempts import Attempt, Of

SHOWN = 3

LEAP = 1_000
"""Largest step from one number to the next: what is lost of a study leaves gaps, and none that are so large."""


def refused(text: bytes, known: int) -> str | None:
    """Why a study's plan is not read at all: it is of another form; None where it is not.

    What is no JSON, or holds no version, is left to the validation, which says what is wrong with it.

    Args:
        text: of ``study.json``.
        known: schema version that this vitbench reads.
    """
    try:
        version = json.loads(text)["schema_version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not isinstance(version, int) or version < 1 or version == known:
        return None
    return (
        f"written by {'a newer' if version > known else 'an older'} vitbench: schema version {version}, and this one "
        f"({VERSION}) reads {known}; use that version, or choose another folder with --results"
    )


def reason(error: ValidationError | OSError) -> str:
    """The first complaint, in one line and with its place."""
    if isinstance(error, OSError):
        return str(error.strerror or error)
    details = error.errors(include_url=False)
    place = ".".join(str(part) for part in details[0]["loc"])
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    return f"{place}: {details[0]['msg']}{more}" if place else f"{details[0]['msg']}{more}"


def misplaced(pairs: Iterable[tuple[str, str]]) -> str | None:
    """Mistakes in the ids of a plan, each given beside the one that its trial has; None where there are none.

    A result is found by its id: under a wrong one it would stand in another cell's row.
    """
    seen = set[str]()
    wrong = []
    for given, actual in pairs:
        if given != actual:
            wrong.append(f"trial {given} has the id {actual}")
        elif given in seen:
            wrong.append(f"trial {given} is there twice")
        seen.add(given)
    if not wrong:
        return None
    return f"{len(wrong)} of the plan's trials are not what they say: {'; '.join(wrong[:SHOWN])}"


def believed(numbers: Sequence[int]) -> list[int]:
    """The numbers, in order, that follow from 0 without a leap: the next of them would have no room else."""
    pairs = enumerate(zip([0, *numbers], numbers, strict=False))
    end = next((i for i, (before, number) in pairs if number - before > LEAP), len(numbers))
    return list(numbers[:end])


def distinct(attempts: Sequence[Of], damaged: list[str]) -> list[Of]:
    """The attempts of one trial, in order, that count; the others are named in ``damaged``.

    A record that was copied to another file counts once, and one whose number leaps not at all.
    """
    kept: dict[tuple[object, ...], Of] = {}
    followed = len(believed([tried.attempt for tried in attempts]))
    for place, tried in enumerate(attempts):
        key = (tried.attempt, tried.started_at, tried.state, tried.reason)
        if place < followed and key not in kept:
            kept[key] = tried
            continue
        if place < followed and isinstance(tried, Attempt) and tried.packed:
            continue  # a crash between packing and removing leaves both
        why = "the same record in two files" if place < followed else "no attempt of a number near it is there"
        if (entry := f"{tried.trial_id}, attempt {tried.attempt}: {why}") not in damaged:
            damaged.append(entry)
    return list(kept.values())
