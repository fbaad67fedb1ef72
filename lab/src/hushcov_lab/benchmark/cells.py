"""Cells of a benchmark, and the file of finished ones.

A preset has sweeps around a base point and a grid of sizes. In the file every line is on the disk
before the next one counts.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from types import NoneType
from typing import Any, BinaryIO, ClassVar, NoReturn, Self

from hushcov.simulate import FAMILIES, MODELS

DELTA = 1e-6
#: Axes of the sweeps, by the field of a point that varies.
AXES = ("n_records", "n_features", "row_sparsity", "epsilon")
CELLS = "cells.jsonl"
JOURNAL_FORMAT = 1
_CURE = "choose another folder with --output, or move this one away."
#: Families whose structure is not in the sparsity that contenders are told.
UNTOLD = tuple(name for name in FAMILIES if name not in MODELS)
# What a field of a cell may be, by its annotation.
_TYPES: dict[Any, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "float | None": (int, float, NoneType),
    "str | None": (str, NoneType),
    "Point": (dict,),
    "Mapping[str, float]": (dict,),
}


@dataclass(frozen=True, order=True)
class Point:
    """A size, a budget and a covariance model."""

    model: str
    n_records: int
    n_features: int
    row_sparsity: int
    epsilon: float

    def __str__(self) -> str:
        return (
            f"{self.model}, n = {self.n_records:,}, d = {self.n_features:,}, "
            f"k = {self.row_sparsity}, epsilon = {self.epsilon:g}"
        )

    @property
    def size(self) -> str:
        """The size alone, short enough to stand beside a progress bar."""
        return f"n = {self.n_records:,}, d = {self.n_features:,}"

    @property
    def work(self) -> float:
        """Multiplications of one Gram matrix, by which tasks are ordered and split."""
        return float(self.n_records) * self.n_features**2


@dataclass(frozen=True)
class SizeLadder:
    """Numbers from `first` to `last` in equal ratios, rounded to whole ones."""

    first: int
    last: int
    steps: int

    def values(self) -> tuple[int, ...]:
        """Return the numbers, smallest first."""
        ratio = math.log(self.last / self.first) / (self.steps - 1)
        return tuple(round(self.first * math.exp(ratio * step)) for step in range(self.steps))


@dataclass(frozen=True)
class Preset:
    """All that is measured and predicted.

    The sweeps vary one field of `base` at a time, on every model of `models`. The grid of sizes is
    for the model of `base` alone, at each of `grid_sparsities`; `map_features` and `map_records`
    are the sizes of the predicted map. `families` are structures that nobody is told, measured at
    the size of `base`.
    """

    name: str
    base: Point
    models: tuple[str, ...]
    n_records: tuple[int, ...]
    n_features: tuple[int, ...]
    row_sparsity: tuple[int, ...]
    epsilon: tuple[float, ...]
    seeds: int
    grid_features: tuple[int, ...]
    grid_records: tuple[int, ...]
    grid_sparsities: tuple[int, ...]
    grid_seeds: int
    grid_entries: int  # records times features, at most: the size of the data in memory
    map_features: SizeLadder
    map_records: SizeLadder
    families: tuple[str, ...] = ()

    def family(self, name: str) -> Point:
        """The point at which a family is measured; its sparsity is what contenders are told."""
        return replace(self.base, model=name)

    def sweep(self, axis: str, model: str) -> list[Point]:
        """Points along one axis, through the base point."""
        start = replace(self.base, model=model)
        return [replace(start, **{axis: value}) for value in getattr(self, axis)]

    def grid(self, row_sparsity: int) -> list[Point]:
        """Points of the grid of sizes, without those whose data would be too large."""
        points = self._sizes(row_sparsity, self.grid_features, self.grid_records)
        return [p for p in points if p.n_records * p.n_features <= self.grid_entries]

    def map(self, row_sparsity: int) -> list[Point]:
        """Points of the predicted map."""
        return self._sizes(row_sparsity, self.map_features.values(), self.map_records.values())

    def _sizes(self, k: int, features: tuple[int, ...], records: tuple[int, ...]) -> list[Point]:
        start = replace(self.base, row_sparsity=k)
        sizes = itertools.product(features, records)
        return [replace(start, n_features=d, n_records=n) for d, n in sizes]

    def measured(self) -> dict[Point, int]:
        """Every point that is measured, with its number of seeds; those of most work first."""
        grids = (point for k in self.grid_sparsities for point in self.grid(k))
        seeds = dict.fromkeys(grids, self.grid_seeds)
        seeds |= dict.fromkeys(map(self.family, self.families), self.grid_seeds)
        for model, axis in itertools.product(self.models, AXES):
            seeds |= dict.fromkeys(self.sweep(axis, model), self.seeds)
        return dict(sorted(seeds.items(), key=lambda item: (-item[0].work, item[0])))

    def predicted(self) -> list[Point]:
        """Return every point at which mechanisms are predicted."""
        grids, maps = (
            [point for k in self.grid_sparsities for point in points(k)]
            for points in (self.grid, self.map)
        )
        return list(dict.fromkeys([*grids, *maps]))


PRESETS = {
    "quick": Preset(
        name="quick",
        base=Point("random", 30_000, 100, 5, 1.0),
        models=("random",),
        n_records=(3_000, 10_000, 30_000, 100_000),
        n_features=(25, 50, 100, 200),
        row_sparsity=(2, 5, 20),
        epsilon=(0.25, 1.0, 4.0),
        seeds=2,
        grid_features=(50, 200),
        grid_records=(3_000, 30_000),
        grid_sparsities=(5, 20),
        grid_seeds=1,
        grid_entries=20_000_000,
        map_features=SizeLadder(25, 400, 5),
        map_records=SizeLadder(300, 100_000, 6),
        families=UNTOLD,
    ),
    "full": Preset(
        name="full",
        base=Point("random", 100_000, 200, 5, 1.0),
        models=("random", "block", "banded"),
        n_records=(3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000),
        n_features=(25, 50, 100, 200, 500, 1_000),
        row_sparsity=(2, 3, 5, 10, 20),
        epsilon=(0.1, 0.25, 0.5, 1.0, 2.0, 4.0),
        seeds=5,
        grid_features=(50, 100, 200, 500, 1_000),
        grid_records=(3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000),
        grid_sparsities=(5, 20),
        grid_seeds=3,
        grid_entries=300_000_000,
        map_features=SizeLadder(25, 2_000, 14),
        map_records=SizeLadder(1_000, 1_000_000, 19),
        families=UNTOLD,
    ),
}


class Cell:
    """One measurement or prediction; `key` is all of it but the result."""

    kind: ClassVar[str]
    point: Point

    @property
    def key(self) -> tuple[object, ...]:
        """Key of the measurement, without its result."""
        known = (getattr(self, name, None) for name in ("seed", "contender"))
        return (self.kind, self.point, *(each for each in known if each is not None))


@dataclass(frozen=True)
class Fit(Cell):
    """One contender on one draw of the data, or why it was skipped.

    `error` is the operator norm of estimate - truth over that of the truth. `recall` is the share
    of true off-diagonal nonzeros found, `precision` the share of found ones that are true.
    """

    kind: ClassVar = "fit"
    point: Point
    seed: int
    contender: str
    error: float | None = None
    recall: float | None = None
    precision: float | None = None
    seconds: float | None = None
    skipped: str | None = None

    def __str__(self) -> str:
        return f"{self.contender}, {self.point.size}"


@dataclass(frozen=True)
class Cost(Cell):
    """Seconds and peak memory of one contender in a process of its own, or why it was skipped.

    `megabytes` is None where the operating system does not tell.
    """

    kind: ClassVar = "cost"
    point: Point
    contender: str
    seconds: float | None = None
    megabytes: float | None = None
    skipped: str | None = None

    def __str__(self) -> str:
        return f"time and memory of {self.contender}"


@dataclass(frozen=True)
class PredictedErrors(Cell):
    """Predicted errors of the mechanisms that can be planned, relative to the truth's norm."""

    kind: ClassVar = "prediction"
    point: Point
    errors: Mapping[str, float]

    def __str__(self) -> str:
        return f"prediction, {self.point.size}"


