"""`EigenSamplingCovariance`: noisy eigenvalues along sampled directions, under pure DP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hushcov._validation import check_integer
from hushcov.accounting import Guarantee
from hushcov.estimators.base import FloatArray
from hushcov.estimators.scaled import ScaledCovariance
from hushcov.exceptions import ParameterError
from hushcov.mechanisms.eigen_sampling import (
    EigenSamplingParameters,
    certify_eigen_sampling,
    eigen_sampling_parameters,
    pure_inputs,
    release_eigen_sampling,
)
from hushcov.mechanisms.inputs import ReleaseInputs
from hushcov.noise import Entropy
from hushcov.records import Records
from hushcov.release import Release

_FEW = 5  # nonzeros of a row that are assumed where nothing is declared


@dataclass(frozen=True)
class EigenSamplingRun:
    """One release; nothing is thresholded."""

    parameters: EigenSamplingParameters

    def certify(self, *, private: bool) -> Guarantee:
        """See `certify_eigen_sampling`."""
        return certify_eigen_sampling(self.parameters, private=private)

    def release(self, records: Records, feature_scale: FloatArray, entropy: Entropy) -> Release:
        """See `release_eigen_sampling`."""
        return release_eigen_sampling(records, feature_scale, self.parameters, entropy)

    def threshold(self, release: Release) -> float:
        """None: every entry is kept."""
        return 0.0


class EigenSamplingCovariance(ScaledCovariance):
    """Covariance by noisy eigenvalues and sampled eigenvectors, pure epsilon-DP.

    The mechanism of Amin, Dick, Kulesza, Munoz Medina and Vassilvitskii (NeurIPS 2019). There is no
    delta, not even for finite precision. In return the error grows fast with the number of
    features, and sparsity does not help: use it where delta must be 0.

    Parameters
    ----------
    epsilon : float
        Privacy budget, 0 < epsilon <= 10. Required.
    row_sparsity : int, optional
        Most nonzero entries in a row, the diagonal included. It helps to place the bound on the
        norm of records; None assumes few.
    feature_scale : float or array of shape (n_features,)
        Public standard deviations of the features in the order of the columns, or numbers close
        to them; 0 marks a constant feature, whose covariances are zero. Required: estimating them
        privately is not pure DP.
    row_norm : float, optional
        Public bound on the norm of a record whose features are divided by their scales. None takes
        one from the public inputs.
    allocation : {"adaptive", "uniform"}, default="adaptive"
        How the budget of the directions is divided: by the roots of the noisy eigenvalues, or
        equally.
    constants : {"sound", "paper"}, default="sound"
        "paper" draws directions as in the publication. It is private as well, and noisier: it
        spends three quarters of the budget.
    positive_semidefinite, store_precision, assume_centered, device, random_state, ledger, dataset
        As in `ScreenedCovariance`. The release is positive semidefinite up to rounding anyway.

    Attributes
    ----------
    covariance_, precision_, support_, feature_scale_, release_, location_, n_records_
        As in `ScreenedCovariance`; every entry is released. There is no single noise level, so
        there is neither `noise_sd_` nor `covariance_interval`.
    parameters_ : EigenSamplingParameters
        Every public quantity of the mechanism.

    Notes
    -----
    Privacy. Neighbours: replace one record; no precondition. Guarantee: epsilon-differential
    privacy (delta = 0) of `release_` and everything computed from it, for every dataset; proof:
    `docs/proofs/eigen_sampling.md`.

    The time grows with the fourth power of the number of features: seconds for 200.

    Examples
    --------
    >>> from hushcov import EigenSamplingCovariance
    >>> from hushcov.metrics import operator_norm_error
    >>> from hushcov.simulate import gaussian_records, sparse_covariance
    >>> truth = sparse_covariance("block", 5, 5)
    >>> X = gaussian_records(truth, 100_000)
    >>> est = EigenSamplingCovariance(epsilon=1.0, feature_scale=0.6, assume_centered=True).fit(X)
    >>> operator_norm_error(est.covariance_, truth) < 0.3
    True
    >>> est.release_.guarantee.delta
    0.0
    """

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        row_sparsity: int | None = None,
        feature_scale: Any = None,
        row_norm: float | None = None,
        allocation: str = "adaptive",
        constants: str = "sound",
        positive_semidefinite: bool = False,
        store_precision: bool = True,
        assume_centered: bool = False,
        device: str | None = None,
        random_state: object = None,
        ledger: Any = None,
        dataset: str | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.row_sparsity = row_sparsity
        self.feature_scale = feature_scale
        self.row_norm = row_norm
        self.allocation = allocation
        self.constants = constants
        self.positive_semidefinite = positive_semidefinite
        self.store_precision = store_precision
        self.assume_centered = assume_centered
        self.device = device
        self.random_state = random_state
        self.ledger = ledger
        self.dataset = dataset

    def _inputs(self, n_records: int, n_features: int) -> tuple[ReleaseInputs, None]:
        """Every public input; scales are among them, so none are estimated."""
        self._check_flags("store_precision", "assume_centered", "positive_semidefinite")
        self._check_given("epsilon")
        if self.feature_scale is None:
            raise ParameterError(
                "feature_scale is required: estimating scales privately is not pure DP. Pass "
                f"feature_scale=..., numbers that are public, to {type(self).__name__}."
            )
        cure = "it is the number of columns."
        n_features = check_integer("n_features", n_features, at_least=1, at_most=10**9, cure=cure)
        cure = f"it counts the nonzeros of a row, the diagonal included; n_features = {n_features}."
        row_sparsity = check_integer(
            "row_sparsity",
            self._row_sparsity(n_features),
            at_least=1,
            at_most=n_features,
            cure=cure,
        )
        epsilon: Any = self.epsilon
        return pure_inputs(n_records, n_features, row_sparsity, epsilon), None

    def _row_sparsity(self, n_features: int) -> int:
        return min(_FEW, n_features) if self.row_sparsity is None else self.row_sparsity

    def _planned(self, inputs: ReleaseInputs) -> EigenSamplingRun:
        self.parameters_ = eigen_sampling_parameters(
            inputs,
            allocation=self.allocation,
            constants=self.constants,
            row_norm=self.row_norm,
        )
        return EigenSamplingRun(self.parameters_)
