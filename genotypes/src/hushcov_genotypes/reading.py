"""Genotypes of persons, two bits each, streamed once by blocks of variants.

A genotype is how many copies of an allele a person has: 0, 1, 2, or a missing call. Blocks follow
each other along the genome, and each has the variants after it that its windows reach, so sums over
pairs within a window need each variant once.

The bytes of PLINK's `.bed` files are read as they are, since sums count their bits. Readers that
give numbers, such as bed-reader, write a byte for each genotype, which takes longer than the sums.
"""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcov._arrays import BoolArray, IntArray
from hushcov._files import as_path, os_errors
from hushcov._validation import check_integer
from hushcov.exceptions import (
    CapacityError,
    DataError,
    ParameterError,
    RecordsFileError,
    own_errors,
    raise_alone,
)
from hushcov.tables.files import choose_columns
from hushcov.tables.formats import readable, schema_of, whole_file
from hushcov.tables.sources import (
    check_frame,
    check_table,
    map_npy,
    names_of,
    numbers_of,
    numeric_table,
)
from hushcov.tables.text import TextOptions
from hushcov_genotypes.kernels import (
    CodeArray,
    count_codes,
    norm_bounds,
    pack_calls,
    product_sums,
    row_words,
    squares_of,
)

_MAGIC = b"\x6c\x1b"
_VARIANT_MAJOR, _SAMPLE_MAJOR = b"\x01", b"\x00"
_HEADER = len(_MAGIC) + 1
_ROWS_AT_ONCE = 512  # rows that one call to the system fills
_BIM_FIELDS = 6
_BIM_LINE = "chromosome, name, distance, position and two alleles"
_REMAKE = "write it again, for instance by plink2 --make-bed."


