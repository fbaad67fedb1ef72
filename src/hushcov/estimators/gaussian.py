"""`GaussianCovariance`: noise on the whole matrix, then a threshold if there is to be one."""

from __future__ import annotations

import math
from typing import Any

from hushcov.estimators.runs import GaussianRun
from hushcov.estimators.scaled import ScaledCovariance
from hushcov.mechanisms.gaussian import gaussian_parameters
from hushcov.mechanisms.inputs import ReleaseInputs
from hushcov.postprocess import detection_deviation, universal_threshold

_FEW = 5  # nonzeros of a row that are assumed where nothing is declared
_NINE_OF_TEN = 1.2815515655446004  # normal quantile of 0.9


class GaussianCovariance(ScaledCovariance):
    """Covariance by the Gaussian mechanism (Analyze Gauss), (epsilon, delta)-private.

    Every entry of the second-moment matrix is released with the same noise, calibrated exactly.
    With `threshold="universal"` entries that noise alone may have made are set to zero: the
    DP-Thresholding of Wang and Xu for sparse covariances.

    Parameters
    ----------
    epsilon, delta : float
        Privacy budget, 0 < epsilon <= 10 and 0 < delta <= 0.1. Required.
    row_sparsity : int, optional
        Most nonzero entries in a row, the diagonal included. It helps to place the bound on the
        norm of records; None assumes few.
    feature_scale : None, float or array of shape (n_features,)
        Public standard deviations of the features in the order of the columns, or numbers close
        to them; 0 marks a constant feature, whose covariances are zero. None estimates them
        privately: from 1e-17 to 1e19, smaller ones count as constant and larger ones are clipped.
    scale_share : "auto" or float, default="auto"
        Share of the budget that estimating scales spends when `feature_scale` is None.
    clipping : {"row", "coordinate"}, default="row"
        Whether the Euclidean norm of a record is bounded, or its coordinates only.
    row_norm : float, optional
        Public bound on the norm of a record whose features are divided by their scales. None takes
        one from the number of features.
    threshold : None, "universal" or float, default=None
        None and 0 keep every entry. Other numbers are thresholds in units of the scales of the two
        features: correlations, about.
    positive_semidefinite, store_precision, assume_centered, random_state, ledger, dataset
        As in `ScreenedCovariance`.

    Attributes
    ----------
    covariance_, precision_, support_, noise_sd_, feature_scale_, release_, location_, n_records_
        As in `ScreenedCovariance`; every entry is released.
    detection_limit_ : float or None
        The smallest correlation that passes the threshold nine times out of ten; 1 where no
        correlation does, None without a threshold.
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

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        row_sparsity: int | None = None,
        feature_scale: Any = None,
        scale_share: Any = "auto",
        clipping: str = "row",
        row_norm: float | None = None,
        threshold: Any = None,
        positive_semidefinite: bool = False,
        store_precision: bool = True,
        assume_centered: bool = False,
        random_state: object = None,
        ledger: Any = None,
        dataset: str | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.row_sparsity = row_sparsity
        self.feature_scale = feature_scale
        self.scale_share = scale_share
        self.clipping = clipping
        self.row_norm = row_norm
        self.threshold = threshold
        self.positive_semidefinite = positive_semidefinite
        self.store_precision = store_precision
        self.assume_centered = assume_centered
        self.random_state = random_state
        self.ledger = ledger
        self.dataset = dataset

    def _row_sparsity(self, n_features: int) -> int:
        return min(_FEW, n_features) if self.row_sparsity is None else self.row_sparsity

    def _planned(self, inputs: ReleaseInputs) -> GaussianRun:
        level = self._check_threshold(
            self.threshold, "universal", at_most=math.inf, cure="follows from the noise."
        )
        self.parameters_ = gaussian_parameters(
            inputs, clipping=self.clipping, row_norm=self.row_norm
        )
        noise_sd, n_records = self.parameters_.noise_sd, inputs.n_records
        if level is None:
            level = universal_threshold(noise_sd, n_records, inputs.n_features)
        deviation = detection_deviation(noise_sd, n_records)
        self.detection_limit_ = min(1.0, level + _NINE_OF_TEN * deviation) if level else None
        return GaussianRun(self.parameters_, level)
