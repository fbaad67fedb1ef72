"""The non-private reference: its definition, the published table, and the usual conventions."""

import math
import pickle
from itertools import product

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold

from hushcov.estimators.thresholded import ThresholdedCovariance
from hushcov.exceptions import DataError, ParameterError
from hushcov.postprocess import RULES
from hushcov.simulate import gaussian_records

COMBINATIONS = list(product(RULES, ("universal", "adaptive")))


def model_1(p):
    half = p // 2
    sigma = 4.0 * np.eye(p)
    distance = np.abs(np.subtract.outer(np.arange(half), np.arange(half)))
    sigma[:half, :half] = np.maximum(0.0, 1 - distance / 10)
    return sigma


RECORDS = gaussian_records(model_1(12), 60, random_state=5) + np.arange(12.0)
RECORDS.setflags(write=False)


def levels_by_hand(X, threshold, constant, centred=True):
    """Thresholds in the unit of the data, from the definitions, record by record."""
    n, p = X.shape
    X = X - X.mean(axis=0) if centred else X
    S = sum(np.outer(x, x) for x in X) / n
    if threshold == "universal":
        theta = np.outer(S.diagonal(), S.diagonal())
    else:
        theta = sum((np.outer(x, x) - S) ** 2 for x in X) / n
    return S, constant * np.sqrt(theta * math.log(p) / n)


@pytest.mark.parametrize(("rule", "threshold"), COMBINATIONS)
@pytest.mark.parametrize("assume_centered", [False, True])
def test_the_estimate_is_its_definition(rule, threshold, assume_centered):
    options = {"rule": rule, "threshold": threshold, "assume_centered": assume_centered}
    estimator = ThresholdedCovariance(constant=1.3, **options).fit(RECORDS)
    S, levels = levels_by_hand(RECORDS, threshold, 1.3, centred=not assume_centered)
    np.testing.assert_allclose(estimator.covariance_, RULES[rule](S, levels), rtol=1e-9, atol=1e-12)
    np.fill_diagonal(levels, 0.0)
    np.testing.assert_allclose(estimator.threshold_, levels, rtol=1e-9)
    np.testing.assert_array_equal(estimator.support_, estimator.covariance_ != 0)
    np.testing.assert_array_equal(estimator.covariance_, estimator.covariance_.T)
    assert estimator.constant_ == 1.3
    mean = np.zeros(12) if assume_centered else RECORDS.mean(axis=0)
    np.testing.assert_array_equal(estimator.location_, mean)


def constant_by_hand(X, rule, threshold, seed, n_splits, n_constants):
    if threshold == "universal":
        X = X / X.std(axis=0)
    grid = np.linspace(0, 4, n_constants)
    losses = np.zeros(n_constants)
    for train, test in KFold(n_splits, shuffle=True, random_state=seed).split(X):
        S, levels = levels_by_hand(X[train], "adaptive", 1.0)
        if threshold == "universal":
            levels = np.full_like(S, math.sqrt(math.log(X.shape[1]) / len(train)))
        held_out = np.cov(X[test].T, bias=True)
        losses += [np.sum((RULES[rule](S, c * levels) - held_out) ** 2) for c in grid]
    return grid[np.argmin(losses)]


@pytest.mark.parametrize(("rule", "threshold"), COMBINATIONS)
def test_cross_validation_takes_the_constant_of_the_least_loss(rule, threshold):
    X = gaussian_records(model_1(20), 63) * np.arange(1.0, 21)
    for seed, n_splits, n_constants in ((0, 5, 41), (1, 3, 17)):
        estimator = ThresholdedCovariance(
            rule=rule,
            threshold=threshold,
            constant="cv",
            n_splits=n_splits,
            n_constants=n_constants,
            random_state=seed,
        ).fit(X)
        expected = constant_by_hand(X, rule, threshold, seed, n_splits, n_constants)
        assert estimator.constant_ == expected
        given = clone(estimator).set_params(constant=expected).fit(X)
        np.testing.assert_array_equal(given.covariance_, estimator.covariance_)


