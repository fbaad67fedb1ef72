"""Pairs attain sensitivities, the audit follows the release, bounds hold as often as said."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from scipy import stats

from coinpress_steps import exact_gram_of
from exact_sums import sign_gram
from hushcov.exceptions import ParameterError
from hushcov.fit.screened import mechanism as screened
from hushcov.fit.screened.mechanism import RADIUS, sum_sigma
from hushcov.kernel import queries
from hushcov.kernel.accounting import ONE_REPLACED, Gaussian, gaussian_epsilon
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.sums.counts import signed_octaves
from hushcov.kernel.sums.gram import row_bounded_gram
from hushcov.tables.sources import ArrayRecords
from hushcov_lab.audit.attack import (
    Pair,
    bounded_gram,
    changing_pairs,
    edge_of_selection,
    grid_of,
)
from hushcov_lab.audit.run import (
    Promise,
    Rule,
    attacks_on,
    best_rule,
    check_path,
    epsilon_lower,
    measured_epsilon,
    mu_lower,
    rate_upper,
)
from hushcov_lab.peers.queries import EntriesAndSquares, clipped_gram
from statistics_helpers import FALSE_ALARM


@functools.cache
def attack_named(name):
    """The attack `mechanism/pair`: they are made when a test needs them, which compiles kernels."""
    mechanism, pair = name.split("/", 1)
    return next(attack for attack in attacks_on(mechanism) if attack.name == pair)


def test_datasets_that_are_not_neighbours_are_refused():
    X = np.zeros((3, 2))
    other = X.copy()
    other[2, 0] = 1.0
    for second in (other, np.zeros((4, 2))):
        with pytest.raises(ParameterError, match="differ in one"):
            Pair("two records", X, second)


def test_an_audit_that_no_longer_follows_the_release_is_refused(monkeypatch):
    attack = attack_named("gaussian/sign flips")
    monkeypatch.setattr(queries, "row_bounded_gram", lambda *args, **_: 2 * row_bounded_gram(*args))
    with pytest.raises(RuntimeError, match="other numbers"):
        check_path(attack)


def gaussian_distance(attack):
    """How far the replaced record moves the upper triangle, each entry over its deviation."""
    parameters, d = attack.target.parameters, attack.pair.n_features
    grid = FeatureGrid(np.ones(d), parameters.radius, parameters.half_width)
    first, second = (
        row_bounded_gram(ArrayRecords(rows), grid, parameters.norm_bound)
        for rows in (attack.pair.first, attack.pair.second)
    )
    change = np.triu(second - first) / parameters.sigma
    np.fill_diagonal(change, np.diag(second - first) / parameters.diagonal_sigma)
    return math.sqrt(np.sum(change**2))


@pytest.mark.parametrize("pair", ["sign flips", "flips among others", "axes", "disjoint halves"])
def test_worst_pairs_of_the_gaussian_attain_its_sensitivity(pair):
    attack = attack_named(f"gaussian/{pair}")
    mu = attack.target.parameters.mu
    assert 0.999 * mu <= gaussian_distance(attack) <= mu


@pytest.mark.parametrize("pair", ["axes, equal bounds", "flips, equal bounds"])
def test_worst_pairs_of_coinpress_attain_the_sensitivity_of_every_step(pair):
    attack = attack_named(f"coinpress/{pair}")
    p = attack.target.parameters
    matrix = np.eye(2) * p.matrix_half_width  # what equal bounds of 1 leave
    first, second = (
        exact_gram_of(ArrayRecords(rows), np.ones(2), p)(matrix)
        for rows in (attack.pair.first, attack.pair.second)
    )
    for sigma, diagonal_sigma, mu in zip(p.sigmas, p.diagonal_sigmas, p.mus, strict=True):
        change = np.triu(second - first) / sigma
        np.fill_diagonal(change, np.diag(second - first) / diagonal_sigma)
        assert 0.999 * mu <= math.sqrt(np.sum(change**2)) <= mu


def row_top_k_grams(attack):
    return (
        bounded_gram(rows, attack.target.parameters, None)
        for rows in (attack.pair.first, attack.pair.second)
    )


@pytest.mark.parametrize(
    "pair", ["one pair, flips", "all pairs, flips", "3 features, flips", "variances, huge or 0"]
)
def test_worst_pairs_of_row_top_k_attain_the_sensitivity_of_its_values(pair):
    attack = attack_named(f"row-top-k/{pair}")
    first, second = row_top_k_grams(attack)
    p = attack.target.parameters
    entries = np.eye(len(first)) > 0
    entries |= np.triu(np.full(first.shape, p.inputs.row_sparsity > 1))
    query = EntriesAndSquares(clipped_gram(grid_of(p)), np.nonzero(np.triu(entries, 1)))
    (sigma,) = query.deviations(p.mu, p.inputs.neighbours)
    distance = math.sqrt(np.sum((first - second)[entries] ** 2.0)) / sigma
    assert 0.999 * p.mu <= distance <= p.mu
    assert attack.target.promise.gaussian


@pytest.mark.parametrize("pair", ["edge, only picks", "edge, usual shares"])
def test_edges_of_row_top_k_move_two_scores_of_every_row_as_far_as_they_can(pair):
    attack = attack_named(f"row-top-k/{pair}")
    first, second = row_top_k_grams(attack)
    change = np.abs(second) - np.abs(first)
    reach = attack.target.parameters.score_sensitivity
    assert all(row.max() == reach and row.min() == -reach for row in change)
    assert not attack.target.promise.gaussian


@pytest.mark.parametrize("method", ["gauss", "eigen", "adaptive"])
def test_the_attack_on_separate_is_as_sharp_as_the_claim(method):
    """Six deviations of the measured mu are 0.35 at 600 runs on each dataset."""
    attack = attack_named(f"separate-{method}/ends of spectrum")
    weights = attack.statistics[0].weights
    generator = np.random.default_rng(0)
    first, second = (
        np.array([draw(generator)[: len(weights)] @ weights for _ in range(600)])
        for draw in map(attack.target.quick, (attack.pair.first, attack.pair.second))
    )
    mu = (second.mean() - first.mean()) / np.std(first)
    claimed = math.hypot(*attack.target.parameters.mus)
    assert 0.85 * claimed - 0.35 < mu < claimed + 0.35


@pytest.mark.parametrize("name", ["scales/octaves", "scales/huge or zero"])
def test_worst_pairs_of_the_scales_attain_their_sensitivity(name):
    attack = attack_named(name)
    d = attack.pair.first.shape[1]
    first, second = (
        signed_octaves(ArrayRecords(rows), np.zeros(d), np.zeros(d), np.arange(d))
        for rows in (attack.pair.first, attack.pair.second)
    )
    parameters = attack.target
    distance = math.sqrt(np.sum((first - second) ** 2)) / parameters.sigma
    assert 0.999 * parameters.mu <= distance <= parameters.mu


def test_the_worst_pair_of_the_screened_values_nearly_attains_their_sensitivity():
    """All but the two numbers a record reports beside its products: 1 part in 33 of the square."""
    attack = attack_named("screened/values, sign flips")
    parameters, pair = attack.target.parameters, attack.pair
    assert parameters.events == (Gaussian(parameters.mu),)
    grid = FeatureGrid(np.ones(2), RADIUS, parameters.half_width)
    products = screened.product_map(grid, np.array([0]), np.array([1]), parameters.norm_bound)
    sums = [products.sum(ArrayRecords(rows)) for rows in (pair.first, pair.second)]
    sigma = sum_sigma(parameters.norm_bound, parameters.mu, ONE_REPLACED)
    distance = math.sqrt(np.sum((sums[0] - sums[1]) ** 2)) / sigma
    assert 0.98 * parameters.mu <= distance <= parameters.mu


@pytest.mark.parametrize("n_features", [3, 4])
def test_scores_at_the_edge_of_selection_move_by_as_much_as_they_can(n_features):
    pair = edge_of_selection(n_features, 1.5, 10, 0)
    first, second = (np.abs(sign_gram(ArrayRecords(rows))) for rows in (pair.first, pair.second))
    moves = {e: int((first - second)[e]) for e in changing_pairs(n_features)}
    assert moves == {(i, j): 2 if (i + j) % 2 == 0 else -2 for i, j in moves}
    assert all(first[e] + second[e] == 20 for e in moves)


# The bounds: exact where the law is known, and too large no more often than they say.


CURVE = Promise(4.0, 1e-5, gaussian=True)
RATES = Promise(1.0, 0.0, gaussian=False)


@pytest.mark.parametrize(
    ("errors", "runs"), [(0, 50), (1, 7), (13, 400), (399, 400), (5000, 10**5)]
)
@pytest.mark.parametrize("alarm_rate", [0.3, 1e-3, 1e-8])
def test_the_upper_rate_is_where_so_few_errors_have_the_alarm_rate(errors, runs, alarm_rate):
    upper = float(rate_upper(errors, runs, alarm_rate))
    assert stats.binom.cdf(errors, runs, upper) == pytest.approx(alarm_rate, rel=1e-6, abs=0)


@pytest.mark.parametrize("alarm_rate", [0.2, 1e-3])
@pytest.mark.parametrize("rate", [0.003, 0.2, 0.9])
def test_the_upper_rate_covers_every_true_rate(rate, alarm_rate):
    """Summed over all outcomes, not simulated."""
    errors = np.arange(101)
    missed = rate_upper(errors, 100, alarm_rate) < rate
    assert stats.binom.pmf(errors, 100, rate)[missed].sum() <= alarm_rate * (1 + 1e-9)


def test_epsilon_of_randomised_response_and_of_delta():
    for epsilon in (0.1, 1.0, 5.0):
        lie = np.asarray(1 / (1 + math.exp(epsilon)))
        assert float(epsilon_lower(lie, lie, 0.0)) == pytest.approx(epsilon, rel=1e-12, abs=0)
    # Giving a record away with probability delta, and saying nothing else, needs no epsilon.
    assert float(epsilon_lower(np.asarray(1e-9), np.asarray(0.99), 0.01)) < 0


def test_mu_of_a_gaussian_mechanism_at_any_threshold():
    for mu, threshold in ((0.5, -1.0), (0.5, 0.25), (3.0, 4.0)):
        positives, misses = stats.norm.sf(threshold), stats.norm.cdf(threshold - mu)
        assert float(mu_lower(positives, misses)) == pytest.approx(mu, rel=1e-9, abs=0)


def test_the_best_rule_finds_the_side_that_gives_a_dataset_away():
    """A number that is only ever 1 on the first dataset: found with either sign."""
    first, second = np.tile([0.0, 1.0], 1000), np.zeros(2000)
    for sign in (1, -1):
        rule, _ = best_rule(sign * first, sign * second, RATES, 1e-3)
        assert rule.errors(sign * first, sign * second) == (0, 1000)
        assert measured_epsilon(rule, sign * first, sign * second, RATES, 1e-3) > 4


def test_the_best_rule_is_the_best_of_all_thresholds_of_a_discrete_statistic():
    generator = np.random.default_rng(0)
    first, second = generator.binomial(6, 0.3, 3000), generator.binomial(6, 0.5, 3000)
    rule, bound = best_rule(first * 1.0, second * 1.0, RATES, 1e-3)
    every = []
    for sign in (1, -1):
        for threshold in range(-7, 7):
            for swapped in (False, True):
                positives, misses = Rule(sign, threshold, swapped).errors(first, second)
                rates = (rate_upper(errors, 3000, 5e-4) for errors in (positives, misses))
                every.append(float(epsilon_lower(*rates, 0.0)))
    assert bound == pytest.approx(max(every), rel=1e-6, abs=0)
    assert measured_epsilon(rule, first, second, RATES, 1e-3) == pytest.approx(
        bound, rel=1e-6, abs=0
    )


def measured(draw, promise, alarm_rate, runs, audits, seed):
    """Lower bounds of independent audits; `draw(generator, size)` gives both samples."""
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(audits):
        chosen, counted = draw(generator, runs // 2), draw(generator, runs // 2)
        rule, _ = best_rule(*chosen, promise, alarm_rate)
        found.append(measured_epsilon(rule, *counted, promise, alarm_rate))
    return np.array(found)


def gaussian_mechanism(mu):
    return lambda generator, size: (
        generator.standard_normal(size),
        mu + generator.standard_normal(size),
    )


def randomised_response(epsilon):
    lie = 1 / (1 + math.exp(epsilon))
    return lambda generator, size: (
        1.0 * (generator.random(size) < lie),
        1.0 * (generator.random(size) >= lie),
    )


@pytest.mark.parametrize(
    ("draw", "true_epsilon", "promise"),
    [
        (gaussian_mechanism(0.9), gaussian_epsilon(0.9, 1e-5), CURVE),
        (randomised_response(1.0), 1.0, RATES),
    ],
    ids=["Gaussian curve", "error rates"],
)
def test_lower_bounds_are_too_large_no_more_often_than_they_say(draw, true_epsilon, promise):
    """1,000 audits at an alarm rate of 0.1. A false alarm of this test: once in a million."""
    found = measured(draw, promise, 0.1, 400, 1000, seed=1)
    assert np.sum(found > true_epsilon) <= stats.binom.isf(FALSE_ALARM, 1000, 0.1)
    # They are not just zero: the bound is used up to a good part.
    assert np.median(found) > 0.5 * true_epsilon


@pytest.mark.parametrize(
    ("draw", "promise"),
    [(gaussian_mechanism(1.85), CURVE), (randomised_response(1.6), RATES)],
    ids=["Gaussian curve", "error rates"],
)
def test_a_mechanism_that_leaks_more_than_it_promises_is_found(draw, promise):
    assert np.all(measured(draw, promise, FALSE_ALARM, 4000, 20, seed=2) > promise.epsilon)
