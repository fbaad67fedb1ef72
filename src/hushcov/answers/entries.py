"""A release as tidy tables: its pairs, its variances, and all entries with their intervals."""

from __future__ import annotations

import numpy as np

from hushcov._arrays import BoolArray, FloatArray, IntArray
from hushcov.answers.tables import Column, Table, feature_names
from hushcov.postprocess import (
    Matrix,
    is_noise,
    is_sparse,
    symmetric_sparse,
    upper_pairs,
    values_at,
)
from hushcov.release import Release
from hushcov.release.correlations import released_pairs
from hushcov.release.coverage import noise_of
from hushcov.release.findings import (
    MOST_PAIRS,
    Findings,
    Glance,
    find,
    glance,
    interval_holds,
    ratio,
    scales_of,
    variance_interval,
)
from hushcov.release.pairs import released_places, scan


def correlation(release: Release) -> Matrix:
    """The estimate over the released standard deviations; NaN for features that have none.

    Noise may put a correlation beyond 1: it is 1 then, and `pairs_table` calls it noise.
    """
    found = glance(release)
    unit = np.where(found.lost | (found.unit == 0), np.nan, found.unit)
    ones = np.where(np.isnan(unit), np.nan, 1.0)
    if is_sparse(release.integers):
        rows, columns, values = upper_pairs(found.matrix)
        values = np.clip(values / (unit[rows] * unit[columns]), -1.0, 1.0)
        return symmetric_sparse((rows, columns), values, ones)
    matrix = found.matrix.toarray() if is_sparse(found.matrix) else found.matrix
    result = np.clip(matrix / np.multiply.outer(unit, unit), -1.0, 1.0)
    np.fill_diagonal(result, ones)
    return np.asarray(result)


def pairs_table(release: Release, level: float, most: int = MOST_PAIRS) -> Table:
    """The pairs that were released, the strongest first, with intervals.

    Columns: feature_1, feature_2; covariance, lower, upper; correlation, correlation_lower,
    correlation_upper; noise_sd, the deviation of the privacy noise of the covariance; found,
    whether the pair stands out; noise, whether its correlation is beyond 1 or none; holds, whether
    its interval can be believed. Intervals count noise and sampling; NaN where the mechanism has no
    single level of noise. At most `most` pairs: those found and the strongest of the others.
    """
    findings = find(release)
    places, found = _places(release, findings, most)
    rows, columns = places
    table = rows_of(release, findings, places, found, level)
    released = np.asarray(values_at(release.integers, rows, columns), dtype=np.float64)
    unit = findings.unit[rows] * findings.unit[columns]
    related = ratio(np.abs(table["covariance"]), unit)
    strength = np.where(found & ~np.isnan(table["correlation"]), related, np.abs(released))
    order = np.lexsort((columns, rows, -strength, ~found))
    return {name: column[order] for name, column in table.items()}


def rows_of(
    release: Release,
    seen: Findings | Glance,
    places: tuple[IntArray, IntArray],
    found: BoolArray,
    level: float,
) -> dict[str, Column]:
    """The columns of `pairs_table` for some pairs, in the order in which they are given."""
    rows, columns = places
    names, scale = feature_names(release), scales_of(release)
    unit = seen.unit[rows] * seen.unit[columns]
    values = np.asarray(values_at(seen.matrix, rows, columns), dtype=np.float64)
    lost = seen.lost[rows] | seen.lost[columns] | (unit == 0)
    related = np.divide(values, unit, out=np.full(len(unit), np.nan), where=~lost)
    ends, related_ends = _intervals(release, seen.threshold, places, found, level)
    holds = _holds(release)
    size = scale[rows] * scale[columns]
    with np.errstate(invalid="ignore"):  # no end is infinite times a scale of 0
        lower, upper = ends[0] * size, ends[1] * size
    noise = np.full(len(rows), np.nan)
    if release.noise_sd is not None:
        noise = noise_of(release, places) * size
    return {
        "feature_1": names[rows],
        "feature_2": names[columns],
        "covariance": values,
        "lower": lower,
        "upper": upper,
        "correlation": np.clip(related, -1.0, 1.0),
        "correlation_lower": related_ends[0],
        "correlation_upper": related_ends[1],
        "noise_sd": noise,
        "found": found,
        "noise": is_noise(related),
        "holds": holds[rows] & holds[columns],
    }