@pytest.mark.parametrize(("rule", "threshold"), COMBINATIONS)
@pytest.mark.parametrize("constant", [1.0, "cv"])
def test_units_and_means_do_not_matter(rule, threshold, constant):
    """But for the choice of the constant of adaptive thresholds, which is in the data's unit."""
    options = {"rule": rule, "threshold": threshold, "constant": constant, "random_state": 3}
    same_unit = threshold == "adaptive" and constant == "cv"
    unit = np.full(12, 8.0) if same_unit else 2.0 ** np.arange(-6, 6)
    first = ThresholdedCovariance(**options).fit(RECORDS)
    second = ThresholdedCovariance(**options).fit(RECORDS * unit - 3.0)
    assert first.constant_ == second.constant_
    np.testing.assert_allclose(
        second.covariance_, first.covariance_ * np.outer(unit, unit), rtol=1e-9
    )


@pytest.mark.parametrize("threshold", ["universal", "adaptive"])
@pytest.mark.parametrize("constant", [1.0, "cv"])
def test_constant_features(threshold, constant):
    X = RECORDS.copy()
    X[:, [2, 7]] = 0.1  # its mean over 60 records is not exactly 0.1
    options = {"threshold": threshold, "constant": constant, "random_state": 0}
    estimator = ThresholdedCovariance(**options).fit(X)
    assert not estimator.covariance_[[2, 7]].any()
    np.testing.assert_allclose(estimator.precision_[[2, 7]], 0, atol=1e-12)
    none = ThresholdedCovariance(**options).fit(np.full((20, 3), 0.1))
    assert not none.covariance_.any()


def test_it_is_an_estimator_like_others_and_not_private():
    estimator = ThresholdedCovariance().fit(RECORDS)
    assert not hasattr(estimator, "release_")
    assert not hasattr(estimator, "guarantee_")
    assert "NOT PRIVATE" in ThresholdedCovariance.__doc__.splitlines()[0]
    stored = ThresholdedCovariance(constant=0).fit(RECORDS)
    assert stored.get_precision() is stored.precision_
    np.testing.assert_allclose(stored.precision_ @ stored.covariance_, np.eye(12), atol=1e-8)
    assert stored.mahalanobis(RECORDS).mean() == pytest.approx(12)
    estimator = ThresholdedCovariance(constant="cv", random_state=0).fit(RECORDS)
    again = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(again.covariance_, estimator.covariance_)
    search = GridSearchCV(ThresholdedCovariance(), {"rule": list(RULES), "constant": [0.5, 1.0]})
    assert search.fit(gaussian_records(np.eye(3), 90)).best_params_["rule"] in RULES
    X = gaussian_records(model_1(20), 40)
    make = ThresholdedCovariance(constant="cv", n_constants=401)
    chosen = [make.set_params(random_state=s).fit(X).constant_ for s in (0, 0, 1)]
    assert chosen[0] == chosen[1] != chosen[2]
    state = np.random.RandomState(0)
    assert make.set_params(random_state=state).fit(X).constant_ == chosen[0]


BAD = {"rule": ["firm", None], "threshold": ["cv", 0.3], "random_state": ["seed", -1]}
BAD |= {"constant": ["auto", -0.1, math.nan, math.inf, None, True, np.ones(2)]}
BAD |= {"n_splits": [1, 2.0], "n_constants": [1, "many"]}
BAD |= {"assume_centered": ["yes"]}


@pytest.mark.parametrize("name", BAD)
def test_bad_parameters_are_refused_by_name(name):
    for value in BAD[name]:
        with pytest.raises(ParameterError, match=f"^{name} "):
            ThresholdedCovariance(**{name: value}).fit(RECORDS)


def test_records_that_cannot_be_used():
    with pytest.raises(DataError, match=r"n_splits = 10 .*got 9"):
        ThresholdedCovariance(constant="cv").fit(RECORDS[:9])
    ThresholdedCovariance(constant="cv").fit(RECORDS[:10])
    with pytest.raises(DataError, match="a double"):
        ThresholdedCovariance().fit(RECORDS * 1e200)
    with pytest.raises(ValueError, match="minimum of 2"):
        ThresholdedCovariance().fit(RECORDS[:1])
