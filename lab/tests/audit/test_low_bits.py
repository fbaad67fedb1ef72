"""The attack on the low bits of noisy doubles: it breaks naive noise, and fails against hushcov.

Small doubles come in finer steps than large ones. A release y of s plus noise, rounded to doubles,
betrays that the value was not s if (y - s) + s is not y again: no noise leads from s to y. This is
the porous noise of Mironov (2012), shown for Gaussian samplers by Jin et al. (2022), with
remedies by Haney et al. (2022). Mironov's own attack finds the uniform of
53 bits that led to a Laplace value.

hushcov releases integers with noise that can take every value, times a public unit, so the attack
must do no better than |p - q| <= (e^epsilon - 1 + 2 delta) / (e^epsilon + 1) for neighbours.

Seeds are fixed; with fresh noise each assertion would fail at most once in a million runs.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

from hushcov.fit.gaussian.mechanism import gaussian_parameters, release_gaussian
from hushcov.fit.screened.mechanism import ScreenedDesign, release_screened, screened_parameters
from hushcov.inputs import CalibratedInputs, ReleaseInputs
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.noise import Entropy
from hushcov.kernel.sums.gram import row_bounded_gram, second_moments
from hushcov.paper.mechanism import Design, calibrated_parameters, grid_for, release_multiscale
from hushcov.tables.sources import ArrayRecords
from sessions import certified
from statistics_helpers import FALSE_ALARM, short_and_long

EPSILON, DELTA = 0.5, 1e-6
ALLOWED = (math.exp(EPSILON) - 1 + 2 * DELTA) / (math.exp(EPSILON) + 1)
N, D = 50, 30
UPPER = np.triu_indices(D)
each_length = short_and_long("runs", 120, 300)


def neighbours():
    """One record with all coordinates large, or zero in its place; the other records are zero."""
    loud, quiet = np.zeros((N, D)), np.zeros((N, D))
    loud[0] = 5.0
    return quiet, loud


def reachable(released, value):
    """Whether some double added to `value` gives the released one."""
    return (released - value) + value == released


def betrayals(draw, value, seed, runs):
    """For each run, how many released entries cannot have come from `value`."""
    generator = np.random.default_rng(seed)
    return np.array([np.sum(~reachable(draw(generator), value)) for _ in range(runs)])


def advantage(first, second):
    """P(attack says second) on the second dataset less that on the first.

    The number of betrayals from which on it says so, or below which, is chosen on half of the
    runs and scored on the other half.
    """
    half = len(first) // 2

    def gain(threshold, part):
        return np.mean(second[part] >= threshold) - np.mean(first[part] >= threshold)

    train, score = slice(half), slice(half, None)
    candidates = np.unique(np.concatenate([first[train], second[train]]))
    best = max(candidates, key=lambda threshold: abs(gain(threshold, train)))
    return float(np.sign(gain(best, train)) * gain(best, score))


def slack(runs):
    """By how much two observed rates differ more than true ones once in a million: Hoeffding."""
    return math.sqrt(math.log(1 / FALSE_ALARM) / (runs // 2))


def gaussian_setting():
    parameters = gaussian_parameters(ReleaseInputs(N, D, 3, EPSILON, DELTA), row_norm=3.0)
    grid = FeatureGrid(np.ones(D), parameters.radius, parameters.half_width)
    values = [
        row_bounded_gram(ArrayRecords(X), grid, parameters.norm_bound)[UPPER] * parameters.unit
        for X in neighbours()
    ]

    def draw(X, generator):
        entropy = Entropy(generator, private=False)
        return release_gaussian(certified(X, parameters, entropy), np.ones(D), parameters)

    return parameters, values, draw


def screened_setting():
    inputs = ReleaseInputs(N, D, 3, EPSILON, DELTA)
    design = ScreenedDesign(0.4, 1.2, 2, 0.5, 0.6, 1.0, 3.0)
    parameters = screened_parameters(inputs, design)
    values = [(X.T @ X / N)[UPPER] for X in neighbours()]

    def draw(X, generator):
        entropy = Entropy(generator, private=False)
        return release_screened(certified(X, parameters, entropy), np.ones(D), parameters)

    return parameters, values, draw


def multiscale_setting():
    inputs = CalibratedInputs(N, D, 3, EPSILON, DELTA, 1.0)
    design = Design(3.0, 0.25, 1, 1, 1.0, 1.0, 1.0, math.inf, 0.0)
    parameters = calibrated_parameters(inputs, design, "value")
    moments = [second_moments(ArrayRecords(X), grid_for(parameters)) for X in neighbours()]
    values = [m.gram[UPPER] * (m.grid.step**2 / N) for m in moments]

    def draw(X, generator):
        moments_of = moments[int(X.any())]
        return release_multiscale(moments_of, parameters, Entropy(generator, private=False))

    return parameters, values, draw


OURS = {
    "gaussian": gaussian_setting,
    "screened": screened_setting,
    "multiscale values": multiscale_setting,
}


@each_length
@pytest.mark.parametrize("law", ["normal", "laplace"])
def test_naive_noise_is_broken(law, runs):
    """The noise of `release_gaussian`, in doubles, and Laplace noise of the same deviation.

    The attack never errs on the dataset that it names, and is surer than epsilon allows.
    """
    parameters, (quiet, loud), _ = gaussian_setting()
    on_diagonal = UPPER[0] == UPPER[1]
    deviation = np.where(on_diagonal, parameters.diagonal_noise_sd, parameters.noise_sd)

    def naive(value, generator):
        if law == "normal":
            return value + deviation * generator.standard_normal(len(value))
        return laplace(value, deviation / math.sqrt(2), generator)

    from_loud = betrayals(lambda generator: naive(loud, generator), loud, seed=1, runs=runs)
    from_quiet = betrayals(lambda generator: naive(quiet, generator), loud, seed=2, runs=runs)
    assert not from_loud.any()
    assert advantage(from_loud, from_quiet) > 0.95 > ALLOWED + slack(runs)


@each_length
@pytest.mark.parametrize("name", OURS)
def test_the_attack_fails_against_our_releases(name, runs):
    """False-alarm rate 1e-6."""
    _, (_, loud), draw = OURS[name]()
    counts = [
        betrayals(functools.partial(doubles, draw, X), loud, seed, runs)
        for seed, X in enumerate(neighbours())
    ]
    assert advantage(*counts) <= ALLOWED + slack(runs)


@pytest.mark.parametrize("name", OURS)
def test_released_doubles_are_integers_times_one_number(name):
    """So the digits of an entry are a function of an integer that is released anyway."""
    _, _, draw = OURS[name]()
    generator = np.random.default_rng(3)
    for X in neighbours():
        release = draw(X, generator)
        assert release.integers.dtype == np.int64
        np.testing.assert_array_equal(release.covariance(), release.integers * release.unit)


def doubles(draw, X, generator):
    return draw(X, generator).covariance()[UPPER]


def laplace(value, scale, generator):
    """Laplace noise as naive code has it: a sign and the logarithm of a uniform of 53 bits."""
    uniform = 1 - generator.random(len(value))
    sign = np.where(generator.random(len(value)) < 0.5, -1.0, 1.0)
    return value + sign * (scale * np.log(uniform))


def is_laplace(released, value, scale):
    """Mironov's attack: whether some uniform of 53 bits, by `laplace`, leads to the release."""
    distance = released - value
    nearest = np.rint(np.exp(-np.abs(distance) / scale) * 2.0**53)
    found = np.zeros(len(released), dtype=bool)
    for step in range(-40, 41):
        uniform = np.clip(nearest + step, 1, 2**53) * 2.0**-53
        size = scale * np.log(uniform)
        found |= (value + size == released) | (value - size == released)
    return found


def test_mironovs_attack_breaks_one_naive_laplace_value():
    """Epsilon 0.1 allows an advantage of 0.05 on the values 0 and 1; one look has far more."""
    epsilon, draws = 0.1, 20_000
    generator = np.random.default_rng(4)
    zero = laplace(np.zeros(draws), 1 / epsilon, generator)
    one = laplace(np.ones(draws), 1 / epsilon, generator)
    assert is_laplace(zero, 0.0, 1 / epsilon).all()
    missed = 1 - is_laplace(one, 0.0, 1 / epsilon).mean()
    assert missed > 0.3 > math.tanh(epsilon / 2) + math.sqrt(math.log(1 / FALSE_ALARM) / draws)
