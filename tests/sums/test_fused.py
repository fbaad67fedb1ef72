"""Compact rows on a device: kept, mapped anew, or summed by fused kernels; the same integers."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from exact_sums import bounded_sums, sign_gram
from hushcov.engines import device
from hushcov.fit.screened.mechanism import finest_half_width
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.queries import PairSigns
from hushcov.kernel.records.base import CentredRecords, CompleteRecords
from hushcov.kernel.records.compact import CompactRecords
from hushcov.kernel.sums.bounded import bounded_sums_of, fourth_sums_of
from hushcov.kernel.sums.counts import cell_counts, norm_counts_of, signed_octaves
from hushcov.kernel.sums.gram import row_bounded_gram
from hushcov.kernel.sums.products import ProductMap
from hushcov.kernel.sums.rows import Centring, shortening, sum_together
from hushcov.tables.sources import ArrayRecords, TensorRecords
from statistics_helpers import mostly_slow

NOWHERE = np.empty(0, dtype=np.int64)
EDGES = tuple(4**k for k in range(6, 24))
SIZES = (1, 1), (37, 5), (1000, 77), (8200, 5), (40, 1155), (70_001, 130)  # around every tile
GUARD = 64  # numbers after every result, which kernels must not touch


def hostile(n, d, *, gaps):
    random = np.random.default_rng(n)
    X = random.standard_t(3, (n, d)) * np.exp(random.normal(size=d)) + 3 * random.normal(size=d)
    X[::7] = np.round(X[::7] * 4) / 4
    if d > 4:
        X[:, 3], X[::5, 4], X[0, 2], X[-1, 1], X[n // 2, 0] = 0.0, -0.0, 1.7e308, -1.7e308, 5e-324
        X[n // 3] = 1e300  # as long as a record can be
    if gaps:
        X[random.random((n, d)) < 0.3 / d] = np.nan
    return X


def statistics(scale):
    d = len(scale)
    rows, columns = (side[::2] for side in np.triu_indices(d, 1))
    grid = FeatureGrid(scale, 64.0, 2**15 - 1)

    def products(bound, *pairs, at_most=500):
        width = finest_half_width(len(rows), d, 4, at_most=at_most)
        ranges = bound, bound // 4, bound // 4, 10**6
        coarse = FeatureGrid(scale, 8.0, width)
        return ProductMap(coarse, *(pairs or (rows, columns)), 4, 3, 2000, *ranges)

    def every_bound(records):  # some records are a little longer than some bound
        bounds = [2**k for k in range(4, 20)] if d < 100 else []
        return np.concatenate([products(bound).sum(records) for bound in bounds] or [NOWHERE])

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
        "products at every bound": every_bound,
        "product norms": lambda records: products(1).norm_histogram(records),
        "largest norms": lambda records: products(1, at_most=4000).norm_histogram(records),
        "signs": lambda records: np.triu(sign_gram(records)),
        "panel": lambda records: np.triu(sign_gram(records, d // 3, d // 3 + 1)),
        "last panel": lambda records: np.triu(sign_gram(records, max(0, d - 5), d)),
        "scores": PairSigns(d).exact,
        "centred scores": PairSigns(d, tuple((7 * np.arange(d) - 3 * d).tolist())).exact,
        "rows": lambda records: row_bounded_gram(records, FeatureGrid(scale, 64.0, 3000), 9000),
    }


def check_same(n, d, device, *, gaps):
    X = hostile(n, d, gaps=gaps)
    scale, centre = np.exp(np.random.default_rng(1).normal(size=(2, d)))
    scale[2 % d] *= d < 3  # one feature has none
    centre[:2] = 0.0  # the first has values in every octave, the second ones at the edge of nothing
    X[::5, 0], X[2::5, -1] = 2.0 ** (np.arange(len(X[::5])) % 2098 - 1074), -scale[1 % d]
    X[2::5, 1 % d] = scale[1 % d]
    tensor = torch.from_numpy(X).to(device)
    sources = [ArrayRecords(X), TensorRecords(tensor, block_rows=101 + n // 3)]
    sources = [CompleteRecords(each.with_gaps()) if gaps else each for each in sources]
    views = [CompactRecords(each, centre, 60 * scale, scale) for each in sources]
    for view in (lambda each: each, lambda each: CentredRecords(each, 0.3 * scale, 5 * scale)):
        for name, statistic in statistics(scale).items():
            expected, found = (statistic(view(each)) for each in views)
            assert found.dtype == expected.dtype, name
            np.testing.assert_array_equal(found, expected, err_msg=name)
    places = centre, np.where(np.arange(d) % 2, scale, 0.0), np.arange(d)
    cells = np.arange(d)[::-1].copy(), centre, scale.max() / 7 + centre, np.full(d, -20)
    for size in (d, 0):
        some = [each[:size] for each in places], [each[:size] for each in cells]
        found = [signed_octaves(each, *some[0]) for each in sources]
        np.testing.assert_array_equal(*found)
        np.testing.assert_array_equal(*(cell_counts(each, *some[1], 64) for each in sources))


@pytest.mark.parametrize(("kept", "gaps"), mostly_slow(product((True, False), (True, False)), 0, 3))
def test_compact_rows_on_a_device_have_the_same_sums(kept, gaps, monkeypatch):
    monkeypatch.setattr(device, "keeps", lambda records, most: kept)
    for n, d in ((333, 7), (1, 1)):
        check_same(n, d, "cpu", gaps=gaps)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("gaps", [False, True])
def test_fused_kernels_have_the_same_sums(gaps):
    fused = pytest.importorskip("hushcov.engines.fused")
    assert fused.works("cuda:0")
    for n, d in SIZES:
        check_same(n, d, "cuda", gaps=gaps)
    check_panels(fused)


def check_panels(fused):
    """Signs of more features than are multiplied at a time; of no more records than sums hold."""
    X, public = hostile(40, 2600, gaps=False), (np.zeros(2600), np.ones(2600), np.ones(2600))
    sources = ArrayRecords(X), TensorRecords(torch.from_numpy(X).to("cuda"))
    found = [np.triu(sign_gram(CompactRecords(each, *public))) for each in sources]
    np.testing.assert_array_equal(*found)
    few, fused._TOGETHER = fused._TOGETHER, 4
    check_same(10, 9, "cuda", gaps=True)  # parts are some of the records, with all features
    fused._TOGETHER = few
    for n_rows, error in ((2**31, AssertionError), (2**31 - 1, AttributeError)):
        with pytest.raises(error):
            fused.add_panel(SimpleNamespace(n=n_rows), 0, 1)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_blocks_of_many_short_rows_are_summed():
    """More than a grid has programs in its second dimension."""
    check_long_blocks(pytest.importorskip("hushcov.engines.fused"))


def check_long_blocks(fused):
    compact, fused.compact = fused.compact, None  # where kernels cannot be compiled
    fused.works.cache_clear()
    assert not fused.works("cuda:0")
    fused.compact = compact
    fused.works.cache_clear()
    rows = torch.full((8_400_001, 2), 3.0, dtype=torch.float64, device="cuda")
    rows[-1] = -7.0
    found = fused.compact(rows, [0.0] * 2, [9.0] * 2, [1.0] * 2)
    assert found.to(torch.int64).sum(dim=1).tolist() == [3 * 8_400_000 - 7] * 2
    assert found[:, -1].tolist() == [-7, -7]
    counts = fused.count_cells(rows, [1, 0], [0.0] * 2, [1.0] * 2, [-8.0] * 2, 16)
    assert counts[:, [1, 11]].tolist() == [[1, 8_400_000]] * 2
    view = fused.CompactRows(found, Centring([0.0] * 2, [9.0] * 2, [1.0] * 2))
    assert fused.sum_signs(view).tolist() == [8_400_000 - 1] * 2
    octaves = fused.count_signed_octaves(rows, [0.0] * 2, [0.0] * 2, [0, 1])
    assert sorted(octaves[0][octaves[0] > 0].tolist()) == [1, 8_400_000]


class Guarded:
    """PyTorch, but tensors have numbers after them that nobody may write to, or read."""

    def __init__(self):
        self.made = []

    def __getattr__(self, name):
        return getattr(torch, name)

    def zeros(self, shape, **how):
        if isinstance(shape, tuple) and shape[0] == 2:  # two vectors
            return [self.zeros(shape[1], **how) for _ in range(2)]
        size = int(np.prod(shape))
        whole = torch.zeros(size + GUARD, **how)
        whole[size:] = 77
        self.made.append(whole)
        return whole[:size].reshape(shape)

    empty = zeros

    def shorten(self, square, bound):
        whole = torch.full((len(square) + GUARD,), torch.nan, device=square.device).double()
        whole[:-GUARD] = shortening(square, bound)
        return whole[:-GUARD]

    def check(self):
        assert len(self.made) > 20
        assert all((each[-GUARD:] == 77).all() for each in self.made)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_fused_kernels_write_nothing_beyond_their_results():
    check_guards(pytest.importorskip("hushcov.engines.fused"))


def check_guards(fused):
    fused.torch = guarded = Guarded()
    fused.shortening = guarded.shorten
    try:
        for n, d in SIZES[:-3]:
            check_same(n, d, "cuda", gaps=True)
            check_same(n, d, "cuda", gaps=False)
    finally:
        fused.torch, fused.shortening = torch, shortening
    guarded.check()
