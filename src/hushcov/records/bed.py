"""PLINK's `.bed` files: two bits a genotype, variant by variant.

The bytes are read as they are, since sums count their bits. Readers that give numbers, such as
bed-reader, write a byte for each genotype, which takes longer than the sums.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcov._files import os_errors
from hushcov.exceptions import DataError, RecordsFileError
from hushcov.records.genotype_kernels import CodeArray, pack_calls, row_words

_MAGIC = b"\x6c\x1b"
_VARIANT_MAJOR, _SAMPLE_MAJOR = b"\x01", b"\x00"
_HEADER = len(_MAGIC) + 1
_ROWS_AT_ONCE = 512  # rows that one call to the system fills
_REMAKE = "write it again, for instance by plink2 --make-bed."


class BedFile:
    """A `.bed` file with its `.bim` and `.fam` beside it.

    Copies of the first allele of the `.bim` file (A1) are counted.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.n_records = _count_lines(path.with_suffix(".fam"))
        chromosomes, names, positions = _read_bim(path.with_suffix(".bim"))
        self.chromosomes, self.names, self.positions = chromosomes, names, positions
        self.n_features = len(names)
        self._row_bytes = -(-self.n_records // 4)
        with os_errors(path, "read", RecordsFileError), path.open("rb") as file:
            head, size = file.read(_HEADER), os.fstat(file.fileno()).st_size
        if head == _MAGIC + _SAMPLE_MAJOR:
            raise DataError(
                f"{path} must have its genotypes variant by variant, got person by person: {_REMAKE}"
            )
        if head != _MAGIC + _VARIANT_MAJOR:
            raise DataError(f"{path} must begin as a PLINK .bed file, got other bytes: {_REMAKE}")
        expected = _HEADER + self.n_features * self._row_bytes
        if size != expected:
            raise DataError(
                f"{path} must have {expected:,} bytes for {self.n_records:,} lines of the .fam and "
                f"{self.n_features:,} of the .bim file, got {size:,}: take three files that were "
                f"written together, or {_REMAKE}"
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
    """Persons of a `.fam` file; what is in its lines is not looked at."""
    with os_errors(path, "read", RecordsFileError):
        count = sum(1 for line in path.open("rb") if line.strip())
    if not count:
        raise DataError(f"{path} must have a line for each person, got none: {_REMAKE}")
    return count


def _read_bim(path: Path) -> tuple[tuple[str, ...], tuple[str, ...], NDArray[np.int64]]:
    """Chromosomes, names and positions of variants."""
    with os_errors(path, "read", RecordsFileError):
        lines = path.read_text(encoding="utf-8").splitlines()
    fields = [line.split(None, 4) for line in lines if line.strip()]
    try:
        chromosomes, names = (tuple(each[k] for each in fields) for k in range(2))
        positions = np.array([int(each[3]) for each in fields], dtype=np.int64)
    except (IndexError, ValueError):
        raise DataError(
            f"{path} must have chromosome, name, distance, position and two alleles in each line, "
            f"got another: {_REMAKE}"
        ) from None
    if not names:
        raise DataError(f"{path} must have a line for each variant, got none: {_REMAKE}")
    return chromosomes, names, positions


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
        Copies of an allele, int8, persons by variants, -1 where the call is missing; or an iterable
        of such arrays for successive variants, so that they need not fit in memory.
    names, chromosomes, positions
        Of the variants; otherwise variant1 and so on, 1, and 1 and so on. Persons are numbered.
    """
    bed = Path(path)
    blocks = [genotypes] if isinstance(genotypes, np.ndarray) else genotypes
    n_records, d = 0, 0
    with bed.open("wb") as file:
        file.write(_MAGIC + _VARIANT_MAJOR)
        for block in blocks:
            n_records = len(block)
            codes = np.zeros((block.shape[1], row_words(n_records)), dtype=np.uint32)
            if not pack_calls(block, codes):
                raise DataError("genotypes must be 0, 1 or 2, or negative where missing.")
            file.write(np.ascontiguousarray(codes.view(np.uint8)[:, : -(-n_records // 4)]).data)
            d += block.shape[1]
    names = [f"variant{i + 1}" for i in range(d)] if names is None else names
    chromosomes = ["1"] * d if chromosomes is None else chromosomes
    places = range(1, d + 1) if positions is None else positions
    with bed.with_suffix(".bim").open("w", encoding="utf-8") as file:
        for chromosome, name, place in zip(chromosomes, names, places, strict=True):
            file.write(f"{chromosome}\t{name}\t0\t{place}\tA\tG\n")
    with bed.with_suffix(".fam").open("w", encoding="utf-8") as file:
        file.writelines(f"{i + 1} {i + 1} 0 0 0 -9\n" for i in range(n_records))
