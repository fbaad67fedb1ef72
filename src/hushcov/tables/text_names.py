"""Names of the columns of text files: from the first line, from somebody, or by position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hushcov.exceptions import DataError
from hushcov.tables.formats import (
    EMPTY,
    TextOptions,
    check_count,
    check_different,
    check_header,
    generated_names,
)
from hushcov.tables.text_layout import first_fields


def known_names(paths: Sequence[str], text: TextOptions, asked: Sequence[object]) -> TextOptions:
    """Check the first lines of text files, and set the names where these lines do not have them.

    Blanks around names are left out, unless a name that is `asked` for has them.
    """
    found = {path: first_fields(path, text.delimiter_of(path)) for path in paths}
    named = text.names is not None and not text.header  # then a file may be empty
    for path, fields in found.items():
        if not fields and not named:
            raise DataError(f"{path} {EMPTY}")
    if text.header and text.names is None:
        for path, names in found.items():
            check_header(path, names, text)
            check_different(path, names)
        exact = any(isinstance(name, str) and name != name.strip() for name in asked)
        return text if exact else replace(text, names=trimmed(list(found.values())))
    text = replace(text, names=text.names or generated_names(len(found[paths[0]])))
    for path, fields in found.items():
        if fields:
            check_count(path, len(fields), text.names or ())
    return text


def trimmed(found: Sequence[Sequence[str]]) -> tuple[str, ...] | None:
    """The names without blanks around them, if that can be said for all files at once.

    None if there are no blanks, files differ, or two names would be one.
    """
    first = tuple(found[0])
    plain = tuple(name.strip() for name in first)
    same = all(tuple(names) == first for names in found)
    return plain if plain != first and same and len({*plain}) == len(plain) else None
