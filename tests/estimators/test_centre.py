"""The default: nothing known of means, scales and norms."""

import numpy as np
import pytest

from estimators.settings import PEERS, fit, make
from hushcov import (
    GaussianCovariance,
    PrivateSparseCovariance,
    ScreenedCovariance,
)
from hushcov.exceptions import AccuracyWarning, HopelessError
from hushcov.metrics import operator_norm_error
from hushcov.release import Release
from hushcov.simulate import gaussian_records, sparse_covariance
from statistics_helpers import short_and_long

D, N = 20, 40_000
TRUTH = sparse_covariance("block", D, 4)
ESTIMATORS = (GaussianCovariance, ScreenedCovariance, PrivateSparseCovariance)
OFFSETS = np.resize([0.0, 10.0, -1e3, 2024.0, 1e6], D)  # in standard deviations
SCALES = 10.0 ** np.resize([-6.0, -3, 0, 3, 6], D)


@pytest.fixture(scope="module")
def centred():
    return gaussian_records(TRUTH, N, random_state=0)


def relative_error(estimator, scales=1.0):
    return operator_norm_error(estimator.covariance_ / np.multiply.outer(scales, scales), TRUTH)


def private(cls, X, seed=0, **changes):
    return fit(make(cls, row_sparsity=4, **changes), X, seed)


@short_and_long("seeds", 1, 3)
@pytest.mark.parametrize("cls", ESTIMATORS)
def test_it_is_close_to_what_is_possible(cls, centred, seeds):
    found, known = [], []
    for seed in range(seeds):
        found.append(relative_error(private(cls, centred, seed)))
        options = {"feature_scale": 1.0, "assume_centered": True, "row_sparsity": 4}
        known.append(relative_error(fit(make(cls, **options), centred, seed)))
    assert np.median(found) < 1.5 * np.median(known) + 0.005


@pytest.mark.parametrize("cls", [*ESTIMATORS, *PEERS])
def test_offsets_and_scales_do_not_matter(cls, centred):
    scales = np.ones(D) * SCALES
    plain = relative_error(private(cls, centred))
    moved = private(cls, centred * scales + OFFSETS * scales)
    assert moved.unresolved_features_.size == 0
    assert relative_error(moved, scales) < 1.5 * plain + 0.02
    off = (moved.location_ - OFFSETS * scales) / scales
    assert np.abs(off).max() < 0.3


def test_columns_without_variance_are_named_and_zero(centred, tmp_path):
    X = centred.copy()
    X[:, 3] = 7.0
    with pytest.warns(AccuracyWarning, match="1 of 20 features"):
        estimator = private(GaussianCovariance, X)
    assert estimator.unresolved_features_.tolist() == [3]
    assert not estimator.covariance_[3].any()
    lower, upper = estimator.covariance_interval()
    assert lower[3, 3] == 0  # a variance
    lower[3, 3] = -np.inf
    for end, infinite in ((lower, -np.inf), (upper, np.inf)):
        assert np.all(end[3] == infinite)
        assert np.all(end[:, 3] == infinite)
        assert np.isfinite(np.delete(np.delete(end, 3, 0), 3, 1)).all()
    assert relative_error(estimator) < 1
    again = Release.read(estimator.release_.write(tmp_path / "release"))
    assert again == estimator.release_
    assert again.making.unresolved == (3,)
    assert np.array_equal(again.location, estimator.location_)


@pytest.mark.parametrize("cls", [GaussianCovariance, *PEERS])
def test_too_few_records_to_find_anything_are_refused_before_any_is_read(cls):
    estimator = make(cls)
    with pytest.raises(HopelessError, match="only zeros would be released"):
        estimator.fit(np.full((300, D), np.nan))
    assert any("only zeros" in each.sentence for each in estimator._fit_plan(300, D).cautions)


def test_distances_are_from_the_released_mean_and_public_scales_stay(centred):
    estimator = private(GaussianCovariance, centred + 50.0)
    distances = estimator.mahalanobis(centred[:500] + 50.0)
    assert np.median(distances) == pytest.approx(D, rel=0.3)
    estimator = private(GaussianCovariance, 3 * centred + 100, feature_scale=3.0)
    assert estimator.feature_scale_ == pytest.approx(np.full(D, 3.0), rel=0, abs=0)
    assert relative_error(estimator, 3.0) < 0.2
