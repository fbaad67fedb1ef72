"""Simulated covariances, records and second moments at sizes nobody can store."""

import numpy as np
import pytest

from hushcov.exceptions import DataError, ParameterError
from hushcov.simulate import (
    FAMILIES,
    MODELS,
    SimulatedMoments,
    gaussian_records,
    sparse_covariance,
    structured_covariance,
    wishart_moments,
)
from statistics_helpers import FALSE_ALARM, disagreements, normal_p_value

SIGMA = np.array([[1.0, 0.5, 0.0], [0.5, 0.8, -0.1], [0.0, -0.1, 0.3]])
UPPER = np.triu_indices(3)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("d", "k"), [(1, 1), (5, 1), (6, 6), (20, 2), (50, 5), (101, 10)])
def test_models_are_sparse_positive_and_of_norm_one(model, d, k):
    sigma = sparse_covariance(model, d, k)
    np.testing.assert_array_equal(sigma, sigma.T)
    values = np.linalg.eigvalsh(sigma)
    assert values[-1] == pytest.approx(1)
    assert values[0] > -1e-12
    assert np.count_nonzero(sigma, axis=1).max() <= k
    assert (sigma.diagonal() > 0).all()


@pytest.mark.parametrize("model", MODELS)
def test_models_use_the_sparsity_they_are_given(model):
    """An odd k, which a band can fill exactly."""
    assert np.count_nonzero(sparse_covariance(model, 60, 5), axis=1).max() == 5


def test_random_models_follow_their_seed():
    first, second = (sparse_covariance("random", 30, 4, random_state=seed) for seed in (1, 2))
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(first, sparse_covariance("random", 30, 4, random_state=1))
    moments = wishart_moments(np.eye(6), 2, random_state=0)
    assert moments.n_records == 2
    assert np.linalg.matrix_rank(moments.covariance) == 2


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        *((("circle", 5, 2), "model"), (("block", 0, 1), "n_features")),
        *((("block", 5, 6), "row_sparsity"), (("block", 5, 0), "row_sparsity")),
    ],
)
def test_bad_models_are_refused(arguments, name):
    with pytest.raises(ParameterError, match=f"^{name} must be"):
        sparse_covariance(*arguments)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("d", [1, 2, 7, 60])
def test_families_are_correlation_matrices(name, d):
    found = structured_covariance(name, d, random_state=3)
    assert found.shape == (d, d)
    np.testing.assert_allclose(found, found.T, atol=1e-15)
    np.testing.assert_allclose(np.diag(found), 1)
    assert np.linalg.eigvalsh(found)[0] > 0
    gaussian_records(found, 3)  # what they are for
    np.testing.assert_array_equal(found, structured_covariance(name, d, random_state=3))


def test_families_are_what_they_are_called():
    """Sparse ones have few nonzeros, factors a large eigenvalue, dense ones many small pairs."""
    found = {name: structured_covariance(name, 120) for name in FAMILIES}
    nonzeros = {name: np.count_nonzero(each, axis=1).max() for name, each in found.items()}
    assert nonzeros["identity"] == 1
    assert max(nonzeros[name] for name in ("block", "banded", "random")) == 5
    assert nonzeros["random-20"] <= 20
    assert nonzeros["mixed-blocks"] == 34
    norms = {name: np.linalg.eigvalsh(each)[-1] for name, each in found.items()}
    assert min(norms["factor-blocks"], norms["three-factors"]) > 20
    assert 2 < norms["weak-factor"] < 8
    assert norms["equicorrelated"] == pytest.approx(0.95 + 0.05 * 120)
    assert norms["wishart"] < 4
    sizes = np.sort(np.abs(found["lq"][0]))[::-1][1:]
    assert sizes[0] > 4 * sizes[10] > 0
    assert nonzeros["one-hot"] == 120


@pytest.mark.parametrize(("name", "d"), [("circle", 5), ("block", 0)])
def test_unknown_families_are_refused(name, d):
    with pytest.raises(ParameterError, match=r"must be"):
        structured_covariance(name, d)


def test_gaussian_records_have_the_covariance():
    """False-alarm rate 1e-6 over all entries."""
    n = 100_000
    X = gaussian_records(SIGMA, n, random_state=1)
    products = np.einsum("ri,rj->rij", X, X)[:, *UPPER]
    scores = (products.mean(axis=0) - SIGMA[UPPER]) / (products.std(axis=0) / np.sqrt(n))
    assert normal_p_value(scores) > FALSE_ALARM
    assert normal_p_value(X.mean(axis=0) / X.std(axis=0) * np.sqrt(n)) > FALSE_ALARM


def moments_of_records(n, runs):
    X = np.random.default_rng(9).standard_normal((runs, n, 3)) @ np.linalg.cholesky(SIGMA).T
    return (np.swapaxes(X, 1, 2) @ X / n)[:, *UPPER]


def drawn_moments(n, runs):
    return np.stack(
        [wishart_moments(SIGMA, n, random_state=seed).covariance[UPPER] for seed in range(runs)]
    )


@pytest.mark.parametrize("n", [3, 7, 40])
def test_wishart_moments_have_the_law_of_records(n):
    """Jointly over entries, false-alarm rate 1e-6; a scale off by a tenth is seen."""
    drawn, summed = drawn_moments(n, 5_000), moments_of_records(n, 20_000)
    assert disagreements(drawn, summed) == []
    assert disagreements(drawn, 1.1 * summed)


def test_the_comparison_sees_a_wrong_number_of_degrees_of_freedom():
    """32 records in place of 40 have the same mean and a tenth more deviation."""
    assert disagreements(drawn_moments(40, 5_000), moments_of_records(32, 20_000))


@pytest.mark.parametrize("n", [10**10, 10**14, 10**18])
def test_fluctuations_shrink_as_one_over_the_root_of_n(n):
    """Entries deviate by sqrt((s_ij^2 + s_ii s_jj) / n). False-alarm rate 1e-6."""
    errors = np.stack(
        [wishart_moments(SIGMA, n, random_state=seed).covariance - SIGMA for seed in range(400)]
    )
    variances = SIGMA.diagonal()
    scores = errors / np.sqrt((SIGMA**2 + np.outer(variances, variances)) / n)
    scores = scores[:, *UPPER]
    assert normal_p_value(scores.mean(axis=0) * np.sqrt(400)) > FALSE_ALARM
    assert normal_p_value((scores.var(axis=0) - 1) / np.sqrt(2 / 400)) > FALSE_ALARM


def test_simulated_moments_are_checked_and_frozen():
    S = SIGMA.copy()
    moments = SimulatedMoments(S, 10**18)
    S[0, 0] = 9.0
    assert moments.covariance[0, 0] == 1.0
    assert moments.n_features == 3
    with pytest.raises(ValueError, match="read-only"):
        moments.covariance[0, 0] = 2.0
    for bad in (SIGMA[:2], SIGMA + np.triu(np.ones((3, 3))), np.full((2, 2), np.inf)):
        with pytest.raises(DataError, match="covariance must be"):
            SimulatedMoments(bad, 10)
    for n in (0, 1.5, True):
        with pytest.raises(ParameterError, match="n_records"):
            SimulatedMoments(SIGMA, n)
