"""Sums taken together are those taken alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hushcov.exceptions import DataError
from hushcov.sums import bounded
from hushcov.sums import rows as row_sums
from hushcov.sums.bounded import bounded_sums_of, fourth_sums_of, sum_together
from hushcov.sums.counts import norm_counts_of
from hushcov.sums.grids import FeatureGrid
from hushcov.sums.products import ProductMap
from hushcov.sums.records import CentredRecords, CompleteRecords
from hushcov.tables.compact import CompactRecords
from hushcov.tables.sources import ArrayRecords, open_records

N, D = 503, 6
RNG = np.random.default_rng(3)
X = RNG.standard_normal((N, D)) * RNG.uniform(0.1, 20, (N, 1)) * [1, 10, 1e-9, 1e12, 3, 1]
X[5, 1], X[6, 3], X[::9] = 1e300, -np.finfo(float).max, 0.0
CENTRE = np.array([0.1, -4.0, 1e-10, 0.0, 7.0, 0.0])
SCALE = np.array([1.0, 9.0, 1.1e-9, 1e12, 0.0, 1.0])
REACH = np.array([2.0, 1e5, 1e-8, 5e12, 1.0, 0.0])
GRID = FeatureGrid(SCALE, 64.0, 2**15 - 1)
EDGES = tuple(int(4**k) for k in range(6, 16))
NOWHERE = np.empty(0, dtype=np.int64)


def squares(bound, rows=NOWHERE, columns=NOWHERE):
    grid = FeatureGrid(SCALE, 8.0, 1023)
    return ProductMap(grid, rows, columns, 1, 1, 16_000, bound, bound // 4, 9, 10**6)


def norms(records, *, signs):
    return norm_counts_of(records, GRID, EDGES, signs=signs)


WANTED = {
    "norms and fourths": lambda r: [norms(r, signs=False), fourth_sums_of(r, GRID, 20, 2**12)],
    "tilts too": lambda r: [norms(r, signs=True), fourth_sums_of(r, GRID, 30, 2**20)],
    "means and squares": lambda r: [bounded_sums_of(r, GRID, 1500), squares(10**5).sums_of(r)],
    "not shortened": lambda r: [bounded_sums_of(r, GRID, 2**30), squares(2**40).sums_of(r)],
    "one pair": lambda r: [
        bounded_sums_of(r, GRID, 1500),
        squares(10**5, np.array([0]), np.array([1])).sums_of(r),
    ],
    "another order": lambda r: [fourth_sums_of(r, GRID, 20, 2**12), norms(r, signs=True)],
    "another grid": lambda r: [
        norms(r, signs=True),
        fourth_sums_of(r, FeatureGrid(SCALE, 32.0, 2**15 - 1), 20, 2**12),
    ],
    "one": lambda r: [norms(r, signs=True)],
}


def with_gaps(x):
    x = x.copy()
    x[::11, 2] = np.nan
    return open_records(x, drop_nulls=True)


RECORDS = {
    "doubles": lambda: ArrayRecords(X),
    "centred": lambda: CentredRecords(ArrayRecords(X, block_rows=100), CENTRE, REACH),
    "compact": lambda: CompactRecords(ArrayRecords(X), CENTRE, REACH, SCALE),
    "compact, centred": lambda: CentredRecords(
        CompactRecords(ArrayRecords(X), CENTRE, REACH, SCALE), 0.1 * SCALE, REACH
    ),
    "gaps": lambda: CompactRecords(CompleteRecords(with_gaps(X)), CENTRE, REACH, SCALE),
    "tensor": lambda: open_records(torch.from_numpy(X)),
}


@pytest.mark.parametrize("near", [1, 2**18])
@pytest.mark.parametrize("name", list(WANTED))
@pytest.mark.parametrize("source", list(RECORDS))
def test_sums_together_are_those_alone(source, name, near, monkeypatch):
    monkeypatch.setattr(row_sums, "_SMALLEST_PART", 64)
    monkeypatch.setattr(bounded, "_VALUES_NEAR", near)
    records = RECORDS[source]()
    wanted = WANTED[name](records)
    alone = [records.map_sum(each) for each in wanted]
    for _ in range(2):  # the records, then the copy
        for found, each in zip(sum_together(records, wanted), alone, strict=True):
            np.testing.assert_array_equal(found, each)
            assert np.any(found != 0)


@pytest.mark.parametrize("name", ["tilts too", "means and squares", "another grid"])
def test_numbers_that_are_not_finite_are_refused(name):
    records = ArrayRecords(np.where(np.arange(N)[:, None] == 400, np.nan, X))
    with pytest.raises(DataError, match="finite"):
        sum_together(records, WANTED[name](records))
