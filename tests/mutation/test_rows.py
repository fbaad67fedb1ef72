"""Which rows are read, of whom, how often and where: readers beside slow ones that say the same.

Texts are cut by a regular expression, hashes are made with integers of Python, and what tables,
units and partitions hand out is compared with rows that NumPy repeats, chooses or averages.
"""

import math
import re
import struct
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from hushcov.exceptions import DataError, DataTypeError, MissingPackageError
from hushcov.sums.records import Chain, CountedRecords, Held
from hushcov.tables import cluster
from hushcov.tables import units as unit_tables
from hushcov.tables.cluster import DaskRecords, PartitionUnits, PartRecords, UnitPartitions
from hushcov.tables.codebook import Codebook, CodebookColumn, FrameRecords, code_categories
from hushcov.tables.files import FileRecords
from hushcov.tables.sources import ArrayRecords
from hushcov.tables.text import _scan
from hushcov.tables.units import RepeatedRecords, Units, _hashes, fingerprints, weighted
from table_helpers import rows_of

# Text: where records end, and which columns have words such as true

RECORD, RETURN, FIELD, PLAIN, QUOTED, CLOSED, WRONG = range(7)
_INSIDE = rb'"(?:[^"]|"")*'
_ONE = rb'(?:%b"|[^,\r\n"][^,\r\n]*|)' % _INSIDE
_WHOLE = re.compile(rb"%b(?:,%b)*(?:\r\n|\n|\r(?!\n|\Z))" % (_ONE, _ONE))
CLASSES = np.zeros(256, dtype=np.uint8)
CLASSES[[*b',"\r\n', *b"tTfF"]] = [1, 2, 3, 4, 5, 5, 5, 5]
COLUMNS = 2


def state_after(rest):
    """Return where the text of a record that has not ended leads to, and the column."""
    last = re.sub(rb"\A(?:%b,)*" % _ONE, b"", rest)
    column = re.findall(_ONE + b",", rest[: len(rest) - len(last)])
    if not last:
        return (FIELD if rest else RECORD), len(column)
    if not last.startswith(b'"'):
        return (RETURN if last.endswith(b"\r") else PLAIN), len(column)
    kinds = {QUOTED: b"", CLOSED: b'"', RETURN: b'"\r'}
    found = [kind for kind, end in kinds.items() if re.fullmatch(_INSIDE + end, last)]
    return (*found, WRONG)[0], len(column)


def read_slowly(text, most):
    """Return the ends of whole records, at most so many, and what is known after them."""
    ends, truths = [0], set()
    while len(ends) <= most and (found := _WHOLE.match(text, ends[-1])):
        ends.append(found.end())
    stopped = len(ends) > most
    state, column = (RECORD, 0) if stopped else state_after(text[ends[-1] :])
    for word in re.finditer(rb"(?<![A-Za-z])[tTfF]", text[: ends[-1]] if stopped else text):
        start = max(end for end in ends if end <= word.start())
        truths.add(state_after(text[start : word.start()])[1])
    longest = max([0, *np.diff(ends)])
    return ends[1:], [state, len(ends) - 1, column, longest, len(text) - ends[-1]], truths


def scanned(pieces, most):
    place, truths = np.zeros(6, dtype=np.int64), np.zeros(COLUMNS + 3, dtype=np.bool_)
    start, ends = 0, []
    for piece in pieces:
        before = place[1]
        end = _scan(np.frombuffer(piece, np.uint8), CLASSES, most, place, truths[:COLUMNS])
        assert (end >= 0) == (place[1] > before)
        ends += [start + end] if end >= 0 else []
        start += len(piece)
        if place[1] == most or place[0] == WRONG:
            break
    return ends, place, truths, start


TEXTS = [
    b'a,b\r\n"x\r\n""y",tt\nxt,1t,\r\rf', b'"a"\r', b'"a""', b'"a"b', b'"a"t,', b'a"b"\n"', b"\r\n",
    b"\r", b"\rt", b"\r\r", b'\r"', b'\n"t",\r\n', b"at,ft\rta,F\n", b't"t', b"inf,-t\n", b",,,t\n",
    b"1234567\r12345\r1", b"1\r\n1234567\r\n1", b"t,1\rf,t", b'"\r', b'"t\n', b'x"\r\n', b"AT,ZT\n",
    *(bytes([each]) + b"t," + bytes([each]) + b"F" for each in (64, 65, 90, 91, 96, 97, 122, 123)),
]  # fmt: skip


