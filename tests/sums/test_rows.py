"""Rows centred where they are summed: the same integers as sums of rows centred before."""

from __future__ import annotations

import pickle

import dask.array
import numpy as np
import pytest
import torch

from hushcov.exceptions import DataError
from hushcov.sums import rows
from hushcov.sums.bounded import bounded_sums
from hushcov.sums.counts import norm_counts_of, norm_histogram, sign_sums, sum_signs
from hushcov.sums.gram import row_bounded_gram
from hushcov.sums.grids import FeatureGrid
from hushcov.sums.products import ProductMap
from hushcov.sums.records import CentredRecords, WatchedRecords
from hushcov.sums.signs import sign_gram, sign_gram_and_sums
from hushcov.tables.sources import ArrayRecords, open_records

D = 5
X = np.random.default_rng(0).standard_normal((301, D)) * 3
X[::7, 1], X[3], X[4] = 0.5, 1e308, -1e308
CENTRE = np.array([0.5, 0.5, -1e308, 0.0, 2.0])
REACH = np.array([1.0, np.inf, np.inf, 0.0, 4.0])
GRID = FeatureGrid(np.array([1.0, 2.0, 0.0, 1.0, 0.5]), 4.0, 50)
EDGES = (0, 50, 1000, 5000, 9000)
PAIRS = np.array([0, 0, 1]), np.array([1, 4, 3])
PRODUCTS = ProductMap(GRID, *PAIRS, 3, 2, 100, 900, 20, 20, 10_000)

SUMS = {
    "bounded": lambda records: bounded_sums(records, GRID, 80),
    "gram": lambda records: row_bounded_gram(records, GRID, 80),
    "norms": lambda records: norm_histogram(records, GRID, EDGES),
    "signs": sign_sums,
    "signs and norms": lambda r: r.map_sum(norm_counts_of(r, GRID, EDGES, signs=True)),
    "sign gram": lambda records: np.triu(sign_gram(records)),
    "panel": lambda records: np.triu(sign_gram(records, 1, 3)),
    "sign gram and sums": lambda records: sign_gram_and_sums(records)[1],
    "products": PRODUCTS.sum,
    "norms of products": PRODUCTS.norm_histogram,
}


def centred(X):
    with np.errstate(over="ignore"):
        limit = np.minimum(REACH, np.finfo(np.float64).max)
        return np.clip(X - CENTRE, -limit, limit)


@pytest.mark.parametrize("name", list(SUMS))
@pytest.mark.parametrize(
    "source",
    [
        lambda: ArrayRecords(X),
        lambda: ArrayRecords(X[::-1], block_rows=7),
        lambda: WatchedRecords(ArrayRecords(np.asfortranarray(X)), lambda: None, lambda n: None),
        lambda: open_records(torch.from_numpy(X)),
        lambda: open_records(dask.array.from_array(X, chunks=(100, D))),
        lambda: CentredRecords(ArrayRecords(X), np.zeros(D)),
    ],
    ids=["memory", "blocks", "watched", "tensor", "cluster", "twice"],
)
def test_the_same_integers_as_of_rows_centred_before(name, source, monkeypatch):
    monkeypatch.setattr(rows, "_SMALLEST_PART", 1)
    monkeypatch.setattr(rows, "threads", lambda: 3)
    expected = SUMS[name](ArrayRecords(centred(X)))
    assert np.any(expected != SUMS[name](ArrayRecords(X)))  # so that the test would notice
    found = SUMS[name](CentredRecords(source(), CENTRE, REACH))
    np.testing.assert_array_equal(found, expected)


def test_missing_records_are_zeros_all_the_same():
    gaps = X.copy()
    gaps[::5, 2] = np.nan
    from hushcov.sums.records import CompleteRecords

    records = CompleteRecords(open_records(gaps, drop_nulls=True, block_rows=50))
    kept = centred(np.delete(X, np.s_[::5], axis=0))
    expected = np.concatenate([kept, np.zeros((len(X) - len(kept), D))])
    for sums in SUMS.values():
        found = sums(CentredRecords(records, CENTRE, REACH))
        np.testing.assert_array_equal(found, sums(ArrayRecords(expected)))


@pytest.mark.parametrize("name", list(SUMS))
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused_wherever_they_are(name, value):
    for place in ((0, 0), (150, 2), (300, 4)):
        bad = X.copy()
        bad[place] = value
        for records in (ArrayRecords(bad), CentredRecords(ArrayRecords(bad), CENTRE, REACH)):
            with pytest.raises(DataError, match="must be finite"):
                SUMS[name](records)


def test_two_sums_in_one_pass():
    passes = []
    records = WatchedRecords(ArrayRecords(X), lambda: passes.append(1), lambda n: None)
    signs, norms = np.split(SUMS["signs and norms"](records), [D])
    gram, sums = sign_gram_and_sums(records, 1, 4)
    assert len(passes) == 2
    np.testing.assert_array_equal(signs, np.sign(X).sum(axis=0))
    np.testing.assert_array_equal(norms, norm_histogram(records, GRID, EDGES))
    np.testing.assert_array_equal(gram, sign_gram(records, 1, 4))
    np.testing.assert_array_equal(sums, np.sign(X).sum(axis=0)[1:])


def test_a_centre_is_sent_with_the_sums():
    about = rows.About(CENTRE, REACH)
    sums = rows.RowSums(sum_signs, (), (D,)).centred(about)
    sent = pickle.loads(pickle.dumps(sums))
    np.testing.assert_array_equal(sent(X), np.sign(centred(X)).sum(axis=0))
