"""Errors of released values beyond their noise: tails of the features, and losses to bounds.

Everything is computed from a release. Where it says nothing of tails, columns count as normal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import special

from hushcov._arrays import BoolArray, FloatArray, IntArray, Matrix
from hushcov.postprocess import is_sparse, row_blocks, thresholded_interval
from hushcov.release.document import Release, Tails
from hushcov.release.estimate import scales_of

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
# The logarithm of what tails lose: so much of log(variance in the scales before they were moved)
# beyond the start, less where there are more records, whose bounds are wider; measured from
# `_USUAL` on. And what counts of norms say that all lose, with so many of its deviations, at most.
# Intervals start earlier, so as to cover tables whose tails are hardly seen.
_STEEP, _START, _MORE, _USUAL = 0.6, 0.2, 0.2, 13_000
_EARLIER = 0.0
_LEAST_SHARE = 1e-9  # a variance of a 0/1 column, at least
_LEAST_VARIANCE = 0.3  # in squared scales; scales are hardly ever too large by more
_DEVIATIONS, _MOST_COMMON = 0.03, 0.85
# How far beyond its released value a variance may be: nearly nothing for light tails, and the more
# the heavier they seem. The same adds to the deviation of correlations. All are fitted to tables of
# many kinds by `benchmarks/studies/error_estimate.py`.
_HEAVY_TAIL, _BEND, _OTHERS, SURE = 2.6, 0.6, 0.25, 2.0
_LONGER, _LONGEST = 0.03, 6.0  # for each of a fourth moment beyond `_LONG`
_TURNED, _OF_CUT = 0.07, 0.3
# How far off a mean may be by what bounds cut off, in deviations of its noise, for each of the
# logarithms above, of which the common one counts up to a limit, and for the distance of far
# records; fitted by `benchmarks/studies/means.py`.
_MEAN_TAIL, _MEAN_COMMON, _MOST_MEAN_COMMON, _MEAN_LONG = 14.0, 4.0, 0.9, 0.5
# The same for columns that have most values on one side of the released mean: see `_skewed_sd`. And
# the unit of what was released of that (`TILT_UNIT`).
_MEAN_SKEWED, _SKEWED_POWER, _TILT_UNIT = 2.0, 6, 2**10
_OF_ROUNDING = 1e-9  # of a sum of shares
# What may be missing of a variance beyond which no interval says anything, and which share of all
# squared norms a bound may have cut off.
_MOST_LOG, _MOST_COMMONLY = 3.0, 1.88
# A bound on the norms of records that exceeds the one of normal records by more than so much, as a
# logarithm, shows records far away. What that may add to the logarithms of variances and to
# correlations, for each of the logarithm, and to correlations where all may have lost something.
_RARELY, _USUALLY_LONG = 3.719, 0.5  # a normal quantile, of 1 - 1e-4; a logarithm
_OF_LONG, _TURNED_BY_LONG, _TURNED_BY_COMMON = 0.65, 0.032, 0.05
_NOTED = 0.4  # from which on people are told that tails made an interval wider
_MOST_LOST = 0.9
# A variance within so many deviations of its noise may be zero. That says something only where they
# are at most so much, in squared scales: usual columns have variances about 1.
_MAY_BE_ZERO, _MOST_UNSURE = 3.0, 0.25


Places = tuple[IntArray, IntArray]


class Norms(NamedTuple):
    """Bound on the norms of records and approximate variance of a feature, from counts of norms.

    Both are in units of the scales.
    """

    norm: float
    typical: float


@dataclass(frozen=True, eq=False)
class Coverage:
    """Tails of the features of a release, and what bounding records took off their values.

    Parameters
    ----------
    release : Release
    kurtosis : ndarray
        Fourth moment over the squared variance.
    lost, lost_sd : ndarray
        Which share of its variance each feature lost, and the deviation of that.
    tail : ndarray
        About the logarithm of what each variance is larger by than was released.
    common : float
        The same that all may have in common, at most.
    cut : float
        Which share of all squared norms a bound may have taken off without anybody knowing whose.
    alike : float
        Which part of the loss all entries have in common; the rest follows their fourth moments.
    missing : float
        About which share of the squared norms is lost beside `lost`, and was not put back.
    long : float
        Distance of far records beyond normal ones, as a logarithm: see `long_records`.
    constant : ndarray of bool
        Features whose variance noise explains, so that nothing is known of their tails.
    """

    release: Release
    kurtosis: FloatArray
    lost: FloatArray
    lost_sd: FloatArray
    tail: FloatArray
    common: float
    cut: float
    alike: float
    constant: BoolArray
    missing: float = 0.0
    long: float = 0.0

    def sampling_sd(self, places: Places, values: FloatArray) -> FloatArray:
        """Return standard deviations of entries of an empirical covariance, variances among them.

        E x^2 z^2 of a pair of correlation r and variances 1 is 1 + 2 r^2 for normal columns and
        1 + (k - 1) |r| for 0/1 columns of fourth moment k; here 1 + 2 r^2 + (k - 3) |r|.
        """
        rows, columns = places
        product, square = self._products(places, values)
        excess = 0.5 * (self.kurtosis[rows] + self.kurtosis[columns]) - NORMAL
        pairs = np.sqrt(np.minimum(square, 1.0)) * np.maximum(excess, 0.0)
        more = np.where(rows == columns, excess, pairs)
        n = self.release.n_sampled
        return np.asarray(np.sqrt(np.maximum(product * (1 + more) + values**2, 0.0) / n))

    def _products(self, places: Places, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return products of the two variances, and squared correlations."""
        own = np.maximum(self.release.variances, 0.0)
        product = own[places[0]] * own[places[1]]
        square = np.divide(values**2, product, out=np.ones_like(product), where=product > 0)
        return product, square

    def errors(self, places: Places, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return deviations of entries, all errors together, and the shares that bounds left."""
        rows, columns = places
        noise, sampling = noise_of(self.release, places), self.sampling_sd(places, values)
        factor = 0.5 * self._factor(places, values)
        lost = factor * (self.lost[rows] + self.lost[columns])
        lost_sd = factor * (self.lost_sd[rows] + self.lost_sd[columns])
        deviation = np.sqrt(noise**2 + sampling**2 + (values * lost_sd) ** 2)
        return deviation, 1 - np.minimum(lost, _MOST_LOST)

    def _factor(self, places: Places, values: FloatArray) -> FloatArray:
        """Return the loss of entries over the loss of their variances, for normal records.

        Entry (i, j) of the square of a covariance follows the products of long records; here that
        of the two features alone.
        """
        _, square = self._products(places, values)
        pairs = self.alike + (1 - self.alike) * 2 / (1 + np.minimum(square, 1.0))
        return np.where(places[0] == places[1], 1.0, pairs)

    def shared_errors(self, places: Places, values: FloatArray) -> FloatArray:
        """Return deviations by the one error of all entries: losses that are not put back."""
        lost_sd = 0.5 * (self.lost_sd[places[0]] + self.lost_sd[places[1]])
        return np.asarray(values * self._factor(places, values) * np.hypot(lost_sd, self.missing))

    def covariance_ends(
        self, places: Places, values: FloatArray, level: float, threshold: float = 0.0
    ) -> FloatArray:
        """Return lower and upper ends for covariances, in units of the scales.

        Intervals of values beyond a threshold allow for having passed it.
        """
        errors, kept = self.errors(places, values)
        passed = np.where(np.abs(values) > threshold, threshold, 0.0)
        ends = np.array(thresholded_interval(values, errors, passed, level))
        return self.widen(ends / kept, places)

    def correlation_ends(
        self, places: Places, released: FloatArray, level: float, threshold: float
    ) -> FloatArray:
        """Return lower and upper ends for correlations; NaN where a variance is not positive.

        Their deviations are those of the three noisy entries, and (1 - r^2) / sqrt(n).
        """
        release, (rows, columns) = self.release, places
        assert release.n_sampled is not None
        variance = np.where(release.variances > 0, release.variances, np.nan)
        unit = np.sqrt(variance[rows] * variance[columns])
        values, every = released / unit, np.arange(len(variance))
        pair, own = noise_of(release, places), noise_of(release, (every, every))
        with np.errstate(over="ignore"):  # a release on disk may hold any finite numbers
            noise = pair**2 / (variance[rows] * variance[columns])
            shares = (own / variance)[rows] ** 2 + (own / variance)[columns] ** 2
            noise = noise + 0.25 * values**2 * shares
        longer = np.maximum(self.kurtosis[rows], self.kurtosis[columns]) / NORMAL
        sampling = np.maximum(1 - values**2, 0.0) ** 2 * np.maximum(longer, 1.0)
        if release.making.transforms is not None:
            from hushcov.release.scores import score_variances

            scored = score_variances(release.making.transforms, places, values)
            sampling = np.where(np.isnan(scored), sampling, scored)
        deviation = np.sqrt(noise + sampling / release.n_sampled + self.turned(places) ** 2)
        passed = (np.abs(released) > threshold) & np.isfinite(values)
        limit = np.where(passed, threshold / unit, 0.0)
        return np.clip(thresholded_interval(values, deviation, limit, level), -1.0, 1.0)

    @property
    def holds(self) -> BoolArray:
        """Features whose intervals can be believed; none where there are no intervals."""
        known = self.release.noise_sd is not None and self.release.n_sampled is not None
        short = (self.tail <= _MOST_LOG) | self.constant
        return np.asarray(short & known & (self.common <= _MOST_COMMONLY))

    @property
    def heavy(self) -> BoolArray:
        """Features whose tails make intervals wider, by much; no constant one is among them."""
        return np.asarray((self.tail > _NOTED) & ~self.constant)

    def widen(self, ends: FloatArray, places: Places) -> FloatArray:
        """Move the ends of intervals of covariances, or variances, by what may be missing.

        Values beyond a bound were cut down, so that truths are larger in size than what was
        released, by the root of what each of the two variances may be; and where a bound was made
        up for in all features alike, truths of some are smaller.
        """
        longer = _LONGER * np.clip(self.kurtosis - _LONG, 0.0, _LONGEST)
        seen = np.maximum(_HEAVY_TAIL * self._bent, _OF_LONG * self.long)
        beyond = seen + longer + self.common + 2 * self.cut
        larger = np.exp((beyond[places[0]] + beyond[places[1]]) / 2)
        outwards = np.array([ends[0] < 0, ends[1] > 0])
        return np.asarray(ends * np.where(outwards, larger, math.exp(-self.cut)))

    def turned(self, places: Places) -> FloatArray:
        """Return the deviation by which values cut down may move correlations."""
        bent = self._bent
        turned = _TURNED * np.maximum(bent[places[0]], bent[places[1]])
        turned = np.maximum(turned, _TURNED_BY_LONG * self.long)
        return np.asarray(turned + _OF_CUT * self.cut + _TURNED_BY_COMMON * self.common)

    @property
    def _bent(self) -> FloatArray:
        """Tails by feature, with a little of those that the others have."""
        others = self.tail[~self.constant] > 0
        return np.asarray(self.tail**_BEND + _OTHERS * others.mean() if len(others) else self.tail)


def constant_mask(scale: FloatArray | None, variance: FloatArray, noise_sd: float) -> BoolArray:
    """Return which features do not vary beyond noise: they are left out of the error of the others.

    They have no scale, or a variance, in squared scales, that noise of this deviation explains.
    """
    still = np.zeros(len(variance), dtype=bool) if scale is None else scale == 0
    if _MAY_BE_ZERO * noise_sd <= _MOST_UNSURE:
        still |= variance <= _MAY_BE_ZERO * noise_sd
    return np.asarray(still)


def not_found(release: Release) -> list[int]:
    """Return the features without a mean and a scale; others of the unresolved have one value."""
    mean = release.location
    return [i for i in release.making.unresolved if mean is None or mean[i] == 0]


def long_records(
    bound: Norms, scale: FloatArray, matrix: Matrix, noise_sd: float, unit: float = 1.0
) -> float:
    """Return by how much records lie farther out than normal ones of this covariance.

    `bound` is what counts of norms asked for, `scale` has the scales of the features, and `matrix`,
    times `unit`, the covariance in units of them, with noise of deviation `noise_sd` on each entry.
    A squared norm of normal records is about a chi-square, whose degrees of freedom follow from the
    eigenvalues. The answer is the logarithm of the squared bound over one that such records hardly
    reach, less what is usual, and not below 0.
    """
    norm, typical = bound
    n_scaled, trace = int(np.count_nonzero(scale)), float(matrix.diagonal().sum()) * unit
    if not n_scaled:
        return 0.0
    parts = [matrix.data] if is_sparse(matrix) else [matrix[at] for at in row_blocks(len(scale))]
    squares = sum(float(np.sum((part * unit) ** 2)) - part.size * noise_sd**2 for part in parts)
    freedom = min(max(trace * trace / max(squares, 1e-300), 1.0), float(n_scaled))
    ninth = 2 / (9 * freedom)  # the approximation of Wilson and Hilferty to a quantile
    usual = 3 * math.log(1 - ninth + _RARELY * math.sqrt(ninth))
    over = 2 * math.log(norm) - math.log(n_scaled) - math.log(typical)
    return max(0.0, over - usual - _USUALLY_LONG)


def _long(release: Release) -> float:
    """Return `long_records` of a release; 0 where no norms were released."""
    norm, typical = (release.parameter("norm", name) for name in Norms._fields)
    scale, noise_sd = release.feature_scale, release.noise_sd
    if norm is None or typical is None or noise_sd is None or scale is None:
        return 0.0
    with np.errstate(all="ignore"):  # a release on disk may hold any finite numbers
        bound = Norms(norm, typical)
        found = long_records(bound, scale, release.integers, noise_sd[0], release.unit)
    return found if math.isfinite(found) else 0.0


def noise_of(release: Release, places: Places) -> FloatArray:
    """Return the deviations of the noise of entries, in units of the scales."""
    assert release.noise_sd is not None
    rows, columns = places
    noise = np.where(rows == columns, release.noise_sd[1], release.noise_sd[0])
    at = release.shared_places
    if not len(at):
        return noise
    assert release.making.means_sd is not None
    assert release.location is not None
    assert release.feature_scale is not None
    if release.selected is None:
        left = np.ones(release.n_features)  # adding up lowers the noise of pairs with each level
        for each in release.share_groups:
            if len(each) > 1 and abs(float(release.location[each].sum()) - 1) < _OF_ROUNDING:
                square = scales_of(release)[each] ** 2
                left[each] = np.sqrt(1 - square / square.sum())
        noise = np.where(rows == columns, noise, noise * left[rows] * left[columns])
    inside = np.zeros(release.n_features, dtype=bool)
    inside[at] = True
    p, sd = release.location, np.array(release.making.means_sd)
    # The second term is that of p (1 - p) at its largest.
    own = np.hypot((1 - 2 * p) * sd, sd**2)
    own = np.divide(own, release.feature_scale**2, out=np.zeros_like(own), where=inside)
    return np.where((rows == columns) & inside[rows], own[rows], noise)


def missing_logarithm(
    tails: Tails, variance: FloatArray, noise_sd: float, n_records: int, start: float | None = None
) -> FloatArray:
    """Return about the logarithm of the true variances over the released ones, not below 0.

    Scales start where most values lie, and come nearer to deviations look by look. Where tails are
    heavy they go on growing: by how much tells what is still cut off, beyond `start`. A variance
    far below the squared scale was cut off, too: rare values are longer than the bound on norms.
    """
    stretch = np.ones(len(variance)) if tails.stretch is None else np.array(tails.stretch)
    seen = np.maximum(variance - noise_sd, 1e-300) * stretch**2
    fewer = _MORE * math.log(max(n_records / _USUAL, 1.0))
    found = _STEEP * np.log(seen) - (_START if start is None else start) - fewer
    below = np.log(_LEAST_VARIANCE / np.maximum(variance + 2 * noise_sd, 1e-300))
    return np.asarray(np.maximum(0.0, np.maximum(found, np.minimum(below, _MOST_LOG))))


def common_logarithm(tails: Tails, put_back: float, deviations: float = _DEVIATIONS) -> float:
    """Return what counts of norms say that is missing of all variances, as a logarithm.

    `put_back` is the share of all squared norms that was cut off and put back.
    """
    share = tails.lost + deviations * tails.lost_sd - put_back
    return -math.log1p(-min(max(share, 0.0), _MOST_COMMON))


def _skewed_sd(release: Release, variance: FloatArray, tail: FloatArray) -> FloatArray:
    """Return by about how much means may miss rare values on one side, as deviations.

    If nearly all values of a column are alike and a share p lies above them, its mean exceeds these
    by sd sqrt(p / (1 - p)), and that is lost where the few were cut down. The mean of the signs of
    centred values, 2 p - 1, shows such columns.
    """
    tilt = release.parameters.get("tilt")
    if not isinstance(tilt, list) or len(tilt) != release.n_features:
        return np.zeros(release.n_features)
    size = np.minimum(np.abs(np.array(tilt, dtype=np.float64)) / _TILT_UNIT, 1.0)
    away = np.sqrt(np.maximum(variance, 0.0) * np.exp(tail) * (1 - size) / (1 + size))
    return np.asarray(_MEAN_SKEWED * size**_SKEWED_POWER * away)


def mean_ends(
    release: Release, known: Coverage, level: float
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the means of a release with both ends of intervals, and their standard errors.

    Noise and sampling are counted, and what the mean of a skewed column may have lost to bounds.
    """
    d, n, noise = release.n_features, release.n_sampled, release.making.means_sd
    none = np.full(d, np.nan)
    if release.location is None or n is None or noise is None:
        return (none if release.location is None else release.location, none, none, none)
    mean, own = release.location.astype(np.float64), np.array(noise)
    variance, shared = release.variances * scales_of(release) ** 2, release.shared_places
    beyond = _MEAN_TAIL * known.tail + _MEAN_COMMON * min(known.common, _MOST_MEAN_COMMON)
    beyond = beyond + _MEAN_LONG * known.long
    skewed = _skewed_sd(release, variance, known.tail)
    skewed[shared] = 0.0
    own = np.sqrt(own**2 * (1 + beyond**2) + skewed**2)
    error = np.sqrt(own**2 + np.maximum(variance, 0.0) / n)
    width = float(special.ndtri(0.5 + level / 2))
    ends = np.array([mean - width * error, mean + width * error])
    # Shares within `width` deviations (Wilson's interval).
    p, more = mean[shared], width**2 / n
    middle = (p + more / 2) / (1 + more)
    half = np.sqrt(np.maximum(middle**2 - (p**2 - (width * own[shared]) ** 2) / (1 + more), 0.0))
    ends[:, shared] = np.clip([middle - half, middle + half], 0.0, 1.0)
    ends[:, list(release.making.unresolved)] = np.array([[-np.inf], [np.inf]])
    error[list(release.making.unresolved)] = np.nan
    if release.making.bounds is not None and release.making.transforms is None:
        low, high = np.array(release.making.bounds, dtype=np.float64).T  # None is NaN
        ends = np.fmin(np.fmax(ends, low), high)
    return mean, ends[0], ends[1], error


def coverage(release: Release) -> Coverage:
    """Return the coverage of a release."""
    d, tails, n = release.n_features, release.making.tails, release.n_sampled
    none = np.zeros(d)
    if tails is None or release.noise_sd is None or n is None:
        return Coverage(release, np.full(d, NORMAL), none, none, none, 0.0, 0.0, 1.0, none > 0)
    variance, noise = release.variances, release.noise_sd[1]
    constant = variance <= _MAY_BE_ZERO * noise
    kurtosis = _kurtosis(tails, variance, noise)
    unexplained = release.parameters.get("unexplained")
    if isinstance(unexplained, float):  # half of what is surely beyond a bound, and was put back
        lost, put_back, alike = none, 2 * unexplained, 0.0
        missing = float(np.hypot(max(tails.lost - put_back, 0.0), tails.lost_sd))
        if release.making.shrunk is not None:  # long records: twice the mean, and half of it lost
            missing = min(missing, 2 * _MOST_OF_SHRUNK * release.making.shrunk)
    else:
        alike = _alike(release, float(np.maximum(variance, 0.0).sum()))
        lost, put_back = _parts(kurtosis, variance, alike), tails.lost
        unexplained = missing = 0.0
    tail = missing_logarithm(tails, variance, noise, n, _EARLIER)
    common = common_logarithm(tails, put_back, SURE)
    tail[list(release.making.unresolved)] = 0.0  # their intervals are infinite
    scored = [i for i, own in enumerate(release.making.transforms or ()) if own and own.shares]
    tail[scored] = 0.0  # normal scores are bounded, and none is cut down
    inside = release.shared_places
    if len(inside):  # no record of a 0/1 column is long, and its share says its fourth moment
        own = np.maximum(variance * scales_of(release) ** 2, _LEAST_SHARE)[inside]
        kurtosis[inside], tail[inside], lost = np.maximum(1 / own - 3, 1.0), 0.0, lost.copy()
        lost[inside] = 0.0
    part = tails.lost * lost, tails.lost_sd * lost
    cut, long = min(unexplained, 1.0), _long(release)
    return Coverage(release, kurtosis, *part, tail, common, cut, alike, constant, missing, long)


def _kurtosis(tails: Tails, variance: FloatArray, noise: float) -> FloatArray:
    """Return fourth moments over squared variances, noisy ones drawn to their common mean."""
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
    """Return the part of a loss that all entries share: the mean share that long records lose.

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
