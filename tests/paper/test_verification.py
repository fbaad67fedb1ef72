"""Every claim holds at the paper's constants, and fails when its ground is taken away."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, special, stats

from hushcov.noise import Entropy
from hushcov.paper.mechanism import release_multiscale
from hushcov.paper.parameters import Schedule, gate_correction, theorem_parameters
from hushcov.paper.samplers import sample_exact
from hushcov.paper.verification import claims
from hushcov.paper.verification import simulation as numerics
from hushcov.paper.verification.claims import N_CLAIMS, Verification, to_dict, verify_setting
from hushcov.paper.verification.simulation import (
    Check,
    Claim,
    IdealSample,
    Numbers,
    Run,
    Setting,
    correction_by_moments,
    draw_ideal,
    estimate,
    fired_length,
    fired_length_by_thresholds,
    ideal_moments,
    make_setting,
    mean_formula,
    read_again,
    simulate_runs,
)
from hushcov.simulate import wishart_moments


@pytest.mark.parametrize("r", [1e-6, 1e-3, 0.02, 0.3])
def test_correction_two_ways(r: float) -> None:
    assert math.isclose(correction_by_moments(r, 0.25), gate_correction(r, 0.25), rel_tol=1e-13)


@pytest.mark.parametrize("r", [1e-3, 0.02, 0.3])
@pytest.mark.parametrize("a", [0.76, 0.9, 1.0, 1.3, 1.9, 2.6])
def test_fired_length_against_quadrature_over_thresholds(r: float, a: float) -> None:
    def gate(t: float) -> float:
        y = 1 - a / t
        return float(y < 0.25) * (1.0 if y < -0.25 else 0.5 * special.erfc(y / (r * math.sqrt(2))))

    kinks = (a, a / 1.25, a / 0.75, *(a + j * r for j in (-15, -5, 5, 15)))
    edges = sorted({1.0, 2.0, *(x for x in kinks if 1 < x < 2)})
    expected = sum(
        integrate.quad(gate, low, high, epsabs=1e-13, limit=200)[0] for low, high in pairwise(edges)
    )
    drawn = fired_length(np.array([a]), 1.0, 2.0, r, 0.25)[0]
    assert math.isclose(drawn, expected, rel_tol=1e-8, abs_tol=1e-12)


@pytest.mark.parametrize("r", [1e-7, 1e-3, 0.1, 0.9])
def test_scalar_identity_both_ways(r: float) -> None:
    kappa = correction_by_moments(r, 0.25)
    assert math.isclose(fired_length_by_thresholds(2.5, r, 0.25), 2.5 * kappa, rel_tol=1e-12)
    by_noise = fired_length(np.array([2.5]), 0.0, math.inf, r, 0.25)[0]
    assert math.isclose(by_noise, 2.5 * kappa, rel_tol=1e-12)


def test_levels_add_up_to_the_formula() -> None:
    setting = make_setting("random", 30, 4)
    S = setting.draw_covariance(1)
    moments = ideal_moments(S, setting.parameters)
    np.testing.assert_allclose(moments.mean, mean_formula(S, setting.parameters), rtol=1e-9, atol=0)


def test_exact_variance_is_the_variance_of_draws() -> None:
    sample = draw_ideal(make_setting("block", 6, 2), seed=4)
    ratio = sample.variance / sample.exact.variance
    # 9 entries with over 6,000 draws each: a standard error is about 0.018.
    np.testing.assert_allclose(ratio, 1, atol=0.1)


@pytest.mark.parametrize(("count", "p", "limit"), [(50, 0.3, 20), (1000, 0.9, 950), (40, 0.5, 39)])
def test_binomial_tail(count: int, p: float, limit: int) -> None:
    exact = stats.binom.logsf(limit, count, p)
    bound = numerics.log_binomial_above(limit, count, p, 1 - p)
    assert exact <= bound <= exact + 0.5


def test_binomial_tail_at_its_ends() -> None:
    assert numerics.log_binomial_above(10, 10, 0.5, 0.5) == -math.inf
    assert numerics.log_binomial_above(4, 10, 0.5, 0.5) == 0.0


@pytest.mark.parametrize("x", [1.0, 8.0, 40.0, 3e4])
def test_gaussian_tail_two_ways(x: float) -> None:
    direct, integrated = numerics.log_two_sided(x), numerics.log_two_sided_by_quadrature(x)
    assert math.isclose(direct, integrated, rel_tol=1e-9)


def test_any_of_many() -> None:
    assert math.isclose(numerics.log_any(math.log(0.1), 3), math.log(1 - 0.9**3))
    assert math.isclose(numerics.log_any(-200, 1e10), math.log(1e10) - 200)
    assert math.isclose(numerics.log_any(-31, 1e20), 0.0, abs_tol=1e-9)


@pytest.mark.parametrize("correlation", [-0.6, 0.0, 0.5])
def test_product_deviation_bounds_the_tail(correlation: float) -> None:
    generator = np.random.default_rng(5)
    n, draws, tau = 40, 50_000, 0.35
    x, z = generator.standard_normal((2, draws, n))
    y = correlation * x + math.sqrt(1 - correlation**2) * z
    hits = np.sum(np.abs(np.mean(x * y, axis=1) - correlation) > tau)
    law = np.array([correlation]), np.ones(1), tau, n
    assert hits / draws <= math.exp(numerics.log_product_deviation(*law)[0])
    sharp = math.exp(numerics.log_product_deviation(*law, sharp=True)[0])
    # Five standard errors (false alarm 6e-7), and 1 % for the approximation at n = 40.
    assert abs(hits - draws * sharp) <= 5 * math.sqrt(draws * sharp) + 0.01 * draws * sharp


def test_product_deviation_of_a_square_is_chi_square() -> None:
    n, tau = 10**6, 0.005
    exact = stats.chi2.sf(n * (1 + tau), n) + stats.chi2.cdf(n * (1 - tau), n)
    bound = numerics.log_product_deviation(np.ones(1), np.ones(1), tau, n)[0]
    assert exact <= math.exp(bound) <= 30 * exact
    sharp = numerics.log_product_deviation(np.ones(1), np.ones(1), tau, n, sharp=True)[0]
    assert math.isclose(math.exp(sharp), exact, rel_tol=1e-4)


def test_clopper_pearson() -> None:
    assert math.isclose(numerics.clopper_pearson(30, 30), 0.05 ** (1 / 30))
    assert numerics.clopper_pearson(0, 30) == 0.0
    assert numerics.clopper_pearson(29, 30) < numerics.clopper_pearson(30, 30)


@pytest.mark.parametrize(
    ("features", "sparsity", "alpha", "scale"),
    [(20, 2, 0.25, 1.0), (100, 5, 0.25, 3.0), (400, 40, 1 / 64, 0.01)],
)
def test_the_second_reading_agrees_with_the_first(
    features: int, sparsity: int, alpha: float, scale: float
) -> None:
    setting = make_setting("block", features, sparsity, target_error=alpha, scale=scale)
    parameters = theorem_parameters(setting.parameters.inputs)
    again = read_again(parameters.inputs)
    pairs = [
        (again.gate_noise, parameters.gate_noise),
        (again.union_log, parameters.union_log),
        (again.log_clipping_slack, parameters.log_clipping_slack),
        (float(again.query_budget), parameters.query_budget),
        (again.sensitivity, parameters.entry_sensitivity),
        *zip(again.selection_scales, [b or 0.0 for b in parameters.selection_scales], strict=True),
    ]
    for second, first in pairs:
        assert math.isclose(second, first, rel_tol=1e-10)


def test_a_claim_that_broke_down_does_not_hold() -> None:
    broken_down = Check(lambda: Numbers(1.0, math.nan, 0.0), "name", "source", "statement")
    assert broken_down().holds is False


@cache
def small() -> Setting:
    """The paper's constants at d = 20, where every level keeps all its tests."""
    return make_setting("block", 20, 2)


