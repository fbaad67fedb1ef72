"""Text files: every line is a record, by the rules of CSV, and none is taken for names."""

from __future__ import annotations

import csv as python_csv
import gzip
import io
import pickle
import random
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import csv

from hushcov.exceptions import DataError, ParameterError, RecordsFileError
from hushcov.tables import text as text_files
from hushcov.tables.files import read_header
from hushcov.tables.formats import read_batches, whole_file
from hushcov.tables.sources import OTHER, TEXT, TRUTH, open_records
from hushcov.tables.text import TextOptions, reads_as_value
from hushcov.tables.units import split_columns
from statistics_helpers import short_and_long
from table_helpers import refused, rows_of

NAN, SECRET = np.nan, "987654.125"
SIZES = (3, 64, 100, 257, 1000, 2**20)
ROWS = "1,2,3\n4,5,6\n"
refusal = partial(refused, secrets=("987", "secret"))

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
        *("blood pressure (mm Hg)", "decay", "mar", "octane95", "sept_1", "%fat", "Int64", "x-1"),
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


def test_values_are_not_taken_for_names_nor_names_for_values():
    assert [value for value in VALUES if not reads_as_value(value)] == []
    assert [name for name in NAMES if reads_as_value(name)] == []


@pytest.mark.parametrize(
    "first", [f"{SECRET},secret", f"secret,{SECRET}", "secret,", "2024-01-31,secret"]
)
def test_a_first_record_is_not_published_as_names(text, first):
    path = text(f"{first}\n1,2\n")
    message = refusal(lambda: open_records(path))
    assert "first line" in message
    assert "header=False (no-header = true" in message
    assert "names=[...] (names = [...]" in message


def test_all_files_of_a_folder_are_looked_at(text, tmp_path):
    text("a,b\n1,2\n", "1.csv")
    text(f"{SECRET},3\n1,2\n", "2.csv")
    message = refusal(lambda: open_records(tmp_path))
    assert f"one of the files of {tmp_path} must begin" in message


def test_files_without_a_header(text):
    path = text("1,2\n\n3,4\n")
    records = open_records(path, header=False).with_gaps()
    assert records.feature_names == ("column_1", "column_2")
    np.testing.assert_array_equal(rows_of(records), [[1, 2], [NAN, NAN], [3, 4]])
    records = open_records(path, header=False, names=["u", "v"], columns=["v"]).with_gaps()
    assert records.feature_names == ("v",)
    np.testing.assert_array_equal(rows_of(records), [[2], [NAN], [4]])
    travelled = pickle.loads(pickle.dumps(records))
    np.testing.assert_array_equal(rows_of(travelled), rows_of(records))


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("names", [["u"], ["u", "v", "w"]])
def test_as_many_names_as_columns(text, names, header):
    path = text(f"a,b\n{SECRET},2\n")
    message = refusal(lambda: open_records(path, names=names, header=header))
    assert f"{len(names)} names, got 2" in message


@pytest.mark.parametrize(
    ("options", "words"),
    [
        *(({"names": names}, "names must be a sequence") for names in ("abc", [], ["a", 1])),
        ({"names": ["a", "a"]}, "names must all differ"),
        ({"names": ["a", " "]}, "none may be blank"),
        ({"header": None}, "header must be True or False"),
        *(({"delimiter": sign}, "delimiter must be one character") for sign in ("", "::", "\n", 1)),
    ],
)
def test_bad_options(text, options, words):
    assert words in refusal(lambda: open_records(text("a,b\n1,2\n"), **options), ParameterError)


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
    records = open_records(tmp_path / "x.csv").with_gaps()
    assert records.n_records == 10
    expected = [[NAN if x is None else x] for x in column]
    np.testing.assert_array_equal(rows_of(records), expected)
    message = refusal(lambda: rows_of(open_records(tmp_path / "x.csv")))
    assert "'a' has nulls" in message


