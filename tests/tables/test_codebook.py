"""Codebooks: what is publicly known of columns, and tables coded by it."""

from __future__ import annotations

import pickle

import dask.dataframe
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from hushcov import Codebook, read_codebook
from hushcov.exceptions import DataError, ParameterError, RecordsFileError
from hushcov.kernel.records.base import source_of
from hushcov.tables.cluster import DaskRecords
from hushcov.tables.codebook import CodebookColumn, CodedRecords
from hushcov.tables.sources import open_records, refuse_stated_nulls
from table_helpers import rows_of

N = 500
TEXT = """name,low,high,kind,values,note
age,0,120,integer,,years
state,,,category,TX|CA| NY,home
sex,,,binary,,
region,,,category,1|2|3,a code
"""
FEATURES = ("age", "state=TX", "state=CA", "state=NY", "sex")
FEATURES += ("region=1", "region=2", "region=3", "w")


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "codebook.csv"
    path.write_text(TEXT)
    return read_codebook(path)


def table(seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(0, 100, N),
            "state": rng.choice(["TX", "CA", "NY", "other", " ny"], N),
            "sex": rng.random(N) < 0.5,
            "region": rng.integers(0, 5, N),
            "w": rng.normal(size=N).round(6),
        }
    )


def expected(frame):
    columns = [frame["age"]]
    states = frame["state"].str.strip().str.upper()
    columns += [states == value for value in ("TX", "CA", "NY")]
    columns += [frame["sex"]]
    columns += [frame["region"] == value for value in (1, 2, 3)]
    return np.column_stack([np.asarray(c, dtype=float) for c in (*columns, frame["w"])])


def sources(frame, folder):
    """The same table in every form."""
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    frame.to_csv(folder / "t.csv", index=False)
    parquet.write_table(arrow, folder / "t.parquet", row_group_size=100)
    feather.write_feather(arrow, folder / "t.arrow", chunksize=90)
    words = frame.assign(state=frame["state"].astype("category"))
    parquet.write_table(pa.Table.from_pandas(words, preserve_index=False), folder / "w.parquet")
    return {
        "pandas": frame,
        "pandas categories": words,
        "polars": pl.from_pandas(frame),
        "arrow": arrow,
        "csv": folder / "t.csv",
        "parquet": folder / "t.parquet",
        "arrow file": folder / "t.arrow",
        "categories in parquet": folder / "w.parquet",
    }


def test_what_a_codebook_says(book):
    assert isinstance(book, Codebook)
    assert book.names == ("age", "state", "sex", "region")
    assert book.features == FEATURES[:-1]
    assert book.bounds["age"] == (0, 120)
    assert all(book.bounds[name] == (0, 1) for name in FEATURES[1:-1])
    assert book == pickle.loads(pickle.dumps(book))


@pytest.mark.parametrize("block_rows", [None, 64])
def test_every_form_of_a_table_gives_the_same_rows(book, tmp_path, block_rows):
    frame = table()
    for name, source in sources(frame, tmp_path).items():
        records = open_records(source, codebook=book, block_rows=block_rows)
        assert records.feature_names == FEATURES, name
        assert (records.n_records, records.n_features) == (N, len(FEATURES)), name
        assert np.array_equal(rows_of(records), expected(frame)), name


def test_names_of_a_codebook_may_be_in_another_case(tmp_path):
    """They are those of the table where there is one such column."""
    frame = table()
    path = tmp_path / "other.csv"
    path.write_text(TEXT.upper().replace("NAME,LOW,HIGH,KIND,VALUES", "name,low,high,kind,values"))
    path.write_text(path.read_text().replace("INTEGER", "integer").replace("BINARY", "binary"))
    path.write_text(path.read_text().replace("CATEGORY", "category"))
    other = read_codebook(path)
    assert other.names[:2] == ("AGE", "STATE")
    every = sources(frame, tmp_path)
    every["dask"] = dask.dataframe.from_pandas(frame, npartitions=2)
    for name, source in every.items():
        records = open_records(source, codebook=other)
        assert records.feature_names == FEATURES, name
        assert records.kinds["age"] == ("integer", ())
        if name != "dask":
            np.testing.assert_array_equal(rows_of(records), expected(frame))
    twice = frame.rename(columns={"w": "AGe"})
    with pytest.raises(ParameterError, match="got 'AGE', which is none"):
        open_records(twice, codebook=other)


def test_nulls_follow_the_rules_for_nulls(book, tmp_path):
    frame = table()
    frame.loc[[3, 7], "state"] = None
    frame["region"] = frame["region"].astype("Int64")
    frame.loc[[5], "region"] = pd.NA
    full = expected(frame.fillna({"region": 0}))
    for name, source in sources(frame, tmp_path).items():
        with pytest.raises(DataError, match=r"null|NaN|missing"):
            rows_of(open_records(source, codebook=book))
        rows = rows_of(open_records(source, codebook=book).with_gaps())
        complete = ~np.isnan(rows).any(axis=1)
        assert np.flatnonzero(~complete).tolist() == [3, 5, 7], name
        assert np.array_equal(rows[complete], full[complete]), name
        assert np.isnan(rows[3, 1:4]).all(), name


