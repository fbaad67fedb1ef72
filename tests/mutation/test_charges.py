"""Every step charges what its noise is worth: what a record moves, over the deviation that is drawn.

The movements are those of the proof pages, written down here a second time. A charge that is left
out, one of another size, and noise of another deviation are all found by the same comparison.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from hushcov.accounting import ADD_REMOVE, REPLACE, UNSPENT, Budget, Neighbours, Pure
from hushcov.exceptions import DataError, ParameterError
from hushcov.inputs import ReleaseInputs
from hushcov.noise import Entropy
from hushcov.steps import Prepared, complete, counting, location, norms, preparation, quantiles
from hushcov.steps import scales as scale_step
from hushcov.steps.complete import complete_parameters
from hushcov.steps.counting import Counting
from hushcov.steps.location import Location, LocationParameters, LookUnits, find_location
from hushcov.steps.preparation import Preparation
from hushcov.steps.quantiles import Quantiles
from hushcov.steps.scales import scale_parameters
from hushcov.sums.grids import FeatureGrid
from hushcov.sums.records import CountedRecords
from hushcov.sums.transforms import Transform, Transforms
from hushcov.tables.sources import ArrayRecords
from hushcov.tables.units import Units

MODULES = (complete, counting, location, norms, preparation, quantiles, scale_step)
ONE, OTHER = Neighbours(REPLACE), Neighbours(ADD_REMOVE)
RELATIONS = pytest.mark.parametrize("relation", [REPLACE, ADD_REMOVE])
#: A record each, units whose records count one by one, and units that are bounded as one.
WHOSE = [(relation, *how) for relation in (REPLACE, ADD_REMOVE) for how in ((1, False), (3, True))]


def entropy():
    return Entropy(np.random.default_rng(3), private=False)


# What one record moves the numbers of a step by, squared: where it is replaced, and where it is
# removed (docs/proofs/neighbours.md, step 1); `own` are variables of the function that draws.


def _ball(own, part=0, size=1):
    """A vector of norm at most B, and numbers from 0 to `part`."""
    bound = own["bound"]
    return size * bound**2 + part, bound**2 + part


def _squares(own):
    products = own["products"]
    beside = products.factor_range**2 + products.size_range**2
    return _ball({"bound": products.norm_bound}, beside, 4)


def _unit_centre(own):
    """What independent records of a unit add up to, and a quarter of that (preparation, 10)."""
    bound = max(4, math.isqrt(own["row_bound"] ** 2 * own["neighbours"].most_rows))
    return _ball({"bound": bound}, (bound // 4) ** 2, 4)


def _histograms(number):
    """One count in each."""
    return 2 * number, number


MOVED = {
    "release_centre": lambda own: _ball(own, size=4),
    "release_squares": _squares,
    "release_tilts": lambda own: (4 * own["records"].n_features, own["records"].n_features),
    "release_tails": lambda own: _ball(own, size=2),
    "release_unit_centre": _unit_centre,
    "norms.release_counts": lambda own: _histograms(1),
    "quantiles.release_counts": lambda own: _histograms(3 * len(own["columns"])),
    "release_scales": lambda own: _histograms(own["records"].n_features),
    "noisy": lambda own: _histograms(len(own["counts"])),
    "_count_and_octaves": lambda own: (1, 1),
    "release_most_rows": lambda own: _histograms(1),
    "number": lambda own: (own["neighbours"].most_rows,) * 2,
}
#: Numbers of which a whole unit is in one, or has one vector: what it moves is that of all its
#: records, for each of which the step is charged.
TOGETHER = {"release_unit_centre", "release_unit_bound"}


class Trace:
    """Charges of a run, each with what was drawn after it: a square over that of a deviation."""

    def __init__(self, monkeypatch, relation):
        self.relation, self.charges, self.draws, self.sizes = relation, [], [], []
        for module in MODULES:
            for name in ("rounded_normal", "discrete_laplace"):
                if hasattr(module, name):
                    drawn = getattr(module, name)
                    monkeypatch.setattr(module, name, self._drawn(drawn))
        for name in ("gaussian", "fixed"):
            monkeypatch.setattr(Budget, name, self._charged(getattr(Budget, name)))

    def charge(self, cost):
        self.charges.append(Fraction(cost))
        self.draws.append([])

    def _charged(self, method):
        def charge(budget, cost, part=None):
            method(budget, cost, part)
            self.charge(cost.epsilon if isinstance(cost, Pure) else cost)

        return charge

    def _drawn(self, function):
        def draw(generator, scale, size):
            frame = sys._getframe(1)
            name, module = frame.f_code.co_name, frame.f_globals["__name__"].split(".")[-1]
            own = frame.f_locals
            name = f"{module}.{name}" if f"{module}.{name}" in MOVED else name
            square = Fraction(MOVED[name](own)[self.relation == ADD_REMOVE])
            if {name, frame.f_back.f_code.co_name} & TOGETHER:
                square /= own["neighbours"].most_rows ** 2
            assert self.charges, f"{name} draws before anything is charged"
            power = 1 if function.__name__ == "discrete_laplace" else 2
            self.draws[-1].append((name, square, scale, power))
            assert type(scale) is int
            self.sizes.append((name, size))
            return function(generator, min(scale, 2**30), size)

        return draw

    def check(self):
        """Nothing is drawn without a charge, or charged for nothing; noise is the least there is."""
        assert self.charges
        for cost, draws in zip(self.charges, self.draws, strict=True):
            names = {name for name, *_ in draws}
            assert len(names) == 1, f"{names} on one charge"
            assert names == {"noisy"} or len(draws) == 1, f"{names} drawn again"
            (power,) = {each for *_, each in draws}
            spent = sum(square / Fraction(scale) ** power for _, square, scale, power in draws)
            # The mu of one count is a double beside 1 / sigma: what is certified has room for that.
            room = Fraction(1, 2**52) if names == {"_count_and_octaves"} else 0
            assert spent <= (cost * (1 + room)) ** power, f"{names} cost more than is charged"
            if names != {"noisy"}:  # looks may need fewer counts than they are charged for
                (square, scale), *_ = [(square, scale) for _, square, scale, _ in draws]
                assert square > (cost * (scale - 1)) ** power, f"{names} has too much noise"
        return self

    @property
    def names(self):
        return [draws[0][0] for draws in self.draws]


# Whole steps, from the charge to the noise.

N, D = 3_000, 4


def rows(n=N, d=D):
    X = np.random.default_rng(0).standard_normal((n, d)) * [0.3, 1.0, 7.0, 1.0][:d]
    return X + [0.0, 2.0, 1e3, 0.1][:d]


def prepared(X, neighbours, **known):
    records = ArrayRecords(X)
    if neighbours.most_rows > 1:
        records = Units(np.arange(len(X)) // neighbours.most_rows).bounded(
            records, neighbours.most_rows
        )
    return Prepared(CountedRecords(records, len(X)), np.ones(X.shape[1]), **known)


def budget_for(neighbours):
    budget = Budget(50.0, 0.05, neighbours)
    budget.part = "a step that does not say what it is"
    return budget


def check_whole(trace, budget):
    """What is charged for a unit is what its records are charged for, one by one."""
    trace.check()
    charged = [event.mu for part, (event,) in budget.parts if part != UNSPENT]
    exact = budget.relation.most_rows**2 * sum(mu**2 for mu in trace.charges)
    assert sum(Fraction(mu) ** 2 for mu in charged) == pytest.approx(float(exact), rel=1e-12, abs=0)


@pytest.mark.parametrize(("relation", "most", "combined"), WHOSE)
@pytest.mark.parametrize("how", ["tilts", "known scales"])
def test_a_preparation_charges_for_all_that_it_draws(monkeypatch, relation, most, combined, how):
    neighbours = Neighbours(relation, most, "patient" if most > 1 else "record", combined)
    step = Preparation(N, D, 1.0, tilts=how == "tilts", known_scale=how != "tilts")
    step = replace(step, neighbours=neighbours)
    trace, budget = Trace(monkeypatch, relation), budget_for(neighbours)
    step.run(prepared(rows(), neighbours), budget, entropy())
    check_whole(trace, budget)
    found = [name for name in trace.names if name != "noisy"]
    centre = "release_unit_centre" if combined else "release_centre"
    between = ["release_squares"] * 2 + ["release_tilts"] if how == "tilts" else []
    assert found == [centre, *between, "norms.release_counts", "release_tails"]
    assert trace.names[0] == "noisy"


@RELATIONS
def test_other_steps_charge_for_all_that_they_draw(monkeypatch, relation):
    neighbours = Neighbours(relation)
    transforms = Transforms((Transform("rank"), None, Transform("winsorise", 0.05), None))
    steps = {
        "release_scales": scale_parameters(N, D, 0.7, neighbours),
        "quantiles.release_counts": Quantiles(N, D, 1.0, transforms, neighbours=neighbours),
        "_count_and_octaves": complete_parameters(
            ReleaseInputs(N, D, 2, 4.0, 1e-5, neighbours=neighbours)
        ),
    }
    everything = Quantiles(N, D, 1.0, transforms, neighbours=neighbours, marginals=0.1)
    for name, step in [*steps.items(), ("quantiles.release_counts", everything)]:
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


# Noise at a mu so small that every unit of a square makes another deviation.

TINY = 2.0**-45


@pytest.mark.parametrize(("relation", "most", "combined"), WHOSE)
def test_noise_is_for_what_is_moved_to_the_last_unit(monkeypatch, relation, most, combined):
    neighbours = Neighbours(relation, most, "patient" if most > 1 else "record", combined)
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
    if combined:
        runs += [
            lambda bound=bound: preparation.release_unit_centre(records, grid, bound, *last)
            for bound in (1, 2, 3, 51, 52, 53, 54)
        ]
    trace = Trace(monkeypatch, relation)
    for run in runs:
        trace.charge(TINY)
        run()
    trace.check()
    assert {name for name, size in trace.sizes if size == 0} == set()


@RELATIONS
def test_looks_have_the_noise_of_their_histograms(relation):
    """One for octaves and for finer ones, two for cells, three for both; to the last unit."""
    looks = LocationParameters(N, D, 0.7, neighbours=Neighbours(relation))
    both = 2 if relation == REPLACE else 1
    for units in (LookUnits(3, 1), LookUnits(cells=4), LookUnits(1, 0, 1, 2), LookUnits(refined=1)):
        square = both * (units.octaves + units.refined + 2 * units.cells + 3 * units.both)
        sigma = looks.sigma(units, TINY)
        assert ((sigma - 1) * Fraction(TINY)) ** 2 < square <= (sigma * Fraction(TINY)) ** 2


# Refusals, before anything is charged or read.


class Unread(ArrayRecords):
    """Records of which no block may be asked for."""

    def _blocks(self):
        raise AssertionError("records were read")


@pytest.mark.parametrize("wrong", ["generator", "seeded"])
def test_noise_that_is_not_secret_is_refused_before_anything_is_charged(wrong):
    other = np.random.default_rng(0) if wrong == "generator" else entropy()
    if wrong == "seeded":
        object.__setattr__(other, "private", True)  # what it says of itself
    records, units = Unread(rows(60)), Units(np.arange(60))
    budget, step = budget_for(ONE), Counting(1.0, ONE, chooses=True)
    count = step.budget()
    certified = count.parts
    inputs = ReleaseInputs(60, D, 2, 4.0, 1e-5)
    every = [
        lambda: step.run(records, units, count, other),
        lambda: step.number(60, ONE, count, other),
        lambda: find_location(records, LocationParameters(60, D, 9.0), budget, other),
        lambda: scale_step.release_scales(records, scale_parameters(60, D, 1.0), other),
        lambda: complete.release_complete_count(records, complete_parameters(inputs), other),
    ]
    for use in every:
        with pytest.raises(ParameterError, match="entropy"):
            use()
    assert count.parts == certified
    assert [part for part, _ in budget.parts] == [UNSPENT]


@pytest.mark.parametrize(("n", "d"), [(61, D), (59, D), (60, D - 1), (60, D + 1)])
def test_records_of_another_size_are_refused_before_anything_is_charged(n, d):
    budget, records = budget_for(ONE), Unread(np.zeros((n, d)))
    with pytest.raises(DataError, match="records must be 60 with 4 features"):
        find_location(records, LocationParameters(60, D, 9.0), budget, entropy())
    with pytest.raises(DataError, match="records must be 60 with 4 features"):
        scale_step.release_scales(records, scale_parameters(60, D, 1.0), entropy())
    assert [part for part, _ in budget.parts] == [UNSPENT]


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


# How a search goes on: what later looks are told of earlier ones.


@pytest.mark.parametrize("share", [1.0, 0.5, 1e-9])
def test_looks_are_told_what_earlier_ones_saw(monkeypatch, share):
    n, d = 10**6, 3
    seen, settled, last, told = [], [], [], np.zeros((d, 5), dtype=np.int64)
    used = [Counter({5: 3, 7: 2, 9: 1}), Counter({7: 1, 9: 1, **dict.fromkeys(range(20, 28), 4)})]

    def look_at(look):
        seen.append(look)
        return used[len(seen) - 1] if len(seen) <= len(used) else Counter()

    monkeypatch.setattr(location, "_take_look", look_at)
    monkeypatch.setattr(
        location, "settle_columns", lambda columns, n, last: settled.append((len(columns), n, last))
    )
    monkeypatch.setattr(
        location, "settle_by_others", lambda columns, popular, n: last.append((popular, n))
    )
    records, budget = CountedRecords(ArrayRecords(np.zeros((2, d))), n), budget_for(ONE)
    looks = LocationParameters(n, d, 1.0)
    find_location(records, looks, budget, entropy(), share=share, octaves=told)
    assert len(seen) == len(budget.parts) - 1 == 6
    assert [look.octaves is told for look in seen] == [True] + [False] * 5
    assert all(look.octaves is None for look in seen[1:])
    expected = max(1, round(share * n))
    assert {look.n for look in seen} == {expected}
    assert settled == [(d, expected, False)] * 6 + [(d, expected, True)]
    assert last == [(used[0] + used[1], expected)]
    assert [dict(look.popular) for look in seen[:2]] == [{}, {5: 3}]
    most = dict(seen[2].popular)  # the most popular eight, of those that three columns have
    assert most == dict.fromkeys(range(20, 28), 4)
    (first,) = {look.low_reach for look in seen}
    assert first == (16.0 if expected > 60 * seen[0].sigma else 6.0)


# What is handed on, in the units that it is said to have.


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_scales_that_are_known_bound_how_far_values_count(size):
    """At 64 of them, where a search found values farther away."""
    scale = size * np.array([1.0, 2.0])
    X = np.random.default_rng(1).standard_normal((500, 2)) * scale
    place = Location(np.zeros(2), scale, scale * [500.0, 20.0], np.ones(2, dtype=bool))
    step = Preparation(500, 2, 3.0, known_scale=True)
    given = Prepared(ArrayRecords(X), scale, place=place)
    found = step.run(given, budget_for(ONE), entropy())
    assert found.records._reach == pytest.approx(scale * [64.0, 20.0])


def test_mean_squares_are_in_squared_scales(monkeypatch):
    monkeypatch.setattr(preparation, "rounded_normal", lambda _, s, k: np.zeros(k, dtype=np.int64))
    X = np.random.default_rng(1).choice([-1.0, 1.0], (400, 3)) * [1.0, 1.5, 0.5]
    squares, _ = preparation.release_squares(ArrayRecords(X), np.ones(3), 1.0, ONE, entropy())
    assert squares == pytest.approx([1.0, 2.25, 0.25], rel=0.01, abs=0.01)


def test_quantiles_are_read_for_complete_records_and_columns_that_vary(monkeypatch):
    """A column of scale 0 becomes constant; one of a small scale is read as any other."""
    scale = np.array([0.01, 0.0, 3.0, 0.2])
    X = np.random.default_rng(1).standard_normal((2_000, 4)) * scale
    place = Location(np.zeros(4), scale, 9 * scale, scale > 0)
    monkeypatch.setattr(quantiles, "find_location", lambda *_, **__: place)
    read, numbers = quantiles.read_shares, []
    monkeypatch.setattr(
        quantiles, "read_shares", lambda c, s, n, *rest: numbers.append(n) or read(c, s, n, *rest)
    )
    rank = Transform("rank")
    transforms = Transforms((rank, rank, None, None))
    for marginals in (None, 0.2):
        step = Quantiles(2_000, 4, 3.0, transforms, marginals=marginals)
        given = Prepared(ArrayRecords(X), np.ones(4), share=0.5, making={"complete": "known"})
        found = step.run(given, budget_for(ONE), entropy())
        assert found.place.found.tolist() == [True, False, True, True]
        assert found.place.scale == pytest.approx([1.0, 0.0, 3.0, 0.2], rel=0.2, abs=0.0)
        made = found.making["transforms"]
        assert [own and len(own.edges) > 5 for own in made] == [True, False, None, None]
        assert made[1].shares == (1.0,)
        assert found.making["complete"] == "known"
        written = found.making.get("marginals", (None,) * 4)
        assert [own is not None for own in written] == [bool(marginals) and s > 0 for s in scale]
    assert set(numbers) == {1_000.0}
    none = Quantiles(2_000, 4, 3.0, Transforms((None,) * 4), marginals=0.2)
    assert "transforms" not in none.run(given, budget_for(ONE), entropy()).making
