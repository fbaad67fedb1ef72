"""Laws of every sum: the same integers however rows come, alone and taken together."""

from __future__ import annotations

import pickle

import dask.array
import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet

from exact_sums import bounded_sums, norm_histogram, sign_gram
from hushcov.engines.records import DeviceRecords
from hushcov.exceptions import DataError
from hushcov.kernel.grids import FeatureGrid, IntegerGrid
from hushcov.kernel.records.base import CentredRecords, CompleteRecords
from hushcov.kernel.records.compact import CompactRecords
from hushcov.kernel.sums import rows
from hushcov.kernel.sums import rows as row_sums
from hushcov.kernel.sums.bounded import bounded_sums_of, fourth_sums_of
from hushcov.kernel.sums.counts import (
    cell_counts,
    edge_counts,
    norm_counts_of,
    sign_sums,
    signed_octaves,
)
from hushcov.kernel.sums.gram import row_bounded_gram, second_moments
from hushcov.kernel.sums.products import ProductMap
from hushcov.kernel.sums.rows import sum_together
from hushcov.kernel.sums.signs import candidate_sign_sums, sign_gram_and_sums
from hushcov.tables.progress import WatchedRecords
from hushcov.tables.sources import ArrayRecords, open_records

N, D = 301, 5
X = np.random.default_rng(0).standard_normal((N, D)) * 3
X[::7, 1], X[3], X[4] = 0.5, 1e308, -1e308
CENTRE = np.array([0.5, 0.5, -1e308, 0.0, 2.0])
REACH = np.array([1.0, np.inf, np.inf, 0.0, 4.0])
GRID = FeatureGrid(np.array([1.0, 2.0, 0.0, 1.0, 0.5]), 4.0, 50)
EDGES = (0, 50, 1000, 5000, 9000)
PAIRS = np.array([0, 0, 1]), np.array([1, 4, 3])
PRODUCTS = ProductMap(GRID, *PAIRS, 3, 2, 100, 900, 20, 20, 10_000)
COLUMNS = np.array([2, 0, 3, 4])
ABOUT = np.array([0.5, 0.0, 1.0, -1.0]), np.array([0.1, 0.0, 1.0, 0.0]), COLUMNS
CELLS = (
    *(COLUMNS, np.array([-1.0, 0.0, 3.0, 1.0]), np.array([0.5, 0.7, 1.0, 2.0]), np.arange(-3, 1)),
    8,
)

EDGES_OF_COLUMNS = np.array([[-1.0, 0.0, 0.0, 2.0]] * len(COLUMNS))
SUMS = {
    "signed octaves": lambda r: signed_octaves(r, *ABOUT),
    "cells": lambda r: cell_counts(r, *CELLS),
    "edges": lambda r: edge_counts(r, COLUMNS, EDGES_OF_COLUMNS),
    "bounded": lambda r: bounded_sums(r, GRID, 80),
    "fourths": lambda r: r.map_sum(fourth_sums_of(r, GRID, 4, 2**12)),
    "gram": lambda r: row_bounded_gram(r, GRID, 80),
    "moments": lambda r: second_moments(r, IntegerGrid(4.0, 50)).gram,
    "wide moments": lambda r: second_moments(r, IntegerGrid(4.0, 10**9)).gram,
    "norms": lambda r: norm_histogram(r, GRID, EDGES),
    "signs and norms": lambda r: r.map_sum(norm_counts_of(r, GRID, EDGES, signs=True)),
    "sign gram": lambda r: np.triu(sign_gram(r)),
    "panel": lambda r: np.triu(sign_gram(r, 1, 3)),
    "sums of signs": lambda r: sign_gram_and_sums(r)[1],
    "listed pairs": lambda r: np.concatenate(candidate_sign_sums(r, *PAIRS)),
    "products": PRODUCTS.sum,
    "norms of products": PRODUCTS.norm_histogram,
}
NOT_OF_ZEROS = ("signed octaves", "cells", "edges")  # records that are left out count nowhere


def centred(X):
    with np.errstate(over="ignore"):
        limit = np.minimum(REACH, np.finfo(np.float64).max)
        return np.clip(X - CENTRE, -limit, limit)


