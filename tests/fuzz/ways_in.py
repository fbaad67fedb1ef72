"""Every way in for records: how a table gets there, and the exact sums that come out."""

import gzip
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import torch
from click.testing import CliRunner
from pyarrow import ipc, parquet

import hushcov
from hushcov.cli.main import cli
from hushcov.exceptions import HushcovError
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.records.base import CompleteRecords, Records
from hushcov.kernel.session import unwrap
from hushcov.kernel.sums.counts import count_complete, log2_histogram
from hushcov.kernel.sums.gram import row_bounded_gram
from hushcov.kernel.sums.signs import sign_gram
from hushcov.kernel.sums.statistics import Statistics
from hushcov.tables import cluster
from hushcov.tables.cluster import DaskRecords
from hushcov.tables.files import FileRecords
from hushcov.tables.sources import open_records
from hushcov_lab.audit.odd_records import (
    LINES,
    NOTES,
    NULL_WORDS,
    NUMBERS,
    OBJECTS,
    SHAPES,
    Line,
    Table,
)

SCALE, RADIUS, HALF_WIDTH, NORM_BOUND = 1e3, 4.0, 1000, 1500


@dataclass(frozen=True)
class How:
    """How a table is read; all of it is public."""

    drop_nulls: bool
    block_rows: int
    block_bytes: int
    #: Everything else that a way may choose: types of columns, partitions, who wrote a file.
    choices: int


@dataclass(frozen=True)
class Sums:
    """What a way in made of a table: everything that mechanisms see of it."""

    n_records: int
    n_features: int
    grid: FeatureGrid
    norm_bound: int | None
    gram: np.ndarray
    #: Number of complete records, sums of signs and counts of octaves; a site sends none.
    others: tuple[np.ndarray, ...] = ()
    names: tuple[str, ...] | None = None
    #: What a program printed before a release: it must not depend on records.
    said: str = ""


Make = Callable[[Table, random.Random, Path], Any]
Read = Callable[[Any, How], Sums]


def summed(records: Records, how: How) -> Sums:
    if records.gaps != how.drop_nulls:
        records = records.with_gaps(how.drop_nulls)
    complete = CompleteRecords(records) if records.gaps else records
    grid = FeatureGrid(np.full(records.n_features, SCALE), RADIUS, HALF_WIDTH)
    return Sums(
        records.n_records,
        records.n_features,
        grid,
        NORM_BOUND,
        row_bounded_gram(complete, grid, NORM_BOUND),
        (np.array(count_complete(records)), np.triu(sign_gram(complete)), log2_histogram(complete)),
        records.feature_names,
    )


def opened(source: Any, how: How, **options: Any) -> Sums:
    """Read what `open_records` opens."""
    if not type(source).__module__.startswith("dask"):
        options["block_rows"] = how.block_rows
    return summed(open_records(source, **options), how)


@dataclass(frozen=True)
class Way:
    """A way in: what makes a source of a table, and what reads it."""

    make: Make
    kinds: tuple[str, ...] = (*NUMBERS, *OBJECTS)
    read: Read = opened
    n_columns: int | None = None
    #: Whether records may miss values.
    gaps: bool = True
    #: Whether a refusal must not depend on where the record is.
    same_words: bool = True

    @property
    def in_text(self) -> bool:
        return self.make.__name__.startswith("_csv")


def _array(table: Table, rng: random.Random, _: Path) -> np.ndarray:
    cells = [cell for row in table.rows for cell in row]
    if all(isinstance(cell, float | int) for cell in cells) and rng.random() < 0.8:
        return np.asarray(table.rows)
    found = np.empty((len(table.rows), len(table.names)), dtype=object)
    found[:] = table.rows
    return np.asfortranarray(found) if rng.random() < 0.5 else found


def _lists(table: Table, *_: Any) -> list[Any]:
    return [list(row) for row in table.rows]


def _npy(table: Table, rng: random.Random, folder: Path) -> Path:
    cells = [[np.nan if cell is None else cell for cell in row] for row in table.rows]
    numeric = all(isinstance(cell, float | int) for row in cells for cell in row)
    rows = np.asarray(cells) if numeric else _array(table, rng, folder)
    np.save(folder / "x.npy", rows, allow_pickle=True)
    return folder / "x.npy"


def _pandas(table: Table, rng: random.Random, _: Path) -> pd.DataFrame:
    frame = pd.DataFrame({name: table.column(i) for i, name in enumerate(table.names)})
    how = rng.choice(("as found", "object", "category", "nullable"))
    if how in ("object", "category"):
        return frame.astype(how)
    return frame if how == "as found" else frame.convert_dtypes()


def _polars(table: Table, rng: random.Random, _: Path) -> pl.DataFrame:
    return pl.DataFrame(_without_decimals(_arrow_table(table, rng)))


