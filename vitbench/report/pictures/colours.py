"""Colours of pictures on white paper and on dark, and how well they are seen there.

A picture is drawn for white paper. On dark paper each of its colours has another in its place, of the same hue and the
same contrast: so what is read by day is read by night, and no colour has to be chosen twice.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable

Rgb = tuple[float, float, float]
"""Red, green, blue in sRGB, each 0 to 1."""

PAPER, NIGHT = "#ffffff", "#14171b"
"""The page's ground, light and dark; ``page.css`` has the same."""
INK, GREY, RULE = "#1a1a1a", "#636363", "#ededed"
"""Of letters and means, of remarks and axes, and of lines that only guide the eye."""
PALETTE = ("#2c71b7", "#d85734", "#319d64", "#ac1377", "#460062", "#852a0f", "#3931b6", "#60444c")
"""Colours that the colour-blind tell apart, on white and on dark paper. The first three are near the blue, vermilion
and bluish green of Okabe and Ito (Wong 2011, "Points of view: Color blindness"), whose other colours are too pale for
white paper. All were found by a search for the largest distance between the nearest two as people see them with and
without protanopia and deuteranopia, by the model of Machado, Oliveira and Fernandes 2009, "A physiologically-based
model for simulation of color vision deficiency". The greyest is the last: :data:`GREY` is of what has no colour."""
ON_PIXELS = ("#fefefe", "#010101")
"""Light and dark, of letters on pixels: these are the same by day and by night, and so is what is on them."""
LEAST_TEXT, LEAST_MARK = 4.5, 3.0
"""Contrast with the paper that letters have, and marks that mean something. Source: Web Content Accessibility
Guidelines 2.1, criteria 1.4.3 and 1.4.11."""

LIGHTER = 0.12
"""By how much the lightness of a colour is more on dark paper; of 1."""
GREYISH = 0.03
"""Chroma below which a colour is a grey."""
MARGIN = 0.05
"""Of contrasts, for the rounding of colours to bytes."""

WRITTEN = re.compile(r"#[0-9a-f]{6}\b")
NAMED = re.compile(r"var\(--c([0-9a-f]{6})\)")


def rgb(colour: str) -> Rgb:
    """``#rrggbb`` as numbers."""
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return red, green, blue


def written(colour: Rgb) -> str:
    """Numbers as ``#rrggbb``."""
    return "#" + "".join(f"{round(255 * min(1.0, max(0.0, part))):02x}" for part in colour)


def luminance(colour: str) -> float:
    """Relative luminance, 0 to 1. Source: Web Content Accessibility Guidelines 2.1."""
    red, green, blue = map(_linear, rgb(colour))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours, 1 to 21. Source: Web Content Accessibility Guidelines 2.1."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def over(colour: str, opacity: float, ground: str) -> str:
    """What is seen of a colour that lets its ground through."""
    red, green, blue = (opacity * a + (1 - opacity) * b for a, b in zip(rgb(colour), rgb(ground), strict=True))
    return written((red, green, blue))


@functools.lru_cache(maxsize=4096)
def at_night(colour: str) -> str:
    """The colour that stands on dark paper for one on white; for white the dark paper.

    A grey has the contrast that it has by day. A colour keeps its hue and is :data:`LIGHTER`, so that colours stay as
    far from one another as they were, and lighter still where that does not reach :data:`LEAST_MARK`. What no screen
    shows has its chroma reduced. Lightness is that of OKLCH; source: Ottosson 2020, "A perceptual color space for image
    processing".
    """
    if colour == PAPER:
        return NIGHT
    lightness, chroma, hue = _oklch(rgb(colour))
    grey = chroma < GREYISH
    wanted = contrast(colour, PAPER) if grey else LEAST_MARK + MARGIN
    low, high = (_oklch(rgb(NIGHT))[0], 1.0) if grey else (min(1.0, lightness + LIGHTER), 1.0)
    if contrast(written(_shown(low, chroma, hue)), NIGHT) >= wanted:
        high = low
    for _ in range(20):
        middle = (low + high) / 2
        if contrast(written(_shown(middle, chroma, hue)), NIGHT) < wanted:
            low = middle
        else:
            high = middle
    return written(_shown(high, chroma, hue))


def variables(texts: Iterable[str]) -> tuple[str, str]:
    """The colours that pictures name, as declarations of a style: those on white paper, and those on dark."""
    named = sorted({name for text in texts for name in NAMED.findall(text)})
    day = "".join(f"--c{name}:#{name};" for name in named)
    return day, "".join(f"--c{name}:{at_night(f'#{name}')};" for name in named)


def scale(number: int) -> list[str]:
    """So many shades in an order, from dark to light, each of them seen on white: see :data:`LEAST_MARK`."""
    ends = (0.32, 0.62)
    lightness = [ends[0] + (ends[1] - ends[0]) * at / max(1, number - 1) for at in range(number)]
    hues = [math.radians(300 - 230 * at / max(1, number - 1)) for at in range(number)]
    return [written(_shown(light, 0.13, hue)) for light, hue in zip(lightness, hues, strict=True)]


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4


def _gamma(part: float) -> float:
    return 12.92 * part if part <= 0.0031308 else 1.055 * part ** (1 / 2.4) - 0.055


def _oklch(colour: Rgb) -> tuple[float, float, float]:
    """(lightness, chroma, hue in radians)."""
    red, green, blue = map(_linear, colour)
    long = (0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue) ** (1 / 3)
    middle = (0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue) ** (1 / 3)
    short = (0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue) ** (1 / 3)
    a = 1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short
    b = 0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short
    return 0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short, math.hypot(a, b), math.atan2(b, a)


def _shown(lightness: float, chroma: float, hue: float) -> Rgb:
    """A colour of this lightness and hue, with as much of the chroma as a screen shows."""
    low, high, found = 0.0, chroma, _srgb(lightness, chroma, hue)
    if _inside(found):
        return found
    for _ in range(12):
        middle = (low + high) / 2
        if _inside(_srgb(lightness, middle, hue)):
            low = middle
        else:
            high = middle
    return _srgb(lightness, low, hue)


def _inside(colour: Rgb) -> bool:
    return all(-1e-4 <= part <= 1 + 1e-4 for part in colour)


def _srgb(lightness: float, chroma: float, hue: float) -> Rgb:
    a, b = chroma * math.cos(hue), chroma * math.sin(hue)
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    middle = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        _gamma(4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short),
        _gamma(-1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short),
        _gamma(-0.0041960863 * long - 0.7034186147 * middle + 1.7076147010 * short),
    )
