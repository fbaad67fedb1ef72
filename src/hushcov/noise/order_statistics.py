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
import numpy.typing as npt

from hushcov.exceptions import CapacityError
from hushcov.noise.binomial import binomial

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

_FEW = 2_048  # undecided points that are drawn one by one
_MANY = 5_000_000  # most that can be, when doubles cannot split their interval any further
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
    generator: np.random.Generator, counts: IntArray, quota: int, family: PointFamily
) -> Selection:
    """Draw which points are the `quota` largest of sum(counts), group by group."""
    groups = np.flatnonzero(counts)
    counts = counts[groups]
    lo, hi = -math.inf, math.inf
    bands: list[Band] = []
    side = 1
    while True:
        undecided = int(counts.sum())
        if quota == 0:
            return Selection(tuple(bands), np.empty(0, np.int64), np.empty(0))
        if quota == undecided:
            bands.append(Band(lo, hi, groups, counts))
            return Selection(tuple(bands), np.empty(0, np.int64), np.empty(0))
        split = (
            math.nan
            if undecided <= _FEW
            else _split_point(groups, counts, quota, side, lo, hi, family)
        )
        if not lo < split < hi:
            points, details = _finish(generator, groups, counts, quota, lo, hi, family)
            return Selection(tuple(bands), points, details)
        upper = binomial(generator, counts, *family.masses(groups, lo, split, hi))
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


def _split_point(
    groups: IntArray,
    counts: IntArray,
    quota: int,
    side: int,
    lo: float,
    hi: float,
    family: PointFamily,
) -> float:
    """A point with about `quota` undecided points above it, give or take three deviations."""
    starts = np.unique(np.linspace(0, len(groups), min(_BINS, len(groups)) + 1).astype(np.int64))
    weights = np.add.reduceat(counts, starts[:-1]).astype(np.float64)
    representatives = groups[(starts[:-1] + starts[1:]) // 2]
    undecided = float(weights.sum())
    deviation = math.sqrt(quota * (undecided - quota) / undecided)
    target = min(max(quota + 3 * side * deviation, 0.5), undecided - 0.5)
    support = family.support
    low, high = max(lo, support[0]), min(hi, support[1])
    while True:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            return middle
        above, below = family.masses(representatives, lo, middle, hi)
        total = above + below
        share = np.divide(above, total, out=np.full_like(above, 0.5), where=total > 0)
        excess = float(weights @ share) - target
        if abs(excess) <= 0.1 * deviation:
            return middle
        low, high = (middle, high) if excess > 0 else (low, middle)


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
    if int(counts.sum()) > _MANY:
        raise CapacityError(
            f"{int(counts.sum()):,} tests are tied in double precision at the selection edge, more "
            f"than {_MANY:,}: the selection noise is too small to be resolved. Use fewer records "
            "than declared only if that is true, or a smaller target_error."
        )
    points = np.repeat(groups, counts)
    low, high = family.support
    keys, details = family.draw(generator, points, max(lo, low), min(hi, high))
    largest = np.argpartition(keys, len(keys) - quota)[len(keys) - quota :]
    return points[largest], details[largest]
