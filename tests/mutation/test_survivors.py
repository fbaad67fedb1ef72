"""What faults planted by benchmarks/guards/mutation.py showed that no other test looks at."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import mpmath as mp
import numpy as np
import pytest

from hushcov.calibration import full_budget
from hushcov.exceptions import (
    CapacityError,
    ParameterError,
    PrivacyConditionError,
)
from hushcov.fit import counting, preparation
from hushcov.fit.counting import Counting
from hushcov.fit.location import LocationParameters, LookUnits
from hushcov.fit.preparation import Preparation
from hushcov.inputs import LARGEST_CALIBRATED_N
from hushcov.kernel import session
from hushcov.kernel.accounting import (
    REPLACE,
    Approximate,
    BoundedRange,
    Budget,
    Clocked,
    DiscreteGaussian,
    Gaussian,
    Neighbours,
    OneShotLaplace,
    Pure,
    TotalVariation,
    compose,
    for_group,
)
from hushcov.kernel.accounting import composition as filters
from hushcov.kernel.accounting import ledger as ledgers
from hushcov.kernel.accounting.composition import (
    CLOCK_ROUNDING,
    ROUNDING,
    WIDEST_ANGLE,
    EmbeddedCurve,
    _clock,
    _log_cosh,
    _log_prefactor,
    _log_sinhc,
    _renyi,
    bounded_range_divergence,
    gaussian_epsilon,
    pure_divergence,
    renyi_divergence,
    renyi_epsilon,
    smallest_sigma,
)
from hushcov.kernel.accounting.events import Parts, event_from_dict, event_to_dict, readings
from hushcov.kernel.accounting.ledger import Charge, _twice, as_charge
from hushcov.kernel.grids import FeatureGrid, IntegerGrid
from hushcov.kernel.noise import gumbel
from hushcov.kernel.records.compact import CompactRecords
from hushcov.kernel.sums import products
from hushcov.kernel.sums.bounded import add_units
from hushcov.kernel.sums.counts import edge_counts
from hushcov.kernel.sums.products import ProductMap
from hushcov.kernel.sums.rows import shortened
from hushcov.kernel.sums.statistics import RecordMap, Statistics
from hushcov.promise import largest_factor
from hushcov.tables.files import FileRecords
from hushcov.tables.sources import ArrayRecords
from sessions import session_of

# Margins: what is computed in doubles is on the safe side of what is proved in real numbers.

MUS = np.random.default_rng(1).uniform(0.01, 3.0, 300).tolist()


def test_costs_of_a_group_are_never_rounded_down():
    for mu in MUS:
        size = 3 + int(100 * mu)
        assert Fraction(for_group(Gaussian(mu), size).mu) >= size * Fraction(mu)
        assert Fraction(for_group(Pure(mu), size).epsilon) >= size * Fraction(mu)
    assert any(Fraction(size * mu) < size * Fraction(mu) for mu in MUS for size in (3, 7))


@pytest.mark.parametrize("selects", [False, True])
def test_a_budget_certifies_more_than_it_has_time_for(selects):
    budget = full_budget(1.0, 1e-6, selects=selects)
    (event,) = budget.certificate.events
    assert isinstance(event, Clocked if selects else Gaussian)
    assert Fraction(event.mu) >= Fraction(budget.mu) * (1 + Fraction(1, 2**46))
    for mu in MUS[:60]:
        budget = Budget(50.0, 1e-6, mu=mu, selects=selects)
        assert Fraction(budget.left) <= Fraction(mu) ** 2 * (1 + Fraction(1, 2**50))
        assert Fraction(budget.mu_left) ** 2 <= Fraction(budget.left)
        budget.gaussian(mu / 2)
        budget.gaussian(budget.mu_left)
        assert budget.mu_left < 1e-6 * mu


def test_finite_precision_is_taken_off_delta():
    for each in MUS[:60]:
        delta, lost = each * 1e-6, each * 1e-7
        found = Budget(1.0, delta, numerical_delta=lost, mu=0.1).certificate
        assert Fraction(found.transcript_delta) + Fraction(lost) <= Fraction(delta)


@pytest.mark.parametrize("square", [1, 2, 3, 4, 8, 9, 10, 99, 100, 101, Fraction(9, 2)])
@pytest.mark.parametrize("mu", [1.0, 0.5, 0.3, 2.0])
def test_noise_is_the_smallest_that_is_enough(square, mu):
    sigma = smallest_sigma(square, mu)
    assert (sigma * Fraction(mu)) ** 2 >= square
    assert sigma == 1 or ((sigma - 1) * Fraction(mu)) ** 2 < square


def test_what_is_shortened_is_strictly_within_its_bound():
    rows = np.array([[200.0], [100.0]])  # the second is as long as its bound: nothing is done
    assert shortened(rows, 100.0).tolist() == [[99.0], [100.0]]
    for row, expected in ((200.0, [99, 31]), (100.0, [99, 63])):  # within the margin
        total = np.zeros(2, dtype=np.int64)
        add_units(np.array([[row]]), 100.0, np.array([64]), total)
        assert total.tolist() == expected


def test_a_unit_is_charged_for_all_its_records():
    whole, one = Neighbours(most_rows=5), Neighbours()
    event = Gaussian(0.1)
    assert one.charged((event,)) == (event,)
    assert whole.charged((event,))[0].mu >= 0.5
    assert Neighbours(most_rows=5, combined=True).shared(50) == 2


@pytest.mark.parametrize("edges", [[1.0, 2.0], [[1.0, 2.0]], [[1.0, 2.0], [2.0, 1.0]]])
def test_edges_that_do_not_fit_are_refused(edges):
    with pytest.raises(ParameterError, match="edges must be a row for each column"):
        edge_counts(ArrayRecords(np.ones((3, 2))), np.arange(2), np.array(edges))


def test_a_pure_step_takes_the_time_of_one_of_twice_the_range():
    pure, steps = Parts(pure=((0.1, 7),)), Parts(bounded_range=((0.2, 7),))
    assert _clock(pure, 1e-6) == _clock(steps, 1e-6)


@pytest.mark.parametrize("mu", [1e-3, 1e-8])
def test_what_an_order_proves_has_room_for_roundings(mu):
    """At large orders the slope is negative: the room is for its size."""
    parts, order = Parts(gaussian=mu), np.array([1.5, 3.0, 1e3, 1e6])
    divergence = renyi_divergence(parts, order)
    log = (order - 1) * np.log1p(-1 / order) - np.log(order) - math.log(1e-6)
    slope = log / (order - 1)
    room = renyi_epsilon(parts, order, 1e-6) - (divergence + slope)
    assert (room > 4 * 2.0**-52 * (divergence + np.abs(slope))).all()


def test_events_that_fail_for_sure_are_refused():
    fine = compose([TotalVariation(0.2), TotalVariation(0.2)], delta=0.9)
    assert fine.delta <= 0.9
    with pytest.raises(PrivacyConditionError):
        compose([TotalVariation(0.3), TotalVariation(0.3)], delta=0.9)


def test_sums_of_blocks_of_other_shapes_are_refused():
    records, sizes = ArrayRecords(np.ones((4, 2)), block_rows=2), iter((1, 2))
    with pytest.raises(ParameterError, match="the same shape for every block"):
        records.map_sum(lambda block: np.ones(next(sizes), dtype=np.int64))


def product_map(half_width, **changed):
    grid, nowhere = FeatureGrid(np.ones(1), 8.0, half_width), np.empty(0, dtype=np.int64)
    usual = {"norm_bound": 9, "factor_range": 1, "size_range": 1, "size_cap": 1}
    return ProductMap(grid, nowhere, nowhere, 0, 0, 0, **usual | changed)


def test_maps_that_would_not_be_exact_are_refused():
    assert product_map(2**14 - 1).n_products == 1
    with pytest.raises(CapacityError, match="half_width must keep"):
        product_map(2**14)
    with pytest.raises(ParameterError, match="rows_per_unit"):
        product_map(100, rows_per_unit=0)


@pytest.mark.parametrize("columns", [[[0, 1]], [0.0, 1.0], ["0", "1"]])
def test_columns_that_are_no_list_of_integers_are_refused(columns):
    with pytest.raises(ParameterError, match="columns must be a list of integers"):
        edge_counts(ArrayRecords(np.ones((3, 2))), columns, np.zeros((2, 1)))


def test_values_are_counted_between_edges():
    rows, edges = np.array([[0.0], [1.0], [1.5], [9.0]]), np.array([[1.0, 2.0]])
    assert edge_counts(ArrayRecords(rows), [0], edges).tolist() == [[1, 2, 1]]


# What a ledger adds up, refuses and says.


def charge(*events, promise=None, whole=0.0):
    return ledgers.Charge(events, promise, True, whole=whole)


def test_promises_are_added_up_where_the_first_charge_says_so():
    budget = ledgers.TotalBudget("a", 1.0, 1e-6)
    half, more = (charge(Pure(0.1), promise=Pure(0.1), whole=w) for w in (0.5, 0.5000001))
    noise = charge(Gaussian(0.1))
    assert ledgers.total([half, noise], budget).method != "basic"
    found = ledgers.total([more, noise], budget)
    assert found.method == "basic"
    assert found.epsilon == 0.1 + compose([Gaussian(0.1)], delta=1e-6 / 8).epsilon
    for delta, fits in ((7e-6 / 8, True), (7.001e-6 / 8, False)):
        first = Approximate(0.1, delta)
        found = ledgers.total([charge(first, promise=first), noise], budget)
        assert math.isfinite(found.epsilon) == fits
    slack = charge(TotalVariation(0.3))
    assert math.isinf(ledgers.total([more, slack], budget).epsilon)
    assert ledgers.total([], budget).epsilon == 0


def test_a_total_may_pass_its_budget_in_the_last_places_alone():
    budget = ledgers.TotalBudget("a", 0.75, 1e-6)
    for places, fits in ((50, True), (49, False)):
        bound = ledgers.Bound(0.75 * (1 + 2.0**-places), 1e-6, "basic")
        assert ledgers.within(bound, budget) == fits
        first, rest = Approximate(0.1, 0.5e-6), Approximate(0.1, 0.5e-6 + 1e-6 * 2.0**-places)
        charges = [charge(each, promise=each) for each in (first, rest)]
        assert math.isfinite(ledgers.total(charges, budget).epsilon) == fits


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_a_promise_for_adding_counts_twice_for_replacing_and_not_less(epsilon):
    twice, factor = ledgers._twice(Approximate(epsilon, 1e-7)), 1 + math.exp(epsilon)
    assert twice.epsilon == 2 * epsilon
    assert factor * 1e-7 < twice.delta < factor * 1e-7 * (1 + 1e-14)
    assert ledgers._twice(TotalVariation(0.1)) == TotalVariation(0.1)
    assert ledgers._twice(Pure(epsilon)) == for_group(Pure(epsilon), 2)
    ledgers._twice(Approximate(epsilon, (1 - 1e-9) / factor))
    with pytest.raises(PrivacyConditionError):
        ledgers._twice(Approximate(epsilon, 1 / factor))


def test_finite_precision_is_charged_as_a_distance():
    guarantee = Budget(1.0, 1e-6, numerical_delta=1e-8, mu=0.1).guarantee
    *_, event = ledgers.as_charge(guarantee).events
    factor = 1 + math.e
    assert 1e-8 < event.distance * factor < 1e-8 * (1 + 2e-12)


# Accounts, each written down again from its proof, with the numbers of the proof.


def exit_time(eta, rate):
    return -math.log(math.cos(eta * math.sqrt(rate / 2))) / rate


def test_the_clock_of_a_budget_takes_what_the_proof_says():
    budget = Budget(4.0, 1e-6, mu=0.5, selects=True)
    late, left = 1e-6 / 256, 0.25 * (1 - 4e-12)
    assert budget.late == late
    assert budget.left == left
    assert budget.mu_left == math.sqrt(left) * (1 - 2.0**-50)
    budget.expect(8, 0.5)
    rate = math.sqrt(3 * math.log(1 / late) * 8) / (0.5 * left)
    start, step = math.log(1 / late) / rate, exit_time(0.05, rate)
    assert budget.rate == pytest.approx(rate, rel=1e-13, abs=0)
    assert budget.start_time == pytest.approx(start, rel=1e-13, abs=0)
    assert budget.step_time(0.05) == pytest.approx(step, rel=1e-11, abs=0)
    assert budget.steps_left(0.05, 0.75) == math.floor((0.75 * left - start) / step)
    widest = 1.5 / math.sqrt(rate / 2)
    assert math.isfinite(budget.step_time(widest * (1 - 1e-9)))
    assert math.isinf(budget.step_time(widest * (1 + 1e-9)))
    budget.gaussian(0.1, "a")
    budget.select(0.05, 3, "b")
    assert budget.left == pytest.approx(left - 0.01 - 3 * step - start, rel=1e-12, abs=0)
    budget.select(0.05, 2, "b")  # the start is paid for
    assert budget.start_time == 0
    assert budget.left == pytest.approx(left - 0.01 - 5 * step - start, rel=1e-12, abs=0)
    (a, (first,)), (b, (second,)), (_, (last,)) = budget.parts
    assert (a, b) == ("a", "b")
    assert first.mu == pytest.approx(0.1)
    assert second == Gaussian(second.mu)
    assert second.mu == pytest.approx(math.sqrt(5 * step + start))
    assert last == Clocked(math.sqrt(budget.left), late)
    assert budget.steps_left(0.05, 1e-9) == 0


@pytest.mark.parametrize(("unspent", "listed"), [(1.01e-9, True), (0.99e-9, False)])
def test_what_is_left_is_listed_unless_it_is_negligible(unspent, listed):
    budget = Budget(4.0, 1e-6, mu=0.5)
    budget.gaussian(0.5 * math.sqrt(1 - unspent), "a")
    assert len(budget.parts) == 1 + listed


def test_shares_of_a_ledgers_delta_add_up_to_one():
    shares = filters.PROMISED, filters.SLACK, filters.CLOCK, filters.LATE, filters.RENYI
    assert [64 * share for share in shares] == [8, 4, 27, 1, 24]


@pytest.mark.parametrize(
    "parts",
    [
        Parts(bounded_range=((0.3, 4), (0.01, 100))),
        Parts(bounded_range=((2.0, 1),), pure=((0.2, 3),), gaussian=0.4),
        Parts(gaussian=0.7),
    ],
)
def test_the_clock_of_a_ledger_is_that_of_the_proof(parts):
    delta, rates = 1e-5, [4.0**k for k in range(-3, 21)]
    steps = [*parts.bounded_range, *((2 * epsilon, count) for epsilon, count in parts.pure)]
    times = [
        sum(count * exit_time(eta, rate) for eta, count in steps)
        + (math.log(len(rates)) - math.log(delta / 64)) / rate
        for rate in rates
        if all(eta * math.sqrt(rate / 2) <= 1.5 for eta, _ in steps)
    ]
    mu = math.hypot(parts.gaussian, math.sqrt(min(times)) if steps else 0.0)
    found = _clock(parts, delta)
    assert found.epsilon == pytest.approx(gaussian_epsilon(mu, 27 / 64 * delta), rel=1e-10)
    assert found.epsilon >= gaussian_epsilon(mu * (1 + 0.99e-12), 27 / 64 * delta)
    assert math.isinf(_clock(parts, 0.0).epsilon)
    assert math.isinf(_clock(replace(parts, discrete_gaussian=0.1), delta).epsilon)
    assert math.pi / 2 > WIDEST_ANGLE  # beyond it the moment of a step is infinite


@pytest.mark.parametrize("mu", [0.05, 0.4, 2.0])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_the_divergences_of_a_ledger_are_read_at_the_order_of_the_budget(mu, epsilon):
    """The order is the one with most room for Gaussian noise, whatever was spent."""
    parts, delta, orders = Parts(discrete_gaussian=mu), 1e-5, 1 + np.geomspace(1e-3, 1e8, 16_384)
    nothing, spent = (renyi_epsilon(each, orders, 24 / 64 * delta) for each in (Parts(), parts))

    def accepted(total):
        return spent[np.argmax((total - nothing) / orders)] * (1 + 1e-11) <= total

    found = filters._renyi(parts, epsilon, delta)
    assert accepted(epsilon) == (found.epsilon <= epsilon)
    low, high = (0.0, epsilon) if accepted(epsilon) else (epsilon, 100.0)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if accepted(middle) else (middle, high)
    assert found.epsilon == pytest.approx(high, rel=1e-9)
    assert math.isinf(filters._renyi(parts, epsilon, 0.0).epsilon)
    assert math.isinf(filters._renyi(replace(parts, clocked=True), epsilon, delta).epsilon)


# Rows: which of them are read, how often, and where.


def test_rows_are_read_from_any_row_on():
    X = np.arange(20.0).reshape(10, 2)
    for start in range(11):
        found = [*ArrayRecords(X, block_rows=3)._blocks_from(start), np.empty((0, 2))]
        assert np.concatenate(found).tolist() == X[start:].tolist()
        assert all(map(len, found[:-1]))


def pair_lists(d):
    """Lists of pairs as kernels may take for one another: along bands, diagonals and rows."""
    every = [(i, j) for i in range(d) for j in range(i + 1, d)]
    random = np.random.default_rng(5)
    return {
        "diagonal": [(i, i + 1) for i in range(d - 1)],
        "far diagonal": [(i, i + 5) for i in range(d - 5)],
        "row": [(0, j) for j in range(1, d)],
        "row with gaps": [(0, j) for j in range(1, d, 2)],
        "rows of other lengths": [(0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (1, 3), (2, 3), (2, 7)],
        "column": [(i, d - 1) for i in range(d - 1)],
        "band of 4": [(i, j) for i, j in every if j - i <= 4],
        "band of 3": [(i, j) for i, j in every if j - i <= 3],
        "backwards": every[::-1],
        "backwards in rows": sorted(every, key=lambda pair: (-pair[0], pair[1])),
        "to and fro": [*((0, j) for j in range(6, 11)), *((1, j) for j in range(2, 7))] * 2,
        "all": every,
        "all but some": [each for each in every if random.random() < 0.8],
        "shuffled": [every[k] for k in random.permutation(len(every))],
        "interrupted": [(0, 1), (5, 7), (0, 3), (0, 4), (0, 5), (0, 6), (1, 7), (0, 8)],
        "one": [(2, 5)],
        "none": [],
    }


@pytest.mark.parametrize("name", pair_lists(12))
def test_norms_of_products_are_those_of_the_list(name):
    """Whatever pairs follow each other; a norm that is too small would let a record count more."""
    d, half_width, bound = 12, 400, 30_000
    pairs = pair_lists(d)[name]
    rows, columns = (np.array([each[k] for each in pairs], dtype=np.int64) for k in (0, 1))
    y = np.random.default_rng(7).integers(-half_width, half_width + 1, (70, d))
    y[::9], y[3] = 0, half_width
    grid = FeatureGrid(np.ones(d), half_width, half_width)
    products = ProductMap(grid, rows, columns, 3, 2, 900, bound, 1000, 50, 10**6)
    z = np.concatenate([3 * y[:, rows] * y[:, columns], 2 * (y**2 - 900)], axis=1)
    squares, sizes = (z**2).sum(axis=1), (y**2).sum(axis=1)
    factors = [1.0 if s <= bound**2 else bound / math.sqrt(s) * (1 - 2.0**-40) for s in squares]
    added = np.trunc(z * np.array(factors)[:, None]).astype(np.int64)
    assert ((added**2).sum(axis=1) <= bound**2).all()
    expected = [*added.sum(axis=0), sum(int(1000 * f) for f in factors)]
    expected.append(sum(min(int(q), 10**6) * 50 // 10**6 for q in sizes))
    records = ArrayRecords(y.astype(np.float64))
    assert products.sum(records).tolist() == expected
    bins = [min(2 * e + (m >= math.sqrt(0.5)), 107) for m, e in map(math.frexp, squares.tolist())]
    assert products.norm_histogram(records).tolist() == np.bincount(bins, minlength=108).tolist()
    assert {1.0} < set(factors)
    # A compact copy keeps norms and sums; fewer pairs are then taken from these.
    copied = CompactRecords(records, np.zeros(d), np.full(d, 1e4), np.full(d, 512.0))
    assert products.norm_histogram(copied).tolist() == products.norm_histogram(records).tolist()
    assert products.sum(copied).tolist() == expected
    fewer = replace(products, rows=rows[::2].copy(), columns=columns[::2].copy())
    assert fewer.sum(copied).tolist() == fewer.sum(records).tolist()


# Events, as the theorems that they stand for read.


def test_one_shot_laplace_is_read_as_the_theorem_says_and_where_it_holds():
    def selection(epsilon, selected=3, candidates=50, delta=1e-3):
        spread = math.sqrt(selected * math.log(candidates / delta))
        return OneShotLaplace(2.0, 16 * spread / epsilon, selected, candidates, delta)

    for epsilon in (0.01, 0.1, 0.2 * (1 - 1e-9)):
        assert selection(epsilon).certified_epsilon == pytest.approx(epsilon)
    assert selection(0.2 * (1 + 1e-9)).certified_epsilon is None
    assert selection(0.1, 1, 2).certified_epsilon == pytest.approx(0.1)
    assert selection(0.1, 1, 1).certified_epsilon is None
    assert OneShotLaplace(2.0, 8.0, 3, 50).certified_epsilon is None
    assert OneShotLaplace(2.0, 8.0, 3, 50).pure_epsilon == 1.5


def test_events_add_up_by_their_kind():
    events = [Gaussian(3.0), Gaussian(4.0), DiscreteGaussian(5.0), DiscreteGaussian(12.0)]
    events += [BoundedRange(0.1, 2), BoundedRange(0.1, 3), BoundedRange(0.2, 1), Pure(0.5)]
    events += [Pure(0.5), Approximate(0.5, 0.125), Approximate(0.25, 0.25), TotalVariation(0.125)]
    (parts,) = readings(events)
    assert (parts.gaussian, parts.discrete_gaussian, parts.mu) == (5.0, 13.0, math.hypot(5, 13))
    assert parts.bounded_range == ((0.1, 5), (0.2, 1))
    assert parts.pure == ((0.25, 1), (0.5, 3))
    assert parts.pure_epsilon == pytest.approx(5 * 0.1 + 0.2 + 0.25 + 1.5)
    assert (parts.delta, parts.total_variation, parts.clocked) == (0.375, 0.125, False)
    assert parts.fixed_delta(1.0) == 0.375 + 0.125 * (1 + math.e)
    (clocked,) = readings([Clocked(3.0, 0.125), Gaussian(4.0)])
    assert (clocked.gaussian, clocked.delta, clocked.clocked) == (5.0, 0.125, True)
    tiny = Parts(total_variation=1e-305)
    assert math.isfinite(tiny.fixed_delta(699.9))
    assert math.isinf(tiny.fixed_delta(700.0))


def test_events_of_a_group_are_as_many_times_as_large_and_a_little_more():
    factor = 3 * (1 + 2.0**-50)
    for event, name in (
        (Gaussian(0.5), "mu"),
        (DiscreteGaussian(0.5), "mu"),
        (Pure(0.5), "epsilon"),
    ):
        assert getattr(for_group(event, 3), name) == 0.5 * factor
    assert for_group(Clocked(0.5, 0.1), 3) == Clocked(0.5 * factor, 0.1)
    assert for_group(BoundedRange(0.5, 7), 3) == BoundedRange(0.5 * factor, 7)
    one = OneShotLaplace(0.5, 9.0, 1, 5)
    assert for_group(one, 3) == replace(one, sensitivity=0.5 * factor)
    for event in (Approximate(0.1, 1e-6), TotalVariation(0.1)):
        assert for_group(event, 1) == event
        with pytest.raises(PrivacyConditionError):
            for_group(event, 2)


def test_roundings_leave_room_for_more_records_where_their_number_is_released():
    assert Neighbours().allowed_for(100) == 100
    for other in (Neighbours("add-remove"), Neighbours(most_rows=2), Neighbours(unit="patient")):
        assert other.allowed_for(100) == 200
    assert Neighbours().outer_product == 1
    assert Neighbours("add-remove").outer_product == math.sqrt(0.5)


def test_second_moments_have_the_units_of_the_records():
    record_map = RecordMap(2, IntegerGrid(3.0, 10))
    found = Statistics(np.array([[50, -7], [-7, 20]]), np.int64(4), record_map)
    assert type(found.n_records) is int
    assert found.covariance() == pytest.approx(np.array([[50, -7], [-7, 20]]) * 0.3**2 / 4)


def test_integers_beside_nulls_are_rounded_whatever_their_size(tmp_path):
    """A refusal of those that no double holds would tell that there is one."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    table = pa.table({"a": pa.array([2**53 + 1, None, 5], pa.int64()), "b": [1.0, 2.0, 3.0]})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    (block,) = FileRecords(tmp_path / "a.parquet").with_gaps()._blocks()
    assert block[:, 0].tolist()[::2] == [2.0**53, 5.0]
    assert math.isnan(block[1, 0])