@pytest.fixture(scope="module")
def texts():
    rng = np.random.default_rng(5)
    letters = np.frombuffer(b'az1t,,""\r\n\nT', np.uint8)
    return TEXTS + [rng.choice(letters, rng.integers(1, 14)).tobytes() for _ in range(1_500)]


@pytest.mark.parametrize("most", [2**62, 1, 2])
def test_records_of_text_are_those_of_a_slow_reader_however_it_is_cut(texts, most):
    for number, text in enumerate(texts):
        expected, known, words = read_slowly(text, most)
        cut = number % len(text)
        for pieces in [(text,), (text[:cut], text[cut:])][: 1 + (cut > 0)]:
            ends, place, truths, seen = scanned(pieces, most)
            assert ends == [e for e in expected if e in ends]
            assert expected[-1:] == ends[-1:]
            found = place[[0, 1, 2, 4, 5]].tolist()
            assert found[:4] == known[:4]
            assert found[4] == known[4] - (len(text) - seen)
            assert place[3] == text[seen - 1]
            if known[0] != WRONG:
                assert set(np.flatnonzero(truths)) == {c for c in words if c < COLUMNS}


# Units: fingerprints, hashes, and the rows that are chosen

MULTIPLIER, WORD = 0x9E3779B97F4A7C15, 2**64 - 1


def fingerprint(row):
    total = 0
    for value in row:
        (bits,) = struct.unpack("<Q", struct.pack("<d", math.nan if value != value else value + 0))
        total = (total ^ bits) * MULTIPLIER & WORD
        total ^= total >> 29
    return total


def hash_of(identifier):
    if isinstance(identifier, int):
        return (identifier & WORD) * MULTIPLIER % 2**64 >> 32
    total = 0
    for byte in identifier.encode():
        total = (total ^ byte) * MULTIPLIER & WORD
        total ^= total >> 32
    return total >> 8


def test_fingerprints_and_hashes_are_those_that_were_published():
    """Others would choose other rows of a unit, so that a release could not be made again."""
    pa = pytest.importorskip("pyarrow")
    odd = [0.0, -0.0, 1.0, -1.5, math.nan, -math.nan, 1e308, 5e-324, math.inf]
    rows = np.array([[a, b, a] for a in odd for b in odd])
    assert fingerprints(ArrayRecords(rows, block_rows=7)).tolist() == list(map(fingerprint, rows))
    words = ["", "a", "b", "aa", "ba", "é", "a" * 50, "\0", "Z9"]
    assert _hashes(pa.array(words, pa.large_string())).tolist() == list(map(hash_of, words))
    numbers = [0, 1, -1, 2**63 - 1, -(2**63), 12345]
    assert _hashes(pa.array(numbers)).tolist() == list(map(hash_of, numbers))


