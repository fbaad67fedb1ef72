"""Norms of records or of units: noisy counts of them, and the bound that is chosen from these.

What a record adds to a sum is bounded, and where the bound lies decides between noise and bias. A
histogram of norms costs little and tells it. All else here is computed from noisy counts and public
numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from hushcov._arrays import FloatArray, IntArray
from hushcov.inputs import ReleaseInputs
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.queries import NormCounts, UnitNormCounts
from hushcov.kernel.session import Session
from hushcov.postprocess import lost_beyond

# Coordinates are clipped at their reach, which is at most so many scales.
WIDEST = 64.0
HALF_WIDTH = 2**15 - 1
_FINER = 4  # bounds that are tried, for each bin
# Squared norms over the number of features found: from 2^-8 on in quarters of an octave.
_LOWEST, _PER_OCTAVE, _BINS = -8, 4, 81
_TOP_EVIDENCE, _BIN_EVIDENCE = 4.0, 1.0  # deviations of noise that counts must exceed
# The same far beyond the last bin: some 200 windows are tried there, and a false one costs a fit.
_FAR_EVIDENCE = 4.5
# Bins that are looked at together, until surely no more than a share of the records is above.
_WINDOWS, _MOST_ABOVE, _SURE = (1, 2, 4, 8), 0.2, 2.0
_TAIL_BINS, _SLOWEST_FALL = 8, 0.65  # bins that go on beyond the last sure one, and how they fall
_DOUBTED = 0.3  # deviations of noise by which they may have more than was counted in them
_FINER_FIRST = 2  # bounds that are tried at first, for each bin
_BINS_BEYOND = 2  # that go on beyond the last one seen; measured
_LEAST_BOUND = 0.5  # of the median norm
_FEWEST = 1_000  # normal records that stand for those whose norms are not seen
_USUAL = 3.0  # the norm of a covariance, over a typical variance


def norm_bins(scale: FloatArray) -> tuple[FeatureGrid, tuple[int, ...]]:
    """Return the grid on which norms are counted, and the edges between bins."""
    grid = FeatureGrid(scale, WIDEST, HALF_WIDTH)
    return grid, squared_norms(grid, int(np.count_nonzero(scale)))


def norm_counts(scale: FloatArray) -> NormCounts:
    """Return the query that counts records by norm; a record is in one bin."""
    return NormCounts(*norm_bins(scale))  # proof: step 1


@dataclass(frozen=True)
class NormBound:
    """Released bound on the norms of records, in units of the scales.

    `norm` is the bound that balances noise and what is cut off, `shrunk` about which share of the
    records is beyond it, and `typical` the median of the squared norm over the number of features.
    `lost` is about which share of the squared norms, summed over records, lies beyond the bound,
    and the standard deviation of that number.
    `squares` and `shares` are the histogram behind them: squared norms, and shares of the records.
    The first `sure` of them are seen, the others guessed.
    """

    norm: float
    shrunk: float
    typical: float
    lost: tuple[float, float] = (0.0, 0.0)
    squares: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()
    sure: int = 0

    @property
    def cut(self) -> float:
        """About which share of the squared norms is surely beyond the bound, from 0 to 1/2."""
        squares = np.array(self.squares[: self.sure])
        shares = np.array(self.shares[: self.sure])
        total = float(squares @ shares)
        beyond = float(np.maximum(squares - self.norm**2, 0.0) @ shares)
        return min(0.5, beyond / total) if total > 0 else 0.0

    @property
    def variance(self) -> float:
        """The variance of the squared norms."""
        squares, shares = np.array(self.squares), np.array(self.shares)
        return float(squares**2 @ shares - (squares @ shares) ** 2) if len(squares) else 0.0

    def beyond(self, squared_bounds: FloatArray) -> FloatArray:
        """The mean over records of what their squared norms have beyond each bound."""
        over = np.maximum(np.array(self.squares) - squared_bounds[:, None], 0.0)
        return np.asarray(over @ np.array(self.shares))

    def moved(self, noise: float, counted: float) -> NormBound:
        """The bound at which `noise` times its square and what it cuts off are least together.

        `counted` is the share of what is cut off that counts.
        """
        if not self.squares:
            return self
        squares, shares = np.array(self.squares), np.array(self.shares)
        finest = np.arange(_FINER * (len(squares) - 1) + 1) / _FINER
        bounds = np.exp(np.interp(finest, np.arange(len(squares)), np.log(squares)))
        lost = self.beyond(bounds)
        best = float(bounds[np.argmin(np.hypot(noise * bounds, counted * lost))])
        beyond = float(shares[squares > best].sum())
        moved = replace(self, norm=math.sqrt(best), shrunk=beyond)
        return replace(moved, lost=(moved.cut, self.lost[1]))


def squared_norms(grid: FeatureGrid, n_found: int) -> tuple[int, ...]:
    """Edges between the bins of norms, in squared steps of the grid."""
    return tuple(int(edge) for edge in _squared_edges(n_found) / grid.step**2)


def _squared_edges(n_found: int) -> FloatArray:
    """Squared norms between bins, in squared scales."""
    return np.asarray(n_found * np.exp2(_LOWEST + np.arange(_BINS) / _PER_OCTAVE))


def _last_bin(counts: IntArray, sigma: int) -> int | None:
    """The last bin that noise did not make; few records are looked for in several bins together.

    One bin beyond noise is not enough where most records are in none: they may be above it.
    """
    last = None
    for width in _WINDOWS:
        sums = np.convolve(counts, np.ones(width, dtype=np.int64), "valid")
        seen = np.flatnonzero(sums > _TOP_EVIDENCE * math.sqrt(width) * sigma)
        if len(seen):
            last = int(seen[-1]) + width - 1
            while counts[last] <= _BIN_EVIDENCE * sigma and last > seen[-1]:
                last -= 1
            above = counts[last + 1 :]
            doubt = _SURE * math.sqrt(len(above)) * sigma
            if above.sum() + doubt < _MOST_ABOVE * counts.sum():
                return _farthest_bin(counts, sigma, last)
    return None if last is None else max(last, -_LOWEST * _PER_OCTAVE)  # the bin of usual norms


def _farthest_bin(counts: IntArray, sigma: int, last: int) -> int:
    """The last bin of records that lie far beyond the bin `last`, or that bin if there are none.

    A few hundred records that are spread over several bins are in none of them beyond noise.
    """
    for width in _WINDOWS[1:]:
        sums = np.convolve(counts[last + 1 :], np.ones(width, dtype=np.int64), "valid")
        seen = np.flatnonzero(sums > _FAR_EVIDENCE * math.sqrt(width) * sigma)
        if len(seen):
            far = last + int(seen[-1]) + width
            while counts[far] <= _BIN_EVIDENCE * sigma:
                far -= 1
            last = far
    return last


def choose_norm(counts: IntArray, sigma: int, n_records: int, n_found: int, mu: float) -> NormBound:
    """The bound at which noise and what it cuts off, in the trace, are least together.

    The noise has about the norm 2 sqrt(d) C^2 / (n mu); it counts over that of a covariance
    whose largest eigenvalue is sqrt(d) times the mean one.
    """
    edges = _squared_edges(n_found)
    middle = np.concatenate([[edges[0] / 2], np.sqrt(edges[1:] * edges[:-1]), [edges[-1] * 1.1]])
    last = _last_bin(counts, sigma)
    if last is None:  # nothing is seen: as normal records of related features would have it
        free = max(1.0, n_found / 2)
        below = special.chdtr(free, np.append(edges, np.inf) * free / n_found)
        usual = np.rint(max(n_records, _FEWEST) * np.diff(below, prepend=0.0)).astype(np.int64)
        bound = choose_norm(usual, 1, n_records, n_found, mu)
        return replace(bound, lost=(bound.cut, bound.cut))
    mass = np.where(counts > _BIN_EVIDENCE * sigma, counts, 0.0).astype(np.float64)
    mass[last + 1 :] = 0.0
    seen = float(mass.sum())
    mass /= seen
    trace = float(mass @ middle)
    finest = np.arange(_FINER_FIRST * min(last + 1, _BINS - 1) + 1) / (_FINER_FIRST * _PER_OCTAVE)
    squares = n_found * np.exp2(_LOWEST + finest)
    lost = np.maximum(middle - squares[:, None], 0.0) @ mass / trace
    noise = 2 * n_found * squares / (n_records * mu * trace)
    best = float(squares[np.argmin(np.hypot(lost, noise))])
    typical = middle[int(np.searchsorted(np.cumsum(mass), 0.5))] / n_found
    shrunk = float(mass[middle > best].sum())
    lost = lost_beyond(counts.astype(np.float64), sigma, edges, middle, best)
    above = counts[last + 1 : last + 1 + _TAIL_BINS]
    most = max(float(above.sum()), 0.0) + _DOUBTED * math.sqrt(_TAIL_BINS) * sigma
    mass = with_tail(mass, last, most=most / seen)
    histogram = tuple(middle[: len(mass)].tolist()), tuple(mass.tolist())
    return NormBound(math.sqrt(best), shrunk, float(typical), lost, *histogram, last + 1)


def with_tail(
    mass: FloatArray, last: int, bins: int = _TAIL_BINS, most: float = math.inf
) -> FloatArray:
    """The histogram of norms, going on for some bins beyond its last sure one as it fell before.

    Noise hides bins of few records, and those have the longest; together they have at most `most`.
    """
    end = min(len(mass), last + 1 + bins)
    mass = mass[:end].copy()
    if last > 0 and mass[last - 1] > 0:
        ratio = min(_SLOWEST_FALL, mass[last] / mass[last - 1])
        beyond = mass[last] * ratio ** np.arange(1, end - last)
        mass[last + 1 :] = beyond * min(1.0, most / max(float(beyond.sum()), 1e-300))
        mass /= mass.sum()
    return mass


@dataclass(frozen=True)
class Mass:
    """How norms are spread, from noisy counts: shares of bins that noise did not make."""

    middle: FloatArray
    shares: FloatArray

    @classmethod
    def of(
        cls, counts: IntArray, sigma: int, middle: FloatArray, *, tail: bool = False
    ) -> Mass | None:
        """Return None where nothing is seen; a `tail` goes on beyond the last bin, as it fell."""
        seen = np.flatnonzero(counts > _TOP_EVIDENCE * sigma)
        last = _last_seen(counts, sigma) if tail else int(seen[-1]) if len(seen) else None
        if last is None:
            return None
        mass = np.where(counts > _BIN_EVIDENCE * sigma, counts, 0).astype(np.float64)
        mass[last + 1 :] = 0.0
        mass /= mass.sum()
        mass = with_tail(mass, last, _BINS_BEYOND) if tail else mass
        return cls(middle[: len(mass)], mass)

    def best(self, noise: float, norm: float, *, several: bool) -> tuple[float, float]:
        """The bound at which noise and what shrinking leaves of a bias are least; mean shrinkage.

        `noise` is that of a bound of 1, and what is beyond the bound counts `norm` times. Long
        units have many records, which count alike: with `several`, shrinkage is the mean over them.
        """
        middle, mass = self.middle, self.shares
        median = middle[int(np.searchsorted(np.cumsum(mass), 0.5))]
        bounds = median * _LEAST_BOUND * 2.0 ** (np.arange(48) / 8)
        factor = np.minimum(1.0, bounds[:, None] / middle)
        mean = factor @ (mass * middle / (mass @ middle) if several else mass)
        lost = 1 - (factor * middle**2) @ mass / (mean * float(middle**2 @ mass))
        best = int(np.argmin(noise * bounds / mean + np.maximum(lost, 0.0) * norm))
        return float(bounds[best]), float(mean[best])


def _last_seen(counts: IntArray, sigma: int) -> int | None:
    """The last bin that stands out, alone or with its neighbour."""
    both = counts[:-1] + counts[1:]
    last = [int(each) for each in np.flatnonzero(counts > _TOP_EVIDENCE * sigma)[-1:]]
    for first in np.flatnonzero(both > _TOP_EVIDENCE * math.sqrt(2) * sigma)[-1:]:
        last.append(int(first) + int(counts[first + 1] > _BIN_EVIDENCE * sigma))
    return max(last, default=None)


@dataclass(frozen=True)
class UnitBound:
    """A bound on the Frobenius norm of the matrix of a unit, in squared scales.

    `cut` is about which share of all matrices is beyond it, and was put back; `lost` the same by a
    tail through the counts, with its deviation.
    """

    norm: float
    cut: float
    lost: tuple[float, float] = (0.0, 0.0)

    def alike(self, row: float, together: int) -> float:
        """How many records of a unit are worth one that is independent, at most.

        `row` is the usual norm of the matrix of one record. Matrices of alike records are as long
        as all of them after each other; those of independent ones as the root of that, or longer.
        """
        return min(float(together), max(1.0, (self.norm / row) ** 2 / together))


def release_unit_bound(
    session: Session,
    grid: FeatureGrid,
    inputs: ReleaseInputs,
    typical: float,
    mu: float,
    name: str | None = None,
) -> UnitBound:
    """Release a bound on what a unit adds to the matrix, for `mu`.

    `typical` is about the variance of a feature; the matrix is taken to get what is left.

    Privacy
    -------
    Neighbours: those of the session; no precondition. A unit is in one bin.
    """
    d, together = inputs.n_features, inputs.neighbours.together
    noisy = session.measure(UnitNormCounts(grid, together), mu, name)  # proof: step 2
    counts, sigma = noisy.integers, noisy.sd
    middle = grid.step**2 * 2.0 ** ((np.arange(len(counts)) - 1.5) / 4)
    mass = Mass.of(counts, sigma, middle, tail=True)
    if mass is None:
        return UnitBound(typical * d * math.sqrt(together), 0.0)
    noise = 2 * math.sqrt(d) * inputs.neighbours.outer_product
    noise /= inputs.n_records * together * session.mu_left
    norm, mean = mass.best(noise, _USUAL * typical, several=True)
    edges = grid.step**2 * 2.0 ** ((np.arange(len(counts) - 1) - 1) / 4)
    lost = lost_beyond(counts.astype(np.float64), sigma, edges, middle, norm)
    return UnitBound(min(norm, together * d * grid.radius**2), min(0.5, 1 - mean), lost)