@cache
def selecting() -> Setting:
    """A setting in which tests can fire at a level that selects."""
    return make_setting("block", 210, 5)


@cache
def too_few_records() -> Setting:
    return make_setting("block", 20, 2, n_records=10**9)


@cache
def runs(setting: Setting) -> tuple[Run, ...]:
    return simulate_runs(setting, 3, seed=1)


@cache
def ideal(setting: Setting) -> IdealSample:
    return draw_ideal(setting, seed=1)


def broken(setting: Setting, **changes: object) -> Setting:
    return Setting(setting.model, replace(setting.parameters, **changes))  # type: ignore[arg-type]


def times(setting: Setting, name: str, factor: float) -> Setting:
    return broken(setting, **{name: getattr(setting.parameters, name) * factor})


def noisier(setting: Setting, factor: float) -> Setting:
    scales = setting.parameters.selection_scales
    return broken(setting, selection_scales=tuple(b and b * factor for b in scales))


def thriftier(setting: Setting, divisor: int) -> Setting:
    """Quotas divided at the levels that select."""
    p = setting.parameters
    quotas = zip(p.quotas, p.selection_scales, strict=True)
    return broken(setting, quotas=tuple(s // divisor if b else s for s, b in quotas))


def changed_runs(**changes: object) -> tuple[Run, ...]:
    return tuple(replace(run, **changes) for run in runs(small()))  # type: ignore[arg-type]


def shrinking(factor: float) -> Callable[..., np.ndarray]:
    """A sampler whose gates fire too seldom."""

    def sample(
        statistic: np.ndarray, schedule: Schedule, generator: np.random.Generator
    ) -> np.ndarray:
        gates = sample_exact(statistic, schedule, generator)
        fewer = generator.binomial(np.abs(gates), factor)
        return np.sign(gates) * fewer

    return sample


def repeating(
    statistic: np.ndarray, schedule: Schedule, generator: np.random.Generator
) -> np.ndarray:
    """A sampler with the right mean whose tests come in pairs: the variance is doubled."""
    levels = []
    for level in schedule.levels:
        half = max(1, level.repetitions // 2)
        tests = half * schedule.n_entries
        assert level.selection_scale is None  # every test is kept
        levels.append(replace(level, repetitions=half, candidates=tests, quota=tests))
    schedule = replace(schedule, levels=tuple(levels))
    return 2 * sample_exact(statistic, schedule, generator)


# Claim, what is wrong, and the check that must notice.
FAILURES: dict[str, Callable[[], Claim]] = {
    "final error: error above target": lambda: claims.final_error(
        small(), changed_runs(error=0.3), ideal(small())
    ),
    "failure probability: too few records": lambda: claims.failure_probability(
        too_few_records(), ideal(too_few_records())
    ),
    "clipping: radius too small": lambda: claims.clipping(times(small(), "clip_radius", 0.97)),
    "covariance event: S far from Sigma": lambda: claims.covariance_event(
        too_few_records(), runs(too_few_records())
    ),
    "gate correction: kappa too large": lambda: claims.gate_correction(
        times(small(), "gate_correction", 1.001)
    ),
    "gate correction: kappa below one": lambda: claims.gate_correction(
        broken(small(), gate_correction=0.999)
    ),
    "scalar identity: kappa wrong": lambda: claims.scalar_identity(
        times(small(), "gate_correction", 1.000001)
    ),
    "conditional mean: sampler fires 1 % too seldom": lambda: claims.conditional_mean(
        small(), draw_ideal(small(), sampler=shrinking(0.99))
    ),
    "bias: kappa too small for the bias": lambda: claims.bias(
        broken(small(), gate_correction=0.99), runs(small()), ideal(small())
    ),
    "bias: bias of a run too large": lambda: claims.bias(
        small(), changed_runs(bias=1.1 * small().base_threshold), ideal(small())
    ),
    "top threshold: thresholds end too low": lambda: claims.top_threshold(
        broken(small(), thresholds=small().parameters.thresholds[:-1]), runs(small())
    ),
    "off the support: output off the support": lambda: claims.off_support(
        small(), changed_runs(false_entries=1)
    ),
    "off the support: loud entry off the support": lambda: claims.off_support(
        small(), changed_runs(quiet_entry=0.1 * small().base_threshold)
    ),
    "error of the mean: mean far from Sigma": lambda: claims.mean_error(
        small(), changed_runs(mean_error=2.2 * small().base_threshold)
    ),
    "matrix variance: tests in pairs": lambda: claims.matrix_variance(
        small(), draw_ideal(small(), sampler=repeating)
    ),
    "matrix concentration: fluctuation above the radius": lambda: claims.matrix_concentration(
        small(), changed_runs(fluctuation=0.03 * small().target), ideal(small())
    ),
    "radius: too few tests": lambda: claims.concentration_radius(times(small(), "test_rate", 1e-3)),
    "quota use: quotas cut": lambda: claims.quota_use(thriftier(selecting(), 1000)),
    "quota event: quotas cut, tail": lambda: claims.quota_event(thriftier(selecting(), 1000)),
    "selection noise: selection noise doubled": lambda: claims.selection_noise(
        noisier(selecting(), 2)
    ),
    "noise event: selection noise times 100": lambda: claims.noise_event(noisier(selecting(), 100)),
    "coupling: selection noise times 1000": lambda: claims.coupling(noisier(selecting(), 1000)),
    "coupling in law: selection drops tests": lambda: claims.coupling_in_law(
        thriftier(selecting(), 1000)
    ),
    "coupling in law: sampler drops 1 % of the gates": lambda: claims.coupling_in_law(
        selecting(), sampler=shrinking(0.99)
    ),
    "entry sensitivity: sensitivity halved": lambda: claims.entry_sensitivity(
        times(small(), "entry_sensitivity", 0.5)
    ),
    "query sensitivity: query budget too small": lambda: claims.query_sensitivity(
        times(small(), "query_budget", 0.99)
    ),
    "query sensitivity: quotas other than the paper's": lambda: claims.query_sensitivity(
        broken(small(), quotas=tuple(s - 1 for s in small().parameters.quotas))
    ),
    "query budget: query budget too large": lambda: claims.budget_size(
        times(small(), "query_budget", 100)
    ),
    "selection range: too few levels": lambda: claims.selection_range(broken(small(), n_levels=10)),
    "selection budget: selection noise too small": lambda: claims.selection_calibration(
        noisier(selecting(), 0.99)
    ),
    "gate noise: gate noise too large": lambda: claims.gate_noise(
        times(small(), "gate_noise", 1.01)
    ),
    "Gaussian protection: gate noise too small": lambda: claims.gaussian_protection(
        times(small(), "gate_noise", 0.3)
    ),
    "noise clipping: eta too small": lambda: claims.noise_clipping(
        broken(small(), log_clipping_slack=small().parameters.log_clipping_slack - 5)
    ),
    "eta condition: eta too large": lambda: claims.eta_condition(too_few_records()),
    "transcript budget: nothing certified": lambda: claims.transcript_budget(too_few_records()),
    "total delta: no delta certified": lambda: claims.total_delta(too_few_records()),
}


def test_every_claim_holds_and_can_be_reported() -> None:
    steps: list[int] = []
    result = verify_setting(small(), 5, steps.append, seed=2)
    assert [claim.name for claim in result.claims if not claim.holds] == []
    assert len({claim.name for claim in result.claims}) == len(result.claims) == N_CLAIMS
    assert sum(steps) == 5 + N_CLAIMS
    assert max(result.relative_errors) < 0.01
    assert to_dict([result])["holds"] is True
    failing = {failure.partition(":")[0] for failure in FAILURES} | {"scalar Bernstein"}
    assert failing == {claim.name for claim in result.claims}


def test_verify_returns_the_claims_and_is_reproducible() -> None:
    setting = make_setting("random", 8, 2)
    assert verify_setting(setting, 2, seed=3) == verify_setting(setting, 2, seed=3)


@pytest.mark.parametrize("failure", FAILURES, ids=str)
def test_a_claim_fails_without_its_ground(failure: str) -> None:
    claim = FAILURES[failure]()
    assert claim.name == failure.partition(":")[0]
    assert claim.holds is False


def test_scalar_bernstein_fails_with_a_wrong_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    assert claims.scalar_bernstein(small()).holds
    monkeypatch.setattr(claims, "BERNSTEIN", 2.0)
    assert not claims.scalar_bernstein(small()).holds


def test_selection_claims_are_not_empty_where_tests_can_fire() -> None:
    for check in (
        claims.selection_noise,
        claims.noise_event,
        claims.coupling,
        claims.coupling_in_law,
        claims.selection_calibration,
        claims.quota_use,
        claims.quota_event,
    ):
        claim = check(selecting())
        assert (claim.holds, claim.vacuous) == (True, False), claim.name


def test_selection_claims_say_when_they_are_empty() -> None:
    assert claims.coupling(small()).vacuous
    assert claims.coupling_in_law(small()).vacuous
    # One level selects at d = 100, but its thresholds are out of reach of any S_e.
    setting = make_setting("block", 100, 5)
    assert not claims.selection_noise(setting).vacuous
    assert claims.coupling(setting).vacuous


@pytest.mark.parametrize("model", ["block", "banded", "random"])
def test_every_model_at_1e17_records(model: str) -> None:
    setting = make_setting(model, 12, 3, n_records=10**17)
    assert all(claim.holds for claim in verify_setting(setting, 2).claims)


def test_the_scale_is_a_unit() -> None:
    one, other = (make_setting("block", 6, 2, scale=scale) for scale in (1.0, 1024.0))
    assert all(claim.holds for claim in verify_setting(other, 2).claims)
    for first, second in zip(runs(one), runs(other), strict=True):
        assert math.isclose(second.error, 1024.0**2 * first.error, rel_tol=1e-6)


def test_runs_are_runs_of_the_released_mechanism() -> None:
    setting = small()
    parameters = setting.parameters
    moments = wishart_moments(setting.truth, parameters.inputs.n_records, random_state=7)
    release = release_multiscale(moments, parameters, Entropy(np.random.default_rng(8), False))
    upper = estimate(
        setting, moments.covariance[setting.upper], parameters.schedule, np.random.default_rng(8)
    )
    np.testing.assert_array_equal(setting.symmetric(upper), release.covariance())


def test_infinite_numbers_leave_the_json() -> None:
    claim = claims.coupling(small())
    assert claim.to_dict()["measured"] is None
    assert claim.to_dict()["margin"] is None
    failed = claims.total_delta(too_few_records())
    assert not Verification(small(), runs(small()), (claim, failed)).holds
