"""What is released of genotypes has the law that it should have, about the sample's LD."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from genotypes.literal import LiteralGenotypes, linked_genotypes
from genotypes.settings import KINDS, planned, seeded
from hushcov.genotypes import mechanism
from hushcov.genotypes import mechanism as public
from hushcov.genotypes.mechanism import release_genotypes
from hushcov.genotypes.reading import open_genotypes
from statistics_helpers import FALSE_ALARM

N, D, WIDTH = 2000, 300, 12


@pytest.fixture(scope="module")
def table():
    return linked_genotypes(N, D, 5)


def scores(release, table, means):
    """Released values less those of the sample, in deviations of their noise."""
    rows, columns = release.selected
    scale, matrix = release.feature_scale, release.covariance()
    about = table - means
    exact = about.T @ about / len(table)
    pairs = matrix[rows, columns] - exact[rows, columns]
    pairs = pairs / (scale[rows] * scale[columns] * release.noise_sd[0])
    own = (matrix.diagonal() - exact.diagonal()) / (scale**2 * release.noise_sd[1])
    return np.asarray(pairs), own


def spread_p_value(z):
    """Two-sided p-value of the sum of squares of standard normal scores."""
    tail = stats.chi2.cdf(float(z @ z), len(z))
    return 2 * min(tail, 1 - tail)


def keep_all(monkeypatch):
    """A squared norm of 32 times the usual one, which nobody has here."""
    monkeypatch.setattr(mechanism, "chosen_bin", lambda *_: 88)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", [None, 100])
def test_noise_has_the_size_that_is_said(monkeypatch, table, kind, block):
    """Nobody left out, means known: what is left is noise. 10 % more or less are rejected."""
    keep_all(monkeypatch)
    parameters = planned(N, D, WIDTH, neighbours=KINDS[kind], known=True, block=block)
    frequencies = table.mean(axis=0) / 2
    release = release_genotypes(
        open_genotypes(table), parameters, seeded(3), frequencies=frequencies
    )
    z = np.concatenate(scores(release, table, 2 * frequencies))
    assert spread_p_value(z) > FALSE_ALARM
    assert abs(z.mean()) * np.sqrt(len(z)) < stats.norm.isf(FALSE_ALARM / 2)
    assert spread_p_value(1.1 * z) < FALSE_ALARM
    assert spread_p_value(0.9 * z) < FALSE_ALARM


def test_means_that_are_found_and_missing_calls_leave_no_bias(monkeypatch, table):
    """Pairs and variances, on average over all of them; a forgotten share of calls is rejected."""
    keep_all(monkeypatch)
    gaps = table.copy()
    gaps[np.random.default_rng(1).random(table.shape) < 0.3] = np.nan
    parameters = planned(N, D, WIDTH, epsilon=10.0)

    def bias(records):
        release = release_genotypes(open_genotypes(records), parameters, seeded(4))
        return [
            abs(z.mean()) * np.sqrt(len(z)) / z.std()
            for z in scores(release, table, table.mean(axis=0))
        ]

    limit = stats.norm.isf(FALSE_ALARM / 4)
    assert max(bias(table)) < limit
    assert max(bias(gaps)) < limit
    monkeypatch.setattr(mechanism, "call_shares", lambda calls, *_: np.ones(len(calls)))
    assert max(bias(gaps)) > limit


@pytest.mark.parametrize("options", [{}, {"block": 7}, {"neighbours": KINDS["add-remove"]}])
def test_packed_records_give_the_release_of_their_definition(options):
    table = linked_genotypes(200, 30, 2, missing=0.1)
    parameters = planned(200, 30, 4, epsilon=8.0, **options)
    packed = release_genotypes(open_genotypes(table), parameters, seeded(1))
    assert packed == release_genotypes(LiteralGenotypes(table), parameters, seeded(1))


def test_few_records_are_left_out_and_correlations_are_close(table):
    """By the real bound: the noise is near the plan, and correlations near those of the sample."""
    parameters = planned(N, D, WIDTH, epsilon=8.0)
    release = release_genotypes(open_genotypes(table), parameters, seeded(2))
    assert release.making.shrunk < 0.1
    assert 0.5 < release.noise_sd[0] / parameters.noise < 1.5
    matrix, (rows, columns) = release.covariance(), release.selected
    own = np.sqrt(matrix.diagonal())
    errors = matrix[rows, columns] / (own[rows] * own[columns])
    errors = errors - np.corrcoef(table.T)[rows, columns]
    assert np.sqrt(np.mean(errors**2)) < 2 * release.noise_sd[0]
    mean_error = (release.location - table.mean(axis=0)) * N / parameters.count_sigma
    assert spread_p_value(mean_error) > FALSE_ALARM
    assert spread_p_value(1.5 * mean_error) < FALSE_ALARM


def test_scales_are_floored_and_values_stay_small():
    variants = public.Variants.unknown(5, 0.0)
    variants.fill(np.ones(5), np.array([0.0, 1e-9, 0.02, 1.0, 2.0]))
    values = [abs(g * variants.slopes - variants.offsets).max() for g in range(3)]
    assert max(values) < 2**10
    assert variants.slopes[0] == variants.slopes[1] > variants.slopes[2] > variants.slopes[3]
    noisy = public.Variants.unknown(1, 0.2)  # a frequency of 0.2 at least, by its noise
    noisy.fill(np.ones(1), np.array([0.01]))
    assert noisy.slopes[0] == round(32 / np.sqrt(2 * 0.2 * 0.8))


def test_calls_are_drawn_to_their_mean_where_they_are_noise():
    rng = np.random.default_rng(0)
    alike = public.call_shares(np.rint(900 + 50 * rng.standard_normal(500)), 50, 1000)
    assert np.ptp(alike) < 0.05
    apart = public.call_shares(np.where(np.arange(500) % 2, 500, 900), 5, 1000)
    assert sorted(set(apart.round(2))) == [0.5, 0.9]


def test_a_bound_without_evidence_is_the_usual_one():
    parameters = planned(100, 20, 3)
    edges = parameters.edges(0)
    usual = int(edges[48])
    nothing = public.chosen_bin(np.zeros(len(edges) + 1, dtype=int), 50, edges, usual, 1e-6)
    assert edges[nothing] >= 2 * usual > edges[nothing - 1]
    counts = np.zeros(len(edges) + 1, dtype=int)
    counts[40:50] = 20_000 / 2 ** np.arange(10)
    # With no noise to speak of everybody is kept; with much of it fewer are.
    assert public.chosen_bin(counts, 1, edges, usual, 1e-12) == 49
    assert 40 <= public.chosen_bin(counts, 1, edges, usual, 1e-3) < 49
