"""CoinPress: sensitivity, budget, matrices, and the exact transformation of its records."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coinpress_steps import exact_gram_of, noisy
from fit.settings import inputs_for, largest_change, neighbouring_records, seeded, small_rows
from hushcov.exceptions import CapacityError, DataError, ParameterError
from hushcov.kernel import session
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.noise import normal
from hushcov.kernel.records.multiplied import MultipliedRecords
from hushcov.tables.sources import ArrayRecords, open_records
from hushcov_lab.peers.coinpress import (
    budget_shares,
    coinpress_parameters,
    release_coinpress,
    row_norm,
    run_steps,
)
from sessions import certified

# Sensitivity


@pytest.mark.parametrize(("d", "norm_bound"), [(1, 5), (2, 5), (3, 3), (4, 2), (5, 1)])
def test_no_pair_of_small_rows_exceeds_the_sensitivity_and_axes_attain_it(d, norm_bound):
    sigmas, diagonal_sigmas = (7, 7, 7), (7, 9, 10)
    p = replace(
        coinpress_parameters(inputs_for(n_features=d, row_sparsity=1)),
        norm_bound=norm_bound,
        sigmas=sigmas,
        diagonal_sigmas=diagonal_sigmas,
    )
    for mu, sigma, diagonal_sigma in zip(p.mus, sigmas, diagonal_sigmas, strict=True):
        largest = largest_change(small_rows(d, norm_bound, norm_bound), sigma, diagonal_sigma)
        assert largest <= mu**2
        if d > 1 and diagonal_sigma**2 <= 2 * sigma**2:
            assert largest == pytest.approx(mu**2, rel=1e-9, abs=0)
            assert largest == pytest.approx(2 * norm_bound**4 / diagonal_sigma**2, rel=1e-9, abs=0)


@settings(deadline=None, max_examples=100)
@given(
    pair=neighbouring_records(),
    bounds=st.sampled_from([(1.0, 1.0), (0.1, 5.0), (1e-4, 1e3)]),
    seed=st.integers(0, 2**20),
)
def test_replacing_a_record_never_exceeds_the_sensitivity(pair, bounds, seed):
    """Whatever matrix of the size that is allowed the earlier steps may have chosen."""
    d = len(pair[0])
    inputs = inputs_for(n_records=6, n_features=d, row_sparsity=1)
    p = coinpress_parameters(inputs, eigenvalue_bounds=bounds)
    generator = np.random.default_rng(seed)
    most = p.matrix_half_width
    matrix = generator.integers(-most, most, (d, d), endpoint=True).astype(np.float64)
    rest = generator.standard_normal((5, d))
    first, second = (
        exact_gram_of(open_records(np.vstack([rest, record])), np.ones(d), p)(matrix)
        for record in pair
    )
    for sigma, diagonal_sigma, mu in zip(p.sigmas, p.diagonal_sigmas, p.mus, strict=True):
        total = Fraction(0)
        for i, j in itertools.combinations_with_replacement(range(d), 2):
            change = int(first[i, j]) - int(second[i, j])
            total += Fraction(change, diagonal_sigma if i == j else sigma) ** 2
        assert total <= Fraction(mu) ** 2


# Parameters


def test_shares_are_the_published_ones():
    assert budget_shares(1) == (1.0,)
    assert budget_shares(2) == (1 / 4, 3 / 4)
    assert budget_shares(3) == (1 / 8, 1 / 8, 3 / 4)
    assert budget_shares(5) == (1 / 16, 1 / 16, 1 / 16, 1 / 16, 3 / 4)
    p = coinpress_parameters(inputs_for())
    total = sum(mu**2 for mu in p.mus)
    assert [mu**2 / total for mu in p.mus] == pytest.approx([1 / 8, 1 / 8, 3 / 4], rel=1e-6, abs=0)


def test_noise_and_norms():
    """Variance gamma^4 / (rho n^2) on the diagonal, as published; half of it off the diagonal."""
    p = coinpress_parameters(inputs_for())
    for sigma, diagonal_sigma, mu in zip(p.sigmas, p.diagonal_sigmas, p.mus, strict=True):
        published = p.norm_bound**2 / math.sqrt(mu**2 / 2)
        assert diagonal_sigma == pytest.approx(published, rel=1e-6, abs=0)
        assert sigma * math.sqrt(2) == pytest.approx(published, rel=1e-6, abs=0)
    # 10 + 2 sqrt(23.02585) + 4.60517 = 24.20222
    assert row_norm(10) ** 2 == pytest.approx(24.20222, abs=1e-5)
    assert p.slack == pytest.approx(math.sqrt(6e-4) + 3e-4, rel=1e-6, abs=0)


def test_bounds_come_from_the_row_sparsity():
    assert coinpress_parameters(inputs_for()).eigenvalue_bounds == (0.1, 3.0)


# What is computed from the noisy matrices


def no_noise(monkeypatch):
    def nothing(generator, d, sigma, diagonal_sigma):
        return np.zeros((d, d), dtype=np.int64)

    for module in (normal, session):
        monkeypatch.setattr(module, "symmetric_noise", nothing)


def spread(truth, repeats):
    """Records whose second moments are `truth`, none of them far out under it."""
    d = len(truth)
    rows = math.sqrt(d) * np.linalg.cholesky(truth).T
    return np.tile(np.vstack([rows, -rows]), (repeats, 1))


@pytest.mark.parametrize("n_steps", [1, 2, 3, 6])
def test_without_noise_the_answer_is_the_second_moments(monkeypatch, n_steps):
    """Whatever the number of steps, and however skew the covariance: transposes are right."""
    no_noise(monkeypatch)
    generator = np.random.default_rng(3)
    factor = generator.standard_normal((4, 4))
    truth = factor @ factor.T + 0.1 * np.eye(4)
    inputs = inputs_for(n_records=8000, n_features=4)
    bounds = (0.05, 1.5 * float(np.linalg.eigvalsh(truth)[-1]))
    p = coinpress_parameters(inputs, n_steps=n_steps, eigenvalue_bounds=bounds)
    release = release_coinpress(
        certified(open_records(spread(truth, 1000)), p, seeded()), np.ones(4), p
    )
    np.testing.assert_allclose(release.covariance(), truth, atol=3e-4 * bounds[1])


def test_later_steps_see_records_of_unit_covariance(monkeypatch):
    no_noise(monkeypatch)
    truth = np.diag([4.0, 1.0, 0.25, 1.0]) + 0.2
    inputs = inputs_for(n_records=80_000, n_features=4)
    p = coinpress_parameters(inputs, n_steps=4, eigenvalue_bounds=(0.1, 6.0))
    gram_of = exact_gram_of(open_records(spread(truth, 10_000)), np.ones(4), p)
    grams = run_steps(noisy(gram_of, p, 0), p).noisy_grams
    moments = [gram * p.step**2 / 80_000 for gram in grams]
    np.testing.assert_allclose(moments[0], truth / 6, atol=1e-3)
    # What is added to the eigenvalues before the inverse is taken keeps them below 1.
    values = np.linalg.eigvalsh(moments[-1])
    assert 1 - 3 * p.slack < values[0] <= values[-1] < 1


@pytest.mark.parametrize("bounds", [(1.0, 1.0), (0.1, 10.0), (1e-4, 1e3), (1e4, 1e9)])
@pytest.mark.parametrize("epsilon", [1e-3, 10.0])
def test_matrices_keep_within_the_bounds_whatever_the_noise(bounds, epsilon):
    d = 5
    inputs = inputs_for(n_records=50, n_features=d, epsilon=epsilon)
    p = coinpress_parameters(inputs, n_steps=8, eigenvalue_bounds=bounds)
    gram_of = exact_gram_of(open_records(np.ones((50, d))), np.ones(d), p)
    seen = []

    def watched(matrix):
        seen.append(matrix)
        return gram_of(matrix)

    for seed in range(5):
        integers = run_steps(noisy(watched, p, seed), p).integers
        assert np.abs(integers).max() < 2**48
    assert len(seen) == 40
    for matrix in seen:
        np.testing.assert_array_equal(matrix, matrix.T)
        assert np.abs(matrix).max() <= p.matrix_half_width
        assert d * p.record_half_width * np.abs(matrix).max() < 2**53
        values = np.linalg.eigvalsh(matrix * p.matrix_step)
        assert values[0] > 31 / 32 / math.sqrt(bounds[1])
        assert values[-1] < 33 / 32 / math.sqrt(bounds[0])


def test_negative_eigenvalues_are_dropped():
    """On records of zeros the answer is noise without its negative eigenvalues."""
    inputs = inputs_for(n_records=20, n_features=3)
    p = coinpress_parameters(inputs, n_steps=1, eigenvalue_bounds=(2.0, 2.0))
    gram_of = exact_gram_of(open_records(np.zeros((20, 3))), np.ones(3), p)
    transcript = run_steps(noisy(gram_of, p, 4), p)
    values = np.linalg.eigvalsh(transcript.noisy_grams[0] * p.step**2 / 20)
    assert values[0] < 0 < values[-1]
    found = np.linalg.eigvalsh(transcript.integers * p.unit)
    np.testing.assert_allclose(found, np.sort(2 * np.maximum(values, 0)), atol=1e-6, rtol=1e-6)


# Release


# `MultipliedRecords`: integers times integers, exactly, record by record.


ROWS = np.random.default_rng(0).standard_normal((301, 5)) * [1, 2, 3, 0.5, 1]
SCALE = np.array([1, 2, 3, 0.5, 1])
GRID = FeatureGrid(SCALE, 6.0, 2**20)
# As large as exact products of five features allow.
LARGEST = (2**53 - 1) // (5 * 2**20)
MATRIX = np.random.default_rng(1).integers(-LARGEST, LARGEST, (5, 5), endpoint=True)


def rows_of(records):
    return np.concatenate(list(records._blocks()))


def in_python(rows, grid, matrix):
    """The definition in Python's integers, which do not round."""
    with np.errstate(over="ignore"):
        scaled = np.clip(rows * grid.multipliers, -grid.half_width, grid.half_width)
    integers = [[int(value) for value in row] for row in np.rint(scaled)]
    columns = [[int(value) for value in column] for column in np.asarray(matrix).T]
    return [
        [sum(a * b for a, b in zip(row, column, strict=True)) for column in columns]
        for row in integers
    ]