def _arrow_in_memory(table: Table, rng: random.Random, _: Path) -> pa.Table:
    return _without_decimals(_arrow_table(table, rng))


def _without_decimals(rows: pa.Table) -> pa.Table:
    """Decimals become objects of Python, which are no numbers, unless they are in files."""
    for i, kind in enumerate(rows.schema.types):
        if pa.types.is_decimal(kind):
            rows = rows.set_column(i, rows.column_names[i], rows.column(i).cast(pa.float64()))
    return rows


def _tensor(table: Table, *_: Any) -> torch.Tensor:
    rows = [[np.nan if cell is None else cell for cell in row] for row in table.rows]
    if any(isinstance(cell, complex) for row in rows for cell in row):
        return torch.tensor(rows, dtype=torch.complex128)
    return torch.tensor(rows, dtype=torch.float64)


def _arrow_table(table: Table, rng: random.Random) -> pa.Table:
    columns = [_arrow_column(table.column(i), rng) for i in range(len(table.names))]
    return pa.table(columns, names=table.names)


def _arrow_column(cells: list[Any], rng: random.Random) -> pa.Array:
    """One type for all cells: the one of the odd cell where it is no number."""
    present = [cell for cell in cells if cell is not None]
    if any(isinstance(cell, str | date | bytes | complex) for cell in present):
        return pa.array([None if cell is None else str(cell) for cell in cells], pa.string())
    if any(isinstance(cell, int) and abs(cell) > 10**300 for cell in present):
        return pa.array([None if cell is None else str(cell) for cell in cells], pa.string())
    if present and all(isinstance(cell, int) and abs(cell) < 2**63 for cell in present):
        kind = pa.int64() if rng.random() < 0.7 else pa.decimal128(25, 2)
        return pa.array([None if c is None else int(c) for c in cells], pa.int64()).cast(kind)
    if any(isinstance(cell, Decimal) for cell in present) and rng.random() < 0.5:
        return pa.array([None if c is None else Decimal(str(c)) for c in cells])
    return pa.array([None if c is None else float(c) for c in cells], pa.float64())


def _parquet(table: Table, rng: random.Random, folder: Path) -> Path:
    rows, size = _arrow_table(table, rng), rng.randrange(1, 8)
    if rng.random() < 0.5:
        parquet.write_table(rows, folder / "x.parquet", row_group_size=size)
        return folder / "x.parquet"
    cut = len(table.rows) // 2
    for name, part in (("1", rows[:cut]), ("2", rows[cut:])):
        parquet.write_table(part, folder / f"{name}.parquet", row_group_size=size)
    return folder


def _arrow(table: Table, rng: random.Random, folder: Path) -> Path:
    rows = _arrow_table(table, rng)
    with ipc.new_file(folder / "x.arrow", rows.schema) as sink:
        sink.write_table(rows, max_chunksize=rng.randrange(1, 8))
    return folder / "x.arrow"


def _text_file(name: str, separator: bytes, *, header: bool = True) -> Make:
    def _csv(table: Table, rng: random.Random, folder: Path) -> Path:
        text = _text(table, rng, separator, header=header)
        (folder / name).write_bytes(gzip.compress(text, 1) if name.endswith("gz") else text)
        return folder / name

    return _csv


_csv, _tsv = _text_file("x.csv", b","), _text_file("x.tsv", b"\t")
_csv_gz, _csv_without_names = _text_file("x.csv.gz", b","), _text_file("x.csv", b";", header=False)


def _csv_with_notes(table: Table, rng: random.Random, folder: Path) -> Path:
    """With a column beside the features, in which texts may have several lines."""
    path = folder / rng.choice(("x.csv", "x.tsv", "x.csv.gz"))
    notes = [rng.choice((b"x", b'"x\ny"', b'"\r\n""x"""', b"x" * 90)) for _ in table.rows]
    text = _text(table, rng, b"\t" if path.suffix == ".tsv" else b",", notes=notes)
    path.write_bytes(gzip.compress(text, 1) if path.suffix == ".gz" else text)
    return path


def _text(
    table: Table,
    rng: random.Random,
    separator: bytes,
    *,
    header: bool = True,
    notes: list[bytes] | None = None,
) -> bytes:
    """Lines of text, ended as on either system, with one word for all that is missing."""
    end = rng.choice((b"\n", b"\n", b"\r\n"))
    missing = rng.choice(NULL_WORDS).encode()
    open_end = rng.random() < 0.3
    names = [separator.join(name.encode() for name in table.names)] if header else []
    quote = b'"' if rng.random() < 0.2 else b""
    lines = [*names, *(_text_line(row, missing, separator, quote) for row in table.rows)]
    if notes is not None:
        odd = [row.note if isinstance(row, Line) else b"" for row in table.rows]
        notes = [b"note", *(one or other for one, other in zip(odd, notes, strict=True))]
        both = zip(notes, lines, strict=True)
        lines = [note + separator + line if line else line for note, line in both]
    text = b"".join(line + end for line in lines)
    # A last line that may be blank is ended by whoever writes it.
    return text.removesuffix(end) if open_end and len(table.names) > 1 and lines[-1] else text


