"""Shares of 0/1 columns: makes released means, variances and covariances agree on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hushcov._arrays import BoolArray, FloatArray, IntArray
from hushcov.postprocess import is_sparse, symmetric_sparse, values_at
from hushcov.release.document import Release

# Deviation of what bounds on norms take off the squares of a flag whose records were all shrunk, as
# a share of them; fitted by `benchmarks/studies/means.py`. And a share that is not noise.
_CUT, _LEAST_SHARE = 0.2, 1e-6
# Deviations within which the sum of all shares of a category is taken to be 1, and the least
# deviation of a share, which keeps the equations regular.
_ADDS_UP, _LEAST_SD = 4.0, 1e-12


def with_shares(release: Release) -> Release:
    """Return the release in which means and second moments of 0/1 columns agree.

    A 0/1 column is its own square, and levels of a category exclude each other and add up, so that
    several released numbers say the same share: they are combined by their precision. Variances
    are p (1 - p) then, and covariances with the levels of a category add up to zero. The two levels
    of a category get one scale, so that a threshold treats them alike, and where only some pairs
    were released, one level has the pairs of the other.

    Privacy
    -------
    Post-processing of what was released; which columns hold 0 and 1 alone is public.
    """
    making, centre, scale = release.making, release.location, release.feature_scale
    known = making.means_sd is not None and release.noise_sd is not None
    groups = release.share_groups if known else []
    if not groups or centre is None or scale is None:
        return release
    assert making.means_sd is not None
    assert release.noise_sd is not None
    every = release.selected is None and not is_sparse(release.integers)
    put_back = release.parameters.get("unexplained")
    put_back = put_back if isinstance(put_back, float) else 0.0
    location, means_sd, found = centre.copy(), np.array(making.means_sd), []
    for places in groups:
        size = np.multiply.outer(scale[places], scale[places])
        second = np.diag(release.variances[places])
        if every:
            second = release.integers[np.ix_(places, places)] * release.unit
        noise = np.where(
            np.eye(len(places), dtype=bool),
            release.noise_sd[1],
            release.noise_sd[0] if every else np.inf,
        )
        # Scales keep records of a 0/1 column short, so that hardly anything was to be put back,
        # but some of the records that were shrunk may have it.
        second = second * (1 - put_back) * size
        rare = np.minimum(1.0, (making.shrunk or 0.0) / np.maximum(centre[places], _LEAST_SHARE))
        lost = np.hypot(put_back, _CUT * np.maximum.outer(rare, rare))
        noise = np.hypot(noise * size, lost * np.abs(second))
        shares = combine_shares(centre[places], means_sd[places], second, noise)
        location[places], means_sd[places] = shares.values, shares.noise_sd
        found.append((places, shares.whole))
    made = replace(making, means_sd=tuple(means_sd.tolist()))
    twins = [places for places, whole in found if whole and len(places) == 2]
    even = scale.copy()
    for pair in twins:  # what noise their opposite values have says this mean
        even[pair] = np.sqrt(2) / np.linalg.norm(1 / scale[pair])
    ratio = np.divide(scale, even, out=np.ones_like(even), where=even > 0)
    release = replace(release, feature_scale=even, location=location, making=made)
    if every:
        matrix = agree(release.integers * release.unit, scale, centre - location, location, found)
        matrix = matrix * np.multiply.outer(ratio, ratio)
        return replace(release, integers=np.rint(matrix / release.unit).astype(np.int64))
    if twins:
        release = _mirrored(release, ratio, twins)
    inside = np.concatenate(groups)
    own = location[inside] * (1 - location[inside]) / even[inside] ** 2
    integers = release.integers.copy()
    integers[inside, inside] = np.rint(own / release.unit).astype(np.int64)
    return replace(release, integers=integers)


def _mirrored(release: Release, ratio: FloatArray, twins: list[IntArray]) -> Release:
    """Return selected pairs in which two levels have opposite values.

    `ratio` is that of the scales before to those now. Candidate pairs are public: none is added.
    """
    assert release.selected is not None
    pairs = release.selected
    values = values_at(release.integers, *pairs) * ratio[pairs[0]] * ratio[pairs[1]]
    for two in twins:
        pairs, values = mirrored(pairs, values, two, add=not release.has_candidates)
    diagonal = release.integers.diagonal()
    matrix = symmetric_sparse((pairs[0], pairs[1]), np.rint(values).astype(np.int64), diagonal)
    integers = matrix if is_sparse(release.integers) else matrix.toarray()
    return replace(release, integers=integers, selected=pairs)


@dataclass(frozen=True, eq=False)
class Shares:
    """Shares of 0/1 columns that exclude each other, and the deviations of their noise.

    `whole` says whether they were taken to add up to 1.
    """

    values: FloatArray
    noise_sd: FloatArray
    whole: bool


def combine_shares(
    centre: FloatArray, centre_sd: FloatArray, second: FloatArray, second_sd: FloatArray
) -> Shares:
    """Estimate shares p from noisy means and from second moments about these.

    With x^2 = x and x y = 0 for two levels of a category, the moments about `centre` c are

        E (x - c)^2 = (1 - 2 c) p + c^2  and  E (x - c)(y - e) = -c q - e p + c e,

    linear in the shares. All are combined by their precision; `second_sd` is infinite where a
    moment was not released. A square that falls short of the mean by more than noise allows was cut
    off with other values of its records, and counts for less. Shares of several levels are then
    made to add up to 1, unless they surely do not.
    """
    n = len(centre)
    rows, columns = np.triu_indices(n)
    own = rows == columns
    design = np.zeros((len(rows), n))
    places = np.arange(len(rows))
    design[places, columns] -= centre[rows]
    design[places, rows] -= centre[columns]
    design[places[own], rows[own]] += 1.0
    seen = second[rows, columns] - centre[rows] * centre[columns]
    slope = 1 - 2 * centre
    short = np.maximum(slope * centre - seen[own], 0.0) * np.sign(slope).clip(0.0)
    doubt = second_sd.diagonal() ** 2 + (slope * centre_sd) ** 2
    square = np.maximum(second_sd[rows, columns], _LEAST_SD) ** 2
    square[own] += np.maximum(short**2 - doubt, 0.0)
    weights = 1 / square
    precision = np.maximum(centre_sd, _LEAST_SD) ** -2.0
    covariance = np.linalg.inv(np.diag(precision) + (design.T * weights) @ design)
    values = covariance @ (precision * centre + (design.T * weights) @ seen)
    gap, along = 1.0 - float(values.sum()), covariance.sum(axis=1)
    whole = n > 1 and abs(gap) <= _ADDS_UP * float(along.sum()) ** 0.5
    if whole:
        values = values + along * (gap / float(along.sum()))
        covariance = covariance - np.multiply.outer(along, along) / float(along.sum())
    square = np.asarray(covariance.diagonal(), dtype=np.float64).clip(0.0)
    values = _on_simplex(values, square) if whole else np.clip(values, 0.0, 1.0)
    return Shares(values, np.sqrt(square), whole)


def _on_simplex(values: FloatArray, variance: FloatArray) -> FloatArray:
    """Return the nearest shares that are not negative and add up to 1, by their precision."""
    weight = np.maximum(variance, _LEAST_SD**2)
    free = np.ones(len(values), dtype=bool)
    while True:
        step = (1.0 - float(values[free].sum())) / float(weight[free].sum())
        found = np.where(free, values + step * weight, 0.0)
        if (found >= 0).all():
            return np.asarray(found / found.sum())
        free &= found > 0


def agree(
    matrix: FloatArray,
    scale: FloatArray,
    offset: FloatArray,
    shares: FloatArray,
    groups: Sequence[tuple[IntArray, bool]],
) -> FloatArray:
    """Return a covariance, in units of the scales, that agrees with the shares of 0/1 columns.

    `offset` is what moments were taken about, less the shares. Each group has the places of columns
    that exclude each other, and whether they add up to 1. Then their covariances with any column
    add up to zero: they are moved by least squares, in units of their noise.
    """
    inside = np.concatenate([places for places, _ in groups])
    block, size = np.ix_(inside, inside), np.multiply.outer(scale[inside], scale[inside])
    found = matrix.copy()
    found[block] -= np.multiply.outer(offset[inside], offset[inside]) / size
    for places, whole in groups:
        if whole:
            direction = scale[places] / np.linalg.norm(scale[places])
            found[places] -= np.multiply.outer(direction, direction @ found[places])
            found[:, places] -= np.multiply.outer(found[:, places] @ direction, direction)
    for places, _ in groups:
        own = np.diag(shares[places]) - np.multiply.outer(shares[places], shares[places])
        found[np.ix_(places, places)] = own / np.multiply.outer(scale[places], scale[places])
    return found


def mirrored(
    pairs: IntArray, values: FloatArray, levels: IntArray, *, add: bool
) -> tuple[IntArray, FloatArray]:
    """Return pairs and their values, in which two levels of one scale have opposite values.

    Two values of one column are averaged, and where only one level has a value, the other gets it
    if `add` says so.
    """
    lines = np.full((2, int(pairs.max(initial=levels.max())) + 1), np.nan)
    for line, level in zip(lines, levels, strict=True):
        at = (pairs == level).any(axis=0)
        line[pairs[:, at].sum(axis=0) - level] = values[at]
    lines[:, levels] = np.nan
    first, second = lines
    value = np.where(np.isnan(first), -second, first) - np.where(np.isnan(second), -first, second)
    others = np.flatnonzero(~np.isnan(value if add else first + second))
    value = value[others] / 2
    kept = ~(np.isin(pairs, levels).any(axis=0) & np.isin(pairs, others).any(axis=0))
    more = np.sort([np.repeat(levels, len(others)), np.tile(others, 2)], axis=0)
    return np.hstack([pairs[:, kept], more]), np.concatenate([values[kept], value, -value])


def widest_variance(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the least and the largest p (1 - p) for shares between two ends."""
    ends = np.array([low * (1 - low), high * (1 - high)])
    around: BoolArray = (low < 0.5) & (high > 0.5)
    return ends.min(axis=0), np.where(around, 0.25, ends.max(axis=0))
