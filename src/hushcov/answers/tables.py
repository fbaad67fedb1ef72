"""Tables with named columns, as frames of pandas or polars and as files."""

from __future__ import annotations

import csv
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse

from hushcov._arrays import BoolArray, FloatArray, IntArray
from hushcov._validation import LIBRARIES, check_choice, check_integer, meant, nearest
from hushcov._words import counted, some_of
from hushcov.exceptions import MissingPackageError, ParameterError
from hushcov.kernel.accounting.guarantee import promise_words
from hushcov.postprocess import Matrix, is_sparse
from hushcov.release import Release
from hushcov.release.coverage import MeanTable
from hushcov.release.estimate import scales_of
from hushcov.release.files import write_npy
from hushcov.release.pairs import LEVEL, MOST_PAIRS, PairTable, View, view
from hushcov.text.description import NOT_PRIVATE, OUTSIDE, describe, pair_remarks, summary_dict

if TYPE_CHECKING:
    from hushcov.kernel.transforms import Transform
    from hushcov.text.printing import AnswerPage

#: The label of what must be known before all else.
WARNING = "warning"
#: Features up to which a question may be asked of all of them.
MOST_ASKED = 20_000
_MOST_IN_REFUSAL = 20  # features in a refusal
_CHUNK = 100_000  # rows written at a time

# Signs that begin a formula in a spreadsheet, also in their full width, after blanks, and blanks
# that may end a cell.
_FORMULA, _NEXT_CELL = frozenset("=+-@\uff1d\uff0b\uff0d\uff20"), frozenset("\t\r\n")

#: A column is an array; all are of one length.
Column = npt.NDArray[Any]
Table = Mapping[str, Column]


class Answer(ABC):
    """An answer to a question, which has a table."""

    _frames: str | None = None  # whose frames the asker uses

    @abstractmethod
    def table(self) -> Table:
        """The answer as named columns."""

    @abstractmethod
    def page(self) -> AnswerPage:
        """The answer as it is shown."""

    def __repr__(self) -> str:
        return str(self.page())

    def _repr_html_(self) -> str:
        return self.page().html()

    def frame(self, library: str | None = None) -> Any:
        """The table as a DataFrame.

        Parameters
        ----------
        library : {"pandas", "polars"}, optional
            Whose; by default that of the rows that were fitted, else pandas.
        """
        return frame(self.table(), self._frames if library is None else library)

    def of(self, library: str | None) -> Self:
        """Return the table in this data frame library."""
        object.__setattr__(self, "_frames", library)
        return self


def feature_names(release: Release) -> npt.NDArray[Any]:
    """Names of the features; x0, x1, ... where they have none."""
    names = release.column_names or [f"x{i}" for i in range(release.n_features)]
    return np.array(names, dtype=object)


def positions(release: Release, features: Any) -> npt.NDArray[np.int64]:
    """Return the places of features, given one or many names or positions, each at most once.

    A category stands for its column where it has only one.
    """
    given = [features] if isinstance(features, str | int | np.integer) else list(features)
    names = feature_names(release).tolist()
    place = {name: i for i, name in enumerate(names)}
    found = []
    for each in given:
        known = isinstance(each, str) and each in place
        here = [place[each]] if known else stands_for(release, each)
        if len(here) != 1:
            raise ParameterError(
                f"features must be names or positions of the release's {len(names):,} features, "
                f"got {each!r}{_cure(release, each, names)}"
            )
        found += here
    if len(set(found)) < len(found):
        raise ParameterError("features must all differ, got one twice: name each once.")
    return np.array(found, dtype=np.int64)


