"""The preparation: centre, norms and bound, and that its parts never take more than the pool."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from budgets import ample, squared
from hushcov.accounting import ONE_REPLACED
from hushcov.exceptions import ParameterError
from hushcov.noise import Entropy
from hushcov.steps import Prepared, norms
from hushcov.steps.preparation import (
    WIDEST,
    Preparation,
    centre_share,
    choose_norm,
    norm_share,
    release_centre,
    release_norms,
    release_tails,
)
from hushcov.sums.bounded import bounded_sums, fourth_sums_of
from hushcov.sums.grids import FeatureGrid
from hushcov.sums.records import CentredRecords
from hushcov.tables.sources import ArrayRecords
from statistics_helpers import FALSE_ALARM

N, D = 20_000, 8
MU = 0.24


def fourths(records, *public):
    return records.map_sum(fourth_sums_of(records, *public))


def seeded(seed=0) -> Entropy:
    return Entropy(np.random.default_rng(seed), private=False)


def rows(seed=0, n=N, d=D):
    return np.random.default_rng(seed).normal(size=(n, d))


def test_the_centre_is_the_mean_with_the_noise_that_it_says():
    X, scale = rows() + 0.3, np.ones(D)
    found = []
    for seed in range(60):
        mean, noise = release_centre(ArrayRecords(X), scale, 0.05, ONE_REPLACED, seeded(seed))
        found.append((mean - X.mean(axis=0)) / noise)
    # Norms are bounded at sqrt(2 d), which takes a little off: the spread is tested, not the mean.
    spread = np.var(found, axis=0, ddof=1).sum() * 59
    low, high = stats.chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], 59 * D)
    assert low < spread < high
    assert not low < 1.3 * spread < high or not low < spread / 1.3 < high
    assert np.abs(np.mean(found, axis=0) * noise).max() < 0.05


def test_no_record_moves_the_sums_of_the_centre_by_more_than_twice_the_bound():
    grid = FeatureGrid(np.ones(D), WIDEST, 2**15 - 1)
    bound = 1500
    zeros = np.zeros((5, D))
    largest = 0.0
    for seed in range(50):
        rng = np.random.default_rng(seed)
        one, other = zeros.copy(), zeros.copy()
        one[2] = rng.normal(size=D) * 10.0 ** rng.integers(-3, 12)
        other[2] = -one[2] if seed % 2 else rng.normal(size=D) * 10.0 ** rng.integers(-3, 12)
        moved = bounded_sums(ArrayRecords(one), grid, bound) - bounded_sums(
            ArrayRecords(other), grid, bound
        )
        largest = max(largest, float(np.linalg.norm(moved)))
    assert 1.99 * bound < largest <= 2 * bound


def test_counts_of_norms_are_those_of_the_records():
    X = rows()
    counts, sigma = release_norms(ArrayRecords(X), np.ones(D), MU, ONE_REPLACED, ample(), seeded())
    assert counts.sum() == pytest.approx(N, abs=6 * sigma * math.sqrt(len(counts)))
    middle = np.argmax(counts)
    assert 0.6 < 2.0 ** (-8 + (middle - 0.5) / 4) < 1.3


@pytest.mark.parametrize(("tail", "least", "most"), [(None, 0.0, 0.9), (3, 0.001, 0.6)])
def test_the_bound_balances_noise_and_what_is_cut_off(tail, least, most):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(N, 50)) if tail is None else rng.standard_t(tail, size=(N, 50))
    counts, sigma = release_norms(ArrayRecords(X), np.ones(50), MU, ONE_REPLACED, ample(), seeded())
    bounds = [choose_norm(counts, sigma, n, 50, MU) for n in (1_000, N, 10**7)]
    assert bounds[0].norm <= bounds[1].norm <= bounds[2].norm  # less noise, less cut off
    assert bounds[0].shrunk >= bounds[1].shrunk >= bounds[2].shrunk
    assert least <= bounds[1].shrunk <= most


def test_counts_of_noise_alone_give_the_norm_of_the_scales():
    counts = np.zeros(82, dtype=np.int64)
    assert choose_norm(counts, 10, N, 50, MU).norm == pytest.approx(math.sqrt(50))


def test_tails_are_fourth_moments_with_the_noise_that_they_say():
    X, scale = rows(), np.ones(D)
    found = []
    for seed in range(60):
        fourth, noise = release_tails(ArrayRecords(X), scale, 1.0, 0.05, ONE_REPLACED, seeded(seed))
        found.append(fourth / noise)
    spread = np.var(found, axis=0, ddof=1).sum() * 59
    low, high = stats.chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], 59 * D)
    assert low < spread < high
    assert not low < 1.3 * spread < high or not low < spread / 1.3 < high
    # Powers are cut down at 57 here, which takes about 1 % off a normal column.
    np.testing.assert_allclose(np.mean(found, axis=0) * noise, 3.0, atol=0.3)


def test_no_record_moves_the_sums_of_tails_by_more_than_root_two_bounds():
    grid = FeatureGrid(np.ones(D), WIDEST, 2**15 - 1)
    bound, largest = 1500, 0.0
    for seed in range(50):
        rng = np.random.default_rng(seed)
        one, other = np.zeros((2, 5, D))
        one[2] = rng.normal(size=D) * 10.0 ** rng.integers(-3, 12)
        other[2, rng.integers(D)] = 10.0 ** rng.integers(-3, 12)
        sums = (fourths(ArrayRecords(each), grid, 30, bound) for each in (one, other))
        largest = max(largest, float(np.linalg.norm(np.subtract(*sums))))
    assert 1.2 * bound < largest <= math.sqrt(2) * bound  # 1 would not do, so 2 bounds are not 1


def test_fourth_powers_are_exact_below_the_bound():
    grid = FeatureGrid(np.ones(D), WIDEST, 2**15 - 1)
    X = rows(n=300)
    integers = np.rint(X * (2**15 - 1) / WIDEST).astype(object)
    exact = [sum(int(value) ** 4 // 2**20 for value in column) for column in integers.T]
    sums = fourths(ArrayRecords(X), grid, 20, 2**24)
    assert sums.tolist() == exact


def test_shares_fall_with_the_number_of_records():
    """But for that of the norms, which rises from 0.01 to 0.1 where noise is small."""
    sizes = (10**4, 10**5, 10**6)
    shares = {n: (Preparation(n, 1000, MU).cost / MU) ** 2 for n in sizes}
    assert max(shares.values()) == shares[10**4] <= 0.371
    others = [share - norm_share(n, 1000, MU) for n, share in shares.items()]
    assert others == sorted(others, reverse=True)
    assert centre_share(10**9, 10, MU) == 0.005


def test_what_is_taken_stays_within_the_pool_and_is_charged():
    X = rows() * 10.0 ** np.arange(-4, 4) + 1e3
    stage, budget = Preparation(N, D, MU), ample(MU)
    prepared = stage.run(Prepared(ArrayRecords(X), np.ones(D)), budget, seeded())
    assert 0 < squared(budget) <= min(stage.most_cost**2, 0.5 * MU**2)
    assert prepared.making["unresolved"] == ()
    np.testing.assert_allclose(prepared.location, X.mean(axis=0), atol=0.1 * X.std(axis=0).max())
    ratio = prepared.feature_scale / X.std(axis=0)
    assert ratio.min() > 0.25
    assert ratio.max() < 4
    assert isinstance(prepared.records, CentredRecords)
    assert 0 <= prepared.making["shrunk"] <= 1


def test_constant_columns_are_not_found_and_cost_nothing_else():
    X = np.full((N, D), 7.0)
    prepared = Prepared(ArrayRecords(X), np.ones(D))
    prepared = Preparation(N, D, MU).run(prepared, ample(MU), seeded())
    assert prepared.making["unresolved"] == tuple(range(D))
    assert not prepared.feature_scale.any()


@pytest.mark.parametrize("changes", [{"total": 0.0}, {"n_features": 0}, {"n_records": 0}])
def test_parameters_that_mean_nothing_are_refused(changes):
    known = {"n_records": N, "n_features": D, "total": MU} | changes
    with pytest.raises(ParameterError):
        Preparation(**known)


def share_below_the_bound(seed: int) -> float:
    """What a bound leaves of the squares of few records of one feature, which no bin holds."""
    X = rows(5, 4_000, 1)
    args = (ArrayRecords(X), np.ones(1), 0.0236, ONE_REPLACED, ample(), seeded(seed))
    counts, sigma = release_norms(*args)
    bound = choose_norm(counts, sigma, len(X), 1, 0.22)
    return float(np.minimum(X**2, bound.norm**2).sum() / (X**2).sum())


def test_one_bin_beyond_noise_is_not_taken_for_the_longest_records(monkeypatch):
    """Bins hold 4 % of the records at most, the lowest of all a few more, and noise is 1.5 %."""
    assert min(share_below_the_bound(seed) for seed in range(40)) > 0.5

    def last_bin(counts, sigma):
        seen = np.flatnonzero(counts > 4 * sigma)
        return int(seen[-1]) if len(seen) else None

    monkeypatch.setattr(norms, "_last_bin", last_bin)
    assert min(share_below_the_bound(seed) for seed in range(40)) < 0.05
