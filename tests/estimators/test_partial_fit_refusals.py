"""What an estimator holds between `partial_fit` and the release, and what it refuses."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from estimators.settings import PEERS, RECORDS, D, make
from estimators.site_settings import BILLION, BLOCK, SITES, N, gaussian, multiscale, summed
from estimators.stand_ins import UntouchableRecords
from hushcov import (
    EigenSamplingCovariance,
    GaussianCovariance,
    PrivateSparseCovariance,
    ScreenedCovariance,
    Statistics,
    ThresholdedCovariance,
)
from hushcov.exceptions import (
    CapacityError,
    DataError,
    HopelessError,
    HushcovError,
    ParameterError,
    PrivacyConditionError,
)
from hushcov.mechanisms.gaussian import gaussian_parameters, release_gaussian_sums
from hushcov.noise import entropy_source
from hushcov.simulate import wishart_moments
from hushcov.sums.gram import second_moments
from hushcov.tables.files import FileRecords
from hushcov.tables.sources import ArrayRecords

# What an estimator holds, and when.


@pytest.fixture
def holding():
    return gaussian().partial_fit(SITES[0], total_records=N)


def test_nothing_is_held_after_the_release(holding):
    holding.fit_statistics()
    assert not hasattr(holding, "statistics_")
    assert not hasattr(holding, "total_records_")
    with pytest.raises(DataError, match="holds none"):
        holding.fit_statistics()
    assert holding.covariance_.shape == (D, D)


def test_no_more_records_after_a_release(holding):
    fitted = gaussian().fit(RECORDS)
    for released in (holding.fit_statistics(), fitted):
        with pytest.raises(ParameterError, match=r"before the release.*clone"):
            released.partial_fit(UntouchableRecords(*RECORDS.shape), total_records=N)
    clone(fitted).partial_fit(SITES[0], total_records=N)


def test_fit_starts_anew(holding):
    holding.fit(RECORDS)
    assert not hasattr(holding, "statistics_")


def test_sums_are_no_estimate(holding):
    with pytest.raises(NotFittedError):
        check_is_fitted(holding)
    with pytest.raises(NotFittedError):
        holding.get_precision()
    check_is_fitted(holding.fit_statistics())


def test_sums_are_neither_shown_nor_pickled_nor_copied(holding):
    assert str(int(holding.statistics_.gram[0, 0])) not in repr(holding)
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(DataError, match=r"not private.*statistics_\.save"):
            attempt(holding)
    assert clone(holding).get_params() == holding.get_params()
    released = pickle.loads(pickle.dumps(holding.fit_statistics()))
    np.testing.assert_array_equal(released.covariance_, holding.covariance_)


def test_refused_records_leave_the_sums_alone(holding):
    before = dict(vars(holding))
    bad = SITES[1].copy()
    bad[1, 3] = np.nan
    attempts = [
        (lambda: holding.partial_fit(bad), DataError),
        (lambda: holding.partial_fit(SITES[1][:, :4]), DataError),
        (lambda: holding.partial_fit(SITES[1][0]), DataError),
        (lambda: holding.partial_fit(pd.DataFrame(SITES[1])[[0]]), DataError),
        (lambda: holding.partial_fit(SITES[1], total_records=7), ParameterError),
        (lambda: holding.fit(bad), HopelessError),
        (lambda: holding.fit(np.tile(bad, (600, 1))), DataError),
    ]
    for attempt, kind in attempts:
        with pytest.raises(kind):
            attempt()
        assert vars(holding) == before


# Refusals, each with its cure, before a record is read.

NOTHING_READ = UntouchableRecords(*RECORDS.shape)


@pytest.mark.parametrize("total", [None, 0, -5, 2.5, "all", True, float("nan")])
def test_a_total_is_a_number_of_rows(total):
    with pytest.raises(ParameterError, match="total_records"):
        gaussian().partial_fit(NOTHING_READ, total_records=total)


def test_scales_must_be_public():
    for attempt in (
        lambda: gaussian(feature_scale=None).partial_fit(NOTHING_READ, total_records=N),
        lambda: gaussian(feature_scale=None).fit_statistics(summed(gaussian(), RECORDS, total=N)),
    ):
        with pytest.raises(ParameterError, match="feature_scale is required"):
            attempt()


@pytest.mark.parametrize("changes", [{"epsilon": None}, {"delta": 0}, {"row_norm": -1.0}])
def test_bad_parameters_are_refused_before_a_record_is_read(changes):
    with pytest.raises(ParameterError):
        gaussian(**changes).partial_fit(NOTHING_READ, total_records=N)


def test_records_with_nulls_are_refused(tmp_path):
    pd.DataFrame({"a": [1.0, None, 2.0], "b": [1.0, 2.0, 3.0]}).to_parquet(tmp_path / "x.parquet")
    records = FileRecords(tmp_path / "x.parquet", drop_nulls=True)
    for est in (gaussian(), multiscale()):
        with pytest.raises(ParameterError, match=r"drop_nulls .* partial_fit"):
            est.partial_fit(records, total_records=N)


def test_columns_must_be_the_same_in_the_same_order():
    names = [f"x{i}" for i in range(D)]
    est = gaussian().partial_fit(pd.DataFrame(SITES[0], columns=names), total_records=N)
    for X in (pd.DataFrame(SITES[1], columns=names[::-1]), SITES[1]):
        with pytest.raises(DataError, match="the same feature_names"):
            est.partial_fit(X)
    with pytest.raises(DataError, match=f"4 features, .* {D} features"):
        est.partial_fit(UntouchableRecords(10, 4))
    est.partial_fit(pd.DataFrame(SITES[1], columns=names))


def test_parameters_that_change_the_map_are_refused_between_calls(holding):
    holding.set_params(epsilon=0.1)
    with pytest.raises(DataError, match="the same norm_bound"):
        holding.partial_fit(NOTHING_READ)
    holding.set_params(epsilon=1.0, feature_scale=2.0)
    with pytest.raises(DataError, match="the same feature_scale"):
        holding.partial_fit(NOTHING_READ)


def test_more_records_than_integers_hold_are_refused_before_they_are_read(holding):
    with pytest.raises(CapacityError, match=r"2\*\*62.*total_records"):
        holding.partial_fit(UntouchableRecords(2 * 10**10, D))
    with pytest.raises(AssertionError, match="records were read"):
        holding.partial_fit(UntouchableRecords(10**9, D))


def test_a_theorem_that_does_not_hold_for_the_plan_is_refused_before_a_record_is_read():
    with pytest.raises(PrivacyConditionError, match="n_records must be"):
        multiscale().partial_fit(UntouchableRecords(1000, 2), total_records=10**6)


@pytest.mark.parametrize("statistics", [np.eye(D), [[1]], "a.sums", wishart_moments(np.eye(2), 9)])
def test_other_things_than_statistics_are_refused(statistics):
    with pytest.raises(DataError, match="statistics must"):
        gaussian().fit_statistics(statistics)


@pytest.mark.parametrize("make_estimator", [gaussian, multiscale])
def test_no_statistics_are_refused(make_estimator):
    with pytest.raises(DataError, match="call partial_fit"):
        make_estimator().fit_statistics()


def test_statistics_of_another_mechanism_are_refused():
    rows = ArrayRecords(BLOCK)
    scaled = summed(
        make(GaussianCovariance, feature_scale=1.0, assume_centered=True), BLOCK, total=1000
    )
    repeats = Statistics(scaled.gram * 10**6, BILLION, scaled.record_map)
    with pytest.raises(HushcovError, match="moments must"):
        multiscale().fit_statistics(repeats)
    moments = second_moments(rows, multiscale().grid(1000, 2))
    with pytest.raises(DataError, match="by their scales"):
        make(GaussianCovariance, feature_scale=1.0, assume_centered=True).fit_statistics(moments)


@pytest.mark.parametrize("centred", [False, "yes"])
def test_means_must_be_known(centred):
    with pytest.raises(ParameterError, match="assume_centered must"):
        gaussian(assume_centered=centred).fit_statistics(summed(gaussian(), RECORDS, total=N))


def test_the_mechanism_refuses_sums_on_another_map():
    statistics = summed(gaussian(), RECORDS, total=N)
    inputs = gaussian().public_inputs(N, D)
    for changes in ({"radius": 5.0}, {"row_norm": 1.0}):
        with pytest.raises(DataError, match="clipped with"):
            release_gaussian_sums(
                statistics, gaussian_parameters(inputs, **changes), entropy_source()
            )
    other = gaussian_parameters(gaussian().public_inputs(N + 1, D))
    with pytest.raises(DataError, match="records must be 4,001"):
        release_gaussian_sums(statistics, other, entropy_source())


@pytest.mark.parametrize(
    "cls",
    [
        PrivateSparseCovariance,
        ScreenedCovariance,
        EigenSamplingCovariance,
        ThresholdedCovariance,
        *PEERS,
    ],
)
def test_mechanisms_that_read_twice_have_no_partial_fit(cls):
    assert not hasattr(cls, "partial_fit")
    assert not hasattr(cls, "fit_statistics")
