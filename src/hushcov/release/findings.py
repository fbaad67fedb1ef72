"""Computed properties of a release: unresolved and constant features, factors and the error."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from hushcov.postprocess import KnownErrors, estimate_error, largest
from hushcov.release.coverage import constant_mask, coverage
from hushcov.release.document import Release
from hushcov.release.estimate import estimate, factors_of
from hushcov.release.view import ratio

_LISTED = 20  # features of a factor


def not_found(release: Release) -> list[int]:
    """Return the features without a mean and a scale; others of the unresolved have one value."""
    lost, location = release.making.unresolved, release.location
    return [i for i in lost if location is None or location[i] == 0]


def constant_features(release: Release) -> list[int]:
    """Return the features whose released variance is zero, or cannot be told from zero.

    Features that were not found, or that were given as constant, are left out.
    """
    scale, making = release.feature_scale, release.making
    lost = np.isin(np.arange(release.n_features), not_found(release))
    unresolved = np.isin(np.arange(release.n_features), making.unresolved)
    noise = math.inf if release.noise_sd is None else release.noise_sd[1]
    still = unresolved | constant_mask(scale, release.variances, noise)
    if scale is not None and making.scales != "released":
        lost |= (scale == 0) & ~unresolved
    given = [] if making.bounds is None else making.bounds
    lost[[i for i, (low, high) in enumerate(given) if low is not None and low == high]] = True
    found: list[int] = np.flatnonzero(still & ~lost).tolist()
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
        if release.told_pairs:  # others count as zero, so that errors stay among those released
            beside = np.asarray((matrix != 0).astype(np.float64) @ variances)
            trace = min(trace, float(beside.max()))
        known = KnownErrors(noise / norm, 0.0, 2 * float(np.sqrt(trace / (n * norm))))
        seen = coverage(release)
        tail = None if release.making.tails is None else seen.tail
        found = estimate_error(matrix, float(own), n, known, tail=tail, long=seen.long, told=True)
    return ErrorEstimate(*found) if np.isfinite(found).all() else None
