"""The simulations behind the rule of the verdicts: tables of docs/statistics-notes.md, in Markdown.

    python -m tools.simulate_rules [STUDIES]

First the candidates for the test of two arms, then those for the correction over a whole report, then seeds that are
added where no difference was found.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import click
import numpy as np
import numpy.typing as npt

from vitbench.analysis.differences import permutation_p, rule, unpaired
from vitbench.analysis.multiplicity import ALPHA, holm, weight

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Noise = Callable[[np.random.Generator, tuple[int, ...]], Floats]  # Of mean 0 and variance 1


def normal(chance: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """As the noise of most runs."""
    return chance.standard_normal(shape)


def exponential(chance: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """With a long left tail, as a run that now and then goes wrong."""
    return 1 - chance.exponential(size=shape)


def lognormal(chance: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """With a longer one."""
    return (math.exp(0.5) - chance.lognormal(size=shape)) / math.sqrt((math.e - 1) * math.e)


def silent(chance: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """No noise at all."""
    return np.zeros(shape)


def arms(
    studies: int, comparisons: int, n: int, variant: Noise, baseline: Noise, *, times: float = 1.0, effect: float = 0.0
) -> tuple[Floats, Floats]:
    """Variants and their baselines, (studies, comparisons, n); the effect in deviations of a difference of two runs."""
    chance = np.random.default_rng([studies, comparisons, n])
    variants = times * variant(chance, (studies, comparisons, n)) + effect * math.sqrt(2)
    return variants, np.broadcast_to(baseline(chance, (studies, 1, n)), variants.shape)


def rejected(p: Floats) -> Bools:
    """(studies, comparisons), what Holm's correction rejects at 5 %."""
    comparisons = p.shape[1]
    order = np.argsort(p, axis=1)
    steps = np.take_along_axis(p, order, axis=1) * np.arange(comparisons, 0, -1)
    rejections = np.zeros(p.shape, dtype=bool)
    np.put_along_axis(rejections, order, np.maximum.accumulate(steps, axis=1) <= ALPHA, axis=1)
    return rejections


def by_rule(variants: Floats, baselines: Floats) -> Floats:
    """The p that verdicts go by, of many at once."""
    n = variants.shape[-1]
    return rule(variants.reshape(-1, n), baselines.reshape(-1, n))[0].reshape(variants.shape[:-1])


