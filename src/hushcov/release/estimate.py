"""The estimate that a release makes: thresholded, guarded, tapered and projected as it says."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hushcov._arrays import BoolArray, FloatArray
from hushcov.postprocess import (
    Matrix,
    guarded,
    hard_threshold,
    is_sparse,
    lost_features,
    multiply_outer,
    project_psd,
    sure_level,
    symmetric_sparse,
    upper_pairs,
)
from hushcov.release.document import Release

if TYPE_CHECKING:
    from hushcov.postprocess.structure import Split

_STANDS_OUT = 4.0  # deviations of noise, of what a feature has of the factors
_FAR_BELOW, _LIKELY = 0.5, 3.0  # of the median variance; deviations of noise
_NO_BETTER = 0.6  # an error by noise from which on zeros may be as good


def estimate(release: Release) -> Matrix:
    """Return the covariance made of a release: thresholded and projected as its document says."""
    selected, full = release.selected, not is_sparse(release.integers)
    structured = release.making.structure is not None and not release.making.projected
    if full and structured and selected is not None:  # zeros but for these pairs: so it is quicker
        places = selected[0], selected[1]
        few = symmetric_sparse(places, release.integers[places], release.integers.diagonal())
        return estimate(replace(release, integers=few)).toarray()
    if release.making.structure is not None:
        covariance = _structured(release)
    else:
        # Where a structure was found, it was asked then whether the matrix is worse than zero.
        whole = release.selected is None and full and release.noise_sd is not None
        guard = whole and release.location is not None
        covariance = _guarded(release) if guard else _without_lost(release)
    if release.making.projected:
        covariance = project_psd(covariance)
    shared = release.shared_places
    if len(shared) and not release.making.projected:  # neither shrunk nor lost: their shares say it
        covariance[shared, shared] = release.variances[shared]
    if release.feature_scale is not None:
        multiply_outer(covariance, release.feature_scale)
    entries = covariance.data if is_sparse(covariance) else covariance
    entries += 0.0  # a constant feature has no covariance of -0.0 after a projection
    return covariance


def _guarded(release: Release) -> FloatArray:
    """Return the matrix in units of the scales, as the guard (`docs/research.md`) makes it."""
    assert release.noise_sd is not None
    assert release.feature_scale is not None
    matrix, scale = np.asarray(kept_entries(release)), release.feature_scale
    found = np.flatnonzero(scale > 0)
    if len(found):
        block = np.ix_(found, found)
        matrix[block] = guarded(matrix[block], *release.noise_sd, scale[found]).matrix
    return matrix


def kept_entries(release: Release, factors: Split | None = None) -> Matrix:
    """Return the released matrix in units of the scales, without pairs below the threshold."""
    if factors is not None:
        return factors.matrix
    matrix, threshold = in_scales(release), release.making.threshold
    return hard_threshold(matrix, threshold) if threshold > 0 or is_sparse(matrix) else matrix


def _without_lost(release: Release) -> Matrix:
    """Return the matrix in units of the scales, without features of far too large a scale.

    Of thousands of scales that were searched for, one may be. Then noise stands for its variance.
    """
    matrix = kept_entries(release)
    if release.selected is None or release.noise_sd is None or release.making.tails is None:
        return matrix
    variance, noise = matrix.diagonal(), release.noise_sd[1]
    return _without(release, matrix, lost_features(variance, noise) & ~_as_usual(variance, noise))


def _without(release: Release, matrix: Matrix, lost: BoolArray) -> Matrix:
    """Return the matrix without these features, but for 0/1 columns: their shares are known."""
    lost[release.shared_places] = False
    if lost.any():
        multiply_outer(matrix, np.where(lost, 0.0, 1.0))
    return matrix


def _structured(release: Release) -> Matrix:
    """Return the matrix in units of the scales by the structure found, and guarded.

    Features whose variances cannot be told from zero and are far below those of others are left
    out, unless they have a strong pair.
    A whole matrix that may be no better than zeros is left to the guard.
    """
    structure, noise_sd = release.making.structure, release.noise_sd
    assert structure is not None
    assert noise_sd is not None
    factors = factors_of(release)
    matrix = kept_entries(release, factors)
    if release.selected is None and structure.noise >= _NO_BETTER:
        matrix = _guarded(replace(release, making=replace(release.making, structure=None)))
    else:
        variance = matrix.diagonal()
        likely = (variance >= _LIKELY * noise_sd[1]) | (
            release.parameters.get("known_pairs") is True
        )
        # Of some something is seen although noise may drown their variance: a strong pair, or a
        # part of the factors. Beside factors, which many features have in common, those count
        # whose variance may be no smaller than that of others.
        rows, columns, pairs = upper_pairs(matrix)
        strong = np.abs(pairs) > sure_level(len(variance) ** 2) * noise_sd[0]
        found = np.zeros(len(variance), dtype=bool)
        found[rows[strong]] = found[columns[strong]] = True
        if factors is not None:
            parts = np.linalg.norm(factors.loadings * factors.values, axis=1)
            found |= parts > _STANDS_OUT * noise_sd[0] * math.sqrt(len(factors.values))
        lost = lost_features(variance, noise_sd[1]) & ~found
        matrix = _without(release, matrix, lost & ~(likely & _as_usual(variance, noise_sd[1])))
    if "taper" in release.parameters:
        matrix = tapered(matrix, release)
    matrix *= structure.kept
    return matrix


def _as_usual(variance: FloatArray, noise_sd: float) -> BoolArray:
    """Return the features whose variance may be no smaller than that of others."""
    there = variance[variance > 0]
    usual = float(np.median(there)) if len(there) else math.inf
    return np.asarray(variance + 2 * noise_sd >= _FAR_BELOW * usual)


def factors_of(release: Release) -> Split | None:
    """Return factors and a remainder, in units of the scales, where the release has factors."""
    structure, n = release.making.structure, release.n_sampled
    if structure is None or structure.rank == 0:
        return None
    assert release.noise_sd is not None
    assert n is not None
    from hushcov.postprocess.structure import entry_deviation, split

    matrix = np.asarray(in_scales(release))
    deviation = entry_deviation(matrix, release.noise_sd[0], n)
    return split(matrix, structure.rank, release.making.threshold, deviation)


def in_scales(release: Release) -> Matrix:
    """Return the matrix in units of the features' scales; zeros for constant features.

    In these units noise is the same for all features, so thresholds, projections and intervals
    treat features of any scale alike.
    """
    scale = release.feature_scale
    varies = np.ones(release.n_features) if scale is None else (scale != 0).astype(np.float64)
    return replace(release, feature_scale=varies).covariance()


def noise_deviation(release: Release) -> Matrix:
    """Return the deviation of the noise of each released entry; NaN, or not stored, elsewhere."""
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


def scales_of(release: Release) -> FloatArray:
    """Return the scales of the features; ones where there are none."""
    given = release.feature_scale
    return np.ones(release.n_features) if given is None else given


def tapered(matrix: Matrix, release: Release) -> Matrix:
    """Return the matrix with the weights of its taper, if it has one.

    It says up to how many columns apart pairs count fully, and from where on not at all; between
    the two weights fall in a line. Released values and intervals are of the covariances themselves.
    """
    match release.parameters.get("taper"):
        case [int(full), int(last)] if 0 <= full < last:
            rows, columns, pairs = upper_pairs(matrix)
            weights = np.clip((last - (columns - rows)) / (last - full), 0.0, 1.0)
            there = weights > 0
            places = rows[there], columns[there]
            found = symmetric_sparse(places, (weights * pairs)[there], matrix.diagonal())
            return found if is_sparse(matrix) else found.toarray()
    return matrix
