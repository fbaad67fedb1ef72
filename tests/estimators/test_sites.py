"""Sums of several sites released together: the bits of one fit, one charge, and refusals."""

import copy
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from estimators.settings import CLASSES, RECORDS, D, make, setting
from estimators.site_settings import (
    BILLION,
    BLOCK,
    SITES,
    N,
    gaussian,
    multiscale,
    quietly,
    summed,
)
from estimators.stand_ins import UntouchableRecords
from hushcov import GaussianCovariance, Statistics, ThresholdedCovariance
from hushcov.exceptions import (
    BudgetError,
    DataError,
    HushcovError,
    ParameterError,
    PrivacyConditionError,
)
from hushcov.fit.gaussian.mechanism import (
    gaussian_parameters,
)
from hushcov.kernel.sums.gram import second_moments
from hushcov.ledger import Ledger
from hushcov.tables.files import FileRecords
from hushcov.tables.sources import ArrayRecords


def assert_same_release(one, other):
    assert one.release_ == other.release_
    assert one.release_.integers.tobytes() == other.release_.integers.tobytes()
    for name in ("covariance_", "support_", "precision_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


CHOICES = {
    "as it is": {},
    "universal threshold": {"threshold": "universal"},
    "positive semidefinite": {"threshold": 0.1, "positive_semidefinite": True},
    "norm": {"row_norm": 3.0},
    "scales": {"feature_scale": np.linspace(0, 2, D)},
}


@pytest.mark.parametrize("name", CHOICES)
def test_sites_together_give_the_fit_of_all_rows(name):
    estimator = clone(gaussian(random_state=3)).set_params(purpose="covariance", **CHOICES[name])
    whole = quietly(clone(estimator).fit, RECORDS)
    parts = quietly(clone(estimator).fit_statistics, summed(estimator, *SITES[::-1], total=N))
    assert_same_release(whole, parts)
    for attribute in ("feature_scale_", "noise_sd_"):
        np.testing.assert_array_equal(getattr(whole, attribute), getattr(parts, attribute))
    assert whole.parameters_ == parts.parameters_
    assert whole.detection_limit_ == parts.detection_limit_
    assert whole.n_records_ == parts.n_records_ == N
    ends = zip(whole.covariance_interval(), parts.covariance_interval(), strict=True)
    for one, other in ends:
        np.testing.assert_array_equal(one, other)


def test_names_of_columns_travel_and_must_be_the_same():
    names = [f"x{i}" for i in range(D)]
    site = gaussian().partial_fit(pd.DataFrame(RECORDS, columns=names), total_records=N)
    assert list(site.feature_names_in_) == names
    assert site.statistics_.record_map.feature_names == tuple(names)
    released = gaussian().fit_statistics(site.statistics_)
    assert list(released.feature_names_in_) == names
    assert list(released.labelled_covariance().columns) == names
    names = [f"x{i}" for i in range(D)]
    est = gaussian().partial_fit(pd.DataFrame(SITES[0], columns=names), total_records=N)
    for X in (pd.DataFrame(SITES[1], columns=names[::-1]), SITES[1]):
        with pytest.raises(DataError, match="the same feature_names"):
            est.partial_fit(X)
    with pytest.raises(DataError, match=f"4 features, .* {D} features"):
        est.partial_fit(UntouchableRecords(10, 4))
    est.partial_fit(pd.DataFrame(SITES[1], columns=names))


@pytest.mark.parametrize("factor", [0.01, 0.5, 3, 1000])
def test_the_guarantee_holds_whatever_total_was_planned(factor):
    estimator = gaussian()
    planned = math.ceil(factor * N)
    statistics = summed(estimator, *SITES, total=planned)
    estimator.fit_statistics(statistics)
    parameters, guarantee = estimator.parameters_, estimator.release_.guarantee
    inputs = gaussian()._public_inputs(planned, D)
    map_of_plan = gaussian_parameters(inputs)
    # The map is that of the plan, everything else that of the records there are.
    assert parameters.norm_bound == map_of_plan.norm_bound
    assert parameters.half_width == map_of_plan.half_width
    assert parameters.inputs.n_records == N
    assert parameters.unit == parameters.step**2 / N
    assert guarantee.events[0].mu == pytest.approx(parameters.mu, rel=1e-6)
    assert guarantee.transcript_epsilon <= 1.0
    assert guarantee.private
    exact = gaussian_parameters(gaussian()._public_inputs(N, D))
    assert (parameters.norm_bound == exact.norm_bound) == (planned == N)


coordinates = st.floats(-8, 8) | st.floats(allow_nan=False, allow_infinity=False)
rows = st.lists(coordinates, min_size=3, max_size=3)


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_dataset("people", epsilon=1.0, delta=1e-6)
    return ledger


def test_every_release_is_charged_also_of_the_same_sums(ledger):
    est = gaussian(ledger=ledger, dataset="people").partial_fit(RECORDS, total_records=N)
    assert ledger.history("people") == ()  # summing costs nothing
    statistics = est.statistics_
    first = est.fit_statistics()
    assert ledger.history("people") == (first.receipt_,)
    assert first.receipt_.label == f"GaussianCovariance of {D} features"
    ledger.change_budget("people", 2.5, 1e-6)
    second = gaussian(ledger=ledger, dataset="people").fit_statistics(statistics)
    assert ledger.history("people") == (first.receipt_, second.receipt_)
    assert second.receipt_.total.epsilon > first.receipt_.total.epsilon
    assert not np.array_equal(first.release_.integers, second.release_.integers)
    ledger.change_budget("people", math.nextafter(second.receipt_.total.epsilon, 3), 1e-6)
    third = gaussian(ledger=ledger, dataset="people").partial_fit(RECORDS, total_records=N)
    for given_statistics in (None, statistics):
        with pytest.raises(BudgetError):
            third.fit_statistics(given_statistics)
    assert third.statistics_.n_records == N  # a refused release loses no sums
    assert len(ledger.history("people")) == 2


@pytest.mark.parametrize(
    "changes",
    [
        *({"feature_scale": 2.0}, {"feature_scale": None}, {"row_norm": 2.0}),
        *({"assume_centered": False}, {"threshold": "best"}, {"epsilon": None}),
        *({"random_state": "x"}, {"dataset": "ape"}, {"dataset": None}),
    ],
)
def test_refused_releases_cost_nothing(ledger, changes):
    statistics = summed(gaussian(), RECORDS, total=N)
    est = gaussian(**{"ledger": ledger, "dataset": "people", **changes})
    with pytest.raises((ParameterError, DataError)):
        est.fit_statistics(statistics)
    assert ledger.history("people") == ()
    assert not hasattr(est, "release_")


@pytest.fixture
def holding():
    return gaussian().partial_fit(SITES[0], total_records=N)


def test_nothing_is_held_after_a_release_and_no_more_records_are_taken(holding):
    fitted = gaussian().partial_fit(SITES[0], total_records=N).fit(RECORDS)
    for released in (holding.fit_statistics(), fitted):
        assert not hasattr(released, "statistics_")
        with pytest.raises(ParameterError, match=r"before the release.*clone"):
            released.partial_fit(UntouchableRecords(*RECORDS.shape), total_records=N)
    assert not hasattr(holding, "total_records_")
    with pytest.raises(DataError, match="holds none"):
        holding.fit_statistics()
    clone(fitted).partial_fit(SITES[0], total_records=N)


def test_sums_are_neither_shown_nor_pickled_nor_copied(holding):
    with pytest.raises(NotFittedError):
        check_is_fitted(holding)
    with pytest.raises(NotFittedError):
        holding.get_precision()
    assert str(int(holding.statistics_.gram[0, 0])) not in repr(holding)
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(DataError, match=r"not private.*statistics_\.save"):
            attempt(holding)
    assert clone(holding).get_params() == holding.get_params()
    released = pickle.loads(pickle.dumps(holding.fit_statistics()))
    np.testing.assert_array_equal(released.covariance_, holding.covariance_)
    check_is_fitted(holding)


def test_nulls_plans_and_statistics_that_do_not_fit_are_refused(tmp_path):
    pd.DataFrame({"a": [1.0, None, 2.0], "b": [1.0, 2.0, 3.0]}).to_parquet(tmp_path / "x.parquet")
    records = FileRecords(tmp_path / "x.parquet").with_gaps()
    for est in (gaussian(), multiscale()):
        with pytest.raises(DataError, match="'a' has nulls"):
            est.partial_fit(records, total_records=N)
    with pytest.raises(PrivacyConditionError, match="n_records must be"):
        multiscale().partial_fit(UntouchableRecords(1000, 2), total_records=10**6)
    classes = {type(setting(name)) for name in CLASSES} - {GaussianCovariance}
    for cls in (*classes, ThresholdedCovariance):
        assert not hasattr(cls, "partial_fit")
        assert not hasattr(cls, "fit_statistics")
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
