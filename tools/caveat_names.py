"""Names of the caveats of a comparison: how its sentences are recognised until it has their names itself."""

from __future__ import annotations

import re
from collections.abc import Mapping

ARMS = r"[A-Z]+ against [A-Z]+.*?: "
"""Begins a caveat of a comparison that is about some of its studies."""

NAMES: Mapping[str, str] = {
    "one-seed": r"\*\*n = 1, no inference\*\*",
    "unstable-timings": r"Not to be relied on, marked ~: ",
    "one-process": r"From one process, whose luck no interval holds: ",
    "uncommitted-changes": r"Results of .+ came from a working tree with changes",
    "fallback-data": r"[A-Z, ]+: the data are a fallback",
    "unrecorded-machine": r"On what .+ ran was not recorded",
    "other-machines": ARMS + r"\*\*other machines or devices\*\*",
    "other-software": ARMS + r"\*\*other software\*\*",
    "timings-not-in-turns": r"Timings of different studies are not made in turns",
    "matched-without-device": r"A trial on one device has another identity than on another",
    "one-study-in-arms": r"One study, in an arm for each device and set of conditions: ",
    "study-given-twice": r"The same study: ",
    "unequal-timing-protocol": r"How long is timed is not the same everywhere: ",
    "other-images": ARMS + r"[\d,]+ cells? trained or tested on \*\*other images\*\*",
    "other-recipe": ARMS + r"\*\*another recipe\*\*",
    "drift-of-equal-seeds": r"The same seed gives the same initial weights, data order and augmentation everywhere",
    "records-set-aside": r"Set aside in [A-Z, ]+: ",
}
"""Name → how today's sentences begin."""


def name_of(sentence: str) -> str:
    """The caveat that a sentence states.

    Raises:
        ValueError: where no name fits, or several do.
    """
    names = [name for name, pattern in NAMES.items() if re.match(pattern, sentence)]
    if len(names) != 1:
        raise ValueError(f"{' and '.join(names) or 'no caveat'} fits: {sentence}")
    return names[0]
