"""The study of regression: one small cell, its scores, and the budget of many targets."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from hushcov.calibration import calibrate_gaussian
from hushcov.exceptions import ParameterError
from hushcov_lab.rivals import regression_study, tables
from hushcov_lab.rivals.regression import RIVALS, Coefficients
from hushcov_lab.rivals.regression_study import (
    GIVEN,
    LEAST_SQUARES,
    OURS,
    OURS_FOR_RELATIONS,
    OURS_FOR_TARGET,
    HeldOut,
    compare,
    draw,
    least_squares,
    measure,
    our_releases,
)
from hushcov_lab.rivals.tables import RegressionTable, load_table

CELL = {"table": "sparse-normal", "epsilon": 3.0, "seed": 1, "folder": None}


@pytest.fixture(scope="module")
def rows():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "_SIMULATED_RECORDS", 4_000)
        patch.setattr(tables, "_POPULATION", 20_000)
        load_table.cache_clear()
        yield measure(CELL)
        load_table.cache_clear()


def test_a_cell_has_a_row_for_each_method(rows):
    ours = our_releases(20)
    assert {OURS, OURS_FOR_RELATIONS} <= set(ours)
    titles = [*ours, *(each.title for each in RIVALS.values())]
    told = [*ours, *(each.title for each in RIVALS.values() if each.needs_bounds)]
    expected = {LEAST_SQUARES, *titles, *(title + GIVEN for title in told)}
    assert {row["method"] for row in rows} == expected
    assert len(rows) == len(expected)
    for row in rows:
        assert (row["n"], row["n_columns"], row["delta"]) == (3_200, 20, 3_200**-2)
        assert {type(value) for value in row.values()} <= {int, float, str, bool, type(None)}
        json.dumps(row)
        assert row["answered"] or row["refusal"]


def test_scores_of_a_cell(rows):
    found = {row["method"]: row for row in rows}
    exact, ours = found[LEAST_SQUARES], found[OURS]
    assert (exact["coefficient_error"], exact["width"], exact["finite"]) == (0.0, 1.0, 1.0)
    assert exact["covered"] > 0.7
    assert 0.2 < exact["r2"] < 0.4
    assert ours["answered"]
    assert 0 < ours["r2"] < exact["r2"] + 0.02
    assert ours["width"] > 1
    many = {row["method"] for row in rows if row.get("all_targets") is not None}
    every = {OURS, OURS + GIVEN, OURS_FOR_RELATIONS, OURS_FOR_RELATIONS + GIVEN}
    assert many == {LEAST_SQUARES, "AdaSSP" + GIVEN} | every
    assert max(found[name]["all_targets"] for name in many) == exact["all_targets"]


def test_a_declared_target_is_measured_where_it_can_be(monkeypatch):
    """It has an entry of its own, for the one target; every method has a line of its own."""

    class Declaring(regression_study.PrivateSparseCovariance):
        def __init__(self, *, target=None, **options):
            asked.append(target)
            super().__init__(**options)

    asked = []
    monkeypatch.setattr(regression_study, "PrivateSparseCovariance", Declaring)
    options = our_releases(4)[OURS_FOR_TARGET]
    assert options["target"] == 4
    split = split_of(3_000, 4)
    spent = {"epsilon": 3.0, "delta": 1e-6} | options
    found, every = regression_study._release(split.train, None, spent, seed=0)
    assert (asked, every) == ([4], None)
    assert split.r_squared(4, found) > 0.5
    names = [*our_releases(4), *(title.title for title in RIVALS.values())]
    looks = [tuple(sorted(each.items())) for each in regression_study._looks(names).values()]
    assert len(set(looks)) == len(looks)


def test_a_panel_for_each_table_with_gaps(rows):
    cells = [row | CELL | {"epsilon": epsilon} for epsilon in (0.3, 1.0) for row in rows]
    silent = [row | {"table": "other", "answered": False, "r2": None} for row in cells]
    panels = [axes for axes in draw(cells + silent).axes if axes.get_visible()]
    assert [axes.get_title() for axes in panels] == [
        "sparse-normal (3,200 x 20)",
        "other (3,200 x 20)",
    ]
    assert np.isnan([line.get_ydata() for line in panels[1].lines]).all()


def split_of(n: int, d: int) -> HeldOut:
    X = np.random.default_rng(0).normal(size=(n, d)) + np.arange(d)
    return HeldOut.of(RegressionTable("t", X, X @ np.arange(d) + 5, np.eye(d + 1)), seed=0)


def test_a_split_and_its_other_targets():
    split = split_of(50, 3)
    assert (len(split.train), len(split.test)) == (40, 10)
    X, y, bounds = split.towards(1)
    np.testing.assert_array_equal(X, split.train[:, [0, 2, 3]])
    np.testing.assert_array_equal(y, split.train[:, 1])
    every = np.vstack([split.train, split.test])
    np.testing.assert_array_equal(bounds.lower, every[:, [0, 2, 3, 1]].min(axis=0))
    np.testing.assert_array_equal(bounds.upper, every[:, [0, 2, 3, 1]].max(axis=0))
    assert split.r_squared(3, Coefficients(5.0, np.arange(3.0))) == pytest.approx(1.0)
    mean = Coefficients(float(split.test[:, 3].mean()), np.zeros(3))
    assert split.r_squared(3, mean) == pytest.approx(0.0, abs=1e-12)


def test_intervals_count_what_they_are_of():
    """A column that was left out has no interval, and its coefficient is not held fixed."""
    population = np.array([[1.0, 0.5, 1.0], [0.5, 1.0, 0.5], [1.0, 0.5, 4.0]])
    exact = Coefficients(0.0, np.array([1.0, 0.0]), np.array([0.9, -0.1]), np.array([1.1, 0.1]))
    found = Coefficients(
        0.0, np.array([0.0, 0.5]), np.array([np.nan, 0.4]), np.array([np.nan, 0.8])
    )
    scores = compare(found, exact, np.array([2.0, 1.0]), population)
    assert scores["covered"] == 1.0  # 0.5, the slope on the second column alone
    assert (scores["width"], scores["finite"]) == (math.inf, 0.5)
    assert scores["coefficient_error"] == pytest.approx(np.hypot(2.0, 0.5) / 2)
    both = replace(found, lower=np.array([-np.inf, 0.4]), upper=np.array([np.inf, 0.8]))
    assert compare(both, exact, np.ones(2), population)["covered"] == 0.0  # 0 beside the first
    assert compare(both, exact, np.ones(2), population)["finite"] == 0.5
    alone = replace(found, lower=None, upper=None)
    assert compare(alone, exact, np.ones(2), population)["covered"] is None


def test_an_answer_without_columns_is_the_mean():
    nothing = Coefficients(3.0, np.zeros(2), np.full(2, np.nan), np.full(2, np.nan))
    exact = Coefficients(0.0, np.ones(2), np.zeros(2), np.full(2, 2.0))
    assert compare(nothing, exact, np.ones(2), np.eye(3)) == {
        "coefficient_error": 1.0,
        "covered": None,
        "width": math.inf,
        "finite": 0.0,
    }
    records = np.random.default_rng(0).normal(size=(3_000, 5)) * [0, 0, 0, 0, 1]
    found, _ = regression_study._release(records, None, {"epsilon": 1.0, "delta": 1e-6}, seed=0)
    np.testing.assert_array_equal(found.coefficients, np.zeros(4))
    assert np.isnan(found.lower).all()


def test_least_squares_is_that_of_the_textbook():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3)) * [1, 100, 0.01] + 7
    y = X @ [1, 0.01, 100] + rng.normal(size=200)
    found = least_squares(X, y)
    Z = np.column_stack([np.ones(200), X])
    b, (rest,), *_ = np.linalg.lstsq(Z, y, rcond=None)
    np.testing.assert_allclose([found.intercept, *found.coefficients], b, rtol=1e-8)
    more = least_squares(np.column_stack([X, np.full(200, 0.1)]), y)  # a constant, but for rounding
    np.testing.assert_allclose(more.coefficients, [*b[1:], 0.0], rtol=1e-8)
    half = 1.96 * np.sqrt(rest / 196 * np.diag(np.linalg.inv(Z.T @ Z)))[1:]
    np.testing.assert_allclose(found.upper - found.lower, 2 * half, rtol=1e-6)


def test_the_budget_of_all_targets_is_that_of_one(monkeypatch):
    asked = []

    def fit(X, y, **options):
        asked.append(options)
        raise ParameterError("no.")

    rival = replace(RIVALS["adassp"], fit=fit)
    monkeypatch.setitem(RIVALS, "adassp", rival)
    split, spent = split_of(500, 7), {"epsilon": 1.0, "delta": 1e-6}
    answer = lambda target: regression_study._one_of_all(split, spent, None, target)  # noqa: E731
    assert regression_study._mean_r2(split, answer) == 0.0  # refusals count as the mean
    assert len(asked) == 8
    parts = [calibrate_gaussian(each["epsilon"], each["delta"]) ** 2 for each in asked]
    total = calibrate_gaussian(**spent) ** 2
    assert total * 0.999 < sum(parts) <= total * (1 + 1e-9)
