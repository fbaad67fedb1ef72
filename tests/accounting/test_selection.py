"""Exhaustive enumeration: no small top-s Gumbel selection leaks more than it is charged.

Privacy curves and Renyi divergences of M!/(M-s)! outcomes are finite sums: no false alarms.
"""

import itertools
import math

import numpy as np
import pytest
from scipy.special import logsumexp

from hushcov.kernel.accounting import BoundedRange, all_bounds
from hushcov.kernel.accounting.composition import bounded_range_divergence
from hushcov.kernel.accounting.events import Parts
from hushcov_lab.pld import LossDistributionCurve

SENSITIVITY = 1.0


def sequence_log_laws(scores, selected):
    """Log probabilities of all ordered selections; one row for each row of `scores`."""
    columns = []
    for sequence in itertools.permutations(range(scores.shape[1]), selected):
        left, log_probability = list(range(scores.shape[1])), 0.0
        for label in sequence:
            log_probability = log_probability + scores[:, label]
            log_probability = log_probability - logsumexp(scores[:, left], axis=1)
            left.remove(label)
        columns.append(log_probability)
    return np.column_stack(columns)


def neighbouring_log_laws(eta, candidates, selected, monotone, pairs=400):
    """Exact laws of neighbouring selections; a step is eta-bounded-range by construction."""
    random = np.random.default_rng([candidates, selected, monotone, round(1000 * eta)])
    scale = SENSITIVITY / eta if monotone else 2 * SENSITIVITY / eta
    scores = random.normal(0, 1, (pairs, candidates)) * 10 ** random.uniform(-2, 1, (pairs, 1))
    low = 0.0 if monotone else -SENSITIVITY
    # Extreme changes are the worst ones; some in between for good measure.
    change = random.choice([low, SENSITIVITY], (pairs, candidates))
    change[::4] = random.uniform(low, SENSITIVITY, change[::4].shape)
    scores[0], change[0] = 0.0, SENSITIVITY
    change[0, 1:] = low
    first = sequence_log_laws(scores / scale, selected)
    second = sequence_log_laws(scores / scale + change / scale, selected)
    return np.vstack([first, second]), np.vstack([second, first])


def neighbouring_laws(*case):
    return tuple(np.exp(laws) for laws in neighbouring_log_laws(*case))


def worst_delta(first, second, epsilon):
    return np.maximum(first - math.exp(epsilon) * second, 0).sum(axis=1).max()


def loss_distribution(eta, count):
    return LossDistributionCurve(Parts(bounded_range=((eta, count),)))


def excess(eta, claimed_eta, candidates, selected, monotone):
    """Largest true delta over claimed delta, by method, over a range of epsilons."""
    first, second = neighbouring_laws(eta, candidates, selected, monotone)
    ratios, pld = {}, loss_distribution(claimed_eta, selected)
    for epsilon in np.linspace(0, selected * eta, 9):
        truth = worst_delta(first, second, epsilon)
        bounds = all_bounds([BoundedRange(claimed_eta, selected)], epsilon=float(epsilon))
        claims = {bound.method: bound.delta for bound in bounds} | {"pld": pld.delta_at(epsilon)}
        for method, delta in claims.items():
            # 1e-15 is the rounding error of the enumeration itself.
            ratio = max(truth - 1e-15, 0.0) / max(delta, 1e-300)
            ratios[method] = max(ratios.get(method, 0.0), ratio)
    return ratios


CASES = [
    (eta, candidates, selected, monotone)
    for eta in (0.05, 0.5, 2.0)
    for candidates, selected in ((2, 1), (3, 2), (5, 1), (5, 3))
    for monotone in (False, True)
]


@pytest.mark.parametrize(("eta", "candidates", "selected", "monotone"), CASES)
def test_no_selection_beats_its_charge(eta, candidates, selected, monotone):
    ratios = excess(eta, eta, candidates, selected, monotone)
    assert {"basic", "rdp", "pld"} <= set(ratios)
    assert all(ratio <= 1 for ratio in ratios.values()), ratios


@pytest.mark.parametrize(("eta", "candidates", "selected", "monotone"), CASES)
def test_the_same_check_catches_a_charge_of_half_the_range(eta, candidates, selected, monotone):
    ratios = excess(eta, eta / 2, candidates, selected, monotone)
    assert ratios["pld"] > 1, ratios


@pytest.mark.parametrize(("eta", "candidates", "selected", "monotone"), CASES)
def test_renyi_divergences_of_selections(eta, candidates, selected, monotone):
    first, second = neighbouring_log_laws(eta, candidates, selected, monotone)
    orders = np.array([1.1, 2.0, 4.0, 16.0])
    truth = np.array(
        [logsumexp(a * first + (1 - a) * second, axis=1).max() / (a - 1) for a in orders]
    )
    assert np.all(truth <= selected * bounded_range_divergence(eta, orders) + 1e-14)
    assert np.any(truth > selected * bounded_range_divergence(eta / 2, orders))