@pytest.mark.parametrize("most_rows", [1, 2, 3])
@pytest.mark.parametrize("alone", [False, True])
def test_rows_of_a_unit_are_those_with_the_smallest_fingerprints(most_rows, alone):
    rng = np.random.default_rng(most_rows)
    X, codes = rng.standard_normal((40, 2)), rng.integers(0, 9, 40)
    codes = np.arange(40) if alone else np.unique(codes, return_inverse=True)[1]
    order = sorted(range(40), key=lambda i: fingerprint(X[i]))
    kept = {i for place, i in enumerate(order) if sum(codes[order[:place]] == codes[i]) < most_rows}
    found = rows_of(Units(codes).bounded(ArrayRecords(X, block_rows=7), most_rows))
    assert sorted(found.tolist()) == sorted(X[sorted(kept)].tolist())


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
    records = ArrayRecords(np.arange(6.0).reshape(6, 1))
    given = [0.0, 0.24, 1.0, 4.0, 1e300, 3.9]
    times = [0, 1, 4, 16, 16, 16]
    assert (
        rows_of(weighted(records, given, 4.0)).ravel().tolist()
        == np.repeat(range(6), times).tolist()
    )
    for wrong in (
        [1.0] * 5,
        [1.0] * 7,
        [[1.0]] * 6,
        *([0.5] * 5 + [each] for each in (-5e-324, math.nan, math.inf)),
    ):
        with pytest.raises(DataError, match="must have one number for each row"):
            weighted(records, wrong, 1.0)
    for wrong in (["a"] * 6, [None, "b"] * 3, [object()] * 6):
        with pytest.raises(DataError, match="must have numbers, got something else"):
            weighted(records, wrong, 1.0)
    gaps = records.with_gaps()
    assert weighted(gaps, [math.nan, 1.0] * 3, 1.0).n_records == 3 * 16
    with pytest.raises(DataError, match="must have one number for each row"):
        weighted(gaps, [math.inf, 1.0] * 3, 1.0)
    assert rows_of(weighted(records, [0.0] * 5 + [1.0], 1.0)).tolist() == [[5.0]] * 16
    assert not list(weighted(records, [0.0] * 6, 1.0)._blocks())


def test_means_of_units_come_in_blocks_and_not_from_elsewhere(monkeypatch):
    X, codes = np.random.default_rng(0).integers(0, 99, (23, 3)) * 1.0, np.arange(23) % 5
    expected = [X[codes == unit].mean(axis=0) for unit in range(5)]
    for step in (1, 2, 5, 9):
        monkeypatch.setattr(unit_tables, "default_block_rows", lambda d, step=step: step)
        found = list(Units(codes).means(ArrayRecords(X, block_rows=7))._blocks())
        assert list(map(len, found)) == [len(expected[i : i + step]) for i in range(0, 5, step)]
        assert np.concatenate(found) == pytest.approx(np.array(expected))
    da = pytest.importorskip("dask.array")
    with pytest.raises(DataError, match="must have records in memory or files"):
        Units(codes).means(DaskRecords(da.from_array(X)))


# A codebook: what columns of a table become

BOOK = Codebook(
    (
        CodebookColumn("colour", "category", values=("red", "green", "blue"), missing="green"),
        CodebookColumn("age", missing="30"),
        CodebookColumn("two", "category", values=("1", "2")),
    )
)
TABLE = {
    "x": [0.5, -1.0, 2.0, 3.0, 0.0],
    "colour": ["blue", None, "red", "grey", "green"],
    "age": [40.0, None, 20.0, 10.0, 0.0],
    "two": ["2", "1", "3", "1", "2"],
}
NAMES = ("x", "colour=red", "colour=green", "colour=blue", "age", "two=1", "two=2")
CODED = [
    [0.5, 0, 0, 1, 40, 0, 1],
    [-1.0, 0, 1, 0, 30, 1, 0],
    [2.0, 1, 0, 0, 20, 0, 0],
    [3.0, 0, 0, 0, 10, 1, 0],
    [0.0, 0, 1, 0, 0, 0, 1],
]


def frames(**changed):
    table = TABLE | changed
    pd, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    yield pd.DataFrame(
        {name: pd.Series(each, dtype=object) for name, each in table.items()}
    ).astype({"x": float})
    yield pd.DataFrame(table)
    whole = pa.table(table)
    yield whole
    yield pa.concat_tables([whole.slice(0, 2), whole.slice(2)])
    if (pl := sys.modules.get("polars")) is not None:
        yield pl.DataFrame(table)


@pytest.mark.parametrize("block_rows", [1, 2, 3, 9])
def test_coded_rows_are_those_of_the_codebook(block_rows):
    for frame in frames():
        records = code_categories(FrameRecords(frame, BOOK), BOOK, block_rows)
        blocks = list(records._blocks())
        assert records.feature_names == records._view()(records.source).feature_names == NAMES
        assert (records.n_records, records.n_features) == (5, 7)
        assert np.concatenate(blocks).tolist() == CODED
        assert list(map(len, blocks)) == [
            len(CODED[i : i + block_rows]) for i in range(0, 5, block_rows)
        ]
        assert not any(b.flags.writeable for b in [*blocks, *records.source._blocks()])


