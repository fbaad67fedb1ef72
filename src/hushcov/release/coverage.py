"""How sure released values are beyond their noise: tails of the features, and what bounds take off.

Everything is computed from a release. Where it says nothing of tails, columns count as normal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hushcov._arrays import BoolArray, FloatArray, IntArray
from hushcov.accounting import Gaussian
from hushcov.postprocess import normal_interval, thresholded_interval
from hushcov.release.document import FOURTH_POWERS, Release, Tails

#: The fourth moment of a normal column of variance 1.
NORMAL = 3.0
_LARGEST = 1e6  # a fourth moment that is not noise
_PRIOR_SD = 1.0  # of the mean over columns, about that of a normal one
_CHANCE = 2.0  # deviations by which columns must differ before they count as different
# Tails beyond this fourth moment make records long; all columns have a little of it.
_LONG, _LITTLE = 3.5, 0.05
_MOST_OF_SHRUNK = 0.5  # mean share that records beyond the bound lose, at most
# The mean of what is longer than the bound, over the bound.
_BEYOND = 1.2
# Most of half an interval: that was put back, by fourth moment, since tails are harder to follow;
# that it may be off by; and that nobody put back.
_MOST_PUT_BACK = ((3.4, 3.8), (0.75, 0.3))
_MOST_DOUBT, _MOST_UNEXPLAINED = 0.45, 0.4
# The same of an adaptive release, by fourth moment: of whole matrices, and of selected pairs, which
# are put right by how much records shrank. Heavy tails lose more than counts of norms show, but
# where hardly any record shrank.
_LIGHT_TAILS, _LIGHT_TAILS_OF_PAIRS = (3.4, 3.8), (3.2, 3.35)
_MOST_LEFT_OUT, _MOST_LEFT_OUT_OF_PAIRS, _MOST_OF_HEAVY = 0.6, 0.8, 0.4
_HARDLY_ANY = 0.005
# Records times the mu of their fourth powers, from which on heavy tails are told from normal ones:
# about 9,300 records at epsilon = 1.
_ENOUGH_TO_TELL = 220.0
_MOST_LOST = 0.9
_LIGHT, _MUCH = 2.8, 0.015
_HEAVIEST = 8.0  # a fourth moment beyond which neither errors nor losses are known well


@dataclass(frozen=True, eq=False)
class Coverage:
    """Tails of the features, and what bounding records took off their values.

    Parameters
    ----------
    kurtosis : ndarray
        Fourth moment over the squared variance.
    lost, lost_sd : ndarray
        Which share of its variance each feature lost, and the deviation of that.
    unexplained : ndarray
        A share beyond what normal records lose, which was not put back.
    most_unexplained : ndarray
        The most of that, as a part of half an interval.
    alike : float
        Which part of the loss all entries have in common; the rest follows their fourth moments.
    told : bool
        Whether heavy tails would be told from normal ones; where not, no interval holds for sure.
    """

    kurtosis: FloatArray
    lost: FloatArray
    lost_sd: FloatArray
    unexplained: FloatArray
    most_unexplained: FloatArray
    alike: float
    told: bool = True

    def sampling_sd(
        self, places: tuple[IntArray, IntArray], values: FloatArray, variance: FloatArray, n: int
    ) -> FloatArray:
        """Standard deviation of entries of an empirical covariance, variances among them.

        E x^2 z^2 of a pair of correlation r and variances 1 is 1 + 2 r^2 for normal columns and
        1 + (k - 1) |r| for 0/1 columns of fourth moment k; here 1 + 2 r^2 + (k - 3) |r|.
        """
        rows, columns = places
        own = np.maximum(variance, 0.0)
        product = own[rows] * own[columns]
        excess = 0.5 * (self.kurtosis[rows] + self.kurtosis[columns]) - NORMAL
        square = np.divide(values**2, product, out=np.ones_like(product), where=product > 0)
        pairs = np.sqrt(np.minimum(square, 1.0)) * np.maximum(excess, 0.0)
        more = np.where(rows == columns, excess, pairs)
        return np.asarray(np.sqrt(np.maximum(product * (1 + more) + values**2, 0.0) / n))

    def errors(
        self,
        release: Release,
        places: tuple[IntArray, IntArray],
        values: FloatArray,
        variance: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """Deviations of entries, all errors together, and which share of each the bounds left."""
        assert release.n_sampled is not None
        rows, columns = places
        noise = noise_of(release, places)
        sampling = self.sampling_sd(places, values, variance, release.n_sampled)
        factor = 0.5 * self._factor(places, values, variance)
        lost = factor * (self.lost[rows] + self.lost[columns])
        lost_sd = factor * (self.lost_sd[rows] + self.lost_sd[columns])
        deviation = np.sqrt(noise**2 + sampling**2 + (values * lost_sd) ** 2)
        return deviation, 1 - np.minimum(lost, _MOST_LOST)

    def _factor(
        self, places: tuple[IntArray, IntArray], values: FloatArray, variance: FloatArray
    ) -> FloatArray:
        """Loss of entries over the loss of their variances, for normal records.

        Entry (i, j) of the square of a covariance follows the products of long records; here that
        of the two features alone.
        """
        rows, columns = places
        product = np.maximum(variance[rows] * variance[columns], 0.0)
        square = np.divide(values**2, product, out=np.ones_like(product), where=product > 0)
        pairs = self.alike + (1 - self.alike) * 2 / (1 + np.minimum(square, 1.0))
        return np.where(rows == columns, 1.0, pairs)

    def holds(
        self, release: Release, pairs: tuple[IntArray, IntArray], values: FloatArray, level: float
    ) -> BoolArray:
        """Features of whose variance and of these pairs no interval has to bear too much."""
        assert release.n_sampled is not None
        own = np.arange(release.n_features)
        variance = release.variances
        found = self.tame
        for places, entries in ((pairs, values), ((own, own), variance)):
            noise = noise_of(release, places)
            sampling = self.sampling_sd(places, entries, variance, release.n_sampled)
            half = _half_width(np.hypot(noise, sampling), level)
            share = self._factor(places, entries, variance) * np.abs(entries)
            for features in places:
                most = np.interp(self.kurtosis[features], *_MOST_PUT_BACK)
                fails = share * self.lost[features] > most * half
                fails |= 2 * share * self.lost_sd[features] > _MOST_DOUBT * half
                most = self.most_unexplained[features]
                fails |= share * self.unexplained[features] > most * half
                found[features[fails]] = False
        return found

    @property
    def tame(self) -> BoolArray:
        """Features whose tails are known: neither too heavy, nor cut off."""
        # Light tails that lose much are heavy ones whose fourth powers were cut off.
        cut_off = (self.kurtosis < _LIGHT) & (self.lost > _MUCH)
        return np.asarray(self.told & (self.kurtosis <= _HEAVIEST) & ~cut_off)

    def smallest(self, release: Release, level: float) -> float:
        """No pair whose value is smaller fails by itself; infinite where none can."""
        worst = max(self.lost.max(), 2 * self.lost_sd.max(), self.unexplained.max())
        if worst == 0 or release.noise_sd is None or release.n_sampled is None:
            return np.inf
        least = min(*_MOST_PUT_BACK[1], _MOST_DOUBT, float(self.most_unexplained.min()))
        return float(least * _half_width(np.array(release.noise_sd[0]), level) / (2 * worst))


def noise_of(release: Release, places: tuple[IntArray, IntArray]) -> FloatArray:
    """Deviations of the noise of entries, in units of the scales."""
    assert release.noise_sd is not None
    return np.where(places[0] == places[1], release.noise_sd[1], release.noise_sd[0])


def _half_width(deviation: FloatArray, level: float) -> FloatArray:
    return normal_interval(np.zeros_like(deviation), deviation, level)[1]


def coverage(release: Release) -> Coverage:
    """Return the coverage of a release."""
    d, tails = release.n_features, release.making.tails
    none, most = np.zeros(d), np.full(d, _MOST_UNEXPLAINED)
    if tails is None or release.noise_sd is None:
        return Coverage(np.full(d, NORMAL), none, none, none, most, 1.0)
    variance = release.variances
    kurtosis = _kurtosis(tails, variance, release.noise_sd[1])
    unexplained = release.parameters.get("unexplained")
    if isinstance(unexplained, float):
        if "shrinkage" in release.parameters:  # which says what was lost
            part = _parts(kurtosis, variance, 0.0)
            return Coverage(kurtosis, none, none, unexplained * part, most, 1.0)
        # An adaptive release puts back what is surely beyond its bound, twice what is unexplained.
        # Long records hide in the noise of their counts: what a tail through these counts has
        # beyond is left out.
        left_out = np.full(d, max(unexplained, tails.lost - 2 * unexplained))
        most = _most_left_out(release, kurtosis)
        return Coverage(kurtosis, none, none, left_out, most, 1.0, _told(release))
    alike = _alike(release, float(np.maximum(variance, 0.0).sum()))
    part = _parts(kurtosis, variance, alike)
    return Coverage(kurtosis, tails.lost * part, tails.lost_sd * part, none, most, alike)


def _told(release: Release) -> bool:
    """Whether the noise of fourth powers lets heavy tails stand out; by public numbers."""
    parts = (part for part in release.making.parts if part.name == FOURTH_POWERS)
    mus = [event.mu for part in parts for event in part.events if isinstance(event, Gaussian)]
    n = release.n_sampled
    return n is not None and n * max(mus, default=math.inf) >= _ENOUGH_TO_TELL


def _most_left_out(release: Release, kurtosis: FloatArray) -> FloatArray:
    """How much of half an interval that may be, for each feature."""
    tail = np.maximum(kurtosis, np.median(kurtosis))  # that of one is noisier than that of all
    heavy = _MOST_OF_HEAVY if (release.making.shrunk or 0.0) <= _HARDLY_ANY else 0.0
    whole = release.selected is None
    light = _LIGHT_TAILS if whole else _LIGHT_TAILS_OF_PAIRS
    most = _MOST_LEFT_OUT if whole else _MOST_LEFT_OUT_OF_PAIRS
    return np.asarray(np.interp(tail, light, (most, heavy)))


def _kurtosis(tails: Tails, variance: FloatArray, noise: float) -> FloatArray:
    """Fourth moments over squared variances, noisy ones drawn to their common mean."""
    found = np.full(len(variance), NORMAL)
    known = (variance > 2 * noise) & (np.array(tails.fourth) != 0)
    if not known.any():
        return found
    square = variance[known] ** 2
    raw = np.array(tails.fourth)[known] / square
    deviation = np.hypot(tails.noise_sd / square, 2 * np.abs(raw) * noise / variance[known])
    precision = 1 / np.maximum(deviation, 1e-6) ** 2
    mean = float(precision @ raw / precision.sum())
    by_chance = len(raw) - 1 + _CHANCE * np.sqrt(2 * len(raw))  # of a chi-square
    spread = float(precision @ (raw - mean) ** 2) - by_chance
    spread = max(spread / float(precision.sum()), 0.0)
    weight = 1 / (1 / precision + spread)
    total = float(weight.sum()) + _PRIOR_SD**-2
    mean = (float(weight @ raw) + NORMAL / _PRIOR_SD**2) / total
    mean += total**-0.5  # rather too wide than too narrow
    drawn = (raw * spread + mean / precision) / (spread + 1 / precision)
    found[known] = np.clip(np.nan_to_num(drawn, nan=_LARGEST), 1.0, _LARGEST)
    return found


def _alike(release: Release, trace: float) -> float:
    """Which part of a loss is the same for all entries: the mean share of what long records lose.

    A record of squared norm s loses the share 1 - C^2 / s of everything.
    """
    bound = record_bound(release)
    if bound is None:
        return 1.0
    square = bound * bound
    tails, shrunk = release.making.tails, release.making.shrunk
    if not square > 0 or tails is None or not tails.lost > 0:
        return 1.0
    return min(1.0, trace / (_BEYOND * square), _MOST_OF_SHRUNK * (shrunk or 0.0) / tails.lost)


def record_bound(release: Release) -> float | None:
    """Return the bound on the norm of a record, in units of the scales; None without one."""
    names = ("norm_bound", "radius", "half_width")
    bound, radius, half_width = (release.parameter(name) for name in names)
    if bound is None or radius is None or half_width is None:
        return None
    return bound * radius / half_width


def _parts(kurtosis: FloatArray, variance: FloatArray, alike: float) -> FloatArray:
    """Return the loss of each feature over the mean loss."""
    weight = np.maximum(variance, 0.0)
    if not weight.sum() > 0:
        return np.ones_like(weight)
    tail = (np.maximum(kurtosis - _LONG, 0.0) + _LITTLE) * weight
    mean = float(np.average(tail, weights=weight))
    return alike + (1 - alike) * (tail / mean if mean > 0 else np.ones_like(tail))


@dataclass(frozen=True, eq=False)
class PairEnds:
    """Intervals of pairs of these values, among features of these variances, as released.

    All are in units of the scales. Intervals of values beyond the threshold, where it is not zero,
    allow for having passed it.
    """

    release: Release
    places: tuple[IntArray, IntArray]
    values: FloatArray
    variance: FloatArray
    threshold: float
    known: Coverage

    def covariances(self, level: float) -> FloatArray:
        """Return lower and upper ends for covariances."""
        errors, kept = self.known.errors(self.release, self.places, self.values, self.variance)
        return self._ends(self.values, errors, np.ones(len(self.values)), level) / kept

    def correlations(self, level: float) -> FloatArray:
        """Return lower and upper ends for correlations; NaN where a variance is not positive.

        Their deviations are those of the three noisy entries, and (1 - r^2) / sqrt(n).
        """
        assert self.release.noise_sd is not None
        assert self.release.n_sampled is not None
        rows, columns = self.places
        variance = np.where(self.variance > 0, self.variance, np.nan)
        unit = np.sqrt(variance[rows] * variance[columns])
        values = self.values / unit
        pair, own = np.array(self.release.noise_sd)
        with np.errstate(over="ignore"):  # a release on disk may hold any finite numbers
            noise = pair**2 / (variance[rows] * variance[columns])
            shares = (own / variance[rows]) ** 2 + (own / variance[columns]) ** 2
            noise = noise + 0.25 * values**2 * shares
        longer = np.maximum(self.known.kurtosis[rows], self.known.kurtosis[columns]) / NORMAL
        sampling = np.maximum(1 - values**2, 0.0) ** 2 * np.maximum(longer, 1.0)
        deviation = np.sqrt(noise + sampling / self.release.n_sampled)
        return np.clip(self._ends(values, deviation, unit, level), -1.0, 1.0)

    def _ends(
        self, values: FloatArray, deviation: FloatArray, unit: FloatArray, level: float
    ) -> FloatArray:
        low, high = normal_interval(values, deviation, level)
        if self.threshold > 0:
            passed = (np.abs(self.values) > self.threshold) & np.isfinite(values)
            low[passed], high[passed] = thresholded_interval(
                values[passed], deviation[passed], self.threshold / unit[passed], level
            )
        return np.array([low, high])
