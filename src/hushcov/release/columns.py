"""What a release says of each feature and of each pair, in files of its folder.

`release.json` holds short lists by itself. Of one that is longer it names the file: `.npy` for
numbers, a list of text in JSON for names. A band is its bandwidth, windows along the columns are
how long each is, and other pairs are listed. Nothing is unpickled, or allocated on a file's word.
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from hushcov._arrays import IntArray
from hushcov.exceptions import DamagedReleaseError

#: The longest list that `release.json` holds by itself.
LONGEST = 10_000
FILE, BANDWIDTH, WINDOWS = "file", "bandwidth", "windows"
#: Files that lists of the document itself may go to; parameters have theirs named after them.
COLUMN_FILES = (
    *("feature_scale.npy", "location.npy", "positions.npy", "selected.npy", "windows.npy"),
    *("column_names.json", "chromosomes.json", "unresolved.npy", "bounds.npy", "fourth.npy"),
)
_INTEGERS, _FLOATS = "<i8", "<f8"
_MOST_INTEGER = 2**63 - 1
_PARAMETERS = "parameters"

Array = npt.NDArray[Any]
Columns = dict[str, Array | list[str]]


def detach(description: Mapping[str, Any]) -> tuple[dict[str, Any], Columns]:
    """The description with a file's name for each list that is too long, and these lists."""
    columns: Columns = {}

    def visit(value: Any, path: tuple[str, ...]) -> Any:
        if isinstance(value, Mapping):
            return {key: visit(each, (*path, str(key))) for key, each in value.items()}
        if isinstance(value, np.ndarray) and path[0] != _PARAMETERS:
            if value.size <= LONGEST:
                return value.tolist()
            return _moved(value, path, columns)
        if isinstance(value, list | tuple) and len(value) > LONGEST:
            column = _as_column(value)
            return value if column is None else _moved(column, path, columns)
        return value

    return {key: visit(value, (key,)) for key, value in description.items()}, columns


def _moved(column: Array | list[str], path: tuple[str, ...], columns: Columns) -> dict[str, str]:
    kind = "json" if isinstance(column, list) else "npy"
    last = [each for each in path[-1:] if each.isidentifier() and each.isascii()]
    stem = ".".join([_PARAMETERS, *last]) if path[0] == _PARAMETERS else path[-1]
    name = f"{stem}.{kind}"
    while name in columns:
        stem += "_"
        name = f"{stem}.{kind}"
    columns[name] = column
    return {FILE: name}


def _as_column(values: Sequence[Any]) -> Array | list[str] | None:
    """One array, or texts; None for a list of anything else."""
    kinds = set(map(type, values))
    if kinds == {str}:
        return list(values)
    if kinds == {float}:
        return np.array(values, dtype=np.float64)
    if kinds == {int} and max(values) <= _MOST_INTEGER and min(values) >= -_MOST_INTEGER:
        return np.array(values, dtype=np.int64)
    if kinds <= {list, tuple} and set(map(len, values)) == {2}:
        ends = [each for pair in values for each in pair]
        if set(map(type, ends)) <= {int, float, type(None)}:
            return np.array([math.nan if x is None else x for x in ends], np.float64).reshape(-1, 2)
    return None


def attach(description: Mapping[str, Any], read: Callable[[str], Array | list[str]]) -> Any:
    """The description with the lists in place of their files' names; parameters have plain ones."""

    def visit(value: Any, *, plain: bool) -> Any:
        if not isinstance(value, dict):
            return value
        if set(value) == {FILE} and isinstance(value[FILE], str):
            found = read(value[FILE])
            return found.tolist() if plain and isinstance(found, np.ndarray) else found
        return {key: visit(each, plain=plain) for key, each in value.items()}

    return {key: visit(each, plain=key == _PARAMETERS) for key, each in description.items()}


def write_columns(folder: Path, columns: Columns) -> None:
    """Write each list into its file."""
    for name, column in columns.items():
        with (folder / name).open("wb") as file:
            if isinstance(column, list):
                file.write(b"[\n" + b",\n".join(json.dumps(x).encode() for x in column) + b"\n]\n")
            else:
                write_npy(file, column)


