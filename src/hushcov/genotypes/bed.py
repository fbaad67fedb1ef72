"""PLINK's `.bed` files: two bits a genotype, variant by variant.

The bytes are read as they are, since sums count their bits. Readers that give numbers, such as
bed-reader, write a byte for each genotype, which takes longer than the sums.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcov._arrays import IntArray
from hushcov._files import as_path, os_errors
from hushcov.exceptions import DataError, ParameterError, RecordsFileError, raise_alone
from hushcov.genotypes.kernels import CodeArray, pack_calls, row_words

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
    """Persons of a `.fam` file: its lines, of which none is blank and each has its end.

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
    """Chromosomes, names and positions of variants.

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
    """The path of a `.bed` file, or a refusal of other names."""
    found = as_path("path", path, "give the name of a .bed file.")
    if found.suffix != ".bed":
        raise ParameterError(f"path must end in .bed, got {found}: the other files are beside it.")
    return found
