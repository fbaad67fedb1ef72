"""Settings that the tests of this folder share."""

from __future__ import annotations

import numpy as np

from hushcov.inputs import ReleaseInputs
from hushcov.noise import Entropy

METHODS = ("gauss", "separate", "adaptive")


def inputs_for(**changes):
    declared = {"n_records": 10_000, "n_features": 6, "row_sparsity": 3}
    budget = {"epsilon": 1.0, "delta": 1e-6}
    return ReleaseInputs(**{**declared, **budget, **changes})


def seeded(seed=0):
    return Entropy(np.random.default_rng(seed), private=False)
