"""`ScreenedCovariance`: select pairs privately, release their values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sklearn.utils.validation import check_is_fitted

from hushcov._validation import check_choice
from hushcov.estimators.approximate import ApproximateCovariance
from hushcov.estimators.options import ForecastOptions, SparseOptions, with_options
from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.screened import NORMS, SCREENS, ScreenedParameters
from hushcov.planning import Forecast, ScreenedPlan, check_memory, plan_screened
from hushcov.planning.runs import Run, screened_run
from hushcov.planning.screened import detection_limit, predicted_errors


@with_options
class ScreenedCovariance(SparseOptions, ForecastOptions, ApproximateCovariance):
    """Sparse covariance by screened release, (epsilon, delta)-differentially private.

    First a screen selects the pairs of features that move together, by noisy counts of equal
    signs in a few levels: strong pairs cheaply, weak ones with what that saves. Then the values
    of the selected pairs and the variances are released, each record scaled down to a norm near
    the typical one. Sizes, levels and the split of the budget are chosen from public inputs.

    Parameters
    ----------
    row_sparsity : int
        Most nonzero entries in a row of the covariance, the diagonal included. Required. It sets
        how many pairs are selected, `plan_.parameters.n_pairs`, whatever the data: if more have a
        covariance, the strongest are found and the others lost. 1 releases variances alone.
    screen : {"sign", "clipped"}, default="sign"
        Scores of the screen. Signs rank pairs by correlation for elliptical distributions and
        need no scale; products of clipped coordinates are for data where signs say little.
    norm_bound : {"public", "quantile"}, default="public"
        Norm to which records are scaled down: from the scales, or near the median norm, with 2 %
        of the budget, for given scales that are only rough.
    threshold : None, "auto" or float, default="auto"
        Selected pairs below this many standard deviations, noise and sampling together, are set to
        zero: None and 0 keep all, "auto" takes the planned number.

    Attributes
    ----------
    selected_ : ndarray of bool
        Where the screen selected a pair, and the diagonal.
    noise_sd_ : ndarray
        Standard deviation of the privacy noise of each released entry, NaN elsewhere.
    detection_limit_ : float
        The smallest correlation that is found nine times out of ten, by prediction; 1 where none
        is.
    plan_ : ScreenedPlan
        Parameters and predicted error.

    Warns
    -----
    AccuracyWarning
        With `on_hopeless="warn"`, where the predicted error is no better than that of the zero
        matrix; and where scales cannot be found. Any number of records is private, two for
        differences, but few make no estimate.
    PrivacyWarning
        Where delta is above 0.1 / n.
    SeededNoiseWarning
        If `random_state` is given.

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

    screen: str = "sign"
    norm_bound: str = "public"
    threshold: Any = "auto"

    assumed_row_sparsity = None

    @property
    def selected_(self) -> Any:
        """Where the screen selected a pair, and the diagonal."""
        check_is_fitted(self, "release_")
        return self.release_.released

    def plan(self, n_records: int, n_features: int) -> ScreenedPlan:
        """The design for this size and the error to expect, from public inputs alone.

        `n_records` counts what is averaged: half the rows if not `assume_centered`.
        """
        return self._plan(self.public_inputs(n_records, n_features))

    def _plan(self, inputs: ReleaseInputs) -> ScreenedPlan:
        check_choice("screen", self.screen, tuple(SCREENS))
        check_choice("norm_bound", self.norm_bound, NORMS)
        keep_above = self._check_threshold(
            self.threshold, "auto", at_most=100, cure="takes the planned number of deviations."
        )
        plan = plan_screened(inputs, self.screen, self.norm_bound)
        if keep_above is None:
            return plan
        design = replace(plan.parameters.design, keep_above=keep_above)
        parameters = replace(plan.parameters, design=design)
        return ScreenedPlan(parameters, predicted_errors(parameters), detection_limit(parameters))

    def _planned(self, inputs: ReleaseInputs) -> Run[ScreenedParameters]:
        self.plan_ = self._plan(inputs)
        self.detection_limit_ = self.plan_.detection_limit
        sparse = self._sparse(inputs.n_features)
        check_memory("screened", inputs.n_records, inputs.n_features, sparse=sparse)
        return screened_run(self.plan_.parameters, sparse=sparse)

    def _forecast(self, inputs: ReleaseInputs) -> Forecast:
        return Forecast("screened", self.plan_.predicted_error, self.detection_limit_)
