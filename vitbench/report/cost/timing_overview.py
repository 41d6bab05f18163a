"""Overview: how fast each cell is beside the baseline in every setting that was timed, at one look."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vitbench.analysis.summary import finished
from vitbench.report.cost import speed
from vitbench.report.cost.time_groups import TimeGroup
from vitbench.report.document import Table, table
from vitbench.report.figures.charts import Estimate, Forest, Picture
from vitbench.report.markdown import NOTHING, Md, escape
from vitbench.report.numbers import plural
from vitbench.report.origins import of_origin
from vitbench.report.view import View

FEWEST = 3
"""Settings from which there is more to see than in the tables of each."""
MOST = 40
"""Settings that are shown."""
MOST_NAMES = 8
"""Cells that are told apart by colour, and stand side by side."""
NAME = "timing-overview"

Row = Mapping[Any, Any]


@dataclass(frozen=True)
class Setting:
    """One group of timings of one origin.

    Attributes:
        mode: what is done.
        parts: what it is, in parts: those that all settings share are left out of its name.
        base: name of the baseline.
        rows: name of a cell → its finished timing.
        words: name of a cell → the word where it has none.
    """

    mode: str
    parts: tuple[str, ...]
    base: str
    rows: Mapping[str, Row]
    words: Mapping[str, str]


@dataclass(frozen=True)
class Overview:
    """What is shown.

    Attributes:
        picture: ratios with their intervals; None where none has any.
        table: the same as numbers.
        said: how both are to be read.
    """

    picture: Picture | None
    table: Table
    said: Md


def overview(view: View, colour_by: Sequence[str]) -> Overview | None:
    """Speeds beside the baseline; None of few settings, and where cells differ too much to stand side by side.

    Args:
        view: the study.
        colour_by: axes; where the first tells the cells apart they have its values' colours.
    """
    settings = [found for group in view.time_groups for found in _settings(view, group)]
    modes = list(dict.fromkeys(setting.mode for setting in settings))
    settings.sort(key=lambda setting: modes.index(setting.mode))  # so that a size can be followed down the rows
    planned = list(dict.fromkeys(name for setting in settings for name in (*setting.rows, *setting.words)))
    names = [name for name in planned if any(name in setting.rows for setting in settings)]
    bases = {setting.base for setting in settings}
    if len(settings) < FEWEST or not 2 <= len(names) <= MOST_NAMES or len(bases) != 1:
        return None
    (base,) = bases
    others = [name for name in names if name != base]
    titles = _titles([setting.parts for setting in settings])
    shown = dict(zip(titles[:MOST], settings[:MOST], strict=True))
    rows = [
        {"setting": escape(title), **{name: _cell(setting, name) for name in others}}
        for title, setting in shown.items()
    ]
    never = [name for name in planned if name not in names]
    picture = _picture(view, shown, base, others, colour_by)
    said = "The same as numbers." if picture else f"Speed as a multiple of that of {base}; more than 1 is faster."
    said += f" Without any result: {', '.join(never)}." if never else ""
    said += f" Of {plural(len(settings), 'setting')} the first {MOST} are shown." if len(settings) > MOST else ""
    return Overview(picture, table(rows, right=set(others)), escape(said))


def _settings(view: View, group: TimeGroup) -> list[Setting]:
    planned = view.timings(group)
    names = speed.called(view, group, planned["cell"].unique())
    found = []
    for origin in view.origins.of(planned):
        done = of_origin(finished(planned), origin)
        rows = {names[row["cell"]]: row for row in done[done["latency_ms_p50"] > 0].to_dict("records")}
        base = speed.baseline(view, group, origin)
        if base is None or names[base["cell"]] not in rows:
            continue
        on = view.origins.letter(origin) if view.origins.several else ""
        parts = (speed.shared(view, group), group.what.removesuffix(", "), group.device, group.dtype,
                 f"batch size {group.batch_size}", group.mode_name, on)  # fmt: skip
        words = {names[cell]: word for cell, word in view.origins.missing(planned).items() if names[cell] not in rows}
        found.append(Setting(group.mode, parts, names[base["cell"]], rows, words))
    return found


def _titles(settings: Sequence[tuple[str, ...]]) -> list[str]:
    """Names of settings without the parts that are not needed to tell them apart, the first parts kept longest."""
    kept = [place for place in range(len(settings[0])) if len({parts[place] for parts in settings}) > 1]
    for place in reversed(kept):
        fewer = [each for each in kept if each != place]
        if len({tuple(parts[n] for n in fewer) for parts in settings}) == len(settings):
            kept = fewer
    return [", ".join(filter(None, (parts[n] for n in kept))) for parts in settings]


def _cell(setting: Setting, name: str) -> Md:
    if name not in setting.rows:
        return escape(setting.words[name]) if name in setting.words else NOTHING
    return speed.ratio(setting.rows[name], setting.rows[setting.base])


def _picture(
    view: View, settings: Mapping[str, Setting], base: str, others: Sequence[str], colour_by: Sequence[str]
) -> Picture | None:
    arms = {name: [_estimate(setting, name) for setting in settings.values()] for name in others}
    every = [each for estimates in arms.values() for each in estimates if each]
    if not every:
        return None
    ends = [end for each in every for end in (each.low, each.high) if math.isfinite(end) and end > 0]
    values = view.axes[colour_by[0]] if view.factorial and colour_by else ()
    known = set(others) <= set(values)
    places = [values.index(name) if known else number for number, name in enumerate(others)]
    chart = Forest([*settings], arms, f"speed, × that of {base} (to the right: faster)", places,
                   (min([1.0, *ends]), max([1.0, *ends])), neutral=1.0, logarithmic=True)  # fmt: skip
    said = (
        f"Speed as a multiple of that of {base}, timed beside it, in every setting; the line is the 95 % interval, by "
        "itself and not corrected for the number of comparisons. The axis is logarithmic."
    )
    if any(each.marked for each in every):
        said += f" Hollow: marked {speed.UNSTABLE}, not to be relied on."
    return Picture(NAME, chart, f"Forest plot of the speed beside {base}, by setting", said)


def _estimate(setting: Setting, name: str) -> Estimate | None:
    row = setting.rows.get(name)
    if row is None or not (math.isfinite(row["speed"]) and row["speed"] > 0):
        return None
    marked = any(setting.rows[each]["unstable"] for each in (name, setting.base))
    return Estimate(row["speed"], row["speed_low"], row["speed_high"], marked=marked)
