"""Settings that tests of several mechanisms share."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from hushcov.inputs import ReleaseInputs
from hushcov.kernel.noise import Entropy


def inputs_for(**changes):
    declared = {"n_records": 10_000, "n_features": 6, "row_sparsity": 3}
    return ReleaseInputs(**{**declared, "epsilon": 1.0, "delta": 1e-6, **changes})


def seeded(seed=0):
    return Entropy(np.random.default_rng(seed), private=False)


class Untouchable:
    """Stands for a generator, or for records, and fails the test on any use."""

    def __init__(self, n_records=10_000, n_features=7):
        self.n_records, self.n_features = n_records, n_features

    def __getattr__(self, name):
        raise AssertionError(f"{name} was used although the release must be refused")


UNTOUCHABLE = Entropy(Untouchable(), private=False)


def small_rows(d, h, norm_bound=None):
    """All integer rows of coordinates up to h and of at most this norm."""
    rows = np.array(list(itertools.product(range(-h, h + 1), repeat=d)))
    return rows if norm_bound is None else rows[(rows**2).sum(axis=1) <= norm_bound**2]


def largest_change(rows, sigma=1, diagonal_sigma=1):
    """The largest squared change of an upper triangle over its noise, of all pairs of rows."""
    i, j = np.triu_indices(rows.shape[1])
    products = rows[:, i] * rows[:, j] / np.where(i == j, diagonal_sigma, sigma)
    square = (products**2).sum(axis=1)
    return float(np.max(square[:, None] + square - 2 * products @ products.T))


@st.composite
def neighbouring_records(draw, most=6):
    """Two records with ordinary and extreme coordinates, many of them equal up to the sign."""
    d = draw(st.integers(1, most))
    numbers = st.sampled_from([0.0, 1.0, -1.0, 3.0, 6.0, -6.0, 1e300]) | st.floats(-20, 20)
    x, other = (draw(st.lists(numbers, min_size=d, max_size=d)) for _ in range(2))
    signs = draw(st.lists(st.sampled_from([1.0, -1.0, 0.0]), min_size=d, max_size=d))
    y = [a * s for a, s in zip(x, signs, strict=True)] if draw(st.booleans()) else other
    return np.array(x), np.array(y)
