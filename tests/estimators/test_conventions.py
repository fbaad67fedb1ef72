"""Every class as scikit-learn users expect it: clones, pickles, repeated fits, seeds, inverses."""

import inspect
import pickle
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import hushcov
from estimators.settings import (
    KNOWN,
    OURS,
    RECORDS,
    SETTINGS,
    TRUTH,
    D,
    each_class,
    each_setting,
    fit,
    setting,
)
from hushcov import GaussianCovariance
from hushcov.estimators import answering
from hushcov.estimators.options import documented
from hushcov.exceptions import DataError, ParameterError, SeededNoiseWarning
from hushcov.metrics import operator_norm_error

# Of the records of these tests; eigenvectors drawn under pure privacy are no better than none.
LARGEST_ERROR = dict.fromkeys(OURS, 0.35) | dict.fromkeys(
    ("eigen_sampling", "eigen_sampling, uniform", "coinpress, one step"), 1.5
)


@pytest.fixture(scope="module", params=SETTINGS)
def fitted(request):
    estimator = fit(setting(request.param), RECORDS)
    estimator.setting = request.param
    return estimator


def test_representations_and_pickles_say_the_same(fitted):
    assert repr(fitted).startswith(f"{type(fitted).__name__}(")
    assert "epsilon=1.0" in repr(fitted)
    _, _, parameters = fitted._repr_html_().partition("<summary>Parameters</summary>")  # notebooks
    assert f"{type(fitted).__name__}(" in parameters
    copy = pickle.loads(pickle.dumps(fitted))
    assert repr(copy) == repr(fitted)
    np.testing.assert_array_equal(copy.covariance_, fitted.covariance_)
    assert copy.release_ == fitted.release_
    assert getattr(copy, "parameters_", None) == getattr(fitted, "parameters_", None)


REFUSED = {
    "complex": ({}, RECORDS + 0j),
    "one dimension": ({}, RECORDS[:, 0]),
    "a parameter": ({"epsilon": -1}, RECORDS),
    "a seed": ({"random_state": "seed"}, RECORDS),
}


def test_a_refused_fit_leaves_the_earlier_one_alone(fitted):
    """A release that the budget was spent on is not lost, nor mixed with anything."""
    for changes, X in REFUSED.values():
        estimator = pickle.loads(pickle.dumps(fitted))
        estimator.set_params(**{"random_state": None, **changes})
        before = dict(vars(estimator))
        with pytest.raises((DataError, ParameterError)):
            estimator.fit(X)
        assert vars(estimator) == before


OWN = {
    "row_top_k": ("selected_",),
    "pace": ("measured_",),
    "separate": ("method_", "row_norm_"),
    "screened": ("selected_",),
}


@each_class
def test_nothing_is_there_before_a_fit(name):
    estimator = setting(name)
    for attribute in ("noise_sd_", *OWN.get(name, ())):
        with pytest.raises(NotFittedError):
            getattr(estimator, attribute)
        assert not hasattr(estimator, attribute)
    for call in ("covariance_interval", "labelled_covariance", "get_precision"):
        with pytest.raises(NotFittedError):
            getattr(estimator, call)()


def test_what_a_fit_stores_and_answers(fitted):
    assert operator_norm_error(fitted.covariance_, TRUTH) < LARGEST_ERROR.get(fitted.setting, 0.9)
    np.testing.assert_array_equal(fitted.covariance_, fitted.covariance_.T)
    np.testing.assert_array_equal(fitted.support_, fitted.covariance_ != 0)
    location = fitted.release_.location
    np.testing.assert_array_equal(fitted.location_, np.zeros(D) if location is None else location)
    np.testing.assert_allclose(fitted.location_, 0.0, atol=0.5)
    assert (fitted.n_features_in_, fitted.n_records_) == (D, 4000)
    # Released entries that were kept are those of the release.
    kept = fitted.support_
    np.testing.assert_allclose(fitted.covariance_[kept], fitted.release_.covariance()[kept])
    assert fitted.release_.parameters["inputs"]["epsilon"] == 1.0
    precision = fitted.get_precision()
    assert precision is fitted.precision_
    values, vectors = np.linalg.eigh(fitted.covariance_)
    regular = vectors[:, np.abs(values) > 1e-6]
    np.testing.assert_allclose(precision @ fitted.covariance_ @ regular, regular, atol=1e-6)
    rows = RECORDS[:50]
    centred = rows - fitted.location_
    distances = np.einsum("ij,jk,ik->i", centred, precision, centred)
    np.testing.assert_allclose(fitted.mahalanobis(rows), distances, rtol=1e-6, atol=1e-6)
    rows = pd.DataFrame(RECORDS[:5]).astype(object)
    rows.iloc[0, 0] = "secret"
    for method in (fitted.log_likelihood, fitted.mahalanobis):
        with pytest.raises(DataError) as refusal:
            method(rows)
        assert "secret" not in str(refusal.value)


