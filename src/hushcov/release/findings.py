"""Computed properties of a release: lost features, factors, the error and eigenvalues."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from hushcov._arrays import FloatArray
from hushcov.postprocess import Matrix, is_sparse, multiply_outer
from hushcov.postprocess.structure import largest, tridiagonals
from hushcov.postprocess.tails import KnownErrors, estimate_error
from hushcov.release.coverage import constant_mask, coverage, not_found
from hushcov.release.document import Release
from hushcov.release.estimate import estimate, factors_of
from hushcov.release.view import View, ratio

_LISTED = 20  # features of a factor


def constant_features(release: Release) -> list[int]:
    """Return the features whose released variance is zero, or cannot be told from zero.

    Features that were not found, or that were given as constant, are left out.
    """
    scale, making, features = release.feature_scale, release.making, np.arange(release.n_features)
    unresolved = np.isin(features, making.unresolved)
    noise = math.inf if release.noise_sd is None else release.noise_sd[1]
    still = unresolved | constant_mask(scale, release.variances, noise)
    still[not_found(release)] = False
    if scale is not None and making.scales != "released":
        still &= (scale != 0) | unresolved
    given = enumerate(making.bounds or ())
    still[[i for i, (low, high) in given if low is not None and low == high]] = False
    found: list[int] = np.flatnonzero(still).tolist()
    return found


@dataclass(frozen=True)
class Factor:
    """A factor: its share of the variance, and the features that follow it most.

    `strongest` has features, counted from 0, with their correlation to the factor, which noise
    may put at 1; the first one is positive. `share` is that of the summed variances of features
    brought to equal scales.
    """

    share: float
    strongest: tuple[tuple[int, float], ...]


def released_factors(release: Release) -> tuple[Factor, ...]:
    """Return the factors of a release, the strongest first; none where it has none."""
    found = factors_of(release)
    if found is None:
        return ()
    variance = np.maximum(np.diag(found.matrix), 0.0)
    deviation, total, factors = np.sqrt(variance), float(variance.sum()), []
    for value, loading in zip(found.values.tolist(), found.loadings.T, strict=True):
        correlation = ratio(np.sqrt(value) * loading, deviation).clip(-1, 1)
        order = np.argsort(-np.abs(correlation), kind="stable")[:_LISTED]
        sign = 1.0 if correlation[order[0]] >= 0 else -1.0
        listed = ((int(i), sign * float(correlation[i])) for i in order if correlation[i] != 0)
        factors.append(Factor(min(1.0, value / total) if total > 0 else 0.0, tuple(listed)))
    return tuple(factors)


def released_pairs(release: Release) -> int:
    """Return how many pairs a release holds, without those of two levels of one category."""
    if release.selected is not None:
        return int(np.sum(~release.exclude_each_other(*release.selected)))
    levels = sum(math.comb(len(each), 2) for each in release.categories.values())
    return math.comb(release.n_features, 2) - levels


class ErrorEstimate(NamedTuple):
    """An error over the norm of the covariance, and an interval for it."""

    error: float
    least: float
    most: float


def error_estimate(release: Release) -> ErrorEstimate | None:
    """Return the error that a release states, or else follows from its noise and tails.

    Noise of independent entries has about twice the largest root of a row's summed variances as
    its norm, and sampling errors about 2 sqrt(norm trace / n). None without one level of noise.
    """
    structure, n = release.making.structure, release.n_sampled
    if structure is not None:
        return ErrorEstimate(structure.error, structure.least, structure.most)
    if release.noise_sd is None or n is None:
        return None
    ones = np.ones(release.n_features)
    constant = constant_mask(release.feature_scale, release.variances, release.noise_sd[1])
    varies = np.where(constant, 0.0, ones)
    with np.errstate(all="ignore"):  # a release on disk may hold any finite numbers
        matrix = estimate(replace(release, feature_scale=varies))  # in units of the scales
        partners = np.asarray((matrix != 0).astype(np.float64) @ ones)
        pair, own = np.array(release.noise_sd)
        noise = 2 * float(np.sqrt((partners * pair**2 + own**2).max()))
        norm = largest(matrix) if np.isfinite(matrix @ ones).all() else np.nan
        if not np.isfinite(norm):
            return None
        if norm <= noise:
            return ErrorEstimate(1.0, 1.0, 1.0)
        norm = (norm + np.sqrt(norm * norm - noise * noise)) / 2  # without what noise adds to it
        variances = np.maximum(matrix.diagonal(), 0.0)
        trace = float(variances.sum())
        if release.has_candidates:  # others count as zero, so that errors stay among those released
            beside = np.asarray((matrix != 0).astype(np.float64) @ variances)
            trace = min(trace, float(beside.max()))
        known = KnownErrors(noise / norm, 0.0, 2 * float(np.sqrt(trace / (n * norm))))
        seen = coverage(release)
        tail = None if release.making.tails is None else seen.tail
        found = estimate_error(
            matrix, float(own), n, known, tail=tail, long=seen.long, known_zeros=True
        )
    return ErrorEstimate(*found) if np.isfinite(found).all() else None


# ---- eigenvalues ----

_ALL = 1_000  # features up to which every eigenvalue is computed
_LARGEST, _SMALLEST = 30, 10  # eigenvalues that are looked for where there are more features
_LANCZOS_STEPS = 60
_PRECISE = 0.001  # of an eigenvalue, as a share of the largest
_LARGEST_FACTOR = 1e150  # of variances; products of two stay in the range of doubles


@dataclass(frozen=True, eq=False)
class Eigenvalues:
    """Eigenvalues from the largest on; `low` are the smallest ones where there is a gap."""

    values: FloatArray
    low: FloatArray
    n_features: int

    @property
    def complete(self) -> bool:
        """Whether these are all eigenvalues."""
        return len(self.values) == self.n_features


def spectrum(view: View) -> Eigenvalues | None:
    """Return the eigenvalues in units of released standard deviations; None if they fail."""
    d, matrix, factors = len(view.scale), view.matrix, view.factors
    # A variance of nearly nothing, which is noise, may leave the range of doubles.
    if not (np.square(factors) < _LARGEST_FACTOR).all():
        return None
    if not np.isfinite(factors * (matrix @ factors)).all():  # without a copy of the matrix
        return None
    if not len(view.shown.pairs):
        return Eigenvalues(np.sort(matrix.diagonal() * factors**2)[::-1], np.empty(0), d)
    if d <= _ALL:
        dense = matrix.toarray() if is_sparse(matrix) else matrix.copy()
        multiply_outer(dense, factors)
        return Eigenvalues(np.linalg.eigvalsh(dense)[::-1], np.empty(0), d)
    return Eigenvalues(*_extreme(matrix, factors), d)


def _extreme(matrix: Matrix, factors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the largest and the smallest eigenvalues that a bounded number of steps finds."""
    columns = factors[:, None]
    inner, left = tridiagonals(
        lambda x: columns * (matrix @ (columns * x)), len(factors), 1, _LANCZOS_STEPS
    )
    # Zero beside the diagonal: all that there is was found.
    steps = 1 + int(np.argmin(np.append(np.diag(inner[0], 1), 0.0) > 0))
    values, vectors = np.linalg.eigh(inner[0, :steps, :steps])
    # How far each value is from a true one at most.
    residuals = np.abs(left[0] * vectors[-1])
    sure = residuals <= _PRECISE * np.abs(values).max()
    most = len(sure) // 2
    top = max(1, min(most, _LARGEST, int(np.argmin(np.append(sure[::-1], False)))))
    bottom = max(1, min(most, _SMALLEST, int(np.argmin(np.append(sure, False)))))
    return values[::-1][:top], values[:bottom][::-1]


def error_bound(view: View) -> float | None:
    """Return how far errors of the entries may move an eigenvalue; None without one noise level.

    Noise and sampling error of the entries shown make a symmetric matrix of independent entries.
    Its norm is about twice the largest root of a row's summed variances.
    """
    noise, n = view.release.noise_sd, view.release.n_sampled
    if noise is None or n is None:
        return None
    inverse = ratio(np.ones_like(view.scale), view.deviation**2)
    if is_sparse(view.matrix):
        pattern = (view.matrix != 0).astype(np.float64)
        partners, around = pattern @ np.ones(len(inverse)) - 1, pattern @ inverse - inverse
    else:
        partners, around = np.full(len(inverse), len(inverse) - 1.0), inverse.sum() - inverse
    pairs = (noise[0] * noise[0]) * inverse * np.maximum(around, 0.0) + np.maximum(partners, 0) / n
    bound = 2 * math.sqrt(float((pairs + (noise[1] * inverse) ** 2 + 2 / n).max()))
    return bound if math.isfinite(bound) else None
