"""Release of eigenvectors and eigenvalues: public parameters, noise, and mechanism."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from hushcov._arrays import LARGEST_EXACT_FLOAT, LARGEST_SUM, FloatArray, IntArray
from hushcov._validation import check_choice, check_integer, check_real
from hushcov.exceptions import CapacityError, ParameterError
from hushcov.fit.gaussian.mechanism import balanced_row_norm
from hushcov.fit.mechanism import Prepared
from hushcov.inputs import ReleaseInputs
from hushcov.kernel.accounting import (
    EXACT,
    ONE_REPLACED,
    WITHIN,
    Budget,
    Neighbours,
    smallest_sigma,
)
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.noise import LARGEST_SIGMA
from hushcov.kernel.queries import Gram, NormCounts, noise_sigmas
from hushcov.kernel.session import Session
from hushcov.release import Release
from hushcov_lab.peers.plan import Peer, PeerParameters, PeerPlan, allowed_for
from hushcov_lab.peers.queries import EIGENSOLVER, RoundedEigenvalues, eigenvalue_sensitivity

METHODS = ("gauss", "separate", "adaptive")

# The grid reaches as far as the norm bound, within what a grid allows: coordinates are bounded by
# the norm alone.
_SMALLEST_RADIUS, _LARGEST_RADIUS = 2.0**-16, 2.0**19
# Fine enough for records that are 1/2^10 of the norm bound.
_LARGEST_HALF_WIDTH = 2**19

# Shares of the squared mu. Counts take 4 / n_features of it, within these limits:
# their noise has to be small against that of a matrix, which grows with n_features.
_LEAST_HISTOGRAM_SHARE, _LARGEST_HISTOGRAM_SHARE, _HISTOGRAM_FEATURES = 1 / 64, 1 / 4, 4
EIGENVALUE_SHARE = 1 / 8
# Two shares of mu, each rounded, compose to no more than mu.
_INSIDE = 1 - 2.0**-50


@dataclass(frozen=True)
class SeparateParameters(PeerParameters):
    """Everything about a release that is public before it, and what follows from it.

    `radius` is in units of the features' scales; `half_width` and `norm_bound` are integers in
    steps of the grid. `histogram_sigma` is the noise of the counts of norms, None unless the
    method is "adaptive". What is drawn after the counts costs `release_mu` at most, whichever
    norm bound and method they lead to: the noise follows from it (`matrix_noise`).
    `eigenvalue_share` of its square goes to the eigenvalues with method "separate".
    """

    method: str
    radius: float
    half_width: int
    norm_bound: int
    histogram_sigma: int | None
    release_mu: float
    eigenvalue_share: float = EIGENVALUE_SHARE

    def __post_init__(self) -> None:
        check_choice("method", self.method, METHODS)
        if (self.histogram_sigma is None) == (self.method == "adaptive"):
            raise ParameterError(
                "histogram_sigma must be given exactly with method='adaptive', got "
                f"{self.histogram_sigma!r} with {self.method!r}: use separate_parameters."
            )
        cure = "use separate_parameters."
        check_real("radius", self.radius, above=0, cure=cure)
        check_integer("half_width", self.half_width, at_least=1, cure=cure)
        most = math.isqrt(LARGEST_SUM // allowed_for(self.inputs))
        check_integer("norm_bound", self.norm_bound, at_least=1, at_most=most, cure=cure)
        check_real("release_mu", self.release_mu, above=0, cure=cure)
        if self.histogram_sigma is not None:
            most = LARGEST_SIGMA
            check_integer(
                "histogram_sigma", self.histogram_sigma, at_least=1, at_most=most, cure=cure
            )

    @property
    def row_norm(self) -> float:
        """The norm bound in units of the scales."""
        return self.norm_bound * self.step

    def budget(self, *, private: bool = True) -> Budget:
        """Certify the whole budget, of which counts and matrix are spent before they are drawn.

        Privacy
        -------
        Neighbours: those of the inputs; no precondition. The release is post-processing of Gaussian
        mechanisms, whose noise is drawn exactly; `docs/proofs/separate.md`. The error bound of the
        eigenvalue solver is trusted, and the guarantee says so.
        """
        trusted = () if self.method == "gauss" else (_TRUSTED,)
        return self.inputs.budget(checked=(EXACT, *trusted), private=private)  # proof: step 9

    @property
    def mus(self) -> tuple[float, ...]:
        """Privacy parameters of the counts, if there are any, and of the matrix."""
        if self.histogram_sigma is None:
            return (self.release_mu,)
        counts = histogram_mu(self.histogram_sigma, self.inputs.neighbours)
        return (counts, self.release_mu)

    def to_dict(self) -> dict[str, object]:
        """Return inputs and parameters as plain, JSON-ready data."""
        return super().to_dict() | {"row_norm": self.row_norm}


@dataclass(frozen=True)
class MatrixNoise:
    """Standard deviations of what is drawn at one norm bound, in integers.

    `sigma` and `diagonal_sigma` are those of the Gram matrix, off and on its diagonal.
    `eigenvalue_sigma` is None where no eigenvalues are released.
    """

    sigma: int
    diagonal_sigma: int
    eigenvalue_sigma: int | None


def histogram_mu(sigma: int, neighbours: Neighbours = ONE_REPLACED) -> float:
    """Return the l2 sensitivity of counts, sqrt(2) or 1, over their noise, rounded up."""
    square = neighbours.moved(replaced=2, removed=1)  # proof: step 5
    return math.sqrt(square) / sigma * (1 + 2.0**-50)


def matrix_noise(parameters: SeparateParameters, method: str, norm_bound: int) -> MatrixNoise:
    """Return the noise for one norm bound, such that everything drawn costs `release_mu` at most.

    Privacy
    -------
    Neighbours: those of the inputs; no precondition. A Gram matrix of integer records of norm at
    most `norm_bound`, and for "separate" its eigenvalues, with this noise are one Gaussian
    mechanism of at most `release_mu`; `docs/proofs/separate.md`, step 6.
    """
    check_choice("method", method, METHODS[:2])
    cure = "choose at most the declared norm bound."
    check_integer("norm_bound", norm_bound, at_least=1, at_most=parameters.norm_bound, cure=cure)
    inputs, mu = parameters.inputs, parameters.release_mu
    eigenvalue_sigma = None
    if method == "separate":
        size = inputs.n_records, inputs.n_features
        sensitivity = eigenvalue_sensitivity(*size, norm_bound, inputs.neighbours)
        eigenvalue_mu = mu * math.sqrt(parameters.eigenvalue_share) * _INSIDE
        eigenvalue_sigma = smallest_sigma(sensitivity**2, eigenvalue_mu)  # proof: step 6
        mu *= math.sqrt(1 - parameters.eigenvalue_share) * _INSIDE
    # proof: step 2
    sigmas = noise_sigmas(
        inputs.n_features, parameters.half_width, norm_bound, mu, inputs.neighbours
    )
    return MatrixNoise(*sigmas, eigenvalue_sigma)


def separate_parameters(
    inputs: ReleaseInputs,
    *,
    mu: float | None = None,
    method: str = "adaptive",
    row_norm: float | None = None,
    eigenvalue_share: float = EIGENVALUE_SHARE,
) -> SeparateParameters:
    """Return the least noise that the budget allows, and where to bound the records.

    Parameters
    ----------
    inputs : ReleaseInputs
        Public inputs.
    mu : float, optional
        What may be spent; if left out, what steps before are expected to leave of the budget.
    method : {"gauss", "separate", "adaptive"}
        A noisy Gram matrix; its eigenvectors with eigenvalues released apart; or whichever is
        expected to be better, at a norm bound chosen from noisy counts of norms.
    row_norm : float, optional
        Bound on the norm of a record in units of the scales. If left out it is chosen from the
        public inputs as in the Gaussian mechanism.
    eigenvalue_share : float
        Share of the squared mu for the eigenvalues, with method "separate".

    Privacy
    -------
    Neighbours: those of the inputs; no precondition. Nothing here depends on records. The events
    of the answer compose to at most (epsilon, delta); `docs/proofs/separate.md`, step 9.
    """
    check_choice("method", method, METHODS)
    mu = (inputs.largest_mu() if mu is None else mu) * WITHIN  # proof: step 9
    histogram_sigma = None
    if method == "adaptive":
        wanted = _HISTOGRAM_FEATURES / inputs.n_features
        share = min(_LARGEST_HISTOGRAM_SHARE, max(_LEAST_HISTOGRAM_SHARE, wanted))
        square = inputs.neighbours.moved(replaced=2, removed=1)
        histogram_sigma = smallest_sigma(square, mu * math.sqrt(share))
        counts = histogram_mu(histogram_sigma, inputs.neighbours)
        mu = math.sqrt(mu**2 - counts**2) * WITHIN  # proof: step 9
    norm = balanced_row_norm(inputs, mu) if row_norm is None else row_norm
    cure = "it is a public bound on the norm of every record, in units of the scales."
    norm = min(check_real("row_norm", norm, above=0, cure=cure), _LARGEST_RADIUS)
    radius = max(norm, _SMALLEST_RADIUS)
    half_width = _half_width(
        inputs, radius, norm, _largest_norm_bound(inputs, mu, eigenvalue_share)
    )
    norm_bound = max(1, math.floor(norm * half_width / radius))
    return SeparateParameters(
        inputs, method, radius, half_width, norm_bound, histogram_sigma, mu, eigenvalue_share
    )


def _largest_norm_bound(inputs: ReleaseInputs, mu: float, share: float) -> float:
    """The norm bound at which noise is as large as is drawn, or sums as large as int64 holds."""
    n, d = allowed_for(inputs), inputs.n_features
    matrix = (LARGEST_SIGMA - 3) * mu * math.sqrt(1 - share) / math.sqrt(2)
    rounding = math.sqrt(d) + 4  # as in `eigenvalue_sensitivity`, from above
    growth = math.sqrt(2) + 2 * math.sqrt(d) * EIGENSOLVER * d * n / LARGEST_EXACT_FLOAT
    eigenvalues = ((LARGEST_SIGMA - 1) * mu * math.sqrt(share) - rounding) / growth
    square = min(matrix, eigenvalues) * (1 - 2.0**-30)
    return min(math.sqrt(max(square, 0.0)), float(math.isqrt(LARGEST_SUM // n)))


def _half_width(inputs: ReleaseInputs, radius: float, norm: float, largest_bound: float) -> int:
    """Return the finest grid on which sums, squared norms and noise are within what is exact."""
    finest = min(
        _LARGEST_HALF_WIDTH,
        math.isqrt(LARGEST_SUM // allowed_for(inputs)),
        math.isqrt((LARGEST_EXACT_FLOAT - 1) // inputs.n_features),
        # Tiny norms: the quotient may be infinite, and no finer grid is needed then.
        math.floor(min(2.0**62, radius / norm * largest_bound)),
    )
    if finest < 1 or largest_bound < 1:
        raise CapacityError(
            f"{inputs.n_records:,} records of {inputs.n_features:,} features at epsilon "
            f"{inputs.epsilon:g} and delta {inputs.delta:g} need more noise than integers hold: "
            "use fewer features or a larger budget."
        )
    return finest


_OCTAVES = 16  # of norms, below the norm bound
_BINS_PER_OCTAVE = 4
# Records of one length, such as normalised ones, differ by the rounding of their coordinates. Edges
# lie this much above halves and quarters of the norm bound, so that they are in one bin.
_MARGIN_BITS = 10
# The error that noisy eigenvectors cause, over sqrt(trace * norm of the noise): what the published
# code takes; its proof has 2.
_EIGENVECTOR_ERROR = 1 / 3
# Measured: eigenvectors cause no more than this share of the noise itself, and putting noisy
# eigenvalues in order takes off half of their error or more.
_LARGEST_EIGENVECTOR_ERROR = 0.8
_EIGENVALUE_ERROR = 0.5


@dataclass(frozen=True)
class SeparateChoice:
    """A norm bound, in steps of the grid, and the method to use with it."""

    method: str
    norm_bound: int


def squared_edges(norm_bound: int) -> tuple[int, ...]:
    """Edges between the bins of squared norms, in increasing order, all below norm_bound^2.

    They are norm_bound^2 (1 + 2^-10) 2^(-i/2) rounded down, for i = 1, 2, ..: exact integers.
    """
    above = norm_bound**2 * (2**_MARGIN_BITS + 1)
    n_edges = _OCTAVES * _BINS_PER_OCTAVE
    edges = {math.isqrt(above**2 >> 2 * _MARGIN_BITS + i) for i in range(1, n_edges + 1)}
    return tuple(sorted(edge for edge in edges if 0 < edge < norm_bound**2))


@dataclass(frozen=True, eq=False)
class Prediction:
    """Predicted Frobenius errors at every norm bound there is to choose, in released integers.

    `bias` is what a bound takes off longer records, and `gauss` the noise of the Gram matrix of
    "gauss". `vectors` and `values` are the errors due to noisy eigenvectors and eigenvalues of
    "separate", and `matrix` is the noise of the Gram matrix that its eigenvectors come from.
    """

    bias: FloatArray
    gauss: FloatArray
    matrix: FloatArray
    vectors: FloatArray
    values: FloatArray


def choose(parameters: SeparateParameters, noisy_counts: IntArray) -> SeparateChoice:
    """Return the norm bound with the least predicted error, and the better method at that bound.

    Privacy
    -------
    Post-processing of noisy counts; `docs/proofs/separate.md`, step 7.
    """
    found = predict(parameters, noisy_counts)
    # Cautiously: too large a bound costs more than too small a one, and noise may hide the trace.
    total = found.bias + np.minimum(found.gauss, found.vectors + found.values)
    best = int(np.argmin(total))
    separate = math.hypot(
        min(found.vectors[best], _LARGEST_EIGENVECTOR_ERROR * found.matrix[best]),
        _EIGENVALUE_ERROR * found.values[best],
    )
    method = "separate" if separate < found.gauss[best] else "gauss"
    squares = (*squared_edges(parameters.norm_bound), parameters.norm_bound**2)
    return SeparateChoice(method, math.isqrt(squares[best]))


def predict(parameters: SeparateParameters, noisy_counts: IntArray) -> Prediction:
    """Read bias and trace off the counts, and predict errors; noise grows with the squared bound.

    Privacy
    -------
    Post-processing of noisy counts; `docs/proofs/separate.md`, step 7.
    """
    d, bound = parameters.inputs.n_features, parameters.norm_bound
    edges = np.array([0, *squared_edges(bound), bound**2], dtype=np.float64)
    squares, typical = edges[1:], (edges[1:] + edges[:-1]) / 2
    counts = noisy_counts.astype(np.float64)
    bias = np.maximum(typical - squares[:, None], 0.0) @ counts
    trace = np.minimum(typical, squares[:, None]) @ counts
    shrunk = squares / bound**2
    plain, apart = (matrix_noise(parameters, method, bound) for method in ("gauss", "separate"))
    assert apart.eigenvalue_sigma is not None
    norm_of_noise = 2 * math.sqrt(d) * apart.sigma * shrunk
    return Prediction(
        bias=np.maximum(bias, 0.0),
        gauss=_frobenius(plain, d) * shrunk,
        matrix=_frobenius(apart, d) * shrunk,
        vectors=_EIGENVECTOR_ERROR * np.sqrt(np.maximum(trace, 0.0) * norm_of_noise),
        values=math.sqrt(d) * apart.eigenvalue_sigma * shrunk,
    )


def _frobenius(noise: MatrixNoise, d: int) -> float:
    """Return the root of the expected squared Frobenius norm of the noise of a Gram matrix."""
    return math.sqrt(d * (d - 1) * noise.sigma**2 + d * noise.diagonal_sigma**2)


# Release a Gram matrix, or its eigenvectors and eigenvalues apart.


_TRUSTED = (
    "assumed, not checked: the eigenvalue solver errs by less than 15 * n_features * 2**-53 times "
    "the norm of the matrix"
)

NAME = "separate"
_ROOM_TO_CHOOSE = 2.0  # times the released bound on norms, below which "adaptive" finds its own


@dataclass(frozen=True, eq=False)
class SeparateTranscript:
    """The noisy integers that a release is computed from, and the choice that counts led to.

    `eigenvalues` are in increasing order but for the noise.
    """

    choice: SeparateChoice
    gram: IntArray
    eigenvalues: IntArray | None
    counts: IntArray | None = None


def release_separate(
    session: Session, feature_scale: FloatArray, parameters: SeparateParameters
) -> Release:
    """Choose where to bound the records if that is asked for, and release their matrix.

    Privacy
    -------
    See `SeparateParameters.budget`, which is that of the session. `feature_scale` must be
    public, or released by steps on the same budget.
    """
    parameters.inputs.check_size(session)
    grid = FeatureGrid(feature_scale, parameters.radius, parameters.half_width)
    transcript = draw_transcript(session, grid, parameters)
    choice, counts = transcript.choice, transcript.counts
    known_after: dict[str, object] = {
        "chosen_method": choice.method,
        "chosen_row_norm": choice.norm_bound * parameters.step,
        "noisy_counts": None if counts is None else counts.tolist(),
        **asdict(matrix_noise(parameters, choice.method, choice.norm_bound)),
    }
    integers = recombine(transcript, parameters)
    return parameters.document(NAME, integers, grid.feature_scale, session, known_after)


def draw_transcript(
    session: Session, grid: FeatureGrid, parameters: SeparateParameters
) -> SeparateTranscript:
    """Count norms if that is asked for, and measure the matrix that the counts lead to.

    Privacy
    -------
    Neighbours: those of the inputs. The session charges counts and matrix before it reads.
    """
    choice, noisy_counts = SeparateChoice(parameters.method, parameters.norm_bound), None
    sigma = parameters.histogram_sigma
    if sigma is not None:
        # proof: step 6
        counting = session.reserve(parameters.mus[0], sigma, "counts of the norms of records")
    name = "the matrix, with its eigenvalues where they are released apart"
    matrix = session.reserve(parameters.release_mu, name=name)  # proof: step 6
    if sigma is not None:
        counts = NormCounts(grid, squared_edges(parameters.norm_bound))
        noisy_counts = counting.measure(counts).integers  # proof: step 5
        choice = choose(parameters, noisy_counts)  # proof: step 7
    noise = matrix_noise(parameters, choice.method, choice.norm_bound)
    gram, eigenvalues = Gram(grid, choice.norm_bound), None  # proof: step 1
    exact = RoundedEigenvalues(gram, parameters.inputs.n_records)  # proof: step 4
    if noise.eigenvalue_sigma is not None:
        session.read(exact)  # the matrix as well, so that records are read once
    noisy_gram = matrix.measure(gram, (noise.sigma, noise.diagonal_sigma)).integers
    if noise.eigenvalue_sigma is not None:
        # proof: step 6
        eigenvalues = matrix.measure(exact, (noise.eigenvalue_sigma,)).integers
    return SeparateTranscript(choice, noisy_gram, eigenvalues, noisy_counts)


def recombine(transcript: SeparateTranscript, parameters: SeparateParameters) -> IntArray:
    """Join the eigenvectors of the noisy Gram matrix and the released eigenvalues.

    Without released eigenvalues they are those of the noisy Gram matrix. They are brought into
    the range that those of Gram matrices have.

    Privacy
    -------
    Post-processing of the transcript; `docs/proofs/separate.md`, step 8.
    """
    # proof: step 8
    values, vectors = np.linalg.eigh(transcript.gram.astype(np.float64))
    if transcript.eigenvalues is not None:
        # The nearest increasing sequence: noise that breaks the order averages out.
        from scipy import optimize

        noisy = transcript.eigenvalues.astype(np.float64)
        values = optimize.isotonic_regression(noisy).x
    largest = parameters.inputs.n_records * transcript.choice.norm_bound**2
    root = vectors * np.sqrt(np.clip(values, 0.0, float(largest)))
    # One matrix times its own transpose: exactly symmetric.
    return np.asarray(np.rint(root @ root.T), dtype=np.int64)


class Separate(Peer):
    """Eigenvectors and eigenvalues apart, or the matrix as a whole, whichever is better."""

    name = NAME
    title = "AdaptiveCov (Dong et al.)"
    estimator = ("SeparateCovariance", {})
    parameters_of = separate_parameters
    release_by = release_separate

    def renew(self, plan: PeerPlan, prepared: Prepared) -> SeparateParameters:
        """See `Peer.renew`; the bound follows the released norms, unless it is one's own."""
        planned, row_norm = plan.parameters, plan.options.get("row_norm")
        if row_norm is None and prepared.norm is not None:
            room = _ROOM_TO_CHOOSE if planned.method == "adaptive" else 1.0
            row_norm = room * prepared.norm.norm
        known: Any = {
            "mu": prepared.session.mu_left,
            "method": planned.method,
            "row_norm": row_norm,
        }
        return separate_parameters(planned.inputs, **known)


SEPARATE = Separate()
