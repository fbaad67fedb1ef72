"""Settings, runs and claims to verify, and the paper's numbers by routes of their own.

Second moments S are drawn from their exact law, Wishart, so that no number of records is too large.
A few records with these moments, each repeated many times, then take the path of a fit: they are
clipped, rounded to the grid of the n records and summed in integers, from which S is read.

Tails far below the smallest double are natural logarithms. Gate probabilities are integrated over
the gate noise: the sampler's kernels integrate over the random threshold with the noise integrated
out; here it is the other way round. For a > 0 a test at threshold T fires when T < a / (1 - Z), so
every quantity is an expectation of clip(a / (1 - Z)) over Z alone, and shares nothing with them.

`read_again` is Section 3 transcribed a second time, from the paper and in 80-digit decimals. It
shares no code with `hushcov.paper.parameters`, which the mechanism runs with, so
that a slip in either shows up as a disagreement.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction
from functools import cached_property
from itertools import count, pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import integrate, linalg, special

from hushcov._arrays import FloatArray, IndexArray, IntArray
from hushcov.inputs import PublicInputs
from hushcov.kernel.grids import IntegerGrid
from hushcov.kernel.sums.gram import second_moments
from hushcov.kernel.sums.statistics import RecordMap, Statistics
from hushcov.metrics import operator_norm, operator_norm_error
from hushcov.paper.mechanism import grid_for, statistic_of, symmetric
from hushcov.paper.parameters import Level, Schedule, TheoremParameters, theorem_parameters
from hushcov.paper.samplers import sample_exact
from hushcov.simulate import SimulatedMoments, sparse_covariance, wishart_moments
from hushcov.tables.sources import open_records

_WIDEST = 12.0  # standard deviations; P(|g| > 12) = 4e-33
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(80)
_TERMS = 40  # the moment series converges like (clip^2)^j = 16^-j


def log_two_sided(x: float) -> float:
    """Return log P(|g| > x) for a standard normal g."""
    return math.log(2) + float(special.log_ndtr(-x))


def log_two_sided_by_quadrature(x: float) -> float:
    """Return log P(|g| > x), x > 0, from phi(x) / x * int exp(-v - v^2/(2x^2)) dv."""
    integral = integrate.quad(lambda v: math.exp(-v - 0.5 * (v / x) ** 2), 0, 60)[0]
    return math.log(2 * integral / x) - 0.5 * x * x - 0.5 * math.log(2 * math.pi)


def log_any(log_probability: float, count: float) -> float:
    """Return log(1 - (1 - p)^count): any of `count` independent events of probability p."""
    if log_probability < -30:  # then 1 - (1 - p)^count = 1 - exp(-count p) to thirteen digits
        log_mean = log_probability + math.log(count)
        return log_mean if log_mean < -30 else math.log(-math.expm1(-math.exp(log_mean)))
    return math.log(-math.expm1(count * math.log1p(-math.exp(log_probability))))


def log_sum(logs: Iterable[float]) -> float:
    """Return log of a sum of numbers given by their logs; minus infinity if there are none."""
    logs = list(logs)
    largest = max(logs, default=-math.inf)
    if math.isinf(largest):
        return largest
    return largest + math.log(math.fsum(math.exp(value - largest) for value in logs))


def log_binomial_above(limit: int, count: int, success: float, failure: float) -> float:
    """Return log P(B > limit) for B binomial, rounded up by less than the first term's share.

    The first term of the tail by Stirling's formula (an upper bound on it), times the geometric
    series that dominates the others. Below the mean the trivial bound 0 is returned.
    """
    k = limit + 1
    if k > count:
        return -math.inf
    if k <= count * success:
        return 0.0
    rest = count - k
    divergence = k * math.log(k / (count * success))
    spread = 0.0
    if rest:
        divergence += rest * math.log(rest / (count * failure))
        spread = 0.5 * math.log(count / (2 * math.pi * k * rest))
    ratio = rest / (k + 1) * success / failure
    return min(0.0, 1 / (12 * count) + spread - divergence - math.log1p(-ratio))


def log_poisson_chernoff(threshold: float, mean: float) -> float:
    """Return log of the Chernoff bound on P(sum of independent indicators >= threshold)."""
    if threshold <= mean:
        return 0.0
    if mean == 0:
        return -math.inf
    return threshold - mean - threshold * math.log(threshold / mean)


def log_product_deviation(
    covariance: FloatArray, variances: FloatArray, deviation: float, n: int
) -> FloatArray:
    """Return log of P(|mean of n products X_i X_j - c| > deviation), X_i and X_j Gaussian.

    `variances` is the product v of the two variances. The saddlepoint approximation of Lugannani
    and Rice, whose relative error is of the order 1/n, from E exp(u X_i X_j) =
    ((1 - c u)^2 - v u^2)^(-1/2).
    """
    w = np.maximum(variances - covariance**2, 0.0)
    sides = []
    for c in (covariance, -covariance):
        x = c + deviation
        half = 2 * c * x + w
        with np.errstate(invalid="ignore", divide="ignore"):
            u = 2 * deviation / (half + np.sqrt(half**2 + 4 * x * w * deviation))
            D = 1 - 2 * c * u - w * u * u
            rate = u * x + 0.5 * np.log1p(-2 * c * u - w * u * u)
            spread = u * np.sqrt(n * (w / D + 2 * ((c + w * u) / D) ** 2))
            # log(Phi(-z) + phi(z) (1/spread - 1/z)) with z = sqrt(2 n rate)
            z = np.sqrt(2 * n * rate)
            mills = math.sqrt(math.pi / 2) * special.erfcx(z / math.sqrt(2))
            log_side = -n * rate - 0.5 * math.log(2 * math.pi)
            log_side = log_side + np.log(mills + (z - spread) / (z * spread))
        # Out of reach of the moment generating function nothing is claimed.
        log_side = np.where(np.isfinite(log_side) & (u > 0), log_side, 0.0)
        # A square (w = 0) is never negative.
        sides.append(np.where((w == 0) & (c < 0) & (x >= 0), -np.inf, log_side))
    return np.asarray(np.minimum(np.logaddexp(sides[0], sides[1]), 0.0))


def clopper_pearson(successes: int, runs: int, confidence: float = 0.95) -> float:
    """Return the lower confidence bound on a probability after `successes` in `runs`."""
    if successes == 0:
        return 0.0
    return float(special.betaincinv(successes, runs - successes + 1, 1 - confidence))


class IdealMoments(NamedTuple):
    """Mean and variance of the ideal estimator's entries, given S; and the fourth cumulant."""

    mean: FloatArray
    variance: FloatArray
    fourth_cumulant: FloatArray


