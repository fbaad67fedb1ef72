"""The release: what it draws against what it is charged for, and the law of its noise."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from hushcov.accounting import ONE_REPLACED, BoundedRange, Gaussian
from hushcov.exceptions import CapacityError, DataError, ParameterError, PrivacyConditionError
from hushcov.mechanisms.screened import mechanism, values
from hushcov.mechanisms.screened.mechanism import release_screened
from hushcov.mechanisms.screened.values import (
    DIAGONAL_WEIGHT,
    PAIR_WEIGHT,
    ScreenedParameters,
    sum_sigma,
)
from hushcov.noise import TAKEN, Entropy
from hushcov.sums.grids import FeatureGrid
from hushcov.sums.products import ProductMap
from hushcov.sums.records import Records
from hushcov.tables.sources import ArrayRecords
from mechanisms.screened.settings import parameters_of, released, seeded
from statistics_helpers import FALSE_ALARM, normal_p_value


class Draws:
    """Stands in for the two samplers, and keeps what they were asked for."""

    def __init__(self, monkeypatch):
        self.selections, self.sigmas, self.maps = [], [], []
        monkeypatch.setattr(mechanism, "gumbel_top", self.gumbel_top)
        monkeypatch.setattr(values, "rounded_normal", self.rounded_normal)
        monkeypatch.setattr(values, "ProductMap", self.product_map)

    def gumbel_top(self, generator, scores, rate, count):
        left = np.flatnonzero(scores != TAKEN)
        self.selections.append((len(left), rate, count))
        return left[:count]

    def rounded_normal(self, generator, sigma, size):
        self.sigmas.append((sigma, size))
        return np.zeros(size, dtype=np.int64)

    def product_map(self, **numbers):
        self.maps.append(ProductMap(**numbers))
        return self.maps[-1]


class NoBits:
    """A generator that refuses: whatever the samplers do not draw is not drawn at all."""

    def __getattr__(self, name):
        raise AssertionError(name)


@pytest.mark.parametrize("n_levels", [0, 1, 3])
def test_the_events_charged_are_the_ones_used(monkeypatch, n_levels):
    """Every draw has its event, no event is for less than its draw, and nothing else is drawn."""
    parameters = parameters_of(200, 12, 3, n_levels=n_levels, before=0.05, epsilon=2.0)
    X = np.random.default_rng(1).standard_normal((200, 12))
    draws = Draws(monkeypatch)
    release = release_screened(
        ArrayRecords(X), np.ones(12), parameters, Entropy(NoBits(), private=False)
    )
    events = list(release.guarantee.events)
    left = 66
    for (candidates, rate, count), event in zip(draws.selections, events, strict=False):
        assert candidates == left
        assert isinstance(event, BoundedRange)
        assert event.count == count
        assert Fraction(event.eta) >= 4 * Fraction(rate)
        left -= count
    n_pairs = 66 if n_levels == 0 else 66 - left
    bound = draws.maps[-1]
    square = 4 * bound.norm_bound**2 + bound.factor_range**2 + bound.size_range**2
    assert len(draws.selections) == n_levels
    [(sigma, size)], [event] = draws.sigmas, events[n_levels:]
    assert isinstance(event, Gaussian)
    assert size == n_pairs + 12 + 2
    assert Fraction(event.mu) ** 2 * sigma**2 >= square


def test_nothing_is_read_before_the_certificate(monkeypatch):
    class Unread(Records):
        n_records, n_features = 200, 12

        def _blocks(self):
            raise AssertionError("read")

    def refuse(parameters, *, private):
        raise PrivacyConditionError("no")

    parameters = parameters_of(200, 12, 3)
    with pytest.raises(AssertionError, match="read"):
        release_screened(Unread(), np.ones(12), parameters, seeded(0))
    monkeypatch.setattr(ScreenedParameters, "budget", refuse)
    with pytest.raises(PrivacyConditionError):
        release_screened(Unread(), np.ones(12), parameters, seeded(0))


# The law of the noise


def residuals(X, parameters, seeds):
    """Released sums less exact ones, a row for each release: pairs, diagonal, shrinkage."""
    n, d = X.shape
    rows, columns = np.triu_indices(d, 1)
    grid = FeatureGrid(np.ones(d), 8.0, parameters.half_width)
    products = mechanism.product_map(grid, rows, columns, parameters.norm_bound)
    exact = products.sum(ArrayRecords(X))[:-1]
    found = []
    for seed in seeds:
        release = released(X, parameters, seed=seed)
        shrinkage = release.parameters["shrinkage"]
        assert 1e-3 < shrinkage < 1
        weight = PAIR_WEIGHT * DIAGONAL_WEIGHT
        centre = round(products.centre * n * weight * shrinkage)
        off = release.integers[rows, columns]
        diagonal = release.integers.diagonal() - centre
        assert not (off % DIAGONAL_WEIGHT).any()
        assert not (diagonal % PAIR_WEIGHT).any()
        assert (release.integers == release.integers.T).all()
        factor = round(shrinkage * n * products.factor_range)
        found.append([*(off // DIAGONAL_WEIGHT), *(diagonal // PAIR_WEIGHT), factor] - exact)
    return np.array(found, dtype=float)


def law_p_values(noise, sigma):
    """Of all entries together, of each entry's variance and mean, and of products of neighbours."""
    z = noise / sigma
    runs, entries = z.shape
    squares = stats.chi2(runs).cdf((z**2).sum(axis=0))
    products = z[:, :-1] * z[:, 1:]
    return {
        "law": stats.kstest(z.ravel(), "norm").pvalue,
        "variance": 2 * min(f((z**2).sum(), z.size) for f in (stats.chi2.cdf, stats.chi2.sf)),
        "variance of each": min(1.0, 2 * entries * min(squares.min(), 1 - squares.max())),
        "mean of each": normal_p_value(z.mean(axis=0) * math.sqrt(runs)),
        "independence": normal_p_value(products.mean() * math.sqrt(products.size)),
    }


