"""Structure of a noisy symmetric matrix: few entries, few factors, or neither.

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
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from hushcov._arrays import FloatArray, IntArray, Matrix
from hushcov._compiled import compiled, even_parts, run_parts

Product = Callable[[FloatArray], FloatArray]

_POWERS = 48
_STEPS = 17  # of Lanczos' method: they end as far below the edge of noise as that many powers
_NOTHING = 1e-12  # of a product: what is left of it by rounding errors
_DENSE = 150  # up to here all eigenvalues are as quick as a few
_MORE, _BLOCKS = 4, 6  # columns beside those that are looked for, and products with them
_ROUNDS = 20  # in which factors and what they have of the diagonal settle
_SETTLED = 1e-6  # changes of eigenvalues, relative


def largest(matrix: Matrix) -> float:
    """Return the largest eigenvalue by its size, of a symmetric matrix; about, and not above."""
    return largest_of(lambda x: np.asarray(matrix @ x), matrix.shape[0])


def largest_of(product: Product, n_features: int) -> float:
    """Return the largest eigenvalue of a matrix given by its products with vectors."""
    return float(largest_together(lambda x: product(x[:, 0])[:, None], n_features, 1)[0])


def largest_together(product: Product, n_features: int, number: int) -> FloatArray:
    """Return the largest eigenvalues of several matrices; `product` multiplies a column by each."""
    inner, _ = tridiagonals(product, n_features, number, min(_STEPS, n_features))
    return np.asarray(np.abs(np.linalg.eigvalsh(inner)).max(axis=1))


def tridiagonals(
    product: Product, n_features: int, number: int, steps: int
) -> tuple[FloatArray, FloatArray]:
    """Reduce several symmetric matrices to tridiagonal ones, always from the same vector.

    Lanczos' method, where each step is made orthogonal to all before. Where it ends early, what
    follows is zero. Also returned is the norm of what the last step leaves of each matrix.
    """
    start = np.random.default_rng(1).standard_normal(n_features)
    basis, inner = np.zeros((steps, n_features, number)), np.zeros((number, steps, steps))
    x = np.repeat((start / np.linalg.norm(start))[:, None], number, axis=1)
    left = np.zeros(number)
    for step in range(steps):
        basis[step] = x
        y = product(x)
        inner[:, step, step] = np.einsum("ij,ij->j", x, y)
        size = np.linalg.norm(y, axis=0)
        known = basis[: step + 1]
        for _ in range(2):  # twice is enough
            y = y - np.einsum("kij,kj->ij", known, np.einsum("kij,ij->kj", known, y))
        left = np.linalg.norm(y, axis=0)
        left[left <= _NOTHING * size] = 0.0  # nothing else is reached from the start
        if step + 1 < steps:
            inner[:, step + 1, step] = inner[:, step, step + 1] = left
        x = np.divide(y, left, out=np.zeros_like(y), where=left > 0)
    return inner, left


def leading_direction(matrix: Matrix) -> FloatArray:
    """Approximate the eigenvector of the largest eigenvalue, by its size, of a symmetric matrix."""
    x: FloatArray = np.random.default_rng(3).standard_normal(matrix.shape[0])
    for _ in range(_POWERS):
        x = np.asarray(matrix @ x)
        x /= float(np.linalg.norm(x)) or 1.0
    return x


def beside_diagonal(matrix: FloatArray) -> Product:
    """Return the products with a matrix whose diagonal is zero."""
    diagonal = np.diag(matrix)[:, None]
    return lambda columns: matrix @ columns - diagonal * columns


def top_vectors(matrix: FloatArray, number: int) -> FloatArray:
    """Return orthonormal vectors of about the largest eigenvalues off the diagonal, in order.

    Eigenvalues that stand out of the others are found by a few products with blocks of columns,
    as many of the same size as are looked for.
    """
    d, product = len(matrix), beside_diagonal(matrix)
    width = number + _MORE
    if d <= max(_DENSE, 2 * width * _BLOCKS):
        return np.asarray(np.linalg.eigh(matrix - np.diag(np.diag(matrix)))[1][:, ::-1][:, :number])
    x = np.linalg.qr(np.random.default_rng(2).standard_normal((d, width)))[0]
    basis, products = np.empty((d, 0)), np.empty((d, 0))
    for _ in range(_BLOCKS):
        y = product(x)
        basis, products = np.hstack([basis, x]), np.hstack([products, y])
        for _ in range(2):
            y = y - basis @ (basis.T @ y)
        x = np.linalg.qr(y)[0]
        x -= basis @ (basis.T @ x)  # of columns that were nothing but rounding errors
        x = np.linalg.qr(x)[0]
    inner = basis.T @ products
    vectors = np.linalg.eigh((inner + inner.T) / 2)[1][:, ::-1][:, :number]
    return np.asarray(basis @ vectors)


def settled(matrix: FloatArray, start: FloatArray, edge: float) -> tuple[FloatArray, FloatArray]:
    """Return vectors and values of as many factors as `start` has columns, the largest first.

    Those up to `edge` are noise, and nobody waits until they have settled.

    Features have variances of their own beside the factors, so that the diagonal says nothing of
    them: it is replaced by what the factors have of it, again and again.
    """
    product, own = beside_diagonal(matrix), np.maximum(np.diag(matrix), 0.0)
    vectors, times = start, product(start)
    values = np.maximum(np.einsum("ij,ij->j", vectors, times), 0.0)
    for _ in range(_ROUNDS):
        shared, before = np.minimum(vectors**2 @ values, own)[:, None], values
        vectors = _orthonormal(times + shared * vectors)
        times = product(vectors)
        inner = vectors.T @ (times + shared * vectors)
        values, turned = np.linalg.eigh((inner + inner.T) / 2)
        values, turned = np.maximum(values[::-1], 0.0), turned[:, ::-1]
        vectors, times = vectors @ turned, times @ turned
        if np.abs(values - before)[values > edge].max(initial=0.0) <= _SETTLED * values[0]:
            break
    return vectors, values


def _orthonormal(columns: FloatArray) -> FloatArray:
    """Return orthonormal columns that span the same space."""
    for _ in range(2):
        try:
            root = np.linalg.cholesky(columns.T @ columns)
        except np.linalg.LinAlgError:
            return np.asarray(np.linalg.qr(columns)[0])
        if root.diagonal().min() <= 1e-6 * root.diagonal().max():
            return np.asarray(np.linalg.qr(columns)[0])
        columns = columns @ np.linalg.inv(root).T
    return columns


_ROWS = 16  # for which a thread pays
_DRAWN = 512  # features up to which the norm of noise is that of drawn noise
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


def look_beyond(matrix: FloatArray, levels: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return what is not beyond each level, off the diagonal: numbers, energy and sum of entries.

    Numbers are by level and row. Levels are above zero and ascend; the last may be infinite.
    """
    d, many = len(matrix), len(levels)
    sums, sizes = np.zeros((2, d, many)), np.zeros((d, many), dtype=np.int64)
    run_parts(_measure, [(*part, matrix, levels, *sums, sizes) for part in even_parts(d, _ROWS)])
    energy, total = np.cumsum(sums.sum(axis=1), axis=1)
    return np.cumsum(sizes, axis=1).T, energy, total


