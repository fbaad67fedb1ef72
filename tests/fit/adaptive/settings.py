"""What the tests of the adaptive release share: small tables of every structure, seeded fits."""

from __future__ import annotations

import warnings

import numpy as np

from hushcov import PrivateSparseCovariance
from hushcov.exceptions import AccuracyWarning, PrivacyWarning, SeededNoiseWarning
from hushcov.fit.adaptive.mechanism import release_adaptive
from hushcov.fit.adaptive.pairs import AdaptiveParameters
from hushcov.fit.mechanism import Prepared
from hushcov.inputs import ReleaseInputs
from hushcov.kernel.noise import Entropy
from hushcov.simulate import sparse_covariance
from sessions import certified

BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def correlations(covariance):
    scale = np.sqrt(np.diag(covariance))
    return covariance / np.multiply.outer(scale, scale)


def blocks(d):
    return correlations(sparse_covariance("block", d, 5))


def one_factor(d):
    """All pairs alike: none is strong, together they are most of the norm."""
    return 0.1 + 0.9 * np.eye(d)


def dense(d):
    """No zeros, no few factors."""
    rows = np.random.default_rng(5).standard_normal((2 * d, d))
    return correlations(rows.T @ rows)


def drawn(truth, n, seed=1):
    """Records around means of their own, at scales of their own; and their covariance."""
    rng, d = np.random.default_rng(seed), len(truth)
    scale = np.geomspace(0.01, 100, d)
    rows = rng.standard_normal((n, d)) @ np.linalg.cholesky(truth).T
    return rows * scale + 7 * scale, truth * np.multiply.outer(scale, scale)


def fit(X, *, seed=1, **options):
    """A seeded fit; what it warns of is not asked here."""
    with warnings.catch_warnings():
        for kind in (AccuracyWarning, PrivacyWarning, SeededNoiseWarning):
            warnings.simplefilter("ignore", kind)
        made = PrivateSparseCovariance(**BUDGET | options, random_state=seed)
        return made.fit(X)


def error(covariance, truth):
    """In units of the scales, over the norm of the truth."""
    scale = np.sqrt(np.diag(truth))
    difference = (covariance - truth) / np.multiply.outer(scale, scale)
    return np.linalg.norm(difference, 2) / np.linalg.norm(correlations(truth), 2)


def released(rows, *, epsilon=1.0, row_sparsity=1, seed=1, sparse=False):
    """The mechanism alone, on records at scale 1."""
    inputs = ReleaseInputs(*rows.shape, row_sparsity, epsilon, 1e-6)
    entropy = Entropy(np.random.default_rng(seed), private=False)
    scale = np.ones(rows.shape[1])
    parameters = AdaptiveParameters(inputs)
    prepared = Prepared(certified(rows, parameters, entropy), scale)
    return release_adaptive(prepared, parameters, sparse=sparse)
