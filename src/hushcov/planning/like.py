"""What to expect of the next table, from an earlier release: its structure is public by now.

The estimate of the release is taken for the truth. Its noise is known, and scales with the number
of records and the budget; errors of noise and sampling are drawn on it, and the estimate is made of
each draw as a fit would make it. Nothing here reads records.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from hushcov._arrays import FloatArray, IndexArray
from hushcov._validation import check_integer, check_real
from hushcov.accounting import calibrate_gaussian
from hushcov.exceptions import ParameterError
from hushcov.inputs import BUDGET_WORDS, DELTA_WORDS, LARGEST_CALIBRATED_N, LARGEST_EPSILON
from hushcov.postprocess import (
    Matrix,
    best_candidate,
    detection_deviation,
    is_sparse,
    largest,
    split,
    upper_pairs,
)
from hushcov.predicting import sparse_norms
from hushcov.release import Release
from hushcov.release.findings import estimate

#: Of the records of a release, for which errors are predicted where no number is given.
MULTIPLES = (0.25, 0.5, 1, 2, 4, 10)
_DRAWS, _SEED = 5, 11
_FEW_DRAWS, _LARGE = 2, 300  # norms of errors of many features hardly vary
_LARGEST_DENSE = 2000  # features up to which whole matrices are drawn
_OFTEN = 1.3  # by which errors of fits differ from each other, about
_HOW = (
    "its estimate is taken for the truth, its noise is scaled to the records and the budget, and "
    "errors are drawn on it"
)


@dataclass(frozen=True)
class LikeForecast:
    """What to expect of another table like that of a release.

    `error` is relative to the norm of the covariance, between `least` and `most`; `noise_sd` is
    the noise on a pair, in units of the scales. `how` says how it was predicted.
    """

    n_records: int
    epsilon: float
    delta: float
    error: float
    least: float
    most: float
    noise_sd: float
    how: str = _HOW

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain, JSON-ready data."""
        return {
            "n_records": self.n_records,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "predicted_error": self.error,
            "least": self.least,
            "most": self.most,
            "noise_sd": self.noise_sd,
        }


@dataclass(frozen=True, eq=False)
class Earlier:
    """An earlier release as a prediction uses it: `earlier_release` makes one.

    `truth` is its estimate in units of the scales, `n_averaged` counts rows or differences of two,
    `missed` is the part of its error estimate that neither noise nor sampling explains.
    """

    release: Release
    truth: Matrix
    noise_sd: float
    n_averaged: int
    missed: float = 0.0

    @property
    def rows_averaged(self) -> int:
        """Rows for each one that is averaged."""
        return 2 if self.release.making.paired else 1

    @property
    def n_records(self) -> int:
        """Its rows that took part."""
        return self.rows_averaged * self.n_averaged

    def forecast(
        self,
        n_records: int | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
    ) -> LikeForecast:
        """See `forecast_like`."""
        rows, each = self.n_records if n_records is None else n_records, self.rows_averaged
        cure = "it is the number of rows of the next table."
        most = LARGEST_CALIBRATED_N
        rows = check_integer("n_records", rows, at_least=each, at_most=most, cure=cure)
        n = rows // each
        promised = self.release.guarantee
        epsilon = promised.epsilon if epsilon is None else epsilon
        delta = promised.delta if delta is None else delta
        cure = BUDGET_WORDS
        epsilon = check_real("epsilon", epsilon, above=0, at_most=LARGEST_EPSILON, cure=cure)
        delta = check_real("delta", delta, above=0, at_most=0.1, cure=DELTA_WORDS)
        # Noise is that of one record, over the number of records and the mu of the budget.
        budget = calibrate_gaussian(epsilon, delta)
        before = calibrate_gaussian(promised.epsilon, promised.delta)
        ratio = self.n_averaged * before / (n * budget)
        drawn = self.errors(self.noise_sd * ratio, n)
        return LikeForecast(
            n_records=rows,
            epsilon=epsilon,
            delta=delta,
            error=min(1.0, float(np.median(drawn)) + self.missed * min(1.0, ratio)),
            least=min(1.0, float(drawn.min()) / _OFTEN),
            most=min(1.05, _OFTEN * float(drawn.max()) + self.missed),
            noise_sd=self.noise_sd * ratio,
        )

    def errors(self, noise: float, n: int) -> FloatArray:
        """Draws of the error over the norm of the truth; 1 where there is nothing to find."""
        truth, norm = self.truth, _norm(self.truth)
        if norm == 0:
            return np.ones(1)
        few = self.release.selected is not None or truth.shape[0] > _LARGEST_DENSE
        if few:
            # A threshold is so many deviations, the same as it was.
            usual = detection_deviation(self.noise_sd, self.n_averaged)
            limit = self.release.making.threshold / usual * detection_deviation(noise, n)
            return np.minimum(_of_pairs(truth, noise, n, limit) / norm, 1.0)
        return np.minimum(_of_whole(np.asarray(truth), noise, n) / norm, 1.0)


