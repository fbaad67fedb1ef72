"""The pairs of features that a release shows as related, the strongest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rich.table import Table

from hushcov.cli.output import counted, number, plain_table, short_name
from hushcov.estimators import PrivateSparseCovariance
from hushcov.postprocess import (
    Matrix,
    is_noise,
    is_sparse,
    released_correlations,
    upper_pairs,
    values_at,
)

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

LEVEL = 0.95
STRONGEST = "The strongest of many estimates tend to be too strong."
_OUTSIDE = "*"  # marks an estimate that lies outside its interval


@dataclass(frozen=True)
class Pair:
    """Two features, by their columns counted from 0, with what was released about them.

    A `correlation` may be beyond 1, which is noise; None says that a variance is not positive.
    """

    features: tuple[int, int]
    covariance: float
    correlation: float | None
    interval: tuple[float, float] | None  # for the covariance; None without a single noise level

    @property
    def noise(self) -> bool:
        """Whether noise drowns the correlation."""
        return self.correlation is None or bool(is_noise(np.array(self.correlation)))

    @property
    def outside(self) -> bool:
        """Whether the estimate lies outside its own interval."""
        return self.interval is not None and not (
            self.interval[0] <= self.covariance <= self.interval[1]
        )

    def to_dict(self) -> dict[str, object]:
        """Return the pair as plain, JSON-ready data."""
        return {
            "features": list(self.features),
            "covariance": self.covariance,
            "correlation": self.correlation,
            "noise": self.noise,
            "interval": None if self.interval is None else list(self.interval),
            "outside_interval": self.outside,
        }


@dataclass(frozen=True)
class Found:
    """How many pairs were found, and the strongest of them."""

    number: int
    strongest: tuple[Pair, ...]


def largest_pairs(
    covariance: Matrix,
    pairs: tuple[IntArray, IntArray],
    at_most: int,
    intervals: tuple[Matrix, Matrix] | None = None,
) -> tuple[Pair, ...]:
    """The pairs with the largest correlations; last, those that have none."""
    rows, columns = pairs
    values = values_at(released_correlations(covariance), rows, columns)
    order = np.argsort(-np.abs(values), kind="stable")[:at_most]
    found = []
    for i, j, value in zip(rows[order], columns[order], values[order], strict=True):
        at = int(i), int(j)
        ends = None if intervals is None else (float(intervals[0][at]), float(intervals[1][at]))
        strength = float(value) if np.isfinite(value) else None
        found.append(Pair(at, float(covariance[at]), strength, ends))
    return tuple(found)


def found_pairs(estimator: PrivateSparseCovariance, at_most: int) -> Found:
    """Pairs that passed the threshold, the largest correlations first.

    Without a threshold every released entry counts, and intervals would say nothing.
    """
    intervals = None
    if estimator.detection_limit_ is None:
        rows, columns, _ = upper_pairs(estimator.release_.integers)
    else:
        intervals = estimator.covariance_interval(LEVEL)
        rows, columns = _with_interval(intervals[0])
    pairs = largest_pairs(estimator.covariance_, (rows, columns), at_most, intervals)
    return Found(len(rows), pairs)


def _with_interval(ends: Matrix) -> tuple[IntArray, IntArray]:
    """The pairs that have one: all that a sparse matrix stores, or all that are not NaN."""
    if is_sparse(ends):
        places = ends.tocoo()
        upper = places.row < places.col
        return places.row[upper].astype(np.int64), places.col[upper].astype(np.int64)
    rows, columns = np.nonzero(np.triu(~np.isnan(ends), 1))
    return rows, columns


def pair_table(
    pairs: Sequence[Pair],
    truth: FloatArray | None = None,
    *,
    names: Sequence[str] | None = None,
) -> Table:
    """One line for each pair; with names and its true covariance where these are known."""
    table = plain_table()
    titles = ["features", "correlation", "covariance"]
    titles += [f"{100 * LEVEL:g} % interval"] if any(pair.interval for pair in pairs) else []
    titles += [] if truth is None else ["truth", "inside?"]
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    for pair in pairs:
        features = [str(i) if names is None else short_name(names[i]) for i in pair.features]
        cells = [", ".join(features), correlation_text(pair), number(pair.covariance, 3)]
        if pair.interval is not None:
            low, high = pair.interval
            cells.append(f"{number(low, 3)} to {number(high, 3)}" + _OUTSIDE * pair.outside)
            if truth is not None:
                true = truth[pair.features]
                cells += [number(true, 3), "yes" if low <= true <= high else "no"]
        table.add_row(*cells)
    return table


def correlation_text(pair: Pair) -> str:
    """A correlation, said to be noise where it is."""
    if pair.correlation is None:
        return "none: noise"
    if not pair.noise:
        return f"{pair.correlation:.3f}"
    return f"{number(pair.correlation, 3)}: noise"


def pair_remarks(pairs: Sequence[Pair], *, projected: bool = False) -> str:
    """What the marks in a table of these pairs mean."""
    words = []
    if any(pair.correlation is not None and pair.noise for pair in pairs):
        words.append(
            "Only noise puts a correlation beyond 1: it is as large as what it was added to."
        )
    if any(pair.correlation is None for pair in pairs):
        words.append("There is none where noise made a variance zero or negative.")
    if any(pair.outside for pair in pairs):
        reason = (
            "the estimate was moved when the matrix was made positive semidefinite, or barely "
            if projected
            else "the estimate barely "
        )
        words.append(
            f"{_OUTSIDE} outside its interval: {reason}passed the threshold, which favours those "
            "that noise made larger. Believe the interval."
        )
    return " ".join([*words, STRONGEST])


def variance_remark(covariance: Matrix) -> list[tuple[str, str]]:
    """That some variances are noise, if there are such."""
    negative = int(np.count_nonzero(covariance.diagonal() < 0))
    if not negative:
        return []
    words = f"{negative:,} of {counted(covariance.shape[0], 'variance')} came out negative: noise"
    return [("variances", words)]
