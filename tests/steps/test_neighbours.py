"""Every stage on neighbours of every kind: counts and sums move by no more than what is charged."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from budgets import ample
from hushcov.inputs import ReleaseInputs
from hushcov.kernel.accounting import ADD_REMOVE, REPLACE, Gaussian, Neighbours
from hushcov.kernel.noise import Entropy
from hushcov.kernel.records.base import CountedRecords
from hushcov.steps.complete import complete_parameters, release_complete_count
from hushcov.steps.counting import Counting, release_most_rows
from hushcov.steps.location import LocationParameters, find_location
from hushcov.steps.preparation import (
    release_centre,
    release_norms,
    release_squares,
    release_tails,
    release_tilts,
)
from hushcov.steps.quantiles import bin_edges, release_counts
from hushcov.steps.scales import release_scales, scale_parameters
from hushcov.tables.sources import ArrayRecords
from moved import shares
from statistics_helpers import mostly_slow

N, D, MU = 400, 4, 0.1
MUS = {"location": 1.3}
HUGE, ONES = 1e9, np.ones(D)


def entropy():
    return Entropy(np.random.default_rng(3), private=False)


def _scales(neighbours):
    parameters = scale_parameters(N, D, MU, neighbours)
    return lambda records: release_scales(records, parameters, entropy())


def _location(neighbours):
    """The looks alone; they are made where they find anything."""
    parameters = LocationParameters(N, D, MUS["location"], neighbours=neighbours)
    return lambda records: find_location(records, parameters, ample(), entropy())


def _of(step, *arguments):
    def made(neighbours):
        return lambda records: step(records, *arguments, MU, neighbours, entropy())

    return made


def _norms(neighbours):
    return lambda records: release_norms(records, ONES, MU, neighbours, ample(), entropy())


# What runs, and how much of the charge the worst neighbours reach, by relation.
STEPS = {
    "scales": (_scales, (0.8, 0.8)),
    "location": (_location, (0.1, 0.1)),
    "centre": (_of(release_centre, ONES), (0.98, 0.98)),
    "norms": (_norms, (0.5, 0.5)),
    "squares": (_of(release_squares, ONES), (0.7, 0.8)),
    "tilts": (_of(release_tilts), (0.9, 0.9)),
    "tails": (_of(release_tails, ONES, 2.0), (0.65, 0.95)),
    "quantiles": (_of(release_counts, np.arange(D), bin_edges(0 * ONES, ONES)), (0.98, 0.98)),
}


def pairs_of(neighbours):
    rng = np.random.default_rng(0)
    most = neighbours.most_rows
    others = rng.standard_normal((N - most, D))
    axes, half = np.eye(D), np.where(np.arange(D) % 2 == 0, 1.0, -1.0)
    tries = [
        (HUGE * ONES, -HUGE * ONES),
        (HUGE * ONES, 0 * ONES),
        (ONES, 2 * ONES),
        (HUGE * axes[0], HUGE * axes[1]),
        (3 * half, -3 * half),
        (0 * ONES, 30 * half),
        *((size * pair) for size in (0.5, 5.0) for pair in rng.standard_normal((3, 2, D))),
    ]
    for before, after in tries:
        for fewer in {0, most - 1} if neighbours.relation == REPLACE else {most}:
            first = np.vstack([np.tile(before, (most, 1)), others])
            second = np.vstack([np.tile(after, (most - fewer, 1)), others])
            yield tuple(CountedRecords(ArrayRecords(rows), N) for rows in (first, second))


def worst(monkeypatch, run, neighbours, mu):
    found = [shares(monkeypatch, run, *pair, (Gaussian(mu),)) for pair in pairs_of(neighbours)]
    return max(gaussian for gaussian, _ in found)


@pytest.mark.parametrize("name", tuple(STEPS))
@pytest.mark.parametrize(
    ("relation", "most"), mostly_slow(product((REPLACE, ADD_REMOVE), (1, 3)), 0, 3)
)
def test_nothing_moves_by_more_than_what_is_charged(monkeypatch, relation, most, name):
    make, least = STEPS[name]
    neighbours = Neighbours(relation, most, "record" if most == 1 else "patient")
    found = worst(monkeypatch, make(neighbours), neighbours, most * MUS.get(name, MU))
    assert found <= 1 + 1e-9
    assert found >= least[relation == ADD_REMOVE], found


@pytest.mark.parametrize("name", tuple(STEPS))
def test_noise_for_removed_records_is_too_little_for_replaced_ones(monkeypatch, name):
    make, _ = STEPS[name]
    good = worst(monkeypatch, make(Neighbours()), Neighbours(), MUS.get(name, MU))
    bad = worst(monkeypatch, make(Neighbours(ADD_REMOVE)), Neighbours(), MUS.get(name, MU))
    assert bad > 1.3 * good


@pytest.mark.parametrize("relation", [REPLACE, ADD_REMOVE])
def test_complete_records(monkeypatch, relation):
    """A record that misses a value, one that does not, and none: 1 at most."""
    neighbours = Neighbours(relation)
    inputs = ReleaseInputs(N, D, 2, 4.0, 1e-5, neighbours=neighbours)
    parameters = complete_parameters(inputs)
    event = Gaussian(parameters.cost)
    others = np.random.default_rng(0).standard_normal((N - 1, D))

    def records(*rows):
        made = ArrayRecords(np.vstack([*rows, others]))
        made.gaps = True
        return CountedRecords(made, N)

    complete, gap = records(ONES), records(np.where(np.arange(D) == 0, np.nan, 1.0))
    other = gap if relation == REPLACE else records()

    def run(found):
        release_complete_count(found, parameters, entropy())

    share, _ = shares(monkeypatch, run, complete, other, (event,))
    assert 0.9 < share <= 1 + 1e-9


@pytest.mark.parametrize("relation", [REPLACE, ADD_REMOVE])
@pytest.mark.parametrize("most", [1, 7])
def test_the_count_of_rows(relation, most):
    """M rows more or fewer move the count by M, over a scale of at least M / epsilon."""
    counting = Counting(1.0, Neighbours(relation, most, "patient"))
    few, many = (
        counting.run(ArrayRecords(np.zeros((n, 1))), None, counting.budget(), entropy())
        for n in (900, 900 + most)
    )
    assert many.released - few.released == most  # from the same noise
    assert most / few.scale <= counting.count_epsilon < most / (few.scale - 1)


@pytest.mark.parametrize(("relation", "moved"), [(REPLACE, 2), (ADD_REMOVE, 1)])
def test_the_sizes_of_units(monkeypatch, relation, moved):
    import hushcov.steps.counting as stage

    seen = []
    correct = stage.most_rows
    monkeypatch.setattr(
        stage, "most_rows", lambda counts, sd: seen.append((counts, sd)) or correct(counts, sd)
    )
    sizes = np.repeat([1, 3, 40], 200)
    other = np.where(np.arange(600) == 0, 2**30, sizes) if relation == REPLACE else sizes[1:]
    for found in (sizes, other):
        release_most_rows(found, Neighbours(relation, 1, "patient"), 0.25, entropy())
    (before, sd), (after, _) = seen
    assert np.abs(before - after).sum() == moved
    assert moved / (sd / np.sqrt(2)) <= 0.25
