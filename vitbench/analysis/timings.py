"""Statistics of a timing's samples: interval, ratio to the baseline, whether the control held, whether it is stable.

All statistics are medians, so that a sample from a moment at which the machine did something else moves little; none is
left out. Samples come in processes, and a process as a whole may be lucky or unlucky (where its memory lies, which core
it got): so intervals are those of a two-level bootstrap, which draws processes, then rounds within each. Of three
processes all may be lucky in the same direction, one time in four, and no bootstrap sees beyond them: so an interval
reaches at the least as far as Student's t over the processes' medians does. Of a single process it holds the luck of
its rounds alone.
Source: Davison and Hinkley 1997, Bootstrap Methods and their Application, §3.8 (hierarchical data); Kalibera and Jones
2013, Rigorous Benchmarking in Reasonable Time, §9 (t over the highest level that is repeated).
"""

import functools
import hashlib
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import special  # scipy.stats takes half a second to import

from vitbench.analysis.paired import Interval
from vitbench.store import TimeValues

DRAWS = 2000
LEVEL = 0.95  # Confidence of the intervals
FENCE = 3.0  # Interquartile ranges beyond the quartiles at which a sample is an outlier (Tukey's outer fence)
UNSTEADY = 0.10
"""Largest relative half-width of an interval that passes for a stable timing: of the ratio to the baseline, since what
moved both moved no ratio, and of the latency where nothing was timed beside it."""

WIDE = "the 95 % interval of its "
BESIDE = "other processes ran beside it"  # How the reason begins of a timing whose interval is too wide
FEW = 6  # Samples, over all processes, below which there is no interval: it would be a guess
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Measurement(Interval):
    """An estimate with its 95 % interval; the ends are not numbers where there are too few samples for one."""

    estimate: float

    @property
    def half_width(self) -> float:
        """Half the width of the interval, as a fraction of the estimate."""
        return (self.high - self.low) / 2 / self.estimate if self.estimate else float("inf")


def latency(values: TimeValues) -> Measurement:
    """Median of the processes' median latencies, milliseconds."""
    middle = float(np.median([np.median(process.latencies_ms) for process in values.processes]))
    return replace(_measured(_logs(values), "latency"), estimate=middle)


def ratio(values: TimeValues) -> Measurement | None:
    """Latency over that of the baseline, round by round: above 1 is slower. None where nothing was timed beside it.

    The median over processes of the median over rounds of log(latency / baseline's latency in the same round), as a
    ratio: what a round's two share (the machine's clock, other work on it) falls out.
    """
    return _ratio(_log_ratios(values))


def chance(values: TimeValues) -> float | None:
    """Two-sided p of a ratio to the baseline of 1; None where nothing was timed beside it, or too little for a guess.

    The largest of what the ratio's interval is made of: Student's t over the processes' medians (of several); the share
    of the bootstrap's draws beyond 1, doubled; and, as 2,000 draws tell nothing below a thousandth, that of a normal
    distribution with their deviation. So at 5 % it rejects no ratio whose 95 % interval includes 1, and tables of many
    comparisons can correct for their number.
    """
    logs = _log_ratios(values)
    drawn = _draws(logs, "ratio")
    if not len(drawn):
        return None
    estimate = _middle(logs)
    beyond = min(float((drawn <= 0).mean()), float((drawn >= 0).mean()))
    error = _error(logs)
    of_processes = 0.0 if error is None else 2 * float(special.stdtr(len(logs) - 1, -_over(abs(estimate), error)))
    of_draws = 2 * float(special.ndtr(-_over(abs(estimate), float(drawn.std()))))
    return min(1.0, max(of_processes, of_draws, 2 * beyond))


def control(values: TimeValues) -> Measurement | None:
    """The baseline's second instance over its first: 1, but for what a difference of nothing looks like here."""
    return _ratio([_log(p.control_ms) - _log(p.baseline_ms) for p in values.processes if p.baseline_ms])


