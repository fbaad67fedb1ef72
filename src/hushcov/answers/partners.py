"""Which features a question can use, and what must be said of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import special

from hushcov._arrays import BoolArray, FloatArray, IntArray
from hushcov._validation import listed
from hushcov._words import counted
from hushcov.answers.tables import feature_names
from hushcov.answers.uncertain import Uncertain, check_noise, uncertain
from hushcov.exceptions import ParameterError
from hushcov.postprocess import is_sparse, sure_level, values_at
from hushcov.release import Release
from hushcov.release.findings import factors_of, interval_holds, rule_of, scales_of

# Of a variance, beside factors.
_LEAST_OWN = 0.1
_ROUNDING = 1e-30  # of shares of variances, squared
_BY_CHANCE = 0.05  # how often any feature is a partner of a target that has none
_WEAKEST = 0.1  # the part of the released pairs that counts as weak
_MOST_ASKED = 1_000_000  # pairs by which that is found
_OF_NOISE = 6.0  # that a pair may have and not be found


def refuse_unknown(release: Release, name: str, features: IntArray) -> None:
    """Refuse features of which nothing is known."""
    unknown = nothing_known(release)
    lost = features[unknown[features]].tolist()
    if unknown.all():
        raise ParameterError(
            f"{name} must be found, and nothing was found in this release: all of it is noise, and "
            "no question can be answered. See its verdict."
        )
    if lost:
        do, cure = ("do", "leave them out") if len(lost) > 1 else ("does", "leave it out")
        raise ParameterError(
            f"{name} must be found, got {_names(release, lost)}, which {do} not vary or cannot be "
            f"told from noise: {'choose another one' if name == 'target' else cure}."
        )


def nothing_known(release: Release) -> BoolArray:
    """Features that are constant, were not found, or have a variance that is not positive."""
    lost = (scales_of(release) == 0) | ~(release.integers.diagonal() > 0)
    lost[list(release.making.unresolved)] = True
    return np.asarray(lost)


def partners(release: Release, target: int) -> IntArray:
    """Features whose pair with the target was found beyond doubt, the strongest first."""
    d = release.n_features
    _, threshold = rule_of(release)
    others = np.delete(np.arange(d), target)
    if release.of_candidates:  # no other pair was looked at
        others = paired_with(release, np.array([target]))
    others = others[~nothing_known(release)[others]]
    values = values_at(release.integers, np.full(len(others), target), others) * release.unit
    variance = release.integers.diagonal() * release.unit
    noise_sd, n_sampled = check_noise(release)
    deviation = np.sqrt(variance[others] * variance[target] / n_sampled)
    deviation = np.hypot(deviation, noise_sd)
    by_chance = float(special.ndtri(1 - _BY_CHANCE / (2 * max(len(others), 1))))
    found = (np.abs(values) > threshold) & (np.abs(values) > by_chance * deviation)
    strength = np.abs(values) / np.sqrt(variance[others])
    return np.asarray(others[found][np.argsort(-strength[found], kind="stable")])


def paired_with(release: Release, features: IntArray) -> IntArray:
    """Other features of which the release holds a pair with one of these."""
    if is_sparse(release.integers):
        near = np.unique(release.integers[features].indices)
    else:
        near = np.flatnonzero(release.released[features].any(axis=0))
    return np.asarray(np.setdiff1d(near, features), dtype=np.int64)


def of_factors(release: Release) -> FloatArray | None:
    """The estimate where it is made of factors, which say more than the values; None elsewhere.

    What features have beside the factors must be positive, and noise may drown it: shares of the
    variances are drawn to their mean, by as much as noise makes them differ. Of pairs those count
    that are there beyond doubt, since a few hundred that are noise leave no inverse.
    """
    factors = factors_of(release)
    if factors is None:
        return None
    part = uncertain(release, np.arange(release.n_features))
    scale = scales_of(release)
    common = factors.factors.diagonal() * scale**2
    size = part.deviations**2
    own, noise = (part.values.diagonal() - common) / size, part.noise_sd.diagonal() / size
    there = ~nothing_known(release)
    weights = 1 / np.maximum(noise[there] ** 2 + own[there].var(), _ROUNDING)
    mean = float(np.average(own[there], weights=weights))
    mean = max(mean, _LEAST_OWN)
    spread = max(float(np.mean((own[there] - mean) ** 2 - noise[there] ** 2)), 0.0)
    drawn = (own * spread + mean * noise**2) / np.maximum(spread + noise**2, 1e-300)
    sure = sure_level(len(scale) ** 2) * check_noise(release)[0]
    rest = np.where(np.abs(factors.remainder) > sure, factors.remainder, 0.0)
    matrix = (factors.factors + rest) * np.multiply.outer(scale, scale)
    np.fill_diagonal(matrix, common + np.maximum(drawn, _LEAST_OWN * mean) * size)
    return np.asarray(matrix)


def through_factors(release: Release) -> str:
    """What must be said of coefficients that factors gave."""
    assert release.making.structure is not None
    rank = counted(release.making.structure.rank, "factor")
    return (
        f"Coefficients are read through {rank} that the features have in common, since noise "
        "drowns each by itself: together they predict, and none has an interval."
    )


def with_missing(release: Release, features: IntArray) -> Uncertain:
    """The part of a release for these features, in which pairs that were not released are unsure.

    They count as zero, give or take `missing_sd`.
    """
    part = uncertain(release, features)
    if part.known.all():
        return part
    unit = np.multiply.outer(part.deviations, part.deviations)
    doubt = missing_sd(release) * unit
    return replace(part, noise_sd=np.where(part.known, part.noise_sd, doubt))


def missing_sd(release: Release) -> float:
    """About how large correlations are that were not released, as a standard deviation.

    Weak pairs among those that were released say it, or a multiple of the noise if that is less.
    """
    if release.selected is None:
        return 0.0
    assert release.noise_sd is not None
    every = max(1, release.selected.shape[1] // _MOST_ASKED)  # of very many, some tell it
    rows, columns = release.selected[:, ::every]
    variance = release.integers.diagonal() * release.unit
    known = (variance[rows] > 0) & (variance[columns] > 0)
    rows, columns = rows[known], columns[known]
    size = np.sqrt(variance[rows] * variance[columns])
    values = np.abs(values_at(release.integers, rows, columns)) * release.unit / size
    noise = _OF_NOISE * release.noise_sd[0] / np.median(variance[variance > 0])
    weak = float(np.quantile(values, _WEAKEST)) if len(values) else 1.0
    return min(weak, float(noise), 1.0)


def assumed_zero(part: Uncertain) -> int:
    """How many pairs were not released, and count as zero."""
    return int(np.count_nonzero(~part.known)) // 2


def doubts(release: Release, features: IntArray, n_zero: int) -> list[str]:
    """What must be said of an answer that uses these features, in sentences."""
    said = []
    fails = features[~interval_holds(release)[features]].tolist()
    if fails:
        said.append(
            f"Too much was taken off large values of {_names(release, fails)}: intervals may miss."
        )
    if n_zero:
        said.append(
            f"{counted(n_zero, 'pair')} of these features did not stand out, and count as "
            f"correlations of 0, give or take {missing_sd(release):.2g}."
        )
    return said


def _names(release: Release, features: list[int]) -> str:
    return listed([feature_names(release)[each] for each in features])
