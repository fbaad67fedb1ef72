"""`RowTopKCovariance`: rows select their partners; pairs that select each other are released."""

from __future__ import annotations

import warnings
from typing import Any

from sklearn.utils.validation import check_is_fitted

from hushcov.estimators.options import with_options
from hushcov.estimators.scaled import ApproximateCovariance
from hushcov.exceptions import ParameterError, UncertifiedWarning
from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.peers.row_top_k import ROW_TOP_K
from hushcov.mechanisms.room import MechanismPlan


@with_options
class RowTopKCovariance(ApproximateCovariance):
    """Sparse covariance by private top-k selection in every row, (epsilon, delta)-private.

    The algorithm of Kumar, Pandey, Sarkar and Tian (COLT 2026). Every row of the second-moment
    matrix privately selects its largest entries; pairs of features that select each other are
    released with noise, and so are all variances. As printed its noise is not proved to be
    private. `constants="sound"` keeps the algorithm and makes its noise as small as a proof
    allows: exponential selection, then Gaussian noise for what was selected.

    Parameters
    ----------
    row_sparsity : int
        Most nonzero entries in a row of the covariance, the diagonal included. Required. The
        diagonal is always released, so a row selects one entry less than this, whatever the data.
        1 releases variances alone; the number of features releases everything.
    constants : {"sound", "paper"}, default="sound"
        "paper" takes clipping, Laplace noise and averages as they are printed, with failure
        probability 0.1. Its published privacy argument has gaps: the fit warns, its release is
        never marked as private, and a ledger, which charges what is certified, refuses it.
    radius : float, optional
        Public bound on every coordinate in units of its scale. None balances noise and clipping
        bias for Gaussian records. The paper's constants have a radius of their own.

    Attributes
    ----------
    noise_sd_ : ndarray
        Standard deviation of the privacy noise of each released entry, NaN elsewhere. Intervals
        take noise for normal, also the paper's Laplace noise.
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

    constants: str = "sound"
    radius: float | None = None

    assumed_row_sparsity = None

    @property
    def selected_(self) -> Any:
        """Where two features selected each other, and the diagonal."""
        check_is_fitted(self, "release_")
        return self.release_.released

    def _planned(self, inputs: ReleaseInputs) -> tuple[MechanismPlan[Any], None]:
        planned = ROW_TOP_K.plan(inputs, constants=self.constants, radius=self.radius)
        if self.constants != "paper":
            return planned, None
        if self.ledger is not None:
            raise ParameterError(
                "ledger must be left out with constants='paper': a ledger charges what is "
                "certified, and this release is not. Use constants='sound'."
            )
        warnings.warn(
            "constants='paper' was given: the published privacy argument has gaps, so this "
            "release is NOT certified to be private. Use constants='sound' for sensitive records.",
            UncertifiedWarning,
            stacklevel=4,
        )
        return planned, None
