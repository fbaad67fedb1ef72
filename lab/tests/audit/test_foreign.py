"""Testers of other people: what they allow, their false alarms, and the mistakes that they reject.

Assertions that a promise is kept raise a false alarm at most once in a million.
"""

from __future__ import annotations

import json
import math
from functools import partial

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

import hushcov_lab.audit.command
from hushcov.cli.main import cli
from hushcov.kernel import session
from hushcov.kernel.accounting import gaussian_delta, gaussian_epsilon
from hushcov.kernel.noise import rounded_normal
from hushcov_lab.audit.attack import Promise
from hushcov_lab.audit.foreign import (
    TESTERS,
    Finding,
    allowed_hockey_stick,
    allowed_renyi,
    examine,
    examine_attack,
    mean_lower,
)
from statistics_helpers import FALSE_ALARM

from .test_planted_bugs import attack_on, patch_everywhere

MU = 0.9
SCORED = {name: compare for name, (_, compare) in TESTERS.items()}
slow = partial(pytest.param, marks=pytest.mark.slow)


def gaussian_promise(mu, late=0.0):
    return Promise(gaussian_epsilon(mu, 1e-5), 1e-5 + late, gaussian=True, late=late)


def scores(mu, n, generator):
    """Log odds of outputs of N(0, 1) and N(mu, 1)."""
    return [mu * generator.normal(mean, 1, n) - mu**2 / 2 for mean in (0, mu)]


def rejecting(findings):
    return {each.tester for each in findings if each.rejects}


# What is allowed


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.0), (1.0, 0.05), (3.0, 1e-3)])
def test_an_epsilon_and_delta_allow_what_their_worst_pair_has(epsilon, delta):
    kept = (1 - delta) / (1 + math.exp(epsilon))
    P = np.array([delta, kept * math.exp(epsilon), kept, 0])
    promise = Promise(epsilon, delta, gaussian=False)
    for level in (0.0, 0.3, epsilon, 5.0):
        expected = np.sum(np.maximum(P - math.exp(level) * P[::-1], 0))
        found = allowed_hockey_stick(promise, level)
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-15)
    divergence, beside = allowed_renyi(promise)
    p, q = P[1:3] / P[1:3].sum(), P[2:0:-1] / P[1:3].sum()
    assert divergence == pytest.approx(math.log(np.sum(p**2 / q)), rel=1e-9, abs=0)
    assert beside == pytest.approx(np.abs(P[:2] - [0, P[1] / (1 - delta)]).sum() / 2, abs=delta)


def test_a_gaussian_curve_allows_itself_and_what_is_late():
    promise = gaussian_promise(MU, late=0.01)
    for level in (0.0, 0.5, 2.0):
        expected = gaussian_delta(MU, level) + 0.01
        assert allowed_hockey_stick(promise, level) == pytest.approx(expected, rel=1e-8, abs=0)
    assert allowed_renyi(promise) == (pytest.approx(MU**2, rel=1e-8, abs=0), 0.01)


# Laws


@pytest.mark.parametrize("name", SCORED)
def test_estimates_are_those_of_the_gaussian_pair(name):
    """A mistake by a factor of 1.1 of the shift is seen at this size."""
    found = SCORED[name](*scores(MU, 200_000, np.random.default_rng(1)), gaussian_promise(MU), 1e-6)
    larger = SCORED[name](
        *scores(1.1 * MU, 200_000, np.random.default_rng(1)), gaussian_promise(MU), 1e-6
    )
    exact = {
        "hockey-stick": gaussian_delta(MU, 0.5),
        "Youden": gaussian_delta(MU, 0.0),
        "histogram": gaussian_delta(MU, 0.5),
    }
    if name in exact:
        assert found.estimate == pytest.approx(exact[name], rel=0, abs=0.012)
    assert found.lower <= found.estimate <= found.allowed + 0.01
    assert not found.rejects
    assert larger.estimate > found.estimate + 0.02
    if name in ("hockey-stick", "Youden", "histogram"):
        assert larger.rejects


@pytest.mark.parametrize("name", SCORED)
def test_false_alarms_are_as_rare_as_stated(name):
    """On the worst pair of the promise itself; twice the leak is found."""
    generator, rate, times = np.random.default_rng(2), 0.05, 120
    promise = gaussian_promise(MU)
    alarms = sum(
        SCORED[name](*scores(MU, 2000, generator), promise, rate).rejects for _ in range(times)
    )
    assert stats.binom.sf(alarms - 1, times, rate) >= FALSE_ALARM
    caught = [SCORED[name](*scores(2.5 * MU, 2000, generator), promise, rate) for _ in range(10)]
    assert all(each.rejects for each in caught)


