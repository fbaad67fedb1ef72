"""Every step charges what its noise is worth: what a record moves, over the deviation drawn.

A charge that is left out, one of another size, and noise of another deviation are all found by the
same comparison (`traced`), of whole steps on a budget.
"""

from __future__ import annotations

import ast
import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

from hushcov import steps
from hushcov.exceptions import LedgerError, PrivacyConditionError
from hushcov.inputs import LARGEST_CALIBRATED_N, ReleaseInputs
from hushcov.kernel import noise
from hushcov.kernel.accounting import (
    REPLACE,
    Approximate,
    BoundedRange,
    Budget,
    Clocked,
    Gaussian,
    Neighbours,
    OneShotLaplace,
    Pure,
)
from hushcov.kernel.accounting.composition import (
    _log_cosh,
    _log_prefactor,
    _log_sinhc,
    bounded_range_divergence,
    gaussian_delta,
    gaussian_deltas,
    pure_divergence,
)
from hushcov.kernel.accounting.events import Parts, event_from_dict, event_to_dict
from hushcov.kernel.accounting.filter import _renyi
from hushcov.kernel.accounting.guarantee import largest_factor
from hushcov.kernel.accounting.ledger import Charge, Ledger, _twice, as_charge
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.records.units import Units
from hushcov.kernel.transforms import Transform, Transforms
from hushcov.steps import counting, norms, preparation, quantiles
from hushcov.steps.complete import CompleteCount, CompleteParameters, complete_parameters
from hushcov.steps.counting import Counting
from hushcov.steps.location import LocationParameters, LookUnits
from hushcov.steps.preparation import Preparation
from hushcov.steps.quantiles import Quantiles
from hushcov.steps.scales import scale_parameters
from hushcov.tables.sources import ArrayRecords
from traced import (
    MOVED,
    ONE,
    RELATIONS,
    WHOSE,
    D,
    N,
    Trace,
    budget_for,
    check_whole,
    entropy,
    prepared,
    rows,
)

#: What draws noise for numbers or sets.
DRAWS = {"rounded_normal", "discrete_laplace", "gumbel_top"}

# Whole steps, from the charge to the noise.


@WHOSE
@pytest.mark.parametrize("how", ["tilts", "known scales"])
def test_a_preparation_charges_for_all_that_it_draws(monkeypatch, neighbours, how):
    step = Preparation(N, D, 1.0, tilts=how == "tilts", known_scale=how != "tilts")
    step = replace(step, neighbours=neighbours)
    trace, budget = Trace(monkeypatch, neighbours.relation), budget_for(neighbours)
    step.run(prepared(rows(), neighbours), budget, entropy())
    check_whole(trace, budget)
    found = [name for name in trace.names if name != "noisy"]
    centre = "release_unit_centre" if neighbours.combined else "release_centre"
    steps = [centre, "norms.release_counts", "release_tails"]
    if how == "tilts":
        steps = ["release_squares", centre, "release_squares", "release_tilts", *steps[1:]]
    assert found == steps
    assert trace.names[0] == "noisy"


@RELATIONS
def test_other_steps_charge_for_all_that_they_draw(monkeypatch, relation):
    neighbours = Neighbours(relation)
    transforms = Transforms((Transform("rank"), None, Transform("winsorise", 0.05), None))
    single = {
        "release_scales": scale_parameters(N, D, 0.7, neighbours),
        "quantiles.release_counts": Quantiles(N, D, 1.0, transforms, neighbours=neighbours),
        "_count_and_octaves": complete_parameters(
            ReleaseInputs(N, D, 2, 4.0, 1e-5, neighbours=neighbours)
        ),
    }
    everything = Quantiles(N, D, 1.0, transforms, neighbours=neighbours, marginals=0.1)
    for name, step in [*single.items(), ("quantiles.release_counts", everything)]:
        with monkeypatch.context() as patch:
            trace, budget = Trace(patch, relation), budget_for(neighbours)
            step.run(prepared(rows(), neighbours), budget, entropy())
            check_whole(trace, budget)
            assert {each for each in trace.names if each != "noisy"} == {name}
            columns = D if step is everything else 2
            sizes = {"release_scales": 130 * D, "_count_and_octaves": 1}
            size = sizes.get(name, columns * (8 + 64 + 512))
            assert trace.sizes[-1] == (name, size)  # noise for every number


