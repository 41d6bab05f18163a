"""Contrast of colours, by the Web Content Accessibility Guidelines 2.1."""

from __future__ import annotations

import re

LEAST_TEXT, LEAST_MARK = 4.5, 3.0
"""Contrast with the paper that letters have, and marks that mean something: criteria 1.4.3 and 1.4.11."""


def luminance(colour: str) -> float:
    """Relative luminance, 0 to 1."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(colour: str, ground: str) -> float:
    """Contrast ratio of two colours, 1 to 21."""
    low, high = sorted((luminance(colour), luminance(ground)))
    return (high + 0.05) / (low + 0.05)


def over(colour: str, opacity: float, ground: str) -> str:
    """The colour that is seen where another lets its ground through."""
    pairs = ((int(colour[at : at + 2], 16), int(ground[at : at + 2], 16)) for at in (1, 3, 5))
    return "#" + "".join(f"{round(opacity * a + (1 - opacity) * b):02x}" for a, b in pairs)


def hexadecimal(colour: str) -> str:
    """A browser's ``rgb(…)`` as ``#rrggbb``."""
    return "#" + "".join(f"{round(float(part)):02x}" for part in re.findall(r"[\d.]+", colour)[:3])
