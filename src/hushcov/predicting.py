"""Tools for predictions: reference models, norms of drawn errors, descent over designs.

A plan may not look at the data, so it needs something to predict the error on: the simulation
models at the size in question, scaled to the declared operator norm, and a diagonal matrix,
which has the largest variances that the declared scale allows.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse, special
from scipy.sparse.linalg import eigsh

from hushcov._arrays import FloatArray, IndexArray

REFERENCE_MODELS = ("block", "banded", "random", "diagonal")
COMPARED_MODELS = ("block", "banded", "random")
#: What else is predicted of a mechanism that finds out what a covariance is like: one factor that
#: explains a third of the variance, and pairs that are all related a little.
FACTOR, DENSE = "factor", "dense"
#: Normal quantile of 0.9: what is found nine times out of ten passes its threshold by as much.
NINE_OF_TEN = 1.2815515655446004
# By what a correlation must exceed one that passes its threshold nine times out of ten for a fit to
# report it as nonzero as often, and the share of features that must be expected to be found:
# measured, `tests/planning/test_detection.py`.
_CLEARLY, _SURELY_FOUND = 2.0, 0.98
_HOPELESS = 0.99  # a predicted error at which the zero matrix, whose error is 1, does as well
_SIZES = 48  # distinct nonzero sizes kept; more are pooled into quantiles
_LARGE, _NARROW = 400, 20  # features and widths of bands from which eigenvalues take long
_LARGEST_RANDOM = 2000  # features of the random model whose norm is computed
_ZEROS = 4  # quantiles of |S_e| where Sigma_e = 0


@dataclass(frozen=True)
class Forecast:
    """Forecast of one mechanism.

    `predicted_error` is per reference model and relative to the operator norm of the covariance,
    so that 1 is the error of the zero matrix; of mechanisms that look for factors also for one
    strong factor and for a dense covariance (`FACTOR`, `DENSE`). `rough` says that the
    mechanism's own search was not run, because a quick prediction was far behind; it would improve
    the figures somewhat.
    """

    mechanism: str
    predicted_error: dict[str, float]
    detection_limit: float | None
    rough: bool = False

    @property
    def typical_error(self) -> float:
        """Geometric mean over the block, banded and random models."""
        logs = (math.log(max(self.predicted_error[m], 1e-300)) for m in COMPARED_MODELS)
        return math.exp(statistics.fmean(logs))

    @property
    def hopeless(self) -> bool:
        """Whether releasing nothing, the zero matrix, is expected to do as well."""
        return self.drowns and not self.finds_factors

    @property
    def drowns(self) -> bool:
        """Whether noise exceeds the matrix where features have few partners."""
        return self.typical_error >= _HOPELESS

    @property
    def finds_factors(self) -> bool:
        """Whether one strong factor would be found."""
        return self.predicted_error.get(FACTOR, 1.0) < _HOPELESS


def reported_limit(passes: float, share_found: float) -> float:
    """Return the smallest correlation that a fit reports as nonzero nine times out of ten.

    That holds for columns that are about normal; flags and skewed columns need a stronger one.
    `passes` is one that passes its threshold as often where all is well. That is not enough: the
    interval must exclude zero, too, and scales and norms are noisy. It is 1, and nothing is
    promised, where means and scales of some features may not be found.
    """
    return min(1.0, _CLEARLY * passes) if share_found >= _SURELY_FOUND else 1.0


@dataclass(frozen=True, eq=False)  # compared by identity: `reference` makes each one once
class Reference:
    """A reference covariance in units of scale^2, possibly smaller than the one planned for.

    `counts` are the numbers of upper-triangle entries with each of the `sizes` in the full matrix.
    """

    n_features: int
    matrix: FloatArray
    sizes: FloatArray
    counts: FloatArray
    rows: npt.NDArray[np.intp]  # of the nonzero upper-triangle entries of `matrix`
    columns: npt.NDArray[np.intp]
    values: FloatArray
    size_index: npt.NDArray[np.intp]
    variance: float
    n_pairs: float  # off-diagonal nonzeros of the upper triangle of the full matrix

    @cached_property
    def blocks(self) -> list[slice]:
        """Runs of features that covary with no feature of another one."""
        last = np.zeros(len(self.matrix), dtype=np.intp)
        np.maximum.at(last, self.rows, self.columns)
        ends = np.flatnonzero(np.maximum.accumulate(last) <= np.arange(len(last))) + 1
        return [slice(start, end) for start, end in pairwise((0, *ends.tolist()))]

    @cached_property
    def root(self) -> FloatArray:
        """Symmetric square root of `matrix`."""
        root = np.zeros_like(self.matrix)
        for at in self.blocks:
            values, vectors = np.linalg.eigh(self.matrix[at, at])
            root[at, at] = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        return root

    @cached_property
    def support(self) -> Support:
        """Where `matrix` is not zero."""
        return Support.of(self.rows, self.columns, len(self.matrix))

    @property
    def n_zeros(self) -> float:
        """Zero entries in the upper triangle of the full matrix."""
        return self.n_features * (self.n_features + 1) / 2 - float(self.counts.sum())

    def zero_sizes(self, n_records: int) -> FloatArray:
        """Equally likely sizes of an empirical covariance whose true value is zero."""
        levels = (np.arange(_ZEROS) + 0.5) / _ZEROS
        half_normal = np.asarray(special.ndtri(0.5 + levels / 2))
        return half_normal * (self.variance / math.sqrt(n_records))


@lru_cache(maxsize=64)
def reference(model: str, n_features: int, row_sparsity: int, largest: int) -> Reference:
    """The reference of a model at this size, drawn on at most `largest` features."""
    asked, size = row_sparsity, min(n_features, max(largest, row_sparsity))
    if model == "diagonal":
        row_sparsity = 1  # the same for all
    if (largest, row_sparsity) != (size, asked):
        return reference(model, n_features, row_sparsity, size)
    if model == "diagonal":
        matrix = np.eye(size)
    elif model == "random" and (size < n_features or size > _LARGE):
        matrix = _part_of_random(size, n_features, row_sparsity)
    else:
        matrix = _simulate().MODELS[model](size, row_sparsity, np.random.default_rng(0))
        if size > _LARGE and row_sparsity <= _NARROW:
            band = [np.pad(np.diagonal(matrix, at), (0, at)) for at in range(row_sparsity)]
            matrix /= linalg.eigvals_banded(band, True, select="i", select_range=2 * (size - 1,))
        else:
            matrix /= np.linalg.eigvalsh(matrix)[-1]
    rows, columns = np.nonzero(np.triu(matrix))
    values = matrix[rows, columns]
    sizes, index = _pool(np.abs(values))
    counts = np.bincount(index, minlength=len(sizes)).astype(np.float64) * (n_features / size)
    return Reference(
        n_features=n_features,
        matrix=matrix,
        sizes=sizes,
        counts=counts,
        rows=rows,
        columns=columns,
        values=values,
        size_index=index,
        variance=float(np.mean(np.diag(matrix))),
        n_pairs=_pairs_of(model, n_features, row_sparsity),
    )


def _simulate() -> Any:
    from hushcov import simulate  # loaded with the first plan, not before

    return simulate


def _pairs_of(model: str, n_features: int, row_sparsity: int) -> float:
    """Off-diagonal nonzeros of a model, upper triangle: a part has fewer for its size."""
    d, k = n_features, row_sparsity
    if model == "diagonal":
        return 0.0
    if model == "block":
        groups, rest = divmod(d, k)
        return (groups * k * (k - 1) + rest * (rest - 1)) / 2
    if model == "banded":
        return float(sum(max(0, d - distance) for distance in range(1, (k - 1) // 2 + 1)))
    size = min(d, _LARGEST_RANDOM)
    pairs, _, _ = _simulate().random_matchings(size, k, np.random.default_rng(0))
    return len(pairs) * d / size


def _part_of_random(size: int, n_features: int, row_sparsity: int) -> FloatArray:
    """A random model of `size` features, scaled like one of `n_features`.

    The norm of a random model grows with its size, which shifts all its correlations, and a few
    hundred of them represent the many only if they are spread evenly.
    """
    low, high = _extreme_eigenvalues(min(n_features, _LARGEST_RANDOM), row_sparsity)
    generator = np.random.default_rng(0)
    rows, columns, ranks = _simulate().random_matchings(size, row_sparsity, generator)
    spread = (np.argsort(np.argsort(ranks)) + 0.5) / len(ranks)
    values = (0.05 + 0.45 * spread) * generator.choice([-1.0, 1.0], len(ranks))
    matrix = np.zeros((size, size))
    matrix[rows, columns] = matrix[columns, rows] = values
    # As `sparse_covariance` does at the full size: positive definite, then norm 1.
    variance = max(1.0, 0.1 - low)
    np.fill_diagonal(matrix, variance)
    return matrix / (variance + high)


@lru_cache(maxsize=64)
def _extreme_eigenvalues(n_features: int, row_sparsity: int) -> tuple[float, float]:
    """Of the off-diagonal part of a random model."""
    generator = np.random.default_rng(0)
    rows, columns, ranks = _simulate().random_matchings(n_features, row_sparsity, generator)
    if not len(ranks):
        return 0.0, 0.0
    values = (0.05 + 0.45 * ranks) * generator.choice([-1.0, 1.0], len(ranks))
    upper = sparse.coo_array((values, (rows, columns)), shape=(n_features, n_features))
    start = generator.standard_normal(n_features)
    low, high = eigsh(
        (upper + upper.T).tocsr(), k=2, which="BE", v0=start, tol=1e-3, return_eigenvectors=False
    )
    return float(low), float(high)


def _pool(values: FloatArray) -> tuple[FloatArray, npt.NDArray[np.intp]]:
    """Few distinct sizes and, for each value, which of them stands for it."""
    sizes, index = np.unique(np.round(values, 9), return_inverse=True)
    if len(sizes) <= _SIZES:
        return sizes, index
    order = np.argsort(values, kind="stable")
    index = np.empty(len(values), dtype=np.intp)
    # Finer among the small ones, which are the ones that may be missed.
    rank = (np.arange(len(values)) + 0.5) / len(values)
    index[order] = (_SIZES * rank**0.5).astype(np.intp)
    index = np.unique(index, return_inverse=True)[1]
    return np.asarray(np.bincount(index, weights=values) / np.bincount(index)), index


# Lanczos steps: norms are from below.
_STEPS, _MANY_STEPS, _SMALLEST = 16, 32, 1e-290


@dataclass(frozen=True, eq=False)
class Support:
    """Where matrices of one shape have their nonzeros: entries of the upper triangle."""

    size: int
    entries: IndexArray  # which entry each place of a matrix, row by row, is
    columns: IndexArray
    ends: IndexArray

    @classmethod
    def of(cls, rows: IndexArray, columns: IndexArray, size: int) -> Support:
        """The support with these entries."""
        twice = np.flatnonzero(rows != columns)
        entries = np.append(np.arange(len(rows)), twice)
        at_rows, at_columns = np.append(rows, columns[twice]), np.append(columns, rows[twice])
        order = np.lexsort((at_columns, at_rows))
        ends = np.cumsum(np.bincount(at_rows, minlength=size))
        return cls(size, entries[order], at_columns[order], ends)


@lru_cache(maxsize=64)
def _repeated(supports: tuple[Support, ...], n_draws: int) -> tuple[IndexArray, IndexArray]:
    """Columns and ends of rows of many matrices with each support, as blocks of one matrix."""
    draws, size = np.arange(n_draws)[:, None], supports[0].size
    columns, ends, first, length = [], [np.zeros(1, dtype=np.int64)], 0, 0
    for support in supports:
        columns.append((support.columns + size * (first + draws)).ravel())
        ends.append((length + support.ends + len(support.entries) * draws).ravel())
        first, length = first + n_draws, length + n_draws * len(support.entries)
    kind = np.int32 if max(length, first * size) < 2**31 else np.int64
    return np.concatenate(columns).astype(kind), np.concatenate(ends).astype(kind)


#: Entries of upper triangles: of which matrix, row, column, value. Those of one place add up.
Entries = tuple[IndexArray, IndexArray, IndexArray, FloatArray]


def support_norms(
    supports: Sequence[Support],
    values: Sequence[FloatArray],
    more: Sequence[Entries],
    *,
    precise: bool = False,
) -> FloatArray:
    """Operator norms of matrices of one size: for each support, and each row of its values.

    What is added to the matrices of a support is in `more`. They are within a percent or so, with
    `precise` within a part in a thousand.
    """
    n_draws, size, n_all = len(values[0]), supports[0].size, len(supports) * len(values[0])
    data = [own[:, each.entries].ravel() for each, own in zip(supports, values, strict=True)]
    whole = sparse.csr_array(
        (np.concatenate(data), *_repeated(tuple(supports), n_draws)),
        shape=(n_all * size, n_all * size),
    )
    draws = [place * n_draws + entries[0] for place, entries in enumerate(more)]
    rows, columns, added = (np.concatenate([each[at] for each in more]) for at in (1, 2, 3))
    parts = [whole]
    if len(rows):
        parts.append(_blocks(np.concatenate(draws), rows, columns, added, n_all, size))

    def image(vectors: FloatArray) -> FloatArray:
        images: Any = (part @ vectors.ravel() for part in parts)
        return np.asarray(sum(images)).reshape(vectors.shape)

    norms = _lanczos(image, _begin(n_all, size), _MANY_STEPS if precise else _STEPS)
    return norms.reshape(len(supports), n_draws)


def _begin(n_draws: int, size: int) -> FloatArray:
    """Return the start vector, the same for every matrix."""
    begin = np.random.default_rng(0).standard_normal(size)
    return np.tile(begin / np.linalg.norm(begin), (n_draws, 1))


def _blocks(
    draws: IndexArray,
    rows: IndexArray,
    columns: IndexArray,
    values: FloatArray,
    n_draws: int,
    size: int,
) -> sparse.csr_array:
    """Symmetric matrices given by entries of their upper triangles, as blocks of one matrix."""
    twice = rows != columns
    above, below = draws * size + rows, draws * size + columns
    return sparse.coo_array(
        (
            np.append(values, values[twice]),
            (np.append(above, below[twice]), np.append(below, above[twice])),
        ),
        shape=(n_draws * size, n_draws * size),
    ).tocsr()


def dense_norms(matrices: FloatArray) -> FloatArray:
    """Operator norms of symmetric matrices, within a part in a thousand or so."""
    n_draws, size, _ = matrices.shape

    def image(vectors: FloatArray) -> FloatArray:
        return np.asarray((matrices @ vectors[:, :, None])[:, :, 0])

    return _lanczos(image, _begin(n_draws, size), _MANY_STEPS)


def _lanczos(
    image_of: Callable[[FloatArray], FloatArray], begin: FloatArray, steps: int
) -> FloatArray:
    """The largest eigenvalue of every matrix, by size, from below."""
    n_blocks, size = begin.shape
    steps = min(steps, size)
    projected = np.zeros((n_blocks, steps, steps))
    last, vector, off = np.zeros_like(begin), begin, np.zeros(n_blocks)
    for step in range(steps):
        image = image_of(vector)
        image -= off[:, None] * last
        on = np.einsum("ij,ij->i", vector, image)
        image -= on[:, None] * vector
        projected[:, step, step] = on
        off = np.sqrt(np.einsum("ij,ij->i", image, image))
        off[off < 1e-12 * (np.abs(on) + _SMALLEST)] = 0.0  # nothing is left but rounding errors
        if step + 1 < steps:
            projected[:, step, step + 1] = projected[:, step + 1, step] = off
        last, vector = vector, image / np.where(off > 0, off, np.inf)[:, None]
    return np.asarray(np.abs(np.linalg.eigvalsh(projected)).max(axis=1))


Point = TypeVar("Point")
#: The score of a point, or if that is at least the number given, any number from there up to it.
Score = Callable[[Point, float], float]
Move = Callable[[str, Point, int], Point | None]

_ENOUGH = 0.999  # a line must improve the score by this factor to be walked


def descend(
    score: Score[Point], start: Point, lines: Sequence[str], move: Move[Point]
) -> tuple[float, Point]:
    """Walk along one line after another, as long as one of them helps.

    `move(line, point, stride)` is the point `stride` choices further along a line, None beyond
    its end. Scores are positive, and smaller is better.
    """
    best_score, best = score(start, math.inf), start
    improved = True
    while improved:
        improved = False
        for line in lines:
            found_score, found = _walk(score, best_score, best, line, move)
            if found_score < _ENOUGH * best_score:
                best_score, best, improved = found_score, found, True
    return best_score, best


def _walk(
    score: Score[Point], best_score: float, best: Point, line: str, move: Move[Point]
) -> tuple[float, Point]:
    """Follow a line one way, then the other, while the score improves; long steps first."""
    for stride in (2, 1, -2, -1):
        trial = move(line, best, stride)
        while trial is not None:
            trial_score = score(trial, best_score)
            if trial_score >= best_score:
                break
            best_score, best = trial_score, trial
            trial = move(line, best, stride)
    return best_score, best
