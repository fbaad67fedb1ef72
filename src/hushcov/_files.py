"""Paths, and what the operating system refuses, in the words of this package."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hushcov.exceptions import HushcovError, ParameterError, raise_alone


def as_path(name: str, value: object, cure: str) -> Path:
    """Return `value` as a path, or raise `ParameterError`."""
    if not isinstance(value, str | os.PathLike) or not isinstance(os.fspath(value), str):
        raise ParameterError(f"{name} must be a path, got a {type(value).__name__}: {cure}")
    return Path(value)


def is_file_name(path: str | Path) -> bool:
    """Return whether a file can have this name: without nulls, and text that can be encoded."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


@contextmanager
def os_errors(path: Path, verb: str, answer: type[HushcovError]) -> Iterator[None]:
    """Replace errors of the operating system by an `answer` that says what cannot be done."""
    if not is_file_name(path):
        raise answer(
            f"{str(path)!a} cannot be {verb}: no file can have this name, which holds a null "
            "character or half of a surrogate pair. Choose another name."
        )
    try:
        yield
    except HushcovError:
        raise
    except OSError as error:
        if verb == "read" and isinstance(error, FileNotFoundError):
            raise_alone(answer(f"{path} does not exist: check the path."))
        reason = error.strerror or type(error).__name__
        cure = "Check the path, its permissions and the disk."
        raise_alone(answer(f"{path} cannot be {verb}: {reason}. {cure}"))


def to_disk(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
