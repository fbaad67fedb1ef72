"""Attacks on releases of genotypes find planted mistakes, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hushcov.genotypes import mechanism
from hushcov.genotypes import mechanism as parameters
from hushcov.genotypes.mechanism import squared_movement
from hushcov.lab.audit.run import attacks_on, run_attack
from hushcov.noise import rounded_normal
from statistics_helpers import short_and_long

FALSE_ALARM = 1e-6


def attacked(name, pair, runs, kind="replace"):
    attack = next(each for each in attacks_on(name, kind) if each.name == pair)
    attack = replace(attack, statistics=attack.statistics[:1], slowness=1)
    return run_attack(attack, runs, FALSE_ALARM, seed=5)


@short_and_long("case", (3, 400), (2, 1500))
def test_a_part_of_the_noise_is_found_out(monkeypatch, case):
    (part, runs), attack = case, ("genotypes-frequencies", "flips among others")
    assert attacked(*attack, 100).survives

    def less(generator, sigma, size):
        return rounded_normal(generator, sigma // part, size)

    monkeypatch.setattr(mechanism, "rounded_normal", less)
    assert not attacked(*attack, runs).survives


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["replace", "add-remove"])
def test_half_of_what_one_person_moves_is_found_out(monkeypatch, kind):
    def forgetful(bound, neighbours):
        return squared_movement(bound, neighbours) // 4

    monkeypatch.setattr(parameters, "squared_movement", forgetful)
    case = "genotypes-frequencies", "flips among others"
    assert not attacked(*case, 1500, kind).survives
