"""Names of caveats: how a report's sentences are recognised until the report itself has their names."""

from __future__ import annotations

import re
from collections.abc import Mapping

ARMS = r"[A-Z]+ against [A-Z]+.*?: "
"""Begins a caveat of a comparison that is about some of its studies."""

NAMES: Mapping[str, str] = {
    # What was changed, and what is gone.
    "history-missing": r"\*\*The history of this study is missing\*\*",
    "history-unreadable": r"\*\*[\d,]+ entr(y|ies) of this study's history cannot be read\*\*",
    "history-begins-late": r"The history of this study begins when [\d,]+ training runs? had finished",
    "seeds-changed": r"\*\*Seeds changed after a look\*\*: ",
    "changed-after-results": r"\*\*Changed after results had been seen\*\*: ",
    "plan-edited": r"\*\*study\.json is not what its history says\*\*",
    "removed-runs": r"\*\*[\d,]+ finished runs? (is|are) no longer there\*\*",
    "repeated-runs": r"\*\*[\d,]+ finished runs? (is|are) not the first\*\*",
    "unlisted-results": r"[\d,]+ results? (is|are) not in the study's list of finished runs",
    # Seeds, and what accuracies show.
    "one-seed": r"\*\*n = 1, no inference\*\*",
    "standard-deviation": r"n = \d+( to \d+)? seeds: ± is the sample standard deviation",
    "one-test-set": r"Intervals and p-values are over seeds, for one set of training images",
    "mean-over-survivors": r"The means? of [\d,]+ cells? (is|are) over survivors",
    "test-images-read": r"The test images were read [\d,]+ times? for [\d,]+ finished runs?",
    "at-chance": r"\*\*At chance\*\*: ",
    "disagreeing-implementations": r"\*\*Implementations that disagree\*\*: ",
    "seeds-of-equivalents": r"Each function is trained once a seed: ",
    # Timings and the speed of runs.
    "unstable-timings": r"\*\*[\d,]+ of [\d,]+ timings? (is|are) marked ~\*\*|Not to be relied on, marked ~: ",
    "one-process": r"[\d,]+ timings? comes? from one process|From one process, whose luck no interval holds: ",
    "uncorrected-intervals": r"The interval of a ratio of timings holds for it alone",
    "no-interval-of-ratios": r"Timings were made side by side, of too few samples",
    "load-while-timing": r"The load average reached [\d,.]+ on [\d,]+ cores while timing",
    "shared-machine": r"\*\*The training runs( on .+?)? did not have their machine to themselves\*\*",
    # Machines, code and data.
    "several-environments": r"[\d,]+ results? came about under other conditions than A",
    "other-code": r"[\d,]+ results? (is|are) of other code than the latest; ",
    "edited-plug-in": r"\*\*[\d,]+ results? (is|are) of other code than the latest\*\*: .* comes from a plug-in",
    "uncommitted-changes": r"([\d,]+ results?|Results of .+) came from a working tree with changes",
    "fallback-data": r"(The data|[A-Z, ]+: the data) are a fallback",
    "near-duplicate-test-images": r"[\d.]+ % of the test images of CIFAR-100? have near-duplicates",
    "sampling-error": r"With .+ one run's accuracy has a sampling error of ",
    # What cells were given.
    "other-batches": r"\*\*Other batches\*\*: ",
    "tuned-settings": r"Tuned for each cell on validation, with as many runs for each: ",
    "untuned-settings": r"Fixed for all cells and not tuned for each, which may favour some: ",
    "settings-by-cell": r"\*\*Set differently for some cells\*\*, and not tuned: ",
    "unequal-budgets": r"\*\*Budgets differ\*\*",
    "noise-floor": r"\*\*Noise floor\*\*: exact twins",
    "no-noise-seen": r"\*\*Noise floor\*\*: none was seen",
    # Several studies.
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
"""Name → how today's sentences begin; two where a study and a comparison say it otherwise."""


def name_of(sentence: str) -> str:
    """The caveat that a sentence states.

    Raises:
        ValueError: where no name fits, or several do.
    """
    names = [name for name, pattern in NAMES.items() if re.match(pattern, sentence)]
    if len(names) != 1:
        raise ValueError(f"{' and '.join(names) or 'no caveat'} fits: {sentence}")
    return names[0]
