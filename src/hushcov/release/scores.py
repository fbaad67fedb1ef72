"""Sampling error of correlations of normal scores, from their released shares."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.polynomial import hermite_e
from scipy import special

from hushcov._arrays import FloatArray, IntArray
from hushcov.kernel.transforms import RANK, Transform

_DEGREE = 60  # of Hermite polynomials
_LATENT = np.sin(np.linspace(-np.pi / 2, np.pi / 2, 65))  # correlations of latent normal numbers
_AT_ONCE = 2**14  # pairs


def score_variances(
    transforms: tuple[Transform | None, ...], places: tuple[IntArray, IntArray], values: FloatArray
) -> FloatArray:
    """Return n times the sampling variance of correlations; NaN for pairs of other columns.

    Scores are those of latent normal numbers whose correlation gives these values: see
    `docs/proofs/quantiles.md`.
    """
    found = np.full(len(values), np.nan)
    ranked = [i for i, own in enumerate(transforms) if own and own.name == RANK and own.edges]
    place = np.full(len(transforms), -1)
    place[ranked] = np.arange(len(ranked))
    known = np.flatnonzero((place[places[0]] >= 0) & (place[places[1]] >= 0) & np.isfinite(values))
    if not len(known):
        return found
    made = [hermite_coefficients(transforms[i]) for i in ranked]
    series, fourths = np.stack([each[0] for each in made]), np.array([each[1] for each in made])
    for start in range(0, len(known), _AT_ONCE):
        at = known[start : start + _AT_ONCE]
        g, h = (series[place[side[at]]] for side in places)
        reached = (g[:, 0] * h[:, 0]) @ _powers(_LATENT).T
        r = np.clip(values[at], reached[:, 0], reached[:, -1])
        latent = [np.interp(x, own, _LATENT) for x, own in zip(r, reached, strict=True)]
        moments = np.einsum("pam,pbm,pm->pab", g, h, _powers(np.array(latent)))
        both, thirds = moments[:, 1, 1], moments[:, 2, 0] + moments[:, 0, 2]
        fourth = fourths[place[places[0][at]]] + fourths[place[places[1][at]]] + 2 * both
        found[at] = both - r * thirds + 0.25 * r**2 * fourth
    return np.asarray(np.maximum(found, 0.0))


def _powers(latent: FloatArray) -> FloatArray:
    return np.asarray(latent[:, None] ** np.arange(_DEGREE + 1))


def hermite_coefficients(own: Any) -> tuple[FloatArray, float]:
    """Return those of the standardised score, its square and its cube; and its fourth moment."""
    shares = np.array(own.shares)
    values = own.scores - shares @ own.scores
    values /= max(np.sqrt(shares @ values**2), 1e-9)
    ends = special.ndtri(np.clip(np.cumsum(shares), 0.0, 1.0))
    ends[-1] = np.inf
    ends = np.append(-np.inf, ends)
    # The integral of He_m phi up to t is -He_(m-1)(t) phi(t), and that of phi itself the share.
    finite = np.where(np.isfinite(ends), ends, 0.0)
    density = np.where(np.isfinite(ends), np.exp(-(finite**2) / 2) / np.sqrt(2 * np.pi), 0.0)
    below = -hermite_e.hermevander(finite, _DEGREE - 1) * density[:, None]
    norms = np.sqrt(special.factorial(np.arange(1, _DEGREE + 1)))
    inside = np.concatenate([shares[:, None], np.diff(below, axis=0) / norms], axis=1)
    return np.stack([values**k @ inside for k in (1, 2, 3)]), float(shares @ values**4)
