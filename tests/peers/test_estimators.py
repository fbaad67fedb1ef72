"""What every published mechanism has in common: conventions, releases, guarantees and seeds."""

from __future__ import annotations

import json
import math
import pickle
import struct
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from estimators.settings import RECORDS, TRUTH, D, fit
from estimators.test_scaled_guarantee import renyi_epsilon
from hushcov import EigenSamplingCovariance, RowTopKCovariance, SeparateCovariance
from hushcov.accounting import BoundedRange, Gaussian, Pure
from hushcov.exceptions import (
    DataError,
    ParameterError,
    SeededNoiseWarning,
)
from hushcov.metrics import operator_norm_error
from hushcov.release import Release
from peers.estimators import (
    SCALING,
    SETTINGS,
    each_class,
    each_peer,
    make_class,
    peer,
)

# Of the records of these tests; eigenvectors drawn under pure privacy are no better than none.
LARGEST_ERROR = {"eigen_sampling": 1.5, "eigen_sampling, uniform": 1.5, "coinpress, one step": 1.5}


@pytest.fixture(scope="module", params=SETTINGS)
def fitted(request):
    estimator = fit(peer(request.param), RECORDS)
    estimator.setting = request.param
    return estimator


# Conventions.


@each_class
def test_clones_have_the_parameters_and_no_fit(cls):
    estimator = fit(make_class(cls, feature_scale=np.ones(D), assume_centered=True), RECORDS)
    copy = clone(estimator)
    np.testing.assert_array_equal(copy.feature_scale, np.ones(D))
    assert copy.feature_scale is not estimator.feature_scale
    assert not [name for name in vars(copy) if name.endswith("_")]
    assert copy.set_params(epsilon=0.5).epsilon == 0.5
    assert estimator.epsilon == 1.0
    with pytest.raises(ValueError, match="Invalid parameter"):
        copy.set_params(sparsity=2)


def test_representations_and_pickles_say_the_same(fitted):
    assert repr(fitted).startswith(f"{type(fitted).__name__}(")
    assert "epsilon=1.0" in repr(fitted)
    assert "covariance_" in fitted._repr_html_()  # what a notebook shows
    copy = pickle.loads(pickle.dumps(fitted))
    assert repr(copy) == repr(fitted)
    np.testing.assert_array_equal(copy.covariance_, fitted.covariance_)
    assert copy.release_ == fitted.release_
    assert copy.parameters_ == fitted.parameters_


@each_class
@pytest.mark.parametrize("kind", [np.asarray, np.ndarray.tolist, pd.DataFrame])
def test_a_pickled_fit_holds_no_record(cls, kind):
    """Not the table, and not a value that is found nowhere else."""
    marker = 1234.567890123
    X = RECORDS.copy()
    X[17, 3] = marker
    blob = pickle.dumps(fit(make_class(cls), kind(X)))
    for form in ("<d", ">d", "<f", ">f"):
        assert struct.pack(form, marker) not in blob
    assert repr(marker).encode() not in blob
    assert not any(row.tobytes() in blob for row in X)
    assert len(blob) < X.nbytes / 10


@each_class
def test_the_last_step_of_a_pipeline(cls):
    double = FunctionTransformer(lambda X: 2 * X)
    pipeline = make_pipeline(double, make_class(cls, feature_scale=2.0, random_state=0))
    with pytest.warns(SeededNoiseWarning):
        pipeline.fit(RECORDS)
    plain = fit(make_class(cls, feature_scale=1.0), RECORDS)
    np.testing.assert_array_equal(pipeline[-1].covariance_, 4 * plain.covariance_)
    assert np.isfinite(pipeline[-1].log_likelihood(RECORDS))


