"""Public bounds of columns, and the columns that users mean by a name or an index.

Nothing here sees a record: bounds are given by users, and `kernel` clips records to them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NoReturn

import numpy as np

from hushcov._arrays import BoolArray, FloatArray
from hushcov._validation import meant, nearest, shown
from hushcov.exceptions import ParameterError, raise_alone

#: Largest bound of a column, so that scales that are found between bounds stay within the limits
#: of grids (`LARGEST_SCALE`).
LARGEST_BOUND = 1e90
_SHAPE = (
    "pass an array of shape (n_features, 2) with NaN where nothing is known, or a mapping from "
    "columns to (low, high). Bounds are public and never taken from X."
)


@dataclass(frozen=True)
class Bounds:
    """Public bounds of every column, low <= high; infinite where nothing is known.

    Where both are equal, the column is constant.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.low)

    @property
    def lows(self) -> FloatArray:
        """Lower bounds."""
        return np.array(self.low)

    @property
    def highs(self) -> FloatArray:
        """Upper bounds."""
        return np.array(self.high)

    @property
    def finite(self) -> BoolArray:
        """Columns with both bounds."""
        return np.isfinite(self.lows) & np.isfinite(self.highs)

    @property
    def constant(self) -> BoolArray:
        """Columns that have one value."""
        return np.equal(self.lows, self.highs)

    @property
    def middle(self) -> FloatArray:
        """Halfway between bounds; the bound that there is, or zero, where one is missing."""
        finite = self.finite
        half = np.where(finite, self.lows, 0.0) / 2 + np.where(finite, self.highs, 0.0) / 2
        return np.where(finite, half, self.nearest)

    @property
    def half_width(self) -> FloatArray:
        """The most that a standard deviation can be; infinite where a bound is missing."""
        return self.highs / 2 - self.lows / 2

    @property
    def farthest(self) -> FloatArray:
        """The largest size of a value; infinite where a bound is missing."""
        return np.maximum(np.abs(self.lows), np.abs(self.highs))

    def largest_deviation(self, *, known_mean: bool = False) -> FloatArray:
        """Return the most that a standard deviation can be.

        Of values from -a to b with a mean of zero it is sqrt(a b). Where bounds leave out a mean
        that is said to be zero, the most that a root mean square can be.
        """
        if not known_mean:
            return self.half_width
        largest, inside = self.farthest, (self.lows < 0) & (self.highs > 0)
        largest[inside] = np.sqrt(-self.lows[inside]) * np.sqrt(self.highs[inside])
        return largest

    @property
    def nearest(self) -> FloatArray:
        """The possible value that is nearest to zero."""
        return np.clip(np.zeros(len(self)), self.lows, self.highs)

    def plain(self) -> tuple[tuple[float | None, float | None], ...]:
        """Return low and high of every column, None where there is none."""
        return tuple(
            (low if math.isfinite(low) else None, high if math.isfinite(high) else None)
            for low, high in zip(self.low, self.high, strict=True)
        )


