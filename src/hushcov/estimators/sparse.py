"""`PrivateSparseCovariance`: the estimator to start with, whatever the covariance is like."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from hushcov._arrays import FloatArray
from hushcov._validation import check_choice
from hushcov.estimators.options import CandidateOptions, PurposeOptions, with_options
from hushcov.estimators.scaled import ApproximateCovariance
from hushcov.exceptions import ParameterError
from hushcov.fit import candidate_mechanisms, check_installed, default_mechanism, mechanisms
from hushcov.fit.registry import named
from hushcov.inputs import ReleaseInputs
from hushcov.options import read_bandwidth
from hushcov.release import Structure
from hushcov.release.estimate import factors_of

if TYPE_CHECKING:
    from hushcov.fit import Comparison, Plan, Request
    from hushcov.fit.mechanism import MechanismPlan
    from hushcov.release.findings import ErrorEstimate


# What to do about a mechanism that there is not.
_CURE = "leave it out, and 'auto' chooses."


class Factors(NamedTuple):
    """Factors of a covariance: loadings @ diag(variances) @ loadings.T + remainder.

    `loadings` has a column for each factor; `remainder` is sparse.
    """

    loadings: FloatArray
    variances: FloatArray
    remainder: Any


@with_options
class PrivateSparseCovariance(CandidateOptions, PurposeOptions, ApproximateCovariance):
    """Covariance of sensitive records, (epsilon, delta)-differentially private.

    Nothing need be known: means, scales and norms are found privately, and so is whether few pairs
    matter, few factors, or neither. The budget goes where that helps most (`docs/mechanisms.md`).

    Parameters
    ----------
    row_sparsity : int, optional
        About how many entries of a row are not zero, the diagonal included, where that is known.
        It is advice: more pairs are found if there are more, fewer if there are fewer.
    mechanism : str, default="auto"
        The name of any mechanism (`hushcov.fit.mechanisms()`), at its usual options. "auto"
        runs the adaptive one, and with `bandwidth` or `candidate_pairs` the one for known
        candidates. One without a delta (eigen-sampling) needs `assume_centered=True` and a
        `feature_scale`.

    Attributes
    ----------
    mechanism_ : str
        The mechanism that ran.
    structure_ : str
        What the covariance was found to be (sparse, factors or dense), and why.
    error_estimate_ : ErrorEstimate
        About the error of the correlations over their norm, with an interval that is to hold nine
        times out of ten: noise, what was cut off large values, and what may have been missed. From
        released numbers.
    factors_ : Factors
        Loadings, variances and a sparse remainder; no factor where none was found.
    components_ : ndarray of shape (n_factors, n_features)
        The factors as rows.
    plan_ : Comparison
        Predicted errors of all mechanisms, best first.
    noise_sd_ : ndarray
        Standard deviation of the privacy noise of each released entry, NaN elsewhere. It and
        intervals need a mechanism with one noise level, which the multiscale one is not.

    Notes
    -----
    Privacy. Neighbours: replace one record; no precondition. Guarantee:
    (epsilon, delta)-differential privacy of `release_`, `feature_scale_` and everything computed
    from them, for every dataset; proof: `docs/proofs/adaptive.md`, with known candidates
    `docs/proofs/candidates.md`.

    Examples
    --------
    >>> from hushcov import PrivateSparseCovariance
    >>> from hushcov.metrics import operator_norm_error
    >>> from hushcov.simulate import gaussian_records, sparse_covariance
    >>> truth = sparse_covariance("block", 50, 5)
    >>> X = gaussian_records(truth, 20_000)
    >>> est = PrivateSparseCovariance(epsilon=1.0, delta=1e-6).fit(X)
    >>> operator_norm_error(est.covariance_, truth) < 0.2
    True
    """

    mechanism: str = "auto"
    sparse_output: Any = "auto"

    def plan(self, n_records: int, n_features: int) -> Comparison:
        """Predicted errors of all mechanisms for this size, from public inputs alone.

        `n_records` counts rows.
        """
        from hushcov.fit import compare

        request = self._request(n_features)
        return compare(request.inputs(n_records, n_features))

    def _request(self, n_features: int) -> Request:
        """Return the public request; the default takes norms and tails, whatever is known."""
        request = super()._request(n_features)
        return replace(request, takes_norms=self.mechanism == "auto" and not self._has_candidates)

    def _chosen_mechanism(self, n_features: int) -> str:
        """Return which mechanism is run for so many features."""
        self._check_mechanism()
        if self.mechanism == "auto":
            return default_mechanism(known=self._has_candidates).name
        if self._has_candidates and self.mechanism not in candidate_mechanisms():
            able = [name for name in candidate_mechanisms() if name in mechanisms()]
            raise ParameterError(
                f"mechanism must be {' or '.join(map(repr, [*able, 'auto']))} with bandwidth or "
                f"candidate_pairs, got {self.mechanism!r}, which looks at all pairs: leave one of "
                "them out."
            )
        if self._has_candidates:
            return self.mechanism
        able = [name for name, each in mechanisms().items() if each.sparse]
        if self._sparse(n_features) and self.mechanism not in able:
            raise ParameterError(
                f"mechanism must be {' or '.join(map(repr, able))} or 'auto' for sparse output, "
                f"got {self.mechanism!r}, which releases every pair: change it, or pass "
                "sparse_output=False."
            )
        return self.mechanism

    def _planned(self, inputs: ReleaseInputs) -> MechanismPlan[Any]:
        sparse = self._sparse(inputs.n_features)
        name = self._chosen_mechanism(inputs.n_features)
        able = inputs.candidates is None and named(name).looks_further
        why = "with sparse output, candidates or a mechanism of another kind"
        self._check_related(able and not sparse, why)
        if self.mechanism != "auto":
            return mechanisms()[name].plan(inputs, sparse=sparse)
        if inputs.candidates is None:
            return default_mechanism().plan(inputs, sparse=sparse)
        from hushcov.fit.candidates import CANDIDATES

        finds_width = read_bandwidth(self.bandwidth)[1]
        return CANDIDATES.plan(inputs, sparse=sparse, adaptive_width=finds_width)

    @property
    def _width(self) -> Any:
        """The largest distance of columns that may covary; the width is found up to it, or it is.

        Only the mechanism for known candidates finds a width.
        """
        width, is_maximum = read_bandwidth(self.bandwidth)
        if is_maximum and self.mechanism != "auto":
            raise ParameterError(
                f"bandwidth must be a number with mechanism={self.mechanism!r}, got "
                f"{self.bandwidth!r}: leave mechanism out to find the width."
            )
        return width

    @property
    def _pure(self) -> bool:
        """Whether what runs has no delta."""
        if isinstance(self.mechanism, str) and self.mechanism == "auto":
            return False
        self._check_mechanism()
        return mechanisms()[self.mechanism].pure

    def _check_mechanism(self) -> None:
        check_installed(self.mechanism)
        check_choice("mechanism", self.mechanism, ("auto", *mechanisms()), _CURE)

    def _keep(self, plan: Plan) -> None:
        self._compared = plan.inputs
        self.mechanism_ = plan.chosen.mechanism.name
        expected = plan.chosen.forecast
        self.detection_limit_ = None if expected is None else expected.detection_limit

    @property
    def plan_(self) -> Comparison:
        """Predicted errors of all mechanisms for the size of the last fit, best first."""
        from hushcov.fit import compare

        check_is_fitted(self, "mechanism_")
        return compare(self._compared)

    @property
    def structure_(self) -> str:
        """Structure that was found, with the reason in a sentence."""
        found = self._structure()
        return f"{found.kind}: {found.why}"

    @property
    def error_estimate_(self) -> ErrorEstimate:
        """The estimated error over the norm of the covariance, with an interval."""
        from hushcov.release.findings import error_estimate

        self._structure()
        found = error_estimate(self.release_)
        assert found is not None
        return found

    @property
    def factors_(self) -> Factors:
        """Loadings and variances of the factors, and the remainder, in the unit of the data.

        Together they are `covariance_`, before it was made positive semi-definite.
        """
        kept = self._structure().kept
        found, scale = factors_of(self.release_), self.feature_scale_
        if found is None:
            none = np.zeros((self.release_.n_features, 0))
            return Factors(none, np.zeros(0), sparse.csr_array(self.covariance_))
        assert scale is not None
        loadings = scale[:, None] * found.loadings
        remainder = kept * found.remainder * np.multiply.outer(scale, scale)
        return Factors(loadings, kept * found.values, sparse.csr_array(remainder))

    @property
    def components_(self) -> FloatArray:
        """The factors as rows: `components_.T @ components_` is their part of the covariance."""
        found = self.factors_
        return np.asarray((found.loadings * np.sqrt(found.variances)).T)

    def _structure(self) -> Structure:
        found = self._released().making.structure
        if found is None:
            raise AttributeError(
                f"the {self.release_.mechanism} mechanism does not look for a structure: use "
                "mechanism='auto' for structure_, error_estimate_, factors_ and components_."
            )
        return found
