"""Features of selected pairs whose scale came out far too large: their noise is left out."""

from dataclasses import replace

import numpy as np
import pytest

from hushcov import ScreenedCovariance
from hushcov.exceptions import SeededNoiseWarning
from hushcov.release.estimate import estimate


@pytest.fixture(scope="module")
def release():
    X = np.random.default_rng(0).standard_normal((20_000, 12)) + 5
    X[:, 1] += X[:, 0]
    with pytest.warns(SeededNoiseWarning):
        fitted = ScreenedCovariance(epsilon=2.0, delta=1e-6, bandwidth=1, random_state=0).fit(X)
    return fitted.release_


def with_scale(release, feature, factor):
    """The same where the scale of a feature was too large by a factor: values are smaller then."""
    by = np.ones(release.n_features)
    by[feature] = 1 / factor
    integers = release.integers * by[:, None] * by[None, :]
    scale = release.feature_scale / by
    return replace(release, integers=np.rint(integers.toarray()).astype(int), feature_scale=scale)


def test_a_scale_that_is_far_too_large_does_not_bring_its_noise(release):
    usual = estimate(release).toarray()
    assert np.all(np.diag(usual) > 0.5)
    off = with_scale(release, 3, 30.0)
    found = estimate(off)
    others = np.arange(12) != 3
    assert not found[3].any()
    np.testing.assert_allclose(found[np.ix_(others, others)], usual[np.ix_(others, others)])
    # Scales that were given, and not searched for, are taken as they are.
    given = replace(off, making=replace(off.making, tails=None))
    assert estimate(given)[3].any()


def test_features_as_noisy_as_all_others_stay(release):
    noisy = replace(release, noise_sd=(1.0, 1.0))
    np.testing.assert_array_equal(estimate(noisy).toarray(), estimate(release).toarray())
