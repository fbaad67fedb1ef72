"""Records of files and compact copies: what planted faults change."""

import sys
import threading
from dataclasses import replace
from functools import partial
from unittest.mock import Mock

import dask.array
import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import csv, feather, parquet

from command_line import PATIENCE
from hushcov.engines import device
from hushcov.engines.records import DeviceRecords
from hushcov.exceptions import DataError, ParameterError
from hushcov.kernel.records import compact
from hushcov.kernel.records.base import CompleteRecords
from hushcov.kernel.records.compact import CompactRecords
from hushcov.kernel.sums.counts import sign_sums
from hushcov.tables import files
from hushcov.tables.files import FileRecords
from hushcov.tables.formats import GroupReader
from hushcov.tables.progress import WatchedRecords
from hushcov.tables.sources import ArrayRecords, TensorRecords, open_records
from table_helpers import rows_of

# Files: which rows are read, and as what.

N, NAMES = 46, ["a", "b", "c"]
X = np.random.default_rng(3).standard_normal((N, 3)).round(6)


def write(path, table=X, group=10):
    made = pa.table([*np.ascontiguousarray(table.T)], names=NAMES)
    if path.suffix == ".parquet":
        parquet.write_table(made, path, row_group_size=group)
    elif path.suffix == ".csv":
        csv.write_csv(made, path)
    else:
        feather.write_feather(made, path, chunksize=group)
    return path


@pytest.fixture
def groups(monkeypatch):
    """Groups of rows are read column by column however small they are."""
    monkeypatch.setattr(files, "_BLOCKS_IN_PART", 0.1)


