"""Where a command finds its records: a file, many files, or files that a cluster reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hushcov.exceptions import DataError, MissingPackageError, ParameterError
from hushcov.records import FileRecords, Records, open_records


@contextmanager
def opened(
    path: Path, *, columns: str | None, drop_nulls: bool, scheduler: str | None
) -> Iterator[Records]:
    """Open what `path` names; headers and numbers of rows are read, and no record.

    The connection to a scheduler, if there is one, ends with the context.
    """
    if path.suffix == ".npy":
        with path.open("rb"):
            pass  # a file that cannot be opened is an OSError, not unusable records
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    records = open_records(path, columns=names, drop_nulls=drop_nulls)
    if scheduler is None:
        yield records
        return
    with _on_cluster(path, records, scheduler) as elsewhere:
        yield elsewhere


@contextmanager
def _on_cluster(path: Path, records: Records, scheduler: str) -> Iterator[Records]:
    """The same records, read by the workers of a cluster."""
    if not isinstance(records, FileRecords):
        raise ParameterError(
            f"--scheduler must be left out for {path}: workers read Parquet, Arrow or CSV files."
        )
    try:
        from distributed import Client
    except ImportError:
        raise MissingPackageError("clusters", "dask", "dask") from None
    from hushcov.records.cluster import DaskRecords

    try:
        # The current client until it is closed, which the records find by themselves.
        client = Client(scheduler, timeout="10s")  # type: ignore[no-untyped-call]
    except (OSError, ValueError):
        raise DataError(
            f"--scheduler must be the address of a running Dask scheduler, got {scheduler!r}: "
            "start one with 'dask scheduler', or leave the option out."
        ) from None
    with client:
        yield DaskRecords(records)
