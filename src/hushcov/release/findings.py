"""What a release shows: the estimate, its intervals, and the pairs found. Nothing else is read."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from hushcov._arrays import BoolArray, FloatArray
from hushcov.postprocess import (
    Matrix,
    guarded,
    hard_threshold,
    is_noise,
    is_sparse,
    lost_features,
    multiply_outer,
    normal_interval,
    project_psd,
    stored_above,
    sure_level,
    symmetric_sparse,
    universal_threshold,
    upper_pairs,
)
from hushcov.release.document import Release
from hushcov.release.pairs import Pairs, Scan, ordered, pairs_at, scan, strongest

if TYPE_CHECKING:
    from hushcov.postprocess import Split

LEVEL = 0.95
MOST_PAIRS = 600_000  # in the heat map
MOST_INTERVALS = 20_000
_UNTHRESHOLDED = 2  # pairs for each feature taken for found where nothing says which are noise
_STANDS_OUT = 4.0  # deviations of noise, of what a feature has of the factors
_FAR_BELOW = 0.5  # of the median variance
_NO_BETTER = 0.6  # an error estimate from which on zeros may be as good
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
    the strongest first and at most 600,000 of the `n_found`, are entries over those of their
    features; noise may put them beyond 1. The intervals are those of the first pairs in `found`,
    and of the variances, in units of the scales; NaN where there is none. `threshold`, in the same
    units, is what a found pair had to
    exceed.
    """

    matrix: Matrix
    scale: FloatArray
    unit: FloatArray
    lost: BoolArray
    shown: Scan
    found: Pairs
    n_found: int
    rule: str
    threshold: float
    intervals: FloatArray | None  # lower and upper ends
    correlation_intervals: FloatArray | None
    variance_intervals: FloatArray | None

    @property
    def thresholded(self) -> bool:
        """Whether the estimate leaves out pairs that the release holds."""
        return self.rule == KEPT

    @property
    def correlation(self) -> FloatArray:
        """Correlations of the pairs found; NaN for those that have none."""
        return self.correlations(self.found)

    def correlations(self, pairs: Pairs) -> FloatArray:
        """Values of pairs, NaN where a variance is not positive."""
        lost = self.lost[pairs.rows] | self.lost[pairs.columns]
        return np.where(lost, np.nan, pairs.values)

    def noise(self, pairs: Pairs) -> BoolArray:
        """Which of the pairs are noise: beyond 1, or without a correlation."""
        return is_noise(self.correlations(pairs))

    @property
    def outside(self) -> BoolArray:
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


def ratio(values: FloatArray, by: FloatArray) -> FloatArray:
    """Quotients, and 0 where nothing can be divided by."""
    return np.divide(values, by, out=np.zeros_like(by), where=by > 0)


def estimate(release: Release) -> Matrix:
    """The covariance made of a release: thresholded and projected as its document says."""
    if release.making.structure is not None:
        covariance = _structured(release)
    else:
        covariance = _guarded(release) if guards(release) else _without_lost(release)
    if release.making.projected:
        covariance = project_psd(covariance)
    if release.feature_scale is not None:
        multiply_outer(covariance, release.feature_scale)
    entries = covariance.data if is_sparse(covariance) else covariance
    entries += 0.0  # a constant feature has no covariance of -0.0 after a projection
    return covariance


def guards(release: Release) -> bool:
    """Whether the estimate is kept from being worse than zero: a full matrix, nothing known."""
    full = release.selected is None and not is_sparse(release.integers)
    if release.making.structure is not None:
        return False  # it was asked when the structure was found
    return release.location is not None and full and release.noise_sd is not None


def _guarded(release: Release) -> FloatArray:
    """The matrix in units of the scales, as the guard (`docs/research.md`) makes it."""
    assert release.noise_sd is not None
    assert release.feature_scale is not None
    matrix, scale = np.asarray(_kept(release)), release.feature_scale
    found = np.flatnonzero(scale > 0)
    if len(found):
        block = np.ix_(found, found)
        matrix[block] = guarded(matrix[block], *release.noise_sd, scale[found]).matrix
    return matrix


