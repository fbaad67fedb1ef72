"""What a release shows: correlations, the pairs it found, and intervals. Nothing else is read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from hushcov.exceptions import DataError
from hushcov.mechanisms import Release
from hushcov.postprocess import (
    Matrix,
    detection_deviation,
    is_noise,
    is_sparse,
    normal_interval,
    sampling_sd,
    symmetric_sparse,
    thresholded_interval,
    universal_threshold,
    values_at,
)
from hushcov.report.html.markup import number
from hushcov.report.html.pairs import Pairs, Scan, ordered, pairs_at, scan
from hushcov.report.html.subject import Subject, positive

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

LEVEL = 0.95
MOST_PAIRS = 600_000  # in the heat map
MOST_INTERVALS = 20_000
_UNTHRESHOLDED = 2  # pairs for each feature taken for found where nothing says which are noise
_LARGEST_NOISE = 1e100  # of which doubles hold the square, in units of the scales

#: What makes a correlation noise.
NOISE = "a correlation beyond 1, or none because a variance is not positive"
#: How pairs came to count as found.
KEPT, SELECTED, BEYOND, STRONGEST = "kept", "selected", "beyond", "strongest"


@dataclass(frozen=True, eq=False)
class Findings:
    """The estimate, and what stands out in it.

    `unit` holds the standard deviation of each feature, as it was released; that of a feature in
    `lost`, whose released variance is not positive, is its scale. Values of `shown` and of `found`,
    the strongest first, are entries over those of their features; noise may put them beyond 1.
    The intervals are those of the first pairs in `found`, and of the variances, in units of
    the scales; NaN where there is none. `threshold`, in the same units, is what a found pair had to
    exceed.
    """

    matrix: Matrix
    scale: FloatArray
    unit: FloatArray
    lost: npt.NDArray[np.bool_]
    shown: Scan
    found: Pairs
    n_found: int
    rule: str
    threshold: float
    thresholded: bool  # whether the estimate leaves out what lies below, which the release holds
    intervals: FloatArray | None  # lower and upper ends
    own_intervals: bool  # whether they were computed here, as if all records were complete
    variance_intervals: FloatArray | None

    @property
    def correlation(self) -> FloatArray:
        """Correlations of the pairs found; NaN for those that have none."""
        return self.correlations(self.found)

    def correlations(self, pairs: Pairs) -> FloatArray:
        """Values of pairs, NaN where a variance is not positive."""
        lost = self.lost[pairs.rows] | self.lost[pairs.columns]
        return np.where(lost, np.nan, pairs.values)

    def noise(self, pairs: Pairs) -> npt.NDArray[np.bool_]:
        """Which of the pairs are noise: beyond 1, or without a correlation."""
        return is_noise(self.correlations(pairs))

    @property
    def outside(self) -> npt.NDArray[np.bool_]:
        """Which of the pairs that have an interval lie outside it."""
        if self.intervals is None:
            return np.zeros(len(self.found), dtype=bool)
        found = self.found.at(slice(0, self.intervals.shape[1]))
        values = found.values * (self.deviation[found.rows] * self.deviation[found.columns])
        room = 1e-9 * np.abs(values)  # rounding
        low, high = self.intervals
        return np.asarray((values < low - room) | (values > high + room))

    @property
    def deviation(self) -> FloatArray:
        """Released standard deviations in units of the scales."""
        return ratio(self.unit, self.scale)

    @property
    def factors(self) -> FloatArray:
        """What brings every feature to standard deviation 1; 0 for those that do not vary."""
        return ratio(np.ones_like(self.unit), self.unit)


def correlation_text(value: float, digits: int = 3) -> str:
    """A correlation, said to be noise if it is beyond 1, or if there is none."""
    if np.isnan(value):
        return "none: noise"
    return number(value, digits) + (": noise" if is_noise(np.array(value)) else "")


def ratio(values: FloatArray, by: FloatArray) -> FloatArray:
    """Quotients, and 0 where nothing can be divided by."""
    return np.divide(values, by, out=np.zeros_like(by), where=by > 0)


def find(
    subject: Subject,
    covariance: Matrix | None = None,
    intervals: tuple[Matrix, Matrix] | None = None,
) -> Findings:
    """Look through a release.

    `covariance` is the estimate made of it, in the unit of the data, and `intervals` are the ends
    of its intervals; where they are left out they are computed from the release.
    """
    release = subject.release
    for given in (covariance, *(intervals or ())):
        _check_shape(given, release.n_features)
    scale = np.ones(release.n_features) if release.feature_scale is None else release.feature_scale
    rule, threshold = _rule(subject)
    matrix = _estimate(release, covariance, scale, threshold if rule == KEPT else 0.0)
    variances = matrix.diagonal()
    unit = _unit(variances, scale, subject)
    factors = ratio(np.ones_like(unit), unit)
    shown = scan(matrix, factors, most=MOST_PAIRS)
    found, n_found = _found(subject, matrix, factors, rule, threshold)
    thresholded = rule == KEPT
    if covariance is not None and rule == BEYOND:
        released = scan(release.integers, (scale > 0).astype(np.float64), most=1)
        thresholded = shown.total < released.total
    ends = variance_ends = None
    if intervals is not None:
        ends, variance_ends = _given_intervals(intervals, found, scale)
    elif release.noise_sd is not None and subject.n_records is not None:
        ends, variance_ends = _intervals(release, found, threshold, subject.n_records)
    return Findings(
        matrix=matrix,
        scale=scale,
        unit=unit,
        lost=(unit > 0) & ~(variances > 0),
        shown=shown,
        found=found,
        n_found=n_found,
        rule=rule,
        threshold=threshold,
        thresholded=thresholded,
        intervals=ends,
        own_intervals=intervals is None,
        variance_intervals=variance_ends,
    )


def _check_shape(given: Matrix | None, d: int) -> None:
    if given is not None and given.shape != (d, d):
        raise DataError(
            f"covariance and intervals must have the shape of the release, ({d}, {d}), got "
            f"{given.shape}: pass those of the same estimator."
        )


def _rule(subject: Subject) -> tuple[str, float]:
    """How pairs count as found, and what they must exceed in units of the scales."""
    release, n = subject.release, subject.n_records
    noise = None if release.noise_sd is None else release.noise_sd[0]
    if release.selected is not None:
        design = release.parameters.get("design")
        factor = positive(design.get("keep_above")) if isinstance(design, dict) else None
        if release.mechanism == "screened" and factor and n is not None and noise is not None:
            return KEPT, factor * detection_deviation(noise, n)
        return SELECTED, 0.0
    if release.mechanism == "multiscale":
        return SELECTED, 0.0
    if noise is not None and 0 < noise < _LARGEST_NOISE and n is not None:
        return BEYOND, universal_threshold(noise, n, release.n_features)
    return STRONGEST, 0.0


def _estimate(
    release: Release, covariance: Matrix | None, scale: FloatArray, threshold: float
) -> Matrix:
    """The estimate in the unit of the data: a sparse matrix if most of it is zero."""
    if covariance is None and release.selected is not None:
        rows, columns = release.selected
        values = values_at(release.integers, rows, columns) * release.unit
        values = np.where(np.abs(values) > threshold, values, 0.0) * (scale[rows] * scale[columns])
        diagonal = release.integers.diagonal() * release.unit * scale**2
        return symmetric_sparse((rows, columns), values, diagonal)
    matrix = release.covariance() if covariance is None else covariance
    if not is_sparse(matrix) and np.count_nonzero(matrix) <= matrix.size // 2:
        return sparse.csr_array(matrix)
    return matrix


def _unit(variances: FloatArray, scale: FloatArray, subject: Subject) -> FloatArray:
    """Released standard deviations, and scales where noise left no positive variance."""
    known = subject.release.feature_scale is not None
    usual = scale if known else np.full_like(scale, subject.real("scale") or 1.0)
    return np.where(variances > 0, np.sqrt(np.maximum(variances, 0.0)), usual)


def _found(
    subject: Subject, matrix: Matrix, factors: FloatArray, rule: str, threshold: float
) -> tuple[Pairs, int]:
    """The pairs found, the strongest first, and how many there are."""
    release = subject.release
    if rule == STRONGEST:
        d = subject.n_features
        possible = d * ((subject.row_sparsity or 2) - 1) // 2
        most = max(1, min(possible, _UNTHRESHOLDED * d))
        found = scan(matrix, factors, most=most).pairs.strongest_first()
        return found, len(found)
    ones = np.ones(release.n_features)
    if release.selected is not None:
        candidates = pairs_at(release.integers, ordered(release.selected), ones)
        candidates = candidates.at(np.abs(candidates.values) * release.unit > threshold)
        total = len(candidates)
    else:
        scanned = scan(release.integers, ones, most=MOST_PAIRS, above=threshold / release.unit)
        candidates, total = scanned.pairs, scanned.total
    found = pairs_at(matrix, (candidates.rows, candidates.columns), factors)
    # An estimate that was given may have set more entries to zero, and constants have none.
    there = np.isfinite(found.values) & (found.values != 0)
    return found.at(there).strongest_first(), total - int(np.count_nonzero(~there))


def _given_intervals(
    intervals: tuple[Matrix, Matrix], found: Pairs, scale: FloatArray
) -> tuple[FloatArray, FloatArray]:
    rows, columns = found.rows[:MOST_INTERVALS], found.columns[:MOST_INTERVALS]
    ends = np.array([values_at(end, rows, columns) for end in intervals]).reshape(2, -1)
    ends[:, (ends == 0).all(axis=0)] = np.nan  # not stored in a sparse matrix
    variances = np.array([end.diagonal() for end in intervals])
    return ends / (scale[rows] * scale[columns]), variances / scale**2


def _intervals(
    release: Release, found: Pairs, threshold: float, n_records: int
) -> tuple[FloatArray, FloatArray]:
    """Intervals of the released values, given that a pair passed its threshold."""
    assert release.noise_sd is not None
    pair_noise, noise = release.noise_sd
    rows, columns = found.rows[:MOST_INTERVALS], found.columns[:MOST_INTERVALS]
    values = values_at(release.integers, rows, columns) * release.unit
    variance = release.integers.diagonal() * release.unit
    deviation = np.hypot(
        pair_noise, sampling_sd(values, (variance[rows], variance[columns]), n_records)
    )
    ends = thresholded_interval(values, deviation, np.full(len(values), threshold), LEVEL)
    spread = np.hypot(noise, sampling_sd(variance, (variance, variance), n_records))
    return np.array(ends), np.array(normal_interval(variance, spread, LEVEL))
