"""Adaptive fits of tables that have little in them, or of which something is known."""

from __future__ import annotations

import numpy as np
import pytest

from hushcov.accounting import ONE_REPLACED, Clocked, compose
from hushcov.noise import Entropy
from hushcov.steps.preparation import release_squares
from hushcov.tables.sources import ArrayRecords
from mechanisms.adaptive.settings import blocks, drawn, error, fit

RNG = np.random.default_rng(3)


def plain(estimator):
    """The estimate as an array, after what every fit must have."""
    covariance = estimator.covariance_
    covariance = covariance.toarray() if hasattr(covariance, "toarray") else covariance
    d = len(covariance)
    assert np.isfinite(covariance).all()
    assert np.array_equal(covariance, covariance.T)
    assert np.all(np.diag(covariance) >= 0)
    assert estimator.factors_.loadings.shape[0] == d
    assert estimator.components_.shape == estimator.factors_.loadings.T.shape
    assert 0 <= estimator.error_estimate_.least <= estimator.error_estimate_.most <= 1.06
    guarantee = estimator.release_.guarantee
    assert sum(isinstance(event, Clocked) for event in guarantee.events) == 1
    assert compose(guarantee.events, delta=1e-6).epsilon <= 1.0
    return covariance


@pytest.mark.parametrize("sparse_output", [False, True])
@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_few_features(d, sparse_output):
    """Their strongest pair is found, however few there are."""
    X = RNG.standard_normal((20_000, d))
    X[:, -1] += X[:, 0]
    covariance = plain(fit(X, sparse_output=sparse_output))
    expected = np.cov(X.T, bias=True).reshape(d, d)
    expected[np.abs(expected) < 0.5] = 0
    assert np.abs(covariance - expected).max() < 0.3


@pytest.mark.parametrize("sparse_output", [False, True])
def test_nothing_but_constants(sparse_output):
    estimator = fit(np.ones((5_000, 6)), sparse_output=sparse_output)
    assert not plain(estimator).any()
    assert estimator.error_estimate_.most > 0.9


def test_one_constant():
    X, truth = drawn(blocks(40), 20_000)
    X[:, 5] = 3.0
    covariance = plain(fit(X))
    assert not covariance[5].any()
    others = np.delete(np.arange(40), 5)
    assert error(covariance[np.ix_(others, others)], truth[np.ix_(others, others)]) < 0.06


@pytest.mark.parametrize("sparse_output", [False, True])
@pytest.mark.parametrize(("n", "d"), [(1, 3), (8, 5), (100, 200)])
def test_too_few_records_to_find_anything(n, d, sparse_output):
    """All of them are zeros then, or nearly; the release is private all the same."""
    X = RNG.standard_normal((n, d))
    estimator = fit(X, sparse_output=sparse_output, on_hopeless="warn")
    assert not plain(estimator).any()
    assert estimator.release_.making.unresolved == tuple(range(d))


def test_two_records_of_known_mean():
    plain(fit(RNG.standard_normal((2, 3)), assume_centered=True, on_hopeless="warn"))


@pytest.mark.parametrize(
    ("known", "worst"),
    [
        ({"assume_centered": True, "feature_scale": "true"}, 0.06),
        ({"assume_centered": True}, 0.06),
        ({"feature_scale": "true"}, 0.06),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else "",
)
def test_what_is_known_is_used(known, worst):
    X, truth = drawn(blocks(40), 20_000)
    scale = np.sqrt(np.diag(truth))
    if "feature_scale" in known:
        known = known | {"feature_scale": scale}
    if "assume_centered" in known:
        X = X - 7 * scale
    estimator = fit(X, **known)
    assert error(plain(estimator), truth) < worst
    assert estimator.release_.making.structure.kind == "sparse"


def test_incomplete_records_are_left_out():
    """Sums count them as zeros; values, their noise and the threshold are those of the rest."""
    X, truth = drawn(blocks(100), 60_000)
    X[RNG.random(len(X)) < 0.4, 3] = np.nan
    estimator = fit(X, drop_nulls=True)
    assert error(plain(estimator), truth) < 0.13
    release = estimator.release_
    assert release.making.structure.kind == "sparse"
    assert release.making.threshold > 1.9 * release.noise_sd[0]


@pytest.mark.parametrize("d", [5, 20_000])
def test_squares_of_any_number_of_features_are_summed(d):
    """Their grid is as fine as exact sums of so many fourth powers allow."""
    rows = RNG.standard_normal((40, d))
    entropy = Entropy(np.random.default_rng(1), private=False)
    squares, noise = release_squares(ArrayRecords(rows), np.ones(d), 1e9, ONE_REPLACED, entropy)
    assert noise < 1e-5
    typical = np.mean(rows**2, axis=0)
    assert np.median(np.abs(squares - typical)) < 0.1
