"""The guarantee of a fit: as asked, for all that was done, and checked by others' code."""

import dataclasses
import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant
from scipy import stats

from estimators.settings import KNOWN, PUBLISHED, RECORDS, SCALING, D, fit, setting
from hushcov.estimators.scaled import PrivacyUnit
from hushcov.exceptions import PrivacyConditionError
from hushcov.kernel.accounting import BoundedRange, Clocked, Gaussian, Pure, TotalVariation

CENTRED = {"assume_centered": True}
LARGE = {"epsilon": 5.0, "delta": 1e-9}
OURS = [
    ("gaussian", {}),
    ("gaussian", {"threshold": "universal"}),
    ("screened", {}),
    ("screened", {"row_sparsity": 1}),
    ("sparse", {}),
    ("sparse", LARGE),
    *(("sparse", {"mechanism": name}) for name in ("screened", "gaussian-threshold", "gaussian")),
    ("sparse", {"mechanism": "multiscale"}),
]
FITS = [
    *(
        (name, own | known)
        for name, own in OURS
        for known in ({}, {"assume_centered": True}, KNOWN)
    ),
    *((name, changes) for name in PUBLISHED for changes in ({}, KNOWN)),
    *((name, LARGE) for name in PUBLISHED if name in SCALING),
    ("row_top_k", {"row_sparsity": 1}),
    ("row_top_k", {"row_sparsity": D}),
    ("eigen_sampling", {"epsilon": 1e-3}),
]


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


@pytest.mark.parametrize(("name", "changes"), FITS)
def test_the_promise_is_what_was_asked(name, changes):
    estimator = fit(setting(name, **changes), RECORDS, hopeless=True)
    guarantee = estimator.release_.guarantee
    assert guarantee.epsilon == estimator.epsilon
    assert guarantee.delta == getattr(estimator, "delta", 0.0)
    assert 0.99 * guarantee.epsilon < guarantee.transcript_epsilon <= guarantee.epsilon
    assert guarantee.transcript_delta + guarantee.numerical_delta <= guarantee.delta
    assert guarantee.adjacency == "replace-one"
    # Private means and scales are in test_centre.py.
    prepared = "norms" in " ".join(part.name for part in estimator.release_.making.parts)
    if not prepared:
        before = estimator._public_inputs(estimator.n_records_, D).before
        counts = estimator.release_.making.complete is not None
        assert counts == (guarantee.delta > 0)
        first = guarantee.events[:counts]
        assert math.hypot(*(event.mu for event in first)) == pytest.approx(before)
    if guarantee.delta == 0:
        assert guarantee.events == (Pure(guarantee.transcript_epsilon),)
    else:
        _check_independently(guarantee)


def _check_independently(guarantee):
    """By others' Renyi divergences, at most a tenth above, and the exact Gaussian curve."""
    events, epsilon = guarantee.events, guarantee.epsilon
    slack = sum(event.distance for event in events if isinstance(event, TotalVariation))
    delta = guarantee.delta - guarantee.numerical_delta - (1 + math.exp(epsilon)) * slack
    assert 0.99 * guarantee.transcript_epsilon < renyi_epsilon(events, delta) < 1.12 * epsilon
    if not all(isinstance(event, Gaussian) for event in events):
        assert any(isinstance(event, BoundedRange | Clocked) for event in events)
        return
    mu = math.sqrt(sum(event.mu**2 for event in events))
    # Balle and Wang (arXiv 1805.06530), Theorem 8.
    delta = stats.norm.cdf(mu / 2 - epsilon / mu)
    delta -= math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)
    assert 0.9 * guarantee.delta < delta <= guarantee.delta * (1 + 1e-9)


def test_a_release_is_certified_before_it_is_drawn(monkeypatch):
    """A plan that costs more than the budget, by whatever mistake, raises and reads nothing."""
    estimator = setting("screened", **KNOWN)
    opened = estimator._count(RECORDS, PrivacyUnit.checked(estimator))
    chosen = opened.plan.chosen
    costly = dataclasses.replace(chosen.parameters, mu=10 * chosen.parameters.mu)
    careless = dataclasses.replace(chosen, parameters=costly)
    careless_plan = dataclasses.replace(opened.plan, chosen=careless)
    monkeypatch.setattr("hushcov.kernel.session.gumbel_top", None)
    with pytest.raises(PrivacyConditionError, match="transcript_epsilon must be at most epsilon"):
        estimator._fit_counted(dataclasses.replace(opened, plan=careless_plan))