# Accounts


def test_gaussians_that_bound_the_time_of_all_steps_are_rounded_up():
    curve, lates = EmbeddedCurve(Parts(gaussian=0.3, bounded_range=((0.1, 5),))), [1e-9, 1e-7, 1e-5]
    for mu, root in zip(curve._mus(lates), curve.roots_exceeded_with(lates), strict=True):
        assert mu >= math.hypot(0.3, root) * (1 + 0.9 * CLOCK_ROUNDING)


@pytest.mark.parametrize("mu", [0.05, 0.4, 2.0])
def test_a_ledger_that_has_spent_all_but_a_rounding_is_full(mu):
    parts, delta, orders = Parts(discrete_gaussian=mu), 1e-5, filters._ORDERS
    nothing, spent = (renyi_epsilon(p, orders, filters.RENYI * delta) for p in (Parts(), parts))
    total = 1.0
    for _ in range(100):  # what is spent at the order of this total
        total = float(spent[np.argmax((total - nothing) / orders)]) * (1 + 0.5 * ROUNDING)
    assert total == spent[np.argmax((total - nothing) / orders)] * (1 + 0.5 * ROUNDING)
    assert filters._renyi(parts, total, delta).epsilon > total
    room = total * (1 + ROUNDING)
    assert filters._renyi(parts, room, delta).epsilon <= room