def fired_length(a: FloatArray, low: float, high: float, r: float, clip: float) -> FloatArray:
    """Return int_low^high P(Z > 1 - a/t) dt = E[min(max(a/(1-Z), low), high)] - low, for a >= 0."""
    edge = min(clip / r, _WIDEST)
    ends = np.full((2, len(a)), [[-edge], [edge]])
    kinks = [(1 - a / t) / r for t in (low, high) if t > 0]
    bounds = [ends[0], *np.clip(kinks, -edge, edge), ends[1]]
    total = np.zeros_like(a)
    for start, stop in pairwise(bounds):
        half = 0.5 * (stop - start)[:, None]
        w = start[:, None] + half * (1 + _NODES)
        reached = np.clip(a[:, None] / (1 - r * w), low, high) - low
        density = np.exp(-0.5 * w * w) / math.sqrt(2 * math.pi)
        total += np.sum(half * _WEIGHTS * density * reached, axis=1)
    if clip / r < _WIDEST:
        atom = special.ndtr(-clip / r)
        for z in (-clip, clip):
            total += atom * (np.clip(a / (1 - z), low, high) - low)
    return total


def correction_by_moments(r: float, clip: float) -> float:
    """Return kappa = E[1/(1-Z)] = sum of the even moments of the clipped Gaussian Z."""
    j = np.arange(_TERMS)
    edge = clip / r
    log_inside = 2 * j * math.log(r) + j * math.log(2) + special.gammaln(j + 0.5)
    inside = np.exp(log_inside - 0.5 * math.log(math.pi)) * special.gammainc(j + 0.5, edge**2 / 2)
    clipped = clip ** (2.0 * j) * 2 * special.ndtr(-edge)
    return float(np.sum(inside + clipped))


