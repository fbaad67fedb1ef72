"""Mistakes planted in the mechanisms, each of which an audit must find.

A measured epsilon above the claim is no accident: without the mistake it happens once in a
million. Samplers are patched wherever their name is bound, so that whole releases have the same
mistake and the audit's own check that it follows the release stays on.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import hushcov.lab.audit.attack
import hushcov.lab.audit.gaussian
import hushcov.lab.audit.selection
import hushcov.steps.scales
from hushcov.lab.audit.run import attacks_on, run_attack
from hushcov.mechanisms.gaussian import mechanism as gaussian
from hushcov.mechanisms.screened import mechanism as screened
from hushcov.mechanisms.screened import parameters as screened_parameters
from hushcov.mechanisms.screened import values
from hushcov.noise import rounded_normal
from hushcov.paper.parameters import Schedule
from hushcov.sums.gram import row_bounded_gram
from hushcov.sums.products import ProductMap
from statistics_helpers import short_and_long

FALSE_ALARM = 1e-6
MODULES_WITH_NOISE = (
    gaussian,
    hushcov.steps.scales,
    screened,
    values,
    hushcov.lab.audit.gaussian,
    hushcov.lab.audit.selection,
)


def attacked(mechanism, pair, runs):
    attack = next(item for item in attacks_on(mechanism) if item.name == pair)
    return run_attack(attack, runs, FALSE_ALARM, seed=11)


def is_caught(mechanism, pair, runs):
    result = attacked(mechanism, pair, runs)
    return not result.survives and result.measured_epsilon > result.claimed_epsilon


def replace_noise(monkeypatch, noise):
    for module in MODULES_WITH_NOISE:
        if hasattr(module, "rounded_normal"):
            monkeypatch.setattr(module, "rounded_normal", noise)


@pytest.mark.parametrize(
    ("mechanism", "pair", "runs"),
    [
        ("gaussian", "sign flips", 1200),
        ("scales", "octaves", 4000),  # 3 becomes 2, not 1.5
        ("screened", "values, sign flips", 2000),
    ],
)
def test_noise_halved(monkeypatch, mechanism, pair, runs):
    def halved(generator, sigma, size):
        return rounded_normal(generator, (sigma + 1) // 2, size)

    assert attacked(mechanism, pair, 1000).survives
    replace_noise(monkeypatch, halved)
    assert is_caught(mechanism, pair, runs)


def test_factor_two_of_replacement_forgotten_by_the_gaussian(monkeypatch):
    """The bound on one record taken for the bound on the difference of two."""
    correct = gaussian.squared_sensitivity
    monkeypatch.setattr(gaussian, "squared_sensitivity", lambda *args: correct(*args) / 4)
    assert is_caught("gaussian", "sign flips", 2000)


def test_factor_two_of_replacement_forgotten_by_the_screened_values(monkeypatch):
    def forgetful(norm_bound, neighbours):
        return norm_bound**2 + sum(x**2 for x in screened_parameters.ranges(norm_bound))

    monkeypatch.setattr(screened_parameters, "squared_sum_sensitivity", forgetful)
    assert is_caught("screened", "values, sign flips", 2000)


def test_factor_two_of_replacement_forgotten_by_the_scales(monkeypatch):
    """Noise for half the distance by which a record moves the counts, rounded up to 2."""
    correct = hushcov.steps.scales.smallest_sigma
    monkeypatch.setattr(
        hushcov.steps.scales, "smallest_sigma", lambda square, mu: correct(square // 4, mu)
    )
    assert is_caught("scales", "huge or zero", 4000)


def test_norm_clipping_skipped_by_the_gaussian(monkeypatch):
    def unclipped(records, grid, norm_bound, *, progress=None):
        return row_bounded_gram(records, grid, None, progress=progress)

    for module in (gaussian, hushcov.lab.audit.attack):
        monkeypatch.setattr(module, "row_bounded_gram", unclipped)
    assert is_caught("gaussian", "sign flips", 400)


def test_norm_clipping_skipped_by_the_screened_values(monkeypatch):
    correct = ProductMap.sum

    def unclipped(self, records, *, progress=None):
        return correct(dataclasses.replace(self, norm_bound=2**26), records, progress=progress)

    monkeypatch.setattr(ProductMap, "sum", unclipped)
    assert is_caught("screened", "values, huge or 0", 400)


@pytest.mark.parametrize(
    "mechanism",
    ["screened", pytest.param("screened-candidates", marks=pytest.mark.slow)],
)
def test_selection_noise_dropped(monkeypatch, mechanism):
    def exact(generator, scores, rate, count):
        return np.sort(np.argsort(-scores, kind="stable")[:count])

    monkeypatch.setattr(screened, "gumbel_top", exact)
    result = attacked(mechanism, "edge, two pairs", 3000)
    assert not result.survives
    assert result.method == "Clopper-Pearson"


def test_gate_noise_reused(monkeypatch):
    """The same noise in all queries: it cancels in the difference of two entries."""
    correct = Schedule.draw_gate_noise

    def reused(self, generator, size):
        return np.full(size, correct(self, generator, 1)[0])

    monkeypatch.setattr(Schedule, "draw_gate_noise", reused)
    result = attacked("multiscale-value", "sign flips", 1500)
    assert not result.survives
    assert result.statistic == "fitted"


@short_and_long("times", 4, 2)
def test_diagonal_released_twice_or_more(monkeypatch, times):
    """With independent noise: whoever has all of them takes their mean."""
    correct, runs = gaussian.symmetric_noise, {4: 1_200, 2: 4_500}[times]

    def noise(generator, d, sigma, diagonal_sigma):
        released = correct(generator, d, sigma, diagonal_sigma)
        again = rounded_normal(generator, diagonal_sigma, (times - 1) * d).reshape(-1, d)
        np.fill_diagonal(released, (np.diag(released) + again.sum(axis=0)) // times)
        return released

    monkeypatch.setattr(gaussian, "symmetric_noise", noise)
    # Flips leave squares as they are and cannot see it; two axes differ in nothing else.
    assert attacked("gaussian", "sign flips", 1000).survives
    assert is_caught("gaussian", "axes", runs)


def test_lower_triangle_with_noise_of_its_own(monkeypatch):
    correct = gaussian.symmetric_noise

    def noise(*arguments):
        first, second = correct(*arguments), correct(*arguments)
        return np.triu(first) + np.tril(second, -1)

    monkeypatch.setattr(gaussian, "symmetric_noise", noise)
    assert is_caught("gaussian", "sign flips", 6000)