def stands_for(release: Release, given: object) -> list[int]:
    """Return the places that a name or position stands for; none if unknown or ambiguous.

    A name is that of a column, else of a category, else of a column before its transform, as cost
    for log1p(cost). Upper and lower case are the same where that is unambiguous.
    """
    if isinstance(given, int | np.integer):
        return [int(given)] if 0 <= given < release.n_features else []
    if not isinstance(given, str):
        return []
    names, categories = feature_names(release).tolist(), release.categories
    category = meant(given, categories)
    column = given if given in names else None
    if column is None and category != given:
        column = meant(given, names)
    if column is not None:
        return [names.index(column)]
    if category is not None:
        return [int(place) for place in categories[category]]
    maps = enumerate(release.making.transforms or ())
    before = {i: names[i][len(own.name) + 1 : -1] for i, own in maps if own is not None}
    name = meant(given, list(before.values()))
    found = [i for i, each in before.items() if each == name]
    return found if len(found) == 1 else []


def transform_of(release: Release, given: object) -> Transform | None:
    """Return the transform of the column that is given by its name before it; else None."""
    if not isinstance(given, str) or release.making.transforms is None:
        return None
    (place,) = positions(release, given)
    own, name = release.making.transforms[place], str(feature_names(release)[place])
    return None if meant(given, [name]) else own


def released_among(release: Release, places: IntArray) -> BoolArray:
    """Which pairs among these features the release holds, and the diagonal."""
    n = len(places)
    if release.selected is None:
        return np.ones((n, n), dtype=bool)
    known = np.eye(n, dtype=bool)
    if is_sparse(release.integers):
        there = release.integers[places][:, places].tocoo()
        known[there.row, there.col] = True
        return known
    place = np.full(release.n_features, -1)
    place[places] = np.arange(n)
    rows, columns = place[release.selected]
    inside = (rows >= 0) & (columns >= 0)
    known[rows[inside], columns[inside]] = known[columns[inside], rows[inside]] = True
    return known


def paired_with(release: Release, features: IntArray) -> IntArray:
    """Other features of which the release holds a pair with one of these, in their order."""
    if is_sparse(release.integers):
        near = np.unique(release.integers[features].indices)
    else:
        near = np.flatnonzero(release.released[features].any(axis=0))
    return np.asarray(np.setdiff1d(near, features), dtype=np.int64)


def _cure(release: Release, given: object, names: list[str]) -> str:
    known = release.categories
    category = meant(given, known) if isinstance(given, str) else None
    asked = names if category is None else [names[place] for place in known[category]]
    words = some_of(asked, _MOST_IN_REFUSAL)
    words += ", as variances.csv beside it lists" * (len(asked) > _MOST_IN_REFUSAL)
    if category is not None:
        but = ", all but one where they are all of its answers" * (len(asked) > 1)
        return f", which became {words}: name {'those' if but else 'that'}{but}."
    near = nearest([given], [*names[:MOST_ASKED], *known])
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"{hint}: they are {words}."


def frame(table: Table, library: str | None) -> Any:
    """The table as a DataFrame of `library`; of pandas where none is named."""
    usual = LIBRARIES[0] if library is None else library
    chosen = check_choice("library", usual, LIBRARIES)
    try:
        if chosen == "polars":
            import polars

            return polars.DataFrame({name: _plain(column) for name, column in table.items()})
        import pandas
    except ModuleNotFoundError:
        raise MissingPackageError("frames", chosen, chosen) from None
    return pandas.DataFrame(dict(table))


def _plain(column: npt.NDArray[Any]) -> Any:
    return column.tolist() if column.dtype == object else column


def check_parquet() -> None:
    """Refuse where the package that writes Parquet is missing."""
    if find_spec("pyarrow") is None:
        raise MissingPackageError("Parquet files", "pyarrow", "files")


def write_table(table: Table, path: str | Path) -> Path:
    """Write a table as CSV, or as Parquet where the name ends in .parquet."""
    path = Path(path)
    if path.suffix == ".parquet":
        check_parquet()
        import pyarrow
        import pyarrow.parquet

        columns = {name: pyarrow.array(_plain(column)) for name, column in table.items()}
        pyarrow.parquet.write_table(pyarrow.table(columns), path)
        return path
    length = len(next(iter(table.values()), ()))
    with path.open("w", encoding="utf-8", newline="") as file:
        write = csv_writer(file)
        for start in range(0, max(1, length), _CHUNK):
            write({name: column[start : start + _CHUNK] for name, column in table.items()})
    return path


