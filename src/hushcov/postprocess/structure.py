"""What a noisy symmetric matrix holds: few entries, few factors, or neither.

A candidate keeps the strongest eigenvalues, and of the rest the entries beyond a threshold. Each
has two errors: the noise of what it keeps, and the signal that it leaves out, which shows in the
energy, in the largest eigenvalue and in the mean of what was left out. The one with the smallest
error is taken; `docs/adaptive.md` has the reasons and what was measured.

Privacy
-------
Post-processing: what is computed from a release is covered by its guarantee.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special
from scipy.sparse.linalg import ArpackError, eigsh

from hushcov._arrays import BoolArray, FloatArray, Matrix

_THRESHOLDS = (2.0, 2.5, 3.0, 3.5, 4.0, math.inf)  # in deviations of an entry
_FEW_THRESHOLDS = (3.0, math.inf)
_MOST_FACTORS = 8
_CLEAR = 1.065  # an eigenvalue, less what noise adds, of so many times that of noise is a factor
_BEYOND_EDGE = 1.5  # what the largest eigenvalue of noise fluctuates by, times d^(-2/3)
_SURE = 2.5  # deviations that a mean must exceed
_DENSE = 50  # up to here all eigenvalues are as quick as a few
_POWERS = 24
_ROUNDS = 20  # in which factors and what they have of the diagonal settle


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
    loadings, values = _strongest(matrix, rank, deviation)
    rest = matrix - (loadings * values) @ loadings.T
    return Split(loadings, values, np.where(_kept(rest, threshold), rest, 0.0))


def best_candidate(
    matrix: FloatArray, noise_sd: float, n_records: int, *, rough: bool = False
) -> Candidate:
    """The candidate with the smallest error, about; the matrix is in units of the scales.

    A `rough` answer tries fewer thresholds.
    """
    thresholds = _FEW_THRESHOLDS if rough else _THRESHOLDS
    deviation = entry_deviation(matrix, noise_sd, n_records)
    # Where sampling errors are larger than noise, factors would not be known any better.
    most = min(_MOST_FACTORS, len(matrix) // 8) if 2 * noise_sd**2 > deviation**2 else 0
    values = _strongest(matrix, most, deviation)[1]
    clear = int(np.count_nonzero(values > _CLEAR * _edge(len(matrix), deviation)))
    found = []
    for rank in sorted({0, *(rank for rank in (1, 2, 3, 5, clear) if rank <= clear)}):
        made = split(matrix, rank, 0.0, deviation)
        mean = float(np.trace(matrix)) / len(matrix)
        related = largest(made.matrix) / mean if mean > 0 else 1.0
        for times in ((0.0,) if rank == 0 else ()) + thresholds:
            found.append(_candidate(made, times, noise_sd, deviation, (n_records, related)))
    return min(found, key=lambda each: each.error)


def entry_deviation(matrix: FloatArray, noise_sd: float, n_records: int) -> float:
    """Standard deviation of an entry that is zero in truth: noise, and sampling."""
    variance = max(0.0, float(np.diag(matrix).mean()))
    return math.hypot(noise_sd, variance / math.sqrt(n_records))


def signal_norm(rest: FloatArray, at: BoolArray, deviation: float, coherence: float = 1.0) -> float:
    """About the norm of the signal in entries that were left out, 0 where they look like noise.

    `at` says which entries those are, `deviation` is their noise. `coherence` is by how much the
    variances of noise may add up along related features.
    """
    counts = at.sum(axis=1)
    if not counts.any():
        return 0.0
    inside = np.where(at, rest, 0.0)
    # Each pair is there twice, so that the deviation of the energy is, too.
    energy = float(np.sum(inside**2)) - deviation**2 * float(counts.sum())
    energy -= 2 * deviation**2 * math.sqrt(float(counts.sum()))
    spread = 2 * math.sqrt(max(energy, 0.0) / len(rest))
    top, edge = largest(inside), _edge(float(counts.max()), deviation) * math.sqrt(coherence)
    if top <= edge * (1 + _BEYOND_EDGE * len(rest) ** (-2 / 3)):
        return spread
    return max(spread, (top + math.sqrt(top**2 - edge**2)) / 2)


def coherent_norm(
    rest: FloatArray, direction: FloatArray, noise_sd: float, estimate: FloatArray, n_records: int
) -> float:
    """What a matrix does in one direction beyond doubt: small entries of one sign add up."""
    length = float(np.linalg.norm(direction))
    if length == 0:
        return 0.0
    unit = direction / length
    sampling = max(0.0, float(unit @ estimate @ unit)) / math.sqrt(n_records)
    doubt = _SURE * math.sqrt(2) * math.hypot(noise_sd, sampling)
    return max(0.0, abs(float(unit @ rest @ unit)) - doubt)


@lru_cache(maxsize=1)
def _drawn(n_features: int) -> FloatArray:
    """Symmetric noise of deviation 1, by a fixed seed."""
    drawn = np.triu(np.random.default_rng(0).standard_normal((n_features, n_features)))
    return np.asarray(drawn + np.triu(drawn, 1).T)


@lru_cache(maxsize=8)
def _drawn_norm(n_features: int) -> float:
    """Its norm."""
    return largest(_drawn(n_features))


def largest(matrix: FloatArray) -> float:
    """The largest eigenvalue by its size, of a symmetric matrix."""
    x = np.random.default_rng(1).standard_normal(len(matrix))
    for _ in range(_POWERS):  # of the square, since the signs of eigenvalues do not matter
        x = matrix @ (matrix @ x)
        length = float(np.linalg.norm(x))
        if length == 0:
            return 0.0
        x /= length
    return float(np.linalg.norm(matrix @ x))


def leading_direction(matrix: Matrix) -> FloatArray:
    """The eigenvector of the largest eigenvalue by its size, about; of a symmetric matrix."""
    x: FloatArray = np.random.default_rng(3).standard_normal(matrix.shape[0])
    for _ in range(2 * _POWERS):
        x = np.asarray(matrix @ x)
        x /= float(np.linalg.norm(x)) or 1.0
    return x


def _candidate(
    made: Split, times: float, noise_sd: float, deviation: float, size: tuple[int, float]
) -> Candidate:
    """`size` has the number of records, and the largest eigenvalue over the mean one."""
    rest, d, rank = made.remainder, len(made.remainder), len(made.values)
    # None of the others is as large as twice the largest.
    level = times * deviation if math.isfinite(times) else 2 * float(np.abs(rest).max())
    kept = _kept(rest, level)
    hidden = 0.0
    if level > 0:
        left, estimate = np.where(kept, 0.0, rest), made.factors + np.where(kept, rest, 0.0)
        sampling = 1 - (noise_sd / deviation) ** 2  # the part of the noise that is coherent
        coherence = 1 + sampling * max(0.0, size[1] - 1)
        hidden = signal_norm(left, ~kept, deviation * math.sqrt(_inside(times)), coherence)
        if rank == 0:
            hidden = max(hidden, coherent_norm(left, np.ones(d), noise_sd, estimate, size[0]))
    noise = deviation * (_drawn_norm(d) if level == 0 else largest(_drawn(d) * kept))
    if rank:
        noise = max(noise, deviation * (math.sqrt(d) + 2 * math.sqrt(rank)))
    return Candidate(rank, level, noise, hidden)


def _strongest(matrix: FloatArray, rank: int, deviation: float) -> tuple[FloatArray, FloatArray]:
    """Eigenvectors and values of factors, less what noise adds; the largest first.

    Features have variances of their own beside the factors, so that the diagonal says nothing of
    them: it is replaced by what the factors have of it, again and again.
    """
    d = len(matrix)
    if rank == 0:
        return np.zeros((d, 0)), np.zeros(0)
    own = np.maximum(np.diag(matrix), 0.0)
    off = matrix - np.diag(np.diag(matrix))
    if d > _DENSE:
        start = np.random.default_rng(2).standard_normal(d)
        values, vectors = _some(off, rank, start)
    else:
        values, vectors = np.linalg.eigh(off)
    order = np.argsort(-values, kind="stable")[:rank]
    values, vectors = np.maximum(values[order], 0.0), vectors[:, order]
    for _ in range(_ROUNDS):
        shared = np.minimum(vectors**2 @ values, own)
        vectors = np.linalg.qr(off @ vectors + shared[:, None] * vectors)[0]
        inner = vectors.T @ (off @ vectors + shared[:, None] * vectors)
        values, turned = np.linalg.eigh((inner + inner.T) / 2)
        values, vectors = np.maximum(values[::-1], 0.0), vectors @ turned[:, ::-1]
    edge = _edge(d, deviation)
    return vectors, (values + np.sqrt(np.maximum(values**2 - edge**2, 0.0))) / 2


def _some(matrix: FloatArray, rank: int, start: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The largest eigenvalues; all of them where a search for some does not end, as for zeros."""
    try:
        values, vectors = eigsh(matrix, k=rank, which="LA", v0=start, tol=1e-3)
    except ArpackError:
        values, vectors = np.linalg.eigh(matrix)
    return values, vectors


def _kept(rest: FloatArray, threshold: float) -> BoolArray:
    kept = np.abs(rest) > threshold if threshold > 0 else np.ones(rest.shape, dtype=bool)
    np.fill_diagonal(kept, True)
    return np.asarray(kept)


def _edge(n_features: float, deviation: float) -> float:
    """Where the eigenvalues of noise end."""
    return 2 * deviation * math.sqrt(n_features)


def _inside(times: float) -> float:
    """The variance of a standard normal that is below so many deviations in size."""
    if not math.isfinite(times):
        return 1.0
    density = math.exp(-(times**2) / 2) / math.sqrt(2 * math.pi)
    return 1 - 2 * times * density / (2 * float(special.ndtr(times)) - 1)