def write_npy(file: Any, array: Array) -> None:
    """Write numbers of 64 bits, the way in which they are read again."""
    kind = _FLOATS if array.dtype.kind == "f" else _INTEGERS
    content = np.ascontiguousarray(array, dtype=kind)
    npy.write_array(file, content, version=(1, 0), allow_pickle=False)


def read_column(name: str, content: bytearray) -> Array | list[str]:
    """The list in the bytes of a file."""
    if name.endswith(".npy"):
        return read_npy(name, content, (_INTEGERS, _FLOATS))
    try:
        found = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not all(type(each) is str for each in found):
        _wrong(name, "must be a list of text in JSON")
    return list(map(sys.intern, found))  # names of chromosomes are few


def read_npy(name: str, content: bytearray, kinds: tuple[str, ...] = (_INTEGERS,)) -> Array:
    """The array in the bytes of a .npy file."""
    file = BytesIO(content)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            version = npy.read_magic(file)
            shape, by_columns, dtype = npy.read_array_header_1_0(file)
    except Exception:  # numpy's header parser lets errors of many types through
        _wrong(name, "has a damaged header")
    if version != (1, 0) or by_columns or dtype.str not in kinds:
        what = "numbers" if len(kinds) > 1 else "integers"
        _wrong(name, f"must hold 64-bit {what} by rows, in version 1.0 of its format")
    if len(shape) not in (1, 2) or min(shape) < 1:
        _wrong(name, "must hold a list of numbers, or a square matrix")
    start = file.tell()
    if len(content) - start != dtype.itemsize * math.prod(shape):
        _wrong(name, "is longer or shorter than its header says")
    found = np.frombuffer(content, dtype=dtype, offset=start).reshape(shape)
    return found.astype(dtype.newbyteorder("="), copy=False)


def _wrong(name: str, reason: str) -> NoReturn:
    raise DamagedReleaseError(f"{name} {reason}")


# ---- pairs ----


def windows_of(selected: IntArray, n_features: int) -> IntArray | None:
    """With how many of the next features each is paired, where that is all: windows, in order."""
    counts = np.bincount(selected[0], minlength=n_features)
    if len(counts) > n_features or not counts.any():
        return None
    same = np.array_equal(selected, of_windows(counts)) if _fits(counts) else False
    return counts.astype(np.int64) if same else None


def _fits(counts: IntArray) -> bool:
    """Whether windows end with the last feature."""
    room = np.arange(len(counts) - 1, -1, -1)
    return bool(np.all((counts >= 0) & (counts <= room)))


def of_windows(counts: IntArray) -> IntArray:
    """Rows and columns of the pairs of windows, row by row."""
    d, total = len(counts), int(counts.sum())
    pairs = np.empty((2, total), dtype=np.int64)
    pairs[0] = np.repeat(np.arange(d), counts)
    pairs[1] = np.arange(total)
    pairs[1] -= np.repeat(np.cumsum(counts) - counts - np.arange(1, d + 1), counts)
    return pairs


def band_counts(n_features: int, bandwidth: int) -> IntArray:
    """With how many of the next features each is paired in a band."""
    return np.minimum(bandwidth, np.arange(n_features - 1, -1, -1)).astype(np.int64)


def describe_pairs(selected: IntArray | None, n_features: int) -> Any:
    """Pairs as the document has them: listed, or as a bandwidth or windows where they are many."""
    if selected is None or selected.size <= LONGEST:
        return selected
    windows = windows_of(selected, n_features)
    if windows is None:
        return selected
    widest = int(windows.max())
    band = np.array_equal(windows, band_counts(n_features, widest))
    return {BANDWIDTH: widest} if band else {WINDOWS: windows}


def read_pairs(form: Any, n_features: int, most: int) -> IntArray | None:
    """The pairs of a bandwidth or of windows; None where this is neither, or more than `most`."""
    if not isinstance(form, dict) or len(form) != 1:
        return None
    width, counts = form.get(BANDWIDTH), form.get(WINDOWS)
    if type(width) is int and 0 < width < n_features:
        counts = band_counts(n_features, width)
    elif isinstance(counts, list) and all(type(each) is int for each in counts):
        counts = np.array(counts, dtype=np.int64)
    if not isinstance(counts, np.ndarray) or counts.dtype != np.int64:
        return None
    if counts.shape != (n_features,) or not _fits(counts) or not counts.sum() <= most:
        return None
    return of_windows(counts)