def by_sign_flip(variants: Floats, baselines: Floats) -> Floats:
    """The p of the test that was the rule before, of many at once."""
    deltas, n = variants - baselines, variants.shape[-1]
    signs = 1.0 - 2.0 * ((np.arange(2 ** (n - 1))[:, None] >> np.arange(n)) & 1)
    values = []
    for chunk in np.array_split(deltas.reshape(-1, n), max(1, deltas.size // n // 2000)):
        sums, observed = np.abs(chunk @ signs.T), np.abs(chunk.sum(axis=1))
        values.append((sums >= observed[:, None] * (1 - 1e-12)).mean(axis=1))
    return np.concatenate(values).reshape(deltas.shape[:-1])


def candidates(variants: Floats, baselines: Floats) -> dict[str, Floats]:
    """Rule → p, (studies, comparisons)."""
    n, shape = variants.shape[-1], variants.shape[:-1]
    both = variants.reshape(-1, n), baselines.reshape(-1, n)
    welch, permutation = unpaired(*both).p, permutation_p(*both)
    spreads = np.sort([arm.std(axis=1, ddof=1) for arm in both], axis=0)
    rules = {"Welch": welch, "permutation": permutation, "larger of both": np.maximum(welch, permutation)}
    for most in (3, 2):
        guarded = np.where(spreads[1] > most * spreads[0], 10 * welch, welch)
        rules[f"× 10 if r > {most}"] = np.maximum(guarded, permutation)
    rules["shipped"] = rule(*both)[0]
    return {name: p.reshape(shape) for name, p in rules.items()}


SIZES = ((5, 6, 8), (10, 6, 9), (20, 7, 10))  # (comparisons, seeds, seeds that the sign-flip test took)
ROWS: Mapping[str, tuple[Noise, Noise, float, float]] = {
    "exponential, twice the spread": (exponential, normal, 2.0, 0.0),
    "lognormal, twice the spread": (lognormal, normal, 2.0, 0.0),
    "exponential, 20 times the spread": (exponential, normal, 20.0, 0.0),
    "exponential, baseline without noise": (exponential, silent, 1.0, 0.0),
    "power, normal noise": (normal, normal, 1.0, 2.0),
}
"""What differs between arms → (variants' noise, baseline's, times the spread, effect)."""


def tests(studies: int) -> list[list[str]]:
    """False positives in a report, and power, of each candidate for the test of two arms."""
    lines = []
    for comparisons, n, before in SIZES:
        for name, (variant, baseline, times, effect) in ROWS.items():
            given = {"times": times, "effect": effect}
            old = by_sign_flip(*arms(studies, comparisons, before, variant, baseline, **given))
            ps = {"sign-flip": old, **candidates(*arms(studies, comparisons, n, variant, baseline, **given))}
            rates = [rejected(p).mean() if effect else rejected(p).any(axis=1).mean() for p in ps.values()]
            lines.append([f"{comparisons}; {n} ({before})", name, *map(_rate, rates)])
    return [["m; n (sign-flip's n)", "variants", *ps], *lines]


@dataclass(frozen=True)
class Judgement:
    """A mean over some cells less that over others; an interaction's two sums count as such."""

    variant: Sequence[int]  # numbers of the cells
    baseline: Sequence[int]  # of the others
    family: int  # 0 of claims, 1 of effects and variants, 2 of interactions
    expected: str | None = None  # by a hypothesis of the suite
    equivalent: bool = False  # whether these are equivalent implementations


Report = tuple[Floats, list[Judgement], int]
"""Means of the cells, in deviations of the difference of two runs; hypotheses; seeds."""


def small_grid(effect: float) -> Report:
    """2 × 3 cells, a · 3 + b, with three claims: on the effect of a (which is one hypothesis with it) and, at a = 0, of
    both values of b, one of them of equality."""
    means = np.zeros(6)
    means[3:] += effect / math.sqrt(3)
    means[1] -= effect
    effects = [Judgement([b, 3 + b], [0, 3], 1) for b in (1, 2)]
    crossed = [Judgement([3 + b, 0], [3, b], 2) for b in (1, 2)]
    tested = [Judgement([3, 4, 5], [0, 1, 2], 0, "higher"), Judgement([1], [0], 0, "lower")]
    return means, [*tested, Judgement([2], [0], 0, "equal"), *effects, *crossed], 6


def planted(effect: float) -> Report:
    """4 tasks × 4 changes, task · 4 + change: 3 claims of a fall and 8 of equality, 3 effects, 9 interactions.

    Change 3 makes equivalent implementations of change 0.
    """
    means, fall = np.zeros(16), [(2, 1), (3, 1), (3, 2)]
    equal = [(task, change) for task in range(4) for change in (1, 2, 3) if (task, change) not in {*fall, (2, 2)}]
    for task, change in fall:
        means[4 * task + change] -= effect
    rows = [Judgement([4 * t + c], [4 * t], 0, "lower") for t, c in fall]
    rows += [Judgement([4 * t + c], [4 * t], 0, "equal", c == 3) for t, c in equal]
    rows += [Judgement(range(c, 16, 4), range(0, 16, 4), 1, None, c == 3) for c in (1, 2, 3)]
    rows += [Judgement([4 * t + c, 0], [4 * t, c], 2, None, c == 3) for t in (1, 2, 3) for c in (1, 2, 3)]
    return means, rows, 8


def variants(effect: float) -> Report:
    """Ten variants of one baseline; of the first four is claimed something, of two that they are equal, one wrongly."""
    means = np.zeros(11)
    means[[1, 2, 4, 5, 6, 7]] += effect
    tested = [Judgement([k + 1], [0], 0, expected) for k, expected in enumerate(("higher", "higher", "equal", "equal"))]
    return means, [*tested, *(Judgement([k], [0], 1) for k in range(5, 11))], 6


REPORTS: Mapping[str, Callable[[float], Report]] = {
    "2 × 3 grid": small_grid, "as `planted`": planted, "ten variants": variants,
}  # fmt: skip


def gate(p: Sequence[float], families: Sequence[int], truncation: float) -> list[bool]:
    """Truncated Holm, family after family (Dmitrienko and Tamhane 2011); 1: all of a family before the next."""
    level, rejections = ALPHA, [False] * len(p)
    for family in sorted(set(families)):
        members = sorted((i for i, each in enumerate(families) if each == family), key=lambda i: p[i])
        share = 1.0 if family == max(families) else truncation
        for rank, i in enumerate(members):
            if p[i] > (share / (len(members) - rank) + (1 - share) / len(members)) * level:
                break
            rejections[i] = True
        passed = sum(rejections[i] for i in members)
        level *= 1.0 if passed == len(members) else (1 - share) * passed / len(members)
    return rejections


def shipped(p: Sequence[float], rows: Sequence[Judgement]) -> list[bool]:
    """Holm with the weights of the verdicts."""
    return [each <= ALPHA for each in holm(p, [weight(row.expected, equivalent=row.equivalent) for row in rows])]


def _later(rows: Sequence[Judgement]) -> list[int]:
    """Families, with what is expected to be equal behind all others."""
    return [3 if row.expected == "equal" or row.equivalent else row.family for row in rows]


CORRECTIONS: Mapping[str, Callable[[Sequence[float], Sequence[Judgement]], list[bool]]] = {
    "one Holm": lambda p, rows: [each <= ALPHA for each in holm(p)],
    "serial gate": lambda p, rows: gate(p, [row.family for row in rows], 1.0),
    "truncated gate, .8": lambda p, rows: gate(p, [row.family for row in rows], 0.8),
    "truncated gate, .5": lambda p, rows: gate(p, [row.family for row in rows], 0.5),
    "truncated gate, .2": lambda p, rows: gate(p, [row.family for row in rows], 0.2),
    "truncated gate, .5, expected equality last": lambda p, rows: gate(p, _later(rows), 0.5),
    "weights (shipped)": shipped,
}


def simulated(report: Report, studies: int) -> tuple[Floats, Bools]:
    """p of each hypothesis by the shipped rule, (studies, hypotheses), and whether it is true that they differ."""
    means, rows, n = report
    chance = np.random.default_rng([studies, len(rows), n])
    runs = normal(chance, (studies, len(means), n)) + math.sqrt(2) * means[:, None]
    both = [np.stack([runs[:, list(getattr(row, arm))].mean(axis=1) for row in rows], axis=1)
            for arm in ("variant", "baseline")]  # fmt: skip
    apart = [means[list(row.variant)].mean() - means[list(row.baseline)].mean() for row in rows]
    return by_rule(both[0], both[1]), np.abs(apart) > 1e-9


def corrections(studies: int) -> list[list[str]]:
    """False positives in a whole report, and the power of each family of comparisons."""
    lines = []
    for name, made in REPORTS.items():
        for effect in (0.0, 2.0, 3.0):
            report = made(effect)
            p, true = simulated(report, studies)
            families = np.array([3 if row.expected == "equal" else row.family for row in report[1]])
            for called, correct in CORRECTIONS.items():
                rejections = np.array([correct(each, report[1]) for each in p.tolist()])
                wrong = rejections[:, ~true].any(axis=1).mean()
                parts = [rejections[:, true & (families == family)] for family in range(4)]
                power = [_rate(each.mean()) if each.shape[1] else "" for each in parts]
                lines.append([name, f"{effect:g} sd" if effect else "none", called, _rate(wrong), *power])
    return [["report", "effects", "correction", "false positives", "claims", "effects, variants", "interactions",
             "equality refuted"],
            *lines]  # fmt: skip


ADDED = ((5, 8), (8, 16), (5, 8, 12))
"""Seeds of a study, and with how many it went on, each time as long as nothing differed."""


def additions(studies: int) -> list[list[str]]:
    """False positives in a report of fixed seeds, and in the reports of one study to which seeds were added."""
    lines = []
    for seeds in ADDED:
        rates = []
        for comparisons in (1, 3, 10):
            runs = arms(studies, comparisons, seeds[-1], normal, normal)
            false = [rejected(by_rule(*(arm[..., :n] for arm in runs))).any(axis=1) for n in seeds]
            rates += [_rate(false[-1].mean()), _rate(np.any(false, axis=0).mean())]
        lines.append([", ".join(map(str, seeds)), *rates])
    return [["seeds", *(f"m = {m}, {how}" for m in (1, 3, 10) for how in ("fixed", "added"))], *lines]


def _rate(rate: float) -> str:
    return f"{rate:.3f}".removeprefix("0")


def main(studies: int) -> None:
    """Print the tables."""
    tables = ((tests(studies), 2), (corrections(max(2000, studies // 4)), 3), (additions(studies // 2), 1))
    for (header, *lines), words in tables:
        click.echo(f"| {' | '.join(header)} |\n| {' | '.join(['---'] * words + ['---:'] * (len(header) - words))} |")
        click.echo("\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n")


if __name__ == "__main__":
    import sys

    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8000)