def csv_table(table: Table) -> Table:
    """Return a table with titles and names as CSV files have them.

    Spreadsheets run a cell that begins with one of `_FORMULA` as a formula, some of them after
    blanks and signs that are not shown, too. An apostrophe before it makes it text, and one more is
    put before names that look as if that had been done already: taking one apostrophe away where
    such a sign follows it, blanks or further apostrophes gives the names back.
    """
    return {
        csv_text(title): np.array([csv_text(each) for each in column], dtype=object)
        if column.dtype == object
        else column
        for title, column in table.items()
    }


def csv_writer(file: Any) -> Callable[[Table], None]:
    """Return what writes one table after the other below one row of titles.

    Rows end in a line feed, and names that have any line end are in quotes. Those of the `csv`
    module have quotes where a sign of its own line end is in them, and no others.
    """

    class Lines:
        @staticmethod
        def write(row: str) -> int:
            return int(file.write(row.removesuffix("\r\n") + "\n"))

    writer = csv.writer(Lines, lineterminator="\r\n")

    def write(table: Table) -> None:
        table = csv_table(table)
        if file.tell() == 0:
            writer.writerow(table)
        writer.writerows(zip(*map(_texts, table.values()), strict=True))

    return write


@contextmanager
def table_writer(path: Path) -> Iterator[Callable[[Table], None]]:
    """Open a CSV or Parquet file, by its ending, to which one table after the other is written."""
    if find_spec("pyarrow") is None:
        with path.open("w", encoding="utf-8", newline="") as file:
            yield csv_writer(file)
        return
    import pyarrow
    from pyarrow import csv as arrow_csv
    from pyarrow import parquet

    writer: Any = None

    def write(table: Table) -> None:
        nonlocal writer
        table = table if path.suffix == ".parquet" else csv_table(table)
        columns = {name: pyarrow.array(each, from_pandas=True) for name, each in table.items()}
        made = pyarrow.table(columns)
        if writer is None and path.suffix == ".parquet":
            writer = parquet.ParquetWriter(path, made.schema)
        elif writer is None:
            options = arrow_csv.WriteOptions(quoting_style="needed")
            writer = arrow_csv.CSVWriter(path, made.schema, write_options=options)
        writer.write_table(made)

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()


def csv_text(text: Any) -> Any:
    """Return a name as CSV files have it; see `csv_table`."""
    if not isinstance(text, str) or text[:1].isalnum():
        return text
    blank = (each for each in text if each not in "' " and each.isprintable())
    runs = next(blank, "") in _FORMULA or text.lstrip("'")[:1] in _NEXT_CELL
    return f"'{text}" if runs else text


def _texts(column: npt.NDArray[Any]) -> list[Any]:
    """Numbers with every digit; nothing where there is none."""
    if column.dtype.kind == "f":
        return ["" if value != value else repr(value) for value in column.tolist()]  # noqa: PLR0124
    return [str(value).lower() for value in column] if column.dtype == bool else column.tolist()


# ---- a release as tidy tables ----


def correlation(release: Release) -> Matrix:
    """Return the estimate as correlations; see `View.correlation_matrix`."""
    return view(release).correlation_matrix()


def named_pairs(release: Release, pairs: PairTable) -> dict[str, Column]:
    """Return pairs as named columns: feature_1, feature_2, then those of `PairTable`."""
    names = feature_names(release)
    table = {each.name: getattr(pairs, each.name) for each in fields(pairs)}
    sides = {f"feature_{k}": names[table.pop(side)] for k, side in ((1, "rows"), (2, "columns"))}
    return sides | table


def pairs_table(release: Release, level: float, most: int = MOST_PAIRS) -> Table:
    """Return the pairs that were released, in the order of `View.released`."""
    return named_pairs(release, view(release).released(level, most))


