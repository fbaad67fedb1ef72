"""The steps before a mechanism as an attacker meets them: octaves, the centre, norms.

Each is a Gaussian mechanism on integers. Which numbers its noise covers is all that an attack needs
to know.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.accounting import gaussian_epsilon, smallest_sigma
from hushcov.lab.audit import neighbours
from hushcov.lab.audit.attack import (
    DELTA,
    FEATURES,
    FITTED,
    RECORDS,
    Attack,
    Draw,
    Handmade,
    Promise,
    Statistic,
    Target,
    flat,
)
from hushcov.lab.audit.neighbours import HUGE, Pair
from hushcov.noise import Entropy, rounded_normal
from hushcov.records import ArrayRecords, FeatureGrid, bounded_sums, norm_histogram, signed_octaves
from hushcov.stages.preparation import (
    HALF_WIDTH,
    WIDEST,
    centre_bound,
    release_centre,
    release_norms,
    squared_norms,
)

# The mu of an epsilon of about 4 at the usual delta.
_MU = 1.0


@dataclass(frozen=True, eq=False)
class StepTarget(Target):
    """Exact integers of one step, their noise, and the step itself."""

    exact: Callable[[FloatArray], IntArray]
    step: Callable[[FloatArray, Entropy], FloatArray]
    squared_sensitivity: int

    @property
    def promise(self) -> Promise:
        """One Gaussian curve."""
        return Promise(gaussian_epsilon(_MU, DELTA), DELTA, gaussian=True)

    def quick(self, rows: FloatArray) -> Draw:
        """Sum once; draw the noise each time."""
        sums = self.exact(rows)
        sigma = smallest_sigma(self.squared_sensitivity, _MU)
        return lambda generator: flat(sums + rounded_normal(generator, sigma, len(sums)))

    def released(self, rows: FloatArray, entropy: Entropy) -> FloatArray:
        """What the step releases."""
        return flat(self.step(rows, entropy))


def _attack(name: str, target: StepTarget, pair: Pair) -> Attack:
    change = target.exact(pair.second) - target.exact(pair.first)
    return Attack(name, target, pair, (Statistic("along change", flat(change)), FITTED))


def _grid(n_features: int) -> FeatureGrid:
    return FeatureGrid(np.ones(n_features), WIDEST, HALF_WIDTH)


def _centre(name: str) -> tuple[Attack, ...]:
    grid = _grid(FEATURES)
    bound = centre_bound(grid, FEATURES)

    def exact(rows: FloatArray) -> IntArray:
        return bounded_sums(ArrayRecords(rows), grid, bound)

    def step(rows: FloatArray, entropy: Entropy) -> FloatArray:
        mean, _ = release_centre(ArrayRecords(rows), np.ones(FEATURES), _MU, entropy)
        return np.asarray(np.rint(mean * len(rows) / grid.step))

    target = StepTarget(exact, step, 4 * bound**2)
    opposite = neighbours.opposite(RECORDS, FEATURES, HUGE)
    return tuple(
        _attack(name, target, pair)
        for pair in (opposite, neighbours.huge_or_zero(RECORDS, FEATURES))
    )


def _norms(name: str) -> tuple[Attack, ...]:
    grid = _grid(FEATURES)
    edges = tuple(squared_norms(grid, FEATURES))

    def exact(rows: FloatArray) -> IntArray:
        return norm_histogram(ArrayRecords(rows), grid, edges)

    def step(rows: FloatArray, entropy: Entropy) -> FloatArray:
        return flat(release_norms(ArrayRecords(rows), np.ones(FEATURES), _MU, entropy)[0])

    target = StepTarget(exact, step, 2)
    return (_attack(name, target, neighbours.huge_or_zero(RECORDS, FEATURES)),)


def _octaves(name: str) -> tuple[Attack, ...]:
    every, zeros = np.arange(FEATURES), np.zeros(FEATURES)

    def exact(rows: FloatArray) -> IntArray:
        return signed_octaves(ArrayRecords(rows), zeros, zeros, every).ravel()

    def step(rows: FloatArray, entropy: Entropy) -> FloatArray:
        """As every look does: counts, then the noise of the look."""
        sigma = smallest_sigma(2 * FEATURES, _MU)
        counts = exact(rows)
        return flat(counts + rounded_normal(entropy.generator, sigma, len(counts)))

    target = StepTarget(exact, step, 2 * FEATURES)
    pairs = neighbours.octaves(RECORDS, FEATURES), neighbours.opposite(RECORDS, FEATURES, HUGE)
    return tuple(_attack(name, target, pair) for pair in pairs)


HANDMADE: Handmade = {
    "location": {"": _octaves},
    "centre": {"": _centre},
    "norms": {"": _norms},
}
