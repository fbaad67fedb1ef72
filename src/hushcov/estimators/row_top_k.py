"""`RowTopKCovariance`: rows select their partners; pairs that select each other are released."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from sklearn.utils.validation import check_is_fitted

from hushcov._validation import check_choice, shown
from hushcov.accounting import Guarantee
from hushcov.estimators.base import FloatArray
from hushcov.estimators.scaled import ScaledCovariance
from hushcov.exceptions import ParameterError, UncertifiedWarning
from hushcov.mechanisms.inputs import ReleaseInputs
from hushcov.mechanisms.row_top_k import (
    PrintedParameters,
    RowTopKParameters,
    certify_row_top_k,
    claim_printed,
    printed_parameters,
    release_printed,
    release_row_top_k,
    row_top_k_parameters,
)
from hushcov.noise import Entropy
from hushcov.records import Records
from hushcov.release import Release

CONSTANTS = ("sound", "paper")


@dataclass(frozen=True)
class RowTopKRun:
    """A row-wise top-k release; what it selected is kept as it is."""

    parameters: RowTopKParameters | PrintedParameters

    def certify(self, *, private: bool) -> Guarantee:
        """See `certify_row_top_k`; printed noise is only claimed to be private."""
        if isinstance(self.parameters, PrintedParameters):
            return claim_printed(self.parameters)
        return certify_row_top_k(self.parameters, private=private)

    def release(self, records: Records, feature_scale: FloatArray, entropy: Entropy) -> Release:
        """See `release_row_top_k` and `release_printed`."""
        if isinstance(self.parameters, PrintedParameters):
            return release_printed(records, feature_scale, self.parameters, entropy)
        return release_row_top_k(records, feature_scale, self.parameters, entropy)

    def threshold(self, release: Release) -> float:
        """None: the selection has decided."""
        return 0.0


class RowTopKCovariance(ScaledCovariance):
    """Sparse covariance by private top-k selection in every row, (epsilon, delta)-private.

    The algorithm of Kumar, Pandey, Sarkar and Tian (COLT 2026). Every row of the second-moment
    matrix privately selects its largest entries; pairs of features that select each other are
    released with noise, and so are all variances. As printed its noise is not proved to be
    private. `constants="sound"` keeps the algorithm and makes its noise as small as a proof
    allows: exponential selection, then Gaussian noise for what was selected.

    Parameters
    ----------
    epsilon, delta : float
        Privacy budget, 0 < epsilon <= 10 and 0 < delta <= 0.1. Required.
    row_sparsity : int
        Most nonzero entries in a row of the covariance, the diagonal included. Required. The
        diagonal is always released, so a row selects one entry less than this, whatever the data.
        1 releases variances alone; the number of features releases everything.
    feature_scale : None, float or array of shape (n_features,)
        Public standard deviations of the features in the order of the columns, or numbers close
        to them; 0 marks a constant feature, whose covariances are zero. None estimates them
        privately: from 1e-17 to 1e19, smaller ones count as constant and larger ones are clipped.
    scale_share : "auto" or float, default="auto"
        Share of the budget that estimating scales spends when `feature_scale` is None.
    constants : {"sound", "paper"}, default="sound"
        "paper" takes clipping, Laplace noise and averages as they are printed, with failure
        probability 0.1. Its published privacy argument has gaps: the fit warns, and its release
        is never marked as private.
    radius : float, optional
        Public bound on every coordinate in units of its scale. None balances noise and clipping
        bias for Gaussian records. The paper's constants have a radius of their own.
    positive_semidefinite, store_precision, assume_centered, device, random_state, ledger, dataset
    on_large_delta, drop_nulls
        As in `ScreenedCovariance`. A ledger charges what is certified, so it takes no release with
        the paper's constants.

    Attributes
    ----------
    covariance_, precision_, support_, noise_sd_, feature_scale_, release_, location_, n_records_
        As in `ScreenedCovariance`. Intervals take noise for normal, also the paper's Laplace noise.
    selected_ : ndarray of bool
        Where two features selected each other, and the diagonal.
    parameters_ : RowTopKParameters or PrintedParameters
        Every public quantity of the mechanism.

    Warns
    -----
    UncertifiedWarning
        With `constants="paper"`.
    SeededNoiseWarning
        If `random_state` is given.

    Notes
    -----
    Privacy, with `constants="sound"`. Neighbours: replace one record; no precondition. Guarantee:
    (epsilon, delta)-differential privacy of `release_`, `feature_scale_` and everything computed
    from them, for every dataset; proof: `docs/proofs/row_top_k.md`, which also lists the gaps
    of the printed argument.

    Examples
    --------
    >>> from hushcov import RowTopKCovariance
    >>> from hushcov.metrics import operator_norm_error
    >>> from hushcov.simulate import gaussian_records, sparse_covariance
    >>> truth = sparse_covariance("block", 20, 5)
    >>> X = gaussian_records(truth, 20_000)
    >>> est = RowTopKCovariance(epsilon=1.0, delta=1e-6, row_sparsity=5).fit(X)
    >>> operator_norm_error(est.covariance_, truth) < 0.3
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
        constants: str = "sound",
        radius: float | None = None,
        positive_semidefinite: bool = False,
        store_precision: bool = True,
        assume_centered: bool = False,
        device: str | None = None,
        random_state: object = None,
        ledger: Any = None,
        dataset: str | None = None,
        on_large_delta: str = "raise",
        drop_nulls: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.row_sparsity = row_sparsity
        self.feature_scale = feature_scale
        self.scale_share = scale_share
        self.constants = constants
        self.radius = radius
        self.positive_semidefinite = positive_semidefinite
        self.store_precision = store_precision
        self.assume_centered = assume_centered
        self.device = device
        self.random_state = random_state
        self.ledger = ledger
        self.dataset = dataset
        self.on_large_delta = on_large_delta
        self.drop_nulls = drop_nulls

    @property
    def selected_(self) -> Any:
        """Where two features selected each other, and the diagonal."""
        check_is_fitted(self, "release_")
        return self.release_.released

    def _row_sparsity(self, n_features: int) -> int:
        self._check_given("row_sparsity")
        return self.row_sparsity  # type: ignore[return-value]

    def _planned(self, inputs: ReleaseInputs) -> RowTopKRun:
        check_choice("constants", self.constants, CONSTANTS)
        if self.constants == "sound":
            self.parameters_: Any = row_top_k_parameters(inputs, radius=self.radius)
            return RowTopKRun(self.parameters_)
        if self.radius is not None:
            raise ParameterError(
                f"radius must be left out with constants='paper', got {shown(self.radius)}: the "
                "paper prints its own. Use constants='sound' to choose one."
            )
        if self.ledger is not None:
            raise ParameterError(
                "ledger must be left out with constants='paper': a ledger charges what is "
                "certified, and this release is not. Use constants='sound'."
            )
        self.parameters_ = printed_parameters(inputs)
        warnings.warn(
            "constants='paper' was given: the published privacy argument has gaps, so this "
            "release is NOT certified to be private. Use constants='sound' for sensitive records.",
            UncertifiedWarning,
            stacklevel=4,
        )
        return RowTopKRun(self.parameters_)
