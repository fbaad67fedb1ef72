"""`pytest.approx` without its absolute tolerance of 1e-12, which makes all tiny numbers alike."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

_approx = pytest.approx
_RELATIVE, _ABSOLUTE = 1e-6, 1e-12  # what pytest takes where nothing is given


def approx(
    expected: Any, rel: float | None = None, abs: float | None = None, **options: Any
) -> Any:
    """As in pytest, but refused where the absolute tolerance that nobody gave is wider."""
    relative = _RELATIVE if rel is None else rel
    if abs is None and any(0 < relative * each < _ABSOLUTE for each in sizes(expected)):
        raise AssertionError(
            "approx needs abs=0 here: it would allow a difference of 1e-12, more than `rel` does."
        )
    return _approx(expected, rel=rel, abs=abs, **options)


def sizes(expected: Any) -> list[float]:
    """Absolute values of all finite numbers in what is expected."""
    if isinstance(expected, Mapping):
        expected = list(expected.values())
    try:
        numbers = np.asarray(expected, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        return []
    return [math.fabs(each) for each in numbers.tolist() if math.isfinite(each)]
