"""Records in the partitions of a cluster: the same integers, however the rows are cut."""

from __future__ import annotations

import contextlib
import os
import signal
import time
import traceback
from functools import partial
from pathlib import Path

import cloudpickle
import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from dask.callbacks import Callback
from pyarrow import csv, ipc, parquet

from exact_sums import bounded_sums, sign_gram
from hushcov import GaussianCovariance
from hushcov.exceptions import CapacityError, DataError, SeededNoiseWarning
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.records.base import CentredRecords, CompleteRecords
from hushcov.kernel.records.compact import CompactRecords
from hushcov.kernel.sums.counts import cell_counts, count_complete, signed_octaves
from hushcov.kernel.sums.gram import row_bounded_gram
from hushcov.kernel.sums.products import ProductMap
from hushcov.paper.plan import ScaledRecords
from hushcov.tables import cluster
from hushcov.tables.cluster import DaskRecords
from hushcov.tables.files import FileRecords
from hushcov.tables.progress import WatchedRecords
from hushcov.tables.sources import ArrayRecords, open_records

X = np.random.default_rng(0).standard_normal((101, 4)) * [1, 2, 1e-3, 1e3]
SCALES = np.array([1.0, 2.0, 1e-3, 1e3])


@pytest.fixture(autouse=True)
def _threads():
    with dask.config.set(scheduler="threads", num_workers=2):
        yield


def cut(rows, sizes):
    """A dask array of chunks of these sizes."""
    return da.from_array(rows, chunks=(tuple(sizes), rows.shape[1]))


def length(block):
    return np.array([len(block)])


def statistics(records):
    """Every statistic that travels, of the records and of what is made of them."""
    grid = FeatureGrid(SCALES, 4.0, 1000)
    pairs, numbers = (np.array([0, 1]), np.array([2, 3])), (4, 3, 64, 500, 250, 200, 1024)
    products = ProductMap(FeatureGrid(SCALES, 8.0, 64), *pairs, *numbers)
    yield records.n_records
    yield records.map_sum(length)
    centred = CentredRecords(records, SCALES * 0.4, SCALES * 1.7)
    for each in (records, ScaledRecords(records, SCALES * 3), centred):
        yield row_bounded_gram(each, grid, 1500)
        yield sign_gram(each)
        yield signed_octaves(each, SCALES, SCALES * 0.1, np.arange(4))
        yield cell_counts(each, np.arange(4), SCALES, SCALES / 7, np.full(4, -30), 50)
        yield bounded_sums(each, grid, 1500)
        yield products.sum(each)
        yield products.norm_histogram(each)


def check_equal(records, rows):
    """The same statistics, of records as they are and scaled."""
    for view in (lambda r: r, lambda r: ScaledRecords(r, SCALES)):
        memory = list(statistics(view(ArrayRecords(rows))))
        elsewhere = list(statistics(view(records)))
        assert len(memory) == len(elsewhere)
        for found, expected in zip(elsewhere, memory, strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "sizes",
    [(101,), (1,) * 20 + (81,), (33, 33, 35), (1, 50, 1, 48, 1), (3, 0, 97, 0, 1), (99, 1, 1)],
    ids=lambda sizes: f"{len(sizes)} chunks",
)
def test_arrays_in_chunks_equal_memory(sizes):
    records = open_records(cut(X, sizes))
    assert isinstance(records, DaskRecords)
    assert (records.n_records, records.n_features) == X.shape
    check_equal(records, X)


@pytest.fixture
def cut_files(monkeypatch):
    """Cut files into tasks of this many rows, as if they were long."""
    return partial(monkeypatch.setattr, cluster, "_ROWS_OF_PIECE")


def write_in_batches(path, rows, size):
    """A file whose rows are read `size` at a time, where the format has such a notion."""
    table = pa.table(dict(zip("abcd", rows.T, strict=True)))
    if path.suffix == ".csv":
        csv.write_csv(table, path)
    elif path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=size)
    else:
        with ipc.new_file(path, table.schema) as sink:
            sink.write_table(table, max_chunksize=size)


@pytest.mark.parametrize(
    ("suffix", "rows", "pieces"),
    [("parquet", 7, 15), ("parquet", 2**18, 3), ("arrow", 20, 8), ("csv", 20, 3)],
)
def test_files_read_by_workers(tmp_path, cut_files, suffix, rows, pieces):
    for start in range(0, len(X), 35):
        write_in_batches(tmp_path / f"{start:03}.{suffix}", X[start : start + 35], 7)
    cut_files(rows)
    records = DaskRecords(FileRecords(tmp_path, block_rows=10))
    assert records.feature_names == ("a", "b", "c", "d")
    assert len(records._pieces) == pieces
    check_equal(records, X)