def test_one_column_must_end_with_a_line(text):
    """Without it, a last record that is null would look like none."""
    for name in ("x.csv", "x.csv.gz"):
        message = refusal(lambda n=name: open_records(text(f"a\n1\n{SECRET}", n)).with_gaps())
        assert "line end" in message
    assert open_records(text("a\n1\n\n")).with_gaps().n_records == 2
    assert open_records(text("a,b\n1,2\n3,4")).n_records == 2


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz"])
def test_a_file_without_rows_has_columns_if_somebody_names_them(text, name):
    named = {"names": ["a", "b"]}
    for content, options in (
        *(("a,b\n", {}), ("a,b", {}), ("c,d", named), ("", named | {"header": False})),
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
    "content", ["a,b\n1,2\nsecret,3\nsecret,4\n", f"a,b\n1,2\n{SECRET}\n", "a,b\n1,2,secret\n"]
)
def test_lines_that_cannot_be_read_are_not_quoted(text, content):
    path = text(content)
    message = refusal(lambda: rows_of(open_records(path)))
    assert str(path) in message


def test_a_column_that_begins_with_nulls_is_one_of_numbers(text):
    path = text("a,b\n" + "1,\n" * 400_000 + "2,0.5\n")
    records = open_records(path).with_gaps()
    *_, last = records._blocks()
    assert last[-1].tolist() == [2, 0.5]
    assert "'b' has nulls" in refusal(lambda: rows_of(open_records(path)))


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        *(("x.tsv", "a\tb\n1\t2\n", {}), ("x.csv.gz", "a,b\n1,2\n", {})),
        *(("x.tsv.gz", "a\tb\n1\t2\n", {}), ("x.csv", "a;b\n1;2\n", {"delimiter": ";"})),
        *(("x.tsv", "a|b\n1|2\n", {"delimiter": "|"}), ("x.csv", "\N{BOM}a,b\r\n1,2\r\n", {})),
    ],
)
def test_delimiters_and_packed_files(text, name, content, options):
    records = open_records(text(content, name), **options)
    assert records.feature_names == ("a", "b")
    assert rows_of(records).tolist() == [[1, 2]]


@pytest.mark.parametrize(("name", "sign"), [("x.csv", ";"), ("x.csv", "\t"), ("x.tsv", ",")])
def test_another_separator_is_guessed_from_the_names(text, name, sign):
    path = text(f"a{sign}b\n1{sign}2\n", name)
    message = refusal(lambda: open_records(path))
    assert f"use delimiter={sign!r} (delimiter = " in message


def test_only_a_line_of_names_is_quoted(text):
    """A first line that is a record is not looked at, whatever is wrong further down."""
    names = text("age,age\n1,2\n", "names.csv")
    assert "'age'" in refusal(lambda: open_records(names))
    records = text("secret,secret,other\n1,2,3,4\n", "records.csv")
    assert "secret" not in refusal(lambda: open_records(records, header=False))


def read_rows(source, **options):
    return rows_of(open_records(source, **options)).tolist()


@pytest.fixture
def block_bytes(monkeypatch):
    def of(size):
        monkeypatch.setattr(text_files, "BLOCK_BYTES", size)
        monkeypatch.setattr(text_files, "BLOCK_BYTES_OF_COLUMN", 0)

    return of


def made_text(rng, n_columns, delimiter):
    """Text with all that a CSV file may have, and in some a wrong quotation mark."""
    letters = ("a", "é", " ", "\0", "tf", "\N{BOM}")
    inside = (*letters, '""', "\n", "\r", "\r\n", delimiter)
    ends = rng.choice((("\n",), ("\r\n",), ("\r",), ("\n", "\r\n", "\r")))

    def quoted():
        most = rng.choice((3, 3, 3, 10, 400))
        return '"' + "".join(rng.choices(inside, k=rng.randrange(most))) + '"'

    def plain():
        word = "".join(rng.choices(letters, k=rng.randrange(4)))
        return word + rng.choice(("", "", '"', 'x"y"')) if word else word

    def mistake():
        return rng.choice(('"', '"a', '"a"b', '"a""', '""" ', '"" '))

    lines = [delimiter.join(f"c{i}" for i in range(n_columns)) + rng.choice(ends)]
    for _ in range(rng.randrange(1, 40)):
        fields = [rng.choice((plain, quoted))() for _ in range(n_columns)]
        lines.append(delimiter.join(fields if rng.random() < 0.9 else ()) + rng.choice(ends))
    if rng.random() < 0.3:
        place = rng.randrange(1, len(lines))
        others = [rng.choice((plain, quoted))() for _ in range(n_columns - 1)]
        lines[place] = delimiter.join((*others, mistake())) + "\n"
    text = "".join(lines)
    if n_columns > 1 and rng.random() < 0.3:
        text = text.rstrip("\r\n")
    return rng.choice(("", "", "\N{BOM}")) + text


