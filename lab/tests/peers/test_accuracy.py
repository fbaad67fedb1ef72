"""Published mechanisms as estimators: published errors, and what is special to each of them.

tests/estimators has what they share with all other estimators.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from estimators.settings import fit, setting
from estimators.stand_ins import UntouchableRecords
from hushcov import (
    CoinPressCovariance,
    EigenSamplingCovariance,
    GaussianCovariance,
    SeparateCovariance,
)
from hushcov.exceptions import BudgetError, CapacityError, ParameterError
from hushcov.kernel.accounting import BoundedRange, Gaussian, gaussian_epsilon
from hushcov.ledger import Ledger
from hushcov.metrics import operator_norm_error
from hushcov.simulate import gaussian_records, sparse_covariance
from statistics_helpers import mostly_slow

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
KNOWN = {"feature_scale": 1.0, "assume_centered": True}
TRUTH = sparse_covariance("block", 8, 2)
RECORDS = gaussian_records(TRUTH, 20_000)
RECORDS.setflags(write=False)

pytestmark = pytest.mark.filterwarnings("ignore::hushcov.exceptions.SeededNoiseWarning")


# CoinPress.


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
        drop_nulls=False,
        random_state=np.random.default_rng(seed),
    )


@pytest.mark.parametrize(("n_records", "n_steps"), mostly_slow(PUBLISHED, 0, 5))
def test_coinpress_errors_are_below_the_published_ones(n_records, n_steps):
    """By 6 % to 34 % in the long run, more than six deviations of these means."""
    est, generator = published_setting(n_steps, n_records + n_steps), np.random.default_rng(17)
    errors = [
        mahalanobis_error(
            est.fit(generator.standard_normal((n_records, 10))).covariance_, np.eye(10)
        )
        for _ in range(60)
    ]
    assert stats.trim_mean(errors, 0.1) < PUBLISHED[n_records, n_steps]
    # The published budget is half a unit of zCDP.
    assert sum(mu**2 / 2 for mu in est.parameters_.mus) == pytest.approx(0.5, rel=1e-6)


# A count of complete records, a look at scales, mean squares, norms and tails.
PREPARED = 5


def test_coinpress_charges_scales_and_every_step():
    est = fit(setting("coinpress", n_steps=2, row_sparsity=None), RECORDS[:, :4])
    assert est.parameters_.eigenvalue_bounds == (0.1, 4.0)
    assert fit(setting("coinpress"), RECORDS).parameters_.eigenvalue_bounds[1] == 2
    assert [type(event) for event in est.release_.guarantee.events] == [Gaussian] * (PREPARED + 2)


# Top entries of rows.


@pytest.mark.parametrize("known", [{"assume_centered": True}, KNOWN])
def test_row_top_k_finds_the_pairs(known):
    est = fit(setting("row_top_k", epsilon=2.0, **known), RECORDS)
    kinds = [type(event) for event in est.release_.guarantee.events]
    before = 1 if "feature_scale" in known else PREPARED
    assert kinds == [Gaussian] * before + [BoundedRange, Gaussian]
    np.testing.assert_array_equal(est.support_, TRUTH != 0)
    np.testing.assert_array_equal(est.selected_, est.support_)
    assert operator_norm_error(est.covariance_, TRUTH) < 0.15
    lower, upper = est.covariance_interval()
    inside = (lower < est.covariance_) & (est.covariance_ < upper)
    np.testing.assert_array_equal(inside, est.support_)


# Eigenvalues and eigenvectors, one after the other.


def zipf_records(n, d, buckets, rng):
    """The data of the paper: norm 2^(b + 1 - buckets) for a share of about 1/(b + 1)^3."""
    X = rng.standard_normal((n, d)) @ rng.random((d, d))
    X -= X.mean(axis=0)
    shares = 1 / np.arange(1, buckets + 1) ** 3
    ends = np.round(np.cumsum(shares) / shares.sum() * n).astype(int)
    bucket = np.searchsorted(ends, np.arange(n), side="right")
    return X * (2.0 ** (bucket + 1 - buckets) / np.linalg.norm(X, axis=1))[:, None]


@pytest.mark.parametrize(("buckets", "published"), [(1, 0.0119), (4, 0.0028)])
def test_separate_improves_on_published_errors(buckets, published):
    """Frobenius errors at rho = 0.1, where a run of the published algorithms has these at best."""
    X = zipf_records(50_000, 200, buckets, np.random.default_rng(buckets))
    fitted = SeparateCovariance(
        epsilon=gaussian_epsilon(math.sqrt(0.2), 1e-6),
        delta=1e-6,
        **KNOWN,
        row_norm=1.0,
        random_state=1,
    ).fit(X)
    assert np.linalg.norm(fitted.covariance_ - X.T @ X / len(X)) < 0.85 * published


def test_gauss_is_the_gaussian_mechanism_with_eigenvalues_clipped():
    """The same norm bound, and the same noise from the same seed but for the finer grid."""
    given = {**BUDGET, **KNOWN, "random_state": 5}
    plain = GaussianCovariance(**given, purpose="covariance").fit(RECORDS)
    clipped = SeparateCovariance(**given, method="gauss").fit(RECORDS)
    assert clipped.row_norm_ == pytest.approx(
        plain.parameters_.norm_bound * plain.parameters_.step, rel=1e-3
    )
    assert np.linalg.eigvalsh(plain.covariance_)[0] > 0
    np.testing.assert_allclose(clipped.covariance_, plain.covariance_, atol=1e-3)


# Pure privacy.


def test_eigen_sampling_needs_public_scales_and_few_features():
    words = "feature_scale is required.*estimating scales privately is not pure DP"
    with pytest.raises(ParameterError, match=words):
        EigenSamplingCovariance(epsilon=1.0, assume_centered=True).fit(UntouchableRecords(9, 4))
    with pytest.raises(CapacityError, match="n_features"):
        setting("eigen_sampling").fit(UntouchableRecords(100, 2_000))


def test_a_ledger_without_delta_takes_pure_releases(tmp_path):
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_dataset("people", epsilon=1.5, delta=0.0)
    est = setting("eigen_sampling", ledger=ledger, dataset="people").fit(RECORDS)
    guarantee = est.release_.guarantee
    assert (guarantee.delta, guarantee.numerical_delta, guarantee.private) == (0.0, 0.0, True)
    assert est.receipt_.total.epsilon == pytest.approx(1.0)
    assert est.receipt_.total.delta == 0
    np.testing.assert_allclose(est.covariance_, TRUTH, atol=0.7)
    with pytest.raises(BudgetError):
        est.fit(UntouchableRecords(*RECORDS.shape))
