"""Names of the columns of text files: from the first line, from somebody, or by position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hushcov.records.formats import (
    TextOptions,
    check_count,
    check_header,
    check_last_line,
    generated_names,
    is_empty,
    schema_of,
)


def known_names(paths: Sequence[str], text: TextOptions, asked: Sequence[object]) -> TextOptions:
    """Check the first lines of text files, and set the names where these lines do not have them.

    Blanks around names are left out, unless a name that is `asked` for has them.
    """
    if text.header and text.names is None:
        found = {path: _checked_names(path, text) for path in paths}
        counts = {path: len(names) for path, names in found.items()}
        exact = any(isinstance(name, str) and name != name.strip() for name in asked)
        text = text if exact else replace(text, names=trimmed(list(found.values())))
    else:
        by_position = replace(text, header=False, names=None)
        there = [path for path in paths if text.names is None or not is_empty(path)]
        counts = {path: len(schema_of(path, "csv", by_position).names) for path in there}
        text = replace(text, names=text.names or generated_names(counts[paths[0]]))
        for path, count in counts.items():
            check_count(path, count, text.names or ())
    for path, count in counts.items():
        if count == 1:
            check_last_line(path)
    return text


def _checked_names(path: str, text: TextOptions) -> tuple[str, ...]:
    names = tuple(schema_of(path, "csv", text).names)
    check_header(path, names, text)
    return names


def trimmed(found: Sequence[Sequence[str]]) -> tuple[str, ...] | None:
    """The names without blanks around them, if that can be said for all files at once.

    None if there are no blanks, files differ, two names would be one, or the first line has an end
    inside of quotes: names that replace it are for one line.
    """
    first = tuple(found[0])
    plain = tuple(name.strip() for name in first)
    same = all(tuple(names) == first for names in found)
    lines = any(sign in name for name in first for sign in "\r\n")
    return plain if plain != first and same and not lines and len({*plain}) == len(plain) else None
