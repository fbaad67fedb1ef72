"""Rivals for principal components: truth without noise, what neighbours move, and laws of noise."""

import math

import numpy as np
import pytest
from scipy import stats

from hushcov.calibration import calibrate_gaussian
from hushcov.kernel.accounting import BoundedRange, Gaussian, compose, gaussian_delta
from hushcov_lab.rivals import components as rivals
from hushcov_lab.rivals.components_study import STUDY
from statistics_helpers import FALSE_ALARM, variance_p_value

D, SPIKES = 12, np.array([10.0, 5.0])
NO_NOISE, BUDGET = (1e5, 0.01), (1.0, 0.01)


def drawn(model, n, sigma, seed=0):
    generator = np.random.default_rng(seed)
    basis = np.linalg.qr(generator.standard_normal((D, 2)))[0]
    return rivals.spiked_units(model, n, basis, SPIKES, sigma, generator), basis, generator


@pytest.mark.parametrize("model", ["normal", "fixed"])
@pytest.mark.parametrize(
    "rival", [rivals.analyze_gauss, rivals.noisy_power_method, rivals.k_dp_pca]
)
@pytest.mark.parametrize("told", [True, False])
def test_a_rival_without_noise_finds_the_components(rival, model, told):
    units, basis, generator = drawn(model, 4_000, 0.05)
    bounds = rivals.spiked_bounds(model, 4_000, D, SPIKES, 0.05) if told else None
    found = rival(units, 2, NO_NOISE, bounds, generator)
    np.testing.assert_allclose(found.T @ found, np.eye(2), atol=1e-12)
    # k-DP-PCA cuts gradients at a few deviations and has an eighth of the records for a step.
    assert rivals.subspace_error(found, basis) < 0.03
    assert 0 <= rivals.lost_share(found, basis, SPIKES, 0.05) < 1e-3


@pytest.mark.parametrize("model", ["normal", "fixed"])
def test_bounds_of_a_model_hold_and_are_not_far_off(model):
    units, _, _ = drawn(model, 20_000, 0.5, seed=3)
    bounds = rivals.spiked_bounds(model, 20_000, D, SPIKES, 0.5)
    sizes = np.sqrt(np.linalg.norm(units @ units.transpose(0, 2, 1), axis=(1, 2)))
    assert sizes.max() <= bounds.norm < 2 * sizes.max()


def test_a_unit_moves_sums_by_the_bound_at_most():
    generator = np.random.default_rng(1)
    Q = np.linalg.qr(generator.standard_normal((D, 2)))[0]
    worst = [0.0, 0.0]
    for scale in (0.1, 1.0, 100.0):
        for rows in (1, 3):
            units = scale * generator.standard_normal((5, rows, D))
            if rows == 3 and scale > 1:
                units[-1] = scale * Q[:, 0]  # all rows along a direction that is looked at
            for at, sums in enumerate(
                (
                    lambda part: rivals.clipped_moments(part, 2.0),
                    lambda part: rivals.clipped_products(part, Q, 4.0),
                )
            ):
                moved = np.linalg.norm(sums(units) - sums(units[:-1]))
                worst[at] = max(worst[at], moved)
    assert worst == pytest.approx([4.0, 4.0], rel=1e-12)  # reached, and not exceeded


def test_a_vector_moves_the_statistics_of_k_dp_pca_by_what_is_charged():
    generator = np.random.default_rng(2)
    vectors, groups = generator.standard_normal((200, D)), generator.integers(48, size=200)
    for far in (0.0, 3.0, 1e6):
        vectors[-1] = far
        moved = rivals.variance_counts(vectors, groups) - rivals.variance_counts(
            vectors[:-1], groups[:-1]
        )
        assert np.abs(moved).max() <= 1
    middle, width = generator.standard_normal(D), 0.3
    sums = [rivals.near_sum(part, middle, width) for part in (vectors, vectors[:-1])]
    assert np.linalg.norm(sums[0] - sums[1]) == pytest.approx(1.5 * width * math.sqrt(D))