_KINDS: dict[str, type[Any]] = {cell.kind: cell for cell in (Fit, Cost, PredictedErrors)}


def to_line(cell: Cell) -> str:
    """Return a cell as one line of JSON."""
    content: Any = cell
    return json.dumps({"kind": cell.kind} | asdict(content), allow_nan=False) + "\n"


def from_line(line: str | bytes) -> Cell:
    """Read `to_line` back; ValueError for anything else."""

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not a number")

    content = json.loads(line, parse_constant=refuse)
    if not isinstance(content, dict) or content.get("kind") not in _KINDS:
        raise ValueError("not a cell")
    kind = _KINDS[content.pop("kind")]
    _check(content, kind)
    _check(content["point"], Point)
    cell: Cell = kind(**content | {"point": Point(**content["point"])})
    return cell


def _check(content: Any, kind: type[Any]) -> None:
    """Refuse what no benchmark wrote: other fields, or values that would fail later."""
    types = {field.name: _TYPES[field.type] for field in fields(kind)}
    if not isinstance(content, dict) or content.keys() != types.keys():
        raise ValueError(f"not a {kind.__name__}")
    for name, allowed in types.items():
        if not isinstance(content[name], allowed):
            raise ValueError(f"not a {name}")
    if not all(isinstance(each, int | float) for each in content.get("errors", {}).values()):
        raise ValueError("not a number")


