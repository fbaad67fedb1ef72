"""`ScreenedCovariance`: select pairs privately, release their values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sklearn.utils.validation import check_is_fitted

from hushcov._validation import check_choice
from hushcov.estimators.runs import ScreenedRun
from hushcov.estimators.scaled import ScaledCovariance
from hushcov.mechanisms.inputs import ReleaseInputs
from hushcov.mechanisms.screened import NORMS, SCREENS
from hushcov.planning import Forecast, ScreenedPlan, check_memory, plan_screened
from hushcov.planning.screened import detection_limit, predicted_errors


class ScreenedCovariance(ScaledCovariance):
    """Sparse covariance by screened release, (epsilon, delta)-differentially private.

    First a screen selects the pairs of features that move together, by noisy counts of equal
    signs in a few levels: strong pairs cheaply, weak ones with what that saves. Then the values
    of the selected pairs and the variances are released, each record scaled down to a norm near
    the typical one. Sizes, levels and the split of the budget are chosen from public inputs.

    Parameters
    ----------
    epsilon, delta : float
        Privacy budget, 0 < epsilon <= 10 and 0 < delta <= 0.1. Required.
    row_sparsity : int
        Most nonzero entries in a row of the covariance, the diagonal included. Required. It sets
        how many pairs are selected, `plan_.parameters.n_pairs`, whatever the data: if more have a
        covariance, the strongest are found and the others lost. 1 releases variances alone.
    feature_scale : None, float or array of shape (n_features,)
        Public standard deviations of the features in the order of the columns, or numbers close
        to them; 0 marks a constant feature, whose covariances are zero. They set weights and
        noise, not the estimate: a number that is wrong by a factor costs accuracy, never privacy.
        None estimates them privately: from 1e-17 to 1e19, smaller ones count as constant and
        larger ones are clipped.
    scale_share : "auto" or float, default="auto"
        Share of the budget that estimating scales spends when `feature_scale` is None; "auto" is
        at most 0.2 and falls with the number of records.
    screen : {"sign", "clipped"}, default="sign"
        Scores of the screen. Signs rank pairs by correlation for elliptical distributions and
        need no scale; products of clipped coordinates are for data where signs say little.
    norm_bound : {"public", "quantile"}, default="public"
        Norm to which records are scaled down: from the scales, or near the median norm, with 2 %
        of the budget, for given scales that are only rough.
    threshold : None, "auto" or float, default="auto"
        Selected pairs below this many standard deviations, noise and sampling together, are set to
        zero: None and 0 keep all, "auto" takes the planned number.
    positive_semidefinite : bool, default=False
        Whether to project the estimate, in units of the scales, on the positive semidefinite
        matrices, which fills in zeros.
    sparse_output : "auto" or bool, default="auto"
        Whether estimates are sparse matrices (`scipy.sparse.csr_array`) of what was selected, with
        no `precision_`. "auto": above 10,000 features.
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
    precision_ : ndarray
        Its inverse, if `store_precision`; zero in directions where there is none.
    support_, selected_ : ndarray of bool
        Where the estimate is not zero; where the screen selected a pair, and the diagonal.
    noise_sd_ : ndarray
        Standard deviation of the privacy noise of each released entry, NaN elsewhere.
    detection_limit_ : float
        The smallest correlation that is found nine times out of ten, by prediction; 1 where none
        is.
    feature_scale_ : ndarray
        The scales used; 0 for a feature given or found as constant.
    plan_ : ScreenedPlan
        Parameters and predicted error.
    release_ : Release
        The released integers with `release_.guarantee`.
    location_ : ndarray
        Zeros: no mean is released.
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

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        row_sparsity: int | None = None,
        feature_scale: Any = None,
        scale_share: Any = "auto",
        screen: str = "sign",
        norm_bound: str = "public",
        threshold: Any = "auto",
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
        self.scale_share = scale_share
        self.screen = screen
        self.norm_bound = norm_bound
        self.threshold = threshold
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

    def _planned(self, inputs: ReleaseInputs) -> ScreenedRun:
        self.plan_ = self._plan(inputs)
        self.detection_limit_ = self.plan_.detection_limit
        sparse = self._sparse(inputs.n_features)
        check_memory("screened", inputs.n_records, inputs.n_features, sparse=sparse)
        return ScreenedRun(self.plan_.parameters, sparse)

    def _forecast(self, inputs: ReleaseInputs) -> Forecast:
        return Forecast("screened", self.plan_.predicted_error, self.detection_limit_)

    def _row_sparsity(self, n_features: int) -> int:
        self._check_given("row_sparsity")
        return self.row_sparsity  # type: ignore[return-value]
