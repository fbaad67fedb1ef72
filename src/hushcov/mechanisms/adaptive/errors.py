"""Error estimates of adaptive releases, from norms of what is wrong with them."""

from __future__ import annotations

import math
from dataclasses import replace

from hushcov.release import Structure

FINE = 1024  # steps of the released integers in a deviation of their noise
_SAMPLING, _SURELY, _LEAST, _MISSED = 0.7, 1.6, 0.4, 2.3  # of error estimates; measured
_BARELY = 1.15  # how far the norm of noise may be from what is expected
_HARMLESS = 0.05  # by which an estimate may be worse than zeros


def with_errors(
    structure: Structure,
    errors: tuple[float, float, float],
    sampling: float,
    norm: float,
    every: bool,
) -> Structure:
    """The structure with the error over the norm, and an interval for it.

    `errors` are norms: of noise, of what is hidden, and of what bounding records may have cut off;
    `sampling` is that of sampling errors. `every` says that all features were found.
    """
    noise, hidden, cut = errors
    both, whole = math.hypot(noise, _SAMPLING * sampling), max(norm, 1e-300)
    most = (_SURELY * both + _MISSED * (hidden + cut)) / whole
    if not every:
        most = math.inf  # nothing is known of features that were not found
    return replace(
        structure,
        error=min(1.0, math.hypot(both, hidden) / whole),
        least=min(1.0, _LEAST * noise / whole),
        most=min(1 + _HARMLESS, most),
    )


def kept_of(noise: float, norm: float) -> float:
    """What an estimate is multiplied by so that noise does not make it worse than zeros."""
    sure = _BARELY * noise  # what is hidden is missing from zeros, too
    truth = max(norm - sure, 0.0)
    return 1.0 if sure <= truth else min(1.0, _HARMLESS * truth / (sure - truth))