class Journal:
    """Finished cells of a folder, as a context manager that adds to them.

    The first line says what is being measured; `identity` must agree with it. A last line that was
    cut off when the program was killed is dropped. One program at a time writes to a folder, which
    is made if it is not there. `identity` is what makes cells comparable, as plain data: version,
    preset, contenders. `read` and `write` turn a line into a cell and back.
    """

    def __init__(
        self,
        folder: Path,
        identity: dict[str, object],
        name: str = CELLS,
        *,
        read: Callable[[bytes], Any] = from_line,
        write: Callable[[Any], str] = to_line,
    ) -> None:
        self.path = folder / name
        self.cells: list[Any] = []
        self._read_line, self._to_line = read, write
        self._identity = {"format": JOURNAL_FORMAT} | identity
        folder.mkdir(parents=True, exist_ok=True)
        self._file: BinaryIO = self.path.open("a+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._read()
        except BlockingIOError:
            self._file.close()
            raise BlockingIOError(
                f"{folder} is in use by another benchmark: wait for it to end, or choose another "
                "folder with --output."
            ) from None
        except BaseException:
            self._file.close()
            raise

    def append(self, cell: Any) -> None:
        """Write a cell, and return when it is on the disk."""
        self._write(self._to_line(cell))
        self.cells.append(cell)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def _write(self, line: str) -> None:
        self._file.write(line.encode())
        self._file.flush()
        os.fsync(self._file.fileno())

    def _read(self) -> None:
        self._file.seek(0)
        lines = self._file.read().splitlines(keepends=True)
        if lines and (not lines[-1].endswith(b"\n") or _parsed(lines[-1]) is None):
            torn = lines.pop()
            self._file.truncate(self._file.tell() - len(torn))
        if not lines:
            self._write(json.dumps(self._identity) + "\n")
            return
        found = _parsed(lines[0])
        if not isinstance(found, dict) or "format" not in found:
            raise OSError(f"{self.path}, line 1: not the start of a benchmark: {_CURE}")
        for name, value in self._identity.items():
            if found.get(name) != value:
                raise FileExistsError(
                    f"{self.path.parent} holds a benchmark of another {name} "
                    f"({_short(found.get(name))}, and this is {_short(value)}): {_CURE}"
                )
        for position, line in enumerate(lines[1:], start=2):
            try:
                self.cells.append(self._read_line(line))
            except (ValueError, TypeError):
                raise OSError(
                    f"{self.path}, line {position}: not a finished cell: {_CURE}"
                ) from None


def _parsed(line: bytes) -> Any:
    """Return the content of a line; None where it is no JSON."""
    try:
        return json.loads(line)
    except ValueError:
        return None


def _short(value: object) -> str:
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