def test_the_bound_of_a_mean_is_rarely_too_high():
    generator, n, rate = np.random.default_rng(3), 60, 0.1
    for p in (0.02, 0.5):
        draws = generator.random((2000, n)) < p
        too_high = sum(mean_lower(each.astype(float), 1.0, rate) > p for each in draws)
        assert stats.binom.sf(too_high - 1, 2000, rate) >= FALSE_ALARM
    zeros = np.zeros(100)
    assert mean_lower(zeros, 2.0, rate) == pytest.approx(-14 * math.log(20) / 297, rel=1e-12, abs=0)


def test_scores_that_are_certain_are_not_infinite():
    first, second = np.zeros((600, 3)), np.ones((600, 3))
    promise = Promise(1.0, 0.0, gaussian=False)
    found = examine(first, second, promise, 1e-6)
    assert {each.tester for each in found} == set(TESTERS)
    assert rejecting(found) == set(TESTERS)
    assert all(math.isfinite(each.lower) for each in found)


def test_outputs_of_the_same_law_are_not_told_apart():
    first, second = np.random.default_rng(6).standard_normal((2, 800, 4))
    found = examine(first, second, gaussian_promise(0.05), FALSE_ALARM)
    assert rejecting(found) == set()
    assert all(each.lower < 0.1 for each in found)


# Mechanisms


@pytest.mark.parametrize(("count", "runs"), [(6, 3_000), slow(3, 20_000)])
def test_releases_of_which_one_is_charged(count, runs):
    """A missing charge: the noise of one release, and several of them shown."""
    generator = np.random.default_rng(5)
    first, second = (generator.normal(shift, 1, (runs, count)) for shift in (0.0, MU))
    once = examine(first[:, :1], second[:, :1], gaussian_promise(MU), FALSE_ALARM)
    assert rejecting(once) == set()
    assert rejecting(examine(first, second, gaussian_promise(MU), FALSE_ALARM)) == set(TESTERS)
    if runs >= 20_000:  # what the control says of the same mistake
        assert all(each.seen is not None and each.seen <= count for each in once)


@pytest.mark.parametrize(
    ("mechanism", "pair", "runs", "part"),
    [
        ("gaussian", "sign flips", 1_000, 4),
        slow("gaussian", "flips among others", 4_000, 3),
        slow("gaussian", "axes", 12_000, 2),
        slow("genotypes-frequencies", "flips among others", 6_000, 4),
        slow("candidates", "pair among real ones", 4_500, 4),
    ],
)
def test_too_little_noise(monkeypatch, mechanism, pair, runs, part):
    attack = attack_on(mechanism, pair)
    assert rejecting(examine_attack(attack, runs, FALSE_ALARM)) == set()

    def less(generator, sigma, size):
        return rounded_normal(generator, -(-sigma // part), size)

    patch_everywhere(monkeypatch, "rounded_normal", less)
    found = examine_attack(attack, runs, FALSE_ALARM)
    assert rejecting(found) == set(TESTERS)


@pytest.mark.slow
def test_too_little_noise_of_the_looks(monkeypatch):
    attack, right = attack_on("adaptive-looks", "sign flips"), session.symmetric_noise

    def less(generator, size, *sigmas):
        return right(generator, size, *(sigma // 4 for sigma in sigmas))

    monkeypatch.setattr(session, "symmetric_noise", less)
    assert rejecting(examine_attack(attack, 1_500, FALSE_ALARM)) == set(TESTERS)


# The command


def test_the_command(monkeypatch):
    result = CliRunner().invoke(cli, ["audit", "foreign", "scales", "--runs", "300", "--json"])
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert (found["survive"], found["runs"]) == (True, 300)
    assert len(found["findings"]) == 2 * len(TESTERS)

    def broken(*_):
        return (Finding("MMD", 0.9, 0.8, 0.5, 1e-6, seen=2),)

    monkeypatch.setattr(hushcov_lab.audit.command, "examine_attack", broken)
    result = CliRunner().invoke(cli, ["audit", "foreign", "all"])
    assert result.exit_code == 1
    assert "REJECTED" in result.stdout
    assert "rejected a claim" in result.stdout


@pytest.mark.parametrize("options", [("--runs", "10"), ("--seed", "-1")])
def test_refusals_are_one_line(options):
    result = CliRunner().invoke(cli, ["audit", "foreign", "gaussian", *options])
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
