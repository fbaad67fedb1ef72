"""Where a command finds its records: a file, many files, or files that a cluster reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hushcov.exceptions import DataError, MissingPackageError, ParameterError
from hushcov.records import DaskRecords, FileRecords, Records, open_records


@contextmanager
def opened(
    path: Path,
    *,
    columns: str | None,
    scheduler: str | None,
    names: str | None = None,
    delimiter: str | None = None,
    **options: Any,
) -> Iterator[Records]:
    """Open what `path` names; headers and numbers of rows are read, and no record.

    `options` are those of `open_records`. The connection to a scheduler, if there is one, ends
    with the context.
    """
    records = open_records(
        path,
        columns=_split(columns),
        names=_split(names),
        delimiter="\t" if delimiter in ("\\t", "tab") else delimiter,
        **options,
    )
    if scheduler is None:
        yield records
        return
    with _on_cluster(path, records, scheduler) as elsewhere:
        yield elsewhere


def _split(names: str | None) -> list[str] | None:
    return None if names is None else [name.strip() for name in names.split(",")]


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