def test_files_with_gaps(tmp_path, cut_files):
    rows = X.copy()
    rows[::7, 1] = np.nan
    table = pa.table(
        {name: pa.array(c, from_pandas=True) for name, c in zip("abcd", rows.T, strict=True)}
    )
    parquet.write_table(table, tmp_path / "x.parquet")
    cut_files(9)
    files = FileRecords(tmp_path).with_gaps()
    records = DaskRecords(files)
    assert records.gaps is True
    assert count_complete(records) == count_complete(files)
    np.testing.assert_array_equal(
        sign_gram(CompleteRecords(records)), sign_gram(CompleteRecords(files))
    )


def seeded(estimator, data):
    with pytest.warns(SeededNoiseWarning):
        return estimator.set_params(random_state=5).fit(data)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (da.zeros(5, chunks=2), "two dimensions"),
        (da.zeros((5, 2, 2), chunks=2), "two dimensions"),
        (da.zeros((3, 0)), "at least one feature"),
        (da.zeros((3, 2), dtype=complex), "real numbers. Complex data not supported"),
        (da.from_array(np.full((3, 2), "987")), "real numbers, got dtype str_"),
        (dd.from_pandas(pd.Series([987.0, 1.0]), npartitions=1), "two dimensions"),
    ],
)
def test_collections_that_are_no_tables_of_numbers(data, words):
    with pytest.raises(DataError, match=words) as info:
        open_records(data)
    assert "987" not in str(info.value)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (np.array([[1.0], [np.nan], [987.0]]), "finite"),
        (np.array([[1.0], ["x987"], [2]], dtype=object), "must hold real numbers"),
    ],
)
def test_bad_values_are_refused_where_they_are(rows, words):
    with pytest.raises(DataError, match=words) as info:
        sign_gram(DaskRecords(da.from_array(rows, chunks=1)))
    assert "987" not in str(info.value)


# What travels


class Results(Callback):
    """What every task answers, in the order of their ends."""

    def __init__(self):
        self.seen = []
        super().__init__(posttask=lambda key, result, *_: self.seen.append(result))


def travelled(records):
    """All that tasks answer while statistics are summed."""
    with dask.config.set(scheduler="synchronous"), Results() as results:
        list(statistics(records))
    return [each for each in results.seen if not isinstance(each, cluster.Work)]


def only_sums(results):
    return all(isinstance(each, np.ndarray) and each.dtype == np.int64 for each in results)


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv"])
def test_nothing_but_sums_of_integers_travels_from_files(tmp_path, cut_files, suffix):
    write_in_batches(tmp_path / f"x.{suffix}", X[:98], 7)
    write_in_batches(tmp_path / f"y.{suffix}", X[98:], 7)
    cut_files(7)
    results = travelled(DaskRecords(FileRecords(tmp_path)))
    assert len(results) > 20
    assert only_sums(results)


def test_rows_of_collections_do_travel():
    """Why no such promise is made for them; and the test above can fail."""
    made = cut(X, (33, 33, 35)).map_blocks(np.copy)
    assert not only_sums(travelled(DaskRecords(made)))


def test_what_is_sent_to_readers_of_files_holds_no_value(tmp_path, cut_files):
    write_in_batches(tmp_path / "x.parquet", X, 7)
    cut_files(7)
    sent = []

    def watched(graph, keys, **options):
        tasks = graph.__dask_graph__() if hasattr(graph, "__dask_graph__") else graph
        sent.append(cloudpickle.dumps(tasks))
        return dask.get(graph, keys, **options)

    with dask.config.set(scheduler=watched):
        row_bounded_gram(DaskRecords(FileRecords(tmp_path)), FeatureGrid(SCALES, 4.0, 1000), 9)
        assert len(sent) == 1
        assert not any(value.tobytes() in sent[0] for value in X.ravel())
        sign_gram(DaskRecords(cut(X, (50, 51))))
    assert all(value.tobytes() in sent[1] for value in X.ravel())


# Compact copies on workers


def compact_of(records, starts):
    watched = WatchedRecords(records, lambda: starts.append(1), lambda rows: None)
    return CompactRecords(watched, SCALES * 0.1, SCALES * 3, SCALES)


@pytest.mark.parametrize("room", [0, 200, 2**28])
def test_copies_are_kept_where_files_are_read_up_to_a_bound(tmp_path, cut_files, monkeypatch, room):
    write_in_batches(tmp_path / "x.parquet", X, 7)
    cut_files(7)
    monkeypatch.setattr(cluster, "_MOST_KEPT", room)
    starts, expected = [], CompactRecords(ArrayRecords(X), SCALES * 0.1, SCALES * 3, SCALES)
    records = compact_of(DaskRecords(FileRecords(tmp_path)), starts)
    for _ in range(3):
        np.testing.assert_array_equal(sign_gram(records), sign_gram(expected))
    assert len(starts) == (1 if room == 2**28 else 3)
    (keepers,) = records.held.keepers.values()
    kept = [each for each in keepers if each is not None]
    assert len(kept) == {0: 0, 200: 3, 2**28: 15}[room]  # 54 bytes a piece, on average
    assert all(each._copy.rows is not None for each in kept)