def test_released_values_have_the_law_of_the_noise():
    """False-alarm rate 1e-6 a test; a deviation that is wrong by a tenth is noticed."""
    X = np.random.default_rng(2).standard_normal((4_000, 16))
    parameters = parameters_of(4_000, 16, 16, epsilon=5.0, n_levels=0, norm_factor=0.7)
    sigma = sum_sigma(parameters.norm_bound, parameters.mu, ONE_REPLACED)
    noise = residuals(X, parameters, range(40))
    assert noise.shape == (40, 120 + 16 + 1)
    for name, p_value in law_p_values(noise, sigma).items():
        assert p_value > FALSE_ALARM, name
    for wrong in (0.9, 1.1):
        assert law_p_values(wrong * noise, sigma)["variance"] < FALSE_ALARM
    shifted = noise + 1.5 * sigma * (np.arange(137) == 7)
    assert law_p_values(shifted, sigma)["mean of each"] < FALSE_ALARM


def test_the_stated_noise_is_that_of_the_released_values():
    """False-alarm rate 1e-6; a statement that is wrong by 15 % is noticed."""
    X = np.random.default_rng(3).standard_normal((2_000, 12))
    parameters = parameters_of(2_000, 12, 12, epsilon=5.0, n_levels=0, norm_factor=0.7)
    releases = [released(X, parameters, seed=seed) for seed in range(100)]
    values = np.array([release.covariance() for release in releases])
    off, diagonal = np.mean([release.noise_sd for release in releases], axis=0)
    rows, columns = np.triu_indices(12, 1)
    for entries, stated in ((values[:, rows, columns], off), (values.diagonal(0, 1, 2), diagonal)):
        square = entries.var(axis=0, ddof=1).sum() * 99
        chi_square = stats.chi2(99 * entries.shape[1])
        for factor, right in ((1.0, True), (0.85, False), (1.15, False)):
            statistic = square / (factor * stated) ** 2
            p_value = 2 * min(chi_square.cdf(statistic), chi_square.sf(statistic))
            assert (p_value > FALSE_ALARM) == right


