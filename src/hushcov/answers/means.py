"""Means that were released, and the noise that they have."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from hushcov._arrays import FloatArray
from hushcov.accounting import Gaussian
from hushcov.answers.linear import Linear
from hushcov.answers.tables import positions
from hushcov.answers.uncertain import Uncertain
from hushcov.exceptions import ParameterError
from hushcov.release import Release
from hushcov.release.document import MEANS
from hushcov.release.findings import scales_of

#: Said where the noise of means is not known.
MEANS_UNSURE = "The release does not say how much noise its means have: it is not counted."


def mean_noise(release: Release) -> FloatArray | None:
    """Standard deviation of the noise of each released mean; None where the release does not say.

    Records are bounded to the norm sqrt(2 d) in units of the scales, and the mean of n of them
    moves by twice that over n: mu deviations of the noise.
    """
    n, scale = release.making.n_complete, release.feature_scale
    events = [event for part in release.making.parts if part.name == MEANS for event in part.events]
    if n is None or scale is None or release.guarantee.rows_per_unit > 1 or len(events) != 1:
        return None
    (event,) = events
    if not isinstance(event, Gaussian):
        return None
    sensitivity = 2 * math.sqrt(2 * int(np.count_nonzero(scale)))
    return np.asarray(sensitivity / (event.mu * n) * scales_of(release))


def means_of(release: Release, means: Mapping[Any, float] | None) -> tuple[FloatArray, FloatArray]:
    """Means of all features and the noise they have: public ones where given, else released ones.

    NaN where there is neither; noise is NaN where a released mean does not say it.
    """
    d = release.n_features
    location = np.full(d, np.nan) if release.location is None else release.location.astype(float)
    noise = mean_noise(release)
    noise = np.full(d, np.nan) if noise is None else noise.copy()
    for name, value in (means or {}).items():
        (at,) = positions(release, name)
        if not np.isfinite(value):
            raise ParameterError(f"means must be finite, got {value!r}: pass public ones.")
        location[at], noise[at] = float(value), 0.0
    return location, noise


def predicted(
    part: Uncertain, found: Linear, at: FloatArray, noise: FloatArray, width: float
) -> tuple[float, float, float]:
    """What features at `at`, in deviations from their means, add to the mean; with its interval.

    Means are off by their noise and by sampling, and both by themselves.
    """
    (value,), (low,), (high,) = found.ends(at)
    tilde = np.concatenate([[1.0], -found.coefficients])
    of_means = np.nan_to_num(noise[part.features]) / part.deviations * tilde
    square = float(of_means @ of_means) + found.unexplained / part.n
    means = width * np.sqrt(square)
    unit = float(part.deviations[0])
    low, high = value - np.hypot(value - low, means), value + np.hypot(high - value, means)
    return float(value * unit), float(low * unit), float(high * unit)
