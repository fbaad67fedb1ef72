"""Every step charges what its noise is worth: what a record moves, over the deviation that is drawn.

The movements are those of the proof pages, written down here a second time. A charge that is left
out, one of another size, and noise of another deviation are all found by the same comparison.
"""

from __future__ import annotations

import math
import sys
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
        "release_scales": scale_step.scale_parameters(N, D, 0.7, neighbours),
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
