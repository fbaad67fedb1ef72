"""Predicted errors: forecasts, reference models, drawn errors, and descent over designs.

A plan may not look at the data, so it needs something to predict the error on: the simulation
models at the size in question, scaled to the declared operator norm, and a diagonal matrix,
which has the largest variances that the declared scale allows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy import linalg, sparse, special
from scipy.sparse.linalg import eigsh

from hushcov._arrays import FloatArray, IndexArray

#: Normal quantile of 0.9: what is found nine times out of ten passes its threshold by as much.
NINE_OF_TEN = 1.2815515655446004
# By what a correlation must exceed one that passes its threshold nine times out of ten for a fit to
# report it as nonzero as often, and the share of features that must be expected to be found:
# measured, `tests/fit/test_detection.py`.
_CLEARLY, _SURELY_FOUND = 2.0, 0.98
#: Features of the references on which errors are predicted, at most.
REFERENCE_FEATURES = 100
_LARGE, _NARROW = 400, 20  # features and widths of bands from which eigenvalues take long
_LARGEST_RANDOM = 2000  # features of the random model whose norm is computed
_ZEROS = 4  # quantiles of |S_e| where Sigma_e = 0


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
    """A covariance of norm 1, with the upper triangle's nonzeros and the mean of the variances.

    It may have fewer features than the `n_features` that it stands for; `n_pairs` counts pairs with
    a covariance among those.
    """

    n_features: int
    matrix: FloatArray
    n_pairs: float
    rows: IndexArray
    columns: IndexArray
    values: FloatArray
    variance: float

    @cached_property
    def blocks(self) -> list[slice]:
        """Runs of features, each of which covaries with none outside its run."""
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

    def zero_sizes(self, n_records: int) -> FloatArray:
        """Return equally likely sizes of an empirical covariance whose true value is zero."""
        levels = (np.arange(_ZEROS) + 0.5) / _ZEROS
        half_normal = np.asarray(special.ndtri(0.5 + levels / 2))
        return half_normal * (self.variance / math.sqrt(n_records))


@lru_cache(maxsize=64)
def reference(model: str, n_features: int, row_sparsity: int, largest: int) -> Reference:
    """Return the reference of a model at this size, of at most `largest` features."""
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
    n_pairs, variance = _pairs_of(model, n_features, row_sparsity), float(np.mean(np.diag(matrix)))
    values = matrix[rows, columns]
    return Reference(n_features, matrix, n_pairs, rows, columns, values, variance)


def _simulate() -> Any:
    from hushcov import simulate  # loaded with the first plan, not before

    return simulate


def _pairs_of(model: str, n_features: int, row_sparsity: int) -> float:
    """Count the off-diagonal nonzeros of a whole model, of which a part has too few."""
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
    """Return a random model of `size` features, scaled like one of `n_features`.

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
    """Return the extreme eigenvalues of the off-diagonal part of a random model."""
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


#: Entries of upper triangles: of which matrix, row, column, value. Those of one place add up.
Entries = tuple[IndexArray, IndexArray, IndexArray, FloatArray]

_REPETITIONS, _MOST_PARTS = 5, 12
_STEPS, _MANY_STEPS, _SMALLEST = 16, 32, 1e-290  # of Lanczos' method, whose norms are from below


@dataclass(frozen=True, eq=False)
class ErrorLaw:
    """Errors of a release on a reference covariance, in the units of that.

    Parameters
    ----------
    pair, diagonal : float
        Standard deviations of the noise of a released pair and of a variance.
    threshold : float
        Released pairs below it are set to zero.
    lost : float
        Share of every entry that bounds on norms take off.
    selected : ndarray or float
        Chance that each pair of the reference is released.
    false : float
        Expected number of released pairs without a covariance, of the whole table.
    """

    pair: float
    diagonal: float
    threshold: float
    lost: float = 0.0
    selected: FloatArray | float = 1.0
    false: float = 0.0


