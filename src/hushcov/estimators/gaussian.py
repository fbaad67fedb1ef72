"""`GaussianCovariance` puts noise on the whole matrix, `ScreenedCovariance` on selected pairs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Self

import numpy as np

from hushcov._arrays import FloatArray
from hushcov.estimators.base import SummedCovariance, name_features
from hushcov.estimators.options import CandidateOptions, PurposeOptions, with_options
from hushcov.estimators.scaled import ApproximateCovariance
from hushcov.exceptions import DataError, ParameterError
from hushcov.fit import Plan
from hushcov.fit.gaussian.mechanism import (
    gaussian_parameters,
    parameters_for_sums,
    release_gaussian,
)
from hushcov.fit.gaussian.plan import GAUSSIAN, GAUSSIAN_THRESHOLD, GaussianNoise
from hushcov.fit.mechanism import MechanismPlan
from hushcov.fit.screened.plan import SCREENED, PlannedScreened, ScreenedPlan
from hushcov.inputs import ReleaseInputs
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.noise import entropy_source
from hushcov.kernel.queries import SummedGram
from hushcov.kernel.sums.statistics import RecordMap, Statistics
from hushcov.options import FOR_COVARIANCE

# Sums cannot be looked at again, and say nothing of records that miss a value.
_OF_SUMS: dict[str, Any] = {"drop_nulls": False, "purpose": FOR_COVARIANCE}


@with_options
class GaussianCovariance(CandidateOptions, PurposeOptions, ApproximateCovariance, SummedCovariance):
    """Covariance by the Gaussian mechanism (Analyze Gauss), (epsilon, delta)-private.

    Every entry of the second-moment matrix is released with the same noise, calibrated exactly.
    With `threshold="universal"` entries that noise alone may have made are set to zero: the
    DP-Thresholding of Wang and Xu for sparse covariances.

    Records of several sites, or too many for one `fit`, are summed part by part (`partial_fit`,
    `Statistics.merge`) and released together (`fit_statistics`); `docs/scale.md` shows how. That
    needs a `feature_scale`.

    Parameters
    ----------
    row_norm : float, optional
        Public bound on the norm of a record whose features are divided by their scales. None takes
        one from the number of features.
    threshold : None, "universal" or float, default=None
        None and 0 keep every entry. Other numbers are thresholds in units of the scales of the two
        features: correlations, about.
    on_hopeless : {"raise", "warn"}, default="raise"
        What to do where the predicted error is no better than that of the zero matrix: refuse
        (`HopelessError`), or warn and release. There is a prediction
        without `row_norm`, for `threshold` None, 0 or "universal".

    Attributes
    ----------
    parameters_ : GaussianParameters
        Every public quantity of the mechanism.

    Notes
    -----
    Privacy. Neighbours: replace one record; no precondition. Guarantee:
    (epsilon, delta)-differential privacy of `release_`, `feature_scale_` and everything computed
    from them, for every dataset; proof: `docs/proofs/gaussian.md`.

    Examples
    --------
    >>> from hushcov import GaussianCovariance
    >>> from hushcov.metrics import operator_norm_error
    >>> from hushcov.simulate import gaussian_records, sparse_covariance
    >>> truth = sparse_covariance("block", 20, 5)
    >>> X = gaussian_records(truth, 20_000)
    >>> est = GaussianCovariance(epsilon=1.0, delta=1e-6, threshold="universal").fit(X)
    >>> operator_norm_error(est.covariance_, truth) < 0.3
    True
    """

    row_norm: float | None = None
    threshold: Any = None

    def _sparse(self, n_features: int) -> bool:
        """Return whether the estimate is sparse: only where it is known which pairs may covary."""
        return self._sparse_checked(self._has_candidates)

    def _planned(self, inputs: ReleaseInputs) -> MechanismPlan[Any]:
        mechanism, level = self._threshold()
        if self.row_norm is not None and self._has_candidates:
            raise ParameterError(
                "bandwidth and candidate_pairs must be left out with row_norm, "
                "partial_fit and fit_statistics, which are for sums of all pairs: use fit, and "
                "leave the others as they are."
            )
        sparse = self._sparse(inputs.n_features)
        able = mechanism.looks_further and not self._has_candidates
        self._check_related(able, "with a threshold or candidates")
        return mechanism.plan(inputs, sparse=sparse, row_norm=self.row_norm, level=level)

    def _threshold(self) -> tuple[GaussianNoise, float | None]:
        """Return which mechanism it is, and the threshold where it is a number of one's own."""
        level = self._check_threshold(
            self.threshold, "universal", at_most=math.inf, cure="follows from the noise."
        )
        return (GAUSSIAN, None) if level == 0 else (GAUSSIAN_THRESHOLD, level)

    def _keep(self, plan: Plan) -> None:
        super()._keep(plan)
        self.detection_limit_ = plan.chosen.detection_limit  # type: ignore[attr-defined]

    def fit_statistics(self, statistics: Statistics | None = None) -> Self:
        """Release the covariance of records that were summed before, at one or more sites.

        Each call is a release of its own: it is certified, charged to the ledger, and gets noise of
        its own, also for the same statistics. Afterwards the estimator holds no statistics.

        Parameters
        ----------
        statistics : Statistics, optional
            Exact sums of `partial_fit`, merged or loaded; those of this estimator if left out. They
            must be of this estimator's `feature_scale` and `row_norm` (if given). Budget and
            threshold are those of the release, and so is the number of records: `total_records`
            need not have been right. The guarantee holds whatever it was; a total that is far off
            puts the bound on the norm of records where it suits another number of them, and many
            more records than declared may not fit into integers.
        """
        from hushcov.kernel.session import Session

        statistics = self._held(statistics)
        with self._fresh():
            self._check_ledger()
            record_map, n_records = statistics.record_map, statistics.n_records
            request = replace(self._request(statistics.n_features), **_OF_SUMS)
            inputs, stages = request.divide(n_records, statistics.n_features)
            name_features(self, statistics.n_features, record_map.feature_names)
            parameters = parameters_for_sums(inputs, record_map, row_norm=self.row_norm)
            scale = self._scale_of(record_map)
            mechanism, level = self._threshold()
            chosen = mechanism.thresholded(parameters, level, usual=self.row_norm is None)
            plan = request.plan(inputs, stages, chosen, scale)
            self._keep(plan)
            self._enforce_cautions(*plan.cautions)
            budget = plan.budget(private=self.random_state is None)
            entropy = entropy_source(self.random_state)
            with self._charged(budget.certificate):
                session = Session(statistics, budget, entropy)
                release = release_gaussian(session, scale, parameters, SummedGram)
                making = replace(
                    release.making, threshold=chosen.threshold(release), scales="given"
                )
                return self._estimate(replace(release, making=making))

    def _record_map(self, n_records: int, n_features: int, **known: Any) -> RecordMap:
        scale = self._declared_scale(n_features)
        request = replace(self._request(n_features), **_OF_SUMS)
        inputs = request.inputs(n_records, n_features)
        parameters = gaussian_parameters(inputs, row_norm=self.row_norm)
        grid = FeatureGrid(scale, parameters.radius, parameters.half_width)
        return RecordMap(n_features, grid, parameters.norm_bound, **known)

    def _declared_scale(self, n_features: int) -> FloatArray:
        if self.feature_scale is None:
            raise ParameterError(
                "feature_scale is required for partial_fit and fit_statistics: estimating scales "
                "privately needs the records twice. Pass public standard deviations, or use fit "
                "on all records at once."
            )
        return self._public_scale(n_features)

    def _scale_of(self, record_map: RecordMap) -> FloatArray:
        """Return the scales by which the records were divided, if they are those declared here."""
        scale, grid = self._declared_scale(record_map.n_features), record_map.grid
        if not isinstance(grid, FeatureGrid) or not np.array_equal(scale, grid.feature_scale):
            raise DataError(
                "statistics must be of features divided by this estimator's feature_scale, got "
                "other scales: pass the feature_scale they were summed with."
            )
        return scale


