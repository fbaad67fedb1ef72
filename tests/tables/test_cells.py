"""Fields become numbers by public rules, the same for every kind of column and every way in."""

from __future__ import annotations

from decimal import Decimal
from functools import partial

import dask.array
import dask.dataframe
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from hushcov import Codebook, read_codebook
from hushcov.exceptions import (
    DataError,
    DataTypeError,
    ParameterError,
)
from hushcov.tables import formats
from hushcov.tables.cells import MISSING_CODES, PLAIN, FieldReader
from hushcov.tables.codebook import CodebookColumn, read_values, written_values
from hushcov.tables.sources import open_records
from table_helpers import rows_of

CODES = [*MISSING_CODES, "na", " NA ", "NONE", "Null", "-99"]
BOOK = """name,low,high,kind,values,missing_codes,missing,thousands
income,,,number,,-99|refused,,comma
smoker,,,binary,,-99,,
drinks,,,binary,ja|j -> yes; nein -> no,-99,,
sex,,,category,F|female -> F; M|male -> M,-99,,
region,,,category,north|south|none,-99,south,
code,,,category,1|2,-99,,
"""
FEATURES = ("income", "smoker", "drinks", "sex=F", "sex=M", "region=north", "region=south")
FEATURES += ("region=none", "code=1", "code=2")


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "book.csv"
    path.write_text(BOOK)
    return read_codebook(path)


def ways_in(frame, folder):
    """The same table of text in every form that a codebook describes."""
    arrow = pa.table({name: pa.array(frame[name].tolist()) for name in frame})
    frame.to_csv(folder / "t.csv", index=False)
    parquet.write_table(arrow, folder / "t.parquet")
    feather.write_feather(arrow, folder / "t.feather")
    return {
        "csv": folder / "t.csv",
        "parquet": folder / "t.parquet",
        "feather": folder / "t.feather",
        "pandas": frame,
        "pandas objects": frame.astype(object),
        "pandas categories": frame.astype("category"),
        "pandas arrow": frame.astype(pd.ArrowDtype(pa.string())),
        "polars": pl.from_pandas(frame),
        "arrow": arrow,
    }


def test_partitions_of_dask_are_coded_where_they_are(book):
    frame = pd.DataFrame(
        [["1,234", "Y", "nein", "male", "south", "1"], ["typo", "?", "", "f", "AL", "2"]] * 6,
        columns=book.names,
        dtype="str",
    )

    def totals(block):
        known = np.where(np.isnan(block), 100, block)
        return np.rint(known).astype(np.int64).sum(axis=0)

    totals.takes_gaps = True
    elsewhere = open_records(dask.dataframe.from_pandas(frame, npartitions=3), codebook=book)
    here = open_records(frame, codebook=book)
    assert elsewhere.feature_names == here.feature_names == FEATURES
    found = [each.with_gaps().map_sum(totals).tolist() for each in (here, elsewhere)]
    assert found[0] == found[1]
    assert found[0][:3] == [6 * 1334, 6 * 101, 6 * 100]


def test_the_same_fields_are_missing_in_every_column_and_way_in(book, tmp_path):
    good = ["1,234.5", "yes", "ja", "F", "north", "2"]
    bad = [[code] * 6 for code in CODES]
    frame = pd.DataFrame([good, *bad, good], columns=book.names, dtype="str")
    for name, source in ways_in(frame, tmp_path).items():
        records = open_records(source, codebook=book).with_gaps()
        assert records.feature_names == FEATURES
        rows = rows_of(records)
        expected = [1234.5, 1, 1, 1, 0, 1, 0, 0, 0, 1]
        assert rows[0].tolist() == rows[-1].tolist() == expected, name
        listed = [code.strip().casefold() == "none" for code in CODES]  # a region, which wins
        for row, is_region in zip(rows[1:-1], listed, strict=True):
            assert np.isnan(row[[0, 1, 2, 3, 4, 8, 9]]).all(), name
            # Filled with what the codebook says, NA as well as empty fields.
            assert row[5:8].tolist() == ([0, 0, 1] if is_region else [0, 1, 0]), name


