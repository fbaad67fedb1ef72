"""Format numbers for people, the same way in commands, answers, reports and designs."""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Sequence

from hushcov.exceptions import printable

_EXPONENT_FROM = 1e4
_MOST_DIGITS = 12  # of a value with an error
_WHOLE = 1e4, 1e9  # sizes that `figure` writes without an exponent

#: What may be done about nulls, each record by a rule of its own. Records must not be removed: how
#: many are left would not be protected.
NULL_CURES = (
    "leave out columns that are known to be often empty, or fill in a public value ('missing' in a "
    "codebook), with a column beside it that says where: by a rule that uses no other record, and "
    "without removing records"
)


def number(value: float, digits: int = 4) -> str:
    """Return a number to some significant digits: 0.0012, 1,234, 1.461e15."""
    text = f"{value:.{digits}g}"
    if "e+" in text and abs(float(text)) < _EXPONENT_FROM:
        return f"{float(text):,.0f}"
    return re.sub(r"e([+-])0*(\d+)", lambda m: f"e{m[1].strip('+')}{m[2]}", text)


def finite(value: float, digits: int = 3) -> str:
    """Return a number for a page, which says where there is none that can be written."""
    return number(value, digits) if math.isfinite(value) else "out of range"


def figure(value: float, digits: int = 3, *, none: str = "none") -> str:
    """Return a number of a table: 49,800 rather than 4.98e4; `none` where there is none."""
    if math.isnan(value):
        return none
    if not _WHOLE[0] <= abs(value) < _WHOLE[1]:
        return number(value + 0.0, digits)  # no -0
    return f"{float(f'{value:.{digits}g}'):,.0f}"


def two_digits(value: float) -> str:
    """Return a correlation to two digits, and zeros at the end where it is large."""
    return f"{value:.2f}" if abs(value) >= 0.1 else number(value, 2)


def percent(share: float, digits: int = 2) -> str:
    """Return a share in percent."""
    return f"{number(100 * share, digits)} %"


def typographic(text: str) -> str:
    """Return numbers in a text with the minus signs of a printed page; exponents keep theirs."""
    return re.sub(r"(?<![\w.])-(?=[\d.])", "\N{MINUS SIGN}", text)


def digits_beside(value: float, error: float, least: int = 4) -> int:
    """Return how many digits of a value its standard error leaves, so that intervals show."""
    if not (0 < error < math.inf) or not 0 < abs(value) < math.inf:
        return least
    return min(max(least, 2 + math.floor(math.log10(abs(value) / error))), _MOST_DIGITS)


def count(value: int) -> str:
    """Return an integer exactly while it is short, else to four digits."""
    return f"{value:,}" if abs(value) < 10_000_000 else number(value)


def exact(value: int) -> str:
    """Return an integer exactly, with its size where it has many digits."""
    return f"{value:,}" if value < 10_000_000 else f"{value:,} (about {number(value, 3)})"


def shell_word(text: object) -> str:
    """Return a word of a command to be copied; characters that a terminal would obey are escaped.

    Bash, zsh and ksh read $'...' as what the escapes stand for, a byte each.
    """
    word = str(text)
    if word.isprintable():
        return shlex.quote(word)
    plain = set(range(0x20, 0x7F)) - set(b"'\\")
    signs = (chr(each) if each in plain else f"\\x{each:02x}" for each in os.fsencode(word))
    return f"$'{''.join(signs)}'"


def counted(value: int, what: str) -> str:
    """Return a number of things: 1 record, 2,000 records."""
    return f"{value:,} {what}{'' if value == 1 else 's'}"


def some_of(names: Sequence[object], most: int) -> str:
    """Return names in a sentence, the first of many: a, b and 12 more."""
    shown, more = printable(", ".join(map(str, names[:most]))), len(names) - most
    return f"{shown} and {more:,} more" if more > 0 else shown


def memory(n_bytes: int) -> str:
    """Return a number of bytes in the unit that suits it, to two or three digits."""
    return f"{max(1.0, n_bytes / 1e6):.0f} MB" if n_bytes < 1e9 else f"{n_bytes / 1e9:.3g} GB"


def noise_level(noise_sd: float, n_records: int) -> str:
    """Compare the noise of a correlation with its sampling error."""
    return (
        f"standard deviation {number(noise_sd, 2)} on a correlation; sampling error alone has "
        f"{number(1 / math.sqrt(n_records), 2)}"
    )
