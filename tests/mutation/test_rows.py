"""Which rows are read, of whom, how often and where: readers beside slow ones that say the same.

Texts are cut by a regular expression, hashes are made with integers of Python, and what tables,
units and partitions hand out is compared with rows that NumPy repeats, chooses or averages.
"""

import math
import re
import struct
import sys
from types import SimpleNamespace

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from hushcov.exceptions import DataError, DataTypeError, MissingPackageError
from hushcov.kernel.records.base import Chain, CountedRecords, Held, grouped_layer
from hushcov.kernel.records.units import RepeatedRecords, Units, fingerprints
from hushcov.tables import cluster
from hushcov.tables.cluster import DaskRecords, PartitionUnits, PartRecords, UnitPartitions
from hushcov.tables.files import FileRecords
from hushcov.tables.sources import ArrayRecords
from hushcov.tables.text import _scan
from hushcov.tables.units import weighted
from table_helpers import rows_of

# Text: where records end, and which columns have words such as true

RECORD, RETURN, FIELD, PLAIN, QUOTED, CLOSED, WRONG = range(7)
INSIDE = rb'"(?:[^"]|"")*'
ONE = rb'(?:%b"|[^,\r\n"][^,\r\n]*|)' % INSIDE
WHOLE = re.compile(rb"%b(?:,%b)*(?:\r\n|\n|\r(?!\n|\Z))" % (ONE, ONE))
CLASSES = np.zeros(256, dtype=np.uint8)
CLASSES[[*b',"\r\n']] = [1, 2, 3, 4]
TEXTS = [
    b'a,b\r\n"x\r\n""y",tt\nxt,1t,\r\rf', b'"a"\r', b'"a""', b'"a"b', b'"a"t,', b'a"b"\n"',
    b"at,ft\rta,F\n", b"inf,-t\n", b",,,t\n", b"1234567\r12345\r1", b"1\r\n1234567\r\n1",
    *(bytes([each]) + b"t," + bytes([each]) + b"F" for each in (64, 65, 90, 91, 96, 97, 122, 123)),
]  # fmt: skip


def state_after(rest):
    """Return where the text of a record that has not ended leads to."""
    whole = re.match(rb"(?:%b,)*" % ONE, rest)[0]
    last = rest[len(whole) :]
    kinds = [(FIELD if rest else RECORD, b""), (QUOTED, INSIDE), (CLOSED, INSIDE + b'"')]
    kinds += [(RETURN, ONE + b"\r"), (PLAIN, ONE)]
    return [*(kind for kind, text in kinds if re.fullmatch(text, last)), WRONG][0]


def read_slowly(text, most):
    """Return where at most so many records end, and what is known then."""
    ends = [0]
    while len(ends) <= most and (found := WHOLE.match(text, ends[-1])):
        ends.append(found.end())
    if len(ends) > most:
        text = text[: ends[-1]]
    state = state_after(text[ends[-1] :])
    return ends, [state, len(ends) - 1, max([0, *np.diff(ends)])]


@pytest.mark.parametrize("most", [2**62, 1, 2])
def test_records_of_text_are_those_of_a_slow_reader_however_it_is_cut(most):
    rng, letters = np.random.default_rng(5), np.frombuffer(b'az1t,,""\r\n\nT', np.uint8)
    texts = TEXTS + [rng.choice(letters, rng.integers(1, 14)).tobytes() for _ in range(1_500)]
    for number, text in enumerate(texts):
        ends, known = read_slowly(text, most)
        for cut in {0, number % len(text)}:
            place, seen = np.zeros(4, np.int64), 0
            for piece in filter(None, (text[:cut], text[cut:])):
                if place[1] == most or place[0] == WRONG:
                    break
                before, rows = place[1], np.frombuffer(piece, np.uint8)
                end = _scan(rows, CLASSES, most, place)
                assert end == (ends[place[1]] - seen if place[1] > before else -1)
                seen += len(piece)
            assert place.tolist() == [*known, seen - ends[-1]]


# Units: fingerprints, hashes, and the rows that are chosen

MULTIPLIER, WORD = 0x9E3779B97F4A7C15, 2**64 - 1


def mixed(numbers, shift):
    total = 0
    for number in numbers:
        total = (total ^ number) * MULTIPLIER & WORD
        total ^= total >> shift
    return total


def fingerprint(row):
    same = (math.nan if math.isnan(value) else value + 0.0 for value in row)
    return mixed((struct.unpack("<Q", struct.pack("<d", value))[0] for value in same), 29)


