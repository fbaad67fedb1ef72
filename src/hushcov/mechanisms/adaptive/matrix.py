"""The whole matrix, looked at more than once: exact sums, and the mean of their noisy copies."""

from __future__ import annotations

import math

import numpy as np

from hushcov._arrays import FloatArray
from hushcov.accounting import Budget
from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.gaussian import (
    RADIUS,
    exact_half_width,
    noise_sigmas,
    norm_in_steps,
    symmetric_noise,
    unit_sigmas,
)
from hushcov.noise import Entropy
from hushcov.postprocess import largest_of, noise_norm, over_rows
from hushcov.steps.norms import WIDEST, NormBound, UnitBound
from hushcov.sums.gram import row_bounded_gram
from hushcov.sums.grids import FeatureGrid
from hushcov.sums.records import Records

#: Of the clock, for which noise must fit into integers.
LEAST_SHARE = 1e-3


class WholeMatrix:
    """Second moments of bounded records, and what was released of them.

    What the bound on norms takes off the trace is put back, to all entries alike. `mean` is the
    mean of all looks, weighted by their precision, in units of the scales; `noise_sd`
    has the deviations of its noise off and on the diagonal.
    """

    def __init__(
        self,
        records: Records,
        feature_scale: FloatArray,
        inputs: ReleaseInputs,
        bound: NormBound,
        time: float,
        *,
        widest: bool,
        units: UnitBound | None = None,
    ) -> None:
        radius = WIDEST if widest else RADIUS
        d, n, together = inputs.n_features, inputs.n_records, inputs.neighbours.together
        norm = bound.norm if units is None else math.sqrt(units.norm / together)
        norm = min(norm, radius * math.sqrt(d))
        half_width = exact_half_width(inputs, radius, norm, math.sqrt(LEAST_SHARE * time))
        grid = FeatureGrid(feature_scale, radius, half_width)
        self._of_units = units is not None
        if units is None:
            self._bound = norm_in_steps(norm, d, radius, half_width)
            self._gram = row_bounded_gram(records, grid, self._bound)  # proof: step 4
        else:
            from hushcov.sums.gram import unit_bounded_gram

            self._bound = max(1, math.floor(units.norm / grid.step**2))
            self._gram = unit_bounded_gram(records, grid, self._bound, together)  # proof: step 8
        self._neighbours = inputs.neighbours
        cut = bound.cut if units is None else units.cut
        self._half_width, self._unit = half_width, grid.step**2 / n / (1 - cut)
        self._precision: FloatArray = np.zeros(2)
        self.mean: FloatArray = np.zeros((d, d))

    def after(self, before: WholeMatrix, trust: float) -> WholeMatrix:
        """Take looks at another bound, with what the error of that bound leaves of their weight."""
        self._precision, self.mean = trust * before._precision, before.mean
        return self

    def look(self, mu: float, budget: Budget, entropy: Entropy) -> None:
        """Release the matrix once more.

        Privacy
        -------
        Neighbours: those of the inputs; no precondition. The upper triangle moves by at most `mu`
        deviations of its noise, whose time is taken before it is drawn.
        """
        budget.gaussian(mu)  # proof: step 4
        d = len(self._gram)
        if self._of_units:
            sigmas = unit_sigmas(self._bound, mu, self._neighbours)  # proof: step 8
        else:
            sigmas = noise_sigmas(d, self._half_width, self._bound, mu, self._neighbours)
        drawn = self._gram + symmetric_noise(entropy.generator, d, *sigmas)
        weights = 1 / (np.array(sigmas, dtype=np.float64) * self._unit) ** 2
        share = weights / (self._precision + weights)
        before, unit = self.mean, self._unit
        fresh = drawn.diagonal() * unit
        diagonal = before.diagonal() + share[1] * (fresh - before.diagonal())
        mean = np.empty((d, d))

        def average(rows: slice) -> None:
            mean[rows] = before[rows] + share[0] * (drawn[rows] * unit - before[rows])

        over_rows(average, d)
        np.fill_diagonal(mean, diagonal)
        self.mean = mean
        self._precision = self._precision + weights

    @property
    def noise_sd(self) -> tuple[float, float]:
        """Deviations of the noise of the mean off and on the diagonal."""
        off, on = 1 / np.sqrt(self._precision)
        return float(off), float(on)


def uneven_noise(whole: WholeMatrix, norm: float) -> float:
    """How much larger the noise is over the norm in deviations of the features than in scales."""
    noise, floor = whole.noise_sd, 3 * whole.noise_sd[1]
    factors = 1 / np.sqrt(np.maximum(np.diag(whole.mean), floor))
    factors /= factors.max()
    in_deviations = noise_norm(factors, *noise) / largest_of(
        lambda x: factors * (whole.mean @ (factors * x)), len(factors)
    )
    return max(1.0, in_deviations * norm / noise_norm(np.ones(len(factors)), *noise))
