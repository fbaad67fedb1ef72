"""Private scales: the noise they promise, and how near they come to standard deviations."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hushcov.accounting import smallest_sigma
from hushcov.exceptions import (
    DataError,
    ParameterError,
    PrivacyConditionError,
    SeededNoiseWarning,
)
from hushcov.noise import entropy_source
from hushcov.steps.scales import (
    ScaleParameters,
    estimate_scales,
    release_scales,
    scale_parameters,
)
from hushcov.sums.counts import log2_histogram
from hushcov.sums.grids import check_feature_scale
from hushcov.sums.records import Records
from hushcov.tables.sources import ArrayRecords
from statistics_helpers import FALSE_ALARM, chi_square_p_value

TENTH = math.sqrt(2 * 0.1 * 0.0244)  # a tenth of the budget of epsilon = 1, delta = 1e-6


def scales_of(X, mu=TENTH, seed=0):
    records = X if isinstance(X, Records) else ArrayRecords(X)
    parameters = scale_parameters(records.n_records, records.n_features, mu)
    with pytest.warns(SeededNoiseWarning):
        entropy = entropy_source(seed)
    return release_scales(records, parameters, entropy)


def symmetric(X):
    """Records of mean zero whose features have the same scales."""
    return (X[::2] - X[1::2]) * math.sqrt(0.5)


# Parameters


@given(n_features=st.integers(1, 10**7), mu=st.floats(1e-5, 1e6) | st.sampled_from([1.0, 2.0, 0.5]))
def test_sigma_is_the_smallest_integer_that_is_private(n_features, mu):
    parameters = scale_parameters(10, n_features, mu)
    cost = Fraction(mu) ** 2
    assert parameters.sigma**2 * cost >= 2 * n_features
    assert parameters.sigma == 1 or (parameters.sigma - 1) ** 2 * cost < 2 * n_features
    assert parameters.cost == mu


@pytest.mark.parametrize(("n_features", "mu", "sigma"), [(2, 2.0, 1), (8, 0.5, 8), (9, 0.5, 9)])
def test_sigma_by_hand(n_features, mu, sigma):
    assert smallest_sigma(2 * n_features, mu) == sigma


def test_a_sigma_that_is_too_small_is_refused():
    parameters = scale_parameters(100, 50, TENTH)
    with pytest.raises(PrivacyConditionError, match="sigma must"):
        dataclasses.replace(parameters, sigma=parameters.sigma - 1)
    assert dataclasses.replace(parameters, sigma=parameters.sigma + 1).cost == parameters.cost


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"n_records": 0}, "n_records"),
        ({"n_records": 10**19}, "n_records"),
        ({"n_features": 0}, "n_features"),
        ({"n_features": 2.5}, "n_features"),
        ({"mu": 0.0}, "mu"),
        ({"mu": math.nan}, "mu"),
        ({"mu": 1e-13}, "sigma"),  # more noise than can be drawn
    ],
)
def test_bad_parameters_are_refused(change, name):
    arguments = {"n_records": 100, "n_features": 5, "mu": 0.1} | change
    with pytest.raises(ParameterError, match=f"{name} must be"):
        scale_parameters(**arguments)
    with pytest.raises(ParameterError, match=f"{name} must be"):
        ScaleParameters(**arguments, sigma=2**41)


@pytest.mark.parametrize("shape", [(99, 5), (100, 4)])
def test_records_of_another_size_are_refused(shape):
    with pytest.raises(DataError, match="as declared"):
        release_scales(
            ArrayRecords(np.ones(shape)), scale_parameters(100, 5, 1.0), entropy_source()
        )


def test_values_that_are_not_finite_are_refused():
    X = np.ones((10, 2))
    X[3, 1] = np.nan
    with pytest.raises(DataError, match="finite"):
        release_scales(ArrayRecords(X), scale_parameters(10, 2, 1.0), entropy_source())


# The law of the noise


@pytest.fixture(scope="module")
def noise_and_sigma():
    X = np.random.default_rng(0).standard_normal((500, 400)) * np.arange(400)
    released = scales_of(X, mu=2.0)
    sigma = smallest_sigma(800, 2.0)
    return (released.noisy_counts - log2_histogram(ArrayRecords(X))).ravel(), sigma


def noise_p_value(noise, sigma):
    reach = math.ceil(6 * sigma)
    edges = np.arange(-reach, reach) + 0.5
    probabilities = np.diff(stats.norm.cdf(edges / sigma), prepend=0, append=1)
    return chi_square_p_value(
        np.bincount(np.searchsorted(edges, noise), minlength=len(edges) + 1), probabilities
    )


def test_every_count_has_rounded_normal_noise(noise_and_sigma):
    noise, sigma = noise_and_sigma
    assert noise_p_value(noise, sigma) > FALSE_ALARM


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_wrong_noise_would_be_noticed(noise_and_sigma, factor):
    noise, sigma = noise_and_sigma
    assert noise_p_value(noise, factor * sigma) < FALSE_ALARM


def test_noise_of_different_counts_is_not_related(noise_and_sigma):
    noise, sigma = noise_and_sigma
    for lag in (1, 2, 130):
        products = noise[lag:] * noise[:-lag] / sigma**2
        z = products.sum() / math.sqrt(len(products))
        assert 2 * stats.norm.sf(abs(z)) > FALSE_ALARM / 3


# Scales are a function of the noisy counts


def test_scales_are_computed_from_noisy_counts_alone():
    X = np.random.default_rng(1).standard_normal((2000, 30))
    released = scales_of(X)
    scale, uncertain = estimate_scales(
        released.noisy_counts, 2000, scale_parameters(2000, 30, TENTH).sigma
    )
    np.testing.assert_array_equal(scale, released.scale)
    np.testing.assert_array_equal(uncertain, released.uncertain)


def test_counts_are_reproducible_with_a_seed_and_differ_without():
    X = np.ones((10, 3))
    np.testing.assert_array_equal(scales_of(X).noisy_counts, scales_of(X).noisy_counts)
    parameters = scale_parameters(10, 3, TENTH)
    first, second = (
        release_scales(ArrayRecords(X), parameters, entropy_source()).noisy_counts for _ in range(2)
    )
    assert (first != second).any()


def test_order_of_features_does_not_matter():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((5000, 300)) * 10 ** rng.uniform(-6, 6, 300)
    parameters = scale_parameters(5000, 300, TENTH)
    counts = scales_of(X).noisy_counts
    order = rng.permutation(300)
    scale, _ = estimate_scales(counts, parameters.n_records, parameters.sigma)
    permuted, _ = estimate_scales(counts[order], parameters.n_records, parameters.sigma)
    np.testing.assert_allclose(permuted, scale[order], rtol=1e-3)


def test_scales_follow_the_unit_of_the_data():
    """By powers of two, and up to what is taken to be usual before any feature is seen."""
    X = np.random.default_rng(3).standard_normal((20_000, 20)) * 3.0
    scale = scales_of(X, mu=0.5).scale
    for exponent in (-40, 40):
        rescaled = scales_of(np.ldexp(X, exponent), mu=0.5).scale
        np.testing.assert_allclose(rescaled, np.ldexp(scale, exponent), rtol=0.05)


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


def test_standardised_features_borrow_from_each_other():
    """With five times fewer records than mixed scales need."""
    X = np.random.default_rng(5).standard_normal((3000, 1000))
    released = scales_of(X)
    check_ratios(released, 1.0, most=1.3, share=0.99, median=1.1)


@pytest.mark.parametrize(("degrees", "median"), [(5, 1.1), (3, 1.2)])
def test_heavy_tails(degrees, median):
    rng = np.random.default_rng(6)
    deviation = 10 ** rng.uniform(-3, 3, 200)
    X = rng.standard_t(degrees, (16_000, 200)) * deviation
    truth = deviation * math.sqrt(degrees / (degrees - 2))
    check_ratios(scales_of(symmetric(X)), truth, most=1.5, share=0.97, median=median)


def test_genotypes():
    rng = np.random.default_rng(7)
    frequency = rng.uniform(0.1, 0.5, 300)
    X = rng.binomial(2, frequency, (16_000, 300))
    truth = np.sqrt(2 * frequency * (1 - frequency))
    check_ratios(scales_of(symmetric(X)), truth, most=1.6)


def test_other_laws():
    rng = np.random.default_rng(8)
    size = (20_000, 60)
    for X in (rng.random(size), rng.exponential(size=size), rng.integers(0, 2, size)):
        check_ratios(scales_of(symmetric(X)), X.std(), most=1.5, median=1.3)


def test_sparse_features_have_a_scale():
    rng = np.random.default_rng(9)
    X = rng.standard_normal((40_000, 100)) * (rng.random((40_000, 100)) < 0.05)
    check_ratios(scales_of(symmetric(X)), math.sqrt(0.05), most=2.0)


def test_constants_among_other_features():
    rng = np.random.default_rng(10)
    X = rng.standard_normal((20_000, 100)) * 10 ** rng.uniform(-6, 6, 100)
    X[:, 10:20] = 7.25
    released = scales_of(symmetric(X))
    constant = np.zeros(100, dtype=bool)
    constant[10:20] = True
    np.testing.assert_array_equal(released.scale == 0, constant)
    assert not released.uncertain[constant].any()


def test_one_feature_unlike_all_others():
    rng = np.random.default_rng(11)
    X = rng.standard_normal((10_000, 300))
    X[:, 17] *= 1e9
    released = scales_of(X)
    assert released.scale[17] == pytest.approx(1e9, rel=0.6)
    assert not released.uncertain[17]


# Limits


def test_one_feature():
    X = np.random.default_rng(12).standard_normal((3000, 1)) * 40
    released = scales_of(X)
    assert released.scale == pytest.approx(40, rel=0.3)
    assert not released.uncertain


@pytest.mark.parametrize("shape", [(1, 1), (1, 300), (3, 2000)])
def test_too_few_records_give_ordinary_scales_and_say_so(shape):
    released = scales_of(np.random.default_rng(13).standard_normal(shape) * 1e12)
    assert released.uncertain.all()
    inside = (released.scale > 1e-5) & (released.scale < 1e5)
    assert inside.mean() > 0.9


def test_almost_no_noise():
    rng = np.random.default_rng(14)
    deviation = 10 ** rng.uniform(-6, 6, 20)
    X = rng.standard_normal((50_000, 20)) * deviation
    check_ratios(scales_of(X, mu=1e6), deviation, most=1.06, median=1.03)


@pytest.mark.parametrize("value", [0.0, 5e-324, 1e-310, 1e-30])
def test_values_too_small_to_count_are_constant(value):
    X = np.full((2000, 3), value)
    X[::2] *= -1
    assert (scales_of(X, mu=1.0).scale == 0).all()


@pytest.mark.parametrize("value", [1e25, 1e300, np.finfo(np.float64).max])
def test_values_too_large_to_count_get_the_largest_scale(value):
    released = scales_of(np.full((2000, 3), value), mu=1.0)
    assert ((released.scale > 2.0**63) & (released.scale < 2.0**68)).all()
