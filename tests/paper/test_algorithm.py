"""Algorithm 1 as printed: its transcript is consistent, and it is refused where it cannot run."""

import math

import numpy as np
import pytest

from hushcov import MultiscaleCovariance
from hushcov.exceptions import CapacityError, DataError, ParameterError, PrivacyConditionError
from hushcov.inputs import PublicInputs
from hushcov.kernel.noise import Entropy
from hushcov.paper import (
    clipped_moments,
    run_algorithm,
    run_algorithm_on_moments,
    theorem_parameters,
)
from hushcov.paper.mechanism import release_multiscale
from hushcov.simulate import gaussian_records, sparse_covariance, wishart_moments
from paper.settings import SCHEDULES, STATISTIC, sample_literal

INPUTS = PublicInputs(500, 6, 2, 0.25, 1.0, 1e-6, 0.1, 1.0)
SMALL = theorem_parameters(INPUTS, quota_constant=2, rate_constant=0.25)
TRUTH = sparse_covariance("block", 6, 2)


@pytest.fixture(scope="module")
def run():
    X = gaussian_records(TRUTH, 500)
    return run_algorithm(X, SMALL, np.random.default_rng(0))


def test_candidates_are_those_of_the_parameters(run):
    levels = SMALL.schedule.levels
    assert {level.selection_scale is None for level in levels} == {True, False}
    np.testing.assert_array_equal(np.bincount(run.level), SMALL.candidates)
    for ell, level in enumerate(levels):
        own = run.level == ell
        _, repetitions = np.unique([run.row[own], run.column[own]], axis=1, return_counts=True)
        assert set(repetitions) == {level.repetitions}
        assert len(repetitions) == 21
        assert level.threshold <= run.T[own].min() <= run.T[own].max() <= 2 * level.threshold
        assert (run.level[run.J] == ell).sum() == level.quota
    assert (run.row <= run.column).all()
    assert (np.diff(run.J) > 0).all()


def test_noise_is_drawn_for_active_tests_alone_and_the_gates_follow_from_it(run):
    S = clipped_moments(gaussian_records(TRUTH, 500), SMALL.clip_radius)
    np.testing.assert_array_equal(np.isnan(run.Z), ~run.U[run.J])
    assert np.nanmax(np.abs(run.Z)) <= 0.25
    V = S[run.row, run.column][run.J] / run.T[run.J] + np.nan_to_num(run.Z)
    gate = np.where(run.U[run.J], np.sign(V) * (np.abs(V) > 1), 0)
    np.testing.assert_array_equal(run.gate, gate)


def test_the_estimate_is_the_weighted_sum_of_the_gates(run):
    expected = np.zeros((6, 6))
    for c, gate in zip(run.J, run.gate, strict=True):  # line by line, as printed
        weight = 1 / (SMALL.gate_correction * SMALL.test_rate * SMALL.thresholds[run.level[c]])
        expected[run.row[c], run.column[c]] += weight * gate
        if run.row[c] < run.column[c]:
            expected[run.column[c], run.row[c]] += weight * gate
    np.testing.assert_allclose(run.estimate, expected, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(run.estimate, run.estimate.T)


def test_records_are_clipped():
    X = np.array([[3.0, -5.0], [1.0, 0.5]])
    np.testing.assert_array_equal(clipped_moments(X, 2.0), [[2.5, -1.75], [-1.75, 2.125]])
    run = [
        run_algorithm(f * 1e6 * np.eye(6)[:2], small(2), np.random.default_rng(1)) for f in (1, 2)
    ]
    np.testing.assert_array_equal(run[0].estimate, run[1].estimate)


def small(n_records):
    inputs = PublicInputs(n_records, 6, 2, 0.25, 1.0, 1e-6, 0.1, 1.0)
    return theorem_parameters(inputs, rate_constant=0.01)


def test_the_counts_of_a_run_are_those_of_its_transcript():
    """What tests of the samplers compare; nearly noiseless, so that they are known."""
    schedule = SCHEDULES["nearly noiseless"]
    counts = sample_literal(STATISTIC, schedule, np.random.default_rng(3))
    assert counts.shape == (2, 10)
    assert counts[1, 9] < -200  # -100 is beyond every threshold
    assert (counts[:, :2] == 0).all()


def test_with_much_data_it_finds_the_truth():
    n = 10**14
    inputs = PublicInputs(n, 6, 2, 0.25, 1.0, 1e-6, 0.1, 1.0)
    parameters = theorem_parameters(inputs, rate_constant=16)
    moments = wishart_moments(TRUTH, n).covariance
    run = run_algorithm_on_moments(moments, parameters.schedule, np.random.default_rng(4))
    assert np.linalg.norm(run.estimate - TRUTH, 2) < 0.25
    assert (run.estimate[TRUTH == 0] == 0).all()


def test_other_constants_than_the_papers_are_never_released():
    parameters = theorem_parameters(
        PublicInputs(10**14, 6, 2, 0.25, 1.0, 1e-6, 0.1, 1.0), rate_constant=16
    )
    assert not parameters.private
    assert "test_rate" in parameters.altered
    moments = wishart_moments(TRUTH, 10**14)
    with pytest.raises(PrivacyConditionError, match="Section 3"):
        release_multiscale(moments, parameters, Entropy(np.random.default_rng(0), private=False))
    with pytest.raises(ParameterError, match="rate_constant must"):
        theorem_parameters(INPUTS, rate_constant=0.0)


@pytest.mark.parametrize("n_features", [20, 50, 71])
def test_every_level_keeps_all_tests_up_to_71_features(n_features):
    inputs = PublicInputs(10**12, n_features, 3, 0.25, 1.0, 1e-6, 0.1, 1.0)
    parameters = theorem_parameters(inputs)
    assert parameters.quotas == parameters.candidates
    assert set(parameters.selection_scales) == {None}


def test_the_top_level_selects_from_72_features_on():
    inputs = PublicInputs(10**12, 72, 3, 0.25, 1.0, 1e-6, 0.1, 1.0)
    parameters = theorem_parameters(inputs)
    selecting = [b is not None for b in parameters.selection_scales]
    assert selecting == [False] * 12 + [True]


def test_what_does_not_fit_is_refused_and_the_estimator_is_named():
    parameters = theorem_parameters(INPUTS)
    with pytest.raises(CapacityError, match=r"rate_constant .* MultiscaleCovariance"):
        run_algorithm(np.zeros((500, 6)), parameters, np.random.default_rng(0))
    assert MultiscaleCovariance.__name__ in run_algorithm.__doc__
    for shape in ((499, 6), (500, 5)):
        with pytest.raises(DataError, match="500 records of 6 features"):
            run_algorithm(np.zeros(shape), SMALL, np.random.default_rng(0))
    with pytest.raises(DataError, match="6 features"):
        run_algorithm_on_moments(np.eye(5), SMALL.schedule, np.random.default_rng(0))
    assert math.isfinite(SMALL.gate_noise)
