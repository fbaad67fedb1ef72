"""Conditional means from a release."""

from dataclasses import replace

import numpy as np
import pytest
from answer_documents import document, fewest

from hushcov.answers.conditional import conditional
from hushcov.exceptions import ParameterError
from hushcov.release.document import Making

D = 4
SCALE = np.array([1.0, 10.0, 0.1, 2.0])
COVARIANCE = (np.full((D, D), 0.5) + 0.5 * np.eye(D)) * np.multiply.outer(SCALE, SCALE)
MEAN = np.array([1.0, -20.0, 0.3, 4.0])
NAMES = ("age", "weight", "pulse", "temp")
GIVEN = {"weight": -5.0, "temp": 3.0}
RUNS = 200


def expected(target):
    on = [1, 3]
    b = np.linalg.solve(COVARIANCE[np.ix_(on, on)], COVARIANCE[on, target])
    mean = MEAN[target] + b @ (np.array([-5.0, 3.0]) - MEAN[on])
    return mean, np.sqrt(COVARIANCE[target, target] - b @ COVARIANCE[on, target])


def test_without_noise_it_is_the_conditional_law():
    release = document(COVARIANCE, n=10**12, location=MEAN, column_names=NAMES)
    found = conditional(release, GIVEN)
    assert found.features == ("age", "pulse")
    assert found.given == GIVEN
    for place, target in enumerate((0, 2)):
        mean, deviation = expected(target)
        assert found.mean[place] == pytest.approx(mean, rel=1e-5)
        assert found.deviation[place] == pytest.approx(deviation, rel=1e-5)
    np.testing.assert_allclose(found.unconditional, MEAN[[0, 2]])
    np.testing.assert_allclose(found.unconditional_deviation, SCALE[[0, 2]], rtol=1e-6)
    assert list(found.table()) == [
        *("feature", "mean", "lower", "upper", "deviation"),
        *("unconditional_mean", "unconditional_deviation", "used"),
    ]


def test_intervals_cover_and_half_of_them_does_not():
    rng = np.random.default_rng(5)
    n, covered, narrow = 2_000, 0, 0
    noise = 0.03 * np.sqrt(COVARIANCE.diagonal())
    making = Making(n_records=n, means_sd=tuple(noise))
    truth = expected(0)[0]
    root = np.linalg.cholesky(COVARIANCE / n)
    for _ in range(RUNS):
        location = MEAN + root @ rng.standard_normal(D) + noise * rng.standard_normal(D)
        release = document(COVARIANCE, n=n, noise=0.05, rng=rng, location=location, making=making)
        found = conditional(release, {1: -5.0, 3: 3.0}, 0)
        covered += found.lower[0] <= truth <= found.upper[0]
        narrow += abs(found.mean[0] - truth) < (found.upper[0] - found.lower[0]) / 4
    assert covered >= fewest(RUNS)
    assert narrow < fewest(RUNS)


def test_public_means_take_the_place_of_those_that_were_not_released():
    release = document(COVARIANCE, column_names=NAMES)
    with pytest.raises(ParameterError, match="means is required for 'weight'"):
        conditional(release, GIVEN, "age")
    means = dict(zip(NAMES, MEAN, strict=True))
    found = conditional(release, GIVEN, "age", means=means)
    assert found.mean[0] == pytest.approx(expected(0)[0], rel=1e-5)
    assert found.warning is None


@pytest.mark.parametrize(
    ("given", "features", "words"),
    [
        *(({}, None, "given must map"), ([1.0], None, "no mapping")),
        ({"weihgt": 1.0}, None, "did you mean 'weight'"),
        *(({"weight": np.inf}, None, "finite"), ({"weight": "much"}, None, "numbers")),
        ({"weight": 1.0}, ["weight"], "others than those given"),
    ],
)
def test_bad_questions_are_refused(given, features, words):
    release = document(COVARIANCE, column_names=NAMES, location=MEAN)
    with pytest.raises(ParameterError, match=words) as caught:
        conditional(release, given, features)
    assert "much" not in str(caught.value)


def test_without_a_partner_the_interval_is_not_that_of_the_mean_of_all():
    """Noise hides which columns matter: an interval about the mean would miss nearly always."""
    d = 13
    S = np.full((d, d), 0.5) + 0.5 * np.eye(d)
    rng, given = np.random.default_rng(0), dict.fromkeys(range(1, d), 2.0)
    truth = np.linalg.solve(S[1:, 1:], S[1:, 0]).sum() * 2
    for _ in range(5):
        release = document(S, n=100_000, noise=0.2, rng=rng, location=np.zeros(d))
        release = replace(release, making=replace(release.making, threshold=2.0))
        found = conditional(release, given, 0)
        assert found.lower[0] <= truth <= found.upper[0]
