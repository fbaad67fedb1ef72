"""The largest `quota` of very many independent points, without drawing the points.

Points come in groups; within a group they are i.i.d. Only the number of points of each group that
lie in an interval is ever drawn, by binomial splitting: cut the undecided interval in two, draw
how many undecided points of each group fall above the cut, and keep the half that still contains
the quota's edge. Splitting near the edge leaves about sqrt(N) of N undecided points after two
cuts, so the cost does not depend on N. The last few points are drawn one by one.

The law is exact whatever the split points: they only decide how fast it goes.

NumPy's binomial draws are not good enough for this: they compute 1 - p in double precision, which
loses success probabilities below about 1e-16 times the count, and with them the far tails that a
privacy proof relies on. `binomial` takes the two masses, success and failure, each accurate in
relative terms, and works with the smaller one: by inversion when few successes are expected,
otherwise by Hoermann's transformed rejection (BTRS, 1993) with the probability ratio in Loader's
saddle-point form. So its law is right to the last bits, for counts up to 1e15.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hushcov._arrays import BoolArray, FloatArray, IndexArray, IntArray
from hushcov._compiled import compiled, run_in_chunks
from hushcov.exceptions import CapacityError

FEW_POINTS = 256  # undecided points that are drawn one by one
_BINS = 512  # representatives on which a split point is searched
_TIED = (
    "more than {:,} tests are tied in double precision at the selection edge: the selection noise "
    "is too small to be resolved. Use a larger target_error."
)

INVERSION_MEAN = 10.0  # below this mean BTRS is not valid; inversion takes at most this many steps
_LONGEST_INVERSION = 150  # P(Poisson(10) > 150) < 1e-110
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)

_NEGLIGIBLE = 1e-50

# Stirling's error log(k!) - log(sqrt(2 pi k) (k/e)^k) for k = 1..15; 0 is never looked up.
_STIRLING_ERROR = np.array(
    [
        0.0,
        0.0810614667953272582,
        0.0413406959554092941,
        0.0276779256849983391,
        0.0207906721037650931,
        0.0166446911898211922,
        0.0138761288230707480,
        0.0118967099458917701,
        0.0104112652619720965,
        0.00925546218271273292,
        0.00833056343336287126,
        0.00757367548795184079,
        0.00694284010720952987,
        0.00640899418800420707,
        0.00595137011275884774,
        0.00555473355196280137,
    ]
)


class PointFamily(Protocol):
    """The law of the points. Groups should be ordered so that neighbours are alike."""

    @property
    def support(self) -> tuple[float, float]:
        """A finite interval that holds every point, up to a probability below 1e-25."""

    def masses(
        self, groups: IntArray, lo: float, split: float, hi: float
    ) -> tuple[FloatArray, FloatArray]:
        """Probabilities of (split, hi] and (lo, split] for one point of each group."""

    def draw(
        self, generator: np.random.Generator, groups: IntArray, lo: float, hi: float
    ) -> tuple[FloatArray, FloatArray]:
        """One point in the finite (lo, hi] for each listed group: a rank key, and its making."""


@dataclass(frozen=True)
class Band:
    """Selected points known only to lie in (lo, hi]: `counts` of them in each of `groups`."""

    lo: float
    hi: float
    groups: IntArray
    counts: IntArray


@dataclass(frozen=True)
class Selection:
    """The largest points: counts in bands, and the few that were drawn one by one."""

    bands: tuple[Band, ...]
    single_groups: IntArray
    single_details: FloatArray


def select_largest(
    generator: np.random.Generator,
    counts: IntArray,
    quota: int,
    family: PointFamily,
    *,
    most_single: int = FEW_POINTS,
) -> Selection:
    """Draw which points are the `quota` largest of sum(counts), group by group.

    No more than `most_single` points are drawn one by one. Where doubles cannot tell so many apart
    at the edge, nothing is drawn of them and `CapacityError` is raised.
    """
    groups = np.flatnonzero(counts)
    counts = counts[groups]
    lo, hi = -math.inf, math.inf
    bands: list[Band] = []
    side = 1 if 2 * quota <= int(counts.sum()) else -1
    while True:
        undecided = int(counts.sum())
        if quota == 0:
            return Selection(tuple(bands), np.empty(0, np.int64), np.empty(0))
        if quota == undecided:
            bands.append(Band(lo, hi, groups, counts))
            return Selection(tuple(bands), np.empty(0, np.int64), np.empty(0))
        cut = None
        if undecided > FEW_POINTS:
            cut = _cut(groups, counts, quota, side, lo, hi, family)
        if cut is None:
            if undecided > most_single:
                raise CapacityError(_TIED.format(most_single))
            points, details = _finish(generator, groups, counts, quota, lo, hi, family)
            return Selection(tuple(bands), points, details)
        split, above, below = cut
        upper = binomial(generator, counts, above, below)
        taken = int(upper.sum())
        if taken >= quota:
            lo, counts = split, upper
        else:
            chosen = upper > 0
            bands.append(Band(split, hi, groups[chosen], upper[chosen]))
            quota -= taken
            hi, counts = split, counts - upper
        left = counts > 0
        groups, counts = groups[left], counts[left]
        side = -side


def _cut(
    groups: IntArray,
    counts: IntArray,
    quota: int,
    side: int,
    lo: float,
    hi: float,
    family: PointFamily,
) -> tuple[float, FloatArray, FloatArray] | None:
    """Cut where about `quota` undecided points lie above, give or take three deviations.

    The point is searched on a few representatives, and once more if the expectation over all
    groups shows that they missed by more. Returns the point and the masses of every group above
    and below it, or None when doubles cannot split the interval.
    """
    undecided = int(counts.sum())
    deviation = math.sqrt(quota * (undecided - quota) / undecided)
    wanted = quota + 3 * side * deviation
    starts = np.unique(np.linspace(0, len(groups), min(_BINS, len(groups)) + 1).astype(np.int64))
    weights = np.add.reduceat(counts, starts[:-1]).astype(np.float64)
    middles = groups[(starts[:-1] + starts[1:]) // 2]
    target = wanted
    for attempt in range(2):
        split = _search(middles, weights, target, deviation, lo, hi, family)
        if not lo < split < hi:
            return None
        above, below = family.masses(groups, lo, split, hi)
        expected = float(counts @ _share(above, below))
        if attempt == 1 or abs(expected - wanted) <= 2 * deviation + 0.01 * undecided:
            break
        target += wanted - expected
    return split, above, below


def _search(
    groups: IntArray,
    weights: FloatArray,
    target: float,
    deviation: float,
    lo: float,
    hi: float,
    family: PointFamily,
) -> float:
    """Bisect for the point above which the weighted groups expect `target` points."""
    target = min(max(target, 0.5), float(weights.sum()) - 0.5)
    support = family.support
    low, high = max(lo, support[0]), min(hi, support[1])
    while True:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            return middle
        excess = float(weights @ _share(*family.masses(groups, lo, middle, hi))) - target
        if abs(excess) <= 0.1 * deviation:
            return middle
        low, high = (middle, high) if excess > 0 else (low, middle)


def _share(above: FloatArray, below: FloatArray) -> FloatArray:
    total = above + below
    return np.divide(above, total, out=np.full_like(above, 0.5), where=total > 0)


def _finish(
    generator: np.random.Generator,
    groups: IntArray,
    counts: IntArray,
    quota: int,
    lo: float,
    hi: float,
    family: PointFamily,
) -> tuple[IntArray, FloatArray]:
    """Draw the undecided points themselves and keep the `quota` largest."""
    points = np.repeat(groups, counts)
    low, high = family.support
    keys, details = family.draw(generator, points, max(lo, low), min(hi, high))
    largest = np.argpartition(keys, len(keys) - quota)[len(keys) - quota :]
    return points[largest], details[largest]


def binomial(
    generator: np.random.Generator,
    counts: IntArray,
    success: FloatArray,
    failure: FloatArray,
) -> IntArray:
    """Draw Binomial(counts, success / (success + failure)) elementwise.

    `success` and `failure` are non-negative masses; they need not add up to one. Where both
    are zero the draw is zero.
    """
    drawn = np.zeros(len(counts), dtype=np.int64)
    pending = np.flatnonzero((counts > 0) & (success > 0))
    while len(pending):
        uniforms = generator.random((2, len(pending)))
        accepted = np.empty(len(pending), dtype=np.bool_)
        run_in_chunks(
            _attempt, len(pending), pending, counts, success, failure, uniforms, drawn, accepted
        )
        pending = pending[~accepted]
    return drawn


@compiled
def _attempt(
    start: int,
    stop: int,
    pending: IndexArray,
    counts: IntArray,
    success: FloatArray,
    failure: FloatArray,
    uniforms: FloatArray,
    drawn: IntArray,
    accepted: BoolArray,
) -> None:
    for position in range(start, stop):
        entry = pending[position]
        n = counts[entry]
        total = success[entry] + failure[entry]
        flipped = success[entry] > failure[entry]
        p = (failure[entry] if flipped else success[entry]) / total
        if n * p < INVERSION_MEAN:
            k = _by_inversion(n, p, uniforms[0, position], uniforms[1, position])
        else:
            k = _by_rejection(n, p, uniforms[0, position], uniforms[1, position])
        accepted[position] = k >= 0
        drawn[entry] = n - k if flipped else k


@compiled
def _by_inversion(n: int, p: float, first: float, second: float) -> int:
    """The largest k whose upper tail P(X >= k) passes a uniform of 106 bits.

    Tails are summed from the far end, so that rare outcomes keep their relative probability.
    """
    uniform = first + second * 2.0**-53
    log_zero = n * math.log1p(-p)
    if uniform >= -math.expm1(log_zero):
        return 0
    odds, term, k = p / (1.0 - p), math.exp(log_zero), 0
    while k < n and k < _LONGEST_INVERSION and (k < n * p or term > _NEGLIGIBLE):
        k += 1
        term *= (n - k + 1) / k * odds
    tail = term
    while tail <= uniform and k > 1:
        term *= k / ((n - k + 1) * odds)
        k -= 1
        tail += term
    return k


@compiled
def _by_rejection(n: int, p: float, first: float, second: float) -> int:
    """One BTRS attempt; -1 when the proposal is rejected."""
    spread = math.sqrt(n * p * (1.0 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    u = first - 0.5
    margin = 0.5 - abs(u)
    if margin <= 0.0:
        return -1
    k = math.floor((2.0 * a / margin + b) * u + n * p + 0.5)
    if margin >= 0.07 and second <= 0.92 - 4.2 / b:
        return int(k)
    if k < 0 or k > n or second <= 0.0:
        return -1
    envelope = (2.83 + 5.1 / b) * spread / (a / (margin * margin) + b)
    mode = math.floor((n + 1) * p)
    if math.log(second * envelope) <= _log_weight(n, p, k) - _log_weight(n, p, mode):
        return int(k)
    return -1


@compiled
def _log_weight(n: int, p: float, k: float) -> float:
    """Log of the probability of k, up to a constant shared by all k (Loader 2000)."""
    if k == 0:
        return n * math.log1p(-p) + 0.5 * math.log(n) - _stirling_error(n) + _HALF_LOG_TWO_PI
    if k == n:
        return n * math.log(p) + 0.5 * math.log(n) - _stirling_error(n) + _HALF_LOG_TWO_PI
    deviation = k - n * p
    return (
        -_stirling_error(k)
        - _stirling_error(n - k)
        - _deviance(n * p, deviation)
        - _deviance(n * (1.0 - p), -deviation)
        + 0.5 * math.log(n / k)
        + 0.5 * math.log(n / (n - k))
    )


@compiled
def _stirling_error(k: float) -> float:
    if k < 16:
        return _STIRLING_ERROR[int(k)]  # type: ignore[no-any-return]
    k = float(k)  # the square of an integer count would overflow
    z = 1.0 / (k * k)
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - z / 1188) * z) * z) * z) / k


@compiled
def _deviance(mean: float, deviation: float) -> float:
    """(x log(x/mean) + mean - x) at x = mean + deviation, without cancellation near the mean."""
    e = deviation / mean
    if abs(e) > 0.1:
        return mean * ((1.0 + e) * math.log1p(e) - e)
    # (1+e) log(1+e) - e = e^2/2 - e^3/6 + e^4/12 - ...: the terms are e^j (-1)^j / (j (j-1)).
    total = 0.0
    power = e * e
    j = 2
    while True:
        term = power / (j * (j - 1))
        new = total + term
        if new == total:
            return mean * total
        total = new
        power *= -e
        j += 1
