"""What a noisy symmetric matrix holds: few entries, few factors, or neither.

A candidate keeps the strongest eigenvalues, and of the rest the entries beyond a threshold. Each
has two errors: the noise of what it keeps, and the signal that it leaves out, which shows in the
energy, in the largest eigenvalue and in the mean of what was left out. The one with the smallest
error is taken; `docs/mechanisms.md` has the reasons and what was measured.

Privacy
-------
Post-processing: what is computed from a release is covered by its guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

from hushcov._arrays import FloatArray, IntArray, Matrix
from hushcov.postprocess.eigen import largest, largest_of, settled, top_vectors
from hushcov.postprocess.levels import look_beyond, noise_size

_THRESHOLDS = (2.0, 2.5, 3.0, 3.5, 4.0, math.inf)  # in deviations of an entry
_FEW_THRESHOLDS = (3.0, math.inf)
_MOST_FACTORS = 8
_CLEAR = 1.065  # an eigenvalue, less what noise adds, of so many times that of noise is a factor
_BEYOND_EDGE = 1.5  # what the largest eigenvalue of noise fluctuates by, times d^(-2/3)
_SURE = 2.5  # deviations that a mean must exceed


@dataclass(frozen=True)
class Candidate:
    """Factors and a threshold, and what they keep and leave out.

    `threshold` is what an entry beside the factors must exceed, 0 where all are kept. `noise` and
    `hidden` are norms, about, in the units of the matrix.
    """

    rank: int
    threshold: float
    noise: float
    hidden: float

    @property
    def error(self) -> float:
        """About the norm of the error: both parts have directions of their own."""
        return math.hypot(self.noise, self.hidden)


@dataclass(frozen=True, eq=False)
class Split:
    """A matrix as factors and a remainder: `loadings` @ diag(`values`) @ `loadings`.T + the rest.

    `loadings` are orthonormal columns, one for each factor, the strongest first.
    """

    loadings: FloatArray
    values: FloatArray
    remainder: FloatArray

    @property
    def matrix(self) -> FloatArray:
        """Both together."""
        return np.asarray(self.factors + self.remainder)

    @property
    def factors(self) -> FloatArray:
        """The part of the factors."""
        return np.asarray((self.loadings * self.values) @ self.loadings.T)


def split(matrix: FloatArray, rank: int, threshold: float, deviation: float) -> Split:
    """The strongest eigenvalues off the diagonal, and what is beyond the threshold besides.

    `deviation` is that of an entry. Eigenvalues are moved towards zero by what such noise adds.
    """
    d = len(matrix)
    loadings, values = np.zeros((d, 0)), np.zeros(0)
    if rank:
        top = top_vectors(matrix, min(d, max(rank, _MOST_FACTORS)))
        loadings, values = settled(matrix, top[:, :rank], _edge(d, deviation))
    values = _shrunk(values, d, deviation)
    rest = _without(matrix, loadings, values)
    if threshold > 0:
        hard = np.abs(rest) <= threshold
        np.fill_diagonal(hard, False)
        rest[hard] = 0.0
    return Split(loadings, values, rest)


def _without(matrix: FloatArray, loadings: FloatArray, values: FloatArray) -> FloatArray:
    """A matrix less its factors; a new one."""
    rest = (loadings * values) @ loadings.T
    return np.subtract(matrix, rest, out=rest)


def best_candidate(
    matrix: FloatArray, noise_sd: float, n_records: int, *, rough: bool = False
) -> Candidate:
    """The candidate with the smallest error, about; the matrix is in units of the scales.

    A `rough` answer tries fewer thresholds.
    """
    d, thresholds = len(matrix), _FEW_THRESHOLDS if rough else _THRESHOLDS
    deviation = entry_deviation(matrix, noise_sd, n_records)
    # Where sampling errors are larger than noise, factors would not be known any better.
    most = min(_MOST_FACTORS, d // 8) if 2 * noise_sd**2 > deviation**2 else 0
    clear, top = 0, np.zeros((d, 0))
    if most:
        top = top_vectors(matrix, min(d, _MOST_FACTORS))
        values = _shrunk(settled(matrix, top[:, :most], _edge(d, deviation))[1], d, deviation)
        clear = int(np.count_nonzero(values > _CLEAR * _edge(d, deviation)))
    mean = float(np.trace(matrix)) / d
    size = n_records, largest(matrix) / mean if mean > 0 else 1.0
    found = _candidates(matrix, 0, (0.0, *thresholds), (noise_sd, deviation), size)
    for rank in sorted({rank for rank in (1, 2, 3, 5, clear) if 0 < rank <= clear}):
        loadings, values = settled(matrix, top[:, :rank], _edge(d, deviation))
        rest = _without(matrix, loadings, _shrunk(values, d, deviation))
        found += _candidates(rest, rank, thresholds, (noise_sd, deviation), size)
    return min(found, key=lambda each: each.error)


def entry_deviation(matrix: FloatArray, noise_sd: float, n_records: int) -> float:
    """Standard deviation of an entry that is zero in truth: noise, and sampling."""
    variance = max(0.0, float(np.diag(matrix).mean()))
    return math.hypot(noise_sd, variance / math.sqrt(n_records))


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Entries of a matrix that were left out: a symmetric matrix with zeros elsewhere.

    `counts` are their numbers by row, `energy` is the sum of their squares, and `product`
    multiplies them by a vector.
    """

    counts: IntArray
    energy: float
    product: Callable[[FloatArray], FloatArray]


