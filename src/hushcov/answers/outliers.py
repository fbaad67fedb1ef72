"""How unusual rows are, by a release: squared distances, and which features are off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from hushcov._arrays import FloatArray, IntArray
from hushcov._words import counted
from hushcov.answers.means import MEANS_UNSURE, means_of
from hushcov.answers.partners import doubts, nothing_known, of_factors, refuse_unknown
from hushcov.answers.tables import MOST_ASKED, Answer, Table, feature_names, positions
from hushcov.answers.uncertain import Uncertain, uncertain
from hushcov.exceptions import DataError, ParameterError, raise_alone
from hushcov.postprocess import is_sparse
from hushcov.release import Release
from hushcov.release.findings import estimate

_EDGE = 2.0  # the largest eigenvalue of noise, over the deviation of its rows


@dataclass(frozen=True, eq=False)
class OutlierScores(Answer):
    """How unusual rows are under the released covariance.

    Parameters
    ----------
    features : tuple of str
        What was looked at.
    distance : ndarray
        Squared Mahalanobis distance of each row, over the directions that noise leaves.
    directions : ndarray of int
        How many these are for each row: fewer where values are missing.
    p_value : ndarray
        How often a normal row is as far away or further; 1 where nothing was there to look at.
    z : ndarray of shape (rows, features)
        How many standard deviations each value is from what the others of its row let expect. NaN
        where it is missing.
    n_left_out : int
        Directions of the whole whose variance cannot be told from noise; they do not count.
    warning : str or None
    """

    features: tuple[str, ...]
    distance: FloatArray
    directions: IntArray
    p_value: FloatArray
    z: FloatArray
    n_left_out: int
    warning: str | None

    def table(self) -> Table:
        """A line for each row, with the feature that is furthest off."""
        size = np.nan_to_num(np.abs(self.z), nan=-1.0)
        worst = size.argmax(axis=1) if size.size else np.zeros(len(size), dtype=np.int64)
        rows = np.arange(len(size))
        return {
            "row": rows,
            "distance": self.distance,
            "directions": self.directions,
            "p_value": self.p_value,
            "feature": np.array(self.features, dtype=object)[worst],
            "z": self.z[rows, worst],
        }


def outlier_scores(
    release: Release,
    rows: Any,
    features: Any = None,
    *,
    means: Mapping[Any, float] | None = None,
) -> OutlierScores:
    """Score rows by how unusual they are under the released covariance.

    Parameters
    ----------
    release : Release
    rows : DataFrame or array of shape (rows, features)
        NaN or null where a value is missing. A frame is read by its column names, and an array in
        the order of `features`.
    features : names or positions, optional
        What to look at. None is what the frame has, or every feature for an array.
    means : mapping of names or positions to numbers, optional
        Public means, where they are known or none were released.

    Privacy
    -------
    The covariance is a release; the rows are not. **Scores of sensitive rows are a new, uncharged
    release of these rows**: score rows that are public, or your own, and keep other scores to
    those who may see the rows.
    """
    X, at = _rows(release, rows, features)
    lost = nothing_known(release)[at]
    if features is not None:
        refuse_unknown(release, "features", at[lost])
    X, at = X[:, ~lost], at[~lost]
    if len(at) == 0:
        raise ParameterError("features must hold one that was found, got none: name others.")
    if len(at) > MOST_ASKED:
        raise ParameterError(
            f"features must be at most {MOST_ASKED:,}, got {len(at):,}: name those to look at, "
            "such as a window of columns."
        )
    location, noise = means_of(release, means)
    if np.isnan(location[at]).any():
        raise ParameterError(
            "means is required where no mean was released: pass public ones as means={...}, or "
            "release with centre='private'."
        )
    whole = _Shape(release, uncertain(release, at), np.nan_to_num(noise[at]))
    scores = whole.scores((X - location[at]) / whole.deviations)
    said = doubts(release, at, 0)
    if not np.isfinite(noise[at]).all():
        said.append(MEANS_UNSURE)
    if whole.n_left_out:
        what = counted(whole.n_left_out, "direction")
        said.append(f"{what} of {len(at):,} cannot be told from noise, and do not count.")
    names = feature_names(release)[at]
    return OutlierScores(
        tuple(map(str, names)), *scores, whole.n_left_out, warning=" ".join(said) or None
    )


def _rows(release: Release, rows: Any, features: Any) -> tuple[FloatArray, IntArray]:
    """Values and where their features are; refusals quote none."""
    at = None if features is None else positions(release, features)
    names = feature_names(release)
    columns = getattr(rows, "columns", None)
    if columns is not None:
        there = set(columns)
        at = np.flatnonzero([name in there for name in names]) if at is None else at
        missing = [name for name in names[at] if name not in there]
        if missing:
            raise DataError(f"rows must have the column {missing[0]!r}: it was asked for.")
        rows = [rows[name] for name in names[at]]
    try:
        X = np.array(rows, dtype=float, ndmin=2)
    except (TypeError, ValueError):
        raise_alone(DataError("rows must be numbers, or missing: leave out columns of text."))
    X = X if columns is None else X.T
    at = np.arange(release.n_features) if at is None else at
    if X.ndim != 2 or X.shape[1] != len(at):
        raise DataError(
            f"rows must have {counted(len(at), 'column')}, got {X.shape[-1]:,}: pass features=..., "
            "or a frame with names."
        )
    if np.isinf(X).any():
        raise DataError("rows must be finite or missing, got infinite values: mark them as NaN.")
    return X, at


class _Shape:
    """The estimate in units of deviations, the noise it has, and directions that it has."""

    def __init__(self, release: Release, part: Uncertain, of_means: FloatArray) -> None:
        at, factors = part.features, of_factors(release)
        matrix: Any = estimate(release) if factors is None else factors
        values = matrix[at][:, at].toarray() if is_sparse(matrix) else matrix[np.ix_(at, at)]
        self.deviations = part.deviations
        unit = np.multiply.outer(self.deviations, self.deviations)
        self.noise = np.where(values != 0, part.noise_sd / unit, 0.0) if factors is None else None
        # Guards may take variances off the estimate; noise of means makes rows lie further off.
        more = 0.0 if factors is not None else np.maximum(part.values - values, 0.0).diagonal()
        self.values = (values + np.diag(more + of_means**2)) / unit
        self.n_left_out = len(at) - len(self._directions(np.arange(len(at)))[0])

    def _directions(self, at: IntArray) -> tuple[FloatArray, FloatArray]:
        """Variances and directions that can be told from noise; noise is added to variances."""
        block = np.ix_(at, at)
        variances, vectors = np.linalg.eigh(self.values[block])
        edge = 0.0  # factors have been made apart from noise
        if self.noise is not None:
            edge = _EDGE * float(np.sqrt((self.noise[block] ** 2).sum(axis=0).max(initial=0.0)))
        there = variances > max(edge, 1e-10)
        return variances[there], vectors[:, there]

    def scores(self, X: FloatArray) -> tuple[FloatArray, IntArray, FloatArray, FloatArray]:
        """Distances, directions, p-values and conditional scores of rows in deviations."""
        distance, directions = np.zeros(len(X)), np.zeros(len(X), dtype=np.int64)
        z = np.full(X.shape, np.nan)
        patterns, which = np.unique(np.isnan(X), axis=0, return_inverse=True)
        for number, missing in enumerate(patterns):
            rows, at = np.flatnonzero(which.ravel() == number), np.flatnonzero(~missing)
            variances, vectors = self._directions(at)
            along = X[np.ix_(rows, at)] @ vectors / np.sqrt(variances)
            distance[rows], directions[rows] = (along**2).sum(axis=1), len(variances)
            root = vectors / np.sqrt(variances)
            own = np.sqrt((root**2).sum(axis=1))
            z[np.ix_(rows, at)] = along @ root.T / np.where(own > 0, own, 1.0)
        p_value = np.where(directions > 0, stats.chi2.sf(distance, np.maximum(directions, 1)), 1.0)
        return distance, directions, np.asarray(p_value), z
