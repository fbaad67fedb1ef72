"""CSV files: every line is a record, and none is taken for names."""

from __future__ import annotations

import gzip
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import csv

from hushcov.exceptions import DataError, ParameterError
from hushcov.tables.files import FileRecords
from hushcov.tables.sources import open_records
from hushcov.tables.text import reads_as_value

NAN, SECRET = np.nan, "987654.125"

VALUES = [
    *("1", "-2.5", "+3", "1e5", "1E-3", ".5", "5.", "1_000", "0x1f", "inf", "-Infinity", "nan"),
    *("1,234.5", "1.234,5", "1 234", "12 %", "$5", "€ 1.5", "(12)", "1/2", "١٢", "1\N{NBSP}000"),
    *("2024-01-31", "31.01.2024", "1/31/24", "20240131", "2024-01-31T12:00:00Z", "12:30"),
    *("2024-01-31 12:00:00.5+01:00", "12:30 pm", "2024-01-31 12:00 UTC", "31 Jan 2024"),
    *("Jan 31, 2024", "2024-Jan-31", "Fri, 31 January 2024 10:00", "31-JAN-24", "3rd March 2024"),
    *("", "  ", "NA", "n/a", "#N/A", "null", "NULL", "None", "NaN", "<NA>", "NaT", "\\N", "-", "?"),
    *("true", "FALSE"),
]
NAMES = [
    *("a", "age", "x1", "q1_2024", "2019_sales", "1st", "column 3", "e5", "May", "march 2024"),
    *("y", "t", "f", "no", "Ärger", "温度", "temp [°C]", "p50", "infant", "nano", "national id"),
    *(
        "blood pressure (mm Hg)",
        "decay",
        "mar",
        "octane95",
        "sept_1",
        "%fat",
        "Int64",
        "x-1",
        "10m",
    ),
]


@pytest.fixture
def text(tmp_path):
    def write(content, name="x.csv"):
        path = tmp_path / name
        content = content.encode() if isinstance(content, str) else content
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return write


def rows_of(records):
    return np.concatenate(list(records._blocks())).tolist()


def refusal(action, kind=DataError):
    with pytest.raises(kind) as info:
        action()
    assert "987" not in str(info.value)
    assert "secret" not in str(info.value)
    return str(info.value)


@pytest.mark.parametrize("name", VALUES)
def test_values_are_not_taken_for_names(name):
    assert reads_as_value(name)


@pytest.mark.parametrize("name", NAMES)
def test_names_are_not_taken_for_values(name):
    assert not reads_as_value(name)


@pytest.mark.parametrize(
    "first", [f"{SECRET},secret", f"secret,{SECRET}", "secret,", "2024-01-31,secret"]
)
def test_a_first_record_is_not_published_as_names(text, first):
    path = text(f"{first}\n1,2\n")
    message = refusal(lambda: open_records(path))
    assert "first line" in message
    assert "header=False (--no-header)" in message
    assert "names=[...] (--names a,b,c)" in message


def test_all_files_of_a_folder_are_looked_at(text, tmp_path):
    text("a,b\n1,2\n", "1.csv")
    text(f"{SECRET},3\n1,2\n", "2.csv")
    message = refusal(lambda: open_records(tmp_path))
    assert f"one of the files of {tmp_path} must begin" in message


def test_files_without_a_header(text):
    path = text("1,2\n\n3,4\n")
    records = open_records(path, header=False, drop_nulls=True)
    assert records.feature_names == ("column_1", "column_2")
    np.testing.assert_array_equal(rows_of(records), [[1, 2], [NAN, NAN], [3, 4]])
    records = open_records(path, header=False, names=["u", "v"], columns=["v"], drop_nulls=True)
    assert records.feature_names == ("v",)
    np.testing.assert_array_equal(rows_of(records), [[2], [NAN], [4]])
    travelled = pickle.loads(pickle.dumps(records))
    np.testing.assert_array_equal(rows_of(travelled), rows_of(records))


