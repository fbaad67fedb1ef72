"""Transforms of columns: public maps of single values, caps, and scores between edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from hushcov._arrays import FloatArray, IntArray, like
from hushcov.exceptions import PrivacyConditionError
from hushcov.kernel.records.base import Records, RemappedRecords

LOG, LOG1P, SQRT, WINSORISE, RANK = "log", "log1p", "sqrt", "winsorise", "rank"
SQUARE = "square"
NAMES = (LOG, LOG1P, SQRT, SQUARE, WINSORISE, RANK)
#: No normal score is further from zero.
LARGEST_SCORE = 3.5
_SMALLEST_SHARE, _LARGEST_ROOT = 1e-100, 1e150


@dataclass(frozen=True)
class Transform:
    """Map of the values of one column; there for every number, and but for squares increasing.

    Parameters
    ----------
    name : {"log", "log1p", "sqrt", "square", "winsorise", "rank"}
        The logarithm, where values below `number` count as that; sign(x) log(1 + |x|); sign(x)
        sqrt(|x|); the square of the column less `number`; the column capped where about a share of
        `number` of the records lies beyond, on each side; or its normal scores.
    number : float, optional
        The smallest value of a logarithm, the centre of a square, or the share that is capped.
    edges, shares : tuple of float
        What was released for it: two caps, or the edges between which records have the same score,
        and about the share of the records between them, one more than edges. Empty until then.
    """

    name: str
    number: float | None = None
    edges: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()

    @property
    def needs_quantiles(self) -> bool:
        """Whether it follows released quantiles."""
        return self.name in (WINSORISE, RANK)

    @cached_property
    def scores(self) -> FloatArray:
        """Normal quantiles of the middle of each share."""
        shares = np.array(self.shares)
        middle = np.clip(np.cumsum(shares) - shares / 2, _SMALLEST_SHARE, 1 - 1e-12)
        return np.clip(special.ndtri(middle), -LARGEST_SCORE, LARGEST_SCORE)

    def mapped(self, x: Any, xp: Any) -> Any:
        """Return values mapped by NumPy or PyTorch; as they are before quantiles are released."""
        if self.name == LOG:
            return xp.log(xp.clip(x, self.number, None))
        if self.name == SQUARE:
            return xp.clip(x - self.number, -_LARGEST_ROOT, _LARGEST_ROOT) ** 2
        if self.name in (LOG1P, SQRT):
            return xp.sign(x) * (xp.log1p if self.name == LOG1P else xp.sqrt)(xp.abs(x))
        if self.shares:  # NaN stays: a record that misses a value still does
            places = xp.searchsorted(like(np.array(self.edges), x), x, side="right")
            return xp.where(xp.isnan(x), x, like(self.scores, x)[places])
        return xp.clip(x, *self.edges) if self.edges else x


@dataclass(frozen=True)
class Transforms:
    """A transform for each column, None for those that stay as they are.

    The last ones are columns that are added: squares of those in these places.
    """

    columns: tuple[Transform | None, ...]
    squares: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if any(own is not None and type(own) is not Transform for own in self.columns):
            raise PrivacyConditionError(
                "a transform must be one of the kernel's: tests show that these map each value on "
                "its own."
            )

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def by_quantiles(self) -> IntArray:
        """Columns whose quantiles are released."""
        places = [i for i, own in enumerate(self.columns) if own and own.needs_quantiles]
        return np.array(places, dtype=np.int64)

    def named(self, names: Sequence[object] | None) -> tuple[str, ...]:
        """Return the names of all columns, x0, x1, .. where they have none."""
        known = [f"x{i}" for i in range(len(self))] if names is None else list(names)
        every = known[: len(self) - len(self.squares)] + [known[i] for i in self.squares]
        pairs = zip(self.columns, every, strict=True)
        return tuple(f"{own.name}({name})" if own else str(name) for own, name in pairs)

    @property
    def as_they_are(self) -> tuple[int, ...]:
        """Places of columns without a transform."""
        return tuple(i for i, own in enumerate(self.columns) if own is None)

    def view(self, records: Records) -> Records:
        """Return the records under all maps that are known: public ones, or with edges released."""
        known = any(own and (own.edges or not own.needs_quantiles) for own in self.columns)
        return RemappedRecords(records, self) if known else records
