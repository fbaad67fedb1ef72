"""Public parameters of CoinPress: the noise of each step, and the grids of its integers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from hushcov._arrays import LARGEST_EXACT_FLOAT, FloatArray, IntArray
from hushcov._validation import check_integer, check_real, shown
from hushcov.exceptions import CapacityError, ParameterError, PrivacyConditionError
from hushcov.inputs import ReleaseInputs
from hushcov.kernel.accounting import WITHIN, Budget
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.noise import LARGEST_SIGMA
from hushcov.kernel.queries import Gram, noise_sigmas, squared_sensitivity
from hushcov.kernel.session import Session
from hushcov.kernel.views import multiplied
from hushcov.release import Release
from hushcov_lab.peers.plan import Peer, PeerParameters, allowed_for

NAME = "coinpress"
SMALLEST_EIGENVALUE = 0.1  # of a correlation matrix, where nothing is declared
MOST_STEPS = 20

_LAST_SHARE = 0.75  # of the budget; the steps before share the rest equally
_TAIL = math.log(10)  # one transformed record in ten is longer than the norm bound
# Coordinates are clipped at this many times the norm bound, so that the direction of a record that
# is too long is kept, unless it is far too long.
ROOM = 4
REACH = 6.0  # deviations of a feature with the largest variance that bounds allow
_LARGEST_NORM_BOUND = 2**15
_LARGEST_RECORD_HALF_WIDTH = 2**20
_SMALLEST_RECORD_HALF_WIDTH = 2**10
_EXTREME_EIGENVALUE = 1e9
# Steps of the fixed-point matrix per feature, in units of its smallest eigenvalue: rounding moves
# no eigenvalue by more than 1/32 of the smallest.
_MATRIX_STEPS = 16
OUTPUT_BITS = 48
_FAR = 16  # deviations of noise that the released integers have room for


@dataclass(frozen=True)
class CoinPressParameters(PeerParameters):
    """Everything about a release that is public, and what follows from it.

    Eigenvalues are in units of the squared scales. `norm_bound` and the sigmas are integers, in
    steps and squared steps of the grid of transformed records. `record_half_width` and
    `matrix_half_width` are the largest integers in a rounded record and in a rounded matrix.
    """

    eigenvalue_bounds: tuple[float, float]
    norm_bound: int
    record_half_width: int
    matrix_half_width: int
    sigmas: tuple[int, ...]  # of the noise off the diagonal, one for each step
    diagonal_sigmas: tuple[int, ...]

    def __post_init__(self) -> None:
        cure = "use coinpress_parameters."
        check_integer("n_steps", len(self.sigmas), at_least=1, at_most=MOST_STEPS, cure=cure)
        for name in ("norm_bound", "record_half_width", "matrix_half_width"):
            check_integer(name, getattr(self, name), at_least=1, cure=cure)
        if len(self.sigmas) != len(self.diagonal_sigmas):
            raise ParameterError(
                f"diagonal_sigmas must be as many as sigmas, {len(self.sigmas)}, got "
                f"{len(self.diagonal_sigmas)}: {cure}"
            )
        most = LARGEST_SIGMA
        for sigma, diagonal_sigma in zip(self.sigmas, self.diagonal_sigmas, strict=True):
            check_integer("sigma", sigma, at_least=1, at_most=most, cure=cure)
            check_integer("diagonal_sigma", diagonal_sigma, at_least=sigma, at_most=most, cure=cure)

    @property
    def n_steps(self) -> int:
        """Number of passes over the records, each with its own noise."""
        return len(self.sigmas)

    @property
    def row_norm(self) -> float:
        """The bound on the norm of a transformed record."""
        return row_norm(self.inputs.n_features)

    @property
    def step(self) -> float:
        """Distance between neighbouring points of the grid of transformed records."""
        return self.row_norm / self.norm_bound

    @property
    def noise_sds(self) -> tuple[float, ...]:
        """Deviation of the noise off the diagonal in each step, for transformed records."""
        return tuple(sigma * self.step**2 / self.inputs.n_records for sigma in self.sigmas)

    @property
    def slack(self) -> float:
        """Return the constant added to every eigenvalue before a step's matrix is inverted."""
        ratio = self.inputs.n_features / self.inputs.n_records
        return (2 * math.sqrt(ratio) + ratio) / 2

    @property
    def matrix_step(self) -> float:
        """The value of one unit of the integer matrices."""
        return 1 / (math.sqrt(self.eigenvalue_bounds[0]) * self.matrix_half_width)

    @property
    def unit(self) -> float:
        """The public value of one released integer, in units of the squared scale."""
        n, d = self.inputs.n_records, self.inputs.n_features
        noise = _FAR * d * max(self.diagonal_sigmas) * self.step**2 / n
        largest = 1.1 * self.eigenvalue_bounds[1] * (self.row_norm**2 + noise)
        return largest * 2.0**-OUTPUT_BITS

    @property
    def mus(self) -> tuple[float, ...]:
        """The l2 sensitivity of each step's upper triangle over its noise, rounded up."""
        d, B = self.inputs.n_features, self.norm_bound
        # proof: step 2
        squares = (
            squared_sensitivity(d, ROOM * B, B, sigma, diagonal_sigma, self.inputs.neighbours)
            for sigma, diagonal_sigma in zip(self.sigmas, self.diagonal_sigmas, strict=True)
        )
        return tuple(math.sqrt(float(square)) * (1 + 2.0**-50) for square in squares)

    def budget(self, *, private: bool = True) -> Budget:
        """Certify the whole budget, of which each step is spent before its noise is drawn.

        Privacy
        -------
        Neighbours: those of the inputs; no precondition. The release is post-processing of one
        Gaussian mechanism for each step, whose noise is drawn exactly; `docs/proofs/coinpress.md`.
        """
        return self.inputs.budget(private=private)  # proof: step 4

    def to_dict(self) -> dict[str, object]:
        """Return inputs and parameters as plain, JSON-ready data."""
        names = ("n_steps", "row_norm", "norm_bound", "record_half_width")
        lists = ("eigenvalue_bounds", "sigmas", "diagonal_sigmas", "mus", "noise_sds")
        return {
            "inputs": self.inputs.to_dict(),
            **{name: getattr(self, name) for name in (*names, "matrix_half_width")},
            **{name: list(getattr(self, name)) for name in lists},
        }