def test_other_names_than_those_of_the_header(text):
    path = text("2019,2020\n1,2\n\n3,4\n")
    records = FileRecords(path, names=["u", "v"], drop_nulls=True)
    assert (records.feature_names, records.n_records) == (("u", "v"), 3)
    np.testing.assert_array_equal(rows_of(records), [[1, 2], [NAN, NAN], [3, 4]])
    assert rows_of(open_records(text("a,a\n1,2\n"), names=["a", "b"])) == [[1, 2]]


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("names", [["u"], ["u", "v", "w"]])
def test_as_many_names_as_columns(text, names, header):
    path = text(f"a,b\n{SECRET},2\n")
    message = refusal(lambda: open_records(path, names=names, header=header))
    assert f"{len(names)} names, got 2" in message


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"names": "abc"}, "names must be a sequence"),
        ({"names": []}, "names must be a sequence"),
        ({"names": ["a", 1]}, "names must be a sequence"),
        ({"names": ["a", "a"]}, "names must all differ"),
        ({"names": ["a", " "]}, "none may be blank"),
        ({"header": None}, "header must be True or False"),
        ({"delimiter": ""}, "delimiter must be one character"),
        ({"delimiter": "::"}, "delimiter must be one character"),
        ({"delimiter": "\n"}, "delimiter must be one character"),
        ({"delimiter": 1}, "delimiter must be one character"),
    ],
)
def test_bad_options(text, options, words):
    assert words in refusal(lambda: open_records(text("a,b\n1,2\n"), **options), ParameterError)


@pytest.mark.parametrize("options", [{"names": ["a"]}, {"header": False}, {"delimiter": ","}])
def test_options_of_text_are_refused_for_other_files(tmp_path, options):
    path = tmp_path / "x.parquet"
    pd.DataFrame({"a": [1.0]}).to_parquet(path)
    message = refusal(lambda: open_records(path, **options), ParameterError)
    assert "header, names and delimiter" in message


