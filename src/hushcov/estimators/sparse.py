"""`PrivateSparseCovariance`: the estimator to start with. It runs the best mechanism there is."""

from __future__ import annotations

from typing import Any

from hushcov._validation import check_choice
from hushcov.estimators.options import CentreOptions, SparseOptions, with_options
from hushcov.estimators.scaled import ApproximateCovariance
from hushcov.exceptions import ParameterError
from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.room import MechanismPlan
from hushcov.planning import Comparison, Plan, compare, mechanisms


@with_options
class PrivateSparseCovariance(CentreOptions, SparseOptions, ApproximateCovariance):
    """Sparse covariance of sensitive records, (epsilon, delta)-differentially private.

    Before any record is read, the error of every mechanism is predicted from public inputs, and
    the best one is run; `plan_` shows the comparison.

    Parameters
    ----------
    row_sparsity : int
        Most nonzero entries in a row of the covariance, the diagonal included. Required. It
        decides how many pairs are looked for: too small a number loses weak pairs, too large a
        one costs accuracy. Privacy does not depend on it. 1 releases variances alone.
    mechanism : str, default="auto"
        The name of any mechanism (`hushcov.planning.mechanisms()`), at its usual options. "auto"
        takes the one with the smallest predicted error. One without a delta (eigen-sampling) takes
        records in pairs, whatever `centre` says.
    sparse_output : "auto" or bool, default="auto"
        Whether estimates are sparse matrices (`scipy.sparse.csr_array`) of what was selected, with
        no `precision_`. "auto": above 10,000 features. Only the screened release selects
        pairs, so that it is the one to run.

    Attributes
    ----------
    mechanism_ : str
        The mechanism that ran.
    plan_ : Comparison
        Predicted errors of all mechanisms, best first.
    noise_sd_ : ndarray
        Standard deviation of the privacy noise of each released entry, NaN elsewhere. It and
        intervals need a mechanism with one noise level, which the multiscale one is not.
    detection_limit_ : float or None
        The smallest correlation that is found nine times out of ten, by prediction; 1 where none
        is, None where there is no threshold.

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
    from them, for every dataset. The choice of mechanism depends on public inputs alone. Proofs:
    `docs/proofs/`.

    Examples
    --------
    >>> from hushcov import PrivateSparseCovariance
    >>> from hushcov.metrics import operator_norm_error
    >>> from hushcov.simulate import gaussian_records, sparse_covariance
    >>> truth = sparse_covariance("block", 50, 5)
    >>> X = gaussian_records(truth, 20_000)
    >>> est = PrivateSparseCovariance(epsilon=1.0, delta=1e-6, row_sparsity=5).fit(X)
    >>> operator_norm_error(est.covariance_, truth) < 0.2
    True
    """

    mechanism: str = "auto"

    assumed_row_sparsity = None

    def plan(self, n_records: int, n_features: int) -> Comparison:
        """Predicted errors of all mechanisms for this size, from public inputs alone.

        `n_records` counts what is averaged: rows, or half of them with `centre="pairs"`.
        """
        request = self.request(n_features)
        inputs = request.inputs(n_records, n_features)
        return compare(inputs, apart=request.apart(inputs))

    def chosen_mechanism(self, plan: Comparison) -> str:
        """Which mechanism is run, given the predicted errors."""
        auto = self.mechanism == "auto"
        if not self._sparse(plan.inputs.n_features):
            return plan.best.mechanism if auto else self.mechanism
        able = [name for name, each in mechanisms().items() if each.sparse]
        if not auto and self.mechanism not in able:
            raise ParameterError(
                f"mechanism must be {' or '.join(map(repr, able))} or 'auto' for sparse output, "
                f"got {self.mechanism!r}, which releases every pair: change it, or pass "
                "sparse_output=False."
            )
        return next(each.mechanism for each in plan.forecasts if each.mechanism in able)

    def _planned(
        self, inputs: ReleaseInputs, apart: ReleaseInputs
    ) -> tuple[MechanismPlan[Any], Comparison]:
        # Slow searches are run for the best mechanism, and for the one that was asked for.
        refine = self.mechanism == "auto" or mechanisms()[self.mechanism].slow
        comparison = compare(inputs, refine=refine, apart=apart)
        sparse = self._sparse(inputs.n_features)
        chosen = mechanisms()[self.chosen_mechanism(comparison)]
        return chosen.plan(inputs if chosen.pooled else apart, sparse=sparse), comparison

    @property
    def _way_to_centre(self) -> str:
        """Finding means is not private without a delta."""
        check_choice("mechanism", self.mechanism, ("auto", *mechanisms()))
        pure = self.mechanism != "auto" and mechanisms()[self.mechanism].pure
        return "pairs" if pure else self.centre

    def _keep(self, plan: Plan) -> None:
        self.plan_ = plan.comparison
        self.mechanism_ = plan.chosen.mechanism.name
        expected = plan.chosen.forecast
        self.detection_limit_ = None if expected is None else expected.detection_limit
