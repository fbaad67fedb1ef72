"""What the tests of the scaled estimators share: small records, a budget, and seeded fits."""

from __future__ import annotations

import functools
import warnings

import numpy as np

import hushcov.estimators.sparse
import hushcov.paper.estimator
from hushcov import (
    CoinPressCovariance,
    GaussianCovariance,
    PrivateSparseCovariance,
    RowTopKCovariance,
    ScreenedCovariance,
    SeparateCovariance,
)
from hushcov.exceptions import AccuracyWarning, PrivacyWarning, SeededNoiseWarning
from hushcov.paper import MultiscalePlan, calibrated_parameters, room
from hushcov.paper.planner import _predictions, starting_design
from hushcov.planning import compare
from hushcov.simulate import gaussian_records, sparse_covariance

ESTIMATORS = (GaussianCovariance, ScreenedCovariance, PrivateSparseCovariance)
PEERS = (RowTopKCovariance, SeparateCovariance, CoinPressCovariance)
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "row_sparsity": 2}
D = 10


def correlations(model, d, k):
    """A model with unit variances."""
    sigma = sparse_covariance(model, d, k)
    scale = np.sqrt(np.diag(sigma))
    return sigma / np.multiply.outer(scale, scale)


TRUTH = correlations("block", D, 2)
RECORDS = gaussian_records(TRUTH, 4000)
RECORDS.setflags(write=False)


@functools.cache
def plan_without_search(inputs, reconstruction):
    """In place of `plan_multiscale` where any plan will do: the search takes seconds."""
    design = starting_design(reconstruction)
    parameters = calibrated_parameters(inputs, design, reconstruction)
    return MultiscalePlan(parameters, _predictions(parameters))


def skip_search(monkeypatch):
    """Plans of the multiscale mechanism without its search, which takes seconds at each size."""
    monkeypatch.setattr(
        hushcov.planning,
        "compare",
        lambda inputs, **_: compare(inputs, refine=False),
    )
    for module in (hushcov.paper.estimator, room):
        monkeypatch.setattr(module, "plan_multiscale", plan_without_search)


def make(cls, **changes):
    return cls(**{**BUDGET, **changes})


def fit(estimator, X, seed=0, *, hopeless=False):
    """Fit with this seed, and without the warning that it calls for.

    `hopeless` insists on what is refused by default: too few records, or too large a delta.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        if hopeless:
            for category in (AccuracyWarning, PrivacyWarning):
                warnings.simplefilter("ignore", category)
            options = {"on_hopeless", "on_large_delta"} & set(estimator.get_params())
            estimator.set_params(**dict.fromkeys(options, "warn"))
        return estimator.set_params(random_state=seed).fit(X)
