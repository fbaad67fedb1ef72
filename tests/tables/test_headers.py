"""Headers of files: names, types that files state, and not a byte of the rows."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hushcov.exceptions import DataError, RecordsFileError
from hushcov.tables.files import OTHER, TEXT, TRUTH, may_be_record, read_header
from hushcov.tables.sources import DeclaredRecords, open_records

ROWS = "1,2,3\n4,5,6\n"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """An empty folder."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("line", ["a,b,c", '"a","b","c"', "\ufeffa,b,c"])
def test_names_are_those_that_open_records_finds(line, end):
    Path("x.csv").write_bytes((line + end + ROWS.replace("\n", end)).encode())
    header = read_header("x.csv")
    assert header.names == open_records("x.csv").feature_names == ("a", "b", "c")
    assert header.kinds == {}
    assert not header.states_rows
    assert header.count_rows() == 2


def test_line_ends_in_quotes_and_compressed_files():
    Path("x.csv").write_text('"a\nb",c\n1,2\n')
    assert read_header("x.csv").names == ("a\nb", "c")
    Path("x.csv.gz").write_bytes(gzip.compress(b"a,b\n1,2\n"))
    assert read_header("x.csv.gz").names == ("a", "b")
    Path("x.tsv").write_text("a\tb\n1\t2\n")
    assert read_header("x.tsv").names == ("a", "b")


def test_blanks_around_names_are_no_part_of_them():
    Path("x.csv").write_text("a, b ,c\n1,2,3\n")
    Path("y.csv").write_text("a, b ,c\n4,5,6\n")
    for source in ("x.csv", "*.csv"):
        records = open_records(source, columns=["c", "b"])
        assert records.feature_names == ("c", "b")
        assert next(iter(records._blocks()))[0].tolist() == [3, 2]
        assert read_header(source).names == open_records(source).feature_names == ("a", "b", "c")
        assert open_records(source, leave_out=["b"]).feature_names == ("a", "c")
        assert read_header(source).count_rows() == records.n_records
    # Whoever asks for blanks gets them; files that differ, and names that would be one, keep them.
    assert open_records("x.csv", columns=[" b "]).feature_names == (" b ",)
    Path("y.csv").write_text(" b ,a,c\n5,4,6\n")
    for source, text in (("*.csv", None), ("z.csv", "a, a\n1,2\n")):
        if text is not None:
            Path(source).write_text(text)
        found = open_records(source)
        assert found.feature_names == read_header(source).names
        assert any(name != name.strip() for name in found.feature_names)
    Path("z.csv").write_text('"a\nb", c\n1,2\n')
    for names in (None, ["u", "v"]):
        found = open_records("z.csv", names=names)
        assert found.feature_names == (("a\nb", "c") if names is None else ("u", "v"))
        assert next(iter(found._blocks())).tolist() == [[1, 2]]


def test_text_without_names():
    Path("x.csv").write_text("1.5,2\n3,4\n")
    header = read_header("x.csv", header=False)
    assert header.names == open_records("x.csv", header=False).feature_names
    assert header.names == ("column_1", "column_2")
    assert header.count_rows() == 2
    assert read_header("x.csv", header=False, names=["a", "b"]).names == ("a", "b")
    with pytest.raises(DataError, match="3 names"):
        read_header("x.csv", header=False, names=["a", "b", "c"])
    assert may_be_record("x.csv")
    Path("x.csv").write_text("a,b\n")
    assert not may_be_record("x.csv")


def test_types_that_files_state():
    frame = pd.DataFrame({"n": [1.5], "t": [True], "s": ["x"], "d": [pd.Timestamp(0)]})
    frame["c"] = frame["s"].astype("category")
    frame.to_parquet("x.parquet")
    frame.to_feather("x.feather")
    for file in ("x.parquet", "x.feather"):
        header = read_header(file)
        assert list(header.kinds.values()) == ["number", TRUTH, TEXT, OTHER, TEXT]
        assert header.states_rows
        assert header.count_rows() == 1


def test_arrays_and_folders():
    np.save("x.npy", np.zeros((5, 2)))
    header = read_header("x.npy")
    assert (header.names, header.n_columns, header.count_rows()) == (None, 2, 5)
    Path("many").mkdir()
    for name in "ab":
        Path(f"many/{name}.csv").write_text("a,b\n" + "1,2\n" * 3)
    for source in ("many", "many/*.csv"):
        header = read_header(source)
        assert header.names == ("a", "b")
        assert header.count_rows() == 6


def test_what_is_no_header_is_refused():
    Path("x.csv").write_bytes(b"a,\xff\n1,2\n")
    with pytest.raises(DataError, match="UTF-8"):
        read_header("x.csv")
    Path("x.csv.gz").write_bytes(b"not compressed")
    with pytest.raises(RecordsFileError, match="cannot be read"):
        read_header("x.csv.gz")
    with pytest.raises(RecordsFileError, match="does not exist"):
        read_header("y.csv")


def test_declared_records_are_never_read():
    records = DeclaredRecords(10, 2, ("a", "b"))
    assert (records.n_records, records.n_features) == (10, 2)
    with pytest.raises(AssertionError):
        records.map_sum(lambda block: block)
