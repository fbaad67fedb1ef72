"""Pairs are neighbours and attain the sensitivities; statistics; the audit follows the release."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

from hushcov.accounting import ONE_REPLACED, Gaussian
from hushcov.exceptions import ParameterError
from hushcov.lab.audit.attack import (
    Pair,
    along_change,
    changing_pairs,
    edge_of_selection,
    linear_discriminant,
    trace,
    weighted_sums,
)
from hushcov.lab.audit.run import attacks_on, check_path
from hushcov.mechanisms.gaussian import mechanism as gaussian
from hushcov.mechanisms.screened import mechanism as screened
from hushcov.mechanisms.screened.values import RADIUS, sum_sigma
from hushcov.peers.coinpress import transformed_gram
from hushcov.peers.row_top_k import value_sigma
from hushcov.sums.counts import log2_histogram
from hushcov.sums.gram import row_bounded_gram
from hushcov.sums.grids import FeatureGrid
from hushcov.sums.signs import sign_gram
from hushcov.tables.sources import ArrayRecords


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
    monkeypatch.setattr(
        gaussian, "row_bounded_gram", lambda *args, **_: 2 * row_bounded_gram(*args)
    )
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
        transformed_gram(ArrayRecords(rows), np.ones(2), p)(matrix)
        for rows in (attack.pair.first, attack.pair.second)
    )
    for sigma, diagonal_sigma, mu in zip(p.sigmas, p.diagonal_sigmas, p.mus, strict=True):
        change = np.triu(second - first) / sigma
        np.fill_diagonal(change, np.diag(second - first) / diagonal_sigma)
        assert 0.999 * mu <= math.sqrt(np.sum(change**2)) <= mu


def row_top_k_grams(attack):
    p = attack.target.parameters
    grid = FeatureGrid(np.ones(p.inputs.n_features), p.radius, p.half_width)
    return (
        row_bounded_gram(ArrayRecords(rows), grid, None)
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
    sigma = value_sigma(*np.nonzero(np.triu(entries, 1)), p)
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
    first, second = (
        log2_histogram(ArrayRecords(rows)) for rows in (attack.pair.first, attack.pair.second)
    )
    parameters = attack.target.parameters
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


def test_matrix_statistics_are_inner_products():
    before, after = np.array([3.0, 3.0, 3.0]), np.array([3.0, -3.0, 3.0])
    M = np.arange(9.0).reshape(3, 3)
    statistic = along_change(before, after)
    expected = np.sum(M * (np.outer(after, after) - np.outer(before, before))) / 18
    assert weighted_sums(M.reshape(1, 9), statistic.weights) == pytest.approx([expected])
    # An output may hold more than the matrix.
    assert weighted_sums(np.append(M, [5.0])[None], trace(3).weights) == pytest.approx([12.0])


def test_the_discriminant_cancels_noise_that_two_numbers_share():
    generator = np.random.default_rng(0)
    shared, own = generator.standard_normal((2, 4000, 1)), generator.standard_normal((2, 4000, 2))
    outputs = shared + 0.01 * own
    first, second = outputs[0], outputs[1] + np.array([0.1, 0.0])
    weights = linear_discriminant(first, second)
    assert weights[1] / weights[0] == pytest.approx(-1, abs=0.01)
    separation = (second - first).mean(axis=0) @ weights / np.std(first @ weights)
    assert separation == pytest.approx(0.1 / (0.01 * math.sqrt(2)), rel=0.1)


def test_the_discriminant_copes_with_copies_and_with_numbers_that_never_vary():
    generator = np.random.default_rng(1)
    noise = generator.standard_normal((2, 500, 1))
    first = np.hstack([noise[0], noise[0], np.full((500, 1), 7.0), np.zeros((500, 1))])
    second = np.hstack([noise[1], noise[1], np.full((500, 1), 7.0), np.full((500, 1), 1e-3)])
    weights = linear_discriminant(first, second)
    assert np.all(np.isfinite(weights))
    assert (first @ weights).max() < (second @ weights).min()