def test_a_copy_that_is_sent_elsewhere_takes_no_row_along(tmp_path):
    write_in_batches(tmp_path / "x.parquet", X, 50)
    records = compact_of(DaskRecords(FileRecords(tmp_path)), [])
    sign_gram(records)
    (keepers,) = records.held.keepers.values()
    sent = cloudpickle.dumps(keepers[0])
    assert len(sent) < 200 < keepers[0]._copy.rows.nbytes
    assert cloudpickle.loads(sent)._copy.rows is None


# Errors of the user's own tasks

SECRET = "7314-SSN"


def to_numbers(block):
    if len(block):  # dask tries functions on nothing
        np.array([SECRET]).astype(float)
    return block


def refuses(block):
    try:
        to_numbers(block)
    except ValueError as error:
        raise DataError("a refusal of hushcov's own") from error
    return block


def interrupted(block):
    if len(block):
        raise KeyboardInterrupt
    return block


def too_large(block):
    if len(block):
        raise MemoryError("too large")
    return block


def made_by(function):
    return cut(X, (50, 51)).map_blocks(function, meta=np.empty((0, 0)))


def texts(values):
    return dd.from_pandas(pd.DataFrame({"a": values}), npartitions=1)


def counted_first():
    """Rows that are left after a filter, which fails: their number is what is asked first."""
    array = made_by(to_numbers)
    return array[array[:, 0] > 0]


FAILING = {
    "array": lambda: made_by(to_numbers),
    "frame": lambda: texts([SECRET, "1"]).astype(float),
    "lengths of arrays": counted_first,
    "lengths of frames": lambda: texts([SECRET, "1"]).map_partitions(to_numbers, meta={"a": float}),
}


@pytest.fixture(scope="module")
def own_threads():
    from distributed import Client

    size = {"processes": False, "n_workers": 1, "threads_per_worker": 2}
    quiet = {"dashboard_address": ":0", "silence_logs": 60, "set_as_default": False}
    with Client(**size, **quiet) as client:
        yield client


@pytest.fixture(params=["threads", "synchronous", "cluster"])
def scheduler(request):
    found = request.getfixturevalue("own_threads") if request.param == "cluster" else request.param
    with dask.config.set(scheduler=found):
        yield found


@pytest.mark.parametrize("source", FAILING)
def test_errors_of_the_users_tasks_are_not_quoted(scheduler, source):
    data = FAILING[source]()
    with pytest.raises(DataError, match="dask met a ValueError") as info:
        open_records(data).map_sum(length)
    assert info.value.__cause__ is None
    assert info.value.__context__ is None
    assert SECRET not in "".join(traceback.format_exception(info.value))


def test_errors_of_hushcov_come_as_they_are(scheduler):
    with pytest.raises(DataError, match=r"^a refusal of hushcov's own$") as info:
        open_records(made_by(refuses)).map_sum(length)
    assert info.value.__cause__ is None
    assert info.value.__context__ is None


def test_memory_that_is_full_is_no_error_of_the_data(scheduler):
    with pytest.raises(CapacityError, match="ran out"):
        open_records(made_by(too_large)).map_sum(length)


@pytest.mark.parametrize("scheduler", ["threads", "synchronous"], indirect=True)
def test_interrupts_come_as_they_are(scheduler):
    with pytest.raises(KeyboardInterrupt):
        open_records(made_by(interrupted)).map_sum(length)


# A cluster of processes


def mortal_rows(marks, parent, block):
    """The same rows, and a mark; one worker dies after the tenth."""
    Path(marks, f"{os.getpid()}-{time.monotonic_ns()}").touch(exist_ok=False)
    if os.getpid() != parent and len(os.listdir(marks)) >= 10:
        with contextlib.suppress(FileExistsError), open(f"{marks}-killed", "x"):
            os.kill(os.getpid(), signal.SIGKILL)
    return block


@pytest.fixture(scope="module")
def three_workers():
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=3,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            silence_logs=50,
        ) as local,
        Client(local) as client,
    ):
        yield client


@pytest.fixture
def client(three_workers):
    with dask.config.set(scheduler=three_workers):
        yield three_workers


@pytest.mark.slow
def test_every_statistic_travels_between_processes(client):
    elsewhere = statistics(DaskRecords(cut(X, (50, 51))))
    for found, expected in zip(elsewhere, statistics(ArrayRecords(X)), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
def test_a_worker_that_is_lost_costs_no_bit(client, tmp_path):
    """One of them dies in the middle of a fit."""
    rows = np.random.default_rng(4).standard_normal((400, 4))
    marks = tmp_path / "marks"
    marks.mkdir()
    mortal = partial(mortal_rows, str(marks), os.getpid())
    data = cut(rows, [13] * 30 + [10]).map_blocks(mortal, meta=np.empty((0, 0)))
    elsewhere = seeded(GaussianCovariance(epsilon=5.0, delta=1e-4), data)
    memory = seeded(GaussianCovariance(epsilon=5.0, delta=1e-4), rows)
    np.testing.assert_array_equal(elsewhere.release_.integers, memory.release_.integers)
    np.testing.assert_array_equal(elsewhere.feature_scale_, memory.feature_scale_)
    assert Path(f"{marks}-killed").exists()