def _kept(release: Release, factors: Split | None = None) -> Matrix:
    """The released matrix in units of the scales, without the pairs below the threshold."""
    if factors is not None:
        return factors.matrix
    matrix, threshold = in_scales(release), release.making.threshold
    return hard_threshold(matrix, threshold) if threshold > 0 or is_sparse(matrix) else matrix


def _without_lost(release: Release) -> Matrix:
    """The released matrix in units of the scales, without features whose scale is far too large.

    Of thousands of scales that were searched for, one may be. Then noise stands for its variance.
    """
    matrix = _kept(release)
    if release.selected is None or release.noise_sd is None or release.making.tails is None:
        return matrix
    variance, noise = matrix.diagonal(), release.noise_sd[1]
    lost = lost_features(variance, noise) & ~_as_usual(variance, noise)
    if lost.any():
        multiply_outer(matrix, np.where(lost, 0.0, 1.0))
    return matrix


def _structured(release: Release) -> Matrix:
    """The matrix in units of the scales by the structure found, kept from being worse than zero.

    Features whose variances cannot be told from zero, and that have no strong pair, are left out;
    where pairs were known beforehand, only those whose variance is far below that of others.
    A whole matrix that may be no better than zeros is left to the guard.
    """
    structure, noise_sd = release.making.structure, release.noise_sd
    assert structure is not None
    assert noise_sd is not None
    factors = factors_of(release)
    matrix = _kept(release, factors)
    if release.selected is None and structure.error >= _NO_BETTER:
        matrix = _guarded(replace(release, making=replace(release.making, structure=None)))
    else:
        lost = lost_features(matrix.diagonal(), noise_sd[1])
        lost &= ~_standing_out(matrix, factors, noise_sd)
        if release.parameters.get("known_pairs") is True:
            lost &= ~_as_usual(matrix.diagonal(), noise_sd[1])
        if lost.any():
            multiply_outer(matrix, np.where(lost, 0.0, 1.0))
    if "taper" in release.parameters:
        from hushcov.release.tapers import tapered

        matrix = tapered(matrix, release)
    matrix *= structure.kept
    return matrix


def _standing_out(
    matrix: Matrix, factors: Split | None, noise_sd: tuple[float, float]
) -> BoolArray:
    """Features of which something is seen although noise may drown their variance.

    That is a strong pair, or a part of the factors. Beside factors, which many features have in
    common, those count whose variance may be no smaller than that of others.
    """
    variance = matrix.diagonal()
    rows, columns, pairs = upper_pairs(matrix)
    strong = np.abs(pairs) > sure_level(len(variance) ** 2) * noise_sd[0]
    found = np.zeros(len(variance), dtype=bool)
    found[rows[strong]] = found[columns[strong]] = True
    if factors is not None:
        parts = np.linalg.norm(factors.loadings * factors.values, axis=1)
        found |= parts > _STANDS_OUT * noise_sd[0] * math.sqrt(len(factors.values))
        found |= _as_usual(variance, noise_sd[1])
    return found


def _as_usual(variance: FloatArray, noise_sd: float) -> BoolArray:
    """Features whose variance may be no smaller than that of others."""
    there = variance[variance > 0]
    usual = float(np.median(there)) if len(there) else math.inf
    return np.asarray(variance + 2 * noise_sd >= _FAR_BELOW * usual)


def factors_of(release: Release) -> Split | None:
    """Factors and a remainder, in units of the scales, where the release has factors."""
    structure, n = release.making.structure, release.n_sampled
    if structure is None or structure.rank == 0:
        return None
    assert release.noise_sd is not None
    assert n is not None
    from hushcov.postprocess import entry_deviation, split

    matrix = np.asarray(in_scales(release))
    deviation = entry_deviation(matrix, release.noise_sd[0], n)
    return split(matrix, structure.rank, release.making.threshold, deviation)


def in_scales(release: Release) -> Matrix:
    """The released matrix in units of the features' scales; zeros for constant features.

    In these units noise is the same for all features, so thresholds, projections and intervals
    treat features of any scale alike.
    """
    scale = release.feature_scale
    varies = np.ones(release.n_features) if scale is None else (scale != 0).astype(np.float64)
    return replace(release, feature_scale=varies).covariance()


