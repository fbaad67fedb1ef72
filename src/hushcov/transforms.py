"""Read which transform each column gets, as users write it; `kernel.transforms` maps the values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hushcov._validation import check_real, shown
from hushcov.bounds import LARGEST_BOUND, Bounds, check_bounds, place_of
from hushcov.exceptions import ParameterError
from hushcov.kernel.transforms import (
    LARGEST_SCORE,
    LOG,
    NAMES,
    RANK,
    SQUARE,
    WINSORISE,
    Transform,
    Transforms,
)

_SMALLEST_LOG = 1e-100  # the least number that logarithms take others for
# What the number after a colon is, and its limits.
_NUMBERS: dict[str, tuple[str, dict[str, Any]]] = {
    LOG: ("the smallest value that counts, as which others do; log1p needs none", {"above": 0}),
    SQUARE: ("the centre that is taken off first", {}),
    WINSORISE: ("the share that is capped at each end", {"above": 0, "at_most": 0.25}),
}
_CURE = (
    "pass one name for all columns, one for each, or a mapping from columns to names, as "
    "{'income': 'log1p'}."
)


def read_transform(
    text: object, column: object, low: float = -math.inf, high: float = math.inf
) -> Transform | None:
    """Return the transform that a text such as "log:0.01" says, of a column in these bounds."""
    if text is None or text == "none":
        return None
    name, colon, rest = text.partition(":") if isinstance(text, str) else ("", "", "")
    where = f"column {shown(column)}"
    if name not in NAMES or (colon and name not in _NUMBERS):
        raise ParameterError(
            f"transforms must be one of {', '.join(NAMES)}, got {shown(text)} for {where}: "
            f"only {', '.join(_NUMBERS)} take a number, as log:0.01."
        )
    if name not in _NUMBERS:
        return Transform(name)
    words, limits = _NUMBERS[name]
    usual = {LOG: low if low > 0 else math.nan, SQUARE: low / 2 + high / 2, WINSORISE: 0.001}
    try:
        number = float(rest) if colon else usual[name]
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ParameterError(
            f"transforms must have a number after {name} for {where}, got {shown(text)}: it is "
            f"{words}. Write it as {name}:0.01, or give public bounds, which say it."
        )
    number = check_real("transforms", number, **limits, cure=f"of {where} it is {words}.")
    return Transform(name, max(number, _SMALLEST_LOG) if name == LOG else number)


def check_transforms(
    given: object,
    n_features: int,
    names: Sequence[str] | None = None,
    bounds: Bounds | None = None,
) -> Transforms | None:
    """Return the transforms that are given: one name, one for each column, or a mapping; or raise.

    The result is None where no column has one.
    """
    if given is None or isinstance(given, Mapping):
        listed: list[object] = [None] * n_features
        places = {} if names is None else {str(name): i for i, name in enumerate(names)}
        for key, text in (given or {}).items():
            listed[place_of("transforms", key, places, n_features, _CURE)] = text
    elif isinstance(given, str):
        listed = [given] * n_features
    elif isinstance(given, Sequence | np.ndarray) and len(given) == n_features:
        listed = list(given)
    else:
        raise ParameterError(
            f"transforms must be a name, {n_features} names or a mapping, got {shown(given)}: "
            + _CURE
        )
    every = (-math.inf, math.inf)
    ends = [every] * n_features if bounds is None else zip(bounds.low, bounds.high, strict=True)
    called = range(n_features) if names is None else names
    rows = zip(listed, called, ends, strict=True)
    columns = [read_transform(text, name, *pair) for text, name, pair in rows]
    squares = tuple(i for i, own in enumerate(columns) if own and own.name == SQUARE)
    if not any(columns):
        return None
    replaced = [None if i in squares else own for i, own in enumerate(columns)]
    return Transforms((*replaced, *(columns[i] for i in squares)), squares)


def mapped_bounds(transforms: Transforms, bounds: Bounds | None) -> Bounds | None:
    """Return public bounds of the columns under public maps."""
    if bounds is None:
        return None
    ends = np.stack([bounds.lows, bounds.highs], axis=1)
    ends = np.concatenate([ends, ends[list(transforms.squares)]])
    for own, pair in zip(transforms.columns, ends, strict=True):
        pair[:] = pair if own is None else own.mapped(pair.copy(), np)
        if own is not None and own.name == SQUARE:
            most = pair.max()
            pair[:] = 0.0, most if most <= LARGEST_BOUND else math.inf
    return check_bounds(ends, len(transforms))


def score_bounds(transforms: Transforms, bounds: Bounds | None) -> Bounds | None:
    """Return these bounds with those of normal scores in their place."""
    ranked = np.array([own is not None and own.name == RANK for own in transforms.columns])
    low, high = (-math.inf, math.inf) if bounds is None else (bounds.lows, bounds.highs)
    ends = np.where(ranked, -LARGEST_SCORE, low), np.where(ranked, LARGEST_SCORE, high)
    return check_bounds(np.stack(ends, axis=1), len(transforms))
