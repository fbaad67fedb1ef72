"""Row-wise top-k: sensitivities are bounds and attained, selection and noise have their laws."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fit.settings import inputs_for, neighbouring_records, seeded, small_rows
from hushcov.calibration import calibrate_gaussian, calibrate_zcdp
from hushcov.exceptions import CapacityError
from hushcov.kernel.accounting import Gaussian
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.sums.gram import row_bounded_gram
from hushcov.simulate import gaussian_records, sparse_covariance
from hushcov.tables.sources import open_records
from hushcov_lab.peers.queries import (
    EntriesAndSquares,
    clipped_gram,
    complete_groups,
    values_squared_sensitivity,
)
from hushcov_lab.peers.row_top_k import (
    measure_values,
    mutual_pairs,
    pick_partners,
    release_row_top_k,
    row_top_k_parameters,
)
from sessions import certified, unlimited
from statistics_helpers import FALSE_ALARM, chi_square_p_value, normal_p_value

# Sensitivity


def all_graphs(d):
    pairs = list(itertools.combinations(range(d), 2))
    for chosen in itertools.product((False, True), repeat=len(pairs)):
        yield [pair for pair, there in zip(pairs, chosen, strict=True) if there]


@pytest.mark.parametrize(
    ("d", "h", "attained"), [(1, 3, 1), (2, 3, 2), (3, 2, 8), (4, 1, 64), (5, 1, 987)]
)
def test_the_bound_on_values_is_the_maximum_over_all_rows(d, h, attained):
    """For every set of pairs, by all pairs of integer rows; for some cycles of odd length above."""

    rows = small_rows(d, h)
    first, second = np.triu_indices(len(rows))

    def squared_change(i, j):
        products = rows[:, i] * rows[:, j]
        return ((products[first] - products[second]) ** 2).astype(np.int32)

    squares = sum(squared_change(i, i) for i in range(d))
    products = {pair: squared_change(*pair) for pair in itertools.combinations(range(d), 2)}
    found = 0
    for graph in all_graphs(d):
        largest = int(np.max(sum((products[pair] for pair in graph), squares)))
        bound = values_squared_sensitivity(d, h, graph)
        assert largest <= bound
        found += largest == bound
    assert found == attained


@pytest.mark.parametrize(
    ("d", "pairs", "units"),
    [
        (5, [], 5),
        (5, [(0, 1)], 4 + 3),  # the squares of a pair are free
        (6, [(0, 1), (1, 2), (2, 3)], 12 + 2),  # a path
        (3, [(0, 1), (0, 2), (1, 2)], 8),  # no triangle is cut everywhere
        (5, list(itertools.combinations(range(5), 2)), 24),
        (10, [(a + s, b + s) for s in (0, 5) for a, b in itertools.combinations(range(5), 2)], 48),
    ],
)
def test_the_bound_counts_groups_pairs_and_lone_features(d, pairs, units):
    assert values_squared_sensitivity(d, 7, pairs) == units * 7**4


@settings(deadline=None, max_examples=200)
@given(st.sets(st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda p: p[0] < p[1])))
def test_groups_hold_every_pair_once_and_no_other(pairs):
    found = [pair for group in complete_groups(pairs) for pair in itertools.combinations(group, 2)]
    assert sorted(tuple(sorted(pair)) for pair in found) == sorted(pairs)


def test_a_score_moves_by_twice_the_squared_half_width():
    """And in one row one of them rises by that while another falls by it."""
    h = 3
    rows = small_rows(2, h)
    products = rows[:, 0] * rows[:, 1]
    p = replace(row_top_k_parameters(inputs_for()), half_width=h)
    assert np.max(np.abs(np.subtract.outer(products, products))) == p.score_sensitivity == 2 * h**2
    others = np.array([[50, 50, 0], [0, 50, -50]])
    before, after = np.array([h, h, h]), np.array([h, -h, h])
    first, second = (np.abs(others.T @ others + np.outer(row, row)) for row in (before, after))
    assert list((second - first)[1]) == [-2 * h**2, 0, 2 * h**2]


@settings(deadline=None, max_examples=40)
@given(pair=neighbouring_records(), half_width=st.integers(1, 300), data=st.data())
def test_replacing_a_record_never_exceeds_the_sensitivities(pair, half_width, data):
    """Through the records layer, with other records around, in exact arithmetic."""
    x, y = pair
    every = list(itertools.combinations(range(len(x)), 2))
    pairs = sorted(data.draw(st.sets(st.sampled_from(every)))) if every else []
    grid = FeatureGrid(np.ones(len(x)), 3.0, half_width)
    rest = np.random.default_rng(0).standard_normal((5, len(x)))
    first, second = (
        row_bounded_gram(open_records(np.vstack([rest, record])), grid, None) for record in (x, y)
    )
    assert np.max(np.abs(np.abs(first) - np.abs(second))) <= 2 * half_width**2
    entries = [*pairs, *((i, i) for i in range(len(x)))]
    moved = sum((int(first[e]) - int(second[e])) ** 2 for e in entries)
    assert moved <= values_squared_sensitivity(len(x), half_width, pairs)


# Parameters


@pytest.mark.parametrize(("d", "k"), [(1, 1), (5, 1), (5, 2), (5, 5), (200, 5), (1000, 40)])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 1e-9), (1.0, 1e-6), (10.0, 0.01)])
def test_selections_and_values_share_the_budget(d, k, epsilon, delta):
    inputs = inputs_for(n_features=d, row_sparsity=k, epsilon=epsilon, delta=delta)
    p = row_top_k_parameters(inputs)
    guarantee = p.budget().certificate
    assert guarantee.events[:-1] == p.picked
    assert guarantee.events[-1].mu == pytest.approx(p.mu)
    if 1 < k < d:
        selection, values = p.events
        assert selection.count == d * (k - 1)
        assert selection.eta == pytest.approx(4 * p.half_width**2 * p.rate, rel=1e-12, abs=0)
        rho = selection.count * selection.eta**2 / 8
        assert rho / (rho + values.mu**2 / 2) == pytest.approx(0.65, rel=1e-6, abs=0)
        assert rho + values.mu**2 / 2 == pytest.approx(
            calibrate_zcdp(epsilon, delta), rel=0.3, abs=0
        )
    else:  # nothing is selected by data, and the exact curve is used up
        assert p.events == (Gaussian(p.mu),)
        assert p.mu == pytest.approx(calibrate_gaussian(epsilon, delta), rel=2e-6, abs=0)


def test_sizes_that_integers_do_not_hold_are_refused():
    with pytest.raises(CapacityError, match=r"2\*\*53"):
        row_top_k_parameters(inputs_for(n_records=2**53 + 1))
    with pytest.raises(CapacityError, match="larger budget"):
        row_top_k_parameters(inputs_for(n_features=10**9, epsilon=1e-6, delta=1e-9))
    p = row_top_k_parameters(inputs_for(n_records=2**53))
    assert p.half_width == 1
    for n in (1, 10**5, 10**12):
        assert n * row_top_k_parameters(inputs_for(n_records=n)).half_width ** 2 <= 2**53


def test_the_noise_is_the_least_for_the_pairs_at_hand():
    """Fewer pairs, less noise, at the same mu; and never more than the sampler can draw."""
    p = row_top_k_parameters(inputs_for(n_features=40, row_sparsity=4, epsilon=1e-3))
    rows, columns = np.triu_indices(40, 1)
    gram = clipped_gram(FeatureGrid(np.ones(40), p.radius, p.half_width))

    def value_sigma(*chosen):
        return EntriesAndSquares(gram, chosen).deviations(p.mu, p.inputs.neighbours)[0]

    for number in (0, 1, 10, 60):
        chosen = rows[:number], columns[:number]
        sigma = value_sigma(*chosen)
        square = values_squared_sensitivity(40, p.half_width, zip(*chosen, strict=True))
        assert (
            Fraction(square, sigma**2) <= Fraction(p.mu) ** 2 < Fraction(square, (sigma - 1) ** 2)
        )
        assert sigma <= 2**40
    star = np.zeros(39, dtype=np.int64), np.arange(1, 40)
    assert value_sigma(*star) > value_sigma(star[0][:5], star[1][:5])


# Laws


GRID = FeatureGrid(np.ones(8), 1.0, 1)


def ring():
    """A Gram matrix in which every row has two strong neighbours and several weak columns."""
    gram = np.random.default_rng(1).integers(-20, 20, (8, 8))
    gram += gram.T
    for i in range(8):
        for j, size in ((i + 1, 110), (i - 1, 110 if i % 2 else -90)):
            gram[i, j % 8] = gram[j % 8, i] = size
    np.fill_diagonal(gram, 1000)
    return gram


def peeled(scores, rate, count):
    """Probabilities of all sets that rounds of the exponential mechanism pick, by enumeration."""
    weights, law = np.exp(rate * np.asarray(scores, float)), {}
    for order in itertools.permutations(range(len(scores)), count):
        probability, left = 1.0, weights.sum()
        for item in order:
            probability *= weights[item] / left
            left -= weights[item]
        law[frozenset(order)] = law.get(frozenset(order), 0.0) + probability
    return law


@pytest.mark.parametrize("k", [2, 3])
def test_rows_pick_by_the_exponential_mechanism(k):
    """The same test rejects rates that are 10 % wrong."""
    runs, rate, gram = 600, 0.04, ring()
    p = row_top_k_parameters(inputs_for(n_features=8, row_sparsity=k))
    p = replace(p, rate=rate)
    session, query = unlimited(np.zeros((1, 8)), seeded(3)), clipped_gram(GRID)
    session._hold(query, gram)
    counts = np.zeros((8, 2**8))
    for _ in range(runs):
        picked = pick_partners(session, query, p)
        counts[np.arange(8), picked @ 2 ** np.arange(8)] += 1

    def p_values(rate):
        """Of all counts, and of the picked scores' sum, which says most about the rate."""
        expected, excess, variance = np.zeros((8, 2**8)), 0.0, 0.0
        for i in range(8):
            others = np.delete(np.arange(8), i)
            scores = np.abs(gram[i, others])
            total = np.zeros(2**8)
            for subset, probability in peeled(scores, rate, k - 1).items():
                code = sum(2 ** others[list(subset)])
                expected[i, code], total[code] = probability / 8, scores[list(subset)].sum()
            mean = 8 * expected[i] @ total
            excess += counts[i] @ (total - mean)
            variance += runs * 8 * expected[i] @ (total - mean) ** 2
        assert not counts[expected == 0].any()
        order = np.argsort(expected[expected > 0])
        # That the totals of rows are fixed makes the first one cautious.
        shape = chi_square_p_value(counts[expected > 0][order], expected[expected > 0][order])
        return shape, normal_p_value(excess / math.sqrt(variance))

    assert min(p_values(rate)) > FALSE_ALARM
    for wrong in (0.9, 1.1):
        assert p_values(rate * wrong)[1] < FALSE_ALARM


