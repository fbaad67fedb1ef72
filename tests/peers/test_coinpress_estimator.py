"""`CoinPressCovariance`: scikit-learn's checks, bad input, accuracy, and the published numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone

from hushcov import CoinPressCovariance, GaussianCovariance
from hushcov.accounting import Gaussian, gaussian_epsilon
from hushcov.exceptions import ParameterError
from hushcov.metrics import operator_norm_error

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
KNOWN = {"feature_scale": 1.0, "assume_centered": True}


X = np.random.default_rng(0).standard_normal((400, 4))


@pytest.mark.filterwarnings("ignore::hushcov.exceptions.AccuracyWarning")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epsilon": None}, "epsilon is required"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"delta": None}, "delta is required"),
        ({"delta": 0.5}, "delta"),
        ({"row_sparsity": 0}, "row_sparsity"),
        ({"row_sparsity": 5}, "row_sparsity"),
        ({"feature_scale": "one"}, "feature_scale"),
        ({"n_steps": 0}, "n_steps"),
        ({"n_steps": "3"}, "n_steps"),
        ({"eigenvalue_bounds": (3.0, 1.0)}, "eigenvalue_bounds"),
        ({"eigenvalue_bounds": 3.0}, "eigenvalue_bounds"),
        ({"positive_semidefinite": 1}, "positive_semidefinite"),
        ({"store_precision": None}, "store_precision"),
        ({"assume_centered": "no"}, "assume_centered"),
        ({"random_state": -1}, "random_state"),
        ({"ledger": "ledger.json"}, "dataset"),
        ({"dataset": "patients"}, "ledger"),
    ],
)
def test_bad_parameters_are_refused(changes, words):
    with pytest.raises(ParameterError, match=words):
        CoinPressCovariance(**{**BUDGET, **changes}).fit(X)


@pytest.mark.filterwarnings("ignore::hushcov.exceptions.AccuracyWarning")
def test_attributes_and_the_guarantee():
    centred = {**BUDGET, "assume_centered": True}
    est = clone(CoinPressCovariance(**centred, n_steps=2)).fit(X)
    assert (est.n_records_, est.release_.making.n_records) == (400, 400)
    assert est.parameters_.eigenvalue_bounds == (0.1, 4.0)
    assert (
        CoinPressCovariance(**centred, row_sparsity=2).fit(X).parameters_.eigenvalue_bounds[1] == 2
    )
    assert est.covariance_.shape == est.precision_.shape == (4, 4)
    assert np.linalg.eigvalsh(est.covariance_)[0] > -1e-6
    guarantee = est.release_.guarantee
    assert guarantee.private
    assert guarantee.transcript_epsilon <= 1.0
    # One event for the scales, and one for each step.
    assert [type(event) for event in guarantee.events] == [Gaussian] * 3
    assert not hasattr(est, "noise_sd_")
    with pytest.raises(ParameterError, match="noise level"):
        est.covariance_interval()


def test_projecting_again_leaves_no_negative_eigenvalue():
    est = CoinPressCovariance(**BUDGET, **KNOWN, positive_semidefinite=True).fit(X)
    assert np.linalg.eigvalsh(est.covariance_)[0] > -1e-12


@pytest.mark.filterwarnings("ignore::hushcov.exceptions.SeededNoiseWarning")
def test_uneven_eigenvalues_are_where_it_beats_the_gaussian_mechanism():
    """One strong common factor: one eigenvalue of 9 and nine of 0.1."""
    d = 10
    truth = np.full((d, d), 0.9) + 0.1 * np.eye(d)
    generator = np.random.default_rng(2)
    errors = {CoinPressCovariance: [], GaussianCovariance: []}
    for _ in range(5):
        rows = generator.standard_normal((20_000, d)) @ np.linalg.cholesky(truth).T
        for kind, found in errors.items():
            estimate = kind(**BUDGET, **KNOWN, random_state=generator).fit(rows).covariance_
            found.append(mahalanobis_error(estimate, truth))
    assert max(errors[CoinPressCovariance]) < 0.3
    assert max(errors[CoinPressCovariance]) < min(errors[GaussianCovariance])


@pytest.mark.filterwarnings("ignore::hushcov.exceptions.SeededNoiseWarning")
def test_the_published_budget_is_half_a_unit_of_zcdp():
    p = published_setting(3, 0).fit(np.zeros((50, 10))).parameters_
    assert sum(mu**2 / 2 for mu in p.mus) == pytest.approx(0.5, rel=1e-6)


@pytest.mark.filterwarnings("ignore::hushcov.exceptions.SeededNoiseWarning")
def test_unknown_means_and_scales():
    scale = np.array([1.0, 100.0, 0.01, 5.0])
    rows = np.random.default_rng(3).standard_normal((40_000, 4)) * scale + 7 * scale
    est = CoinPressCovariance(**BUDGET, random_state=1).fit(rows)
    relative = est.covariance_ / np.multiply.outer(scale, scale)
    assert operator_norm_error(relative, np.eye(4)) < 0.3


def mahalanobis_error(estimate, truth):
    values, vectors = np.linalg.eigh(truth)
    root = (vectors / np.sqrt(values)) @ vectors.T
    return float(np.linalg.norm(root @ estimate @ root - np.eye(len(truth))))


# Published with the algorithm: Sigma = I, d = 10, eigenvalues up to 10 sqrt(d), rho = 0.5, mean of
# 100 runs without the tenth at either end. For three steps and 3000 records, 0.306 was published
# for a matrix that is not symmetric; 0.258 is the error of its symmetric part, from running the
# published steps again (benchmarks/studies/coinpress.py).
PUBLISHED = {
    (8000, 1): 1.340,
    (8000, 2): 0.160,
    (8000, 3): 0.133,
    (3000, 1): 2.84,
    (3000, 2): 0.557,
    (3000, 3): 0.258,
}


def published_setting(n_steps, seed):
    return CoinPressCovariance(
        epsilon=gaussian_epsilon(1.0, 1e-6),
        delta=1e-6,
        **KNOWN,
        n_steps=n_steps,
        eigenvalue_bounds=(1.0, 10 * math.sqrt(10)),
        random_state=np.random.default_rng(seed),
    )


@pytest.mark.filterwarnings("ignore::hushcov.exceptions.SeededNoiseWarning")
@pytest.mark.parametrize(("n_records", "n_steps"), list(PUBLISHED))
def test_errors_are_below_the_published_ones(n_records, n_steps):
    """By 6 % to 34 % in the long run, more than six deviations of these means."""
    est, generator = published_setting(n_steps, n_records + n_steps), np.random.default_rng(17)
    errors = [
        mahalanobis_error(
            est.fit(generator.standard_normal((n_records, 10))).covariance_, np.eye(10)
        )
        for _ in range(60)
    ]
    assert stats.trim_mean(errors, 0.1) < PUBLISHED[n_records, n_steps]
