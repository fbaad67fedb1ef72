"""Published mechanisms on the smallest tables, constants, duplicates, and numbers of any size."""

from __future__ import annotations

import numpy as np
import pytest

from estimators.settings import RECORDS, TRUTH, D, fit
from hushcov import RowTopKCovariance, ThresholdedCovariance
from hushcov.exceptions import AccuracyWarning, ParameterError
from hushcov.metrics import operator_norm_error
from hushcov.simulate import gaussian_records
from peers.estimators import (
    SCALING,
    each_peer,
    each_scaling,
    make_class,
    peer,
)

KNOWN = {"feature_scale": 1.0, "assume_centered": True}
MANY = gaussian_records(TRUTH, 40_000)
MANY.setflags(write=False)


# The smallest tables.


@each_peer
@pytest.mark.parametrize("known", [{}, KNOWN])
def test_one_feature(name, known):
    scale = 1.0 if known or name not in SCALING else 3.0
    own = {"eigenvalue_bounds": (0.5, 2.0)} if "coinpress" in name else {}
    estimator = fit(peer(name, row_sparsity=1, **own, **known), scale * MANY[:, :1])
    assert estimator.covariance_.shape == (1, 1)
    assert estimator.covariance_[0, 0] == pytest.approx(scale**2, rel=0.15)
    np.testing.assert_allclose(estimator.precision_, 1 / estimator.covariance_)


@each_peer
def test_one_record_is_enough(name):
    estimator = fit(peer(name, row_sparsity=1, **KNOWN), RECORDS[:1])
    assert np.isfinite(estimator.covariance_).all()
    assert estimator.release_.guarantee.transcript_epsilon <= 1


@each_peer
@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("k", [1, 4])
def test_a_few_records(name, n, k):
    estimator = fit(peer(name, row_sparsity=k), RECORDS[:n, :4], hopeless=True)
    assert (estimator.n_records_, estimator.release_.making.n_records) == (n, n)
    assert np.isfinite(estimator.covariance_).all()
    assert np.isfinite(estimator.precision_).all()


@each_scaling
def test_too_few_records_for_scales_are_said_to_be_too_few(name):
    with pytest.warns(AccuracyWarning, match="20 records") as caught:
        peer(name).fit(RECORDS[:20])
    assert [warning.filename for warning in caught] == [__file__]
    peer(name, feature_scale=1.0).fit(RECORDS[:20])


@each_peer
def test_no_row_has_more_entries_than_there_are_features(name):
    with pytest.raises(ParameterError, match=r"got 11.*n_features = 10"):
        peer(name, row_sparsity=11).fit(RECORDS)
    estimator = fit(peer(name, row_sparsity=D), RECORDS)
    assert estimator.release_.released.all()


def test_rows_of_one_entry_are_the_diagonal():
    estimator = fit(make_class(RowTopKCovariance, row_sparsity=1), RECORDS)
    np.testing.assert_array_equal(estimator.support_, np.eye(D, dtype=bool))
    np.testing.assert_array_equal(estimator.selected_, np.eye(D, dtype=bool))


# Constants and duplicates.


@each_scaling
def test_constant_columns_are_found_out(name):
    """Others are estimated as if they were not there."""
    X, truth = MANY.copy(), TRUTH.copy()
    X[:, [0, 5]] = 0.0
    truth[[0, 5]] = truth[:, [0, 5]] = 0.0
    estimator = fit(peer(name), X)
    assert estimator.feature_scale_[[0, 5]].tolist() == [0.0, 0.0]
    assert not estimator.support_[[0, 5]].any()
    assert operator_norm_error(estimator.covariance_, truth) < 0.12
    assert np.isfinite(estimator.precision_).all()


@each_peer
def test_a_table_of_constants(name):
    """Nothing is left where scales are estimated, and noise around zero where they are public."""
    estimator = fit(peer(name), np.zeros((20_000, D)))
    assert np.abs(estimator.covariance_).max() < (1e-9 if name in SCALING else 0.03)


@each_scaling
def test_duplicated_columns(name):
    X = MANY[:, [0, 0, 2, 3, 4, 5, 6, 7, 8, 9]]
    estimator = fit(peer(name, positive_semidefinite=True), X)
    np.testing.assert_allclose(estimator.covariance_[:2, :2], 1.0, atol=0.12)


# Huge, tiny and mixed values.


