"""Regressions from a release: exact without noise, and covered by their intervals with it."""

from dataclasses import replace

import numpy as np
import pytest
from answer_documents import document, fewest, sparse_document

from hushcov.accounting import Gaussian
from hushcov.answers.regression import mean_noise, regress
from hushcov.exceptions import ParameterError
from hushcov.release.document import MEANS, Making, Part

D = 5
SCALE = np.array([1.0, 10.0, 0.1, 2.0, 30.0])
COVARIANCE = (np.full((D, D), 0.5) + 0.5 * np.eye(D)) * np.multiply.outer(SCALE, SCALE)
MEAN = np.array([1.0, -20.0, 0.3, 0.0, 5.0])
NAMES = ("age", "weight", "pulse", "temp", "dose")
RUNS = 200


def truth(target, on):
    b = np.linalg.solve(COVARIANCE[np.ix_(on, on)], COVARIANCE[on, target])
    return b, COVARIANCE[on, target] @ b / COVARIANCE[target, target]


def test_without_noise_it_is_least_squares():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, D)) @ rng.standard_normal((D, D)) * SCALE + MEAN
    S = np.cov(X, rowvar=False, bias=True)
    release = document(S, n=10**12, location=X.mean(axis=0), column_names=NAMES)
    found = regress(release, "pulse", ["age", "dose", "temp"])
    design = np.column_stack([np.ones(500), X[:, [0, 4, 3]]])
    exact, (left,), *_ = np.linalg.lstsq(design, X[:, 2], rcond=None)
    np.testing.assert_allclose([found.intercept, *found.coefficients], exact, rtol=1e-5)
    np.testing.assert_allclose(found.residual_variance, left / 500, rtol=1e-5)
    np.testing.assert_allclose(found.r_squared, 1 - left / 500 / S[2, 2], rtol=1e-5)
    assert found.features == ("age", "dose", "temp")
    assert found.n_assumed_zero == 0
    assert np.all(found.upper - found.lower < 1e-3 * np.abs(exact[1:]))
    assert not found.noise.any()


def shares_covered(noise, n, narrower=1.0):
    """How many of the intervals of coefficients and of R^2 cover, of how many."""
    rng = np.random.default_rng(1)
    on = [1, 2, 4]
    b, share = truth(0, on)
    covered = covered_shares = 0
    for _ in range(RUNS):
        found = regress(document(COVARIANCE, n=n, noise=noise, rng=rng), 0, on)
        below, above = found.coefficients - found.lower, found.upper - found.coefficients
        off = b - found.coefficients
        covered += np.count_nonzero((off >= -narrower * below) & (off <= narrower * above))
        below, above = (
            found.r_squared - found.r_squared_lower,
            found.r_squared_upper - found.r_squared,
        )
        covered_shares += -narrower * below <= share - found.r_squared <= narrower * above
    return covered, covered_shares


@pytest.mark.parametrize(("noise", "n"), [(0.1, 2_000), (0.03, 2_000), (1e-6, 500)])
def test_intervals_cover_at_any_noise(noise, n):
    # Coefficients of a run depend on each other; a third of them counts as independent.
    covered, shares = shares_covered(noise, n)
    assert covered / 3 >= fewest(RUNS)
    assert shares >= fewest(RUNS, 0.92)


def test_intervals_of_half_the_width_do_not():
    covered, shares = shares_covered(0.03, 2_000, narrower=0.5)
    assert covered / 3 < fewest(RUNS)
    assert shares < fewest(RUNS, 0.92)


def test_noise_as_large_as_the_matrix_leaves_nothing_to_say():
    rng = np.random.default_rng(2)
    found = regress(document(COVARIANCE, n=1_000, noise=0.6, rng=rng), 0, [1, 2, 3, 4])
    assert found.noise.all()
    assert np.isfinite(found.coefficients).all()
    assert (found.r_squared_lower, found.r_squared_upper) == (0, 1)
    assert "fewer features" in found.warning
    assert found.table()["noise"].all()


