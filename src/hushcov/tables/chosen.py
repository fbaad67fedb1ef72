"""Which columns of files are features; all that is wrong with them is said at once."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from hushcov._validation import listed, shown
from hushcov.exceptions import DataError, ParameterError
from hushcov.tables.formats import TextOptions, arrow, no_numbers, no_numbers_in_text
from hushcov.tables.sources import is_arrow_number

_FOLDER = "="  # in the name of a folder that tells a value


def chosen_columns(
    paths: Sequence[str],
    schemas: Sequence[Any],
    columns: Sequence[str] | None,
    *,
    texts: Sequence[str] = (),
    left_out: Sequence[str] = (),
    options: TextOptions | None = None,
) -> tuple[str, ...]:
    """Return the features, after checking that they are columns of numbers in every file.

    Those in `texts` may be of any type. Those that are left out are none. `options` are those of
    text files.
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
        wrong += _no_numbers(path, schema, numbers, options or TextOptions())
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


def _no_numbers(path: str, schema: Any, names: Sequence[str], options: TextOptions) -> list[str]:
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
    if text:  # all of it is text, and what it reads as may differ from one block to the next
        return [no_numbers_in_text(path, bad, options)]
    return [no_numbers(path, bad, [_type_words(kinds[name]) for name in bad])]


def _type_words(kind: Any) -> str:
    """A type by a word that is no jargon, if there is one."""
    types = arrow().types
    if types.is_string(kind) or types.is_large_string(kind):
        return "text"
    return "date or time" if types.is_temporal(kind) else str(kind)
