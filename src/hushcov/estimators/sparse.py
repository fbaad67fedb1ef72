"""`PrivateSparseCovariance`: the estimator to start with. It runs the best mechanism there is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hushcov._validation import check_choice
from hushcov.estimators.runs import GaussianRun, MultiscaleRun, Run, ScreenedRun
from hushcov.estimators.scaled import ScaledCovariance
from hushcov.exceptions import ParameterError
from hushcov.mechanisms.gaussian import gaussian_parameters
from hushcov.mechanisms.inputs import ReleaseInputs
from hushcov.planning import (
    MECHANISMS,
    Comparison,
    Forecast,
    check_memory,
    compare,
    forecast,
    plan_screened,
)
from hushcov.postprocess import universal_threshold


class PrivateSparseCovariance(ScaledCovariance):
    """Sparse covariance of sensitive records, (epsilon, delta)-differentially private.

    Before any record is read, the error of every mechanism is predicted from public inputs, and
    the best one is run; `plan_` shows the comparison.

    Parameters
    ----------
    epsilon, delta : float
        Privacy budget, 0 < epsilon <= 10 and 0 < delta <= 0.1. Required.
    row_sparsity : int
        Most nonzero entries in a row of the covariance, the diagonal included. Required. It
        decides how many pairs are looked for: too small a number loses weak pairs, too large a
        one costs accuracy. Privacy does not depend on it. 1 releases variances alone.
    feature_scale : None, float or array of shape (n_features,)
        Public standard deviations of the features in the order of the columns, or numbers close
        to them; 0 marks a constant feature, whose covariances are zero. None estimates them
        privately: from 1e-17 to 1e19, smaller ones count as constant and larger ones are clipped.
    mechanism : {"auto", "screened", "gaussian-threshold", "gaussian", "multiscale"}
        "auto", the default, takes the one with the smallest predicted error.
    scale_share : "auto" or float, default="auto"
        Share of the budget that estimating scales spends when `feature_scale` is None.
    positive_semidefinite : bool, default=False
        Whether to project the estimate, in units of the scales, on the positive semidefinite
        matrices, which fills in zeros.
    sparse_output : "auto" or bool, default="auto"
        Whether estimates are sparse matrices (`scipy.sparse.csr_array`) of what was selected, with
        no `precision_`. "auto": above 10,000 features. Only the screened release selects
        pairs, so that it is the one to run.
    store_precision : bool, default=True
        Whether to compute `precision_`.
    assume_centered : bool, default=False
        False: successive records are replaced by their difference over sqrt(2), which removes any
        mean and halves n; an odd last record is left out. The order of the rows should have nothing
        to do with their values. True: the records have mean zero.
    device : str, optional
        Where sums over the records are taken, by PyTorch's name for it: "cuda" is the first NVIDIA
        card. The result is the same bit for bit. None: this computer's processor, or for a tensor
        the device on which it lies. Needs the extra `hushcov[torch]`.
    random_state : None, int, RandomState or Generator
        None draws operating-system entropy. Anything else makes the noise predictable: it warns
        and marks the release as not private.
    ledger : path or Ledger, optional
        The file of a privacy budget ledger (`docs/ledger.md`). The release is charged before any
        record is read, and refused if all releases of the dataset together would cost too much.
    dataset : str, optional
        The name of the dataset in the ledger. Give both or neither.
    on_hopeless : {"raise", "warn"}, default="raise"
        What to do where the predicted error is no better than that of the zero matrix: refuse
        (`HopelessError`), or warn and release. Nothing is charged before.
    on_large_delta : {"raise", "warn"}, default="raise"
        What to do where delta is 1 / n or more, n being the number of rows: refuse
        (`ParameterError`), or warn and release. Above 0.1 / n it warns in any case.
    drop_nulls : bool, default=False
        Leave out records with nulls, which otherwise are an error. About how many are complete is
        released with the rest, from 0.5 % of the budget.

    Attributes
    ----------
    covariance_ : ndarray of shape (n_features, n_features)
        The released estimate.
    mechanism_ : str
        The mechanism that ran.
    plan_ : Comparison
        Predicted errors of all mechanisms, best first.
    precision_, support_, noise_sd_, detection_limit_, feature_scale_, release_, location_
        As in `ScreenedCovariance`. `noise_sd_` and intervals need a mechanism with one noise
        level, which the multiscale one is not; `detection_limit_` is None where no threshold is.
    n_features_in_, n_records_ : int
        Columns, and records averaged: half the rows if not `assume_centered`.
    feature_names_in_ : ndarray of str, when X has column names
    receipt_ : Receipt, when a ledger was charged
    warnings_ : tuple of str
        What was warned of before the release, which keeps it.

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

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        row_sparsity: int | None = None,
        feature_scale: Any = None,
        mechanism: str = "auto",
        scale_share: Any = "auto",
        positive_semidefinite: bool = False,
        sparse_output: Any = "auto",
        store_precision: bool = True,
        assume_centered: bool = False,
        device: str | None = None,
        random_state: object = None,
        ledger: Any = None,
        dataset: str | None = None,
        on_hopeless: str = "raise",
        on_large_delta: str = "raise",
        drop_nulls: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.row_sparsity = row_sparsity
        self.feature_scale = feature_scale
        self.mechanism = mechanism
        self.scale_share = scale_share
        self.positive_semidefinite = positive_semidefinite
        self.sparse_output = sparse_output
        self.store_precision = store_precision
        self.assume_centered = assume_centered
        self.device = device
        self.random_state = random_state
        self.ledger = ledger
        self.dataset = dataset
        self.on_hopeless = on_hopeless
        self.on_large_delta = on_large_delta
        self.drop_nulls = drop_nulls

    def plan(self, n_records: int, n_features: int) -> Comparison:
        """Predicted errors of all mechanisms for this size, from public inputs alone.

        `n_records` counts what is averaged: half the rows if not `assume_centered`.
        """
        return compare(self.public_inputs(n_records, n_features))

    def chosen_mechanism(self, plan: Comparison) -> str:
        """Which mechanism is run, given the predicted errors."""
        auto = self.mechanism == "auto"
        if not self._sparse(plan.inputs.n_features):
            return plan.best.mechanism if auto else self.mechanism
        if not auto and self.mechanism != "screened":
            raise ParameterError(
                f"mechanism must be 'screened' or 'auto' for sparse output, got {self.mechanism!r},"
                " which releases every pair: change it, or pass sparse_output=False."
            )
        return "screened"

    def _row_sparsity(self, n_features: int) -> int:
        self._check_given("row_sparsity")
        return self.row_sparsity  # type: ignore[return-value]

    def _planned(self, inputs: ReleaseInputs) -> Run:
        check_choice("mechanism", self.mechanism, ("auto", *MECHANISMS))
        sparse = self._sparse(inputs.n_features)
        self.plan_ = compare(inputs, refine=self.mechanism in ("auto", "multiscale"))
        self.mechanism_ = self.chosen_mechanism(self.plan_)
        self.detection_limit_ = self._forecast(inputs).detection_limit
        check_memory(self.mechanism_, inputs.n_records, inputs.n_features, sparse=sparse)
        return _RUNS[self.mechanism_](inputs, sparse)

    def _forecast(self, inputs: ReleaseInputs) -> Forecast:
        auto = self.mechanism_ == self.plan_.best.mechanism
        return self.plan_.best if auto else forecast(inputs, self.mechanism_)


def _screened(inputs: ReleaseInputs, sparse: bool) -> Run:
    return ScreenedRun(plan_screened(inputs).parameters, sparse)


def _gaussian(inputs: ReleaseInputs, _: bool) -> Run:
    return GaussianRun(gaussian_parameters(inputs), 0.0)


def _thresholded(inputs: ReleaseInputs, _: bool) -> Run:
    parameters = gaussian_parameters(inputs)
    level = universal_threshold(parameters.noise_sd, inputs.n_records, inputs.n_features)
    return GaussianRun(parameters, level)


def _multiscale(inputs: ReleaseInputs, _: bool) -> Run:
    return MultiscaleRun.planned(inputs)


_RUNS: dict[str, Callable[[ReleaseInputs, bool], Run]] = {
    "screened": _screened,
    "gaussian-threshold": _thresholded,
    "gaussian": _gaussian,
    "multiscale": _multiscale,
}