class Elsewhere(ArrayRecords):
    """Block functions travel as to another process: no compiled code goes along."""

    in_arrays = False

    def map_sum(self, block_function):
        sent = pickle.dumps(block_function)
        assert b"numba" not in sent
        return super().map_sum(pickle.loads(sent))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    table = pa.table({f"x{i}": column for i, column in enumerate(X.T)})
    parquet.write_table(table, folder / "x.parquet")
    np.save(folder / "x.npy", X)
    return folder


SOURCES = {
    "memory": lambda _: ArrayRecords(X),
    "single rows": lambda _: ArrayRecords(X, block_rows=1),
    "another order": lambda _: ArrayRecords(X[::-1], block_rows=7),
    "columns": lambda _: ArrayRecords(np.asfortranarray(X), block_rows=300),
    "watched": lambda _: WatchedRecords(ArrayRecords(X), lambda: None, lambda n: None),
    "sent": lambda _: Elsewhere(X),
    "tensor": lambda _: open_records(torch.from_numpy(X)),
    "device": lambda _: DeviceRecords(ArrayRecords(X, block_rows=50), "cpu"),
    "cluster": lambda _: open_records(dask.array.from_array(X, chunks=(100, 2))),
    "Parquet": lambda files: open_records(files / "x.parquet"),
    "NumPy file": lambda files: open_records(files / "x.npy"),
    "centred before": lambda _: CentredRecords(ArrayRecords(X), np.zeros(D)),
}


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("source", SOURCES)
def test_the_same_integers_however_rows_come_and_wherever_they_are_centred(
    name, source, files, monkeypatch
):
    monkeypatch.setattr(rows, "_SMALLEST_PART", 1)
    monkeypatch.setattr(rows, "threads", lambda: 3)
    expected = SUMS[name](ArrayRecords(X))
    monkeypatch.setattr(rows, "_PART", 64)
    monkeypatch.setattr(rows, "_LONG", 60)  # of longer blocks threads take several parts each
    about = SUMS[name](ArrayRecords(centred(X)))
    assert expected.dtype == (object if name == "wide moments" else np.int64)
    assert np.any(about != expected)  # so that the test would notice
    records, seen = SOURCES[source](files), []
    watched = WatchedRecords(records, lambda: None, seen.append)
    np.testing.assert_array_equal(SUMS[name](watched), expected)
    assert sum(seen) == N
    np.testing.assert_array_equal(SUMS[name](CentredRecords(records, CENTRE, REACH)), about)


@pytest.mark.parametrize("name", SUMS)
def test_records_that_miss_a_value_add_nothing(name):
    gaps = X.copy()
    gaps[::5, 1] = np.nan  # a column that not all look at
    kept = np.delete(X, np.s_[::5], axis=0)
    zeros = np.zeros((0 if name in NOT_OF_ZEROS else N - len(kept), D))
    for block_rows in (1, 50):
        records = CompleteRecords(open_records(gaps, block_rows=block_rows).with_gaps())
        for view, table in (
            (records, kept),
            (CentredRecords(records, CENTRE, REACH), centred(kept)),
        ):
            expected = SUMS[name](ArrayRecords(np.concatenate([table, zeros])))
            np.testing.assert_array_equal(SUMS[name](view), expected)


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused_wherever_they_are(name, value):
    for place in ((0, 0), (150, 2), (300, 4)):
        bad = X.copy()
        bad[place] = value
        for records in (ArrayRecords(bad), CentredRecords(ArrayRecords(bad), CENTRE, REACH)):
            with pytest.raises(DataError, match="must be finite"):
                SUMS[name](records)


@pytest.mark.parametrize(
    "name", ["bounded", "fourths", "gram", "norms", "products", "norms of products"]
)
@pytest.mark.parametrize("width", [4, 6])
def test_records_of_another_width_than_the_grid_are_refused(name, width):
    with pytest.raises(DataError, match="5 features"):
        SUMS[name](ArrayRecords(np.ones((2, width))))


def test_sums_of_signs_are_those_of_their_definition():
    passes = []
    records = WatchedRecords(ArrayRecords(X), lambda: passes.append(1), lambda n: None)
    signs, norms = np.split(SUMS["signs and norms"](records), [D])
    gram, sums = sign_gram_and_sums(records, 1, 4)
    assert len(passes) == 2
    expected = np.sign(X).sum(axis=0)
    for found in (signs, sign_sums(records)):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(sums, expected[1:])
    np.testing.assert_array_equal(norms, norm_histogram(records, GRID, EDGES))
    np.testing.assert_array_equal(gram, sign_gram(records, 1, 4))


