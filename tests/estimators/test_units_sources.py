"""Units of rows in memory, files and partitions: the same integers, and no identifier told."""

import gc
import time

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from distributed import Client
from pyarrow import csv, ipc, parquet

from command_line import PATIENCE
from hushcov import GaussianCovariance
from hushcov.exceptions import DataError, ParameterError
from hushcov.tables import cluster
from hushcov.tables import units as unit_tables
from hushcov.tables.codebook import read_codebook
from hushcov.tables.files import FileRecords
from hushcov.tables.sources import open_records
from hushcov.tables.units import split_columns, units_of

N, UNITS, SECRET = 600, 120, "s3cret-person"
ROWS = np.random.default_rng(5).standard_normal((N, 3)) * [1.0, 2.0, 0.5]
OWNERS = np.random.default_rng(6).integers(0, UNITS, N)
NAMES = ("age", "pulse", "height")

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::hushcov.exceptions.{kind}")
    for kind in ("SeededNoiseWarning", "AccuracyWarning", "PrivacyWarning")
]


@pytest.fixture(autouse=True)
def _threads():
    with dask.config.set(scheduler="threads", num_workers=2):
        yield


def frame(owners=OWNERS, rows=ROWS, name="patient"):
    table = pd.DataFrame(dict(zip(NAMES, rows.T, strict=True)))
    table.insert(1, name, owners)
    return table


def named(owners=OWNERS):
    return [f"{SECRET}-{owner}" for owner in owners]


def estimator(**options):
    usual = {"epsilon": 4, "delta": 1e-6, "max_rows_per_unit": 3, "random_state": 1}
    usual |= {"assume_centered": True, "feature_scale": [1.0, 2.0, 0.5], "on_hopeless": "warn"}
    usual |= {"on_large_delta": "warn"}
    return GaussianCovariance(**usual | options)


def released(X, unit="patient", **options):
    return estimator(**options).fit(X, unit=unit).release_


@pytest.fixture(scope="module")
def expected():
    return released(frame()).integers


def check(X, expected, unit="patient", **options):
    found = released(X, unit, **options)
    assert np.array_equal(found.integers, expected)
    assert SECRET not in repr(vars(found))


def shuffled(table):
    return table.sample(frac=1.0, random_state=3)


def write(path, table, kind):
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    if kind == "parquet":
        parquet.write_table(arrow, path, row_group_size=101)
    elif kind == "csv":
        csv.write_csv(arrow, path)
    else:
        with ipc.new_file(path, arrow.schema) as file:
            file.write_table(arrow, max_chunksize=77)


@pytest.mark.parametrize("unit", ["patient", 1])
@pytest.mark.parametrize("owners", [OWNERS, named()], ids=["numbers", "text"])
@pytest.mark.parametrize("kind", ["parquet", "csv", "arrow"])
def test_files_are_as_memory_in_any_order_and_any_split(tmp_path, expected, kind, owners, unit):
    table = shuffled(frame(owners))
    (tmp_path / "visits").mkdir()
    for i, (start, stop) in enumerate([(0, 7), (7, 410), (410, N)]):
        write(tmp_path / "visits" / f"{i}.{kind}", table[start:stop], kind)
    write(tmp_path / f"all.{kind}", frame(owners), kind)
    check(tmp_path / "visits", expected, unit)
    check(f"{tmp_path}/visits/*.{kind}", expected, unit)
    check(tmp_path / f"all.{kind}", expected, unit)


def test_dictionaries_wider_text_and_smaller_integers_are_the_same(tmp_path, expected):
    whole = pa.Table.from_pandas(frame(named()), preserve_index=False)
    for i, kind in enumerate((pa.dictionary(pa.int16(), pa.string()), pa.large_string())):
        part = whole[300 * i : 300 * (i + 1)]
        part = part.set_column(1, "patient", part["patient"].cast(kind))
        parquet.write_table(part, tmp_path / f"{i}.parquet")
    check(tmp_path, expected)
    numbers = pa.Table.from_pandas(frame(), preserve_index=False)
    for i, kind in enumerate((pa.int16(), pa.uint64(), pa.float64())):
        part = numbers[200 * i : 200 * (i + 1)]
        part = part.set_column(1, "patient", part["patient"].cast(kind))
        parquet.write_table(part, tmp_path / f"{i}.parquet")
    check(tmp_path, expected)


