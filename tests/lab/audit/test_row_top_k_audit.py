"""The audit of row-wise top-k follows the release, is tight, and finds planted mistakes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hushcov.lab.audit.run import attacks_on, check_path, run_attack
from hushcov.noise import rounded_normal
from hushcov.peers import row_top_k as mechanism
from hushcov.sums.gram import row_bounded_gram
from hushcov.sums.grids import FeatureGrid
from hushcov.tables.sources import ArrayRecords

FALSE_ALARM = 1e-6


def attacks():
    return {attack.name: attack for attack in attacks_on("row-top-k")}


ATTACKS = attacks()
VALUES = ("one pair, flips", "all pairs, flips", "3 features, flips", "variances, huge or 0")


def attacked(name, runs):
    return run_attack(attacks()[name], runs, FALSE_ALARM, seed=11)


def grams(attack):
    p = attack.target.parameters
    grid = FeatureGrid(np.ones(p.inputs.n_features), p.radius, p.half_width)
    return (
        row_bounded_gram(ArrayRecords(rows), grid, None)
        for rows in (attack.pair.first, attack.pair.second)
    )


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_are_on_neighbours_that_differ_and_follow_the_release(name):
    attack = ATTACKS[name]
    assert not np.array_equal(attack.pair.first, attack.pair.second)
    check_path(attack, seed=5)


@pytest.mark.parametrize("name", VALUES)
def test_worst_pairs_attain_the_sensitivity_of_the_values(name):
    attack = ATTACKS[name]
    first, second = grams(attack)
    p = attack.target.parameters
    entries = np.triu(np.full(first.shape, p.inputs.row_sparsity > 1)) | np.eye(
        len(first), dtype=bool
    )
    rows, columns = np.nonzero(np.triu(entries, 1))
    sigma = mechanism.value_sigma(rows, columns, p)
    distance = math.sqrt(np.sum((first - second)[entries] ** 2.0)) / sigma
    assert 0.999 * p.mu <= distance <= p.mu
    assert attack.target.promise.gaussian


@pytest.mark.parametrize("name", [name for name in ATTACKS if name not in VALUES])
def test_edges_move_two_scores_of_every_row_as_far_as_they_can(name):
    first, second = grams(ATTACKS[name])
    change = np.abs(second) - np.abs(first)
    reach = ATTACKS[name].target.parameters.score_sensitivity
    assert all(row.max() == reach and row.min() == -reach for row in change)
    assert not ATTACKS[name].target.promise.gaussian


def test_the_release_survives_and_values_are_nearly_tight():
    result = attacked("one pair, flips", 2500)
    assert result.survives
    assert result.ratio > 0.5
    assert attacked("edge, usual shares", 400).survives


def test_noise_halved_is_found(monkeypatch):
    def halved(generator, sigma, size):
        return rounded_normal(generator, (sigma + 1) // 2, size)

    monkeypatch.setattr(mechanism, "rounded_normal", halved)
    assert not attacked("one pair, flips", 2000).survives


def test_squares_of_lone_features_forgotten_is_found(monkeypatch):
    """Noise for one feature in place of four."""
    correct = mechanism.values_squared_sensitivity
    monkeypatch.setattr(
        mechanism, "values_squared_sensitivity", lambda d, *others: correct(1, *others)
    )
    assert not attacked("variances, huge or 0", 2000).survives


def test_selection_noise_dropped_is_found(monkeypatch):
    def exact(generator, scores, rate, count):
        return np.sort(np.argsort(-scores, kind="stable")[:count])

    monkeypatch.setattr(mechanism, "gumbel_top", exact)
    assert not attacked("edge, only picks", 3000).survives