#: Columns of a mean with its interval and standard error.
MEAN_COLUMNS = ("mean", "mean_lower", "mean_upper", "mean_se")


def means_columns(release: Release, found: MeanTable) -> dict[str, Column]:
    """Return means with their intervals and standard errors; nothing where none were released."""
    if release.location is None:
        return {}
    columns = found.mean, found.lower, found.upper, found.standard_error
    return dict(zip(MEAN_COLUMNS, columns, strict=True))


def variances_table(release: Release, level: float) -> Table:
    """Return one row for each feature: mean, variance and standard deviation, with intervals."""
    seen = view(release)
    found = seen.variances(level)
    value, low, high = found.deviations
    return {
        "feature": feature_names(release),
        **means_columns(release, seen.means(level)),
        "variance": found.variance,
        "lower": found.lower,
        "upper": found.upper,
        "standard_deviation": value,
        "sd_lower": low,
        "sd_upper": high,
        "noise_sd": found.noise_sd,
        "status": found.status,
    }


def intervals_table(release: Release, level: float, most: int = MOST_PAIRS) -> Table:
    """Return every released entry, variances first."""
    pairs, variances = pairs_table(release, level, most), variances_table(release, level)
    same = {"feature_1": "feature", "feature_2": "feature", "covariance": "variance"}
    return {
        name: np.concatenate([variances[same.get(name, name)], pairs[name]])
        for name in ("feature_1", "feature_2", "covariance", "lower", "upper", "status")
    }


def covariance_table(release: Release, matrix: Matrix) -> Table:
    """A matrix with the names of the features: `feature`, then one column for each of them."""
    names = feature_names(release)
    dense = matrix.toarray() if is_sparse(matrix) else np.asarray(matrix)
    first = "feature"
    while first in names:
        first += "_"
    return {first: names} | {str(name): dense[:, i] for i, name in enumerate(names)}


def _shown(pairs: Table) -> dict[str, Column]:
    """Return pairs with their correlations, as they are shown."""
    names = {"correlation_lower": "lower", "correlation_upper": "upper"}
    kept = ("feature_1", "feature_2", "correlation", *names)
    return {names.get(name, name): pairs[name] for name in kept}


def overview(release: Release, most: int = 10) -> AnswerPage:
    """Return verdict, guarantee and strongest pairs of a release, as they are shown."""
    from hushcov.text.printing import AnswerPage, between

    found, promise = describe(release, most), release.guarantee
    pairs = _shown(named_pairs(release, found.view.listed(most)))
    if any(pair.correlation_outside for pair in found.strongest):
        marks = [OUTSIDE * pair.correlation_outside for pair in found.strongest]
        pairs[""] = np.array(marks, dtype=object)
    words = promise_words(promise.epsilon, promise.delta, promise.adjacency, promise.unit)
    remarks = pair_remarks(found.strongest, projected=release.making.projected)
    between_words = f"; {between(LEVEL)}" if found.view.has_intervals else ""
    if not between_words:
        del pairs["lower"], pairs["upper"]
    first = [*([] if promise.private else [NOT_PRIVATE]), *release.warnings]
    return AnswerPage(
        title=f"Private covariance of {counted(release.n_features, 'feature')}",
        facts=[
            *((WARNING, each) for each in first),
            *(found.verdict(), *found.lines(), ("guarantee", words)),
        ],
        table=pairs,
        legend=f"The strongest pairs. correlation: it has no unit{between_words}. {remarks}",
    )


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
        found["covariance"] = covariance_table(release, covariance)
        found["correlation"] = covariance_table(release, correlation(release))
    for name, table in found.items():
        write_table(table, folder / f"{name}.{tables}")
    words = dict(_WORDS)
    if release.selected is not None and release.selected.shape[1] > _MOST_ROWS:
        words["pairs"] = (
            f"the strongest {_MOST_ROWS:,} of {release.selected.shape[1]:,} pairs, with intervals; "
            "covariance.npz has all"
        )
    with np.errstate(all="ignore"):
        told = json.dumps(summary_dict(release))
    finite = json.loads(told, parse_constant=lambda _: None)  # JSON has no NaN
    (folder / _SUMMARY[0]).write_text(json.dumps(finite, indent=1) + "\n", encoding="utf-8")
    return [*((f"{name}.{tables}", words[name]) for name in found), _SUMMARY]


