"""Finished cells, and the file of them: every line is on the disk before the next one counts."""

from __future__ import annotations

import fcntl
import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, BinaryIO, Self

from hushcov.lab.benchmark.design import Point

CELLS = "cells.jsonl"
_FORMAT = 1
_CURE = "choose another folder with --output, or move this one away."


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


class Journal:
    """Finished cells of a folder, as a context manager that adds to them.

    The first line says what is being measured; `identity` must agree with it. A last line that was
    cut off when the program was killed is dropped. One program at a time writes to a folder.

    Parameters
    ----------
    folder : Path
        It is made if it is not there.
    identity : dict
        What makes cells comparable, as plain data: version, preset, contenders.
    """

    def __init__(self, folder: Path, identity: dict[str, object]) -> None:
        self.path = folder / CELLS
        self.cells: list[Cell] = []
        self._identity = {"format": _FORMAT} | identity
        folder.mkdir(parents=True, exist_ok=True)
        self._file: BinaryIO = self.path.open("a+b")
        try:
            self._lock()
            self._read()
        except BaseException:
            self._file.close()
            raise

    def append(self, cell: Cell) -> None:
        """Write a cell, and return when it is on the disk."""
        self._write(to_line(cell))
        self.cells.append(cell)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BlockingIOError(
                f"{self.path.parent} is in use by another benchmark: wait for it to end, or choose "
                "another folder with --output."
            ) from None

    def _write(self, line: str) -> None:
        self._file.write(line.encode())
        self._file.flush()
        os.fsync(self._file.fileno())

    def _read(self) -> None:
        self._file.seek(0)
        lines = self._file.read().splitlines(keepends=True)
        if lines and not _whole(lines[-1]):
            torn = lines.pop()
            self._file.truncate(self._file.tell() - len(torn))
        if not lines:
            self._write(json.dumps(self._identity) + "\n")
            return
        self._check_identity(lines[0])
        for position, line in enumerate(lines[1:], start=2):
            try:
                self.cells.append(from_line(line))
            except (ValueError, TypeError):
                raise OSError(
                    f"{self.path}, line {position}: not a finished cell: {_CURE}"
                ) from None

    def _check_identity(self, line: bytes) -> None:
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        if not isinstance(found, dict) or "format" not in found:
            raise OSError(f"{self.path}, line 1: not the start of a benchmark: {_CURE}")
        for name, value in self._identity.items():
            if found.get(name) != value:
                raise FileExistsError(
                    f"{self.path.parent} holds a benchmark of another {name} "
                    f"({_short(found.get(name))}, and this is {_short(value)}): {_CURE}"
                )


def _whole(line: bytes) -> bool:
    if not line.endswith(b"\n"):
        return False
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _short(value: object) -> str:
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
