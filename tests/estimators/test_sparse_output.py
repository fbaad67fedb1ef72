"""Sparse output: the same release and the same numbers as dense ones, in less memory."""

import pickle

import numpy as np
import pytest
from scipy import sparse

from estimators.settings import RECORDS, fit, make
from hushcov import PrivateSparseCovariance, ScreenedCovariance
from hushcov.estimators import scaled
from hushcov.exceptions import ParameterError

SPARSE = (ScreenedCovariance, PrivateSparseCovariance)
MORE = {"mechanism": "screened"}


def fits(cls, **changes):
    changes |= MORE if cls is PrivateSparseCovariance else {}
    return [fit(make(cls, sparse_output=kind, **changes), RECORDS) for kind in (False, True)]


@pytest.mark.parametrize("cls", SPARSE)
def test_everything_is_the_same(cls):
    dense, thin = fits(cls)
    assert sparse.issparse(thin.covariance_)
    assert np.array_equal(thin.release_.integers.toarray(), dense.release_.integers)
    assert np.array_equal(thin.covariance_.toarray(), dense.covariance_)
    assert np.array_equal(thin.support_.toarray(), dense.support_)
    assert np.array_equal(thin.release_.covariance().toarray(), dense.release_.covariance())
    assert np.array_equal(thin.release_.released.toarray(), dense.release_.released)
    assert not hasattr(thin, "precision_")
    pairs = [(thin.noise_sd_, dense.noise_sd_)]
    pairs += zip(thin.covariance_interval(), dense.covariance_interval(), strict=True)
    for ours, theirs in pairs:
        stored = ours.toarray() != 0
        assert np.array_equal(stored, ~np.isnan(theirs))
        assert np.array_equal(ours.toarray()[stored], theirs[stored])


def test_it_is_chosen_from_the_number_of_features(monkeypatch):
    assert not sparse.issparse(fit(make(ScreenedCovariance), RECORDS).covariance_)
    monkeypatch.setattr(scaled, "LARGEST_DENSE", 9)
    for cls in SPARSE:
        estimator = fit(make(cls), RECORDS)
        assert sparse.issparse(estimator.covariance_)
        selecting = "screened" if cls is ScreenedCovariance else "adaptive"
        assert estimator.release_.mechanism == selecting


def test_pickles_tables_and_no_precision():
    dense, thin = fits(ScreenedCovariance)
    again = pickle.loads(pickle.dumps(thin))
    assert again.release_ == thin.release_
    assert np.array_equal(thin.labelled_covariance().to_numpy(), dense.labelled_covariance())
    with pytest.raises(ParameterError, match="pandas"):
        thin.labelled_covariance("polars")
    for call in (
        thin.get_precision,
        lambda: thin.log_likelihood(RECORDS),
        lambda: thin.mahalanobis(RECORDS),
    ):
        with pytest.raises(AttributeError, match="sparse_output"):
            call()


def test_what_cannot_be_sparse_is_refused():
    for cls in SPARSE:
        with pytest.raises(ParameterError, match="positive_semidefinite"):
            fit(make(cls, sparse_output=True, positive_semidefinite=True), RECORDS)
    with pytest.raises(ParameterError, match="mechanism must"):
        fit(make(PrivateSparseCovariance, sparse_output=True, mechanism="gaussian"), RECORDS)
