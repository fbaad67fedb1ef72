"""A release as tables with named columns, and columns of it side by side."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy import sparse

from hushcov._arrays import FloatArray, IntArray
from hushcov._validation import LIBRARIES, check_choice, check_integer
from hushcov._words import counted
from hushcov.answers.files import Column, Table, frame, write_table
from hushcov.answers.names import feature_names, positions
from hushcov.exceptions import ParameterError
from hushcov.postprocess import Matrix, is_sparse
from hushcov.promise import promise_words
from hushcov.release import Release
from hushcov.release.coverage import Places
from hushcov.release.files import write_npy
from hushcov.release.view import (
    LEVEL,
    MEAN_COLUMNS,
    MOST_PAIRS,
    PairTable,
    paired_with,
    released_among,
    view,
)
from hushcov.text.description import NOT_PRIVATE, OUTSIDE, describe, pair_remarks, summary_dict
from hushcov.text.printing import AnswerPage, between

#: The label of what must be known before all else.
WARNING = "warning"
#: Columns of a window, at most: everything of it is made.
MOST_COLUMNS = 2_000


class Answer(ABC):
    """An answer to a question, which has a table."""

    _frames: str | None = None  # library of the data frames that the asker uses

    @abstractmethod
    def table(self) -> Table:
        """Return the answer as named columns."""

    @abstractmethod
    def page(self) -> AnswerPage:
        """Return the answer as it is shown."""

    def __repr__(self) -> str:
        return str(self.page())

    def _repr_html_(self) -> str:
        return self.page().html()

    def frame(self, library: str | None = None) -> Any:
        """Return the table as a DataFrame.

        Parameters
        ----------
        library : {"pandas", "polars"}, optional
            By default that of the rows that were fitted, else pandas.
        """
        return frame(self.table(), self._frames if library is None else library)

    def of(self, library: str | None) -> Self:
        """Return the answer with this library for its data frames."""
        object.__setattr__(self, "_frames", library)
        return self


# ---- tidy tables ----


def named_pairs(release: Release, pairs: PairTable) -> dict[str, Column]:
    """Return pairs as named columns: feature_1, feature_2, then those of `PairTable`."""
    names = feature_names(release)
    table = {each.name: getattr(pairs, each.name) for each in fields(pairs)}
    sides = {f"feature_{k}": names[table.pop(side)] for k, side in ((1, "rows"), (2, "columns"))}
    return sides | table


def pairs_table(release: Release, level: float, most: int = MOST_PAIRS) -> Table:
    """Return the pairs that were released, in the order of `View.released`."""
    return named_pairs(release, view(release).released(level, most))


def variances_table(release: Release, level: float) -> Table:
    """Return one row for each feature: mean, variance and standard deviation, with intervals."""
    unknown = MEAN_COLUMNS if release.location is None else ()
    table = view(release).features(level)
    kept = {name: column for name, column in table.items() if name not in unknown}
    return {"feature": feature_names(release), **kept}


def square_table(names: list[str], matrix: Matrix) -> Table:
    """Return a matrix with the names of the features: `feature`, then a column for each."""
    dense = matrix.toarray() if is_sparse(matrix) else np.asarray(matrix)
    first = "feature"
    while first in names:
        first += "_"
    column = np.array(names, dtype=object)
    return {first: column} | {str(name): dense[:, i] for i, name in enumerate(names)}


def square_frame(names: list[str], matrix: Matrix, library: str | None) -> Any:
    """Return a matrix as a square frame; polars, without row labels, has names in `feature`."""
    usual = LIBRARIES[0] if library is None else library
    if check_choice("library", usual, LIBRARIES) == "pandas":
        import pandas as pd

        make = pd.DataFrame.sparse.from_spmatrix if is_sparse(matrix) else pd.DataFrame
        return make(matrix, index=names, columns=names)
    if is_sparse(matrix):
        raise ParameterError(
            "library must be 'pandas' for a sparse covariance, got 'polars', which has no "
            "sparse columns: use pandas, or covariance_ itself."
        )
    if "feature" in names:
        raise ParameterError(
            "library must be 'pandas' for a feature that is called 'feature', got 'polars', "
            "whose first column has that name: use pandas, or rename the feature."
        )
    return frame(square_table(names, matrix), "polars")


def _correlations(pairs: Table) -> dict[str, Column]:
    """Return pairs with their correlations alone, as they are shown."""
    names = {"correlation_lower": "lower", "correlation_upper": "upper"}
    kept = ("feature_1", "feature_2", "correlation", *names)
    return {names.get(name, name): pairs[name] for name in kept}


def overview(release: Release) -> AnswerPage:
    """Return verdict, guarantee and strongest pairs of a release, as they are shown."""
    found, promise = describe(release), release.guarantee
    pairs = _correlations(named_pairs(release, found.view.listed(len(found.strongest))))
    if any(pair.correlation_outside for pair in found.strongest):
        marks = [OUTSIDE * pair.correlation_outside for pair in found.strongest]
        pairs[""] = np.array(marks, dtype=object)
    words = promise_words(promise.epsilon, promise.delta, promise.adjacency, promise.unit)
    remarks = pair_remarks(found.strongest, projected=release.making.projected)
    interval = f"; {between(LEVEL)}" if found.view.has_intervals else ""
    if not interval:
        del pairs["lower"], pairs["upper"]
    first = [*([] if promise.private else [NOT_PRIVATE]), *release.warnings]
    return AnswerPage(
        title=f"Private covariance of {counted(release.n_features, 'feature')}",
        facts=[
            *((WARNING, each) for each in first),
            *(found.verdict(), *found.lines(), ("guarantee", words)),
        ],
        table=pairs,
        legend=f"The strongest pairs. correlation: it has no unit{interval}. {remarks}",
    )


# ---- columns side by side ----


@dataclass(frozen=True, eq=False, repr=False)
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
        """Return a line for each pair that was released."""
        return self.pairs

    def page(self) -> AnswerPage:
        """Return the pairs with intervals of their correlations."""
        first, last, n = self.features[0], self.features[-1], len(self.features)
        legend = f"{between(self.level)}. status: whether noise explains the pair."
        return AnswerPage(
            title="Window",
            facts=[
                ("columns", f"{n:,}, from {first} to {last}"),
                ("pairs", f"{len(self.pairs['status']):,} of {n * (n - 1) // 2:,} were released"),
            ],
            table=_correlations(self.pairs) | {"status": self.pairs["status"]},
            legend=f"correlation: it has no unit; {legend}",
        )

    def matrix(self, library: str | None = None) -> Any:
        """Return the correlations as a square frame; polars has the names in `feature`."""
        return square_frame(list(self.features), self.correlation, library or self._frames)


def window(release: Release, first: Any, last: Any, *, level: float = LEVEL) -> Window:
    """Return the columns from one to another, both included, as `Answers.window` says."""
    ends = [int(positions(release, each)[0]) for each in (first, last)]
    places = np.arange(min(ends), max(ends) + 1)
    if len(places) > MOST_COLUMNS:
        raise ParameterError(
            f"a window must have at most {MOST_COLUMNS:,} columns, got {len(places):,}: name two "
            "that are closer together."
        )
    names, n = feature_names(release)[places], len(places)
    rows, columns = np.triu_indices(n, 1)
    there = released_among(release, places)[rows, columns]
    rows, columns = rows[there], columns[there]
    pairs = _pairs(release, (places[rows], places[columns]), level)
    square = np.full((3, n, n), np.nan)
    for each, name in enumerate(("correlation", "correlation_lower", "correlation_upper")):
        square[each, rows, columns] = square[each, columns, rows] = pairs[name]
        np.fill_diagonal(square[each], 1.0)
    where, along = release.positions, release.chromosomes
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


def around(release: Release, column: Any, distance: Any = None) -> Table:
    """Return the pairs of one column, in the order of the others, as `pairs()` has them.

    `distance` is how many columns away others are at most; None takes all that were released.
    """
    (place,) = positions(release, column).tolist()
    others = paired_with(release, np.array([place]))
    others = others[~release.exclude_each_other(others, np.array(place))]
    if distance is not None:
        cure = "give how many columns to look at on each side."
        most = check_integer("window", distance, at_least=1, cure=cure)
        others = others[np.abs(others - place) <= most]
    pairs = _pairs(release, (np.full(len(others), place), others), LEVEL)
    more = {} if release.positions is None else {"position": release.positions[others]}
    named = {name: column for name, column in pairs.items() if name != "feature_1"}
    return {"feature": named.pop("feature_2"), **more, "columns_away": others - place, **named}


def _pairs(release: Release, places: Places, level: float) -> dict[str, Any]:
    with np.errstate(all="ignore"):  # a release on disk may hold any finite numbers
        return named_pairs(release, view(release, np.union1d(*places)).table(places, level))


# ---- files beside a release ----

#: Names of the estimate's file, and what tables may be written as.
COVARIANCE, SPARSE_COVARIANCE = "covariance.npy", "covariance.npz"
FORMATS = ("csv", "parquet", "none")
_MOST_ROWS = 100_000  # of pairs
_MOST_PACKED = 5_000_000  # entries of a sparse matrix for which it is worth the time
_WIDEST = 500  # features of a matrix with names
_WORDS = {
    "pairs": "pairs with covariance, correlation, intervals and status, the strongest first",
    "variances": "the features with variances, standard deviations and intervals",
    "covariance": "the estimate with the names of the features",
    "correlation": "the same as correlations; empty where one was not found",
}
_SUMMARY = "summary.json", "verdict, promise and structure, for other programs"


def write_estimate(folder: Path, covariance: Matrix) -> tuple[str, str]:
    """Write the estimate, and return its file's name with what it holds."""
    name = SPARSE_COVARIANCE if is_sparse(covariance) else COVARIANCE
    if is_sparse(covariance):
        sparse.save_npz(folder / name, covariance, compressed=covariance.nnz <= _MOST_PACKED)
    else:
        with (folder / name).open("wb") as file:
            write_npy(file, covariance)
    return name, "the estimate, in the unit of the data"


