"""From whatever holds rows to Records."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hushcov._validation import shown
from hushcov.exceptions import DataError, ParameterError
from hushcov.records.arrays import is_tensor
from hushcov.records.files import FileRecords, is_file_source
from hushcov.records.formats import FORMATS
from hushcov.records.source import ArrayRecords, NpyRecords, Records


def open_records(
    source: object,
    *,
    columns: Sequence[str] | None = None,
    drop_nulls: bool = False,
    block_rows: int | None = None,
) -> Records:
    """Return `source` as Records.

    Parameters
    ----------
    source
        Records themselves, an array-like, a PyTorch tensor, a dask array or dataframe, or a path:
        a `.npy` file, or Parquet, Arrow or CSV files (see `FileRecords`).
    columns, drop_nulls
        Features to read, by name, and whether to leave out records with nulls; for files that
        have names and nulls.
    block_rows
        Most rows in a block; it changes speed and memory, never a result.
    """
    options: dict[str, Any] = {"columns": columns, "drop_nulls": drop_nulls or None}
    if is_file_source(source):
        return FileRecords(source, columns=columns, drop_nulls=drop_nulls, block_rows=block_rows)
    for name, value in options.items():
        if value is not None:
            raise ParameterError(
                f"{name} must be left out unless the records are in files of columns "
                f"({', '.join(FORMATS)}), got {shown(value)}: choose columns of an array by "
                "indexing it, and impute beforehand."
            )
    if isinstance(source, Records):
        if block_rows is not None:
            raise ParameterError(
                "block_rows must be left out when the source is a Records, got "
                f"{shown(block_rows)}: set it where the Records is made."
            )
        return source
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if path.suffix != ".npy":
            raise DataError(
                f"{path} must be a folder, a pattern, or a file whose name ends in .npy, "
                f"{', '.join(FORMATS)}: write one with numpy.save(path, X), or load the file and "
                "pass an array."
            )
        return NpyRecords(path, block_rows=block_rows)
    if type(source).__module__.startswith("dask."):
        from hushcov.records.cluster import DaskRecords

        return DaskRecords(source)
    if is_tensor(source):
        from hushcov.records.device import TensorRecords

        return TensorRecords(source, block_rows=block_rows)
    return ArrayRecords(source, block_rows=block_rows)
