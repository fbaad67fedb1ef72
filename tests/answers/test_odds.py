"""Odds ratios of 0/1 columns: exact for normal groups, covered by their intervals, refused else."""

from dataclasses import replace

import numpy as np
import pytest
from answer_documents import document, fewest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from hushcov.answers.odds import logistic
from hushcov.exceptions import ParameterError
from hushcov.release.document import Making
from statistics_helpers import short_and_long

NAMES = ("ill", "age", "dose", "pulse")
BETA = np.array([0.8, -0.5, 0.3])
WITHIN = 0.4 + 0.6 * np.eye(3)
NO_BOUNDS = (None, None)


def moments(share, mean=0.0):
    """Mean and covariance of a 0/1 column and three others that are normal in both groups."""
    apart, variance = WITHIN @ BETA, share * (1 - share)
    S = np.zeros((4, 4))
    S[0, 0], S[0, 1:], S[1:, 0] = variance, variance * apart, variance * apart
    S[1:, 1:] = WITHIN + variance * np.multiply.outer(apart, apart)
    middle = mean + (0.5 - share) * apart
    return S, np.array([share, *[mean] * 3]), np.log(share / (1 - share)) - middle @ BETA


def released(S, location, *, n=10_000, noise=1e-9, means_sd=1e-9, names=NAMES, **changes):
    """A release in which the first column is known to hold 0 and 1."""
    bounds = ((0.0, 1.0), *[NO_BOUNDS] * (len(S) - 1))
    making = Making(
        n_records=n,
        bounds=bounds,
        indicators=(0,),
        means_sd=tuple(means_sd * np.sqrt(np.diag(S))),
    )
    named = {"column_names": names, "location": location, "making": making}
    return document(S, n=n, noise=noise, **named, **changes)


def test_without_noise_it_is_the_discriminant_function_of_the_records():
    rng = np.random.default_rng(0)
    ill = rng.random(2_000) < 0.3
    X = rng.standard_normal((2_000, 3)) @ rng.standard_normal((3, 3)) * [1, 20, 0.1] + [5, -60, 1]
    X[ill] += [0.5, 10, -0.05]
    rows = np.column_stack([ill, X])
    release = released(np.cov(rows.T, bias=True), rows.mean(axis=0), n=10**12)
    found = logistic(release, "ill", ["dose", "age", "pulse"])
    # From raw moments: the oracle knows nothing of a regression.
    oracle = LinearDiscriminantAnalysis(solver="lsqr").fit(X[:, [1, 0, 2]], ill)
    np.testing.assert_allclose(found.coefficients, oracle.coef_[0], rtol=1e-5)
    np.testing.assert_allclose(found.intercept, oracle.intercept_[0], rtol=1e-5)
    np.testing.assert_allclose(found.odds_ratio, np.exp(oracle.coef_[0]), rtol=1e-5)
    chance = oracle.predict_proba(X[:9, [1, 0, 2]])[:, 1]
    np.testing.assert_allclose(found.probability(X[:9, [1, 0, 2]]), chance, rtol=1e-4)
    assert found.features == ("dose", "age", "pulse")
    assert found.share == pytest.approx(ill.mean())
    assert np.all((found.lower < found.odds_ratio) & (found.odds_ratio < found.upper))
    assert np.all(found.upper - found.lower < 1e-3 * found.odds_ratio)
    np.testing.assert_allclose(np.log(found.lower), found.coefficient_lower)


def test_the_sampling_error_is_that_of_a_discriminant_function():
    n, share = 10**8, 0.2
    S, location, intercept = moments(share)
    found = logistic(released(S, location, n=n), 0, [1, 2, 3])
    inverse, v = np.linalg.inv(WITHIN), share * (1 - share)
    distance = BETA @ WITHIN @ BETA
    covariance = (1 / v + distance) * inverse + np.multiply.outer(BETA, BETA)  # Efron (1975)
    half = (found.coefficient_upper - found.coefficient_lower) / 2
    np.testing.assert_allclose(half, 1.96 * np.sqrt(np.diag(covariance) / n), rtol=1e-3)
    middle = (0.5 - share) * WITHIN @ BETA
    square = middle @ covariance @ middle
    square += (1 + distance / 4 + (1 - 2 * share) * middle @ BETA) / v
    half = (found.intercept_upper - found.intercept_lower) / 2
    np.testing.assert_allclose(half, 1.96 * np.sqrt(square / n), rtol=1e-3)
    assert found.intercept == pytest.approx(intercept, rel=1e-6)