def log_speed(latencies_ms: Sequence[float], baseline_ms: Sequence[float]) -> float | None:
    """Logarithm of one process's speed over that of the baseline beside it, the median over rounds; None of none."""
    return float(np.median(_log(baseline_ms) - _log(latencies_ms))) if latencies_ms and baseline_ms else None


def ratio_between(one: TimeValues, other: TimeValues) -> Measurement:
    """Latency of one timing over that of another that was not made beside it, such as of an earlier study.

    Each is drawn by itself, so the interval holds the noise of both, but not what changed around them.
    """
    a, b = _logs(one), _logs(other)
    a_drawn, b_drawn = _draws(a, "one"), _draws(b, "other")
    drawn = a_drawn - b_drawn if len(a_drawn) and len(b_drawn) else np.empty(0)
    return _exponential(_middle(a) - _middle(b), drawn, math.hypot(_reach(a), _reach(b)))


def outliers(values: TimeValues) -> int:
    """Samples beyond Tukey's outer fences of their process; they are counted, and kept."""
    number = 0
    for process in values.processes:
        samples = np.array(process.latencies_ms)
        low, high = np.quantile(samples, [0.25, 0.75])
        reach = FENCE * (high - low)
        number += int(((samples < low - reach) | (samples > high + reach)).sum())
    return number


def instability(values: TimeValues) -> tuple[str, ...]:
    """Why a timing is not to be relied on, in words; empty where nothing speaks against it."""
    reasons = []
    check, beside = control(values), ratio(values)
    if math.isnan(latency(values).low):
        reasons.append(f"fewer than {FEW} samples give no interval")
    elif check is not None and not check.holds(1.0):
        reasons.append(f"the A/A control is {check.estimate:.3f} ({check.low:.3f} to {check.high:.3f}), and not 1")
    # The baseline's own timing is judged by its control.
    if beside is not None and beside.half_width:
        what, width = "speed", beside.half_width
    else:
        what, width = ("A/A control", check.half_width) if check else ("latency", latency(values).half_width)
    if width > UNSTEADY:
        reasons.append(f"{WIDE}{what} is ±{100 * width:.0f} %")
    foreign = max((p.foreign_threads or 0.0 for p in values.processes), default=0.0)
    if reasons and foreign >= 1.0:  # the cause; where the ratio holds against it, it is no reason
        reasons.append(BESIDE)
    if held := sorted({p.throttled for p in values.processes if p.throttled}):
        reasons.append(f"the clock was held back: {', '.join(held)}")
    return (*reasons, *impossible(values))


def impossible(values: TimeValues) -> tuple[str, ...]:
    """Rates above what the device was seen to do: a sign of an error in the timing or in the counting."""
    rates = rate(values)
    return tuple(
        f"{name} per second are {fraction:.2f} times the measured ceiling"
        for name, fraction in (("operations", rates.of_flops), ("bytes", rates.of_bytes))
        if fraction is not None and fraction > 1.0
    )


@dataclass(frozen=True)
class Rates:
    """Rates that a timing achieved, and as a fraction of the ceilings measured on its device."""

    flops_per_s: float | None = None  # operations of the function over the latency
    bytes_per_s: float | None = None  # compulsory traffic over the latency
    of_flops: float | None = None  # the first over the ceiling of a matrix product
    of_bytes: float | None = None  # the second over the ceiling of a copy
    intensity: float | None = None  # operations per byte
    # the time that the slower of the two ceilings allows over the latency (Williams et al. 2009)
    of_roofline: float | None = None


