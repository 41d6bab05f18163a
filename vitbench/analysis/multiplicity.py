"""Many comparisons in one report: Holm's correction, and the fewest seeds with which a verdict is possible.

Imports nothing but the standard library, since `vitbench plan` prints what the planned seeds can show.
"""

import itertools
import math
from collections.abc import Callable, Sequence

ALPHA = 0.05  # Largest probability of any false "better" or "worse" in a report


def holm(
    p_values: Sequence[float], weights: Sequence[float] | None = None, *,
    stayed: float = 0.0, times: Callable[[float], float] = float,
) -> list[float]:  # fmt: skip
    """Holm's adjusted p-values: an adjusted p of at most α rejects, and P(any false rejection in the table) ≤ α.

    In ascending order of p / w: adjusted p(i) = max over j ≤ i of min(1, p(j) / w(j) · (w(j) + … + w(m))), with equal
    weights (m - j + 1) p(j). Nothing is assumed about how the comparisons depend on one another; that they share a
    baseline does no harm, and weights do none that are chosen before anyone has looked.

    Args:
        p_values: (m,), one for each comparison of the table, in [0, 1].
        weights: (m,), above 0: of twice the weight a p may be twice as large; None: all are equal.
        stayed: weight of hypotheses that have no p here, and are not rejected.
        times: how often a p counts where its hypothesis has one part in so many of α; so many times, unless the level
            of a look is another than that. Infinite where nothing can be rejected.

    Returns:
        (m,), in the order given.

    Source: Holm 1979, A Simple Sequentially Rejective Multiple Test Procedure; with weights: Benjamini and
        Hochberg 1997, Multiple Hypotheses Testing with Weights.

    Raises:
        ValueError: where one is not in [0, 1].
    """
    if bad := [p for p in p_values if not 0 <= p <= 1]:
        raise ValueError(f"no p-values: {', '.join(map(str, bad))}")
    m = len(p_values)
    weighed = [1.0] * m if weights is None else weights
    descending = sorted(range(m), key=lambda i: -p_values[i] / weighed[i])
    left = itertools.accumulate(weighed[i] for i in descending)
    counted = [times((rest + stayed) / weighed[i]) for i, rest in zip(descending, left, strict=True)]
    steps = [
        min(1.0, each * p_values[i]) if each < math.inf else 1.0 for each, i in zip(counted, descending, strict=True)
    ]
    adjusted = dict(zip(reversed(descending), itertools.accumulate(reversed(steps), max), strict=True))
    return [adjusted[i] for i in range(m)]


STATED, ASKED, UNEXPECTED = 2.0, 1.0, 0.25
"""Weights: of what the suite expects, of what else a report asks, and of a difference where equality is expected."""


def weight(expected: str | None, *, equivalent: bool = False, equality: bool = False) -> float:
    """Weight of a hypothesis in Holm's correction. The plan alone decides it, before there are results.

    Args:
        expected: "higher", "lower" or "equal", where a hypothesis of the suite is about it.
        equivalent: whether equivalent implementations are compared.
        equality: whether it is shown to be no larger than the margin, and not that it is none.
    """
    if expected is not None:
        return STATED if (expected == "equal") == equality else UNEXPECTED
    return UNEXPECTED if equivalent and not equality else ASKED


FEWEST = 4  # Runs in an arm below which no difference is tested


def smallest_p(n: int, *, paired: bool = False, permutation: bool = False) -> float:
    """The smallest p that arms of n runs can reach, and 1 of fewer than four.

    2 / C(2n, n) of independent arms, by the permutation test that is a part of their rule; 0 of paired differences, by
    Student's t, and 2 / 2ⁿ where the sign-flip test is to decide on these.
    """
    if n < FEWEST:
        return 1.0
    if paired:
        return math.ldexp(2.0, -n) if permutation else 0.0
    return 2 / math.comb(2 * n, n)


def reachable(
    n: int, comparisons: float, alpha: float = ALPHA, *, paired: bool = False, permutation: bool = False
) -> bool:
    """Whether n seeds can give a verdict in the worst case, Holm's first step: comparisons · smallest p ≤ α."""
    return comparisons * smallest_p(n, paired=paired, permutation=permutation) <= alpha


def seeds_for(comparisons: float, *, paired: bool = False, permutation: bool = False) -> int:
    """The fewest seeds with which a report of so many comparisons can give a verdict.

    For 1, 5, 10, 20, 50, 100 comparisons of independent arms: 4, 5, 6, 6, 7, 8.
    """
    return next(n for n in itertools.count(1) if reachable(n, comparisons, paired=paired, permutation=permutation))
