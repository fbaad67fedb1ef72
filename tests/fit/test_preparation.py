"""Centre, norms and scales: the noise they promise, and how near they come."""

from __future__ import annotations

import numpy as np
import pytest

from budgets import ample
from fit.settings import seeded
from hushcov._validation import check_feature_scale
from hushcov.bounds import check_bounds
from hushcov.fit import norms
from hushcov.fit.mechanism import Prepared
from hushcov.fit.preparation import Preparation, centre_share, choose_norm, norm_counts
from hushcov.kernel.records.base import Records
from hushcov.kernel.session import unwrap
from hushcov.release import parts_of
from hushcov.release.document import MEANS
from hushcov.tables.sources import ArrayRecords
from sessions import session_of

N, D = 20_000, 8
MU = 0.24


def rows(seed=0, n=N, d=D):
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.mark.parametrize(("tail", "least", "most"), [(None, 0.0, 0.9), (3, 0.001, 0.6)])
def test_the_bound_balances_noise_and_what_is_cut_off(tail, least, most):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(N, 50)) if tail is None else rng.standard_t(tail, size=(N, 50))
    noisy = session_of(X, entropy=seeded()).measure(norm_counts(np.ones(50)), MU)
    bounds = [choose_norm(noisy.integers, noisy.sd, n, 50, MU) for n in (1_000, N, 10**7)]
    assert bounds[0].norm <= bounds[1].norm <= bounds[2].norm  # less noise, less cut off
    assert bounds[0].shrunk >= bounds[1].shrunk >= bounds[2].shrunk
    assert least <= bounds[1].shrunk <= most


def test_norms_that_are_not_seen_count_as_those_of_normal_records():
    """Of two features, a bound at the root mean square would cut most records down."""
    bounds = [choose_norm(np.zeros(82, dtype=np.int64), 1_000, 2_000, d, 0.1) for d in (2, 50)]
    few, many = (bound.norm**2 / d for bound, d in zip(bounds, (2, 50), strict=True))
    assert 2 < few < 8
    assert 0.2 < many < 1  # noise is as large as the matrix
    lost = [bound.lost[0] for bound in bounds]
    assert 0.01 < lost[0] < 0.2 < lost[1] <= 0.5


@pytest.mark.parametrize("beyond", [1, 2, 5, 9])
def test_long_records_in_the_last_bins_are_no_error(beyond):
    """Records may be in the last bin, or so near that wider windows have no room above it."""
    counts = np.zeros(82, dtype=np.int64)
    counts[40], counts[-beyond] = 9_000, 1_000
    bound = choose_norm(counts, 10, 10_000, 5, 0.2)
    assert np.isfinite(bound.norm)
    assert bound.sure == 82 - beyond + 1


def share_below_the_bound(seed: int) -> float:
    """What a bound leaves of the squares of few records of one feature, which no bin holds."""
    X = rows(5, 4_000, 1)
    noisy = session_of(X, entropy=seeded(seed)).measure(norm_counts(np.ones(1)), 0.0236)
    bound = choose_norm(noisy.integers, noisy.sd, len(X), 1, 0.22)
    return float(np.minimum(X**2, bound.norm**2).sum() / (X**2).sum())


def test_one_bin_beyond_noise_is_not_taken_for_the_longest_records(monkeypatch):
    """Bins hold 4 % of the records at most, the lowest of all a few more, and noise is 1.5 %."""
    assert min(share_below_the_bound(seed) for seed in range(40)) > 0.5

    def last_bin(counts, sigma):
        seen = np.flatnonzero(counts > 4 * sigma)
        return int(seen[-1]) if len(seen) else None

    monkeypatch.setattr(norms, "_last_bin", last_bin)
    assert min(share_below_the_bound(seed) for seed in range(40)) < 0.05


# Scales where means are known: found by the same search, about zero.


MU_OF_ALL = 0.2367  # of epsilon = 1, delta = 1e-6


def scales_of(X, mu=MU_OF_ALL, seed=0, *, known_mean=True, bounds=None):
    records = X if isinstance(X, Records) else ArrayRecords(X)
    stage = Preparation(*X.shape, mu, known_mean=known_mean, bounds=bounds)
    prepared = Prepared(session_of(records, ample(mu), seeded(seed)), np.ones(X.shape[1]))
    return stage.run(prepared)