# Sums and selections


@pytest.mark.parametrize("place", range(6))
@pytest.mark.parametrize("wrong", [-2, gumbel.LARGEST_SCORE + 1])
def test_scores_out_of_range_are_refused_in_every_part(place, wrong, monkeypatch):
    monkeypatch.setattr(gumbel, "even_parts", lambda *_: [(0, 2), (2, 4), (4, 6)])
    scores = np.arange(6)
    gumbel._check_scores(scores)
    scores[place] = wrong
    with pytest.raises(ParameterError, match="scores must be integers from 0"):
        gumbel._check_scores(scores)


@pytest.mark.parametrize("half_width", [4095, 4096, 5700])
def test_products_at_the_limit_of_four_bytes_are_added_up(half_width):
    """All records at the limit, on the same side: sums of 128 products are 2**31 and more."""
    n = 300
    records = ArrayRecords(np.full((n, 2), float(half_width)))
    grid = FeatureGrid(np.ones(2), half_width, half_width)
    pair = np.array([0]), np.array([1])
    found = ProductMap(grid, *pair, 1, 1, 0, 2**30, 1, 1, 1)
    assert found.norm_histogram(records).sum() == n
    assert found.sum(records)[:3].tolist() == [n * half_width**2] * 3


def test_runs_of_pairs_end_with_the_list():
    """A pair in memory after the list that would go on with it is no pair."""
    lanes = np.random.default_rng(0).integers(-9, 10, (40, 16)).astype(np.int16)
    left, right = np.zeros(30, dtype=np.int64), np.arange(1, 31)
    for stop in (3, 12, 20):
        squares = np.zeros(16)
        products._fill_squares(lanes, left[:stop], right[:stop], squares)
        y = lanes.astype(np.int64)
        assert squares.tolist() == ((y[0] * y[1 : stop + 1]) ** 2).sum(axis=0).tolist()


