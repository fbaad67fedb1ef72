"""Which values the sliders take: the ones given, and a few around each."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from hushcov.inputs import LARGEST_EPSILON

Number = TypeVar("Number", int, float)

# Every value costs a third of a second at each number of records. Delta matters least.
_FACTORS = {
    "n_features": (0.3, 1, 3),
    "row_sparsity": (0.5, 1, 2),
    "epsilon": (0.3, 1, 3),
    "delta": (0.01, 1),
}
# Beyond this row sparsity a forecast takes a second, and soon several.
_QUICK_SPARSITY = 10
_SLOW_FACTORS = {
    "n_features": (0.3, 1),
    "row_sparsity": (0.5, 1),
    "epsilon": (1, 3),
    "delta": (1,),
}


@dataclass(frozen=True)
class Setting:
    """Everything that a forecast depends on, apart from the number of records."""

    n_features: int
    row_sparsity: int
    epsilon: float
    delta: float


@dataclass(frozen=True)
class Grid:
    """The values of each slider, smallest first; the page holds every combination."""

    n_features: tuple[int, ...]
    row_sparsity: tuple[int, ...]
    epsilon: tuple[float, ...]
    delta: tuple[float, ...]
    n_records: tuple[int, ...]

    def settings(self) -> list[Setting]:
        """All combinations but for the number of records; the last slider moves first."""
        values = (self.n_features, self.row_sparsity, self.epsilon, self.delta)
        return [Setting(*each) for each in itertools.product(*values)]


def grid_around(centre: Setting, n_records: Iterable[int]) -> Grid:
    """The grid of a page: fewer values where each takes longer."""
    factors = _FACTORS if centre.row_sparsity <= _QUICK_SPARSITY else _SLOW_FACTORS
    return Grid(
        n_features=_around(centre.n_features, factors["n_features"]),
        row_sparsity=_around(centre.row_sparsity, factors["row_sparsity"], most=centre.n_features),
        epsilon=_around(centre.epsilon, factors["epsilon"], most=LARGEST_EPSILON),
        delta=_around(centre.delta, factors["delta"]),
        n_records=tuple(sorted(set(n_records))),
    )


def _around(value: Number, factors: Sequence[float], most: float = math.inf) -> tuple[Number, ...]:
    """The value and its multiples, to two digits, in its range; whole numbers stay whole."""
    multiples = (min(float(f"{factor * value:.2g}"), most) for factor in factors if factor != 1)
    near = {type(value)(each) for each in multiples}
    return tuple(sorted({value} | {each for each in near if each > 0}))