def test_nulls_of_a_table_are_filled_or_gaps_or_refused():
    for frame in frames(x=[0.5, None, 2.0, 3.0, 0.0], two=["2", None, "3", "1", "2"]):
        records = code_categories(FrameRecords(frame, BOOK), BOOK, 2)
        found = rows_of(records.with_gaps())
        assert np.isnan(found).tolist() == [
            [i == 1 and c in (0, 5, 6) for c in range(7)] for i in range(5)
        ]
        with pytest.raises(DataError, match="records must be"):
            rows_of(records)
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({name: pd.Series(each, dtype=object) for name, each in TABLE.items()})
    only = Codebook((CodebookColumn("two", "category", values=("1", "2")),))
    records = FrameRecords(frame[["age", "two"]], only)
    records.block_rows = 2
    with pytest.raises(DataError, match="values are missing"):
        rows_of(records)
    assert np.isnan(rows_of(records.with_gaps())[:, 0]).tolist() == [0, 1, 0, 0, 0]
    infinite = code_categories(FrameRecords(frame.assign(x=math.inf), BOOK), BOOK, 2).with_gaps()
    with pytest.raises(DataError, match="some are infinite in column 'x'"):
        rows_of(infinite)


# Partitions: what workers are given, keep and shuffle


@pytest.fixture
def dask():
    dask = pytest.importorskip("dask")
    with dask.config.set(scheduler="synchronous"):
        yield dask


def total(block):
    return np.array([len(block), *np.rint(block.sum(axis=0))], dtype=np.int64)


def totals(X):
    return [len(X), *X.sum(axis=0)]


@pytest.mark.usefixtures("dask")
def test_a_collection_is_summed_however_it_is_cut():
    da = pytest.importorskip("dask.array")
    X = np.arange(60.0).reshape(12, 5)
    whole = da.from_array(X, chunks=(5, 5))
    cuts = [
        da.from_array(X, chunks=each) for each in ((12, 5), (1, 2), (5, (1, 4)), ((0, 9, 0, 3), 5))
    ]
    for data in (
        *cuts,
        whole[whole[:, 0] >= 0],
        whole[whole[:, 0] < 0],
        da.zeros((0, 5)),
        da.zeros((4, 1)),
    ):
        records, rows = DaskRecords(data), np.asarray(data.compute())
        assert (records.n_records, records.n_features) == rows.shape
        assert records.map_sum(total).tolist() == totals(rows)
    for wrong, words in (
        (da.zeros(5), "two dimensions"),
        (
            da.zeros((2, 2, 2)),
            "the dask collection must have two dimensions, records by features: pass",
        ),
        (da.zeros((2, 0)), "at least one feature"),
        (da.zeros((2, 2), dtype=complex), "real numbers"),
    ):
        with pytest.raises(DataError, match=words):
            DaskRecords(wrong)


@pytest.mark.usefixtures("dask")
def test_dataframes_are_checked_before_they_are_summed():
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    frame = dd.from_pandas(
        pd.DataFrame({"unit": [1, 2], "a": [1.0, 2.0], 7: [3, 4]}), npartitions=2
    )
    records = DaskRecords(frame)
    assert records.feature_names == ("unit", "a", "7")
    assert records.map_sum(total).tolist() == [2, 3, 3, 7]
    text = frame.assign(b="c")
    for refused in (lambda: DaskRecords(text), lambda: UnitPartitions(text, "unit")):
        with pytest.raises(DataTypeError, match="X must hold numbers, but column 'b'"):
            refused()
    with pytest.raises(DataError, match="must have a feature beside the unit"):
        UnitPartitions(frame[["unit"]], "unit")