# Every step charges what its noise is worth: what a record moves, over the deviation drawn.


N, D, TINY = 3_000, 4, 2.0**-45


@pytest.mark.parametrize("noise", [-(10**9), -3, 0, 7, 10**30])
def test_counts_are_released_with_their_noise(monkeypatch, noise):
    monkeypatch.setattr(session, "discrete_laplace", lambda _, scale, size: [noise] * size)
    step = Counting(1.0, Neighbours(REPLACE))
    access = session_of(np.zeros((900, 1)), step.budget())
    assert step.number(access, step.neighbours).released == min(
        max(900 + noise, 1), LARGEST_CALIBRATED_N
    )
    seen = []
    monkeypatch.setattr(counting, "most_rows", lambda counts, _: seen.append(counts))
    sizes = np.array([1, 1, 1, 2, 3, 4, 7, 8, 2**19, 2**20, 2**21 - 1, 2**21, 2**40])
    budget = Budget(0.1, 0.0, fixed=[Pure(0.1)], mu=0.0)
    units = SimpleNamespace(sizes=sizes)
    counting.release_most_rows(session_of(np.zeros((1, 1)), budget, units=units), 0.1)
    counts = {0: 3, 1: 2, 2: 2, 3: 1, 19: 1, 20: 4}  # units of 2^20 records and more are one bin
    assert seen[0].tolist() == [counts.get(octave, 0) + float(noise) for octave in range(21)]


