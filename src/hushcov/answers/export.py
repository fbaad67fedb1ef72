"""A release as other programs read it: correlations, positive semidefinite, with all that is named.

Everything is computed from the release, so that it costs no privacy.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from hushcov._arrays import FloatArray, IntArray, Matrix
from hushcov._files import as_path, os_errors
from hushcov._validation import check_choice, check_integer, check_level, shown
from hushcov._version import __version__
from hushcov.answers.clients import CLIENTS, client_files
from hushcov.answers.files import Table, check_parquet, table_writer, write_table
from hushcov.answers.names import feature_names
from hushcov.exceptions import CapacityError, MissingPackageError, ParameterError
from hushcov.postprocess import upper_pairs
from hushcov.postprocess.bands import mend_band, mend_dense
from hushcov.postprocess.structure import largest
from hushcov.release import Release
from hushcov.release.files import draft_of
from hushcov.release.view import LEVEL, ratio, view

#: Files of pairs and matrices.
FORMATS = ("npz", "zarr", "parquet", "csv")
#: What can be written: these, and what programs take.
EXPORTS = (*FORMATS, *CLIENTS)
#: What blocks are made of where no number of features is given.
CHROMOSOME = "chromosome"
_MOST_OF_BAND = 2**28  # entries of a band that is mended
_WHOLE = 4  # a band of a quarter of the features is mended as a whole matrix
_MOST_WHOLE = 8_000  # features of such a matrix

#: It is told what is done, and which share of it.
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Block:
    """Features of a block, from `start` to before `stop`, and what its correlations were moved by.

    `largest_change` is of one entry; `frobenius` the norm over the whole symmetric block.
    """

    name: str
    start: int
    stop: int
    pairs: int
    largest_change: float
    frobenius: float


@dataclass(frozen=True)
class Correction:
    """Change that made the matrix positive semidefinite, in correlations, and what was left out.

    `norm` is about the operator norm of the change. `cut_pairs` are those across borders of blocks,
    of which `cut_largest` is the largest. `without_variance` counts features whose released
    variance is not positive: they have no pairs.
    """

    psd: bool
    pairs: int
    largest_change: float
    frobenius: float
    norm: float
    cut_pairs: int
    cut_largest: float
    without_variance: int
    blocks: tuple[Block, ...]


@dataclass(frozen=True, eq=False)
class ExportedMatrix:
    """Entries above the diagonal as they are written, and as they were before.

    `upper` is a sparse array without its diagonal; `released` has its entries as released, NaN for
    correlations that noise puts beyond 1.
    `deviation` has released standard deviations, 0 for features that have none.
    """

    release: Release
    covariance: bool
    upper: Matrix
    released: FloatArray
    deviation: FloatArray
    correction: Correction

    @property
    def diagonal(self) -> FloatArray:
        """Ones, or variances."""
        return self.deviation**2 if self.covariance else np.ones_like(self.deviation)

    @property
    def value_name(self) -> str:
        """Name of the values."""
        return "covariance" if self.covariance else "correlation"

    def features(self) -> Table:
        """Return a row for each feature."""
        release, blocks = self.release, self.correction.blocks
        table: dict[str, Any] = {"name": feature_names(release)}
        if release.chromosomes is not None:
            table["chromosome"] = np.array(release.chromosomes, dtype=object)
        if release.positions is not None:
            table["position"] = np.asarray(release.positions, dtype=np.int64)
        if release.location is not None:
            table["mean"] = np.asarray(release.location, dtype=np.float64)
        table["variance"] = self.deviation**2
        sizes = [block.stop - block.start for block in blocks]
        table["block"] = np.repeat(np.arange(len(blocks)), sizes)
        return table


def prepare(
    release: Release,
    *,
    covariance: bool,
    psd: bool,
    block_size: int | str | None,
    progress: Progress | None = None,
) -> ExportedMatrix:
    """Return correlations in blocks, made positive semidefinite where that is asked for."""
    tell = progress or (lambda what, share: None)
    names, bounds = _blocks(release, block_size)
    tell("reading the estimate", 0.0)
    with np.errstate(all="ignore"):  # a release on disk may hold any finite numbers
        seen = view(release)
        rows, columns, values = upper_pairs(seen.matrix)
        variance = np.asarray(seen.matrix.diagonal(), dtype=np.float64)
        known = (variance > 0) & np.isfinite(variance)
        deviation = np.sqrt(np.where(known, variance, 0.0))
        values = np.nan_to_num(ratio(values, deviation[rows] * deviation[columns]))
        found = seen.within_1(values, seen.deviation[rows] * seen.deviation[columns])
    there = values != 0
    if not covariance and not psd:  # what noise puts beyond 1 was not found
        there &= np.isfinite(found)
    inside = columns < np.repeat(bounds[1:], np.diff(bounds))[rows]  # the end of the row's block
    cut, there = values[there & ~inside], there & inside
    rows, columns, released, found = (each[there] for each in (rows, columns, values, found))
    bounded = values = np.clip(released, -1.0, 1.0)
    if psd:
        said = partial(tell, "making it positive semidefinite")
        values = _mended((rows, columns), bounded, len(deviation), said)
    change, starts = values - bounded, np.searchsorted(rows, bounds)
    blocks = []
    for i, name in enumerate(names):
        own = change[starts[i] : starts[i + 1]]
        blocks.append(Block(name, int(bounds[i]), int(bounds[i + 1]), len(own), *_sizes(own)))
    whole = _upper(rows, columns, change, len(deviation))
    correction = Correction(
        psd,
        len(values),
        *_sizes(change),
        largest(whole + whole.T) if change.any() else 0.0,  # about the operator norm
        len(cut),
        float(np.abs(np.clip(cut, -1.0, 1.0)).max(initial=0.0)),
        int(np.count_nonzero(deviation == 0)),
        tuple(blocks),
    )
    if covariance:
        size = deviation[rows] * deviation[columns]
        found = released * size
        values = values * size if psd else found
    upper = _upper(rows, columns, values, len(deviation))
    return ExportedMatrix(release, covariance, upper, found, deviation, correction)


def _upper(rows: IntArray, columns: IntArray, values: FloatArray, d: int) -> Matrix:
    """Return entries that are listed row by row as a sparse array, zeros among them."""
    return sparse.csr_array(
        (values, columns, np.searchsorted(rows, np.arange(d + 1))), shape=(d, d)
    )


def _blocks(release: Release, block_size: int | str | None) -> tuple[list[str], IntArray]:
    """Return the names of the blocks, and so of their files, with their borders.

    Names are matrix, block-07, chr1 or chrX; the last border is the number of features.
    """
    d = release.n_features
    if block_size is None:
        return ["matrix"], np.array([0, d])
    plain: list[str] = []
    if block_size == CHROMOSOME:
        if release.chromosomes is None:
            raise ParameterError(
                "block_size must be a number, got 'chromosome': the release does not say on which "
                "chromosomes its features lie. Give a number of features."
            )
        names = np.array(release.chromosomes, dtype=object)
        bounds = np.concatenate([[0], np.flatnonzero(names[1:] != names[:-1]) + 1, [d]])
        if len(bounds) - 1 > len(set(release.chromosomes)):
            raise ParameterError(
                "block_size must be a number, got 'chromosome': the features of a chromosome do "
                "not stand together. Give a number of features."
            )
        plain = [release.chromosomes[start].removeprefix("chr") for start in bounds[:-1]]
    elif isinstance(block_size, str):
        raise ParameterError(
            f"block_size must be a number of features or 'chromosome', got {shown(block_size)}: "
            "leave it out for one matrix."
        )
    else:
        cure = "it is how many features a block has; leave it out for one matrix."
        size = check_integer("block_size", block_size, at_least=1, cure=cure)
        bounds = np.append(np.arange(0, d, size), d)
    number = len(bounds) - 1
    alike = len({name.lower() for name in plain}) < number
    if not alike and all(name.isascii() and name.isalnum() for name in plain):
        return [f"chr{name}" for name in plain], bounds
    digits = len(str(number - 1))
    return [f"block-{place:0{digits}d}" for place in range(number)], bounds


def _mended(
    places: tuple[IntArray, IntArray], values: FloatArray, d: int, tell: Callable[[float], None]
) -> FloatArray:
    """Return the values near these, of d features, whose matrix is positive semidefinite."""
    rows, columns = places
    width = int((columns - rows).max(initial=0))
    if _WHOLE * width > d > _MOST_WHOLE:  # far from a band in this order: find another
        pattern = _upper(rows, columns, np.ones(len(rows), dtype=np.int8), d)
        order = reverse_cuthill_mckee((pattern + pattern.T).tocsr(), symmetric_mode=True)
        place = np.empty(d, dtype=np.int64)
        place[order] = np.arange(d)
        rows, columns = np.sort([place[rows], place[columns]], axis=0)
        width = int((columns - rows).max(initial=0))
    if _WHOLE * width > d and d <= _MOST_WHOLE:
        matrix = np.eye(d)
        matrix[rows, columns] = matrix[columns, rows] = values
        mended = mend_dense(matrix)[rows, columns]
        tell(1.0)
        return np.asarray(mended)
    if d * (width + 1) > _MOST_OF_BAND:
        raise CapacityError(
            f"a matrix is made positive semidefinite whose pairs are near each other, and of these "
            f"{d:,} features some are {width:,} apart: use smaller blocks (block_size), or psd "
            "False for the values as released."
        )
    band = np.zeros((d, width + 1))
    band[:, 0] = 1.0
    band[rows, columns - rows] = values
    return np.asarray(mend_band(band, tell)[rows, columns - rows])


def _sizes(change: FloatArray) -> tuple[float, float]:
    """Return the largest change, and the Frobenius norm of all on both sides of the diagonal."""
    return float(np.abs(change).max(initial=0.0)), float(np.sqrt(2 * (change @ change)))


#: What says how the files came about, beside them.
STATEMENT = "export.json"
#: The version of the zarr format that is written.
ZARR_FORMAT: Literal[2] = 2
_CHUNK = 2**20  # pairs written at a time, and numbers in a piece of a zarr array
_CURE = "it is the folder that the files are written to."


@dataclass(frozen=True)
class Exported:
    """Exported folder: its files, and how the matrix was corrected.

    An export for a program has no `correction`, but `lines` that say all of it.
    """

    folder: Path
    files: tuple[str, ...]
    correction: Correction | None
    statement: dict[str, Any]
    lines: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        said = [f"{label}: {sentence}" for label, sentence in self.lines]
        return "\n".join([f"{self.folder}: {', '.join(self.files)}", *said])


def export(
    release: Release,
    folder: object,
    *,
    to: object,
    covariance: bool = False,
    psd: bool = True,
    block_size: int | str | None = None,
    features: Any = None,
    overwrite: bool = False,
    level: float = LEVEL,
    progress: Progress | None = None,
) -> Exported:
    """Write a release for other programs; `Answers.export` says how."""
    form, level = check_choice("to", to, EXPORTS), check_level(level)
    path = as_path("path", folder, _CURE)
    if form == "zarr" and find_spec("zarr") is None:
        raise MissingPackageError("zarr files", "zarr", "zarr")
    if form == "parquet":
        check_parquet()
    _check_free(path, overwrite)
    if form in CLIENTS:
        if covariance or not psd or block_size is not None:
            raise ParameterError(
                f"covariance, psd and block_size must be left out for {form}, which gets the "
                "matrix that it takes: name features instead, or write files (to='npz')."
            )
    elif features is not None:
        raise ParameterError(
            f"features must be left out for {form}, which holds all of them: name them for a "
            f"program ({', '.join(CLIENTS)})."
        )
    tell = progress or (lambda what, share: None)
    statement: dict[str, Any] = {
        "hushcov": __version__,
        "format": form,
        "n_features": release.n_features,
        "mechanism": release.name,
        "epsilon": release.guarantee.epsilon,
        "delta": release.guarantee.delta,
        "private": release.guarantee.private,
        "charge": "none: everything is computed from the release",
    }
    lines: tuple[tuple[str, str], ...] = ()
    if form in CLIENTS:
        texts, table, told, lines = client_files(release, form, features)
        statement |= told
    else:
        found = prepare(
            release, covariance=covariance, psd=psd, block_size=block_size, progress=progress
        )
        changed = asdict(found.correction)
        blocks = list(changed.pop("blocks"))
        statement |= {"values": found.value_name, "level": level, "correction": changed}
        statement["blocks"] = blocks
    place = Path(os.path.realpath(path))
    replaced = place.is_dir() and any(place.iterdir())
    with os_errors(path, "written", ParameterError), draft_of(place, replaced=replaced) as draft:
        if form in CLIENTS:
            for name, text in texts.items():
                (draft / name).write_text(text, encoding="utf-8")
            write_table(table, draft / "features.csv")
        elif form == "npz":
            _write_npz(draft, found, tell)
        elif form == "zarr":
            _write_zarr(draft, found, statement)
        else:
            _write_pairs(draft, found, form, level, tell)
        words = json.dumps(statement, indent=1, allow_nan=False) + "\n"
        (draft / STATEMENT).write_text(words, encoding="utf-8")
    tell("writing", 1.0)
    files = tuple(sorted(each.name for each in path.iterdir()))
    correction = None if form in CLIENTS else found.correction
    return Exported(path, files, correction, statement, lines)


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


def _write_npz(folder: Path, found: ExportedMatrix, tell: Progress) -> None:
    """Write one matrix and one table for each block.

    The diagonal is halved, so that a triangle plus its transpose is the matrix.
    """
    features, half, blocks = found.features(), found.diagonal / 2, found.correction.blocks
    for done, block in enumerate(blocks):
        tell("writing", done / len(blocks))
        rows = slice(block.start, block.stop)
        upper = (found.upper[rows, rows] + sparse.diags_array(half[rows])).tocsr()
        sparse.save_npz(folder / f"{block.name}.npz", upper, compressed=False)
        table = {name: column[rows] for name, column in features.items()}
        write_table(table, folder / f"{block.name}.features.csv")


def _write_zarr(folder: Path, found: ExportedMatrix, statement: dict[str, Any]) -> None:
    """Write the triangle without its diagonal under `matrix`, features under `metadata`."""
    import zarr

    root = zarr.create_group(folder / "matrix.zarr", zarr_format=ZARR_FORMAT)
    short = {name: each for name, each in statement.items() if name != "blocks"}
    diagonal = "variance" if found.covariance else "ones"
    root.attrs.update(
        {**short, "zarr_format": ZARR_FORMAT, "triangle": "upper", "diagonal": diagonal}
    )
    matrix, metadata = root.create_group("matrix"), root.create_group("metadata")
    upper = found.upper
    _put(matrix, "indptr", upper.indptr.astype(np.int64))
    _put(matrix, "indices", upper.indices.astype(np.int32))
    _put(matrix, "data", upper.data)
    for name, column in found.features().items():
        _put(metadata, name, column.astype(str) if column.dtype == object else column)
    bounds = [block.start for block in found.correction.blocks] + [found.release.n_features]
    _put(metadata, "block_starts", np.array(bounds, dtype=np.int64))


def _put(group: Any, name: str, values: Any) -> None:
    chunks = (max(1, min(_CHUNK, len(values))),)
    made = group.create_array(name, shape=values.shape, dtype=values.dtype, chunks=chunks)
    made[:] = values


def _write_pairs(
    folder: Path, found: ExportedMatrix, form: str, level: float, tell: Progress
) -> None:
    """Write tidy pairs, and the features."""
    write_table(found.features(), folder / f"features.{form}")
    with table_writer(folder / f"pairs.{form}") as write:
        for share, table in _pair_tables(found, level):
            tell("writing", share)
            write(table)


def _pair_tables(found: ExportedMatrix, level: float) -> Iterator[tuple[float, Table]]:
    """Yield pairs, some rows of the matrix at a time; at least one table."""
    names, columns, seen = found.features(), found.upper.indices, view(found.release)
    rows, n = np.repeat(np.arange(len(found.deviation)), np.diff(found.upper.indptr)), len(columns)
    for start in range(0, max(n, 1), _CHUNK):
        part = slice(start, min(n, start + _CHUNK))
        places = rows[part], columns[part].astype(np.int64)
        table: dict[str, Any] = {}
        for name in ("name", "chromosome", "position"):
            for side, at in zip((1, 2), places, strict=True):
                if name in names:
                    title = f"feature_{side}" if name == "name" else f"{name}_{side}"
                    table[title] = names[name][at]
        table[found.value_name] = found.upper.data[part]
        with np.errstate(all="ignore"):
            pairs = seen.table(places, level)
            unit = found.deviation[places[0]] * found.deviation[places[1]]
        if found.covariance:
            ends, noise = (pairs.lower, pairs.upper), pairs.noise_sd
        else:
            ends = pairs.correlation_lower, pairs.correlation_upper
            noise = pairs.noise_sd / unit
        table["lower"], table["upper"] = ends
        table["noise_sd"] = noise
        table["released"] = found.released[part]
        yield part.stop / max(1, n), table