def test_numpy_files_and_opened_records(tmp_path, expected):
    np.save(tmp_path / "visits.npy", frame().to_numpy())
    write(tmp_path / "visits.parquet", frame(), "parquet")
    check(tmp_path / "visits.npy", expected, 1)
    check(open_records(tmp_path / "visits.npy"), expected, 1)
    check(open_records(frame().to_numpy()), expected, 1)
    check(open_records(frame()), expected)
    check(open_records(tmp_path / "visits.parquet"), expected)
    check(open_records(tmp_path / "visits.parquet", columns=NAMES), expected)
    check(open_records(tmp_path / "visits.parquet", leave_out=["patient"]), expected)
    check(open_records(tmp_path / "visits.parquet", columns=NAMES), expected, unit=OWNERS)
    check(pl.DataFrame(frame(named())), expected)
    check(frame().to_numpy(), expected, 1)
    check(torch.tensor(frame().to_numpy()), expected, 1)
    check(ROWS, expected, unit=pd.Series(named()))
    check(ROWS, expected, unit=pd.Series(named()).astype("category"))


@pytest.mark.parametrize("owners", [OWNERS, named()], ids=["numbers", "text"])
def test_identifiers_are_read_once_however_many_rows(tmp_path, monkeypatch, expected, owners):
    """Nothing is released before units are known: a second reading of more rows would tell them."""
    write(tmp_path / "visits.parquet", frame(owners), "parquet")
    monkeypatch.setattr(unit_tables, "_WAITING", 10)
    monkeypatch.setattr(unit_tables, "_BATCH", 64)
    readings, right = [], FileRecords.column
    monkeypatch.setattr(FileRecords, "column", lambda *a, **k: readings.append(1) or right(*a, **k))
    check(tmp_path / "visits.parquet", expected)
    assert len(readings) == 1


def test_codes_are_those_of_identifiers_that_differ(tmp_path, monkeypatch):
    """Identifiers that differ in one bit, in length or in sign stay apart."""
    monkeypatch.setattr(unit_tables, "_WAITING", 4)
    monkeypatch.setattr(unit_tables, "_BATCH", 7)
    near = ["a", "aa", "b", "a ", "A", "ä", "a\0", "0", "00"] * 5
    far = [0, -1, 1, 2**62, -(2**62), 2**62 + 1, 2**63 - 1, -(2**63), 7] * 5
    for owners in (near, far):
        rows = ROWS[: len(owners)]
        write(tmp_path / "few.parquet", frame(owners, rows), "parquet")
        files = open_records(tmp_path / "few.parquet", leave_out=["patient"])
        codes = unit_tables.number_file_units(files, "patient").codes
        assert codes.tolist() == list(range(9)) * 5


@pytest.mark.parametrize("parts", [1, 3, 8])
@pytest.mark.parametrize("owners", [OWNERS, named()], ids=["numbers", "text"])
def test_dask_dataframes_are_as_memory(expected, owners, parts):
    table = shuffled(frame(owners))
    check(dd.from_pandas(table, npartitions=parts, sort=False), expected)


def test_a_unit_split_over_partitions_and_counted_twice_is_found(monkeypatch, expected):
    """The planted bug: partitions stay as they are."""
    collection = dd.from_pandas(shuffled(frame()), npartitions=4, sort=False)
    monkeypatch.setattr(type(collection), "shuffle", lambda self, on: self)
    with pytest.raises(AssertionError):
        check(collection, expected)
    units = cluster.UnitPartitions(collection, "patient").units()
    assert len(units.sizes) > UNITS


@pytest.fixture
def one_process():
    size = {"processes": False, "n_workers": 2, "threads_per_worker": 1, "memory_limit": "1 GB"}
    quiet = {"dashboard_address": ":0", "silence_logs": 60}
    # The memory of this process is that of all tests so far: workers must not wait for it.
    never = {f"distributed.worker.memory.{each}": False for each in ("target", "spill", "pause")}
    with (
        dask.config.set(never),
        Client(**size, **quiet) as client,
        dask.config.set(scheduler=client),
    ):
        yield client


READS = []


def read(part):
    READS.append(len(part))
    return part


def count_shuffles(**options):
    """Fit partitions that say when they are made: once to count rows, and once in every shuffle."""
    READS.clear()
    table = dd.from_pandas(shuffled(frame()), npartitions=3, sort=False)
    fitted = estimator(**options).fit(table.map_partitions(read, meta=table._meta), unit="patient")
    return fitted, len(READS) / 3 - 1


