"""Some columns of a release: those around one, those between two, and those of some name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from scipy import sparse

from hushcov._arrays import BoolArray, FloatArray, IntArray
from hushcov._validation import check_integer
from hushcov.answers.entries import rows_of
from hushcov.answers.tables import Answer, Table, feature_names, frame, positions
from hushcov.exceptions import ParameterError
from hushcov.postprocess import is_sparse, values_at
from hushcov.release import Release
from hushcov.release.findings import LEVEL, Glance, glance, scales_of

#: Columns of a window, at most: everything of it is made.
MOST_COLUMNS = 2_000
_WILD = set("*?[")


@dataclass(frozen=True, eq=False)
class Window(Answer):
    """Columns that stand side by side, with all that was released of them.

    Parameters
    ----------
    features : tuple of str
    places : ndarray
        Where they are among all columns, counted from 0.
    positions, chromosomes : ndarray and tuple, or None
        Where they lie, where the release says it.
    level : float
        Of each interval.
    correlation, lower, upper : ndarray of shape (n, n)
        Correlations and their intervals; 1 on the diagonal, and NaN for pairs that were not
        released.
    pairs : Table
        The pairs that were released, in the order of the columns, as `pairs()` has them.
    """

    features: tuple[str, ...]
    places: IntArray
    positions: IntArray | None
    chromosomes: tuple[str, ...] | None
    level: float
    correlation: FloatArray
    lower: FloatArray
    upper: FloatArray
    pairs: Table

    def table(self) -> Table:
        """A line for each pair that was released."""
        return self.pairs

    def matrix(self, library: str | None = None) -> Any:
        """The correlations as a square frame with the names; polars has them in `feature`."""
        names = list(self.features)
        if (library or self._frames) == "polars":
            columns = {name: self.correlation[:, i] for i, name in enumerate(names)}
            return frame({"feature": np.array(names, dtype=object)} | columns, "polars")
        import pandas as pd

        return pd.DataFrame(self.correlation, index=names, columns=names)


def window(release: Release, first: Any, last: Any, *, level: float = LEVEL) -> Window:
    """The columns from one to another, both included. It costs nothing: the release alone is read.

    Parameters
    ----------
    release : Release
    first, last : str or int
        Names or positions, counted from 0; in either order.
    level : float, default=0.95
        Of each interval.
    """
    ends = [int(positions(release, each)[0]) for each in (first, last)]
    places = np.arange(min(ends), max(ends) + 1)
    if len(places) > MOST_COLUMNS:
        raise ParameterError(
            f"a window must have at most {MOST_COLUMNS:,} columns, got {len(places):,}: name two "
            "that are closer together."
        )
    names, n = feature_names(release)[places], len(places)
    rows, columns = np.triu_indices(n, 1)
    there = _released(release, places)[rows, columns]
    rows, columns = rows[there], columns[there]
    with np.errstate(all="ignore"):  # a release on disk may hold any finite numbers
        pairs = _pairs(release, (places[rows], places[columns]), level)
    square = np.full((3, n, n), np.nan)
    for each, name in enumerate(("correlation", "correlation_lower", "correlation_upper")):
        square[each, rows, columns] = square[each, columns, rows] = pairs[name]
        np.fill_diagonal(square[each], 1.0)
    where = release.positions
    along = release.chromosomes
    return Window(
        features=tuple(map(str, names)),
        places=places,
        positions=None if where is None else where[places],
        chromosomes=None if along is None else along[places[0] : places[-1] + 1],
        level=float(level),
        correlation=square[0],
        lower=square[1],
        upper=square[2],
        pairs=pairs,
    )


def around(release: Release, column: Any, reach: Any = None, *, level: float = LEVEL) -> Table:
    """The pairs of one column, in the order of the others: as `pairs()` has them.

    `reach` is how many columns away others are at most; None takes all that were released.
    """
    (place,) = positions(release, column).tolist()
    others = _partners(release, place)
    if reach is not None:
        cure = "give how many columns to look at on each side."
        most = check_integer("window", reach, at_least=1, cure=cure)
        others = others[np.abs(others - place) <= most]
    with np.errstate(all="ignore"):
        pairs = _pairs(release, (np.full(len(others), place), others), level)
    more = {} if release.positions is None else {"position": release.positions[others]}
    named = {name: column for name, column in pairs.items() if name != "feature_1"}
    return {"feature": named.pop("feature_2"), **more, "columns_away": others - place, **named}


def matching(release: Release, name: str) -> IntArray:
    """Places of columns by name: the one of that name, those of a pattern (*, ?), or that have it.

    A pattern must fit the whole name. What has no sign of one is also looked for within names,
    whatever the case.
    """
    names = feature_names(release).tolist()
    if name in names:
        return np.array([names.index(name)], dtype=np.int64)
    if set(name) & _WILD:
        found = [i for i, each in enumerate(names) if fnmatchcase(each, name)]
    else:
        wanted = name.casefold()
        found = [i for i, each in enumerate(names) if wanted in each.casefold()]
    return np.array(found, dtype=np.int64)


def _released(release: Release, places: IntArray) -> BoolArray:
    """Which pairs among these columns the release holds."""
    if release.selected is None:
        return np.ones((len(places), len(places)), dtype=bool)
    known = np.zeros((len(places), len(places)), dtype=bool)
    if is_sparse(release.integers):
        start, end = places[0], places[-1] + 1
        part = release.integers[start:end][:, start:end].tocoo()
        known[part.row, part.col] = True
        return known
    return np.asarray(release.released[np.ix_(places, places)])


def _partners(release: Release, place: int) -> IntArray:
    if is_sparse(release.integers):
        ends = release.integers.indptr[place : place + 2]
        others = release.integers.indices[slice(*ends)].astype(np.int64)
    else:
        others = np.flatnonzero(release.released[place])
    return np.asarray(others[others != place])


def _pairs(release: Release, places: tuple[IntArray, IntArray], level: float) -> dict[str, Any]:
    seen = _seen(release, places)
    rows, columns = places
    released = np.asarray(values_at(release.integers, rows, columns), dtype=np.float64)
    values = np.asarray(values_at(seen.matrix, rows, columns))
    found = (np.abs(released) * release.unit > seen.threshold) & (values != 0)
    return rows_of(release, seen, places, found, level)


def _seen(release: Release, places: tuple[IntArray, IntArray]) -> Glance:
    """The estimate; of a large sparse release no more than these columns of it."""
    making = release.making
    if not is_sparse(release.integers) or making.structure is not None:
        return glance(release)
    return glance(_only(release, np.union1d(*places)))


def _only(release: Release, kept: IntArray) -> Release:
    """The same release with entries of some columns alone, and the diagonal."""
    part = release.integers[kept]
    rows = np.repeat(kept, np.diff(part.indptr))
    inside = np.isin(part.indices, kept) & (part.indices != rows)
    own = np.arange(release.n_features)
    where = (
        np.concatenate([rows[inside], own]),
        np.concatenate([part.indices[inside].astype(np.int64), own]),
    )
    values = np.concatenate([part.data[inside], release.integers.diagonal()])
    matrix = sparse.csr_array((values, where), shape=release.integers.shape)
    return replace(release, integers=matrix, feature_scale=scales_of(release))
