"""Sparse covariance models, Gaussian records, and second moments at sizes nobody can store.

Nothing here is private: it makes data for tests, demonstrations and the check of the theorem.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from hushcov._arrays import FloatArray, IndexArray
from hushcov._validation import check_choice, check_integer
from hushcov.exceptions import DataError


@dataclass(frozen=True)
class SimulatedMoments:
    """A second-moment matrix S that was drawn rather than computed, with the n it stands for."""

    covariance: FloatArray
    n_records: int

    def __post_init__(self) -> None:
        check_integer(
            "n_records", self.n_records, at_least=1, cure="give the simulated record count."
        )
        S = np.array(self.covariance, dtype=np.float64)
        if S.ndim != 2 or S.shape[0] != S.shape[1]:
            raise DataError(f"covariance must be a square matrix, got shape {S.shape}.")
        if not np.isfinite(S).all() or not np.array_equal(S, S.T):
            raise DataError("covariance must be finite and exactly symmetric: symmetrise it.")
        S.flags.writeable = False
        object.__setattr__(self, "covariance", S)

    @property
    def n_features(self) -> int:
        """Number of columns d."""
        return int(self.covariance.shape[0])


def sparse_covariance(
    model: str, n_features: int, row_sparsity: int, *, random_state: int | None = 0
) -> FloatArray:
    """A covariance with at most `row_sparsity` nonzeros a row, scaled to operator norm 1.

    `"block"`: blocks of correlation 1/2. `"banded"`: a triangular taper. `"random"`: random
    matchings with entries uniform in +-[0.05, 0.5] before scaling.
    """
    check_choice("model", model, tuple(MODELS))
    d = check_integer("n_features", n_features, at_least=1, cure="give the number of columns.")
    k = check_integer(
        "row_sparsity",
        row_sparsity,
        at_least=1,
        at_most=d,
        cure="it counts the nonzeros of a row, the diagonal included.",
    )
    sigma = MODELS[model](d, k, np.random.default_rng(random_state))
    return np.asarray(sigma / np.linalg.eigvalsh(sigma)[-1])


def _block(d: int, k: int, _: np.random.Generator) -> FloatArray:
    group = np.arange(d) // k
    return 0.5 * (np.equal.outer(group, group) + np.eye(d))


def _banded(d: int, k: int, _: np.random.Generator) -> FloatArray:
    width = (k - 1) // 2 + 1
    distance = np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    return np.maximum(0.0, 1 - distance / width)


def _random(d: int, k: int, generator: np.random.Generator) -> FloatArray:
    """Matchings never repeat a pair, so a row gets at most k - 1 off-diagonal entries."""
    sigma = np.zeros((d, d))
    for _ in range(k - 1):
        order = generator.permutation(d)
        left, right = order[: d // 2], order[d // 2 : 2 * (d // 2)]
        value = generator.uniform(0.05, 0.5, d // 2) * generator.choice([-1, 1], d // 2)
        fresh = sigma[left, right] == 0
        sigma[left[fresh], right[fresh]] = value[fresh]
        sigma[right[fresh], left[fresh]] = value[fresh]
    np.fill_diagonal(sigma, max(1.0, 0.1 - np.linalg.eigvalsh(sigma)[0]))
    return sigma


def random_matchings(
    n_features: int, row_sparsity: int, generator: np.random.Generator
) -> tuple[IndexArray, IndexArray, FloatArray]:
    """Pairs of a random model, i < j, without its matrix, and a uniform number for each.

    k - 1 random matchings; a pair that comes twice counts once.
    """
    d = n_features
    orders = [generator.permutation(d) for _ in range(row_sparsity - 1)]
    left = np.concatenate([order[: d // 2] for order in orders] or [np.empty(0, np.intp)])
    right = np.concatenate([o[d // 2 : 2 * (d // 2)] for o in orders] or [np.empty(0, np.intp)])
    pairs = np.unique(np.minimum(left, right) * d + np.maximum(left, right))
    return pairs // d, pairs % d, generator.random(len(pairs))


MODELS: dict[str, Callable[[int, int, np.random.Generator], FloatArray]] = {
    "block": _block,
    "banded": _banded,
    "random": _random,
}


def structured_covariance(
    name: str, n_features: int, *, random_state: int | None = 0
) -> FloatArray:
    """A correlation matrix of some structure, sparse or not, that nobody tells the estimator.

    Parameters
    ----------
    name : str
        Which of `FAMILIES`. Sparse: `"block"`, `"banded"`, `"random"` (as in `sparse_covariance`,
        five nonzeros a row), `"random-20"`, `"mixed-blocks"` (of 2 to 34 columns) and `"identity"`.
        Nearly sparse: `"ar-0.5"`, `"ar-0.8"`, `"decay"` (along a line, with power 1.5), `"lq"`
        (at random places, with power 1.2). Factors: `"factor-blocks"`, `"three-factors"`,
        `"weak-factor"`, `"hubs"`. Dense: `"equicorrelated"`, `"wishart"`, `"one-hot"` (columns
        that say which answer of a question was given).
    n_features : int
        Number of columns d.
    random_state : int, optional
        Seed of what is random in it.
    """
    check_choice("name", name, tuple(FAMILIES))
    d = check_integer("n_features", n_features, at_least=1, cure="give the number of columns.")
    covariance = FAMILIES[name](d, np.random.default_rng(random_state))
    deviation = np.sqrt(np.diag(covariance))
    return np.asarray(covariance / np.multiply.outer(deviation, deviation))


def _distance(d: int) -> FloatArray:
    return np.abs(np.subtract.outer(np.arange(d), np.arange(d))).astype(np.float64)


def _mixed_blocks(d: int, _: np.random.Generator) -> FloatArray:
    sizes = (2, 3, 5, 8, 13, 21, 34)
    group = np.repeat(np.arange(d), [sizes[i % len(sizes)] for i in range(d)])[:d]
    return np.asarray(0.5 * (np.equal.outer(group, group) + np.eye(d)))


def _with_unit_diagonal(off: FloatArray) -> FloatArray:
    """Ones on the diagonal, and off it what is left positive definite by them."""
    shrunk = min(1.0, 0.95 / max(1e-9, -float(np.linalg.eigvalsh(off)[0])))
    return np.asarray(np.eye(len(off)) + shrunk * off)


def _lq(d: int, generator: np.random.Generator) -> FloatArray:
    """Sizes k^-1.2 in every row, each at a random place."""
    off = np.zeros((d, d))
    for k in range(1, min(d, 60)):
        order = generator.permutation(d)
        left, right = order[: d // 2], order[d // 2 : 2 * (d // 2)]
        value = 0.5 * k**-1.2 * generator.choice([-1.0, 1.0], d // 2)
        off[left, right] += value
        off[right, left] += value
    return _with_unit_diagonal(off)


def _factor_blocks(d: int, generator: np.random.Generator) -> FloatArray:
    loading = generator.uniform(0.3, 0.8, d) * generator.choice([-1, 1], d)
    return np.asarray(np.multiply.outer(loading, loading) + 0.6 * _block(d, 5, generator))


def _factors(loadings: FloatArray, rest: float) -> FloatArray:
    return np.asarray(loadings @ loadings.T + rest * np.eye(len(loadings)))


def _hubs(d: int, generator: np.random.Generator) -> FloatArray:
    """One column of fifty is related to thirty others."""
    hubs = generator.choice(d, max(1, d // 50), replace=False)
    loadings = np.zeros((d, len(hubs)))
    for column, hub in enumerate(hubs):
        loadings[generator.choice(d, min(d // 2, 30), replace=False), column] = 0.4
        loadings[hub, column] = 1.0
    return _factors(loadings, 0.7)


def _one_hot(d: int, generator: np.random.Generator) -> FloatArray:
    """Answers to questions with 2 to 11 choices, which three traits make more or less likely."""
    people = max(4000, 4 * d)
    traits = generator.standard_normal((people, 3))
    answers: list[FloatArray] = []
    while sum(each.shape[1] for each in answers) < d:
        choices = int(generator.integers(2, 12))
        taste = traits @ (0.7 * generator.standard_normal((3, choices)))
        taste += generator.gumbel(size=taste.shape) + generator.standard_normal(choices)
        answers.append(np.eye(choices)[taste.argmax(axis=1)])
    columns = np.hstack(answers)[:, :d]
    # The columns of a question add up to 1: a little noise keeps the matrix positive definite.
    columns = columns + 1e-3 * generator.standard_normal(columns.shape)
    return np.cov(columns, rowvar=False).reshape(d, d)


#: Structures that `structured_covariance` knows, by name.
FAMILIES: dict[str, Callable[[int, np.random.Generator], FloatArray]] = {
    "block": lambda d, rng: _block(d, 5, rng),
    "banded": lambda d, rng: _banded(d, 5, rng),
    "random": lambda d, rng: _random(d, min(5, d), rng),
    "random-20": lambda d, rng: _random(d, max(1, min(20, d // 2)), rng),
    "mixed-blocks": _mixed_blocks,
    "identity": lambda d, _: np.eye(d),
    "ar-0.5": lambda d, _: 0.5 ** _distance(d),
    "ar-0.8": lambda d, _: 0.8 ** _distance(d),
    "decay": lambda d, _: _with_unit_diagonal(
        0.5 * (_distance(d) + np.eye(d)) ** -1.5 - 0.5 * np.eye(d)
    ),
    "lq": _lq,
    "factor-blocks": _factor_blocks,
    "three-factors": lambda d, rng: _factors(rng.standard_normal((d, 3)) * [0.6, 0.4, 0.25], 0.5),
    "weak-factor": lambda d, rng: _factors(0.15 * rng.standard_normal((d, 1)), 1.0),
    "hubs": _hubs,
    "equicorrelated": lambda d, _: np.full((d, d), 0.05) + 0.95 * np.eye(d),
    "wishart": lambda d, rng: _factors(rng.standard_normal((2 * d, d)).T, 0.0),
    "one-hot": _one_hot,
}


def gaussian_records(
    covariance: FloatArray, n_records: int, *, random_state: int | None = 0
) -> FloatArray:
    """Mean-zero Gaussian records with the given positive definite covariance."""
    factor = linalg.cholesky(covariance, lower=True)
    normals = np.random.default_rng(random_state).standard_normal((n_records, len(covariance)))
    return np.asarray(normals @ factor.T)


def wishart_moments(
    covariance: FloatArray, n_records: int, *, random_state: int | None = 0
) -> SimulatedMoments:
    """S of `n_records` Gaussian records, drawn without the records (Bartlett's decomposition).

    n S is Wishart(n, Sigma), so this works at n = 1e18, where no record could be stored.
    """
    generator = np.random.default_rng(random_state)
    d = len(covariance)
    if n_records < d:
        records = gaussian_records(covariance, n_records, random_state=random_state)
        S = records.T @ records / n_records
        return SimulatedMoments((S + S.T) / 2, n_records)
    bartlett = np.tril(generator.standard_normal((d, d)), -1)
    degrees = n_records - np.arange(d, dtype=np.float64)
    np.fill_diagonal(bartlett, np.sqrt(2 * generator.standard_gamma(degrees / 2)))
    root = linalg.cholesky(covariance, lower=True) @ bartlett / math.sqrt(n_records)
    S = root @ root.T
    return SimulatedMoments((S + S.T) / 2, n_records)