# Shares of a budget, from the formulas of their pages.


@pytest.mark.parametrize("total", [0.7, 2.5])
@pytest.mark.parametrize("located", [False, True])
def test_the_most_that_a_preparation_takes(total, located):
    """The root of the sum of squares of its steps, rounded up by 2^-40 (preparation, step 7)."""
    looks = 0.0 if located else LocationParameters(1000, D, total).largest_mu
    assert located or looks == pytest.approx(math.sqrt(0.35) * total, rel=1e-15, abs=0)
    share = preparation.centre_share(1000, D, total) + preparation.norm_share(1000, D, total)
    share += 0.01 + 0.03
    exact = Fraction(looks) ** 2 + Fraction(share) * Fraction(total) ** 2
    most = Fraction(Preparation(1000, D, total, located=located).cost().most) ** 2
    assert exact * (1 + Fraction(1, 2**40)) < most < exact * (1 + Fraction(1, 2**38))


def test_all_looks_together_take_no_more_than_their_share():
    looks, spent = LocationParameters(10**6, 20, 0.8), (0.3, 0.3, 0.2)
    left = looks.look_mu(3, LookUnits(cells=4 * 10**6), spent)
    most = Fraction(looks.largest_mu) ** 2 - sum(Fraction(mu) ** 2 for mu in spent)
    assert most * (1 - Fraction(1, 2**50)) < Fraction(left) ** 2 <= most
    assert looks.look_mu(4, LookUnits(cells=1), (*spent, left, 1e-3)) is None


