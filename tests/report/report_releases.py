"""Releases of every mechanism, small and seeded, and releases made by hand."""

import warnings
from functools import cache

import numpy as np

import hushcov
from documents import guarantee
from hushcov.release import Making, Release
from hushcov.simulate import gaussian_records, sparse_covariance, wishart_moments

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
SPARSE = {**BUDGET, "row_sparsity": 2}
TRUTH = sparse_covariance("block", 6, 2)
SCALES = np.array([0.1, 1.0, 30.0, 1.0, 5.0, 2.0])

ESTIMATORS = {
    "screened": lambda: hushcov.ScreenedCovariance(**SPARSE, random_state=0),
    "screened-given": lambda: hushcov.ScreenedCovariance(
        **SPARSE, feature_scale=SCALES, random_state=0
    ),
    "gaussian": lambda: hushcov.GaussianCovariance(**BUDGET, random_state=0),
    "gaussian-threshold": lambda: hushcov.GaussianCovariance(
        **BUDGET, threshold="universal", random_state=0
    ),
    "multiscale": lambda: hushcov.PrivateSparseCovariance(
        **SPARSE, mechanism="multiscale", random_state=0
    ),
    "row-top-k": lambda: hushcov.RowTopKCovariance(**SPARSE, random_state=0),
    "pace": lambda: hushcov.PaceCovariance(**BUDGET, random_state=0),
    "separate": lambda: hushcov.SeparateCovariance(**BUDGET, random_state=0),
    "coinpress": lambda: hushcov.CoinPressCovariance(**BUDGET, random_state=0),
    "eigen-sampling": lambda: hushcov.EigenSamplingCovariance(
        epsilon=1.0, feature_scale=SCALES, assume_centered=True, random_state=0
    ),
}
MECHANISMS = (*ESTIMATORS, "theorem")


@cache
def fitted(name: str):
    """An estimator after its fit; the seed makes the release not private."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name == "theorem":
            moments = wishart_moments(TRUTH, 60_000_000_000, random_state=1)
            estimator = hushcov.MultiscaleCovariance(**SPARSE, scale=1.0)
            return estimator.fit_statistics(moments)
        rows = gaussian_records(TRUTH, 4_000, random_state=2) * SCALES
        return ESTIMATORS[name]().fit(rows)


def made(integers, **changes) -> Release:
    names = {"epsilon", "delta", "transcript_epsilon", "transcript_delta", "events"}
    names |= {"preconditions", "private"}
    said = {name: changes.pop(name) for name in names & set(changes)}
    d = integers.shape[0]
    inputs = {"n_records": 10_000, "n_features": d, "row_sparsity": min(2, d), **BUDGET}
    parts = {
        "mechanism": "gaussian",
        "integers": integers,
        "unit": 0.001,
        "guarantee": guarantee(**{"preconditions": ("rows are bounded",)} | said),
        "parameters": {"inputs": inputs},
        "feature_scale": np.ones(d),
        "noise_sd": (0.02, 0.02),
        "making": Making(n_records=10_000),
    }
    return Release(**parts | changes)
