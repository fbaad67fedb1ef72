"""What every stage is: one private step before a mechanism, and what it hands on."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.accounting import Budget
from hushcov.noise import Entropy
from hushcov.sums.grids import FeatureGrid
from hushcov.sums.protocol import Records

_FINER = 4  # bounds that are tried, for each bin
# Squared norms over the number of features found: from 2^-8 on in quarters of an octave.
_LOWEST, _PER_OCTAVE, _BINS = -8, 4, 81
_TOP_EVIDENCE, _BIN_EVIDENCE = 4.0, 1.0  # deviations of noise that counts must exceed
# Bins that are looked at together, until surely no more than a share of the records is above.
_WINDOWS, _MOST_ABOVE, _SURE = (1, 2, 4, 8), 0.2, 2.0
_TAIL_BINS, _SLOWEST_FALL = 8, 0.65  # bins that go on beyond the last sure one, and how they fall
_FINER_FIRST = 2  # bounds that are tried at first, for each bin


@dataclass(frozen=True)
class NormBound:
    """What was released of the norms of records, in units of the scales.

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
                return last
    return None if last is None else max(last, -_LOWEST * _PER_OCTAVE)  # the bin of usual norms


def choose_norm(counts: IntArray, sigma: int, n_records: int, n_found: int, mu: float) -> NormBound:
    """The bound at which noise and what it cuts off, in the trace, are least together.

    The noise has about the norm 2 sqrt(d) C^2 / (n mu); it counts over that of a covariance
    whose largest eigenvalue is sqrt(d) times the mean one.
    """
    from hushcov.postprocess import lost_beyond

    edges = _squared_edges(n_found)
    middle = np.concatenate([[edges[0] / 2], np.sqrt(edges[1:] * edges[:-1]), [edges[-1] * 1.1]])
    last = _last_bin(counts, sigma)
    if last is None:
        return NormBound(math.sqrt(n_found), 0.0, 1.0)
    mass = np.where(counts > _BIN_EVIDENCE * sigma, counts, 0.0).astype(np.float64)
    mass[last + 1 :] = 0.0
    mass /= mass.sum()
    trace = float(mass @ middle)
    finest = np.arange(_FINER_FIRST * min(last + 1, _BINS - 1) + 1) / (_FINER_FIRST * _PER_OCTAVE)
    squares = n_found * np.exp2(_LOWEST + finest)
    lost = np.maximum(middle - squares[:, None], 0.0) @ mass / trace
    noise = 2 * n_found * squares / (n_records * mu * trace)
    best = float(squares[np.argmin(np.hypot(lost, noise))])
    typical = middle[int(np.searchsorted(np.cumsum(mass), 0.5))] / n_found
    shrunk = float(mass[middle > best].sum())
    lost = lost_beyond(counts.astype(np.float64), sigma, edges, middle, best)
    mass = with_tail(mass, last)
    histogram = tuple(middle[: len(mass)].tolist()), tuple(mass.tolist())
    return NormBound(math.sqrt(best), shrunk, float(typical), lost, *histogram, last + 1)


def with_tail(mass: FloatArray, last: int, bins: int = _TAIL_BINS) -> FloatArray:
    """The histogram of norms, going on for some bins beyond its last sure one as it fell before.

    Noise hides bins of few records, and those have the longest.
    """
    end = min(len(mass), last + 1 + bins)
    mass = mass[:end].copy()
    if last > 0 and mass[last - 1] > 0:
        ratio = min(_SLOWEST_FALL, mass[last] / mass[last - 1])
        mass[last + 1 :] = mass[last] * ratio ** np.arange(1, end - last)
        mass /= mass.sum()
    return mass


@dataclass(frozen=True, eq=False)
class Prepared:
    """What a stage or a mechanism starts with: records, and what was released before.

    Parameters
    ----------
    records : Records
        As they are to be read.
    feature_scale : ndarray
        Scales of the features, public or released; ones before they are known.
    share : float
        About which share of the records is complete; sums count the others as zeros.
    location : ndarray, optional
        What was taken off the features, where that was released.
    norm : NormBound, optional
        What was released of the norms of records.
    tilt : ndarray of int, optional
        About how much more often each feature lies above its centre than below, in 1024ths.
    making : mapping
        What the document of the release is to say of it, see `hushcov.release.Making`.
    """

    records: Records
    feature_scale: FloatArray
    share: float = 1.0
    location: FloatArray | None = None
    norm: NormBound | None = None
    tilt: IntArray | None = None
    making: Mapping[str, Any] = field(default_factory=dict)


class Stage(ABC):
    """One private step with its public parameters, fixed before any record is read.

    `released` says what it releases in a few words, and `unknown` what is not known without it.
    The proof is a page of `docs/proofs/` of the name of its module.
    """

    released: ClassVar[str]
    unknown: ClassVar[str]

    @property
    @abstractmethod
    def cost(self) -> float:
        """About the mu that it takes of the budget, of one record, from public numbers."""

    @property
    def most_cost(self) -> float:
        """The mu that it takes at most, whatever is in the records."""
        return self.cost

    @abstractmethod
    def run(self, prepared: Prepared, budget: Budget, entropy: Entropy) -> Prepared:
        """Release, and hand on what the next step starts with."""