def test_a_dataframe_is_shuffled_twice_where_the_released_number_of_rows_fits(monkeypatch):
    """Once for the count, and once to be kept: three features and the unit, eight bytes each."""
    options = {"assume_centered": False, "feature_scale": None, "max_rows_per_unit": None}
    expected = released(frame(), **options)
    size = 8 * 4 * expected.making.n_records
    for room, least, most in ((size, 2, 2), (size - 1, 3, 20)):
        monkeypatch.setattr(cluster, "_MOST_KEPT", room)
        fitted, shuffles = count_shuffles(**options)
        assert np.array_equal(fitted.release_.integers, expected.integers)
        assert least <= shuffles <= most


def test_shuffled_rows_go_when_the_fit_ends(one_process, expected):
    fitted, shuffles = count_shuffles()
    assert shuffles == 1
    assert np.array_equal(fitted.release_.integers, expected)
    gc.collect()
    for _ in range(100 * PATIENCE):  # the scheduler hears of it a little later
        if not (left := any(one_process.has_what().values())):
            break
        time.sleep(0.01)
    assert not left


def test_units_are_whole_in_partitions_whatever_their_types():
    """Numbers of different widths in different partitions come together."""
    small, large = frame(OWNERS.astype(np.int32) - 60), frame(OWNERS - 60)
    both = dd.concat([dd.from_pandas(each, npartitions=2, sort=False) for each in (small, large)])
    units = cluster.UnitPartitions(both, "patient").units()
    assert len(units.sizes) == len(np.unique(OWNERS))


def test_means_of_units_are_the_same_everywhere(tmp_path):
    options = {"estimand": "unit-means", "max_rows_per_unit": None}
    expected = released(frame(), **options).integers
    means = frame().groupby("patient").mean().to_numpy()
    alone = estimator(**options).fit(means, unit=np.arange(len(means)))
    assert np.array_equal(alone.release_.integers, expected)
    write(tmp_path / "visits.parquet", shuffled(frame(named())), "parquet")
    check(tmp_path / "visits.parquet", expected, **options)
    check(dd.from_pandas(shuffled(frame()), npartitions=3, sort=False), expected, **options)


@pytest.mark.parametrize("value", [1.7e308, np.finfo(float).max])
def test_a_fit_goes_on_whatever_one_unit_holds(tmp_path, value):
    options = {"estimand": "unit-means", "max_rows_per_unit": None}
    rows = ROWS.copy()
    rows[OWNERS[0] == OWNERS] = value
    expected = released(frame(rows=rows), **options).integers
    means = frame(rows=np.clip(rows, -1e9, 1e9)).groupby("patient").mean().to_numpy()
    alone = estimator(**options).fit(means, unit=np.arange(len(means)))
    assert np.array_equal(alone.release_.integers, expected)
    write(tmp_path / "visits.parquet", shuffled(frame(rows=rows)), "parquet")
    check(tmp_path / "visits.parquet", expected, **options)
    collection = dd.from_pandas(shuffled(frame(rows=rows)), npartitions=3, sort=False)
    check(collection, expected, **options)


def test_bounds_found_privately_are_the_same_everywhere(tmp_path):
    expected = released(frame(), max_rows_per_unit=None)
    write(tmp_path / "visits.csv", shuffled(frame(named())), "csv")
    for X in (tmp_path / "visits.csv", dd.from_pandas(frame(), npartitions=3)):
        found = released(X, max_rows_per_unit=None)
        assert np.array_equal(found.integers, expected.integers)
        assert found.making.counted == expected.making.counted


def refused(X, match, unit="patient", error=DataError, **options):
    with pytest.raises(error, match=match) as caught:
        estimator(**options).fit(X, unit=unit)
    assert SECRET not in str(caught.value)
    return caught


@pytest.mark.parametrize("missing", [None, "", float("nan"), pd.NA], ids=repr)
def test_missing_identifiers_are_refused(tmp_path, missing):
    owners, words = [missing, *named()[1:]], "identifier in every row"
    for kind in ("parquet", "csv", "arrow") if missing is not pd.NA and not missing else ():
        write(tmp_path / f"visits.{kind}", frame(owners), kind)
        refused(tmp_path / f"visits.{kind}", words)
    refused(frame(owners), words)
    refused(ROWS, words, unit=owners)
    refused(dd.from_pandas(frame(owners), npartitions=2), words)


