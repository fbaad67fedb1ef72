"""Attacks on a number of records that is not public: the count, and what is planned by it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hushcov._arrays import FloatArray
from hushcov.accounting import Neighbours
from hushcov.inputs import ReleaseInputs
from hushcov.lab.audit import neighbours
from hushcov.lab.audit.attack import (
    DELTA,
    EPSILON,
    FEATURES,
    FITTED,
    RECORDS,
    Attack,
    Draw,
    Promise,
    Statistic,
    Target,
    flat,
    remembered,
    summed,
)
from hushcov.lab.audit.neighbours import HUGE, Turn, unit_removed
from hushcov.mechanisms.gaussian import GaussianParameters, gaussian_parameters, release_gaussian
from hushcov.noise import Entropy
from hushcov.steps.counting import Counting
from hushcov.tables.sources import ArrayRecords

NAME = "counts"


@dataclass(frozen=True, eq=False)
class CountTarget(Target):
    """`Counting.run`: the released number of records."""

    counting: Counting

    @property
    def promise(self) -> Promise:
        """What the count spends, without a delta."""
        return Promise(self.counting.count_epsilon, 0.0, gaussian=False)

    def quick(self, rows: FloatArray) -> Draw:
        """The count itself each time."""
        return lambda generator: self.released(rows, Entropy(generator, private=False))

    def released(self, rows: FloatArray, entropy: Entropy) -> FloatArray:
        """The released number."""
        return flat(self.counting.run(ArrayRecords(rows), None, entropy).released)


@dataclass(frozen=True, eq=False)
class CountedTarget(CountTarget):
    """The same, and the Gaussian release that is planned for it with what is left."""

    @property
    def promise(self) -> Promise:
        """All of the budget."""
        return Promise(self.counting.epsilon, DELTA, gaussian=False)

    def released(self, rows: FloatArray, entropy: Entropy) -> FloatArray:
        """The number, then the matrix in the unit of the records."""
        counted = self.counting.run(ArrayRecords(rows), None, entropy)
        d = rows.shape[1]
        parameters = _planned(counted.released, d, counted.left, counted.neighbours)
        release = release_gaussian(counted.records, np.ones(d), parameters, entropy)
        return flat(counted.released, release.integers * release.unit * counted.released)


@remembered
def _planned(n: int, d: int, epsilon: float, whose: Neighbours) -> GaussianParameters:
    return gaussian_parameters(ReleaseInputs(n, d, 1, epsilon, DELTA, neighbours=whose))


def attacks(name: str, turn: Turn = unit_removed) -> tuple[Attack, ...]:
    """A record, or all of a unit, that is there or not; how many there are is all that changes."""
    if turn is neighbours.of_unit:
        turn = unit_removed  # a unit may have fewer records in the one dataset than in the other
    few, huge = (
        turn(pair)
        for pair in (
            replace(neighbours.octaves(RECORDS, 1), name="one more or not"),
            replace(neighbours.sign_flips(10 * RECORDS, FEATURES, HUGE), name="and a matrix"),
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
