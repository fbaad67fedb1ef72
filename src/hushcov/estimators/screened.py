"""`ScreenedCovariance`: select pairs privately, release their values."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from hushcov.estimators.options import (
    CandidateOptions,
    CentreOptions,
    SparseOptions,
    with_options,
)
from hushcov.estimators.scaled import ApproximateCovariance
from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.screened.room import SCREENED, PlannedScreened, ScreenedPlan
from hushcov.planning import Plan


@with_options
class ScreenedCovariance(CentreOptions, CandidateOptions, SparseOptions, ApproximateCovariance):
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
        matrix; and where scales cannot be found. Any number of records is private, but
        few make no estimate.
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

    threshold: Any = "auto"

    assumed_row_sparsity = None

    @property
    def selected_(self) -> Any:
        """Where the screen selected a pair, and the diagonal."""
        check_is_fitted(self, "release_")
        return self.release_.released

    def plan(self, n_records: int, n_features: int) -> ScreenedPlan:
        """The design for this size and the error to expect, from public inputs alone.

        `n_records` counts rows.
        """
        return SCREENED.search(self.public_inputs(n_records, n_features), **self._options())

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
