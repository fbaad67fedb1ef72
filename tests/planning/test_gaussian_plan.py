"""Predictions of the Gaussian mechanism: fixed, quick to read, and close to what then happens."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest

from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.gaussian import room
from hushcov.mechanisms.gaussian.mechanism import gaussian_parameters, release_gaussian
from hushcov.mechanisms.gaussian.room import predict_gaussian
from hushcov.metrics import operator_norm_error
from hushcov.noise import Entropy
from hushcov.postprocess import hard_threshold, universal_threshold
from hushcov.predicting import REFERENCE_MODELS, reference
from hushcov.simulate import gaussian_records, sparse_covariance
from hushcov.tables.sources import open_records


def inputs_for(n_records, n_features, row_sparsity):
    return ReleaseInputs(n_records, n_features, row_sparsity, 1.0, 1e-6)


def measured_medians(inputs, model, runs):
    """Median error without and with a threshold, with the true scales as public ones."""
    parameters = gaussian_parameters(inputs)
    truth = sparse_covariance(model, inputs.n_features, inputs.row_sparsity)
    scale = np.sqrt(np.diag(truth))
    limit = universal_threshold(parameters.noise_sd, inputs.n_records, inputs.n_features)
    full, sparse = [], []
    for seed in range(runs):
        X = gaussian_records(truth, inputs.n_records, random_state=seed)
        entropy = Entropy(np.random.default_rng(seed), private=False)
        M = release_gaussian(open_records(X), scale, parameters, entropy).covariance()
        full.append(operator_norm_error(M, truth))
        sparse.append(operator_norm_error(hard_threshold(M, limit * truth[0, 0]), truth))
    return statistics.median(full), statistics.median(sparse)


@pytest.mark.parametrize("model", ["block", "banded", "random"])
@pytest.mark.parametrize(
    ("n_records", "n_features", "row_sparsity", "runs"),
    [(10_000, 100, 5, 7), (20_000, 60, 10, 9), (1_000, 5, 3, 61)],
)
def test_predictions_are_close_to_measured_medians(
    model, n_records, n_features, row_sparsity, runs
):
    """Within 30 %; up to d = 1000 and n = 1e6 they were within 16 % in simulations."""
    inputs = inputs_for(n_records, n_features, row_sparsity)
    full, sparse = measured_medians(inputs, model, runs)
    assert 0.7 < predict_gaussian(inputs, threshold=False)[model] / full < 1.3
    assert 0.7 < predict_gaussian(inputs, threshold=True)[model] / sparse < 1.3


@pytest.mark.parametrize(("d", "largest"), [(300, 1000), (901, 150)])
def test_noise_dominates_like_a_symmetric_gaussian_matrix(d, largest, monkeypatch):
    """At small n the full error is 2 sd sqrt(d), also where the reference has fewer features."""
    monkeypatch.setattr(room, "_FEATURES", largest)
    inputs = inputs_for(5_000, d, 3)
    sd = gaussian_parameters(inputs).noise_sd
    variance = reference("block", d, 3, largest).variance
    predicted = predict_gaussian(inputs, threshold=False)["block"]
    assert predicted == pytest.approx(2 * sd * math.sqrt(d) * variance, rel=0.06, abs=0)


def test_more_records_help():
    for threshold in (False, True):
        errors = [
            predict_gaussian(inputs_for(n, 50, 3), threshold=threshold)["random"]
            for n in (3_000, 30_000, 300_000, 3_000_000)
        ]
        assert errors == sorted(errors, reverse=True)
        assert errors[-1] < 0.02


def test_thresholds_help_where_most_entries_are_zero():
    inputs = inputs_for(100_000, 150, 5)
    full, sparse = (predict_gaussian(inputs, threshold=choice) for choice in (False, True))
    assert set(full) == set(sparse) == set(REFERENCE_MODELS)
    assert all(sparse[model] < 0.6 * full[model] for model in REFERENCE_MODELS)


@pytest.mark.parametrize("n_features", [1, 2, 3])
@pytest.mark.parametrize("threshold", [False, True])
def test_tiny_problems_have_predictions(n_features, threshold):
    for n_records in (5, 10**9):
        predicted = predict_gaussian(inputs_for(n_records, n_features, 1), threshold=threshold)
        assert all(0 < error < math.inf for error in predicted.values())


def test_predictions_are_fixed_and_nobody_can_spoil_them():
    inputs = inputs_for(20_000, 80, 4)
    first = predict_gaussian(inputs, threshold=True)
    kept = dict(first)
    first["block"] = -1.0
    assert predict_gaussian(inputs, threshold=True) == kept
    room._medians.cache_clear()
    room._setting.cache_clear()
    assert predict_gaussian(inputs, threshold=True) == kept
