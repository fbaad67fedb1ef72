"""Statistics in one file: what was summed, the sums, and a checksum of both.

The first line names the format and its version. The second is a JSON object with everything that is
public. The upper triangle of the Gram matrix follows, row by row, in little-endian 64-bit integers,
and the SHA-256 checksum of all that. Nothing in a file is ever run: a damaged or forged file can be
wrong, but it is not dangerous.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from hushcov._arrays import IntArray
from hushcov._files import as_path, os_errors, to_disk
from hushcov.exceptions import CapacityError, HushcovError, StatisticsError, raise_alone
from hushcov.sums.grids import FeatureGrid, IntegerGrid
from hushcov.sums.statistics import RecordMap, Statistics

FORMAT = 1
_NAME = b"hushcov statistics "
_MOST_VERSION, _MOST_DESCRIPTION = 20, 2**28
_CHECKSUM_BYTES = 32
_COPY_AGAIN = "it is damaged. Copy or write it again; do not use it."
_FIELDS = {
    *("statistic", "n_records", "parts", "n_features", "grid", "radius", "half_width"),
    *("feature_scale", "norm_bound", "feature_names"),
}

StatisticsPath = str | os.PathLike[str]


def write_statistics(
    statistics: Statistics, path: StatisticsPath, *, overwrite: bool = False
) -> Path:
    """Write the file completely or not at all, even if the program is killed."""
    asked = as_path("path", path, "name the file of the statistics.")
    with os_errors(asked, "written", StatisticsError):
        place = Path(os.path.realpath(asked))
        _check_place(asked, place, overwrite=overwrite)
        # Made for its owner alone (mode 0600), and moved to its place under that mode.
        descriptor, draft = tempfile.mkstemp(
            prefix=".hushcov-", suffix=".partial", dir=place.parent
        )
        try:
            with os.fdopen(descriptor, "wb") as file:
                _fill(file, statistics)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, place)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(draft)
        to_disk(place.parent)
    return asked


def read_statistics(path: StatisticsPath) -> Statistics:
    """Read a file and check all of it; errors say what is wrong without quoting it."""
    asked = as_path("path", path, "name the file of the statistics.")
    with os_errors(asked, "read", StatisticsError):
        if not asked.is_file():  # reading anything else might never end
            what = "is not an ordinary file" if asked.exists() else "does not exist"
            raise StatisticsError(f"{asked} {what}: check the path.")
        try:
            with asked.open("rb") as file:
                return _read(file, os.fstat(file.fileno()).st_size)
        except _InvalidError as error:
            raise_alone(StatisticsError(f"{asked} {error}"))
        except MemoryError:
            raise_alone(CapacityError(f"{asked} holds statistics larger than memory: use more."))


class _InvalidError(Exception):
    """What is wrong with the content of a file, and the cure."""


def _check_place(path: Path, place: Path, *, overwrite: bool) -> None:
    if not os.path.lexists(place):
        return
    if not stat.S_ISREG(place.stat().st_mode):
        raise StatisticsError(f"{path} is not an ordinary file: name a new one.")
    if not overwrite:
        raise StatisticsError(
            f"{path} exists already: choose another name, or pass overwrite=True to replace it."
        )


def _fill(file: BinaryIO, statistics: Statistics) -> None:
    digest = hashlib.sha256()
    for piece in _pieces(statistics):
        digest.update(piece)
        file.write(piece)
    file.write(digest.digest())


def _pieces(statistics: Statistics) -> Iterator[Any]:
    yield _NAME + b"%d\n" % FORMAT
    about = {
        "statistic": "gram",
        "n_records": statistics.n_records,
        "parts": sorted(statistics.parts),
        **statistics.record_map.to_dict(),
    }
    yield json.dumps(about, allow_nan=False).encode() + b"\n"
    for i, row in enumerate(statistics.gram):
        yield np.ascontiguousarray(row[i:], dtype="<i8").data


def _read(file: BinaryIO, size: int) -> Statistics:
    digest = hashlib.sha256()
    first = file.readline(len(_NAME) + _MOST_VERSION)
    if not first.startswith(_NAME):
        raise _InvalidError("is not a file of statistics: write one with Statistics.save(path).")
    if first != _NAME + b"%d\n" % FORMAT:
        raise _InvalidError(
            f"is not of version {FORMAT} of the format, which is what this hushcov reads: load it "
            "with the version that wrote it, and sum again if that is not to be had."
        )
    second = file.readline(_MOST_DESCRIPTION)
    about = _description(second)
    d, start = about["n_features"], file.tell()
    if type(d) is not int or d < 1 or size - start != 4 * d * (d + 1) + _CHECKSUM_BYTES:
        raise _InvalidError("is longer or shorter than it says: " + _COPY_AGAIN)
    digest.update(first + second)
    gram = _gram(file, d, digest)
    if file.read(_CHECKSUM_BYTES + 1) != digest.digest():
        raise _InvalidError("does not match its checksum: " + _COPY_AGAIN)
    return _rebuilt(about, gram)


def _description(line: bytes) -> dict[str, Any]:
    try:
        about = json.loads(line.decode("utf-8")) if line.endswith(b"\n") else None
    except (ValueError, RecursionError):
        about = None
    if not isinstance(about, dict) or set(about) != _FIELDS or about["statistic"] != "gram":
        raise _InvalidError("does not describe its statistics: " + _COPY_AGAIN)
    return about


def _gram(file: BinaryIO, d: int, digest: Any) -> IntArray:
    gram = np.empty((d, d), dtype=np.int64)
    for i in range(d):
        content = file.read(8 * (d - i))
        if len(content) != 8 * (d - i):
            raise _InvalidError("became shorter while it was read: " + _COPY_AGAIN)
        digest.update(content)
        gram[i, i:] = np.frombuffer(content, dtype="<i8")
        gram[i + 1 :, i] = gram[i, i + 1 :]
    gram.setflags(write=False)
    return gram


def _rebuilt(about: dict[str, Any], gram: IntArray) -> Statistics:
    """Make the statistics from their description, if every number in it is a possible one."""
    scale, names, parts = (about[name] for name in ("feature_scale", "feature_names", "parts"))
    grid: IntegerGrid | FeatureGrid
    try:
        if about["grid"] == "integer" and scale is None:
            grid = IntegerGrid(about["radius"], about["half_width"])
        elif about["grid"] == "feature" and isinstance(scale, list):
            grid = FeatureGrid(
                np.array(scale, dtype=np.float64), about["radius"], about["half_width"]
            )
        else:
            raise _InvalidError("describes no grid that is known: " + _COPY_AGAIN)
        names = names if names is None else tuple(names)
        record_map = RecordMap(about["n_features"], grid, about["norm_bound"], names)
        parts = frozenset(parts)
        if not all(isinstance(part, str) for part in parts):
            raise TypeError
        return Statistics(gram, about["n_records"], record_map, parts)
    except (HushcovError, TypeError, ValueError, OverflowError):
        # Not the error of the field itself, which would quote what is in the file.
        raise_alone(_InvalidError("describes statistics that cannot be: " + _COPY_AGAIN))
