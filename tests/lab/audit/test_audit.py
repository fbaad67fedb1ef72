"""Every mechanism survives a short audit, and the Gaussian one is measured to be tight."""

from __future__ import annotations

import json

import pytest

from hushcov.exceptions import ParameterError
from hushcov.lab.audit.run import ALARM_RATE, AUDITED, BATCHES, attacks_on, audit, run_attack
from statistics_helpers import short_and_long


@short_and_long("runs", 100, 1_000)
@pytest.mark.parametrize("mechanism", AUDITED)
def test_no_claim_is_broken(mechanism, runs):
    heard = []
    results = audit(mechanism, runs=runs, seed=3, progress=heard.append)
    assert [result.pair for result in results] == [item.name for item in attacks_on(mechanism)]
    assert all(result.survives for result in results)
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
    ("runs", "tight"), [(6_000, 0.7), pytest.param(20_000, 0.8, marks=pytest.mark.slow)]
)
def test_the_worst_pair_of_the_gaussian_is_nearly_as_bad_as_claimed(runs, tight):
    attack = next(item for item in attacks_on("gaussian") if item.name == "axes")
    result = run_attack(attack, runs, 1e-3, seed=1)
    assert result.method == "Gaussian curve"
    assert tight < result.ratio <= 1


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
