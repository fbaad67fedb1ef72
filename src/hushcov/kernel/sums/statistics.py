"""Statistics: exact sums of one or more sites, and the public map from records to integers.

Statistics of several sites add up, are saved and loaded, and start a fit.
"""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcov._arrays import LARGEST_SUM, FloatArray
from hushcov._sums_file import COPY_AGAIN, NOT_DESCRIBED, InvalidError, read_sums, write_sums
from hushcov._validation import check_integer, shown
from hushcov.exceptions import (
    CapacityError,
    DataError,
    HushcovError,
    ParameterError,
    raise_alone,
)
from hushcov.kernel.grids import FeatureGrid, IntegerGrid, check_number_of_records
from hushcov.kernel.records.base import Records


@dataclass(frozen=True, eq=False)
class RecordMap:
    """The public map from a record to the integers whose products are summed.

    Parameters
    ----------
    n_features : int
        Number of columns of the records.
    grid : IntegerGrid or FeatureGrid
        How coordinates are clipped and rounded.
    norm_bound : int, optional
        Norm to which longer rows of integers are scaled down; with a `FeatureGrid` only.
    feature_names : tuple of str, optional
        Names of the columns, in their order.

    All of it is public, and is fixed before any record is read. Each record is mapped on its own.
    """

    n_features: int
    grid: IntegerGrid | FeatureGrid
    norm_bound: int | None = None
    feature_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        cure = "it is the number of columns."
        d = check_integer("n_features", self.n_features, at_least=1, cure=cure)
        object.__setattr__(self, "n_features", d)
        if not isinstance(self.grid, IntegerGrid | FeatureGrid):
            raise ParameterError(
                f"grid must be an IntegerGrid or a FeatureGrid, got {type(self.grid).__name__}: "
                "make one with IntegerGrid.for_records."
            )
        if isinstance(self.grid, FeatureGrid):
            self.grid.check_features(d)
        if self.norm_bound is not None:
            cure = "it is a public bound on the norm of a record, in steps of the grid."
            bound = check_integer("norm_bound", self.norm_bound, at_least=1, cure=cure)
            object.__setattr__(self, "norm_bound", bound)
            if not isinstance(self.grid, FeatureGrid):
                raise ParameterError(
                    f"norm_bound must be left out with an IntegerGrid, got {bound}: rows are "
                    "scaled down on a FeatureGrid only."
                )
            self.grid.check_squared_norms()
        names: Any = self.feature_names
        every = isinstance(names, tuple) and len(names) == d
        if names is not None and not (every and all(isinstance(name, str) for name in names)):
            raise ParameterError(
                f"feature_names must be a tuple of {d} strings, got {shown(names)}: name every "
                "column, or pass None."
            )

    def check_records(self, records: Records) -> None:
        """Refuse records that this map is not for, before any is read."""
        if records.n_features != self.n_features:
            raise DataError(
                f"records must have {self.n_features} features, got {records.n_features}: "
                "pass the columns that were declared."
            )
        self.check_capacity(records.n_records)

    def check_capacity(self, n_records: int) -> None:
        """Refuse so many records that their sums might not fit in their integers."""
        check_number_of_records(n_records)
        if not self.wide and n_records * self.grid.half_width**2 > LARGEST_SUM:
            raise CapacityError(
                f"n_records * half_width**2 must be at most 2**62, got {n_records:,} records and "
                f"half_width {self.grid.half_width}: use IntegerGrid.for_records, or declare a "
                "total_records that is large enough, before any record is read."
            )

    @property
    def wide(self) -> bool:
        """Whether sums are Python integers rather than of 64 bits."""
        return isinstance(self.grid, IntegerGrid) and self.grid.wide

    def check_same(self, other: RecordMap) -> None:
        """Refuse another map, saying what differs; all of it is public."""
        mine, theirs = self.to_dict(), other.to_dict()
        for name in mine:
            one, another = mine[name], theirs[name]
            if one == another:
                continue
            if isinstance(one, list) and isinstance(another, list):
                # They are equally long, since n_features was compared first.
                pairs = zip(one, another, strict=True)
                one, another = next((a, b) for a, b in pairs if a != b)
            raise DataError(
                f"statistics must have the same {name} to be added, got {shown(one)} and "
                f"{shown(another)}: give every site the same public inputs (total_records among "
                "them), and the same columns in the same order."
            )

    def to_dict(self) -> dict[str, object]:
        """Return the map as plain, JSON-ready data."""
        scale = self.grid.feature_scale.tolist() if isinstance(self.grid, FeatureGrid) else None
        return {
            "n_features": self.n_features,
            "grid": "integer" if scale is None else "feature",
            "radius": self.grid.radius,
            "half_width": self.grid.half_width,
            "feature_scale": scale,
            "norm_bound": self.norm_bound,
            "feature_names": None if self.feature_names is None else list(self.feature_names),
        }


