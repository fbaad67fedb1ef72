"""The Gaussian mechanism: its sensitivity is a bound and attained, its noise has its law."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from fit.settings import inputs_for, largest_change, seeded, small_rows
from hushcov.fit.gaussian.mechanism import (
    gaussian_parameters,
    release_gaussian,
    squared_sensitivity,
)
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.sums.gram import row_bounded_gram
from hushcov.tables.sources import open_records
from sessions import certified


def squared_change(x, y, sigma, diagonal_sigma):
    """The squared norm of the change of the upper triangle over its noise, from the definition."""
    total = Fraction(0)
    for i, j in itertools.combinations_with_replacement(range(len(x)), 2):
        change = int(x[i]) * int(x[j]) - int(y[i]) * int(y[j])
        total += Fraction(change, diagonal_sigma if i == j else sigma) ** 2
    return total


# Sensitivity


SMALL = [(1, 3), (2, 3), (3, 2), (4, 1), (5, 1), (6, 1)]


@pytest.mark.parametrize(("d", "h"), SMALL)
@pytest.mark.parametrize("sigmas", [(1, 1), (5, 6), (5, 8)])
def test_no_pair_of_small_rows_exceeds_the_sensitivity(d, h, sigmas):
    for norm_bound in (None, *range(1, 7)):
        bound = float(squared_sensitivity(d, h, norm_bound, *sigmas))
        assert largest_change(small_rows(d, h, norm_bound), *sigmas) <= bound * (1 + 1e-12)


@pytest.mark.parametrize(("d", "h"), SMALL)
def test_the_coordinate_bound_is_the_maximum(d, h):
    bound = squared_sensitivity(d, h, None, 1, 1)
    assert bound == h**4 * (d**2 - (d in (3, 5)))
    assert largest_change(small_rows(d, h)) == bound


@pytest.mark.parametrize(("h", "norm_bound", "d"), [(2, 4, 4), (3, 6, 9), (1, 4, 16)])
def test_orthogonal_rows_attain_the_norm_bound_with_more_noise_on_the_diagonal(h, norm_bound, d):
    number = norm_bound**2 // h**2
    x = np.where(np.arange(d) < number, h, 0)
    y = np.where(np.arange(d) < number // 2, -x, x)
    assert squared_change(x, y, 5, 8) == squared_sensitivity(d, h, norm_bound, 5, 8)


# Parameters


@pytest.mark.parametrize(
    ("d", "ratio"), [(1, 1), (2, math.sqrt(2)), (200, math.sqrt(2)), (2000, 1)]
)
def test_the_diagonal_gets_its_natural_ratio_where_that_pays(d, ratio):
    p = gaussian_parameters(inputs_for(n_features=d, row_sparsity=1))
    assert p.diagonal_sigma / p.sigma == pytest.approx(ratio, rel=1e-6, abs=0)


# Release


@pytest.fixture(scope="module")
def sample():
    return np.random.default_rng(5).standard_normal((10_000, 6)) * [1, 2, 3, 0.5, 1, 1]


SCALE = np.array([1, 2, 3, 0.5, 1, 1])


def test_the_release_is_the_gram_matrix_and_noise(sample):
    p = gaussian_parameters(inputs_for())
    release = release_gaussian(certified(open_records(sample), p, seeded()), SCALE, p)
    gram = row_bounded_gram(
        open_records(sample), FeatureGrid(SCALE, 6.0, p.half_width), p.norm_bound
    )
    noise = release.integers - gram
    np.testing.assert_array_equal(release.integers, release.integers.T)
    assert len(np.unique(noise[np.triu_indices(6)])) == 21
    assert np.abs(noise).max() < 7 * p.diagonal_sigma
    assert (release.mechanism, release.unit) == ("gaussian", p.step**2 / 10_000)
    assert release.noise_sd == (p.noise_sd, p.diagonal_noise_sd)
    truth = sample.T @ sample / 10_000
    allowed = 0.02 + 6 * p.diagonal_noise_sd
    assert np.all(np.abs(release.covariance() - truth) < allowed * np.multiply.outer(SCALE, SCALE))
