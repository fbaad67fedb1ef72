"""The attacks: they follow the release, the claims stand, and planted mistakes are caught.

A measured epsilon above the claim is no accident: without a mistake it happens once in a million.
Samplers are patched wherever their name is bound, so that whole releases have the same mistake.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

from hushcov.lab.audit import attack as common
from hushcov.lab.audit import gaussian as eigenvectors
from hushcov.lab.audit.run import AUDITED, attacks_on, check_path, run_attack
from hushcov.mechanisms.gaussian import mechanism as gaussian
from hushcov.noise import rounded_normal
from hushcov.peers import separate
from hushcov.sums.gram import row_bounded_gram

FALSE_ALARM = 1e-6
SEPARATE = [name for name in AUDITED if name.startswith("separate-")]


def attack_on(audited, pair="ends of spectrum"):
    return next(item for item in attacks_on(audited) if item.name == pair)


def result_of(audited, pair, runs):
    return run_attack(attack_on(audited, pair), runs, FALSE_ALARM, seed=11)


def is_caught(audited, pair="ends of spectrum", runs=1000):
    result = result_of(audited, pair, runs)
    return result.measured_epsilon > result.claimed_epsilon


@pytest.mark.parametrize("audited", SEPARATE)
def test_draws_follow_the_release(audited):
    for attack in attacks_on(audited):
        check_path(attack)


@pytest.mark.parametrize("audited", SEPARATE)
def test_the_attack_is_as_sharp_as_the_claim(audited):
    """Six deviations of the measured mu are 0.35 at 600 runs on each dataset."""
    attack = attack_on(audited)
    weights = attack.statistics[0].weights
    generator = np.random.default_rng(0)
    first, second = (
        np.array([draw(generator)[: len(weights)] @ weights for _ in range(600)])
        for draw in map(attack.target.quick, (attack.pair.first, attack.pair.second))
    )
    mu = (second.mean() - first.mean()) / np.std(first)
    claimed = math.hypot(*attack.target.parameters.mus)
    assert 0.85 * claimed - 0.35 < mu < claimed + 0.35


def replace_noise(monkeypatch, noise):
    for module in (gaussian, separate):
        monkeypatch.setattr(module, "rounded_normal", noise)


@pytest.mark.parametrize(
    "audited",
    [*SEPARATE[:2], *(pytest.param(name, marks=pytest.mark.slow) for name in SEPARATE[2:])],
)
def test_noise_halved(monkeypatch, audited):
    def halved(generator, sigma, size):
        return rounded_normal(generator, (sigma + 1) // 2, size)

    assert result_of(audited, "ends of spectrum", 300).survives
    replace_noise(monkeypatch, halved)
    assert is_caught(audited)


def test_eigenvalues_without_noise(monkeypatch):
    def silent(generator, sigma, size):
        return np.zeros(size, dtype=np.int64)

    monkeypatch.setattr(separate, "rounded_normal", silent)
    assert is_caught("separate-eigen", runs=400)
    assert is_caught("separate-adaptive", runs=400)  # counts


def test_replacement_forgotten_by_the_eigenvalues(monkeypatch):
    """A third of what eigenvalues move by, and all of the budget spent on them."""
    correct = separate.eigenvalue_sensitivity
    monkeypatch.setattr(separate, "eigenvalue_sensitivity", lambda *a: correct(*a) // 3)
    greedy = partial(separate.separate_parameters, eigenvalue_share=0.9)
    monkeypatch.setattr(eigenvectors, "separate_parameters", greedy)
    assert is_caught("separate-eigen")


def test_norm_clipping_skipped(monkeypatch):
    def unclipped(records, grid, norm_bound, *, progress=None):
        return row_bounded_gram(records, grid, None, progress=progress)

    for module in (separate, common):
        monkeypatch.setattr(module, "row_bounded_gram", unclipped)
    assert is_caught("separate-gauss", "sign flips", runs=600)