# Release


SCALE = np.array([1, 2, 3, 0.5, 1, 1])


@pytest.fixture(scope="module")
def sample():
    truth = sparse_covariance("block", 6, 3)
    return gaussian_records(truth / truth[0, 0], 10_000) * SCALE


def test_the_release_has_the_mutual_pairs_and_the_diagonal(sample):
    p = row_top_k_parameters(inputs_for())
    release = release_row_top_k(certified(open_records(sample), p, seeded()), SCALE, p)
    session = certified(open_records(sample), p, seeded())
    gram = clipped_gram(FeatureGrid(SCALE, p.radius, p.half_width))
    picked = pick_partners(session, gram, p)
    assert list(picked.sum(axis=1)) == [2] * 6
    rows, columns = mutual_pairs(picked)
    sigma, integers = measure_values(session, gram, (rows, columns))
    np.testing.assert_array_equal(release.integers, integers)
    exact = row_bounded_gram(open_records(sample), gram.grid, None)
    assert np.abs(integers - exact)[release.released].max() < 6 * sigma
    np.testing.assert_array_equal(release.released, picked & picked.T | np.eye(6, dtype=bool))
    np.testing.assert_array_equal(release.selected, [rows, columns])
    assert np.all(rows < columns)
    assert not release.integers[~release.released].any()
    np.testing.assert_array_equal(release.integers, release.integers.T)
    assert release.mechanism == "row-top-k"
    assert release.unit == (p.radius / p.half_width) ** 2 / 10_000
