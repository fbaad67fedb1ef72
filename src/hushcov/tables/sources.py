"""`open_records`, and the kinds of records that need no other package.

These are arrays, DataFrames, tensors and `.npy` files, checked to be tables of numbers. Files of
columns and clusters have modules of their own, which are loaded when such a source is opened.
"""

from __future__ import annotations

import copy
import math
import mmap
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from hushcov._arrays import BoolArray, FloatArray, is_tensor
from hushcov._validation import check_integer, listed, shown
from hushcov.exceptions import (
    DataError,
    DataTypeError,
    ParameterError,
    RecordsFileError,
    own_errors,
    raise_alone,
)
from hushcov.kernel.records.base import (
    MISSING_CURE,
    CountedRecords,
    PartitionedRecords,
    Records,
    default_block_rows,
    source_of,
)

if TYPE_CHECKING:
    from hushcov.tables.codebook import Codebook

#: Formats of files of columns, by the endings of their names.
FORMATS = {
    ".parquet": "parquet",
    ".arrow": "ipc",
    ".feather": "ipc",
    ".ipc": "ipc",
    ".csv": "csv",
    ".tsv": "csv",
    ".csv.gz": "csv",
    ".tsv.gz": "csv",
}
#: Characters of a path that make it a pattern.
WILDCARDS = set("*?[")
_NUMERIC_KINDS = "biuf"
_NPY_HEADER_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
#: Kinds of columns by their types: objects may be anything, and empty columns have only nulls.
NUMERIC, TRUTH, TEXT, OBJECT, EMPTY, OTHER = "number", "truth", "text", "object", "empty", "other"
_OF_NUMPY = {"b": TRUTH, "O": OBJECT, "T": TEXT, "U": TEXT, **dict.fromkeys("iuf", NUMERIC)}
_OF_POLARS = {"Boolean": TRUTH, "Null": EMPTY, "String": TEXT, "Categorical": TEXT, "Enum": TEXT}


@own_errors("while they were opened")
def open_records(
    source: object,
    *,
    columns: Sequence[str] | None = None,
    leave_out: Sequence[str | int] = (),
    header: bool = True,
    names: Sequence[str] | None = None,
    delimiter: str | None = None,
    block_rows: int | None = None,
    codebook: Codebook | None = None,
    scratch: str | os.PathLike[str] | None = None,
    memory: float | None = None,
) -> Records:
    """Return `source` as Records.

    Parameters
    ----------
    source
        Records themselves, an array-like, a DataFrame, a PyTorch tensor, a dask array or
        dataframe, or a path: a `.npy` file, or Parquet, Arrow or CSV files (see `FileRecords`).
    columns
        Features to read from files, by name.
    leave_out
        Columns of files that are no features, such as identifiers of units.
    header, names, delimiter
        How CSV files are read; see `FileRecords`.
    block_rows
        Most rows in a block; it changes speed and memory, never a result.
    codebook
        What is publicly known of columns by name (`hushcov.read_codebook`), for files, DataFrames
        (those of dask, too) and Arrow tables. Categories become one-hot columns. Estimators take
        `codebook.bounds`.
    scratch
        For files: a folder where a copy without a name may be written; see `FileRecords`.
    memory
        For files: gigabytes of that copy that may be kept in memory; see `FileRecords`.
    """
    if codebook is not None:
        from hushcov.tables.codebook import FrameRecords, check_codebook, code_categories

        check_codebook(codebook)
    for_files: dict[str, Any] = {"columns": columns, "header": header, "names": names}
    for_files |= {"delimiter": delimiter, "scratch": scratch, "memory": memory}
    if is_file_source(source):
        from hushcov.tables.files import FileRecords

        for_files |= {"block_rows": block_rows, "codebook": codebook}
        files = FileRecords(source, leave_out=leave_out, **for_files)
        known = files.codebook
        return files if known is None else code_categories(files, known, block_rows)
    for name, value in (for_files | {"leave_out": leave_out or None}).items():
        if value is not (True if name == "header" else None):
            raise ParameterError(
                f"{name} must be left out unless the records are in files of columns "
                f"({', '.join(FORMATS)}), got {shown(value)}: choose columns of an array by "
                "indexing it."
            )
    if codebook is not None:
        frame: Any = FrameRecords(source, codebook)
        codebook = frame.codebook
        if hasattr(source, "to_dask_array"):
            from hushcov.tables.cluster import DaskRecords

            frame = DaskRecords(frame)
        return code_categories(frame, codebook, block_rows)
    return _open_other(source, block_rows)


