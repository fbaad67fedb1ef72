"""DataFrames: what their columns are called, and whether they are numbers, before any is read."""

from __future__ import annotations

from typing import Any

import numpy as np

from hushcov._validation import listed
from hushcov.exceptions import DataError, DataTypeError

# Types of polars that become numbers, or nothing at all, though they are not numeric to it.
_NUMBERS_TOO = ("Boolean", "Null")


def column_names(source: Any) -> tuple[Any, ...] | None:
    """Names of the columns of a DataFrame or an Arrow table, or None of anything else."""
    types = _column_types(source)
    return None if types is None else tuple(name for name, _ in types)


def check_frame(source: Any) -> None:
    """Refuse a DataFrame with columns that are no numbers, by their types, all at once."""
    bad = [(name, kind) for name, kind in _column_types(source) or () if not _is_number(kind)]
    if bad:
        # The first word only: the full name of a type of categories lists them.
        kinds = ", ".join(sorted({str(kind).partition("(")[0] for _, kind in bad}))
        raise DataTypeError(
            f"X must hold numbers, but {listed([name for name, _ in bad])} "
            f"{'has' if len(bad) == 1 else 'have'} type {kinds}: encode as numbers, by a public "
            "rule, or select other columns."
        )


def check_no_nulls(source: Any, cure: str) -> None:
    """Refuse a polars DataFrame with nulls, which it counts by itself."""
    if not (_is_from(source, "polars") and hasattr(source, "shape")):
        return
    counts = source.null_count()
    bad = [name for name in counts.columns if counts[name][0]]
    if bad:
        has = "has" if len(bad) == 1 else "have"
        raise DataError(f"records must be complete, but {listed(bad)} {has} nulls: {cure}")


def _column_types(source: Any) -> list[tuple[Any, Any]] | None:
    """Names and types of columns; None if this is no DataFrame."""
    if not hasattr(source, "shape") or getattr(source, "ndim", 2) != 2:
        return None  # one column of a table, or a query of polars, which would have to run
    if _is_from(source, "pyarrow") and hasattr(source, "schema"):
        return list(zip(source.schema.names, source.schema.types, strict=True))
    if not (_is_from(source, "pandas", "polars", "dask") and hasattr(source, "columns")):
        return None
    return list(zip(source.columns, source.dtypes, strict=True))


def _is_from(source: Any, *packages: str) -> bool:
    """Whether the type, or one that it extends, is of one of these packages."""
    return any(kind.__module__.partition(".")[0] in packages for kind in type(source).__mro__)


def _is_number(kind: Any) -> bool:
    """Whether a column of this type holds numbers, or objects that have to be looked at."""
    if hasattr(kind, "categories") and hasattr(kind, "kind"):
        return _is_number(kind.categories.dtype)
    if isinstance(kind, np.dtype):
        return kind.kind in "biufO"
    if hasattr(kind, "kind"):
        return kind.kind in "biuf"
    if hasattr(kind, "is_numeric"):
        return bool(kind.is_numeric()) or str(kind) in _NUMBERS_TOO
    import pyarrow

    return is_arrow_number(pyarrow, kind) or pyarrow.types.is_null(kind)


def is_arrow_number(pyarrow: Any, kind: Any) -> bool:
    """Whether a type of pyarrow is one of numbers, or boolean."""
    types = pyarrow.types
    numeric = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    return any(is_kind(kind) for is_kind in numeric)
