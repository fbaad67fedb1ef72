"""Units, removed records and weights, through the estimators."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from hushcov import (
    GaussianCovariance,
    PrivateSparseCovariance,
    ScreenedCovariance,
)
from hushcov.exceptions import ParameterError
from hushcov.kernel.accounting import Pure
from hushcov.ledger import Ledger
from hushcov.metrics import operator_norm_error
from hushcov.simulate import gaussian_records, sparse_covariance

pytestmark = [
    pytest.mark.filterwarnings("ignore::hushcov.exceptions.SeededNoiseWarning"),
    pytest.mark.filterwarnings("ignore::hushcov.exceptions.AccuracyWarning"),
]
BUDGET = {"epsilon": 3.0, "delta": 1e-6}
TRUTH = sparse_covariance("block", 12, 3)


def people(n=4000, most=5, seed=0):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, most + 1, n)
    order = rng.permutation(sizes.sum())
    X = gaussian_records(TRUTH, int(sizes.sum()), random_state=seed)
    return X[order], np.repeat(np.arange(n), sizes)[order]


ESTIMATORS = [
    PrivateSparseCovariance(**BUDGET, random_state=1),
    ScreenedCovariance(**BUDGET, row_sparsity=3, random_state=1),
    GaussianCovariance(**BUDGET, random_state=1),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
def test_units_are_charged_for_all_their_rows_and_the_estimate_is_good(estimator):
    X, ids = people()
    est = clone(estimator).set_params(max_rows_per_unit=4).fit(X, unit=ids)
    guarantee = est.release_.guarantee
    assert (guarantee.epsilon, guarantee.delta) == (pytest.approx(3.0, rel=1e-9), 1e-6)
    assert guarantee.transcript_epsilon <= guarantee.epsilon <= 3.0
    assert (guarantee.unit, guarantee.rows_per_unit) == ("unit", 4)
    assert guarantee.events[0] == Pure(0.06)
    assert operator_norm_error(est.covariance_, TRUTH) < 0.35


def test_means_of_units_are_records_of_their_own():
    X, ids = people(6000)
    est = PrivateSparseCovariance(**BUDGET, random_state=1, estimand="unit-means").fit(X, unit=ids)
    sizes = np.bincount(ids)
    means = np.column_stack([np.bincount(ids, column) for column in X.T]) / sizes[:, None]
    alone = PrivateSparseCovariance(**BUDGET, random_state=1).fit(means)
    assert operator_norm_error(est.covariance_, np.cov(means.T)) < 0.1
    assert alone.release_.making.n_records == 6000
    assert est.release_.making.n_records == est.release_.making.counted["released"]
    assert abs(est.release_.making.n_records - 6000) < 400  # noise of scale 17
    assert est.release_.guarantee.unit == "unit"
    assert est.release_.guarantee.rows_per_unit == 1


def test_weights_are_those_of_a_table_with_repeated_rows():
    rng = np.random.default_rng(8)
    X = gaussian_records(TRUTH, 20_000, random_state=8)
    X[:10_000] *= 2.0
    weights = np.where(np.arange(20_000) < 10_000, 0.25, 1.0) * 8.0
    est = GaussianCovariance(**BUDGET, random_state=1, max_sample_weight=8.0)
    est.fit(X, sample_weight=weights)
    truth = TRUTH * (0.25 * 4 + 1.0) / 1.25
    assert operator_norm_error(est.covariance_, truth) < 0.2 * np.linalg.norm(truth, 2)
    assert est.release_.guarantee.rows_per_unit == 16
    order = rng.permutation(len(X))
    again = clone(est).fit(X[order], sample_weight=weights[order])
    assert np.array_equal(est.covariance_, again.covariance_)


@pytest.mark.parametrize(
    ("options", "given", "words"),
    [
        ({"max_rows_per_unit": 3}, {}, "without a unit"),
        ({"estimand": "unit-means"}, {}, "without a unit"),
        ({"max_rows_per_unit": 2, "estimand": "unit-means"}, {"unit": 0}, "left out with estimand"),
        ({}, {"sample_weight": np.ones(50)}, "max_sample_weight must be given"),
        ({"max_sample_weight": 1.0}, {}, "max_sample_weight must be given"),
        ({"max_sample_weight": 1.0}, {"unit": 0, "sample_weight": np.ones(50)}, "left out with a"),
        ({}, {"unit": "person"}, "name one column"),
    ],
)
def test_what_means_nothing_is_refused_before_anything_is_charged(options, given, words, tmp_path):
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_dataset("people", 4.0, 1e-5, unit="unit")
    X = np.random.default_rng(0).normal(size=(50, 3))
    est = PrivateSparseCovariance(**BUDGET, **options, ledger=ledger, dataset="people")
    with pytest.raises(ParameterError, match=words):
        est.fit(X, **given)
    assert ledger.history("people") == ()


D, PEOPLE, ROWS = 20, 3000, 16
BLOCKS = np.kron(np.eye(D // 4), 0.5 + 0.5 * np.eye(4))
MAKERS = {
    "default": PrivateSparseCovariance,
    "screened": lambda **given: ScreenedCovariance(row_sparsity=4, **given),
    "gaussian": GaussianCovariance,
}


def table(effect=0.0):
    rng = np.random.default_rng(5)
    owner = np.repeat(np.arange(PEOPLE), ROWS)
    factor = np.linalg.cholesky(BLOCKS).T
    own = rng.standard_normal((len(owner), D)) @ factor
    shared = rng.standard_normal((PEOPLE, D)) @ factor
    order = rng.permutation(len(owner))
    X = np.sqrt(effect) * shared[owner] + np.sqrt(1 - effect) * own
    return X[order], owner[order]


def error(name, X, most=None, **given):
    found = []
    for seed in (1, 2):
        budget = {"epsilon": 1.0, "delta": 1e-6, "random_state": seed}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = MAKERS[name](max_rows_per_unit=most, **budget).fit(X, **given)
        found.append(np.linalg.norm(fitted.covariance_ - BLOCKS, 2))
    return np.mean(found) / np.linalg.norm(BLOCKS, 2)


@pytest.mark.parametrize("name", MAKERS)
def test_rows_of_a_person_are_worth_more_than_one_of_them(name):
    X, owner = table()
    first = np.unique(owner, return_index=True)[1]
    assert error(name, X, ROWS, unit=owner) < 0.6 * error(name, X[first])
