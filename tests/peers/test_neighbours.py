"""Mechanisms whose noise is not Gaussian, where a record is removed; all others are in the folder
above."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from hushcov.accounting import ADD_REMOVE, Neighbours
from hushcov.inputs import CalibratedInputs
from hushcov.paper.mechanism import Design, calibrated_budget, calibrated_parameters
from hushcov.peers.eigen_sampling import (
    eigen_sampling_parameters,
    eigenvalue_sensitivity,
    pure_inputs,
    rounded_eigenvalues,
    score_range,
)
from hushcov.peers.row_top_k import values_squared_sensitivity

REMOVED = Neighbours(ADD_REMOVE)


@pytest.mark.parametrize("d", [2, 3, 6])
def test_eigenvalues_and_scores_of_removed_records(d):
    rng = np.random.default_rng(d)
    bound, n = 1000, 40
    largest = widest = 0.0
    for _ in range(60):
        rows = rng.integers(-300, 301, (n, d))
        rows = np.where(np.sum(rows**2, axis=1, keepdims=True) <= bound**2, rows, 0)
        rows[0] = bound * np.eye(d, dtype=np.int64)[rng.integers(d)]
        gram, less = rows.T @ rows, rows[1:].T @ rows[1:]
        moved = np.subtract(rounded_eigenvalues(gram), rounded_eigenvalues(less))
        largest = max(largest, float(np.abs(moved).sum()))
        change = np.linalg.eigvalsh(gram - less)  # of all scores, between its ends
        widest = max(widest, change[-1] - min(0.0, change[0]))
    most = eigenvalue_sensitivity(n, d, bound, REMOVED)
    assert 0.99 * bound**2 <= largest <= most < 1.001 * bound**2
    assert 0.99 * bound**2 <= widest <= score_range(n, d, bound, REMOVED) < 1.001 * bound**2
    assert score_range(n, d, bound) > 1.99 * bound**2


@pytest.mark.parametrize("most", [1, 4])
@pytest.mark.parametrize("relation", ["replace", ADD_REMOVE])
def test_a_pure_release_certifies_all_of_its_budget(relation, most):
    neighbours = Neighbours(relation, most, "record" if most == 1 else "patient")
    inputs = replace(pure_inputs(500, 3, 2, 1.0), neighbours=neighbours)
    parameters = eigen_sampling_parameters(inputs)
    guarantee = parameters.budget().certificate
    assert 0.99 < guarantee.transcript_epsilon <= 1.0
    assert guarantee.rows_per_unit == most


DESIGN = Design(
    clip_radius=3.0,
    base_threshold=0.2,
    n_levels=1,
    base_tests=4.0,
    quota_factor=1.0,
    energy_factor=1.0,
    selection_ratio=1.0,
    gate_clip=math.inf,
    keep_above=0.0,
)


def test_multiscale_needs_half_of_the_noise_for_removed_records():
    inputs = CalibratedInputs(5000, 6, 2, 1.0, 1e-6, 1.0)
    plain = calibrated_parameters(inputs, DESIGN, "value")
    removed = calibrated_parameters(replace(inputs, neighbours=REMOVED), DESIGN, "value")
    assert removed.entry_sensitivity == plain.entry_sensitivity / 2 == 9 / 5000
    ratio = removed.schedule.gate_noise / plain.schedule.gate_noise
    assert ratio == pytest.approx(0.5, rel=1e-3)
    assert calibrated_budget(removed).certificate.adjacency == "add-remove-one"
    unit = replace(inputs, neighbours=Neighbours("replace", 3, "patient"))
    tripled = calibrated_parameters(unit, DESIGN, "value")
    assert tripled.schedule.gate_noise == pytest.approx(3 * plain.schedule.gate_noise, rel=1e-3)


def test_values_of_removed_records():
    """All rows of zeros and ones in size, for every graph on four features."""
    rows = np.array(np.meshgrid(*[(-1, 0, 1)] * 4)).reshape(4, -1).T
    every = [(i, j) for i in range(4) for j in range(i + 1, 4)]
    for code in range(2 ** len(every)):
        pairs = [pair for place, pair in enumerate(every) if code >> place & 1]
        entries = [rows[:, i] * rows[:, j] for i, j in pairs] + [rows[:, i] ** 2 for i in range(4)]
        largest = np.max(np.sum(np.square(entries), axis=0))
        assert largest == values_squared_sensitivity(4, 1, pairs, REMOVED)
        assert largest <= values_squared_sensitivity(4, 1, pairs)
