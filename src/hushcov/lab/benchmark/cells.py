"""The three kinds of finished cells, and how they are written as lines and read back."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from hushcov.lab.benchmark.design import Point


@dataclass(frozen=True)
class Fit:
    """One contender on one draw of the data, or why it was skipped.

    `error` is the operator norm of estimate - truth over that of the truth. `recall` is the share
    of true off-diagonal nonzeros found, `precision` the share of found ones that are true.
    """

    point: Point
    seed: int
    contender: str
    error: float | None = None
    recall: float | None = None
    precision: float | None = None
    seconds: float | None = None
    skipped: str | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """What was measured, without what was found."""
        return ("fit", self.point, self.seed, self.contender)

    def __str__(self) -> str:
        return f"{self.contender}, {self.point.size}"


@dataclass(frozen=True)
class Cost:
    """Seconds and peak memory of one contender in a process of its own, or why it was skipped.

    `megabytes` is None where the operating system does not tell.
    """

    point: Point
    contender: str
    seconds: float | None = None
    megabytes: float | None = None
    skipped: str | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """What was measured, without what was found."""
        return ("cost", self.point, self.contender)

    def __str__(self) -> str:
        return f"time and memory of {self.contender}"


@dataclass(frozen=True)
class Prediction:
    """Predicted errors of the mechanisms that can be planned, relative to the truth's norm."""

    point: Point
    errors: Mapping[str, float]

    @property
    def key(self) -> tuple[object, ...]:
        """What was predicted, without what was found."""
        return ("prediction", self.point)

    def __str__(self) -> str:
        return f"prediction, {self.point.size}"


Cell = Fit | Cost | Prediction
_KINDS: dict[str, type[Fit] | type[Cost] | type[Prediction]] = {
    "fit": Fit,
    "cost": Cost,
    "prediction": Prediction,
}


def to_line(cell: Cell) -> str:
    """Return a cell as one line of JSON."""
    content = {"kind": cell.key[0]} | asdict(cell)
    return json.dumps(content, allow_nan=False) + "\n"


def from_line(line: str | bytes) -> Cell:
    """Read `to_line` back; ValueError for anything else."""
    content = json.loads(line)
    if not isinstance(content, dict) or content.get("kind") not in _KINDS:
        raise ValueError("not a cell")
    kind = _KINDS[content.pop("kind")]
    _check(content, kind)
    _check(content["point"], Point)
    return kind(**content | {"point": Point(**content["point"])})


_WORDS = ("model", "contender")
_COUNTS = ("n_records", "n_features", "row_sparsity", "seed")


def _check(content: Any, kind: type[Any]) -> None:
    """Refuse what no benchmark wrote: other fields, or values that would fail later."""
    if not isinstance(content, dict) or set(content) != {field.name for field in fields(kind)}:
        raise ValueError(f"not a {kind.__name__}")
    for name, value in content.items():
        if name in _WORDS:
            right = isinstance(value, str)
        elif name in _COUNTS:
            right = isinstance(value, int)
        elif name == "skipped":
            right = value is None or isinstance(value, str)
        elif name == "errors":
            right = isinstance(value, dict) and all(map(_is_number, value.values()))
        else:
            right = name == "point" or value is None or _is_number(value)
        if not right:
            raise ValueError(f"not a {name}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
