"""The steps before a mechanism as an attacker meets them: octaves, the centre, norms.

Each is a Gaussian mechanism on integers. Which numbers its noise covers is all that an attack needs
to know.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from hushcov._arrays import FloatArray, IndexArray, IntArray
from hushcov.accounting import ONE_REPLACED, Budget, Neighbours, gaussian_epsilon, smallest_sigma
from hushcov.inputs import ReleaseInputs
from hushcov.lab.audit.attack import (
    DELTA,
    EPSILON,
    FEATURES,
    FITTED,
    HUGE,
    RECORDS,
    Attack,
    Draw,
    Handmade,
    Pair,
    Promise,
    Statistic,
    Target,
    Turn,
    flat,
    huge_or_zero,
    octaves,
    of_unit,
    opposite,
    remembered,
    sign_flips,
    summed,
    unit_removed,
)
from hushcov.mechanisms.gaussian.mechanism import (
    GaussianParameters,
    gaussian_parameters,
    release_gaussian,
)
from hushcov.noise import Entropy, rounded_normal
from hushcov.steps.counting import CountedHere, Counting
from hushcov.steps.norms import HALF_WIDTH, WIDEST, release_norms, squared_norms
from hushcov.steps.preparation import centre_bound, release_centre
from hushcov.sums.bounded import bounded_sums
from hushcov.sums.counts import norm_histogram, signed_octaves
from hushcov.sums.grids import FeatureGrid
from hushcov.tables.sources import ArrayRecords


def _mu(squared_sensitivity: int) -> float:
    """About 1, an epsilon of 4 at the usual delta; noise is a whole number, not rounded up."""
    size = math.sqrt(squared_sensitivity)
    return size / math.ceil(size) * (1 + 1e-12)


@dataclass(frozen=True, eq=False)
class StepTarget(Target):
    """Exact integers of one step, their noise, and the step itself.

    Compared are the numbers that the replaced record moves: all others have the same law on both
    datasets and are independent of these.
    """

    exact: Callable[[FloatArray], IntArray]
    step: Callable[[FloatArray, Entropy], FloatArray]
    squared_sensitivity: int
    moved: IndexArray | None = None

    @property
    def promise(self) -> Promise:
        """One Gaussian curve."""
        return Promise(gaussian_epsilon(_mu(self.squared_sensitivity), DELTA), DELTA, gaussian=True)

    def quick(self, rows: FloatArray) -> Draw:
        """Sum once; draw the noise each time."""
        sums = self.exact(rows)
        sigma = smallest_sigma(self.squared_sensitivity, _mu(self.squared_sensitivity))
        return lambda generator: self._compared(sums + rounded_normal(generator, sigma, len(sums)))

    def released(self, rows: FloatArray, entropy: Entropy) -> FloatArray:
        """Return what the step releases."""
        return self._compared(self.step(rows, entropy))

    def _compared(self, numbers: FloatArray | IntArray) -> FloatArray:
        return flat(numbers if self.moved is None else numbers[self.moved])


def _attack(name: str, target: StepTarget, pair: Pair) -> Attack:
    change = target.exact(pair.second) - target.exact(pair.first)
    moved = np.flatnonzero(change)
    along = Statistic("along change", flat(change[moved]))
    return Attack(name, replace(target, moved=moved), pair, (along, FITTED))


def _grid(n_features: int) -> FeatureGrid:
    return FeatureGrid(np.ones(n_features), WIDEST, HALF_WIDTH)


def _centre(name: str) -> tuple[Attack, ...]:
    grid = _grid(FEATURES)
    bound = centre_bound(grid, FEATURES)
    square = 4 * bound**2

    def exact(rows: FloatArray) -> IntArray:
        return bounded_sums(ArrayRecords(rows), grid, bound)

    def step(rows: FloatArray, entropy: Entropy) -> FloatArray:
        records, scale = ArrayRecords(rows), np.ones(FEATURES)
        mean, _ = release_centre(records, scale, _mu(square), ONE_REPLACED, entropy)
        return np.asarray(np.rint(mean * len(rows) / grid.step))

    target = StepTarget(exact, step, square)
    return tuple(
        _attack(name, target, pair)
        for pair in (opposite(RECORDS, FEATURES, HUGE), huge_or_zero(RECORDS, FEATURES))
    )


def _norms(name: str) -> tuple[Attack, ...]:
    grid = _grid(FEATURES)
    edges = tuple(squared_norms(grid, FEATURES))

    def exact(rows: FloatArray) -> IntArray:
        return norm_histogram(ArrayRecords(rows), grid, edges)

    def step(rows: FloatArray, entropy: Entropy) -> FloatArray:
        records, scale = ArrayRecords(rows), np.ones(FEATURES)
        return flat(
            release_norms(records, scale, _mu(2), ONE_REPLACED, Budget(10.0, 0.09), entropy)[0]
        )

    target = StepTarget(exact, step, 2)
    return (_attack(name, target, huge_or_zero(RECORDS, FEATURES)),)


def _octaves(name: str) -> tuple[Attack, ...]:
    every, zeros = np.arange(FEATURES), np.zeros(FEATURES)

    def exact(rows: FloatArray) -> IntArray:
        return signed_octaves(ArrayRecords(rows), zeros, zeros, every).ravel()

    def step(rows: FloatArray, entropy: Entropy) -> FloatArray:
        """Count, then add the noise of the look, like every look."""
        sigma = smallest_sigma(2 * FEATURES, _mu(2 * FEATURES))
        counts = exact(rows)
        return flat(counts + rounded_normal(entropy.generator, sigma, len(counts)))

    target = StepTarget(exact, step, 2 * FEATURES)
    pairs = octaves(RECORDS, FEATURES), opposite(RECORDS, FEATURES, HUGE)
    return tuple(_attack(name, target, pair) for pair in pairs)


HANDMADE: Handmade = {
    "location": {"": _octaves},
    "centre": {"": _centre},
    "norms": {"": _norms},
}


# Attacks on a number of records that is not public: the count, and what is planned by it.


NAME = "counts"


@dataclass(frozen=True, eq=False)
class CountTarget(Target):
    """`Counting.run`: the released number of records."""

    counting: Counting

    @property
    def promise(self) -> Promise:
        """Claim of the count, which needs no delta."""
        return Promise(self.counting.count_epsilon, 0.0, gaussian=False)

    def quick(self, rows: FloatArray) -> Draw:
        """Return the count itself each time."""
        return lambda generator: self.released(rows, Entropy(generator, private=False))

    def released(self, rows: FloatArray, entropy: Entropy) -> FloatArray:
        """Return the released number."""
        return flat(self.counted(rows, entropy).released)

    def counted(self, rows: FloatArray, entropy: Entropy) -> CountedHere:
        """Run the count."""
        budget = self.counting.budget(private=entropy.private)
        return self.counting.run(ArrayRecords(rows), None, budget, entropy)


@dataclass(frozen=True, eq=False)
class CountedTarget(CountTarget):
    """A count, and the Gaussian release that is planned with what is left."""

    @property
    def promise(self) -> Promise:
        """All of the budget."""
        return Promise(self.counting.epsilon, DELTA, gaussian=False)

    def released(self, rows: FloatArray, entropy: Entropy) -> FloatArray:
        """Return the number, then the matrix in the unit of the records."""
        counted = self.counted(rows, entropy)
        d = rows.shape[1]
        parameters = _planned(counted.released, d, counted.left, counted.neighbours)
        release = release_gaussian(counted.records, np.ones(d), parameters, entropy)
        return flat(counted.released, release.integers * release.unit * counted.released)


@remembered
def _planned(n: int, d: int, epsilon: float, whose: Neighbours) -> GaussianParameters:
    return gaussian_parameters(ReleaseInputs(n, d, 1, epsilon, DELTA, neighbours=whose))


def attacks(name: str, turn: Turn = unit_removed) -> tuple[Attack, ...]:
    """A record, or all of a unit, that is there or not; how many there are is all that changes."""
    if turn is of_unit:
        turn = unit_removed  # a unit may have fewer records in the one dataset than in the other
    few, huge = (
        turn(pair)
        for pair in (
            replace(octaves(RECORDS, 1), name="one more or not"),
            replace(sign_flips(10 * RECORDS, FEATURES, HUGE), name="and a matrix"),
        )
    )
    whose = few.neighbours
    # Noise is a whole number. At this budget it is not rounded up.
    share = Counting(1.0, whose).count_epsilon
    exact = Counting(whose.most_rows / share * (1 + 1e-12), whose)
    usual = CountedTarget(Counting(EPSILON, whose))
    change = Statistic("along change", flat(0, np.outer(huge.before, huge.before) / HUGE**2))
    counted = summed("count", [0], 1)
    return (
        Attack(name, CountTarget(exact), few, (counted,)),
        Attack(name, usual, huge, (change, counted, FITTED), slowness=4),
    )
