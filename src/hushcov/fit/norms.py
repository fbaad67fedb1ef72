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

from hushcov._arrays import LARGEST_EXACT_FLOAT, FloatArray, IntArray
from hushcov.exceptions import CapacityError
from hushcov.inputs import ReleaseInputs
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.queries import LARGEST_SIGMA, NormCounts, UnitNormCounts
from hushcov.kernel.session import Session
from hushcov.postprocess.tails import lost_beyond

# Coordinates are clipped at their reach, which is at most so many scales.
WIDEST = 64.0
HALF_WIDTH = 2**15 - 1
RADIUS = 6.0  # a Gaussian coordinate of scale 1 passes it once in 5e8, one of scale 1.5 in 16,000
# Bins of squared norms, over the number of features found: from 2^-8 on in quarters of an octave.
_LOWEST, _PER_OCTAVE, _BINS = -8, 4, 81
_SQUARED_EDGES = np.exp2(_LOWEST + np.arange(_BINS) / _PER_OCTAVE)


@dataclass(frozen=True)
class NormRules:
    """Evidence in a histogram of norms, and how the bound is chosen from it.

    The numbers were chosen by `benchmarks/studies/nothing_known.py`; those about few records far
    away, and about tails, by `raw_tables.py` and `error_estimate.py`.
    """

    # Deviations of noise that a count must exceed to end the range, or to be counted inside it; and
    # to end it far beyond the others, where some 200 windows are tried and a false one costs a fit.
    end_evidence: float = 4.0
    bin_evidence: float = 1.0
    far_evidence: float = 4.5
    # Bins that are looked at together, until surely no more than a share of records is above.
    windows: tuple[int, ...] = (1, 2, 4, 8)
    most_above: float = 0.2
    sure_deviations: float = 2.0
    # Bins that go on beyond the last sure one, how they fall at least, and the deviations of noise
    # by which they may have more than was counted in them.
    tail_bins: int = 8
    slowest_fall: float = 0.65
    doubted_deviations: float = 0.3
    # The same of units and of products: bins beyond the last one that stands out.
    bins_beyond: int = 2
    # Bounds that are tried for each bin: at first, and once the matrix is roughly known.
    first_bounds_per_bin: int = 2
    bounds_per_bin: int = 4
    # Smallest bound on units and on products, over the median norm.
    least_bound: float = 0.5
    # Parts of a bin over which its records are spread, where bounds are finer than bins.
    parts_of_bin: int = 8
    # Normal records that stand for those whose norms are not seen.
    fewest_records: int = 1_000
    # Norm of a covariance over a typical variance, about.
    usual_norm: float = 3.0


RULES = NormRules()


def norm_in_steps(norm: float, n_features: int, radius: float, half_width: int) -> int:
    """A bound on the norm of a record in steps of the grid; none is longer than the last."""
    norm = min(norm, radius * math.sqrt(n_features))
    return max(1, math.floor(norm * half_width / radius))