@with_options
class ScreenedCovariance(CandidateOptions, ApproximateCovariance):
    """Sparse covariance by screened release, (epsilon, delta)-differentially private.

    First a screen selects the pairs of features that move together, by noisy counts of equal
    signs in a few levels: strong pairs cheaply, weak ones with what that saves. Then the values
    of the selected pairs and the variances are released, each record scaled down to a norm near
    the typical one. Sizes, levels and the split of the budget are chosen from public inputs.

    Parameters
    ----------
    row_sparsity : int
        Most nonzero entries in a row of the covariance, the diagonal included. Required, unless
        `bandwidth` or `candidate_pairs` say it: then all candidates are released, or as many as a
        smaller number asks for. It sets how many pairs are selected, `plan_.parameters.n_pairs`,
        whatever the data: if more have a covariance, the strongest are found and the others lost.
        1 releases variances alone.
    threshold : None, "auto" or float, default="auto"
        Selected pairs below this many standard deviations, noise and sampling together, are set to
        zero: None and 0 keep all, "auto" takes the planned number.

    Attributes
    ----------
    selected_ : ndarray of bool
        Where the screen selected a pair, and the diagonal.
    plan_ : ScreenedPlan
        Parameters and predicted error.

    Notes
    -----
    Privacy. Neighbours: replace one record; no precondition. Guarantee:
    (epsilon, delta)-differential privacy of `release_`, `feature_scale_` and everything computed
    from them, for every dataset; proof: `docs/proofs/screened.md`. The number of records, the shape
    and the column names are public.

    Examples
    --------
    >>> from hushcov import ScreenedCovariance
    >>> from hushcov.metrics import operator_norm_error
    >>> from hushcov.simulate import gaussian_records, sparse_covariance
    >>> truth = sparse_covariance("block", 50, 5)
    >>> X = gaussian_records(truth, 20_000)
    >>> est = ScreenedCovariance(epsilon=1.0, delta=1e-6, row_sparsity=5).fit(X)
    >>> operator_norm_error(est.covariance_, truth) < 0.2
    True
    """

    threshold: Any = "auto"
    sparse_output: Any = "auto"

    assumed_row_sparsity = None

    @property
    def selected_(self) -> Any:
        """The pairs that the screen selected, and the diagonal, as a matrix of booleans."""
        return self._released().released

    def plan(self, n_records: int, n_features: int) -> ScreenedPlan:
        """Return the design for this size and the error to expect, from public inputs alone.

        `n_records` counts rows.
        """
        return SCREENED.search(self._public_inputs(n_records, n_features), **self._options())

    def _options(self) -> dict[str, Any]:
        keep_above = self._check_threshold(
            self.threshold, "auto", at_most=100, cure="takes the planned number of deviations."
        )
        return {"keep_above": keep_above}

    def _planned(self, inputs: ReleaseInputs) -> PlannedScreened:
        sparse = self._sparse(inputs.n_features)
        return SCREENED.plan(inputs, sparse=sparse, **self._options())

    def _keep(self, plan: Plan) -> None:
        self.plan_ = plan.chosen.searched  # type: ignore[attr-defined]
        self.detection_limit_ = self.plan_.detection_limit
