"""Attacks on the release of known candidates: its claim survives, and mistakes are found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hushcov.lab.audit.run import attacks_on, run_attack
from hushcov.mechanisms.adaptive import pairs
from statistics_helpers import FALSE_ALARM


def attacked(mechanism, pair, runs):
    """A claim that is kept survives, but for one time in a million."""
    attack = next(each for each in attacks_on(mechanism) if each.name == pair)
    return run_attack(replace(attack, slowness=1), runs, FALSE_ALARM, seed=4)


@pytest.mark.parametrize(
    ("mechanism", "pair", "runs", "least"),
    [
        ("candidates", "sign flips", 400, 0.0),
        pytest.param("candidates", "pair among real ones", 8_000, 0.6, marks=pytest.mark.slow),
        pytest.param(
            "candidates-width", "pair among real ones", 8_000, 0.5, marks=pytest.mark.slow
        ),
        pytest.param("candidates-width", "sign flips", 4_000, 0.0, marks=pytest.mark.slow),
    ],
)
def test_claims_survive_and_a_fair_share_of_them_is_measured(mechanism, pair, runs, least):
    result = attacked(mechanism, pair, runs)
    assert result.survives
    assert result.ratio >= least


@pytest.mark.parametrize("mechanism", ["candidates", "candidates-width"])
def test_noise_of_values_is_too_small(monkeypatch, mechanism):
    correct = pairs.release_values

    def values(records, products, mu, *others):
        return correct(records, products, 4 * mu, *others)

    monkeypatch.setattr(pairs, "release_values", values)
    assert not attacked(mechanism, "pair among real ones", 200).survives
