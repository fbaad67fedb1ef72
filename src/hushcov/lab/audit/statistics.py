"""What an attacker computes from one output: a weighted sum of the numbers in it.

Whether a pair was selected is a number too (0 or 1), so that "pair selected" and counts of
selected pairs are such sums as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_RIDGE = 1e-9  # relative; makes the fit unique where numbers of an output determine each other


@dataclass(frozen=True, eq=False)
class Statistic:
    """A weighted sum of the leading numbers of an output; None for weights fitted to runs."""

    name: str
    weights: FloatArray | None = None

    def fitted(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """The weights, from runs (rows) on both datasets where they are not fixed."""
        return linear_discriminant(first, second) if self.weights is None else self.weights


def weighted_sums(outputs: FloatArray, weights: FloatArray) -> FloatArray:
    """One number for each output (row); weights may be fewer than the numbers in it."""
    return np.asarray(outputs[:, : len(weights)] @ weights)


#: Fitted to half of the runs: finds what nobody thought of.
FITTED = Statistic("fitted")


def along_change(before: FloatArray, after: FloatArray) -> Statistic:
    """<M, y'y'' - yy'> for the released matrix M.

    `before` and `after` are the replaced record y and its replacement y'. An output starts with
    the entries of M, row by row.
    """
    return Statistic("along change", outer_change(before, after).ravel())


def outer_change(before: FloatArray, after: FloatArray) -> FloatArray:
    """y'y'' - yy', with 1 as its largest size."""
    change = np.outer(after, after) - np.outer(before, before)
    return np.asarray(change / np.max(np.abs(change)))


def trace(n_features: int) -> Statistic:
    """The trace of the released matrix."""
    return Statistic("trace", np.eye(n_features).ravel())


def summed(name: str, columns: Iterable[int], n_columns: int) -> Statistic:
    """The sum of some numbers of the output: counts, or whether given pairs were selected."""
    weights = np.zeros(n_columns)
    weights[list(columns)] = 1.0
    return Statistic(name, weights)


def linear_discriminant(first: FloatArray, second: FloatArray) -> FloatArray:
    """Fisher's weights: the inverse of the common covariance times the difference of the means.

    A number that never varies gets a small deviation, so that one which differs between the
    datasets decides.
    """
    difference = second.mean(axis=0) - first.mean(axis=0)
    centred = np.concatenate([first - first.mean(axis=0), second - second.mean(axis=0)])
    deviation = np.sqrt(np.mean(centred**2, axis=0))
    deviation = np.where(deviation > 0, deviation, 1e-6 * np.maximum(1.0, np.abs(difference)))
    centred /= deviation
    covariance = centred.T @ centred / len(centred)
    covariance += np.diag(np.maximum(1 - np.diag(covariance), 0) + _RIDGE)
    return np.asarray(np.linalg.solve(covariance, difference / deviation) / deviation)
