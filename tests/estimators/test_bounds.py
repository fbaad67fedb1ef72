"""`bounds=`: public knowledge of columns."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from estimators.settings import fit, make
from hushcov import (
    GaussianCovariance,
    PrivateSparseCovariance,
    ScreenedCovariance,
    read_codebook,
)
from hushcov.exceptions import AccuracyWarning, HopelessError, ParameterError
from hushcov.release import Release
from hushcov.release.description import preparation_words
from hushcov.tables.sources import open_records

ESTIMATORS = (GaussianCovariance, ScreenedCovariance, PrivateSparseCovariance)
N, SHARES = 20_000, np.array([0.5, 0.2, 0.004, 0.003, 0.002, 0.001])


def table(n=N):
    rng = np.random.default_rng(0)
    X = (rng.random((n, len(SHARES))) < SHARES).astype(float)
    X[:, 3] = np.maximum(X[:, 3], X[:, 2])  # related
    return X


def private(cls, X, bounds, seed=0, **options):
    return fit(make(cls, row_sparsity=3, bounds=bounds), X, seed)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_no_bounded_column_is_unresolved(cls):
    X = table()
    with pytest.warns(AccuracyWarning, match="could not be told from noise"):
        assert private(cls, X, None).unresolved_features_.size > 0
    with warnings.catch_warnings():
        warnings.simplefilter("error", AccuracyWarning)
        found = private(cls, X, np.tile([0.0, 1.0], (len(SHARES), 1)))
    assert found.unresolved_features_.size == 0
    assert (found.feature_scale_ > 0).all()
    assert (found.feature_scale_ <= 0.5).all()


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_values_beyond_the_bounds_change_nothing(cls):
    X = table()
    bounds = dict.fromkeys(range(len(SHARES)), (0, 1))
    wild = np.where(X == 1, 1e9, -1e9)
    one, other = private(cls, X, bounds), private(cls, wild, bounds)
    assert np.array_equal(one.release_.integers, other.release_.integers)
    assert np.array_equal(one.location_, other.location_)


def test_names_arrays_and_indices_are_the_same():
    X = table()
    names = [f"answer {i}" for i in range(len(SHARES))]
    frame = pd.DataFrame(X, columns=names)
    given = (
        {names[2]: (0, 1)},
        {2: (0, 1)},
        [[np.nan, np.nan]] * 2 + [[0, 1]] + [[None, None]] * 3,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        found = [private(GaussianCovariance, frame, each) for each in given]
    assert all(np.array_equal(found[0].covariance_, each.covariance_) for each in found)
    assert 2 not in found[0].unresolved_features_


def test_records_are_clipped_where_the_mean_is_known():
    X = np.random.default_rng(0).normal(size=(N, 4))
    wild = X.copy()
    wild[0] = 1e12
    bounds = np.tile([-4.0, 4.0], (4, 1))
    one, other = (
        fit(make(GaussianCovariance, bounds=bounds, assume_centered=True), each, 0)
        for each in (X.clip(-4, 4), np.where(wild == 1e12, 4.0, wild))
    )
    moved = fit(make(GaussianCovariance, bounds=bounds, assume_centered=True), wild, 0)
    assert np.array_equal(other.release_.integers, moved.release_.integers)
    assert one.release_.integers.shape == moved.release_.integers.shape


def test_a_constant_column_has_no_covariance_and_is_not_warned_of():
    X = np.random.default_rng(0).normal(size=(N, 4))
    X[:, 1] = 7
    found = private(GaussianCovariance, X, {1: (7, 7)})
    assert found.unresolved_features_.size == 0
    assert found.location_[1] == 7
    assert not found.covariance_[1].any()


def test_the_document_has_the_bounds(tmp_path):
    found = private(
        GaussianCovariance,
        table(),
        {0: (0, 1), 1: (0, None), 2: (0, 1), 3: (0, 1), 4: (0, 1), 5: (0, 1)},
    )
    assert found.release_.making.bounds[:2] == ((0.0, 1.0), (0.0, None))
    words = dict(preparation_words(found.release_))["bounds"]
    assert "public bounds of 6 of 6 features" in words
    found.release_.write(tmp_path / "release")
    assert Release.read(tmp_path / "release") == found.release_


def test_few_records_are_enough_where_bounds_are_known():
    X = table(300)
    options = {"on_hopeless": "raise"}
    with pytest.raises(HopelessError, match="too few"):
        private(GaussianCovariance, X, None, **options)
    plan = make(GaussianCovariance, bounds={0: (0, 1)}).fit_plan(300, 6)
    assert not any("to find means and scales" in each.sentence for each in plan.cautions)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_wrong_bounds_are_refused_before_anything_is_read(cls):
    frame = pd.DataFrame(table(), columns=list("abcdef"))
    for bounds, words in (
        ({"g": (0, 1)}, "bounds must name columns"),
        ({"a": (1, 0)}, "low <= high"),
        (np.zeros((2, 2)), "bounds must be 6 pairs"),
    ):
        with pytest.raises(ParameterError, match=words):
            private(cls, frame, bounds)


def test_a_codebook_gives_the_same_integers_from_every_form_of_a_table(tmp_path):
    rng = np.random.default_rng(0)
    states = rng.choice(["TX", "CA", "AL", "XX"], N, p=[0.5, 0.3, 0.001, 0.199])
    frame = pd.DataFrame({"age": rng.integers(18, 150, N), "state": states})
    frame.loc[[2, 5], "state"] = None
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    (tmp_path / "book.csv").write_text(
        "name,low,high,kind,values\nstate,,,category,TX|CA|AL\nage,0,120,integer,\n"
    )
    book = read_codebook(tmp_path / "book.csv")
    made = []
    for source in (frame, pl.from_pandas(frame), tmp_path / "t.csv", tmp_path / "t.parquet"):
        records = open_records(source, codebook=book, drop_nulls=True)
        made.append(private(GaussianCovariance, records, book.bounds))
    assert list(made[0].feature_names_in_) == ["age", "state=TX", "state=CA", "state=AL"]
    assert made[0].unresolved_features_.size == 0
    assert made[0].release_.making.bounds == ((0.0, 120.0), *[(0.0, 1.0)] * 3)
    assert all(np.array_equal(made[0].release_.integers, e.release_.integers) for e in made)
