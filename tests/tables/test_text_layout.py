"""Records of text files are those of Python's csv, at whatever size of blocks."""

from __future__ import annotations

import csv
import gzip
import io
import pickle
import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from hushcov import GaussianCovariance
from hushcov.exceptions import DataError, RecordsFileError
from hushcov.tables import text as text_files
from hushcov.tables.files import FileRecords, read_header
from hushcov.tables.formats import read_batches, whole_file
from hushcov.tables.sources import open_records
from hushcov.tables.text import TextOptions
from hushcov.tables.units import split_columns
from statistics_helpers import short_and_long

SIZES = (3, 64, 100, 257, 1000, 2**20)
NOTE = '"' + "she said no, twice\r\n,\n\n" * 200 + '"'


@pytest.fixture
def block_bytes(monkeypatch):
    def of(size):
        monkeypatch.setattr(text_files, "BLOCK_BYTES", size)
        monkeypatch.setattr(text_files, "BLOCK_BYTES_OF_COLUMN", 0)

    return of


def rows_of(source, **options):
    return np.concatenate(list(open_records(source, **options)._blocks())).tolist()


def refusal(action):
    with pytest.raises(DataError) as info:
        action()
    assert "secret" not in str(info.value)
    return str(info.value)


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
        _, *rows = csv.reader(lines, delimiter=delimiter, strict=True)
    except csv.Error:
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


@short_and_long("cases", 100, 2_000)
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


@pytest.mark.filterwarnings("ignore::hushcov.exceptions.SeededNoiseWarning")
@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz", "x.tsv"])
def test_a_long_note_that_is_not_used_changes_nothing(tmp_path, block_bytes, name):
    """It was 20,000 records, and one with a quoted note made them 44,146 to 55,602."""
    rng = np.random.default_rng(5)
    X, sign = rng.normal(size=(400, 2)).round(3), "\t" if name.endswith("tsv") else ","

    def written(note):
        lines = [sign.join(["a", "note", "b"])]
        lines += [
            sign.join([str(a), note if i == 200 else "", str(b)]) for i, (a, b) in enumerate(X)
        ]
        content = "".join(line + "\r\n" for line in lines).encode()
        (tmp_path / name).write_bytes(gzip.compress(content) if "gz" in name else content)
        return tmp_path / name

    def released(path):
        model = GaussianCovariance(epsilon=10, delta=1e-6, feature_scale=1.0, random_state=1)
        return model.fit(open_records(path, columns=["a", "b"])).covariance_

    expected = released(written(""))
    for size in (64, 700, 2**20):
        block_bytes(size)
        path = written(NOTE)
        assert open_records(path, columns=["b"]).n_records == 400
        assert rows_of(path, columns=["a", "b"]) == X.tolist()
        np.testing.assert_array_equal(released(path), expected)
    path = written(NOTE[:-1] + "7,1,1\n" * 200_000 + '"')  # longer than a block of usual size
    assert rows_of(path, columns=["a", "b"]) == X.tolist()
    np.testing.assert_array_equal(released(path), expected)


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


def test_two_line_notes_are_ordinary(tmp_path, block_bytes):
    path = tmp_path / "x.csv"
    path.write_text("".join(["a,note\n", *(f'{i},"two\nlines"\n' for i in range(3_000))]))
    for size in (64, 1_000, 2**20):
        block_bytes(size)
        assert rows_of(path, columns=["a"]) == [[i] for i in range(3_000)]


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


@pytest.mark.parametrize("place", [0, 1_500])
def test_what_a_column_holds_does_not_depend_on_blocks(tmp_path, block_bytes, place):
    """Words for truth, and values that are none of numbers, may be anywhere in the file."""
    path = tmp_path / "x.csv"

    def written(value):
        lines = [f"{value if i == place else i % 2},{i}\n" for i in range(2_000)]
        path.write_text("true a,b\n" + "".join(lines))
        return path

    expected = [[i % 2 if i != place else 1, i] for i in range(2_000)]
    for size in (64, 2_000, 2**20):
        block_bytes(size)
        assert rows_of(written("true")) == expected
        assert rows_of(written("1.0")) == expected
        (tmp_path / "y.csv").write_text("a,note\ntrue,1\n1,f\n0,f")  # the last is a letter
        assert rows_of(tmp_path / "y.csv", columns=["a"]) == [[1], [1], [0]]
        for value in ("secret", "true x", "2024-01-31", "fals", '"1\n2"'):
            message = refusal(lambda value=value: rows_of(written(value)))
            assert "must hold numbers, but column 'true a' has type text" in message


def test_values_of_columns_that_are_not_used_are_not_looked_at(tmp_path, block_bytes):
    path = tmp_path / "x.csv"
    for note in (b"\xff\xfe", b"\0\0", b"true", b'"\xff\n\0"', b"\xef\xbb\xbf", b'a "b" c'):
        path.write_bytes(b"note,a\n" + b"".join(b"%b,%d\n" % (note, i) for i in range(50)))
        for size in (64, 2**20):
            block_bytes(size)
            assert rows_of(path, columns=["a"]) == [[i] for i in range(50)]


def test_names_with_line_ends(tmp_path, block_bytes):
    path = tmp_path / "x.csv"
    for end in ("\n", "\r\n", "\r"):
        path.write_bytes(f'"a{end}""b""",c{end}1,2{end}3,4{end}'.encode())
        for size in (3, 64, 2**20):
            block_bytes(size)
            assert open_records(path).feature_names == (f'a{end}"b"', "c")
            assert read_header(path).names == (f'a{end}"b"', "c")
            for options in ({}, {"names": ["u", "v"]}):
                assert rows_of(path, **options) == [[1, 2], [3, 4]]
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


def test_parts_of_text_files_travel(tmp_path, block_bytes):
    block_bytes(64)
    path = tmp_path / "x.csv"
    path.write_text("a,note\n" + "".join(f'{i},"\n\n"\n' for i in range(100)))
    records = FileRecords(path, columns=["a"])
    part = records.only([replace(records.spans[0], start=37, stop=59)])
    rows = np.concatenate(list(pickle.loads(pickle.dumps(part))._blocks()))
    assert rows[:, 0].tolist() == list(range(37, 59))


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
