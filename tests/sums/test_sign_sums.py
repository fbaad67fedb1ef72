"""Sums of signs: the formula, wherever the rows are."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from dask import array as da

from hushcov.sums.counts import sign_sums
from hushcov.tables.sources import ArrayRecords, open_records

X = np.random.default_rng(0).normal(size=(101, 4))
X[::7, 1], X[3, 2] = 0.0, -0.0


@pytest.mark.parametrize(
    "rows",
    [
        lambda: ArrayRecords(X, block_rows=8),
        lambda: open_records(X[::-1]),
        lambda: open_records(torch.from_numpy(X)),
        lambda: open_records(da.from_array(X, chunks=(40, 4))),
    ],
    ids=["blocks", "other order", "tensor", "cluster"],
)
def test_equals_the_formula(rows):
    found = sign_sums(rows())
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, np.sign(X).sum(axis=0))


def test_one_record_moves_every_sum_by_two_at_most():
    other = X.copy()
    other[5] = -1e9 * np.sign(X[5])
    assert np.abs(sign_sums(open_records(other)) - sign_sums(open_records(X))).max() == 2
