"""The guarantee of a fit: as asked, for all that was done, and checked by others' code."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant
from scipy import stats

from estimators.settings import RECORDS, D, fit, make
from hushcov import GaussianCovariance, PrivateSparseCovariance, ScreenedCovariance
from hushcov.accounting import BoundedRange, Clocked, Gaussian, TotalVariation
from hushcov.exceptions import PrivacyConditionError

SETTINGS = {
    "gaussian": (GaussianCovariance, {}),
    "gaussian, threshold": (GaussianCovariance, {"threshold": "universal"}),
    "screened": (ScreenedCovariance, {}),
    "screened, variances alone": (ScreenedCovariance, {"row_sparsity": 1}),
    "auto": (PrivateSparseCovariance, {}),
    "auto, large budget": (PrivateSparseCovariance, {"epsilon": 5.0, "delta": 1e-9}),
    "sparse, screened": (PrivateSparseCovariance, {"mechanism": "screened"}),
    "sparse, thresholded": (PrivateSparseCovariance, {"mechanism": "gaussian-threshold"}),
    "sparse, gaussian": (PrivateSparseCovariance, {"mechanism": "gaussian"}),
    "sparse, multiscale": (PrivateSparseCovariance, {"mechanism": "multiscale"}),
}
KNOWN = {
    "nothing known": {},
    "mean known": {"assume_centered": True},
    "known": {"feature_scale": 1.0, "assume_centered": True},
}


@pytest.fixture(scope="module", params=SETTINGS)
def setting(request):
    return SETTINGS[request.param]


@pytest.fixture(scope="module", params=KNOWN)
def fitted(request, setting):
    cls, changes = setting
    return fit(make(cls, **changes, **KNOWN[request.param]), RECORDS, hopeless=True)


def renyi_epsilon(events, delta):
    """By Renyi divergences alone, a bounded-range step as eta^2/8-zCDP."""
    accountant = RdpAccountant(1 + np.geomspace(0.05, 1e4, 200))
    for event in events:
        match event:
            case Gaussian(mu):
                accountant.compose(dp_event.GaussianDpEvent(1 / mu))
            case BoundedRange(eta, count):
                accountant.compose(dp_event.ZCDpEvent(count * eta**2 / 8))
            case Clocked(mu, late):
                accountant.compose(dp_event.GaussianDpEvent(1 / mu))
                delta -= late
    return accountant.get_epsilon(delta)


def test_the_promise_is_what_was_asked(fitted):
    guarantee = fitted.release_.guarantee
    assert (guarantee.epsilon, guarantee.delta) == (fitted.epsilon, fitted.delta)
    assert 0.99 * fitted.epsilon < guarantee.transcript_epsilon <= fitted.epsilon
    assert guarantee.transcript_delta + guarantee.numerical_delta <= fitted.delta
    assert guarantee.adjacency == "replace-one"


def test_private_scales_are_charged(fitted):
    if fitted.release_.location is not None:
        return  # see test_centre.py
    before, events = (
        fitted.public_inputs(fitted.n_records_, D).before,
        fitted.release_.guarantee.events,
    )
    assert (before > 0) == (fitted.feature_scale is None)
    if before:
        assert events[0].mu == pytest.approx(before)
        assert len(events) > 1


def test_an_independent_accountant_agrees(fitted):
    """Its Renyi bound is above the exact curve of Gaussians by a tenth at most, and not below."""
    guarantee = fitted.release_.guarantee
    slack = [event.distance for event in guarantee.events if isinstance(event, TotalVariation)]
    delta = guarantee.delta - guarantee.numerical_delta
    delta -= (1 + math.exp(guarantee.epsilon)) * sum(slack)
    epsilon = renyi_epsilon(guarantee.events, delta)
    assert 0.99 * guarantee.transcript_epsilon < epsilon < 1.12 * guarantee.epsilon


def test_gaussians_alone_meet_the_exact_curve(fitted):
    events = fitted.release_.guarantee.events
    if not all(isinstance(event, Gaussian) for event in events):
        assert any(isinstance(event, BoundedRange | Clocked) for event in events)
        return
    mu, epsilon = math.sqrt(sum(event.mu**2 for event in events)), fitted.epsilon
    # Balle and Wang (arXiv 1805.06530), Theorem 8.
    delta = stats.norm.cdf(mu / 2 - epsilon / mu)
    delta -= math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)
    assert 0.9 * fitted.delta < delta <= fitted.delta * (1 + 1e-9)


def test_a_release_is_certified_before_it_is_drawn(monkeypatch):
    """A plan that costs more than the budget, by whatever mistake, raises and reads nothing."""
    estimator = make(ScreenedCovariance, feature_scale=1.0, assume_centered=True)
    plan = estimator.fit_plan(len(RECORDS), D)
    costly = dataclasses.replace(plan.chosen.parameters, mu=10 * plan.chosen.parameters.mu)
    careless = dataclasses.replace(plan.chosen, parameters=costly)
    monkeypatch.setattr("hushcov.mechanisms.screened.screens.sign_scores", None)
    with pytest.raises(PrivacyConditionError, match="transcript_epsilon must be at most epsilon"):
        estimator.fit_planned(RECORDS, dataclasses.replace(plan, chosen=careless))
