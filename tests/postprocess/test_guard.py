"""The guard: limits, invariances, the bound on the norm of noise, and the promise itself.

The noise has fixed seeds. Of fits with new seeds the bounds fail for at most one in a thousand, by
design; what the tests allow is stated with them.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from hushcov.exceptions import DataError, ParameterError
from hushcov.postprocess import guard, guarded, noise_norm
from statistics_helpers import FALSE_ALARM, mostly_slow, short_and_long

ROOT = math.sqrt(2)


def norm(matrix):
    return float(np.abs(np.linalg.eigvalsh(matrix)).max())


def noise(generator, d, diagonal=ROOT):
    upper = np.triu(generator.normal(size=(d, d)), 1)
    return upper + upper.T + np.diag(diagonal * generator.normal(size=d))


def factor(d, strength, seed=0):
    """Correlations with one strong factor."""
    loadings = np.random.default_rng(seed).choice([-1.0, 1.0], d) * math.sqrt(strength / d)
    return np.outer(loadings, loadings) + (1 - strength / d) * np.eye(d)


# Limits


@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e12])
def test_without_noise_nothing_changes(scale):
    truth = factor(12, 5.0)
    scales = scale * 10.0 ** np.linspace(-6, 6, 12)
    found = guarded(truth, 0.0, 0.0, scales)
    np.testing.assert_array_equal(found.matrix, truth)
    assert not found.left_out.any()
    assert not found.changed


@pytest.mark.parametrize("d", [1, 2, 30, 200])
def test_noise_alone_gives_zero(d):
    """A variance is kept once in 10,000 matrices; of 20 that is one time in 500."""
    generator = np.random.default_rng(d)
    for _ in range(20):
        found = guarded(3.0 * noise(generator, d), 3.0, 3.0 * ROOT, np.ones(d))
        assert found.left_out.all()
        assert not found.matrix.any()


@pytest.mark.parametrize("scales", [np.ones(100), 10.0 ** np.linspace(-3, 3, 100)])
def test_one_strong_factor_is_kept(scales):
    """Noise of norm 2 under a factor of norm 30: as it is. Under one of 3: less than as it is."""
    generator, sd = np.random.default_rng(5), 0.05
    for strength, most in ((30.0, 0.1), (3.0, 0.6)):
        truth = factor(100, strength)
        found = guarded(truth + sd * noise(generator, 100), sd, ROOT * sd, scales)
        assert norm(found.matrix - truth) < most * norm(truth)
        assert not found.left_out.any()


def test_a_false_scale_does_not_drown_the_others():
    """A feature of no variance with a scale of 1e17: it is left out, the others stay."""
    truth = factor(20, 8.0)
    truth[0], truth[:, 0] = 0.0, 0.0
    scales = np.ones(20)
    scales[0] = 1e17
    found = guarded(truth + 0.02 * noise(np.random.default_rng(8), 20), 0.02, 0.02 * ROOT, scales)
    assert found.left_out.tolist() == [True] + [False] * 19
    assert norm(found.matrix - truth) < 0.4 * norm(truth)


# Invariances


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((np.ones((2, 3)), 1.0, 1.0, np.ones(2)), DataError),
        ((np.full((2, 2), np.nan), 1.0, 1.0, np.ones(2)), DataError),
        ((np.eye(2), -1.0, 1.0, np.ones(2)), ParameterError),
        ((np.eye(2), 1.0, math.inf, np.ones(2)), ParameterError),
        ((np.eye(2), 1.0, 1.0, np.ones(3)), ParameterError),
        ((np.eye(2), 1.0, 1.0, np.array([1.0, 0.0])), ParameterError),
        ((np.eye(2), 1.0, 1.0, np.array([1.0, math.inf])), ParameterError),
    ],
)
def test_refusals(arguments, error):
    with pytest.raises(error):
        guarded(*arguments)


# The norm of noise

FACTORS = {
    "1": np.ones(1),
    "2": np.ones(2),
    "10": np.ones(10),
    "40": np.ones(40),
    "40, linear": np.linspace(0.05, 1, 40),
    "40, one decade": 10.0 ** -np.linspace(0, 1, 40),
    "40, twelve decades": 10.0 ** -np.linspace(0, 12, 40),
    "one above 40": np.r_[1.0, np.full(39, 0.3)],
    "four above 40": np.r_[np.ones(4), np.full(36, 0.6)],
}


def norms_of_noise(factors, count, diagonal=ROOT, seed=21):
    generator = np.random.default_rng(seed)
    d, found = len(factors), []
    for _ in range(count // 500):
        draws = np.triu(generator.normal(size=(500, d, d)), 1)
        draws += draws.transpose(0, 2, 1)
        draws[:, np.arange(d), np.arange(d)] = diagonal * generator.normal(size=(500, d))
        values = np.linalg.eigvalsh(draws * np.outer(factors, factors))
        found.append(np.maximum(values[:, -1], -values[:, 0]))
    return np.concatenate(found)


@short_and_long("count", 4_000, 30_000)
@pytest.mark.parametrize("diagonal", mostly_slow([0.0, ROOT, 4.0], 1))
@pytest.mark.parametrize("name", FACTORS)
def test_noise_is_below_its_bound_and_the_bound_is_near(name, diagonal, count):
    """Exceeded by 0.1 % at most; false alarm below 1e-6. A bound that is 20 % less is refused.

    With a diagonal of another size than that of rotation-invariant noise it may be wider.
    """
    bound = noise_norm(3.0 * FACTORS[name], 1.0, diagonal) / 9
    drawn = norms_of_noise(FACTORS[name], count, diagonal)
    allowed = stats.binom.isf(FALSE_ALARM, count, 1e-3)
    assert np.sum(drawn > bound) <= allowed
    if diagonal == ROOT:
        assert bound < 1.2 * np.quantile(drawn, 0.999)
        assert np.sum(drawn > 0.8 * bound) > allowed


# The promise


def spectrum(generator, d):
    """A random covariance: flat, spiked, falling, wild or of low rank; often of unit variances."""
    values = (
        np.ones(d),
        np.where(np.arange(d) < 2, 10.0 ** generator.uniform(0, 1.5), 0.1),
        np.arange(1, d + 1) ** -generator.uniform(0.3, 2),
        np.exp(generator.normal(size=d) * generator.uniform(0.1, 2)),
        (np.arange(d) < max(1, d * generator.uniform())).astype(float),
    )[generator.integers(5)]
    basis = np.linalg.qr(generator.normal(size=(d, d)))[0]
    truth = (basis * values) @ basis.T
    size = np.sqrt(truth.diagonal())
    kind = generator.integers(3)
    if kind < 2:
        truth /= np.outer(size, size)
    if kind == 1:
        spread = 10.0 ** (0.7 * generator.uniform(-1, 1) * generator.normal(size=d))
        truth *= np.outer(spread, spread)
    return (truth + truth.T) / 2


def errors(method, draws, seed):
    """Errors over those of zero: in units of scales, of the data, and in deviations."""
    found = np.empty((draws, 3))
    for draw in range(draws):
        generator = np.random.default_rng([seed, draw])
        d = int(np.exp(generator.uniform(np.log(50) * (draw % 2), np.log(120))))
        truth = spectrum(generator, d)
        # Noise of the size of the whole, or of single variances.
        sd = norm(truth) / math.sqrt(d) * 10.0 ** generator.uniform(-2.5, 1)
        if draw % 2:
            sd = np.median(truth.diagonal()) * 10.0 ** generator.uniform(-1.3, -0.8)
        scales = 10.0 ** generator.uniform(-6, 6, d) if draw % 3 else np.ones(d)
        noisy = truth + sd * noise(generator, d)
        answer = method(noisy, sd, ROOT * sd, scales).matrix
        for unit, each in enumerate((np.ones(d), scales, truth.diagonal() ** -0.5)):
            factors = np.outer(each, each) / each.max() ** 2
            found[draw, unit] = norm((answer - truth) * factors) / norm(truth * factors)
    return found


# Above 1.05 may be one in 1,000. In the two units that are proved none was in 11,000 draws, and the
# seed is fixed. If a change draws other numbers, and 3 in 10,000 are above, which those do not
# rule out, this fails one time in 33 (100 draws) or 70 (3,000): look at the rate then.
@short_and_long("draws", 100, 3_000)
def test_hardly_ever_worse_than_zero(draws):
    found = errors(guarded, draws, 31)
    above = np.sum(found > 1.05, axis=0)
    assert above[:2].max() <= draws // 1_000
    assert above[2] <= 1 + draws // 1_000  # measured alone: deviations are guessed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "wrong"),
    [("_is_harmless", lambda unit: True), ("_capped", lambda estimate, unit: estimate)],
)
def test_the_promise_is_broken_without_a_part_of_the_guard(monkeypatch, name, wrong):
    """Releases as they are; and made positive semidefinite, without any threshold."""
    monkeypatch.setattr(guard, name, wrong)
    monkeypatch.setattr(guard, "_start", lambda block, noise: guard.project_psd(block))
    above = np.sum(errors(guarded, 300, 31) > 1.05, axis=0)
    assert above[:2].min() >= 5
