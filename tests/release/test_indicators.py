"""Shares of 0/1 columns: what several released numbers say of one share is one number."""

import numpy as np
import pytest

from hushcov.release.shares import agree, combine_shares, mirrored, widest_variance

P = np.array([0.6, 0.3, 0.1])


def moments(p: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Second moments about a centre of levels that exclude each other."""
    return np.diag(p) - np.outer(p, p) + np.outer(p - centre, p - centre)


def test_without_noise_any_centre_gives_the_shares():
    centre = np.array([0.5, 0.45, 0.0])
    found = combine_shares(centre, np.full(3, 10.0), moments(P, centre), np.full((3, 3), 1e-9))
    np.testing.assert_allclose(found.values, P, atol=1e-9)
    assert found.whole


def test_means_and_squares_count_by_their_precision():
    """At c = 0.1 the square says p with 1 / 0.8 of its noise."""
    centre, second = np.array([0.1]), moments(np.array([0.12]), np.array([0.1]))
    found = combine_shares(centre, np.array([0.01]), second, np.array([[0.008]]))
    assert found.values[0] == pytest.approx(0.11)
    assert found.noise_sd[0] == pytest.approx(0.01 / np.sqrt(2))
    assert not found.whole
    unknown = combine_shares(centre, np.array([0.01]), second, np.array([[np.inf]]))
    assert unknown.values[0] == pytest.approx(0.1)


def test_a_square_far_below_the_mean_was_cut_off():
    centre = np.array([0.02])
    cut = combine_shares(centre, np.array([1e-3]), np.array([[0.005]]), np.array([[1e-4]]))
    assert cut.values[0] > 0.019
    above = combine_shares(centre, np.array([1e-3]), np.array([[0.024]]), np.array([[1e-4]]))
    assert above.values[0] == pytest.approx((0.024 - 0.02**2) / 0.96, rel=1e-2)


def test_shares_of_a_category_add_up_unless_they_surely_do_not():
    nothing = np.full((3, 3), np.inf)
    sd = np.array([0.01, 0.02, 0.01])
    found = combine_shares(P + sd, sd, np.zeros((3, 3)), nothing)
    assert found.values.sum() == pytest.approx(1)
    assert found.values - P == pytest.approx(sd - 0.04 * sd**2 / 6e-4)
    assert (found.noise_sd < sd).all()
    some = combine_shares(P * 0.5, sd, np.zeros((3, 3)), nothing)
    np.testing.assert_allclose(some.values, P * 0.5)
    assert not some.whole
    none = combine_shares(np.array([0.9, 0.12, -0.03]), sd, np.zeros((3, 3)), nothing)
    assert none.values[2] == 0
    assert none.values.sum() == pytest.approx(1)


def test_combined_shares_have_the_noise_that_they_say():
    rng, found = np.random.default_rng(3), []
    centre_sd, noise = np.array([0.02, 0.03, 0.01]), np.full((3, 3), 0.01)
    for _ in range(400):
        centre = P + centre_sd * rng.standard_normal(3)
        error = np.triu(noise * rng.standard_normal((3, 3)))
        second = moments(P, centre) + error + np.triu(error, 1).T
        shares = combine_shares(centre, centre_sd, second, noise)
        found.append((shares.values - P) / shares.noise_sd)
    np.testing.assert_allclose(np.mean(np.square(found), axis=0), 1.0, atol=0.35)


def test_a_matrix_agrees_with_the_shares():
    rng = np.random.default_rng(0)
    scale, places = np.array([2.0, 0.5, 0.45, 0.3]), np.array([1, 2, 3])
    p = np.array([0.0, *P])
    matrix = rng.standard_normal((4, 4))
    matrix += matrix.T
    found = agree(matrix, scale, np.zeros(4), p, [(places, True)]) * np.outer(scale, scale)
    np.testing.assert_allclose(found, found.T)
    np.testing.assert_allclose(found[places].sum(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(found[1:, 1:], np.diag(P) - np.outer(P, P))
    assert found[0, 0] == matrix[0, 0] * 4


def test_variances_between_two_shares():
    low, high = widest_variance(np.array([0.1, 0.4, 0.7]), np.array([0.2, 0.7, 0.9]))
    np.testing.assert_allclose(low, [0.09, 0.21, 0.09])
    np.testing.assert_allclose(high, [0.16, 0.25, 0.21])


@pytest.mark.parametrize("add", [True, False])
def test_two_levels_get_opposite_values(add):
    """Both values are averaged, one alone is that of both, and pairs without a level stay."""
    pairs, values = (
        np.array([[0, 1, 0, 3, 0], [2, 2, 3, 4, 1]]),
        np.array([3.0, -5.0, 7.0, 1.0, 9.0]),
    )
    values = np.array([3.0, -5.0, 7.0, 1.0, 9.0])
    found, opposite = mirrored(pairs, values, np.array([0, 1]), add=add)
    got = dict(zip(map(tuple, found.T.tolist()), opposite.tolist(), strict=True))
    usual = {(0, 1): 9, (3, 4): 1, (0, 2): 4, (1, 2): -4, (0, 3): 7}
    assert got == usual | ({(1, 3): -7} if add else {})