def beside(matrix: FloatArray, taken: Matrix, total: float) -> LeftOut:
    """What a matrix has beside some entries: a sparse symmetric matrix, the diagonal among them.

    `total` is the sum of all squares.
    """
    counts = len(matrix) - np.diff(taken.indptr)
    energy = max(0.0, total - float(np.vdot(taken.data, taken.data)))
    return LeftOut(counts, energy, lambda x: matrix @ x - taken @ x)


def signal_norm(left: LeftOut, deviation: float) -> float:
    """About the norm of the signal in entries that were left out, 0 where they look like noise.

    `deviation` is that of their noise.
    """
    if not left.counts.any():
        return 0.0
    return _signal(left.counts, left.energy, largest_of(left.product, len(left.counts)), deviation)


def _signal(
    counts: IntArray, energy: float, top: float, deviation: float, coherence: float = 1.0
) -> float:
    """`coherence` is by how much the variances of noise may add up along related features."""
    d, number = len(counts), float(counts.sum())
    # Each pair is there twice, so that the deviation of the energy is, too.
    energy -= deviation**2 * number + 2 * deviation**2 * math.sqrt(number)
    spread = 2 * math.sqrt(max(energy, 0.0) / d)
    edge = _edge(float(counts.max()), deviation) * math.sqrt(coherence)
    if top <= edge * (1 + _BEYOND_EDGE * d ** (-2 / 3)):
        return spread
    return max(spread, (top + math.sqrt(top**2 - edge**2)) / 2)


def coherent_norm(along: float, estimate: float, noise_sd: float, n_records: int) -> float:
    """What a matrix does in one direction beyond doubt: small entries of one sign add up.

    `along` is what was left out in that direction, `estimate` what the whole is there.
    """
    sampling = max(0.0, estimate) / math.sqrt(n_records)
    doubt = _SURE * math.sqrt(2) * math.hypot(noise_sd, sampling)
    return max(0.0, abs(along) - doubt)


@lru_cache(maxsize=8)
def _noise_size(n_features: int) -> float:
    return noise_size(n_features)


def _candidates(
    rest: FloatArray,
    rank: int,
    thresholds: tuple[float, ...],
    deviations: tuple[float, float],
    size: tuple[int, float],
) -> list[Candidate]:
    """One for each threshold, in deviations. `deviations` are those of noise, and of an entry.

    `size` has the number of records, and the largest eigenvalue over the mean one.
    """
    d, (noise_sd, deviation) = len(rest), deviations
    # None of the others is as large as twice the largest.
    highest = 2 * max(float(rest.max()), -float(rest.min()))
    levels = [times * deviation if math.isfinite(times) else highest for times in thresholds]
    least = deviation * (math.sqrt(d) + 2 * math.sqrt(rank)) if rank else 0.0
    beyond = [level for level in levels if level > 0]
    everything = Candidate(rank, 0.0, max(deviation * _noise_size(d), least), 0.0)
    if not beyond:
        return [everything] * len(levels)
    seen = look_beyond(rest, np.array(beyond))
    sampling = 1 - (noise_sd / deviation) ** 2  # the part of the noise that is coherent
    coherence = 1 + sampling * max(0.0, size[1] - 1)
    whole, found = float(rest.sum()), [everything] * (len(levels) - len(beyond))
    for at, level in enumerate(beyond):
        spread = deviation * math.sqrt(_inside(thresholds[len(found)]))
        energy, top = float(seen.energy[at]), float(seen.signal[at])
        hidden = _signal(seen.counts[at], energy, top, spread, coherence)
        if rank == 0:
            total = float(seen.total[at])
            along = coherent_norm(total / d, (whole - total) / d, noise_sd, size[0])
            hidden = max(hidden, along)
        found.append(Candidate(rank, level, max(deviation * float(seen.noise[at]), least), hidden))
    return found


def _shrunk(values: FloatArray, n_features: int, deviation: float) -> FloatArray:
    """Eigenvalues less what noise adds to them."""
    edge = _edge(n_features, deviation)
    return np.asarray((values + np.sqrt(np.maximum(values**2 - edge**2, 0.0))) / 2)


def _edge(n_features: float, deviation: float) -> float:
    """Where the eigenvalues of noise end."""
    return 2 * deviation * math.sqrt(n_features)


def _inside(times: float) -> float:
    """The variance of a standard normal that is below so many deviations in size."""
    if not math.isfinite(times):
        return 1.0
    density = math.exp(-(times**2) / 2) / math.sqrt(2 * math.pi)
    return 1 - 2 * times * density / (2 * float(special.ndtr(times)) - 1)