def write_tables(
    folder: Path, release: Release, covariance: Matrix, tables: str
) -> list[tuple[str, str]]:
    """Write tables in one of `FORMATS` and a summary; return their names with what they hold."""
    if tables == "none":
        return []
    with np.errstate(all="ignore"):  # a release may hold any finite numbers
        found = {
            "pairs": pairs_table(release, LEVEL, most=_MOST_ROWS),
            "variances": variances_table(release, LEVEL),
        }
    if release.n_features <= _WIDEST:
        names = feature_names(release).tolist()
        found["covariance"] = square_table(names, covariance)
        found["correlation"] = square_table(names, view(release).correlation_matrix())
    for name, table in found.items():
        write_table(table, folder / f"{name}.{tables}")
    words = dict(_WORDS)
    if release.selected is not None and release.selected.shape[1] > _MOST_ROWS:
        words["pairs"] = (
            f"the strongest {_MOST_ROWS:,} of {release.selected.shape[1]:,} pairs, with intervals; "
            "covariance.npz has all"
        )
    with np.errstate(all="ignore"):
        summary = json.dumps(summary_dict(release))
    finite = json.loads(summary, parse_constant=lambda _: None)  # JSON has no NaN
    (folder / _SUMMARY[0]).write_text(json.dumps(finite, indent=1) + "\n", encoding="utf-8")
    return [*((f"{name}.{tables}", words[name]) for name in found), _SUMMARY]
