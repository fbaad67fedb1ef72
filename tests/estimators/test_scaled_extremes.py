"""Data that nobody hopes for: the smallest tables, constants, duplicates, outliers, wrong sizes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from estimators.settings import (
    BUDGET,
    ESTIMATORS,
    RECORDS,
    TRUTH,
    D,
    correlations,
    fit,
    make,
    skip_search,
)
from hushcov import GaussianCovariance, PrivateSparseCovariance, ScreenedCovariance
from hushcov.exceptions import AccuracyWarning, ParameterError, SeededNoiseWarning
from hushcov.metrics import operator_norm_error
from hushcov.simulate import gaussian_records
from hushcov.steps.scales import FeatureScales, trusted_scale

each_estimator = pytest.mark.parametrize("cls", ESTIMATORS, ids=lambda cls: cls.__name__)
KNOWN = {"feature_scale": 1.0, "assume_centered": True}
CENTRED = {"assume_centered": True}  # `test_centre.py` has the extremes of means that are found


@pytest.fixture(autouse=True)
def no_search(monkeypatch):
    """The multiscale search takes seconds where few records make its rough forecast competitive."""
    skip_search(monkeypatch)


# The smallest tables.


@each_estimator
@pytest.mark.parametrize("known", [{}, KNOWN])
def test_one_feature(cls, known):
    X = 3 * RECORDS[:, :1] if not known else RECORDS[:, :1]
    estimator = fit(make(cls, row_sparsity=1, **known), X)
    assert estimator.covariance_.shape == (1, 1)
    assert estimator.covariance_[0, 0] == pytest.approx(1.0 if known else 9.0, rel=0.2)
    lower, upper = estimator.covariance_interval()
    assert lower < estimator.covariance_ < upper
    np.testing.assert_allclose(estimator.precision_, 1 / estimator.covariance_)


@each_estimator
def test_one_record_is_enough(cls):
    estimator = fit(make(cls, row_sparsity=1, **KNOWN), RECORDS[:1], hopeless=True)
    assert np.isfinite(estimator.covariance_).all()
    assert estimator.release_.guarantee.transcript_epsilon <= 1


@each_estimator
@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("k", [1, 2])
def test_a_few_records(cls, n, k):
    estimator = fit(make(cls, row_sparsity=k, **CENTRED), RECORDS[:n, :4], hopeless=True)
    assert (estimator.n_records_, estimator.release_.making.n_records) == (n, n)
    assert np.isfinite(estimator.covariance_).all()
    if estimator.release_.mechanism != "multiscale":
        assert np.isfinite([np.diag(end) for end in estimator.covariance_interval()]).all()


# Row sparsity.


@pytest.mark.parametrize("cls", [ScreenedCovariance, PrivateSparseCovariance])
def test_a_row_sparsity_of_one_is_the_diagonal(cls):
    changes = {"mechanism": "screened"} if cls is PrivateSparseCovariance else {}
    estimator = fit(make(cls, row_sparsity=1, **changes), RECORDS)
    np.testing.assert_array_equal(estimator.support_, np.eye(D, dtype=bool))
    np.testing.assert_array_equal(estimator.release_.released, np.eye(D, dtype=bool))
    np.testing.assert_allclose(np.diag(estimator.covariance_), 1.0, atol=0.15)
    assert np.isnan(estimator.noise_sd_[0, 1])


@each_estimator
@pytest.mark.parametrize("k", [D + 1, 10**6])
def test_no_row_has_more_entries_than_there_are_features(cls, k):
    with pytest.raises(ParameterError, match=f"got {k}.*n_features = 10"):
        make(cls, row_sparsity=k).fit(RECORDS)


@each_estimator
def test_every_entry_may_be_there(cls):
    estimator = fit(make(cls, row_sparsity=D), RECORDS)
    assert estimator.release_.released.all()
    assert operator_norm_error(estimator.covariance_, TRUTH) < 0.6


def test_more_partners_than_declared():
    """Blocks of 6 declared as 2: as many pairs as declared come out, and they are true ones."""
    d, n = 30, 20_000
    truth = correlations("block", d, 6)
    estimator = fit(make(ScreenedCovariance, **KNOWN), gaussian_records(truth, n))
    pairs = np.count_nonzero(np.triu(estimator.selected_, 1))
    assert pairs == estimator.plan_.parameters.n_pairs < np.count_nonzero(np.triu(truth, 1))
    assert pairs >= d * (2 - 1) / 2
    found = np.triu(estimator.support_, 1)
    assert np.count_nonzero(found & (truth != 0)) > 0.95 * np.count_nonzero(found) > 0
    np.testing.assert_allclose(estimator.covariance_[found], truth[found], atol=0.1)


def test_what_cannot_be_found_is_said_beforehand():
    """Ten times as many partners to look for: the plan sees weak pairs lost, and larger errors."""
    few, many = (make(ScreenedCovariance, row_sparsity=k).plan(2_000, 100) for k in (2, 20))
    assert 0 < few.detection_limit < many.detection_limit <= 1
    assert few.predicted_error["random"] < many.predicted_error["random"]
    lost = make(ScreenedCovariance, row_sparsity=20).plan(100, 100)
    assert lost.detection_limit == 1.0
    assert min(lost.predicted_error.values()) >= 1


@pytest.mark.parametrize("cls", [ScreenedCovariance, PrivateSparseCovariance])
def test_too_few_records_are_said_to_be_too_few(cls):
    changes = {"mechanism": "screened"} if cls is PrivateSparseCovariance else {}
    with (
        pytest.warns(AccuracyWarning, match="50 records .* scales"),
        pytest.warns(AccuracyWarning, match="50 records of 10") as w,
    ):
        make(cls, on_hopeless="warn", **changes, **CENTRED).fit(RECORDS[:50])
    assert {warning.filename for warning in w} == {__file__}
    with pytest.warns(AccuracyWarning, match="20 records of 10 features"):
        make(cls, on_hopeless="warn", **changes, **KNOWN).fit(RECORDS[:20])


# Constants and duplicates.


@each_estimator
def test_constant_columns_are_found_out(cls):
    """Others are estimated as if they were not there."""
    X = gaussian_records(TRUTH, 40_000)
    X[:, [0, 5]] = 0.0
    truth = TRUTH.copy()
    truth[[0, 5]] = truth[:, [0, 5]] = 0.0
    estimator = fit(make(cls, **CENTRED), X)
    assert estimator.feature_scale_[[0, 5]].tolist() == [0.0, 0.0]
    assert not estimator.support_[[0, 5]].any()
    assert operator_norm_error(estimator.covariance_, truth) < 0.06
    assert np.isfinite(estimator.precision_).all()


@each_estimator
def test_a_table_of_constants(cls):
    estimator = fit(make(cls, **CENTRED), np.zeros((20_000, D)))
    assert np.abs(estimator.covariance_).max() < 1e-9


@each_estimator
def test_constant_columns_of_a_known_scale_and_mean_zero(cls):
    """Declared with scale 1, they are noise around zero."""
    X = RECORDS.copy()
    X[:, 0] = 0.0
    estimator = fit(make(cls, **KNOWN), X)
    assert abs(estimator.covariance_[0, 0]) < 6 * estimator.noise_sd_[0, 0]
    assert not estimator.covariance_[0, 1:].any() or cls is GaussianCovariance


def test_uncertain_scales_are_no_larger_than_certain_ones():
    scale = np.array([0.0, 2.0, 5.0, 1e12, 0.1, 0.0])
    uncertain = np.array([False, False, False, True, True, True])
    counts = np.zeros((6, 2), dtype=np.int64)
    trusted = trusted_scale(FeatureScales(scale, uncertain, counts))
    np.testing.assert_array_equal(trusted, [0.0, 2.0, 5.0, 5.0, 0.1, 0.0])
    nobody = FeatureScales(scale, np.ones(6, dtype=bool), counts)
    # Where all are uncertain, none is larger than the median of those that are not zero.
    np.testing.assert_array_equal(trusted_scale(nobody), [0.0, 2.0, 3.5, 3.5, 0.1, 0.0])
    nothing = FeatureScales(np.zeros(6), np.ones(6, dtype=bool), counts)
    np.testing.assert_array_equal(trusted_scale(nothing), np.zeros(6))


@pytest.mark.parametrize("seed", range(6))
def test_no_scale_of_a_fit_is_off_by_orders_of_magnitude(seed):
    """So many features for so few records that the counts of some drown in noise.

    One such feature used to get a scale of 1e16 in every third fit, and noise of 1e32.
    """
    X = gaussian_records(np.eye(500), 2_000, random_state=seed)
    estimator = GaussianCovariance(**BUDGET, **CENTRED, store_precision=False)
    estimator = fit(estimator, X, seed, hopeless=True)
    assert 1 < estimator.feature_scale_.max() < 10


@each_estimator
def test_duplicated_columns(cls):
    X = gaussian_records(TRUTH, 20_000)[:, [0, 0, 2, 3, 4, 5, 6, 7, 8, 9]]
    estimator = fit(make(cls), X)
    assert estimator.support_[0, 1]
    np.testing.assert_allclose(estimator.covariance_[:2, :2], 1.0, atol=0.1)
    estimator = fit(make(cls, positive_semidefinite=True), X)
    np.testing.assert_allclose(estimator.covariance_[:2, :2], 1.0, atol=0.1)


# Huge, tiny and mixed values.


@each_estimator
@pytest.mark.parametrize("exponent", [-330, -100, 100, 330])
def test_units_are_a_matter_of_taste(cls, exponent):
    """Powers of two, down to 1e-100 and up to 1e100, change nothing but the unit."""
    c = 2.0**exponent
    options = {"positive_semidefinite": True, **CENTRED}
    plain = fit(make(cls, feature_scale=1.0, **options), RECORDS)
    moved = fit(make(cls, feature_scale=c, **options), RECORDS * c)
    np.testing.assert_array_equal(moved.release_.integers, plain.release_.integers)
    np.testing.assert_array_equal(moved.covariance_, c * c * plain.covariance_)
    np.testing.assert_allclose(moved.precision_, plain.precision_ / (c * c))
    np.testing.assert_array_equal(moved.noise_sd_, c * c * plain.noise_sd_)
    for ends in zip(moved.covariance_interval(), plain.covariance_interval(), strict=True):
        np.testing.assert_array_equal(ends[0], c * c * ends[1])


@each_estimator
@pytest.mark.parametrize("known", [{}, {"feature_scale": 1.0}])
def test_a_few_records_of_any_size_change_little(cls, known):
    """Five of 4,000 records, at the ends of what a double holds."""
    X = RECORDS.copy()
    X[100], X[200], X[300] = 1e300, -1e300, np.finfo(float).max
    X[400], X[500] = 1e-300, np.resize([1e300, -1e-300], D)
    estimator = fit(make(cls, **known), X)
    assert operator_norm_error(estimator.covariance_, TRUTH) < 0.5


@each_estimator
@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_values_beyond_the_range_of_private_scales(cls, size):
    """Tiny ones count as constant, and huge ones are clipped: no error, warning or overflow."""
    estimator = fit(make(cls, **CENTRED), size * RECORDS)
    assert np.isfinite(estimator.covariance_).all()
    if size < 1:
        assert not estimator.covariance_.any()
    else:
        assert 2.0**60 < estimator.feature_scale_.min() < estimator.feature_scale_.max() < 2.0**68


@each_estimator
def test_scales_over_twelve_orders_of_magnitude(cls):
    """What is true of correlations is true of each feature, and of what is computed from it."""
    units = np.geomspace(1e-6, 1e6, D)
    outer = np.multiply.outer(units, units)
    X = gaussian_records(TRUTH, 20_000) * units
    estimator = fit(make(cls, positive_semidefinite=True), X)
    np.testing.assert_allclose(np.log2(estimator.feature_scale_ / units), 0.0, atol=1.0)
    assert operator_norm_error(estimator.covariance_ / outer, TRUTH) < 0.1
    inverse = estimator.precision_ * outer
    assert operator_norm_error(inverse, np.linalg.inv(TRUTH)) < 0.2
    assert np.linalg.eigvalsh(estimator.covariance_ / outer)[0] > 0


# Budgets and seeds.


@each_estimator
@pytest.mark.parametrize("budget", [(1e-6, 1e-9), (1e-3, 0.1), (10.0, 0.1), (10.0, 1e-11)])
def test_the_ends_of_the_budget(cls, budget):
    epsilon, delta = budget
    estimator = fit(make(cls, epsilon=epsilon, delta=delta), RECORDS, hopeless=True)
    guarantee = estimator.release_.guarantee
    assert (guarantee.epsilon, guarantee.delta) == budget
    assert guarantee.transcript_epsilon <= epsilon
    assert np.isfinite(estimator.covariance_).all()


@each_estimator
@pytest.mark.parametrize("seed", [3, np.int64(3), np.random.default_rng, np.random.RandomState])
def test_a_seed_warns_repeats_and_is_not_private(cls, seed):
    def once():
        state = seed(3) if callable(seed) else seed
        with pytest.warns(SeededNoiseWarning, match="NOT private") as caught:
            estimator = make(cls, random_state=state).fit(RECORDS)
        assert caught[0].filename == __file__
        return estimator

    first, second = once(), once()
    np.testing.assert_array_equal(first.covariance_, second.covariance_)
    assert not first.release_.guarantee.private
    assert str(first.release_.guarantee).startswith("NOT PRIVATE")


@each_estimator
def test_private_fits_are_silent_and_differ(cls):
    first, second = (make(cls).fit(RECORDS) for _ in range(2))
    assert first.release_.guarantee.private
    assert not np.array_equal(first.release_.integers, second.release_.integers)
    assert not math.isclose(first.covariance_[0, 0], second.covariance_[0, 0])
