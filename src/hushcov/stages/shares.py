"""What a search for centres, scales and norms may spend, and how far squares move scales."""

from __future__ import annotations

import math

import numpy as np

from hushcov._arrays import FloatArray

# Shares of the pool (in mu^2): of the first look at least, and of all looks together that are
# planned for; of the centre and of the norms, at least and at most.
_LOOK, _MOST_LOOK, _LOOK_RATIO = 0.04, 0.25, 27.0
_LEAST_CENTRE, _MOST_CENTRE, _CENTRE_ERROR = 0.005, 0.08, 0.05
_NORMS, _NORMS_RATIO = (0.01, 0.1), 3e-4
#: Of tilts, of tails and of mean squares.
OF_TILTS, OF_TAILS, OF_SQUARES = 0.01, 0.01, 0.02
#: Bounds on the norms of squares, over typical ones.
SQUARE_NORMS = (1.5, 8.0)
# The mean square below which a scale is moved, the factor by which it may be, and how much too
# large it is left: those of heavy-tailed columns rather are, which makes long records shorter.
_LOW_SQUARE, _LEAST_FACTOR, _TOO_LARGE, _SQUARE_DOUBT = 0.3, 0.5, 1.5, 2.0


def preparation_for(n_records: int, n_features: int, total: float) -> float:
    """The share of the Gaussian part `total` that is set aside, from public numbers."""
    look = min(_MOST_LOOK, max(_LOOK, 2 * n_features * (_LOOK_RATIO / (n_records * total)) ** 2))
    others = norm_share(n_records, n_features, total) + OF_TAILS + OF_SQUARES
    return look + centre_share(n_records, n_features, total) + others


def centre_share(n_records: int, n_features: int, total: float) -> float:
    """The share at which the centre is off by `_CENTRE_ERROR` scales, within bounds."""
    share = 8 * n_features / (_CENTRE_ERROR * n_records * total) ** 2
    return min(_MOST_CENTRE, max(_LEAST_CENTRE, share))


def norm_share(n_records: int, n_features: int, total: float) -> float:
    """The share for norms: the more, the less noise there will be beside what a bound cuts off."""
    least, most = _NORMS
    return min(most, max(least, _NORMS_RATIO * n_records * total / (2 * n_features)))


def moved_by(squares: FloatArray, noise: float) -> FloatArray:
    """Factors that bring scales nearer to deviations, where they are too large beyond doubt."""
    doubt = _SQUARE_DOUBT * noise
    moved = _TOO_LARGE * np.sqrt(np.maximum(squares, doubt))
    return np.where(squares + doubt < _LOW_SQUARE, np.clip(moved, _LEAST_FACTOR, 1.0), 1.0)


def square_noise(n_records: float, n_found: int, mu: float) -> float:
    """About the noise of mean squares, in squared scales."""
    return 2 * SQUARE_NORMS[0] * math.sqrt(2 * n_found) / (n_records * mu)
