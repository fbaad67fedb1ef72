"""Units of rows in memory, files and partitions: the same integers, and no identifier told."""

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from pyarrow import csv, ipc, parquet

from hushcov import GaussianCovariance
from hushcov.exceptions import DataError
from hushcov.tables import units
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


@pytest.mark.parametrize("parts", [1, 3, 8])
@pytest.mark.parametrize("owners", [OWNERS, named()], ids=["numbers", "text"])
def test_dask_dataframes_are_as_memory(expected, owners, parts):
    table = shuffled(frame(owners))
    check(dd.from_pandas(table, npartitions=parts, sort=False), expected)


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


def test_identifiers_are_read_once_however_many_rows(tmp_path, monkeypatch, expected):
    """Nothing is released before units are known: a second reading of more rows would tell them."""
    write(tmp_path / "visits.parquet", frame(named()), "parquet")
    for name in [each for each, value in vars(units).items() if isinstance(value, int)]:
        monkeypatch.setattr(units, name, min(getattr(units, name), 10))
    readings, right = [], FileRecords.column
    monkeypatch.setattr(FileRecords, "column", lambda *a, **k: readings.append(1) or right(*a, **k))
    check(tmp_path / "visits.parquet", expected)
    assert len(readings) == 1
