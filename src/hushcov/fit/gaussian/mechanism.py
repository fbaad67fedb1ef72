"""Gaussian noise on the whole second-moment matrix: Analyze Gauss, calibrated exactly.

Every record is clipped and rounded to integers, its norm is bounded, and the exact integer Gram
matrix gets rounded normal noise on its upper triangle. Thresholding the release afterwards
(`hushcov.postprocess`) is the DP-Thresholding of Wang and Xu (arXiv 1901.06413).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from scipy import special

from hushcov._arrays import FloatArray
from hushcov._validation import check_integer, check_real
from hushcov.exceptions import CapacityError, DataError
from hushcov.fit.norms import RADIUS, exact_half_width, norm_in_steps, release_unit_bound
from hushcov.inputs import ReleaseInputs
from hushcov.kernel.accounting import WITHIN, Budget
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.queries import (
    LARGEST_SIGMA,
    Gram,
    RecordMap,
    UnitGram,
    noise_sigmas,
    squared_sensitivity,
)
from hushcov.kernel.session import Noisy, Session
from hushcov.release import Making, Release, parts_of

NAME = "gaussian"
_UNIT_NORMS = 0.02  # of the budget, for where units are bounded as one


@dataclass(frozen=True)
class GaussianParameters:
    """Everything about a release that is public, and what follows from it.

    Radius and step are in units of the features' scales; `norm_bound`, `half_width` and the two
    sigmas are integers, in steps and squared steps of the grid.
    """

    inputs: ReleaseInputs
    radius: float
    half_width: int
    norm_bound: int
    sigma: int  # of the noise off the diagonal
    diagonal_sigma: int

    def __post_init__(self) -> None:
        cure = "use gaussian_parameters."
        check_real("radius", self.radius, above=0, cure=cure)
        check_integer("half_width", self.half_width, at_least=1, cure=cure)
        check_integer("norm_bound", self.norm_bound, at_least=1, cure=cure)
        least = {"sigma": 1, "diagonal_sigma": self.sigma}  # proof: step 2
        for name, fewest in least.items():
            noise = getattr(self, name)
            check_integer(name, noise, at_least=fewest, at_most=LARGEST_SIGMA, cure=cure)

    @property
    def step(self) -> float:
        """Distance between neighbouring grid points, in units of the scale."""
        return self.radius / self.half_width

    @property
    def unit(self) -> float:
        """The public value of one released integer, in units of the squared scale."""
        return self.step**2 / self.inputs.n_records

    @property
    def noise_sd(self) -> float:
        """Standard deviation of the noise off the diagonal, in units of the squared scale."""
        return self.sigma * self.unit

    @property
    def diagonal_noise_sd(self) -> float:
        """Standard deviation of the noise on the diagonal, in units of the squared scale."""
        return self.diagonal_sigma * self.unit

    @property
    def mu(self) -> float:
        """The l2 sensitivity of the upper triangle over its noise, rounded up."""
        square = squared_sensitivity(
            self.inputs.n_features,
            self.half_width,
            self.norm_bound,
            self.sigma,
            self.diagonal_sigma,
            self.inputs.neighbours,
        )
        return math.sqrt(float(square)) * (1 + 2.0**-50)

    @property
    def part(self) -> str:
        """Description of the released values."""
        d = self.inputs.n_features
        return f"values of all pairs ({d * (d - 1) // 2:,}) and variances ({d:,})"

    def budget(self, *, private: bool = True) -> Budget:
        """Certify the whole budget; the noise of the matrix is spent before it is drawn."""
        return self.inputs.budget(private=private)  # proof: step 5

    def to_dict(self) -> dict[str, object]:
        """Return inputs and parameters as plain, JSON-ready data."""
        names = ("radius", "half_width", "norm_bound", "sigma", "diagonal_sigma", "mu")
        return {
            "inputs": self.inputs.to_dict(),
            **{name: getattr(self, name) for name in names},
            "noise_sd": self.noise_sd,
            "diagonal_noise_sd": self.diagonal_noise_sd,
        }


def gaussian_parameters(
    inputs: ReleaseInputs,
    *,
    mu: float | None = None,
    radius: float | None = None,
    row_norm: float | None = None,
) -> GaussianParameters:
    """Return the least noise that the budget allows, and where to clip.

    `mu` is what may be spent; if left out, what steps before are expected to leave of the budget.
    `radius` bounds every coordinate, and `row_norm` the norm of a record, in units of the scales;
    the norm is chosen such that noise and clipping bias are balanced for Gaussian records.

    Privacy
    -------
    Neighbours: those of the inputs; no precondition. Nothing here depends on records. The noise is
    such that the matrix moves by at most `mu` deviations; `docs/proofs/gaussian.md`, step 5.
    """
    row_norm = _checked_norm(row_norm)
    d = inputs.n_features
    mu = inputs.largest_mu() if mu is None else mu  # proof: step 5
    cure = "it is a public bound on every coordinate, in units of its scale."
    radius = RADIUS if radius is None else check_real("radius", radius, above=0, cure=cure)
    norm = balanced_row_norm(inputs, mu) if row_norm is None else row_norm
    norm = min(norm, radius * math.sqrt(d))  # no record is longer
    half_width = exact_half_width(inputs, radius, norm, mu)
    norm_bound = norm_in_steps(norm, d, radius, half_width)
    sigmas = noise_sigmas(d, half_width, norm_bound, mu, inputs.neighbours)  # proof: step 2
    return GaussianParameters(inputs, radius, half_width, norm_bound, *sigmas)


def parameters_for_sums(
    inputs: ReleaseInputs, record_map: RecordMap, *, row_norm: float | None = None
) -> GaussianParameters:
    """Return the least noise that the budget allows on sums whose map was fixed before.

    The map may have been declared for another number of records, or another budget: that costs
    accuracy, not privacy. It is refused where it has another bound than `row_norm`, if declared.

    Privacy
    -------
    Neighbours: replace one record; no precondition. The noise follows from the map and the budget
    alone; `docs/proofs/gaussian.md`, step 6.
    """
    row_norm = _checked_norm(row_norm)
    grid, d, bound = record_map.grid, inputs.n_features, record_map.norm_bound
    if not isinstance(grid, FeatureGrid):
        raise DataError(
            "statistics must be of features divided by their scales, got those of a multiscale "
            "mechanism: sum the records with GaussianCovariance.partial_fit."
        )
    declared = (
        bound if row_norm is None else norm_in_steps(row_norm, d, grid.radius, grid.half_width)
    )
    if bound is None or bound != declared:
        raise DataError(
            f"statistics must have been clipped as declared (row_norm={row_norm}), got radius "
            f"{grid.radius:g}, half_width {grid.half_width} and "
            f"norm_bound {bound}: release them with the parameters they were summed with."
        )
    mu = inputs.largest_mu()
    sigmas = noise_sigmas(d, grid.half_width, bound, mu, inputs.neighbours)  # proof: step 6
    if max(sigmas) > LARGEST_SIGMA:
        raise CapacityError(
            f"epsilon {inputs.epsilon:g} and delta {inputs.delta:g} need more noise than integers "
            f"hold on a grid of half width {grid.half_width}: use a larger budget, or sum the "
            "records again with this one declared."
        )
    return GaussianParameters(inputs, grid.radius, grid.half_width, bound, *sigmas)


def _checked_norm(row_norm: float | None) -> float | None:
    """Check the declared bound on the norm of records, if there is one."""
    if row_norm is None:
        return None
    cure = "it is a public bound on the norm of every record, in units of the scales."
    return check_real("row_norm", row_norm, above=0, cure=cure)


def balanced_row_norm(inputs: ReleaseInputs, mu: float) -> float:
    """The norm bound B at which a little more would cost as much in noise as it saves in bias.

    For Gaussian records of unit variances with k correlations of a half in a row, the squared norm
    has mean d and variance d (k + 3)/2; its law is taken as that of a scaled chi-square. Clipping
    at B^2 takes E(norm^2 - B^2)+ / d off the largest eigenvalue, (k + 1)/2, relatively. The noise
    of an entry is B^2/(n mu), less where records are removed, and the error it causes `reach`
    times that: twice the deviations that a threshold must pass, or 2 sqrt(d) if that is less. The
    derivatives in B^2 cancel where P(norm^2 > B^2) has the value below.
    """
    n, d, k = inputs.n_records, inputs.n_features, inputs.row_sparsity
    reach = 2 * math.sqrt(min(d, 1 + 4 * math.log(d)))
    reach *= inputs.neighbours.outer_product
    clipped = min(0.5, max(1e-15, reach * d / (n * max(mu, 1e-300) * (k + 1) / 2)))
    spread = (k + 3) / 4
    return math.sqrt(spread * float(special.chdtri(d / spread, clipped)))


def release_gaussian(
    session: Session,
    feature_scale: FloatArray,
    parameters: GaussianParameters,
    kind: type[Gram] = Gram,
) -> Release:
    """Sum the bounded records, and return their noisy Gram matrix.

    `kind` is `SummedGram` for the sums of one or more sites, on the map of these parameters.

    Privacy
    -------
    Neighbours: those of the session; no precondition. The release is post-processing of one
    Gaussian mechanism, whose noise is drawn exactly, and which is spent before that;
    `docs/proofs/gaussian.md`. `feature_scale` must be public, or released by steps on the same
    budget. The map of sums must have been fixed before any record was read, and every record
    must have been summed once (step 6).
    """
    parameters.inputs.check_size(session)
    if parameters.inputs.neighbours.together > 1:
        return _of_units(session, feature_scale, parameters)
    grid = FeatureGrid(feature_scale, parameters.radius, parameters.half_width)
    query = kind(grid, parameters.norm_bound)  # proof: step 1
    noise = parameters.sigma, parameters.diagonal_sigma
    noisy = session.measure(
        query, parameters.mu, parameters.part, deviations=noise
    )  # proof: step 4
    return _document(session, noisy, grid.feature_scale, parameters)


def _of_units(
    session: Session, feature_scale: FloatArray, parameters: GaussianParameters
) -> Release:
    """Release where units are bounded as one, at a bound that takes a part of the budget."""
    inputs, mu, radius = parameters.inputs, parameters.mu * WITHIN, parameters.radius
    for_norms, for_values = mu * math.sqrt(_UNIT_NORMS), mu * math.sqrt(1 - _UNIT_NORMS)
    widest = radius * math.sqrt(inputs.n_features)
    grid = FeatureGrid(feature_scale, radius, exact_half_width(inputs, radius, widest, for_values))
    found = release_unit_bound(
        session, grid, inputs, 1.0, for_norms, "norms of units"
    )  # proof: step 7
    bound = max(1, math.floor(found.norm / grid.step**2))
    query = UnitGram(grid, bound, inputs.neighbours.together)
    noisy = session.measure(query, for_values, parameters.part)
    unit = noisy.unit / inputs.n_records / (1 - found.cut)
    sigma, diagonal_sigma = noisy.deviations
    noise = sigma * unit, diagonal_sigma * unit
    made: dict[str, object] = {
        "half_width": grid.half_width,
        "unit_bound": bound,
        "sigma": sigma,
        "diagonal_sigma": diagonal_sigma,
        "noise_sd": noise[0],
        "diagonal_noise_sd": noise[1],
    }
    release = _document(session, noisy, grid.feature_scale, parameters)
    return replace(release, unit=unit, noise_sd=noise, parameters=parameters.to_dict() | made)


def _document(
    session: Session, noisy: Noisy, feature_scale: FloatArray, parameters: GaussianParameters
) -> Release:
    return Release(
        mechanism=NAME,
        integers=noisy.integers,
        unit=parameters.unit,
        guarantee=session.guarantee,
        parameters=parameters.to_dict(),
        feature_scale=feature_scale,
        noise_sd=(parameters.noise_sd, parameters.diagonal_noise_sd),
        making=Making(n_records=parameters.inputs.n_records, parts=parts_of(session)),
    )
