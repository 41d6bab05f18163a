"""Bars: estimates with intervals as small SVG drawings that are as wide as what they stand in."""

import math
from collections.abc import Iterable

from markupsafe import Markup

from vitbench.report.document import Bar, Scale
from vitbench.report.text import MINUS

HIGH, FLAT = 26, 9  # Pixels: the height of a row of a forest plot, and of a bar beneath a number
MOST_TICKS = 6
MOST_POINTS = 60  # Single values that are drawn; of more the interval alone


class Axis:
    """The values of some bars as shares of a width."""

    def __init__(self, bars: Iterable[Bar | None], scale: Scale) -> None:
        self.scale = scale
        values = [value for bar in bars if bar is not None for value in (bar.value, bar.low, bar.high, *bar.points)]
        values += [scale.neutral] if scale.neutral is not None else []
        values += scale.margin or ()
        drawn = [value for value in values if math.isfinite(value) and (value > 0 or not scale.logarithmic)] or [1.0]
        low, high = self._scaled(min(drawn)), self._scaled(max(drawn))
        air = 0.04 * (high - low) or 0.5
        self.low, self.high = low - air, high + air

    def _scaled(self, value: float) -> float:
        return math.log(value) if self.scale.logarithmic else value

    def percent(self, value: float) -> float:
        """Position of a value on the scale, from 0 to 100."""
        if self.scale.logarithmic and value <= 0:
            return 0.0
        return min(100.0, max(0.0, 100 * (self._scaled(value) - self.low) / (self.high - self.low)))

    def ticks(self) -> list[float]:
        """Round numbers, a few of them, within the axis."""
        from matplotlib.ticker import LogLocator, MaxNLocator

        low, high = (math.exp(self.low), math.exp(self.high)) if self.scale.logarithmic else (self.low, self.high)
        wide = self.scale.logarithmic and high / low > 4
        locator = LogLocator(subs=(1, 2, 5), numticks=99) if wide else MaxNLocator(MOST_TICKS)
        ticks = [round(float(tick), 10) for tick in locator.tick_values(low, high) if low <= tick <= high]
        return ticks[:: math.ceil(len(ticks) / MOST_TICKS)]


def bar(each: Bar, axis: Axis, height: int = HIGH) -> Markup:
    """One bar. Its numbers stand beside it as text, so that nobody has to have it read out."""
    parts, middle = [], height / 2
    if axis.scale.margin is not None:
        low, high = map(axis.percent, axis.scale.margin)
        parts.append(f'<rect class="band" x="{low:.2f}%" y="0" width="{high - low:.2f}%" height="{height}"/>')
    if axis.scale.neutral is not None:
        at = f"{axis.percent(axis.scale.neutral):.2f}%"
        parts.append(f'<line class="zero" x1="{at}" x2="{at}" y1="0" y2="{height}"/>')
    if math.isfinite(each.value):
        if math.isfinite(each.low) and math.isfinite(each.high):
            ends = f'x1="{axis.percent(each.low):.2f}%" x2="{axis.percent(each.high):.2f}%"'
            parts.append(f'<line class="span" {ends} y1="{middle}" y2="{middle}"/>')
        points = each.points if 1 < len(each.points) <= MOST_POINTS else ()
        parts += [_circle(axis.percent(point), middle + 7, 1.8, "seed") for point in points]
        parts.append(_circle(axis.percent(each.value), middle, 4.2 if height == HIGH else 3.2, "mark"))
    return Markup(f'<svg class="bar" height="{height}" aria-hidden="true">{"".join(parts)}</svg>')


def _circle(x: float, y: float, radius: float, kind: str) -> str:
    return f'<circle class="{kind}" cx="{x:.2f}%" cy="{y:g}" r="{radius:g}"/>'


def numbers(axis: Axis) -> Markup:
    """The numbers along an axis."""
    labels = "".join(
        f'<text x="{axis.percent(tick):.2f}%" y="12" text-anchor="middle">{f"{tick:g}".replace("-", MINUS)}</text>'
        for tick in axis.ticks()
    )
    return Markup(f'<svg class="bar" height="16" aria-hidden="true">{labels}</svg>')
