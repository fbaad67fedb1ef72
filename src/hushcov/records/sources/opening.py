"""`open_records`: an array, a DataFrame, files, a tensor or a dask collection as Records."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from hushcov._validation import shown
from hushcov.exceptions import DataError, ParameterError
from hushcov.records.protocol import Records, is_tensor
from hushcov.records.sources.cluster import DaskRecords
from hushcov.records.sources.device import TensorRecords
from hushcov.records.sources.files import FileRecords, is_file_source
from hushcov.records.sources.formats import FORMATS
from hushcov.records.sources.memory import ArrayRecords, NpyRecords, check_frame_complete


def open_records(
    source: object,
    *,
    columns: Sequence[str] | None = None,
    drop_nulls: bool = False,
    header: bool = True,
    names: Sequence[str] | None = None,
    delimiter: str | None = None,
    block_rows: int | None = None,
) -> Records:
    """Return `source` as Records.

    Parameters
    ----------
    source
        Records themselves, an array-like, a DataFrame, a PyTorch tensor, a dask array or
        dataframe, or a path: a `.npy` file, or Parquet, Arrow or CSV files (see `FileRecords`).
    columns
        Features to read from files, by name.
    drop_nulls
        Whether to leave out records that miss a value (NaN, None, null), which otherwise are an
        error. They still count in `n_records`; `fit` estimates privately how many are complete.
    header, names, delimiter
        How CSV files are read; see `FileRecords`.
    block_rows
        Most rows in a block; it changes speed and memory, never a result.
    """
    if not isinstance(drop_nulls, bool):
        raise ParameterError(
            f"drop_nulls must be True or False, got {shown(drop_nulls)}: choose one."
        )
    if is_file_source(source):
        return FileRecords(
            source,
            columns=columns,
            drop_nulls=drop_nulls,
            header=header,
            names=names,
            delimiter=delimiter,
            block_rows=block_rows,
        )
    for_files = {"columns": columns, "header": header, "names": names, "delimiter": delimiter}
    for name, value in for_files.items():
        if value is not (True if name == "header" else None):
            raise ParameterError(
                f"{name} must be left out unless the records are in files of columns "
                f"({', '.join(FORMATS)}), got {shown(value)}: choose columns of an array by "
                "indexing it."
            )
    if not drop_nulls:
        check_frame_complete(source)
    records = _open(source, block_rows)
    return records.with_gaps() if drop_nulls else records


def _open(source: object, block_rows: int | None) -> Records:
    """Open what is not a file of columns."""
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
        return DaskRecords(source)
    if is_tensor(source):
        return TensorRecords(source, block_rows=block_rows)
    return ArrayRecords(source, block_rows=block_rows)
