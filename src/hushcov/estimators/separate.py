"""`SeparateCovariance`: eigenvectors and eigenvalues released apart."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from hushcov.estimators.options import with_options
from hushcov.estimators.scaled import ApproximateCovariance
from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.peers.separate import SEPARATE
from hushcov.mechanisms.room import MechanismPlan


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
        records are shrunk to it. None takes one from the number of features. With "adaptive" the
        bound may be generous.
    constants : {"sound", "paper"}, default="sound"
        "sound" uses exact sensitivities, shares of the budget that were measured to be good, and
        the order of the eigenvalues. "paper" uses the noise levels and shares of the paper: as
        private, and less accurate.
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
    constants: str = "sound"

    @property
    def method_(self) -> str:
        """The method that was used."""
        check_is_fitted(self, "release_")
        return str(self.release_.parameters["chosen_method"])

    @property
    def row_norm_(self) -> float:
        """The bound on the norm of records that was used, in units of the scales."""
        check_is_fitted(self, "release_")
        return float(str(self.release_.parameters["chosen_row_norm"]))

    def _planned(self, inputs: ReleaseInputs) -> tuple[MechanismPlan[Any], None]:
        planned = SEPARATE.plan(
            inputs, method=self.method, constants=self.constants, row_norm=self.row_norm
        )
        return planned, None
