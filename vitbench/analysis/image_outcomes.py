"""Outcomes by test image: the variance from the choice of test images, and the images on which cells differ."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special  # scipy.stats takes half a second to import

from vitbench.analysis.differences import of_sources
from vitbench.analysis.paired import CONFIDENCE

Right = npt.NDArray[np.bool_]  # (S, n): whether each of n test images was classified correctly with each of S seeds
LEAST_SEEDS = 2


def of_bits(bits: str, images: int) -> npt.NDArray[np.bool_]:
    """(n,) of a record's ``test_right``.

    Raises:
        ValueError: there are fewer bits than images.
    """
    right = np.unpackbits(np.frombuffer(base64.b64decode(bits), dtype=np.uint8))
    if len(right) < images:
        raise ValueError(f"{len(right)} bits for {images} images")
    return right[:images].astype(bool)


@dataclass(frozen=True)
class TwoSources:
    """A difference of two cells' mean test accuracies, and what it owes to seeds and to the choice of test images."""

    delta: float  # percentage points
    low: float  # 95 % interval of both sources together: of other seeds and other images of the same kind
    high: float
    seeds: float  # standard error from the seeds, percentage points
    images: float  # standard error from the test images, percentage points

    @property
    def share_of_images(self) -> float:
        """The images' part of the variance, 0 to 1; 0 where there is no variance at all."""
        whole = self.seeds**2 + self.images**2
        return self.images**2 / whole if whole else 0.0


def two_sources(cell: Right, baseline: Right) -> TwoSources | None:
    """``cell`` less ``baseline``, both on the same images; None where either has fewer than two seeds.

    Seeds and images are crossed random effects. Over seeds, accuracies vary with the images held fixed. Over images
    the cells differ by their shares of right seeds, whose variance has in it what few seeds add; that is taken away.
    Degrees of freedom are Satterthwaite's.

    Source: Bouthillier et al. 2021, arXiv 2103.03098, for the two sources; Owen 2007, The pigeonhole bootstrap, for
    crossed effects.
    """
    if min(len(cell), len(baseline)) < LEAST_SEEDS:
        return None
    a, b = (100.0 * each.astype(np.float64) for each in (cell, baseline))
    of_seeds = [each.mean(axis=1).var(ddof=1) / len(each) for each in (a, b)]
    differences = a.mean(axis=0) - b.mean(axis=0)
    by_few_seeds = sum(each.var(axis=0, ddof=1).mean() / len(each) for each in (a, b))
    n = a.shape[1]
    of_images = max(differences.var(ddof=1) - by_few_seeds, 0.0) / n
    parts = [(of_seeds[0], len(a) - 1), (of_seeds[1], len(b) - 1), (of_images, n - 1)]
    delta, half = float(differences.mean()), float(of_sources(differences.mean(), parts).reach(CONFIDENCE))
    return TwoSources(delta, delta - half, delta + half, float(sum(of_seeds)) ** 0.5, float(of_images) ** 0.5)


@dataclass(frozen=True)
class Discordant:
    """Test images that one of two cells tells right and the other wrong, each by the majority of its seeds."""

    gained: int  # right by the cell alone
    lost: int  # right by the baseline alone
    p: float  # that so uneven a split comes by chance, two-sided and exact


def mcnemar(cell: Right, baseline: Right) -> Discordant:
    """McNemar's exact test of two cells on the same images. An image on which the seeds of a cell tie is left out.

    Source: McNemar 1947; Dietterich 1998, Approximate Statistical Tests, §3.1.
    """
    shares = [each.mean(axis=0) for each in (cell, baseline)]
    decided = (shares[0] != 0.5) & (shares[1] != 0.5)
    by_cell, by_baseline = (share[decided] > 0.5 for share in shares)
    gained, lost = int((by_cell & ~by_baseline).sum()), int((by_baseline & ~by_cell).sum())
    # Each image is as likely gained as lost, so that both tails are alike.
    p = min(1.0, 2.0 * float(special.bdtr(min(gained, lost), gained + lost, 0.5)))
    return Discordant(gained, lost, p)


def differing(of_cells: Mapping[str, Right]) -> pd.DataFrame:
    """The test images on which cells differ, those on which they differ most first.

    Returns:
        ``image``, its place in the split, and a column for each cell: the share of its seeds
        that classified the image correctly.
    """
    shares = pd.DataFrame({cell: right.mean(axis=0) for cell, right in of_cells.items()})
    spread = shares.max(axis=1) - shares.min(axis=1)
    order = spread[spread > 0].sort_values(ascending=False, kind="stable").index
    return shares.loc[order].rename_axis("image").reset_index()