@pytest.mark.parametrize("missing", ["NA", "null", "NaN", np.nan])
def test_what_files_write_for_nulls_is_refused(tmp_path, missing):
    write(tmp_path / "visits.csv", frame([missing, *named()[1:]]), "csv")
    refused(tmp_path / "visits.csv", "identifier in every row")
    numbers = np.where(OWNERS[3] == OWNERS, np.nan, OWNERS)
    write(tmp_path / "nan.parquet", frame(numbers), "parquet")
    refused(tmp_path / "nan.parquet", "identifier in every row")
    np.save(tmp_path / "nan.npy", frame(numbers).to_numpy())
    refused(tmp_path / "nan.npy", "identifier in every row", unit=1)


def test_mixed_types_are_refused(tmp_path):
    for i, owners in enumerate((OWNERS, [str(owner) for owner in OWNERS])):
        write(tmp_path / f"{i}.parquet", frame(owners), "parquet")
    refused(tmp_path, "identifiers of one type")
    refused(frame([1, *named()[1:]]), "identifiers of one type")
    halves = dask.delayed(frame)(), dask.delayed(frame)(named())
    meta = frame().astype({"patient": object})[:0]
    with dask.config.set({"dataframe.convert-string": False}):  # dask would make text of numbers
        mixed = dd.from_delayed(halves, meta=meta, verify_meta=False)
    refused(mixed, "unit must|without an error")
    odd = [OWNERS + 0.5, pd.date_range("2020-01-01", periods=N), OWNERS > 3]
    for owners in odd:
        write(tmp_path / "odd.parquet", frame(owners), "parquet")
        refused(tmp_path / "odd.parquet", "unit must")
        refused(frame(owners), "unit must")


NEAR = {
    "text": [f"a{chr(0) * i}" for i in range(3)],
    "bytes": [b"a" + bytes(i) for i in range(3)],
    "unsigned": np.array([2**63, 2**63 + 1, 1], dtype=np.uint64),
    "signed": np.array([2**53, 2**53 + 1, -(2**53)]),
}


def near(kind):
    return frame(np.resize(np.array(NEAR[kind], dtype=object), N)).astype(
        {"patient": {"unsigned": np.uint64, "signed": np.int64}.get(kind, object)}
    )


@pytest.mark.parametrize("kind", NEAR)
def test_identifiers_that_differ_are_units_of_their_own(tmp_path, kind):
    table = near(kind)
    write(tmp_path / "all.parquet", table, "parquet")
    write(tmp_path / "all.arrow", table, "arrow")
    with dask.config.set({"dataframe.convert-string": False}):
        collection = dd.from_pandas(shuffled(table), npartitions=3, sort=False)
    ways = [table, pl.DataFrame(table), pa.Table.from_pandas(table, preserve_index=False)]
    for X in (*ways, tmp_path / "all.parquet", tmp_path / "all.arrow", collection):
        _, identifiers, _ = split_columns(X, "patient")
        units = identifiers() if callable(identifiers) else units_of(identifiers, N)
        assert len(units.sizes) == 3


@pytest.mark.parametrize(
    ("kind", "first"), [(np.float64, 2**53), (np.float32, 2**24), (np.float16, 2**11)]
)
def test_floats_that_may_be_several_integers_are_refused(tmp_path, kind, first):
    odd = OWNERS.astype(kind)
    odd[7] = first
    for i, owners in enumerate((odd, odd - np.array(odd == first, kind))):  # and one less
        write(tmp_path / f"{i}.arrow", frame(owners), "arrow")
        write(tmp_path / f"{i}.parquet", frame(owners), "parquet")
        table = frame(owners)
        ways = [tmp_path / f"{i}.arrow", tmp_path / f"{i}.parquet", table]
        for X in (*ways, dd.from_pandas(table, npartitions=3, sort=False)):
            if i == 0:
                refused(X, "one for several")
            else:
                released(X)
    np.save(tmp_path / "odd.npy", np.column_stack([odd, ROWS.astype(kind)]))
    refused(tmp_path / "odd.npy", "one for several", unit=0)


