"""Adaptive releases: each structure is recognised, and tables that have little in them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse

from fit.adaptive.settings import (
    BUDGET,
    blocks,
    correlations,
    dense,
    drawn,
    error,
    fit,
    one_factor,
    released,
)
from hushcov import PrivateSparseCovariance
from hushcov.exceptions import CapacityError
from hushcov.fit.adaptive import mechanism as adaptive
from hushcov.fit.adaptive.pairs import AdaptiveParameters
from hushcov.inputs import ReleaseInputs
from hushcov.kernel.accounting import Clocked, compose

#: Structure, size, and the mechanism that is right for it.
CASES = {
    "sparse": (blocks, 60, 30_000, "screened"),
    "factors": (one_factor, 80, 20_000, "gaussian"),
    "dense": (dense, 40, 20_000, "gaussian"),
}


@pytest.fixture(scope="module", params=CASES)
def found(request):
    """A kind of structure, records, their covariance, and a fit."""
    make, d, n, _ = CASES[request.param]
    X, truth = drawn(make(d), n)
    return request.param, X, truth, fit(X, seed=2, drop_nulls=False)


def test_the_structure_is_recognised(found):
    kind, X, _, estimator = found
    structure = estimator.release_.making.structure
    # Of many weak factors a few may stand out, which is as good.
    allowed = {"dense", "factors"} if kind == "dense" else {kind}
    assert structure.kind in allowed
    assert estimator.structure_.startswith(f"{structure.kind}: ")
    assert (structure.rank > 0) == (structure.kind == "factors")
    assert (estimator.release_.selected is not None) == (kind == "sparse")
    assert estimator.release_.name == "adaptive"
    assert X.shape[1] == estimator.release_.n_features


def test_it_is_about_as_good_as_the_right_mechanism(found):
    """Which it was not told; the wrong one is two to fifteen times as bad."""
    kind, X, truth, estimator = found
    right = CASES[kind][3]
    known = fit(X, mechanism=right, row_sparsity=5)
    wrong = fit(X, mechanism={"screened": "gaussian"}.get(right, "screened"), row_sparsity=5)
    ours, best = error(estimator.covariance_, truth), error(known.covariance_, truth)
    assert ours < 1.4 * best
    assert error(wrong.covariance_, truth) > 2.5 * ours


def test_the_error_is_in_its_interval(found):
    _, _, truth, estimator = found
    estimate = estimator.error_estimate_
    assert estimate.least < estimate.error < estimate.most
    assert estimate.least < error(estimator.covariance_, truth) < estimate.most


def test_the_same_seed_gives_the_same_release_whatever_the_order_of_records(found):
    _, X, _, estimator = found
    assert fit(X[::-1], seed=2, drop_nulls=False).release_ == estimator.release_
    assert fit(X, seed=3, drop_nulls=False).release_ != estimator.release_


def test_factors_and_remainder_are_the_covariance(found):
    kind, _, truth, estimator = found
    factors, covariance = estimator.factors_, estimator.covariance_
    rank = estimator.release_.making.structure.rank
    assert factors.loadings.shape == (len(truth), rank)
    assert factors.variances.shape == (rank,)
    assert sparse.issparse(factors.remainder)
    assert np.all(factors.variances > 0)
    scale = np.sqrt(np.diag(truth))
    unit = np.multiply.outer(scale, scale)
    low_rank = (factors.loadings * factors.variances) @ factors.loadings.T
    assert np.allclose((low_rank + factors.remainder) / unit, covariance / unit, atol=1e-12)
    components = estimator.components_
    assert components.shape == (rank, len(truth))
    assert np.allclose(components.T @ components / unit, low_rank / unit, atol=1e-12)
    if kind == "factors":  # little is left beside the factor but variances
        assert factors.remainder.count_nonzero() < 0.1 * len(truth) ** 2
        direction = components[0] / scale
        assert abs(direction.sum()) > 0.98 * np.linalg.norm(direction) * np.sqrt(len(truth))


def test_what_is_beside_pairs_is_asked_once_while_they_are_selected(monkeypatch):
    """And once after it: each time is a dozen products with the whole matrix."""
    asked, hidden = [], adaptive._hidden
    monkeypatch.setattr(adaptive, "_hidden", lambda *given: asked.append(1) or hidden(*given))
    release = released(drawn(blocks(60), 30_000)[0] / np.geomspace(0.01, 100, 60) - 7)
    assert release.making.structure.kind == "sparse"
    assert len(asked) == 2


def test_sparse_output_never_forms_the_whole_matrix(monkeypatch):
    def refuse(*_):
        raise AssertionError("the whole matrix was formed")

    monkeypatch.setattr(adaptive, "WholeMatrix", refuse)
    monkeypatch.setattr(sparse.csr_array, "toarray", refuse)
    d, n = 300, 2000
    pairs = np.repeat(np.random.default_rng(1).standard_normal((n, d // 2)), 2, axis=1)
    rows = pairs + np.random.default_rng(2).standard_normal((n, d))
    release = released(rows, epsilon=8.0, sparse=True)
    assert sparse.issparse(release.integers)
    assert release.making.structure.kind == "sparse"
    monkeypatch.undo()
    rows, columns = release.selected
    assert np.mean((rows % 2 == 0) & (columns == rows + 1)) > 0.7


def test_more_records_than_scores_are_exact_for_are_refused():
    inputs = ReleaseInputs(2**33 + 1, 5, 2, 1.0, 1e-6)
    with pytest.raises(CapacityError, match="n_records"):
        AdaptiveParameters(inputs).budget()


def test_noise_alone_is_no_worse_than_zeros():
    """Where nothing can be found the answer is small, and says so."""
    X, truth = drawn(correlations(np.eye(40)), 400)
    estimator = fit(X, epsilon=0.5, on_hopeless="warn")
    assert error(estimator.covariance_, truth) < 1.1
    assert estimator.error_estimate_.most > 0.9


# Tables that have little in them, or of which something is known.


RNG = np.random.default_rng(3)


def plain(estimator):
    """The estimate as an array, after what every fit must have."""
    covariance = estimator.covariance_
    covariance = covariance.toarray() if hasattr(covariance, "toarray") else covariance
    d = len(covariance)
    assert np.isfinite(covariance).all()
    assert np.array_equal(covariance, covariance.T)
    assert np.all(np.diag(covariance) >= 0)
    assert estimator.factors_.loadings.shape[0] == d
    assert estimator.components_.shape == estimator.factors_.loadings.T.shape
    assert 0 <= estimator.error_estimate_.least <= estimator.error_estimate_.most <= 1.06
    guarantee = estimator.release_.guarantee
    assert sum(isinstance(event, Clocked) for event in guarantee.events) == 1
    assert compose(guarantee.events, delta=1e-6).epsilon <= 1.0
    return covariance


@pytest.mark.parametrize("sparse_output", [False, True])
@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_few_features(d, sparse_output):
    """Their strongest pair is found, however few there are."""
    X = RNG.standard_normal((20_000, d))
    X[:, -1] += X[:, 0]
    covariance = plain(fit(X, sparse_output=sparse_output))
    expected = np.cov(X.T, bias=True).reshape(d, d)
    expected[np.abs(expected) < 0.5] = 0
    assert np.abs(covariance - expected).max() < 0.1 * expected.max()


@pytest.mark.parametrize("sparse_output", [False, True])
@pytest.mark.parametrize(("n", "d"), [(1, 3), (8, 5), (100, 200)])
def test_too_few_records_to_find_anything(n, d, sparse_output):
    """All of them are zeros then, or nearly; the release is private all the same."""
    X = RNG.standard_normal((n, d))
    estimator = fit(X, sparse_output=sparse_output, on_hopeless="warn")
    assert not plain(estimator).any()
    assert estimator.release_.making.unresolved == tuple(range(d))


def test_incomplete_records_are_left_out():
    """Sums count them as zeros; values, their noise and the threshold are those of the rest."""
    X, truth = drawn(blocks(100), 60_000)
    X[RNG.random(len(X)) < 0.4, 3] = np.nan
    estimator = fit(X, drop_nulls=True)
    assert error(plain(estimator), truth) < 0.13
    release = estimator.release_
    assert release.making.structure.kind == "sparse"
    assert release.making.threshold > 1.9 * release.noise_sd[0]


def test_records_that_are_all_alike_count_as_one_at_least():
    """Else a fit of a few units would end with a division by zero, after its charge."""
    ids, X = np.repeat(np.arange(4), 5), np.repeat(RNG.standard_normal((4, 3)), 5, axis=0)
    made = PrivateSparseCovariance(
        **BUDGET, max_rows_per_unit=5, on_hopeless="warn", random_state=1, on_large_delta="warn"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.isfinite(made.fit(X, unit=ids).covariance_).all()