def variances_table(release: Release, level: float) -> Table:
    """One row for each feature: mean, variance and standard deviation, with intervals.

    Columns: feature; mean, where means were released; variance, lower, upper;
    standard_deviation, sd_lower, sd_upper; noise_sd of the variance; holds, as in `pairs_table`.
    """
    seen, own = glance(release), np.arange(release.n_features)
    scale = scales_of(release)
    ends = np.full((2, release.n_features), np.nan)
    noise = np.full(release.n_features, np.nan)
    if release.noise_sd is not None:
        noise = noise_of(release, (own, own)) * scale**2
    if release.noise_sd is not None and release.n_sampled is not None:
        released = release.integers.diagonal() * release.unit
        ends = np.array(variance_interval(release, released, level)) * scale**2
        lost = list(release.making.unresolved)
        ends[:, lost] = np.array([[-np.inf], [np.inf]])
    variance = np.asarray(seen.matrix.diagonal(), dtype=np.float64)
    mean = {} if release.location is None else {"mean": release.location}
    lower = np.maximum(ends[0], 0.0)
    return {
        "feature": feature_names(release),
        **mean,
        "variance": variance,
        "lower": lower,
        "upper": ends[1],
        "standard_deviation": np.sqrt(np.maximum(variance, 0.0)),
        "sd_lower": np.sqrt(lower),
        "sd_upper": np.sqrt(np.maximum(ends[1], 0.0)),
        "noise_sd": noise,
        "holds": _holds(release),
    }


def intervals_table(release: Release, level: float, most: int = MOST_PAIRS) -> Table:
    """Every released entry, variances first.

    Columns: feature_1, feature_2, covariance, lower, upper, holds.
    """
    pairs, variances = pairs_table(release, level, most), variances_table(release, level)
    same = {"feature_1": "feature", "feature_2": "feature", "covariance": "variance"}
    return {
        name: np.concatenate([variances[same.get(name, name)], pairs[name]])
        for name in ("feature_1", "feature_2", "covariance", "lower", "upper", "holds")
    }


def covariance_table(release: Release, matrix: Matrix) -> Table:
    """A matrix with the names of the features: `feature`, then one column for each of them."""
    names = feature_names(release)
    dense = matrix.toarray() if is_sparse(matrix) else np.asarray(matrix)
    first = "feature"
    while first in names:
        first += "_"
    return {first: names} | {str(name): dense[:, i] for i, name in enumerate(names)}


def _holds(release: Release) -> BoolArray:
    if release.noise_sd is None or release.n_sampled is None:
        return np.zeros(release.n_features, dtype=bool)
    return interval_holds(release)


def _places(
    release: Release, findings: Findings, most: int
) -> tuple[tuple[IntArray, IntArray], BoolArray]:
    """Released pairs, row before column, and which of them were found."""
    d, found = release.n_features, findings.found
    if len(found) >= most:
        found = found.at(slice(0, most))
        order = np.lexsort((found.columns, found.rows))
        return (found.rows[order], found.columns[order]), np.ones(most, dtype=bool)
    if release.selected is not None:
        rows, columns = released_places(release.integers, release.selected)
    elif d * (d - 1) // 2 <= most:
        rows, columns = np.triu_indices(d, 1)
    else:
        others = scan(release.integers, np.ones(d), most=most).pairs
        rows = np.concatenate([found.rows, others.rows])
        columns = np.concatenate([found.columns, others.columns])
        _, first = np.unique(rows * d + columns, return_index=True)
        rows, columns = rows[first], columns[first]
    chosen = np.isin(rows * d + columns, found.rows * d + found.columns)
    if len(rows) > most:
        size = np.abs(values_at(release.integers, rows, columns)).astype(np.float64)
        size[chosen] += size.max(initial=0.0) + 1
        kept = np.sort(np.argpartition(-size, most - 1)[:most])
        rows, columns, chosen = rows[kept], columns[kept], chosen[kept]
    return (rows, columns), chosen


def _intervals(
    release: Release,
    threshold: float,
    places: tuple[IntArray, IntArray],
    found: BoolArray,
    level: float,
) -> tuple[FloatArray, FloatArray]:
    """Ends for covariances, in units of the scales, and for correlations.

    Those of pairs that were found allow for having been found; for the others they are about the
    released value, which the estimate leaves out.
    """
    rows, columns = places
    none = np.full((2, len(rows)), np.nan)
    if release.noise_sd is None or release.n_sampled is None:
        return none, none
    pairs = released_pairs(release, places, found, threshold)
    ends, related = pairs.covariances(level), pairs.correlations(level)
    lost = np.isin(rows, release.making.unresolved) | np.isin(columns, release.making.unresolved)
    ends[:, lost] = np.array([[-np.inf], [np.inf]])
    return ends, related
