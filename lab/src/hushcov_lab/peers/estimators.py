"""Estimators by published mechanisms, which run beside ours: each one's own options, no more."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hushcov.estimators.options import with_options
from hushcov.estimators.scaled import ApproximateCovariance, ScaledCovariance
from hushcov.exceptions import ParameterError
from hushcov.fit import Request
from hushcov.fit.mechanism import MechanismPlan
from hushcov.inputs import ReleaseInputs
from hushcov_lab.peers.coinpress import COINPRESS
from hushcov_lab.peers.eigen_sampling import EIGEN_SAMPLING
from hushcov_lab.peers.pace import PACE
from hushcov_lab.peers.row_top_k import ROW_TOP_K
from hushcov_lab.peers.separate import SEPARATE


@with_options
class CoinPressCovariance(ApproximateCovariance):
    """Covariance by CoinPress (Biswas, Dong, Kamath and Ullman 2020), (epsilon, delta)-private.

    A first step finds roughly how the records are spread, with a small part of the budget. The
    next one works on records multiplied by a matrix that makes the spread even, where the same
    noise does less harm, and so on. The error is small relative to the covariance in every
    direction, also where the covariance is small. Sparsity is not used: where the covariance is
    sparse and its eigenvalues are alike, other mechanisms need fewer records.

    Parameters
    ----------
    row_sparsity : int, optional
        Most nonzero entries in a row, the diagonal included. It bounds the largest eigenvalue of
        a correlation matrix, if `eigenvalue_bounds` is None. None stands for all features, a loose
        bound that takes many more records to make up for: declare it if you can.
    n_steps : int, default=3
        Number of steps, each of which passes over the records once. The last one gets three
        quarters of the budget. More steps bear bounds that are farther apart.
    eigenvalue_bounds : None or pair of floats
        Public bounds on the eigenvalues of the covariance of the features over their scales. None
        takes those of a correlation matrix, 0.1 and `row_sparsity`. Bounds that do not hold
        cost accuracy, never privacy.

    Attributes
    ----------
    covariance_ : ndarray of shape (n_features, n_features)
        The released estimate; every entry is released. Noise is not the same everywhere, so there
        are no intervals and there is no `noise_sd_`.
    parameters_ : CoinPressParameters
        Every public quantity of the mechanism.

    Notes
    -----
    Privacy. Neighbours: replace one record; no precondition. Guarantee:
    (epsilon, delta)-differential privacy of `release_`, `feature_scale_` and everything computed
    from them, for every dataset; proof: `docs/proofs/coinpress.md`.

    Examples
    --------
    >>> import numpy as np
    >>> from hushcov import CoinPressCovariance
    >>> from hushcov.simulate import gaussian_records
    >>> truth = np.diag([1.0, 0.01, 1.0])
    >>> X = gaussian_records(truth, 20_000)
    >>> est = CoinPressCovariance(
    ...     epsilon=1.0, delta=1e-6, feature_scale=1.0, eigenvalue_bounds=(0.01, 1.0)
    ... ).fit(X)
    >>> bool(abs(est.covariance_[1, 1] - 0.01) < 0.009)
    True
    """

    n_steps: int = 3
    eigenvalue_bounds: Any = None

    assumed_row_sparsity = math.inf

    def _planned(self, inputs: ReleaseInputs) -> MechanismPlan[Any]:
        own: Any = {"n_steps": self.n_steps, "eigenvalue_bounds": self.eigenvalue_bounds}
        return COINPRESS.plan(inputs, **own)


@with_options
class SeparateCovariance(ApproximateCovariance):
    """Covariance by SeparateCov and its relatives (Dong, Liang and Yi, NeurIPS 2022).

    Noise on the whole matrix ruins eigenvalues more than eigenvectors. So "separate" takes the
    eigenvectors of a noisy matrix, and releases the eigenvalues of the exact one with noise of
    their own: better where the noise is large against the covariance, as with many features.
    "gauss" keeps the eigenvalues of the noisy matrix. "adaptive" counts the norms of the records
    privately, and from the counts chooses a smaller bound on the norms if that pays, and the
    method that is expected to have the smaller error in Frobenius norm.

    Parameters
    ----------
    method : {"gauss", "separate", "adaptive"}, default="adaptive"
        GaussCov, SeparateCov or AdaptiveCov of the paper.
    row_norm : float, optional
        Public bound on the norm of a record whose features are divided by their scales; longer
        records are shrunk to it. None takes one from the number of features, or from the released
        norms where means are found. With "adaptive" the bound may be generous.
    positive_semidefinite : bool, default=False
        Project once more onto positive semidefinite matrices. Released eigenvalues are not
        negative, so that this only removes what rounding to integers did.

    Attributes
    ----------
    covariance_ : ndarray of shape (n_features, n_features)
        The released estimate; every entry is released. There is no `noise_sd_`: once eigenvalues
        are changed, entries have no single noise level.
    method_ : {"gauss", "separate"}
        What was used.
    row_norm_ : float
        The bound on the norms that was used, in units of the scales.
    parameters_ : SeparateParameters
        Every public quantity of the mechanism.

    Notes
    -----
    Privacy. Neighbours: replace one record; no precondition. Guarantee:
    (epsilon, delta)-differential privacy of `release_`, `feature_scale_` and everything computed
    from them, for every dataset; proof: `docs/proofs/separate.md`. Unless `method="gauss"`, it
    trusts an error bound of the eigenvalue solver, for which noise is added.

    Departures from the paper. The norm bound is chosen from noisy counts instead of by the sparse
    vector technique, at steps of a quarter octave instead of an octave, and the trace is read
    off the same counts, so that all of the release is one Gaussian mechanism to the accountant.
    The published code recombines by singular vectors, which flips the sign of negative noisy
    eigenvalues; here eigenvectors are taken in the order of their signed eigenvalues.

    References
    ----------
    Dong, Liang, Yi. Differentially Private Covariance Revisited. NeurIPS 2022, arXiv 2205.14324.

    Examples
    --------
    >>> from hushcov import SeparateCovariance
    >>> from hushcov.metrics import operator_norm_error
    >>> from hushcov.simulate import gaussian_records, sparse_covariance
    >>> truth = sparse_covariance("block", 20, 5)
    >>> X = gaussian_records(truth, 20_000)
    >>> est = SeparateCovariance(epsilon=1.0, delta=1e-6).fit(X)
    >>> operator_norm_error(est.covariance_, truth) < 0.6
    True
    """

    method: str = "adaptive"
    row_norm: float | None = None

    @property
    def method_(self) -> str:
        """The method that was used."""
        return str(self._released().parameters["chosen_method"])

    @property
    def row_norm_(self) -> float:
        """The bound on the norm of records that was used, in units of the scales."""
        return float(str(self._released().parameters["chosen_row_norm"]))

    def _planned(self, inputs: ReleaseInputs) -> MechanismPlan[Any]:
        return SEPARATE.plan(inputs, method=self.method, row_norm=self.row_norm)


@with_options
class PaceCovariance(ApproximateCovariance):
    """Covariance by PACE-GGM (Ferrando, Fuentes, Mullins, Musco and Sheldon 2026).

    Variances are measured with noise. Then in each round the entry that the estimate has most wrong
    is selected privately and measured, and the matrix of most entropy that agrees with what was
    measured is the next estimate: the covariance of a Gaussian graphical model, in which pairs that
    were not measured need not be zero. One entry at a time is cheap where every feature has a bound
    of its own.

    Parameters
    ----------
    radius : float, optional
        Public bound on every coordinate in units of its scale. None balances noise and clipping
        bias for Gaussian records. Public bounds for each feature, as in the publication, are
        `feature_scale` with `radius=1` (and `assume_centered=True`, if they bound what is around
        zero).
    n_rounds : int, optional
        Public number of entries that are selected and measured; one may be measured again. None
        takes fewer where noise is large.

    Attributes
    ----------
    covariance_ : ndarray of shape (n_features, n_features)
        The released estimate, positive definite; every entry is released. Noise is not the same
        everywhere, so there are no intervals and there is no `noise_sd_`.
    measured_ : ndarray of bool
        Which entries were measured: the diagonal, and pairs that were selected.
    parameters_ : PaceParameters
        Every public quantity of the mechanism.

    Notes
    -----
    Privacy. Neighbours: replace one record; no precondition. Guarantee:
    (epsilon, delta)-differential privacy of `release_`, `feature_scale_` and everything computed
    from them, for every dataset; proof: `docs/proofs/pace.md`, which also says what was guessed:
    only the abstract and the introduction of the publication could be read.

    The time grows with the fourth power of the number of features: seconds for 50.

    References
    ----------
    Ferrando, Fuentes, Mullins, Musco, Sheldon. Private Adaptive Covariance Estimation via Gaussian
    Graphical Models. 2026, arXiv 2605.24295.

    Examples
    --------
    >>> from hushcov import PaceCovariance
    >>> from hushcov.metrics import operator_norm_error
    >>> from hushcov.simulate import gaussian_records, sparse_covariance
    >>> truth = sparse_covariance("block", 20, 5)
    >>> X = gaussian_records(truth, 20_000)
    >>> est = PaceCovariance(epsilon=1.0, delta=1e-6).fit(X)
    >>> operator_norm_error(est.covariance_, truth) < 0.6
    True
    """

    radius: float | None = None
    n_rounds: int | None = None

    assumed_row_sparsity = math.inf

    @property
    def measured_(self) -> Any:
        """Which entries were measured."""
        pairs: Any = self._released().parameters["measured"]
        found = np.eye(self.n_features_in_, dtype=bool)
        rows, columns = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        found[rows, columns] = found[columns, rows] = True
        return found

    def _planned(self, inputs: ReleaseInputs) -> MechanismPlan[Any]:
        return PACE.plan(inputs, radius=self.radius, n_rounds=self.n_rounds)


@with_options
class RowTopKCovariance(ApproximateCovariance):
    """Sparse covariance by private top-k selection in every row, (epsilon, delta)-private.

    The algorithm of Kumar, Pandey, Sarkar and Tian (COLT 2026). Every row of the second-moment
    matrix privately selects its largest entries; pairs of features that select each other are
    released with noise, and so are all variances. Its noise as published is not proved to be
    private, and is replaced by noise that is: exponential selection, then Gaussian noise for what
    was selected.

    Parameters
    ----------
    row_sparsity : int
        Most nonzero entries in a row of the covariance, the diagonal included. Required. The
        diagonal is always released, so a row selects one entry less than this, whatever the data.
        1 releases variances alone; the number of features releases everything.
    radius : float, optional
        Public bound on every coordinate in units of its scale. None balances noise and clipping
        bias for Gaussian records.

    Attributes
    ----------
    noise_sd_ : ndarray
        Standard deviation of the privacy noise of each released entry, NaN elsewhere.
    selected_ : ndarray of bool
        Where two features selected each other, and the diagonal.
    parameters_ : RowTopKParameters
        Every public quantity of the mechanism.

    Notes
    -----
    Privacy. Neighbours: replace one record; no precondition. Guarantee:
    (epsilon, delta)-differential privacy of `release_`, `feature_scale_` and everything computed
    from them, for every dataset; proof: `docs/proofs/row_top_k.md`, which also lists the gaps
    of the published argument.

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

    radius: float | None = None

    assumed_row_sparsity = None

    @property
    def selected_(self) -> Any:
        """True at pairs of features that selected each other, and on the diagonal."""
        return self._released().released

    def _planned(self, inputs: ReleaseInputs) -> MechanismPlan[Any]:
        return ROW_TOP_K.plan(inputs, radius=self.radius)


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

    def _request(self, n_features: int) -> Request:
        """Scales are public: none are estimated."""
        if self.feature_scale is None:
            raise ParameterError(
                "feature_scale is required: estimating scales privately is not pure DP. Pass "
                f"feature_scale=..., numbers that are public, to {type(self).__name__}."
            )
        return super()._request(n_features)

    def _planned(self, inputs: ReleaseInputs) -> MechanismPlan[Any]:
        return EIGEN_SAMPLING.plan(inputs, allocation=self.allocation, row_norm=self.row_norm)
