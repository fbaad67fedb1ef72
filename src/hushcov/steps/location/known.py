"""What public bounds add to a search: where to count from, and what to take where nothing is found.

Everything here is computed from public bounds and noisy counts: post-processing.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from hushcov._arrays import FloatArray
from hushcov.steps.location import octaves
from hushcov.steps.location.parameters import Location
from hushcov.steps.location.state import Column, Found, Way
from hushcov.sums.grids import Bounds

# Deviations of noise that are added to a second moment, where there is no evidence of it.
_ABOVE = 2.0
# A column in which nothing is seen is not looked at again once a share of the records at its
# largest value has noise of this deviation.
_ENOUGH = 0.004


def start(n_features: int, bounds: Bounds | None) -> list[Column]:
    """Columns before the first look: counted about zero, or the possible value nearest to it.

    A column that is publicly constant is settled.
    """
    if bounds is None:
        return [Column(index) for index in range(n_features)]
    known = zip(bounds.nearest.tolist(), bounds.low, bounds.high, strict=True)
    columns = [Column(i, centre=c, low=low, high=high) for i, (c, low, high) in enumerate(known)]
    for i in np.flatnonzero(bounds.constant):
        columns[i].settle(Found(bounds.low[i], 0.0, 0.0))
    return columns


def settle(columns: list[Column], n: int, *, last: bool) -> None:
    """Settle columns by their bounds: those where more looks would help little, at last all."""
    for column in columns:
        unseen = column.way is Way.OCTAVES and not column.in_one_place
        if (
            column.bounded
            and column.found is None
            and (last or (unseen and _noise(column) <= _ENOUGH * n))
        ):
            column.settle(_by_bounds(column, n))


def _noise(column: Column) -> float:
    """Deviation of the noise of a second moment, in counts of the largest value."""
    square = column.moments.square
    if column.counts is None or not square.any():
        return math.inf
    return math.sqrt(float((square**2).sum()) / column.precision) / float(square.max())


def _by_bounds(column: Column, n: int) -> Found:
    """The scale that noisy counts allow at most, about; half the width where there are none.

    About any point the second moment is at least the variance, so that the scale is not too small
    by more than noise makes it.
    """
    half, square = column.high / 2 - column.low / 2, column.moments.square
    scale = half
    if column.counts is not None and square.any():
        noise = _ABOVE * _noise(column) * float(square.max())
        seen = float((octaves.signed(column.counts) * square).sum())
        scale = min(half, math.sqrt(max(seen + noise, noise) / n + column.nothing**2))
    if scale == half:
        return Found(column.low / 2 + column.high / 2, half, 1.0)
    return Found(column.centre, scale, octaves.bounded_reach(half / scale * 2, 1.0))


def within(found: Location, bounds: Bounds | None) -> Location:
    """The same with no centre outside its bounds, and no scale or reach that they rule out."""
    if bounds is None:
        return found
    half = bounds.half_width
    return replace(
        found,
        centre=inside(found.centre, bounds),
        scale=np.minimum(found.scale, half),
        reach=np.minimum(found.reach / 2, half) * 2,
    )


def inside(centre: FloatArray, bounds: Bounds | None) -> FloatArray:
    """Centres moved into their bounds."""
    return centre if bounds is None else np.clip(centre, bounds.lows, bounds.highs)
