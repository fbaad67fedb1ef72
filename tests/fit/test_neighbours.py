"""Every mechanism on neighbours of every kind: nothing moves by more than what is charged."""

from __future__ import annotations

import dataclasses
from itertools import product

import numpy as np
import pytest

from fit.screened.settings import DESIGN
from hushcov.fit.adaptive.mechanism import release_adaptive
from hushcov.fit.adaptive.pairs import AdaptiveParameters
from hushcov.fit.gaussian.mechanism import gaussian_parameters, release_gaussian
from hushcov.fit.mechanism import Prepared
from hushcov.fit.screened.mechanism import release_screened, screened_parameters
from hushcov.inputs import ReleaseInputs
from hushcov.kernel.accounting import ADD_REMOVE, REPLACE, Budget, Neighbours
from hushcov.kernel.noise import Entropy
from hushcov.kernel.records.base import CountedRecords
from hushcov.tables.sources import ArrayRecords
from hushcov.tables.units import units_of
from hushcov_lab.peers.coinpress import coinpress_parameters, release_coinpress
from hushcov_lab.peers.pace import pace_parameters, release_pace
from hushcov_lab.peers.row_top_k import release_row_top_k, row_top_k_parameters
from hushcov_lab.peers.separate import release_separate, separate_parameters
from moved import Recorder, shares
from sessions import certified
from statistics_helpers import mostly_slow

N, D = 60, 4
HUGE = 1e9


def _screened(n_levels=2):
    design = dataclasses.replace(DESIGN, n_levels=n_levels, norm_factor=0.5)
    return lambda inputs: screened_parameters(inputs, design)


def _adaptive(session, scale, parameters):
    return release_adaptive(Prepared(session, scale), parameters)


# Parameters, the release, and how much of the charge the worst neighbours reach: of the Gaussian
# steps with "replace" and with "add-remove", and of the selections.
MECHANISMS = {
    "gaussian": (gaussian_parameters, release_gaussian, (0.98, 0.98, 0)),
    "screened": (_screened(), release_screened, (0.6, 0.6, 0.99)),
    "screened, all pairs": (_screened(0), release_screened, (0.8, 0.9, 0)),
    "adaptive": (AdaptiveParameters, _adaptive, (0.5, 0.5, 0)),
    "row top k": (row_top_k_parameters, release_row_top_k, (0.7, 0.7, 0.99)),
    "pace": (pace_parameters, release_pace, (0.4, 0.4, 0.99)),
    "separate, gauss": (
        lambda inputs: separate_parameters(inputs, method="gauss"),
        release_separate,
        (0.98, 0.98, 0),
    ),
    "separate, apart": (
        lambda inputs: separate_parameters(inputs, method="separate"),
        release_separate,
        (0.95, 0.95, 0),
    ),
    "separate, adaptive": (separate_parameters, release_separate, (0.8, 0.8, 0)),
    "coinpress": (
        lambda inputs: coinpress_parameters(inputs, eigenvalue_bounds=(1.0, 1.0)),
        release_coinpress,
        (0.98, 0.98, 0),
    ),
}


def rows_to_try(rng):
    """Pairs of rows, as hard as they can be and any: what one is, and what it becomes."""
    ones, axes = np.ones(D), np.eye(D)
    half = np.where(np.arange(D) % 2 == 0, 1.0, -1.0)
    late = np.where(np.arange(D) < D // 2, 1.0, -1.0)
    yield HUGE * ones, HUGE * half
    yield 1.0 * ones, 1.0 * late
    yield 1.5 * ones, 1.5 * half
    yield HUGE * axes[0], HUGE * axes[-1]
    yield HUGE * ones, 0 * ones
    yield HUGE * half, 0 * ones
    yield 0 * ones, 1.0 * half
    for size in (0.3, 1.0, 3.0, 30.0):
        yield tuple(size * rng.standard_normal((2, D)))


def pairs_of(neighbours, rng):
    """Datasets that differ in one unit, with a number of records that both are planned for."""
    others = rng.standard_normal((N - neighbours.most_rows, D))
    others[:, 1] += others[:, 0]
    most = neighbours.most_rows
    for before, after in rows_to_try(rng):
        for fewer in {0, most - 1} if neighbours.relation == REPLACE else {most}:
            first = np.vstack([np.tile(before, (most, 1)), others])
            second = np.vstack([np.tile(after, (most - fewer, 1)), others])
            yield tuple(CountedRecords(ArrayRecords(rows), N) for rows in (first, second))


def worst(monkeypatch, name, neighbours, pairs):
    """The largest shares of what is charged for such neighbours: Gaussian steps and selections."""
    plan, release_by, _ = MECHANISMS[name]
    parameters = plan(ReleaseInputs(N, D, 2, 4.0, 1e-5, neighbours=neighbours))

    def release(records):
        entropy = Entropy(np.random.default_rng(1), private=False)
        release_by(certified(records, parameters, entropy), np.ones(D), parameters)

    events = parameters.budget().certificate.events
    return np.max([shares(monkeypatch, release, *pair, events) for pair in pairs], axis=0)


@pytest.mark.parametrize("name", tuple(MECHANISMS))
@pytest.mark.parametrize(
    ("relation", "most"), mostly_slow(product((REPLACE, ADD_REMOVE), (1, 3)), 0, 3)
)
def test_nothing_moves_by_more_than_what_is_charged(monkeypatch, relation, most, name):
    neighbours = Neighbours(relation, most, "record" if most == 1 else "patient")
    pairs, least = pairs_of(neighbours, np.random.default_rng(0)), MECHANISMS[name][2]
    gaussian, widest = worst(monkeypatch, name, neighbours, pairs)
    assert gaussian <= 1 + 1e-9
    assert widest <= 1 + 1e-9
    assert gaussian >= least[relation == ADD_REMOVE], gaussian
    assert widest >= least[2], widest


WRONG = {  # what noise is for, and which neighbours there are
    "relation": (Neighbours(ADD_REMOVE), Neighbours()),
    "rows": (Neighbours(REPLACE, 3, "patient"), Neighbours(REPLACE, 6, "patient")),
}


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        *(("relation", name) for name in ("gaussian", "screened", "adaptive", "row top k", "pace")),
        *(("rows", name) for name in ("gaussian", "screened", "adaptive", "separate, apart")),
    ],
)
def test_noise_for_other_neighbours_is_too_little(monkeypatch, wrong, name):
    """The same test finds noise for one relation under the claim of another, and more rows."""
    planned, real = WRONG[wrong]
    pairs = pairs_of(real, np.random.default_rng(0))
    assert np.max(worst(monkeypatch, name, planned, pairs)) > 1.3