def row_norm(n_features: int) -> float:
    """Return the published bound on the norm of records of covariance at most the identity."""
    d = n_features
    return math.sqrt(d + 2 * math.sqrt(d * _TAIL) + 2 * _TAIL)


def budget_shares(n_steps: int) -> tuple[float, ...]:
    """Return the published shares of the budget in zCDP: three quarters for the last step."""
    if n_steps == 1:
        return (1.0,)
    return (*[(1 - _LAST_SHARE) / (n_steps - 1)] * (n_steps - 1), _LAST_SHARE)


def coinpress_parameters(
    inputs: ReleaseInputs,
    *,
    mu: float | None = None,
    n_steps: int = 3,
    eigenvalue_bounds: Any = None,
) -> CoinPressParameters:
    """Return the noise of every step that the budget allows, and the grids.

    Parameters
    ----------
    inputs : ReleaseInputs
        Public inputs.
    mu : float, optional
        What may be spent; if left out, what steps before are expected to leave of the budget.
    n_steps : int
        Number of steps.
    eigenvalue_bounds : pair of floats, optional
        Public bounds on the eigenvalues of the covariance, in units of the squared scales. If
        left out they are those of a correlation matrix: from 0.1 to `row_sparsity`, which no
        eigenvalue exceeds by Gershgorin's theorem.

    Privacy
    -------
    Neighbours: those of the inputs; no precondition. Nothing here depends on records. The steps
    of the answer cost at most `mu` together; `docs/proofs/coinpress.md`, step 4.
    """
    cure = "more steps bear wider eigenvalue_bounds; 3 is usual."
    n_steps = check_integer("n_steps", n_steps, at_least=1, at_most=MOST_STEPS, cure=cure)
    bounds = _check_bounds(eigenvalue_bounds, inputs)
    mu = (inputs.largest_mu() if mu is None else mu) * WITHIN  # proof: step 4
    mus = [mu * math.sqrt(share) for share in budget_shares(n_steps)]
    norm_bound = _norm_bound(inputs, min(mus))
    record_half_width, matrix_half_width = _fixed_point(inputs.n_features, bounds)
    d, neighbours = inputs.n_features, inputs.neighbours
    sigmas = [noise_sigmas(d, ROOM * norm_bound, norm_bound, mu_t, neighbours) for mu_t in mus]
    return CoinPressParameters(
        inputs, bounds, norm_bound, record_half_width, matrix_half_width, *zip(*sigmas, strict=True)
    )


