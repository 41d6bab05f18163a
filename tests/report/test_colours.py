"""Colours of pictures are seen on white paper and on dark, and told apart, by the colour-blind too."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pytest

from vitbench.report.pictures.colours import (
    GREY,
    INK,
    LEAST_MARK,
    LEAST_TEXT,
    NIGHT,
    PALETTE,
    PAPER,
    RULE,
    at_night,
    contrast,
    over,
    rgb,
    scale,
    variables,
)

SIGHT = {
    "normal": np.eye(3),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
}
"""What is seen of linear red, green and blue. Source: Machado, Oliveira and Fernandes 2009, "A physiologically-based
model for simulation of color vision deficiency", severity 1."""
APART = 0.06
"""Distance in OKLab: of two neighbours on a circle of thirty hues, at the chroma of the palette."""
TO_LMS = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def lab(colour: str, sight: str) -> npt.NDArray[np.float64]:
    """(3,): a colour in OKLab, as seen with such a sight."""
    part = np.array(rgb(colour))
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    found: npt.NDArray[np.float64] = TO_LAB @ np.cbrt(TO_LMS @ np.clip(SIGHT[sight] @ linear, 0, 1))
    return found


def night(colours: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(at_night, colours))


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("palette", [PALETTE, night(PALETTE)], ids=["light", "dark"])
def test_colours_are_told_apart(palette: tuple[str, ...], sight: str) -> None:
    near = min(
        (float(np.linalg.norm(lab(one, sight) - lab(other, sight))), one, other)
        for one, other in itertools.combinations(palette, 2)
    )
    assert near[0] >= APART, near


def test_the_measure_sees_colours_that_the_colour_blind_take_for_one() -> None:
    """Seaborn's palette, for which ours stands in: its brown and its green are one colour for some."""
    distances = {s: float(np.linalg.norm(lab("#029e73", s) - lab("#ca9161", s))) for s in SIGHT}
    assert distances["normal"] > 0.15 and distances["protanopia"] < APART


@pytest.mark.parametrize("number", [9, 20, 48])
def test_marks_and_letters_stand_out_on_white_and_on_dark_paper(number: int) -> None:
    for colour in (*PALETTE, *scale(number)):
        assert contrast(colour, PAPER) >= LEAST_MARK and contrast(at_night(colour), NIGHT) >= LEAST_MARK, colour
    for colour in (INK, GREY):
        assert contrast(colour, PAPER) >= LEAST_TEXT and contrast(at_night(colour), NIGHT) >= LEAST_TEXT, colour
    assert len(set(scale(number))) == number


def test_what_is_pale_by_day_is_dim_by_night_and_paper_is_paper() -> None:
    assert at_night(PAPER) == NIGHT
    assert 1.05 < contrast(at_night(RULE), NIGHT) < 1.5
    assert over(INK, 0.0, PAPER) == PAPER and over(INK, 1.0, PAPER) == INK


def test_a_page_says_of_each_colour_what_it_is_by_day_and_by_night() -> None:
    day, dark = variables(['<path style="fill: var(--c2c71b7)"/>', "text #d85734", "var(--cffffff) var(--c2c71b7)"])
    assert day == "--c2c71b7:#2c71b7;--cffffff:#ffffff;"
    assert dark == f"--c2c71b7:{at_night('#2c71b7')};--cffffff:{NIGHT};"