def combined_pairs(neighbours, rng):
    """Datasets that differ in one unit of several rows, alike or not, whose others have as many."""
    most = neighbours.most_rows
    others = rng.standard_normal((N - most, D))
    others[:, 1] += others[:, 0]
    alike = [
        (np.tile(before, (most, 1)), np.tile(after, (most, 1)))
        for before, after in rows_to_try(rng)
    ]
    mixed = [tuple(size * rng.standard_normal((2, most, D))) for size in (0.5, 1.0, 2.0, 10.0)]
    for before, after in alike + mixed:
        for fewer in {0, most - 1} if neighbours.relation == REPLACE else {most}:
            made = []
            for own in (before, after[: most - fewer]):
                rows = np.vstack([own, others])
                codes = np.concatenate([np.zeros(len(own)), 1 + np.arange(len(others)) // most])
                units = units_of(codes, len(rows))
                made.append(CountedRecords(units.bounded(ArrayRecords(rows), most), N))
            yield tuple(made)


@pytest.mark.parametrize(
    ("name", "least"),
    [("gaussian", 0.6), ("screened", 0.3), ("screened, all pairs", 0.3), ("adaptive", 0.2)],
)
@pytest.mark.parametrize("relation", mostly_slow([REPLACE, ADD_REMOVE], 0))
def test_units_that_are_combined_move_by_no_more_than_what_is_charged(
    monkeypatch, relation, name, least
):
    neighbours = Neighbours(relation, 3, "patient", combined=True)
    pairs = combined_pairs(neighbours, np.random.default_rng(0))
    gaussian, widest = worst(monkeypatch, name, neighbours, pairs)
    assert least <= gaussian <= 1 + 1e-9
    assert widest <= 1 + 1e-9


class Spending(Recorder):
    """Every draw, and how many steps were spent before it."""

    def __init__(self, monkeypatch):
        super().__init__()
        self.spent, self.draws = 0, []
        for name in ("_take", "fixed"):
            monkeypatch.setattr(Budget, name, self._watched(getattr(Budget, name)))

    def _watched(self, correct):
        def spend(budget, *cost):
            self.spent += 1
            return correct(budget, *cost)

        return spend

    def add(self, *drawn):
        self.draws.append(self.spent)
        return super().add(*drawn)

    def select(self, *drawn):
        self.draws.append(self.spent)
        return super().select(*drawn)

    @property
    def sound(self):
        """Whether no draw comes before its own spending."""
        return all(spent > place for place, spent in enumerate(self.draws))


def watched(monkeypatch, name):
    plan, release_by, _ = MECHANISMS[name]
    rng = np.random.default_rng(0)
    parameters = plan(ReleaseInputs(400, 12, 2, 4.0, 1e-5))
    found = Spending(monkeypatch)
    found.install(monkeypatch)
    found.start()
    records = ArrayRecords(rng.standard_normal((400, 12)))
    session = certified(records, parameters, Entropy(rng, private=False))
    release_by(session, np.ones(12), parameters)
    return found


# Others spend several draws as one step.
@pytest.mark.parametrize("name", ["gaussian", "screened", "adaptive", "coinpress"])
def test_every_draw_is_spent_before(monkeypatch, name):
    found = watched(monkeypatch, name)
    assert found.draws
    assert found.sound
