"""Noisy eigenvalues and sampled eigenvectors: a covariance under pure differential privacy.

Amin, Dick, Kulesza, Munoz Medina and Vassilvitskii (NeurIPS 2019). Every record is clipped and
rounded to integers and its norm is bounded. The eigenvalues of the exact Gram matrix get Laplace
noise. Then one direction after the other is drawn on the unit sphere of what is left of the space,
with a density that grows with the variance along it. The release is put together from both.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov._validation import check_choice, check_integer, check_real
from hushcov.accounting import EXACT, ONE_REPLACED, WITHIN, Budget, Neighbours, Pure
from hushcov.exceptions import CapacityError, ParameterError
from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.gaussian import LARGEST_HALF_WIDTH, RADIUS, balanced_row_norm
from hushcov.mechanisms.room import Mechanism, MechanismPlan
from hushcov.noise import Entropy, check_entropy, discrete_laplace
from hushcov.peers.bingham import MOST_CONCENTRATED, Bingham
from hushcov.release import Making, Release, parts_of
from hushcov.steps import Prepared
from hushcov.sums.gram import row_bounded_gram
from hushcov.sums.grids import FeatureGrid
from hushcov.sums.protocol import Progress, Records

NAME = "eigen-sampling"
ALLOCATIONS = ("adaptive", "uniform")

_LARGEST_SUM = 2**52  # of squared norms: doubles hold the Gram matrix, and projections of it
_LARGEST_GRAM = 2**62  # of squared half widths, where records are summed in int64
_MOST_FEATURES = 1000
_UNIT = Fraction(1, 2**53)
#: Whole parts into which the budget of the directions is divided.
SHARES = 2**40
_TRUSTED = (
    "trusted: computed eigenvalues are within 16 d 2^-53 of the norm of the matrix, exp and log "
    "within 32 units in the last place"
)
_FAILURE = 0.05  # how often noise may pass what allocation adds to every eigenvalue


@dataclass(frozen=True)
class EigenSamplingParameters:
    """Everything about a release that is public, and what follows from it.

    Radius and step are in units of the features' scales; the other numbers are in steps and
    squared steps of the grid. `direction_rate` is the sum of the rates of all directions.
    """

    inputs: ReleaseInputs
    allocation: str
    radius: float
    half_width: int
    norm_bound: int
    eigenvalue_scale: int
    direction_rate: float

    def __post_init__(self) -> None:
        check_choice("allocation", self.allocation, ALLOCATIONS)
        cure = "use eigen_sampling_parameters."
        check_real("radius", self.radius, above=0, cure=cure)
        check_integer("half_width", self.half_width, at_least=1, cure=cure)
        check_integer("norm_bound", self.norm_bound, at_least=1, cure=cure)
        check_integer("eigenvalue_scale", self.eigenvalue_scale, at_least=1, cure=cure)
        check_real("direction_rate", self.direction_rate, above=0, cure=cure)
        if self.inputs.before:
            raise ParameterError(
                f"before must be 0, got {self.inputs.before!r}: all of the budget is for this "
                "release, and scales must be public."
            )
        _check_capacity(self)

    @property
    def step(self) -> float:
        """Distance between neighbouring grid points, in units of the scale."""
        return self.radius / self.half_width

    @property
    def unit(self) -> float:
        """The public value of one released integer, in units of the squared scale."""
        return self.step**2 / self.inputs.n_records

    @property
    def largest_sum(self) -> int:
        """The most that squared norms add up to: a bound on trace and eigenvalues."""
        return _allowed_for(self.inputs) * self.norm_bound**2

    @property
    def epsilon(self) -> float:
        """Epsilon of the release, rounded up."""
        n, d, B = _allowed_for(self.inputs), self.inputs.n_features, self.norm_bound
        neighbours = self.inputs.neighbours
        total = Fraction(eigenvalue_sensitivity(n, d, B, neighbours), self.eigenvalue_scale)
        if d > 1:
            # proof: step 5
            total += Fraction(self.direction_rate) * score_range(n, d, B, neighbours)
        return float(total) * (1 + 2.0**-50)

    def budget(self, *, private: bool = True) -> Budget:
        """Certify eigenvalues and directions together.

        Privacy
        -------
        Neighbours: those of the inputs. Pure epsilon-DP: eigenvalues by exact Laplace noise,
        directions by exact draws; `docs/proofs/eigen_sampling.md`. The error bounds of the
        eigenvalue solver and of exp and log are trusted, and the guarantee says so.
        """
        known: Any = {"checked": (EXACT, _TRUSTED), "private": private}
        return self.inputs.budget(fixed=[Pure(self.epsilon)], mu=0.0, **known)  # proof: step 6

    def to_dict(self) -> dict[str, object]:
        """Return inputs and parameters as plain, JSON-ready data."""
        named = asdict(self)
        return named | {"inputs": self.inputs.to_dict(), "epsilon": self.epsilon}


def _allowed_for(inputs: ReleaseInputs) -> int:
    return inputs.neighbours.allowed_for(inputs.n_records)


def eigenvalue_sensitivity(
    n_records: int, n_features: int, norm_bound: int, neighbours: Neighbours = ONE_REPLACED
) -> int:
    """The most that rounded eigenvalues move in l1 norm, errors of computing them included."""
    n, d, B = n_records, n_features, norm_bound
    # proof: step 2
    if d == 1:
        return B**2
    error = 16 * d * _UNIT * n * B**2
    exact = neighbours.moved(replaced=2 * B**2, removed=B**2)
    return math.ceil(exact + d * (1 + 2 * error))


def score_sensitivity(n_records: int, n_features: int, norm_bound: int) -> Fraction:
    """The most that the score of any direction moves, errors of projecting included."""
    n, d, B = n_records, n_features, norm_bound
    # proof: step 4
    error = (3 * d + 6) * d * _UNIT * n * B**2 + Fraction(d, 2)
    return B**2 + 2 * error


def score_range(
    n_records: int, n_features: int, norm_bound: int, neighbours: Neighbours = ONE_REPLACED
) -> Fraction:
    """The length of the interval in which scores of directions move, all of them.

    A record that is replaced raises some by up to the sensitivity and lowers others. One that is
    removed raises none, but for errors.
    """
    most = score_sensitivity(n_records, n_features, norm_bound)
    error = most - norm_bound**2
    return neighbours.moved(replaced=2 * most, removed=most + error)  # proof: step 3


def pure_inputs(
    n_records: int, n_features: int, row_sparsity: int, epsilon: float
) -> ReleaseInputs:
    """Inputs of a release without a delta."""
    return ReleaseInputs(n_records, n_features, row_sparsity, epsilon, 0.0)


def eigen_sampling_parameters(
    inputs: ReleaseInputs,
    *,
    allocation: str = "adaptive",
    row_norm: float | None = None,
) -> EigenSamplingParameters:
    """The least noise that the budget allows, and where to clip.

    Parameters
    ----------
    inputs : ReleaseInputs
        Public inputs; their delta is not used, and no step may come before.
    allocation : {"adaptive", "uniform"}
        Whether directions of large noisy eigenvalues get more of the budget.
    row_norm : float, optional
        Bound on the norm of a record in units of the scales; chosen from the public inputs if
        left out.

    Privacy
    -------
    Neighbours: those of the inputs; no precondition. Nothing here depends on records. The answer
    costs at most epsilon; `docs/proofs/eigen_sampling.md`, step 6.
    """
    n, d, neighbours = _allowed_for(inputs), inputs.n_features, inputs.neighbours
    half_width, B = _grid(inputs, row_norm)
    # proof: step 6
    budget = Fraction(inputs.epsilon * WITHIN) / (1 if d == 1 else 2) / neighbours.most_rows
    rate = budget / score_range(n, d, B, neighbours)
    return EigenSamplingParameters(
        inputs=inputs,
        allocation=allocation,
        radius=RADIUS,
        half_width=half_width,
        norm_bound=B,
        eigenvalue_scale=math.ceil(eigenvalue_sensitivity(n, d, B, neighbours) / budget),
        direction_rate=float(rate),
    )


def _grid(inputs: ReleaseInputs, row_norm: float | None) -> tuple[int, int]:
    """The half width of the finest grid whose sums are exact in doubles, and the norm on it."""
    cure = "it is a public bound on the norm of every record, in units of the scales."
    norm = _row_norm(inputs) if row_norm is None else row_norm
    norm = min(
        check_real("row_norm", norm, above=0, cure=cure), RADIUS * math.sqrt(inputs.n_features)
    )
    longest = math.isqrt(_LARGEST_SUM // _allowed_for(inputs))
    finest = min(LARGEST_HALF_WIDTH, math.isqrt(_LARGEST_GRAM // _allowed_for(inputs)))
    half_width = math.floor(min(finest, RADIUS / norm * longest))
    if longest < 1 or half_width < 1:
        raise CapacityError(
            f"{inputs.n_records:,} records of norm {norm:g} have sums beyond what doubles hold: "
            "use fewer records or a smaller row_norm."
        )
    return half_width, min(longest, max(1, math.floor(norm * half_width / RADIUS)))


def _row_norm(inputs: ReleaseInputs) -> float:
    """A norm bound B at which a little more would cost about as much in noise as it saves in bias.

    The first direction misses the leading one by an angle of square B^2 d^2/(n epsilon) over the
    largest eigenvalue, (k + 1)/2, as to orders of magnitude. The error grows with the angle, hence
    with B and not with its square. A Gaussian release with the mu below gains as much from a
    smaller B.
    """
    n, k = inputs.n_records, inputs.row_sparsity
    return balanced_row_norm(inputs, 4 * math.sqrt(inputs.epsilon / (n * (k + 1))))


def _check_capacity(parameters: EigenSamplingParameters) -> None:
    """Refuse, from public numbers alone, what doubles cannot hold or tell apart."""
    n, d = parameters.inputs.n_records, parameters.inputs.n_features
    if d > _MOST_FEATURES:
        raise CapacityError(
            f"n_features must be at most {_MOST_FEATURES:,}, got {d:,}: directions are drawn one "
            "by one, in a time that grows with its fourth power. Use fewer features."
        )
    if parameters.largest_sum > _LARGEST_SUM:
        raise CapacityError(
            f"norm_bound must keep n_records * norm_bound**2 within 2**52, got "
            f"{parameters.norm_bound} for {n:,} records: use eigen_sampling_parameters."
        )
    if d > 1 and parameters.direction_rate * parameters.largest_sum * d > MOST_CONCENTRATED / 2:
        raise CapacityError(
            f"{n:,} records of {d} features at epsilon {parameters.inputs.epsilon:g} make "
            "directions more certain than doubles can tell: use fewer records or a smaller budget."
        )


def release_eigen_sampling(
    records: Records,
    feature_scale: FloatArray,
    parameters: EigenSamplingParameters,
    entropy: Entropy,
    *,
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> Release:
    """Sum the bounded records, and release noisy eigenvalues along sampled directions.

    Privacy
    -------
    See `EigenSamplingParameters.budget`, which is the budget if none is given. `feature_scale` must
    be public: it may be anything that is not computed from the records.
    """
    inputs = parameters.inputs
    inputs.check_size(records)
    check_entropy(entropy)
    budget = parameters.budget(private=entropy.private) if budget is None else budget
    budget.fixed(Pure(parameters.epsilon), "eigenvalues and directions")
    grid = FeatureGrid(feature_scale, parameters.radius, parameters.half_width)
    gram = row_bounded_gram(
        records, grid, parameters.norm_bound, progress=progress
    )  # proof: step 1
    spectrum = sample_spectrum(entropy.generator, gram, rounded_eigenvalues(gram), parameters)
    return Release(
        mechanism=NAME,
        integers=assembled(*spectrum),
        unit=parameters.unit,
        guarantee=budget.guarantee,
        parameters=parameters.to_dict(),
        feature_scale=grid.feature_scale,
        making=Making(
            n_records=parameters.inputs.n_records,
            parts=parts_of(budget),
        ),
    )


def rounded_eigenvalues(gram: IntArray) -> list[int]:
    """Eigenvalues from the largest to the smallest, rounded to integers."""
    values = np.linalg.eigvalsh(gram.astype(np.float64))[::-1]
    return [int(value) for value in np.rint(values)]  # proof: step 2


def sample_spectrum(
    generator: np.random.Generator,
    gram: IntArray,
    exact_eigenvalues: list[int],
    parameters: EigenSamplingParameters,
) -> tuple[IntArray, FloatArray]:
    """All that is random: noisy eigenvalues, and the directions (columns) they belong to."""
    eigenvalues = noisy_eigenvalues(generator, exact_eigenvalues, parameters)
    return eigenvalues, sample_directions(generator, gram, eigenvalues, parameters)


def noisy_eigenvalues(
    generator: np.random.Generator, exact: list[int], parameters: EigenSamplingParameters
) -> IntArray:
    """Eigenvalues with Laplace noise, between 0 and the most they can be."""
    noise = discrete_laplace(generator, parameters.eigenvalue_scale, len(exact))  # proof: step 2
    most = parameters.largest_sum
    noisy = [min(max(a + b, 0), most) for a, b in zip(exact, noise, strict=True)]
    return np.array(noisy, dtype=np.int64)


def sample_directions(
    generator: np.random.Generator,
    gram: IntArray,
    eigenvalues: IntArray,
    parameters: EigenSamplingParameters,
) -> FloatArray:
    """An orthonormal basis (columns), one direction after the other; the last one is what is left.

    `eigenvalues` are the released ones.
    """
    d = len(gram)
    directions, left = np.empty((d, d)), np.eye(d)
    dense = gram.astype(np.float64)
    part = parameters.direction_rate / SHARES
    for place, share in enumerate(shares(eigenvalues, parameters)):
        scores = projected(dense, contraction(left))  # proof: step 4
        law = Bingham(scores, share * part)  # proof: step 3
        drawn = law.draw(generator)[0]  # proof: step 7
        turned = _turned(left, drawn)
        directions[:, place], left = turned[:, 0], turned[:, 1:]
    directions[:, -1] = left[:, 0]
    return directions


def shares(eigenvalues: IntArray, parameters: EigenSamplingParameters) -> list[int]:
    """How many of 2^40 parts of the budget each direction but the last gets.

    From released eigenvalues and public numbers, in whole numbers: they never exceed 2^40 in all.
    """
    d = len(eigenvalues)
    if parameters.allocation == "uniform":
        weights = [1] * d
    else:
        # A fraction, as scales may exceed all doubles.
        noise = math.ceil(parameters.eigenvalue_scale * Fraction(math.log(2 * d / _FAILURE)))
        # Shifted, for roots that are not coarse where eigenvalues are small.
        weights = [math.isqrt(int(value) + noise << 40) for value in eigenvalues]
    weights.pop()
    total = sum(weights)
    return [SHARES * weight // total for weight in weights]  # proof: step 5


def contraction(basis: FloatArray) -> FloatArray:
    """A basis that is orthonormal but for rounding errors, scaled to a norm of at most 1."""
    d, m = basis.shape
    distance = float(np.linalg.norm(basis.T @ basis - np.eye(m)))
    return np.asarray(basis * (1 - 2 * distance - (d + 8) * m * 2.0**-52))


def projected(gram: FloatArray, basis: FloatArray) -> IntArray:
    """basis' gram basis, in integers."""
    upper = np.rint(np.triu(basis.T @ (gram @ basis))).astype(np.int64)
    return np.asarray(upper + np.triu(upper, 1).T)


