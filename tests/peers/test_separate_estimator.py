"""`SeparateCovariance`: scikit-learn's checks, published errors, and what a fit refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hushcov import GaussianCovariance, SeparateCovariance
from hushcov.accounting import gaussian_epsilon
from hushcov.exceptions import ParameterError
from hushcov.simulate import gaussian_records, sparse_covariance

BUDGET = {"epsilon": 1.0, "delta": 1e-6}

pytestmark = pytest.mark.filterwarnings("ignore::hushcov.exceptions.SeededNoiseWarning")


def zipf_records(n, d, buckets, rng):
    """The data of the paper: norm 2^(b + 1 - buckets) for a share of about 1/(b + 1)^3."""
    X = rng.standard_normal((n, d)) @ rng.random((d, d))
    X -= X.mean(axis=0)
    shares = 1 / np.arange(1, buckets + 1) ** 3
    ends = np.round(np.cumsum(shares) / shares.sum() * n).astype(int)
    bucket = np.searchsorted(ends, np.arange(n), side="right")
    return X * (2.0 ** (bucket + 1 - buckets) / np.linalg.norm(X, axis=1))[:, None]


@pytest.fixture(scope="module", params=[1, 4])
def published_data(request):
    X = zipf_records(50_000, 200, request.param, np.random.default_rng(request.param))
    return request.param, X, X.T @ X / len(X)


def error_of(X, truth, seed, **how):
    """Frobenius error at rho = 0.1."""
    fitted = SeparateCovariance(
        epsilon=gaussian_epsilon(math.sqrt(0.2), 1e-6),
        delta=1e-6,
        feature_scale=1.0,
        row_norm=1.0,
        assume_centered=True,
        store_precision=False,
        random_state=seed,
        **how,
    ).fit(X)
    return float(np.linalg.norm(fitted.covariance_ - truth))


def test_published_errors_are_improved(published_data):
    """A run of the published algorithms has 0.0119 at best on the first records, 0.0028 then."""
    buckets, X, truth = published_data
    published = {1: 0.0119, 4: 0.0028}[buckets]
    assert error_of(X, truth, 1, method="adaptive") < 0.85 * published


def test_a_generous_norm_bound_costs_little_with_adaptive():
    truth = sparse_covariance("block", 30, 5)
    X = gaussian_records(truth, 30_000)
    errors = {}
    for method in ("gauss", "adaptive"):
        fitted = SeparateCovariance(
            **BUDGET,
            method=method,
            feature_scale=np.sqrt(np.diag(truth)),
            row_norm=30.0,
            assume_centered=True,
            random_state=0,
        ).fit(X)
        errors[method] = np.linalg.norm(fitted.covariance_ - truth)
    assert errors["adaptive"] < 0.5 * errors["gauss"]
    assert fitted.row_norm_ < 12  # norms are 5.5 or so
    assert fitted.parameters_.row_norm == pytest.approx(30, rel=1e-3)


def test_gauss_is_the_gaussian_mechanism_with_eigenvalues_clipped():
    """The same norm bound, and the same noise from the same seed but for the finer grid."""
    X = gaussian_records(sparse_covariance("block", 8, 2), 20_000)
    given = {**BUDGET, "feature_scale": 1.0, "assume_centered": True, "random_state": 5}
    plain = GaussianCovariance(**given).fit(X)
    clipped = SeparateCovariance(**given, method="gauss").fit(X)
    assert clipped.row_norm_ == pytest.approx(
        plain.parameters_.norm_bound * plain.parameters_.step, rel=1e-3
    )
    assert np.linalg.eigvalsh(plain.covariance_)[0] > 0
    np.testing.assert_allclose(clipped.covariance_, plain.covariance_, atol=1e-3)


@pytest.mark.parametrize("method", ["gauss", "separate", "adaptive"])
@pytest.mark.parametrize(
    "known", [{"assume_centered": True}, {"feature_scale": 1.0, "assume_centered": True}]
)
def test_what_a_fit_promises_and_stores(method, known):
    X = np.random.default_rng(0).standard_normal((4000, 5))
    fitted = SeparateCovariance(**BUDGET, method=method, **known).fit(X)
    guarantee = fitted.release_.guarantee
    assert guarantee.private
    assert 0.99 < guarantee.transcript_epsilon <= 1.0
    assert len(guarantee.events) == 1 + ("feature_scale" not in known) + (method == "adaptive")
    assert fitted.method_ in ("gauss", "separate")
    assert method in ("adaptive", fitted.method_)
    assert 0 < fitted.row_norm_ <= fitted.parameters_.row_norm
    assert not hasattr(fitted, "noise_sd_")
    assert np.array_equal(fitted.covariance_, fitted.covariance_.T)


def test_a_constant_feature_is_released_as_zero():
    X = np.random.default_rng(0).standard_normal((4000, 3))
    fitted = SeparateCovariance(**BUDGET, feature_scale=[1.0, 0.0, 1.0]).fit(X)
    assert not fitted.covariance_[1].any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": None}, "epsilon is required"),
        ({"epsilon": 0.0}, "epsilon must be above 0"),
        ({"epsilon": 11.0}, "epsilon must be above 0 and at most 10"),
        ({"delta": None}, "delta is required"),
        ({"delta": 0.5}, "delta must be above 0 and at most 0.1"),
        ({"row_sparsity": 0}, "row_sparsity must be an integer at least 1"),
        ({"row_sparsity": 4}, "row_sparsity must be an integer at least 1 and at most 3"),
        ({"feature_scale": -1.0}, "feature_scale must be 0"),
        ({"feature_scale": [1.0, 2.0]}, "feature_scale must be a number or have one"),
        ({"method": "svd"}, "method must be one of 'gauss', 'separate', 'adaptive'"),
        ({"row_norm": 0}, "row_norm must be above 0"),
        ({"row_norm": True}, "row_norm must be a real number"),
        ({"positive_semidefinite": "no"}, "positive_semidefinite must be True or False"),
        ({"store_precision": 1}, "store_precision must be True or False"),
        ({"assume_centered": None}, "assume_centered must be True or False"),
        ({"random_state": "seed"}, "random_state"),
        ({"ledger": "file"}, "dataset is required"),
        ({"dataset": "people"}, "ledger is required"),
    ],
)
def test_bad_parameters_are_refused(arguments, message):
    estimator = SeparateCovariance(**{**BUDGET, **arguments})
    with pytest.raises(ParameterError, match=message):
        estimator.fit(np.ones((4000, 3)))
    assert not hasattr(estimator, "release_")