class BedFile:
    """A `.bed` file with its `.bim` and `.fam` beside it.

    Copies of the first allele of the `.bim` file (A1) are counted.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        for beside in (path.with_suffix(".bim"), path.with_suffix(".fam")):
            if not beside.exists():
                raise RecordsFileError(
                    f"{beside} cannot be read: a PLINK .bed file needs its .bim and .fam. Put them "
                    "beside it."
                )
        self.n_records = _count_lines(path.with_suffix(".fam"))
        chromosomes, names, positions = _read_bim(path.with_suffix(".bim"))
        self.chromosomes, self.names, self.positions = chromosomes, names, positions
        self.n_features = len(names)
        self._row_bytes = -(-self.n_records // 4)
        with os_errors(path, "read", RecordsFileError), path.open("rb") as file:
            head, size = file.read(_HEADER), os.fstat(file.fileno()).st_size
        if head == _MAGIC + _SAMPLE_MAJOR:
            raise DataError(
                f"{path} must have its genotypes variant by variant, got person by person: "
                + _REMAKE
            )
        if head != _MAGIC + _VARIANT_MAJOR:
            raise DataError(f"{path} must begin as a PLINK .bed file, got other bytes: {_REMAKE}")
        expected = _HEADER + self.n_features * self._row_bytes
        if size != expected:
            raise DataError(
                f"{path} must have as many bytes as its .fam and .bim files have persons and "
                f"variants, got {'fewer' if size < expected else 'more'}: take three files that "
                f"were written together, or {_REMAKE}"
            )

    def read(self, start: int, stop: int, codes: CodeArray) -> None:
        """Fill rows of words with variants start..stop-1."""
        rows = codes.view(np.uint8)
        rows[:, self._row_bytes :] = 0
        with os_errors(self._path, "read", RecordsFileError), self._path.open("rb", 0) as file:
            for top in range(0, stop - start, _ROWS_AT_ONCE):
                part = rows[top : top + _ROWS_AT_ONCE, : self._row_bytes]
                self._fill(file.fileno(), part, _HEADER + (start + top) * self._row_bytes)
        if self.n_records % 4:  # what fills the last byte
            rows[:, self._row_bytes - 1] &= (1 << (2 * (self.n_records % 4))) - 1

    def _fill(self, file: int, rows: NDArray[np.uint8], offset: int) -> None:
        got = os.preadv(file, list(rows), offset) if hasattr(os, "preadv") else 0
        while got < rows.size:
            row, filled = divmod(got, self._row_bytes)
            found = os.pread(file, self._row_bytes - filled, offset + got)
            if not found:
                raise DataError(
                    f"{self._path} must stay as it is while it is in use, got a shorter file: "
                    "read it again."
                )
            rows[row, filled : filled + len(found)] = np.frombuffer(found, dtype=np.uint8)
            got += len(found)


def _count_lines(path: Path) -> int:
    """Count the persons of a `.fam` file: no line is blank, and each has its end.

    Otherwise what is in a line would decide how many there are. More is not looked at.
    """
    count = 0
    with os_errors(path, "read", RecordsFileError), path.open("rb") as file:
        for line in file:
            count += 1
            if not line.strip() or not line.endswith(b"\n") or b"\r" in line[:-2]:
                raise DataError(
                    f"{path} must have a line with an end for each person, none of them blank, got "
                    f"another: {_REMAKE}"
                )
    if not count:
        raise DataError(f"{path} must have a line for each person, got none: {_REMAKE}")
    return count


def _read_bim(path: Path) -> tuple[tuple[str, ...], tuple[str, ...], IntArray]:
    """Read chromosomes, names and positions of variants.

    A variant without a name (`.`) is called chromosome:position:A1:A2.
    """
    with os_errors(path, "read", RecordsFileError):
        content = path.read_bytes()
    try:
        lines = content.decode().removesuffix("\n").split("\n")
    except UnicodeDecodeError:
        raise_alone(DataError(f"{path} must be text in UTF-8, got other bytes: {_REMAKE}"))
    fields = [line.split() for line in lines]
    if any(len(each) != _BIM_FIELDS for each in fields):
        raise DataError(f"{path} must have {_BIM_LINE} in each line, got another: {_REMAKE}")
    try:
        positions = np.array([int(each[3]) for each in fields], dtype=np.int64)
    except (ValueError, OverflowError):
        raise_alone(DataError(f"{path} must have whole numbers as positions: {_REMAKE}"))
    names = tuple(
        f"{each[0]}:{each[3]}:{each[4]}:{each[5]}" if each[1] == "." else each[1] for each in fields
    )
    if len(set(names)) < len(names):
        raise DataError(
            f"{path} must have a name of its own for each variant, got {len(names):,} with "
            f"{len(set(names)):,} different ones: plink2 --set-all-var-ids gives new ones."
        )
    return tuple(sys.intern(each[0]) for each in fields), names, positions


def write_bed(
    path: str | os.PathLike[str],
    genotypes: NDArray[np.int8] | Iterable[NDArray[np.int8]],
    *,
    names: Sequence[str] | None = None,
    chromosomes: Sequence[str] | None = None,
    positions: Sequence[int] | NDArray[Any] | None = None,
) -> None:
    """Write a `.bed` file, with its `.bim` and `.fam`, of genotypes or of blocks of variants.

    Parameters
    ----------
    path
        The name of the file, which ends in `.bed`.
    genotypes
        Copies of an allele, persons by variants, negative or NaN where the call is missing; or an
        iterable of such arrays for successive variants, so that they need not fit in memory.
    names, chromosomes, positions
        Of the variants; otherwise variant1 and so on, 1, and 1 and so on. Persons are numbered.
    """
    blocks = [genotypes] if isinstance(genotypes, np.ndarray) else genotypes
    sizes: set[int] = set()

    def packed() -> Iterator[NDArray[np.uint8]]:
        for block in blocks:
            sizes.add(len(block))
            codes = np.zeros((block.shape[1], row_words(len(block))), dtype=np.uint32)
            if len(sizes) > 1 or not pack_calls(block, codes):
                raise DataError(
                    "genotypes must be 0, 1 or 2, or negative where missing, of the same persons "
                    "in all blocks, got something else: check them."
                )
            yield codes.view(np.uint8)[:, : -(-len(block) // 4)]

    d = write_packed(path, packed())
    write_tables(path, sizes.pop() if sizes else 0, d, names, chromosomes, positions)


def write_packed(path: str | os.PathLike[str], rows: Iterable[NDArray[np.uint8]]) -> int:
    """Write a `.bed` file of bytes that are packed already, variants by bytes; how many it has."""
    d = 0
    with bed_path(path).open("wb") as file:
        file.write(_MAGIC + _VARIANT_MAJOR)
        for block in rows:
            file.write(np.ascontiguousarray(block).data)
            d += len(block)
    return d


def write_tables(
    path: str | os.PathLike[str],
    n_records: int,
    n_features: int,
    names: Sequence[str] | None = None,
    chromosomes: Sequence[str] | None = None,
    positions: Sequence[int] | NDArray[Any] | None = None,
) -> None:
    """Write the `.bim` and `.fam` files of a `.bed` file."""
    numbers = range(1, n_features + 1)
    names = [f"variant{i}" for i in numbers] if names is None else names
    chromosomes = ["1"] * n_features if chromosomes is None else chromosomes
    places = numbers if positions is None else positions
    with bed_path(path).with_suffix(".bim").open("w", encoding="utf-8") as file:
        for chromosome, name, place in zip(chromosomes, names, places, strict=True):
            file.write(f"{chromosome}\t{name}\t0\t{place}\tA\tG\n")
    with bed_path(path).with_suffix(".fam").open("w", encoding="utf-8") as file:
        file.writelines(f"{i + 1} {i + 1} 0 0 0 -9\n" for i in range(n_records))


def bed_path(path: str | os.PathLike[str]) -> Path:
    """Return the path of a `.bed` file, or a refusal of other names."""
    found = as_path("path", path, "give the name of a .bed file.")
    if found.suffix != ".bed":
        raise ParameterError(f"path must end in .bed, got {found}: the other files are beside it.")
    return found


#: Values of slope * copies - offset may be as large as this, so that sums of their fourth powers
#: are exact.
LARGEST_VALUE = 2**10
#: Persons, so that their number times the largest bound on norms is below 2^62.
MOST_PERSONS = 2**31
_CURE = (
    "give 0, 1 or 2 copies of an allele, and NaN, None or a negative number where the call is "
    "missing."
)
_FAR = 2**20  # a slope or offset so large gives some genotype a larger value than allowed
# Bytes of numbers that are packed at a time.
_PIECE_BYTES = 2**26


@own_errors("while they were opened")
def open_genotypes(X: Any) -> GenotypeRecords:
    """Return genotypes as GenotypeRecords.

    Parameters
    ----------
    X
        An array, rows are persons and columns are variants; a table of pandas, polars or pyarrow;
        or a path: PLINK's `.bed` with its `.bim` and `.fam` beside it, `.npy` or `.parquet`. Values
        are 0, 1 or 2. NaN, None, masked values and negative numbers are missing calls; anything
        else is refused.

    Notes
    -----
    `.bed` and `.parquet` files are read by variants, each once. A `.npy` file is mapped into
    memory; where the variants of a person are side by side in it and it is much larger than memory,
    it is read more than once by the system: write a `.bed` file (`write_bed`), or
    `numpy.save(path, numpy.asfortranarray(X))`.

    Privacy
    -------
    Nothing here is private by itself. Numbers of persons and variants, names and positions are
    public. Identifiers of persons in a `.fam` file are counted and not read.
    """
    if isinstance(X, GenotypeRecords):
        return X
    if isinstance(X, str | os.PathLike):
        return _opened_path(Path(X))
    names, table, masked = names_of(X), X, isinstance(X, np.ma.MaskedArray)
    if masked:
        check_table("X", X.shape, X.dtype, kinds="biuf")
    else:
        check_frame(X)
    arrow, pandas = hasattr(X, "schema") and hasattr(X, "num_rows"), hasattr(X, "iloc")
    if not (masked or arrow or pandas or names is not None):
        table = numeric_table(X)

    def columns(a: int, b: int) -> NDArray[Any]:
        if arrow:
            return _of_arrow(table.select(range(a, b)))
        part = table.iloc[:, a:b] if pandas else table[:, a:b]
        if masked:
            part = part.astype(np.float64).filled(np.nan)
        return part if isinstance(part, np.ndarray) else np.asarray(part.to_numpy())

    return _of_columns(table.shape, columns, names)


class GenotypeRecords:
    """Genotypes of `n_records` persons at `n_features` variants; see `open_genotypes`."""

    def __init__(
        self,
        shape: tuple[int, int],
        read: Callable[[int, int, CodeArray], None],
        feature_names: tuple[str, ...] | None = None,
        positions: IntArray | None = None,
        chromosomes: tuple[str, ...] | None = None,
        *,
        in_pieces: bool = False,
    ) -> None:
        if shape[0] > MOST_PERSONS:
            raise CapacityError(
                f"genotypes must be of at most {MOST_PERSONS:,} persons, so that sums are exact, "
                "got more: use fewer."
            )
        #: The number of persons, which need not be public, and what is known of it.
        self.n_rows = self.n_records = shape[0]
        self.n_features, self._in_pieces = shape[1], in_pieces
        self.feature_names = feature_names
        self.positions, self.chromosomes = positions, chromosomes
        self._read = read

    def counted(self, n_records: int) -> GenotypeRecords:
        """Return these genotypes where how many persons there are is not public, but released."""
        other = copy.copy(self)
        other.n_records = n_records
        return other

    def blocks(self, n_variants: int, reach: int) -> Iterator[GenotypeBlock]:
        """Yield consecutive blocks of `n_variants` each, with `reach` more variants after them.

        Each variant is read once. The next block is read while one is in use.
        """
        n_variants = check_integer(
            "n_variants", n_variants, at_least=1, cure="give the variants of a block."
        )
        reach = check_integer("reach", reach, at_least=0, cure="give the width of the window.")
        d = self.n_features
        stops = [min(start + n_variants, d) for start in range(0, d, n_variants)]
        with ThreadPoolExecutor(1, thread_name_prefix="hushcov-genotypes") as reader:
            coming = reader.submit(self._following, 0, None, stops[0], reach)
            for number, stop in enumerate(stops):
                block = coming.result()
                if number + 1 < len(stops):
                    coming = reader.submit(self._following, stop, block, stops[number + 1], reach)
                yield block
                del block  # before the next one is waited for

    def _following(
        self, start: int, before: GenotypeBlock | None, stop: int, reach: int
    ) -> GenotypeBlock:
        end = min(stop + reach, self.n_features)
        codes = np.empty((end - start, row_words(self.n_rows)), dtype=np.uint32)
        known = 0
        if before is not None:
            known = before.end - start
            codes[:known] = before.codes[start - before.start :]
        step = end - start
        if self._in_pieces:  # by the released number, as the number of readings tells it
            step = max(1, _PIECE_BYTES // (8 * max(1, self.n_records)))
        for a in range(start + known, end, step):
            b = min(a + step, end)
            self._read(a, b, codes[a - start : b - start])
        return GenotypeBlock(start, stop, end, codes, self.n_rows)


class GenotypeBlock:
    """Variants start..stop-1, with those that follow up to end-1, packed.

    `slopes`, `offsets` and `ends` of its methods have an entry for each of start..end-1 (`ends` may
    stop at stop-1). Values are v = slope * copies - offset, integers, and 0 where the call is
    missing.
    """

    def __init__(self, start: int, stop: int, end: int, codes: CodeArray, n_rows: int) -> None:
        self.start, self.stop, self.end = start, stop, end
        self.codes, self.n_rows = codes, n_rows

    def counts(self) -> tuple[IntArray, IntArray]:
        """Return by variant the sum of copies - 1 where called, and how many are called."""
        return count_codes(self.codes, self.n_rows)

    def squared_norms(
        self,
        slopes: IntArray,
        offsets: IntArray,
        ends: IntArray,
        pair_weight: int,
        diagonal_weight: int,
    ) -> IntArray:
        """Return for each person a bound on the squared norm of its part in the sums of products.

        The norm is pair_weight^2 times the sum of (v_i v_j)^2 over start <= i < stop and i < j <
        ends[i], and diagonal_weight^2 times the sum of v_i^4 over these i where called. The bound
        is never below it. It is above by less than 1 in 5,000, and by what rounding squares up
        does in windows whose squares sum to more than 2^24. Where it is beyond 2^62 it is the
        largest int64. It depends on the person's own genotypes alone.
        """
        slopes, offsets, own_ends = self._checked(slopes, offsets, ends)
        weights = int(pair_weight) ** 2, int(diagonal_weight) ** 2
        if not weights[0]:
            raise ParameterError("pair_weight must not be 0: norms are counted in its square.")
        squares = squares_of(slopes, offsets)
        bounds = norm_bounds(self.codes, squares, own_ends, *weights)
        return bounds.reshape(-1)[: self.n_rows]

    def products(
        self, kept: BoolArray, slopes: IntArray, offsets: IntArray, ends: IntArray
    ) -> tuple[IntArray, IntArray]:
        """Return exact sums over kept persons of v_i v_j, i < j < ends[i], and of v_i^2."""
        slopes, offsets, own_ends = self._checked(slopes, offsets, ends)
        if np.shape(kept) != (self.n_rows,) or np.asarray(kept).dtype != bool:
            raise ParameterError(
                f"kept must say True or False of each of {self.n_rows} persons, got shape "
                f"{np.shape(kept)}: give one for each."
            )
        return product_sums(self.codes, np.asarray(kept), slopes, offsets, own_ends)

    def _checked(
        self, slopes: IntArray, offsets: IntArray, ends: IntArray
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Return the block as int64, and ends of own variants relative to its start."""
        given = [np.asarray(each) for each in (slopes, offsets, ends)]
        if any(each.dtype.kind not in "iu" for each in given):
            raise ParameterError("slopes, offsets and ends must be integers: round them.")
        a, b, last = (each.astype(np.int64) for each in given)
        n, owned = self.end - self.start, self.stop - self.start
        if a.shape != (n,) or b.shape != (n,) or not owned <= len(last) <= n:
            raise ParameterError(
                f"slopes and offsets must have {n} entries and ends at least {owned}, got "
                f"{a.shape}, {b.shape} and {last.shape}: give one for each variant of the block."
            )
        slope, offset = (np.clip(each, -_FAR, _FAR) for each in (a, b))  # no product wraps around
        largest = max(int(np.abs(copies * slope - offset).max(initial=0)) for copies in range(3))
        if largest > LARGEST_VALUE:
            raise ParameterError(
                f"slopes and offsets must keep values within {LARGEST_VALUE}, got {largest}: "
                "scale them down."
            )
        last = last[:owned]
        if np.any(np.diff(last) < 0) or (owned and int(last[-1]) > self.end):
            raise ParameterError(
                f"ends must not decrease and be at most {self.end}, which the block reaches: read "
                "blocks with a larger reach."
            )
        return a, b, last - self.start