# Sums taken together are those taken alone.


N_ODD, D_ODD = 503, 6
RNG = np.random.default_rng(3)
ODD = (
    RNG.standard_normal((N_ODD, D_ODD))
    * RNG.uniform(0.1, 20, (N_ODD, 1))
    * [1, 10, 1e-9, 1e12, 3, 1]
)
ODD[5, 1], ODD[6, 3], ODD[::9] = 1e300, -np.finfo(float).max, 0.0
MIDDLE = np.array([0.1, -4.0, 1e-10, 0.0, 7.0, 0.0])
SCALE = np.array([1.0, 9.0, 1.1e-9, 1e12, 0.0, 1.0])
LIMITS = np.array([2.0, 1e5, 1e-8, 5e12, 1.0, 0.0])
FINE = FeatureGrid(SCALE, 64.0, 2**15 - 1)
SQUARES = tuple(int(4**k) for k in range(6, 16))
NOWHERE = np.empty(0, dtype=np.int64)


def squares(bound, rows=NOWHERE, columns=NOWHERE):
    grid = FeatureGrid(SCALE, 8.0, 1023)
    return ProductMap(grid, rows, columns, 1, 1, 16_000, bound, bound // 4, 9, 10**6)


def norms(records, *, signs):
    return norm_counts_of(records, FINE, SQUARES, signs=signs)


WANTED = {
    "norms and fourths": lambda r: [
        norms(r, signs=False),
        fourth_sums_of(r, FINE, 20, 2**12),
    ],
    "tilts too": lambda r: [norms(r, signs=True), fourth_sums_of(r, FINE, 30, 2**20)],
    "means and squares": lambda r: [
        bounded_sums_of(r, FINE, 1500),
        squares(10**5).sums_of(r),
    ],
    "not shortened": lambda r: [
        bounded_sums_of(r, FINE, 2**30),
        squares(2**40).sums_of(r),
    ],
    "one pair": lambda r: [
        bounded_sums_of(r, FINE, 1500),
        squares(10**5, np.array([0]), np.array([1])).sums_of(r),
    ],
    "another order": lambda r: [fourth_sums_of(r, FINE, 20, 2**12), norms(r, signs=True)],
    "another grid": lambda r: [
        norms(r, signs=True),
        fourth_sums_of(r, FeatureGrid(SCALE, 32.0, 2**15 - 1), 20, 2**12),
    ],
    "one": lambda r: [norms(r, signs=True)],
}


def with_gaps(x):
    x = x.copy()
    x[::11, 2] = np.nan
    return open_records(x).with_gaps()


RECORDS = {
    "doubles": lambda: ArrayRecords(ODD),
    "centred": lambda: CentredRecords(ArrayRecords(ODD, block_rows=100), MIDDLE, LIMITS),
    "compact": lambda: CompactRecords(ArrayRecords(ODD), MIDDLE, LIMITS, SCALE),
    "compact, centred": lambda: CentredRecords(
        CompactRecords(ArrayRecords(ODD), MIDDLE, LIMITS, SCALE),
        0.1 * SCALE,
        LIMITS,
    ),
    "gaps": lambda: CompactRecords(CompleteRecords(with_gaps(ODD)), MIDDLE, LIMITS, SCALE),
    "tensor": lambda: open_records(torch.from_numpy(ODD)),
}


@pytest.mark.parametrize("near", [1, 2**18])
@pytest.mark.parametrize("name", list(WANTED))
@pytest.mark.parametrize("source", list(RECORDS))
def test_sums_together_are_those_alone(source, name, near, monkeypatch):
    monkeypatch.setattr(row_sums, "_SMALLEST_PART", 64)
    monkeypatch.setattr(row_sums, "_VALUES_NEAR", near)
    records = RECORDS[source]()
    wanted = WANTED[name](records)
    alone = [records.map_sum(each) for each in wanted]
    for _ in range(2):  # the records, then the copy
        for found, each in zip(sum_together(records, wanted), alone, strict=True):
            np.testing.assert_array_equal(found, each)
            assert np.any(found != 0)


@pytest.mark.parametrize("name", ["tilts too", "means and squares", "another grid"])
def test_numbers_that_are_not_finite_are_refused(name):
    records = ArrayRecords(np.where(np.arange(N_ODD)[:, None] == 400, np.nan, ODD))
    with pytest.raises(DataError, match="finite"):
        sum_together(records, WANTED[name](records))