def _check_bounds(given: Any, inputs: ReleaseInputs) -> tuple[float, float]:
    if given is None:
        return SMALLEST_EIGENVALUE, float(inputs.row_sparsity)
    # An iterator would be empty at the next fit, and the others have no order or no numbers.
    ends: Any = None if isinstance(given, Iterator | Mapping | Set | str | bytes) else given
    try:
        first, second = ends
    except Exception:  # an object's own iteration may raise anything
        raise ParameterError(
            "eigenvalue_bounds must be None or two numbers, the smallest and the largest "
            f"eigenvalue, got {shown(given)}: they are public bounds on the covariance "
            "in units of the scales, and None takes those of a correlation matrix."
        ) from None
    most = _EXTREME_EIGENVALUE
    cure = "bounds are public and in units of the squared scales: rescale the features."
    low = check_real("eigenvalue_bounds[0]", first, above=1 / most, at_most=most, cure=cure)
    high = check_real("eigenvalue_bounds[1]", second, above=0, at_most=most, cure=cure)
    if high < low:
        raise ParameterError(
            f"eigenvalue_bounds must have the smaller one first, got ({low!r}, {high!r}): "
            "swap them."
        )
    return low, high


def _norm_bound(inputs: ReleaseInputs, mu: float) -> int:
    """Return the norm bound on the finest grid whose sums, squared norms and noise are exact."""
    finest = min(
        _LARGEST_NORM_BOUND,
        math.isqrt(2**62 // allowed_for(inputs)) // ROOM,
        math.isqrt((LARGEST_EXACT_FLOAT - 1) // inputs.n_features) // ROOM,
        math.isqrt(math.floor(LARGEST_SIGMA / 4 * min(1.0, mu))),
    )
    if finest < 1:
        raise CapacityError(
            f"{inputs.n_records:,} records of {inputs.n_features:,} features at epsilon "
            f"{inputs.epsilon:g} and delta {inputs.delta:g} need larger sums or more noise than "
            "integers hold: use fewer records or features, or a larger budget."
        )
    return finest


def _fixed_point(n_features: int, bounds: tuple[float, float]) -> tuple[int, int]:
    """The largest integers of records and of matrices: as many bits as exact products leave."""
    low, high = bounds
    needed = math.ceil(_MATRIX_STEPS * n_features * math.sqrt(high / low)) + 1
    room = (LARGEST_EXACT_FLOAT - 1) // n_features
    record_half_width = min(_LARGEST_RECORD_HALF_WIDTH, room // needed)
    if record_half_width < _SMALLEST_RECORD_HALF_WIDTH:
        raise CapacityError(
            f"eigenvalue_bounds must be closer together for {n_features:,} features, got "
            f"({low:g}, {high:g}): products are not exact otherwise. Narrow them or use fewer "
            "features."
        )
    # One less, because an entry may be rounded up past the end.
    return record_half_width, room // record_half_width - 1


#: The noisy Gram matrix of the records times an integer matrix, in one step.
NoisyGramOf = Callable[[FloatArray, int], IntArray]


def release_coinpress(
    session: Session, feature_scale: FloatArray, parameters: CoinPressParameters
) -> Release:
    """Pass over the records once for each step, and return the last step's covariance.

    Privacy
    -------
    See `CoinPressParameters.budget`, which is that of the session. `feature_scale` must be
    public, or released by steps on the same budget.
    """
    parameters.inputs.check_size(session)
    if math.hypot(*parameters.mus) > session.mu_left:
        raise PrivacyConditionError(
            "the budget of a release has no room left for all steps: this is a mistake in the "
            "mechanism, and nothing was released."
        )
    grids = grids_of(feature_scale, parameters)

    def noisy_gram_of(matrix: FloatArray, step: int) -> IntArray:
        return measure_step(session, grids, matrix, step, parameters)

    transcript = run_steps(noisy_gram_of, parameters)
    scale = np.array(feature_scale, dtype=np.float64)
    return parameters.document(NAME, transcript.integers, scale, session)


def grids_of(
    feature_scale: FloatArray, parameters: CoinPressParameters
) -> tuple[FeatureGrid, FeatureGrid]:
    """Return the grids of the records, and of the records times a matrix."""
    d, bound = parameters.inputs.n_features, parameters.norm_bound
    radius = REACH * math.sqrt(parameters.eigenvalue_bounds[1])
    grid = FeatureGrid(feature_scale, radius, parameters.record_half_width)
    scale = np.full(d, 1 / (grid.step * parameters.matrix_step))
    return grid, FeatureGrid(scale, ROOM * parameters.row_norm, ROOM * bound)


def measure_step(
    session: Session,
    grids: tuple[FeatureGrid, FeatureGrid],
    matrix: FloatArray,
    step: int,
    parameters: CoinPressParameters,
) -> IntArray:
    """Return the noisy matrix of one step, whose public integer matrix is given.

    Privacy
    -------
    One Gaussian event, which the session charges before it draws.
    """
    transformed = session.view(multiplied(grids[0], matrix))  # proof: step 1
    noise = parameters.sigmas[step], parameters.diagonal_sigmas[step]
    name = f"the matrix, step {step + 1} of {parameters.n_steps}"
    query = Gram(grids[1], parameters.norm_bound)
    measured = transformed.measure(query, parameters.mus[step], name, deviations=noise)
    noisy: IntArray = measured.integers  # proof: step 3
    return noisy


@dataclass(frozen=True, eq=False)
class CoinPressTranscript:
    """All that the guarantee covers: each step's noisy Gram matrix, and the answer from them."""

    noisy_grams: tuple[IntArray, ...]
    integers: IntArray


def run_steps(noisy_gram_of: NoisyGramOf, parameters: CoinPressParameters) -> CoinPressTranscript:
    """Measure every step and compute the rest, which depends on records no further."""
    d, high = parameters.inputs.n_features, parameters.eigenvalue_bounds[1]
    matrix = _rounded(np.eye(d) / math.sqrt(high), parameters)
    grams: list[IntArray] = []
    for step in range(parameters.n_steps):
        grams.append(noisy_gram_of(matrix, step))
        inverse = np.asarray(np.linalg.inv(matrix * parameters.matrix_step), dtype=np.float64)
        # The noisy covariance is root root', in units of the scales.
        moments = grams[-1] * (parameters.step**2 / parameters.inputs.n_records)
        values, vectors = np.linalg.eigh(moments)
        root = inverse @ (vectors * np.sqrt(np.maximum(values, 0.0)))
        if len(grams) < parameters.n_steps:
            matrix = _next_matrix(root, inverse, parameters)  # proof: step 5
    estimate = np.rint(root @ root.T / parameters.unit)
    largest = 2.0 ** (OUTPUT_BITS + 1)
    return CoinPressTranscript(tuple(grams), np.clip(estimate, -largest, largest).astype(np.int64))


def _next_matrix(
    root: FloatArray, inverse: FloatArray, parameters: CoinPressParameters
) -> FloatArray:
    """Return the matrix that makes the identity of an upper estimate of the covariance.

    Any M^(-1/2) times a rotation would do. The symmetric one needs no transposes, and its
    eigenvalues are kept within what the bounds allow for the covariance.
    """
    upper = root @ root.T + parameters.slack * (inverse @ inverse.T)
    values, vectors = np.linalg.eigh(upper)
    half = vectors * np.clip(values, *parameters.eigenvalue_bounds) ** -0.25
    return _rounded(half @ half.T, parameters)  # times its own transpose: exactly symmetric


def _rounded(matrix: FloatArray, parameters: CoinPressParameters) -> FloatArray:
    """In units of `matrix_step`, integers."""
    return np.rint(matrix / parameters.matrix_step)


class CoinPress(Peer):
    """A few noisy steps, each on records rescaled by what the last one found."""

    name = NAME
    title = "CoinPress"
    estimator = ("CoinPressCovariance", {})
    parameters_of = coinpress_parameters
    release_by = release_coinpress


COINPRESS = CoinPress()
