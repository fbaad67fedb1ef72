"""Calls, frequencies and integers of variants, from released counts; and the bound on norms."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.genotypes.parameters import PAIR_WEIGHT, SCALE

#: Frequencies of the rarer allele below this have its scale: values stay below 2**10.
LEAST_FREQUENCY = 0.005
_LEAST_SHARE = 0.05  # of records that have a call
_NOISY = 2.0  # deviations of its noise, which a frequency counts as at least
_LARGEST_SPOILT = 0.5  # of a variance, that noise of its mean is taken to have added
_SPREAD_EVIDENCE = 2.0  # deviations by which calls must spread more than noise does
_TOP_EVIDENCE, _BIN_EVIDENCE = 4.0, 1.0  # deviations of noise that counts must exceed
_LEAST_KEPT = 0.5  # of the records seen
_HARM = 2.0  # what shorter records on average do, over noise: they shift all pairs alike
_UNSEEN = 2.0  # squared bound over the usual squared norm, where nothing is seen


@dataclass(eq=False)
class Variants:
    """What was released, or is public, of the variants: filled in block by block.

    `shares` are those of records with a call, `means` those of genotypes. A value of genotype g is
    the integer slope * g - offset. `mean_noise` is the deviation of a mean for a share of 1.
    """

    shares: FloatArray
    means: FloatArray
    slopes: IntArray
    offsets: IntArray
    mean_noise: float
    filled: int = 0

    @classmethod
    def unknown(cls, n_features: int, mean_noise: float) -> Variants:
        """Variants of which nothing is known yet."""
        shares, means = np.zeros((2, n_features))
        slopes, offsets = np.zeros((2, n_features), dtype=np.int64)
        return cls(shares, means, slopes, offsets, mean_noise)

    def fill(self, shares: FloatArray, means: FloatArray) -> None:
        """Keep what is known of the next variants."""
        part = slice(self.filled, self.filled + len(shares))
        self.shares[part], self.means[part] = shares, means
        least = min(0.5, max(LEAST_FREQUENCY, _NOISY * self.mean_noise / 2))
        frequency = np.clip(means / 2, least, 1 - least)
        scale = np.sqrt(2 * frequency * (1 - frequency))
        self.slopes[part] = np.rint(SCALE / scale)
        self.offsets[part] = np.rint(self.slopes[part] * means)
        self.filled = part.stop

    @property
    def shift(self) -> FloatArray:
        """How far the integers' centre is from the means, in units of `SCALE`."""
        return np.asarray((self.slopes * self.means - self.offsets) / SCALE)

    @property
    def spoilt(self) -> FloatArray:
        """What noise of the means added to variances, in the same unit, squared."""
        added = (self.slopes * self.mean_noise / (SCALE * self.shares)) ** 2
        return np.minimum(added, _LARGEST_SPOILT)


def call_shares(noisy_calls: IntArray, sigma: int, n_records: int) -> FloatArray:
    """The share of records with a call, of each variant: drawn to their mean as noise asks."""
    raw, noise = noisy_calls / n_records, (sigma / n_records) ** 2
    mean, d = float(raw.mean()), len(raw)
    spread = float(np.mean((raw - mean) ** 2)) - noise
    if spread <= _SPREAD_EVIDENCE * noise * math.sqrt(2 / d):
        spread = 0.0
    weight = spread / (spread + noise)
    return np.clip(mean + weight * (raw - mean), _LEAST_SHARE, 1.0)


def genotype_means(noisy_sums: IntArray, shares: FloatArray, n_records: int) -> FloatArray:
    """Mean genotypes, from noisy sums of genotypes less 1."""
    return np.clip(1 + noisy_sums / (n_records * shares), 0.0, 2.0)


def chosen_bin(
    noisy_counts: IntArray, sigma: int, edges: IntArray, usual: int, noise_per_bound: float
) -> int:
    """The bin up to which records are kept: noise and what leaving records out does are least.

    `noise_per_bound` is the deviation of a correlation for a bound of 1 on norms.
    """
    counts = noisy_counts[: len(edges)].astype(np.float64)  # the last one is never kept
    seen = np.flatnonzero(counts > _TOP_EVIDENCE * sigma)
    if not len(seen):
        return int(np.searchsorted(edges, _UNSEEN * usual))
    mass = np.where(counts > _BIN_EVIDENCE * sigma, counts, 0.0)[: seen[-1] + 1]
    mass /= mass.sum()
    bounds = np.sqrt(edges[: len(mass)].astype(np.float64))
    kept, size = np.cumsum(mass), np.cumsum(mass * bounds)
    there = np.maximum(kept, _LEAST_KEPT)
    noise = noise_per_bound * bounds / there
    lost = _HARM * (1 - size / (there * size[-1]))
    harm = np.where(kept >= _LEAST_KEPT, noise**2 + lost**2, np.inf)
    return int(np.argmin(harm))


def noise_of_bound(sigma_per_bound: float, n_records: int) -> float:
    """The deviation of a correlation's noise, for a bound of 1 on norms."""
    return sigma_per_bound / (PAIR_WEIGHT * SCALE**2 * n_records)