def _text_line(row: Any, missing: bytes, separator: bytes, quote: bytes) -> bytes:
    if isinstance(row, Line):
        return row.text.replace(b",", separator)
    return separator.join(
        field if field == b'""' else quote + field + quote
        for field in (_field(cell, missing) for cell in row)
    )


def _field(cell: Any, missing: bytes) -> bytes:
    if cell is None:
        return missing
    return cell if isinstance(cell, bytes) else str(cell).encode()


def _csv_of_others(table: Table, rng: random.Random, folder: Path) -> Path:
    """As other programs write it: they differ in what they write for a null."""
    path, rows = folder / "x.csv", _arrow_table(table, rng)
    writer = rng.choice(("pyarrow", "polars", "pandas"))
    if writer == "pyarrow":
        from pyarrow import csv

        csv.write_csv(rows, path)
    elif writer == "polars":
        pl.DataFrame(rows).write_csv(path)
    else:
        rows.to_pandas().to_csv(path, index=False)
    return path


def _sizes(n_rows: int, rng: random.Random) -> tuple[int, ...]:
    cuts = sorted(rng.sample(range(1, n_rows), min(3, n_rows - 1)))
    return tuple(np.diff([0, *cuts, n_rows]).tolist())


def _dask_array(table: Table, rng: random.Random, folder: Path) -> Any:
    rows = _array(table, rng, folder)
    return da.from_array(rows, chunks=(_sizes(len(rows), rng), rows.shape[1]))


def _dask_frame(table: Table, rng: random.Random, folder: Path) -> Any:
    frame, n_parts = _pandas(table, rng, folder), rng.randrange(1, 5)
    with dask.config.set({"dataframe.convert-string": False}):  # or all objects become text
        return dd.from_pandas(frame, npartitions=n_parts)


def _on_workers(source: Any, how: How, **options: Any) -> Sums:
    records = FileRecords(source, **options, block_rows=how.block_rows)
    with mock.patch.object(cluster, "_ROWS_OF_PIECE", how.choices % 5 + 1):
        return summed(DaskRecords(records), how)


def _sites(table: Table, rng: random.Random, folder: Path) -> Any:
    cut = len(table.rows) // 2
    parts = (table.rows[:cut], table.rows[cut:])
    alike = rng.choice(((_array, _lists), (_pandas, _parquet, _arrow)))  # or only one has names
    makes = [rng.choice(alike) for _ in parts]
    sources = []
    for name, rows, make in zip("12", parts, makes, strict=True):
        (folder / name).mkdir()
        sources.append(make(Table(rows, None, table.names), rng, folder / name))
    return folder, sources


def _at_sites(source: Any, how: How) -> Sums:
    folder, parts = source
    sent = []
    for name, part in zip("12", parts, strict=True):
        site = hushcov.GaussianCovariance(
            epsilon=1.0, delta=1e-6, feature_scale=SCALE, assume_centered=True
        )
        site.partial_fit(part, total_records=100)
        sent.append(site.statistics_.save(folder / f"{name}.sums"))
    merged = Statistics.load(sent[0]).merge(Statistics.load(sent[1]))
    about = merged.record_map
    return Sums(
        merged.n_records,
        merged.n_features,
        about.grid,
        about.norm_bound,
        np.asarray(merged.gram),
        names=about.feature_names,
    )


class _Enough(HushcovError):
    """The command has the records; what it does with them is for other tests."""


def _by_command(source: Any, how: How) -> Sums:
    """Run `hushcov fit` up to where it has its records, and sum over those."""
    found: list[Sums] = []

    def prepare(where: Any, *_: Any, **__: Any) -> None:
        found.append(summed(where.records, how))
        raise _Enough("enough")

    arguments = ["fit", str(source), "--epsilon", "1", "--delta", "1e-6", "--row-sparsity", "1"]
    arguments += ["--no-nulls"] * (not how.drop_nulls) + ["--known-mean"]
    with mock.patch("hushcov.cli.fit.Job.prepare", prepare):
        result = CliRunner().invoke(cli, arguments, prog_name="hushcov")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if not found:
        raise HushcovError(result.output)
    return found[0]