# What a composition costs, against arithmetic of more digits.


def test_orders_are_read_with_all_their_digits():
    order = 1 + np.geomspace(1e-7, 1e12, 60)
    order = np.array([*order, 2.0, math.nextafter(2.0, 1), math.nextafter(2.0, 3)])
    with mp.workdps(60):
        exact = [(mp.mpf(a) - 1) * mp.log1p(-1 / mp.mpf(a)) - mp.log(mp.mpf(a)) for a in order]
    assert _log_prefactor(order) == pytest.approx([float(e) for e in exact], rel=1e-14, abs=0)


def test_logarithms_of_hyperbolic_functions_have_all_their_digits():
    """On both sides of 1, where another formula takes over."""
    x = np.array([*np.geomspace(1e-8, 700.0, 30), *np.linspace(0.85, 1.15, 31)])
    with mp.workdps(60):
        cosh = [float(mp.log(mp.cosh(mp.mpf(each)))) for each in x]
        sinhc = [float(mp.log(mp.sinh(mp.mpf(each)) / mp.mpf(each))) for each in x]
    assert _log_cosh(x) == pytest.approx(cosh, rel=4e-15, abs=0)
    assert _log_sinhc(x) == pytest.approx(sinhc, rel=4e-15, abs=0)


@pytest.mark.parametrize("cost", [1e-5, 1e-3, 0.3, 5.0, 300.0])
def test_divergences_are_no_more_than_simple_bounds(cost):
    """Where the closed form cancels and has a wide margin, these are nearer."""
    order = 1 + np.geomspace(1e-13, 1e6, 40)
    above = 1 + 4 * np.finfo(float).eps
    assert (pure_divergence(cost, order) <= np.minimum(cost, order * cost**2 / 2) * above).all()
    most = np.minimum(cost, order * cost**2 / 8) * above
    assert (bounded_range_divergence(cost, order) <= most).all()