def test_columns_of_units_that_cannot_be_are_refused(tmp_path):
    write(tmp_path / "0.parquet", near("unsigned"), "parquet")
    write(tmp_path / "1.parquet", near("signed"), "parquet")
    refused(tmp_path, "identifiers of one type")
    write(tmp_path / "visits.parquet", frame(), "parquet")
    asked = open_records(tmp_path / "visits.parquet", columns=[*NAMES, "patient"])
    refused(asked, "also a feature", error=ParameterError)
    with pytest.raises(ParameterError, match="also a feature"):
        open_records(tmp_path / "visits.parquet", columns=["patient"], leave_out=["patient"])
    np.save(tmp_path / "visits.npy", ROWS)
    refused(tmp_path / "visits.parquet", "patient_id", unit="patient_id")
    refused(tmp_path / "visits.parquet", "positions", unit=4, error=ParameterError)
    refused(tmp_path / "visits.npy", "name one column", error=ParameterError)
    refused(tmp_path / "visits.npy", "position", unit=3, error=ParameterError)
    refused(open_records(tmp_path / "visits.parquet"), "patient_id", unit="patient_id")
    refused(dd.from_pandas(frame(), npartitions=2), "name one", unit="id", error=ParameterError)


@pytest.mark.parametrize("rows", [N - 1, N + 1, 0])
def test_another_number_of_identifiers_is_refused(tmp_path, rows):
    write(tmp_path / "visits.parquet", frame(), "parquet")
    owners = np.resize(OWNERS, rows)
    refused(ROWS, "one entry for each", unit=owners)
    refused(open_records(tmp_path / "visits.parquet", columns=NAMES), "one entry", unit=owners)


def test_values_beside_partitions_are_refused():
    cures = {"error": ParameterError, "match": "dataframe"}
    refused(da.from_array(ROWS, chunks=(200, 3)), unit=OWNERS, **cures)
    refused(da.from_array(ROWS, chunks=(200, 3)), unit=1, **cures)
    refused(dd.from_pandas(frame(), npartitions=2), unit=OWNERS, **cures)
    refused(open_records(da.from_array(ROWS, chunks=(200, 3))), unit=OWNERS, **cures)


def test_one_unit_with_all_rows(tmp_path):
    """It is one unit, and no error: its rows are bounded like those of any other."""
    write(tmp_path / "visits.parquet", frame([SECRET] * N), "parquet")
    expected = released(frame([0] * N)).integers
    check(tmp_path / "visits.parquet", expected)
    check(dd.from_pandas(frame([SECRET] * N), npartitions=3), expected)


def test_a_codebook_goes_with_units(tmp_path, expected):
    (tmp_path / "book.csv").write_text("name,low,high,kind,values\nage,-100,100,number,\n")
    book = read_codebook(tmp_path / "book.csv")
    write(tmp_path / "visits.parquet", frame(named()), "parquet")
    records = open_records(tmp_path / "visits.parquet", leave_out=["patient"], codebook=book)
    check(records, expected)


def test_weights_in_files_are_as_in_memory(tmp_path):
    weights = np.random.default_rng(8).uniform(0, 3, N)
    options = {"max_rows_per_unit": None, "max_sample_weight": 3.0}
    expected = estimator(**options).fit(ROWS, sample_weight=weights).release_.integers
    write(tmp_path / "visits.parquet", shuffled(frame(weights, name="weight")), "parquet")
    write(tmp_path / "visits.csv", frame(weights, name="weight"), "csv")
    np.save(tmp_path / "visits.npy", frame(weights).to_numpy())
    for X, column in (
        (tmp_path / "visits.parquet", "weight"),
        (tmp_path / "visits.csv", "weight"),
        (tmp_path / "visits.npy", 1),
        (frame(weights, name="weight"), "weight"),
    ):
        found = estimator(**options).fit(X, sample_weight=column)
        assert np.array_equal(found.release_.integers, expected)
        assert found.n_features_in_ == 3


@pytest.mark.parametrize(
    ("weights", "options", "match"),
    [
        (np.full(N, -1.0), {"max_sample_weight": 3.0}, "not negative"),
        (np.full(N, np.inf), {"max_sample_weight": 3.0}, "finite"),
        (np.full(N, np.nan), {"max_sample_weight": 3.0, "drop_nulls": False}, "finite"),
        (np.ones(N - 1), {"max_sample_weight": 3.0}, "one entry"),
        (np.ones(N), {}, "max_sample_weight"),
        (["heavy"] * N, {"max_sample_weight": 3.0}, "numbers"),
    ],
)
def test_weights_that_mean_nothing_are_refused(weights, options, match):
    with pytest.raises((DataError, ParameterError), match=match):
        estimator(max_rows_per_unit=None, **options).fit(ROWS, sample_weight=weights)
