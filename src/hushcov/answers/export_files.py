"""The files of an export: npz, zarr, Parquet or CSV, with the features and what was corrected."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy import sparse

from hushcov._files import as_path, os_errors
from hushcov._validation import check_level
from hushcov._version import __version__
from hushcov.answers.export import Correction, Prepared, Progress, check_format, prepare
from hushcov.answers.tables import (
    Table,
    check_parquet,
    csv_table,
    csv_writer,
    text_columns,
    write_table,
)
from hushcov.exceptions import MissingPackageError, ParameterError
from hushcov.release import Release
from hushcov.release.correlations import PairEnds
from hushcov.release.files import sibling_name
from hushcov.release.findings import KEPT, LEVEL, rule_of, scales_of

#: What says how the files came about, beside them.
STATEMENT = "export.json"
#: The version of the zarr format that is written.
ZARR_FORMAT: Literal[2] = 2
_CHUNK = 2**20  # pairs written at a time, and numbers in a piece of a zarr array
_CURE = "it is the folder that the files are written to."


@dataclass(frozen=True)
class Exported:
    """What was written: the folder, its files, and how the matrix was corrected."""

    folder: Path
    files: tuple[str, ...]
    correction: Correction
    statement: dict[str, Any]


def export(
    release: Release,
    folder: object,
    *,
    to: object,
    covariance: bool = False,
    psd: bool = True,
    block_size: int | str | None = None,
    overwrite: bool = False,
    level: float = LEVEL,
    progress: Progress | None = None,
) -> Exported:
    """Write a release for other programs; `Answers.export` says how."""
    form, level = check_format(to), check_level(level)
    path = as_path("path", folder, _CURE)
    _check_packages(form)
    _check_free(path, overwrite)
    tell = progress or (lambda what, share: None)
    found = prepare(
        release, covariance=covariance, psd=psd, block_size=block_size, progress=progress
    )
    statement = _statement(found, form, level)
    with _draft(path) as draft:
        if form == "npz":
            _write_npz(draft, found, tell)
        elif form == "zarr":
            _write_zarr(draft, found, statement)
        else:
            _write_pairs(draft, found, form, level, tell)
        text = json.dumps(statement, indent=1, allow_nan=False) + "\n"
        (draft / STATEMENT).write_text(text, encoding="utf-8")
    tell("writing", 1.0)
    files = tuple(sorted(each.name for each in path.iterdir()))
    return Exported(path, files, found.correction, statement)


def _check_packages(form: str) -> None:
    if form == "zarr" and find_spec("zarr") is None:
        raise MissingPackageError("zarr files", "zarr", "zarr")
    if form == "parquet":
        check_parquet()


def _check_free(path: Path, overwrite: bool) -> None:
    """Refuse a folder that holds anything, but for an export that may be replaced."""
    with os_errors(path, "written", ParameterError):
        if not path.exists() or (path.is_dir() and not any(path.iterdir())):
            return
    if not path.is_dir() or not (path / STATEMENT).exists():
        raise ParameterError(
            f"path must be a new or empty folder, got {path}, which holds something else: choose "
            "another one."
        )
    if not overwrite:
        raise ParameterError(
            f"path must be a new or empty folder, got {path}, which holds an export: choose "
            "another one, or overwrite."
        )


@contextlib.contextmanager
def _draft(path: Path) -> Iterator[Path]:
    """A folder beside `path` that takes its place when all is written."""
    with os_errors(path, "written", ParameterError):
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = sibling_name(path)
        try:  # from before it is made: an interrupt leaves nothing
            draft.mkdir()
            yield draft
            if path.exists():
                shutil.rmtree(path)
            draft.rename(path)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise


def _statement(found: Prepared, form: str, level: float) -> dict[str, Any]:
    """What was done, as plain data."""
    release, correction = found.release, asdict(found.correction)
    blocks = correction.pop("blocks")
    return {
        "hushcov": __version__,
        "format": form,
        "values": found.value_name,
        "level": level,
        "n_features": release.n_features,
        "mechanism": release.name,
        "epsilon": release.guarantee.epsilon,
        "delta": release.guarantee.delta,
        "private": release.guarantee.private,
        "charge": "none: everything is computed from the release",
        "correction": correction,
        "blocks": list(blocks),
    }


def _write_npz(folder: Path, found: Prepared, tell: Progress) -> None:
    """One matrix and one table for each block.

    The diagonal is halved, so that a triangle plus its transpose is the matrix.
    """
    features, half, blocks = found.features(), found.diagonal / 2, found.correction.blocks
    for done, block in enumerate(blocks):
        tell("writing", done / len(blocks))
        rows = slice(block.start, block.stop)
        upper = found.upper.part(block.start, block.stop).matrix(half[rows])
        sparse.save_npz(folder / f"{block.name}.npz", upper, compressed=False)
        table = {name: column[rows] for name, column in features.items()}
        write_table(table, folder / f"{block.name}.features.csv")


def _write_zarr(folder: Path, found: Prepared, statement: dict[str, Any]) -> None:
    """The triangle without its diagonal under `matrix`, the features under `metadata`."""
    import zarr

    root = zarr.create_group(folder / "matrix.zarr", zarr_format=ZARR_FORMAT)
    short = {name: each for name, each in statement.items() if name != "blocks"}
    diagonal = "variance" if found.covariance else "ones"
    root.attrs.update(
        {**short, "zarr_format": ZARR_FORMAT, "triangle": "upper", "diagonal": diagonal}
    )
    matrix, metadata = root.create_group("matrix"), root.create_group("metadata")
    upper = found.upper
    _put(matrix, "indptr", upper.starts)
    _put(matrix, "indices", upper.columns.astype(np.int32))
    _put(matrix, "data", upper.values)
    for name, column in found.features().items():
        _put(metadata, name, column.astype(str) if column.dtype == object else column)
    bounds = [block.start for block in found.correction.blocks] + [found.release.n_features]
    _put(metadata, "block_starts", np.array(bounds, dtype=np.int64))


def _put(group: Any, name: str, values: Any) -> None:
    chunks = (max(1, min(_CHUNK, len(values))),)
    group.create_array(name, data=np.ascontiguousarray(values), chunks=chunks)


def _write_pairs(folder: Path, found: Prepared, form: str, level: float, tell: Progress) -> None:
    """Tidy pairs, and the features."""
    write_table(found.features(), folder / f"features.{form}")
    fast = find_spec("pyarrow") is not None
    writer = _arrow_writer if fast else _text_writer
    with writer(folder / f"pairs.{form}") as write:
        for share, table in _pair_tables(found, level):
            tell("writing", share)
            write(table)


def _pair_tables(found: Prepared, level: float) -> Iterator[tuple[float, Table]]:
    """Pairs, some rows of the matrix at a time; at least one table."""
    release, upper = found.release, found.upper
    names = found.features()
    n = len(upper.values)
    rows = upper.rows
    variance = np.asarray(release.integers.diagonal() * release.unit, dtype=np.float64)
    rule, limit = rule_of(release)
    threshold = limit if rule == KEPT else 0.0  # where all pairs are listed, none passed any
    for start in range(0, max(n, 1), _CHUNK):
        part = slice(start, min(n, start + _CHUNK))
        places = rows[part], upper.columns[part].astype(np.int64)
        table: dict[str, Any] = {}
        for name in ("name", "chromosome", "position"):
            for side, at in zip((1, 2), places, strict=True):
                if name in names:
                    title = f"feature_{side}" if name == "name" else f"{name}_{side}"
                    table[title] = names[name][at]
        table[found.value_name] = upper.values[part]
        ends, noise = _ends(found, places, variance, threshold, level)
        table["lower"], table["upper"] = ends
        table["noise_sd"] = noise
        table["released"] = found.released[part]
        yield part.stop / max(1, n), table


def _ends(
    found: Prepared, places: Any, variance: Any, threshold: float, level: float
) -> tuple[Any, Any]:
    """Intervals about the released values, and deviations of their noise; NaN without a level."""
    release, (rows, columns) = found.release, places
    none = np.full(len(rows), np.nan)
    if release.noise_sd is None:
        return (none, none), none
    scale, deviation = scales_of(release), found.deviation
    size = scale[rows] * scale[columns]
    product = deviation[rows] * deviation[columns]
    noise = release.noise_sd[0] * (size if found.covariance else size / product)
    if release.n_sampled is None or not len(rows):
        return (none, none), noise
    # Where pairs passed no threshold, an interval that allows for it is the plain one.
    passed = np.full(len(rows), threshold > 0)
    values = np.asarray(release.integers[rows, columns] * release.unit, dtype=np.float64)
    with np.errstate(all="ignore"):
        pairs = PairEnds(release, places, values, variance, passed, threshold)
        if not found.covariance:
            return tuple(pairs.correlations(level)), noise
        return tuple(pairs.covariances(level) * size), noise


@contextlib.contextmanager
def _arrow_writer(path: Path) -> Iterator[Any]:
    """Parquet, or CSV by the same package, which is quick."""
    import pyarrow
    from pyarrow import csv as arrow_csv
    from pyarrow import parquet

    writer: Any = None

    def write(table: Table) -> None:
        nonlocal writer
        table = table if path.suffix == ".parquet" else csv_table(table)
        columns = {name: pyarrow.array(each, from_pandas=True) for name, each in table.items()}
        made = pyarrow.table(columns)
        if writer is None and path.suffix == ".parquet":
            writer = parquet.ParquetWriter(path, made.schema)
        elif writer is None:
            options = arrow_csv.WriteOptions(quoting_style="needed")
            writer = arrow_csv.CSVWriter(path, made.schema, write_options=options)
        writer.write_table(made)

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()


@contextlib.contextmanager
def _text_writer(path: Path) -> Iterator[Any]:
    """CSV without further packages."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv_writer(file)

        def write(table: Table) -> None:
            table = csv_table(table)
            if file.tell() == 0:
                writer.writerow(table)
            writer.writerows(zip(*text_columns(table), strict=True))

        yield write