def fire_probability(sizes: FloatArray, level: Level, schedule: Schedule) -> FloatArray:
    """Return the probability that a test of a level is active and fires, for each |S_e|."""
    q, able = np.zeros(len(sizes)), sizes > (1 - schedule.gate_clip) * level.threshold
    ends = level.threshold, 2 * level.threshold
    fired = fired_length(sizes[able], *ends, schedule.gate_noise, schedule.gate_clip)
    q[able] = level.activation * (fired / level.threshold)
    return q


def ideal_moments(entries: FloatArray, parameters: TheoremParameters) -> IdealMoments:
    """Return cumulants of the ideal estimator at each entry of S, level by level."""
    schedule = parameters.schedule
    size, sign = np.abs(entries), np.sign(entries)
    mean, variance, fourth = np.zeros((3, len(entries)))
    for level in schedule.levels:
        q = np.clip(fire_probability(size, level, schedule), 0.0, 1.0)
        weight = schedule.weight(level)
        spread = level.repetitions * q * (1 - q)
        mean += weight * level.repetitions * q
        variance += weight**2 * spread
        fourth += weight**4 * spread * (1 - 6 * q * (1 - q))
    return IdealMoments(sign * mean, variance, fourth)


def mean_formula(entries: FloatArray, parameters: TheoremParameters) -> FloatArray:
    """Return the paper's conditional mean, (1/kappa) int_{t_0}^{t_L} E psi(S_e/t + Z) dt."""
    schedule, t = parameters.schedule, parameters.thresholds
    size = np.abs(entries)
    able = size > (1 - schedule.gate_clip) * t[0]
    length = np.zeros_like(size)
    length[able] = fired_length(size[able], t[0], t[-1], schedule.gate_noise, schedule.gate_clip)
    return np.asarray(np.sign(entries) * length / schedule.gate_correction)


@dataclass(frozen=True)
class SecondReading:
    """The quantities that the claims compare with the mechanism's own."""

    selection_scales: tuple[float, ...]  # b_ell, 0 where s_ell = M_ell
    query_budget: Fraction  # A, an exact rational
    gate_noise: float  # r
    union_log: float  # Gamma
    log_clipping_slack: float  # log eta
    sensitivity: float  # Delta


def read_again(inputs: PublicInputs) -> SecondReading:
    """Evaluate the formulas of Section 3 as printed."""
    with localcontext(Context(prec=80)):
        n, d, k = (
            Decimal(inputs.n_records),
            Decimal(inputs.n_features),
            Decimal(inputs.row_sparsity),
        )
        alpha, epsilon, delta = map(Decimal, (inputs.target_error, inputs.epsilon, inputs.delta))
        beta, sigma = Decimal(inputs.failure_probability), Decimal(inputs.scale)
        L = next(ell for ell in count(1) if 2**ell >= 512 * k / alpha)
        H = (80 * d * L / beta).ln()
        Delta = 2 * sigma**2 * 2 * (40 * n * d / beta).ln() / n
        t = [alpha * sigma**2 / (256 * k) * 2**ell for ell in range(L)]
        rho = 4096 * L * k * H / (alpha**2 * sigma**4)
        M = [int(d * (d + 1) / 2) * _ceil(rho * t_ell**2) for t_ell in t]
        quotas = [_ceil(64 * (d * rho * min(k * t_ell**2, sigma**4) + H)) for t_ell in t]
        s = [min(pair) for pair in zip(M, quotas, strict=True)]
        t_0 = Fraction(inputs.target_error) * Fraction(inputs.scale) ** 2 / (256 * int(k))
        A = sum((s_ell / (t_0 * 2**ell) ** 2 for ell, s_ell in enumerate(s)), Fraction(0))
        root_A = (Decimal(A.numerator) / Decimal(A.denominator)).sqrt()
        r = 8 * Delta * root_A / epsilon * (32 / delta).ln().sqrt()
        b = [
            8
            * (Delta / t_ell)
            * (s_ell * (M_ell / (delta / (32 * L))).ln()).sqrt()
            * 8
            * L
            / epsilon
            if s_ell < M_ell
            else Decimal(0)
            for t_ell, s_ell, M_ell in zip(t, s, M, strict=True)
        ]
        return SecondReading(
            selection_scales=tuple(float(b_ell) for b_ell in b),
            query_budget=A,
            gate_noise=float(r),
            union_log=float((80 * L * sum(M) / (beta * delta)).ln()),
            log_clipping_slack=float((2 * Decimal(sum(s))).ln() - 1 / (32 * r * r)),
            sensitivity=float(Delta),
        )