def test_empty_fields_are_filled_with_what_the_codebook_says(tmp_path):
    """Each on its own: filled columns have no nulls any more, and others still do."""
    (tmp_path / "b.csv").write_text(
        "name,low,high,kind,values,missing\nage,0,120,integer,,40\nincome,,,number,,\n"
        "state,,,category,TX|none,none\nsmoker,,,category,yes,not asked\n"
    )
    book = read_codebook(tmp_path / "b.csv")
    frame = pd.DataFrame({"age": [1.0, None, 3.0], "state": ["TX", None, "AL"]})
    frame = frame.assign(smoker=[None, "yes", "no"], income=[1.0, 2.0, None])
    for name, source in sources(frame, tmp_path).items():
        records = open_records(source, codebook=book)
        rows = rows_of(records.with_gaps())
        assert records.feature_names == ("age", "state=TX", "state=none", "smoker=yes", "income")
        assert rows[:2].tolist() == [[1, 1, 0, 0, 1], [40, 0, 1, 1, 2]], name
        assert rows[2, :4].tolist() == [3, 0, 0, 0], name
        with pytest.raises(DataError, match=r"column 'income'"):
            rows_of(records)
        if name in ("polars", "parquet"):  # which state their nulls
            with pytest.raises(DataError, match=r"but column 'income' has nulls"):
                refuse_stated_nulls(source, records)
    assert book.fills == {"age": 40.0, "state": 1.0, "smoker": -1.0}


def rounded(block):
    return np.rint(1000 * block).astype(np.int64).sum(axis=0)


def test_partitions_of_files_are_coded_on_their_workers(book, tmp_path):
    path = sources(table(), tmp_path)["parquet"]
    records = open_records(path, codebook=book)
    assert isinstance(records, CodedRecords)
    elsewhere = records.on(DaskRecords(source_of(records)))
    assert np.array_equal(elsewhere.map_sum(rounded), records.map_sum(rounded))


def test_values_are_compared_by_number_where_all_are_numbers():
    column = CodebookColumn("code", "category", values=("01", "2.0", "30"))
    assert column.codes(["1", 1, 1.0, "1.0", True, "x", 2, "002", None, "", float("nan")])[
        :8
    ].tolist() == [0, 0, 0, 0, 0, -1, 1, 1]
    assert np.isnan(column.codes([None, "", float("nan"), pd.NA])).all()
    words = CodebookColumn("code", "category", values=("1", "B", "true"))
    assert words.codes(["1", 1, 1.0, "01", "b", "B", True, "TRUE", [1]]).tolist() == [
        *(0, 0, 0, -1, 1, 1, 2, 2, -1)
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name,low,high\na,0,1\n", "must begin with a line name,low,high,kind"),
        ("a,b\n1,2\n", "must begin with a line"),
        ("", "must begin with a line"),
        ("name,low,high,kind\n", "must have columns, each once, got none"),
        ("name,low,high,kind\na,0,1,number\na,0,1,number\n", "column 'a' twice"),
        ("name,low,high,kind\n,0,1,number\n", "a name for each column"),
        ("name,low,high,kind\na,0,1,numbr\n", "must be one of 'number', 'integer'"),
        ("name,low,high,kind\na,0,1,\n", "kind of column 'a'"),
        ("name,low,high,kind\na,2,1,number\n", "low must be at most high, got 2 and 1"),
        ("name,low,high,kind\na,x,1,number\n", "low must be a number for column 'a'"),
        ("name,low,high,kind\na,inf,1,number\n", "low must be a number for column 'a'"),
        ("name,low,high,kind\na,0.5,1,integer\n", "whole numbers for column 'a'"),
        ("name,low,high,kind\na,,,category\n", "values are required for column 'a'"),
        ("name,low,high,kind,values\na,,,category,x||y\n", "values are required"),
        ('name,low,high,kind,values\na,,,category,"F, M"\n', "values must be separated by '|'"),
        ('name,low,high,kind,missing_codes\na,,,number,"-9,-99"\n', "missing_codes must be sep"),
        ("name,low,high,kind,values\na,,,category,x|x\n", "values must all differ"),
        ("name,low,high,kind,values\na,,,category,1|01\n", "values must all differ"),
        ("name,low,high,kind,values\na,0,1,category,x|y\n", "low and high must be left out"),
        ("name,low,high,kind,values\na,0,1,number,x|y\n", "values must be left out"),
        ("name,low,high,kind,missing\na,0,1,number,none\n", "missing must be a number for column"),
    ],
)
def test_bad_codebooks_are_refused(tmp_path, text, words):
    path = tmp_path / "codebook.csv"
    path.write_text(text)
    with pytest.raises(ParameterError, match=words):
        read_codebook(path)


def test_files_that_are_no_codebooks(tmp_path):
    with pytest.raises(RecordsFileError, match="does not exist"):
        read_codebook(tmp_path / "none.csv")
    with pytest.raises(RecordsFileError, match="cannot be read"):
        read_codebook(tmp_path)
    (tmp_path / "bytes.csv").write_bytes(b"name,low,high,kind\n\xff\xfe,,,number\n")
    with pytest.raises(ParameterError, match="UTF-8"):
        read_codebook(tmp_path / "bytes.csv")


def test_a_codebook_must_be_of_this_table(tmp_path):
    frame = table()
    wrong = Codebook((CodebookColumn("stat", "category", values=("TX",)),))
    for source in (frame.drop(columns="state"), sources(frame, tmp_path)["csv"]):
        with pytest.raises(ParameterError, match=r"codebook must name columns.*'stat'"):
            open_records(source, codebook=wrong)
    with pytest.raises(ParameterError, match="did you mean 'state'"):
        open_records(frame, codebook=wrong)
    good = Codebook((CodebookColumn("age"),))
    with pytest.raises(ParameterError, match="no names"):
        open_records(frame[["age"]].to_numpy(), codebook=good)
    for source in (frame, tmp_path / "t.csv"):
        with pytest.raises(ParameterError, match="must be a Codebook"):
            open_records(source, codebook="codebook.csv")
    twice = Codebook((CodebookColumn("state", "category", values=("TX",)),))
    with pytest.raises(ParameterError, match="column 'state=TX' twice"):
        open_records(frame.assign(**{"state=TX": 1}), codebook=twice)
