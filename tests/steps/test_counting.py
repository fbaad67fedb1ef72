"""The number of records, released before all else where it is not public."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from hushcov.accounting import ADD_REMOVE, REPLACE, Neighbours, Pure
from hushcov.noise import Entropy
from hushcov.peers import eigen_sampling, separate
from hushcov.steps.counting import Counting, most_rows, release_most_rows
from hushcov.tables.sources import ArrayRecords
from hushcov.tables.units import Units

SIZES = (1, 2, 3, 5, 8)


def seeded(seed=0):
    return Entropy(np.random.default_rng(seed), private=False)


def table(n_rows=19):
    return ArrayRecords(np.arange(2.0 * n_rows).reshape(n_rows, 2))


def units():
    return Units.of(np.repeat(np.arange(len(SIZES)), SIZES), sum(SIZES))


def test_what_is_charged_is_what_the_noise_costs_whatever_the_records():
    counting = Counting(2.0, Neighbours(ADD_REMOVE))
    guarantee = counting.budget().certificate
    assert guarantee.events == (Pure(0.04),)
    assert (guarantee.epsilon, guarantee.delta) == (0.04, 0.0)
    assert guarantee.adjacency == "add-remove-one"
    assert guarantee.epsilon + counting.left < 2.0
    chosen = Counting(2.0, Neighbours(REPLACE, unit="patient"), chooses=True)
    assert [event.epsilon for event in chosen.budget().certificate.events] == [0.02, 0.04]
    assert chosen.budget().certificate.epsilon + chosen.left < 2.0


@pytest.mark.parametrize("most", [1, 2, 4])
def test_the_count_is_that_of_bounded_units_and_its_noise_grows_with_the_bound(most):
    counting = Counting(1.0, Neighbours(REPLACE, most, "patient"))
    found = counting.run(table(), units(), counting.budget(), seeded())
    assert found.scale == math.ceil(most / 0.02)
    rows = sum(min(size, most) for size in SIZES)
    assert found.records.n_rows == rows
    assert found.records.n_records == found.released >= 1
    assert found.guarantee.rows_per_unit == most


def test_the_law_of_the_count():
    """Chi-square over the quartiles of a Laplace law, false alarms 1e-6; a scale off by 10 % is not
    that law."""
    counting = Counting(1.0, Neighbours(ADD_REMOVE))
    records, entropy = table(100_000), seeded(7)
    runs = (counting.run(records, None, counting.budget(), entropy) for _ in range(4000))
    noise = np.array([run.released - 100_000 for run in runs])

    def p_value(scale):
        edges = scale * np.log(2) * np.array([-2, -1, 0, 1, 2])
        counts = np.histogram(noise + 0.5 * (noise < 0), [-np.inf, *edges, np.inf])[0]
        expected = np.array([1 / 8, 1 / 8, 1 / 4, 1 / 4, 1 / 8, 1 / 8]) * len(noise)
        return stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue

    assert p_value(50) > 1e-6
    assert p_value(50 * 1.25) < 1e-6
    assert p_value(50 / 1.25) < 1e-6


# Where errors of computing are planned for twice the released number: docs/proofs/neighbours.md.


def more_than_twice(n, scale):
    """P(n > 2 n^), as on the page."""
    q = math.exp(-1 / scale)
    return q ** (n // 2 + 1) / (1 + q)


def beyond_twice(n, scale):
    """The mean of max(n - 2 n^, 0), as on the page."""
    q = math.exp(-1 / scale)
    return q ** (n / 2) / (2 * math.sinh(1 / (2 * scale)) if n % 2 else math.sinh(1 / scale))


@pytest.mark.parametrize("n", [1000, 1001, 5])
def test_how_often_and_by_how_much_the_number_is_more_than_twice_the_released_one(n):
    counting = Counting(1.0, Neighbours(REPLACE, 16, "patient"))
    found = counting.number(n, counting.neighbours, counting.budget(), seeded())
    assert found.scale == 800
    noise = np.arange(-60_000, 60_000)
    law = np.exp(-np.abs(noise) / 800) * math.tanh(1 / 1600)
    assert law.sum() == pytest.approx(1, rel=1e-12)
    beyond = np.maximum(n - 2 * np.maximum(n + noise, 1), 0)
    plain = np.maximum(n - 2 * (n + noise), 0)  # without the 1, which makes it less
    assert law[beyond > 0].sum() == pytest.approx(more_than_twice(n, 800), rel=1e-9)
    assert law @ beyond <= law @ plain == pytest.approx(beyond_twice(n, 800), rel=1e-9)
    assert beyond_twice(n, 800) <= 800 * math.exp(-n / 1600)


def test_the_number_is_more_than_twice_the_released_one_in_a_quarter_of_releases():
    assert more_than_twice(1000, 800) == pytest.approx(0.27, abs=0.005)
    assert 2**-48 * 100**2 * beyond_twice(1000, 800) == pytest.approx(1.5e-8, rel=0.02)
    assert pytest.approx(3.6e-8, rel=0.02) == 2**-48 * 100**2 * 998
    counting, entropy, draws = Counting(1.0, Neighbours(REPLACE, 16, "patient")), seeded(3), 4000
    args = 1000, counting.neighbours
    released = [counting.number(*args, counting.budget(), entropy).released for _ in range(draws)]
    often = sum(2 * each < 1000 for each in released)
    law = stats.binom(draws, more_than_twice(1000, 800))
    assert law.cdf(often) > 1e-6
    assert law.sf(often - 1) > 1e-6


@pytest.mark.parametrize("relation", [REPLACE, ADD_REMOVE])
@pytest.mark.parametrize("d", [2, 3, 10, 100, 1000])
@pytest.mark.parametrize("n", [10, 10**4, 2**33])
def test_rows_that_were_not_planned_for_cost_a_share_however_few_were_released(relation, d, n):
    to_whom, released = Neighbours(relation, 16, "patient"), 1
    most = 1 + Fraction(d * d * (n - 2 * released), 2**48)
    for bound in (1, 1000, 2**15):
        # Public numbers have no room for more: so much is moved by those that are there.
        moved = separate.eigenvalue_sensitivity(-(-n // 2), d, bound, to_whom)
        assert moved <= most * separate.eigenvalue_sensitivity(released, d, bound, to_whom) + 1
        for sensitivity in (eigen_sampling.eigenvalue_sensitivity, eigen_sampling.score_range):
            moved = sensitivity(n, d, bound, to_whom)
            assert moved <= most * sensitivity(2 * released, d, bound, to_whom) + 1


def test_a_count_below_one_is_one():
    counting = Counting(1e-3, Neighbours(ADD_REMOVE))
    runs = (counting.run(table(), None, counting.budget(), seeded(seed)) for seed in range(20))
    found = [run.released for run in runs]
    assert min(found) == 1


@pytest.mark.parametrize(
    ("counts", "most"),
    [
        ({0: 10_000}, 1),
        ({0: 9_000, 4: 1_000}, 1),
        ({4: 10_000}, 16),
        ({0: 5_000, 4: 5_000}, 16),
        ({0: 100, 5: 10_000}, 32),
        ({}, 1),
    ],
)
def test_selections_and_values_decide_how_many_rows_count(counts, most):
    noisy = np.zeros(21)
    noisy[list(counts)] = list(counts.values())
    assert most_rows(noisy, 1.0) == most


def test_one_unit_moves_the_sizes_by_two_in_sum_where_it_is_replaced():
    sizes = np.array([1, 1, 4, 9])
    for relation, moved in ((REPLACE, 2), (ADD_REMOVE, 1)):
        drawn = []

        def watch(generator, scale, size, drawn=drawn):
            drawn.append(scale)
            return [0] * size

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("hushcov.steps.counting.discrete_laplace", watch)
            release_most_rows(sizes, Neighbours(relation, unit="patient"), 0.5, seeded())
        assert drawn == [moved * 2]