def test_noise_has_the_law_that_is_charged():
    """False alarms: once in 1e6 for each assertion."""
    mu, nothing = calibrate_gaussian(*BUDGET), np.zeros((1, 1, 300))
    assert gaussian_delta(mu, BUDGET[0]) <= BUDGET[1] < gaussian_delta(1.1 * mu, BUDGET[0])
    generator = np.random.default_rng(5)
    matrix = rivals.noisy_moments(nothing, 3.0, mu, generator)
    assert np.array_equal(matrix, matrix.T)
    beside = matrix[np.triu_indices(300, 1)]
    deviation = 9.0 / mu
    assert variance_p_value(beside, deviation / math.sqrt(2)) > FALSE_ALARM
    assert variance_p_value(beside, 0.9 * deviation / math.sqrt(2)) < FALSE_ALARM
    many = np.concatenate(
        [rivals.noisy_moments(nothing, 3.0, mu, generator).diagonal() for _ in range(20)]
    )
    assert variance_p_value(many, deviation) > FALSE_ALARM
    assert variance_p_value(many, math.sqrt(2) * deviation) < FALSE_ALARM
    product = rivals.noisy_products(nothing, np.eye(300, 30), 7.0, mu, generator)
    assert variance_p_value(product, 7.0 / mu) > FALSE_ALARM
    assert variance_p_value(product, 0.9 * 7.0 / mu) < FALSE_ALARM


def test_what_is_spent_is_within_the_budget():
    mu = calibrate_gaussian(*BUDGET)
    steps = [Gaussian(mu * math.sqrt(share / 3)) for share in (0.05, 0.95)] * 3
    assert compose(steps, delta=BUDGET[1]).epsilon <= BUDGET[0] * (1 + 1e-9)
    assert compose([BoundedRange(BUDGET[0], 1)]).epsilon <= BUDGET[0]
    less = calibrate_gaussian(BUDGET[0], 0.9 * BUDGET[1])
    mean = [Gaussian(less * math.sqrt(share)) for share in (0.3, 0.05, 0.65)]
    bound = compose(mean, epsilon=BUDGET[0])
    assert bound.delta + 0.1 * BUDGET[1] <= BUDGET[1] * (1 + 1e-9)


def test_a_bin_is_chosen_with_the_noise_that_is_charged():
    """Two bins of 10 and 239 empty ones, each of which has exp(-10 / 2) of a full one's weight."""
    counts, generator = np.zeros(241), np.random.default_rng(11)
    counts[:2] = 10.0
    chosen = np.array([rivals.fullest_bin(counts, 1.0, generator) for _ in range(4_000)])
    full, first = int(np.sum(chosen < 2)), int(np.sum(chosen == 0))
    assert stats.binomtest(first, full, 0.5).pvalue > FALSE_ALARM
    assert stats.binomtest(full, 4_000, 2 / (2 + 239 * math.exp(-5))).pvalue > FALSE_ALARM
    # Noise smaller by 10 %, or as if a count moved by half as much, is told from it.
    for epsilon in (1 / 0.9, 2.0):
        planted = [rivals.fullest_bin(counts, epsilon, generator) < 2 for _ in range(4_000)]
        wrong = stats.binomtest(sum(planted), 4_000, 2 / (2 + 239 * math.exp(-5))).pvalue
        assert wrong < FALSE_ALARM


def test_the_largest_variance_is_found():
    vectors = np.random.default_rng(8).standard_normal((4_000, 3)) * [8.0, 1.0, 1.0]
    found = rivals.largest_variance(vectors, 5.0, np.random.default_rng(9))
    assert 45 < found < 130  # bins are half octaves


def test_a_private_mean_is_near_the_mean_where_vectors_are_near_each_other():
    generator = np.random.default_rng(7)
    vectors = 5.0 + 0.01 * generator.standard_normal((3_000, D))
    found = rivals.private_mean(vectors, 1e-4, BUDGET, generator)
    assert np.abs(found - 5.0).max() < 0.01
    # Two vectors alone are not shown, however near they are.
    assert np.abs(rivals.private_mean(vectors[:2], 1e-4, BUDGET, generator)).max() < 3


def test_a_tiny_cell_of_the_study():
    cell = STUDY.cells("quick", None)[0] | {"n": 4_000, "d": 12}
    rows = STUDY.measure(cell)
    assert {row["knows"] for row in rows} == {"bounds", "means", "nothing", "all"}
    errors = {row["method"]: row["error"] for row in rows if row["answered"]}
    assert len(errors) == len(rows)
    assert errors["not private"] < errors["hushcov"] < 0.05
    figure = STUDY.draw(rows)
    assert [axes.get_visible() for axes in figure.axes] == [True, False, False]
    assert len(figure.axes[0].lines) == len(rows)


@pytest.mark.slow
def test_a_cell_of_units():
    cell = next(each for each in STUDY.cells("quick", None) if each["model"] == "fixed")
    rows = STUDY.measure(cell | {"n": 3_000, "d": 20, "sigma": 0.01})
    errors = {row["method"]: row["error"] for row in rows if row["answered"]}
    assert len(errors) == len(rows)
    assert errors["not private"] < errors["hushcov"] < 0.05
