"""Whose rows are whose: identifiers, which rows of a unit are summed, means, weights."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from fuzz.cases import messages
from hushcov import PrivateSparseCovariance
from hushcov.exceptions import DataError, ParameterError
from hushcov.tables.sources import ArrayRecords, open_records
from hushcov.tables.units import WEIGHT_LEVELS, split_columns, units_of, weighted
from table_helpers import rows_of


def draw(seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 40)), int(rng.integers(1, 4))
    X = rng.integers(-2, 3, (n, d)).astype(float)
    ids = rng.integers(0, rng.integers(1, 12), n)
    return rng, X, ids


@pytest.mark.parametrize("seed", range(200))
def test_no_unit_has_more_rows_than_allowed_and_order_does_not_matter(seed):
    rng, X, ids = draw(seed)
    most = int(rng.integers(1, 5))

    def kept(order):
        units = units_of(ids[order], len(ids))
        records = units.bounded(ArrayRecords(X[order], block_rows=7), most)
        return sorted(map(tuple, rows_of(records)))

    found = kept(np.arange(len(X)))
    assert kept(rng.permutation(len(X))) == found
    own = defaultdict(int)
    for each in ids:
        own[each] += 1
    assert len(found) == sum(min(most, count) for count in own.values())


@pytest.mark.parametrize("seed", range(20))
def test_means_are_those_of_a_dictionary_in_any_order(seed):
    rng, X, ids = draw(seed)
    order = rng.permutation(len(X))
    found = rows_of(units_of(ids, len(X)).means(ArrayRecords(X)))
    again = rows_of(units_of(ids[order], len(X)).means(ArrayRecords(X[order])))
    assert np.array_equal(found, again)
    own = defaultdict(list)
    for each, row in zip(ids, X, strict=True):
        own[each].append(row)
    expected = [np.mean(own[each], axis=0) for each in sorted(own)]
    assert np.allclose(found, expected, rtol=1e-12, atol=1e-12)


LARGEST = np.finfo(float).max


def test_means_are_finite_where_rows_are():
    """However large they are: sums of them are infinite, or no number at all."""
    units = {
        "like": [1.7e308] * 3,
        "largest": [LARGEST] * 3,
        "smallest": [-LARGEST] * 7,
        "both": [LARGEST] * 2 + [-LARGEST] * 2,
        "one": [LARGEST],
        "usual": [0.1, 0.2, 0.7],
    }
    ids = [each for each, values in units.items() for _ in values]
    X = np.array([[value, -value] for values in units.values() for value in values])
    order = np.random.default_rng(0).permutation(len(X))
    found = rows_of(units_of(ids, len(X)).means(ArrayRecords(X)))
    again = rows_of(units_of([ids[i] for i in order], len(X)).means(ArrayRecords(X[order])))
    assert np.array_equal(found, again)
    expected = {"like": 1.7e308, "largest": LARGEST, "smallest": -LARGEST, "both": 0.0}
    expected |= {"one": LARGEST, "usual": float(np.sum([0.1, 0.2, 0.7])) / 3}
    assert found[:, 0].tolist() == pytest.approx([expected[each] for each in sorted(units)])
    assert np.array_equal(found[:, 0], -found[:, 1])


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_means_of_rows_that_are_not_finite_are_not(value):
    X = np.array([[LARGEST], [LARGEST], [value], [1.0]])
    found = rows_of(units_of([0, 0, 0, 1], 4).means(ArrayRecords(X)))
    assert not np.isfinite(found[0])
    assert found[1] == 1.0


@pytest.mark.parametrize(
    "identifiers",
    [
        *(np.array([3, 1, 3]), np.array(["b", "a", "b"]), np.array([3.0, 1.0, 3.0])),
        *(pd.Series(["b", "a", "b"]), pd.Series(["b", "a", "b"], dtype="category")),
        *(pd.Series([3, 1, 3], dtype="Int64"), pl.Series(["b", "a", "b"]), [2**70, 5, 2**70]),
        [b"b", b"a", b"b"],
    ],
)
def test_identifiers_of_one_kind_are_compared_exactly(identifiers):
    codes = units_of(identifiers, 3).codes
    assert codes[0] == codes[2] != codes[1]


@pytest.mark.parametrize(
    ("identifiers", "words"),
    [
        *((["SECRET", None, "SECRET"], "missing"), ([1.0, np.nan, 2.0], "missing")),
        (pd.Series(["SECRET", pd.NA, "a"]), "missing"),
        (pd.Series([1, None, 2], dtype="Int64"), "missing"),
        (pl.Series(["SECRET", None, "a"]), "missing"),
        (np.array(["SECRET", 1, 2], dtype=object), "one type"),
        *((np.array([True, 1, 2], dtype=object), "one type"), ([0.5, 1.0, 2.0], "whole numbers")),
        ([True, False, True], "whole numbers"),
        (np.array(["2020-01-01"] * 3, dtype="M8[D]"), "text"),
        *(([1, 2], "one identifier for each"), ([[1], [2], [3]], "one identifier for each")),
        *((["1", 1, "SECRET"], "one type"), ([b"1", "1", "SECRET"], "one type")),
        ([1, 1.0, 2], "one type"),
        (np.ma.masked_array([1, 2, 3], [True, False, False]), "missing"),
        (["SECRET", "", "\0"], "missing"),
        (np.zeros(3, dtype=[("a", int), ("b", int)]), "convert it to text"),
        (torch.tensor([1.0, 2.0, 3.0]).bfloat16(), "whole numbers or of text"),
        *(([1 + 0j, 2, 3], "one type"), ([Decimal(1), Decimal(2), Decimal(3)], "one type")),
        ([pd.Timestamp(2020, 1, 1)] * 3, "one type"),
    ],
)
def test_other_identifiers_are_refused_and_never_quoted(identifiers, words):
    with pytest.raises(DataError, match=words) as caught:
        units_of(identifiers, 3)
    assert not any("SECRET" in text for text in messages(caught.value))


@pytest.mark.parametrize(
    "identifiers",
    [
        ["a", "a\0", "a\0\0"],
        [b"a", b"a\0", b"\0a"],
        np.array(["a", "a\0", "\0"], dtype=object),
        pd.Series(["a", "a\0", "a "]),
        pl.Series(["a", "a\0", "A"]),
        pl.Series([b"a", b"a\0", b"A"]),
        pa.chunked_array([["a", "a\0"], ["a\0\0"]]),
        pa.array([b"a\0", b"a ", b"aa"], pa.binary(2)),
        ["\u00e9", "e\u0301", "e"],  # one letter in two ways of writing
        [2**53, 2**53 + 1, -(2**53)],
        [2**63, -1, 2**63 + 1],
        [2**70, 2**70 + 1, 5],
        [2**20_000, 2**20_000 + 1, 5],  # too long to be written in decimals
        np.array([2**64 - 1, 2**64 - 2, 0], dtype=np.uint64),
        pd.Series([2**64 - 1, 2**64 - 2, 0], dtype="UInt64"),
        pa.array([2**64 - 1, 2**64 - 2, 0], pa.uint64()),
        pl.Series([2**64 - 1, 2**64 - 2, 0], dtype=pl.UInt64),
        torch.tensor([2**53, 2**53 + 1, -(2**53)]),
        [2.0**53 - 1, 2.0**53 - 2, -(2.0**53) + 1],
        np.array([2**24 - 1, 2**24 - 2, 0], dtype=np.float32),
    ],
)
def test_identifiers_that_differ_are_units_of_their_own(identifiers):
    assert units_of(identifiers, 3).sizes.size == 3


@pytest.mark.parametrize(
    "identifiers",
    [
        *([2.0**53, 1.0, 2.0], [-(2.0**53), 1.0, 2.0]),
        *(np.array([2**53 + 1, 1, 2], dtype=np.float64), np.array([2**24, 1, 2], dtype=np.float32)),
        np.array([2**11, 1, 2], dtype=np.float16),
        [np.float32(2**24), np.float32(1), np.float32(2)],
        [np.float16(2**11), np.float64(1), np.float64(2)],
        *(np.array([2**53, 1, 2], dtype=np.longdouble), pd.Series([2.0**53, 1, 2])),
        *(pd.Series([2**24, 1, 2], dtype="Float32"), pl.Series([2**24, 1, 2], dtype=pl.Float32)),
        *(pa.array([2.0**53, 1, 2]), pa.array(np.array([2**11, 1, 2], dtype=np.float16))),
        *(torch.tensor([2.0**24, 1, 2]), [np.inf, 1.0, 2.0]),
    ],
)
def test_floats_that_may_be_several_integers_are_refused(identifiers):
    with pytest.raises(DataError, match=r"from 2\*\*53 on"):
        units_of(identifiers, 3)


@pytest.mark.parametrize("unit", [0, "id"])
def test_integers_that_become_floats_in_a_table_are_refused(unit):
    ids = [2**53, 2**53 + 1, 7]
    frame = pd.DataFrame({"id": ids, "x": [0.5, 1.5, 2.5]})
    _, found, _ = split_columns(frame, unit)
    assert units_of(found, 3).sizes.size == 3
    others = [open_records(frame)]
    if unit == 0:
        table = frame.to_numpy()
        others += [table, table.tolist(), torch.tensor(table), torch.tensor(table).float()]
        others += [[[each, 0.5] for each in ids], [[2**63, -1.0], [2**63 + 1, 1.0], [0, 0.5]]]
    for X in others:
        _, found, _ = split_columns(X, unit)
        with pytest.raises(DataError, match=r"from 2\*\*53 on"):
            units_of(found() if callable(found) else found, 3)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("mechanism", ["gaussian", "separate"])
@pytest.mark.parametrize("ids", [np.arange(60) // 3, np.arange(60) % 20])
def test_units_of_several_rows_in_a_tensor_are_those_of_the_array(mechanism, ids):
    rows = np.random.default_rng(0).standard_normal((60, 3))
    usual = {"epsilon": 3.0, "delta": 1e-3, "on_hopeless": "warn", "on_large_delta": "warn"}
    usual |= {"mechanism": mechanism, "max_rows_per_unit": 2}
    found = [
        PrivateSparseCovariance(**usual, random_state=np.random.default_rng(0)).fit(X, unit=ids)
        for X in (rows, torch.tensor(rows))
    ]
    assert np.array_equal(found[0].covariance_, found[1].covariance_)


def test_the_column_of_identifiers_is_no_feature():
    frame = pd.DataFrame({"id": ["a", "b"], "x": [1.0, 2.0], "y": [3.0, 4.0]})
    for made in (frame, pl.from_pandas(frame)):
        rest, ids, word = split_columns(made, "id")
        assert (list(rest.columns), list(ids), word) == (["x", "y"], ["a", "b"], "id")
    rest, ids, word = split_columns(np.array([[7.0, 1.0], [8.0, 2.0]]), 0)
    assert (rest.tolist(), ids.tolist(), word) == ([[1.0], [2.0]], [7.0, 8.0], "unit")


@pytest.mark.parametrize("unit", ["z", 3, -1])
def test_a_column_that_is_not_there_is_refused(unit):
    with pytest.raises(ParameterError, match="unit must"):
        split_columns(pd.DataFrame({"x": [1.0], "y": [2.0]}), unit)
    with pytest.raises(ParameterError, match=r"which 0 of 2 have \(did you mean 'Patient_id'\?\)"):
        split_columns(pd.DataFrame({"Patient_id": [1.0], "y": [2.0]}), "patientid")


def test_weights_far_above_the_largest_count_as_it():
    """Without a warning, too: it would tell of a record."""
    records = weighted(ArrayRecords([[1.0], [2.0]]), [1e300, 0.0], 1e-300)
    assert rows_of(records).tolist() == [[1.0]] * WEIGHT_LEVELS
