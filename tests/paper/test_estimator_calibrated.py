"""`MultiscaleCovariance(constants="calibrated")`: fits on records, and what it refuses."""

from __future__ import annotations

import doctest
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from hushcov import MultiscaleCovariance
from hushcov.exceptions import (
    AccuracyWarning,
    DataError,
    HopelessError,
    ParameterError,
)
from hushcov.metrics import operator_norm_error
from hushcov.paper import estimator as multiscale
from hushcov.simulate import gaussian_records, sparse_covariance, wishart_moments
from statistics_helpers import short_and_long

TRUTH = sparse_covariance("block", 10, 2)
RECORDS = gaussian_records(TRUTH, 100_000)


def estimator(**changes):
    settings = {
        "epsilon": 1.0,
        "delta": 1e-6,
        "row_sparsity": 2,
        "scale": 1.0,
        "constants": "calibrated",
        "reconstruction": "value",
    }
    return MultiscaleCovariance(**(settings | changes))


@short_and_long("reconstruction", "value", "gate")
def test_a_fit_on_records_meets_its_prediction(reconstruction):
    fitted = estimator(reconstruction=reconstruction).fit(RECORDS)
    error = operator_norm_error(fitted.covariance_, TRUTH)
    assert error < 2 * fitted.plan_.predicted_error["block"] < 0.5
    assert fitted.release_.guarantee.private
    assert fitted.release_.guarantee.transcript_epsilon <= 1
    assert set(fitted.plan_.predicted_error) == {"block", "banded", "random", "diagonal"}


@pytest.mark.parametrize("constants", ["theorem", "calibrated"])
def test_an_unknown_mean_is_refused(constants):
    unknown = estimator(assume_centered=False, constants=constants)
    with pytest.raises(ParameterError, match=r"assume_centered must be True.*Subtract means"):
        unknown.fit(RECORDS)
    with pytest.raises(ParameterError, match=r"assume_centered must be True.*partial_fit"):
        unknown.partial_fit(RECORDS, total_records=len(RECORDS))


def test_too_few_records_are_said_to_be_too_few():
    with pytest.raises(HopelessError, match=r"too few.*on_hopeless='warn'"):
        estimator().fit(RECORDS[:20])
    with pytest.warns(AccuracyWarning, match="too few"):
        fitted = estimator(on_hopeless="warn").fit(RECORDS[:20])
    assert fitted.warnings_ == fitted.release_.warnings == (fitted.plan_.advice,)


def test_a_pickled_fit_keeps_no_data():
    fitted = estimator().fit(RECORDS)
    assert len(pickle.dumps(fitted)) < RECORDS.nbytes / 100
    restored = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(restored.covariance_, fitted.covariance_)
    assert clone(fitted).get_params() == fitted.get_params()


def test_nothing_of_an_earlier_fit_remains():
    names = [f"column {i}" for i in range(10)]
    fitted = estimator().fit(pd.DataFrame(RECORDS, columns=names))
    np.testing.assert_array_equal(fitted.feature_names_in_, names)
    fitted.set_params(constants="theorem", reconstruction="gate")
    fitted.fit_statistics(wishart_moments(TRUTH, 10**14))
    assert not hasattr(fitted, "plan_")
    assert not hasattr(fitted, "feature_names_in_")


@pytest.mark.parametrize("method", ["log_likelihood", "mahalanobis"])
def test_refusals_of_other_rows_quote_no_value(method):
    fitted = estimator().fit(RECORDS)
    rows = pd.DataFrame(RECORDS[:5]).astype(object)
    rows.iloc[0, 0] = "secret"
    with pytest.raises(DataError) as refusal:
        getattr(fitted, method)(rows)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("target_error", math.nan),
        ("failure_probability", 5.0),
        ("store_precision", "no"),
        ("assume_centered", "no"),
        ("constants", "tuned"),
        ("reconstruction", "both"),
        ("epsilon", 0.0),
        ("epsilon", 11.0),
        ("delta", math.nan),
        ("row_sparsity", 11),
        ("scale", None),
    ],
)
def test_parameters_that_mean_nothing_are_refused(name, value):
    message = "scale is required" if name == "scale" else f"{name} must be"
    with pytest.raises(ParameterError, match=message):
        estimator(**{name: value}).fit(RECORDS)


def test_values_need_calibrated_constants():
    with pytest.raises(ParameterError, match="reconstruction must"):
        estimator(constants="theorem").fit(RECORDS)


def test_the_examples_in_the_documentation_run():
    assert doctest.testmod(multiscale).failed == 0