def test_fingerprints_stay_what_they_were():
    """They choose rows, so that releases rest on them."""
    odd = [0.0, -0.0, 1.0, -1.5, math.nan, -math.nan, 1e308, 5e-324, math.inf]
    rows = np.array([[a, b, a] for a in odd for b in odd])
    assert fingerprints(ArrayRecords(rows, block_rows=7)).tolist() == list(map(fingerprint, rows))


@pytest.mark.parametrize("most_rows", [1, 2, 3])
@pytest.mark.parametrize("n_units", [9, 40])
def test_rows_of_a_unit_are_those_with_the_smallest_fingerprints(most_rows, n_units):
    X, codes = np.random.default_rng(most_rows).standard_normal((40, 2)), np.arange(40) % n_units
    order = sorted(range(40), key=lambda i: fingerprint(X[i]))
    kept = [i for place, i in enumerate(order) if sum(codes[order[:place]] == codes[i]) < most_rows]
    found = Units(codes).bounded(ArrayRecords(X, block_rows=7), most_rows)
    assert sorted(rows_of(found).tolist()) == sorted(X[kept].tolist())
    if most_rows > 1:  # sums that bound a unit as one need its rows together
        assert grouped_layer(found, most_rows).most_rows == most_rows


@pytest.mark.parametrize("largest", [0, 1, 2, 4, 16])
@pytest.mark.parametrize("block_rows", [1, 3, 5, 100])
def test_rows_are_repeated_in_blocks_that_are_no_longer_than_those_before(largest, block_rows):
    X = np.arange(22.0).reshape(11, 2)
    times = np.random.default_rng(largest).integers(0, largest, 11, endpoint=True)
    times[[0, 2, 10]] = largest
    records = RepeatedRecords(ArrayRecords(X, block_rows=block_rows), times)
    blocks = list(records._blocks())
    assert np.concatenate([X[:0], *blocks]).tolist() == X.repeat(times, axis=0).tolist()
    assert records.n_records == records.n_rows == times.sum()
    assert all(0 < len(block) <= max(largest, min(block_rows, 11)) for block in blocks)
    if largest == 1:  # rows that are left out do not cut blocks
        assert len(blocks) <= -(-11 // block_rows)


def test_weights_are_sixteenths_of_the_largest_and_others_are_refused():
    records, times = ArrayRecords(np.arange(6.0)[:, None]), [0, 1, 4, 16, 16, 16]
    found = rows_of(weighted(records, [0.0, 0.24, 1.0, 4.0, 1e300, 3.9], 4.0))
    assert found.ravel().tolist() == np.repeat(range(6), times).tolist()
    assert rows_of(weighted(records, [0.0] * 5 + [1.0], 1.0)).tolist() == [[5.0]] * 16
    assert not list(weighted(records, [0.0] * 6, 1.0)._blocks())
    gaps, wrong = records.with_gaps(), [-5e-324, math.nan, math.inf]
    assert weighted(gaps, [math.nan, 1.0] * 3, 1.0).n_records == 3 * 16
    given = [(gaps, [math.inf, 1.0] * 3), *((records, [0.5] * 5 + [each]) for each in wrong)]
    for source, weights in [*given, *((records, each) for each in ([1] * 5, [1] * 7, [[1]] * 6))]:
        with pytest.raises(DataError, match="must have one number for each row"):
            weighted(source, weights, 1.0)
    for given in (["a"] * 6, [None, "b"] * 3, [object()] * 6):
        with pytest.raises(DataError, match="must have numbers, got something else"):
            weighted(records, given, 1.0)


def test_means_of_units_come_in_blocks_and_not_from_elsewhere(monkeypatch):
    X, codes = np.random.default_rng(0).integers(0, 99, (23, 3)) * 1.0, np.arange(23) % 5
    expected = np.array([X[codes == unit].mean(axis=0) for unit in range(5)])
    for step in (1, 2, 5, 9):
        monkeypatch.setattr(f"{Units.__module__}.default_block_rows", lambda d, step=step: step)
        found = list(Units(codes).means(ArrayRecords(X, block_rows=7))._blocks())
        assert list(map(len, found)) == [len(expected[i : i + step]) for i in range(0, 5, step)]
        assert np.concatenate(found) == pytest.approx(expected)
    with pytest.raises(DataError, match="must have records in memory or files"):
        Units(codes).means(DaskRecords(da.from_array(X)))


# Partitions: what workers are given, keep and shuffle


@pytest.fixture(autouse=True)
def _one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def total(block):
    return np.array([len(block), *np.rint(block.sum(axis=0))], dtype=np.int64)


def test_a_collection_is_summed_however_it_is_cut():
    X = np.arange(60.0).reshape(12, 5)
    chunks = ((12, 5), (1, 2), (5, (1, 4)), ((0, 9, 0, 3), 5))
    whole, *others = (da.from_array(X, chunks=each) for each in chunks)
    others += [whole[whole[:, 0] >= 0], whole[whole[:, 0] < 0]]  # of unknown lengths
    for data in (whole, *others, da.zeros((0, 5)), da.zeros((4, 1))):
        records, rows = DaskRecords(data), np.asarray(data.compute())
        assert (records.n_records, records.n_features) == rows.shape
        assert np.array_equal(records.map_sum(total), total(rows))
    for shape, words in (((5,), "features: pass"), ((2, 2, 2), "features: pass"), ((2, 0), "one")):
        with pytest.raises(DataError, match=words):
            DaskRecords(da.zeros(shape))
    with pytest.raises(DataError, match="real numbers"):
        DaskRecords(da.zeros((2, 2), dtype=complex))


def test_dataframes_are_checked_before_they_are_summed():
    table = pd.DataFrame({"unit": [1, 2], "a": [1.0, 2.0], 7: [3, 4]})
    frame = dd.from_pandas(table, npartitions=2)
    records = DaskRecords(frame)
    assert records.feature_names == ("unit", "a", "7")
    assert records.map_sum(total).tolist() == [2, 3, 3, 7]
    for make in (DaskRecords, lambda text: UnitPartitions(text, "unit")):
        with pytest.raises(DataTypeError, match="X must hold numbers, but column 'b'"):
            make(frame.assign(b="c"))
    with pytest.raises(DataError, match="must have a feature beside the unit"):
        UnitPartitions(frame[["unit"]], "unit")


def test_a_package_that_is_missing_is_named_at_once(tmp_path, monkeypatch):
    files, frame = files_of(tmp_path / "some", [3])[1], pd.DataFrame({"unit": [1], "a": [2.0]})
    monkeypatch.setitem(sys.modules, "dask", None)
    for make, given in ((DaskRecords, (files,)), (UnitPartitions, (frame, "unit"))):
        with pytest.raises(MissingPackageError, match="dask"):
            make(*given)


class Client:
    """As much of a client of a cluster as tells where copies are kept."""

    def __init__(self, **workers):
        self.id, self.workers, self.submitted = "client", workers, []

    def scheduler_info(self, n_workers=5):
        some = list(self.workers.items())[: None if n_workers < 0 else n_workers]
        return {"workers": {n: {"memory_limit": m, "nthreads": t} for n, (m, t) in some}}

    def submit(self, function, size, **how):
        self.submitted.append((size, how))
        return function(size)


def files_of(folder, sizes):
    """Return rows of two features, and the files of so many rows that have them."""
    folder.mkdir()
    X = np.arange(2.0 * sum(sizes)).reshape(-1, 2)
    for i, part in enumerate(np.split(X, np.cumsum(sizes)[:-1])):
        parquet.write_table(pa.table({"a": part[:, 0], "b": part[:, 1]}), folder / f"{i}.parquet")
    return X, FileRecords(folder)


def test_copies_are_kept_by_the_released_number_of_records(tmp_path, monkeypatch):
    """Three pieces: 40 bytes by that number are 14 for each, and two of them are within 41."""
    X, files = files_of(tmp_path / "some", [4, 1, 3])
    records, one = DaskRecords(files), DaskRecords(files_of(tmp_path / "one", [8])[1])
    cases = ((41, 10, 2), (42, 10, 3), (27, 10, 1), (13, 10, 0), (3, 1, 1), (6, 1, 3))
    for room, released, kept in cases:
        monkeypatch.setattr(cluster, "_MOST_KEPT", room)
        held = Held(released)
        assert np.array_equal(records.map_sum_through(Chain(), total, (), held), total(X))
        assert held.complete == (kept == 3)
        (keepers,) = held.keepers.values()
        assert [each.__sizeof__() for each in keepers if each] == [16, 4, 12][:kept]
        assert all(a is b for a, b in zip(records._keepers(held), keepers, strict=True))
        assert (one._keepers(Held(released)) != [None]) == (2 * 2 * released <= room)
    assert np.array_equal(records.map_sum_through(Chain(), total, (), None), total(X))
    assert DaskRecords(da.from_array(X))._keepers(Held(10)) == [None]
    empty = DaskRecords(files_of(tmp_path / "none", [0])[1])
    assert empty.map_sum_through(Chain(), total, (), Held(0)).tolist() == [0, 0, 0]


def test_workers_keep_no_more_than_a_quarter_of_their_memory(tmp_path, monkeypatch):
    client, held = Client(a=(56, 1), b=(None, 3), c=(51, 9)), Held(10)
    monkeypatch.setattr(cluster, "_MOST_KEPT", 15)
    monkeypatch.setattr(cluster, "_client", lambda: client)
    assert cluster._capacities(client) == {"a": (14, 1), "b": (15, 3), "c": (12, 9)}
    assert cluster._capacities(None) == {None: (15, 1)}
    keepers = DaskRecords(files_of(tmp_path / "some", [4, 1, 3])[1])._keepers(held)
    assert [each is not None for each in keepers] == [True, True, False]
    assert list(held.keepers) == ["client"]
    # A worker that is lost may be replaced, and every piece has a copy of its own.
    how = {"allow_other_workers": True, "pure": False}
    assert client.submitted == [(16, {"workers": ["b"], **how}), (4, {"workers": ["a"], **how})]
    # Where there is room, and least to do for a thread.
    assert cluster._spread([10, 5, 3, 4], {"a": (9, 1), "b": (8, 2)})[1:] == ["b", "b", "a"]
    assert cluster._spread([2, 2, 2], {"a": (9, 2), "b": (9, 3)}) == ["b", "a", "b"]


def test_units_of_partitions_are_counted_and_of_one_type():
    given = (([0, 0, 1, 2, 2, 2], str), ([1, 0, 1], str), ([0], int))
    parts = [PartRecords(np.ones((len(c), 1)), Units(np.array(c)), kind) for c, kind in given]
    units, nobody, several = (
        PartitionUnits(np.zeros(0, dtype=np.int64), SimpleNamespace(parts=[None, *each]))
        for each in ([*parts[:1], None, *parts[1:2]], [], parts)
    )
    records = ArrayRecords(np.ones((9, 1)))
    assert units.sizes.tolist() == [2, 1, 3, 1, 2]
    assert nobody.sizes.tolist() == []
    assert [units.bounded(records, most).n_records for most in (1, 2, 3)] == [5, 8, 9]
    assert units.means(records).n_records == 5
    with pytest.raises(DataError, match="identifiers of one type"):
        several.sizes  # noqa: B018


def frame_of_units(n_rows):
    table = pd.DataFrame({"a": np.arange(1.0 * n_rows), "b": 2.0, "unit": np.arange(n_rows) % 4})
    return table, dd.from_pandas(table, npartitions=2, sort=False)


def test_partitions_without_rows_add_nothing_and_have_the_types_of_others(monkeypatch):
    """A cluster converts the rows that it shuffles to these types."""
    types, local = [], cluster._local
    monkeypatch.setattr(cluster, "_local", lambda f, u: types.append(f[u].dtype) or local(f, u))
    records = UnitPartitions(frame_of_units(0)[1], "unit")
    units = records.units()
    bounded = [units.bounded(records, most) for most in (1, 2)]
    for view in (records, *bounded, units.means(records)):
        assert view.n_records == 0
        assert view.map_sum(total).tolist() == [0, 0, 0]
    assert set(types) == {np.dtype(np.int64)}


SHUFFLES = [
    *((0, "counted", False, 1), (-1, "counted", False, 2), (0, "none", False, 2)),
    *((0, "bounded", False, 1), (-1, "bounded", False, 2), (0, "means", False, 2)),
    *((-1, "counted", True, 1), (-1, "none", True, 1)),
]


@pytest.mark.parametrize("case", SHUFFLES)
def test_two_sums_shuffle_twice_unless_the_released_number_of_rows_fits(monkeypatch, case):
    """With room for 10 rows of two features and a unit, or one byte less; workers keep rows."""
    (more_room, views, on_cluster, shuffles), (table, frame) = case, frame_of_units(9)
    made, local = [], cluster._local
    monkeypatch.setattr(cluster, "_local", lambda *given: made.append(1) or local(*given))
    monkeypatch.setattr(cluster, "_MOST_KEPT", 8 * 10 * 3 + more_room)
    monkeypatch.setattr(cluster, "_client", lambda: object() if on_cluster else None)
    found, expected = UnitPartitions(frame, "unit"), table[["a", "b"]].to_numpy()
    if views in ("bounded", "means"):
        found = cluster.WithinPartitions(found, 9, 3 if views == "bounded" else None)
        expected = expected if views == "bounded" else table.groupby("unit").mean().to_numpy()
    found = found if views == "none" else CountedRecords(found, 10)
    for _ in range(2):
        assert np.array_equal(found.map_sum(total), total(expected))
    assert len(made) == 2 * shuffles