@dataclass(frozen=True, eq=False)
class Statistics:
    """The integer Gram matrix of mapped records: gram[i, j] = sum over records of y_i y_j.

    NOT PRIVATE: these are exact sums. They are as sensitive as the records; send and store them
    with the same care. What a fit releases from them is private, if every record is summed once.

    Parameters
    ----------
    gram : ndarray of shape (n_features, n_features)
        Of int64, or of Python integers on a wide grid. Symmetric; stored as a read-only copy, and
        left out of the repr because it is not private.
    n_records : int
        Number of records summed over.
    record_map : RecordMap
        What was made of each record; public.
    parts : frozenset of str, optional
        Names of the passes over records that were added up, so that none is added twice.
    """

    gram: NDArray[Any] = field(repr=False)
    n_records: int
    record_map: RecordMap
    parts: frozenset[str] = field(default_factory=lambda: frozenset([uuid.uuid4().hex]), repr=False)

    def __post_init__(self) -> None:
        cure = "pass the public number of records."
        n_records = check_integer("n_records", self.n_records, at_least=1, cure=cure)
        if not isinstance(self.record_map, RecordMap):
            raise ParameterError(
                f"record_map must be a RecordMap, got {type(self.record_map).__name__}: use "
                "second_moments or an estimator's partial_fit."
            )
        if not isinstance(self.parts, frozenset) or not self.parts:
            raise ParameterError("parts must be a frozenset of names: leave it out.")
        _check_gram(self.gram, self.record_map, n_records)
        self.record_map.check_capacity(n_records)
        if not self.gram.flags.owndata or self.gram.flags.writeable:
            object.__setattr__(self, "gram", self.gram.copy())
            self.gram.setflags(write=False)
        object.__setattr__(self, "n_records", n_records)

    @property
    def n_features(self) -> int:
        """Number of features d; the Gram matrix is d x d."""
        return self.record_map.n_features

    @property
    def grid(self) -> IntegerGrid | FeatureGrid:
        """Grid on which the records were rounded."""
        return self.record_map.grid

    @property
    def entry_sensitivity(self) -> int:
        """Most that an entry of `gram` can move when one record is replaced: 2 half_width^2.

        It moves by y'_i y'_j - y_i y_j, and both products lie in [-half_width^2, half_width^2].
        """
        return 2 * self.grid.half_width**2

    def covariance(self) -> FloatArray:
        """Return S = gram step^2 / n_records, the second moments in the units of the records."""
        # A Python integer is rounded to the nearest double, as one of 64 bits is.
        S = np.asarray(self.gram, np.float64) * (self.grid.step**2 / self.n_records)
        if isinstance(self.grid, FeatureGrid):
            S *= np.multiply.outer(self.grid.feature_scale, self.grid.feature_scale)
        return S

    def merge(self, *others: Statistics) -> Statistics:
        """Return the statistics of these records and those of other sites together.

        Their records must not overlap; sums that were added before are refused.
        """
        n_records, parts = self.n_records, set(self.parts)
        for other in others:
            if not isinstance(other, Statistics):
                raise DataError(
                    f"others must be Statistics, got {type(other).__name__}: use partial_fit at "
                    "each site, or Statistics.load."
                )
            self.record_map.check_same(other.record_map)
            if not parts.isdisjoint(other.parts):
                raise DataError(
                    "statistics must be added once, and some of these were added before: their "
                    "records would count twice, which the guarantee does not allow. Merge each "
                    "site's last sums only."
                )
            parts |= other.parts
            n_records += other.n_records
        # Checked before adding, so that no sum overflows.
        self.record_map.check_capacity(n_records)
        gram = self.gram.copy()
        for other in others:
            gram += other.gram
        gram.setflags(write=False)
        return Statistics(gram, n_records, self.record_map, frozenset(parts))

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write to one file that only its owner may read, whole or not at all; return the path.

        NOT PRIVATE: the file is as sensitive as the records, and its checksum finds accidents, not
        forgeries. A program that is killed may leave a hidden `.hushcov-*.partial` beside it.
        """
        made = {"statistic": "gram", "n_records": self.n_records, "parts": sorted(self.parts)}
        about = {**made, **self.record_map.to_dict()}
        return write_sums(path, about, self.gram, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Statistics:
        """Read what `save` wrote; anything else, or anything that changed since, is an error.

        Errors say what is wrong without quoting it.
        """
        return read_sums(path, _rebuilt)


def _check_gram(gram: NDArray[Any], record_map: RecordMap, n_records: int) -> None:
    """Refuse what cannot be a sum of products on the grid, without quoting entries."""
    cure = "use second_moments or partial_fit."
    expected = np.dtype(object if record_map.wide else np.int64)
    if not isinstance(gram, np.ndarray) or gram.dtype != expected:
        kind = gram.dtype if isinstance(gram, np.ndarray) else type(gram).__name__
        raise DataError(f"gram must be an {expected} array, got {kind}: {cure}")
    if record_map.wide and not all(type(entry) is int for entry in gram.flat):
        raise DataError(f"gram must hold Python integers on a wide grid: {cure}")
    d = record_map.n_features
    if gram.shape != (d, d):
        raise DataError(
            f"gram must be square with a row for each of {d} features, got shape {gram.shape}: "
            f"{cure}"
        )
    if not np.array_equal(gram, gram.T):
        raise DataError(f"gram must be symmetric: {cure}")
    if gram.diagonal().min() < 0:
        raise DataError(f"gram must have a nonnegative diagonal: {cure}")
    half_width, bound = record_map.grid.half_width, record_map.norm_bound
    largest = n_records * min(half_width, half_width if bound is None else bound) ** 2
    if int(gram.max()) > largest or int(gram.min()) < -largest:
        raise DataError(
            "gram must have entries of at most n_records * half_width**2 in absolute value (or "
            "norm_bound**2, if that is less): pass the n_records and map it was summed with."
        )


_FIELDS = {
    *("statistic", "n_records", "parts", "n_features", "grid", "radius", "half_width"),
    *("feature_scale", "norm_bound", "feature_names"),
}


def _rebuilt(about: dict[str, Any], gram: NDArray[Any]) -> Statistics:
    """Make the statistics from their description, if every number in it is a possible one."""
    if set(about) != _FIELDS or about["statistic"] != "gram":
        raise InvalidError(NOT_DESCRIBED)
    scale, names, parts = (about[name] for name in ("feature_scale", "feature_names", "parts"))
    grid: IntegerGrid | FeatureGrid
    try:
        if about["grid"] == "integer" and scale is None:
            grid = IntegerGrid(about["radius"], about["half_width"])
        elif about["grid"] == "feature" and isinstance(scale, list):
            grid = FeatureGrid(np.array(scale, np.float64), about["radius"], about["half_width"])
        else:
            raise InvalidError("describes no grid that is known: " + COPY_AGAIN)
        names = names if names is None else tuple(names)
        record_map = RecordMap(about["n_features"], grid, about["norm_bound"], names)
        if not all(isinstance(part, str) for part in parts):
            raise TypeError
        return Statistics(gram, about["n_records"], record_map, frozenset(parts))
    except (HushcovError, TypeError, ValueError, OverflowError):
        # Not the error of the field itself, which would quote what is in the file.
        raise_alone(InvalidError("describes statistics that cannot be: " + COPY_AGAIN))