@each_class
def test_nothing_of_an_earlier_fit_remains(cls):
    estimator = fit(make_class(cls), pd.DataFrame(RECORDS, columns=list("abcdefghij")))
    again = fit(estimator.set_params(feature_scale=1.0), RECORDS[:3000, :8])
    assert again is estimator
    fresh = fit(make_class(cls, feature_scale=1.0), RECORDS[:3000, :8])
    assert vars(again).keys() == vars(fresh).keys()
    assert not hasattr(again, "feature_names_in_")
    for name in ("covariance_", "precision_", "support_", "feature_scale_", "location_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(fresh, name))
    assert (again.n_features_in_, again.n_records_) == (8, 3000)
    assert again.release_ == fresh.release_


@pytest.mark.parametrize(
    ("changes", "X"),
    [
        ({}, np.where(np.arange(4000)[:, None] == 3999, np.nan, RECORDS)),
        ({}, RECORDS[:, 0]),
        ({"epsilon": -1}, RECORDS),
        ({"random_state": "seed"}, RECORDS),
    ],
    ids=["NaN", "one dimension", "a parameter", "a seed"],
)
def test_a_refused_fit_leaves_the_earlier_one_alone(fitted, changes, X):
    estimator = pickle.loads(pickle.dumps(fitted))
    estimator.set_params(**{"random_state": None, **changes})
    before = dict(vars(estimator))
    with pytest.raises((DataError, ParameterError)):
        estimator.fit(X)
    assert vars(estimator) == before


@each_class
def test_nothing_is_there_before_a_fit(cls):
    estimator = make_class(cls)
    own = {RowTopKCovariance: ("selected_",), SeparateCovariance: ("method_", "row_norm_")}
    for name in ("noise_sd_", *own.get(cls, ())):
        with pytest.raises(NotFittedError):
            getattr(estimator, name)
        assert not hasattr(estimator, name)
    for call in ("covariance_interval", "labelled_covariance", "get_precision"):
        with pytest.raises(NotFittedError):
            getattr(estimator, call)()


def test_what_a_fit_stores(fitted):
    assert operator_norm_error(fitted.covariance_, TRUTH) < LARGEST_ERROR.get(fitted.setting, 0.9)
    np.testing.assert_array_equal(fitted.covariance_, fitted.covariance_.T)
    np.testing.assert_array_equal(fitted.support_, fitted.covariance_ != 0)
    np.testing.assert_array_equal(fitted.location_, np.zeros(D))
    assert (fitted.n_features_in_, fitted.n_records_) == (D, 4000)
    np.testing.assert_allclose(fitted.covariance_, fitted.release_.covariance(), rtol=1e-14)
    np.testing.assert_array_equal(fitted.support_, fitted.release_.integers != 0)
    assert fitted.release_.parameters["inputs"]["epsilon"] == 1.0


def test_precisions_and_distances(fitted):
    precision = fitted.get_precision()
    assert precision is fitted.precision_
    values, vectors = np.linalg.eigh(fitted.covariance_)
    regular = vectors[:, np.abs(values) > 1e-6]
    np.testing.assert_allclose(precision @ fitted.covariance_ @ regular, regular, atol=1e-6)
    rows = RECORDS[:50]
    distances = np.einsum("ij,jk,ik->i", rows, precision, rows)
    np.testing.assert_allclose(fitted.mahalanobis(rows), distances, rtol=1e-6, atol=1e-6)
    without = fit(peer(fitted.setting, store_precision=False), RECORDS)
    assert without.precision_ is None
    np.testing.assert_array_equal(without.get_precision(), precision)


@pytest.mark.parametrize("method", ["log_likelihood", "mahalanobis"])
def test_refusals_of_other_rows_quote_no_value(fitted, method):
    rows = pd.DataFrame(RECORDS[:5]).astype(object)
    rows.iloc[0, 0] = "secret"
    with pytest.raises(DataError) as refusal:
        getattr(fitted, method)(rows)
    assert "secret" not in str(refusal.value)


# Releases: files, noise and definiteness.


def test_releases_read_back_as_they_were(fitted, tmp_path):
    release = fitted.release_
    named = replace(release, column_names=tuple(f"gene {i}" for i in range(D)))
    folder = named.write(tmp_path / "release")
    again = Release.read(folder)
    assert again == named
    np.testing.assert_array_equal(again.covariance(), release.covariance())
    assert again.guarantee == release.guarantee
    assert {path.name for path in folder.iterdir()} == {
        *("integers.npy", "release.json", "release.sha256")
    }
    assert json.loads((folder / "release.json").read_text())["guarantee"]["private"] is False


def test_noise_levels_and_intervals_are_there_or_refused(fitted):
    if isinstance(fitted, RowTopKCovariance):
        noise, (lower, upper) = fitted.noise_sd_, fitted.covariance_interval(0.9)
        released = fitted.selected_
        assert (noise[released] > 0).all()
        assert np.isnan(noise[~released]).all()
        assert (lower < fitted.covariance_)[released].all()
        assert (fitted.covariance_ < upper)[released].all()
        return
    assert not hasattr(fitted, "noise_sd_")
    with pytest.raises(AttributeError, match="noise level"):
        _ = fitted.noise_sd_
    with pytest.raises(ParameterError, match="noise level: use"):
        fitted.covariance_interval()


@each_peer
def test_projections_leave_no_negative_eigenvalue(name):
    """Of 30 records, whose release is nearly all noise; others than row_top_k have none before."""
    X = RECORDS[:30]
    estimator = fit(peer(name, positive_semidefinite=True, feature_scale=1.0), X)
    values = np.linalg.eigvalsh(estimator.covariance_)
    assert values[0] >= -1e-12 * values[-1]
    plain = fit(peer(name, feature_scale=1.0), X)
    np.testing.assert_array_equal(plain.release_.integers, estimator.release_.integers)
    values = np.linalg.eigvalsh(plain.covariance_)
    if name == "row_top_k":
        assert values[0] < -0.1 * values[-1]
    else:
        assert values[0] >= -1e-9 * values[-1]


# Guarantees.


KNOWN = {"feature_scale": 1.0, "assume_centered": True}
GUARANTEED = [
    *((name, {}) for name in SETTINGS),
    *((name, KNOWN) for name in SETTINGS),
    *((name, {"epsilon": 5.0, "delta": 1e-9}) for name in SCALING),
    ("row_top_k", {"row_sparsity": 1}),
    ("row_top_k", {"row_sparsity": D}),
    ("eigen_sampling", {"epsilon": 1e-3}),
]


@pytest.mark.parametrize(("name", "changes"), GUARANTEED)
def test_the_promise_is_what_was_asked(name, changes):
    estimator = fit(peer(name, **changes), RECORDS)
    guarantee = estimator.release_.guarantee
    pure = isinstance(estimator, EigenSamplingCovariance)
    assert guarantee.epsilon == estimator.epsilon
    assert guarantee.delta == (0.0 if pure else estimator.delta)
    assert 0.99 * guarantee.epsilon < guarantee.transcript_epsilon <= guarantee.epsilon
    assert guarantee.transcript_delta + guarantee.numerical_delta <= guarantee.delta
    assert guarantee.adjacency == "replace-one"
    before = estimator.public_inputs(estimator.n_records_, D).before
    assert (before > 0) == (estimator.feature_scale is None)
    assert not before or guarantee.events[0].mu == pytest.approx(before)
    if pure:
        assert guarantee.events == (Pure(guarantee.transcript_epsilon),)
        assert guarantee.numerical_delta == 0.0
    else:
        _check_independently(guarantee)


def _check_independently(guarantee):
    """Renyi divergences of others' code, and the exact curve where all events are Gaussian."""
    epsilon = renyi_epsilon(guarantee.events, guarantee.delta)
    assert 0.99 * guarantee.transcript_epsilon < epsilon < 1.12 * guarantee.epsilon
    if any(isinstance(event, BoundedRange) for event in guarantee.events):
        return
    assert all(isinstance(event, Gaussian) for event in guarantee.events)
    mu = math.sqrt(sum(event.mu**2 for event in guarantee.events))
    # Balle and Wang (arXiv 1805.06530), Theorem 8.
    delta = stats.norm.cdf(mu / 2 - guarantee.epsilon / mu)
    delta -= math.exp(guarantee.epsilon) * stats.norm.cdf(-mu / 2 - guarantee.epsilon / mu)
    assert delta <= guarantee.delta * (1 + 1e-9)


# Seeds.


@each_peer
@pytest.mark.parametrize("seed", [3, np.int64(3), np.random.default_rng, np.random.RandomState])
def test_a_seed_warns_repeats_and_is_not_private(name, seed):
    def once():
        state = seed(3) if callable(seed) else seed
        with pytest.warns(SeededNoiseWarning, match="NOT private") as caught:
            estimator = peer(name, random_state=state).fit(RECORDS)
        assert caught[0].filename == __file__
        return estimator

    first, second = once(), once()
    assert first.release_ == second.release_
    np.testing.assert_array_equal(first.covariance_, second.covariance_)
    assert not first.release_.guarantee.private
    assert str(first.release_.guarantee).startswith("NOT PRIVATE")
    other = fit(peer(name), RECORDS, seed=4)
    assert not np.array_equal(other.release_.integers, first.release_.integers)


@each_peer
def test_private_fits_are_silent_and_differ(name):
    first, second = (peer(name).fit(RECORDS) for _ in range(2))
    assert first.release_.guarantee.private
    assert not np.array_equal(first.release_.integers, second.release_.integers)
