"""Weights that make an estimate of a band fall to zero with the distance of two columns."""

from __future__ import annotations

import numpy as np

from hushcov.postprocess import Matrix, is_sparse, symmetric_sparse, upper_pairs
from hushcov.release.document import Release


def taper_of(release: Release) -> tuple[int, int] | None:
    """Up to how many columns apart pairs count fully, and from where on not at all.

    Between the two their weights fall in a line. None where a release has no taper. It makes the
    estimate; released values and intervals are of the covariances themselves.
    """
    match release.parameters.get("taper"):
        case [int(full), int(last)] if 0 <= full < last:
            return full, last
    return None


def tapered(matrix: Matrix, release: Release) -> Matrix:
    """The matrix with the weights of its taper, if it has one."""
    taper = taper_of(release)
    if taper is None:
        return matrix
    full, last = taper
    rows, columns, pairs = upper_pairs(matrix)
    weights = np.clip((last - (columns - rows)) / (last - full), 0.0, 1.0)
    there = weights > 0
    places = rows[there], columns[there]
    found = symmetric_sparse(places, (weights * pairs)[there], matrix.diagonal())
    return found if is_sparse(matrix) else found.toarray()
