"""Small records, a budget, a setting of every scaled estimator, and seeded fits."""

import functools
import warnings

import numpy as np
import pytest

import hushcov.estimators.sparse
import hushcov.paper.estimator
from hushcov import (
    CoinPressCovariance,
    EigenSamplingCovariance,
    GaussianCovariance,
    PaceCovariance,
    PrivateSparseCovariance,
    RowTopKCovariance,
    ScreenedCovariance,
    SeparateCovariance,
)
from hushcov.exceptions import AccuracyWarning, PrivacyWarning, SeededNoiseWarning
from hushcov.fit import compare
from hushcov.paper import plan as paper_plan
from hushcov.paper.mechanism import calibrated_parameters
from hushcov.paper.plan import _STARTS, MultiscalePlan, _predictions
from hushcov.simulate import gaussian_records, sparse_covariance

ESTIMATORS = (GaussianCovariance, ScreenedCovariance, PrivateSparseCovariance)
PEERS = (RowTopKCovariance, PaceCovariance, SeparateCovariance, CoinPressCovariance)
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "row_sparsity": 2}
CENTRED = BUDGET | {"assume_centered": True}
PURE = {"epsilon": 1.0, "row_sparsity": 2, "feature_scale": 1.0, "assume_centered": True}
KNOWN = {"feature_scale": 1.0, "assume_centered": True}
D = 10
# Published mechanisms are told that means are zero: test_centre.py has those that find means.
SETTINGS = {
    "gaussian": (GaussianCovariance, BUDGET),
    "screened": (ScreenedCovariance, BUDGET),
    "sparse": (PrivateSparseCovariance, BUDGET),
    "row_top_k": (RowTopKCovariance, CENTRED),
    "pace": (PaceCovariance, CENTRED),
    "separate": (SeparateCovariance, CENTRED),
    "separate, gauss": (SeparateCovariance, CENTRED | {"method": "gauss"}),
    "separate, eigenvalues": (SeparateCovariance, CENTRED | {"method": "separate"}),
    "coinpress": (CoinPressCovariance, CENTRED),
    "coinpress, one step": (
        CoinPressCovariance,
        CENTRED | {"n_steps": 1, "eigenvalue_bounds": (0.5, 2.0)},
    ),
    "eigen_sampling": (EigenSamplingCovariance, PURE),
    "eigen_sampling, uniform": (EigenSamplingCovariance, PURE | {"allocation": "uniform"}),
}
OURS = ("gaussian", "screened", "sparse")
PUBLISHED = tuple(name for name in SETTINGS if name not in OURS)
# Those that estimate scales; pure privacy takes public ones.
SCALING = tuple(name for name, (cls, _) in SETTINGS.items() if cls is not EigenSamplingCovariance)
# One setting of each class.
CLASSES = (*OURS, "row_top_k", "pace", "separate", "coinpress", "eigen_sampling")
each_setting = pytest.mark.parametrize("name", SETTINGS)
each_class = pytest.mark.parametrize("name", CLASSES)
each_scaling = pytest.mark.parametrize("name", SCALING)


def setting(name, **changes):
    cls, options = SETTINGS[name]
    return cls(**options | changes)


def correlations(model, d, k):
    sigma = sparse_covariance(model, d, k)
    scale = np.sqrt(np.diag(sigma))
    return sigma / np.multiply.outer(scale, scale)


TRUTH = correlations("block", D, 2)
RECORDS = gaussian_records(TRUTH, 4000)
RECORDS.setflags(write=False)


@functools.cache
def plan_without_search(inputs, reconstruction):
    """In place of `plan_multiscale` where any plan will do: the search takes seconds."""
    parameters = calibrated_parameters(inputs, _STARTS[reconstruction][0], reconstruction)
    return MultiscalePlan(parameters, _predictions(parameters))


def skip_search(monkeypatch):
    """Plans of the multiscale mechanism without its search, which takes seconds at each size."""
    monkeypatch.setattr(
        hushcov.fit,
        "compare",
        lambda inputs, *names, **known: compare(inputs, *names, **known | {"refine": False}),
    )
    for module in (hushcov.paper.estimator, paper_plan):
        monkeypatch.setattr(module, "plan_multiscale", plan_without_search)


def make(cls, **changes):
    return cls(**{**BUDGET, **changes})


def fit(estimator, X, seed=0, *, hopeless=False):
    """Fit with this seed and without its warning; `hopeless` insists on what is refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        if hopeless:
            for category in (AccuracyWarning, PrivacyWarning):
                warnings.simplefilter("ignore", category)
            options = {"on_hopeless", "on_large_delta"} & set(estimator.get_params())
            estimator.set_params(**dict.fromkeys(options, "warn"))
        return estimator.set_params(random_state=seed).fit(X)