@pytest.mark.parametrize("block_rows", [1, 7, 1000])
def test_products_are_exact_integers_for_any_block_size(block_rows):
    records = ArrayRecords(ROWS, block_rows=block_rows)
    transformed = MultipliedRecords(records, GRID, MATRIX)
    assert (transformed.n_records, transformed.n_features) == (301, 5)
    found = [[int(value) for value in row] for row in rows_of(transformed)]
    assert found == in_python(ROWS, GRID, MATRIX)


def test_products_are_exact_up_to_the_largest_that_is_allowed():
    rows = np.full((3, 5), 1e9) * [[1], [-1], [1]]
    matrix = np.full((5, 2), LARGEST)
    found = rows_of(MultipliedRecords(ArrayRecords(rows), GRID, matrix))
    assert np.all(np.abs(found) == 5 * 2**20 * LARGEST)
    with pytest.raises(CapacityError, match=r"below 2\*\*53"):
        MultipliedRecords(ArrayRecords(rows), GRID, matrix + 1)
    with pytest.raises(CapacityError):
        MultipliedRecords(ArrayRecords(rows), GRID, np.full((5, 1), np.iinfo(np.int64).min))


@pytest.mark.parametrize("size", [1e300, np.finfo(float).max, 5e-324])
@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e100, 0.0])
def test_any_size_over_any_scale_is_finite(size, scale):
    """Without a warning; what is beyond the radius is clipped, and a scale of 0 makes zeros."""
    X = np.array([[size, -size], [0.0, size]])
    grid = FeatureGrid(np.full(2, scale), 6.0, 1000)
    found = rows_of(MultipliedRecords(ArrayRecords(X), grid, np.eye(2)))
    assert found.tolist() == in_python(X, grid, np.eye(2))
    assert scale > 0 or not found.any()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused_also_where_the_scale_is_zero(bad):
    X = ROWS.copy()
    X[5, 0] = bad
    grid = FeatureGrid(np.array([0.0, 1.0, 1.0, 1.0, 1.0]), 6.0, 1000)
    with pytest.raises(DataError, match="finite"):
        rows_of(MultipliedRecords(ArrayRecords(X), grid, np.eye(5)))


@pytest.mark.parametrize(
    ("matrix", "error"),
    [
        *((np.eye(5) * 0.5, ParameterError), (np.full((5, 5), np.nan), ParameterError)),
        *((np.full((5, 5), np.inf), ParameterError), (np.eye(4), DataError)),
        *((np.ones(5), DataError), (np.ones((5, 0)), DataError)),
    ],
)
def test_bad_matrices_are_refused(matrix, error):
    with pytest.raises(error, match="matrix"):
        MultipliedRecords(ArrayRecords(ROWS), GRID, matrix)


def test_a_grid_of_another_width_is_refused():
    with pytest.raises(DataError, match="5 features"):
        MultipliedRecords(ArrayRecords(ROWS[:, :4]), GRID, np.eye(4))
