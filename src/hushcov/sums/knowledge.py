"""What is publicly known of the values of columns: bounds, by column or by name."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NoReturn

import numpy as np

from hushcov._arrays import BoolArray, FloatArray
from hushcov._validation import shown
from hushcov.exceptions import ParameterError, raise_alone

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
        lows, highs = self.lows, self.highs
        finite = self.finite
        half = np.where(finite, lows, 0.0) / 2 + np.where(finite, highs, 0.0) / 2
        return np.where(finite, half, self.nearest)

    @property
    def half_width(self) -> FloatArray:
        """The most that a standard deviation can be; infinite where a bound is missing."""
        return self.highs / 2 - self.lows / 2

    @property
    def nearest(self) -> FloatArray:
        """The possible value that is nearest to zero."""
        return np.clip(np.zeros(len(self)), self.lows, self.highs)

    def plain(self) -> tuple[tuple[float | None, float | None], ...]:
        """Low and high of every column, None where there is none."""
        return tuple(
            (low if math.isfinite(low) else None, high if math.isfinite(high) else None)
            for low, high in zip(self.low, self.high, strict=True)
        )


def check_bounds(given: object, n_features: int, names: Sequence[str] | None = None) -> Bounds:
    """Public bounds as they are given: an array, or a mapping by name or index; or raise."""
    if isinstance(given, Bounds):
        low, high = np.array(given.low), np.array(given.high)
    elif isinstance(given, Mapping):
        low, high = _of_mapping(given, n_features, names)
    else:
        low, high = _of_array(given)
    if low.shape != (n_features,):
        raise ParameterError(
            f"bounds must be {n_features} pairs, one for each feature, got {len(low)}: {_SHAPE}"
        )
    for i in np.flatnonzero((low > high) | (low == np.inf) | (high == -np.inf))[:1]:
        name = shown(i if names is None else names[i])
        raise ParameterError(
            f"bounds must have low <= high, got {low[i]:g} and {high[i]:g} for column {name}: put "
            "the smaller one first; where both are equal, the column is constant."
        )
    return Bounds(tuple(low.tolist()), tuple(high.tolist()))


def _of_array(given: object) -> tuple[FloatArray, FloatArray]:
    try:
        table = np.array(given, dtype=np.float64)
    except Exception:  # an object's own conversion may raise anything
        raise_alone(ParameterError(f"bounds must be numbers, got {type(given).__name__}: {_SHAPE}"))
    if isinstance(given, str) or table.ndim != 2 or table.shape[1] != 2:
        raise ParameterError(
            f"bounds must have two columns, low and high, got shape {table.shape}: {_SHAPE}"
        )
    low, high = table.T
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


def _of_mapping(
    given: Mapping[Any, Any], n_features: int, names: Sequence[str] | None
) -> tuple[FloatArray, FloatArray]:
    low, high = np.full(n_features, -np.inf), np.full(n_features, np.inf)
    places = {} if names is None else {str(name): i for i, name in enumerate(names)}
    seen: set[int] = set()
    for key, pair in given.items():
        i = _place(key, places, n_features)
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


def _place(key: object, places: Mapping[str, int], n_features: int) -> int:
    """The column that a key of a mapping stands for."""
    if isinstance(key, Integral) and not isinstance(key, bool):
        index = int(key)
        if 0 <= index < n_features:
            return index
        raise ParameterError(
            f"bounds must be of columns 0 to {n_features - 1}, got {shown(index)}: count from 0."
        )
    if not isinstance(key, str):
        raise ParameterError(
            f"bounds must be by name or index of a column, got {shown(key)}: {_SHAPE}"
        )
    if not places:
        raise ParameterError(
            f"bounds must be by index where columns have no names, got {shown(key)}: use 0 for "
            "the first column, or pass records with names, such as a DataFrame."
        )
    if key not in places:
        refuse_name("bounds", key, tuple(places))
    return places[key]


def refuse_name(parameter: str, name: str, known: Sequence[str]) -> NoReturn:
    """Say that there is no such column, and which may have been meant."""
    close = difflib.get_close_matches(name, known, 1)
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
