"""The published mechanisms that the common tests go through, each with a budget of its own kind."""

from __future__ import annotations

import pytest

from estimators.settings import BUDGET, PEERS
from hushcov import (
    CoinPressCovariance,
    EigenSamplingCovariance,
    RowTopKCovariance,
    SeparateCovariance,
)

# The private centre is tested in test_centre.py, at sizes where it finds something.
APPROXIMATE = {**BUDGET, "assume_centered": True}
PURE = {"epsilon": 1.0, "row_sparsity": 2, "feature_scale": 1.0, "assume_centered": True}
CLASSES = (*PEERS, EigenSamplingCovariance)
SETTINGS = {
    "row_top_k": (RowTopKCovariance, {}),
    "separate": (SeparateCovariance, {}),
    "separate, gauss": (SeparateCovariance, {"method": "gauss"}),
    "separate, eigenvalues": (SeparateCovariance, {"method": "separate"}),
    "coinpress": (CoinPressCovariance, {}),
    "coinpress, one step": (
        CoinPressCovariance,
        {"n_steps": 1, "eigenvalue_bounds": (0.5, 2.0)},
    ),
    "eigen_sampling": (EigenSamplingCovariance, {}),
    "eigen_sampling, uniform": (EigenSamplingCovariance, {"allocation": "uniform"}),
}
# Those that estimate scales; pure privacy takes public ones.
SCALING = tuple(name for name, (cls, _) in SETTINGS.items() if cls in PEERS)
each_peer = pytest.mark.parametrize("name", SETTINGS)
each_scaling = pytest.mark.parametrize("name", SCALING)
each_class = pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)


def make_class(cls, **changes):
    """An estimator of this class; a parameter that it does not have is an error."""
    return cls(**{**(PURE if cls is EigenSamplingCovariance else APPROXIMATE), **changes})


def peer(name, **changes):
    """The estimator of this setting, with these changes."""
    cls, own = SETTINGS[name]
    return make_class(cls, **{**own, **changes})
