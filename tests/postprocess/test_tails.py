"""Errors of estimates: what each thing that is known or guessed adds to them."""

import math

import numpy as np
import pytest
from scipy import sparse

from hushcov.postprocess.tails import LARGEST_ERROR, KnownErrors, estimate_error

D, N = 12, 50_000
NO_TAIL = np.zeros(D)
BLOCK = np.kron(np.eye(D // 3), 0.5 * np.eye(3) + 0.5)  # its norm is 2
QUIET = KnownErrors(0.0)


def estimated(matrix=BLOCK, known=QUIET, **named):
    return estimate_error(matrix, 1e-6, N, known, **({"tail": NO_TAIL} | named))


def test_independent_parts_add_up_as_squares():
    error, least, most = estimated(known=KnownErrors(0.03, 0.04))
    assert error == pytest.approx(0.05)
    assert (least, most) == (pytest.approx(error**2 / most), pytest.approx(math.exp(0.89) * error))
    assert most / least < 6
    assert 0.05 < estimated(known=KnownErrors(0.03, 0.04, 0.1))[0] < 0.06


@pytest.mark.parametrize("to", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_what_is_cut_off_one_feature_counts_over_the_norm(to):
    """A variance cut to a quarter is off by 3/4 alone, and its two covariances by half of 0.5."""
    tail = NO_TAIL.copy()
    tail[4] = math.log(4)
    lost = np.array([[0.75, 0.25, 0.25], [0.25, 0.0, 0.0], [0.25, 0.0, 0.0]])
    expected = np.linalg.norm(lost, 2) / 2
    found = estimated(to(BLOCK), tail=tail, known_zeros=True)[0]
    assert found == pytest.approx(expected, rel=1e-6)
    # In other scales it is the same, as errors are in standard deviations.
    scale = np.exp(np.random.default_rng(0).normal(size=D))
    moved = to(BLOCK * np.multiply.outer(scale, scale))
    assert estimated(moved, tail=tail, known_zeros=True)[0] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("to", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_features_without_variance_do_not_count(to):
    tail = np.append(NO_TAIL, [3.0, 3.0])
    tail[4] = math.log(4)
    more = np.zeros((D + 2, D + 2))
    more[:D, :D] = BLOCK
    known = KnownErrors(0.03)
    alone = estimated(to(BLOCK), known, tail=tail[:D])
    assert estimated(to(more), known, tail=tail) == pytest.approx(alone)
    assert estimated(np.zeros((D, D))) == (1.0, 1.0, LARGEST_ERROR)


def test_pairs_left_at_zero_miss_chance_correlations_unless_they_are_known_zeros():
    kept = sparse.csr_array(BLOCK)
    assert estimated(kept)[0] == pytest.approx(math.sqrt((D - 3) / N), rel=0.01)
    assert estimated(kept, known_zeros=True)[0] == 0.0
    # A table of as many columns as records has chance correlations that nobody wants back.
    assert estimate_error(kept, 1e-6, D, QUIET, tail=NO_TAIL)[0] < 1e-6


def test_an_estimate_near_zero_has_the_error_of_zeros():
    assert estimated(known=KnownErrors(0.5), kept=0.01)[0] == pytest.approx(0.995)
    assert estimated(known=KnownErrors(3.0))[2] == LARGEST_ERROR
    huge = BLOCK * 1e308
    huge[0, 1] = huge[1, 0] = np.inf
    assert np.isnan(estimated(huge)).all()
