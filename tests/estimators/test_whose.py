"""Units, removed records and weights, through the estimators."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone

from hushcov import (
    EigenSamplingCovariance,
    GaussianCovariance,
    PrivateSparseCovariance,
    ScreenedCovariance,
)
from hushcov.exceptions import BudgetError, ParameterError, PrivacyConditionError
from hushcov.fit.counting import most_rows
from hushcov.fit.screened import mechanism as screened
from hushcov.kernel.accounting import Neighbours, Pure
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.noise.laplace import discrete_laplace
from hushcov.ledger import Ledger
from hushcov.metrics import operator_norm_error
from hushcov.simulate import gaussian_records, sparse_covariance
from hushcov.tables.sources import ArrayRecords
from hushcov.tables.units import units_of
from sessions import session_of
from statistics_helpers import FALSE_ALARM

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


def test_one_row_of_a_unit_gets_its_part_of_the_noise():
    X, ids = people()
    alone, shared = (
        GaussianCovariance(**BUDGET, random_state=1, **options).fit(X, **given)
        for options, given in (({}, {}), ({"max_rows_per_unit": 4}, {"unit": ids}))
    )
    rows = alone.release_.making.n_records / shared.release_.making.n_records
    ratio = shared.release_.noise_sd[0] / alone.release_.noise_sd[0]
    assert 1.0 * rows < ratio < 2.6 * rows  # rows are independent: the root of their number


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
def test_removing_needs_less_noise_than_replacing(estimator):
    X = gaussian_records(TRUTH, 6000, random_state=3)
    est = clone(estimator).fit(X)
    less = clone(estimator).set_params(neighbours="add-remove").fit(X)
    assert less.release_.guarantee.adjacency == "add-remove-one"
    with_less, with_more = (
        each.release_.noise_sd[0] * np.median(each.release_.feature_scale) ** 2
        for each in (less, est)
    )
    assert with_less < 0.9 * with_more  # with less noise, longer records count as well
    assert less.release_.making.counted["relation"] == "add-remove"


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
def test_nothing_but_sums_depends_on_the_true_number_of_records(estimator, monkeypatch):
    """Two tables of other sizes whose released number is the same are planned alike."""
    made = []
    for n_rows in (5003, 5043):
        X = gaussian_records(TRUTH, n_rows, random_state=3)

        def same(generator, scale, size, n_rows=n_rows):
            discrete_laplace(generator, scale, size)
            return [5020 - n_rows] * size

        monkeypatch.setattr("hushcov.kernel.session.discrete_laplace", same)
        made.append(clone(estimator).set_params(neighbours="add-remove").fit(X))
    first, second = made
    assert first.release_.parameters["inputs"] == second.release_.parameters["inputs"]
    assert first.release_.parameters["inputs"]["n_records"] == 5020
    assert first.release_.guarantee.events[0] == second.release_.guarantee.events[0]
    for each in made:
        making = each.release_.making
        assert making.n_records == 5020
        text = repr(each.release_) + repr(making) + repr(each.release_.parameters)
        assert not re.search(r"\b50[04]3\b", text)


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


def test_the_ledger_is_charged_for_the_count_and_then_for_the_rest(tmp_path):
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_dataset("people", **BUDGET, unit="unit")
    X, ids = people(2000)
    est = GaussianCovariance(**BUDGET, max_rows_per_unit=2, ledger=ledger, dataset="people")
    est.fit(X, unit=ids)
    count, rest = ledger.history("people")
    assert count.charge.events == (Pure(0.06),)
    assert count.charge.whole == 3.0
    assert rest.id == est.receipt_.id
    assert ledger.spent("people").epsilon == pytest.approx(3.0, rel=1e-6)
    with pytest.raises(BudgetError):
        clone(est).set_params(epsilon=0.1).fit(X, unit=ids)


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


def test_a_pure_estimator_takes_removed_records():
    X = gaussian_records(sparse_covariance("block", 3, 1), 4000, random_state=1)
    est = EigenSamplingCovariance(
        epsilon=3.0,
        feature_scale=1.0,
        assume_centered=True,
        neighbours="add-remove",
        random_state=2,
    ).fit(X)
    assert est.release_.guarantee.delta == 0
    assert est.release_.guarantee.adjacency == "add-remove-one"


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


@pytest.mark.parametrize("name", MAKERS)
def test_rows_that_are_alike_are_worth_about_one_of_them(name):
    X, owner = table(effect=0.95)
    first = np.unique(owner, return_index=True)[1]
    assert error(name, X, ROWS, unit=owner) < 1.6 * error(name, X[first])


def test_sums_and_noise_must_be_of_the_same_units():
    X, owner = table()
    records = units_of(owner, len(X)).bounded(ArrayRecords(X), ROWS)
    grid, pair = FeatureGrid(np.ones(D), 8.0, 100), (np.array([0]), np.array([1]))
    of_units = Neighbours(most_rows=ROWS, combined=True)
    for together, neighbours in [
        (ROWS, replace(of_units, combined=False)),
        (ROWS - 1, of_units),
    ]:
        products = screened.product_map(grid, *pair, 1000, together)
        with pytest.raises(PrivacyConditionError, match="as one"):
            screened.release_values(session_of(records, neighbours=neighbours), products, 0.1)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        (np.ones(10_000), 1),
        (np.random.default_rng(1).integers(1, 51, 10_000), 16),
        (np.full(10_000, 64), 64),
        (np.concatenate([np.ones(9000), np.full(1000, 1000)]), None),
    ],
)
def test_how_many_rows_count_follows_the_sizes_of_units(sizes, expected):
    counts = np.bincount(np.frexp(sizes)[1] - 1, minlength=21).astype(float)
    found = most_rows(counts, 0.0)
    noisy = counts + np.random.default_rng(2).laplace(0, 200, 21)
    assert expected is None or found == expected
    assert found / 2 <= most_rows(noisy, 280.0) <= 2 * found


def test_error_estimates_hold_where_people_have_alike_rows():
    """12 of 12 held; none did where the bound lay at the last count that stands out by itself."""
    truth, held, errors = np.array([[1, 0.6, 0], [0.6, 1, 0], [0, 0, 1.0]]), 0, []
    owner = np.repeat(np.arange(5000), 4)
    for seed in range(12):
        rng = np.random.default_rng(seed)
        shared, own = (rng.multivariate_normal(np.zeros(3), truth, n) for n in (5000, 20_000))
        X = np.sqrt(0.91) * shared[owner] + 0.3 * own
        made = PrivateSparseCovariance(
            epsilon=1.0, delta=1e-6, max_rows_per_unit=4, random_state=seed
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made.fit(X, unit=owner)
        errors.append(np.linalg.norm(made.covariance_ - truth, 2) / np.linalg.norm(truth, 2))
        held += errors[-1] <= made.error_estimate_.most
    assert held >= stats.binom.ppf(FALSE_ALARM, 12, 0.9)
    assert np.median(errors) < 0.1  # 0.16 before
