"""`CompactRecords` and lanes of records: the same sums as of records one by one."""

from __future__ import annotations

from pathlib import Path

import dask.array
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch

from exact_sums import bounded_sums, norm_histogram, sign_gram
from hushcov.engines.records import DeviceRecords
from hushcov.exceptions import DataError, ParameterError
from hushcov.kernel.grids import FeatureGrid, IntegerGrid
from hushcov.kernel.records import compact
from hushcov.kernel.records.base import CentredRecords, CompleteRecords
from hushcov.kernel.records.compact import CompactRecords
from hushcov.kernel.sums import rows as row_sums
from hushcov.kernel.sums.bounded import bounded_sums_of, fourth_sums_of
from hushcov.kernel.sums.counts import sign_sums, signed_octaves
from hushcov.kernel.sums.gram import row_bounded_gram, second_moments
from hushcov.kernel.sums.products import N_NORM_BINS, ProductMap
from hushcov.paper.plan import ScaledRecords
from hushcov.tables.progress import WatchedRecords
from hushcov.tables.sources import ArrayRecords, open_records

N, D = 301, 5
X = np.random.default_rng(5).standard_normal((N, D)) * [1, 10, 1e-9, 1e12, 3] + [0, 50, 0, -1e12, 7]
X[::7, 0], X[3, 1], X[4, 3] = 0.0, 1e300, -np.finfo(float).max
CENTRE = np.array([0.1, 49.0, 1e-10, -1e12, 7.0])
SCALE = np.array([1.0, 9.0, 1.1e-9, 1e12, 0.0])
REACH = np.array([2.0, 1e5, 1e-8, 5e12, 1.0])
SHIFT, NEAR = SCALE * [0.3, -0.2, 0.1, 0.0, 0.0], SCALE * 1.7
GRID = FeatureGrid(SCALE, 64.0, 2**15 - 1)
EDGES = tuple(int(4**k) for k in range(6, 16))
PRODUCTS = ProductMap(
    FeatureGrid(SCALE, 8.0, 255), np.array([0, 1]), np.array([2, 3]), 2, 1, 30, 900, 50, 20, 10**5
)
SUMS = {
    "bounded": lambda r: bounded_sums(r, GRID, 1500),
    "fourths": lambda r: r.map_sum(fourth_sums_of(r, GRID, 20, 2**12)),
    "norms": lambda r: norm_histogram(r, GRID, EDGES),
    "signs": sign_sums,
    "sign products": lambda r: np.triu(sign_gram(r, 1, 4)),
    "products": lambda r: np.triu(row_bounded_gram(r, GRID, 1500)),
    "values": PRODUCTS.sum,
    "value norms": PRODUCTS.norm_histogram,
    "octaves": lambda r: signed_octaves(r, SHIFT, NEAR * 0.01, np.arange(D)),
    "moments": lambda r: second_moments(ScaledRecords(r, SCALE), IntegerGrid(9.0, 200)).gram,
}


def mapped(rows):
    """The definition, value by value."""
    values = np.zeros(rows.shape)
    for a, row in enumerate(rows):
        for i, x in enumerate(row.tolist()):
            if SCALE[i] > 0:
                unit = SCALE[i] / 512
                reach = min(REACH[i], 32767 * unit)
                y = min(max(x - CENTRE[i], -reach), reach)
                units = round(y * (512 / SCALE[i]))
                assert abs(units) <= 32767
                values[a, i] = units * unit
    return values


def made(records, **options):
    return CompactRecords(records, CENTRE, REACH, SCALE, **options)


def parquet(folder):
    table = pa.table({f"x{i}": X[:, i] for i in range(D)})
    pyarrow.parquet.write_table(table, folder / "x.parquet", row_group_size=60)
    return open_records(folder / "x.parquet", block_rows=50)