def draw(share, n, noise, rng):
    """A release of drawn records, with noise in units of the standard deviations."""
    S, *_ = moments(share)
    ill = rng.random(n) < share
    X = rng.standard_normal((n, 3)) @ np.linalg.cholesky(WITHIN).T
    X += np.where(ill[:, None], 1 - share, -share) * (WITHIN @ BETA)
    rows, scale = np.column_stack([ill, X]), np.sqrt(np.diag(S))
    errors = np.tril(rng.standard_normal((4, 4)), -1) * noise
    errors += errors.T + np.diag(rng.standard_normal(4) * noise * 2**0.5)
    moved = np.cov(rows.T, bias=True) / np.multiply.outer(scale, scale) + errors
    mean = rows.mean(axis=0) + rng.standard_normal(4) * noise / 2 * scale
    moved[0, 0] = mean[0] * (1 - mean[0]) / S[0, 0]  # as a release has it
    release = released(S, mean, n=n, noise=noise, means_sd=noise / 2)
    return replace(release, integers=np.rint(moved / release.unit).astype(np.int64))


@short_and_long("runs", 60, 1_000)
@pytest.mark.parametrize(
    ("share", "noise"), [(0.5, 1e-6), (0.3, 0.01), (0.05, 0.01), (0.3, 0.03), (0.05, 0.03)]
)
def test_intervals_cover(share, noise, runs):
    # Of three coefficients one counts of each release; false alarms are once in 1e6.
    rng, covered, of_intercept = np.random.default_rng(2), 0.0, 0
    narrow = 0.0
    intercept = moments(share)[2]
    for _ in range(runs):
        found = logistic(draw(share, 5_000, noise, rng), 0, [1, 2, 3])
        low, high = found.coefficient_lower, found.coefficient_upper
        covered += np.count_nonzero((low <= BETA) & (high >= BETA)) / 3
        narrow += np.count_nonzero(np.abs(found.coefficients - BETA) <= 0.2 * (high - low)) / 3
        of_intercept += found.intercept_lower <= intercept <= found.intercept_upper
    assert covered >= fewest(runs, 0.93)
    assert of_intercept >= fewest(runs, 0.90)
    assert narrow < fewest(runs, 0.93)


def log_odds(S, location):
    """Coefficients and intercept of the discriminant function, from the moments."""
    apart, (p, *means) = S[0, 1:] / S[0, 0], location
    beta = np.linalg.solve(S[1:, 1:] - S[0, 0] * np.multiply.outer(apart, apart), apart)
    return np.append(beta, np.log(p / (1 - p)) - (means + (0.5 - p) * apart) @ beta)


def test_the_error_of_noise_is_that_of_its_gradients():
    """Errors of b and of s^2 go together: without that, intervals are a fifth too narrow."""
    noise = 1e-4
    S, location, _ = moments(0.2, mean=0.7)
    S[0, 1:] = S[1:, 0] = 2 * S[0, 1:]  # an R^2 of 0.4
    found = logistic(released(S, location, n=10**15, noise=noise), 0, [1, 2, 3])
    scale, square, step = np.sqrt(np.diag(S)), np.zeros(4), 1e-6
    for i, j in zip(*np.triu_indices(4), strict=True):
        if j == 0:  # the share says this variance
            continue
        E = np.zeros((4, 4))
        E[i, j] = E[j, i] = step * scale[i] * scale[j]
        change = (log_odds(S + E, location) - log_odds(S - E, location)) / (2 * step)
        square += (change * noise) ** 2 * (2 if i == j else 1)
    low, high = found.coefficient_lower, found.coefficient_upper
    widths = [*(high - low), found.intercept_upper - found.intercept_lower]
    np.testing.assert_allclose(widths, 2 * 1.96 * np.sqrt(square), rtol=2e-3)


def test_intervals_are_infinite_where_those_of_the_linear_regression_are():
    found = logistic(draw(0.5, 1_000, 0.6, np.random.default_rng(0)), 0, [1, 2, 3])
    assert found.linear.noise.all()
    assert found.table()["noise"].all()
    assert not found.lower.any()
    assert np.isinf(found.upper).all()
    assert found.intercept_lower == -np.inf
    assert np.isfinite(found.coefficients).all()


