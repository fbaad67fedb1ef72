"""`SeparateCovariance`: eigenvectors and eigenvalues released apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sklearn.utils.validation import check_is_fitted

from hushcov.accounting import Guarantee
from hushcov.estimators.base import FloatArray
from hushcov.estimators.scaled import ScaledCovariance
from hushcov.mechanisms.inputs import ReleaseInputs
from hushcov.mechanisms.separate import (
    SeparateParameters,
    certify_separate,
    release_separate,
    separate_parameters,
)
from hushcov.noise import Entropy
from hushcov.records import Records
from hushcov.release import Release

_FEW = 5  # nonzeros of a row that are assumed where nothing is declared


@dataclass(frozen=True)
class SeparateRun:
    """A release of eigenvectors and eigenvalues; nothing is thresholded."""

    parameters: SeparateParameters

    def certify(self, *, private: bool) -> Guarantee:
        """See `certify_separate`."""
        return certify_separate(self.parameters, private=private)

    def release(self, records: Records, feature_scale: FloatArray, entropy: Entropy) -> Release:
        """See `release_separate`."""
        return release_separate(records, feature_scale, self.parameters, entropy)

    def threshold(self, release: Release) -> float:
        """None: the entries are dense."""
        return 0.0


class SeparateCovariance(ScaledCovariance):
    """Covariance by SeparateCov and its relatives (Dong, Liang and Yi, NeurIPS 2022).

    Noise on the whole matrix ruins eigenvalues more than eigenvectors. So "separate" takes the
    eigenvectors of a noisy matrix, and releases the eigenvalues of the exact one with noise of
    their own: better where the noise is large against the covariance, as with many features.
    "gauss" keeps the eigenvalues of the noisy matrix. "adaptive" counts the norms of the records
    privately, and from the counts chooses a smaller bound on the norms if that pays, and the
    method that is expected to have the smaller error in Frobenius norm.

    Parameters
    ----------
    epsilon, delta : float
        Privacy budget, 0 < epsilon <= 10 and 0 < delta <= 0.1. Required.
    row_sparsity : int, optional
        Most nonzero entries in a row, the diagonal included. It helps to place the bound on the
        norm of records; None assumes few.
    feature_scale, scale_share
        As in `GaussianCovariance`.
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
    store_precision, assume_centered, device, random_state, ledger, dataset
    on_large_delta, drop_nulls
        As in `ScreenedCovariance`.

    Attributes
    ----------
    covariance_, precision_, support_, feature_scale_, release_, location_, n_records_
        As in `ScreenedCovariance`; every entry is released. There is no `noise_sd_`: once
        eigenvalues are changed, entries have no single noise level.
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

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        row_sparsity: int | None = None,
        feature_scale: Any = None,
        scale_share: Any = "auto",
        method: str = "adaptive",
        row_norm: float | None = None,
        constants: str = "sound",
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
        self.method = method
        self.row_norm = row_norm
        self.constants = constants
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
    def method_(self) -> str:
        """The method that was used."""
        check_is_fitted(self, "release_")
        return str(self.release_.parameters["chosen_method"])

    @property
    def row_norm_(self) -> float:
        """The bound on the norm of records that was used, in units of the scales."""
        check_is_fitted(self, "release_")
        return float(str(self.release_.parameters["chosen_row_norm"]))

    def _row_sparsity(self, n_features: int) -> int:
        return min(_FEW, n_features) if self.row_sparsity is None else self.row_sparsity

    def _planned(self, inputs: ReleaseInputs) -> SeparateRun:
        self.parameters_ = separate_parameters(
            inputs, method=self.method, constants=self.constants, row_norm=self.row_norm
        )
        return SeparateRun(self.parameters_)
