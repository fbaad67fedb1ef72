"""The largest `quota` of very many independent points, without drawing the points.

Points come in groups; within a group they are i.i.d. Only the number of points of each group that
lie in an interval is ever drawn, by binomial splitting: cut the undecided interval in two, draw
how many undecided points of each group fall above the cut, and keep the half that still contains
the quota's edge. Splitting near the edge leaves about sqrt(N) of N undecided points after two
cuts, so the cost does not depend on N. The last few points are drawn one by one.

The law is exact whatever the split points: they only decide how fast it goes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.exceptions import CapacityError
from hushcov.noise.binomial import binomial

FEW_POINTS = 256  # undecided points that are drawn one by one
_BINS = 512  # representatives on which a split point is searched


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
            _check_few(undecided, most_single)
            points, details = _finish(generator, groups, counts, quota, lo, hi, family)
            return Selection(tuple(bands), points, details)
        split = cut.split
        upper = binomial(generator, counts, cut.above, cut.below)
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


@dataclass(frozen=True)
class _Cut:
    """A split point with the masses of every group above and below it."""

    split: float
    above: FloatArray
    below: FloatArray


def _cut(
    groups: IntArray,
    counts: IntArray,
    quota: int,
    side: int,
    lo: float,
    hi: float,
    family: PointFamily,
) -> _Cut | None:
    """Cut where about `quota` undecided points lie above, give or take three deviations.

    The point is searched on a few representatives, and once more if the expectation over all
    groups shows that they missed by more. None when doubles cannot split the interval.
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
    return _Cut(split, above, below)


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


def _check_few(undecided: int, most_single: int) -> None:
    """Refuse to draw more points one by one than the caller accounts for."""
    if undecided > most_single:
        raise CapacityError(
            f"more than {most_single:,} tests are tied in double precision at the selection edge: "
            "the selection noise is too small to be resolved. Use a larger target_error."
        )


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
