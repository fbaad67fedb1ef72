"""`RowTopKCovariance`: conventions, and bad input."""

from __future__ import annotations

import doctest
import math
import warnings

import numpy as np
import pytest
from sklearn.base import clone

from hushcov import RowTopKCovariance
from hushcov.accounting import BoundedRange, Gaussian
from hushcov.accounting.ledger import Ledger
from hushcov.exceptions import (
    ParameterError,
    SeededNoiseWarning,
)
from hushcov.metrics import operator_norm_error
from hushcov.peers import estimators as peers
from hushcov.simulate import gaussian_records, sparse_covariance

BUDGET = {"epsilon": 1.0, "delta": 1e-6, "row_sparsity": 2}
TRUTH = sparse_covariance("block", 8, 2)
RECORDS = gaussian_records(TRUTH, 20_000)
RECORDS.setflags(write=False)


def make(**changes):
    return RowTopKCovariance(**{**BUDGET, **changes})


def fit(estimator, seed=0):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        return estimator.set_params(random_state=seed).fit(RECORDS)


def test_the_example_runs():
    results = doctest.testmod(peers)
    assert results.attempted > 5
    assert results.failed == 0


@pytest.mark.parametrize(
    "known", [{"assume_centered": True}, {"feature_scale": 1.0, "assume_centered": True}]
)
def test_a_sound_fit_finds_the_pairs_and_is_certified(known):
    est = fit(make(epsilon=2.0, **known))
    guarantee = est.release_.guarantee
    assert 0.999 * 2.0 < guarantee.transcript_epsilon <= 2.0
    kinds = [type(event) for event in guarantee.events]
    assert kinds == [Gaussian] * ("feature_scale" not in known) + [BoundedRange, Gaussian]
    np.testing.assert_array_equal(est.support_, TRUTH != 0)
    np.testing.assert_array_equal(est.selected_, est.support_)
    np.testing.assert_array_equal(np.isnan(est.noise_sd_), ~est.selected_)
    assert operator_norm_error(est.covariance_, TRUTH) < 0.15
    lower, upper = est.covariance_interval()
    inside = (lower < est.covariance_) & (est.covariance_ < upper)
    np.testing.assert_array_equal(inside, est.support_)
    assert clone(est).get_params() == est.get_params()


def test_operating_system_entropy_makes_a_sound_fit_private():
    est = make(feature_scale=1.0).fit(RECORDS)
    assert est.release_.guarantee.private


def test_a_ledger_takes_the_release(tmp_path):
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_dataset("people", epsilon=1.0, delta=1e-6)
    charged = {"ledger": ledger, "dataset": "people", "feature_scale": 1.0}
    est = make(**charged).fit(RECORDS)
    assert ledger.history("people") == (est.receipt_,)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epsilon": None}, "epsilon is required"),
        ({"epsilon": 11.0}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"row_sparsity": None}, "row_sparsity is required"),
        ({"row_sparsity": 0}, "row_sparsity"),
        ({"row_sparsity": 9}, "row_sparsity"),
        ({"row_sparsity": 2.5}, "row_sparsity"),
        ({"feature_scale": "wide"}, "feature_scale"),
        ({"feature_scale": np.ones(3)}, "feature_scale"),
        ({"radius": 0.0}, "radius"),
        ({"radius": math.inf}, "radius"),
        ({"radius": 1e7}, "radius"),
        ({"positive_semidefinite": 1}, "positive_semidefinite"),
        ({"store_precision": "yes"}, "store_precision"),
        ({"assume_centered": None}, "assume_centered"),
        ({"random_state": -1}, "random_state"),
        ({"ledger": "budget.db"}, "dataset is required"),
        ({"dataset": "people"}, "ledger is required"),
    ],
)
def test_bad_input_is_refused_by_name(changes, words):
    with pytest.raises(ParameterError, match=words):
        make(**changes).fit(RECORDS)


def test_a_chosen_radius_and_a_projection_are_used():
    est = fit(make(radius=4.0, positive_semidefinite=True, store_precision=False))
    assert est.parameters_.radius == 4.0
    assert np.linalg.eigvalsh(est.covariance_)[0] > -1e-12
    assert est.precision_ is None
