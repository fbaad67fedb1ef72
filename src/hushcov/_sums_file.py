"""Files of exact sums: a symmetric matrix of integers, its description and a checksum."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray

from hushcov._files import as_path, os_errors, to_disk
from hushcov.exceptions import CapacityError, StatisticsError, raise_alone

Made = TypeVar("Made")

FORMAT = 1
COPY_AGAIN = "it is damaged. Copy or write it again; do not use it."
NOT_DESCRIBED = "does not describe its statistics: " + COPY_AGAIN
_NAME = b"hushcov statistics "
_MOST_VERSION, _MOST_DESCRIPTION = 20, 2**28
_CHECKSUM_BYTES = 32
_WIDE_BYTES = 24  # of a sum on a wide grid, which is below 2**62 * 2**90


class InvalidError(Exception):
    """An error in the content of a file, and the cure."""


def write_sums(
    path: str | os.PathLike[str], about: dict[str, object], gram: NDArray[Any], *, overwrite: bool
) -> Path:
    """Write to one file that only its owner may read, whole or not at all; return the path."""
    asked = as_path("path", path, "name the file of the statistics.")
    with os_errors(asked, "written", StatisticsError):
        place = Path(os.path.realpath(asked))
        if os.path.lexists(place) and not stat.S_ISREG(place.stat().st_mode):
            raise StatisticsError(f"{asked} is not an ordinary file: name a new one.")
        if os.path.lexists(place) and not overwrite:
            raise StatisticsError(
                f"{asked} exists already: choose another name, or pass overwrite=True to "
                "replace it."
            )
        # Made for its owner alone (mode 0600), and moved to its place under that mode.
        descriptor, draft = tempfile.mkstemp(
            prefix=".hushcov-", suffix=".partial", dir=place.parent
        )
        try:
            with os.fdopen(descriptor, "wb") as file:
                digest = hashlib.sha256()
                for piece in _pieces(about, gram):
                    digest.update(piece)
                    file.write(piece)
                file.write(digest.digest())
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, place)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(draft)
        to_disk(place.parent)
    return asked


def read_sums(
    path: str | os.PathLike[str], make: Callable[[dict[str, Any], NDArray[Any]], Made]
) -> Made:
    """Return what `make` makes of description and matrix; anything else in a file is an error."""
    asked = as_path("path", path, "name the file of the statistics.")
    with os_errors(asked, "read", StatisticsError):
        if not asked.is_file():  # reading anything else might never end
            what = "is not an ordinary file" if asked.exists() else "does not exist"
            raise StatisticsError(f"{asked} {what}: check the path.")
        try:
            with asked.open("rb") as file:
                return make(*_read(file, os.fstat(file.fileno()).st_size))
        except InvalidError as error:
            raise_alone(StatisticsError(f"{asked} {error}"))
        except MemoryError:
            words = "holds statistics larger than memory: use more."
            raise_alone(CapacityError(f"{asked} {words}"))


def _pieces(about: dict[str, object], gram: NDArray[Any]) -> Iterator[Any]:
    yield _NAME + b"%d\n" % FORMAT
    yield json.dumps(about, allow_nan=False).encode() + b"\n"
    for i, row in enumerate(gram):
        if gram.dtype == object:
            yield b"".join(x.to_bytes(_WIDE_BYTES, "little", signed=True) for x in row[i:])
        else:
            yield np.ascontiguousarray(row[i:], dtype="<i8").data


def _read(file: BinaryIO, size: int) -> tuple[dict[str, Any], NDArray[Any]]:
    digest = hashlib.sha256()
    first = file.readline(len(_NAME) + _MOST_VERSION)
    if not first.startswith(_NAME):
        raise InvalidError("is not a file of statistics: write one with Statistics.save(path).")
    if first != _NAME + b"%d\n" % FORMAT:
        raise InvalidError(
            f"is not of version {FORMAT} of the format, which is what this hushcov reads: load it "
            "with the version that wrote it, and sum again if that is not to be had."
        )
    second = file.readline(_MOST_DESCRIPTION)
    try:
        about = json.loads(second.decode("utf-8")) if second.endswith(b"\n") else None
    except (ValueError, RecursionError):
        about = None
    if not isinstance(about, dict):
        raise InvalidError(NOT_DESCRIBED)
    d, n_bytes = about.get("n_features"), size - file.tell() - _CHECKSUM_BYTES
    if type(d) is not int or d < 1 or n_bytes not in (4 * d * (d + 1), 12 * d * (d + 1)):
        raise InvalidError("is longer or shorter than it says: " + COPY_AGAIN)
    each = n_bytes // (d * (d + 1) // 2)
    wide = each == _WIDE_BYTES
    digest.update(first + second)
    gram: NDArray[Any] = np.empty((d, d), dtype=object if wide else np.int64)
    for i in range(d):
        content = file.read(each * (d - i))
        if len(content) != each * (d - i):
            raise InvalidError("became shorter while it was read: " + COPY_AGAIN)
        digest.update(content)
        if wide:
            entries = (content[k : k + each] for k in range(0, len(content), each))
            gram[i, i:] = [int.from_bytes(entry, "little", signed=True) for entry in entries]
        else:
            gram[i, i:] = np.frombuffer(content, dtype="<i8")
        gram[i + 1 :, i] = gram[i, i + 1 :]
    gram.setflags(write=False)
    if file.read(_CHECKSUM_BYTES + 1) != digest.digest():
        raise InvalidError("does not match its checksum: " + COPY_AGAIN)
    return about, gram