def _open_other(source: object, block_rows: int | None) -> Records:
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
            if not os.path.exists(path):
                raise RecordsFileError(f"{path} does not exist: check the path.")
            raise DataError(
                f"{path} must be a folder, a pattern, or a file whose name ends in .npy, "
                f"{', '.join(FORMATS)}: save it as CSV from the program that made it, or load it "
                "in Python and pass an array or a DataFrame."
            )
        return NpyRecords(path, block_rows=block_rows)
    if _is_from(source, "dask"):
        from hushcov.tables.cluster import DaskRecords

        return DaskRecords(source)
    if is_tensor(source):
        return TensorRecords(source, block_rows=block_rows)
    records = ArrayRecords(source, block_rows=block_rows)
    records.refuse_text_columns()
    return records


def is_file_source(source: object) -> bool:
    """Return whether `source` names files that `FileRecords` reads, or might."""
    if isinstance(source, list | tuple):
        return bool(source) and all(isinstance(item, str | os.PathLike) for item in source)
    if not isinstance(source, str | os.PathLike):
        return False
    # Unlike Path.is_dir, os.path.isdir has an answer for names that are too long.
    known = format_of(Path(source).name) or os.path.isdir(source)
    return bool(known or WILDCARDS & set(str(source)))


def format_of(path: str) -> str | None:
    """Return the format by the ending of a file's name, or None."""
    return next((kind for ending, kind in FORMATS.items() if path.endswith(ending)), None)


class TableRecords(Records):
    """Rows of a numeric 2-D array, in memory or mapped, converted block by block."""

    def __init__(self, table: NDArray[Any], block_rows: int | None) -> None:
        self.n_records, self.n_features = table.shape
        self.block_rows = check_block_rows(block_rows, default_block_rows(self.n_features))
        self._table = table
        self._kept: list[int] | None = None  # places of the features, where some columns are none

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of rows and columns of the table."""
        return self._table.shape

    def column(self, place: int) -> NDArray[Any]:
        """Return one column of the table, as it is."""
        return self._table[:, place]

    def without(self, place: int) -> Self:
        """Return a copy where one column is no feature."""
        other = copy.copy(self)
        kept = range(self.shape[1]) if self._kept is None else self._kept
        other._kept = [i for i in kept if i != place]
        check_table("X", (self.n_records, len(other._kept)), self._table.dtype, kinds="biufO")
        if self.feature_names is not None:
            named = zip(kept, self.feature_names, strict=True)
            other.feature_names = tuple(name for i, name in named if i != place)
        other.n_features = len(other._kept)
        return other

    def refuse_text_columns(self) -> None:
        """Refuse columns of objects that are text, by their first rows."""
        if self._table.dtype.kind == "O":
            text = [i for i, own in enumerate(self._table.T) if _is_text(own)]
            names = self.feature_names or [f"column {i}" for i in range(self.n_features)]
            refuse_text([names[i] for i in text], named=self.feature_names is not None)

    def _blocks(self) -> Iterator[FloatArray]:
        for start in range(0, self.n_records, self.block_rows):
            rows = self._table[start : start + self.block_rows]
            if self._kept is not None:
                rows = rows[:, self._kept]
            if rows.dtype.kind == "O":
                rows = numbers_of(rows, self.feature_names, strict=self.strict or not self.gaps)
            # A wider float that does not fit becomes infinite here, and is no number then.
            with np.errstate(all="ignore"):
                block = np.ascontiguousarray(rows, dtype=np.float64)
            if rows.dtype.kind == "f":
                block = without_invalid(block, strict=self.strict or not self.gaps)
            # The block may be a view of the user's own array.
            block.setflags(write=False)
            yield block


class ArrayRecords(TableRecords):
    """Records held in memory; the array is not copied, so leave it unchanged while in use.

    They are real numbers of any type and memory layout, objects too, or a DataFrame.
    """

    in_memory = True

    def __init__(self, X: object, *, block_rows: int | None = None) -> None:
        super().__init__(numeric_table(X), block_rows)
        self.feature_names, self.indicators = names_of(X), boolean_columns(X)


class NpyRecords(TableRecords):
    """Records in a `.npy` file, memory-mapped, so that they need not fit in memory."""

    def __init__(self, path: str | os.PathLike[str], *, block_rows: int | None = None) -> None:
        super().__init__(map_npy(Path(path)), block_rows)

    def _blocks(self) -> Iterator[FloatArray]:
        done = 0
        for block in super()._blocks():
            yield block
            _let_go(self._table, done, done + len(block))
            done += len(block)


class TensorRecords(Records):
    """Rows of a PyTorch tensor of real numbers, not copied, summed over on its own device."""

    in_arrays = False

    def __init__(self, tensor: Any, *, block_rows: int | None = None) -> None:
        from hushcov.engines.records import device_block_rows, import_torch

        torch = import_torch()
        if tensor.is_complex() or tensor.is_sparse or tensor.is_quantized:
            raise DataError(
                f"X must be a dense tensor of real numbers, got {tensor.dtype}: convert it first."
            )
        check_table("X", tuple(tensor.shape), np.dtype(np.float64), kinds="f")
        self.n_records, self.n_features = tensor.shape
        self.block_rows = check_block_rows(block_rows, device_block_rows(self.n_features))
        self._tensor, self._double = tensor.detach(), torch.float64
        self.on_device, self.device = True, tensor.device

    def _blocks(self) -> Iterator[Any]:
        for start in range(0, self.n_records, self.block_rows):
            block = self._tensor[start : start + self.block_rows].to(self._double)
            if self.gaps and not self.strict and block.isinf().any():
                block = block.masked_fill(block.isinf(), math.nan)
            yield block


class DeclaredRecords(Records):
    """A stated number of records of these features, to plan with; they are never read."""

    def __init__(
        self, n_records: int, n_features: int, names: tuple[str, ...] | None = None
    ) -> None:
        self.n_records, self.n_features = n_records, n_features
        self.feature_names = names

    def column(self) -> NoReturn:
        """Stand in for a column of identifiers or weights, which is never read."""
        raise AssertionError("records that are only declared have no values")

    _blocks = column


def numeric_table(source: object) -> NDArray[Any]:
    """Return a 2-D array of numbers, or of objects, whose values `numbers_of` checks later."""
    if hasattr(source, "nnz"):
        raise DataError(
            "X must be dense, got a sparse matrix: pass X.toarray(), or a .npy file if that does "
            "not fit in memory."
        )
    if isinstance(source, np.ma.MaskedArray):
        raise DataError(
            "X must not be masked, got a masked array: pass X.astype(float).filled(numpy.nan)."
        )
    check_frame(source)
    try:
        table = np.asarray(source)
    except Exception:  # what an object's own conversion raises may quote its values
        raise_alone(
            DataError(
                f"X must be a 2-D array of real numbers, got a {type(source).__name__} that does "
                "not convert to one: give every record the same number of features."
            )
        )
    check_table("X", table.shape, table.dtype, kinds=_NUMERIC_KINDS + "O")
    return table


def boolean_columns(X: object) -> frozenset[str]:
    """Return the names of columns of a frame or an Arrow table whose type is boolean."""
    known = _column_types(X)
    return frozenset(str(name) for name, kind in known if str(kind).lower().startswith("bool"))


def names_of(source: object) -> tuple[str, ...] | None:
    """Return the names of columns of a DataFrame if all are text, which is scikit-learn's rule."""
    names = tuple(name for name, _ in _column_types(source))
    return names if names and all(isinstance(name, str) for name in names) else None


