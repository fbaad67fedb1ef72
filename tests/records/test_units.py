"""Whose rows are whose: identifiers, which rows of a unit are summed, means, weights."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pandas as pd
import polars as pl
import pytest

from hushcov.exceptions import DataError, ParameterError
from hushcov.records import WEIGHT_LEVELS, ArrayRecords, Units, split_columns, weighted


def rows_of(records):
    return np.concatenate(list(records._blocks()))


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
        units = Units.of(ids[order], len(ids))
        records = units.bounded(ArrayRecords(X[order], block_rows=7), most)
        return sorted(map(tuple, rows_of(records)))

    found = kept(np.arange(len(X)))
    assert kept(rng.permutation(len(X))) == found
    own = defaultdict(int)
    for each in ids:
        own[each] += 1
    assert len(found) == sum(min(most, count) for count in own.values())


def test_another_unit_changes_no_row_of_the_others():
    rng = np.random.default_rng(3)
    X, ids = rng.normal(size=(60, 3)), np.repeat(np.arange(12), 5)
    rows = set(map(tuple, rows_of(Units.of(ids, 60).bounded(ArrayRecords(X), 3))))
    Y = X.copy()
    Y[ids == 4] = rng.normal(size=(5, 3))
    others = set(map(tuple, rows_of(Units.of(ids, 60).bounded(ArrayRecords(Y), 3))))
    assert len(rows - others) == len(others - rows) == 3


@pytest.mark.parametrize("seed", range(20))
def test_means_are_those_of_a_dictionary_in_any_order(seed):
    rng, X, ids = draw(seed)
    order = rng.permutation(len(X))
    found = rows_of(Units.of(ids, len(X)).means(ArrayRecords(X)))
    again = rows_of(Units.of(ids[order], len(X)).means(ArrayRecords(X[order])))
    assert np.array_equal(found, again)
    own = defaultdict(list)
    for each, row in zip(ids, X, strict=True):
        own[each].append(row)
    expected = [np.mean(own[each], axis=0) for each in sorted(own)]
    assert np.allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "identifiers",
    [
        np.array([3, 1, 3]),
        np.array(["b", "a", "b"]),
        np.array([3.0, 1.0, 3.0]),
        pd.Series(["b", "a", "b"]),
        pd.Series(["b", "a", "b"], dtype="category"),
        pd.Series([3, 1, 3], dtype="Int64"),
        pl.Series(["b", "a", "b"]),
        [2**70, 5, 2**70],
        [b"b", b"a", b"b"],
    ],
)
def test_identifiers_of_one_kind_are_compared_exactly(identifiers):
    codes = Units.of(identifiers, 3).codes
    assert codes[0] == codes[2] != codes[1]


@pytest.mark.parametrize(
    ("identifiers", "words"),
    [
        (["SECRET", None, "SECRET"], "missing"),
        ([1.0, np.nan, 2.0], "missing"),
        (pd.Series(["SECRET", pd.NA, "a"]), "missing"),
        (pd.Series([1, None, 2], dtype="Int64"), "missing"),
        (pl.Series(["SECRET", None, "a"]), "missing"),
        (np.array(["SECRET", 1, 2], dtype=object), "one type"),
        (np.array([True, 1, 2], dtype=object), "one type"),
        ([0.5, 1.0, 2.0], "whole numbers"),
        ([True, False, True], "whole numbers"),
        (np.array(["2020-01-01"] * 3, dtype="M8[D]"), "text"),
        ([1, 2], "one identifier for each"),
        ([[1], [2], [3]], "one identifier for each"),
    ],
)
def test_other_identifiers_are_refused_and_never_quoted(identifiers, words):
    with pytest.raises(DataError, match=words) as caught:
        Units.of(identifiers, 3)
    assert "SECRET" not in str(caught.value)


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


@pytest.mark.parametrize("block_rows", [1, 3, 100])
def test_rows_are_repeated_by_their_weight_and_never_more_often_than_the_largest(block_rows):
    X = np.arange(8.0).reshape(4, 2)
    found = rows_of(weighted(ArrayRecords(X, block_rows=block_rows), [0.0, 1.0, 0.5, 9.0], 2.0))
    times = [0, WEIGHT_LEVELS // 2, WEIGHT_LEVELS // 4, WEIGHT_LEVELS]
    assert np.array_equal(found, np.repeat(X, times, axis=0))


@pytest.mark.parametrize("weights", [[1, -1], [1, np.nan], [1, np.inf], [1]])
def test_weights_that_mean_nothing_are_refused(weights):
    with pytest.raises(DataError, match="sample_weight"):
        weighted(ArrayRecords(np.ones((2, 1))), weights, 1.0)
