"""Eigenvector sampling under attack: the claim stands, and planted mistakes are caught."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hushcov.lab.audit import attack as common
from hushcov.lab.audit.gaussian import EigenSamplingTarget
from hushcov.lab.audit.run import attacks_on, check_path, run_attack
from hushcov.peers import eigen_sampling as mechanism
from statistics_helpers import FALSE_ALARM

ATTACKS = {attack.name: attack for attack in attacks_on("eigen-sampling")}


@pytest.mark.parametrize("name", ATTACKS)
def test_the_audit_follows_the_release(name):
    check_path(ATTACKS[name], seed=3)


@pytest.mark.parametrize(("name", "least"), [("huge or 0, 1 feat.", 0.6), ("copies, 2 feat.", 0.2)])
def test_the_claim_survives_and_is_not_far_off(name, least):
    """False-alarm rate 1e-6 of the first assertion."""
    result = run_attack(ATTACKS[name], 3_000, FALSE_ALARM, seed=1)
    assert result.survives
    assert result.ratio > least


def test_half_the_laplace_noise_is_caught(monkeypatch):
    right = mechanism.discrete_laplace

    def halved(generator, scale, size):
        return right(generator, scale // 2, size)

    monkeypatch.setattr(mechanism, "discrete_laplace", halved)
    assert not run_attack(ATTACKS["huge or 0, 1 feat."], 3_000, FALSE_ALARM, seed=1).survives


def at_epsilon_one(name):
    """An attack on a smaller claim, which few runs are enough to break."""
    attack = ATTACKS[name]
    inputs = replace(attack.target.parameters.inputs, epsilon=1.0)
    parameters = mechanism.eigen_sampling_parameters(inputs, row_norm=1.0)
    return replace(attack, target=EigenSamplingTarget(parameters, attack.pair), slowness=1)


def test_directions_and_eigenvalues_at_four_times_the_budget_are_caught(monkeypatch):
    laplace, law = mechanism.discrete_laplace, mechanism.Bingham

    def a_quarter(generator, scale, size):
        return laplace(generator, scale // 4, size)

    def concentrated(matrix, rate):
        return law(matrix, 4 * rate)

    monkeypatch.setattr(mechanism, "discrete_laplace", a_quarter)
    monkeypatch.setattr(mechanism, "Bingham", concentrated)
    attack = at_epsilon_one("copies, 2 feat.")
    assert not run_attack(attack, 2_000, FALSE_ALARM, seed=1).survives


def test_records_that_are_not_bounded_are_caught(monkeypatch):
    """The grid bounds coordinates at six times the norm bound here."""
    right = mechanism.row_bounded_gram

    def unbounded(records, grid, norm_bound, *, progress=None):
        return right(records, grid, None)

    for module in (mechanism, common):
        monkeypatch.setattr(module, "row_bounded_gram", unbounded)
    assert not run_attack(ATTACKS["huge or 0, 1 feat."], 3_000, FALSE_ALARM, seed=1).survives
