"""One axis in a section of its own: its effect with every seed's value, the verdicts, the noise floor, matched means.

A comparison with every seed's value is drawn in the same way wherever it stands: values of an axis against its
reference, and named cells against the first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from vitbench.analysis.verdicts import Judged
from vitbench.report import accuracy
from vitbench.report.accuracy import absence_of, decimals_of
from vitbench.report.document import Block, Heading
from vitbench.report.figures import trends
from vitbench.report.figures.cells import axis_slugs
from vitbench.report.figures.charts import Paired, Pairs, Picture
from vitbench.report.figures.marks import MOST_BLOCKS, reading
from vitbench.report.files import Files
from vitbench.report.findings import effects, legends, verdicts
from vitbench.report.findings.judgements import Place
from vitbench.report.markdown import Md, escape
from vitbench.report.numbers import fixed, plural, signed
from vitbench.report.view import View

LABEL = "difference in test accuracy (percentage points)"
TWINS = "No verdict: its values are exact twins of one another, which compute the same function from the same weights."
BY_SEED, BY_BLOCK = "every seed", "every matched block"
INTERVAL_READ = "the upright bar and the number are the mean over seeds, the box its 95 % interval"


def section(view: View, files: Files, axis: str) -> list[Block]:
    """What one axis does to test accuracy: effects with every seed's value and verdicts, noise floor, matched means."""
    blocks: list[Block] = []
    several = len(view.train_devices) > 1
    # What the first axis says of it whole holds for all of them.
    floor = noise(view, brief=axis != next(iter(view.axes)))
    for device in view.train_devices:
        places = [place for place in view.places if place.runs.device == device]
        blocks += [Heading(f"On {device}")] if several and len(places) != 1 else []
        for place in places:
            blocks += [Heading(f"On {view.place_name(place)}")] if len(view.places) > 1 else []
            if _are_equal(view, place, axis):
                blocks.append(_equal(view, place, axis))
            else:
                blocks += [*files.pictures(pictures(view, place, axis)), *_judged(view, place, axis)]
        blocks += files.pictures(trends.along(view, device, axis, trends.TEST_ACCURACY))
        means = accuracy.over_axis(view, device, axis)
        if means and all(_are_equal(view, place, axis) or _are_single(place, axis) for place in places):
            means = [Md("")]  # which would say the same once more
        blocks += [block for block in (Md(floor), *means) if block] if means else [Md("No run of it finished.")]
    return blocks


def _are_equal(view: View, place: Place, axis: str) -> bool:
    """Whether the values of an axis are exact twins of which no two runs differ."""
    differences = view.accuracy_over(axis, place.runs.origin, place.runs.device).differences()
    return (
        axis in view.twin_axes and differences.shape[1] > 1 and len(differences) > 0 and not differences.any(axis=None)
    )


def _equal(view: View, place: Place, axis: str) -> Md:
    """What there is to say of an axis whose every difference is 0."""
    found = view.accuracy_over(axis, place.runs.origin, place.runs.device)
    matched = accuracy.matching(view, found, "run")
    return Md(f"{TWINS} {escape(matched)} Every difference between them is 0.")


def _are_single(place: Place, axis: str) -> bool:
    """Whether each value of an axis has one cell, so that its effect is over the matched runs and nothing else."""
    found = [effect.judged for effect in place.effects if effect.axis == axis]
    return bool(found) and all(judged.n and judged.comparison.blocks == 1 for judged in found)


def _judged(view: View, place: Place, axis: str) -> list[Block]:
    """The table of an axis' effects, or why it has none."""
    found = [effect for effect in place.effects if effect.axis == axis]
    if found:
        over = (
            "seed by seed"
            if _are_single(place, axis)
            else "over every matched pair of the grid, averaged within each seed"
        )
        first = next(each for each in view.places if any(effect.axis == axis for effect in each.effects))
        meant = legends.columns_explained(view, "effects", axis) if place is first else []
        notes = verdicts.notes(view, [e.judged for e in found])
        table, under = verdicts.effects(view, found), verdicts.under_conditions(view, found)
        return [*meant, Md(f"Its effect, {over}."), table, *notes, *under]
    if axis in view.twin_axes:
        return [Md(TWINS)]
    return [Md("No verdict: it changes what is classified, and accuracy in one task is no better than in another.")]


def against_first(view: View, place: Place) -> list[Picture]:
    """Named cells against the first of them, every seed a point; nothing where no seed has both."""
    shown = place.variants[: verdicts.MAX_COMPARED]
    first = view.first_cell
    rows = view.train[view.train["device"] == place.runs.device]
    words = {j.comparison.label: view.origins.absence(rows[rows["cell"] == j.comparison.label]) for j in shown}
    paired = _by_seed(view, f"against {first}", {j.comparison.label: j for j in shown}, words)
    if not any(len(points) for points in paired.points):
        return []
    on, suffix = _on(view, place)
    said = f"Test accuracy less that of {first} in the same seed{on}. {_seeds_read(paired)}.{_grey(view)}"
    name = f"cells-against-the-first-{place.runs.device}{suffix}"
    chart = Pairs([("", [paired])], LABEL, 0.0, _band(view))
    return [Picture(name, chart, f"Difference in test accuracy of each cell from {first}{on}, every seed", said)]