@pytest.mark.parametrize("n_threads", ["1", "2"])
@pytest.mark.parametrize("rows", [None, 6])
def test_every_span_of_groups_has_its_own_rows(tmp_path, monkeypatch, groups, n_threads, rows):
    """Whole groups, or halves of them where room is for six rows alone; of odd sizes."""
    monkeypatch.setenv("OMP_NUM_THREADS", n_threads)
    records = open_records(write(tmp_path / "x.parquet", group=9), block_rows=2)
    if rows is not None:
        monkeypatch.setattr(files, "_COLUMNS_BYTES", 8 * 9)
        others = 16 * 3 * files.default_block_rows(3) - 3 * files.threads() * 8 * 9
        monkeypatch.setattr(files, "reader_bytes", lambda d: 8 * rows * d - others)
    assert len(records._parts()) == (6 if rows is None else 6 + 5)
    (span,) = records.spans
    for start, stop in [(0, N), (0, 1), (8, 9), (9, 10), (8, 28), (9, 18), (17, 37), (45, 46)]:
        part = records.only([replace(span, start=start, stop=stop)])
        assert rows_of(part).tolist() == X[start:stop].tolist()
        for first in (0, (stop - start) // 2, stop - start - 1):
            found = np.concatenate([block.copy() for block in part._blocks_from(first)])
            assert found.tolist() == X[start + first : stop].tolist()
    two = records.only([replace(span, start=30, stop=40), replace(span, start=3, stop=12)])
    assert rows_of(two).tolist() == [*X[30:40].tolist(), *X[3:12].tolist()]
    uneven = open_records(write(tmp_path / "y.parquet", group=N - 1), block_rows=2)
    assert rows_of(uneven).tolist() == X.tolist()


@pytest.mark.parametrize("n_threads", ["1", "2"])
@pytest.mark.parametrize("suffix", ["parquet", "feather", "csv"])
def test_files_that_lose_rows_are_refused(tmp_path, monkeypatch, suffix, n_threads):
    monkeypatch.setenv("OMP_NUM_THREADS", n_threads)
    for in_parts in (4, 0.1):
        monkeypatch.setattr(files, "_BLOCKS_IN_PART", in_parts)
        for group in (10, 7):
            path = write(tmp_path / f"x.{suffix}")
            fresh, used = open_records(path, block_rows=4), open_records(path, block_rows=4)
            assert len(rows_of(used)) == N
            write(path, X[:40], group)
            for records, words in ((fresh, "unchanged"), (used, "unchanged|cannot be read")):
                with pytest.raises(DataError, match=words):
                    rows_of(records)


def test_nothing_is_read_after_a_failure(tmp_path, monkeypatch, groups):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setattr(files, "_COLUMNS_BYTES", 8)
    records = open_records(write(tmp_path / "x.parquet"), block_rows=4)
    begun, ended, read = threading.Event(), [], GroupReader.read

    def slow(reader, group, names):
        if names == ("a",):
            begun.wait(PATIENCE)
            raise DataError("the first")
        begun.set()
        threading.Event().wait(0.05)
        ended.append(names)
        return read(reader, group, names)

    monkeypatch.setattr(GroupReader, "read", slow)
    with pytest.raises(DataError, match="the first"):
        rows_of(records)
    assert ("b",) in ended


def test_a_feature_may_be_left_out_but_not_the_last(tmp_path):
    records = FileRecords(write(tmp_path / "x.csv"), columns=["c", "a"])
    other = records.without("c")
    assert (other.feature_names, other.n_features) == (("a",), 1)
    assert rows_of(other).tolist() == X[:, :1].tolist()
    assert records.feature_names == ("c", "a")
    with pytest.raises(DataError, match="got none beside 'a'"):
        other.without("a")
    path = write(tmp_path / "x.parquet")
    assert [FileRecords(path, columns=c).columns_given for c in (None, ["a"])] == [False, True]
    for options in ({"header": False}, {"names": NAMES}, {"delimiter": ";"}):
        with pytest.raises(ParameterError, match="must be left out"):
            FileRecords(path, **options)


# Compact copies: what is kept, where, and what is read in place of the records.

CENTRE, REACH, SCALE = np.array([0.1, 0.0, -0.2]), np.array([1.0, 50.0, 2.0]), np.ones(3)
SIZE = 2 * X.size


def made(records, **options):
    d = records.n_features
    return CompactRecords(records, CENTRE[:d], REACH[:d], SCALE[:d], **options)


on_device = partial(DeviceRecords, device="cpu")


@pytest.mark.parametrize(
    ("most", "memory", "scratch", "keep", "expected"),
    [
        (SIZE, None, False, True, ("all", False)),
        (SIZE, None, True, True, ("all", False)),  # no file where it fits
        (SIZE - 1, None, False, True, (0, False)),
        (SIZE - 1, None, True, True, (0, True)),
        (SIZE, None, True, False, (0, False)),
        (0, None, True, False, (0, False)),
        (0, 20e-9, False, True, (20, False)),
        (0, 20e-9, True, True, (0, True)),
        (0, SIZE * 1e-9, True, True, ("all", False)),
    ],
)
def test_what_is_kept_of_files(tmp_path, monkeypatch, most, memory, scratch, keep, expected):
    monkeypatch.setattr(compact, "_MOST_KEPT", most)
    place = {"scratch": tmp_path} if scratch else {}
    records = made(open_records(write(tmp_path / "x.parquet"), memory=memory, **place), keep=keep)
    known = records.copy.most_bytes
    assert (("all" if known == sys.maxsize else known), bool(records.copy.folder)) == expected
    assert records.keeps_copy == (expected in (("all", False), (0, True)))
    assert records.held is None
    for _ in range(2):
        rows = np.concatenate([block.copy() for block in records._integers()])
        assert rows.tolist() == np.concatenate([*made(ArrayRecords(X))._integers()]).tolist()
        assert (records.copy.file is not None) == expected[1]


def test_what_is_kept_elsewhere(monkeypatch):
    """A copy on a device where it has room; workers keep their own; none without `keep`."""
    plain, clustered = ArrayRecords(X), open_records(dask.array.from_array(X, chunks=(20, 3)))
    for keep in (True, False):
        records = made(clustered, keep=keep)
        assert (records.copy.most_bytes, records.held is not None) == (0, keep)
        for room, most in ((False, SIZE), (False, SIZE - 1), (True, SIZE - 1)):
            asked = []
            monkeypatch.setattr(device, "is_free", lambda *given: asked.append(given) or room)  # noqa: B023
            monkeypatch.setattr(compact, "_MOST_KEPT", most)
            kept = keep and (room or most == SIZE)
            records = made(on_device(plain), keep=keep)
            assert records.keeps_copy == kept
            assert records.copy.most_bytes == (sys.maxsize if kept else 0)
            assert records.held is records.copy.folder is None
            assert asked == ([("cpu", SIZE)] if keep and most < SIZE else [])
            there = made(on_device(clustered), keep=keep)
            assert (there.copy.most_bytes, there.held) == (0, None)
    view = made(plain)._view()(plain)
    assert (view.copy.most_bytes, view.held) == (0, None)
    begun = Mock()
    kept = made(WatchedRecords(on_device(plain), begun, lambda rows: None))
    for _ in range(3):
        assert sign_sums(kept).tolist() == sign_sums(made(plain)).tolist()
    begun.assert_called_once()


MISSING_IN = {
    "memory": lambda table: ArrayRecords(table, block_rows=7),
    "tensor": lambda table: TensorRecords(torch.tensor(table), block_rows=7),
    "device": lambda table: on_device(ArrayRecords(table, block_rows=7)),
}


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("where", MISSING_IN)
def test_compact_rows_that_miss_a_value_are_missing_or_zeros(where, keep, d):
    table = X[:, :d].copy()
    table[3, 0] = table[17, d - 1] = table[N - 1] = np.nan
    gaps = np.isnan(table).any(axis=1)
    rows = np.array(rows_of(made(ArrayRecords(np.where(gaps[:, None], 0.0, table)))))
    source = MISSING_IN[where](table).with_gaps()
    for records, other in ((source, np.nan), (CompleteRecords(source), 0.0)):
        rows[gaps] = other
        blocks = made(records, keep=keep)._blocks()
        np.testing.assert_array_equal(np.concatenate([np.asarray(b) for b in blocks]), rows)


def test_a_scratch_file_is_read_in_turns_and_whole_or_not_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr(compact, "_MOST_KEPT", 0)
    monkeypatch.setattr(compact, "default_block_rows", lambda d: 7)
    records = made(open_records(write(tmp_path / "x.parquet"), scratch=tmp_path))
    first = np.concatenate([*records._integers()]).tolist()
    pairs = [*zip(records._integers(), records._integers(), strict=True)]
    assert [len(own) for own, _ in pairs] == [7] * 6 + [4]
    for turn in zip(*pairs, strict=True):
        assert np.concatenate(turn).tolist() == first
    records.copy.file.truncate(SIZE - 1)
    with pytest.raises(OSError, match="room for two bytes a value"):
        [*records._integers()]
    records.copy.file = None
    short = Mock(write=lambda content: len(content) // 2)
    monkeypatch.setattr(compact.tempfile, "TemporaryFile", lambda **_: short)
    with pytest.raises(OSError, match="room for two bytes a value"):
        [*records._integers()]