def rate(values: TimeValues) -> Rates:
    """Achieved rates; what was not counted or not measured is None."""
    seconds = values.latency_ms_p50 / 1000
    if not seconds or values.flops is None or not values.bytes:
        return Rates()
    flops, moved = values.flops / seconds, values.bytes / seconds
    if values.ceilings is None or not (values.ceilings.flops_per_s and values.ceilings.bytes_per_s):
        return Rates(flops, moved, intensity=values.flops / values.bytes)
    of_flops, of_bytes = flops / values.ceilings.flops_per_s, moved / values.ceilings.bytes_per_s
    return Rates(flops, moved, of_flops, of_bytes, values.flops / values.bytes, max(of_flops, of_bytes))


def _log(samples: Sequence[float]) -> Floats:
    return np.asarray(np.log(np.maximum(samples, 1e-9)))


def _logs(values: TimeValues) -> list[Floats]:
    return [_log(process.latencies_ms) for process in values.processes]


def _log_ratios(values: TimeValues) -> list[Floats]:
    return [_log(p.latencies_ms) - _log(p.baseline_ms) for p in values.processes if p.baseline_ms]


def _middle(processes: Sequence[Floats]) -> float:
    return float(np.median([np.median(p) for p in processes]))


def _ratio(logs: Sequence[Floats]) -> Measurement | None:
    return _measured(logs, "ratio") if logs else None


def _measured(logs: Sequence[Floats], name: str) -> Measurement:
    return _exponential(_middle(logs), _draws(logs, name), _reach(logs))


def _reach(processes: Sequence[Floats]) -> float:
    """Half the t interval of the median of the processes' medians; 0 of one process, of whose luck nothing is known."""
    error = _error(processes)
    return 0.0 if error is None else float(special.stdtrit(len(processes) - 1, (1 + LEVEL) / 2)) * error


def _error(processes: Sequence[Floats]) -> float | None:
    """Standard error of the median of the processes' medians; None of one process.

    s / √n, times √(π / 2) since a median varies by so much more than a mean.
    """
    medians = [float(np.median(p)) for p in processes]
    if len(medians) < 2:
        return None
    return statistics.stdev(medians) / math.sqrt(len(medians)) * math.sqrt(math.pi / 2)


def _over(distance: float, error: float) -> float:
    """Errors that a distance is long; of no distance none, and of no error beyond any number."""
    return distance / error if error else math.inf if distance else 0.0


def _exponential(estimate: float, drawn: Floats, reach: float) -> Measurement:
    """The hull of the bootstrap's interval and of estimate ± reach, logarithms all, as ratios or milliseconds."""
    if not len(drawn):
        return Measurement(math.nan, math.nan, math.exp(estimate))
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    low, high = min(float(low), estimate - reach), max(float(high), estimate + reach)
    return Measurement(math.exp(low), math.exp(high), math.exp(estimate))


def _draws(processes: Sequence[Floats], name: str) -> Floats:
    """The statistic over resamples: processes first, then rounds within each. Empty where there are too few samples.

    Seeded by the samples themselves, but for the digits in which logarithms differ from one processor to another.
    """
    if sum(map(len, processes)) < FEW:
        return np.empty(0)
    whole = hashlib.sha256(name.encode())
    for process in processes:
        whole.update(process.round(9).tobytes())
    return _cached(whole.hexdigest(), tuple(p.tobytes() for p in processes))


@functools.lru_cache(maxsize=4096)
def _cached(seed: str, processes: tuple[bytes, ...]) -> Floats:
    chance = np.random.default_rng(int(seed[:16], 16))
    arrays = [np.frombuffer(p, dtype=np.float64) for p in processes]
    medians = np.stack(
        [np.median(a[chance.integers(len(a), size=(DRAWS, len(a)))], axis=1) for a in arrays for _ in arrays]
    ).reshape(len(arrays), len(arrays), DRAWS)  # process × place among those drawn × draw
    chosen = chance.integers(len(arrays), size=(len(arrays), DRAWS))
    places = np.arange(len(arrays))[:, None]
    drawn: Floats = np.median(medians[chosen, places, np.arange(DRAWS)[None, :]], axis=0)
    return drawn
