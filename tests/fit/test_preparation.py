"""Centre, norms and scales: the noise they promise, and how near they come."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fit.settings import seeded
from hushcov._validation import check_feature_scale
from hushcov.calibration import full_budget
from hushcov.exceptions import ParameterError, SeededNoiseWarning
from hushcov.fit import norms
from hushcov.fit.preparation import (
    choose_norm,
    norm_counts,
)
from hushcov.fit.scales import ScaleParameters, release_scales
from hushcov.kernel.noise import entropy_source
from hushcov.kernel.records.base import Records
from hushcov.kernel.session import Session
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


# Private scales.


TENTH = math.sqrt(2 * 0.1 * 0.0244)  # a tenth of the budget of epsilon = 1, delta = 1e-6


def scales_of(X, mu=TENTH, seed=0):
    records = X if isinstance(X, Records) else ArrayRecords(X)
    parameters = ScaleParameters(records.n_records, records.n_features, mu)
    with pytest.warns(SeededNoiseWarning):
        entropy = entropy_source(seed)
    return release_scales(Session(records, full_budget(50.0, 0.05), entropy), parameters)


def symmetric(X):
    """Records of mean zero whose features have the same scales."""
    return (X[::2] - X[1::2]) * math.sqrt(0.5)


# Parameters


def test_noise_that_cannot_be_drawn_is_refused():
    with pytest.raises(ParameterError, match="sigma must be"):
        ScaleParameters(100, 5, 1e-13)


# Accuracy


def check_ratios(released, deviation, *, most, share=1.0, median=1.15):
    """That share of the ratios is within a factor `most`, and their median within `median`."""
    ratio = released.scale / deviation
    assert np.isfinite(ratio).all()
    assert np.mean((ratio > 1 / most) & (ratio < most)) >= share
    assert 1 / median < np.median(ratio) < median
    check_feature_scale(released.scale, len(released.scale))


@pytest.mark.parametrize(("n", "d", "most"), [(15_000, 1000, 1.6), (5000, 200, 1.9)])
def test_normal_features_over_twelve_orders_of_magnitude(n, d, most):
    rng = np.random.default_rng(4)
    deviation = 10 ** rng.uniform(-6, 6, d)
    released = scales_of(rng.standard_normal((n, d)) * deviation)
    check_ratios(released, deviation, most=most, share=0.99, median=1.06)
    assert released.uncertain.mean() < 0.02


def test_constants_among_other_features():
    rng = np.random.default_rng(10)
    X = rng.standard_normal((20_000, 100)) * 10 ** rng.uniform(-6, 6, 100)
    X[:, 10:20] = 7.25
    released = scales_of(symmetric(X))
    constant = np.zeros(100, dtype=bool)
    constant[10:20] = True
    np.testing.assert_array_equal(released.scale == 0, constant)
    assert not released.uncertain[constant].any()


# Limits


@pytest.mark.parametrize("shape", [(1, 1), (1, 300), (3, 2000)])
def test_too_few_records_give_ordinary_scales_and_say_so(shape):
    released = scales_of(np.random.default_rng(13).standard_normal(shape) * 1e12)
    assert released.uncertain.all()
    inside = (released.scale > 1e-5) & (released.scale < 1e5)
    assert inside.mean() > 0.9