def test_a_package_that_is_missing_is_named_at_once(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", np.ones((3, 2)))
    pd, files = pytest.importorskip("pandas"), SimpleNamespace(__class__=FileRecords)
    monkeypatch.setitem(sys.modules, "dask", None)
    frame = pd.DataFrame({"unit": [1], "a": [2.0]})
    for made in (lambda: DaskRecords(files), lambda: UnitPartitions(frame, "unit")):
        with pytest.raises(MissingPackageError, match="dask"):
            made()


class Client:
    """As much of a client of a cluster as tells where copies are kept."""

    id = "client"

    def __init__(self, **workers):
        self.workers, self.submitted = workers, []

    def scheduler_info(self, n_workers=5):
        names = list(self.workers)[: None if n_workers < 0 else n_workers]
        return {"workers": {name: self.workers[name] for name in names}}

    def submit(self, function, size, **how):
        self.submitted.append((size, how))
        return function(size)


def worker(memory, threads):
    return {"memory_limit": memory, "nthreads": threads}


def files_of(tmp_path, sizes, n_features=2):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    X = np.arange(1.0 * sum(sizes) * n_features).reshape(-1, n_features)
    for i, part in enumerate(np.split(X, np.cumsum(sizes)[:-1])):
        columns = {f"c{c}": part[:, c] for c in range(n_features)}
        parquet.write_table(pa.table(columns), tmp_path / f"{i}.parquet")
    return X, DaskRecords(FileRecords(tmp_path))


@pytest.mark.usefixtures("dask")
def test_copies_are_kept_by_the_released_number_of_records(tmp_path, monkeypatch):
    """Three pieces: 40 bytes by that number are 14 for each, and two of them are within 41."""
    X, records = files_of(tmp_path, [4, 1, 3])
    for room, released, kept in (
        (41, 10, 2),
        (42, 10, 3),
        (27, 10, 1),
        (13, 10, 0),
        (3, 1, 1),
        (6, 1, 3),
    ):
        monkeypatch.setattr(cluster, "_MOST_KEPT", room)
        held = Held(released)
        assert records.map_sum_through(Chain(), total, (), held).tolist() == totals(X)
        assert held.complete == (kept == 3)
        (keepers,) = held.keepers.values()
        assert sum(each is not None for each in keepers) == kept
        again = records._keepers(held)
        assert all(a is b for a, b in zip(again, keepers, strict=True))
        sizes = [each.__sizeof__() for each in keepers if each is not None]
        assert sizes == [16, 4, 12][:kept]
    assert records.map_sum_through(Chain(), total, (), None).tolist() == totals(X)
    da = pytest.importorskip("dask.array")
    held = Held(10)
    assert DaskRecords(da.from_array(X))._keepers(held) == [None]
    assert not held.keepers
    (tmp_path / "none").mkdir()
    none, empty = files_of(tmp_path / "none", [0])
    assert empty.map_sum_through(Chain(), total, (), Held(0)).tolist() == totals(none)


@pytest.mark.usefixtures("dask")
def test_one_piece_has_all_of_the_records(tmp_path, monkeypatch):
    records = files_of(tmp_path, [8])[1]
    for room, kept in ((39, 0), (40, 1)):
        monkeypatch.setattr(cluster, "_MOST_KEPT", room)
        assert sum(each is not None for each in records._keepers(Held(10))) == kept


def test_workers_keep_no_more_than_a_quarter_of_their_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "_MOST_KEPT", 15)
    client = Client(a=worker(56, 1), b=worker(None, 3), c=worker(51, 9))
    monkeypatch.setattr(cluster, "_client", lambda: client)
    assert cluster._rooms(client) == {"a": (14, 1), "b": (15, 3), "c": (12, 9)}
    assert cluster._rooms(None) == {None: (15, 1)}
    records = files_of(tmp_path, [4, 1, 3])[1]
    held = Held(10)
    keepers = records._keepers(held)
    assert list(held.keepers) == ["client"]
    assert [each is not None for each in keepers] == [True, True, False]
    # A worker that is lost may be replaced, and every piece has a copy of its own.
    assert [size for size, _ in client.submitted] == [16, 4]
    assert [how["workers"] for _, how in client.submitted] == [["b"], ["a"]]
    assert all(how["allow_other_workers"] and not how["pure"] for _, how in client.submitted)


