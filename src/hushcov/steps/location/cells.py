"""Reading noisy counts of equal cells: where a column lies that is far from zero for its spread.

Everything here is computed from noisy counts and public or released numbers: post-processing. A
look has two levels. The second opens four cells of the first, if nearly all records are in them.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from hushcov._arrays import BoolArray, FloatArray

#: Cells of the first level, and children of a cell of it.
N_CELLS = 64
#: Cells opened: the two that hold most, and their neighbours.
N_OPENED = 4
N_CHILDREN = N_CELLS * N_OPENED
#: Cells of one column that can stand out in one look.
CELLS_LOOKED_AT = N_CELLS + N_CHILDREN

# Two cells that hold this share of the records hold nearly all, and are opened.
_CONCENTRATED = 0.8
# The normal laws that counts are compared with: deviations in cells. Narrow ones lie every half
# cell, others every cell.
_DEVIATIONS = (
    0.35,
    0.5,
    0.7,
    1.0,
    1.4,
    2.0,
    2.8,
    4.0,
    5.6,
    8.0,
    11.0,
    16.0,
    22.0,
    32.0,
    45.0,
    64.0,
)
_NARROW = 1.4
_FINE_STEP, _COARSE_STEP = 0.5, 1.0
# A count is off by the noise, by chance, and because no law is exact: as for scales.
_BY_CHANCE, _NOT_EXACT = 0.05, 0.005
# Below the first level a law that holds less than this, by three deviations, is half of a mixture.
_WHOLE, _WHOLE_DEVIATIONS = 0.6, 3.0
# Cells that stand out beyond `_OUTSIDE` deviations and a cell are other clusters; the law itself is
# taken to be within `_WITHIN` deviations and half a cell.
_OUTSIDE, _WITHIN = 2.5, 2.0
# Narrower than this many cells is a value that most records have, the others being elsewhere.
_NARROWEST = 0.75
_TOGETHER = 256  # columns compared at a time


@dataclass(frozen=True)
class Spread:
    """A law inside the cells: centre, scale and, if there are other clusters, their reach.

    It is `in_one_place` if it holds most records and is narrower than cells can tell.
    """

    centre: float
    scale: float
    reach: float | None = None
    in_one_place: bool = False


def concentrated(counts: FloatArray, n: int, sigma: float, z: float) -> BoolArray:
    """Columns (rows of counts) of which two neighbouring cells hold nearly all records."""
    most = (counts[:, 1:] + counts[:, :-1]).max(axis=1)
    least = min(_CONCENTRATED * n, n - z * math.sqrt(2) * sigma)
    return np.asarray(most > least)


def first_opened(counts: FloatArray) -> int:
    """The cell before the two neighbouring ones that hold most; it may be -1."""
    return int(np.argmax(counts[1:] + counts[:-1])) - 1


def opened_counts(counts: FloatArray, first: int) -> FloatArray:
    """Counts of the opened cells; those outside were not counted, and are taken for empty."""
    padded = np.concatenate([[0.0], counts, [0.0]])
    return np.asarray(padded[first + 1 : first + 1 + N_OPENED])


def read_spreads(
    counts: FloatArray, parents: FloatArray | None, sigma: float, n: int, z: float
) -> list[Spread | None]:
    """Where each column (row of counts) lies, in cells; None for one half of a mixture.

    `parents` are the counts of the opened cells, whose children these are. Cells with more than
    `z` deviations stand out.
    """
    location, deviation = _fit_normal(counts, parents, sigma, n)
    found: list[Spread | None] = []
    for row, centre, sd in zip(counts, location, deviation, strict=True):
        whole = _is_whole(row, centre, sd, sigma, n)
        spread = _with_clusters(row, centre, sd, row > z * sigma)
        if parents is not None and not whole:
            found.append(None)
        elif spread.reach is None and whole and sd < _NARROWEST:
            found.append(replace(spread, in_one_place=True))
        else:
            found.append(spread)
    return found


def _fit_normal(
    counts: FloatArray, parents: FloatArray | None, sigma: float, n: int
) -> tuple[FloatArray, FloatArray]:
    """Posterior means of the location and the log deviation over normal laws, flat prior."""
    laws, centres, log_sd = _laws(counts.shape[1])
    variance = sigma**2 + _BY_CHANCE * n + (_NOT_EXACT * n) ** 2
    if parents is not None:
        grouped = laws.reshape(len(laws), N_OPENED, -1).sum(axis=2)
        laws = np.concatenate([laws, grouped], axis=1)
        counts = np.concatenate([counts, parents], axis=1)
    half_square = 0.5 * n * np.sum(laws**2, axis=1)
    location, deviation = np.empty(len(counts)), np.empty(len(counts))
    for start in range(0, len(counts), _TOGETHER):
        rows = slice(start, start + _TOGETHER)
        log_likelihood = (counts[rows] @ laws.T - half_square) * (n / variance)
        weights = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        location[rows] = weights @ centres
        deviation[rows] = np.exp(weights @ log_sd)
    return location, deviation


@functools.cache
def _laws(n_cells: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Shares of the cells under each law (rows), and its centre and log deviation in cells."""
    shares, centres, log_sd = [], [], []
    for sd in _DEVIATIONS:
        step = _FINE_STEP if sd < _NARROW else _COARSE_STEP
        centre = np.arange(_FINE_STEP / 2, n_cells, step)
        shares.append(_normal_shares(n_cells, centre[:, None], sd))
        centres.append(centre)
        log_sd.append(np.full(len(centre), math.log(sd)))
    return np.concatenate(shares), np.concatenate(centres), np.concatenate(log_sd)


def _normal_shares(n_cells: int, centre: FloatArray | float, sd: float) -> FloatArray:
    edges = np.arange(n_cells + 1, dtype=np.float64)
    return np.asarray(np.diff(special.ndtr((edges - centre) / sd), axis=-1))


def _is_whole(counts: FloatArray, centre: float, sd: float, sigma: float, n: int) -> bool:
    """Whether the law may hold most records, by least squares."""
    law = _normal_shares(len(counts), centre, sd)
    square = float(law @ law)
    held = float(law @ counts) / square
    return held + _WHOLE_DEVIATIONS * sigma / math.sqrt(square) > _WHOLE * n


def _with_clusters(counts: FloatArray, centre: float, sd: float, stands_out: BoolArray) -> Spread:
    """The law itself, or the moments of it and of the cells far from it that stand out."""
    middle = np.arange(len(counts)) + 0.5
    away = np.abs(middle - centre)
    if not (stands_out & (away > _OUTSIDE * sd + 1)).any():
        return Spread(float(centre), float(sd))
    counted = stands_out | ((away <= _WITHIN * sd + 0.5) & (counts > 0))
    weights = np.where(counted, counts, 0.0)
    weights /= weights.sum()
    mean = float(weights @ middle)
    spread = math.sqrt(float(weights @ (middle - mean) ** 2) + 1 / 12)
    reach = float(np.abs(middle[stands_out] - mean).max()) + 0.5
    return Spread(mean, spread, reach)