@pytest.mark.parametrize(
    ("field", "number"),
    [
        *(
            (word, 1)
            for word in ("yes", "Yes", " YES ", "y", "Y", "true", "T", "1", "1.0", 1, True)
        ),
        *((word, 0) for word in ("no", "No", "n", "N", "false", "F", "0", 0.0, np.False_)),
        *((word, None) for word in ("n/a", "maybe", "ja", "2", "0.5", 9, "", None, pd.NA, [1])),
    ],
)
def test_yes_and_no(field, number):
    """What is in neither list is missing, and not no."""
    for column in (
        CodebookColumn("a", "binary"),
        CodebookColumn("a", "category", values=("yes",)),
        CodebookColumn("a", "category", values=("no", "yes")),
    ):
        book = Codebook((column,))
        frame = pd.DataFrame({"a": pd.Series([field, "yes", "no", "no"], dtype=object)})
        found = rows_of(open_records(frame, codebook=book).with_gaps())[0]
        if number is None:
            assert np.isnan(found).all()
        else:
            assert found.tolist() == ([1 - number, number] if len(found) > 1 else [number])


def test_numbers_may_be_spellings_of_yes_and_no(tmp_path):
    """As 1 and 2 in many surveys: the same for text, numbers and a block with a typo."""
    column = CodebookColumn("a", "binary", synonyms={"1": "yes", "2": "no"}, missing_codes=("9",))
    frame = pd.DataFrame({"a": [1, 2, 9, 0, 3, 2] * 20, "b": 1.0})
    frame.to_csv(tmp_path / "x.csv", index=False)
    (tmp_path / "y.csv").write_text((tmp_path / "x.csv").read_text() + "ja,1\n")
    forms = [frame, frame.astype({"a": str}), pl.from_pandas(frame), tmp_path / "x.csv"]
    for source in (*forms, tmp_path / "y.csv"):
        rows = rows_of(open_records(source, codebook=Codebook((column,))).with_gaps())[:120, 0]
        expected = [1, 0, np.nan, 0, np.nan, 0] * 20
        assert np.array_equal(rows, expected, equal_nan=True)


def test_binary_columns_with_other_bounds_have_two_numbers():
    column = CodebookColumn("a", "binary", 1, 2, missing_codes=("9",))
    assert column.codes(["1", 2, "yes", 9, "9"])[:2].tolist() == [1, 2]
    assert np.isinf(column.codes(["yes", 3])).all()
    assert np.isnan(column.codes([9, "9.0"])).all()
    assert np.isnan(column.reading.numbers(np.array([9.0]))).all()


@pytest.mark.parametrize(
    ("given", "values", "synonyms"),
    [
        ("a|b", ("a", "b"), {}),
        ("yes|Y|1 -> yes", ("yes",), {"Y": "yes", "1": "yes"}),
        ("T|Texas -> TX; CA|NY", ("TX", "CA", "NY"), {"T": "TX", "Texas": "TX"}),
        ("D, C -> D, C", ("D, C",), {}),
    ],
)
def test_values_and_their_spellings(tmp_path, given, values, synonyms):
    assert read_values(given) == (values, synonyms)
    column = CodebookColumn("a", "category", values=values, synonyms=synonyms)
    line = f'a,,,category,"{written_values(column)}"'
    (tmp_path / "book.csv").write_text(f"name,low,high,kind,values\n{line}\n")
    assert read_codebook(tmp_path / "book.csv").columns == (column,)
    assert column.codes(list(synonyms)).tolist() == [
        values.index(value) for value in synonyms.values()
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a,,,category,x|X,", "values must all differ"),
        ("a,,,category,x|y,Y", "must all differ, got 'y' twice"),
        ("a,,,category,y -> x; Y,", "must all differ"),
        ("a,,,category,z -> x; z -> y,", "every spelling once"),
        ("a,,,binary,male|female,", "must say which are yes and which are no"),
        ("a,,,binary,male -> man,", "must mean one of its values, or yes or no"),
        ("a,,,number,,,x", "thousands must be comma, space, apostrophe or empty"),
    ],
)
def test_codebooks_that_contradict_themselves_are_refused(tmp_path, line, words):
    (tmp_path / "b.csv").write_text(f"name,low,high,kind,values,missing_codes,thousands\n{line}\n")
    with pytest.raises(ParameterError, match=words):
        read_codebook(tmp_path / "b.csv")


