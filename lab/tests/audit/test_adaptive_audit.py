"""Attacks on the adaptive release: mistakes in its parts, and in what decides, are found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exact_sums import norm_histogram
from hushcov.fit.adaptive import mechanism as adaptive
from hushcov.fit.adaptive import pairs
from hushcov.fit.adaptive.pairs import Ladder
from hushcov.fit.norms import choose_norm, squared_norms
from hushcov.fit.preparation import HALF_WIDTH, WIDEST
from hushcov.kernel import queries, session
from hushcov.kernel.accounting import Budget, Clocked, Gaussian, gaussian_delta
from hushcov.kernel.grids import FeatureGrid
from hushcov_lab.audit.attack import promised
from hushcov_lab.audit.run import attacks_on, run_attack
from statistics_helpers import FALSE_ALARM, short_and_long

# Audits need many runs; one pair of neighbours finds a fault of each kind in lab/tests/replay.
pytestmark = pytest.mark.slow


def attacked(mechanism, pair, runs):
    """A claim that is kept survives, but for one time in a million."""
    attack = next(each for each in attacks_on(mechanism) if each.name == pair)
    return run_attack(replace(attack, slowness=1), runs, FALSE_ALARM, seed=4)


def test_the_claim_is_a_gaussian_curve_and_being_late():
    promise = promised(4.0, 1e-5, (Gaussian(0.3), Clocked(0.8, 1e-7), Clocked(0.1, 1e-8)))
    assert promise.gaussian
    assert promise.late == 1e-7 + 1e-8
    assert promised(4.0, 1e-5, (Gaussian(0.3),)).late == 0
    for attack in attacks_on("adaptive-looks"):
        (event,) = attack.target.parameters.budget().certificate.events
        assert gaussian_delta(event.mu, 4.0) + event.late <= 1e-5


@pytest.mark.parametrize(
    ("mechanism", "pair", "runs", "least"),
    [
        ("adaptive-looks", "sign flips", 500, 0.1),
        ("adaptive-signs", "sign flips", 1_000, 0.1),
        ("adaptive-tilted-signs", "sign flips", 1_000, 0.0),
        pytest.param("adaptive-signs", "sign flips", 10_000, 0.6, marks=pytest.mark.slow),
        pytest.param("adaptive-looks", "axes", 10_000, 0.7, marks=pytest.mark.slow),
        pytest.param(
            "adaptive-values", "pair among real ones", 10_000, 0.6, marks=pytest.mark.slow
        ),
        pytest.param("adaptive-ladder", "tied pairs", 6_000, 0.3, marks=pytest.mark.slow),
        pytest.param("adaptive-ladder", "all scores", 2_000, 0.0, marks=pytest.mark.slow),
        pytest.param("adaptive", "sign flips", 1_000, 0.1, marks=pytest.mark.slow),
    ],
)
def test_claims_survive_and_a_fair_share_of_them_is_measured(mechanism, pair, runs, least):
    result = attacked(mechanism, pair, runs)
    assert result.survives
    assert result.ratio >= least


def test_noise_of_the_last_look_is_too_small(monkeypatch):
    correct = adaptive.WholeMatrix.measure
    moved = queries.squared_sensitivity

    def look(self, mu):
        with monkeypatch.context() as patch:
            if self.mean.any():
                patch.setattr(queries, "squared_sensitivity", lambda *args: moved(*args) / 9)
            correct(self, mu)

    monkeypatch.setattr(adaptive.WholeMatrix, "measure", look)
    assert not attacked("adaptive-looks", "sign flips", 300).survives


def test_noise_of_the_look_at_signs_is_too_small(monkeypatch):
    correct = queries.PairSigns.squared_distance
    less = lambda query, relation: correct(query, relation) // 9  # noqa: E731
    monkeypatch.setattr(queries.PairSigns, "squared_distance", less)
    assert not attacked("adaptive-signs", "sign flips", 1_000).survives


@short_and_long("times", 4, 2)
def test_noise_of_the_second_values_is_too_small(monkeypatch, times):
    correct, calls, runs = pairs.release_values, [], {4: 250, 2: 4000}[times]
    moved = queries.bounded_products

    def values(session, products, mu):
        calls.append(mu)
        with monkeypatch.context() as patch:
            if len(calls) % 2 == 0:
                patch.setattr(queries, "bounded_products", lambda *a: moved(*a) // times**2)
            return correct(session, products, mu)

    monkeypatch.setattr(pairs, "release_values", values)
    assert not attacked("adaptive-values", "pair among real ones", runs).survives


def test_rungs_are_not_charged(monkeypatch):
    """The ladder goes on until its noise is small, and every pick shows which record it was."""
    monkeypatch.setattr(Budget, "step_time", lambda *_: 1e-9)
    assert not attacked("adaptive-ladder", "tied, few records", 240).survives


@short_and_long("times", 8, 3)
def test_noise_of_selections_is_too_small(monkeypatch, times):
    correct, runs = session.gumbel_top, {8: 160, 3: 2000}[times]

    def top(generator, scores, rate, count):
        return correct(generator, scores, times * rate, count)

    monkeypatch.setattr(session, "gumbel_top", top)
    assert not attacked("adaptive-ladder", "tied pairs", runs).survives


def test_a_rung_decides_by_its_true_scores(monkeypatch):
    correct = Ladder._note

    def note(self, size, mean):
        best = max(int(score) for score in self._session._scores(self._scores))
        correct(self, size, float(best))

    monkeypatch.setattr(Ladder, "_note", note)
    assert not attacked("adaptive-ladder", "all scores", 150).survives


@pytest.mark.slow
def test_the_last_look_is_bounded_by_the_true_norms(monkeypatch):
    """All others are zero, so that the largest norm is that of the replaced record, or none."""

    def look(run, probe):
        grid = FeatureGrid(run.scale, WIDEST, HALF_WIDTH)
        access = run.session
        counts = norm_histogram(session.unwrap(access)[0], grid, squared_norms(grid, run.d))
        run.norm = choose_norm(100 * counts, 1, access.n_records, run.d, access.mu_left)
        whole = run.matrix()
        whole.measure(access.mu_left)
        return whole

    monkeypatch.setattr(adaptive, "_measure_whole", look)
    assert not attacked("adaptive", "huge or zero", 200).survives
