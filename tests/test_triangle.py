"""Symmetric matrices from their pairs, for any number of threads."""

import numpy as np
import pytest

from hushcov._triangle import mirror, pairs_beyond, spread_pairs


@pytest.fixture(params=[1, 2, 3])
def cores(request, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: request.param)
    return request.param


@pytest.mark.parametrize("d", [2, 3, 64, 65, 200])
@pytest.mark.parametrize("strip", [1, 7, 1_000, 10**6])
def test_pairs_in_strips_make_a_symmetric_matrix(d, strip, cores):
    pairs = d * (d - 1) // 2
    strip = max(strip, pairs // 50 + 1)
    values = np.random.default_rng(0).integers(-9, 10, pairs)
    matrix = np.zeros((d, d), dtype=np.int64)
    for start in range(0, pairs, strip):
        spread_pairs(start, values[start : start + strip], matrix)
    mirror(matrix)
    expected = np.zeros((d, d), dtype=np.int64)
    expected[np.triu_indices(d, 1)] = values
    assert np.array_equal(matrix, expected + expected.T)
    assert np.array_equal(pairs_beyond(matrix * 1.0, 3.0), np.flatnonzero(np.abs(values) > 3))
    in_units = np.zeros((d, d))
    spread_pairs(0, values, in_units, 0.1)
    assert np.array_equal(in_units, expected * 0.1)
