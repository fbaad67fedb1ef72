"""Intervals where nothing is known: they cover where they say so, and heavy tails are named."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from hushcov import GaussianCovariance, PrivateSparseCovariance, ScreenedCovariance
from hushcov.release import Release, Tails
from hushcov.release.coverage import Coverage, coverage
from hushcov.release.view import covariance_intervals
from hushcov.text.description import HEAVY, UNCOVERED, preparation_words
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
    "estimator", [GaussianCovariance, ScreenedCovariance, PrivateSparseCovariance]
)
def test_heavy_tails_are_named_with_a_cure_and_normal_columns_are_not(estimator, tmp_path):
    """Of 6 tables of 20 columns each, 17 lognormal ones or more were named, and no normal one."""
    normal = fitted(estimator, normals(10_000, 0))
    assert normal.interval_holds_.all()
    assert {HEAVY, UNCOVERED}.isdisjoint(dict(preparation_words(normal.release_)))
    heavy = fitted(estimator, np.exp(1.3 * normals(10_000, 0)))
    named = int(coverage(heavy.release_).heavy.sum())
    assert named >= 12
    words = dict(preparation_words(heavy.release_))[HEAVY]
    assert words.startswith(f"{named} of 20 features have values far away that were cut down")
    assert "log, winsorise, rank" in words
    again = Release.read(heavy.release_.write(tmp_path / "release"))
    assert again == heavy.release_
    assert isinstance(again.making.tails, Tails)
    assert np.array_equal(coverage(again).holds, heavy.interval_holds_)


def test_intervals_hold_where_tails_were_cut_off(monkeypatch):
    """Variances of 40 lognormal columns, of which hardly any is covered without the tails."""
    truth = math.exp(1.3**2) * (math.exp(1.3**2) - 1)
    tables = [(np.exp(1.3 * normals(20_000, seed)), seed) for seed in (0, 1)]
    estimators = [fitted(PrivateSparseCovariance, *table) for table in tables]

    def hits():
        ends = [np.diag(end) for each in estimators for end in each.covariance_interval()]
        return sum(
            int(np.sum((low <= truth) & (truth <= high)))
            for low, high in zip(ends[::2], ends[1::2], strict=True)
        )

    least = stats.binom.ppf(FALSE_ALARM, 2 * D, 0.93)
    assert all(each.interval_holds_.all() for each in estimators)
    assert hits() >= least
    monkeypatch.setattr(Coverage, "widen", lambda self, ends, places: ends)
    assert hits() < least


def test_where_no_interval_can_be_believed():
    release = fitted(PrivateSparseCovariance, normals(20_000, 0)).release_
    making = release.making

    def changed(**changes):
        tails = dataclasses.replace(making.tails, **changes)
        return dataclasses.replace(release, making=dataclasses.replace(making, tails=tails))

    stretch = (30.0,) + (1.0,) * (D - 1)  # 900 times the variance that its first scale tells
    far = changed(stretch=stretch)
    assert coverage(far).holds.tolist() == [False] + [True] * (D - 1)
    words = dict(preparation_words(far))[UNCOVERED]
    assert words.startswith("intervals may not hold for 1 of 20 features, most of whose variance")
    assert "log, winsorise, rank" in words
    long = changed(lost=0.7, lost_sd=0.1)
    assert not coverage(long).holds.any()
    assert "More records tell it" in dict(preparation_words(long))[UNCOVERED]
    # A little that is missing of all makes intervals wider, and no flag.
    some = changed(lost=making.tails.lost + 0.05)
    assert coverage(some).holds.all()
    upper = [np.diag(covariance_intervals(each, 0.95)[1]) for each in (release, some)]
    assert (upper[1] > 1.03 * upper[0]).all()
