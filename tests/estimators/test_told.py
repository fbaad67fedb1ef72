"""Estimators that are told which pairs may covary: what they release, and what they refuse."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from hushcov import (
    GaussianCovariance,
    PrivateSparseCovariance,
    ScreenedCovariance,
)
from hushcov.candidates import Candidates
from hushcov.exceptions import CapacityError, ParameterError, SeededNoiseWarning
from hushcov.planning import compare, fit_memory, forecast, registry, told
from hushcov.simulate import gaussian_records, sparse_covariance

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


def test_candidates_that_are_all_pairs_change_no_bit(table):
    """Means, scales, tilts, picks and values are the same at the same seed."""
    options = {"row_sparsity": 2}
    first = fitted(ScreenedCovariance, table, sparse_output=True, **options)
    second = fitted(ScreenedCovariance, table, candidate_pairs=EVERY, **options)
    assert first.plan_.parameters.levels
    assert sparse.issparse(second.covariance_)
    np.testing.assert_array_equal(first.covariance_.toarray(), second.covariance_.toarray())
    np.testing.assert_array_equal(first.release_.selected, second.release_.selected)


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


def test_dense_output_where_it_is_asked_for(table):
    options = {"bandwidth": 1, "sparse_output": False, "positive_semidefinite": True}
    found = fitted(ScreenedCovariance, table, **options)
    assert isinstance(found.covariance_, np.ndarray)


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
        est.fit_plan(1_000, D)


def test_the_gaussian_mechanism_is_one_look_by_name_and_by_class(table):
    by_name = fitted(PrivateSparseCovariance, table, bandwidth=2, mechanism="gaussian")
    by_class = fitted(GaussianCovariance, table, bandwidth=2)
    assert by_name.release_.parameters["single"]
    assert by_name.release_ == by_class.release_
    assert forecast(by_class.public_inputs(4_000, D), "gaussian").mechanism == "gaussian"


def test_rooms_refuse_for_themselves():
    """A plan or forecast made by hand cannot forget the candidates either."""
    est = ScreenedCovariance(**BUDGET, bandwidth=2)
    inputs = est.public_inputs(10_000, D)
    with pytest.raises(ParameterError, match="must be left out with adaptive"):
        forecast(inputs, "adaptive")
    request = est.request(D)
    plan = registry.named("row-top-k").plan(inputs)
    with pytest.raises(ParameterError, match="must be left out with row-top-k"):
        request.plan(*request.divide(10_000, D), plan, np.ones(D))
    with pytest.raises(ParameterError, match="is required by candidates"):
        registry.check_told("candidates", None)
    assert [each.mechanism for each in compare(inputs).forecasts] != []
    assert {each.mechanism for each in compare(inputs).forecasts} == set(told())
    assert "2 columns apart" in str(compare(inputs))


@pytest.mark.parametrize("cls", [PrivateSparseCovariance, ScreenedCovariance, GaussianCovariance])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bandwidth": 1, "candidate_pairs": EVERY}, "must not be given both"),
        ({"bandwidth": -1}, "bandwidth must be an integer"),
        ({"candidate_pairs": [("x0", "y")]}, "unknown column"),
        ({"candidate_pairs": Candidates.band(5, 1)}, "must be of 12 features"),
        ({"bandwidth": 1, "row_sparsity": 0}, "row_sparsity must be"),
        ({"bandwidth": 1, "positive_semidefinite": True}, "projection fills in zeros"),
    ],
)
def test_refused_before_anything_is_read(cls, options, words):
    with pytest.raises(ParameterError, match=words):
        cls(**BUDGET, **options).fit_plan(4_000, D)


def test_names_of_an_earlier_fit_are_not_those_of_another_table(table):
    est = fitted(ScreenedCovariance, table, candidate_pairs=[("x0", "x1")])
    with pytest.raises(ParameterError, match="the columns have no names"):
        est.fit_plan(4_000, D + 1)


def test_memory_grows_with_the_candidates(monkeypatch):
    size, d = (10**5, 10**5), 10**5
    few, more = (
        fit_memory("screened", *size, sparse=True, candidates=Candidates.band(d, w))
        for w in (10, 110)
    )
    assert few < 4e9  # all pairs would take 20
    assert 0.5e9 < more - few < 2e9
    monkeypatch.setattr(registry, "total_memory", lambda: 10**9)
    band = Candidates.band(d, 100)
    with pytest.raises(CapacityError, match=r"candidate pairs need about .* a narrower band"):
        registry.check_memory("screened", *size, sparse=True, candidates=band)
