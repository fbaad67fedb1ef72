"""Trace records in a release, and compare with what any private estimate must leak.

The statistic C(x, M) of docs/proofs/lower_bound.md is large for records that an estimate M was made
from, and zero on average for others. Its sum over all records has a bound from above by privacy and
one from below by accuracy, and together they bound the number of records from below, for every
mechanism. Covariances are drawn from the prior of that proof, so that no estimate knows them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import linalg, special

from hushcov._arrays import FloatArray, IntArray
from hushcov._validation import check_integer, check_real
from hushcov.candidates import Candidates
from hushcov.exceptions import (
    AccuracyWarning,
    CapacityError,
    HushcovError,
    PrivacyWarning,
    SeededNoiseWarning,
)
from hushcov.fit.comparison import smallest_n
from hushcov.fit.registry import candidate_mechanisms, predicted
from hushcov.inputs import ReleaseInputs
from hushcov.metrics import operator_norm
from hushcov.simulate import gaussian_records, sparse_covariance
from hushcov_lab.benchmark.cells import DELTA, Point
from hushcov_lab.benchmark.contenders import CONTENDERS, PURE, ZERO, ContenderSetting

#: What can be traced: every mechanism, and estimates without privacy.
TRACED = tuple(name for name, each in CONTENDERS.items() if name != ZERO and not each.chooses)
#: The largest error that the lower bound speaks of.
LARGEST_ERROR = 1 / 32
_RADIUS = 16  # of the class of covariances, over the error
_ACCURATE = 15 / 16  # probability of the error
_FEWEST_RUNS = 4
_MODEL = "block"  # whose errors the planner predicts
_MOST_MODELLED = 200  # features of the model whose variance is looked up


@dataclass(frozen=True)
class BlockModel:
    """Covariances I + W with known blocks and ||W|| <= 16 times the error: the class of the proof.

    Blocks have `row_sparsity` features, the last one perhaps fewer.
    """

    n_features: int
    row_sparsity: int
    target_error: float

    def __post_init__(self) -> None:
        d = check_integer("n_features", self.n_features, at_least=1, cure="give their number.")
        cure = "it is the size of the blocks."
        check_integer("row_sparsity", self.row_sparsity, at_least=1, at_most=d, cure=cure)
        cure = "the lower bound is proved up to 1/32."
        check_real("target_error", self.target_error, above=0, at_most=LARGEST_ERROR, cure=cure)

    @property
    def sizes(self) -> IntArray:
        """Features of each block."""
        return np.diff(np.append(np.arange(0, self.n_features, self.row_sparsity), self.n_features))

    @property
    def dimension(self) -> int:
        """Numbers that are unknown: entries of the blocks with i <= j."""
        return int(np.sum(self.sizes * (self.sizes + 1) // 2))

    @property
    def radius(self) -> float:
        """Largest norm of W."""
        return _RADIUS * self.target_error

    def draw(self, generator: np.random.Generator) -> FloatArray:
        """Draw a covariance from the prior of the proof."""
        # With k + 1 degrees of freedom U = (A + B)^(-1/2) A (A + B)^(-1/2) is uniform on
        # 0 <= U <= I, so 2U - I is uniform on the unit ball of a block.
        blocks = []
        for size in self.sizes:
            first, second = generator.standard_normal((2, size + 1, size))
            root = linalg.cholesky(first.T @ first + second.T @ second)
            half = linalg.solve_triangular(root, first.T, trans="T")
            blocks.append(2 * half @ half.T - np.eye(size))
        direction = linalg.block_diag(*blocks)
        share = generator.beta(self.dimension, 2)  # proof: step 2
        return np.asarray(
            np.eye(self.n_features) + self.radius * share / operator_norm(direction) * direction
        )

    def restrict(self, estimate: FloatArray) -> FloatArray:
        """Return the estimate within the class: its blocks, with eigenvalues clipped."""
        blocks, start = [], 0
        for size in self.sizes:  # proof: step 1
            block = estimate[start : start + size, start : start + size]
            values, vectors = np.linalg.eigh((block + block.T) / 2 - np.eye(size))
            clipped = np.clip(values, -self.radius, self.radius)
            blocks.append(np.eye(size) + (vectors * clipped) @ vectors.T)
            start += size
        return np.asarray(linalg.block_diag(*blocks))


def least_records(
    n_features: int, row_sparsity: int, target_error: float, epsilon: float, delta: float
) -> float:
    """Bound from below the records of every private estimate, by Theorem A of the proof.

    With fewer, no (epsilon, delta)-DP estimate (one record replaced) is within `target_error` of
    every covariance of `BlockModel` in operator norm, with probability 15/16 for each.
    """
    model = BlockModel(n_features, row_sparsity, target_error)
    check_real("epsilon", epsilon, above=0, cure="it is the privacy budget.")
    check_real("delta", delta, above=0, or_zero=True, at_most=1, cure="it is a probability.")
    # The least that accuracy forces, over the most that privacy allows a record.
    deviation = math.sqrt(2 * n_features) * 4 * target_error  # proof: step 4
    return model.dimension / 2 / _most_traced(model, epsilon, delta, deviation)


def _most_traced(model: BlockModel, epsilon: float, delta: float, deviation: float) -> float:
    """Bound what privacy lets one record add, where C of other records has this deviation."""
    largest = 2 * 2 * model.radius * model.n_features  # the mean of Y
    return math.expm1(epsilon) * deviation + 2 * delta * largest  # proof: step 4


def whitened(estimate: FloatArray, covariance: FloatArray) -> FloatArray:
    """Return Sigma^(-1/2) (M - Sigma) Sigma^(-1/2), up to a rotation."""
    root = linalg.cholesky(covariance, lower=True)
    half = linalg.solve_triangular(root, estimate - covariance, lower=True)
    return np.asarray(linalg.solve_triangular(root, half.T, lower=True))


def tracing_statistic(
    records: FloatArray, estimate: FloatArray, covariance: FloatArray
) -> FloatArray:
    """Return C(x, M) = <Sigma^-1 (xx' - Sigma) Sigma^-1, M - Sigma> / 2 of every record."""
    root = linalg.cholesky(covariance, lower=True)
    rows = linalg.solve_triangular(root, records.T, lower=True).T
    error = whitened(estimate, covariance)
    # proof: step 3
    return np.asarray((np.einsum("ij,ij->i", rows @ error, rows) - np.trace(error)) / 2)


@dataclass(frozen=True)
class Tracing:
    """One estimate, traced: means over runs, with standard errors over them.

    `difference` is the mean of C over records of the estimate less that over others, and `total`
    the sum of C over the records. `allowed` is what privacy allows `total` at most, on average,
    and `forced` what accuracy forces at least; None where there is no promise, or where fewer than
    15 in 16 runs are within the error.
    """

    mechanism: str
    difference: float
    difference_error: float
    total: float
    total_error: float
    allowed: float | None
    forced: float | None
    mean_error: float
    accurate: float
    runs: int
    survives: bool = True

    def to_dict(self) -> dict[str, object]:
        """Return plain, JSON-ready data."""
        return asdict(self)


def trace(
    mechanism: str,
    model: BlockModel,
    n_records: int,
    epsilon: float,
    *,
    runs: int,
    seed: int = 0,
    alarm_rate: float = 1e-3,
    progress: Callable[[str], object] | None = None,
) -> Tracing:
    """Trace the records of one of `TRACED`, each run with a covariance and records of its own.

    A promise does not survive if the sums are surely larger than it allows; if it is kept that
    happens with probability `alarm_rate`, by Student's law of the mean over runs.
    """
    check_integer("runs", runs, at_least=_FEWEST_RUNS, cure="a mean needs several.")
    check_integer("n_records", n_records, at_least=2, cure="give the number in a dataset.")
    contender = CONTENDERS[mechanism]
    if (refusal := contender.refusal(model.n_features)) is not None:
        raise CapacityError(f"{mechanism} takes {refusal}")
    delta = 0.0 if contender.privacy == PURE else DELTA
    size = model.n_features, model.row_sparsity
    point = Point(_MODEL, n_records, *size, epsilon)
    found = []
    for run in range(runs):
        if progress is not None:
            progress(f"tracing {mechanism}")
        generator = np.random.default_rng([seed, run])
        covariance = model.draw(generator)
        of_rows, of_noise = (int(each) for each in generator.integers(2**63, size=2))
        rows = gaussian_records(covariance, 2 * n_records, random_state=of_rows)
        # Scales of 1 are what the class says of them.
        estimator = contender.build(ContenderSetting(point, np.ones(size[0]), of_noise))
        with warnings.catch_warnings():
            for kind in (SeededNoiseWarning, AccuracyWarning, PrivacyWarning):
                warnings.simplefilter("ignore", kind)
            released = estimator.fit(rows[:n_records]).covariance_
        estimate = model.restrict(released)
        traced = tracing_statistic(rows, estimate, covariance)
        deviation = float(np.linalg.norm(whitened(estimate, covariance))) / math.sqrt(2)
        inside, outside = float(np.mean(traced[:n_records])), float(np.mean(traced[n_records:]))
        allowed = n_records * _most_traced(model, epsilon, delta, deviation)
        error = operator_norm(released - covariance)
        found.append((inside - outside, n_records * inside, allowed, error))
    difference, total, allowance, errors = np.array(found).T
    beyond = total - allowance
    limit = float(special.stdtrit(runs - 1, 1 - alarm_rate)) * _standard_error(beyond)
    accurate = float(np.mean(errors <= model.target_error))
    return Tracing(
        mechanism=mechanism,
        difference=float(np.mean(difference)),
        difference_error=_standard_error(difference),
        total=float(np.mean(total)),
        total_error=_standard_error(total),
        allowed=float(np.mean(allowance)) if contender.private else None,
        forced=model.dimension / 2 if accurate >= _ACCURATE else None,
        mean_error=float(np.mean(errors)),
        accurate=accurate,
        runs=runs,
        survives=not contender.private or float(np.mean(beyond)) <= limit,
    )


def _standard_error(values: FloatArray) -> float:
    return float(np.std(values, ddof=1) / math.sqrt(len(values)))


def predicted_rows() -> int:
    """Return how many rows `needed_records` has."""
    return len(predicted()) + 1


def needed_records(
    n_features: int,
    row_sparsity: int,
    target_error: float,
    epsilon: float,
    progress: Callable[[str], object] | None = None,
) -> Iterator[dict[str, Any]]:
    """Predict the records that mechanisms need for the error, over the lower bound.

    Predictions are the planner's, for blocks of correlation 1/2 and public scales; those of
    mechanisms whose search takes long are rough. The last row knows the blocks.
    """
    least = least_records(n_features, row_sparsity, target_error, epsilon, DELTA)
    # Predicted errors are relative to the norm of the model, the bound is for variances of about 1.
    shown = sparse_covariance(_MODEL, min(n_features, _MOST_MODELLED), row_sparsity)
    target = target_error * float(shown[0, 0])
    starts = np.arange(n_features) // row_sparsity * row_sparsity
    blocks = Candidates.windows(np.minimum(starts + row_sparsity, n_features))
    known = next(iter(candidate_mechanisms()))
    listed = [(name, name, None, each.slow) for name, each in predicted().items()]
    listed_too = (f"{known}, blocks known", known, blocks, False)
    for title, name, candidates, slow in [*listed, listed_too]:
        if progress is not None:
            progress(f"{n_features:,} features: {title}")
        size = 1000, n_features, row_sparsity
        public = ReleaseInputs(*size, epsilon, DELTA, candidates=candidates)
        try:
            records = smallest_n(public, name, _MODEL, target, rough=slow)
        except HushcovError:
            records = None
        row = {"mechanism": title, "n_features": n_features, "records": records, "least": least}
        yield row | {"ratio": None if records is None else records / least}
