"""`EigenSamplingCovariance`: noisy eigenvalues along sampled directions, under pure DP."""

from __future__ import annotations

from typing import Any

from hushcov.estimators.options import with_options
from hushcov.estimators.scaled import ScaledCovariance
from hushcov.exceptions import ParameterError
from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.peers.eigen_sampling import EIGEN_SAMPLING
from hushcov.mechanisms.room import MechanismPlan
from hushcov.planning import Request


@with_options
class EigenSamplingCovariance(ScaledCovariance):
    """Covariance by noisy eigenvalues and sampled eigenvectors, pure epsilon-DP.

    The mechanism of Amin, Dick, Kulesza, Munoz Medina and Vassilvitskii (NeurIPS 2019). There is no
    delta, not even for finite precision. In return the error grows fast with the number of
    features, and sparsity does not help: use it where delta must be 0.

    Parameters
    ----------
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
    positive_semidefinite : bool, default=False
        Whether to project the estimate, in units of the scales, on the positive semidefinite
        matrices. Up to rounding it is one of them anyway.

    Attributes
    ----------
    covariance_ : ndarray of shape (n_features, n_features)
        The released estimate; every entry is released. There is no single noise level, so there is
        neither `noise_sd_` nor `covariance_interval`.
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

    row_norm: float | None = None
    allocation: str = "adaptive"
    constants: str = "sound"

    def request(self, n_features: int) -> Request:
        """Scales are public: none are estimated."""
        if self.feature_scale is None:
            raise ParameterError(
                "feature_scale is required: estimating scales privately is not pure DP. Pass "
                f"feature_scale=..., numbers that are public, to {type(self).__name__}."
            )
        return super().request(n_features)

    def _planned(self, inputs: ReleaseInputs) -> tuple[MechanismPlan[Any], None]:
        planned = EIGEN_SAMPLING.plan(
            inputs, allocation=self.allocation, constants=self.constants, row_norm=self.row_norm
        )
        return planned, None
