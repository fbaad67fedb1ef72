"""Estimators given bounds, or which pairs may covary: what they release and refuse."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from estimators.settings import fit, make
from hushcov import GaussianCovariance, PrivateSparseCovariance, ScreenedCovariance
from hushcov.candidates import Candidates
from hushcov.exceptions import (
    AccuracyWarning,
    ParameterError,
    SeededNoiseWarning,
)
from hushcov.fit import forecast
from hushcov.release import Release
from hushcov.simulate import gaussian_records, sparse_covariance
from hushcov.text.description import preparation_words

D, BUDGET = 12, {"epsilon": 3.0, "delta": 1e-6}
NAMES = [f"x{i}" for i in range(D)]
TRUTH = sparse_covariance("banded", D, 3)
EVERY = np.stack(np.triu_indices(D, 1), axis=1)


@pytest.fixture(scope="module")
def table():
    return pd.DataFrame(gaussian_records(TRUTH, 4_000, random_state=0) + 5, columns=NAMES)


def fitted(cls, table, **options):
    with pytest.warns(SeededNoiseWarning):
        return cls(random_state=7, **BUDGET, **options).fit(table)


def test_all_pairs_as_candidates_and_classes_by_name_change_no_bit(table):
    """Means, scales, tilts, picks and values are the same at the same seed."""
    options = {"row_sparsity": 2}
    first = fitted(ScreenedCovariance, table, sparse_output=True, **options)
    second = fitted(ScreenedCovariance, table, candidate_pairs=EVERY, **options)
    assert first.plan_.parameters.levels
    assert sparse.issparse(second.covariance_)
    np.testing.assert_array_equal(first.covariance_.toarray(), second.covariance_.toarray())
    np.testing.assert_array_equal(first.release_.selected, second.release_.selected)
    by_name = fitted(PrivateSparseCovariance, table, bandwidth=2, mechanism="gaussian")
    by_class = fitted(GaussianCovariance, table, bandwidth=2)
    assert by_name.release_.parameters["single"]
    assert by_name.release_ == by_class.release_
    assert forecast(by_class._public_inputs(4_000, D), "gaussian").mechanism == "gaussian"


def test_pairs_by_name_and_nothing_else(table):
    """Without a row sparsity all candidates are released; with one, as many as it says."""
    pairs = [("x0", "x1"), ("x1", "x2"), ("x4", "x3")]
    found = fitted(ScreenedCovariance, table, candidate_pairs=pairs, threshold=None)
    assert found.release_.selected.T.tolist() == [[0, 1], [1, 2], [3, 4]]
    assert found.plan_.parameters.levels == ()
    assert found.release_.parameters["inputs"]["candidate_pairs"] == 3
    outside = found.covariance_.toarray()[0, 2:]
    assert not outside.any()
    few = fitted(ScreenedCovariance, table, bandwidth=6, row_sparsity=2)
    assert few.plan_.parameters.levels
    assert few.plan_.parameters.n_pairs < Candidates.band(D, 6).n_pairs
    rows, columns = few.release_.selected
    assert (columns - rows).max() <= 6
    est = fitted(ScreenedCovariance, table, candidate_pairs=[("x0", "x1")])
    with pytest.raises(ParameterError, match="the columns have no names"):
        est._fit_plan(4_000, D + 1)


@pytest.mark.parametrize(
    "name",
    ["adaptive", "gaussian-threshold", "multiscale", "row-top-k", "separate", "eigen-sampling"],
)
def test_mechanisms_that_look_at_all_pairs_refuse(name):
    known = {"feature_scale": 1.0, "assume_centered": True}
    est = PrivateSparseCovariance(**BUDGET, **known, bandwidth=2, mechanism=name)
    with pytest.raises(
        ParameterError, match="mechanism must be 'screened' or 'gaussian' or 'auto'"
    ):
        est._fit_plan(1_000, D)


ESTIMATORS = (GaussianCovariance, ScreenedCovariance, PrivateSparseCovariance)
N, SHARES = 20_000, np.array([0.5, 0.2, 0.004, 0.003, 0.002, 0.001])


def answers(n=N):
    rng = np.random.default_rng(0)
    X = (rng.random((n, len(SHARES))) < SHARES).astype(float)
    X[:, 3] = np.maximum(X[:, 3], X[:, 2])  # related
    return X


def private(cls, X, bounds, seed=0, **options):
    return fit(make(cls, row_sparsity=3, bounds=bounds), X, seed)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_no_bounded_column_is_unresolved(cls):
    X = answers()
    # Rare answers are found together, or named.
    with pytest.warns(AccuracyWarning, match="could not be told from noise|came out constant"):
        private(cls, X, None)
    with warnings.catch_warnings():
        warnings.simplefilter("error", AccuracyWarning)
        found = private(cls, X, np.tile([0.0, 1.0], (len(SHARES), 1)))
    assert found.unresolved_features_.size == 0
    assert (found.feature_scale_ > 0).all()
    assert (found.feature_scale_ <= 0.5).all()


def test_names_arrays_and_indices_are_the_same_and_known_means_are_clipped():
    X = answers()
    names = [f"answer {i}" for i in range(len(SHARES))]
    frame = pd.DataFrame(X, columns=names)
    listed = [[np.nan, np.nan]] * 2 + [[0, 1]] + [[None, None]] * 3
    given = ({names[2]: (0, 1)}, {2: (0, 1)}, listed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        found = [private(GaussianCovariance, frame, each) for each in given]
    assert all(np.array_equal(found[0].covariance_, each.covariance_) for each in found)
    assert 2 not in found[0].unresolved_features_
    X = np.random.default_rng(0).normal(size=(N, 4))
    wild = X.copy()
    wild[0] = 1e12
    bounds = np.tile([-4.0, 4.0], (4, 1))
    clipped, moved = (
        fit(make(GaussianCovariance, bounds=bounds, assume_centered=True), each, 0)
        for each in (np.where(wild == 1e12, 4.0, wild), wild)
    )
    assert np.array_equal(clipped.release_.integers, moved.release_.integers)


def test_constant_columns_and_what_the_document_says_of_bounds(tmp_path):
    X = np.random.default_rng(0).normal(size=(N, 4))
    X[:, 1] = 7
    found = private(GaussianCovariance, X, {1: (7, 7)})
    assert found.unresolved_features_.size == 0
    assert found.location_[1] == 7
    assert not found.covariance_[1].any()
    found = private(
        GaussianCovariance,
        answers(),
        {0: (0, 1), 1: (0, None), 2: (0, 1), 3: (0, 1), 4: (0, 1), 5: (0, 1)},
    )
    assert found.release_.making.bounds[:2] == ((0.0, 1.0), (0.0, None))
    words = dict(preparation_words(found.release_))["bounds"]
    assert "public bounds of 6 of 6 features" in words
    found.release_.write(tmp_path / "release")
    assert Release.read(tmp_path / "release") == found.release_
