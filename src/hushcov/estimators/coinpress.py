"""`CoinPressCovariance`: a few noisy steps, each on records rescaled by what the last one found."""

from __future__ import annotations

import math
from typing import Any

from hushcov.estimators.options import with_options
from hushcov.estimators.scaled import ApproximateCovariance
from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.peers.coinpress import COINPRESS
from hushcov.mechanisms.room import MechanismPlan


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
    constants : {"sound", "paper"}, default="sound"
        "sound" adds the least noise that the budget allows. "paper" adds that of the publication,
        sqrt(2) times as much off the diagonal, for comparisons; the guarantee is the same.
    positive_semidefinite : bool, default=False
        Whether to project the estimate, in units of the scales, on the positive semidefinite
        matrices. It has no negative eigenvalue but for rounding.

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
    >>> bool(abs(est.covariance_[1, 1] - 0.01) < 0.002)
    True
    """

    n_steps: int = 3
    eigenvalue_bounds: Any = None
    constants: str = "sound"

    assumed_row_sparsity = math.inf

    def _planned(self, inputs: ReleaseInputs) -> tuple[MechanismPlan[Any], None]:
        planned = COINPRESS.plan(
            inputs,
            n_steps=self.n_steps,
            eigenvalue_bounds=self.eigenvalue_bounds,
            constants=self.constants,
        )
        return planned, None