def exact_half_width(inputs: ReleaseInputs, radius: float, norm: float, mu: float) -> int:
    """The finest grid on which sums, squared norms and noise are within what is exact."""
    finest = min(
        HALF_WIDTH,
        math.isqrt(2**62 // inputs.n_records),
        math.isqrt((LARGEST_EXACT_FLOAT - 1) // inputs.n_features),
        # Tiny norms: the quotient may be infinite, and no finer grid is needed then.
        math.floor(min(2.0**62, radius / norm * math.sqrt(LARGEST_SIGMA / 2 * mu))),
    )
    if finest < 1:
        raise CapacityError(
            f"{inputs.n_features:,} features at epsilon {inputs.epsilon:g} and delta "
            f"{inputs.delta:g} need more noise than integers hold: use fewer features or a "
            "larger budget."
        )
    return finest


def norm_counts(scale: FloatArray) -> NormCounts:
    """Return the query that counts records by norm; a record is in one bin."""
    grid = FeatureGrid(scale, WIDEST, HALF_WIDTH)
    return NormCounts(grid, squared_norms(grid, int(np.count_nonzero(scale))))  # proof: step 1


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
        """Share of the squared norms that is surely beyond the bound, about; from 0 to 1/2."""
        squares = np.array(self.squares[: self.sure])
        shares = np.array(self.shares[: self.sure])
        total = float(squares @ shares)
        beyond = float(np.maximum(squares - self.norm**2, 0.0) @ shares)
        return min(0.5, beyond / total) if total > 0 else 0.0

    def beyond(self, squared_bounds: FloatArray) -> FloatArray:
        """Return the mean over records of what their squared norms have beyond each bound."""
        over = np.maximum(np.array(self.squares) - squared_bounds[:, None], 0.0)
        return np.asarray(over @ np.array(self.shares))

    def moved(self, noise: float, counted: float) -> NormBound:
        """Return the bound at which `noise` times its square and what it cuts off are least.

        `counted` is the share of what is cut off that counts.
        """
        if not self.squares:
            return self
        squares, shares = np.array(self.squares), np.array(self.shares)
        finest = np.arange(RULES.bounds_per_bin * (len(squares) - 1) + 1) / RULES.bounds_per_bin
        bounds = np.exp(np.interp(finest, np.arange(len(squares)), np.log(squares)))
        lost = self.beyond(bounds)
        best = float(bounds[np.argmin(np.hypot(noise * bounds, counted * lost))])
        beyond = float(shares[squares > best].sum())
        moved = replace(self, norm=math.sqrt(best), shrunk=beyond)
        return replace(moved, lost=(moved.cut, self.lost[1]))


def squared_norms(grid: FeatureGrid, n_found: int) -> tuple[int, ...]:
    """Return edges between the bins of norms, in squared steps of the grid."""
    return tuple(int(edge) for edge in n_found * _SQUARED_EDGES / grid.step**2)


def _last_bin(counts: IntArray, sigma: int) -> int | None:
    """Return the last bin that noise did not make; few records are looked for in several bins.

    One bin beyond noise is not enough where most records are in none: they may be above it. A few
    hundred records far beyond the others may be spread over bins of which none stands out.
    """
    last, far = None, False
    for width in RULES.windows:
        sums = np.convolve(counts, np.ones(width, dtype=np.int64), "valid")
        seen = np.flatnonzero(sums > RULES.end_evidence * math.sqrt(width) * sigma)
        if len(seen):
            last = int(seen[-1]) + width - 1
            while counts[last] <= RULES.bin_evidence * sigma and last > seen[-1]:
                last -= 1
            above = counts[last + 1 :]
            doubt = RULES.sure_deviations * math.sqrt(len(above)) * sigma
            far = bool(above.sum() + doubt < RULES.most_above * counts.sum())
            if far:
                break
    if last is None or not far:
        return None if last is None else max(last, -_LOWEST * _PER_OCTAVE)  # bin of usual norms
    for width in RULES.windows[1:]:
        if len(counts) - last - 1 < width:  # no window of that width is left
            break
        sums = np.convolve(counts[last + 1 :], np.ones(width, dtype=np.int64), "valid")
        seen = np.flatnonzero(sums > RULES.far_evidence * math.sqrt(width) * sigma)
        if len(seen):
            end = last + int(seen[-1]) + width
            while counts[end] <= RULES.bin_evidence * sigma:
                end -= 1
            last = end
    return last


def choose_norm(counts: IntArray, sigma: int, n_records: int, n_found: int, mu: float) -> NormBound:
    """Choose the bound at which noise and what it cuts off, in the trace, are least together.

    The noise has about the norm 2 sqrt(d) C^2 / (n mu); it counts over that of a covariance
    whose largest eigenvalue is sqrt(d) times the mean one.
    """
    edges = n_found * _SQUARED_EDGES
    middle = np.concatenate([[edges[0] / 2], np.sqrt(edges[1:] * edges[:-1]), [edges[-1] * 1.1]])
    last = _last_bin(counts, sigma)
    if last is None:  # nothing is seen: as normal records of related features would have it
        free = max(1.0, n_found / 2)
        below = special.chdtr(free, np.append(edges, np.inf) * free / n_found)
        usual = np.rint(max(n_records, RULES.fewest_records) * np.diff(below, prepend=0.0)).astype(
            np.int64
        )
        bound = choose_norm(usual, 1, n_records, n_found, mu)
        return replace(bound, lost=(bound.cut, bound.cut))
    mass = np.where(counts > RULES.bin_evidence * sigma, counts, 0.0).astype(np.float64)
    mass[last + 1 :] = 0.0
    seen = float(mass.sum())
    mass /= seen
    trace = float(mass @ middle)
    tried = RULES.first_bounds_per_bin
    finest = np.arange(tried * min(last + 1, _BINS - 1) + 1) / (tried * _PER_OCTAVE)
    squares = n_found * np.exp2(_LOWEST + finest)
    lost = np.maximum(middle - squares[:, None], 0.0) @ mass / trace
    noise = 2 * n_found * squares / (n_records * mu * trace)
    best = float(squares[np.argmin(np.hypot(lost, noise))])
    typical = middle[int(np.searchsorted(np.cumsum(mass), 0.5))] / n_found
    shrunk = float(mass[middle > best].sum())
    lost = lost_beyond(counts.astype(np.float64), sigma, edges, middle, best)
    above = counts[last + 1 : last + 1 + RULES.tail_bins]
    most = (
        max(float(above.sum()), 0.0) + RULES.doubted_deviations * math.sqrt(RULES.tail_bins) * sigma
    )
    mass = with_tail(mass, last, most=most / seen)
    histogram = tuple(middle[: len(mass)].tolist()), tuple(mass.tolist())
    return NormBound(math.sqrt(best), shrunk, float(typical), lost, *histogram, last + 1)


def with_tail(
    mass: FloatArray, last: int, bins: int = RULES.tail_bins, most: float = math.inf
) -> FloatArray:
    """Continue a histogram of norms for some bins beyond its last sure one, as it fell before.

    Noise hides bins of few records, and those have the longest; together they have at most `most`.
    """
    end = min(len(mass), last + 1 + bins)
    mass = mass[:end].copy()
    if last > 0 and mass[last - 1] > 0:
        ratio = min(RULES.slowest_fall, mass[last] / mass[last - 1])
        beyond = mass[last] * ratio ** np.arange(1, end - last)
        mass[last + 1 :] = beyond * min(1.0, most / max(float(beyond.sum()), 1e-300))
        mass /= mass.sum()
    return mass


@dataclass(frozen=True)
class Mass:
    """The spread of norms, from noisy counts: shares of bins that noise did not make."""

    middle: FloatArray
    shares: FloatArray

    @classmethod
    def of(
        cls, counts: IntArray, sigma: int, middle: FloatArray, *, tail: bool = False
    ) -> Mass | None:
        """Return None where nothing is seen; a `tail` goes on beyond the last bin, as it fell."""
        seen = np.flatnonzero(counts > RULES.end_evidence * sigma)
        last = int(seen[-1]) if len(seen) else None
        if tail:  # the last bin may stand out with its neighbour, too
            both = counts[:-1] + counts[1:]
            found = np.flatnonzero(both > RULES.end_evidence * math.sqrt(2) * sigma)
            if len(found):
                first = int(found[-1])
                first += int(counts[first + 1] > RULES.bin_evidence * sigma)
                last = first if last is None else max(last, first)
        if last is None:
            return None
        mass = np.where(counts > RULES.bin_evidence * sigma, counts, 0).astype(np.float64)
        mass[last + 1 :] = 0.0
        mass /= mass.sum()
        mass = with_tail(mass, last, RULES.bins_beyond) if tail else mass
        return cls(middle[: len(mass)], mass)

    def best(self, noise: float, norm: float, *, several: bool) -> tuple[float, float]:
        """Return the bound at which noise and the bias of shrinking are least; mean shrinkage.

        `noise` is that of a bound of 1, and what is beyond the bound counts `norm` times. Long
        units have many records, which count alike: with `several`, shrinkage is the mean over them.
        """
        middle, mass = self.middle, self.shares
        median = middle[int(np.searchsorted(np.cumsum(mass), 0.5))]
        bounds = median * RULES.least_bound * 2.0 ** (np.arange(48) / 8)
        factor = np.minimum(1.0, bounds[:, None] / middle)
        mean = factor @ (mass * middle / (mass @ middle) if several else mass)
        lost = 1 - (factor * middle**2) @ mass / (mean * float(middle**2 @ mass))
        best = int(np.argmin(noise * bounds / mean + np.maximum(lost, 0.0) * norm))
        return float(bounds[best]), float(mean[best])

    def best_of_products(self, noise: float, norm: float) -> float:
        """Return the bound of products, which are as large as norms; in steps finer than bins.

        Records of a bin, a quarter of an octave wide, are spread over it: a bound inside a bin
        takes different shares of their products.
        """
        spread = 2.0 ** ((np.arange(RULES.parts_of_bin) + 0.5) / RULES.parts_of_bin / 4 - 1 / 8)
        middle = np.multiply.outer(self.middle, spread).ravel()
        mass = np.repeat(self.shares / RULES.parts_of_bin, RULES.parts_of_bin)
        median = middle[int(np.searchsorted(np.cumsum(mass), 0.5))]
        bounds = median * RULES.least_bound * 2.0 ** (np.arange(192) / 32)
        factor = np.minimum(1.0, bounds[:, None] / middle)
        mean = factor @ mass
        lost = 1 - (factor * middle) @ mass / (mean * float(middle @ mass))
        return float(bounds[np.argmin(noise * bounds / mean + np.maximum(lost, 0.0) * norm)])


@dataclass(frozen=True)
class UnitBound:
    """A bound on the Frobenius norm of the matrix of a unit, in squared scales.

    `cut` is the share of all matrices that is beyond it, about, and was put back; `lost` the same
    by a tail through the counts, with its deviation.
    """

    norm: float
    cut: float
    lost: tuple[float, float] = (0.0, 0.0)

    def alike(self, row: float, together: int) -> float:
        """Return how many records of a unit are worth one that is independent, at most.

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
    norm, mean = mass.best(noise, RULES.usual_norm * typical, several=True)
    edges = grid.step**2 * 2.0 ** ((np.arange(len(counts) - 1) - 1) / 4)
    lost = lost_beyond(counts.astype(np.float64), sigma, edges, middle, norm)
    return UnitBound(min(norm, together * d * grid.radius**2), min(0.5, 1 - mean), lost)