@RELATIONS
def test_the_bound_of_units_charges_for_what_it_draws(monkeypatch, relation):
    neighbours = Neighbours(relation, 3, "patient", combined=True)
    inputs = ReleaseInputs(N, D, 2, 4.0, 1e-5, neighbours=neighbours)
    grid = FeatureGrid(np.ones(D), norms.WIDEST, norms.HALF_WIDTH)
    trace, budget = Trace(monkeypatch, relation), budget_for(neighbours)
    records = prepared(rows(), neighbours).records
    norms.release_unit_bound(records, grid, inputs, 1.0, 0.3, budget, entropy())
    check_whole(trace, budget)
    assert trace.names == ["norms.release_counts"]


def test_every_function_that_draws_is_compared():
    drawing = set()
    for path in Path(steps.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                named = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
                drawing |= {node.name} if named & DRAWS else set()
    assert {name.split(".")[-1] for name in MOVED} == drawing
    assert all(hasattr(noise, name) for name in DRAWS)


@RELATIONS
@pytest.mark.parametrize("chooses", [False, True])
@pytest.mark.parametrize("epsilon", [0.7, 3.0, 40.0])
def test_counts_of_records_charge_for_what_they_draw(monkeypatch, relation, chooses, epsilon):
    neighbours = Neighbours(relation, 5, "patient")
    step = Counting(epsilon, neighbours, chooses)
    seen = []
    correct = counting.most_rows
    monkeypatch.setattr(counting, "most_rows", lambda *a: seen.append(a[1]) or correct(*a))
    trace, budget = Trace(monkeypatch, relation), step.budget()
    found = step.run(ArrayRecords(rows()), Units(np.arange(N) // 4), budget, entropy())
    trace.check()
    names = ["release_most_rows"] * chooses + ["number"]
    assert (trace.names, [each for each, _ in trace.sizes]) == (names, names)
    assert [size for _, size in trace.sizes] == [21] * chooses + [1]
    scales = [scale for draws in trace.draws for _, _, scale, _ in draws]
    assert seen == [math.sqrt(2) * scale for scale in scales[:-1]]
    assert found.scale == scales[-1]
    shares = [0.01] * chooses + [0.02]
    charged = [event.epsilon for _, (event,) in budget.parts]
    assert charged == pytest.approx([share * epsilon for share in shares])
    assert [float(cost) for cost in trace.charges] == charged
    assert budget.certificate.transcript_epsilon >= sum(trace.charges) * (1 - Fraction(1, 2**45))
    # All together is no more than epsilon, in real numbers, however sums are rounded.
    assert sum(trace.charges) + Fraction(found.left) < Fraction(epsilon)
    assert found.left == pytest.approx(epsilon * (1 - sum(shares)))


@pytest.mark.parametrize("noise", [-(10**9), -3, 0, 7, 10**30])
def test_counts_are_released_with_their_noise(monkeypatch, noise):
    monkeypatch.setattr(counting, "discrete_laplace", lambda _, scale, size: [noise] * size)
    found = Counting(1.0, ONE).number(900, ONE, Counting(1.0, ONE).budget(), entropy())
    assert found.released == min(max(900 + noise, 1), LARGEST_CALIBRATED_N)
    seen = []
    monkeypatch.setattr(counting, "most_rows", lambda counts, _: seen.append(counts))
    sizes = np.array([1, 1, 1, 2, 3, 4, 7, 8, 2**19, 2**20, 2**21 - 1, 2**21, 2**40])
    counting.release_most_rows(sizes, ONE, 0.1, entropy())
    counts = {0: 3, 1: 2, 2: 2, 3: 1, 19: 1, 20: 4}  # units of 2^20 records and more are one bin
    assert seen[0].tolist() == [counts.get(octave, 0) + float(noise) for octave in range(21)]


@pytest.mark.parametrize(
    ("noisy", "share"), [(981, 1.0), (980, 1.0), (979, 0.979), (500, 0.5), (10, 0.01), (-7, 0.01)]
)
def test_the_share_of_complete_records_is_read_off_the_noisy_count(noisy, share):
    assert CompleteCount(noisy, CompleteParameters(1_000, 10)).share == share


# Noise at a mu so small that every unit of a square makes another deviation.

TINY = 2.0**-45


@WHOSE
def test_noise_is_for_what_is_moved_to_the_last_unit(monkeypatch, neighbours):
    records, ones = prepared(rows(60), neighbours).records, np.ones(D)
    grid, edges = FeatureGrid(ones, 8.0, 100), np.tile(np.arange(511.0), (3, 1))
    last = (TINY, neighbours, entropy())
    runs = [
        lambda: preparation.release_centre(records, ones, *last),
        lambda: preparation.release_squares(records, ones, *last),
        lambda: preparation.release_tilts(records, *last),
        lambda: preparation.release_tails(records, ones, 1.0, *last),
        lambda: preparation.release_tails(records, ones * [1, 0, 1, 1], 0.3, *last),
        lambda: quantiles.release_counts(records, np.arange(3), edges, *last),
    ]
    if neighbours.combined:
        runs += [
            lambda bound=bound: preparation.release_unit_centre(records, grid, bound, *last)
            for bound in (1, 2, 3, 51, 52, 53, 54)
        ]
    trace, budget = Trace(monkeypatch, neighbours.relation), budget_for(neighbours)
    for run in runs:
        trace.charge(TINY)
        run()
    norms.release_norms(records, ones, *last[:-1], budget, entropy())
    if neighbours.combined:
        inputs = ReleaseInputs(60, D, 2, 4.0, 1e-5, neighbours=neighbours)
        norms.release_unit_bound(records, grid, inputs, 1.0, TINY, budget, entropy())
    trace.check()


@RELATIONS
def test_looks_have_the_noise_of_their_histograms(relation):
    """One for octaves and for finer ones, two for cells, three for both; to the last unit."""
    looks = LocationParameters(N, D, 0.7, neighbours=Neighbours(relation))
    both = 2 if relation == REPLACE else 1
    for units in (LookUnits(3, 1), LookUnits(cells=4), LookUnits(1, 0, 1, 2), LookUnits(refined=1)):
        square = both * (units.octaves + units.refined + 2 * units.cells + 3 * units.both)
        sigma = looks.sigma(units, TINY)
        assert ((sigma - 1) * Fraction(TINY)) ** 2 < square <= (sigma * Fraction(TINY)) ** 2
    for d in range(1, 6):  # scales have one histogram of each feature
        mu, square = Fraction(1, 2**30), both * d
        sigma = scale_parameters(N, d, float(mu), looks.neighbours).sigma
        assert ((sigma - 1) * mu) ** 2 < square <= (sigma * mu) ** 2


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
    most = Fraction(Preparation(1000, D, total, located=located).most_cost) ** 2
    assert exact * (1 + Fraction(1, 2**40)) < most < exact * (1 + Fraction(1, 2**38))


@RELATIONS
def test_looks_take_what_makes_their_counts_clear(relation):
    """So many deviations in n records, of the noise of all their histograms."""
    looks = LocationParameters(1_000, 20, 0.8, neighbours=Neighbours(relation))
    both = 2 if relation == REPLACE else 1
    for look, units, aim, number in (
        (0, LookUnits(octaves=30), 30.0, 30),
        (2, LookUnits(cells=20), 22.0, 40),
        (2, LookUnits(both=10), 22.0, 30),
        (3, LookUnits(refined=1, cells=12), 40.0, 25),
    ):
        share = looks._share(look, units)
        assert share == pytest.approx(both * number * (aim / (1_000 * 0.8)) ** 2)
        assert looks.look_mu(look, units, ()) == pytest.approx(math.sqrt(share) * 0.8)
    assert looks._share(0, LookUnits(octaves=10**6)) == 0.25
    assert looks._share(0, LookUnits(octaves=1)) == 0.04
    assert looks._share(1, LookUnits(cells=10**6)) == 0.15


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


def test_deltas_of_several_mu_have_the_margin_of_one():
    mus = [0.01, 0.1, 0.3, 0.49, 0.7]
    one = [gaussian_delta(mu, 0.5) for mu in mus]
    assert gaussian_deltas(mus, 0.5) == pytest.approx(one, rel=1e-12, abs=0)


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
    budget = Budget(1.0, 1e-6, selects=True)
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


@pytest.mark.parametrize(
    "wrong", [{"unit": "line\nbreak"}, {"unit": ""}, {"neighbours": "either"}, {"epsilons": 1.0}]
)
def test_budgets_of_others_than_are_known_are_not_read(tmp_path, wrong):
    ledger = Ledger(tmp_path / "a.ledger")
    ledger.open_dataset("a", 1.0, 1e-6)
    body = {"epsilon": 1.0, "delta": 1e-6, "neighbours": REPLACE, "unit": "patient"}
    with ledger._store.writing() as book:
        book.append("budget", "fine", body)
        book.append("budget", "b", body | wrong)
    assert ledger.statement("fine").budget.unit == "patient"
    for use in (ledger.statement, lambda name: ledger.charge(name, Gaussian(0.1), label="c")):
        with pytest.raises(LedgerError, match=r"entry 3 .* cannot be read"):
            use("b")