def numbers_of(table: NDArray[Any], names: tuple[str, ...] | None, *, strict: bool) -> FloatArray:
    """Return objects as numbers, and NaN for those that are missing.

    With `strict`, a value that is not a number is an error, and NaN otherwise.
    """
    from hushcov.tables.cells import PLAIN, not_numbers, remembered

    found = remembered(PLAIN.value, table.ravel()).reshape(table.shape)
    if not strict:
        return without_invalid(found, strict=False)
    wrong = not_numbers(found, table)
    if wrong.any():
        raise DataTypeError(
            "X must hold real numbers, got dtype object with something else in "
            f"it{_where(wrong, names)} (an argument must be neither string nor other than a "
            "number): let an estimator count such values as missing, which it does unless "
            "on_invalid='raise' or drop_nulls=False; or set each to NaN by a rule that uses its "
            "own record alone, as pandas.to_numeric(X[column], errors='coerce')."
        )
    return found


def filled(values: FloatArray, fill: float | None) -> FloatArray:
    """Return values with a public one for those that are missing, each record on its own."""
    return values if fill is None else np.where(np.isnan(values), fill, values)


def _where(bad: BoolArray, names: tuple[str, ...] | None) -> str:
    columns = [] if names is None else [names[i] for i in np.flatnonzero(bad.any(axis=0))]
    return f" in {listed(columns)}" if columns else ""