def noise(view: View, *, brief: bool = False) -> str:
    """The noise floor in a sentence, or why there is none; ``brief`` for a place after the first: its size, if any."""
    floor = view.noise
    if brief:
        return f"Noise floor: {fixed(floor.largest, decimals_of(view) + 1)} points." if floor and floor.largest else ""
    if floor is None:
        why = "No two finished runs of one seed are exact twins, which would show by how much the same experiment "
        return f"Noise floor: not known. {why}differs from itself."
    over = f"{plural(floor.runs, 'run')} in {plural(floor.groups, 'group')} of exact twins"
    if not floor.largest:
        return f"Noise floor: none was seen. {over} agree to the last digit."
    return f"Noise floor: {fixed(floor.largest, decimals_of(view) + 1)} points, the largest difference among {over}."


def pictures(view: View, place: Place, axis: str) -> list[Picture]:
    """The effect by seed, and by matched block where these are more; one picture, nothing without any difference."""
    device, origin = place.runs.device, place.runs.origin
    rows = view.train[(view.train["device"] == device) & view.train["factorial"].astype(bool)]
    judged = {effect.value: effect.judged for effect in place.effects if effect.axis == axis}
    words = {value: absence_of(view, rows, axis, value) for value in view.axes[axis]}
    against = next((effect.against for effect in place.effects if effect.axis == axis), "")
    blocks = effects.by_block(view, view.accuracy_over(axis, origin, device), rows)
    seeds = max((j.n for j in judged.values()), default=0)
    columns, read = [], []
    if seeds:
        # The reference keeps its row, in the suite's order.
        by_seed = _by_seed(view, view.axis_names[axis], {value: judged.get(value) for value in view.axes[axis]}, words)
        columns.append((BY_SEED, [by_seed]))
        read.append(_seeds_read(by_seed))
    if max(map(len, blocks.points), default=0) > seeds:
        columns.append((BY_BLOCK, [blocks]))
        several = f"{BY_BLOCK[:1].upper()}{BY_BLOCK[1:]}: " if seeds else ""
        said = effects.blocks_read([blocks], "all other axes and the seed equal", "the mean")
        read.append(f"{several}{said[0].lower() if several else said[0]}{said[1:]}")
    if not columns:
        return []
    on, suffix = _on(view, place)
    than = against or view.accuracy_over(axis, origin, device).reference
    called = view.axis_names[axis]
    said = f"Test accuracy with each value of {called} less that with {than}{on}. {'. '.join(read)}.{_grey(view)}"
    alt = f"Differences in test accuracy by {called} on {device}{on}: {' and '.join(title for title, _ in columns)}"
    chart = Pairs(columns if len(columns) > 1 else [("", columns[0][1])], LABEL, 0.0, _band(view))
    return [Picture(f"effect-of-{axis_slugs(view)[axis]}-{device}{suffix}", chart, alt, said)]


def _by_seed(view: View, title: str, judged: Mapping[str, Judged | None], words: Mapping[str, str]) -> Paired:
    """Comparisons with every seed's difference: a row each, the reference among them as None."""
    found: Sequence[Judged | None] = list(judged.values())
    decimals = decimals_of(view) + 1
    return Paired(
        title,
        list(judged),
        [j.comparison.deltas if j else () for j in found],
        [j.mean if j and j.n > 1 else math.nan for j in found],  # a bar would hide the one seed under it
        [signed(j.mean, decimals) if j and j.n else "" for j in found],
        ["reference" if j is None else "" if j.n else _word(j, words[name]) for name, j in judged.items()],
        [(j.interval.low, j.interval.high) if j else (math.nan, math.nan) for j in found],
    )


def _word(judged: Judged, absence: str) -> str:
    """What stands for a comparison without any seed: what became of its runs, or that none is matched."""
    return absence if judged.comparison.failed or absence not in ("", "ok", "no value") else "not matched"


def _seeds_read(paired: Paired) -> str:
    several = any(len(points) > 1 for points in paired.points)
    said = reading(paired.points, "a point is one seed", "of the seeds", INTERVAL_READ if several else "", MOST_BLOCKS)
    return f"{said[:1].upper()}{said[1:]}"


def _on(view: View, place: Place) -> tuple[str, str]:
    """What tells a place from the others on its device, in words and as the ending of a file's name."""
    beside = [p.runs.origin for p in view.places if p.runs.device == place.runs.device]
    return view.origins.on(place.runs.origin, beside)


def _band(view: View) -> float:
    return view.noise.largest if view.noise else 0.0


def _grey(view: View) -> str:
    if not _band(view):
        return ""
    return " The grey band between dashed lines is the noise floor: the largest difference between exact twins."
