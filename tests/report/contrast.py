"""Contrast of colours, by the Web Content Accessibility Guidelines 2.1."""

import re

import numpy as np
from matplotlib.colors import to_hex, to_rgb

LEAST_TEXT, LEAST_MARK = 4.5, 3.0
"""Contrast with the paper that letters have, and marks that mean something: criteria 1.4.3 and 1.4.11."""


def luminance(colour: str) -> float:
    """Relative luminance, 0 to 1."""
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(colour)]
    return float(np.dot((0.2126, 0.7152, 0.0722), parts))


def contrast(colour: str, ground: str) -> float:
    """Contrast ratio of two colours, 1 to 21."""
    low, high = sorted((luminance(colour), luminance(ground)))
    return (high + 0.05) / (low + 0.05)


def over(colour: str, opacity: float, ground: str) -> str:
    """The colour that is seen where another lets its ground through."""
    return str(to_hex(opacity * np.array(to_rgb(colour)) + (1 - opacity) * np.array(to_rgb(ground))))


def hexadecimal(colour: str) -> str:
    """A browser's ``rgb(…)`` as ``#rrggbb``."""
    return str(to_hex([float(part) / 255 for part in re.findall(r"[\d.]+", colour)[:3]]))
