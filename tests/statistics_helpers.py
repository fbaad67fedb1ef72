"""Tests of laws. Every assertion built on these raises a false alarm at most once in a million.

A test that compares several components divides that rate by their number (Bonferroni). Rare
values are pooled or left out, so that the normal and chi-square approximations hold that far out.
"""

import numpy as np
import pytest
from scipy import special, stats

FALSE_ALARM = 1e-6
FEWEST = 40  # pooled observations a bin or a varying component must have


def short_and_long(name, short, long):
    """Run a test with the short value; the long one is in the slow set."""
    return pytest.mark.parametrize(name, [short, pytest.param(long, marks=pytest.mark.slow)])


def mostly_slow(cases, *fast):
    """Cases of a parametrization: all but those at the places `fast` are in the slow set."""
    slow = pytest.mark.slow
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)), marks=() if i in fast else slow
        )
        for i, case in enumerate(cases)
    ]


def chi_square_p_value(observed, probabilities):
    """P-value of counts against known probabilities; thin bins are pooled with neighbours."""
    observed, probabilities = np.asarray(observed, float), np.asarray(probabilities, float)
    total = observed.sum()
    pooled = _pool(np.stack([observed, probabilities * total]), weights=probabilities * total)
    seen, expected = pooled
    expected = expected * seen.sum() / expected.sum()
    return stats.chi2.sf(np.sum((seen - expected) ** 2 / expected), len(seen) - 1)


def binomial_p_value(draws, count, probability):
    """P-value of draws against Binomial(count, probability), on about 30 bins of its exact cdf."""
    law = stats.binom(count, probability)
    edges = np.unique(law.ppf(np.arange(1, 30) / 30))
    masses = np.diff(np.concatenate([[0.0], law.cdf(edges), [1.0]]))
    observed = np.bincount(np.searchsorted(edges, draws), minlength=len(edges) + 1)
    return chi_square_p_value(observed, masses)


def disagreements(first, second, seed=0):
    """Tests by which two samples (runs by components) differ in law, falsely once in 1e6."""
    first, second = np.asarray(first, float), np.asarray(second, float)
    tests = {
        "constants": _constants(first, second),
        "means": _means(first, second),
        "marginals": _marginals(first, second),
        "covariances": _covariances(first, second),
        "projection": _projection(first, second, seed),
    }
    return [name for name, p_value in tests.items() if p_value < FALSE_ALARM]


def normal_p_value(z):
    """Two-sided p-value of the worst of several standard normal scores."""
    z = np.atleast_1d(z)
    if z.size == 0:
        return 1.0
    return min(1.0, z.size * 2 * float(special.ndtr(-np.max(np.abs(z)))))


def variance_p_value(draws, deviation):
    """P-value of the mean square of normal draws, whose relative deviation is sqrt(2/number)."""
    square = float(np.mean((draws / deviation) ** 2))
    return normal_p_value((square - 1) * np.sqrt(draws.size / 2))


def _constants(first, second):
    """Components that never vary in either sample must have the same value."""
    still = (np.ptp(first, axis=0) == 0) & (np.ptp(second, axis=0) == 0)
    return 1.0 if np.array_equal(first[0, still], second[0, still]) else 0.0


def _varying(first, second):
    """Components that leave their most common value often enough for normal approximations."""
    both = np.concatenate([first, second])
    middle = np.median(both, axis=0)
    return np.flatnonzero(np.sum(both != middle, axis=0) >= FEWEST)


def _two_sample_z(first, second):
    spread = first.var(axis=0, ddof=1) / len(first) + second.var(axis=0, ddof=1) / len(second)
    return (first.mean(axis=0) - second.mean(axis=0)) / np.sqrt(spread)


def _means(first, second):
    varying = _varying(first, second)
    return normal_p_value(_two_sample_z(first[:, varying], second[:, varying]))


def _marginals(first, second):
    p_values = [
        _two_sample_chi_square(first[:, column], second[:, column])
        for column in range(first.shape[1])
    ]
    return min(1.0, min(p_values) * len(p_values))


def _two_sample_chi_square(first, second):
    values, index = np.unique(np.concatenate([first, second]), return_inverse=True)
    table = np.stack(
        [
            np.bincount(index[: len(first)], minlength=len(values)),
            np.bincount(index[len(first) :], minlength=len(values)),
        ]
    ).astype(float)
    table = _pool(table, weights=table.sum(axis=0), fewest=2 * FEWEST)
    if table.shape[1] == 1:
        return 1.0
    return stats.chi2_contingency(table, correction=False).pvalue


def _covariances(first, second):
    """Every entry of the covariance matrix, from centred products."""
    varying = _varying(first, second)
    rows, columns = np.triu_indices(len(varying))

    def products(sample):
        centred = sample[:, varying] - sample[:, varying].mean(axis=0)
        return centred[:, rows] * centred[:, columns]

    first, second = products(first), products(second)
    # A product of two rare events is itself too rare to be normal.
    common = np.sum(first**2, axis=0) ** 2 / np.sum(first**4, axis=0) >= FEWEST
    return normal_p_value(_two_sample_z(first[:, common], second[:, common]))


def _projection(first, second, seed):
    """One random direction, in units of each component's deviation: Kolmogorov-Smirnov."""
    both = np.concatenate([first, second])
    deviation = both.std(axis=0)
    direction = np.random.default_rng(seed).standard_normal(both.shape[1])
    weights = np.divide(direction, deviation, out=np.zeros_like(direction), where=deviation > 0)
    return stats.ks_2samp(first @ weights, second @ weights, method="asymp").pvalue


def _pool(table, *, weights, fewest=FEWEST / 2):
    """Add up neighbouring columns until each carries the given weight."""
    starts, carried = [0], 0.0
    for column, weight in enumerate(weights):
        if carried >= fewest:
            starts.append(column)
            carried = 0.0
        carried += weight
    if carried < fewest and len(starts) > 1:
        starts.pop()
    return np.add.reduceat(table, starts, axis=1)