def noise_deviation(release: Release) -> Matrix:
    """Standard deviation of the noise of each released entry; NaN, or not stored, elsewhere."""
    assert release.noise_sd is not None
    off_diagonal, diagonal = release.noise_sd
    scale = scales_of(release)
    if is_sparse(release.integers) and release.selected is not None:
        rows, columns = release.selected
        pairs = off_diagonal * (scale[rows] * scale[columns])
        return symmetric_sparse((rows, columns), pairs, diagonal * (scale * scale))
    deviation = np.full(release.integers.shape, off_diagonal)
    np.fill_diagonal(deviation, diagonal)
    multiply_outer(deviation, scale)
    deviation[~release.released] = np.nan
    return deviation


def intervals(release: Release, level: float) -> tuple[Matrix, Matrix]:
    """Ends of an interval for every entry that was released and kept; NaN, or not stored, else.

    Those of features that were not found are infinite.
    """
    from hushcov.release.correlations import PairEnds

    kept = _kept(release, factors_of(release))
    rows, columns, values = upper_pairs(kept)
    threshold, own = release.making.threshold, kept.diagonal()
    shown = np.ones(len(values), dtype=bool)
    pairs = PairEnds(release, (rows, columns), values, own, shown, threshold)
    pair_ends, ends = pairs.covariances(level), variance_interval(release, own, level)
    lower, upper = (
        _with_pairs(kept, (rows, columns), of_pairs, of_variances)
        for of_pairs, of_variances in zip(pair_ends, ends, strict=True)
    )
    for end, infinite in ((lower, -np.inf), (upper, np.inf)):
        multiply_outer(end, scales_of(release))
        _set_unresolved(release, end, infinite)
    return lower, upper


def _set_unresolved(release: Release, matrix: Matrix, value: float) -> None:
    """Set what was released of features that were not found."""
    unresolved = list(release.making.unresolved)
    if not unresolved:
        return
    if is_sparse(matrix):
        matrix[unresolved, unresolved] = value
    else:
        lost = np.zeros(release.n_features, dtype=bool)
        lost[unresolved] = True
        matrix[(lost[:, None] | lost) & release.released] = value


def interval_holds(release: Release) -> BoolArray:
    """For every feature, whether intervals of its entries can be believed, at the level 0.95."""
    from hushcov.release.coverage import coverage

    found = coverage(release)
    least = found.smallest(release, LEVEL)
    if least == np.inf:
        return found.tame
    above = max(least, release.making.threshold) / release.unit
    ones = np.ones(release.n_features)
    pairs = scan(release.integers, ones, most=MOST_PAIRS, above=above).pairs
    values = pairs.values * release.unit
    holds = found.holds(release, (pairs.rows, pairs.columns), values, LEVEL)
    holds[list(release.making.unresolved)] = True  # infinite
    return holds


def variance_interval(
    release: Release, variance: FloatArray, level: float
) -> tuple[FloatArray, FloatArray]:
    """Ends for variances, in units of the scales."""
    from hushcov.release.coverage import coverage

    own = np.arange(release.n_features)
    deviation, kept = coverage(release).errors(release, (own, own), variance, variance)
    low, high = normal_interval(variance, deviation, level)
    return low / kept, high / kept


def _with_pairs(
    like: Matrix, pairs: tuple[Any, Any], values: FloatArray, diagonal: FloatArray
) -> Matrix:
    """These pairs, mirrored, and the diagonal: in a sparse matrix, or between NaN."""
    if is_sparse(like):
        return symmetric_sparse(pairs, values, diagonal)
    matrix = np.full(like.shape, np.nan)
    matrix[pairs] = matrix.T[pairs] = values
    np.fill_diagonal(matrix, diagonal)
    return matrix


def scales_of(release: Release) -> FloatArray:
    """Scales of the features; ones where there are none."""
    given = release.feature_scale
    return np.ones(release.n_features) if given is None else given


@dataclass(frozen=True, eq=False)
class Glance:
    """What `Findings` begin with: enough to look at some pairs of many."""

    matrix: Matrix
    unit: FloatArray
    lost: BoolArray
    rule: str
    threshold: float


def glance(release: Release) -> Glance:
    """The estimate and the standard deviations, without a search among the pairs."""
    rule, threshold = rule_of(release)
    matrix = estimate(release)
    if not is_sparse(matrix) and np.count_nonzero(matrix) <= matrix.size // 2:
        matrix = sparse.csr_array(matrix)
    variances = matrix.diagonal()
    unit = _unit(variances, release)
    return Glance(matrix, unit, (unit > 0) & ~(variances > 0), rule, threshold)


