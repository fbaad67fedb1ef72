"""Public bounds in the search for centres and scales, and in the preparation."""

from __future__ import annotations

import numpy as np
import pytest

from budgets import ample, spent, squared
from hushcov.exceptions import ParameterError
from hushcov.inputs import Found
from hushcov.noise import Entropy
from hushcov.steps import Prepared
from hushcov.steps.location import LocationParameters, find_location
from hushcov.steps.preparation import Preparation
from hushcov.sums.grids import Bounds, check_bounds
from hushcov.tables.sources import ArrayRecords

N, MU = 20_000, 0.24


def seeded(seed=0) -> Entropy:
    return Entropy(np.random.default_rng(seed), private=False)


def located(X, bounds, seed=0, budget=None):
    given = None if bounds is None else check_bounds(bounds, X.shape[1])
    parameters = LocationParameters(len(X), X.shape[1], MU)
    return find_location(ArrayRecords(X), parameters, budget or ample(), seeded(seed), bounds=given)


def rare(shares, n=N, seed=0):
    return (np.random.default_rng(seed).random((n, len(shares))) < shares).astype(float)


def test_rare_columns_are_found_with_bounds_and_not_without():
    X = rare(np.full(100, 0.003))
    assert not located(X, None).found.any()
    found = located(X, np.tile([0.0, 1.0], (100, 1)))
    assert found.found.all()
    # The standard deviation is 0.055 and half the width 0.5: noisy counts say that it is small.
    assert 0.05 < np.median(found.scale) < 0.2
    assert (found.scale <= 0.5).all()
    assert (found.reach <= 1).all()


def test_columns_that_are_seen_get_the_scale_of_what_is_possible():
    shares = np.array([0.1, 0.3, 0.5, 0.7, 0.95])
    found = located(rare(shares), np.tile([0.0, 1.0], (5, 1)))
    np.testing.assert_allclose(found.scale, np.sqrt(shares * (1 - shares)), rtol=0.15)
    # Without bounds a value of 1 may be anything from 1 to 2.
    assert located(rare(shares), None).scale[0] > 1.2 * 0.3


def test_without_a_look_bounds_are_what_is_known():
    X = rare(np.full(6, 0.5), n=40)
    known, budget = {0: (0, 1), 1: (-4, 10), 2: (7, 7), 3: (0, None), 4: (None, 2)}, ample()
    found = located(X, known, budget=budget)
    assert spent(budget) == {}
    assert found.found.tolist() == [True, True, True, False, False, False]
    assert found.centre.tolist() == [0.5, 3.0, 7.0, 0.0, 0.0, 0.0]
    assert found.scale.tolist() == [0.5, 7.0, 0.0, 0.0, 0.0, 0.0]
    assert found.reach[:3].tolist() == [0.5, 7.0, 0.0]


def test_bounds_far_from_zero_save_looks():
    rng = np.random.default_rng(0)
    X = rng.normal(2000, 10, size=(N, 30)).clip(1950, 2050)
    budgets = ample(), ample()
    located(X, None, budget=budgets[0])
    known = located(X, np.tile([1950.0, 2050.0], (30, 1)), budget=budgets[1])
    assert known.found.all()
    assert squared(budgets[1]) <= squared(budgets[0])
    assert np.abs(known.centre - 2000).max() < 20
    assert (known.scale <= 50).all()
    assert (known.scale > 5).all()


def test_nothing_is_wider_than_the_bounds_allow():
    X = np.random.default_rng(1).standard_cauchy((N, 5)) * 100
    X = X.clip(-1, 3)
    found = located(X, np.tile([-1.0, 3.0], (5, 1)))
    assert (found.scale <= 2).all()
    assert (found.reach <= 4).all()
    assert ((found.centre >= -1) & (found.centre <= 3)).all()


def test_constant_columns_take_no_part_in_a_look():
    X = np.random.default_rng(0).normal(size=(N, 4))
    parameters = LocationParameters(N, 4, MU)
    X[:, :3] = 7.0
    bounds = check_bounds({0: (7, 7), 1: (7, 7), 2: (7, 7)}, 4)
    budget = ample()
    found = find_location(ArrayRecords(X), parameters, budget, seeded(), bounds=bounds)
    assert found.found.all()
    assert found.scale[:3].tolist() == [0.0, 0.0, 0.0]
    assert found.centre[:3].tolist() == [7.0, 7.0, 7.0]
    assert len(spent(budget)) <= 2


@pytest.mark.parametrize("seed", range(4))
def test_any_bounds_give_numbers(seed):
    rng = np.random.default_rng(seed)
    ends = np.sort(rng.choice([0.0, 1e-300, -1e300, 1e300, 1.7e308, -1.7e308, 5.0, 1e9], (12, 2)))
    X = rng.normal(size=(N, 12)) * 10.0 ** rng.integers(-20, 20, 12)
    X = np.clip(X, ends[:, 0], ends[:, 1])
    found = located(X, ends)
    assert found.found.all()
    for each in (found.centre, found.scale, found.reach):
        assert np.isfinite(each).all()


def test_the_stage_finds_every_bounded_column():
    X = np.column_stack([rare(np.full(3, 0.001)), np.full(N, 2.0)])
    bounds = check_bounds({0: (0, 1), 1: (0, 1), 2: (0, 1)}, 4)
    stage, budget = Preparation(N, 4, MU, bounds=bounds), ample(MU)
    made = stage.run(Prepared(ArrayRecords(X), np.ones(4)), budget, seeded())
    assert made.making["unresolved"] == (3,)
    assert (made.feature_scale[:3] > 0).all()
    assert ((made.location[:3] >= 0) & (made.location[:3] <= 1)).all()
    assert 0 < squared(budget) < 0.5 * MU**2


def test_only_constants_leave_nothing_to_do():
    bounds = check_bounds({0: (2, 2), 1: (3, 3)}, 2)
    stage, budget = Preparation(N, 2, MU, bounds=bounds), ample(MU)
    prepared = Prepared(ArrayRecords(np.tile([2.0, 3.0], (N, 1))), np.ones(2))
    made = stage.run(prepared, budget, seeded())
    assert made.making["unresolved"] == ()
    assert spent(budget) == {}
    assert made.location.tolist() == [2.0, 3.0]


def test_bounds_make_a_stage_possible_for_few_records():
    def expected(bounds):
        return Preparation(50, 2, MU, bounds=bounds).expected

    assert expected(None).share == 0
    assert expected(check_bounds({0: (0, 1)}, 2)) == Found(0.5, 0.0, expected(None).strain)
    assert expected(check_bounds({0: (0, 1), 1: (0, 1)}, 2)) == Found()
    assert expected(check_bounds({0: (1, 1), 1: (0, 1)}, 2)) == Found()
    assert expected(check_bounds({0: (1, 1)}, 2)).share == 0
    with pytest.raises(ParameterError, match="bounds must be 2 pairs"):
        Preparation(50, 2, MU, bounds=Bounds((0.0,), (1.0,)))