#: Columns of a window, at most: everything of it is made.
MOST_COLUMNS = 2_000
_WILD = set("*?[")


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
        """A line for each pair that was released."""
        return self.pairs

    def page(self) -> AnswerPage:
        """The pairs with intervals of their correlations."""
        from hushcov.text.printing import AnswerPage, between

        first, last, n = self.features[0], self.features[-1], len(self.features)
        legend = f"{between(self.level)}. status: whether noise explains the pair."
        return AnswerPage(
            title="Window",
            facts=[
                ("columns", f"{n:,}, from {first} to {last}"),
                ("pairs", f"{len(self.pairs['status']):,} of {n * (n - 1) // 2:,} were released"),
            ],
            table=_shown(self.pairs) | {"status": self.pairs["status"]},
            legend=f"correlation: it has no unit; {legend}",
        )

    def matrix(self, library: str | None = None) -> Any:
        """The correlations as a square frame with the names; polars has them in `feature`."""
        names = list(self.features)
        if (library or self._frames) == "polars":
            columns = {name: self.correlation[:, i] for i, name in enumerate(names)}
            return frame({"feature": np.array(names, dtype=object)} | columns, "polars")
        import pandas as pd

        return pd.DataFrame(self.correlation, index=names, columns=names)


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


def around(release: Release, column: Any, reach: Any = None, *, level: float = LEVEL) -> Table:
    """The pairs of one column, in the order of the others: as `pairs()` has them.

    `reach` is how many columns away others are at most; None takes all that were released.
    """
    (place,) = positions(release, column).tolist()
    others = paired_with(release, np.array([place]))
    others = others[~release.exclude_each_other(others, np.array(place))]
    if reach is not None:
        cure = "give how many columns to look at on each side."
        most = check_integer("window", reach, at_least=1, cure=cure)
        others = others[np.abs(others - place) <= most]
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
    found = stands_for(release, name)
    if found:
        return np.array(found, dtype=np.int64)
    if set(name) & _WILD:
        found = [i for i, each in enumerate(names) if fnmatchcase(each, name)]
    else:
        wanted = name.casefold()
        found = [i for i, each in enumerate(names) if wanted in each.casefold()]
    return np.array(found, dtype=np.int64)


def variance_of(release: Release, column: int) -> float:
    """Return the variance of one column, as the estimate has it."""
    return float(view_of(release, np.array([column])).matrix[column, column])


def _pairs(release: Release, places: tuple[IntArray, IntArray], level: float) -> dict[str, Any]:
    with np.errstate(all="ignore"):  # a release on disk may hold any finite numbers
        return named_pairs(release, view_of(release, np.union1d(*places)).table(places, level))


def view_of(release: Release, kept: IntArray) -> View:
    """Return the view of a release; of a large sparse one the estimate of these columns alone."""
    if not is_sparse(release.integers) or release.making.structure is not None:
        return view(release)
    part, own = release.integers[kept], np.arange(release.n_features)
    rows = np.repeat(kept, np.diff(part.indptr))
    inside = np.isin(part.indices, kept) & (part.indices != rows)
    where = (
        np.concatenate([rows[inside], own]),
        np.concatenate([part.indices[inside].astype(np.int64), own]),
    )
    values = np.concatenate([part.data[inside], release.integers.diagonal()])
    matrix = sparse.csr_array((values, where), shape=release.integers.shape)
    small = replace(release, integers=matrix, feature_scale=scales_of(release))
    return replace(view(small), release=release)
