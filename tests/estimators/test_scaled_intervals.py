"""Intervals and noise levels of fits: what they say is how often, and how much."""

import numpy as np
import pytest

from estimators.settings import correlations, fit, make
from hushcov import GaussianCovariance, ScreenedCovariance
from hushcov.simulate import gaussian_records

N, D, K = 10_000, 100, 5
SEEDS = range(12)
KNOWN = {"feature_scale": 1.0, "assume_centered": True}


@pytest.fixture(scope="module")
def data():
    truth = correlations("block", D, K)
    return truth, [gaussian_records(truth, N, random_state=seed) for seed in SEEDS]


@pytest.fixture(
    scope="module", params=["screened", "gaussian, threshold"], ids=lambda name: name.split(",")[0]
)
def mechanism(request):
    if request.param == "screened":
        return ScreenedCovariance, {}
    return GaussianCovariance, {"threshold": "universal"}


@pytest.fixture(scope="module", params=[True, False], ids=["known", "unknown"])
def fits(request, mechanism, data):
    cls, changes = mechanism
    changes = {"row_sparsity": K, **changes}
    changes |= KNOWN if request.param else {"assume_centered": True}
    return [
        fit(make(cls, **changes), X if request.param else 3 * X, seed)
        for seed, X in zip(SEEDS, data[1], strict=True)
    ]


def coverage(fits, truth, level, where):
    """Share of the shown entries that their interval covers, and how many are shown."""
    hits = shown = 0
    for estimator in fits:
        unit = 9.0 if estimator.feature_scale is None else 1.0
        lower, upper = (end[where] for end in estimator.covariance_interval(level))
        there = ~np.isnan(lower)
        value = unit * truth[where][there]
        hits += np.count_nonzero((lower[there] <= value) & (value <= upper[there]))
        shown += np.count_nonzero(there)
    return hits / shown, shown


@pytest.mark.parametrize(("level", "room"), [(0.95, 0.02), (0.8, 0.04)])
def test_intervals_cover_as_often_as_they_say(fits, data, level, room):
    """About 2,400 pairs and 1,200 variances: a deviation is 0.0045 and 0.0063 at 0.95.

    Where scales are found, tails are looked at, too, and intervals are wider for what is unseen.
    """
    wider = room if fits[0].feature_scale is not None else 0.17
    pairs, n_pairs = coverage(fits, data[0], level, np.triu_indices(D, 1))
    variances, n_variances = coverage(fits, data[0], level, np.diag_indices(D))
    assert n_pairs > 2_000
    assert n_variances == D * len(SEEDS)
    assert -room < pairs - level < wider
    assert -room < variances - level < wider


def test_intervals_and_noise_are_where_estimates_are(fits):
    estimator = fits[0]
    lower, upper = estimator.covariance_interval()
    np.testing.assert_array_equal(np.isnan(lower), ~estimator.support_)
    np.testing.assert_array_equal(np.isnan(upper), ~estimator.support_)
    np.testing.assert_array_equal(lower, lower.T)
    np.testing.assert_array_equal(upper, upper.T)
    there = estimator.support_
    assert (lower[there] < upper[there]).all()
    assert (estimator.covariance_[there] < upper[there]).mean() > 0.99
    narrow = estimator.covariance_interval(0.5)
    assert (lower[there] < narrow[0][there]).all()
    assert (narrow[1][there] < upper[there]).all()
    estimator = fits[0]
    noise = estimator.noise_sd_
    np.testing.assert_array_equal(np.isnan(noise), ~estimator.release_.released)
    assert estimator.release_.released[estimator.support_].all()
    scale = estimator.feature_scale_
    pair, variance = estimator.release_.noise_sd
    np.testing.assert_allclose(np.diag(noise), variance * scale**2)
    rows, columns = np.nonzero(np.triu(estimator.release_.released, 1))
    np.testing.assert_allclose(noise[rows, columns], pair * scale[rows] * scale[columns])
