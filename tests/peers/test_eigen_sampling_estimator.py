"""`EigenSamplingCovariance`: conventions, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from estimators.stand_ins import UntouchableRecords
from hushcov import EigenSamplingCovariance
from hushcov.accounting.ledger import Ledger
from hushcov.exceptions import BudgetError, CapacityError, ParameterError, SeededNoiseWarning

BUDGET = {"epsilon": 1.0, "feature_scale": 1.0, "assume_centered": True}
RECORDS = np.random.default_rng(0).standard_normal((2_000, 4))
UNREAD = UntouchableRecords(2_000, 4)


def test_a_fit_is_pure():
    est = EigenSamplingCovariance(**BUDGET).fit(RECORDS)
    guarantee = est.release_.guarantee
    assert (guarantee.epsilon, guarantee.delta, guarantee.numerical_delta) == (1.0, 0.0, 0.0)
    assert guarantee.private
    assert est.n_records_ == 2_000
    assert est.parameters_.inputs == est.public_inputs(2_000, 4)
    np.testing.assert_allclose(est.covariance_, np.eye(4), atol=0.7)
    np.testing.assert_allclose(est.precision_ @ est.covariance_, np.eye(4), atol=1e-6)
    np.testing.assert_array_equal(est.feature_scale_, np.ones(4))
    assert not hasattr(est, "noise_sd_")
    assert "delta" not in est.get_params()


def test_scales_bring_units():
    unit = np.array([1.0, 8.0, 0.25, 64.0])
    with pytest.warns(SeededNoiseWarning):
        plain = EigenSamplingCovariance(**BUDGET, random_state=0).fit(RECORDS)
    other = EigenSamplingCovariance(**BUDGET | {"feature_scale": unit}, random_state=0)
    with pytest.warns(SeededNoiseWarning):
        other.fit(RECORDS * unit)
    np.testing.assert_allclose(other.covariance_, plain.covariance_ * np.outer(unit, unit))


def test_semidefinite_releases_stay_as_they_are():
    with pytest.warns(SeededNoiseWarning):
        plain, projected = (
            EigenSamplingCovariance(**BUDGET, random_state=3, positive_semidefinite=flag).fit(
                RECORDS
            )
            for flag in (False, True)
        )
    np.testing.assert_allclose(projected.covariance_, plain.covariance_, atol=1e-6)
    assert np.linalg.eigvalsh(projected.covariance_)[0] >= -1e-12


def test_public_scales_are_required():
    words = "feature_scale is required.*estimating scales privately is not pure DP"
    with pytest.raises(ParameterError, match=words):
        EigenSamplingCovariance(epsilon=1.0).fit(UNREAD)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epsilon": None}, "epsilon is required"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": 11.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"row_sparsity": 0}, "row_sparsity"),
        ({"row_sparsity": 5}, "row_sparsity"),
        ({"row_sparsity": 1.5}, "row_sparsity"),
        ({"feature_scale": -1.0}, "feature_scale"),
        ({"feature_scale": "auto"}, "feature_scale"),
        ({"feature_scale": [1.0, 2.0]}, "feature_scale"),
        ({"row_norm": 0.0}, "row_norm"),
        ({"row_norm": "auto"}, "row_norm"),
        ({"allocation": "none"}, "allocation"),
        ({"positive_semidefinite": 1}, "positive_semidefinite"),
        ({"store_precision": None}, "store_precision"),
        ({"assume_centered": "yes"}, "assume_centered"),
        ({"random_state": -1}, "random_state"),
        ({"dataset": "people"}, "ledger is required"),
        ({"ledger": "budget.db"}, "dataset is required"),
    ],
)
def test_bad_parameters_are_refused_before_any_record(changes, words):
    with pytest.raises(ParameterError, match=words):
        EigenSamplingCovariance(**{**BUDGET, **changes}).fit(UNREAD)


def test_too_many_features_are_refused_before_any_record():
    with pytest.raises(CapacityError, match="n_features"):
        EigenSamplingCovariance(**BUDGET).fit(UntouchableRecords(100, 2_000))


def test_a_ledger_without_delta_takes_pure_releases(tmp_path):
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_dataset("people", epsilon=1.5, delta=0.0)
    est = EigenSamplingCovariance(**BUDGET, ledger=ledger, dataset="people").fit(RECORDS)
    assert est.receipt_.total.epsilon == pytest.approx(1.0)
    assert est.receipt_.total.delta == 0
    with pytest.raises(BudgetError):
        est.fit(UNREAD)
