"""The inequalities of docs/proofs/lower_bound.md, evaluated, step by step.

Statistical assertions raise a false alarm at most once in a million, and each is shown to reject a
wrong constant.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import linalg, optimize, stats

from hushcov.calibration import calibrate_gaussian
from hushcov.exceptions import ParameterError
from hushcov_lab.audit.tracing import (
    LARGEST_ERROR,
    BlockModel,
    least_records,
    tracing_statistic,
    whitened,
)
from statistics_helpers import FALSE_ALARM, disagreements, normal_p_value

SIZES = [(1, 1), (4, 1), (4, 2), (5, 2), (5, 3), (6, 6), (7, 4)]


def agrees(draws, expected):
    """Whether a mean is what it should be; the draws are many and have light tails."""
    error = np.std(draws, ddof=1) / math.sqrt(len(draws))
    return normal_p_value((np.mean(draws) - expected) / error) >= FALSE_ALARM


def uniform(model, draws, generator):
    """Draw W uniformly from ||W|| <= 1 in E, by rejection from the box of its entries."""
    found = []
    for size in model.sizes:
        kept = np.empty((0, size, size))
        while len(kept) < draws:
            box = generator.uniform(-1, 1, (4 * draws, size, size))
            box = np.triu(box) + np.swapaxes(np.triu(box, 1), 1, 2)
            kept = np.append(kept, box[np.linalg.norm(box, 2, axis=(1, 2)) <= 1], axis=0)
        found.append(kept[:draws])
    return [linalg.block_diag(*blocks) for blocks in zip(*found, strict=True)]


# Setting


@pytest.mark.parametrize(("d", "k"), SIZES)
def test_unknown_numbers(d, k):
    model = BlockModel(d, k, LARGEST_ERROR)
    group = np.arange(d) // k
    assert model.dimension == np.sum(np.triu(np.equal.outer(group, group)))
    assert model.sizes.sum() == d
    if d % k == 0:
        assert model.dimension == d * (k + 1) / 2


def test_the_blocks_that_divide_nothing_lose_half_at_most():
    for d in range(1, 80):
        for k in range(1, d + 1):
            dimension = BlockModel(d, k, LARGEST_ERROR).dimension
            assert dimension >= d * (k + 1) / 4
            assert dimension - (dimension + 1) / 4 >= dimension / 2  # the end of step 3


# Step 1


@pytest.mark.parametrize(("d", "k"), SIZES)
def test_the_restricted_estimate_is_in_the_class_and_at_most_twice_as_far(d, k):
    model, generator = BlockModel(d, k, LARGEST_ERROR), np.random.default_rng(d)
    farther = 0
    for size in np.repeat([0.01, 0.3, 3.0], 40):
        covariance = model.draw(generator)
        estimate = covariance + size * generator.standard_normal((d, d))  # not symmetric either
        restricted = model.restrict(estimate)
        outside = np.array(restricted)
        group = np.arange(d) // k
        outside[np.equal.outer(group, group)] = 0
        assert not outside.any()
        assert np.linalg.norm(restricted - np.eye(d), 2) <= model.radius + 1e-12
        error = np.linalg.norm(restricted - covariance, 2)
        before = np.linalg.norm(estimate - covariance, 2)
        assert error <= min(2 * before, 2 * model.radius) + 1e-12
        farther += error > before / 2
    assert farther > 0  # a factor of 1/2 in the place of 2 is refuted


# Step 2


@pytest.mark.parametrize(("d", "k"), [(1, 1), (2, 2), (4, 2), (5, 2)])
def test_the_normalisation_of_the_prior(d, k):
    model = BlockModel(d, k, LARGEST_ERROR)
    drawn = uniform(model, 2500, np.random.default_rng(d))
    heights = 1 - np.array([np.linalg.norm(each, 2) for each in drawn])
    assert agrees(heights, 1 / (model.dimension + 1))
    assert not agrees(heights, 1 / model.dimension)


def entries(matrices):
    """Return the entries i <= j, and the norm of what is beside the identity."""
    rows = []
    for each in matrices:
        beside = each - np.eye(len(each))
        rows.append([*each[np.triu_indices(len(each))], np.linalg.norm(beside, 2)])
    return np.array(rows)


def test_covariances_are_drawn_from_the_prior():
    model, generator = BlockModel(3, 2, LARGEST_ERROR), np.random.default_rng(5)
    drawn = entries(model.draw(generator) for _ in range(1500))
    balls = uniform(model, 8000, generator)
    heights = np.array([1 - np.linalg.norm(each, 2) for each in balls])
    kept = np.flatnonzero(generator.random(len(balls)) < heights)[:1500]
    expected = entries(np.eye(3) + model.radius * balls[place] for place in kept)
    assert len(kept) > 1000
    assert disagreements(drawn, expected) == []
    flat = entries(np.eye(3) + model.radius * each for each in balls[:1500])
    assert disagreements(flat, expected) != []


def test_the_gradient_of_the_norm_has_trace_norm_1():
    """By central differences in an orthonormal basis of E, at random points."""
    model, generator = BlockModel(5, 3, LARGEST_ERROR), np.random.default_rng(2)
    for _ in range(20):
        W = model.draw(generator) - np.eye(5)
        gradient = np.zeros((5, 5))
        for basis in orthonormal(model):
            moved = [np.linalg.norm(W + step * basis, 2) for step in (1e-6, -1e-6)]
            gradient += (moved[0] - moved[1]) / 2e-6 * basis
        assert np.linalg.norm(gradient, "nuc") == pytest.approx(1, rel=1e-4, abs=0)
        assert np.linalg.matrix_rank(gradient, tol=1e-4) == 1


def orthonormal(model):
    """Return an orthonormal basis of E."""
    d, k = model.n_features, model.row_sparsity
    found = []
    for i, j in itertools.combinations_with_replacement(range(d), 2):
        if i // k == j // k:
            basis = np.zeros((d, d))
            basis[i, j] = basis[j, i] = 1 if i == j else math.sqrt(0.5)
            found.append(basis)
    return found


# Step 3


@pytest.mark.parametrize(("d", "k"), [(4, 2), (5, 3), (3, 3), (3, 1)])
def test_the_statistic_of_a_sample_covariance_sums_to_the_unknown_numbers(d, k):
    model, generator = BlockModel(d, k, LARGEST_ERROR), np.random.default_rng([d, k])
    covariance = model.draw(generator)
    root = np.linalg.cholesky(covariance)
    group = np.arange(d) // k
    sums = []
    for _ in range(1500):
        rows = generator.standard_normal((3, d)) @ root.T
        sample = np.where(np.equal.outer(group, group), rows.T @ rows / 3, 0)
        sums.append(tracing_statistic(rows, sample, covariance).sum())
    assert agrees(sums, model.dimension)
    assert not agrees(sums, 1.2 * model.dimension)
    assert not agrees(2 * np.array(sums), model.dimension)  # without the half of the score


def test_the_statistic_of_a_clipped_estimate_sums_to_its_divergence():
    """Divergence by central differences, the same normals on either side."""
    model, generator = BlockModel(3, 2, LARGEST_ERROR), np.random.default_rng(8)
    covariance = np.eye(3) + 0.6 * (model.draw(generator) - np.eye(3))
    step, n = 1e-4, 6
    moved = [
        (basis, *(np.linalg.cholesky(covariance + sign * step * basis) for sign in (1, -1)))
        for basis in orthonormal(model)
    ]

    def estimate(rows):
        return model.restrict(rows.T @ rows / n)

    sums, divergences, clipped = [], [], 0
    for _ in range(800):
        normals = generator.standard_normal((n, 3))
        rows = normals @ np.linalg.cholesky(covariance).T
        M = estimate(rows)
        clipped += np.linalg.norm(M - np.eye(3), 2) > 0.999 * model.radius
        sums.append(tracing_statistic(rows, M, covariance).sum())
        divergences.append(
            sum(
                np.sum(basis * (estimate(normals @ up.T) - estimate(normals @ down.T)))
                for basis, up, down in moved
            )
            / (2 * step)
        )
    difference = np.array(sums) - divergences
    assert clipped > 300
    assert agrees(difference, 0)
    assert not agrees(difference + 0.5 * np.array(sums), 0)
    assert not agrees(sums, model.dimension)  # of this estimate it is much smaller


def test_accuracy_forces_the_sum_over_the_prior():
    """E sum C >= D - (D + 1) a / w, a the mean error under the uniform law; with equality for I.

    A factor of D in the place of D + 1 is refuted by the estimate I, whose sum is zero.
    """
    model, generator = BlockModel(3, 2, LARGEST_ERROR), np.random.default_rng(12)
    D, n = model.dimension, 8

    def errors_and_sums(covariance, share):
        rows = generator.standard_normal((n, 3)) @ np.linalg.cholesky(covariance).T
        M = model.restrict(np.eye(3) + share * (rows.T @ rows / n - np.eye(3)))
        error = np.linalg.norm(M - covariance, 2)
        return error, tracing_statistic(rows, M, covariance).sum()

    balls = [np.eye(3) + model.radius * each for each in uniform(model, 500, generator)]
    for share in (0, 0.3, 1):
        errors = np.array([errors_and_sums(each, share)[0] for each in balls])
        sums = np.array(
            [errors_and_sums(model.draw(generator), share)[1] for _ in range(len(balls))]
        )
        slack = sums - (D - (D + 1) * errors / model.radius)
        if share == 0:
            assert agrees(slack, 0)
            assert not agrees(sums - (D - D * errors / model.radius), 0)
        else:
            assert np.mean(slack) > -5 * np.std(slack) / math.sqrt(len(slack))


# Step 4


@pytest.mark.parametrize(("d", "k"), SIZES)
def test_one_record_is_bounded_by_its_norm(d, k):
    alpha = LARGEST_ERROR
    model, generator = BlockModel(d, k, alpha), np.random.default_rng(d)
    ends = (1 - model.radius) * np.eye(d), (1 + model.radius) * np.eye(d)
    pairs = [(model.draw(generator), model.draw(generator)) for _ in range(50)]
    halved = False
    for covariance, M in [*pairs, ends, ends[::-1]]:
        z = generator.standard_normal((100, d)) * generator.choice([0.1, 1, 10], (100, 1))
        traced = np.abs(tracing_statistic(z @ np.linalg.cholesky(covariance).T, M, covariance))
        bound = 32 * alpha * (np.sum(z**2, axis=1) + d)
        assert np.all(traced <= bound * (1 + 1e-12))
        halved |= bool(np.any(traced > bound / 2))
    assert halved  # half of the bound is refuted


def test_the_mean_of_the_bound_and_the_deviation_of_the_statistic():
    alpha, d = LARGEST_ERROR, 6
    model, generator = BlockModel(d, 3, alpha), np.random.default_rng(1)
    covariance, M = model.draw(generator), model.draw(generator)
    z = generator.standard_normal((20_000, d))
    bounds = 32 * alpha * (np.sum(z**2, axis=1) + d)
    assert agrees(bounds, 64 * alpha * d)
    assert not agrees(bounds, 62 * alpha * d)
    traced = tracing_statistic(z @ np.linalg.cholesky(covariance).T, M, covariance)
    norm = np.linalg.norm(whitened(M, covariance))
    assert agrees(traced, 0)
    assert agrees(traced**2, norm**2 / 2)
    assert not agrees(traced**2, norm**2 / 4)
    assert norm / math.sqrt(2) <= math.sqrt(2 * d) * np.linalg.norm(M - covariance, 2)
    assert np.allclose(
        traced[:9], [direct(x, M, covariance) for x in z[:9] @ np.linalg.cholesky(covariance).T]
    )


def direct(x, M, covariance):
    """The statistic as the page writes it."""
    inverse = np.linalg.inv(covariance)
    return np.sum(inverse @ (np.outer(x, x) - covariance) @ inverse * (M - covariance)) / 2


def largest_mean(h, Q, epsilon, delta):
    """Return the largest mean of h under a law that is (epsilon, delta)-close to Q, both ways."""
    m = len(h)
    # Unknown: P, then (P - e^epsilon Q)+ and (Q - e^epsilon P)+.
    one, none = np.eye(m), np.zeros((m, m))
    above = np.block([[one, -one, none], [-math.exp(epsilon) * one, none, -one]])
    sums = np.kron(np.eye(3), np.ones(m))
    found = optimize.linprog(
        -np.concatenate([h, np.zeros(2 * m)]),
        A_ub=np.vstack([above, sums[1:]]),
        b_ub=np.concatenate([math.exp(epsilon) * Q, -Q, [delta, delta]]),
        A_eq=sums[:1],
        b_eq=[1.0],
    )
    assert found.status == 0
    return -found.fun


def test_privacy_bounds_the_mean_at_the_worst_pair_of_laws():
    generator = np.random.default_rng(7)
    closest = 0.0
    for epsilon, delta in itertools.product([0.01, 0.3, 1.0, 3.0], [0.0, 1e-3, 0.1, 0.7]):
        for m in (2, 5):
            Q = generator.dirichlet(np.full(m, 0.5))
            h = generator.standard_normal(m) * generator.choice([0.1, 1, 10], m)
            h -= Q @ h  # as under Q: its mean is zero
            Y = np.abs(h).max()
            gain = largest_mean(h, Q, epsilon, delta)
            sharper = math.sinh(epsilon) * (Q @ np.abs(h)) + (1 + math.exp(-epsilon)) * delta * Y
            stated = math.expm1(epsilon) * (Q @ np.abs(h)) + 2 * delta * Y
            assert gain <= sharper * (1 + 1e-7) + 1e-9
            assert sharper <= stated * (1 + 1e-12)
            closest = max(closest, gain / sharper)
    assert closest > 0.6  # so a bound that is much smaller is refuted


# Theorem B


def test_tails_of_quadratic_forms_with_coefficients_of_either_sign():
    generator = np.random.default_rng(9)
    n, levels = 40_000, np.array([1.0, 2.0, 4.0])
    refuted = False
    for size in (1, 4, 30):
        for signs in (np.ones(size), np.where(np.arange(size) % 2, 1.0, -1.0)):
            values = signs * generator.uniform(0.2, 1, size)
            h = (generator.standard_normal((n, size)) ** 2 - 1) @ values / 2
            for t in levels:
                limit = np.linalg.norm(values) * math.sqrt(t) + np.abs(values).max() * t
                exceeded = int(np.sum(h > limit))
                assert stats.binom.sf(exceeded - 1, n, math.exp(-t)) >= FALSE_ALARM
                refuted |= stats.binom.sf(int(np.sum(h > limit / 2)) - 1, n, math.exp(-t)) < 1e-9
    assert refuted


def test_sets_of_at_most_so_many_records():
    for n in (1, 2, 7, 60):
        for m in range(1, n + 1):
            sets = sum(math.comb(n, j) for j in range(m + 1))
            assert sets <= (math.e * n / m) ** m * (1 + 1e-12)
            assert (m / (math.e * n)) ** m <= m / n
    assert math.exp(2) > 5  # points of the net, and what t has for them


def test_the_supremum_grows_no_faster_than_its_argument():
    """For fixed A: the sum of the largest s values, those that are negative left out."""
    generator = np.random.default_rng(4)
    for _ in range(20):
        values = np.sort(np.maximum(generator.standard_normal(30), 0))[::-1]
        reached = np.concatenate([[0.0], np.cumsum(values)])
        F = np.interp(np.linspace(0, 30, 121), np.arange(31), reached)
        for m in range(1, 121):
            assert np.all((1 + np.arange(121) / m) * F[m] + 1e-12 >= F)


def test_noise_on_small_blocks_has_the_logarithm_of_the_blocks():
    """sqrt(k + log d) and not sqrt(k) is the norm of noise, up to constants."""
    sizes = [(16, 16), (300, 300), (300, 16), (300, 1), (10**6, 1)]
    norms = np.array([noise_norms(*each)[0] for each in sizes])
    blocks = np.array([k for _, k in sizes])
    right = norms / np.sqrt(blocks + np.log([d for d, _ in sizes]))
    assert right.max() / right.min() < 1.5
    wrong = norms / np.sqrt(blocks)
    assert wrong.max() / wrong.min() > 3


# The theorem

GRID = list(
    itertools.product(
        [1, 4, 16, 300],
        [1, 2, 5, 16, 300],
        [LARGEST_ERROR, 1e-3],
        [1e-3, 0.1, 1.0, 3.0],
        [0.0, 1e-9, 1e-6, 1e-3, 0.1, 1.0],
    )
)
GRID = [each for each in GRID if each[1] <= each[0]]
GRID += [(10**6, 1, LARGEST_ERROR, epsilon, 1e-9) for epsilon in (0.001, 0.1, 1)]


def test_the_bound_is_that_of_the_page():
    for d, k, alpha, epsilon, delta in GRID:
        least = least_records(d, k, alpha, epsilon, delta)
        rate = 16 * math.sqrt(2) * math.expm1(epsilon) + 512 * delta * math.sqrt(d)
        if d % k == 0:
            expected = (k + 1) * math.sqrt(d) / (alpha * rate)
            assert least == pytest.approx(expected, rel=1e-12, abs=0)
            if epsilon <= 1:
                second = 1 / (1024 * delta) if delta else math.inf
                ends = min(math.sqrt(d) / (78 * epsilon), second)
                assert least >= (k + 1) / alpha * ends
                if delta <= epsilon / (13 * math.sqrt(d)):
                    assert least >= (k + 1) * math.sqrt(d) / (79 * alpha * epsilon)
        else:
            assert least >= (k + 1) * math.sqrt(d) / (2 * alpha * rate)
    # The constants 78, 1024 and 79 could not be 77, 1023 and 78.
    assert 16 * math.sqrt(2) * (math.e - 1) * 2 > 77
    assert 16 * math.sqrt(2) * (math.e - 1) + 512 / 13 > 78


def noise_norms(d, k):
    """Mean norm of unit Gaussian noise on the blocks, and typical norm of one record's blocks."""
    generator, sizes = np.random.default_rng(3), BlockModel(d, k, LARGEST_ERROR).sizes
    draws = 4 if d < 10**6 else 1
    noise = generator.standard_normal((draws, d // k, k, k))  # the smaller block is left out
    values = np.linalg.eigvalsh((noise + np.swapaxes(noise, 2, 3)) / 2)
    return np.abs(values).max(axis=(1, 2)).mean(), math.sqrt(np.sum(sizes * (sizes + 2)))


@pytest.mark.slow
def test_no_mechanism_of_known_blocks_needs_fewer_records():
    """Gaussian noise alone, and a share delta of the records alone; both need more in truth."""
    norms = {(d, k): noise_norms(d, k) for d, k, *_ in GRID}
    too_large = set()
    closest = math.inf
    for d, k, alpha, epsilon, delta in GRID:
        needed = math.inf
        if 0 < delta < 1:
            norm, sensitivity = norms[d, k]
            mu = calibrate_gaussian(epsilon, delta)
            needed = norm * sensitivity / (mu * alpha)
        if delta > 0:  # of n records n delta are kept, and as many as without privacy are needed
            needed = min(needed, k / (alpha**2 * delta))
        least = least_records(d, k, alpha, epsilon, delta)
        assert least <= needed, (d, k, alpha, epsilon, delta)
        closest = min(closest, needed / least)
        wrong = {
            "no delta": least_records(d, k, alpha, epsilon, 0.0),
            "d for its root": least * math.sqrt(d),
            "k^2 for k": least * k,
            "a thousandth of the constants": 1000 * least,
        }
        too_large |= {name for name, bound in wrong.items() if bound > needed}
    assert too_large == set(wrong)
    assert 50 < closest < 70  # so the constants are within that factor of any that are true


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"target_error": 0.04}, "target_error"),
        ({"row_sparsity": 5}, "row_sparsity"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 1.5}, "delta"),
        ({"delta": -0.1}, "delta"),
    ],
)
def test_refusals(changed, word):
    asked = {"n_features": 4, "row_sparsity": 2, "target_error": 0.01, "epsilon": 1, "delta": 0}
    with pytest.raises(ParameterError, match=word):
        least_records(**asked | changed)
