"""The file of finished cells: every line is on the disk before the next cell is counted."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from hushcov.lab.benchmark.cells import Cell, from_line, to_line

CELLS = "cells.jsonl"
_FORMAT = 1
_CURE = "choose another folder with --output, or move this one away."


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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
