"""What steps charge, beside what they draw: the square of a movement over that of a deviation.

Movements are those of the proof pages, written down a second time.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import numpy as np
import pytest

from hushcov.kernel.accounting import ADD_REMOVE, REPLACE, UNSPENT, Budget, Neighbours, Pure
from hushcov.kernel.noise import Entropy
from hushcov.kernel.records.base import CountedRecords
from hushcov.kernel.records.units import Units
from hushcov.steps import Prepared, complete, counting, location, norms, preparation, quantiles
from hushcov.steps import scales as scale_step
from hushcov.tables.sources import ArrayRecords

MODULES = (complete, counting, location, norms, preparation, quantiles, scale_step)
ONE = Neighbours(REPLACE)
RELATIONS = pytest.mark.parametrize("relation", [REPLACE, ADD_REMOVE])
#: A record each, units whose records count one by one, and units that are bounded as one.
WHOSE = pytest.mark.parametrize(
    "neighbours",
    [
        Neighbours(relation, most, "record" if most == 1 else "patient", combined)
        for relation in (REPLACE, ADD_REMOVE)
        for most, combined in ((1, False), (3, False), (3, True))
    ],
    ids=lambda each: f"{each.relation}-{each.most_rows}-{each.combined}",
)


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
        """Nothing is drawn without a charge, or charged for nothing; no noise is too large."""
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


# Records of columns of other centres and scales, and budgets for them.

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