def check_bounds(given: object, n_features: int, names: Sequence[str] | None = None) -> Bounds:
    """Return public bounds as they are given: an array, or a mapping by name or index; or raise."""
    if isinstance(given, Bounds):
        low, high = given.lows, given.highs
    elif isinstance(given, Mapping):
        low, high = _of_mapping(given, n_features, names)
    else:
        try:
            table = np.array(given, dtype=np.float64)
        except Exception:  # an object's own conversion may raise anything
            kind = type(given).__name__
            raise_alone(ParameterError(f"bounds must be numbers, got {kind}: {_SHAPE}"))
        if isinstance(given, str) or table.ndim != 2 or table.shape[1] != 2:
            raise ParameterError(
                f"bounds must have two columns, low and high, got shape {table.shape}: {_SHAPE}"
            )
        low = np.where(np.isnan(table[:, 0]), -np.inf, table[:, 0])
        high = np.where(np.isnan(table[:, 1]), np.inf, table[:, 1])
    if low.shape != (n_features,):
        raise ParameterError(
            f"bounds must be {n_features} pairs, one for each feature, got {len(low)}: {_SHAPE}"
        )
    for i in np.flatnonzero((low > high) | (low == np.inf) | (high == -np.inf))[:1].tolist():
        name = shown(i if names is None else names[i])
        raise ParameterError(
            f"bounds must have low <= high, got {low[i]:g} and {high[i]:g} for column {name}: put "
            "the smaller one first; where both are equal, the column is constant."
        )
    beyond = (np.abs(low) > LARGEST_BOUND) & np.isfinite(low)
    beyond |= (np.abs(high) > LARGEST_BOUND) & np.isfinite(high)
    narrow = (low < high) & (high / 2 - low / 2 < 0.5 / LARGEST_BOUND)
    for i in np.flatnonzero(beyond | narrow)[:1].tolist():
        name = shown(i if names is None else names[i])
        raise ParameterError(
            f"bounds must be from {-LARGEST_BOUND:g} to {LARGEST_BOUND:g}, and equal or at least "
            f"{1 / LARGEST_BOUND:g} apart, got {low[i]:g} and {high[i]:g} for column {name}: "
            "rescale the column, or leave them out."
        )
    return Bounds(tuple(low.tolist()), tuple(high.tolist()))


def _of_mapping(
    given: Mapping[Any, Any], n_features: int, names: Sequence[str] | None
) -> tuple[FloatArray, FloatArray]:
    low, high = np.full(n_features, -np.inf), np.full(n_features, np.inf)
    places = {} if names is None else {str(name): i for i, name in enumerate(names)}
    seen: set[int] = set()
    for key, pair in given.items():
        i = place_of("bounds", key, places, n_features, _SHAPE)
        if i in seen:
            raise ParameterError(
                f"bounds must have each column once, got {shown(key)} again: use its name or its "
                "index, not both."
            )
        seen.add(i)
        ends = tuple(pair) if isinstance(pair, Sequence | np.ndarray) else ()
        if isinstance(pair, str) or len(ends) != 2:
            raise ParameterError(
                f"bounds must be a pair (low, high) for column {shown(key)}, got {shown(pair)}: "
                "write None where one is not known."
            )
        low[i] = _end(key, ends[0], -math.inf)
        high[i] = _end(key, ends[1], math.inf)
    return low, high


def place_of(
    parameter: str, key: object, places: Mapping[str, int], n_features: int, cure: str
) -> int:
    """Return the column that a key of a mapping stands for, of a parameter of this name."""
    if isinstance(key, Integral) and not isinstance(key, bool):
        index = int(key)
        if 0 <= index < n_features:
            return index
        raise ParameterError(
            f"{parameter} must be of columns 0 to {n_features - 1}, got {shown(index)}: count "
            "from 0."
        )
    if not isinstance(key, str):
        raise ParameterError(
            f"{parameter} must be by name or index of a column, got {shown(key)}: {cure}"
        )
    if not places:
        raise ParameterError(
            f"{parameter} must be by index where columns have no names, got {shown(key)}: use 0 "
            "for the first column, or pass records with names, such as a DataFrame."
        )
    name = meant(key, places)
    if name is None:
        refuse_name(parameter, key, tuple(places))
    return places[name]


def refuse_name(parameter: str, name: str, known: Sequence[str]) -> NoReturn:
    """Say that there is no such column, and which may have been meant."""
    close = nearest([name], known)
    hint = f"did you mean {shown(close[0])}?" if close else "use the names of the columns."
    raise ParameterError(
        f"{parameter} must name columns of the records, got {shown(name)}, which is none: {hint}"
    )


def _end(key: object, value: object, unknown: float) -> float:
    if value is None:
        return unknown
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise ParameterError(
            f"bounds must be numbers, got {shown(value)} for column {shown(key)}: write None where "
            "one is not known."
        )
    try:
        number = float(value)
    except OverflowError:  # an integer beyond all doubles bounds nothing
        return unknown
    return unknown if math.isnan(number) else number