def map_npy(path: Path) -> NDArray[Any]:
    """Map the array in a `.npy` file into memory, after checking its header."""
    from hushcov._files import os_errors

    try:
        with os_errors(path, "read", RecordsFileError), path.open("rb") as file:
            shape, _, dtype = _NPY_HEADER_READERS[npy.read_magic(file)](file)
    except RecordsFileError:
        raise
    except Exception:  # numpy's header parser lets errors of many types through
        raise_alone(
            DataError(
                f"{path} is not a .npy file of numbers, or its header is damaged: write it with "
                "numpy.save(path, X)."
            )
        )
    check_table(str(path), shape, dtype, kinds=_NUMERIC_KINDS)
    try:
        with np.errstate(all="ignore"):  # a size that overflows is a size that does not fit
            return np.asarray(npy.open_memmap(path, mode="r"))
    except (ValueError, OSError, OverflowError):
        raise_alone(
            DataError(
                f"{path} is shorter than its header says: the file is truncated; copy or write it "
                "again."
            )
        )


def _let_go(table: NDArray[Any], first: int, last: int) -> None:
    """Tell the system that rows `first` to `last` - 1 need not stay in the memory of this process.

    Where the rows of a column are together, all parts of the file are in use until the end.
    """
    memory: Any = getattr(table.base, "_mmap", None)
    if not table.flags.c_contiguous or not hasattr(memory, "madvise"):
        return
    header, page = len(memory) - table.nbytes, mmap.PAGESIZE
    start, stop = ((header + row * table.strides[0]) // page * page for row in (first, last))
    if start < stop:
        memory.madvise(mmap.MADV_DONTNEED, start, stop - start)


def check_table(name: str, shape: tuple[int, ...], dtype: np.dtype[Any], *, kinds: str) -> None:
    """Refuse what is not a table of real numbers, by its shape and type, saying no record count."""
    if len(shape) != 2:
        raise DataError(
            f"{name} must have two dimensions, records by features, got {len(shape)}: a single "
            "feature is X.reshape(-1, 1)."
        )
    if shape[1] == 0:
        # In the words scikit-learn uses for the same refusal, which allow for a number left out.
        raise DataError(
            f"{name} must have at least one feature: found an array with 0 feature(s) "
            "(shape=(, 0)) while a minimum of 1 is required. Check how it was loaded."
        )
    if dtype.kind == "c":
        raise DataError(
            f"{name} must hold real numbers. Complex data not supported: pass real and imaginary "
            "parts as columns of their own."
        )
    if dtype.kind not in kinds:
        # The type only: the dtype of strings tells the length of the longest one.
        raise DataError(
            f"{name} must hold real numbers, got dtype {dtype.type.__name__}: encode its columns "
            "as integers or floats."
        )


def check_frame(source: Any, *, texts: Sequence[str] = ()) -> None:
    """Refuse a DataFrame with columns of other types than numbers; the error names them all.

    Columns in `texts` may be of any type.
    """

    def refused(place: int, kind: Any, text_too: bool) -> bool:
        if column_kind(kind) not in (NUMERIC, TRUTH, OBJECT, EMPTY):
            return True
        return text_too and str(kind) == "object" and _is_text(np.asarray(source.iloc[:, place]))

    known = [(i, *each) for i, each in enumerate(_column_types(source)) if each[0] not in texts]
    # Text is of objects before pandas 3. It is refused later, but named here if anything is.
    more = _is_from(source, "pandas") and any(refused(i, kind, False) for i, _, kind in known)
    bad = [(name, kind) for i, name, kind in known if refused(i, kind, more)]
    if bad:
        # The first word only: the full name of a categorical type lists its categories.
        kinds = ", ".join(sorted({str(kind).partition("(")[0] for _, kind in bad}))
        raise DataTypeError(
            f"X must hold numbers, but {listed([name for name, _ in bad])} "
            f"{'has' if len(bad) == 1 else 'have'} type {kinds}: {_TEXT_CURE}"
        )


_TEXT_CURE = (
    "describe answers in a codebook, leave the columns out, or encode them by a public rule, as "
    "X['smoker'].eq('yes').astype(float); or, if a column says whose a row is, name it: "
    "fit(X, unit='id'). Single values that are not numbers, such as typos, count as missing in "
    "columns of numbers: pandas.to_numeric(X[column], errors='coerce') makes one."
)


def _is_text(objects: NDArray[Any]) -> bool:
    """Return whether a column of objects is text, by its first rows."""
    from hushcov.tables.cells import FIRST_ROWS, PLAIN, is_text, remembered

    first = objects[:FIRST_ROWS]
    return is_text(remembered(PLAIN.value, first), first)


def refuse_text(names: Sequence[str], *, named: bool = True) -> None:
    """Refuse columns of objects that hold text, if there are any."""
    if names:
        words = listed(names) if named else ", ".join(names)
        has = "has" if len(names) == 1 else "have"
        raise DataTypeError(
            f"X must hold numbers, but {words} {has} text (dtype object): {_TEXT_CURE}"
        )


def columns_of_kind(source: Any, *kinds: str) -> list[str]:
    """Return the columns of a DataFrame or an Arrow table that hold these kinds by their types."""
    return [name for name, kind in _column_types(source) if column_kind(kind) in kinds]


def column_kind(kind: Any) -> str:
    """Return what a column of this type of NumPy, pandas, polars or pyarrow holds."""
    if hasattr(kind, "categories") and hasattr(kind, "kind"):  # a categorical type of pandas
        inner = column_kind(kind.categories.dtype)
        # Objects are text here: pandas before 3 has no other type for text.
        return TEXT if inner == OBJECT else inner
    if isinstance(kind, np.dtype):
        return _OF_NUMPY.get(kind.kind, OTHER)
    if hasattr(kind, "is_numeric"):  # of polars
        return NUMERIC if kind.is_numeric() else _OF_POLARS.get(str(kind).partition("(")[0], OTHER)
    if hasattr(kind, "kind"):  # of pandas
        return TEXT if kind.kind == "O" else _OF_NUMPY.get(kind.kind, OTHER)
    from pyarrow import types

    inner = kind.value_type if types.is_dictionary(kind) else kind
    found = {
        TEXT: types.is_string(inner) or types.is_large_string(inner) or "view" in str(inner),
        TRUTH: types.is_boolean(kind),
        EMPTY: types.is_null(kind),
        NUMERIC: types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind),
    }
    return next((held for held, so in found.items() if so), OTHER)


