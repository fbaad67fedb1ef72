"""The multiscale threshold tests under attack, at the paper's constants and at calibrated ones."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.lab.audit import neighbours
from hushcov.lab.audit.attack import (
    DELTA,
    EPSILON,
    FEATURES,
    RECORDS,
    Attack,
    Builder,
    Draw,
    Target,
    flat,
    matrix_statistics,
    summed,
)
from hushcov.lab.audit.neighbours import HUGE, Pair
from hushcov.mechanisms.multiscale import (
    CalibratedInputs,
    Design,
    Moments,
    Parameters,
    PublicInputs,
    TheoremParameters,
    calibrated_parameters,
    grid_for,
    release_multiscale,
    theorem_parameters,
)
from hushcov.mechanisms.multiscale import mechanism as multiscale
from hushcov.noise import Entropy
from hushcov.records import ArrayRecords, second_moments
from hushcov.simulate import SimulatedMoments

_RADIUS = 2.0
_DESIGN = Design(
    clip_radius=_RADIUS,
    base_threshold=1.0,
    n_levels=1,
    base_tests=4.0,
    quota_factor=1e6,  # every test is kept
    energy_factor=1.0,
    selection_ratio=1.0,
    gate_clip=math.inf,
    keep_above=0.0,
)


@dataclass(frozen=True, eq=False)
class MultiscaleTarget(Target):
    """`release_multiscale`: all entries of the released integers, then which are not zero.

    The paper's constants need more records than can be stored. There the records of a pair are
    few, and `background` is the second-moment matrix of all others.
    """

    parameters: Parameters
    background: FloatArray | None = None

    def quick(self, rows: FloatArray) -> Draw:
        """Compute the statistic once; select and test each time."""
        statistic = multiscale._statistic(self._moments(rows), self.parameters)

        def draw(generator: np.random.Generator) -> FloatArray:
            upper, _ = multiscale._reconstruct(statistic, self.parameters, generator)
            return _with_support(multiscale._symmetric(upper, rows.shape[1]))

        return draw

    def released(self, rows: FloatArray, entropy: Entropy) -> FloatArray:
        """The released integers, and which are not zero."""
        release = release_multiscale(self._moments(rows), self.parameters, entropy)
        return _with_support(release.integers)

    def _moments(self, rows: FloatArray) -> Moments:
        if not isinstance(self.parameters, TheoremParameters):
            return second_moments(ArrayRecords(rows), grid_for(self.parameters))
        assert self.background is not None
        clipped = np.clip(rows, -self.parameters.clip_radius, self.parameters.clip_radius)
        n = self.parameters.inputs.n_records
        return SimulatedMoments(self.background + clipped.T @ clipped / n, n)


def _with_support(integers: IntArray) -> FloatArray:
    return flat(integers, integers != 0)


def _calibrated(mechanism: str) -> tuple[Attack, ...]:
    reconstruction = mechanism.split("-")[1]

    def attack(pair: Pair, **design: Any) -> Attack:
        inputs = CalibratedInputs(pair.n_records, pair.n_features, 2, EPSILON, DELTA, 1.0)
        threshold = _RADIUS**2 / pair.n_records  # what one product can reach
        changed = replace(_DESIGN, base_threshold=threshold, **design)
        target = MultiscaleTarget(calibrated_parameters(inputs, changed, reconstruction))
        corner = pair.n_features**2 + pair.n_features - 1  # whether the first row's last is zero
        kept = summed("entry not zero", [corner], 2 * pair.n_features**2)
        return Attack(mechanism, target, pair, (*matrix_statistics(pair), kept))

    n, d = RECORDS, FEATURES
    edge = neighbours.edge_of_selection(3, HUGE, 1, 0)
    return (
        attack(neighbours.sign_flips(n, d, HUGE)),
        attack(neighbours.sign_flips_among_others(n, d, HUGE)),
        # One test of one entry is selected, at nearly all of the budget.
        attack(edge, base_tests=1.0, quota_factor=0.1, selection_ratio=0.2),
    )


def _theorem(mechanism: str) -> tuple[Attack, ...]:
    """At the fewest records that the paper's proof covers, where one record hardly matters."""
    d = 2
    inputs = PublicInputs(1, d, 1, 0.25, 1.0, DELTA, 0.1, 1.0)
    n = theorem_parameters(inputs).smallest_private_n
    parameters = theorem_parameters(replace(inputs, n_records=n))
    pair = neighbours.sign_flips(1, d, HUGE)
    # Off the diagonal at the smallest threshold, where gates open now and then.
    background = np.eye(d) + parameters.thresholds[0] * (1 - np.eye(d))
    target = MultiscaleTarget(parameters, background)
    return (Attack(mechanism, target, pair, matrix_statistics(pair), slowness=4),)


BUILDERS: dict[str, Builder] = {
    "multiscale-theorem": _theorem,
    "multiscale-gate": _calibrated,
    "multiscale-value": _calibrated,
}
