"""The pairs of features that a release shows as related, the strongest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rich.table import Table

from hushcov.cli.output import number, plain_table, short_name
from hushcov.estimators import PrivateSparseCovariance

FloatArray = npt.NDArray[np.float64]

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


def released_correlations(covariance: FloatArray, scale: FloatArray) -> FloatArray:
    """The estimate over released standard deviations, none of them below a quarter of its scale.

    The scales may be off by some tens of percent; a released variance may be noise alone, and
    then the correlation is cut at 1.
    """
    deviation = np.sqrt(np.maximum(np.diag(covariance), (scale / 4) ** 2))
    deviation[deviation == 0] = np.inf
    return np.clip(covariance / np.multiply.outer(deviation, deviation), -1.0, 1.0)


def found_pairs(estimator: PrivateSparseCovariance, at_most: int) -> Found:
    """Pairs that passed the threshold, the largest correlations first.

    Without a threshold every released entry counts, and intervals would say nothing.
    """
    covariance, intervals = estimator.covariance_, None
    shown = estimator.release_.integers != 0
    if estimator.detection_limit_ is not None:
        intervals = estimator.covariance_interval(LEVEL)
        shown = ~np.isnan(intervals[0])
    rows, columns = np.nonzero(np.triu(shown, 1))
    correlation = released_correlations(covariance, estimator.feature_scale_)[rows, columns]
    pairs = []
    for each in np.argsort(-np.abs(correlation), kind="stable")[:at_most]:
        at = int(rows[each]), int(columns[each])
        ends = None if intervals is None else (float(intervals[0][at]), float(intervals[1][at]))
        pairs.append(Pair(at, float(covariance[at]), float(correlation[each]), ends))
    return Found(len(rows), tuple(pairs))


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
