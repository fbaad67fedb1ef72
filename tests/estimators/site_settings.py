"""What the tests of sums over several sites share: sites, estimators, and seeded releases."""

import itertools
import warnings

import numpy as np
from sklearn.base import clone

from estimators.settings import RECORDS, make
from estimators.stand_ins import RepeatedRecords
from hushcov import GaussianCovariance, MultiscaleCovariance
from hushcov.exceptions import PrivacyWarning, SeededNoiseWarning
from hushcov.simulate import gaussian_records

N = len(RECORDS)
CUTS = (0, 1200, 1202, N)  # three sites, each with an even number of rows
SITES = [RECORDS[start:stop] for start, stop in itertools.pairwise(CUTS)]

# Two independent features; 1e9 records are enough for the theorem's constants here.
BLOCK = gaussian_records(np.diag([1.0, 0.5]), 1000, random_state=3)
THEOREM = {"epsilon": 1.0, "delta": 0.1, "row_sparsity": 1, "scale": 1.0}
THEOREM |= {"on_large_delta": "warn"}  # far above 1 / n at this number of records
REPEATS = (300_000, 200_000, 500_000)
BILLION = 10**9


def gaussian(**changes):
    known = {"feature_scale": 1.0, "assume_centered": True, "drop_nulls": False}
    return make(GaussianCovariance, **{**known, **changes})


def multiscale(**changes):
    return MultiscaleCovariance(**{**THEOREM, **changes})


def quietly(method, *args):
    """A seeded release, without the warnings that it and the theorem's n call for."""
    with warnings.catch_warnings():
        for category in (SeededNoiseWarning, PrivacyWarning):
            warnings.simplefilter("ignore", category)
        return method(*args)


def summed(estimator, *sites, total):
    first, *others = [
        clone(estimator).partial_fit(X, total_records=total).statistics_ for X in sites
    ]
    return first.merge(*others)


def repeated(repeats):
    return RepeatedRecords(BLOCK, repeats)
