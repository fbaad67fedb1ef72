"""The inverse is computed when it is asked for, once, and goes with the estimator."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from hushcov import GaussianCovariance
from hushcov.estimators import answering

ROWS = np.random.default_rng(5).standard_normal((4_000, 3))


@pytest.fixture
def computed(monkeypatch):
    """How often an inverse was computed."""
    calls = []
    inverse = answering.pseudo_inverse
    monkeypatch.setattr(answering, "pseudo_inverse", lambda S: calls.append(1) or inverse(S))
    return calls


def fitted(**options):
    return GaussianCovariance(
        epsilon=1.0, delta=1e-6, assume_centered=True, feature_scale=np.ones(3), **options
    ).fit(ROWS)


def test_a_fit_computes_none_and_the_first_use_computes_one(computed):
    estimator = fitted()
    assert computed == []
    first = estimator.precision_
    assert estimator.precision_ is first is estimator.get_precision()
    estimator.mahalanobis(ROWS[:5])
    assert len(computed) == 1
    estimator.fit(2 * ROWS)
    assert len(computed) == 1
    assert not np.array_equal(estimator.precision_, first)
    assert estimator.set_params(store_precision=False).precision_ is not None  # settled by the fit
    unstored = fitted(store_precision=False)
    assert unstored.precision_ is None
    assert unstored.get_precision().shape == (3, 3)
    assert not hasattr(clone(fitted()), "precision_")


def test_it_is_kept_with_the_estimator_or_computed_after_loading(computed):
    estimator = fitted()
    loaded = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(loaded.precision_, estimator.precision_)
    assert len(computed) == 2
    again = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(again.precision_, estimator.precision_)
    assert len(computed) == 2
