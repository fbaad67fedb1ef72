"""Intervals of pairs, as covariances and as correlations; everything is computed from a release."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hushcov._arrays import BoolArray, FloatArray, IntArray
from hushcov.postprocess import normal_interval, thresholded_interval, values_at
from hushcov.release.coverage import NORMAL, Coverage, coverage
from hushcov.release.document import Release


@dataclass(frozen=True, eq=False)
class PairEnds:
    """Intervals of pairs: of these values, among features of these variances, as released.

    All are in units of the scales. Intervals of pairs that were `found` allow for having passed
    their threshold.
    """

    release: Release
    places: tuple[IntArray, IntArray]
    values: FloatArray
    variance: FloatArray
    found: BoolArray
    threshold: float

    @cached_property
    def known(self) -> Coverage:
        """What is known of the features."""
        return coverage(self.release)

    def covariances(self, level: float) -> FloatArray:
        """Lower and upper ends for covariances."""
        errors, kept = self.known.errors(self.release, self.places, self.values, self.variance)
        limit = np.full(len(self.values), self.threshold)
        return np.array(_ends(self.values, errors, limit, self.found, level)) / kept

    def correlations(self, level: float) -> FloatArray:
        """The same for correlations; NaN where a variance is not positive."""
        rows, columns = self.places
        variance = np.where(self.variance > 0, self.variance, np.nan)
        unit = np.sqrt(variance[rows] * variance[columns])
        values = self.values / unit
        deviation = _correlation_sd(self.release, self.known, self.places, values, variance)
        ends = _ends(values, deviation, self.threshold / unit, self.found, level)
        return np.clip(np.array(ends), -1.0, 1.0)


def released_pairs(
    release: Release, places: tuple[IntArray, IntArray], found: BoolArray, threshold: float
) -> PairEnds:
    """Intervals about the released values of pairs."""
    values = np.asarray(values_at(release.integers, *places) * release.unit, np.float64)
    variance = np.asarray(release.integers.diagonal() * release.unit, dtype=np.float64)
    return PairEnds(release, places, values, variance, found, threshold)


def _ends(
    values: FloatArray, deviation: FloatArray, threshold: FloatArray, found: BoolArray, level: float
) -> tuple[FloatArray, FloatArray]:
    low, high = normal_interval(values, deviation, level)
    chosen = found & np.isfinite(values)
    low[chosen], high[chosen] = thresholded_interval(
        values[chosen], deviation[chosen], threshold[chosen], level
    )
    return low, high


def _correlation_sd(
    release: Release,
    known: Coverage,
    places: tuple[IntArray, IntArray],
    correlations: FloatArray,
    variance: FloatArray,
) -> FloatArray:
    """Deviations of correlations: those of the three noisy entries, and (1 - r^2) / sqrt(n)."""
    assert release.noise_sd is not None
    assert release.n_sampled is not None
    rows, columns = places
    pair, own = np.array(release.noise_sd)
    with np.errstate(over="ignore"):  # a release on disk may hold any finite numbers
        noise = pair**2 / (variance[rows] * variance[columns])
        shares = (own / variance[rows]) ** 2 + (own / variance[columns]) ** 2
        noise = noise + 0.25 * correlations**2 * shares
    longer = np.maximum(known.kurtosis[rows], known.kurtosis[columns]) / NORMAL
    sampling = np.maximum(1 - correlations**2, 0.0) ** 2 * np.maximum(longer, 1.0)
    return np.asarray(np.sqrt(noise + sampling / release.n_sampled))
