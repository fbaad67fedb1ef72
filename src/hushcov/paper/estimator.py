"""`MultiscaleCovariance`: the paper's mechanism as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any, Self

from hushcov._validation import check_choice, check_real
from hushcov.estimators.base import SummedCovariance, name_features
from hushcov.estimators.options import DeltaOptions, ForecastOptions, with_options
from hushcov.exceptions import ParameterError
from hushcov.fit import Caution, hopeless_because, large_delta
from hushcov.inputs import CalibratedInputs, PublicInputs
from hushcov.kernel.accounting import Guarantee
from hushcov.kernel.grids import IntegerGrid
from hushcov.kernel.noise import Entropy, entropy_source
from hushcov.kernel.sums.gram import second_moments
from hushcov.kernel.sums.statistics import RecordMap, Statistics
from hushcov.options import check_given, check_parameters
from hushcov.paper.mechanism import (
    CalibratedParameters,
    Moments,
    Parameters,
    certify,
    check_moments,
    grid_for,
    release_multiscale,
)
from hushcov.paper.parameters import theorem_parameters
from hushcov.paper.plan import MultiscalePlan, plan_multiscale
from hushcov.paper.samplers import RECONSTRUCTIONS
from hushcov.simulate import SimulatedMoments

CONSTANTS = ("theorem", "calibrated")


@with_options
class MultiscaleCovariance(DeltaOptions, ForecastOptions, SummedCovariance):
    """Sparse covariance by multiscale threshold tests, (epsilon, delta)-differentially private.

    Algorithm 1 of Zihan Zhang, *Improved Private Sparse Covariance Estimation with Multiscale
    Threshold Tests* (2026), drawn exactly at any number of candidate tests.

    With `constants="theorem"` the numbers are the paper's own, which need 1e9 to 1e16 records:
    on ordinary data `fit` refuses and names the number of records that would do. With
    `constants="calibrated"` a public optimiser chooses them for the size at hand, the
    accountant certifies them, and every n is private; `plan_` says what error to expect.
    `fit_statistics` runs the mechanism on second moments: simulated ones, or sums of records of one
    or more sites (`partial_fit`, `Statistics.merge`; see `docs/scale.md`).

    Parameters
    ----------
    epsilon, delta : float
        Privacy budget, 0 < delta <= 0.1 and 0 < epsilon <= 1 (theorem) or 10 (calibrated).
        Required.
    row_sparsity : int
        Most nonzero entries in a row of the covariance, the diagonal included. Required.
    scale : float
        Public sub-Gaussian scale sigma of the records: a bound on the standard deviation in
        every direction. Required, and never inferred from the data.
    target_error : float, default=0.25
        Operator-norm error sought, in units of scale**2; at most 0.25. The theorem's numbers
        depend on it; calibrated ones make the error as small as they can.
    failure_probability : float, default=0.1
        Probability with which the target may be missed; at most 0.1. Theorem only.
    constants : {"theorem", "calibrated"}, default="theorem"
        Where the mechanism's numbers come from.
    reconstruction : {"gate", "value"}, default="gate"
        What is read from the protected transcript: the paper's gates, or the noisy values
        themselves, which are several times more accurate. Values need calibrated constants.
    assume_centered : bool, default=True
        Whether the records have mean zero, as the paper assumes. True is required: subtract means
        that are public.

    Attributes
    ----------
    covariance_ : ndarray of shape (n_features, n_features)
        The released estimate. Symmetric; not necessarily positive semidefinite.
    parameters_ : TheoremParameters or CalibratedParameters
        Every public quantity of the mechanism.
    plan_ : MultiscalePlan
        The predicted error on each reference model. Calibrated constants only.

    Notes
    -----
    Privacy. Neighbours: replace one record. Precondition: with the theorem's constants the one
    checked by `hushcov.paper.mechanism.certify`, before any record is read; with calibrated
    ones none. Guarantee: (epsilon, delta)-differential privacy of `release_` for every dataset;
    proof: `docs/proofs/multiscale.md`. The number of records, the shape and the column names are
    public.

    Examples
    --------
    >>> from hushcov import MultiscaleCovariance
    >>> from hushcov.metrics import operator_norm_error
    >>> from hushcov.simulate import sparse_covariance, wishart_moments
    >>> truth = sparse_covariance("block", 20, 2)
    >>> moments = wishart_moments(truth, 60_000_000_000)
    >>> est = MultiscaleCovariance(epsilon=1.0, delta=1e-6, row_sparsity=2, scale=1.0)
    >>> est = est.fit_statistics(moments)
    >>> operator_norm_error(est.covariance_, truth) < 0.25
    True
    """

    scale: float | None = None
    target_error: float = 0.25
    failure_probability: float = 0.1
    constants: str = "theorem"
    reconstruction: str = "gate"
    assume_centered: bool = True

    def public_parameters(self, n_records: int, n_features: int) -> Parameters:
        """Return every quantity of the mechanism for this size, from public inputs alone."""
        check_choice("constants", self.constants, CONSTANTS)
        check_choice("reconstruction", self.reconstruction, tuple(RECONSTRUCTIONS))
        check_parameters(self)
        check_given(self, "epsilon", "delta", "row_sparsity", "scale")
        self._need_known_mean("for this mechanism", "the paper is about records of mean zero")
        if self.constants == "calibrated":
            # Not used, but a value that means nothing should not pass for one that does.
            for name, most in (("target_error", 0.25), ("failure_probability", 0.1)):
                cure = "leave it at its default with calibrated constants."
                check_real(name, getattr(self, name), above=0, at_most=most, cure=cure)
            return self._plan(n_records, n_features).parameters
        if self.reconstruction == "value":
            raise ParameterError(
                "reconstruction must be 'gate' with constants='theorem', got 'value': the "
                "theorem is about gates. Use constants='calibrated' for values."
            )
        known = self._inputs(n_records, n_features, "target_error", "failure_probability")
        return theorem_parameters(PublicInputs(**known))

    def _inputs(self, n_records: int, n_features: int, *names: str) -> dict[str, Any]:
        """Return the size, and the values of these parameters and of those always needed."""
        names = ("row_sparsity", "epsilon", "delta", "scale", *names)
        known = {name: getattr(self, name) for name in names}
        return {"n_records": n_records, "n_features": n_features, **known}

    def _plan(self, n_records: int, n_features: int) -> MultiscalePlan:
        inputs = CalibratedInputs(**self._inputs(n_records, n_features))
        return plan_multiscale(inputs, self.reconstruction)

    def grid(self, n_records: int, n_features: int) -> IntegerGrid:
        """Return the public grid that integer moments must be computed on for `fit_statistics`."""
        return grid_for(self.public_parameters(n_records, n_features))

    def fit(self, X: Any, y: Any = None) -> Self:
        """Release the covariance of the records in `X`.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features), path of a .npy file, or Records
        y : ignored

        Raises
        ------
        PrivacyConditionError
            If the guarantee cannot be certified for this n; before any record is read.
        """
        with self._fresh(X):
            self._check_ledger()
            records = self._open(X)
            parameters = self.public_parameters(records.n_records, records.n_features)
            guarantee = self._certified(parameters)
            self._enforce_cautions(*self.cautions(parameters))
            entropy = entropy_source(self.random_state)
            with self._charged(guarantee):
                moments = second_moments(records, grid_for(parameters))
                return self._release(moments, parameters, entropy)

    def cautions(self, parameters: Parameters, *, simulated: bool = False) -> tuple[Caution, ...]:
        """Return warnings to show before anything is spent."""
        inputs = parameters.inputs
        # Simulated moments protect nobody, and their release says so.
        found = [None if simulated else large_delta(inputs.delta, inputs.n_records)]
        if isinstance(parameters, CalibratedParameters):
            plan = self._plan(inputs.n_records, inputs.n_features)
            found.append(hopeless_because(plan.advice) if plan.hopeless else None)
        return tuple(caution for caution in found if caution is not None)

    def fit_statistics(self, statistics: Moments | None = None) -> Self:
        """Release from second moments: sums of records, or simulated ones.

        Each call is a release of its own: it is certified, charged to the ledger, and gets noise of
        its own, also for the same statistics. Afterwards the estimator holds no statistics. A
        release from `hushcov.simulate.SimulatedMoments` is marked as not private.

        Parameters
        ----------
        statistics : Statistics or SimulatedMoments, optional
            Exact sums of `partial_fit`, merged or loaded; those of this estimator if left out. All
            numbers of this mechanism follow from the number of records, where they were clipped
            as well: `total_records` must have been exact. Sums made otherwise must be on
            `self.grid(n_records, n_features)`.
        """
        simulated = isinstance(statistics, SimulatedMoments)
        moments = statistics if isinstance(statistics, SimulatedMoments) else self._held(statistics)
        with self._fresh():
            self._check_ledger()
            parameters = self.public_parameters(moments.n_records, moments.n_features)
            entropy = entropy_source(self.random_state)
            names = moments.record_map.feature_names if isinstance(moments, Statistics) else None
            name_features(self, moments.n_features, names)
            private = entropy.private and not simulated
            guarantee = certify(parameters, private=private, exact_statistic=simulated)
            check_moments(moments, parameters)
            self._enforce_cautions(*self.cautions(parameters, simulated=simulated))
            with self._charged(guarantee):
                return self._release(moments, parameters, entropy)

    def _record_map(self, n_records: int, n_features: int, **known: Any) -> RecordMap:
        parameters = self.public_parameters(n_records, n_features)
        self._certified(parameters)
        return RecordMap(n_features, grid_for(parameters), **known)

    def _certified(self, parameters: Parameters) -> Guarantee:
        """Refuse what cannot be certified for this number of records, before any is read."""
        return certify(parameters, private=self.random_state is None, exact_statistic=False)

    def _release(self, moments: Moments, parameters: Parameters, entropy: Entropy) -> Self:
        if isinstance(parameters, CalibratedParameters):
            self.plan_ = self._plan(moments.n_records, moments.n_features)
        self.parameters_ = parameters
        return self._store(release_multiscale(moments, parameters, entropy))
