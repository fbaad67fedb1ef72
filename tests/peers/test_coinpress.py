"""CoinPress, the mechanism: sensitivity, budget, matrices, noise and release."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushcov.peers import coinpress
from hushcov.peers.coinpress import (
    budget_shares,
    coinpress_parameters,
    release_coinpress,
    row_norm,
    run_steps,
    transformed_gram,
)
from hushcov.tables.sources import open_records
from mechanisms.settings import inputs_for, largest_change, neighbouring_records, seeded, small_rows

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
        transformed_gram(open_records(np.vstack([rest, record])), np.ones(d), p)(matrix)
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

    monkeypatch.setattr(coinpress, "symmetric_noise", nothing)


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
    release = release_coinpress(open_records(spread(truth, 1000)), np.ones(4), p, seeded())
    np.testing.assert_allclose(release.covariance(), truth, atol=3e-4 * bounds[1])


def test_later_steps_see_records_of_unit_covariance(monkeypatch):
    no_noise(monkeypatch)
    truth = np.diag([4.0, 1.0, 0.25, 1.0]) + 0.2
    inputs = inputs_for(n_records=80_000, n_features=4)
    p = coinpress_parameters(inputs, n_steps=4, eigenvalue_bounds=(0.1, 6.0))
    gram_of = transformed_gram(open_records(spread(truth, 10_000)), np.ones(4), p)
    grams = run_steps(gram_of, p, np.random.default_rng(0)).noisy_grams
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
    gram_of = transformed_gram(open_records(np.ones((50, d))), np.ones(d), p)
    seen = []

    def watched(matrix):
        seen.append(matrix)
        return gram_of(matrix)

    for seed in range(5):
        integers = run_steps(watched, p, np.random.default_rng(seed)).integers
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
    gram_of = transformed_gram(open_records(np.zeros((20, 3))), np.ones(3), p)
    transcript = run_steps(gram_of, p, np.random.default_rng(4))
    values = np.linalg.eigvalsh(transcript.noisy_grams[0] * p.step**2 / 20)
    assert values[0] < 0 < values[-1]
    found = np.linalg.eigvalsh(transcript.integers * p.unit)
    np.testing.assert_allclose(found, np.sort(2 * np.maximum(values, 0)), atol=1e-6, rtol=1e-6)


# Release