SOURCES = {
    "memory": lambda _: ArrayRecords(X),
    "blocks": lambda _: ArrayRecords(X[::-1], block_rows=7),
    "file": parquet,
    "tensor": lambda _: open_records(torch.from_numpy(X)),
    "device": lambda _: DeviceRecords(ArrayRecords(X, block_rows=100), "cpu"),
    "cluster": lambda _: open_records(dask.array.from_array(X, chunks=(100, D))),
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("keep", [True, False])
def test_sums_are_those_of_the_definition_wherever_records_are(source, keep, monkeypatch, tmp_path):
    monkeypatch.setattr(row_sums, "_SMALLEST_PART", 1)
    expected = ArrayRecords(mapped(X))
    records = made(SOURCES[source](tmp_path), keep=keep)
    for view in (lambda r: r, lambda r: CentredRecords(r, SHIFT, NEAR)):
        for name, sums in SUMS.items():
            wanted = sums(view(expected))
            assert np.any(wanted != sums(view(ArrayRecords(X)))), name  # the test would notice
            for _ in range(2):  # the records, then the copy
                np.testing.assert_array_equal(sums(view(records)), wanted, err_msg=name)


@pytest.mark.parametrize("source", ["memory", "tensor", "cluster"])
def test_records_that_miss_a_value_are_zeros_about_every_centre(source):
    gaps = X.copy()
    gaps[::5, 2] = gaps[9, 0] = np.nan
    whole = mapped(gaps[~np.isnan(gaps).any(axis=1)])
    opened = {
        "memory": lambda: open_records(gaps, block_rows=50).with_gaps(),
        "tensor": lambda: open_records(torch.from_numpy(gaps)).with_gaps(),
        "cluster": lambda: open_records(dask.array.from_array(gaps, chunks=(100, D))).with_gaps(),
    }[source]
    near = np.clip(whole - SHIFT, -NEAR, NEAR)
    zeros = np.zeros((N - len(whole), D))
    complete = ArrayRecords(np.concatenate([near, zeros]))
    records = made(CompleteRecords(opened()))
    for name, sums in SUMS.items():
        if name == "octaves":  # which leaves missing ones out
            continue
        for _ in range(2):
            found = sums(CentredRecords(records, SHIFT, NEAR))
            np.testing.assert_array_equal(found, sums(complete), err_msg=name)
    found = SUMS["octaves"](CentredRecords(records, SHIFT, NEAR))
    np.testing.assert_array_equal(found, SUMS["octaves"](ArrayRecords(near)))


def counted(records, passes):
    return WatchedRecords(records, lambda: passes.append(1), lambda rows: None)


def test_a_kept_copy_is_read_in_place_of_the_records(monkeypatch):
    for limit, expected in ((2 * N * D, 1), (2 * N * D - 1, len(SUMS))):
        monkeypatch.setattr(compact, "_MOST_IN_MEMORY", limit)
        passes = []
        records = made(counted(ArrayRecords(X), passes))
        for sums in SUMS.values():
            sums(CentredRecords(records, SHIFT, NEAR))
        assert len(passes) == expected


def test_a_reading_that_fails_leaves_no_copy():
    bad = X.copy()
    bad[-1, -1] = np.inf
    records = made(ArrayRecords(bad, block_rows=100))
    for _ in range(2):
        for sums in SUMS.values():
            with pytest.raises(DataError, match="must be finite"):
                sums(records)


def test_infinite_values_are_refused_where_others_may_be_missing():
    bad = X.copy()
    bad[0, 0], bad[1, 1] = np.nan, -np.inf
    records = made(CompleteRecords(open_records(bad).with_gaps(strict=True)))
    with pytest.raises(DataError, match="infinite"):
        sign_sums(records)
    with pytest.raises(DataError, match="must be finite"):
        sign_sums(made(ArrayRecords(bad)))


def test_what_is_no_public_number_for_each_feature_is_refused():
    for centre, reach, scale in (
        *((CENTRE[:2], REACH, SCALE), (CENTRE * np.nan, REACH, SCALE), (CENTRE, -REACH, SCALE)),
        (CENTRE, REACH, -SCALE),
    ):
        with pytest.raises(ParameterError):
            CompactRecords(ArrayRecords(X), centre, reach, scale)


def test_a_scratch_file_is_read_in_place_of_the_records_and_has_no_name(monkeypatch, tmp_path):
    monkeypatch.setattr(compact, "_MOST_KEPT", 0)
    table = pa.table([*X.T], names=[f"x{i}" for i in range(D)])
    pa.parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=100)
    folder = tmp_path / "scratch"
    folder.mkdir()
    for scratch, expected in ((folder, 1), (None, len(SUMS))):
        passes = []
        opened = open_records(tmp_path / "rows.parquet", block_rows=64, scratch=scratch)
        records = made(counted(opened, passes))
        for name, sums in SUMS.items():
            found = sums(CentredRecords(records, SHIFT, NEAR))
            plain = sums(CentredRecords(made(ArrayRecords(X)), SHIFT, NEAR))
            np.testing.assert_array_equal(found, plain, err_msg=name)
            assert not [*folder.iterdir()]
        assert len(passes) == expected


