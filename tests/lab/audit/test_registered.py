"""The attack that needs nothing but an entry in the registry."""

from __future__ import annotations

from dataclasses import replace

import pytest
from click.testing import CliRunner

from hushcov.cli.main import cli
from hushcov.lab.audit import run as attacks_module
from hushcov.lab.audit.run import AUDITED, attacks_on, is_handmade, registered, run_attack
from hushcov.mechanisms.gaussian import mechanism as gaussian
from hushcov.noise import rounded_normal
from hushcov.planning import mechanisms
from statistics_helpers import FALSE_ALARM

ATTACKS = {attack.name: attack for attack in registered("gaussian")}


def attacked(pair, runs):
    """A claim that is kept survives, but for one time in a million."""
    return run_attack(replace(ATTACKS[pair], slowness=1), runs, FALSE_ALARM, seed=2)


def test_every_mechanism_is_audited_by_hand_or_by_its_registration():
    for name in mechanisms():
        variants = [each for each in AUDITED if each == name or each.startswith(f"{name}-")]
        assert variants
        assert any(is_handmade(each) for each in variants) or name in AUDITED
    assert {attack.name for attack in attacks_on("gaussian-threshold")} == set(ATTACKS)


@pytest.mark.slow
@pytest.mark.parametrize(("pair", "least"), [("sign flips", 0.5), ("huge or zero", 0.2)])
def test_a_fair_share_of_the_gaussian_claim_is_measured(pair, least):
    result = attacked(pair, 2500)
    assert result.survives
    assert result.ratio > least


@pytest.mark.parametrize("pair", ATTACKS)
def test_noise_three_times_too_small_is_caught(monkeypatch, pair):
    def small(generator, sigma, size):
        return rounded_normal(generator, (sigma + 2) // 3, size)

    monkeypatch.setattr(gaussian, "rounded_normal", small)
    assert not attacked(pair, 1000 if pair == "huge or zero" else 500).survives


def test_a_new_mechanism_is_attacked_by_its_registration_alone(monkeypatch):
    before = attacks_module._builders()
    listed = dict(mechanisms()) | {"brand-new": mechanisms()["gaussian"]}
    monkeypatch.setattr(attacks_module, "mechanisms", lambda: listed)
    builders = attacks_module._builders()
    assert builders.keys() - before.keys() == {"brand-new"}
    first = builders["brand-new"]("brand-new")[0]
    assert run_attack(first, 100, FALSE_ALARM).mechanism == "brand-new"


def test_what_a_mechanism_claims_is_read_off_its_certificate():
    promise = ATTACKS["axes"].target.promise
    assert (promise.epsilon, promise.delta, promise.gaussian) == (4.0, 1e-5, True)


def test_the_list_names_everything_that_is_audited():
    result = CliRunner().invoke(cli, ["audit", "--list"])
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines if line[2:3] != " "] == list(AUDITED)
    assert all(len(line) <= 80 for line in lines)
    generic = next(line for line in lines if line.split()[0] == "gaussian-threshold")
    assert "(whole releases)" in generic