def _by_command_in_json(source: Any, how: How) -> Sums:
    """The same, with everything that a program is told before anything is released."""
    sums = _by_command(source, how)
    said = []
    for others in ((), ("--neighbours", "add-remove", "--records", "1000")):
        arguments = ["fit", str(source), "--epsilon", "1", "--delta", "1e-6", "--json"]
        arguments += ["--allow", "hopeless"]
        arguments += ["--dry-run", "--known-mean", "--output", "out", *others]
        arguments += ["--no-nulls"] * (not how.drop_nulls)
        result = CliRunner().invoke(cli, arguments, prog_name="hushcov")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        # Without blanks: lines are broken where a name ends, and names of files are not records.
        said.append("".join(result.output.split()).replace(str(source), "SOURCE"))
    return replace(sums, said="\n".join(said))


def _used_before(source: Any, how: How) -> Sums:
    """Fit other records of other neighbours first; sum over what the plan of a second fit gets."""
    est = hushcov.GaussianCovariance(
        **{"epsilon": 1.0, "delta": 0.09, "random_state": 0, "feature_scale": SCALE},
        **{"on_hopeless": "warn", "on_large_delta": "warn", "assume_centered": True},
    )
    other, found = np.random.default_rng(how.choices).normal(size=(12, 2)), []
    first = (
        lambda: est.fit(other, unit=np.repeat(range(4), 3)),
        lambda: est.set_params(neighbours="add-remove").fit(other),
        lambda: est.fit(other),
    )[how.choices % 3]

    def release(plan: Any, session: Any) -> Any:
        neighbours = plan.request.neighbours
        if (neighbours.relation, neighbours.most_rows) != ("replace", 1):
            raise AssertionError("a plan for other neighbours is run on these records")
        found.append(summed(unwrap(session)[0], how))
        raise _Enough("enough")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first()
        est.set_params(neighbours="replace", drop_nulls=how.drop_nulls)
        est.set_params(assume_centered=True)
        with mock.patch("hushcov.planning.Plan.release", release), suppress(_Enough):
            if how.choices % 2 and not how.drop_nulls:
                rows = open_records(source)
                est.fit_planned(rows, est.fit_plan(rows.n_records, rows.n_features))
            else:
                est.fit(source)
    return found[0]


@contextmanager
def quietly() -> Iterator[None]:
    """Compute in this thread: small tables are quicker there, and threads print nothing."""
    with dask.config.set(scheduler="synchronous"):
        yield


_TEXTS = (*NUMBERS, *OBJECTS, *SHAPES, *LINES)

WAYS: dict[str, Way] = {
    "array": Way(_array),
    "lists": Way(_lists, (*NUMBERS, *OBJECTS, *SHAPES)),
    "npy": Way(_npy),
    "pandas": Way(_pandas),
    "polars": Way(_polars),
    "arrow in memory": Way(_arrow_in_memory),
    "parquet": Way(_parquet),
    "arrow": Way(_arrow),
    "csv": Way(_csv, _TEXTS),
    "csv of one column": Way(_csv, _TEXTS, n_columns=1),
    "csv of others": Way(_csv_of_others),
    "csv of others, one column": Way(_csv_of_others, n_columns=1),
    "csv without names": Way(
        _csv_without_names,
        tuple(kind for kind in _TEXTS if kind != "UTF-8 mark"),  # it may begin a file
        read=partial(opened, header=False, delimiter=";"),
        same_words=False,  # the first line says how many columns there are
    ),
    "csv with notes": Way(
        _csv_with_notes, (*_TEXTS, *NOTES), read=partial(opened, columns=["a", "b"]), n_columns=2
    ),
    "csv with notes on workers": Way(
        _csv_with_notes,
        (*LINES, *NOTES),
        read=partial(_on_workers, columns=["a", "b"]),
        n_columns=2,
    ),
    "tsv": Way(_tsv, _TEXTS),
    "csv.gz": Way(_csv_gz, _TEXTS),
    "tensor": Way(_tensor, (*NUMBERS, "null", "all null", "complex")),
    "dask array": Way(_dask_array),
    "dask dataframe": Way(_dask_frame),
    "parquet on workers": Way(_parquet, read=_on_workers),
    "arrow on workers": Way(_arrow, read=_on_workers),
    "csv on workers": Way(_csv, _TEXTS, read=_on_workers),
    "sites": Way(_sites, read=_at_sites, gaps=False),
    "used estimator": Way(_array, read=_used_before, gaps=False),
    "used estimator, csv": Way(_csv, _TEXTS, read=_used_before, gaps=False),
    "command in JSON, parquet": Way(_parquet, read=_by_command_in_json),
    "command in JSON, csv": Way(_csv, _TEXTS, read=_by_command_in_json),
    "command, npy": Way(_npy, read=_by_command),
    "command, parquet": Way(_parquet, read=_by_command),
    "command, csv": Way(_csv, _TEXTS, read=_by_command),
    "command, csv of one column": Way(_csv, _TEXTS, read=_by_command, n_columns=1),
}
