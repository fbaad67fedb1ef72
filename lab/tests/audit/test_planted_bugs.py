"""Mistakes planted in mechanisms and steps, each of which an audit must find.

A measured epsilon above the claim happens once in a million without the mistake. Samplers are
patched wherever their name is bound; `test_audit.py` shows that each claim survives otherwise.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import hushcov_lab.audit.attack as common
import hushcov_lab.audit.gaussian
import hushcov_lab.audit.selection
from hushcov.fit.gaussian import mechanism as gaussian
from hushcov.fit.screened import mechanism as values
from hushcov.kernel import queries, session
from hushcov.kernel.noise import normal, rounded_normal
from hushcov.kernel.sums.gram import row_bounded_gram
from hushcov.kernel.sums.products import ProductMap
from hushcov.paper.parameters import Schedule
from hushcov_genotypes.queries import KeptProducts
from hushcov_lab.audit.gaussian import EigenSamplingTarget, all_steps
from hushcov_lab.audit.run import attacks_on, run_attack
from hushcov_lab.peers import eigen_sampling, separate
from hushcov_lab.peers import queries as peer_queries
from hushcov_lab.peers.coinpress import coinpress_parameters
from statistics_helpers import FALSE_ALARM, short_and_long

# Audits need many runs; one pair of neighbours finds a fault of each kind in lab/tests/replay.
pytestmark = pytest.mark.slow

WITH_NOISE = (
    *(session, normal),
    *(hushcov_lab.audit.gaussian, hushcov_lab.audit.selection),
)


def attack_on(mechanism, pair, kind="replace"):
    return next(each for each in attacks_on(mechanism, kind) if each.name == pair)


def is_caught(attack, runs):
    result = run_attack(attack, runs, FALSE_ALARM, seed=11)
    return not result.survives and result.measured_epsilon > result.claimed_epsilon


def patch_everywhere(monkeypatch, name, function, modules=WITH_NOISE):
    for module in modules:
        if hasattr(module, name):
            monkeypatch.setattr(module, name, function)


slow = partial(pytest.param, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("mechanism", "pair", "runs", "part"),
    [
        ("gaussian", "sign flips", 800, 2),
        ("scales", "octaves", 4000, 2),  # 3 becomes 2, not 1.5
        ("screened", "values, sign flips", 1200, 2),
        ("location", None, 1200, 2),
        ("centre", None, 1200, 2),
        ("norms", None, 1200, 2),
        ("quantiles", None, 400, 3),
        slow("quantiles", None, 3000, 2),  # 5 becomes 3
        ("row-top-k", "one pair, flips", 1200, 2),
        ("pace", "one variance, huge or 0", 1200, 2),
        ("coinpress", "axes, equal bounds", 1600, 2),
        slow("coinpress", "axes among others", 2000, 2),
        ("separate-gauss", "ends of spectrum", 1000, 2),
        ("separate-eigen", "ends of spectrum", 1000, 2),
        slow("separate-adaptive", "ends of spectrum", 1000, 2),
        ("genotypes-frequencies", "flips among others", 400, 3),
        slow("genotypes-frequencies", "flips among others", 1500, 2),
    ],
)
def test_half_the_noise(monkeypatch, mechanism, pair, runs, part):
    def less(generator, sigma, size):
        return rounded_normal(generator, -(-sigma // part), size)

    patch_everywhere(monkeypatch, "rounded_normal", less)
    attacks = attacks_on(mechanism) if pair is None else [attack_on(mechanism, pair)]
    if mechanism.startswith("genotypes"):
        attacks = [replace(each, statistics=each.statistics[:1], slowness=1) for each in attacks]
    assert any(is_caught(attack, runs) for attack in attacks)


def sum_of_one(_, bound, ranges, __):
    return bound**2 + sum(x**2 for x in ranges)


FORGETFUL = {
    # The bound on one record taken for the bound on the difference of two.
    "squared_sensitivity": lambda right, *a: right(*a) / 4,
    "bounded_products": sum_of_one,
    # Noise for half the distance by which a record moves the counts, rounded up to 2.
    "histograms": lambda right, *a: right(*a) // 4,
    # Noise for one lone feature in place of four.
    "values_squared_sensitivity": lambda right, _, *a: right(1, *a),
}


@pytest.mark.parametrize(
    ("name", "mechanism", "pair", "runs"),
    [
        ("squared_sensitivity", "gaussian", "sign flips", 2000),
        ("bounded_products", "screened", "values, sign flips", 2000),
        ("histograms", "scales", "huge or zero", 4000),
        ("values_squared_sensitivity", "row-top-k", "variances, huge or 0", 2000),
    ],
)
def test_sensitivity_forgotten(monkeypatch, name, mechanism, pair, runs):
    modules = [each for each in (queries, gaussian, values, peer_queries) if hasattr(each, name)]
    forgetful = partial(FORGETFUL[name], getattr(modules[0], name))
    patch_everywhere(monkeypatch, name, forgetful, modules)
    assert is_caught(attack_on(mechanism, pair), runs)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["replace", "add-remove"])
def test_half_of_what_one_person_moves_forgotten(monkeypatch, kind):
    right = KeptProducts.squared_distance
    monkeypatch.setattr(KeptProducts, "squared_distance", lambda *a: right(*a) // 4)
    attack = attack_on("genotypes-frequencies", "flips among others", kind)
    assert is_caught(replace(attack, statistics=attack.statistics[:1], slowness=1), 1500)


@pytest.mark.parametrize(
    ("module", "mechanism", "pair", "runs"),
    [
        (queries, "gaussian", "sign flips", 400),
        (queries, "coinpress", "axes, equal bounds", 400),
        (queries, "separate-gauss", "sign flips", 600),
        (eigen_sampling, "eigen-sampling", "huge or 0, 1 feat.", 3000),
    ],
)
def test_norm_clipping_skipped(monkeypatch, module, mechanism, pair, runs):
    def unclipped(records, grid, norm_bound):
        return row_bounded_gram(records, grid, None)

    patch_everywhere(monkeypatch, "row_bounded_gram", unclipped, (module, common))
    assert is_caught(attack_on(mechanism, pair), runs)


def test_norm_clipping_skipped_by_the_screened_values(monkeypatch):
    correct = ProductMap.sum

    def unclipped(self, records):
        return correct(replace(self, norm_bound=2**26), records)

    monkeypatch.setattr(ProductMap, "sum", unclipped)
    assert is_caught(attack_on("screened", "values, huge or 0"), 400)


def test_norm_clipping_skipped_by_the_centre(monkeypatch):
    """Sums of records clipped in their coordinates alone move farther than the noise allows."""

    def unbounded(records, grid, norm_bound):
        def steps(block):
            clipped = np.clip(np.rint(block * grid.multipliers), -grid.half_width, grid.half_width)
            return clipped.sum(axis=0).astype(np.int64)

        return steps

    monkeypatch.setattr(queries, "bounded_sums_of", unbounded)
    monkeypatch.setattr(hushcov_lab.audit.gaussian, "bounded_sums_of", unbounded)
    assert is_caught(attacks_on("centre")[0], 1000)


@pytest.mark.parametrize(
    ("module", "mechanism", "pair"),
    [
        (session, "screened", "edge, two pairs"),
        slow(session, "screened-candidates", "edge, two pairs"),
        (session, "row-top-k", "edge, only picks"),
    ],
)
def test_selection_noise_dropped(monkeypatch, module, mechanism, pair):
    def exact(generator, scores, rate, count):
        return np.sort(np.argsort(-scores, kind="stable")[:count])

    monkeypatch.setattr(module, "gumbel_top", exact)
    result = run_attack(attack_on(mechanism, pair), 2000, FALSE_ALARM, seed=11)
    assert not result.survives
    assert result.method == "Clopper-Pearson"


def test_gate_noise_reused(monkeypatch):
    """The same noise in all queries: it cancels in the difference of two entries."""
    correct = Schedule.draw_gate_noise

    def reused(self, generator, size):
        return np.full(size, correct(self, generator, 1)[0])

    monkeypatch.setattr(Schedule, "draw_gate_noise", reused)
    result = run_attack(attack_on("multiscale-value", "sign flips"), 1500, FALSE_ALARM, seed=11)
    assert not result.survives
    assert result.statistic == "fitted"


@short_and_long("times", 4, 2)
def test_diagonal_released_twice_or_more(monkeypatch, times):
    """With independent noise: whoever has all of them takes their mean."""
    correct, runs = session.symmetric_noise, {4: 1_200, 2: 4_500}[times]

    def noise(generator, d, sigma, diagonal_sigma):
        released = correct(generator, d, sigma, diagonal_sigma)
        again = rounded_normal(generator, diagonal_sigma, (times - 1) * d).reshape(-1, d)
        np.fill_diagonal(released, (np.diag(released) + again.sum(axis=0)) // times)
        return released

    patch_everywhere(monkeypatch, "symmetric_noise", noise)
    # Flips leave squares as they are and cannot see it; two axes differ in nothing else.
    assert not is_caught(attack_on("gaussian", "sign flips"), 500)
    assert is_caught(attack_on("gaussian", "axes"), runs)


@short_and_long("times", 8, 1)
def test_lower_triangle_with_noise_of_its_own(monkeypatch, times):
    """Drawn so many times, of which an attacker takes the mean."""
    correct, runs = session.symmetric_noise, {8: 600, 1: 6000}[times]

    def noise(*arguments):
        lower = sum(correct(*arguments) for _ in range(times)) // times
        return np.triu(correct(*arguments)) + np.tril(lower, -1)

    patch_everywhere(monkeypatch, "symmetric_noise", noise)
    assert is_caught(attack_on("gaussian", "sign flips"), runs)


@short_and_long("mechanism", "candidates", "candidates-width")
def test_noise_of_the_values_of_candidates_is_too_small(monkeypatch, mechanism):
    correct = queries.bounded_products
    monkeypatch.setattr(queries, "bounded_products", lambda *a: correct(*a) // 16)
    assert is_caught(replace(attack_on(mechanism, "pair among real ones"), slowness=1), 200)


def test_whole_budget_spent_in_every_step_of_coinpress(monkeypatch):
    """Each step by itself keeps the promise: only all of them together break it."""
    attack = attack_on("coinpress", "axes, equal bounds")
    once = coinpress_parameters(attack.target.parameters.inputs, n_steps=1)
    sigmas = {"sigmas": once.sigmas * 3, "diagonal_sigmas": once.diagonal_sigmas * 3}
    spendthrift = replace(attack.target.parameters, **sigmas)
    correct = session.symmetric_noise

    def whole(generator, d, sigma, diagonal_sigma):
        return correct(generator, d, once.sigmas[0], once.diagonal_sigmas[0])

    patch_everywhere(monkeypatch, "symmetric_noise", whole)
    assert is_caught(replace(attack, statistics=(all_steps(attack.pair, spendthrift),)), 2600)


def test_eigenvalues_or_counts_without_noise(monkeypatch):
    patch_everywhere(monkeypatch, "rounded_normal", lambda g, sigma, size: np.zeros(size, int))
    for mechanism in ("separate-eigen", "separate-adaptive"):
        assert is_caught(attack_on(mechanism, "ends of spectrum"), 400)


def test_replacement_forgotten_by_the_eigenvalues(monkeypatch):
    """A third of what eigenvalues move by, and all of the budget spent on them."""
    correct = separate.eigenvalue_sensitivity
    forgetful = lambda *a: correct(*a) // 3  # noqa: E731
    patch_everywhere(monkeypatch, "eigenvalue_sensitivity", forgetful, (separate, peer_queries))
    greedy = partial(separate.separate_parameters, eigenvalue_share=0.9)
    monkeypatch.setattr(hushcov_lab.audit.gaussian, "separate_parameters", greedy)
    assert is_caught(attack_on("separate-eigen", "ends of spectrum"), 1000)


def test_half_the_laplace_noise_of_sampled_eigenvalues(monkeypatch):
    right = eigen_sampling.discrete_laplace
    monkeypatch.setattr(
        eigen_sampling, "discrete_laplace", lambda g, scale, size: right(g, scale // 2, size)
    )
    assert is_caught(attack_on("eigen-sampling", "huge or 0, 1 feat."), 3000)


def test_directions_and_eigenvalues_at_four_times_the_budget(monkeypatch):
    """At epsilon 1, a smaller claim, which few runs are enough to break."""
    laplace, law = eigen_sampling.discrete_laplace, eigen_sampling.Bingham
    monkeypatch.setattr(
        eigen_sampling, "discrete_laplace", lambda g, scale, size: laplace(g, scale // 4, size)
    )
    monkeypatch.setattr(eigen_sampling, "Bingham", lambda matrix, rate: law(matrix, 4 * rate))
    attack = attack_on("eigen-sampling", "copies, 2 feat.")
    inputs = replace(attack.target.parameters.inputs, epsilon=1.0)
    parameters = eigen_sampling.eigen_sampling_parameters(inputs, row_norm=1.0)
    target = EigenSamplingTarget(parameters, attack.pair)
    assert is_caught(replace(attack, target=target, slowness=1), 2000)