def norms_beyond(matrix: FloatArray, levels: FloatArray, counts: IntArray) -> FloatArray:
    """Return the largest eigenvalues of what is left by level, and of noise in all other places.

    That noise has deviation 1; it is on the diagonal, too. `counts` are those of `look_beyond`.
    """
    d, many, parts = len(matrix), len(levels), even_parts(len(matrix), _ROWS)
    starts = np.concatenate([[0], np.cumsum(d - 1 - counts[0])])
    places, passed = np.empty(starts[-1], dtype=np.int32), np.empty(starts[-1], dtype=np.int8)
    values, noise = np.empty((2, starts[-1]), dtype=np.float32)
    entries, diagonal = (places, passed, values, noise), np.empty((d, 1))
    run_parts(_collect, [(*part, matrix, levels, starts, *entries, diagonal) for part in parts])

    def product(x: FloatArray) -> FloatArray:
        y = np.empty_like(x)
        y[:, :many] = matrix @ x[:, :many] - matrix.diagonal()[:, None] * x[:, :many]
        y[:, many:] = diagonal * x[:, many:]
        run_parts(_move, [(*part, starts, *entries, x, y, many) for part in parts])
        return y

    return largest_together(product, d, 2 * many).reshape(2, many)


@lru_cache(maxsize=8)
def noise_size(n_features: int) -> float:
    """Return the largest eigenvalue of noise of deviation 1, as `largest` has it."""
    if n_features > _DRAWN:
        return 2 * math.sqrt(n_features) * math.cos(math.pi / 18)
    every = range(n_features)
    return largest(np.array([[normal_at(i, j) for j in every] for i in every]))


