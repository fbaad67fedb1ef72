"""Noisy eigenvalues and sampled eigenvectors: a covariance under pure differential privacy.

Amin, Dick, Kulesza, Munoz Medina and Vassilvitskii (NeurIPS 2019). Every record is clipped and
rounded to integers and its norm is bounded. The eigenvalues of the exact Gram matrix get Laplace
noise. Then one direction after the other is drawn on the unit sphere of what is left of the space,
with a density that grows with the variance along it. The release is put together from both.

Directions follow the Bingham law, proportional to exp(rate * u' M u), and are drawn by rejection
(Kent, Ganeiber and Mardia 2013, arXiv 1310.8110). A proposal is u = z/|z| with z = L g, g standard
normal, which has density proportional to (|g|/|z|)^-m in m dimensions. So it is kept with
probability exp(rate * (u'Mu - peak)) (|g|/|z|)^m, over an upper bound on this number. Nothing but
the speed depends on L and `peak`, so they may come from an eigendecomposition with rounding errors;
only the upper bound must be one, and it is computed from L as it is, rounding errors included.

Proposals and their coins are real numbers of which the leading bits are drawn. Doubles decide,
with a bound on their error, which proposals are kept and to which grid point u rounds. Where that
is not clear, hardly ever, more bits of the same numbers are drawn and exact arithmetic decides.
So the law of the rounded direction is exact.
"""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hushcov._arrays import BoolArray, FloatArray, IntArray
from hushcov._validation import check_choice, check_integer, check_real
from hushcov.exceptions import CapacityError, ParameterError
from hushcov.fit.gaussian.mechanism import balanced_row_norm
from hushcov.fit.mechanism import MechanismPlan, Prepared
from hushcov.fit.norms import HALF_WIDTH, RADIUS
from hushcov.inputs import ReleaseInputs
from hushcov.kernel.accounting import EXACT, ONE_REPLACED, WITHIN, Budget, Neighbours, Pure
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.noise import discrete_laplace
from hushcov.kernel.noise.entropy import LazyUniform
from hushcov.kernel.session import Session, unwrap
from hushcov.kernel.sums.gram import row_bounded_gram
from hushcov.release import Release
from hushcov_lab.peers.normals import LazyNormals, lazy_normals
from hushcov_lab.peers.plan import Peer, PeerParameters, PeerPlan, allowed_for

_LARGEST_ENTRY = 2**53  # doubles hold all integers up to here
#: Up to this product of rate, norm and number of rows, proposals lose nothing to rounding errors.
MOST_CONCENTRATED = 1e12
GRID_BITS = 24  # a direction is rounded to multiples of 2^-24
_FACTOR_BITS = 80  # the entries of a factor are multiples of 2^-80
_COIN_BITS = 63
_UNIT = 2.0**-53


@dataclass(frozen=True, eq=False)
class _Law:
    """The law wanted, and proposals with a bound on their ratio. Numbers are what doubles say."""

    matrix: IntArray
    rate: float
    factor: FloatArray
    peak: float
    log_bound: float


