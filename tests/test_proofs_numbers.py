"""Numbers quoted in docs/proofs/multiscale.md, evaluated. Section by section, as on the page."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import special

from hushcov.inputs import PublicInputs
from hushcov.kernel.accounting import gaussian_delta
from hushcov.paper import samplers as order_statistics
from hushcov.paper.mechanism import certify
from hushcov.paper.parameters import (
    Level,
    Schedule,
    rounding_inflation,
    theorem_parameters,
    total_variation,
)
from hushcov.paper.samplers import select_largest

LARGEST_INFLATION = 8 / 3  # 1 + x on the page


def parameters(n_records=10**13, n_features=2, row_sparsity=1, **changes):
    inputs = {
        "target_error": 0.25,
        "epsilon": 1.0,
        "delta": 0.1,
        "failure_probability": 0.1,
        "scale": 1.0,
    }
    return theorem_parameters(PublicInputs(n_records, n_features, row_sparsity, **inputs | changes))


# Step 2


def test_the_selection_theorem_covers_the_largest_budgets():
    largest = parameters()  # the largest epsilon, delta and alpha, the smallest d and k
    selection = certify(largest, private=True, exact_statistic=True).events[0]
    assert largest.n_levels == 11
    assert selection.epsilon == 1 / 88
    assert selection.delta == pytest.approx(1 / 3520, rel=1e-6, abs=0)
    assert selection.epsilon * LARGEST_INFLATION < 0.031
    assert min(largest.candidates) >= 3


def test_the_pure_bound_covers_the_quota_between_the_two_cases():
    """C0 log(M/delta) <= s < C0 log(M/delta) + 1 with C0 = 3.9^2 and log(M/delta) >= log 40."""
    for log_term in np.linspace(math.log(2 / 0.05), 200, 20_000):
        s = math.ceil(3.9**2 * log_term)
        assert 8 * math.sqrt(s * log_term) >= 2 * s


# Step 4


def test_the_gaussian_calibration_holds_with_room():
    """delta(eps0) <= delta0/4 for all eps0, delta0 <= 1, and below 0.02 delta0 on the curve."""
    assert math.log(2) > 1 / (4 * (2 - math.sqrt(2)))
    for delta in np.geomspace(1e-300, 1, 40):
        w = math.sqrt(math.log(2 / delta))
        assert special.ndtr(-math.sqrt(2) * w) <= delta / 4
        for epsilon in np.geomspace(1e-6, 1, 25):
            assert 2 * w - epsilon / (4 * w) >= math.sqrt(2) * w
            assert gaussian_delta(epsilon / (2 * w), epsilon) <= 0.02 * delta


def test_the_gates_keep_their_delta_at_the_largest_sensitivity():
    epsilon = np.linspace(1e-6, 1, 10_001)
    growth = (1 + np.exp(LARGEST_INFLATION * epsilon / 4)) / (1 + np.exp(epsilon / 4))
    assert growth.max() == growth[-1] < 1.2906
    assert 1 / 64 + 1.2906 / 16 < 0.0963 < 1 / 8


# Step 5


def test_the_clipping_slack_underflows_where_the_page_says():
    assert math.exp(-1 / (32 * 0.006**2)) == 0
    assert math.exp(-1 / (32 * 0.0065**2)) > 0


def test_the_condition_on_r_implies_the_precondition():
    """Lemma on n: at r = 1/(8 sqrt(Gamma)) the slack is far below what is allowed."""
    for d, k, delta in itertools.product((2, 100, 10**5), (1, 2), (0.1, 1e-6, 1e-30)):
        p = parameters(n_features=d, row_sparsity=k, delta=delta)
        M, L = sum(p.candidates), p.n_levels
        log_eta = math.log(2) + math.log(p.total_quota) - 2 * p.union_log
        assert log_eta <= math.log(0.1**2 * delta**2 / (3200 * L**2 * M)) + 1e-9
        assert math.log1p(math.exp(0.25)) + log_eta < math.log(delta / 16)


# Step 8


def test_the_largest_number_of_records_for_moments_in_doubles():
    assert (1 + rounding_inflation(7_500_000_000_000_000)) * 3 / 8 <= 1
    assert (1 + rounding_inflation(7_510_000_000_000_000)) * 3 / 8 > 1
    certify(parameters(7_500_000_000_000_000), private=True, exact_statistic=False)
    with pytest.raises(ValueError, match=r"at most 7\.5e15"):
        certify(parameters(7_510_000_000_000_000), private=True, exact_statistic=False)


@pytest.mark.parametrize("q", [1e-6, 0.01, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("error", [-1e-2, -1e-3, 1e-3, 1e-2])
def test_the_divergence_of_one_draw(q, error):
    theta = math.log(q / (1 - q))
    wrong = special.expit(theta + error)
    divergence = special.rel_entr([wrong, 1 - wrong], [q, 1 - q]).sum()
    assert divergence <= q * (1 - q) * error**2 / 2 * math.exp(abs(error))
    assert divergence >= q * (1 - q) * error**2 / 2 * math.exp(-2 * abs(error))


class Uniforms:
    """Points of group g uniform on [start_g, start_g + 1]."""

    def __init__(self, start):
        self.start = start
        self.support = (float(start.min()), float(start.max()) + 1)

    def _mass(self, groups, lo, hi):
        low, high = np.maximum(lo, self.start[groups]), np.minimum(hi, self.start[groups] + 1)
        return np.maximum(high - low, 0.0)

    def masses(self, groups, lo, split, hi):
        return self._mass(groups, split, hi), self._mass(groups, lo, split)

    def draw(self, generator, groups, lo, hi):
        low = np.maximum(lo, self.start[groups])
        points = low + self._mass(groups, lo, hi) * generator.random(len(groups))
        return points, points


@pytest.mark.parametrize("share", [0.02, 0.5, 0.97])
@pytest.mark.parametrize("splits", ["near the edge", "anywhere"])
def test_all_splits_together_weigh_less_than_the_candidates(monkeypatch, share, splits):
    """The variances add up to at most M + sqrt(R M) + R, for good split points and for bad ones."""
    variances = []
    draw = order_statistics.binomial

    def recorded(generator, counts, success, failure):
        q = success / (success + failure)
        variances.append(float(np.sum(counts * q * (1 - q))))
        return draw(generator, counts, success, failure)

    generator = np.random.default_rng(7)
    family = Uniforms(-np.sort(-generator.exponential(size=300)))
    if splits == "anywhere":
        low, high = family.support
        monkeypatch.setattr(
            order_statistics,
            "_search",
            lambda points, target, deviation, family: generator.uniform(
                max(points.lo, low), min(points.hi, high)
            ),
        )
    monkeypatch.setattr(order_statistics, "binomial", recorded)
    counts = generator.integers(1, 20_000, size=300)
    M = int(counts.sum())
    select_largest(generator, counts, round(share * M), family)
    rounds = len(variances)
    assert rounds >= 2
    assert sum(variances) <= M + math.sqrt(rounds * M) + rounds


def levels_met(a, clip):
    """Dyadic levels [2^ell, 2^(ell+1)] that meet the thresholds with an uncertain gate."""
    low, high = a / (1 + clip), a / (1 - clip)
    return sum(1 for ell in range(-5, 15) if low < 2.0 ** (ell + 1) and 2.0**ell < high)


def test_how_many_levels_have_uncertain_gates():
    sizes = np.geomspace(1, 4, 5_001)
    assert max(levels_met(a, 0.25) for a in sizes) == 2
    assert max(levels_met(a, 1 / 3) for a in sizes) == 2
    assert max(levels_met(a, 0.5) for a in sizes) == 3


@pytest.mark.parametrize("d", [2, 50])
def test_groups_with_a_certain_gate_have_variance_below_one(d):
    p = parameters(n_features=d, row_sparsity=2)
    for m, inactive in zip(p.repetitions, p.inactivations, strict=True):
        assert m * inactive < 1


@pytest.mark.parametrize("sd", [3.2, 30.0, 1e6])
def test_how_finely_the_binomial_proposal_resolves_integers(sd):
    """BTRS: x = (2a/m + b) u with m = 1/2 - |u|, so |dx/du| = b + a/m^2."""
    b = 1.15 + 2.53 * sd
    a = -0.0873 + 0.0248 * b + 0.005
    m = np.geomspace(1e-4, 0.5, 1_000_001)
    z = (2 * a / m + b) * (0.5 - m) / sd
    slope = (b + a / m**2) / sd
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    mean_square = 2 * np.trapezoid((slope**2 * density)[::-1], z[::-1])
    assert 9.4 < math.sqrt(mean_square) < 9.6
    assert math.sqrt(mean_square) * 2**-53 == pytest.approx(1.06e-15, rel=0.01, abs=0)


def one_level(candidates, quota, selection_scale):
    level = Level(1.0, candidates // 3, 1.0, 0.0, candidates, quota, selection_scale)
    return Schedule(2, (level,), 1.0, 0.01, 0.25, 1.0)


def test_what_is_charged():
    """Change the page together with the charge: step 8, "What is charged"."""
    M = 3 * 10**12
    selecting = total_variation(one_level(M, M // 3, 1.0)) - 256 * 2.0**-46
    full = total_variation(one_level(M, M, None))
    assert selecting == pytest.approx(4e-15 / 2 * math.sqrt(1.75 * M), rel=1e-6, abs=0)
    assert full == pytest.approx(4e-15 / 2 * math.sqrt(0.25 * M), rel=1e-6, abs=0)
    # Without a clip gates have two signs, each with its own draw.
    free = replace(one_level(M, M // 3, 1.0), gate_clip=math.inf)
    selecting = total_variation(free) - 256 * 2.0**-46
    assert selecting == pytest.approx(4e-15 / 2 * math.sqrt(2 * M), rel=1e-6, abs=0)
    full = total_variation(replace(one_level(M, M, None), gate_clip=math.inf))
    assert full == pytest.approx(4e-15 / 2 * math.sqrt(0.5 * M), rel=1e-6, abs=0)


@pytest.mark.parametrize("M", [400, 4 * 10**5, 10**12])
def test_the_share_that_all_splits_take(M):
    """M + sqrt(R M) + R is at most 1.5 M over 40 rounds, the most seen, or fewer."""
    rounds = 40 if M > 10**4 else 11
    assert M + math.sqrt(rounds * M) + rounds <= 1.5 * M


# Accuracy


def test_the_error_budget_of_the_theorem():
    assert 17 / 16 / 256 == 17 / 4096
    assert math.sqrt(2 / 4096) + 1024 / (3 * 4096 * 11) <= 1 / 2
    assert math.fsum([1 / 10, 1 / 20, 1 / 40, 1 / 40]) == pytest.approx(1 / 5, rel=1e-6, abs=0)
    assert 17 / 4096 + 1 / 2 < 1


@pytest.mark.parametrize(
    ("d", "k", "by_r_and_b", "by_concentration"),
    [(2, 1, 2.9e9, 8e9), (20, 2, 5e10, 5e10), (100, 5, 1.5e15, 4.1e11)],
)
def test_accurate_does_not_contain_the_concentration_of_s(d, k, by_r_and_b, by_concentration):
    """Diagonal entries of Gaussian records have variance 2 sigma^4/n; two tails, d^2 entries."""
    p = parameters(n_features=d, row_sparsity=k, delta=1e-6)
    assert p.smallest_accurate_n == pytest.approx(by_r_and_b, rel=0.1, abs=0)
    needed = 4 / (p.thresholds[0] / 16) ** 2 * math.log(2 * d**2 / (0.1 / 20))
    assert needed == pytest.approx(by_concentration, rel=0.1, abs=0)


def test_accurate_contains_the_rounding_to_the_grid():
    n = parameters(n_features=100, row_sparsity=5, delta=1e-6).smallest_accurate_n
    p = parameters(n, 100, 5, delta=1e-6)
    assert n == pytest.approx(1.46e15, rel=0.01, abs=0)
    assert p.half_width == 32767 * 2**15
    assert p.rounding_error == pytest.approx(8.9e-9, rel=0.01, abs=0)
    assert p.thresholds[0] / 16 == pytest.approx(1.2e-5, rel=0.02, abs=0)
    assert p.rounding_error <= p.thresholds[0] / 1024
    coarse = math.isqrt(2**62 // n)
    assert coarse == 56
    assert (p.clip_radius / coarse) ** 2 / 12 == pytest.approx(2.4e-3, rel=0.02, abs=0)
    assert pytest.approx(1.032, rel=1e-3, abs=0) == (64 / 63) ** 2
