"""Which columns of files are the features: they must be there, be numbers, and have no nulls."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from hushcov._validation import listed, shown
from hushcov.exceptions import DataError
from hushcov.records.formats import arrow, columns_with_nulls
from hushcov.records.frames import is_arrow_number
from hushcov.records.tables import MISSING_CURE


def chosen_columns(
    paths: Sequence[str], schemas: Sequence[Any], columns: Sequence[str] | None
) -> tuple[str, ...]:
    """The features, after checking that every file has them, and as numbers."""
    names = tuple(schemas[0].names if columns is None else columns)
    if not names or len(set(names)) < len(names):
        raise DataError(
            f"columns must be names that all differ, at least one, got {len(names)} with "
            f"{len(set(names))} different ones: choose columns, or rename them in {paths[0]}."
        )
    for path, schema in zip(paths, schemas, strict=True):
        _check_there(path, schema.names, names)
        _check_types(path, schema, names)
    return names


def check_no_nulls(paths: Sequence[str], file_format: str, names: Sequence[str]) -> None:
    """Refuse columns with nulls, where files say so without being read."""
    found = {name for path in paths for name in columns_with_nulls(path, file_format, names)}
    if found:
        refuse_nulls([name for name in names if name in found])


def refuse_nulls(names: Sequence[str]) -> None:
    """Say which columns have nulls, and what to do."""
    has = "has" if len(names) == 1 else "have"
    raise DataError(f"records must be complete, but {listed(names)} {has} nulls: {MISSING_CURE}")


def _check_there(path: str, found: Sequence[str], names: Sequence[str]) -> None:
    bad = [name for name in names if found.count(name) != 1]
    if not bad:
        return
    twice = [name for name in bad if name in found]
    if twice:
        raise DataError(f"{path} must have {listed(twice)} once, got more: rename columns of it.")
    close = [match for name in bad for match in difflib.get_close_matches(name, found, 1)]
    hint = f"did you mean {', '.join(map(shown, dict.fromkeys(close)))}? " if close else ""
    raise DataError(
        f"{path} must have {listed(bad)}, got none of that name: {hint}choose columns that all "
        "files have (names of folders are no columns)."
    )


def _check_types(path: str, schema: Any, names: Sequence[str]) -> None:
    pa, text = arrow(), path.endswith((".csv", ".tsv", ".gz"))
    kinds = {name: schema.field(name).type for name in names}
    # A column of text files that begins with nulls alone has no type yet.
    bad = [
        name
        for name, kind in kinds.items()
        if not is_arrow_number(pa, kind) and not (text and pa.types.is_null(kind))
    ]
    if not bad:
        return
    types = ", ".join(dict.fromkeys(str(kinds[name]) for name in bad))
    apart = ", or check the delimiter" if text else ""
    raise DataError(
        f"{path} must hold numbers, but {listed(bad)} {'has' if len(bad) == 1 else 'have'} type "
        f"{types}: encode as numbers, choose columns without it{apart}."
    )