class Bingham:
    """The law of unit vectors u with density proportional to exp(rate * u' matrix u).

    Parameters
    ----------
    matrix : ndarray of int64, symmetric
        Entries of at most 2^53 in size.
    rate : float
        At least 0; times the Frobenius norm of the matrix and the number of rows at most 1e12.
    """

    def __init__(self, matrix: IntArray, rate: float) -> None:
        self._law = _law(matrix, rate)
        self._matrix = self._law.matrix.astype(np.float64)
        self._norm = float(np.linalg.norm(self._matrix))

    def draw(self, generator: np.random.Generator, size: int = 1) -> IntArray:
        """Directions as rows of integers: every coordinate times 2^24, rounded to the nearest.

        Privacy
        -------
        The rounding is a function of u, whose law is exact. If u' matrix u moves by at most D for
        every u between neighbouring datasets, its density moves by a factor of at most
        exp(rate * D), and so does its normalising constant: the draw is (2 * rate * D)-DP.
        """
        size = check_integer("size", size, at_least=0, cure="ask for a number of draws.")
        found: list[IntArray] = []
        missing = size
        while missing > 0:
            kept = self._trials(generator, 2 * missing + 6, widening=0.0)[:missing]
            found += kept
            missing -= len(kept)
        return np.array(found, dtype=np.int64).reshape(size, len(self._matrix))

    def _trials(
        self, generator: np.random.Generator, count: int, *, widening: float
    ) -> list[IntArray]:
        """Return the rounded directions that are kept of `count` independent proposals, in order.

        Trials closer to a tie than `widening` go the exact way although doubles are certain of
        them. That must not change anything, and the tests see to it.
        """
        m = len(self._matrix)
        normals = lazy_normals(generator, count * m)
        words = generator.integers(0, 2**64, size=count, dtype=np.uint64)
        coins = (words >> np.uint64(64 - _COIN_BITS)).astype(np.int64)
        with np.errstate(divide="ignore", invalid="ignore"):  # nothing is clear then
            quick = self._quick(normals.floats().reshape(count, m), coins)
            directions = np.rint(quick.scaled).astype(np.int64)
        accepted, unclear = quick.excess < 0, quick.unclear(widening)
        kept = []
        for position in np.flatnonzero(accepted | unclear):
            if not unclear[position]:
                kept.append(directions[position])
                continue
            coin = LazyUniform(generator, int(coins[position]), _COIN_BITS)
            direction = self._exact(generator, normals, int(position), coin)
            if direction is not None:
                kept.append(direction)
        return kept

    def _exact(
        self, generator: np.random.Generator, normals: LazyNormals, position: int, coin: LazyUniform
    ) -> IntArray | None:
        m = len(self._matrix)
        places = range(position * m, (position + 1) * m)
        offsets = [normals.offset(generator, place) for place in places]
        signs, wholes = ([int(a[i]) for i in places] for a in (normals.signs, normals.wholes))
        return _ExactTrial(self._law, signs, wholes, offsets, coin).decide()

    def _quick(self, g: FloatArray, coins: IntArray) -> _Quick:
        """Return all trials (rows of `g`) in doubles, with bounds on the errors.

        The sum that makes an entry of z has an error of at most e = (m + 8) 2^-53 of the same entry
        of |L| (1 + |g|), that of g included. So u = z/|z| is off by at most half of `off` in norm,
        |g| and |z| by half of `off` relatively, and u'Mu by `off` + 2 e times the norm of M. The
        margin is at least twice what follows for the log of the chance; logarithms are trusted to
        a relative 2^-48, and are below 2^6.
        """
        law, m = self._law, len(self._matrix)
        e = (m + 8) * _UNIT
        z = g @ law.factor.T
        spread = np.linalg.norm((1 + np.abs(g)) @ np.abs(law.factor).T, axis=1)
        squares = np.sum(z * z, axis=1)
        lengths = np.sqrt(squares)
        off = 4 * e * (spread / lengths + (math.sqrt(m) + 1) / np.linalg.norm(g, axis=1) + 1)
        u = z / lengths[:, None]
        score = np.sum((u @ self._matrix) * u, axis=1)
        ratio = np.sum(g * g, axis=1) / squares
        log_chance = law.rate * (score - law.peak) + m / 2 * np.log(ratio) - law.log_bound
        size = law.rate * (self._norm + abs(law.peak)) + m + abs(law.log_bound)
        return _Quick(
            excess=np.log((coins + 0.5) * 2.0**-_COIN_BITS) - log_chance,
            margin=4 * size * (off + e) + m * 2.0**-40 + 2.0 / coins,
            scaled=u * 2.0**GRID_BITS,
            reach=2 * off * 2.0**GRID_BITS,
        )