def test_without_features_the_partners_are_taken_as_far_as_noise_goes():
    S = np.eye(30)
    S[:3, :3] = 0.5
    np.fill_diagonal(S, 1.0)
    rng = np.random.default_rng(3)
    found = regress(document(S, n=20_000, noise=0.03, rng=rng), 0)
    assert set(found.features) == {"x1", "x2"}
    alone = regress(document(S, n=20_000, noise=0.03, rng=rng), 20)
    assert alone.features == ()
    assert "No partner" in alone.warning
    assert alone.r_squared == 0
    crowd = np.full((30, 30), 0.6) + 0.4 * np.eye(30)
    some = regress(document(crowd, n=20_000, noise=0.05, rng=rng), 0)
    assert 0 < len(some.features) < 29
    assert not some.noise.any()
    assert "were left out: their effects cannot be told" in some.warning


def test_pairs_that_were_not_released_make_intervals_wider():
    S = np.eye(4)
    S[0, 1] = S[1, 0] = S[0, 2] = S[2, 0] = 0.4
    release = sparse_document(S, noise_sd=(0.02, 0.03))
    found = regress(release, 0, [1, 2])
    assert found.n_assumed_zero == 1
    assert "did not stand out" in found.warning
    full = regress(document(S, noise=0.02), 0, [1, 2])
    np.testing.assert_allclose(full.coefficients, 0.4, rtol=0.01)
    assert np.all(found.upper - found.lower > 1.2 * (full.upper - full.lower))
    assert regress(release, 0).features == ("x1", "x2")
    release = document(COVARIANCE, n=2_000, noise=0.05, rng=np.random.default_rng(4))
    one, other = regress(release, 0, [1, 2, 3]), regress(release, 0, [3, 1, 2])
    np.testing.assert_allclose(one.lower[[2, 0, 1]], other.lower)
    larger = replace(release, feature_scale=release.feature_scale * [1, 10, 1, 1, 1])
    scaled = regress(larger, 0, [1, 2, 3])
    np.testing.assert_allclose(scaled.upper * [10, 1, 1], one.upper)
    np.testing.assert_allclose(scaled.standardized, one.standardized)


def test_means_and_the_intercept():
    parts = (Part(MEANS, (Gaussian(0.5),)),)
    making = Making(n_records=1_000, parts=parts)
    release = document(COVARIANCE, n=1_000, location=MEAN, making=making)
    np.testing.assert_allclose(mean_noise(release), 2 * np.sqrt(2 * D) / 500 * SCALE)
    found = regress(release, 0, [1])
    b = truth(0, [1])[0]
    assert found.intercept == pytest.approx(MEAN[0] - b[0] * MEAN[1], rel=1e-6)
    half = found.intercept_upper - found.intercept
    assert half > 1.96 * 0.999 * mean_noise(release)[0]
    assert found.warning is None
    unsure = regress(replace(release, making=replace(making, parts=())), 0, [1])
    assert "how much noise its means have" in unsure.warning
    without = regress(replace(release, location=None), 0, [1])
    assert without.intercept is None
    assert "No mean was released" in without.warning
    release = document(COVARIANCE, column_names=NAMES)
    text = str(regress(release, "age", ["dose", "temp"]))
    assert text.startswith("age: R^2 0.333")
    assert "dose: " in text


@pytest.mark.parametrize(
    ("target", "on", "words"),
    [
        ("age", ["age", "dose"], "must not hold the target"),
        *(("agee", None, "did you mean 'age'"), ("age", ["dos"], "did you mean 'dose'")),
        *(("age", [], "at least one"), ("age", ["dose", "dose"], "must all differ")),
        ("age", ["temp"], "'temp', which does not vary"),
        ("temp", None, "target must be found, got column 'temp'"),
    ],
)
def test_bad_questions_are_refused(target, on, words):
    making = Making(n_records=10, unresolved=(3,))
    release = document(COVARIANCE, column_names=NAMES, making=making)
    with pytest.raises(ParameterError, match=words):
        regress(release, target, on)