def _ceil(value: Decimal) -> int:
    return int(value.to_integral_value(rounding=ROUND_CEILING))


Progress = Callable[[], object]
Sampler = Callable[[FloatArray, Schedule, np.random.Generator], IntArray]


def unwatched() -> None:
    """Take no notice of progress."""


_ENTRY_DRAWS = 60_000  # entries times repetitions of the ideal estimator at one S
_LARGEST_SEED = 2**63
_DIFFERENT_RECORDS = 100  # beyond the number of features, in a set of simulated records
ROUNDING = 1e-12  # relative allowance where a bound is attained: both sides are doubles
FALSE_ALARM = 1e-6  # rate at which a statistical claim may fail although it is true
LOG10 = math.log(10.0)


@dataclass(frozen=True)
class Setting:
    """A covariance model with the theorem's parameters; the smallest case that can be verified."""

    model: str
    parameters: TheoremParameters

    @property
    def inputs(self) -> PublicInputs:
        """Inputs that are public before any record is read."""
        return self.parameters.inputs

    @cached_property
    def again(self) -> SecondReading:
        """Numbers of the paper, computed a second time."""
        return read_again(self.inputs)

    @cached_property
    def truth(self) -> FloatArray:
        """Sigma, with operator norm sigma^2: the largest the theorem allows."""
        unit = sparse_covariance(self.model, self.inputs.n_features, self.inputs.row_sparsity)
        return np.asarray(self.inputs.scale**2 * unit)

    @cached_property
    def upper(self) -> tuple[IndexArray, IndexArray]:
        """Rows and columns of the upper triangle, in the samplers' order."""
        return np.triu_indices(self.inputs.n_features)

    @cached_property
    def entry_laws(self) -> tuple[FloatArray, IndexArray]:
        """The different laws of products X_i X_j, and how many entries have each.

        A law is a column: the covariance, and the product of the two variances.
        """
        (rows, columns), variances = self.upper, np.diag(self.truth)
        laws = np.stack([self.truth[rows, columns], variances[rows] * variances[columns]])
        unique, counts = np.unique(laws, axis=1, return_counts=True)
        return unique, counts

    @property
    def selecting(self) -> list[tuple[Level, float]]:
        """Levels that select, with the scale b of their noise."""
        levels = self.parameters.schedule.levels
        return [(lv, lv.selection_scale) for lv in levels if lv.selection_scale is not None]

    @property
    def base_threshold(self) -> float:
        """t_0."""
        return self.parameters.thresholds[0]

    @property
    def target(self) -> float:
        """The operator-norm error alpha sigma^2 that Theorem 1 promises."""
        return self.inputs.target_error * self.inputs.scale**2

    def draw_covariance(self, seed: int, truth: FloatArray | None = None) -> FloatArray:
        """Return the upper triangle of S as a fit to n records reads it from its integer sums.

        The second moments of the records are those of n Gaussian ones with covariance `truth`.
        """
        sigma, n = self.truth if truth is None else truth, self.inputs.n_records
        drawn = wishart_moments(sigma, n, random_state=seed)
        moments = rounded_moments(drawn, grid_for(self.parameters), seed=seed)
        return statistic_of(moments, self.parameters) * self.base_threshold

    def symmetric(self, upper: FloatArray) -> FloatArray:
        """Return the full matrix of an upper triangle."""
        return np.asarray(symmetric(upper, self.inputs.n_features))