# Any data, any size


EXTREME = {
    "huge": 1e308,
    "largest": np.finfo(float).max,
    "subnormal": 5e-324,
    "zero": 0.0,
    "clip": 8.0,
}


@pytest.mark.parametrize("value", EXTREME.values(), ids=EXTREME)
def test_extreme_records_are_released_like_any_other(value):
    X = np.full((50, 6), value) * np.where(np.arange(50) % 2, 1.0, -1.0)[:, None]
    parameters = parameters_of(50, 6, 2)
    scale = [1.0, 1e-100, 1e100, 0.0, 2.0, 1.0]
    release = released(X, parameters, scale=scale)
    covariance = release.covariance()
    assert np.isfinite(covariance).all()
    assert (covariance[3] == 0).all()
    assert (covariance[:, 3] == 0).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("n_levels", [0, 2])
def test_records_that_are_not_finite_are_refused(bad, n_levels):
    X = np.ones((50, 8))
    X[17, 3] = bad
    with pytest.raises(DataError, match="finite"):
        released(X, parameters_of(50, 8, 2, n_levels=n_levels))


@pytest.mark.parametrize(
    ("n", "d", "k"), [(1, 1, 1), (1, 2, 2), (2, 2, 1), (1, 9, 3), (2, 9, 9), (30, 1, 1), (30, 9, 1)]
)
def test_the_smallest_sizes(n, d, k):
    X = np.random.default_rng(5).standard_normal((n, d))
    release = released(X, parameters_of(n, d, k))
    assert release.integers.shape == (d, d)
    assert np.isfinite(release.covariance()).all()
    assert (release.integers == release.integers.T).all()
    n_pairs = release.parameters["n_pairs"]
    assert np.count_nonzero(~release.released) == d * (d - 1) - 2 * n_pairs
    assert (release.integers[~release.released] == 0).all()
    assert not release.guarantee.private


def test_a_release_is_a_function_of_the_multiset_of_records_and_the_seed():
    random = np.random.default_rng(6)
    X = random.standard_normal((500, 10))
    parameters = parameters_of(500, 10, 3)
    first = released(X, parameters, seed=7)
    for table in (
        ArrayRecords(X[random.permutation(500)], block_rows=33),
        ArrayRecords(np.asfortranarray(X)),
        ArrayRecords(X.astype(object)),
    ):
        second = released(table, parameters, seed=7)
        np.testing.assert_array_equal(first.integers, second.integers)
        assert first.unit == second.unit


def test_the_description_is_plain_data(tmp_path):
    X = np.random.default_rng(8).standard_normal((50, 6))
    release = released(X, parameters_of(50, 6, 2, before=0.01))
    folder = release.write(tmp_path / "release")
    description = json.loads((folder / "release.json").read_text())
    assert description["mechanism"] == "screened"
    assert len(description["guarantee"]["events"]) == len(release.guarantee.events)


# Refusals


@pytest.mark.parametrize("shape", [(49, 6), (51, 6), (50, 5), (50, 7)])
def test_records_of_another_size_are_refused(shape):
    with pytest.raises(DataError, match="as declared"):
        released(np.ones(shape), parameters_of(50, 6, 2))


def test_more_records_than_sums_can_hold_are_refused_unread():
    class Endless(Records):
        n_records, n_features = 2**33 + 1, 6

        def _blocks(self):
            raise AssertionError("read")

    parameters = parameters_of(2**33 + 1, 6, 2)
    with pytest.raises(CapacityError, match="n_records"):
        released(Endless(), parameters)


@pytest.mark.parametrize("scale", [-1.0, np.nan, 1e101])
def test_scales_out_of_range_are_refused(scale):
    with pytest.raises(ParameterError, match="feature_scale"):
        released(np.ones((50, 6)), parameters_of(50, 6, 2), scale=scale)
