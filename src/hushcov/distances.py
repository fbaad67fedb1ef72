"""Pairs of features whose public positions are close: along a line, on a map, or in space."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from hushcov._arrays import FloatArray, IntArray
from hushcov._listed_pairs import check_most
from hushcov._validation import check_real
from hushcov.candidates import Candidates
from hushcov.exceptions import ParameterError

_DISTANCE_CURE = "it is how far apart two features can be that covary, in the unit of positions."
_ROUNDINGS = 4
_POSITIONS_CURE = "give one for each column, or a row of coordinates, in the order of the columns."


def pairs_within(
    positions: npt.ArrayLike, distance: float, *, groups: npt.ArrayLike | None = None
) -> Candidates:
    """All pairs of features at most so far apart, for `candidate_pairs=`.

    Parameters
    ----------
    positions : array-like of shape (n_features,) or (n_features, n_coordinates)
        Where each feature is, in the order of the columns: base pairs of variants, minutes of a
        day, metres along a chain; or coordinates, as those of sensors on a map. Distances between
        coordinates are Euclidean. They need not be sorted, and must be public.
    distance : float
        Pairs that are exactly this far apart count.
    groups : array-like of shape (n_features,), optional
        Pairs are within a group only: the chromosome of each variant, the building of each sensor.

    Returns
    -------
    Candidates
        Sorted positions on a line give windows of columns.

    Privacy
    -------
    Positions, distance and groups are taken for public, and no record is read.

    Examples
    --------
    >>> from hushcov import pairs_within
    >>> found = pairs_within([100, 180, 900, 950], 100)
    >>> [(int(i), int(j)) for i, j in zip(*found.pairs)]
    [(0, 1), (2, 3)]
    >>> pairs_within([[0, 0], [3, 4], [30, 40]], 5).n_pairs
    1
    """
    reach = check_real("distance", distance, above=0, or_zero=True, cure=_DISTANCE_CURE)
    where = _positions(positions)
    # Decimals are rounded, and 0.7 and 0.8 are to be 0.1 apart.
    reach += _ROUNDINGS * float(np.spacing(np.abs(where).max(initial=0.0) + reach))
    members = _members(groups, len(where))
    if where.ndim == 1:
        return _on_a_line(where, reach, members)
    return _in_space(where, reach, members)


def _positions(given: npt.ArrayLike) -> FloatArray:
    found = _as_array("positions", given)
    if found.ndim not in (1, 2) or found.dtype.kind not in "iuf":
        raise ParameterError(
            "positions must be numbers, or rows of coordinates, got "
            f"{found.dtype} of shape {found.shape}: {_POSITIONS_CURE}"
        )
    where = found.astype(np.float64)
    if not np.isfinite(where).all():
        raise ParameterError(
            "positions must be finite: give one for each column, or leave the column out."
        )
    return where


def _members(given: npt.ArrayLike | None, n_features: int) -> IntArray:
    """The group of each feature, as a number."""
    if given is None:
        return np.zeros(n_features, dtype=np.int64)
    found = _as_array("groups", given)
    if found.shape != (n_features,):
        raise ParameterError(
            f"groups must have one for each of {n_features:,} positions, got shape {found.shape}: "
            "name the group of every feature."
        )
    # Of objects of several kinds there is no order, but they have texts.
    named = found.astype(str) if found.dtype.kind == "O" else found
    return np.unique(named, return_inverse=True)[1].astype(np.int64)


def _as_array(name: str, given: Any) -> npt.NDArray[Any]:
    try:
        return np.asarray(given)
    except ValueError:
        raise ParameterError(
            f"{name} must be an array, got rows of different lengths: {_POSITIONS_CURE}"
        ) from None


def _on_a_line(where: FloatArray, reach: float, members: IntArray) -> Candidates:
    """Sorted, each feature is paired with those that follow until one is too far."""
    d = len(where)
    order = np.lexsort((where, members))
    ends = np.empty(d, dtype=np.int64)
    borders = np.searchsorted(members[order], np.arange(members.max(initial=-1) + 2))
    for start, stop in itertools.pairwise(borders):
        line = where[order[start:stop]]
        ends[start:stop] = start + np.searchsorted(line, line + reach, side="right")
    windows = Candidates.windows(ends)
    if np.array_equal(order, np.arange(d)):
        return windows
    rows, columns = windows.pairs
    return Candidates.of_pairs(d, order[rows], order[columns])


def _in_space(where: FloatArray, reach: float, members: IntArray) -> Candidates:
    """By a tree for each group; pairs are counted before any is listed."""
    from scipy.spatial import cKDTree

    d = len(where)
    order = np.argsort(members, kind="stable")
    borders = np.searchsorted(members[order], np.arange(members.max(initial=-1) + 2))
    found, total = [np.empty((0, 2), dtype=np.int64)], 0
    for start, stop in itertools.pairwise(borders):
        group = order[start:stop]
        tree = cKDTree(where[group])
        total += (int(tree.count_neighbors(tree, reach)) - len(group)) // 2
        check_most(total)
        found.append(group[tree.query_pairs(reach, output_type="ndarray")])
    rows, columns = np.concatenate(found).T
    return Candidates.of_pairs(d, rows, columns)
