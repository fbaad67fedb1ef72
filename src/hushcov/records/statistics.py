"""Exact sums of one or more sites: they add up, are saved and loaded, and start a fit."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hushcov._validation import check_integer
from hushcov.exceptions import DataError, ParameterError
from hushcov.records.feature_grid import FeatureGrid
from hushcov.records.grid import IntegerGrid
from hushcov.records.record_map import RecordMap


def _new_part() -> frozenset[str]:
    return frozenset([uuid.uuid4().hex])


@dataclass(frozen=True, eq=False)
class Statistics:
    """The integer Gram matrix of mapped records: gram[i, j] = sum over records of y_i y_j.

    NOT PRIVATE: these are exact sums. They are as sensitive as the records, and must travel and be
    kept as the records would be. What a fit releases from them is private.

    Parameters
    ----------
    gram : ndarray of int64, shape (n_features, n_features)
        Symmetric; stored as a read-only copy, and left out of the repr because it is not private.
    n_records : int
        Number of records summed over; a pair of rows counts once where differences were summed.
    record_map : RecordMap
        What was made of each record; public.
    parts : frozenset of str, optional
        Names of the passes over records that were added up, so that none is added twice.

    Privacy
    -------
    Nothing here is private by itself: `gram` and `covariance()` are exact statistics of the
    records and must not be released. Neighbours differ by the replacement of one record. The
    sensitivities below are exact integers that depend on the grid alone; they hold if every record
    is summed once.
    """

    gram: NDArray[np.int64] = field(repr=False)
    n_records: int
    record_map: RecordMap
    parts: frozenset[str] = field(default_factory=_new_part, repr=False)

    def __post_init__(self) -> None:
        n_records = check_integer(
            "n_records", self.n_records, at_least=1, cure="pass the public number of records."
        )
        if not isinstance(self.record_map, RecordMap):
            raise ParameterError(
                f"record_map must be a RecordMap, got {type(self.record_map).__name__}: use "
                "second_moments or an estimator's partial_fit."
            )
        if not isinstance(self.parts, frozenset) or not self.parts:
            raise ParameterError("parts must be a frozenset of names: leave it out.")
        _check_gram(self.gram, self.record_map, n_records)
        self.record_map.check_room(n_records)
        object.__setattr__(self, "gram", _unchanging(self.gram))
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
        """Most that any entry of `gram` can move when one record is replaced: 2 half_width^2.

        Proof. Only the replaced record's term changes, so gram[i, j] moves by
        y'_i y'_j - y_i y_j. Each coordinate is an integer in [-half_width, half_width], so both
        products lie in [-half_width^2, half_width^2] and differ by at most twice that. Off the
        diagonal, y = (h, h) and y' = (h, -h) with h = half_width attain it, unless the norm of
        rows is bounded.
        """
        return 2 * self.grid.half_width**2

    @property
    def diagonal_sensitivity(self) -> int:
        """Most that a diagonal entry can move when one record is replaced: half_width^2.

        Proof. As for `entry_sensitivity`, but squares lie in [0, half_width^2]; replacing 0 by
        half_width attains it.
        """
        return self.grid.half_width**2

    def covariance(self) -> NDArray[np.float64]:
        """Return S = gram step^2 / n_records, the second moments in the units of the records."""
        S = self.gram * np.float64(self.grid.step**2 / self.n_records)
        if isinstance(self.grid, FeatureGrid):
            S *= np.multiply.outer(self.grid.feature_scale, self.grid.feature_scale)
        return S

    def merge(self, *others: Statistics) -> Statistics:
        """Return the statistics of these records and those of other sites together.

        The order in which sites are added changes no bit. Their records must not overlap; sums
        that were added before are refused.
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
        # Before adding: within this no sum of int64 wraps around.
        self.record_map.check_room(n_records)
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
        from hushcov.records.statistics_files import write_statistics

        return write_statistics(self, path, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Statistics:
        """Read what `save` wrote; anything else, or anything that changed since, is an error."""
        from hushcov.records.statistics_files import read_statistics

        return read_statistics(path)


def _unchanging(gram: NDArray[np.int64]) -> NDArray[np.int64]:
    """The array itself if nobody can write to it, or else a copy."""
    if gram.flags.owndata and not gram.flags.writeable:
        return gram
    gram = gram.copy()
    gram.setflags(write=False)
    return gram


def _check_gram(gram: NDArray[np.int64], record_map: RecordMap, n_records: int) -> None:
    """Refuse anything that cannot be a sum of products on the grid, without quoting entries."""
    cure = "use second_moments or partial_fit."
    if not isinstance(gram, np.ndarray) or gram.dtype != np.int64:
        kind = gram.dtype if isinstance(gram, np.ndarray) else type(gram).__name__
        raise DataError(f"gram must be an int64 array, got {kind}: {cure}")
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
    largest = n_records * record_map.largest_product
    if int(gram.max()) > largest or int(gram.min()) < -largest:
        raise DataError(
            "gram must have entries of at most n_records * half_width**2 in absolute value (or "
            "norm_bound**2, if that is less): pass the n_records and map it was summed with."
        )