def test_thousands_are_read_where_the_codebook_says_so(tmp_path):
    fields = ["1,234.56", "-1,234,567", "12", "1,23", "12,34.5", ",123"]
    rows = "".join(f'"{field}",{i}\n' for i, field in enumerate(fields))
    (tmp_path / "t.csv").write_text("a,b\n" + "7,1\n" * 9 + rows)
    book = Codebook((CodebookColumn("a", thousands=","),))
    found = rows_of(open_records(tmp_path / "t.csv", codebook=book).with_gaps())[9:, 0]
    assert found[:3].tolist() == [1234.56, -1234567, 12]
    assert np.isnan(found[3:]).all()
    plain = rows_of(open_records(tmp_path / "t.csv").with_gaps())[9:, 0]
    assert plain[2] == 12
    assert np.isnan(np.delete(plain, 2)).all()


FIELDS = ["+5", "1.", ".5", "1e5", "1E-5", " 5 ", "\t5", "-0", "00012", "1e999", "-inf", "nan"]
FIELDS += ["5e", "0x10", "1_000", "\uff15", "TRUE", "False", "12 kg", "--5", ".", "N/A", "n.a."]
FIELDS += ["7" * 40]


def test_odd_fields_do_not_decide_how_often_a_file_is_read(tmp_path, monkeypatch):
    path, reads = tmp_path / "x.csv", []
    for name in ("first_fields", "read_blocks"):
        read = getattr(formats, name)
        noted = partial(lambda read, *where: reads.append(read.__name__) or read(*where), read)
        monkeypatch.setattr(formats, name, noted)
    found = []
    for first in ("1", "1.5x"):
        path.write_text(f"a,b\n{first},1\n2,1\n3,1\n")
        open_records(path)
        found.append(reads.copy())
        reads.clear()
    assert found[0] == found[1]


@pytest.mark.parametrize("first", ["1", "typo"])
def test_one_field_does_not_make_a_column_text(tmp_path, first):
    """Neither where it is named in another case, nor where others are no answers to a question."""
    path = tmp_path / "x.csv"
    path.write_text(f"a,b\n{first},1\n" + "2,1\n" * 9)
    open_records(path, columns=["A"])
    open_records(path, codebook=Codebook((CodebookColumn("a", "binary"),)))


def test_text_of_arrow_is_read_as_one_value_after_the_other():
    for reading in (PLAIN, FieldReader.of({"yes": 1.0}, ["-99", "x"], only=(0.0, 1.0, 5.0))):
        found = reading.text(pa.array([*FIELDS, None, "-99.0", "x", "yes", "1"]))
        slow = [reading.value(each) for each in [*FIELDS, None, "-99.0", "x", "yes", "1"]]
        assert np.array_equal(found, slow, equal_nan=True)


def _written(frame, path):
    frame.to_csv(path, index=False)
    return path


def test_text_is_refused_before_a_charge(tmp_path):
    frame = pd.DataFrame({"a": ["x", "z", "3"] * 9, "b": 1.0})
    for source in (frame, frame.astype(object), _written(frame, tmp_path / "x.csv")):
        with pytest.raises(DataError, match=r"column 'a' has (type|text)"):
            open_records(source)
    with pytest.raises(DataTypeError, match="column 1 has text"):
        open_records(frame.astype(object).to_numpy()[:, ::-1])
    words = Codebook((CodebookColumn("a", "binary"),))
    with pytest.raises(DataError, match="column 'a' has type text"):
        open_records(tmp_path / "x.csv", codebook=words)


def test_equal_values_with_other_texts_are_read_one_by_one():
    column = CodebookColumn("a", "category", values=("1", "x"))
    for values in ([Decimal("1"), Decimal("1.0")], [Decimal("1.0"), Decimal("1")]):
        assert column.codes(values).tolist() == [column.code(value) for value in values]
    zeros = np.array([[0.0], [-0.0]], dtype=object)
    assert np.signbit(rows_of(open_records(zeros)))[:, 0].tolist() == [False, True]
