"""Intervals where nothing is known: they cover where they say so, and heavy tails are named."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from hushcov import GaussianCovariance, PrivateSparseCovariance, ScreenedCovariance
from hushcov.release import Release, Tails
from hushcov.release.coverage import coverage
from hushcov.release.description import UNCOVERED, preparation_words
from hushcov.release.pairs import interval_holds
from statistics_helpers import FALSE_ALARM

pytestmark = pytest.mark.filterwarnings("ignore:random_state was given")
D, RHO = 20, 0.6


def normals(n, seed):
    z = np.random.default_rng(seed).standard_normal((n, D))
    z[:, 1::2] = RHO * z[:, 0::2] + math.sqrt(1 - RHO**2) * z[:, 1::2]
    return z


def fitted(estimator, X, seed=0):
    return estimator(epsilon=1.0, delta=1e-6, row_sparsity=2, random_state=seed).fit(X)


def test_variances_of_rare_events_are_covered_as_their_fourth_moments_say():
    # One in twenty at 100,000 records: intervals of normal columns cover 0.6 of the variances.
    hits = usual = count = 0
    for seed in range(8):
        estimator = fitted(GaussianCovariance, (normals(100_000, seed) > 1.6449) * 1.0, seed)
        lower, upper = (np.diag(end) for end in estimator.covariance_interval())
        truth, noise = 0.05 * 0.95, np.diag(estimator.noise_sd_)
        hits += int(np.sum((lower <= truth) & (truth <= upper)))
        half = 1.96 * np.hypot(noise, truth * math.sqrt(2 / 100_000))
        usual += int(np.sum(np.abs(np.diag(estimator.covariance_) - truth) < half))
        count += D
    least = stats.binom.ppf(FALSE_ALARM, count, 0.93)
    assert hits >= least
    assert usual < least


@pytest.mark.parametrize(
    ("estimator", "missed"), [(GaussianCovariance, 14), (ScreenedCovariance, 2)]
)
def test_heavy_tails_are_named_and_normal_columns_are_not(estimator, missed, tmp_path):
    """Of 20 lognormal columns the Gaussian mechanism misses 1 to 12 (10 tables), the other none."""
    normal = fitted(estimator, normals(40_000, 0))
    assert normal.interval_holds_.all()
    assert UNCOVERED not in dict(preparation_words(normal.release_))
    heavy = fitted(estimator, np.exp(normals(40_000, 0)))
    left = int(heavy.interval_holds_.sum())
    assert left <= missed
    words = dict(preparation_words(heavy.release_))[UNCOVERED]
    assert words.startswith(f"intervals may not hold for {20 - left} of 20 features")
    assert left >= 10 or words.endswith(f"and {10 - left} more")
    again = Release.read(heavy.release_.write(tmp_path / "release"))
    assert again == heavy.release_
    assert isinstance(again.making.tails, Tails)
    assert np.array_equal(interval_holds(again), heavy.interval_holds_)


def test_one_heavy_column_among_normal_ones_is_named():
    X = normals(100_000, 1)
    X[:, 5] = np.exp(1.3 * np.random.default_rng(2).standard_normal(len(X)))
    estimator = fitted(GaussianCovariance, X)
    kurtosis = coverage(estimator.release_).kurtosis
    assert kurtosis[5] > 1.5 * np.delete(kurtosis, 5).max()
    assert not estimator.interval_holds_[5]


@pytest.fixture(scope="module")
def by_default():
    return {
        "normal": fitted(PrivateSparseCovariance, normals(20_000, 0)),
        "lognormal": fitted(PrivateSparseCovariance, np.exp(normals(20_000, 0))),
    }


def test_the_default_names_heavy_tails_and_not_normal_columns(by_default, tmp_path):
    """Of 10 tables of 20 lognormal columns none had one that was said to hold, nor one in 10 of
    normal columns one that was not."""
    normal, heavy = by_default["normal"], by_default["lognormal"]
    assert normal.interval_holds_.all()
    assert UNCOVERED not in dict(preparation_words(normal.release_))
    assert heavy.interval_holds_.sum() <= 2
    assert "taken off large values" in dict(preparation_words(heavy.release_))[UNCOVERED]
    again = Release.read(heavy.release_.write(tmp_path / "release"))
    assert np.array_equal(interval_holds(again), heavy.interval_holds_)


def test_where_the_default_must_not_say_that_intervals_hold(by_default):
    """The wrong rule: nothing was surely beyond the bound, so all intervals would hold."""
    release = by_default["lognormal"].release_
    assert release.parameters["unexplained"] < 0.01
    found = coverage(release)
    lower, upper = (np.diag(end) for end in by_default["lognormal"].covariance_interval())
    truth = math.e * (math.e - 1)
    # Intervals that hold would miss nearly all 20 with a probability far below the level.
    assert np.sum((lower <= truth) & (truth <= upper)) < stats.binom.ppf(FALSE_ALARM, D, 0.9)
    assert (found.unexplained > release.parameters["unexplained"]).all()
    release = by_default["normal"].release_
    making = release.making
    fourth = tuple(9.0 * each for each in making.tails.fourth)
    tails = dataclasses.replace(making.tails, fourth=fourth, lost=0.0)
    heavy = dataclasses.replace(
        release,
        making=dataclasses.replace(making, tails=tails),
        parameters=release.parameters | {"unexplained": 0.0},
    )
    assert not interval_holds(heavy).any()
    few = fitted(PrivateSparseCovariance, normals(6_000, 0))
    assert not few.interval_holds_.any()
    assert "too few records" in dict(preparation_words(few.release_))[UNCOVERED]
    assert coverage(by_default["normal"].release_).told