@compiled
def _mixed(word: Any) -> Any:
    """Return a word that looks random: splitmix64."""
    word = (word ^ (word >> _S30)) * _FIRST
    word = (word ^ (word >> _S27)) * _SECOND
    return word ^ (word >> _S31)


@compiled
def normal_at(i: int, j: int) -> float:
    """Return a standard normal for each pair, always the same, in either order."""
    word = _mixed(np.uint64(min(i, j) * 2**32 + max(i, j)) * _STEP + _STEP)
    first = (np.float64(word >> _S11) + 0.5) * 2.0**-53
    second = np.float64(_mixed(word + _STEP) >> _S11) * 2.0**-53
    return math.sqrt(-2.0 * math.log(first)) * math.cos(2.0 * math.pi * second)


@compiled
def _measure(
    start: int,
    stop: int,
    matrix: FloatArray,
    levels: FloatArray,
    energy: FloatArray,
    total: FloatArray,
    sizes: IntArray,
) -> None:
    """Add up squares and values of the entries between levels, and count them, by row."""
    for i in range(start, stop):
        number, squares, values = 0, 0.0, 0.0  # of most entries
        for j in range(len(matrix)):
            value, passed = matrix[i, j], 0
            if j == i:
                continue
            if not abs(value) > levels[0]:
                number, squares, values = number + 1, squares + value * value, values + value
                continue
            while passed < len(levels) and abs(value) > levels[passed]:
                passed += 1
            if passed < len(levels):
                sizes[i, passed] += 1
                energy[i, passed] += value * value
                total[i, passed] += value
        sizes[i, 0], energy[i, 0], total[i, 0] = number, squares, values


@compiled
def _collect(
    start: int,
    stop: int,
    matrix: FloatArray,
    levels: FloatArray,
    starts: IntArray,
    places: npt.NDArray[np.int32],
    passed: npt.NDArray[np.int8],
    values: FloatArray,
    noise: FloatArray,
    diagonal: FloatArray,
) -> None:
    """List entries beyond the first level, with how many levels they are beyond."""
    for i in range(start, stop):
        at, diagonal[i, 0] = starts[i], normal_at(i, i)
        for j in range(len(matrix)):
            size = abs(matrix[i, j])
            if size > levels[0] and j != i:
                beyond = 0
                for level in levels:
                    beyond += size > level
                places[at], passed[at] = j, beyond
                values[at], noise[at] = matrix[i, j], normal_at(i, j)
                at += 1


@compiled
def _move(
    start: int,
    stop: int,
    starts: IntArray,
    places: npt.NDArray[np.int32],
    passed: npt.NDArray[np.int8],
    values: FloatArray,
    noise: FloatArray,
    x: FloatArray,
    y: FloatArray,
    many: int,
) -> None:
    """Take the products of entries beyond a level from the left columns, add those of noise."""
    for i in range(start, stop):
        for at in range(starts[i], starts[i + 1]):
            j = places[at]
            for level in range(passed[at]):
                y[i, level] -= values[at] * x[j, level]
                y[i, many + level] += noise[at] * x[j, many + level]


@dataclass(frozen=True)
class StructureRules:
    """Candidates that are compared, and the evidence that a factor needs.

    The numbers were chosen by `benchmarks/studies/unknown_structure.py`.
    """

    # Thresholds that are tried, in deviations of an entry; fewer for a rough answer.
    thresholds: tuple[float, ...] = (2.0, 2.5, 3.0, 3.5, 4.0, math.inf)
    few_thresholds: tuple[float, ...] = (3.0, math.inf)
    # Factors at most. An eigenvalue, less what noise adds, of so many times that of noise is one.
    most_factors: int = 8
    clear_factor: float = 1.065
    # Fluctuation of the largest eigenvalue of noise, times d^(-2/3).
    beyond_edge: float = 1.5
    # Deviations that a mean must exceed.
    sure_mean: float = 2.5
    # Below a low threshold parts of factors that stand out are lost in noise: at most up to its
    # edge, and usually about this share of it.
    low_threshold: float = 2.75
    unseen: float = 0.6


