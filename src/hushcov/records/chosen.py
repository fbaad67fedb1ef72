"""Which columns of files are features; all that is wrong with them is said at once."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from hushcov._validation import listed, shown
from hushcov.exceptions import DataError, ParameterError
from hushcov.records.formats import arrow
from hushcov.records.sources import is_arrow_number

_FOLDER = "="  # in the name of a folder that tells a value
_TYPOS = (
    "make single values that are none, such as typos, empty by a rule that uses their own record "
    "alone, and leave these records out privately by drop_nulls=True (--drop-nulls). If columns "
    "are no numbers by their description, "
)
_DECIMAL_COMMA = (
    " Numbers must have a decimal point: where they have a comma (2,5), write the file again "
    "(pandas.read_csv(..., decimal=',') reads it)."
)


def chosen_columns(
    paths: Sequence[str],
    schemas: Sequence[Any],
    columns: Sequence[str] | None,
    *,
    texts: Sequence[str] = (),
    left_out: Sequence[str] = (),
    commas: bool = True,
) -> tuple[str, ...]:
    """Return the features, after checking that they are columns of numbers in every file.

    Those in `texts` may be of any type. Those that are left out are none. `commas` says whether
    fields are separated by commas, so that no number can have one.
    """
    names = tuple(schemas[0].names if columns is None else columns)
    if columns is None:
        names = tuple(name for name in names if name not in left_out)
    elif set(names) & set(left_out):
        both = [name for name in left_out if name in names]
        raise ParameterError(
            f"columns must have features alone, got {listed(both)}, a unit column that is also a "
            "feature, or a weight: leave it out of the columns."
        )
    if not names:
        raise DataError(
            f"columns must be names that all differ, at least one, got 0: {paths[0]} must have "
            "a column of numbers."
        )
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    wrong = []
    if twice:
        wrong.append(
            f"columns must be names that all differ, got {listed(twice)} more than once: name each "
            f"once, or rename columns of {paths[0]}."
        )
    for path, schema in zip(paths, schemas, strict=True):
        wrong += _not_there(path, schema.names, [name for name in names if name not in twice])
        there = [name for name in dict.fromkeys(names) if schema.names.count(name) == 1]
        numbers = [name for name in there if name not in texts]
        wrong += _no_numbers(path, schema, numbers, commas)
        if wrong:
            raise DataError(_all_of(wrong))
    return names


def check_there(path: str, found: Sequence[str], names: Sequence[str]) -> None:
    """Refuse a file without one of these columns, or with two of its name."""
    wrong = _not_there(path, found, names)
    if wrong:
        use = " It is to say whose a record is, or its weight: if no column does, leave it out."
        raise DataError(_all_of(wrong) + use)


def _all_of(wrong: Sequence[str]) -> str:
    """All mistakes, numbered where there are several."""
    if len(wrong) == 1:
        return wrong[0]
    return " ".join(f"({place}) {words}" for place, words in enumerate(wrong, start=1))


def _not_there(path: str, found: Sequence[str], names: Sequence[str]) -> list[str]:
    """What is wrong with a file without one of these columns, or with two of its name."""
    bad, wrong = [name for name in names if found.count(name) != 1], []
    twice = [name for name in bad if name in found]
    if twice:
        wrong.append(f"{path} must have {listed(twice)} once, got more: rename columns of it.")
    missing = [name for name in bad if name not in found]
    if missing:
        close = [match for name in missing for match in difflib.get_close_matches(name, found, 1)]
        hint = f"did you mean {', '.join(map(shown, dict.fromkeys(close)))}? It" if close else "it"
        wrong.append(
            f"{path} must have {listed(missing)}, got none of that name: {hint} has "
            f"{listed(found)}{' (names of folders are no columns)' * (_FOLDER in path)}."
        )
    return wrong


def _no_numbers(path: str, schema: Any, names: Sequence[str], commas: bool) -> list[str]:
    """What is wrong with columns that do not hold numbers."""
    pa, text = arrow(), path.endswith((".csv", ".tsv", ".gz"))
    kinds = {name: schema.field(name).type for name in names}
    # A column of a text file whose first rows are all null has no type yet.
    bad = [
        name
        for name, kind in kinds.items()
        if not is_arrow_number(pa, kind) and not (text and pa.types.is_null(kind))
    ]
    if not bad:
        return []
    types = ", ".join(dict.fromkeys(_type_words(kinds[name]) for name in bad))
    other = text and not commas
    comma = _DECIMAL_COMMA if other and len(bad) == len(names) else ""
    return [
        f"{path} must hold numbers, but {listed(bad)} {'has' if len(bad) == 1 else 'have'} type "
        f"{types}: {_TYPOS}choose the other columns by columns=[...] (--columns a,b,c), or "
        f"turn answers into numbers by codebook=... (--codebook FILE.csv), which lists them.{comma}"
    ]


def _type_words(kind: Any) -> str:
    """A type by a word that is no jargon, if there is one."""
    types = arrow().types
    if types.is_string(kind) or types.is_large_string(kind):
        return "text"
    return "date or time" if types.is_temporal(kind) else str(kind)
