"""Every mechanism survives a short audit, and the Gaussian one is measured to be tight."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from hushcov.exceptions import ParameterError
from hushcov.fit import mechanisms
from hushcov.fit.gaussian.plan import GaussianNoise, PlannedGaussian
from hushcov.kernel.noise import normal, rounded_normal
from hushcov.kernel.queries import Gram
from hushcov_lab.audit import run as attacks_module
from hushcov_lab.audit.run import (
    ALARM_RATE,
    AUDITED,
    BATCHES,
    attacks_on,
    audit,
    is_handmade,
    registered,
    run_attack,
)
from statistics_helpers import FALSE_ALARM, short_and_long

slow = partial(pytest.param, marks=pytest.mark.slow)
SLOWER = ("adaptive", "adaptive-ladder", "candidates", "candidates-width", "genotypes", "coinpress")


@short_and_long("runs", 100, 1_000)
@pytest.mark.parametrize("mechanism", [slow(m) if m in SLOWER else m for m in AUDITED])
def test_no_claim_is_broken(mechanism, runs):
    heard = []
    results = audit(mechanism, runs=runs, seed=3, progress=heard.append)
    assert [result.pair for result in results] == [item.name for item in attacks_on(mechanism)]
    assert all(result.survives for result in results)
    assert all(np.any(item.pair.before != item.pair.after) for item in attacks_on(mechanism))
    assert all(0 <= result.ratio <= 1 for result in results)
    assert len(heard) == BATCHES * len(results)
    assert heard[-1] == f"{mechanism}: {results[-1].pair}"
    # Over all attacks on all mechanisms, false alarms stay within the stated rate.
    assert sum(item.alarm_rate for item in results) == pytest.approx(ALARM_RATE / len(AUDITED))
    for result in results:
        assert json.loads(json.dumps(result.to_dict()))["survives"] is True


def test_an_audit_is_repeatable_and_its_attacks_do_not_depend_on_each_other():
    first = audit("scales", runs=300, seed=1)
    assert audit("scales", runs=300, seed=1) == first
    assert audit("scales", runs=300, seed=2) != first
    last = attacks_on("scales")[-1]
    assert run_attack(last, 300, first[-1].alarm_rate, seed=1) == first[-1]


@pytest.mark.parametrize(
    ("mechanism", "pair", "runs", "least"),
    [
        ("row-top-k", "one pair, flips", 2_500, 0.5),
        ("eigen-sampling", "huge or 0, 1 feat.", 3_000, 0.6),
        slow("eigen-sampling", "copies, 2 feat.", 3_000, 0.2),
        slow("gaussian", "axes", 20_000, 0.7),
        *(slow("location", None, 8_000, 0.7), slow("centre", None, 8_000, 0.7)),
        *(slow("norms", None, 8_000, 0.55), slow("quantiles", None, 8_000, 0.7)),
        slow("candidates", "pair among real ones", 16_000, 0.6),
        slow("candidates-width", "pair among real ones", 16_000, 0.5),
    ],
)
def test_a_fair_share_of_the_claim_is_measured(mechanism, pair, runs, least):
    """The worst pair is nearly as bad as claimed, at a false-alarm rate of 1e-6."""
    attacks = [each for each in attacks_on(mechanism) if pair in (None, each.name)]
    results = [run_attack(attack, runs, FALSE_ALARM, seed=1) for attack in attacks]
    assert all(result.survives for result in results)
    assert least < max(result.ratio for result in results) <= 1
    if mechanism == "gaussian":
        assert results[0].method == "Gaussian curve"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"mechanism": "laplace"}, "mechanism must be one of"),
        ({"mechanism": "scales", "runs": 99}, "runs must be an integer at least 100"),
        ({"mechanism": "scales", "seed": -1}, "seed must be an integer at least 0"),
    ],
)
def test_refusals(arguments, words):
    with pytest.raises(ParameterError, match=words):
        audit(**arguments)


# The attack that needs nothing but an entry in the registry.


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


@pytest.mark.parametrize(
    "pair", [p if p == "axes" else pytest.param(p, marks=pytest.mark.slow) for p in ATTACKS]
)
def test_noise_three_times_too_small_is_caught(monkeypatch, pair):
    def small(generator, sigma, size):
        return rounded_normal(generator, (sigma + 2) // 3, size)

    monkeypatch.setattr(normal, "rounded_normal", small)
    assert not attacked(pair, 1000 if pair == "huge or zero" else 500).survives


def test_a_new_mechanism_is_attacked_by_its_registration_alone(monkeypatch):
    before = attacks_module._builders()
    listed = dict(mechanisms()) | {"brand-new": mechanisms()["gaussian"]}
    monkeypatch.setattr(attacks_module, "mechanisms", lambda: listed)
    builders = attacks_module._builders()
    assert builders.keys() - before.keys() == {"brand-new"}
    first = builders["brand-new"]("brand-new")[0]
    assert run_attack(first, 100, FALSE_ALARM).mechanism == "brand-new"


class Leaky(GaussianNoise):
    """A mechanism whose parameters hold an exact number, which it names or not."""

    name = "leaky"
    names_it = True

    def plan(self, inputs, *, sparse=False):
        return LeakyPlan(self, super().plan(inputs).parameters)

    def other_numbers(self, release):
        return np.array([release.parameters["leak"]] if self.names_it else [])


class LeakyPlan(PlannedGaussian):
    def release(self, prepared):
        leaked, right = [], Gram.exact

        def exact(query, records):
            found = right(query, records)
            leaked.append(int(found[0, 0]))  # noise is added in place
            return found

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Gram, "exact", exact)
            found = super().release(prepared)
        return replace(found, parameters=found.parameters | {"leak": leaked[0]})


@pytest.mark.parametrize("named", [True, False])
def test_exact_numbers_beside_the_matrix_are_caught_where_the_mechanism_names_them(
    monkeypatch, named
):
    monkeypatch.setattr(Leaky, "names_it", named)
    monkeypatch.setattr(attacks_module, "mechanisms", lambda: {"leaky": Leaky()})
    results = [run_attack(attack, 500, FALSE_ALARM) for attack in registered("leaky")]
    assert all(result.survives for result in results) != named