def test_a_category_of_two_levels_is_explained_by_one():
    S, location, _ = moments(0.4)
    other = -np.eye(4)[:1]
    turn = np.vstack([np.eye(4), other])
    names = ("sex=f", "age", "dose", "pulse", "sex=m")
    location = np.append(location, 0.6)
    both = turn @ S @ turn.T + 1e-9 * np.eye(5)
    release = released(both, location, names=names)
    found, same = logistic(release, "sex", ["age", "dose"]), logistic(release, "sex=f", [1, 2])
    assert found.target == "sex=f"
    assert "sex=m is left out" in " ".join(found.notes)
    np.testing.assert_array_equal(found.coefficients, same.coefficients)
    assert logistic(release, "sex=f", "all").features == ("age", "dose", "pulse")
    turned = logistic(release, "sex=m", [1, 2])
    np.testing.assert_allclose(turned.coefficients, -found.coefficients, rtol=1e-5)
    with pytest.raises(ParameterError, match="levels of the target's own category, got sex=m"):
        logistic(release, "sex=f", ["age", "sex=m"])


def test_targets_of_other_values_are_refused():
    S, location, _ = moments(0.4)
    release = released(S, location)
    with pytest.raises(ParameterError, match=r"0 and 1, got 'age'.*binary.*bounds \(0, 1\)"):
        logistic(release, "age", ["dose"])
    declared = replace(release, making=replace(release.making, indicators=()))
    assert logistic(declared, "ill", ["dose"]).share == 0.4  # it varies as a share does
    fraction = replace(declared, feature_scale=declared.feature_scale * [0.7, 1, 1, 1])
    with pytest.raises(ParameterError, match="must be a column of 0 and 1, got 'ill'"):
        logistic(fraction, "ill", ["dose"])
    levels = ("team=a", "team=b", "team=c", "pulse")
    with pytest.raises(ParameterError, match="name those, all but one"):
        logistic(replace(release, column_names=levels), "team", ["pulse"])
    with pytest.raises(ParameterError, match="did you mean 'ill'"):
        logistic(release, "il")


def test_without_means_there_is_no_intercept():
    S, location, _ = moments(0.4)
    release = replace(released(S, location, n=10**9), location=None)
    found = logistic(release, 0, [1, 2, 3])
    np.testing.assert_allclose(found.coefficients, BETA, rtol=1e-5)
    assert (found.share, found.intercept, found.intercept_lower) == (None, None, None)
    assert "there is no intercept" in found.warning
    with pytest.raises(ParameterError, match="probability needs an intercept"):
        found.probability([[0.0, 0.0, 0.0]])


def with_flag(share, apart, flag=0.03):
    """A release of a target whose share is larger by `apart` among records with a flag."""
    S = np.diag([share * (1 - share), flag * (1 - flag)])
    S[0, 1] = S[1, 0] = S[1, 1] * apart
    release = released(S, np.array([share, flag]), n=10**7, names=("ill", "flag"))
    making = replace(release.making, bounds=((0.0, 1.0),) * 2, indicators=(0, 1))
    return logistic(replace(release, making=making), "ill", ["flag"])


def test_what_is_known_of_its_bias_is_said():
    S, location, _ = moments(0.4)
    assert logistic(released(S, location), 0, [1, 2, 3]).warning is None
    strong = S.copy()
    strong[0, 1:] = strong[1:, 0] = 2.2 * S[0, 1:]
    assert "effects this large" in logistic(released(strong, location), 0, [1, 2, 3]).warning
    rare, location, _ = moments(0.02)
    assert "The target is rare" in logistic(released(rare, location), 0, [1, 2, 3]).warning
    assert with_flag(0.3, 0.05).warning is None
    said = with_flag(0.02, 0.06)
    other = (0.0782 / 0.9218) / (0.0182 / 0.9818)  # of the shares with and without the flag
    assert f"with and without flag ({other:.3g}) have another odds ratio" in said.warning
    assert said.odds_ratio[0] > 2 * other
    explained = S[0, 1:] @ np.linalg.solve(S[1:, 1:], S[0, 1:]) / S[0, 0]
    S[0, 1:] = S[1:, 0] = (0.999 / explained) ** 0.5 * S[0, 1:]
    found = logistic(released(S, moments(0.4)[1]), 0, [1, 2, 3])
    assert "determine the target" in found.warning
    assert found.table()["noise"].all()