def median_errors(
    laws: Mapping[Reference, ErrorLaw], n_sampled: int, *, seed: int = 1
) -> list[float]:
    """Draw errors on references of one size, and return the median norm on each.

    A covariance of many features errs like the worst of several independent parts.
    """
    ref = next(iter(laws))
    size = len(ref.matrix)
    parts = min(_MOST_PARTS, math.ceil(ref.n_features / size))
    repetitions = max(_REPETITIONS, 500 // size)  # few features cost little and vary much
    draws = parts * repetitions
    drawn = [_draw(law, each, draws, n_sampled, seed) for each, law in laws.items()]
    entries = [(draws * i + which, *rest) for i, (which, *rest) in enumerate(drawn)]
    which, rows, columns, values = (np.concatenate(each) for each in zip(*entries, strict=True))
    norms = sparse_norms((which, rows, columns, values), draws * len(laws), size)
    largest = norms.reshape(len(laws), repetitions, parts).max(axis=2)
    return [float(each) for each in np.median(largest, axis=1)]


def _draw(law: ErrorLaw, ref: Reference, n_draws: int, n_sampled: int, seed: int) -> Entries:
    """Draw errors on the support of a reference, and what is kept beside it."""
    drawn, off = _drawn(ref, n_draws, seed), ref.rows != ref.columns
    value = drawn.sampling[np.arange(n_draws) % len(drawn.sampling)]
    value /= math.sqrt(2 * n_sampled)
    value += ref.values * (1 - law.lost)
    value += np.where(off, law.pair, law.diagonal) * drawn.normals
    chance = np.ones(len(ref.values))
    chance[off] = law.selected
    kept = (drawn.uniforms < chance) & (~off | (np.abs(value) > law.threshold))
    errors = np.where(kept, value, 0.0) - ref.values
    # Pairs without a covariance, at the rate of the full size for each feature.
    bits, size = np.random.PCG64(), len(ref.matrix)
    bits.state = drawn.state
    generator = np.random.Generator(bits)
    noise = math.hypot(law.pair, ref.variance / math.sqrt(n_sampled))
    beyond = float(special.ndtr(-law.threshold / noise))
    rate = law.false * 2 * beyond * size / ref.n_features
    number = generator.poisson(min(rate, size * (size - 1) / 2), size=n_draws)
    draws = np.repeat(np.arange(n_draws), number)
    rows, columns = generator.integers(size, size=(2, len(draws)))
    tail = beyond * generator.uniform(1e-12, 1.0, len(draws))  # normal, given that it is beyond
    values = -special.ndtri(tail) * noise * generator.choice([-1.0, 1.0], len(draws))
    at = (rows != columns) & (ref.matrix[rows, columns] == 0)
    return (
        np.append(np.repeat(np.arange(n_draws), len(ref.rows)), draws[at]),
        np.append(np.tile(ref.rows, n_draws), rows[at]),
        np.append(np.tile(ref.columns, n_draws), columns[at]),
        np.append(errors, values[at]),
    )


class _Drawn(NamedTuple):
    """Random numbers of errors on a reference, which do not depend on the release."""

    uniforms: FloatArray
    normals: FloatArray
    sampling: FloatArray  # sqrt(2 n) (S - Sigma) on the support; few, and used again and again
    state: Any  # of the generator, for what follows


@lru_cache(maxsize=24)
def _drawn(ref: Reference, n_draws: int, seed: int) -> _Drawn:
    """Draw once for all numbers of records, budgets and designs."""
    bits = np.random.PCG64([seed, len(ref.matrix)])
    generator, shape = np.random.Generator(bits), (n_draws, len(ref.values))
    uniforms, normals = generator.random(shape), generator.standard_normal(shape)
    # Those of many features cost most and matter least.
    few = min(n_draws, max(_MOST_PARTS, 1200 // len(ref.matrix)))
    G = generator.standard_normal((few, *ref.matrix.shape))
    noise = ref.root @ (G + G.transpose(0, 2, 1)) @ ref.root
    return _Drawn(uniforms, normals, noise[:, ref.rows, ref.columns], bits.state)


def sparse_norms(
    entries: Entries, n_matrices: int, size: int, *, precise: bool = False
) -> FloatArray:
    """Return operator norms of symmetric matrices of one size, given by their upper triangles.

    They are within a percent or so, with `precise` within a part in a thousand.
    """
    which, rows, columns, values = entries
    twice = rows != columns
    above, below = which * size + rows, which * size + columns
    places = np.append(above, below[twice]), np.append(below, above[twice])
    shape = n_matrices * size, n_matrices * size
    whole = sparse.coo_array((np.append(values, values[twice]), places), shape=shape).tocsr()

    def image(vectors: FloatArray) -> FloatArray:
        return np.asarray(whole @ vectors.ravel()).reshape(vectors.shape)

    return _lanczos(image, n_matrices, size, _MANY_STEPS if precise else _STEPS)


def dense_norms(matrices: FloatArray) -> FloatArray:
    """Return operator norms of symmetric matrices, within a part in a thousand or so."""
    n_matrices, size, _ = matrices.shape

    def image(vectors: FloatArray) -> FloatArray:
        return np.asarray((matrices @ vectors[:, :, None])[:, :, 0])

    return _lanczos(image, n_matrices, size, _MANY_STEPS)


def _lanczos(
    image_of: Callable[[FloatArray], FloatArray], n_matrices: int, size: int, steps: int
) -> FloatArray:
    """Return the largest eigenvalue of every matrix, by size, from below."""
    steps = min(steps, size)
    begin = np.random.default_rng(0).standard_normal(size)
    vector = np.tile(begin / np.linalg.norm(begin), (n_matrices, 1))
    projected = np.zeros((n_matrices, steps, steps))
    last, off = np.zeros_like(vector), np.zeros(n_matrices)
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
