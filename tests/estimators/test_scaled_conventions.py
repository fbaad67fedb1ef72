"""What a scikit-learn user expects: parameters, clones, pickles, pipelines, and repeated fits."""

from __future__ import annotations

import doctest
import pickle
import struct

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from estimators.settings import ESTIMATORS, RECORDS, TRUTH, D, fit, make
from hushcov import GaussianCovariance, PrivateSparseCovariance, ScreenedCovariance
from hushcov.estimators import gaussian, screened, sparse
from hushcov.exceptions import DataError, ParameterError, SeededNoiseWarning
from hushcov.metrics import operator_norm_error


@pytest.fixture(scope="module", params=ESTIMATORS, ids=lambda cls: cls.__name__)
def fitted(request):
    return fit(make(request.param), RECORDS)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_clones_have_the_parameters_and_no_fit(cls):
    estimator = fit(make(cls, feature_scale=np.ones(D), assume_centered=True), RECORDS)
    copy = clone(estimator)
    np.testing.assert_array_equal(copy.feature_scale, np.ones(D))
    assert copy.feature_scale is not estimator.feature_scale
    assert not [name for name in vars(copy) if name.endswith("_")]
    assert copy.set_params(epsilon=0.5).epsilon == 0.5
    assert estimator.epsilon == 1.0
    with pytest.raises(ValueError, match="Invalid parameter"):
        copy.set_params(sparsity=2)


def test_representations_name_what_was_changed(fitted):
    assert repr(fitted).startswith(f"{type(fitted).__name__}(delta=1e-06, epsilon=1.0")
    assert "noise_sd_" in fitted._repr_html_()  # what a notebook shows


def test_pickles_round_trip(fitted):
    copy = pickle.loads(pickle.dumps(fitted))
    assert repr(copy) == repr(fitted)
    np.testing.assert_array_equal(copy.covariance_, fitted.covariance_)
    np.testing.assert_array_equal(copy.covariance_interval(), fitted.covariance_interval())
    assert copy.release_.guarantee == fitted.release_.guarantee