def _opened_path(path: Path) -> GenotypeRecords:
    if path.suffix == ".bed":
        file = BedFile(path)
        shape = file.n_records, file.n_features
        return GenotypeRecords(shape, file.read, file.names, file.positions, file.chromosomes)
    if path.suffix == ".npy":
        table = map_npy(path)
        return _of_columns(table.shape, lambda a, b: table[:, a:b], None)
    if path.suffix == ".parquet":
        return _of_parquet(str(path))
    raise DataError(
        f"{path} must end in .bed, .npy or .parquet: convert it, for instance by plink2 --make-bed."
    )


def _of_parquet(path: str) -> GenotypeRecords:
    """Return a file of which columns are read as they are needed."""
    whole = whole_file(path, "parquet", TextOptions())
    schema, rows = schema_of(whole), whole.n_rows
    names = choose_columns([path], [schema], None)
    with readable(path):
        from pyarrow.parquet import ParquetFile

        file = ParquetFile(path)

    def columns(a: int, b: int) -> NDArray[Any]:
        with readable(path):
            return _of_arrow(file.read(columns=list(names[a:b])))

    return _of_columns((rows, len(names)), columns, names)


def _of_arrow(table: Any) -> NDArray[np.float64]:
    out = np.empty(table.shape, dtype=np.float64, order="F")
    for place, column in enumerate(table.columns):
        out[:, place] = column.to_numpy()  # nulls are NaN
    return out


def _of_columns(
    shape: tuple[int, ...],
    columns: Callable[[int, int], NDArray[Any]],
    names: tuple[str, ...] | None,
) -> GenotypeRecords:
    def read(start: int, stop: int, codes: CodeArray) -> None:
        table = columns(start, stop)
        if table.shape != (shape[0], stop - start):  # compiled loops trust it
            raise DataError("X must stay as it is while it is in use, and changed: fit again.")
        if table.dtype.kind == "O":
            table = numbers_of(table, None, strict=True)
        if not pack_calls(table, codes):
            raise DataError(f"X must hold genotypes, got another number: {_CURE}")

    return GenotypeRecords((shape[0], shape[1]), read, names, in_pieces=True)