def found_by_csv(text, delimiter, n_columns):
    """What Python's csv finds; None if it refuses, or if records differ in their fields."""
    lines = io.StringIO(text.removeprefix("\N{BOM}"), newline="")
    try:
        _, *rows = python_csv.reader(lines, delimiter=delimiter, strict=True)
    except python_csv.Error:
        return None
    rows = [row or [""] * n_columns for row in rows]
    return rows if all(len(row) == n_columns for row in rows) else None


def found_here(path, delimiter):
    """What is read here, with all columns as text; None if it is refused."""
    try:
        span = whole_file(str(path), "csv", TextOptions(delimiter))
        names = read_header(path, delimiter=delimiter).names
        batches = [batch for _, batch in read_batches(replace(span, texts=names), names, 100)]
    except DataError:
        return None
    assert sum(batch.num_rows for batch in batches) == span.n_rows
    return [list(row.values()) for batch in batches for row in batch.to_pylist()]


@short_and_long("cases", 40, 2_000)
def test_records_are_those_of_csv_at_all_sizes_of_blocks(tmp_path, block_bytes, cases):
    outcomes = Counter()
    for seed in range(cases):
        rng = random.Random(seed)
        delimiter, n_columns = rng.choice(",;\t|"), rng.randrange(1, 5)
        text = made_text(rng, n_columns, delimiter)
        path = tmp_path / rng.choice(("x.csv", "x.csv", "x.csv.gz"))
        content = text.encode()
        path.write_bytes(gzip.compress(content, 1) if path.suffix == ".gz" else content)
        expected = found_by_csv(text, delimiter, n_columns)
        for size in SIZES:
            block_bytes(size)
            assert found_here(path, delimiter) == expected, (seed, size)
        outcomes[expected is None] += 1
    assert outcomes[True] > cases / 8
    assert outcomes[False] > cases / 2


@pytest.mark.parametrize("mark", ['"secret', '"secret,1', '"secret"x', '"', 'x,"secret'])
@pytest.mark.parametrize("others", ["y", '"y"', '"y\nz"'])
def test_quotation_marks_that_are_not_closed_are_refused(tmp_path, mark, others):
    """One note `"tall` swallowed all records after it, in silence."""
    path = tmp_path / "x.csv"
    lines = ["note,a", *(f"{mark if i == 1_000 else others},{i}" for i in range(3_000))]
    path.write_text("\n".join(lines) + "\n")
    message = refusal(lambda: open_records(path, columns=["a"]))
    assert "must close each quotation mark" in message
    assert "1" not in message.removeprefix(str(path))
    assert message == refusal(lambda: read_header(path).count_rows())


def test_features_identifiers_and_weights_are_of_the_same_rows(tmp_path, block_bytes):
    path = tmp_path / "x.csv"
    ids = ['"p\r\n1"', "p2", '"p,3"'] * 40
    lines = ["id,x,w\r\n", *(f"{unit},{i},{i}\r\n" for i, unit in enumerate(ids))]
    path.write_bytes("".join(lines).encode())
    for size in (3, 5, 7, 64, 2**20):
        block_bytes(size)
        records, units, _ = split_columns(path, "id")
        assert units().codes.tolist() == [i % 3 for i in range(120)]
        assert next(iter(records._blocks()))[:, 0].tolist() == list(range(120))
        _, weights, _ = split_columns(records, "w", what="sample_weight")
        assert weights().tolist() == list(range(120))