def skewed_columns(n=20_000):
    """Flags of 1 to 30 %, counts and amounts, standardised: most values lie on one side."""
    rng = np.random.default_rng(3)
    flags = rng.random((n, 12)) < np.geomspace(0.01, 0.3, 12)
    columns = np.column_stack([flags, rng.poisson(0.3, (n, 4)), rng.lognormal(size=(n, 4))])
    return (columns - columns.mean(axis=0)) / columns.std(axis=0)


def test_scales_with_means_known_are_near_deviations():
    """What is seen on one side has its balance on the other, where few records may be."""
    found = scales_of(skewed_columns())
    assert found.making["unresolved"] == ()
    assert found.feature_scale.min() > 0.7
    assert found.feature_scale.max() < 1.5


def test_a_known_mean_is_not_paid_for():
    """There is no release of means, and what it would cost is left for the matrix."""
    X = rows(1)
    known, unknown = (scales_of(X, known_mean=each) for each in (True, False))
    assert known.location is None
    assert unknown.location is not None
    assert "means_sd" not in known.making
    names, more = ({part.name for part in parts_of(each.session)} for each in (known, unknown))
    assert {name.partition(", look")[0] for name in more ^ names} == {
        *("centres and scales of the features", "scales of the features", MEANS)
    }
    assert known.session.remaining > unknown.session.remaining
    share = centre_share(N, D, MU_OF_ALL)
    most = [Preparation(N, D, MU_OF_ALL, known_mean=each).cost().most for each in (True, False)]
    assert most[1] ** 2 - most[0] ** 2 == pytest.approx(share * MU_OF_ALL**2)


def test_a_known_mean_is_zero_whatever_bounds_say():
    """Values count about zero, and a scale is at most what a mean of zero allows."""
    X = np.column_stack([rows(2)[:, 0].clip(-1, 9), rows(3)[:, 0].clip(1, 2), np.full(N, 4.0)])
    bounds = check_bounds([(-1, 9), (1, 2), (4, 4)], 3)
    found = scales_of(X, bounds=bounds)
    assert found.location is None
    about = unwrap(found.session)[0]._about
    assert not about.centre.any()
    assert about.reach[1] == pytest.approx(2)
    assert found.feature_scale[2] == 0
    assert found.feature_scale[0] == pytest.approx(np.sqrt(np.mean(X[:, 0] ** 2)), rel=0.3)


def test_few_records_have_the_scales_that_are_usual():
    """Counts of one column show nothing; those of all together show what is usual."""
    ratio = scales_of(7.0 * rows(4, 900, 40)).feature_scale / 7.0
    assert 0.5 < np.median(ratio) < 2
    assert (ratio > 0).mean() > 0.9
    assert scales_of(7.0 * rows(4, 900, 40), known_mean=False).making["unresolved"]


@pytest.mark.parametrize(("n", "d", "most"), [(15_000, 1000, 1.6), (5000, 200, 1.9)])
def test_normal_features_over_twelve_orders_of_magnitude(n, d, most):
    rng = np.random.default_rng(4)
    deviation = 10 ** rng.uniform(-6, 6, d)
    ratio = scales_of(rng.standard_normal((n, d)) * deviation).feature_scale / deviation
    assert np.mean((ratio > 1 / most) & (ratio < most)) >= 0.99
    assert 1 / 1.15 < np.median(ratio) < 1.15
    check_feature_scale(ratio, d)


def test_constants_among_other_features():
    rng = np.random.default_rng(10)
    X = rng.standard_normal((20_000, 100)) * 10 ** rng.uniform(-6, 6, 100)
    X[:, 10:20] = 0.0
    assert scales_of(X).making["unresolved"] == tuple(range(10, 20))


@pytest.mark.parametrize("shape", [(1, 1), (1, 300), (3, 2000)])
def test_too_few_records_are_said_to_be_too_few(shape):
    X = np.random.default_rng(13).standard_normal(shape) * 1e12
    assert Preparation(*shape, MU_OF_ALL, known_mean=True).cost().drowns
    scale = scales_of(X).feature_scale
    assert ((scale == 0) | ((scale > 1e-20) & (scale < 1e20))).all()
