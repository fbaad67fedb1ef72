"""The pairs of features that a release shows as related, the strongest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rich.table import Table

from hushcov.cli.output import number, plain_table, short_name
from hushcov.estimators import PrivateSparseCovariance
from hushcov.postprocess import (
    Matrix,
    is_sparse,
    released_correlations,
    upper_pairs,
    values_at,
)

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

LEVEL = 0.95
STRONGEST = "The strongest of many estimates tend to be too strong."


@dataclass(frozen=True)
class Pair:
    """Two features, by their columns counted from 0, with what was released about them."""

    features: tuple[int, int]
    covariance: float
    correlation: float
    interval: tuple[float, float] | None  # for the covariance; None without a single noise level

    def to_dict(self) -> dict[str, object]:
        """Return the pair as plain, JSON-ready data."""
        return {
            "features": list(self.features),
            "covariance": self.covariance,
            "correlation": self.correlation,
            "interval": None if self.interval is None else list(self.interval),
        }


@dataclass(frozen=True)
class Found:
    """How many pairs were found, and the strongest of them."""

    number: int
    strongest: tuple[Pair, ...]


def largest_pairs(
    covariance: Matrix, correlation: Matrix, pairs: tuple[IntArray, IntArray], at_most: int
) -> tuple[list[tuple[int, int]], FloatArray, FloatArray]:
    """The pairs with the largest correlations, these pairs' covariances, and their correlations."""
    rows, columns = pairs
    values = values_at(correlation, rows, columns)
    order = np.argsort(-np.abs(values), kind="stable")[:at_most]
    places = list(zip(rows[order].tolist(), columns[order].tolist(), strict=True))
    return places, values_at(covariance, rows[order], columns[order]), values[order]


def found_pairs(estimator: PrivateSparseCovariance, at_most: int) -> Found:
    """Pairs that passed the threshold, the largest correlations first.

    Without a threshold every released entry counts, and intervals would say nothing.
    """
    covariance, intervals = estimator.covariance_, None
    if estimator.detection_limit_ is None:
        rows, columns, _ = upper_pairs(estimator.release_.integers)
    else:
        intervals = estimator.covariance_interval(LEVEL)
        rows, columns = _with_interval(intervals[0])
    correlation = released_correlations(covariance, estimator.feature_scale_)
    found = largest_pairs(covariance, correlation, (rows, columns), at_most)
    pairs = []
    for at, value, strength in zip(*found, strict=True):
        ends = None if intervals is None else (float(intervals[0][at]), float(intervals[1][at]))
        pairs.append(Pair(at, float(value), float(strength), ends))
    return Found(len(rows), tuple(pairs))


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
        cells = [", ".join(features), f"{pair.correlation:.3f}", number(pair.covariance, 3)]
        if pair.interval is not None:
            low, high = pair.interval
            cells.append(f"{number(low, 3)} to {number(high, 3)}")
            if truth is not None:
                true = truth[pair.features]
                cells += [number(true, 3), "yes" if low <= true <= high else "no"]
        table.add_row(*cells)
    return table
