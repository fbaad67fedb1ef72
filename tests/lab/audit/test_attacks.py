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
from hushcov.lab.audit.run import AUDITED, attacks_on, check_path
from hushcov.mechanisms.gaussian import mechanism as gaussian
from hushcov.mechanisms.screened import mechanism as screened
from hushcov.mechanisms.screened.parameters import RADIUS, sum_sigma
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


@pytest.mark.parametrize("mechanism", AUDITED)
def test_attacks_are_on_neighbours_that_differ_and_follow_the_release(mechanism):
    for attack in attacks_on(mechanism):
        assert not np.array_equal(attack.pair.first, attack.pair.second)
        check_path(attack, seed=5)


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


@pytest.mark.parametrize(
    "name",
    [
        "gaussian/sign flips",
        "gaussian/flips among others",
        "gaussian/axes",
        "gaussian/disjoint halves",
    ],
)
def test_worst_pairs_of_the_gaussian_attain_its_sensitivity(name):
    distance, mu = gaussian_distance(attack_named(name)), attack_named(name).target.parameters.mu
    assert 0.999 * mu <= distance <= mu


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
