"""How records become integers before they are summed: all that is public about statistics."""

from __future__ import annotations

from dataclasses import dataclass

from hushcov._validation import check_integer, shown
from hushcov.exceptions import CapacityError, DataError, ParameterError
from hushcov.records.feature_grid import FeatureGrid
from hushcov.records.grid import IntegerGrid
from hushcov.records.pairs import is_paired
from hushcov.records.source import Records

# Sums stay within it, so that int64 has room for the noise that is added to them.
_LARGEST_SUM = 2**62
# Every integer up to this size is a float64.
_LARGEST_EXACT_FLOAT = 2**53


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
    paired : bool
        Whether differences of successive rows are summed instead of the rows.
    feature_names : tuple of str, optional
        Names of the columns, in their order.

    Privacy
    -------
    Nothing here is private by itself. Everything here is public, and must be fixed before any
    record is read. Each record, or pair of records, is mapped on its own.
    """

    n_features: int
    grid: IntegerGrid | FeatureGrid
    norm_bound: int | None = None
    paired: bool = False
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
            self._check_norm_bound(self.norm_bound)
        if not isinstance(self.paired, bool):
            raise ParameterError(
                f"paired must be True or False, got {shown(self.paired)}: choose one."
            )
        if self.feature_names is not None:
            self._check_names(self.feature_names)

    def _check_norm_bound(self, norm_bound: object) -> None:
        cure = "it is a public bound on the norm of a record, in steps of the grid."
        bound = check_integer("norm_bound", norm_bound, at_least=1, cure=cure)
        object.__setattr__(self, "norm_bound", bound)
        if not isinstance(self.grid, FeatureGrid):
            raise ParameterError(
                f"norm_bound must be left out with an IntegerGrid, got {bound}: rows are scaled "
                "down on a FeatureGrid only."
            )
        if self.n_features * self.grid.half_width**2 >= _LARGEST_EXACT_FLOAT:
            raise CapacityError(
                "half_width must keep n_features * half_width**2 below 2**53, got "
                f"{self.grid.half_width} for {self.n_features} features: squared norms are not "
                "exact beyond that; use a smaller one."
            )

    def _check_names(self, names: object) -> None:
        if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
            raise ParameterError(
                f"feature_names must be a tuple of strings, got {shown(names)}: name every column, "
                "or pass None."
            )
        if len(names) != self.n_features:
            raise ParameterError(
                f"feature_names must be {self.n_features}, one for each feature, got "
                f"{len(names)}: name every column, or pass None."
            )

    @property
    def largest_product(self) -> int:
        """Most that a product of two integers of a record can be."""
        bound = self.grid.half_width if self.norm_bound is None else self.norm_bound
        return min(self.grid.half_width, bound) ** 2

    def check_records(self, records: Records) -> None:
        """Refuse, before any is read, records that this map is not for."""
        if records.n_features != self.n_features:
            raise DataError(
                f"records must have {self.n_features} features, got {records.n_features}: "
                "pass the columns that were declared."
            )
        if is_paired(records) != self.paired:
            raise DataError(
                f"records must {'' if self.paired else 'not '}be PairDifferences: the map has "
                f"paired={self.paired}."
            )
        self.check_room(records.n_records)

    def check_room(self, n_records: int) -> None:
        """Refuse more records than sums of 64-bit integers hold for certain."""
        if n_records * self.grid.half_width**2 > _LARGEST_SUM:
            raise CapacityError(
                f"n_records * half_width**2 must be at most 2**62, got {n_records:,} records and "
                f"half_width {self.grid.half_width}: use IntegerGrid.for_records, or declare a "
                "total_records that is large enough, before any record is read."
            )

    def check_same(self, other: RecordMap) -> None:
        """Refuse another map, saying what differs; all of it is public."""
        mine, theirs = self.to_dict(), other.to_dict()
        for name, value in mine.items():
            if value != theirs[name]:
                raise DataError(
                    f"statistics must have the same {name} to be added, got "
                    f"{_difference(value, theirs[name])}: give every site the same public inputs "
                    "(total_records among them), and the same columns in the same order."
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
            "paired": self.paired,
            "feature_names": None if self.feature_names is None else list(self.feature_names),
        }


def _difference(one: object, other: object) -> str:
    if isinstance(one, list) and isinstance(other, list):
        pairs = zip(one, other, strict=True)  # as long as each other: features were compared first
        one, other = next((a, b) for a, b in pairs if a != b)
    return f"{shown(one)} and {shown(other)}"
