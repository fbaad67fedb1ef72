"""Covariance models with parameters, runs of the mechanism on them, and claims to verify.

Second moments S are drawn from their exact law, Wishart, so that no number of records is too large.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property

import numpy as np

from hushcov._arrays import FloatArray, IndexArray, IntArray
from hushcov.metrics import operator_norm, operator_norm_error
from hushcov.paper import (
    PublicInputs,
    Schedule,
    TheoremParameters,
    sample_exact,
    theorem_parameters,
)
from hushcov.paper.verification.numerics import Moments, ideal_moments, mean_formula
from hushcov.simulate import sparse_covariance, wishart_moments

Progress = Callable[[int], object]
Sampler = Callable[[FloatArray, Schedule, np.random.Generator], IntArray]

_ENTRY_DRAWS = 60_000  # entries times repetitions of the ideal estimator at one S
_LARGEST_SEED = 2**63
_SWEEP_POINTS = 5  # on either side of the smallest accurate number of records
SWEEP_RUNS = 3
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
    def truth(self) -> FloatArray:
        """Sigma, with operator norm sigma^2: the largest the theorem allows."""
        unit = sparse_covariance(self.model, self.inputs.n_features, self.inputs.row_sparsity)
        return np.asarray(self.inputs.scale**2 * unit)

    @cached_property
    def upper(self) -> tuple[IndexArray, IndexArray]:
        """Rows and columns of the upper triangle, in the samplers' order."""
        return np.triu_indices(self.parameters.inputs.n_features)

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
    def base_threshold(self) -> float:
        """t_0."""
        return self.parameters.thresholds[0]

    @property
    def target(self) -> float:
        """The operator-norm error alpha sigma^2 that Theorem 1 promises."""
        return self.inputs.target_error * self.inputs.scale**2

    def draw_covariance(self, seed: int, truth: FloatArray | None = None) -> FloatArray:
        """The upper triangle of one S of n Gaussian records with covariance `truth`."""
        sigma = self.truth if truth is None else truth
        moments = wishart_moments(sigma, self.parameters.inputs.n_records, random_state=seed)
        return np.asarray(moments.covariance[self.upper])

    def symmetric(self, upper: FloatArray) -> FloatArray:
        """The full matrix of an upper triangle."""
        d = self.parameters.inputs.n_features
        matrix = np.zeros((d, d))
        rows, columns = self.upper
        matrix[rows, columns] = upper
        matrix[columns, rows] = upper
        return matrix


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
    """Build a setting; without `n_records` at the smallest n with the theorem's r and b."""
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
    exact: Moments


@dataclass(frozen=True)
class Sweep:
    """Errors over target at several numbers of records, some runs at each."""

    setting: Setting
    records: tuple[int, ...]
    relative_errors: tuple[tuple[float, ...], ...]


def simulate_runs(
    setting: Setting, runs: int, *, seed: int = 0, progress: Progress | None = None
) -> tuple[Run, ...]:
    """Draw `runs` independent S and run the mechanism once on each."""
    results = []
    for generator in _streams(seed, runs):
        results.append(_run(setting, generator))
        if progress is not None:
            progress(1)
    return tuple(results)


def _run(setting: Setting, generator: np.random.Generator) -> Run:
    S = setting.draw_covariance(int(generator.integers(_LARGEST_SEED)))
    truth = setting.truth[setting.upper]
    schedule = setting.parameters.schedule
    released = estimate(setting, S, schedule, generator)
    ideal = estimate(setting, S, ideal_schedule(schedule), generator)
    mean = mean_formula(S, setting.parameters)
    off = truth == 0
    return Run(
        error=operator_norm_error(setting.symmetric(released), setting.truth),
        deviation=float(np.abs(S - truth).max()),
        largest_entry=float(np.abs(S).max()),
        quiet_entry=float(np.abs(S[off]).max(initial=0.0)),
        false_entries=int(np.count_nonzero(released[off])),
        fluctuation=operator_norm(setting.symmetric(ideal - mean)),
        mean_error=operator_norm_error(setting.symmetric(mean), setting.truth),
        bias=float(np.abs(mean - S).max()),
    )


def estimate(
    setting: Setting, S: FloatArray, schedule: Schedule, generator: np.random.Generator
) -> FloatArray:
    """The upper triangle of one output of Algorithm 1 with the given schedule."""
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


def records_sweep(setting: Setting) -> list[int]:
    """Numbers of records from the smallest private one to 100 times the smallest accurate one."""
    private = setting.parameters.smallest_private_n
    accurate = setting.parameters.smallest_accurate_n
    below = np.geomspace(private, accurate, _SWEEP_POINTS)[1:-1]
    above = np.geomspace(accurate, 100 * accurate, _SWEEP_POINTS)[1:]
    points = [private, *below, accurate, *above]
    return [int(point) for point in points]


def error_against_records(
    setting: Setting,
    records: Sequence[int],
    runs: int = SWEEP_RUNS,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> Sweep:
    """Run the mechanism `runs` times at each number of records."""
    errors = []
    for index, n_records in enumerate(records):
        inputs = replace(setting.inputs, n_records=n_records)
        here = Setting(setting.model, theorem_parameters(inputs))
        ratios = []
        for generator in _streams(seed + 1 + index, runs):
            S = here.draw_covariance(int(generator.integers(_LARGEST_SEED)))
            released = estimate(here, S, here.parameters.schedule, generator)
            ratios.append(operator_norm_error(here.symmetric(released), here.truth) / here.target)
            if progress is not None:
                progress(1)
        errors.append(tuple(ratios))
    return Sweep(setting, tuple(records), tuple(errors))


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
        """Return JSON-ready data; a number that is not finite becomes None."""
        values = asdict(self) | {"margin": self.margin}
        return {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in values.items()
        }


def at_most(
    name: str,
    source: str,
    statement: str,
    *,
    bound: float,
    measured: float,
    second: float,
    detail: str = "",
    also: bool = True,
    logarithmic: bool = False,
    vacuous: bool = False,
) -> Claim:
    """Build a claim that holds if both numbers keep the bound, and whatever `also` demands."""
    slack = ROUNDING * max(1.0, abs(bound)) if logarithmic else ROUNDING * abs(bound)
    # A NaN compares false, so a computation that broke down never passes.
    holds = measured <= bound + slack and second <= bound + slack and also
    numbers = float(bound), float(measured), float(second)
    return Claim(name, source, statement, *numbers, bool(holds), detail, logarithmic, vacuous)


def agree(first: float, second: float, tolerance: float = 1e-9) -> bool:
    """Whether two computations of one number give the same one, in relative terms."""
    return math.isclose(first, second, rel_tol=tolerance, abs_tol=0.0)
