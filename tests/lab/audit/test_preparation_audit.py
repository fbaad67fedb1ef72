"""Audits of the steps before a mechanism: close to their claims, and planted mistakes are found."""

from __future__ import annotations

import numpy as np
import pytest

from hushcov.lab.audit import preparation
from hushcov.lab.audit.run import attacks_on, run_attack
from hushcov.noise import rounded_normal
from hushcov.steps import preparation as stage
from statistics_helpers import FALSE_ALARM

STEPS = ("location", "centre", "norms")


@pytest.mark.slow
@pytest.mark.parametrize(("step", "least"), [("location", 0.7), ("centre", 0.7), ("norms", 0.55)])
def test_the_worst_pair_is_nearly_as_bad_as_claimed(step, least):
    found = [run_attack(attack, 8_000, FALSE_ALARM) for attack in attacks_on(step)]
    assert all(result.survives for result in found)
    assert max(result.ratio for result in found) > least


@pytest.mark.parametrize("step", STEPS)
def test_half_the_noise_is_caught(step, monkeypatch):
    def halved(generator, sigma, size):
        return rounded_normal(generator, max(1, sigma // 2), size)

    for module in (stage, preparation):
        monkeypatch.setattr(module, "rounded_normal", halved)
    found = [run_attack(attack, 2_000, FALSE_ALARM) for attack in attacks_on(step)]
    assert not all(result.survives for result in found)


def test_a_record_that_is_not_bounded_is_caught(monkeypatch):
    """Sums of records clipped in their coordinates alone move farther than the noise allows."""

    def unbounded(records, grid, norm_bound):
        def steps(block):
            clipped = np.clip(np.rint(block * grid.multipliers), -grid.half_width, grid.half_width)
            return clipped.sum(axis=0).astype(np.int64)

        return steps

    monkeypatch.setattr(stage, "bounded_sums_of", unbounded)
    monkeypatch.setattr(
        preparation,
        "bounded_sums",
        lambda records, *bounds: records.map_sum(unbounded(records, *bounds)),
    )
    (first, *_) = attacks_on("centre")
    assert not run_attack(first, 1_000, FALSE_ALARM).survives