@each_peer
@pytest.mark.parametrize("exponents", [[-330], [330], np.linspace(-330, 330, D).astype(int)])
def test_units_are_a_matter_of_taste(name, exponents):
    """Powers of two, from 1e-100 to 1e100 and one for each feature, change nothing but the unit."""
    units = np.broadcast_to(2.0 ** np.asarray(exponents, dtype=float), D)
    outer = np.multiply.outer(units, units)
    plain = fit(peer(name, feature_scale=1.0, positive_semidefinite=True), RECORDS)
    moved = fit(peer(name, feature_scale=units, positive_semidefinite=True), RECORDS * units)
    np.testing.assert_array_equal(moved.release_.integers, plain.release_.integers)
    np.testing.assert_array_equal(moved.covariance_, plain.covariance_ * outer)
    np.testing.assert_allclose(moved.precision_ * outer, plain.precision_, rtol=1e-9)
    if hasattr(plain, "noise_sd_"):
        np.testing.assert_array_equal(moved.noise_sd_, plain.noise_sd_ * outer)
        for ends in zip(moved.covariance_interval(), plain.covariance_interval(), strict=True):
            np.testing.assert_array_equal(ends[0], ends[1] * outer)


@each_scaling
def test_scales_over_twelve_orders_of_magnitude(name):
    """They are estimated, and what is true of correlations is true of each feature."""
    units = np.geomspace(1e-6, 1e6, D)
    outer = np.multiply.outer(units, units)
    estimator = fit(peer(name, positive_semidefinite=True), MANY * units)
    np.testing.assert_allclose(np.log2(estimator.feature_scale_ / units), 0.0, atol=1.0)
    assert operator_norm_error(estimator.covariance_ / outer, TRUTH) < 0.12
    inverse = estimator.precision_ * outer
    assert operator_norm_error(inverse, np.linalg.inv(TRUTH)) < 0.5


@each_peer
def test_a_few_records_of_any_size_change_little(name):
    """Five of 40,000 records, at the ends of what a double holds."""
    X = MANY.copy()
    X[100], X[200], X[300] = 1e300, -1e300, np.finfo(float).max
    X[400], X[500] = 1e-300, np.resize([1e300, -1e-300], D)
    for changes in ({}, KNOWN):
        estimator = fit(peer(name, **changes), X)
        assert operator_norm_error(estimator.covariance_, TRUTH) < (
            0.15 if name in SCALING else 0.75
        )


@each_scaling
@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_values_beyond_the_range_of_private_scales(name, size):
    """Tiny ones count as constant, and huge ones are clipped: no error, warning or overflow."""
    estimator = fit(peer(name), size * RECORDS)
    assert np.isfinite(estimator.covariance_).all()
    if size < 1:
        assert not estimator.covariance_.any()
    else:
        assert 2.0**60 < estimator.feature_scale_.min() < estimator.feature_scale_.max() < 2.0**68


@each_peer
@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_values_far_from_public_scales(name, size):
    estimator = fit(peer(name, **KNOWN), size * RECORDS)
    assert np.isfinite(estimator.covariance_).all()


@pytest.mark.parametrize("constant", [2.0, "cv", 1e100])
def test_the_reference_without_privacy_has_no_overflow(constant):
    """A threshold may be beyond all doubles; nothing is above it then."""
    units = np.geomspace(1e-150, 1e150, D)
    estimator = ThresholdedCovariance(constant=constant, random_state=0).fit(RECORDS * units)
    assert np.isfinite(estimator.covariance_).all()
    assert estimator.support_.diagonal().all()
    if constant == 1e100:
        np.testing.assert_array_equal(estimator.support_, np.eye(D, dtype=bool))


# Budgets.


BUDGETS = [(1e-6, 1e-9), (1e-3, 0.1), (10.0, 0.1), (10.0, 1e-11)]


@pytest.mark.parametrize("budget", BUDGETS)
@each_peer
def test_the_ends_of_the_budget(name, budget):
    epsilon, delta = budget
    given = {"epsilon": epsilon, "delta": delta} if name in SCALING else {"epsilon": epsilon}
    estimator = fit(peer(name, **given), RECORDS, hopeless=True)
    guarantee = estimator.release_.guarantee
    assert (guarantee.epsilon, guarantee.delta) == (epsilon, given.get("delta", 0.0))
    assert guarantee.transcript_epsilon <= epsilon
    assert np.isfinite(estimator.covariance_).all()


@each_peer
def test_more_budget_and_more_records_are_better(name):
    errors = [
        operator_norm_error(fit(peer(name, epsilon=epsilon, **KNOWN), X).covariance_, TRUTH)
        for epsilon, X in ((0.1, RECORDS[:500]), (10.0, MANY))
    ]
    assert errors[1] < min(0.3, errors[0] / 3)