@dataclass(frozen=True)
class _Quick:
    """Verdict of doubles on each trial.

    It is kept if `excess`, the log of the coin over the chance, is below zero; `scaled` is the
    direction in units of the grid. `margin` and `reach` bound their errors.
    """

    excess: FloatArray
    margin: FloatArray
    scaled: FloatArray
    reach: FloatArray

    def unclear(self, widening: float) -> BoolArray:
        """Which trials could come out the other way; those closer than `widening` as well."""
        edge = 0.5 - np.max(np.abs(self.scaled - np.rint(self.scaled)), axis=1)
        # Written so that numbers which are not numbers are unclear.
        open_ended = ~(np.abs(self.excess) > self.margin + widening)
        at_edge = ~(edge > self.reach + widening) & (self.excess < 0)
        return np.asarray(open_ended | at_edge)


def _law(matrix: object, rate: float) -> _Law:
    """Check matrix and rate, and choose proposals for them."""
    if not isinstance(matrix, np.ndarray) or matrix.dtype != np.int64 or matrix.ndim != 2:
        raise ParameterError(
            "matrix must be a two-dimensional int64 array: scale and round it to integers."
        )
    small = np.all((matrix >= -_LARGEST_ENTRY) & (matrix <= _LARGEST_ENTRY))
    if len(matrix) == 0 or not np.array_equal(matrix, matrix.T) or not small:
        raise ParameterError(
            "matrix must be square, symmetric and not empty, with entries of at most 2^53 in size, "
            "and it is not: use a coarser unit and a larger rate."
        )
    dense = matrix.astype(np.float64)
    norm = float(np.linalg.norm(dense))
    cure = "use a coarser unit for the matrix."
    rate = check_real("rate", rate, above=0, at_most=1e100, or_zero=True, cure=cure)
    if rate * norm * len(matrix) > MOST_CONCENTRATED:
        raise ParameterError(
            f"rate must be at most {MOST_CONCENTRATED:g} over norm and number of rows of matrix, "
            f"got {rate:g}: doubles cannot tell such concentrated directions apart."
        )
    values, vectors = np.linalg.eigh(dense)
    peak = float(values[-1])
    depths = rate * (peak - values)
    b = _shape(depths)
    # The exact path needs whole multiples of a power of two.
    factor = np.ldexp(vectors / np.sqrt(1 + 2 * depths / b), _FACTOR_BITS)
    factor = np.ldexp(np.rint(factor), -_FACTOR_BITS)
    return _Law(matrix, rate, factor, peak, _log_bound(dense, rate, factor, peak, b))


def _shape(depths: FloatArray) -> float:
    """Return the b with sum 1/(b + 2 depth) = 1, at which proposals are kept most often.

    The sum is convex and falls, and is at least 1 at b = 1, as the smallest depth is 0. So Newton's
    steps rise to the root. Any b > 0 will do.
    """
    b = 1.0
    while True:
        terms = 1 / (b + 2 * depths)
        step = (terms.sum() - 1) / (terms @ terms)
        if not step > 1e-9 * b:
            return b
        b += float(step)


def _log_bound(matrix: FloatArray, rate: float, factor: FloatArray, peak: float, b: float) -> float:
    """Return an upper bound, over all g, on the log of exp(rate (u'Mu - peak)) (|g|/|z|)^m.

    As above z = L g and u = z/|z|. With W = I + (2/b) rate (peak I - M), let no eigenvalue of L'WL
    be below 1 - eta. Then (1 - eta) |g|^2 <= z'Wz, so that (|g|/|z|)^2 <= (1 + 2a/b)/(1 - eta) with
    a = rate (peak - u'Mu), and -a + (m/2) log(1 + 2a/b) is largest at 1 + 2a/b = m/b. L'WL is the
    identity but for rounding: its distance from it, and the errors of computing that, bound eta.
    """
    m = len(matrix)
    weight = 2 / b * rate
    product = factor.T @ (factor + weight * (peak * factor - matrix @ factor))
    distance = float(np.linalg.norm(product - np.eye(m)))
    size = 1 + weight * (abs(peak) + float(np.linalg.norm(matrix)))
    error = (2 * m + 16) * _UNIT * size * float(np.linalg.norm(factor)) ** 2
    eta = 1.01 * (distance + error)
    if not eta < 0.5:
        raise CapacityError(
            "the eigendecomposition of a matrix is not accurate enough to draw directions from it: "
            "use fewer records or a smaller budget."
        )
    largest = -(m - b) / 2 + m / 2 * math.log(m / b) - m / 2 * math.log1p(-eta)
    return largest + m * 2.0**-40


