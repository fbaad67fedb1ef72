"""CoinPress under attack: its worst pairs attain the bound, and planted mistakes are caught."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from hushcov.lab.audit.gaussian import all_steps
from hushcov.lab.audit.run import attacks_on, check_path, run_attack
from hushcov.mechanisms.gaussian import mechanism as gaussian
from hushcov.noise import rounded_normal
from hushcov.peers import coinpress
from hushcov.peers.coinpress import coinpress_parameters, transformed_gram
from hushcov.sums.gram import row_bounded_gram
from hushcov.tables.sources import ArrayRecords

FALSE_ALARM = 1e-6
ATTACKS = {f"{attack.mechanism}/{attack.name}": attack for attack in attacks_on("coinpress")}
EQUAL_BOUNDS = [name for name in ATTACKS if "equal bounds" in name]


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_follow_the_release_and_claim_one_gaussian_curve(name):
    check_path(ATTACKS[name], seed=5)
    assert ATTACKS[name].target.promise.gaussian


@pytest.mark.parametrize("name", EQUAL_BOUNDS)
def test_worst_pairs_attain_the_sensitivity_of_every_step(name):
    attack = ATTACKS[name]
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


def attacked(name, runs):
    return run_attack(ATTACKS[name], runs, FALSE_ALARM, seed=11)


@pytest.mark.parametrize("name", ["coinpress/axes, equal bounds", "coinpress/axes among others"])
def test_noise_halved(monkeypatch, name):
    def halved(generator, sigma, size):
        return rounded_normal(generator, (sigma + 1) // 2, size)

    assert attacked(name, 600).survives
    monkeypatch.setattr(gaussian, "rounded_normal", halved)
    assert not attacked(name, 2000).survives


def test_whole_budget_spent_in_every_step(monkeypatch):
    """Each step by itself keeps the promise: only all of them together break it."""
    attack = ATTACKS["coinpress/axes, equal bounds"]
    once = coinpress_parameters(attack.target.parameters.inputs, n_steps=1)
    sigmas = {"sigmas": once.sigmas * 3, "diagonal_sigmas": once.diagonal_sigmas * 3}
    spendthrift = replace(attack.target.parameters, **sigmas)
    correct = coinpress.symmetric_noise

    def whole(generator, d, sigma, diagonal_sigma):
        return correct(generator, d, once.sigmas[0], once.diagonal_sigmas[0])

    monkeypatch.setattr(coinpress, "symmetric_noise", whole)
    statistics = (all_steps(attack.pair, spendthrift),)
    attack = replace(attack, statistics=statistics)
    assert not run_attack(attack, 4000, FALSE_ALARM, seed=11).survives


def test_norm_clipping_skipped(monkeypatch):
    def unclipped(records, grid, norm_bound, *, progress=None):
        return row_bounded_gram(records, grid, None, progress=progress)

    monkeypatch.setattr(coinpress, "row_bounded_gram", unclipped)
    assert not attacked("coinpress/axes, equal bounds", 400).survives