def test_a_scratch_file_that_cannot_be_written_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setattr(compact, "_MOST_KEPT", 0)
    table = pa.table([*X.T], names=[f"x{i}" for i in range(D)])
    pa.parquet.write_table(table, tmp_path / "rows.parquet")
    with pytest.raises(ParameterError, match="scratch must be a folder"):
        open_records(tmp_path / "rows.parquet", scratch=tmp_path / "none")
    with pytest.raises(ParameterError, match="scratch must be left out"):
        open_records(X, scratch=tmp_path)
    records = made(open_records(tmp_path / "rows.parquet", scratch=tmp_path))
    with Path("/dev/full").open("r+b", buffering=0) as full:
        monkeypatch.setattr(compact.tempfile, "TemporaryFile", lambda **_: full)
        for _ in range(2):
            with pytest.raises(OSError, match="space"):
                sign_sums(records)


# Records side by side: the sums are those of records one by one, to the last bit.


def product_map(d, n_pairs, *, half_width=500, norm_bound=None):
    random = np.random.default_rng(d + n_pairs)
    first, second = np.triu_indices(d, 1)
    chosen = random.choice(len(first), n_pairs, replace=False) if n_pairs else []
    centre = int((half_width / 8) ** 2)
    middling = int(5 * centre * np.sqrt(16 * n_pairs + 18 * d) / 4)  # above some norms
    pairs = first[chosen].astype(np.int64), second[chosen].astype(np.int64)
    ranges = {"factor_range": 1000, "size_range": 777, "size_cap": 2 * d * centre}
    bound = middling if norm_bound is None else norm_bound
    grid = FeatureGrid(np.ones(d), 8.0, half_width)
    return ProductMap(grid, *pairs, 5, 3, centre, bound, **ranges)


def one_by_one(X, m):
    """z and the factor of each record, with NumPy, and what is released of its size."""
    h = m.grid.half_width
    y = np.rint(np.clip(X * m.grid.multipliers, -h, h))
    pairs = m.pair_weight * y[:, m.rows] * y[:, m.columns]
    z = np.hstack([pairs, m.diagonal_weight * (y * y - m.centre)])
    square = (z * z).sum(axis=1)
    factor = m.norm_bound / np.sqrt(np.maximum(square, 1)) * (1 - 2.0**-40)
    factor[square <= m.norm_bound**2] = 1.0
    size = np.minimum((y * y).sum(axis=1).astype(np.int64), m.size_cap)
    return z, factor, size * m.size_range // m.size_cap


def literal_sum(X, m):
    z, factor, size = one_by_one(X, m)
    values = np.trunc(z * factor[:, None]).astype(np.int64).sum(axis=0)
    return [*values, np.trunc(factor * m.factor_range).astype(np.int64).sum(), size.sum()]


def literal_counts(X, m):
    z, _, _ = one_by_one(X, m)
    mantissa, exponent = np.frexp((z * z).sum(axis=1))
    return np.bincount(2 * exponent + (mantissa >= np.sqrt(0.5)), minlength=N_NORM_BINS)


def table(n, d):
    X = np.random.default_rng(n + d).standard_normal((n, d)) * 1.3
    X[::3, 0] = 0.0
    X[::7] *= 5.0  # long
    X[::11] = 0.0
    X[5:6] = 1e300
    return X


@pytest.mark.parametrize("n", [1, 7, 8, 63, 64, 65, 203])
@pytest.mark.parametrize(
    ("d", "n_pairs"), [(1, 0), (2, 0), (2, 1), (9, 8), (17, 33), (515, 1), (1030, 600)]
)
def test_sums_and_counts_are_those_of_records_one_by_one(n, d, n_pairs):
    X, m = table(n, d), product_map(d, n_pairs, half_width=100)
    assert m.sum(ArrayRecords(X)).tolist() == literal_sum(X, m)
    assert m.norm_histogram(ArrayRecords(X)).tolist() == literal_counts(X, m).tolist()


def test_blocks_of_an_array_do_not_depend_on_its_dtype():
    """One record may make an array of doubles one of objects."""
    X = np.random.default_rng(0).standard_normal((100, 3))
    sums = bounded_sums_of(ArrayRecords(X), FeatureGrid(np.ones(3), 10, 10), 80)
    found = [
        [len(block) for block in ArrayRecords(table, block_rows=5)._blocks_for(sums)]
        for table in (X, X.astype(object), X.astype(np.float32), np.asfortranarray(X))
    ]
    assert found == [[5] * 20] * 4