WRITERS = {
    "pyarrow": lambda column, path: csv.write_csv(pa.table({"a": column}), path),
    "polars": lambda column, path: pl.DataFrame({"a": column}).write_csv(path),
    "pandas": lambda column, path: pd.DataFrame({"a": column}).to_csv(path, index=False),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
@pytest.mark.parametrize("place", [0, 3, 9])
def test_nulls_of_one_column_are_records(tmp_path, write, place):
    """Blank lines, by most writers; they are skipped by most readers, and n changed."""
    column = [float(i) for i in range(10)]
    column[place] = None
    write(column, tmp_path / "x.csv")
    records = open_records(tmp_path / "x.csv", drop_nulls=True)
    assert records.n_records == 10
    expected = [[NAN if x is None else x] for x in column]
    np.testing.assert_array_equal(rows_of(records), expected)
    message = refusal(lambda: rows_of(open_records(tmp_path / "x.csv")))
    assert "'a' has nulls" in message


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_blank_lines_of_many_blocks_are_counted_and_read(text, end):
    """Three blocks of pyarrow's, with blank lines at all their ends."""
    rng = np.random.default_rng(3)
    column = [NAN if blank else float(i) for i, blank in enumerate(rng.random(700_000) < 0.5)]
    content = end.join(["a", *("" if np.isnan(x) else str(x) for x in column), ""])
    records = open_records(text(content), drop_nulls=True)
    assert records.n_records == 700_000
    found = np.concatenate(list(records._blocks()))[:, 0]
    np.testing.assert_array_equal(found, column)


def test_blank_lines_of_several_columns_are_records_of_nulls(text):
    path = text("a,b\n1,2\n\n3,4\n\n")
    records = open_records(path, drop_nulls=True)
    np.testing.assert_array_equal(rows_of(records), [[1, 2], [NAN, NAN], [3, 4], [NAN, NAN]])
    assert "'a', 'b' have" in refusal(lambda: rows_of(open_records(path)))


def test_one_column_must_end_with_a_line(text):
    """Without it, a last record that is null would look like none."""
    for name in ("x.csv", "x.csv.gz"):
        message = refusal(lambda n=name: open_records(text(f"a\n1\n{SECRET}", n), drop_nulls=True))
        assert "line end" in message
    assert open_records(text("a\n1\n\n"), drop_nulls=True).n_records == 2
    assert open_records(text("a,b\n1,2\n3,4")).n_records == 2


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz"])
def test_a_file_without_rows_has_columns_if_somebody_names_them(text, name):
    named = {"names": ["a", "b"]}
    for content, options in (
        ("a,b\n", {}),
        ("a,b", {}),
        ("c,d", named),
        ("", named | {"header": False}),
    ):
        records = open_records(text(content, name), **options)
        assert (records.n_records, records.feature_names) == (0, ("a", "b"))
        assert records.map_sum(lambda block: np.array([len(block)])) == [0]
    assert open_records(text("a\n", name)).n_records == 0
    assert open_records(text("1,2", name), header=False).n_records == 1
    path = text("", name)
    for options in ({}, {"header": False}, named):
        message = refusal(lambda given=options: open_records(path, **given))
        assert "the file is empty" in message


@pytest.mark.parametrize(
    "content", ["a,b\n1,2\nsecret,3\n", f"a,b\n1,2\n{SECRET}\n", "a,b\n1,2,secret\n"]
)
def test_lines_that_cannot_be_read_are_not_quoted(text, content):
    path = text(content)
    message = refusal(lambda: rows_of(open_records(path)))
    assert str(path) in message


def test_a_column_that_begins_with_nulls_is_one_of_numbers(text):
    path = text("a,b\n" + "1,\n" * 400_000 + "2,0.5\n")
    records = open_records(path, drop_nulls=True)
    *_, last = records._blocks()
    assert last[-1].tolist() == [2, 0.5]
    assert "'b' has nulls" in refusal(lambda: rows_of(open_records(path)))


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("x.tsv", "a\tb\n1\t2\n", {}),
        ("x.csv.gz", "a,b\n1,2\n", {}),
        ("x.tsv.gz", "a\tb\n1\t2\n", {}),
        ("x.csv", "a;b\n1;2\n", {"delimiter": ";"}),
        ("x.tsv", "a|b\n1|2\n", {"delimiter": "|"}),
        ("x.csv", "\N{BOM}a,b\r\n1,2\r\n", {}),
    ],
)
def test_delimiters_and_packed_files(text, name, content, options):
    records = open_records(text(content, name), **options)
    assert records.feature_names == ("a", "b")
    assert rows_of(records) == [[1, 2]]


def test_files_with_tabs_and_with_commas_together(text, tmp_path):
    text("a,b\n1,2\n", "1.csv")
    text("b\ta\n3\t4\n", "2.tsv")
    text("a,b\n5,6\n", "3.csv.gz")
    assert rows_of(open_records(tmp_path)) == [[1, 2], [4, 3], [5, 6]]


@pytest.mark.parametrize(("name", "sign"), [("x.csv", ";"), ("x.csv", "\t"), ("x.tsv", ",")])
def test_another_separator_is_guessed_from_the_names(text, name, sign):
    path = text(f"a{sign}b\n1{sign}2\n", name)
    message = refusal(lambda: open_records(path))
    assert f"use delimiter={sign!r} (--delimiter " in message


def test_a_file_that_became_shorter_is_refused(text):
    path = text("a,b\n1,2\n3,4\n")
    records = open_records(path)
    text("a,b\n1,2\n")
    message = refusal(lambda: rows_of(records))
    assert "the rows that it had" in message
    assert "2" not in message.removeprefix(str(path))


def test_only_a_line_of_names_is_quoted(text):
    """A first line that is a record is not looked at, whatever is wrong further down."""
    names = text("age,age\n1,2\n", "names.csv")
    assert "'age'" in refusal(lambda: open_records(names))
    records = text("secret,secret,other\n1,2,3,4\n", "records.csv")
    assert "secret" not in refusal(lambda: open_records(records, header=False))
