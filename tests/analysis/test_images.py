"""Test images one by one: the two sources of variance, McNemar's test, and the images on which cells differ."""

import numpy as np
import pytest

from vitbench.analysis.image_outcomes import Right, differing, mcnemar, two_sources


def pair(
    chance: np.random.Generator, lean_of: float, spread: float, seeds: int = 5, n: int = 400
) -> tuple[Right, Right]:
    """Two cells whose true difference is zero over all images, and not on each of them."""
    difficulty, lean = chance.normal(size=n), lean_of * chance.normal(size=n)
    cells = []
    for sign in (1.0, -1.0):
        luck = spread * chance.normal(size=(seeds, 1))
        cells.append(chance.normal(size=(seeds, n)) < difficulty + sign * lean + luck)
    return cells[0], cells[1]


@pytest.mark.parametrize(("lean", "spread"), [(0.8, 0.0), (0.8, 0.15)])
def test_the_interval_holds_the_true_difference_over_other_seeds_and_images(lean: float, spread: float) -> None:
    """Coverage in 600 simulated studies; by the seeds alone, images that lean one way are taken for an effect."""
    chance = np.random.default_rng(1)
    held, held_by_seeds = 0, 0
    for _ in range(600):
        difference = two_sources(*pair(chance, lean, spread))
        assert difference is not None
        held += difference.low <= 0.0 <= difference.high
        held_by_seeds += abs(difference.delta) <= 2.3 * difference.seeds
    assert 0.925 <= held / 600 <= 0.99
    if lean and not spread:
        assert held_by_seeds / 600 < 0.8


def test_the_share_of_the_images_is_theirs() -> None:
    chance = np.random.default_rng(2)
    shares = {}
    for name, lean, spread in (("seeds", 0.0, 0.5), ("images", 1.0, 0.0)):
        differences = [two_sources(*pair(chance, lean, spread)) for _ in range(50)]
        shares[name] = float(np.mean([each.share_of_images for each in differences if each]))
    assert shares["seeds"] < 0.1 and shares["images"] > 0.8
    a = np.ones((3, 10), dtype=bool)
    same = two_sources(a, a)
    assert same is not None and (same.delta, same.low, same.high, same.share_of_images) == (0.0, 0.0, 0.0, 0.0)
    assert two_sources(a[:1], a) is None


def test_mcnemar_counts_what_one_alone_tells_right() -> None:
    """A textbook's case: of 12 discordant images 10 gained, p = 2 P(X ≤ 2) = 158 / 4096."""
    cell, baseline = (np.zeros((1, 30), dtype=bool) for _ in range(2))
    cell[0, :10], baseline[0, 10:12], cell[0, 20:], baseline[0, 20:] = True, True, True, True
    changes = mcnemar(cell, baseline)
    assert (changes.gained, changes.lost) == (10, 2)
    assert changes.p == pytest.approx(158 / 4096)
    assert mcnemar(cell, cell).p == 1.0
    tied = np.array([[True, True], [False, True]])
    assert mcnemar(tied, np.zeros((2, 2), dtype=bool)).gained == 1, "an image on which the seeds tie is left out"


def test_the_images_on_which_cells_differ_most_come_first() -> None:
    a, b = np.array([[1, 1, 0, 1], [1, 1, 0, 0]], dtype=bool), np.array([[1, 0, 0, 1]], dtype=bool)
    images = differing({"a": a, "b": b})
    assert images["image"].tolist() == [1, 3]
    assert images["a"].tolist() == [1.0, 0.5] and images["b"].tolist() == [0.0, 1.0]