def earlier_release(release: Release) -> Earlier:
    """What predictions take from a release; one without a single noise level is refused."""
    noise, n = _known(release)
    found, here = release.making.structure, Earlier(release, _truth(release), noise, n)
    if found is None:
        return here
    return replace(here, missed=max(0.0, found.error - float(np.median(here.errors(noise, n)))))


def forecast_like(
    release: Release,
    n_records: int | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
) -> LikeForecast:
    """Predict the error of a release like this one, of other records or with another budget.

    Parameters
    ----------
    release : Release
        Of a mechanism with one noise level; its structure stands for that of the next table.
    n_records : int, optional
        Rows of the next table; as many as the release has where left out.
    epsilon, delta : float, optional
        Its budget; that of the release where left out.

    Privacy
    -------
    Post-processing: everything follows from the release and public inputs.
    """
    return earlier_release(release).forecast(n_records, epsilon, delta)


def _known(release: Release) -> tuple[float, int]:
    """The noise on a pair, and how many records were averaged; refused where there is none."""
    n = release.making.n_complete
    if release.noise_sd is None or n is None or release.guarantee.delta <= 0:
        raise ParameterError(
            f"release must have one noise level, a delta and a number of records, got one by "
            f"{release.mechanism}: predictions are made from releases of the default, of the "
            "Gaussian or of the screened mechanism."
        )
    return release.noise_sd[0], n


def _truth(release: Release) -> Matrix:
    """The estimate in units of the scales, before it was multiplied to keep it harmless."""
    found = replace(release, feature_scale=None)
    if release.feature_scale is not None:
        varies = (release.feature_scale != 0).astype(np.float64)
        found = replace(release, feature_scale=varies)
    matrix = estimate(found)
    structure = release.making.structure
    return matrix if structure is None else matrix / structure.kept


def _norm(truth: Matrix) -> float:
    if not is_sparse(truth):
        return largest(np.asarray(truth))
    rows, columns, values = _entries(truth)
    draws = np.zeros(len(rows), dtype=np.intp)
    return float(sparse_norms((draws, rows, columns, values), 1, truth.shape[0])[0])


def _entries(truth: Matrix) -> tuple[IndexArray, IndexArray, FloatArray]:
    """Rows, columns and values of the upper triangle, the diagonal included."""
    rows, columns, values = upper_pairs(truth if is_sparse(truth) else sparse.csr_array(truth))
    own = np.arange(truth.shape[0])
    return (
        np.append(rows, own).astype(np.intp),
        np.append(columns, own).astype(np.intp),
        np.append(values, truth.diagonal()),
    )


def _of_pairs(truth: Matrix, noise: float, n: int, limit: float) -> FloatArray:
    """Errors where the pairs of the truth are released: noise, and those that are lost in it."""
    rows, columns, values = _entries(truth)
    generator, variance = np.random.default_rng(_SEED), truth.diagonal()
    sampling = np.sqrt((np.maximum(variance[rows] * variance[columns], 0) + values**2) / n)
    shape = (_DRAWS, len(values))
    fresh = values + np.hypot(noise, sampling) * generator.standard_normal(shape)
    kept = (rows == columns) | (np.abs(fresh) > limit)
    errors = np.where(kept, fresh, 0.0) - values
    draws = np.repeat(np.arange(_DRAWS), len(values))
    places = np.tile(rows, _DRAWS), np.tile(columns, _DRAWS)
    return sparse_norms((draws, *places, errors.ravel()), _DRAWS, truth.shape[0])


def _of_whole(truth: FloatArray, noise: float, n: int) -> FloatArray:
    """Errors where the whole matrix is released, and cleaned as it is after a fit."""
    generator, d = np.random.default_rng(_SEED), len(truth)
    values, vectors = np.linalg.eigh(truth)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    errors = np.empty(_DRAWS if d <= _LARGE else _FEW_DRAWS)
    for draw in range(len(errors)):
        sampling, added = (_symmetric(generator, d) for _ in range(2))
        matrix = truth + root @ sampling @ root.T / math.sqrt(n) + noise * added
        found = best_candidate(matrix, noise, n)
        made = split(matrix, found.rank, found.threshold, detection_deviation(noise, n))
        errors[draw] = largest(made.matrix - truth)
    return errors


def _symmetric(generator: np.random.Generator, d: int) -> FloatArray:
    """Of variance 1 off the diagonal, and 2 on it."""
    normals = generator.standard_normal((d, d))
    return np.asarray((normals + normals.T) / math.sqrt(2))
