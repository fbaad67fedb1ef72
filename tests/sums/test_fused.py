"""Compact rows on a device: kept, mapped anew, or summed by fused kernels; the same integers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hushcov.mechanisms.screened.values import CentredSigns, SignScreen
from hushcov.sums.bounded import bounded_sums, bounded_sums_of, fourth_sums_of, sum_together
from hushcov.sums.counts import cell_counts, norm_counts_of, signed_octaves
from hushcov.sums.gram import row_bounded_gram
from hushcov.sums.grids import FeatureGrid
from hushcov.sums.products import ProductMap, finest_half_width
from hushcov.sums.records import CentredRecords, CompleteRecords
from hushcov.sums.signs import sign_gram
from hushcov.tables import compact
from hushcov.tables.compact import CompactRecords
from hushcov.tables.sources import ArrayRecords, TensorRecords

NOWHERE = np.empty(0, dtype=np.int64)
EDGES = tuple(4**k for k in range(6, 24))
SIZES = (1, 1), (37, 5), (1000, 77), (70_001, 300)


def hostile(n, d, *, gaps):
    random = np.random.default_rng(n)
    X = random.standard_t(3, (n, d)) * np.exp(random.normal(size=d)) + 3 * random.normal(size=d)
    X[::7] = np.round(X[::7] * 4) / 4
    if d > 4:
        X[:, 3], X[::5, 4], X[0, 2], X[-1, 1], X[n // 2, 0] = 0.0, -0.0, 1.7e308, -1.7e308, 5e-324
    if gaps:
        X[random.random((n, d)) < 0.3 / d] = np.nan
    return X


def statistics(scale):
    d = len(scale)
    rows, columns = (side[::2] for side in np.triu_indices(d, 1))
    width = finest_half_width(len(rows), d, 4, at_most=500)
    grid, coarse = FeatureGrid(scale, 64.0, 2**15 - 1), FeatureGrid(scale, 8.0, width)

    def products(bound, *pairs):
        ranges = bound, bound // 4, bound // 4, 10**6
        return ProductMap(coarse, *(pairs or (rows, columns)), 4, 3, 2000, *ranges)

    def both(records):
        squares = products(5000, NOWHERE, NOWHERE).sums_of(records)
        return sum_together(records, [bounded_sums_of(records, grid, 9000), squares])

    def norms(records):
        counts = norm_counts_of(records, grid, EDGES, signs=True)
        return sum_together(records, [counts, fourth_sums_of(records, grid, 30, 900)])

    return {
        "sums": lambda records: bounded_sums(records, grid, 60_000),
        "free sums": lambda records: bounded_sums(records, grid, 10**9),
        "sums and squares": lambda records: np.concatenate(both(records)),
        "norms and fourth powers": lambda records: np.concatenate(norms(records)),
        "products": lambda records: products(60_000).sum(records),
        "short products": lambda records: products(300).sum(records),
        "product norms": lambda records: products(1).norm_histogram(records),
        "signs": lambda records: np.triu(sign_gram(records)),
        "panel": lambda records: np.triu(sign_gram(records, d // 3, d // 3 + 1)),
        "scores": SignScreen().sums,
        "centred scores": CentredSigns(tuple((7 * np.arange(d) - 3 * d).tolist())).sums,
        "rows": lambda records: row_bounded_gram(records, FeatureGrid(scale, 64.0, 3000), 9000),
    }


def check_same(n, d, device, *, gaps):
    X = hostile(n, d, gaps=gaps)
    scale, centre = np.exp(np.random.default_rng(1).normal(size=(2, d)))
    scale[2 % d] *= d < 3  # one feature has none
    sources = [ArrayRecords(X), TensorRecords(torch.from_numpy(X).to(device), block_rows=101 + n // 3)]
    sources = [CompleteRecords(each.with_gaps()) if gaps else each for each in sources]
    views = [CompactRecords(each, centre, 60 * scale, scale) for each in sources]
    for view in (lambda each: each, lambda each: CentredRecords(each, 0.3 * scale, 5 * scale)):
        for name, statistic in statistics(scale).items():
            expected, found = (statistic(view(each)) for each in views)
            assert found.dtype == expected.dtype, name
            np.testing.assert_array_equal(found, expected, err_msg=name)
    places = centre, np.where(np.arange(d) % 2, scale, 0.0), np.arange(d)
    cells = np.arange(d)[::-1].copy(), centre, centre / 7, np.full(d, -20), 64
    for counts, given in ((signed_octaves, places), (cell_counts, cells)):
        np.testing.assert_array_equal(*(counts(each, *given) for each in sources))


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("gaps", [False, True])
def test_compact_rows_on_a_device_have_the_same_sums(kept, gaps, monkeypatch):
    monkeypatch.setattr(compact, "_device_keeps", lambda records: kept)
    for n, d in ((333, 7), (1, 1)):
        check_same(n, d, "cpu", gaps=gaps)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("gaps", [False, True])
def test_fused_kernels_have_the_same_sums(gaps):
    fused = pytest.importorskip("hushcov.sums.fused")
    assert fused.works("cuda:0")
    for n, d in SIZES:
        check_same(n, d, "cuda", gaps=gaps)
