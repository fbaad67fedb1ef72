"""What lies beyond a bound, read off noisy counts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from hushcov.postprocess import lost_beyond

EDGES = np.exp2(np.arange(-8, 12, 0.25))
MIDDLE = np.concatenate([[EDGES[0] / 2], np.sqrt(EDGES[1:] * EDGES[:-1]), [1.1 * EDGES[-1]]])
N, SIGMA = 100_000, 60.0


def counted(law, seed):
    parts = np.diff(np.concatenate([[0.0], law.cdf(EDGES), [1.0]]))
    return N * parts + np.random.default_rng(seed).normal(0, SIGMA, len(parts))


def beyond(law, bound):
    return float(law.expect(lambda x: x - bound, lb=bound) / law.mean())


@pytest.mark.parametrize(
    ("law", "bound"),
    [
        (stats.expon(), 3.0),
        (stats.chi2(20, scale=1 / 20), 1.5),
        (stats.pareto(4), 3.0),
        (stats.lognorm(0.8), 4.0),
    ],
)
def test_what_lies_beyond_a_bound_is_found_within_its_deviation(law, bound):
    truth = beyond(law, bound)
    found = np.array(
        [lost_beyond(counted(law, seed), SIGMA, EDGES, MIDDLE, bound) for seed in range(20)]
    )
    # Bins have a width, so the share is good to a sixth of itself beyond what it says.
    off = np.abs(found[:, 0] - truth) - truth / 6
    assert np.all(off < 5 * found[:, 1])
    assert np.median(found[:, 0]) == pytest.approx(truth, rel=0.3)
    assert np.median(found[:, 1]) < truth


def test_nothing_is_lost_where_nothing_was_counted():
    assert lost_beyond(np.zeros(len(MIDDLE)), SIGMA, EDGES, MIDDLE, 1.0) == (0.0, 0.0)