RULES = StructureRules()


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
        """Norm of the error, about: both parts have directions of their own."""
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
    def factors(self) -> FloatArray:
        """The part of the factors."""
        return np.asarray((self.loadings * self.values) @ self.loadings.T)

    @property
    def matrix(self) -> FloatArray:
        """Both together."""
        return np.asarray(self.factors + self.remainder)


def split(matrix: FloatArray, rank: int, threshold: float, deviation: float) -> Split:
    """Return the strongest eigenvalues off the diagonal, and what is beyond the threshold besides.

    `deviation` is that of an entry. Eigenvalues are moved towards zero by what such noise adds.
    """
    d = len(matrix)
    loadings, values = np.zeros((d, 0)), np.zeros(0)
    if rank:
        top = top_vectors(matrix, min(d, max(rank, RULES.most_factors)))
        loadings, values = settled(matrix, top[:, :rank], _edge(d, deviation))
    values = _shrunk(values, d, deviation)
    rest = _without(matrix, loadings, values)
    if threshold > 0:
        hard = np.abs(rest) <= threshold
        np.fill_diagonal(hard, False)
        rest[hard] = 0.0
    return Split(loadings, values, rest)


def _without(matrix: FloatArray, loadings: FloatArray, values: FloatArray) -> FloatArray:
    """Return a matrix less its factors; a new one."""
    rest = (loadings * values) @ loadings.T
    return np.subtract(matrix, rest, out=rest)