def test_a_promise_whose_replacement_has_a_delta_of_one_is_refused():
    """That of one unit added or removed, at a delta where twice of it is exactly 1."""
    epsilon = 0.5
    factor = (1 + largest_factor(epsilon)) * (1 + 2.0**-50)
    deltas = [1 / factor * (1 + step * 2.0**-52) for step in range(-8, 9)]
    with pytest.raises(PrivacyConditionError, match="delta must be so small"):
        _twice(Approximate(epsilon, next(each for each in deltas if _doubled(each, epsilon) == 1)))


def _doubled(delta, epsilon):
    return (1 + largest_factor(epsilon)) * delta * (1 + 2.0**-50)


# Limits of events and of the clock, at the limit itself.


def test_steps_on_the_clock_may_be_as_wide_as_the_widest_angle():
    budget = full_budget(1.0, 1e-6, selects=True)
    budget.rate = 2.0  # the angle is the range then
    assert budget.step_time(1.5) == pytest.approx(-math.log(math.cos(1.5)) / 2)
    assert math.isinf(budget.step_time(math.nextafter(1.5, 2)))


def test_the_theorem_of_one_shot_selections_holds_at_its_largest_epsilon():
    spread = math.sqrt(3 * math.log(50 / 1e-3))
    near = 0.2 / (8 * spread)
    found = [
        OneShotLaplace(near * (1 + step * 2.0**-52), 1.0, 3, 50, 1e-3).certified_epsilon
        for step in range(-8, 9)
    ]
    assert max(each for each in found if each) == 0.2
    assert found[-1] is None