def rounded_moments(moments: SimulatedMoments, grid: IntegerGrid, *, seed: int = 0) -> Statistics:
    """Return the integer sums of n records with these second moments, rounded to a grid.

    n // m records are alike, for each of m different ones, and the rest are zero. Their moments are
    exact but for rounding in doubles, before they go through the grid.
    """
    n, d = moments.n_records, moments.n_features
    m = d + _DIFFERENT_RECORDS
    copies = n // m
    normals = np.random.default_rng(seed).standard_normal((m, d))
    orthonormal = np.linalg.qr(normals)[0]
    root = linalg.cholesky(moments.covariance, lower=True)
    rows = math.sqrt(n / copies) * orthonormal @ root.T
    gram = second_moments(open_records(rows), grid).gram
    return Statistics(gram * copies, n, RecordMap(d, grid))


def make_setting(
    model: str,
    n_features: int,
    row_sparsity: int,
    *,
    n_records: int | None = None,
    target_error: float = 0.25,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    failure_probability: float = 0.1,
    scale: float = 1.0,
) -> Setting:
    """Build a setting; without `n_records` at the smallest n with the theorem's accuracy."""
    n = 1 if n_records is None else n_records
    budget = epsilon, delta, failure_probability
    inputs = PublicInputs(n, n_features, row_sparsity, target_error, *budget, scale)
    parameters = theorem_parameters(inputs)
    if n_records is None:
        parameters = theorem_parameters(replace(inputs, n_records=parameters.smallest_accurate_n))
    return Setting(model, parameters)


def ideal_schedule(schedule: Schedule) -> Schedule:
    """Return the tests with all of them kept: the law of the ideal estimator."""
    levels = tuple(
        replace(level, quota=level.candidates, selection_scale=None) for level in schedule.levels
    )
    return replace(schedule, levels=levels)


@dataclass(frozen=True)
class Run:
    """One S, the mechanism's output on it, and an independent ideal output on it."""

    error: float  # ||Sigma_hat - Sigma||_op
    deviation: float  # ||S - Sigma||_max
    largest_entry: float  # ||S||_max
    quiet_entry: float  # largest |S_e| where Sigma_e = 0
    false_entries: int  # nonzero outputs where Sigma_e = 0
    fluctuation: float  # ||Sigma_id - mean||_op
    mean_error: float  # ||mean - Sigma||_op
    bias: float  # ||mean - S||_max over entries


@dataclass(frozen=True)
class IdealSample:
    """The ideal estimator drawn many times at one fixed S, on the entries that can fire."""

    statistic: FloatArray  # the upper triangle of S
    able: IndexArray  # positions in it that can open a gate
    draws: int
    average: FloatArray
    variance: FloatArray
    exact: IdealMoments


def simulate_runs(
    setting: Setting, runs: int, *, seed: int = 0, progress: Progress = unwatched
) -> tuple[Run, ...]:
    """Draw `runs` independent S and run the mechanism once on each."""
    results = []
    truth, schedule = setting.truth[setting.upper], setting.parameters.schedule
    off = truth == 0
    for generator in _streams(seed, runs):
        S = setting.draw_covariance(int(generator.integers(_LARGEST_SEED)))
        released = estimate(setting, S, schedule, generator)
        ideal = estimate(setting, S, ideal_schedule(schedule), generator)
        mean = mean_formula(S, setting.parameters)
        results.append(
            Run(
                error=operator_norm_error(setting.symmetric(released), setting.truth),
                deviation=float(np.abs(S - truth).max()),
                largest_entry=float(np.abs(S).max()),
                quiet_entry=float(np.abs(S[off]).max(initial=0.0)),
                false_entries=int(np.count_nonzero(released[off])),
                fluctuation=operator_norm(setting.symmetric(ideal - mean)),
                mean_error=operator_norm_error(setting.symmetric(mean), setting.truth),
                bias=float(np.abs(mean - S).max()),
            )
        )
        progress()
    return tuple(results)


