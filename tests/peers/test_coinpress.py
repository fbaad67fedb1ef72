"""CoinPress, the mechanism: sensitivity, budget, matrices, noise and release."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction

import dp_accounting
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushcov.exceptions import CapacityError, DataError, ParameterError, PrivacyConditionError
from hushcov.inputs import ReleaseInputs
from hushcov.noise import Entropy
from hushcov.peers import coinpress
from hushcov.peers.coinpress import (
    budget_shares,
    coinpress_parameters,
    release_coinpress,
    row_norm,
    run_steps,
    transformed_gram,
)
from hushcov.release import Release
from hushcov.sums.records import WatchedRecords
from hushcov.tables.sources import open_records
from statistics_helpers import FALSE_ALARM, normal_p_value


def inputs_for(**changes):
    declared = {"n_records": 10_000, "n_features": 6, "row_sparsity": 3}
    budget = {"epsilon": 1.0, "delta": 1e-6}
    return ReleaseInputs(**{**declared, **budget, **changes})


def seeded(seed=0):
    return Entropy(np.random.default_rng(seed), private=False)


# Sensitivity


def largest_change(d, norm_bound, sigma, diagonal_sigma):
    """The largest squared change over noise, of all pairs of integer rows up to the norm."""
    rows = np.array(list(itertools.product(range(-norm_bound, norm_bound + 1), repeat=d)))
    rows = rows[(rows**2).sum(axis=1) <= norm_bound**2]
    i, j = np.triu_indices(d)
    products = rows[:, i] * rows[:, j] / np.where(i == j, diagonal_sigma, sigma)
    square = (products**2).sum(axis=1)
    return float(np.max(square[:, None] + square - 2 * products @ products.T))


@pytest.mark.parametrize(("d", "norm_bound"), [(1, 5), (2, 5), (3, 3), (4, 2), (5, 1)])
def test_no_pair_of_small_rows_exceeds_the_sensitivity_and_axes_attain_it(d, norm_bound):
    sigmas, diagonal_sigmas = (7, 7, 7), (7, 9, 10)
    p = replace(
        coinpress_parameters(inputs_for(n_features=d, row_sparsity=1)),
        norm_bound=norm_bound,
        sigmas=sigmas,
        diagonal_sigmas=diagonal_sigmas,
    )
    for mu, sigma, diagonal_sigma in zip(p.mus, sigmas, diagonal_sigmas, strict=True):
        largest = largest_change(d, norm_bound, sigma, diagonal_sigma)
        assert largest <= mu**2
        if d > 1 and diagonal_sigma**2 <= 2 * sigma**2:
            assert largest == pytest.approx(mu**2, rel=1e-9, abs=0)
            assert largest == pytest.approx(2 * norm_bound**4 / diagonal_sigma**2, rel=1e-9, abs=0)


@st.composite
def neighbouring_records(draw):
    """Two records with ordinary and extreme coordinates, many of them equal up to the sign."""
    d = draw(st.integers(1, 5))
    numbers = st.sampled_from([0.0, 1.0, -1.0, 6.0, 1e300]) | st.floats(-20, 20)
    x = draw(st.lists(numbers, min_size=d, max_size=d))
    signs = draw(st.lists(st.sampled_from([1.0, -1.0, 0.0]), min_size=d, max_size=d))
    other = draw(st.lists(numbers, min_size=d, max_size=d))
    y = [a * s for a, s in zip(x, signs, strict=True)] if draw(st.booleans()) else other
    return np.array(x), np.array(y)


@settings(deadline=None, max_examples=100)
@given(
    pair=neighbouring_records(),
    bounds=st.sampled_from([(1.0, 1.0), (0.1, 5.0), (1e-4, 1e3)]),
    seed=st.integers(0, 2**20),
)
def test_replacing_a_record_never_exceeds_the_sensitivity(pair, bounds, seed):
    """Whatever matrix of the size that is allowed the earlier steps may have chosen."""
    d = len(pair[0])
    inputs = inputs_for(n_records=6, n_features=d, row_sparsity=1)
    p = coinpress_parameters(inputs, eigenvalue_bounds=bounds)
    generator = np.random.default_rng(seed)
    most = p.matrix_half_width
    matrix = generator.integers(-most, most, (d, d), endpoint=True).astype(np.float64)
    rest = generator.standard_normal((5, d))
    first, second = (
        transformed_gram(open_records(np.vstack([rest, record])), np.ones(d), p)(matrix)
        for record in pair
    )
    for sigma, diagonal_sigma, mu in zip(p.sigmas, p.diagonal_sigmas, p.mus, strict=True):
        total = Fraction(0)
        for i, j in itertools.combinations_with_replacement(range(d), 2):
            change = int(first[i, j]) - int(second[i, j])
            total += Fraction(change, diagonal_sigma if i == j else sigma) ** 2
        assert total <= Fraction(mu) ** 2


# Parameters


@pytest.mark.parametrize("d", [1, 2, 50, 1000])
@pytest.mark.parametrize("n_steps", [1, 2, 5])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 1e-9), (1.0, 1e-6), (10.0, 0.01)])
def test_parameters_spend_the_budget_and_no_more(d, n_steps, epsilon, delta):
    inputs = inputs_for(n_features=d, row_sparsity=1, epsilon=epsilon, delta=delta)
    p = coinpress_parameters(inputs, n_steps=n_steps)
    guarantee = p.budget().certificate
    spent = dp_accounting.get_epsilon_gaussian(1 / math.hypot(*p.mus), delta)
    assert epsilon * (1 - 1e-6) < spent <= epsilon * (1 + 1e-9)
    assert guarantee.transcript_epsilon == pytest.approx(spent, rel=1e-5, abs=0)
    assert len(p.mus) == n_steps
    assert guarantee.private


def test_shares_are_the_published_ones():
    assert budget_shares(1) == (1.0,)
    assert budget_shares(2) == (1 / 4, 3 / 4)
    assert budget_shares(3) == (1 / 8, 1 / 8, 3 / 4)
    assert budget_shares(5) == (1 / 16, 1 / 16, 1 / 16, 1 / 16, 3 / 4)
    p = coinpress_parameters(inputs_for())
    total = sum(mu**2 for mu in p.mus)
    assert [mu**2 / total for mu in p.mus] == pytest.approx([1 / 8, 1 / 8, 3 / 4], rel=1e-6, abs=0)


def test_noise_and_norms():
    """Variance gamma^4 / (rho n^2) on the diagonal, as published; half of it off the diagonal."""
    p = coinpress_parameters(inputs_for())
    for sigma, diagonal_sigma, mu in zip(p.sigmas, p.diagonal_sigmas, p.mus, strict=True):
        published = p.norm_bound**2 / math.sqrt(mu**2 / 2)
        assert diagonal_sigma == pytest.approx(published, rel=1e-6, abs=0)
        assert sigma * math.sqrt(2) == pytest.approx(published, rel=1e-6, abs=0)
    # 10 + 2 sqrt(23.02585) + 4.60517 = 24.20222
    assert row_norm(10) ** 2 == pytest.approx(24.20222, abs=1e-5)
    assert p.slack == pytest.approx(math.sqrt(6e-4) + 3e-4, rel=1e-6, abs=0)


def test_bounds_come_from_the_row_sparsity():
    assert coinpress_parameters(inputs_for()).eigenvalue_bounds == (0.1, 3.0)
    given_bounds = coinpress_parameters(inputs_for(), eigenvalue_bounds=np.array([0.5, 2]))
    assert given_bounds.eigenvalue_bounds == (0.5, 2.0)


def test_what_was_spent_comes_off_the_budget():
    p = coinpress_parameters(inputs_for(before=0.1))
    assert math.hypot(*p.mus) < math.hypot(*coinpress_parameters(inputs_for()).mus)
    assert math.hypot(0.1, *p.mus) == pytest.approx(p.budget().mu)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n_steps": 0}, "n_steps"),
        ({"n_steps": 21}, "n_steps"),
        ({"n_steps": 2.0}, "n_steps"),
        ({"eigenvalue_bounds": 1.0}, "eigenvalue_bounds"),
        ({"eigenvalue_bounds": "ab"}, "eigenvalue_bounds"),
        ({"eigenvalue_bounds": (1.0,)}, "eigenvalue_bounds"),
        ({"eigenvalue_bounds": (0.0, 1.0)}, "eigenvalue_bounds"),
        ({"eigenvalue_bounds": (2.0, 1.0)}, "smaller one first"),
        ({"eigenvalue_bounds": (1.0, math.inf)}, "eigenvalue_bounds"),
        ({"eigenvalue_bounds": (math.nan, 1.0)}, "eigenvalue_bounds"),
        ({"eigenvalue_bounds": (1e-10, 1.0)}, "eigenvalue_bounds"),
        ({"eigenvalue_bounds": ("a", 1.0)}, "eigenvalue_bounds"),
    ],
)
def test_bad_choices_are_refused(changes, words):
    with pytest.raises(ParameterError, match=words):
        coinpress_parameters(inputs_for(), **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"norm_bound": 0},
        {"record_half_width": 0},
        {"matrix_half_width": 0},
        {"sigmas": (), "diagonal_sigmas": ()},
        {"sigmas": (5,)},
        {"sigmas": (0, 5, 5)},
        {"sigmas": (2**41,) * 3, "diagonal_sigmas": (2**41,) * 3},
        {"diagonal_sigmas": (1, 1, 1)},
    ],
)
def test_inconsistent_parameters_are_refused(changes):
    with pytest.raises(ParameterError):
        replace(coinpress_parameters(inputs_for()), **changes)


def test_what_integers_do_not_hold_is_refused():
    with pytest.raises(CapacityError, match="larger budget"):
        coinpress_parameters(inputs_for(n_records=10**18))
    with pytest.raises(CapacityError, match="closer together"):
        coinpress_parameters(
            inputs_for(n_features=10**4, row_sparsity=1), eigenvalue_bounds=(1e-8, 1e9)
        )


@pytest.mark.parametrize("step", [0, 2])
def test_too_little_noise_in_any_step_is_refused(step):
    p = coinpress_parameters(inputs_for())
    sigmas = list(p.sigmas)
    sigmas[step] = int(sigmas[step] * (1 - 1e-4))
    weak = replace(p, sigmas=tuple(sigmas))
    with pytest.raises(PrivacyConditionError):
        release_coinpress(open_records(np.ones((10_000, 6))), np.ones(6), weak, UNTOUCHABLE)


# What is computed from the noisy matrices


def no_noise(monkeypatch):
    def nothing(generator, d, sigma, diagonal_sigma):
        return np.zeros((d, d), dtype=np.int64)

    monkeypatch.setattr(coinpress, "symmetric_noise", nothing)


def spread(truth, repeats):
    """Records whose second moments are `truth`, none of them far out under it."""
    d = len(truth)
    rows = math.sqrt(d) * np.linalg.cholesky(truth).T
    return np.tile(np.vstack([rows, -rows]), (repeats, 1))


@pytest.mark.parametrize("n_steps", [1, 2, 3, 6])
def test_without_noise_the_answer_is_the_second_moments(monkeypatch, n_steps):
    """Whatever the number of steps, and however skew the covariance: transposes are right."""
    no_noise(monkeypatch)
    generator = np.random.default_rng(3)
    factor = generator.standard_normal((4, 4))
    truth = factor @ factor.T + 0.1 * np.eye(4)
    inputs = inputs_for(n_records=8000, n_features=4)
    bounds = (0.05, 1.5 * float(np.linalg.eigvalsh(truth)[-1]))
    p = coinpress_parameters(inputs, n_steps=n_steps, eigenvalue_bounds=bounds)
    release = release_coinpress(open_records(spread(truth, 1000)), np.ones(4), p, seeded())
    np.testing.assert_allclose(release.covariance(), truth, atol=3e-4 * bounds[1])


def test_later_steps_see_records_of_unit_covariance(monkeypatch):
    no_noise(monkeypatch)
    truth = np.diag([4.0, 1.0, 0.25, 1.0]) + 0.2
    inputs = inputs_for(n_records=80_000, n_features=4)
    p = coinpress_parameters(inputs, n_steps=4, eigenvalue_bounds=(0.1, 6.0))
    gram_of = transformed_gram(open_records(spread(truth, 10_000)), np.ones(4), p)
    grams = run_steps(gram_of, p, np.random.default_rng(0)).noisy_grams
    moments = [gram * p.step**2 / 80_000 for gram in grams]
    np.testing.assert_allclose(moments[0], truth / 6, atol=1e-3)
    # What is added to the eigenvalues before the inverse is taken keeps them below 1.
    values = np.linalg.eigvalsh(moments[-1])
    assert 1 - 3 * p.slack < values[0] <= values[-1] < 1


@pytest.mark.parametrize("bounds", [(1.0, 1.0), (0.1, 10.0), (1e-4, 1e3), (1e4, 1e9)])
@pytest.mark.parametrize("epsilon", [1e-3, 10.0])
def test_matrices_keep_within_the_bounds_whatever_the_noise(bounds, epsilon):
    d = 5
    inputs = inputs_for(n_records=50, n_features=d, epsilon=epsilon)
    p = coinpress_parameters(inputs, n_steps=8, eigenvalue_bounds=bounds)
    gram_of = transformed_gram(open_records(np.ones((50, d))), np.ones(d), p)
    seen = []

    def watched(matrix):
        seen.append(matrix)
        return gram_of(matrix)

    for seed in range(5):
        integers = run_steps(watched, p, np.random.default_rng(seed)).integers
        assert np.abs(integers).max() < 2**48
    assert len(seen) == 40
    for matrix in seen:
        np.testing.assert_array_equal(matrix, matrix.T)
        assert np.abs(matrix).max() <= p.matrix_half_width
        assert d * p.record_half_width * np.abs(matrix).max() < 2**53
        values = np.linalg.eigvalsh(matrix * p.matrix_step)
        assert values[0] > 31 / 32 / math.sqrt(bounds[1])
        assert values[-1] < 33 / 32 / math.sqrt(bounds[0])


def test_negative_eigenvalues_are_dropped():
    """On records of zeros the answer is noise without its negative eigenvalues."""
    inputs = inputs_for(n_records=20, n_features=3)
    p = coinpress_parameters(inputs, n_steps=1, eigenvalue_bounds=(2.0, 2.0))
    gram_of = transformed_gram(open_records(np.zeros((20, 3))), np.ones(3), p)
    transcript = run_steps(gram_of, p, np.random.default_rng(4))
    values = np.linalg.eigvalsh(transcript.noisy_grams[0] * p.step**2 / 20)
    assert values[0] < 0 < values[-1]
    found = np.linalg.eigvalsh(transcript.integers * p.unit)
    np.testing.assert_allclose(found, np.sort(2 * np.maximum(values, 0)), atol=1e-6, rtol=1e-6)


# Release


class Untouchable:
    """Stands for a generator, or for records, and fails the test on any use."""

    n_records, n_features = 10_000, 7

    def __getattr__(self, name):
        raise AssertionError(f"{name} was used although the release must be refused")


UNTOUCHABLE = Entropy(Untouchable(), private=False)
SCALE = np.array([1, 2, 3, 0.5, 1, 1])


@pytest.fixture(scope="module")
def sample():
    return np.random.default_rng(5).standard_normal((10_000, 6)) * SCALE


def test_bad_sizes_scales_and_records_are_refused_before_noise_is_drawn(sample):
    p = coinpress_parameters(inputs_for())
    with pytest.raises(DataError, match="7: declare"):
        release_coinpress(Untouchable(), np.ones(7), p, UNTOUCHABLE)
    for scale in (np.ones(6) * np.nan, -np.ones(6), np.full(6, 1e-200)):
        with pytest.raises(ParameterError, match="feature_scale"):
            release_coinpress(open_records(sample), scale, p, UNTOUCHABLE)
    with pytest.raises(DataError, match="features"):
        release_coinpress(open_records(sample), np.ones(5), p, UNTOUCHABLE)
    broken = np.where(sample == sample[77, 3], np.nan, sample)
    with pytest.raises(DataError, match="finite"):
        release_coinpress(open_records(broken), np.ones(6), p, UNTOUCHABLE)
    with pytest.raises(ParameterError, match="entropy"):
        release_coinpress(open_records(sample), np.ones(6), p, np.random.default_rng(0))


def test_the_release_is_close_symmetric_and_positive_semidefinite(sample, tmp_path):
    p = coinpress_parameters(inputs_for())
    passes = []
    records = WatchedRecords(open_records(sample), lambda: None, passes.append)
    release = release_coinpress(records, SCALE, p, seeded())
    assert sum(passes) == 3 * 10_000
    np.testing.assert_array_equal(release.integers, release.integers.T)
    assert np.linalg.eigvalsh(release.covariance())[0] > -1e-6
    error = release.covariance() / np.multiply.outer(SCALE, SCALE) - np.eye(6)
    assert np.linalg.norm(error, 2) < 0.3
    assert (release.mechanism, release.noise_sd, release.unit) == ("coinpress", None, p.unit)
    assert not release.guarantee.private
    assert Release.read(release.write(tmp_path / "release")) == release
    json.dumps(p.to_dict())


def variance_p_value(draws, deviation):
    """P-value of the mean square of normal draws, whose relative deviation is sqrt(2/number)."""
    square = float(np.mean((draws / deviation) ** 2))
    return normal_p_value((square - 1) * math.sqrt(draws.size / 2))


def test_the_noise_of_every_step_has_the_declared_law():
    """On records that are all zero; the same test rejects deviations that are 10 % wrong."""
    d = 40
    inputs = inputs_for(n_records=4, n_features=d)
    p = coinpress_parameters(inputs, eigenvalue_bounds=(1.0, 1.0))
    generator = np.random.default_rng(11)

    def zeros(matrix):
        return np.zeros((d, d), dtype=np.int64)

    grams = np.stack([run_steps(zeros, p, generator).noisy_grams for _ in range(60)], axis=1)
    offs = grams[:, :, *np.triu_indices(d, 1)].reshape(3, -1)
    diagonals = np.diagonal(grams, axis1=2, axis2=3).reshape(3, -1)
    for draws, sigmas in ((offs, p.sigmas), (diagonals, p.diagonal_sigmas)):
        for each, sigma in zip(draws, sigmas, strict=True):
            assert variance_p_value(each, sigma) > FALSE_ALARM
            assert normal_p_value(each.mean() / sigma * math.sqrt(each.size)) > FALSE_ALARM
            for wrong in (0.9, 1.1):
                assert variance_p_value(each, sigma * wrong) < FALSE_ALARM
    # Noise of one step is not used again in another.
    for one, other in itertools.combinations(range(3), 2):
        product = offs[one] / p.sigmas[one] * (offs[other] / p.sigmas[other])
        assert normal_p_value(product.mean() * math.sqrt(product.size)) > FALSE_ALARM
