"""How a release came about: every estimator tells it completely, and nothing else is needed."""

import warnings
from functools import cache

import numpy as np
import pytest

import hushcov
from golden.releases import BUDGET, FREE, cases, records
from hushcov.fit.complete import CompleteParameters
from hushcov.fit.location import LocationParameters
from hushcov.fit.preparation import Preparation
from hushcov.postprocess import is_sparse, universal_threshold
from hushcov.release import Release
from hushcov.release.document import UNNAMED
from hushcov.release.estimate import estimate
from hushcov.release.view import view
from hushcov.simulate import wishart_moments

pytestmark = pytest.mark.usefixtures("no_search")

COMPLETE = CompleteParameters.released
LOOKS, PREPARED = LocationParameters.released, Preparation.released


def quietly(run, *given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return run(*given)


def fit(estimator, rows):
    return quietly(estimator.fit, rows)


def _theorem():
    moments = wishart_moments(np.eye(2), 60_000_000_000, random_state=1)
    known = {"epsilon": 1.0, "delta": 1e-6, "row_sparsity": 2, "scale": 1.0}
    return quietly(hushcov.MultiscaleCovariance(**known).fit_statistics, moments)


def _summed():
    estimator = hushcov.GaussianCovariance(
        **BUDGET, **FREE, feature_scale=1.0, assume_centered=True
    )
    fit(estimator, records(4000, 6))  # whose number of rows must not stay
    sums = hushcov.GaussianCovariance(**BUDGET, **FREE, feature_scale=1.0, assume_centered=True)
    sums.partial_fit(records(1001, 6), total_records=2001).partial_fit(records(1000, 6))
    return quietly(estimator.fit_statistics, sums.statistics_)


MORE = {"theorem": _theorem, "sums": _summed}
NAMES = (*cases(), *MORE)


@cache
def fitted(name: str):
    return MORE[name]() if name in MORE else fit(*cases()[name])


each = pytest.mark.parametrize("name", NAMES)


@each
def test_parts_are_the_events_of_the_guarantee_by_name(name):
    release = fitted(name).release_
    making, events = release.making, release.guarantee.events
    assert tuple(event for part in making.parts for event in part.events) == events
    names = [part.name for part in making.parts]
    assert UNNAMED not in names
    assert len(set(names)) == len(names)
    private = release.location is not None or making.scales == "released"
    assert (
        any(name.startswith((LOOKS, "scales of the features, look", PREPARED)) for name in names)
        == private
    )
    assert (COMPLETE in names) == (making.complete is not None)
    assert COMPLETE not in names[1:]


@each
def test_the_document_is_all_there_is(name, tmp_path):
    """What is written reads back equal, and gives the estimate and the findings of the fit."""
    estimator = fitted(name)
    release = estimator.release_
    again = Release.read(release.write(tmp_path / "release"))
    assert again == release
    assert again.making.made == release.making.made
    for made in (estimate(release), estimate(again)):
        assert is_sparse(made) == is_sparse(estimator.covariance_)
        assert (made != estimator.covariance_).sum() == 0
    one, other = view(release), view(again)
    assert (one.rule, one.threshold, one.n_found) == (other.rule, other.threshold, other.n_found)
    assert one.found.places == other.found.places


@each
def test_rows_are_counted(name):
    making, estimator = fitted(name).release_.making, fitted(name)
    expected = {"theorem": 60_000_000_000, "sums": 2_001}
    assert making.n_records == expected.get(name, 4000)
    assert making.projected is bool(getattr(estimator, "positive_semidefinite", False))
    if name in ("multiscale", "theorem"):
        assert making.scales is None
    else:
        assert making.scales == ("released" if estimator.feature_scale is None else "given")


def test_gaps_and_thresholds():
    making = fitted("default, gaps").release_.making
    assert set(making.complete) == {"released", "of", "noise_sd"}
    assert making.complete["of"] == making.n_records == 4000
    assert making.n_complete == making.complete["released"] < 4000
    assert fitted("default").release_.making.complete["of"] == 4000
    assert fitted("default, no nulls").release_.making.complete is None
    assert fitted("default, no nulls").release_.making.n_complete == 4000

    def threshold(name):
        return fitted(name).release_.making.threshold

    noise = fitted("gaussian, threshold").release_.noise_sd[0]
    assert threshold("gaussian, threshold") == universal_threshold(noise, 4000, 6)
    assert threshold("screened") > 0
    for name in ("gaussian", "multiscale", "row top-k", "coinpress"):
        assert threshold(name) == 0
    assert fitted("gaussian, threshold").release_.name == "gaussian-threshold"
    assert fitted("gaussian").release_.name == "gaussian"
    assert fitted("screened").release_.name == "screened"