@dataclass(frozen=True)
class _Range:
    """All that is known of a real number."""

    low: Fraction
    high: Fraction

    @classmethod
    def around(cls, middle: int, radius: int) -> _Range:
        return cls(Fraction(middle - radius), Fraction(middle + radius))

    def over(self, positive: _Range) -> _Range:
        ends = [
            end / divisor
            for end in (self.low, self.high)
            for divisor in (positive.low, positive.high)
        ]
        return _Range(min(ends), max(ends))


class _ExactTrial:
    """A proposal z = L g and its coin, decided from as many bits as that takes.

    `g` are signs * (wholes + offsets).
    """

    def __init__(
        self,
        law: _Law,
        signs: list[int],
        wholes: list[int],
        offsets: list[LazyUniform],
        coin: LazyUniform,
    ) -> None:
        self._law, self._coin, self._offsets = law, coin, offsets
        self._signs, self._wholes = signs, wholes
        self._factor = _integers(np.ldexp(law.factor, _FACTOR_BITS))
        self._matrix = _integers(law.matrix)

    def decide(self) -> IntArray | None:
        """Return the rounded direction, or None if the proposal is not kept."""
        kept: bool | None = None
        while True:
            self._measure()
            if self._positive and kept is None:
                kept = self._is_kept()
            if kept is False:
                return None
            if self._positive and kept:
                rounded = self._rounded()
                if rounded is not None:
                    return rounded
            for uniform in self._offsets:
                uniform.refine()
            if kept is None:
                self._coin.refine()

    def _measure(self) -> None:
        """Ranges of |g|^2, |z|^2, z'Mz and z, each in its own power of two.

        Every g is the middle of its cell, give or take 1, in units of half a cell; z is then known
        up to the largest row sum of |L|.
        """
        self._bits = length = max(uniform.length for uniform in self._offsets)
        for uniform in self._offsets:
            while uniform.length < length:
                uniform.refine()
        g = np.array(
            [
                sign * (2 * ((whole << length) + uniform.leading) + 1)
                for sign, whole, uniform in zip(
                    self._signs, self._wholes, self._offsets, strict=True
                )
            ],
            dtype=object,
        )
        m = len(g)
        self._z = z = self._factor @ g
        self._radius = radius = int(max(np.abs(self._factor).sum(axis=1)))
        image = self._matrix @ z
        self._g_square = _Range.around(g @ g, 2 * sum(abs(g)) + m)
        self._z_square = _Range.around(z @ z, 2 * radius * sum(abs(z)) + m * radius**2)
        self._form = _Range.around(
            z @ image, 2 * radius * sum(abs(image)) + radius**2 * int(np.abs(self._matrix).sum())
        )
        self._positive = self._g_square.low > 0 and self._z_square.low > 0

    def _is_kept(self) -> bool | None:
        """Whether log(coin) is below the log of the chance to be kept; None if that is open."""
        law, m = self._law, len(self._z)
        # Rounding errors are below 10^-25 of the largest term, which is below 10^20.
        context = decimal.Context(prec=self._bits // 3 + 50, rounding=decimal.ROUND_HALF_EVEN)
        slack = Fraction(1, 10 ** (self._bits // 3))
        score = self._form.over(self._z_square)
        ratio = self._g_square.over(self._z_square)

        def log(number: Fraction) -> Fraction:
            quotient = context.divide(Decimal(number.numerator), Decimal(number.denominator))
            return Fraction(context.ln(quotient))

        def log_chance(score_end: Fraction, ratio_end: Fraction) -> Fraction:
            exponent = Fraction(law.rate) * (score_end - Fraction(law.peak))
            scaled = ratio_end * 4**_FACTOR_BITS  # the units of |g|^2 and |z|^2 differ by this
            return exponent + Fraction(m, 2) * log(scaled) - Fraction(law.log_bound)

        coin, unit = self._coin.leading, 2**self._coin.length
        if log(Fraction(coin + 1, unit)) + slack <= log_chance(score.low, ratio.low):
            return True
        if coin > 0 and log(Fraction(coin, unit)) - slack >= log_chance(score.high, ratio.high):
            return False
        return None

    def _rounded(self) -> IntArray | None:
        """round(2^GRID_BITS z/|z|), or None if a coordinate is too close to a half."""
        rounded = []
        for z in self._z:
            smallest, largest = max(abs(z) - self._radius, 0), abs(z) + self._radius
            low = _nearest_root(Fraction(smallest**2) / self._z_square.high)
            high = _nearest_root(Fraction(largest**2) / self._z_square.low)
            if low != high:
                return None
            rounded.append(high if z > 0 else -high)
        return np.array(rounded, dtype=np.int64)


def _nearest_root(square: Fraction) -> int:
    """2^GRID_BITS times the root, rounded to the nearest integer."""
    return (math.isqrt(math.floor(4 * 4**GRID_BITS * square)) + 1) // 2


def _integers(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the whole numbers of an array as Python integers, which have any size."""
    return np.array([[int(entry) for entry in row] for row in array], dtype=object)


NAME = "eigen-sampling"
ALLOCATIONS = ("adaptive", "uniform")

_LARGEST_SUM = 2**52  # of squared norms: doubles hold the Gram matrix, and projections of it
_LARGEST_GRAM = 2**62  # of squared half widths, where records are summed in int64
_MOST_FEATURES = 1000
_ROUNDING = Fraction(1, 2**53)
#: Whole parts into which the budget of the directions is divided.
SHARES = 2**40
_TRUSTED = (
    "trusted: computed eigenvalues are within 16 d 2^-53 of the norm of the matrix, exp and log "
    "within 32 units in the last place"
)
_FAILURE = 0.05  # how often noise may pass what allocation adds to every eigenvalue


@dataclass(frozen=True)
class EigenSamplingParameters(PeerParameters):
    """Everything about a release that is public, and what follows from it.

    Radius and step are in units of the features' scales; the other numbers are in steps and
    squared steps of the grid. `direction_rate` is the sum of the rates of all directions.
    """

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
    def largest_sum(self) -> int:
        """The most that squared norms add up to: a bound on trace and eigenvalues."""
        return allowed_for(self.inputs) * self.norm_bound**2

    @property
    def epsilon(self) -> float:
        """Epsilon of the release, rounded up."""
        n, d, B = allowed_for(self.inputs), self.inputs.n_features, self.norm_bound
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
        return super().to_dict() | {"epsilon": self.epsilon}


def eigenvalue_sensitivity(
    n_records: int, n_features: int, norm_bound: int, neighbours: Neighbours = ONE_REPLACED
) -> int:
    """The most that rounded eigenvalues move in l1 norm, errors of computing them included."""
    n, d, B = n_records, n_features, norm_bound
    # proof: step 2
    if d == 1:
        return B**2
    error = 16 * d * _ROUNDING * n * B**2
    exact = neighbours.moved(replaced=2 * B**2, removed=B**2)
    return math.ceil(exact + d * (1 + 2 * error))


def score_sensitivity(n_records: int, n_features: int, norm_bound: int) -> Fraction:
    """Return the most that the score of any direction moves, errors of projecting included."""
    n, d, B = n_records, n_features, norm_bound
    # proof: step 4
    error = (3 * d + 6) * d * _ROUNDING * n * B**2 + Fraction(d, 2)
    return B**2 + 2 * error


def score_range(
    n_records: int, n_features: int, norm_bound: int, neighbours: Neighbours = ONE_REPLACED
) -> Fraction:
    """Return the length of the interval in which scores of directions move, all of them.

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
    inputs: ReleaseInputs, *, allocation: str = "adaptive", row_norm: float | None = None
) -> EigenSamplingParameters:
    """Return the least noise that the budget allows, and where to clip.

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
    n, d, neighbours = allowed_for(inputs), inputs.n_features, inputs.neighbours
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
    longest = math.isqrt(_LARGEST_SUM // allowed_for(inputs))
    finest = min(HALF_WIDTH, math.isqrt(_LARGEST_GRAM // allowed_for(inputs)))
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
    session: Session, feature_scale: FloatArray, parameters: EigenSamplingParameters
) -> Release:
    """Sum the bounded records, and release noisy eigenvalues along sampled directions.

    Privacy
    -------
    See `EigenSamplingParameters.budget`, which is that of the session. `feature_scale` must
    be public: it may be anything that is not computed from the records.
    """
    parameters.inputs.check_size(session)
    # Directions have a law of their own, which no session draws from; the charge comes first.
    records, budget, entropy = unwrap(session)
    budget.fixed(Pure(parameters.epsilon), "eigenvalues and directions")
    grid = FeatureGrid(feature_scale, parameters.radius, parameters.half_width)
    gram = row_bounded_gram(records, grid, parameters.norm_bound)  # proof: step 1
    spectrum = sample_spectrum(entropy.generator, gram, rounded_eigenvalues(gram), parameters)
    return parameters.document(NAME, assembled(*spectrum), grid.feature_scale, budget)


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
    """Return all that is random: noisy eigenvalues, and the directions (columns) they belong to."""
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
        # The basis of the same space whose first vector is the one drawn, up to sign (Householder).
        axis = drawn / np.linalg.norm(drawn)
        axis[0] += math.copysign(1.0, axis[0])
        turned = left - np.multiply.outer(left @ axis, axis * (2 / (axis @ axis)))
        directions[:, place], left = turned[:, 0], turned[:, 1:]
    directions[:, -1] = left[:, 0]
    return directions


def shares(eigenvalues: IntArray, parameters: EigenSamplingParameters) -> list[int]:
    """Return how many of 2^40 parts of the budget each direction but the last gets.

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
    """Return a basis that is orthonormal but for rounding errors, scaled to a norm of at most 1."""
    d, m = basis.shape
    distance = float(np.linalg.norm(basis.T @ basis - np.eye(m)))
    return np.asarray(basis * (1 - 2 * distance - (d + 8) * m * 2.0**-52))


def projected(gram: FloatArray, basis: FloatArray) -> IntArray:
    """basis' gram basis, in integers."""
    upper = np.rint(np.triu(basis.T @ (gram @ basis))).astype(np.int64)
    return np.asarray(upper + np.triu(upper, 1).T)


def assembled(eigenvalues: IntArray, directions: FloatArray) -> IntArray:
    """Return the matrix with these eigenvalues and eigenvectors, rounded to integers."""
    matrix = np.multiply(directions, eigenvalues) @ directions.T
    upper = np.rint(np.triu(matrix)).astype(np.int64)
    return np.asarray(upper + np.triu(upper, 1).T)


class EigenSampling(Peer):
    """Noisy eigenvalues along sampled directions, without a delta."""

    name = NAME
    title = "eigenvector sampling (Amin et al.)"
    pure = True
    estimator = ("EigenSamplingCovariance", {})
    most_features = 200
    limit = "its time grows with the fourth power of their number, to minutes at 1,000."
    parameters_of = eigen_sampling_parameters
    release_by = release_eigen_sampling

    def plan(
        self, inputs: ReleaseInputs, *, sparse: bool = False, **options: Any
    ) -> MechanismPlan[Any]:
        """See `Mechanism.plan` and `eigen_sampling_parameters`; a delta is left unspent."""
        if inputs.before:
            raise ParameterError(
                "feature_scale is required: estimating scales privately is not pure DP. Pass "
                "feature_scale=..., numbers that are public (--feature-scale)."
            )
        return super().plan(replace(inputs, delta=0.0), **options)

    def renew(self, plan: PeerPlan, prepared: Prepared) -> Any:
        """See `Peer.renew`; nothing comes before."""
        return plan.parameters


EIGEN_SAMPLING = EigenSampling()