@each_setting
def test_projections_leave_no_negative_eigenvalue(name):
    """Of 30 records, whose release is nearly all noise; some mechanisms have none before."""
    X, given = RECORDS[:30], {**KNOWN, "positive_semidefinite": True}
    estimator = fit(setting(name, **given), X, hopeless=True)
    values = np.linalg.eigvalsh(estimator.covariance_)
    assert values[0] >= -1e-12 * values[-1]
    plain = fit(setting(name, **KNOWN), X, hopeless=True)
    np.testing.assert_array_equal(plain.release_.integers, estimator.release_.integers)
    values = np.linalg.eigvalsh(plain.covariance_)
    if name == "row_top_k":
        assert values[0] < -0.1 * values[-1]
    elif name not in OURS:
        assert values[0] >= -1e-9 * values[-1]


@each_class
def test_a_seed_warns_repeats_and_is_not_private(name):
    def once(state):
        with pytest.warns(SeededNoiseWarning, match="NOT private") as caught:
            estimator = setting(name, random_state=state).fit(RECORDS)
        assert caught[0].filename == __file__
        assert not estimator.release_.guarantee.private
        assert str(estimator.release_.guarantee).startswith("NOT PRIVATE")
        return estimator

    first = once(3)
    np.testing.assert_array_equal(once(np.int64(3)).covariance_, first.covariance_)
    assert not np.array_equal(once(4).release_.integers, first.release_.integers)
    for seed in (np.random.default_rng, np.random.RandomState):
        one, two = once(seed(3)), once(seed(3))
        np.testing.assert_array_equal(one.covariance_, two.covariance_)


ROWS = np.random.default_rng(5).standard_normal((4_000, 3))


@pytest.fixture
def computed(monkeypatch):
    calls = []
    inverse = answering.pseudo_inverse
    monkeypatch.setattr(answering, "pseudo_inverse", lambda S: calls.append(1) or inverse(S))
    return calls


def known(**options):
    return GaussianCovariance(
        epsilon=1.0, delta=1e-6, assume_centered=True, feature_scale=np.ones(3), **options
    ).fit(ROWS)


def test_a_fit_computes_none_and_the_first_use_computes_one(computed):
    estimator = known()
    assert computed == []
    first = estimator.precision_
    assert estimator.precision_ is first is estimator.get_precision()
    estimator.mahalanobis(ROWS[:5])
    assert len(computed) == 1
    estimator.fit(2 * ROWS)
    assert len(computed) == 1
    assert not np.array_equal(estimator.precision_, first)
    assert not hasattr(clone(known()), "precision_")


def documented_names(kind) -> set[str]:
    """Methods, parameters and attributes of a class, as its help lists them."""
    doc = inspect.cleandoc(kind.__doc__ or "")
    told = (documented(doc, section) for section in ("Parameters", "Attributes"))
    return set(dir(kind)).union(inspect.signature(kind).parameters, *told)


def test_help_mentions_only_what_a_class_has():
    """A word of one class in the help of another is a method or an option that is not there."""
    kinds = [getattr(hushcov, name) for name in dir(hushcov)]
    kinds = [each for each in kinds if inspect.isclass(each)]
    words, wrong = set().union(*map(documented_names, kinds)), set()
    for kind in kinds:
        ours = documented_names(kind)
        for name, member in [("", kind), *inspect.getmembers(kind)]:
            made = getattr(member, "fget", member)
            where = getattr(made, "__module__", None) or ""
            if name.startswith("_") or not (callable(made) and where.startswith("hushcov")):
                continue
            given = inspect.signature(made).parameters
            said = re.findall(r"`([A-Za-z_]\w*)(?:\([^`]*\))?`", inspect.getdoc(member) or "")
            wrong |= {(kind.__name__, name, x) for x in {*said} & words - ours - {*given}}
    assert wrong == set()