def test_numbers_of_events_are_plain():
    events = [Gaussian(np.float64(0.5)), BoundedRange(np.float32(0.5), np.int64(3))]
    events += [
        Approximate(np.float64(0.5), np.float64(1e-6)),
        Clocked(np.int64(2), np.float64(0.1)),
    ]
    for event in events:
        assert {type(value) for value in vars(event).values()} <= {float, int}, event
        assert event_from_dict(json.loads(json.dumps(event_to_dict(event)))) == event


@pytest.mark.parametrize("mu", [0.03, 0.2, 1.5])
def test_what_divergences_refuse_is_beyond_the_budget_by_more_than_sums_may_be(mu):
    """By 2^-40, where plain sums may pass it by 2^-50."""
    parts, delta = Parts(discrete_gaussian=mu), 1e-6
    least = _renyi(parts, 1.0, delta).epsilon
    for below in (2.0**-44, 2.0**-46):
        budget = least * (1 - below)
        found = _renyi(parts, budget, delta).epsilon / budget - 1
        assert found == pytest.approx(2.0**-40, rel=2.0**-5, abs=0)
    assert _renyi(parts, least * (1 + 2.0**-40), delta).epsilon == pytest.approx(least, rel=1e-11)


# What a ledger reads.


@pytest.mark.parametrize("events", [(Pure(0.25),), (Pure(0.25), Pure(0.5))])
def test_a_release_that_is_pure_throughout_is_charged_as_promised(events):
    promised = Budget(1.0, 0.0, fixed=events, mu=0.0).certificate
    assert as_charge(promised) == Charge((Pure(1.0),), Pure(1.0))
    noisy = Budget(1.0, 1e-6, fixed=events[:1], mu=0.1).certificate
    assert as_charge(noisy) == Charge(noisy.events, Approximate(1.0, 1e-6))
