"""PACE-GGM: sensitivities are bounds and attained, selection has its law, completion is right."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize

from estimators.settings import fit
from fit.settings import inputs_for, seeded, small_rows
from hushcov import PaceCovariance
from hushcov.calibration import calibrate_gaussian
from hushcov.exceptions import CapacityError
from hushcov.kernel import session
from hushcov.kernel.accounting import ADD_REMOVE, BoundedRange, Gaussian, Neighbours
from hushcov.kernel.grids import FeatureGrid
from hushcov.simulate import gaussian_records, structured_covariance
from hushcov.tables.sources import open_records
from hushcov_lab.peers.pace import (
    SELECTION_SHARE,
    VARIANCE_SHARE,
    Completion,
    expected_sums,
    pace_parameters,
    release_pace,
)
from hushcov_lab.peers.queries import Surprises, clipped_gram
from sessions import certified, unlimited
from statistics_helpers import FALSE_ALARM, normal_p_value

REMOVED = Neighbours(ADD_REMOVE)

# Sensitivity


@pytest.mark.parametrize(("relation", "moved"), [(Neighbours(), 2), (REMOVED, 1)])
def test_entries_and_scores_move_by_their_sensitivity_at_most(relation, moved):
    """By all pairs of integer rows, around expected values on both sides and between."""
    h = 3
    rows = small_rows(2, h)
    products = rows[:, 0] * rows[:, 1]
    changed = np.zeros(1, dtype=np.int64) if relation is REMOVED else products
    p = replace(pace_parameters(inputs_for(neighbours=relation)), half_width=h)
    widest = np.max(np.abs(np.subtract.outer(products, changed)))
    assert widest == p.entry_sensitivity == moved * h**2
    for others, expected in itertools.product((-40, 0, 40), (-35, 0, 7)):
        scores = [np.abs(others + each - expected) for each in (products, changed)]
        assert np.max(np.abs(np.subtract.outer(*scores))) <= p.entry_sensitivity


@pytest.mark.parametrize("d", [1, 2, 3])
def test_squares_move_by_their_sensitivity_at_most(d):
    h = 2
    squares = small_rows(d, h) ** 2
    moved = np.sum((squares[:, None] - squares) ** 2, axis=2)
    p = replace(pace_parameters(inputs_for(n_features=d, row_sparsity=1)), half_width=h)
    assert np.max(moved) == d * h**4
    share = 1.0 if d == 1 else VARIANCE_SHARE
    assert math.sqrt(d) * h**2 / p.variance_sigma <= math.sqrt(share) * p.mu


# Parameters


@pytest.mark.parametrize("d", [1, 2, 6, 200])
@pytest.mark.parametrize("relation", [Neighbours(), REMOVED])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 1e-9), (1.0, 1e-6), (10.0, 0.01)])
def test_selections_and_values_share_the_budget(d, relation, epsilon, delta):
    inputs = inputs_for(
        n_features=d, row_sparsity=1, epsilon=epsilon, delta=delta, neighbours=relation
    )
    p = pace_parameters(inputs)
    if d == 1:
        assert p.events == (Gaussian(p.mu),)
        assert p.mu == pytest.approx(calibrate_gaussian(epsilon, delta), rel=2e-6, abs=0)
        return
    (selection, values) = p.events
    assert isinstance(selection, BoundedRange)
    assert selection.count == p.n_rounds
    rho = selection.count * selection.eta**2 / 8
    assert rho / (rho + values.mu**2 / 2) == pytest.approx(SELECTION_SHARE, rel=1e-6, abs=0)
    variances = d * p.half_width**4 / p.variance_sigma**2
    entries = p.n_rounds * p.entry_sensitivity**2 / p.entry_sigma**2
    assert variances + entries <= values.mu**2  # what the noise spends is what is charged
    assert variances + entries > 0.99 * values.mu**2


def test_more_rounds_where_there_is_less_noise_and_never_more_than_pairs():
    few, many = (
        pace_parameters(inputs_for(n_features=40, row_sparsity=1, epsilon=epsilon)).n_rounds
        for epsilon in (0.1, 10.0)
    )
    assert 40 <= few < many == 16 * 40
    assert pace_parameters(inputs_for(epsilon=10.0)).n_rounds == 15
    assert pace_parameters(inputs_for(), n_rounds=99).n_rounds == 99


def test_sizes_that_integers_do_not_hold_are_refused():
    with pytest.raises(CapacityError, match="fewer records"):
        pace_parameters(inputs_for(n_records=2**53))
    for n in (1, 10**5, 10**12):
        assert 2 * n * pace_parameters(inputs_for(n_records=n)).half_width ** 2 <= 2**53


# Laws


def test_pairs_are_picked_by_the_exponential_mechanism():
    """One of two far pairs half of the time, 298 others else; rates 10 % wrong are rejected."""
    far, others, runs = 45, 298, 700
    exact, expected = np.full(others + 2, -7), np.full(others + 2, -7.3)
    exact[0], expected[-1] = far - 7, far - 7.2  # above and below what is expected
    rate = math.log(others / 2) / far
    p = pace_parameters(inputs_for(n_features=25, n_records=50, row_sparsity=1))
    p = replace(p, rate=rate, half_width=5)
    gram = clipped_gram(FeatureGrid(np.ones(25), 1.0, 5))
    access, sums = unlimited(np.zeros((1, 25)), seeded(3)), np.zeros((25, 25), dtype=np.int64)
    sums[np.triu_indices(25, 1)] = exact
    access._hold(gram, sums)
    query = Surprises(gram, expected_sums(expected / p.whole, p))
    event = BoundedRange(access.selection_range(query, rate), runs)
    selections = access.reserve_selections(event, rate, "pairs")
    picked = [int(selections.select(query, 1)[0]) for _ in range(runs)]

    def p_value(rate):
        chance = 2 / (2 + others * math.exp(-rate * far))
        found = np.isin(picked, (0, others + 1)).sum() - runs * chance
        return normal_p_value(float(found) / math.sqrt(runs * chance * (1 - chance)))

    assert p_value(rate) > FALSE_ALARM
    for wrong in (0.9, 1.1):
        assert p_value(rate * wrong) < FALSE_ALARM
    first = picked.count(0)
    assert normal_p_value((2 * first / (first + picked.count(others + 1)) - 1) * 18) > FALSE_ALARM


def test_what_was_measured_is_measured_with_the_noise_that_was_charged(monkeypatch):
    drawn, right = [], session.rounded_normal

    def watched(generator, sigma, size):
        drawn.append((sigma, size))
        return right(generator, sigma, size)

    monkeypatch.setattr(session, "rounded_normal", watched)
    p = pace_parameters(inputs_for(n_records=500), n_rounds=7)
    records = open_records(np.random.default_rng(0).standard_normal((500, 6)))
    release = release_pace(certified(records, p, seeded()), np.ones(6), p)
    assert [size for _, size in drawn] == [6] + 7 * [1]
    assert drawn[0][0] == release.parameters["variance_sigma"]
    assert {sigma for sigma, _ in drawn[1:]} == {release.parameters["entry_sigma"]}
    spent = 6 * p.half_width**4 / drawn[0][0] ** 2
    spent += sum(p.entry_sensitivity**2 / sigma**2 for sigma, _ in drawn[1:])
    assert spent <= release.guarantee.events[-1].mu ** 2


# Completion


def completion(matrix, known, noise):
    made = Completion(np.diag(matrix).copy(), noise)
    for i, j in zip(*np.nonzero(np.triu(known, 1)), strict=True):
        made.add((int(i), int(j)), matrix[i, j], noise)
    made.solve(200)
    return made.covariance


def test_a_chain_is_completed_from_its_neighbours():
    """The tridiagonal part of an autoregression has rho^|i - j| as its completion."""
    d = 12
    distance = np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    for rho in (0.3, -0.6, 0.95):
        truth = rho**distance
        np.testing.assert_allclose(completion(truth, distance <= 1, 1e-14), truth, atol=1e-5)


def test_hubs_and_cycles_are_graphical_models():
    """Known entries are met, and the inverse is zero elsewhere: no other matrix has both."""
    truth = structured_covariance("wishart", 9, random_state=3)
    known = np.eye(9, dtype=bool)
    for i, j in [(0, 1), (1, 2), (2, 3), (3, 0), (0, 5), (0, 6), (0, 7), (7, 8)]:
        known[i, j] = known[j, i] = True
    found = completion(truth, known, 1e-13)
    np.testing.assert_allclose(found[known], truth[known], atol=1e-5)
    np.testing.assert_allclose(np.linalg.inv(found)[~known], 0.0, atol=1e-8)


def test_noisy_entries_give_the_least_of_the_objective():
    """Against a minimiser that knows no gradient, for values that no covariance has."""
    values = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.8], [-0.9, 0.8, 1.0]])
    noise, upper = 0.04, np.triu_indices(3)
    found = completion(values, np.ones((3, 3), dtype=bool), noise)
    assert np.linalg.eigvalsh(values)[0] < 0 < np.linalg.eigvalsh(found)[0]

    def objective(entries):
        matrix = np.zeros((3, 3))
        matrix[upper] = entries
        matrix = matrix + np.triu(matrix, 1).T
        sign, size = np.linalg.slogdet(matrix)
        if sign <= 0 or np.linalg.eigvalsh(matrix)[0] <= 0:
            return 1e6
        return -size + np.sum((matrix - values)[upper] ** 2) / (2 * noise)

    options = {"maxiter": 4000, "xatol": 1e-8, "fatol": 1e-12}
    best = optimize.minimize(objective, np.eye(3)[upper], method="Nelder-Mead", options=options)
    assert objective(found[upper]) <= best.fun + 1e-9
    np.testing.assert_allclose(found[upper], best.x, atol=1e-4)


def test_two_measurements_of_an_entry_are_averaged_by_their_noise():
    one, two = (Completion(np.ones(2), 1e-6) for _ in range(2))
    one.add((0, 1), 0.6, 1e-4)
    one.add((0, 1), 0.2, 3e-4)
    two.add((0, 1), 0.5, 0.75e-4)
    for made in (one, two):
        made.solve(100)
    np.testing.assert_allclose(one.covariance, two.covariance, atol=1e-9)


@pytest.mark.parametrize("variances", [[-1.0, 2.0], [0.0, 0.0], [1e-12, 1e6]])
def test_odd_variances_still_have_a_solution(variances):
    made = Completion(np.array(variances), 0.01)
    made.add((0, 1), 50.0, 0.01)
    made.solve(200)
    assert np.isfinite(made.covariance).all()
    assert np.linalg.eigvalsh(made.covariance)[0] > 0


# Estimator


def test_much_budget_recovers_the_covariance_and_loose_pairs_cost_nothing():
    truth = structured_covariance("ar-0.8", 8)
    X = gaussian_records(truth, 200_000)
    options = {"epsilon": 10.0, "delta": 1e-8, "assume_centered": True, "radius": 1.0}
    est = fit(PaceCovariance(**options, feature_scale=5.0), X)
    sample = X.T @ X / len(X)
    np.testing.assert_allclose(est.covariance_, sample, atol=0.02)
    few = fit(PaceCovariance(**options, feature_scale=5.0, n_rounds=7), X)
    assert few.measured_.sum() <= 8 + 14
    assert np.linalg.norm(few.covariance_ - sample) < 0.35 * np.linalg.norm(sample - np.eye(8))


def test_pairs_that_were_not_measured_have_no_partial_correlation():
    X = gaussian_records(structured_covariance("ar-0.5", 8), 50_000)
    est = fit(PaceCovariance(epsilon=5.0, delta=1e-6, n_rounds=9), X)
    assert not est.measured_.all()
    scale = np.sqrt(np.diag(est.covariance_))
    precision = np.linalg.inv(est.covariance_ / np.outer(scale, scale))
    np.testing.assert_allclose(precision[~est.measured_], 0.0, atol=1e-3)