def best_candidate(
    matrix: FloatArray, noise_sd: float, n_records: int, *, rough: bool = False
) -> Candidate:
    """Return the candidate with the smallest error, about; the matrix is in units of the scales.

    A `rough` answer tries fewer thresholds.
    """
    d, thresholds = len(matrix), RULES.few_thresholds if rough else RULES.thresholds
    deviation = entry_deviation(matrix, noise_sd, n_records)
    # Where sampling errors are larger than noise, factors would not be known any better.
    most = min(RULES.most_factors, d // 8) if 2 * noise_sd**2 > deviation**2 else 0
    clear, top = 0, np.zeros((d, 0))
    if most:
        top = top_vectors(matrix, min(d, RULES.most_factors))
        values = _shrunk(settled(matrix, top[:, :most], _edge(d, deviation))[1], d, deviation)
        clear = int(np.count_nonzero(values > RULES.clear_factor * _edge(d, deviation)))
    mean = float(np.trace(matrix)) / d
    size = n_records, largest(matrix) / mean if mean > 0 else 1.0
    best = Candidate(0, 0.0, deviation * noise_size(d), 0.0)
    for rank in sorted({rank for rank in (0, 1, 2, 3, 5, clear) if rank <= clear}, reverse=True):
        rest, unseen = matrix, RULES.unseen * _edge(d, deviation) if rank < clear else 0.0
        if rank:
            loadings, values = settled(matrix, top[:, :rank], _edge(d, deviation))
            rest = _without(matrix, loadings, _shrunk(values, d, deviation))
        found = _candidates(rest, rank, thresholds, (noise_sd, deviation), size, unseen, best.error)
        best = min((best, *found), key=lambda each: (each.error, each.rank))
    return best


def entry_deviation(matrix: FloatArray, noise_sd: float, n_records: int) -> float:
    """Return the standard deviation of an entry that is zero in truth: noise, and sampling."""
    variance = max(0.0, float(np.diag(matrix).mean()))
    return math.hypot(noise_sd, variance / math.sqrt(n_records))


def signal_norm(matrix: FloatArray, taken: Matrix, deviation: float) -> float:
    """Approximate the norm of the signal in entries that are left out; 0 if they look like noise.

    Entries that are stored in `taken` are kept, the diagonal among them. `deviation` is that of the
    noise of the others.
    """
    counts = len(matrix) - np.diff(taken.indptr)
    if not counts.any():
        return 0.0
    energy = float(np.vdot(matrix, matrix)) - float(np.vdot(taken.data, taken.data))
    top = largest_of(lambda x: matrix @ x - taken @ x, len(matrix))
    return _signal(counts, max(0.0, energy), top, deviation)


def _signal(
    counts: IntArray, energy: float, top: float, deviation: float, coherence: float = 1.0
) -> float:
    """Return the norm of signal by its energy and by the largest eigenvalue, `top`.

    `coherence` is by how much the variances of noise may add up along related features.
    """
    d, number = len(counts), float(counts.sum())
    # Each pair is there twice, so that the deviation of the energy is, too.
    energy -= deviation**2 * number + 2 * deviation**2 * math.sqrt(number)
    spread = 2 * math.sqrt(max(energy, 0.0) / d)
    edge = _edge(float(counts.max()), deviation) * math.sqrt(coherence)
    if top <= edge * (1 + RULES.beyond_edge * d ** (-2 / 3)):
        return spread
    return max(spread, (top + math.sqrt(top**2 - edge**2)) / 2)


def coherent_norm(along: float, estimate: float, noise_sd: float, n_records: int) -> float:
    """Return the norm along one direction, in which small entries of one sign add up.

    `along` is what was left out in that direction, `estimate` what the whole is there.
    """
    sampling = max(0.0, estimate) / math.sqrt(n_records)
    doubt = RULES.sure_mean * math.sqrt(2) * math.hypot(noise_sd, sampling)
    return max(0.0, abs(along) - doubt)


def _candidates(
    rest: FloatArray,
    rank: int,
    thresholds: tuple[float, ...],
    deviations: tuple[float, float],
    size: tuple[int, float],
    unseen: float,
    enough: float,
) -> list[Candidate]:
    """Return one for each threshold, in deviations; none if all have an error above `enough`.

    `deviations` are those of noise, and of an entry. `size` has the number of records, and the
    largest eigenvalue over the mean one. `unseen` is hidden below low thresholds at least.
    """
    d, (noise_sd, deviation) = len(rest), deviations
    # None of the others is as large as twice the largest.
    highest = 2 * max(float(rest.max()), -float(rest.min()))
    scaled = (times * deviation if math.isfinite(times) else highest for times in thresholds)
    tried = [each for each in zip(thresholds, scaled, strict=True) if each[1] > 0]
    if not tried:
        return []
    levels = np.array([level for _, level in tried])
    counts, energy, total = look_beyond(rest, levels)
    sampling = 1 - (noise_sd / deviation) ** 2  # the part of the noise that is coherent
    coherence = 1 + sampling * max(0.0, size[1] - 1)

    def hidden(at: int, top: float) -> float:
        spread = deviation * math.sqrt(_inside(tried[at][0]))
        return _signal(counts[at], float(energy[at]), top, spread, coherence)

    if all(hidden(at, 0.0) > enough for at in range(len(tried))):
        return []
    least = deviation * (math.sqrt(d) + 2 * math.sqrt(rank)) if rank else 0.0
    whole, found = float(rest.sum()), []
    signal, noise = norms_beyond(rest, levels, counts).tolist()
    for at, (times, level) in enumerate(tried):
        lost = max(
            hidden(at, signal[at]), unseen if level < RULES.low_threshold * deviation else 0.0
        )
        if rank == 0:
            along, others = float(total[at]) / d, (whole - float(total[at])) / d
            lost = max(lost, coherent_norm(along, others, noise_sd, size[0]))
        kept = deviation * noise[at] * _selected_noise(times, int(counts[at].sum()), d)
        found.append(Candidate(rank, level, max(kept, least), lost))
    return found


def _selected_noise(times: float, below: int, n_features: int) -> float:
    """Return how much larger the noise of entries beyond a threshold is than that of all.

    Some of them, at most as many as noise alone would have, are there because of their noise.
    """
    every = n_features * (n_features - 1)
    if not math.isfinite(times) or below == every:
        return 1.0
    share = 2 * float(special.ndtr(-times))
    beyond = 2 * times * math.exp(-(times**2) / 2) / math.sqrt(2 * math.pi) / share
    return math.sqrt(1 + min(1.0, share * every / (every - below)) * beyond)


def _shrunk(values: FloatArray, n_features: int, deviation: float) -> FloatArray:
    """Return the eigenvalues less what noise adds to them."""
    edge = _edge(n_features, deviation)
    return np.asarray((values + np.sqrt(np.maximum(values**2 - edge**2, 0.0))) / 2)


def _edge(n_features: float, deviation: float) -> float:
    """Return where the eigenvalues of noise end."""
    return 2 * deviation * math.sqrt(n_features)


def _inside(times: float) -> float:
    """Return the variance of a standard normal that is below so many deviations in size."""
    if not math.isfinite(times):
        return 1.0
    density = math.exp(-(times**2) / 2) / math.sqrt(2 * math.pi)
    return 1 - 2 * times * density / (2 * float(special.ndtr(times)) - 1)