def test_copies_go_where_there_is_room_and_least_to_do():
    for rooms, sizes, places in (
        ({"a": (9, 1), "b": (8, 2)}, [5, 3, 4], ["b", "b", "a"]),
        ({"a": (9, 1), "b": (8, 2)}, [9, 8, 1], ["a", "b", None]),
        ({"a": (9, 1), "b": (8, 2)}, [10, 1, 9], [None, "b", "a"]),
        ({"a": (9, 2), "b": (9, 3)}, [2, 2, 2], ["b", "a", "b"]),
    ):
        found = cluster._spread(sizes, rooms)
        assert [None if each is cluster._NOWHERE else each for each in found] == places


def part_of(codes, kind, n_features=1):
    codes = np.array(codes, dtype=np.int64)
    return PartRecords(np.ones((len(codes), n_features)), Units(codes), kind)


@pytest.mark.usefixtures("dask")
def test_units_of_partitions_are_counted_and_of_one_type():
    parts = [
        None,
        part_of([0, 0, 1, 2, 2, 2], str),
        None,
        part_of([0], str),
        part_of([1, 0, 1], str),
    ]
    units = PartitionUnits(np.zeros(0, dtype=np.int64), SimpleNamespace(parts=parts))
    assert units.sizes.tolist() == [2, 1, 3, 1, 1, 2]
    records = ArrayRecords(np.ones((10, 1)))
    assert [units.bounded(records, most).n_records for most in (1, 2, 3)] == [6, 9, 10]
    assert units.means(records).n_records == 6
    mixed = PartitionUnits(units.codes, SimpleNamespace(parts=[*parts, part_of([0], int)]))
    with pytest.raises(DataError, match="identifiers of one type"):
        mixed.sizes  # noqa: B018
    nobody = PartitionUnits(units.codes, SimpleNamespace(parts=[None]))
    assert nobody.sizes.tolist() == []


def frame_of_units(n_rows):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    rows = np.arange(3.0 * n_rows).reshape(-1, 3)
    table = pd.DataFrame(rows, columns=["a", "b", "unit"])
    table["unit"] = np.arange(n_rows) % 4
    return table, dd.from_pandas(table, npartitions=2, sort=False)


@pytest.mark.usefixtures("dask")
def test_partitions_without_rows_add_nothing():
    records = UnitPartitions(frame_of_units(0)[1], "unit")
    units = records.units()
    assert records.map_sum(total).tolist() == [0, 0, 0]
    for view in (units.bounded(records, 1), units.bounded(records, 2), units.means(records)):
        assert view.n_records == 0
        assert view.map_sum(total).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("more_room", "views", "client", "shuffles"),
    [
        (0, "counted", False, [1, 0, 0]),
        (-1, "counted", False, [1, 1, 1]),
        (0, "none", False, [1, 1, 1]),
        (0, "bounded", False, [1, 0, 0]),
        (-1, "bounded", False, [1, 1, 1]),
        (0, "means", False, [1, 1, 1]),
        (-1, "counted", True, [1, 0, 0]),
        (-1, "none", True, [1, 0, 0]),
    ],
)
@pytest.mark.usefixtures("dask")
def test_rows_are_shuffled_again_unless_the_released_number_fits(
    monkeypatch, more_room, views, client, shuffles
):
    """With as many bytes as 10 rows of two features and a unit have, and one byte less."""
    table, frame = frame_of_units(9)
    made = []
    local = cluster._local
    monkeypatch.setattr(cluster, "_local", lambda *given: made.append(1) or local(*given))
    monkeypatch.setattr(cluster, "_MOST_KEPT", 8 * 10 * 3 + more_room)
    monkeypatch.setattr(cluster, "_client", lambda: object() if client else None)
    records = found = UnitPartitions(frame, "unit")
    expected = table[["a", "b"]].to_numpy()
    if views == "bounded":
        found = cluster.WithinPartitions(records, 9, 3)
    elif views == "means":
        found = cluster.WithinPartitions(records, 4, None)
        expected = table.groupby("unit").mean().to_numpy()
    if views != "none":
        found = CountedRecords(found, 10)
    for number in shuffles:
        made.clear()
        assert found.map_sum(total).tolist() == totals(expected)
        assert len(made) == 2 * number