@pytest.mark.parametrize("cls", ESTIMATORS)
@pytest.mark.parametrize("kind", [np.asarray, np.ndarray.tolist, pd.DataFrame])
def test_a_pickled_fit_holds_no_record(cls, kind):
    """Not the table, and not a value that is found nowhere else."""
    marker = 1234.567890123
    X = RECORDS.copy()
    X[17, 3] = marker
    blob = pickle.dumps(fit(make(cls), kind(X)))
    for form in ("<d", ">d", "<f", ">f"):
        assert struct.pack(form, marker) not in blob
    assert repr(marker).encode() not in blob
    assert not any(row.tobytes() in blob for row in X)
    assert len(blob) < X.nbytes / 10


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_the_last_step_of_a_pipeline(cls):
    double = FunctionTransformer(lambda X: 2 * X)
    options = {"assume_centered": True}  # looks for means are at octaves, which doubling moves
    pipeline = make_pipeline(double, make(cls, feature_scale=2.0, random_state=0, **options))
    with pytest.warns(SeededNoiseWarning):
        pipeline.fit(RECORDS)
    plain = fit(make(cls, feature_scale=1.0, **options), RECORDS)
    np.testing.assert_array_equal(pipeline[-1].covariance_, 4 * plain.covariance_)
    assert np.isfinite(pipeline[-1].log_likelihood(RECORDS))


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_nothing_of_an_earlier_fit_remains(cls):
    estimator = fit(make(cls), pd.DataFrame(RECORDS, columns=list("abcdefghij")))
    again = fit(estimator.set_params(feature_scale=1.0), RECORDS[:3000, :8])
    assert again is estimator
    fresh = fit(make(cls, feature_scale=1.0), RECORDS[:3000, :8])
    assert vars(again).keys() == vars(fresh).keys()
    assert not hasattr(again, "feature_names_in_")
    for name in ("covariance_", "precision_", "support_", "feature_scale_", "location_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(fresh, name))
    assert (again.n_features_in_, again.n_records_) == (8, 3000)
    assert again.release_.guarantee == fresh.release_.guarantee


def test_attributes_of_another_kind_of_fit_are_dropped():
    estimator = fit(make(GaussianCovariance, threshold="universal"), RECORDS)
    assert 0 < estimator.detection_limit_ < 1
    assert fit(estimator.set_params(threshold=None), RECORDS).detection_limit_ is None
    estimator = fit(make(PrivateSparseCovariance, mechanism="gaussian"), RECORDS)
    assert (estimator.mechanism_, estimator.detection_limit_) == ("gaussian", None)
    fit(estimator.set_params(mechanism="screened"), RECORDS)
    assert estimator.mechanism_ == "screened"
    assert estimator.release_.mechanism == "screened"


@pytest.mark.parametrize(
    ("changes", "X"),
    [
        ({}, np.where(np.arange(4000)[:, None] == 3999, np.nan, RECORDS)),
        ({}, RECORDS[:, 0]),
        ({"epsilon": -1}, RECORDS),
        ({"random_state": "seed"}, RECORDS),
    ],
    ids=["NaN", "one dimension", "a parameter", "a seed"],
)
def test_a_refused_fit_leaves_the_earlier_one_alone(fitted, changes, X):
    """A release that the budget was spent on is not lost, nor mixed with anything."""
    estimator = pickle.loads(pickle.dumps(fitted))
    estimator.set_params(**{"random_state": None, **changes})
    before = dict(vars(estimator))
    with pytest.raises((DataError, ParameterError)):
        estimator.fit(X)
    assert vars(estimator) == before


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_nothing_is_there_before_a_fit(cls):
    estimator = make(cls)
    for call in (
        lambda: estimator.noise_sd_,
        estimator.covariance_interval,
        estimator.labelled_covariance,
        estimator.get_precision,
    ):
        with pytest.raises(NotFittedError):
            call()
    assert not hasattr(estimator, "noise_sd_")
    with pytest.raises(NotFittedError):
        _ = make(ScreenedCovariance).selected_


def test_what_a_fit_stores(fitted):
    assert operator_norm_error(fitted.covariance_, TRUTH) < 0.35
    np.testing.assert_array_equal(fitted.covariance_, fitted.covariance_.T)
    np.testing.assert_array_equal(fitted.support_, fitted.covariance_ != 0)
    np.testing.assert_array_equal(fitted.location_, fitted.release_.location)
    np.testing.assert_allclose(fitted.location_, 0.0, atol=0.5)
    assert (fitted.n_features_in_, fitted.n_records_) == (D, 4000)
    assert not fitted.release_.guarantee.private  # the noise was seeded
    # Released entries that were kept are those of the release.
    kept = fitted.support_
    np.testing.assert_allclose(fitted.covariance_[kept], fitted.release_.covariance()[kept])


def test_precisions_and_distances(fitted):
    precision = fitted.get_precision()
    assert precision is fitted.precision_
    np.testing.assert_allclose(precision @ fitted.covariance_, np.eye(D), atol=1e-8)
    rows = RECORDS[:50]
    centred = rows - fitted.location_
    distances = np.einsum("ij,jk,ik->i", centred, precision, centred)
    np.testing.assert_allclose(fitted.mahalanobis(rows), distances)
    without = fit(make(type(fitted), store_precision=False), RECORDS)
    assert without.precision_ is None
    np.testing.assert_allclose(without.get_precision(), precision)


@pytest.mark.parametrize("method", ["log_likelihood", "mahalanobis"])
def test_refusals_of_other_rows_quote_no_value(fitted, method):
    rows = pd.DataFrame(RECORDS[:5]).astype(object)
    rows.iloc[0, 0] = "secret"
    with pytest.raises(DataError) as refusal:
        getattr(fitted, method)(rows)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize("module", [gaussian, screened, sparse])
def test_the_examples_in_the_documentation_run(module):
    results = doctest.testmod(module)
    assert results.failed == 0
    assert results.attempted > 0