def _turned(basis: FloatArray, direction: IntArray) -> FloatArray:
    """The basis of the same space whose first vector is the direction, up to sign (Householder)."""
    axis = direction / np.linalg.norm(direction)
    axis[0] += math.copysign(1.0, axis[0])
    return np.asarray(basis - np.multiply.outer(basis @ axis, axis * (2 / (axis @ axis))))


def assembled(eigenvalues: IntArray, directions: FloatArray) -> IntArray:
    """The matrix with these eigenvalues and eigenvectors, rounded to integers."""
    matrix = np.multiply(directions, eigenvalues) @ directions.T
    upper = np.rint(np.triu(matrix)).astype(np.int64)
    return np.asarray(upper + np.triu(upper, 1).T)


@dataclass(frozen=True)
class PlannedEigenSampling(MechanismPlan[EigenSamplingParameters]):
    """Eigenvalues and directions with their shares of the budget."""

    def release(self, prepared: Prepared, budget: Budget, entropy: Entropy) -> Release:
        """See `release_eigen_sampling`."""
        args = (prepared.records, prepared.feature_scale, self.parameters, entropy)
        return release_eigen_sampling(*args, budget=budget)


class EigenSampling(Mechanism):
    """Noisy eigenvalues along sampled directions, without a delta."""

    name = NAME
    title = "eigenvector sampling (Amin et al.)"
    pure = True
    estimator = ("EigenSamplingCovariance", {})
    most_features = 200
    limit = "its time grows with the fourth power of their number, to minutes at 1,000."

    def plan(
        self,
        inputs: ReleaseInputs,
        *,
        sparse: bool = False,
        allocation: str = "adaptive",
        row_norm: float | None = None,
    ) -> PlannedEigenSampling:
        """See `Mechanism.plan` and `eigen_sampling_parameters`; a delta is left unspent."""
        if inputs.before:
            raise ParameterError(
                "feature_scale is required: estimating scales privately is not pure DP. Pass "
                "feature_scale=..., numbers that are public (--feature-scale)."
            )
        return PlannedEigenSampling(
            self,
            eigen_sampling_parameters(
                replace(inputs, delta=0.0),
                allocation=allocation,
                row_norm=row_norm,
            ),
        )


EIGEN_SAMPLING = EigenSampling()