def refuse_stated_nulls(source: Any, records: Records) -> None:
    """Refuse nulls that a polars frame has counted, or that Parquet files state; read no record."""
    inner: Any = source_of(records)
    source, fills, found = getattr(inner, "frame", source), getattr(inner, "fills", {}), set()
    if hasattr(inner, "spans"):
        from hushcov.tables.formats import stated_nulls

        found = stated_nulls(inner.spans) & set(inner.feature_names)
    elif _is_from(source, "polars") and hasattr(source, "shape"):
        counts = source.null_count()
        found = {name for name in counts.columns if counts[name][0]}
    refuse_nulls(sorted(found - set(fills)))


def refuse_nulls(names: Sequence[str]) -> None:
    """Say which columns have nulls, if any, and what to do."""
    if names:
        has = "has" if len(names) == 1 else "have"
        raise DataError(
            f"records must be complete, but {listed(names)} {has} nulls: {MISSING_CURE}"
        )


def _column_types(source: Any) -> list[tuple[Any, Any]]:
    """Names and types of the columns of a DataFrame or an Arrow table; empty for anything else."""
    if not hasattr(source, "shape") or getattr(source, "ndim", 2) != 2:
        return []  # a single column, or a lazy query of polars, which would have to run
    if _is_from(source, "pyarrow") and hasattr(source, "schema"):
        return list(zip(source.schema.names, source.schema.types, strict=True))
    if not (_is_from(source, "pandas", "polars", "dask") and hasattr(source, "columns")):
        return []
    return list(zip(source.columns, source.dtypes, strict=True))


def _is_from(source: Any, *packages: str) -> bool:
    """Return whether the type, or one that it inherits from, belongs to one of these packages."""
    return any(kind.__module__.partition(".")[0] in packages for kind in type(source).__mro__)


def check_block_rows(block_rows: int | None, default: int) -> int:
    """Return the rows in a block: a positive integer, or the default for None."""
    given, cure = default if block_rows is None else block_rows, "leave it out for the default."
    return check_integer("block_rows", given, at_least=1, cure=cure)


def without_invalid(values: FloatArray, *, strict: bool) -> FloatArray:
    """Return values with NaN for what is no number; as they are if that is an error."""
    if strict or not np.isinf(values).any():
        return values
    return np.where(np.isinf(values), np.nan, values)


def check_enough(name: object, records: Any) -> None:
    """Refuse a table without records where their number is public, in scikit-learn's words."""
    n, d = records.n_records, records.n_features
    if n < 1:
        raise DataError(
            f"{name} must have at least 1 record: found an array with {n} sample(s) "
            f"(shape={(n, d)}) while a minimum of 1 is required. Check how it was loaded."
        )


def are_elsewhere(records: Records) -> bool:
    """Return whether workers of a cluster read the records."""
    return isinstance(source_of(records), PartitionedRecords)


def memory_given(records: Records) -> int | None:
    """Return the bytes that copies of the records may take, where that was said."""
    return source_of(records).memory


def with_count(records: Records, n_records: int) -> Records:
    """Return records of which it is not public how many there are, with a number to plan for."""
    return CountedRecords(records, n_records)
