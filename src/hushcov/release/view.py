"""One view of a release: its estimate, the pairs that stand out, and numbers with intervals.

Estimators, the command line, exports and the report read what they show here, so that a number is
the same wherever it appears.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from hushcov._arrays import BoolArray, FloatArray, IndexArray, IntArray, ObjectArray
from hushcov.postprocess import (
    Matrix,
    is_noise,
    is_sparse,
    stored_above,
    symmetric_sparse,
    universal_threshold,
    upper_pairs,
    values_at,
)
from hushcov.postprocess.strongest import Pairs, Scan, scan
from hushcov.release.coverage import (
    Coverage,
    Places,
    constant_mask,
    coverage,
    mean_ends,
    noise_of,
    not_found,
)
from hushcov.release.document import Release, plain
from hushcov.release.estimate import estimate, factors_of, kept_entries, scales_of

LEVEL = 0.95
MOST_PAIRS = 600_000  # that are listed, or drawn in the heat map
MOST_INTERVALS = 20_000  # of the pairs found, in a page or a sentence
_UNTHRESHOLDED = 2  # pairs for each feature that are listed where nothing says which are noise
_LARGEST_NOISE = 1e100  # of which doubles hold the square, in units of the scales

# A correlation beyond 1 by so many deviations of noise, and by no more than that, is one of 1.
_WITHIN, _BARELY = 2.0, 0.1

#: What makes a correlation noise.
NOISE = "a correlation beyond 1, or none because a variance is not positive"
#: What is known of a pair or a variance: the values of the column `status` (docs/outputs.md).
NONZERO, MAY_BE_ZERO = "nonzero", "indistinguishable from zero"
UNRELIABLE, CONSTANT_COLUMN, NOT_KNOWN = "interval unreliable", "constant column", "not known"
COLUMN_NOT_FOUND = "column not found"
#: Columns of a mean with its interval and standard error.
MEAN_COLUMNS = ("mean", "mean_lower", "mean_upper", "mean_se")
#: How pairs came to count as found.
KEPT, SELECTED, BEYOND, STRONGEST = "kept", "selected", "beyond", "strongest"


def released_places(release: Release) -> Places:
    """Return rows and columns of the selected pairs, the smaller one first, row by row."""
    if is_sparse(release.integers):
        return stored_above(release.integers)[:2]
    assert release.selected is not None
    rows, columns = release.selected.min(axis=0), release.selected.max(axis=0)
    order = np.lexsort((columns, rows))
    return rows[order], columns[order]


def released_among(release: Release, places: IntArray) -> BoolArray:
    """Return which pairs among these features the release holds, and the diagonal."""
    n = len(places)
    if release.selected is None:
        return np.ones((n, n), dtype=bool)
    known = np.eye(n, dtype=bool)
    if is_sparse(release.integers):
        there = release.integers[places][:, places].tocoo()
        known[there.row, there.col] = True
        return known
    place = np.full(release.n_features, -1)
    place[places] = np.arange(n)
    rows, columns = place[release.selected]
    inside = (rows >= 0) & (columns >= 0)
    known[rows[inside], columns[inside]] = known[columns[inside], rows[inside]] = True
    return known


def paired_with(release: Release, features: IntArray) -> IntArray:
    """Return the other features that the release holds a pair of with one of these, in order."""
    if is_sparse(release.integers):
        near = np.unique(release.integers[features].indices)
    else:
        near = np.flatnonzero(release.released[features].any(axis=0))
    return np.asarray(np.setdiff1d(near, features), dtype=np.int64)


def ratio(values: FloatArray, by: FloatArray) -> FloatArray:
    """Return quotients, and 0 where nothing can be divided by."""
    return np.divide(values, by, out=np.zeros_like(by), where=by > 0)


# ---- what is shown of pairs and of variances ----


@dataclass(frozen=True)
class ShownPair:
    """Two features, by their columns counted from 0, with everything that is shown of them.

    A `correlation` is None where it was not found: noise put it beyond 1, or a variance below zero.
    Intervals are None where the release has no single level of noise.
    """

    features: tuple[int, int]
    covariance: float
    correlation: float | None
    interval: tuple[float, float] | None
    correlation_interval: tuple[float, float] | None = None
    noise_sd: float | None = None
    status: str = NOT_KNOWN
    outside: bool = False  # whether the estimate lies outside its own interval

    @property
    def noise(self) -> bool:
        """Whether noise drowns the correlation."""
        return self.correlation is None

    @property
    def correlation_outside(self) -> bool:
        """Whether the correlation lies outside its own interval."""
        if self.correlation is None or self.correlation_interval is None:
            return False
        low, high = self.correlation_interval
        return not low <= self.correlation <= high

    def to_dict(self) -> dict[str, object]:
        """Return the pair as plain, JSON-ready data."""
        found: dict[str, object] = plain(self)
        del found["noise_sd"]
        return found | {"outside_interval": found.pop("outside")}


@dataclass(frozen=True, eq=False)
class PairTable:
    """Pairs in the unit of the data, an entry of every array each.

    Parameters
    ----------
    rows, columns : ndarray
        The two features of each pair, counted from 0.
    covariance, lower, upper : ndarray
        The estimate and its interval. Ends are NaN without a single level of noise, and infinite
        or NaN for features that were not found. The interval of an estimate of zero includes zero.
    correlation, correlation_lower, correlation_upper : ndarray
        NaN where there is none: a variance is not positive, or noise puts it beyond 1.
    noise_sd : ndarray
        Standard error of the covariance from privacy noise alone: the standard deviation of the
        noise that was added to it.
    status : ndarray of str
        What is known of a pair: one of `NONZERO`, `MAY_BE_ZERO`, `UNRELIABLE`, `CONSTANT_COLUMN`,
        `COLUMN_NOT_FOUND` and `NOT_KNOWN`.
    """

    rows: IntArray
    columns: IntArray
    covariance: FloatArray
    lower: FloatArray
    upper: FloatArray
    correlation: FloatArray
    correlation_lower: FloatArray
    correlation_upper: FloatArray
    noise_sd: FloatArray
    status: ObjectArray

    def __len__(self) -> int:
        return len(self.rows)

    def at(self, chosen: IndexArray | BoolArray | slice) -> PairTable:
        """Return some of the pairs."""
        return PairTable(*(getattr(self, each.name)[chosen] for each in fields(self)))

    @property
    def noise(self) -> BoolArray:
        """Pairs whose correlation was not found."""
        return np.isnan(self.correlation)

    def pairs(self) -> list[ShownPair]:
        """Return the pairs one by one; a number that is not finite is None."""

        def plain(values: FloatArray) -> list[float | None]:
            return [value if np.isfinite(value) else None for value in values.tolist()]

        def between(low: FloatArray, high: FloatArray) -> list[tuple[float, float] | None]:
            ends = zip(plain(low), plain(high), strict=True)
            return [None if a is None or b is None else (a, b) for a, b in ends]

        rounding = 1e-9 * np.abs(self.covariance)
        out = self.covariance < self.lower - rounding
        out |= self.covariance > self.upper + rounding
        columns = (
            zip(self.rows.tolist(), self.columns.tolist(), strict=True),
            self.covariance.tolist(),
            plain(self.correlation),
            between(self.lower, self.upper),
            between(self.correlation_lower, self.correlation_upper),
            plain(self.noise_sd),
            self.status.tolist(),
            out.tolist(),
        )
        return [ShownPair(*each) for each in zip(*columns, strict=True)]


# ---- the view ----


@dataclass(frozen=True, eq=False)
class View:
    """The estimate of a release, and what stands out in it.

    Parameters
    ----------
    release : Release
        The document; nothing else is read.
    matrix : matrix
        The estimate, in the unit of the data.
    unit : ndarray
        The standard deviation of each feature, as it was released; its scale where the released
        variance is not positive.
    lost : ndarray of bool
        Features whose released variance is not positive.
    rule : {"kept", "selected", "beyond", "strongest"}
        How pairs count as found: by the threshold of the release, by having been selected, or by
        a value that noise hardly reaches. Where nothing says which are noise, none counts as
        found, and the strongest are listed.
    threshold : float
        What a found pair exceeds, in units of the scales.
    """

    release: Release
    matrix: Matrix
    unit: FloatArray
    lost: BoolArray
    rule: str
    threshold: float

    @property
    def thresholded(self) -> bool:
        """Whether the estimate leaves out pairs that the release holds."""
        return self.rule == KEPT

    @property
    def has_intervals(self) -> bool:
        """Whether the release says what its values may be off by."""
        return self.release.noise_sd is not None and self.release.n_sampled is not None

    @cached_property
    def scale(self) -> FloatArray:
        """Scales of the features; ones where there are none."""
        return scales_of(self.release)

    @cached_property
    def factors(self) -> FloatArray:
        """Factors that bring every feature to standard deviation 1; 0 for constant ones."""
        return ratio(np.ones_like(self.unit), self.unit)

    @property
    def deviation(self) -> FloatArray:
        """Released standard deviations in units of the scales."""
        return ratio(self.unit, self.scale)

    @cached_property
    def coverage(self) -> Coverage:
        """Errors of released values beyond their noise."""
        return coverage(self.release)

    @cached_property
    def constant(self) -> BoolArray:
        """Features that do not vary beyond noise, or that were not found: no pair has them."""
        release = self.release
        noise = np.inf if release.noise_sd is None else release.noise_sd[1]
        still = constant_mask(release.feature_scale, release.variances, noise)
        still[list(release.making.unresolved)] = True
        return still

    def _status(self, places: Places, stands_out: BoolArray) -> ObjectArray:
        """Return the status of entries of which it is known whether noise explains them."""
        rows, columns = places
        status = np.where(stands_out, NONZERO, MAY_BE_ZERO).astype(object)
        if self.has_intervals:
            status[~(self.coverage.holds[rows] & self.coverage.holds[columns])] = UNRELIABLE
        elif self.rule == STRONGEST:
            status[:] = NOT_KNOWN
        status[self.constant[rows] | self.constant[columns]] = CONSTANT_COLUMN
        status[np.isin(places, not_found(self.release)).any(axis=0)] = COLUMN_NOT_FOUND
        return status

    @cached_property
    def shown(self) -> Scan:
        """The strongest pairs of the estimate, over the standard deviations of their features."""
        return scan(self.matrix, self.factors, most=MOST_PAIRS)

    @property
    def found(self) -> Pairs:
        """The pairs found with their correlations, the strongest first; at most 600,000.

        Where none counts as found these are the strongest.
        """
        return self._found[0]

    @property
    def n_found(self) -> int:
        """Number of pairs that count as found."""
        return self._found[1]

    def _no_finding(self, rows: IntArray, columns: IntArray) -> BoolArray:
        """Return the pairs of constant columns, and of levels of one category."""
        constant = self.constant[rows] | self.constant[columns]
        return constant | self.release.exclude_each_other(rows, columns)

    @cached_property
    def _found(self) -> tuple[Pairs, int]:
        release, most = self.release, MOST_PAIRS
        if self.rule == STRONGEST:
            found = self.shown.pairs
            found = found.at(~self._no_finding(found.rows, found.columns))
            most = max(1, _UNTHRESHOLDED * release.n_features)
            return found.strongest(most).strongest_first(), 0
        if release.selected is not None:
            rows, columns = released_places(release)
            passed = np.abs(values_at(release.integers, rows, columns)) * release.unit
            there = passed > self.threshold
            rows, columns, total = rows[there], columns[there], int(np.count_nonzero(there))
        else:
            ones, above = np.ones(release.n_features), self.threshold / release.unit
            scanned = scan(release.integers, ones, most=most, above=above)
            rows, columns, total = scanned.pairs.rows, scanned.pairs.columns, scanned.total
        values = values_at(self.matrix, rows, columns) * (
            self.factors[rows] * self.factors[columns]
        )
        found = Pairs(rows, columns, np.asarray(values, dtype=np.float64))
        # Constants have no covariance, and a projection may move a pair to zero.
        there = np.isfinite(found.values) & (found.values != 0) & ~self._no_finding(rows, columns)
        total -= int(np.count_nonzero(~there))
        found = found.at(there).strongest(most)
        sizes = np.abs(found.values)  # what only noise puts beyond 1 comes last
        return found.at(np.lexsort((-sizes, sizes > 1))), total

    def within_1(self, correlation: FloatArray, size: FloatArray) -> FloatArray:
        """Return correlations, NaN where noise puts them beyond 1, and 1 where it is little noise.

        `size` has the products of the two standard deviations, in units of the scales.
        """
        noise = 0.0 if self.release.noise_sd is None else self.release.noise_sd[0]
        little = np.minimum(_WITHIN * ratio(np.full(size.shape, noise), size), _BARELY)
        found = ~is_noise(np.abs(correlation) - little)
        return np.clip(np.where(found, correlation, np.nan), -1.0, 1.0)

    def correlations(self, pairs: Pairs) -> FloatArray:
        """Return values of pairs, NaN where they were not found."""
        rows, columns = pairs.rows, pairs.columns
        found = self.within_1(pairs.values, self.deviation[rows] * self.deviation[columns])
        return np.where(self.lost[rows] | self.lost[columns], np.nan, found)

    def correlation_matrix(self, places: IntArray | None = None) -> Matrix:
        """Return the estimate over the released standard deviations; NaN where it was not found.

        That is for features without a deviation, and where noise puts a correlation beyond 1. With
        `places` it is that of some features, as an array.
        """
        unit = np.where(self.lost | (self.unit == 0), np.nan, self.unit)
        matrix, deviation = self.matrix, self.deviation
        if places is not None:
            matrix, unit, deviation = matrix[places][:, places], unit[places], deviation[places]
        ones = np.where(np.isnan(unit), np.nan, 1.0)
        if is_sparse(self.release.integers) and places is None:
            rows, columns, values = upper_pairs(matrix)
            size = deviation[rows] * deviation[columns]
            values = self.within_1(values / (unit[rows] * unit[columns]), size)
            return symmetric_sparse((rows, columns), values, ones)
        matrix = matrix.toarray() if is_sparse(matrix) else matrix
        size = np.multiply.outer(deviation, deviation)
        result = self.within_1(matrix / np.multiply.outer(unit, unit), size)
        np.fill_diagonal(result, ones)
        return result

    def listed(self, most: int) -> PairTable:
        """Return the first of the pairs found."""
        pairs = self.found.at(slice(0, most))
        return self.table((pairs.rows, pairs.columns))

    def table(self, places: Places, level: float = LEVEL) -> PairTable:
        """Return all that is shown of some pairs, in the order in which they are given.

        Intervals are about the released values. Those of pairs that passed the threshold of the
        release allow for that, and those of pairs that a threshold left at zero include zero.
        """
        release, (rows, columns) = self.release, places
        unit, size = self.unit[rows] * self.unit[columns], self.scale[rows] * self.scale[columns]
        values = np.asarray(values_at(self.matrix, rows, columns), dtype=np.float64)
        released = np.asarray(values_at(release.integers, rows, columns), dtype=np.float64)
        released *= release.unit
        still = self.constant[rows] | self.constant[columns]
        lost = self.lost[rows] | self.lost[columns] | (unit == 0) | still
        there = (np.abs(released) > self.threshold) & (values != 0) & (unit > 0)
        there &= ~release.exclude_each_other(rows, columns)
        ends, of_correlations = np.full((2, 2, len(rows)), np.nan)
        if self.has_intervals:
            limit = release.making.threshold if self.thresholded else 0.0
            ends = self.coverage.covariance_ends(places, released, level, limit)
            of_correlations = self.coverage.correlation_ends(places, released, level, limit)
            unresolved = np.isin(places, release.making.unresolved).any(axis=0)
            ends[:, unresolved] = np.array([[-np.inf], [np.inf]])
            of_correlations[:, still] = np.nan
            zero = (values == 0) | still
            for each in (ends, of_correlations):
                each[:, zero] = np.minimum(each[0, zero], 0.0), np.maximum(each[1, zero], 0.0)
            there &= _excludes_zero(ends) & (_excludes_zero(of_correlations) | lost)
        with np.errstate(invalid="ignore"):  # no end is infinite times a scale of 0
            lower, upper = ends * size
        correlation = np.divide(values, unit, out=np.full(len(unit), np.nan), where=~lost)
        noise = np.nan if release.noise_sd is None else noise_of(release, places)
        return PairTable(
            rows=rows,
            columns=columns,
            covariance=values,
            lower=lower,
            upper=upper,
            correlation=self.within_1(correlation, self.deviation[rows] * self.deviation[columns]),
            correlation_lower=of_correlations[0],
            correlation_upper=of_correlations[1],
            noise_sd=noise * size,
            status=self._status(places, there & (self.rule != STRONGEST)),
        )

    def released(self, level: float = LEVEL, most: int = MOST_PAIRS) -> PairTable:
        """Return the released pairs: those that are not zero, others that are kept, and the rest.

        The strongest of each come first. At most `most` of them.
        """
        places = self._released_places(most)
        table = self.table(places, level)
        value = np.abs(np.asarray(values_at(self.release.integers, *places), dtype=np.float64))
        still = self.constant[places[0]] | self.constant[places[1]]
        kept = (table.covariance != 0) & ~still
        group = np.where(table.status == NONZERO, 0, np.where(kept, 1, 2))
        strength = np.where(kept, np.nan_to_num(np.abs(table.correlation)), value)
        noise = table.noise & kept
        return table.at(np.lexsort((table.columns, table.rows, -strength, noise, group)))

    def _released_places(self, most: int) -> Places:
        """Return released pairs, row before column: those found, and the strongest others."""
        release, d, found = self.release, self.release.n_features, self.found
        if len(found) >= most:
            found = found.at(slice(0, most))
            return found.rows, found.columns
        if release.selected is not None:
            rows, columns = released_places(release)
        elif d * (d - 1) // 2 <= most:
            rows, columns = np.triu_indices(d, 1)
        else:
            others = scan(release.integers, np.ones(d), most=most).pairs
            rows = np.concatenate([found.rows, others.rows])
            columns = np.concatenate([found.columns, others.columns])
            _, first = np.unique(rows * d + columns, return_index=True)
            rows, columns = rows[first], columns[first]
        apart = ~release.exclude_each_other(rows, columns)
        rows, columns = rows[apart], columns[apart]
        if len(rows) > most:
            chosen = np.isin(rows * d + columns, found.rows * d + found.columns)
            size = np.abs(values_at(release.integers, rows, columns)).astype(np.float64)
            size[chosen] += size.max(initial=0.0) + 1
            kept = np.sort(np.argpartition(-size, most - 1)[:most])
            rows, columns = rows[kept], columns[kept]
        return rows, columns

    def features(self, level: float = LEVEL) -> dict[str, Any]:
        """Return means, variances and standard deviations of all features, in the unit of the data.

        `lower` and `upper` are those of the variance, and the columns of `mean` are NaN where no
        mean was released; its standard error counts noise, sampling, and what bounds may have cut
        off. The words of `status` are those of `PairTable`.
        """
        from hushcov.release.shares import widest_variance

        release, size, own = self.release, self.scale**2, np.arange(self.release.n_features)
        ends, means = np.full((2, len(own)), np.nan), mean_ends(release, self.coverage, level)
        if self.has_intervals:
            ends = self.coverage.covariance_ends((own, own), release.variances, level) * size
            ends[:, list(release.making.unresolved)] = np.array([[0.0], [np.inf]])
            shared = release.shared_places
            ends[:, shared] = widest_variance(means[1][shared], means[2][shared])
        noise = np.nan if release.noise_sd is None else noise_of(release, (own, own))
        variance = np.asarray(self.matrix.diagonal(), dtype=np.float64)
        lower, upper = np.maximum(ends, 0.0)
        if release.making.bounds is not None and release.making.transforms is None:
            low, high = np.array(release.making.bounds, dtype=np.float64).T  # None is NaN
            most = ((high - low) / 2) ** 2
            upper = np.where(variance <= most, np.minimum(upper, most), upper)
        there = lower > 0 if self.has_intervals else variance > 0
        sd, sd_lower, sd_upper = (np.sqrt(np.maximum(x, 0.0)) for x in (variance, lower, upper))
        status = self._status((own, own), there)
        return dict(zip(MEAN_COLUMNS, means, strict=True)) | {
            **{"variance": variance, "lower": lower, "upper": upper},
            **{"standard_deviation": sd, "sd_lower": sd_lower, "sd_upper": sd_upper},
            **{"noise_sd": noise * size, "status": status},
        }


def _excludes_zero(ends: FloatArray) -> BoolArray:
    """Return which intervals lie on one side of zero."""
    return np.asarray((ends[0] > 0) | (ends[1] < 0))


def view(release: Release, among: IntArray | None = None) -> View:
    """Return the view of a release; pairs are looked for when they are first asked for.

    Of a large sparse release the estimate is that of the features `among` alone.
    """
    if among is not None and is_sparse(release.integers) and release.making.structure is None:
        return replace(view(_part(release, among)), release=release)
    rule, threshold = rule_of(release)
    matrix = estimate(release)
    if not is_sparse(matrix) and np.count_nonzero(matrix) <= matrix.size // 2:
        matrix = sparse.csr_array(matrix)
    variances, usual = matrix.diagonal(), release.feature_scale
    if usual is None:
        usual = np.full(release.n_features, release.parameter("inputs", "scale") or 1.0)
    unit = np.where(variances > 0, np.sqrt(np.maximum(variances, 0.0)), usual)
    return View(release, matrix, unit, (unit > 0) & ~(variances > 0), rule, threshold)


def _part(release: Release, among: IntArray) -> Release:
    """Return a sparse release with the pairs among some features alone."""
    part, own = release.integers[among], np.arange(release.n_features)
    rows = np.repeat(among, np.diff(part.indptr))
    inside = np.isin(part.indices, among) & (part.indices != rows)
    where = (
        np.concatenate([rows[inside], own]),
        np.concatenate([part.indices[inside].astype(np.int64), own]),
    )
    values = np.concatenate([part.data[inside], release.integers.diagonal()])
    matrix = sparse.csr_array((values, where), shape=release.integers.shape)
    return replace(release, integers=matrix, feature_scale=scales_of(release))


def rule_of(release: Release) -> tuple[str, float]:
    """Return how pairs count as found, and what they must exceed in units of the scales."""
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


def covariance_intervals(release: Release, level: float) -> tuple[Matrix, Matrix]:
    """Return the ends for every entry that was released and kept; NaN, or not stored, elsewhere.

    They are those of `View.table` and `View.features`; those of features that were not found are
    infinite.
    """
    seen, kept = view(release), kept_entries(release, factors_of(release))
    rows, columns, _ = upper_pairs(kept)
    pairs, own = seen.table((rows, columns), level), seen.features(level)

    def matrix(of_pairs: FloatArray, of_variances: FloatArray, infinite: float) -> Any:
        if is_sparse(kept):
            return symmetric_sparse((rows, columns), of_pairs, of_variances)
        found = np.full(kept.shape, np.nan)
        found[rows, columns] = found[columns, rows] = of_pairs
        np.fill_diagonal(found, of_variances)
        if release.making.unresolved:
            lost = np.isin(np.arange(len(found)), release.making.unresolved)
            of_lost = (lost[:, None] | lost) & release.released & ~np.eye(len(found), dtype=bool)
            found[of_lost] = infinite
        return found

    lower = matrix(pairs.lower, own["lower"], -np.inf)
    return lower, matrix(pairs.upper, own["upper"], np.inf)
