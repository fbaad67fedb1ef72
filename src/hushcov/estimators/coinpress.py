"""`CoinPressCovariance`: a few noisy steps, each on records rescaled by what the last one found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hushcov.accounting import Guarantee
from hushcov.estimators.scaled import ScaledCovariance
from hushcov.mechanisms.coinpress import (
    CoinPressParameters,
    certify_coinpress,
    coinpress_parameters,
    release_coinpress,
)
from hushcov.mechanisms.inputs import ReleaseInputs
from hushcov.noise import Entropy
from hushcov.records import Records
from hushcov.release import Release


@dataclass(frozen=True)
class CoinPressRun:
    """CoinPress, of which every entry is kept."""

    parameters: CoinPressParameters

    def certify(self, *, private: bool) -> Guarantee:
        """See `certify_coinpress`."""
        return certify_coinpress(self.parameters, private=private)

    def release(
        self, records: Records, feature_scale: npt.NDArray[np.float64], entropy: Entropy
    ) -> Release:
        """See `release_coinpress`."""
        return release_coinpress(records, feature_scale, self.parameters, entropy)

    def threshold(self, release: Release) -> float:
        """None: noise is not the same everywhere."""
        return 0.0


class CoinPressCovariance(ScaledCovariance):
    """Covariance by CoinPress (Biswas, Dong, Kamath and Ullman 2020), (epsilon, delta)-private.

    A first step finds roughly how the records are spread, with a small part of the budget. The
    next one works on records multiplied by a matrix that makes the spread even, where the same
    noise does less harm, and so on. The error is small relative to the covariance in every
    direction, also where the covariance is small. Sparsity is not used: where the covariance is
    sparse and its eigenvalues are alike, other mechanisms need fewer records.

    Parameters
    ----------
    epsilon, delta : float
        Privacy budget, 0 < epsilon <= 10 and 0 < delta <= 0.1. Required.
    row_sparsity : int, optional
        Most nonzero entries in a row, the diagonal included. It bounds the largest eigenvalue of
        a correlation matrix, if `eigenvalue_bounds` is None. None stands for all features, a loose
        bound that takes many more records to make up for: declare it if you can.
    feature_scale : None, float or array of shape (n_features,)
        As in `GaussianCovariance`.
    scale_share : "auto" or float, default="auto"
        Share of the budget that estimating scales spends when `feature_scale` is None.
    n_steps : int, default=3
        Number of steps, each of which passes over the records once. The last one gets three
        quarters of the budget. More steps bear bounds that are farther apart.
    eigenvalue_bounds : None or pair of floats
        Public bounds on the eigenvalues of the covariance of the features over their scales. None
        takes those of a correlation matrix, 0.1 and `row_sparsity`. Bounds that do not hold
        cost accuracy, never privacy.
    constants : {"sound", "paper"}, default="sound"
        "sound" adds the least noise that the budget allows. "paper" adds that of the publication,
        sqrt(2) times as much off the diagonal, for comparisons; the guarantee is the same.
    positive_semidefinite, store_precision, assume_centered, device, random_state, ledger, dataset
    on_large_delta, drop_nulls
        As in `ScreenedCovariance`. The release has no negative eigenvalue but for rounding.

    Attributes
    ----------
    covariance_, precision_, support_, feature_scale_, release_, location_, n_records_
        As in `ScreenedCovariance`; every entry is released. Noise is not the same everywhere, so
        there are no intervals and there is no `noise_sd_`.
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
    >>> bool(abs(est.covariance_[1, 1] - 0.01) < 0.002)
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
        n_steps: int = 3,
        eigenvalue_bounds: Any = None,
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
        self.n_steps = n_steps
        self.eigenvalue_bounds = eigenvalue_bounds
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

    def _row_sparsity(self, n_features: int) -> int:
        return n_features if self.row_sparsity is None else self.row_sparsity

    def _planned(self, inputs: ReleaseInputs) -> CoinPressRun:
        self.parameters_ = coinpress_parameters(
            inputs,
            n_steps=self.n_steps,
            eigenvalue_bounds=self.eigenvalue_bounds,
            constants=self.constants,
        )
        return CoinPressRun(self.parameters_)
