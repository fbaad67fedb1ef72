"""How a search for centres, scales and norms divides what it may spend, from public numbers."""

from __future__ import annotations

# Shares of the pool (in mu^2): of the first look at least, and of all looks together that are
# planned for; of the centre and of the norms, at least and at most.
_LOOK, _MOST_LOOK, _LOOK_RATIO = 0.04, 0.25, 27.0
_LEAST_CENTRE, _MOST_CENTRE, _CENTRE_ERROR = 0.005, 0.08, 0.05
_NORMS, _NORMS_RATIO = (0.01, 0.1), 3e-4
#: Of tilts, of tails and of mean squares.
OF_TILTS, OF_TAILS, OF_SQUARES = 0.01, 0.01, 0.02


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