def find(release: Release) -> Findings:
    """Look through a release."""
    seen = glance(release)
    matrix, unit, rule, threshold = seen.matrix, seen.unit, seen.rule, seen.threshold
    factors = ratio(np.ones_like(unit), unit)
    found, n_found = _found(release, matrix, factors, rule, threshold)
    ends = related = variance_ends = None
    if release.noise_sd is not None and release.n_sampled is not None:
        from hushcov.release.correlations import released_pairs

        places = found.rows[:MOST_INTERVALS], found.columns[:MOST_INTERVALS]
        shown = np.ones(len(places[0]), dtype=bool)
        pairs = released_pairs(release, places, shown, threshold)
        ends, related = pairs.covariances(LEVEL), pairs.correlations(LEVEL)
        released = release.integers.diagonal() * release.unit
        variance_ends = np.array(variance_interval(release, released, LEVEL))
    return Findings(
        matrix=matrix,
        scale=scales_of(release),
        unit=unit,
        lost=seen.lost,
        shown=scan(matrix, factors, most=MOST_PAIRS),
        found=found,
        n_found=n_found,
        rule=rule,
        threshold=threshold,
        intervals=ends,
        correlation_intervals=related,
        variance_intervals=variance_ends,
    )


def rule_of(release: Release) -> tuple[str, float]:
    """How pairs count as found, and what they must exceed in units of the scales."""
    making = release.making
    # Beside factors a threshold is for what they leave, and no pair of the estimate is zero.
    factors = making.structure is not None and making.structure.rank > 0
    if making.threshold > 0 and not factors:
        return KEPT, making.threshold
    selected = release.selected
    if selected is not None and not release.of_candidates:
        return SELECTED, 0.0
    if release.noise_sd is not None and release.n_sampled is not None:
        noise = release.noise_sd[0]
        if 0 < noise < _LARGEST_NOISE:
            pairs = None if selected is None else selected.shape[1]
            return BEYOND, universal_threshold(noise, release.n_sampled, release.n_features, pairs)
    if selected is not None:
        return SELECTED, 0.0
    d = release.n_features
    pairs = (np.count_nonzero(release.integers) - np.count_nonzero(release.integers.diagonal())) / 2
    return (SELECTED if pairs < d * (d - 1) / 2 else STRONGEST), 0.0


def _unit(variances: FloatArray, release: Release) -> FloatArray:
    """Released standard deviations, and scales where noise left no positive variance."""
    usual = release.feature_scale
    if usual is None:
        usual = np.full(release.n_features, release.parameter("inputs", "scale") or 1.0)
    return np.where(variances > 0, np.sqrt(np.maximum(variances, 0.0)), usual)


def _found(
    release: Release, matrix: Matrix, factors: FloatArray, rule: str, threshold: float
) -> tuple[Pairs, int]:
    """The pairs found, the strongest first, and how many there are."""
    if rule == STRONGEST:
        most = max(1, _UNTHRESHOLDED * release.n_features)
        found = scan(matrix, factors, most=most).pairs.strongest_first()
        return found, len(found)
    ones = np.ones(release.n_features)
    if release.selected is not None:
        candidates = _selected(release)
        candidates = candidates.at(np.abs(candidates.values) * release.unit > threshold)
        total = len(candidates)
    else:
        scanned = scan(release.integers, ones, most=MOST_PAIRS, above=threshold / release.unit)
        candidates, total = scanned.pairs, scanned.total
    found = pairs_at(matrix, (candidates.rows, candidates.columns), factors)
    # Constants have no covariance, and a projection may move a pair to zero.
    there = np.isfinite(found.values) & (found.values != 0)
    total -= int(np.count_nonzero(~there))
    return strongest(found.at(there), MOST_PAIRS).likely_first(), total


def _selected(release: Release) -> Pairs:
    """The selected pairs with their integers, row by row."""
    if is_sparse(release.integers):
        return Pairs(*stored_above(release.integers))
    assert release.selected is not None
    return pairs_at(release.integers, ordered(release.selected), np.ones(release.n_features))
