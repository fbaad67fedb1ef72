"""Bands of correlations: no eigenvalue is negative afterwards, and little was changed."""

from __future__ import annotations

import numpy as np
import pytest

from hushcov.postprocess.bands import LEAST_EIGENVALUE, mend_band, mend_dense

D, WIDTH = 150, 5


def noisy(seed=0, d=D, width=WIDTH, noise=0.1):
    rng = np.random.default_rng(seed)
    band = np.zeros((d, width + 1))
    band[:, 0] = 1.0
    for lag in range(1, width + 1):
        band[: d - lag, lag] = 0.7**lag + noise * rng.standard_normal(d - lag)
    return np.clip(band, -1, 1)


def dense(band):
    d = len(band)
    matrix = np.eye(d)
    for lag in range(1, band.shape[1]):
        beside = np.diag(band[: d - lag, lag], lag)
        matrix += beside + beside.T
    return matrix


@pytest.fixture(scope="module")
def band():
    return noisy()


def test_the_band_is_mended_and_its_form_kept(band):
    shares = []
    before = band.copy()
    mended = mend_band(band, progress=shares.append)
    np.testing.assert_array_equal(band, before)
    least = np.linalg.eigvalsh(dense(band))[0]
    assert np.linalg.eigvalsh(dense(mended))[0] >= 0.99 * LEAST_EIGENVALUE
    np.testing.assert_array_equal(mended[:, 0], 1.0)
    beyond = np.add.outer(np.arange(D), np.arange(WIDTH + 1)) >= D
    np.testing.assert_array_equal(mended[beyond], 0.0)
    # No positive semidefinite matrix is nearer in operator norm than the smallest eigenvalue.
    norm = np.linalg.norm(dense(mended - band) - np.eye(D), 2)
    assert -least <= norm < -2.5 * least
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_what_is_definite_is_returned_as_it_is():
    band = noisy(noise=0.01)
    np.testing.assert_array_equal(mend_band(band), band)
    np.testing.assert_array_equal(mend_dense(dense(band)), dense(band))


@pytest.mark.parametrize("d", [1, 2, 5, 33])
def test_small_and_narrow_matrices(d):
    for width in (0, 1, d - 1):
        mended = mend_band(noisy(d=d, width=width, noise=1.0))
        assert np.linalg.eigvalsh(dense(mended))[0] >= 0.99 * LEAST_EIGENVALUE


def test_whole_matrices_keep_their_zeros(band):
    matrix = dense(band)
    mended = mend_dense(matrix)
    assert np.linalg.eigvalsh(mended)[0] >= 0.99 * LEAST_EIGENVALUE
    np.testing.assert_array_equal(mended[matrix == 0], 0.0)
    np.testing.assert_array_equal(np.diag(mended), 1.0)
    one_factor = mend_dense(matrix, rounds=0)
    above = np.triu(matrix, 1) != 0
    factors = one_factor[above] / matrix[above]
    np.testing.assert_allclose(factors, factors[0])
    assert np.linalg.norm(mended - matrix) < np.linalg.norm(one_factor - matrix)