def estimate(
    setting: Setting, S: FloatArray, schedule: Schedule, generator: np.random.Generator
) -> FloatArray:
    """Return the upper triangle of one output of Algorithm 1 with the given schedule."""
    gates = sample_exact(S / setting.base_threshold, schedule, generator)
    return np.asarray(schedule.integers(gates) * schedule.unit)


def draw_ideal(setting: Setting, *, seed: int = 0, sampler: Sampler = sample_exact) -> IdealSample:
    """Repeat the ideal estimator at one S.

    Without selection entries are independent, so repetitions are further entries of one draw.
    """
    (generator,) = _streams(seed, 1)
    S = setting.draw_covariance(int(generator.integers(_LARGEST_SEED)))
    schedule = ideal_schedule(setting.parameters.schedule)
    able = np.flatnonzero(np.abs(S) > (1 - schedule.gate_clip) * setting.base_threshold)
    draws = max(30, _ENTRY_DRAWS // max(1, len(able)))
    gates = sampler(np.tile(S[able] / setting.base_threshold, draws), schedule, generator)
    values = (schedule.integers(gates) * schedule.unit).reshape(draws, len(able))
    return IdealSample(
        statistic=S,
        able=able,
        draws=draws,
        average=values.mean(axis=0),
        variance=values.var(axis=0, ddof=1),
        exact=ideal_moments(S[able], setting.parameters),
    )


def _streams(seed: int, count: int) -> list[np.random.Generator]:
    return [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(count)]


@dataclass(frozen=True)
class Claim:
    """A statement `measured <= bound` with its source, and the same number by a second route.

    Where `logarithmic`, the three numbers are decimal logarithms of probabilities and minus
    infinity stands for an event that cannot happen.
    """

    name: str
    source: str
    statement: str
    bound: float
    measured: float
    second: float  # the same quantity by an independent route; it must keep the bound too
    holds: bool
    detail: str
    logarithmic: bool = False
    vacuous: bool = False  # true because this setting has nothing it speaks of

    @property
    def margin(self) -> float:
        """bound / measured; of logarithms, how many decades the measured one lies below."""
        if self.logarithmic:
            return self.bound - self.measured
        return self.bound / self.measured if self.measured else math.inf

    def to_dict(self) -> dict[str, object]:
        """Return plain data."""
        return asdict(self) | {"margin": self.margin}


class Numbers(NamedTuple):
    """Measurements of a claim; natural logarithms where it is logarithmic."""

    bound: float
    measured: float
    second: float
    detail: str = ""
    also: bool = True  # what else must be true
    vacuous: bool = False


@dataclass(frozen=True)
class Check:
    """A claim that is yet to be checked: its name, its source, what it says, how to measure it."""

    measure: Callable[..., Numbers]
    name: str
    source: str
    statement: str
    logarithmic: bool = False

    def __call__(self, *known: Any, **options: Any) -> Claim:
        """Return the claim, which holds if both numbers keep the bound."""
        *numbers, detail, also, vacuous = self.measure(*known, **options)
        unit = LOG10 if self.logarithmic else 1.0
        bound, measured, second = (float(value) / unit for value in numbers)
        slack = ROUNDING * (max(1.0, abs(bound)) if self.logarithmic else abs(bound))
        # A NaN compares false, so a computation that broke down never passes.
        holds = bool(measured <= bound + slack and second <= bound + slack and also)
        words = self.name, self.source, self.statement
        return Claim(*words, bound, measured, second, holds, detail, self.logarithmic, vacuous)


def claim(
    name: str, source: str, statement: str, *, logarithmic: bool = False
) -> Callable[[Callable[..., Numbers]], Check]:
    """Decorate what measures a claim; it takes any of setting, runs, sample and seed by name."""
    return lambda measure: Check(measure, name, source, statement, logarithmic)


def agree(first: float, second: float, tolerance: float = 1e-9) -> bool:
    """Return whether two computations of one number agree, in relative terms."""
    return math.isclose(first, second, rel_tol=tolerance, abs_tol=0.0)