def test_values_of_columns_that_are_not_used_are_not_looked_at(tmp_path, block_bytes):
    path = tmp_path / "x.csv"
    for note in (b"\xff\xfe", b"\0\0", b"true", b'"\xff\n\0"', b"\xef\xbb\xbf", b'a "b" c'):
        path.write_bytes(b"note,a\n" + b"".join(b"%b,%d\n" % (note, i) for i in range(50)))
        for size in (64, 2**20):
            block_bytes(size)
            assert read_rows(path, columns=["a"]) == [[i] for i in range(50)]


def test_names_with_line_ends(tmp_path, block_bytes):
    path = tmp_path / "x.csv"
    for end in ("\n", "\r\n", "\r"):
        path.write_bytes(f'"a{end}""b""",c{end}1,2{end}3,4{end}'.encode())
        for size in (3, 64, 2**20):
            block_bytes(size)
            assert open_records(path).feature_names == (f'a{end}"b"', "c")
            assert read_header(path).names == (f'a{end}"b"', "c")
            for options in ({}, {"names": ["u", "v"]}):
                assert read_rows(path, **options) == [[1, 2], [3, 4]]
    path.write_text('5" disk,7" disk\n1,2\n')  # marks that open nothing
    assert read_header(path).names == open_records(path).feature_names == ('5" disk', '7" disk')


def test_a_record_that_is_too_long_is_refused(tmp_path, monkeypatch, block_bytes):
    monkeypatch.setattr(text_files, "MOST_RECORD_BYTES", 1_000)
    path = tmp_path / "x.csv"
    for size in (64, 2**10):
        block_bytes(size)
        for length, fits in ((900, True), (3_000, False)):
            path.write_text("note,a\n" + "x,1\n" * 30 + f'"{"secret" * (length // 6)}",1\n' * 2)
            if fits:
                assert open_records(path, columns=["a"]).n_records == 32
            else:
                assert "at most 1,000 bytes" in refusal(lambda: open_records(path, columns=["a"]))


def test_a_file_that_changes_is_refused(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,22\n3,44\n")
    records = open_records(path)
    for text in ("a,b\n1,22\n", "a,b\n1,2\n\n3,44\n", "a,b\n1,2345644\n"):
        path.write_text(text)
        assert "the rows that it had" in refusal(lambda: list(records._blocks()))


@pytest.mark.parametrize("damage", ["short", "wrong"])
def test_damaged_packed_files_are_refused(tmp_path, damage):
    path = tmp_path / "x.csv.gz"
    packed = gzip.compress(b"a,b\n" + bytes(random.Random(1).choices(b"0123456789,\n", k=9_000)))
    path.write_bytes(packed[:40] if damage == "short" else packed[:12] + b"\xff" * 50)
    with pytest.raises((DataError, RecordsFileError), match="cannot be read"):
        open_records(path)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("line", ["a,b,c", '"a","b","c"', "\ufeffa,b,c"])
def test_names_are_those_that_open_records_finds(line, end):
    Path("x.csv").write_bytes((line + end + ROWS.replace("\n", end)).encode())
    header = read_header("x.csv")
    assert header.names == open_records("x.csv").feature_names == ("a", "b", "c")
    assert header.kinds == {}
    assert not header.states_rows
    assert header.count_rows() == 2


@pytest.mark.usefixtures("here")
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


@pytest.mark.usefixtures("here")
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


@pytest.mark.usefixtures("here")
def test_what_is_no_header_is_refused():
    Path("x.csv").write_bytes(b"a,\xff\n1,2\n")
    with pytest.raises(DataError, match="UTF-8"):
        read_header("x.csv")
    Path("x.csv.gz").write_bytes(b"not compressed")
    with pytest.raises(RecordsFileError, match="cannot be read"):
        read_header("x.csv.gz")
    with pytest.raises(RecordsFileError, match="does not exist"):
        read_header("y.csv")
