"""How answers of `hushcov ask` are printed and written."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hushcov._words import number
from hushcov.answers.tables import Table, write_table
from hushcov.cli.output import (
    clean,
    console,
    echo_json,
    facts,
    heading,
    paragraph,
    plain_table,
    show,
    warning,
)

_MOST_LINES = 30  # of a table on the screen
_SHORT = {  # titles of columns on a screen of usual width
    "deviation": "sd",
    "unconditional_mean": "mean of all",
    "unconditional_deviation": "sd of all",
    "partial_correlation": "partial",
}
_WHOLE = 1e4, 1e9  # numbers between these are written without an exponent


def tell(
    title: str,
    lines: Sequence[tuple[str, str]],
    table: Table,
    caution: str | None,
    summary: Mapping[str, Any],
    *,
    legend: str,
    notes: Sequence[str] = (),
    output: Path | None,
    as_json: bool,
) -> None:
    """Print an answer, and write its table."""
    if output is not None:
        write_table(table, output)
    if as_json:
        echo_json(_plain({**summary, "table": records(table), "warning": caution, "notes": notes}))
        return
    out = console()
    heading(out, title)
    facts(out, lines)
    table = _on_screen(table)
    n = len(next(iter(table.values())))
    if n:
        show(out, "")
        show(out, _text({name: column[:_MOST_LINES] for name, column in table.items()}))
        rest = [("left out", f"{n - _MOST_LINES:,} more lines: -o FILE.csv writes all")]
        facts(out, rest if n > _MOST_LINES else [])
        show(out, "")
        paragraph(out, clean(legend))
    for note in notes:
        paragraph(out, clean(note))
    if caution:
        show(out, "")
        warning(out, clean(caution))
    facts(out, [] if output is None else [("written", clean(str(output)))])


def _on_screen(table: Table) -> Table:
    """Without lines that have no value, and without marks of noise that no line has."""
    value = table.get("partial_correlation")
    kept = slice(None) if value is None else ~np.isnan(value)
    seen = {name: column[kept] for name, column in table.items()}
    return {name: each for name, each in seen.items() if name != "noise" or each.any()}


def _text(table: Table) -> Any:
    """The table in words. Names are broken where a line is too short, numbers never."""
    found = plain_table()
    for name, column in table.items():
        title, names = _SHORT.get(name, name.replace("_", " ")), column.dtype == object
        found.add_column(
            title, justify="left" if names else "right", no_wrap=not names, overflow="fold"
        )
    for row in zip(*(_cells(column) for column in table.values()), strict=True):
        found.add_row(*row)
    return found


def _cells(column: Any) -> list[str]:
    """A column in words."""
    if column.dtype == bool:
        return ["yes" if value else "no" for value in column]
    if column.dtype == object:
        return [clean(str(value)) for value in column]
    return [figure(float(value)) for value in column]


def figure(value: float, digits: int = 3) -> str:
    """A number to some digits, as people write it: 49,800."""
    if not _WHOLE[0] <= abs(value) < _WHOLE[1]:
        return number(value, digits)
    return f"{float(f'{value:.{digits}g}'):,.0f}"


def percent(share: float) -> str:
    """A share in percent; what is nearly all or nothing is not rounded to it."""
    for nearly, text in ((1 - share, "above 99.9"), (share, "below 0.1")):
        if 0 < nearly < 1e-3:
            return f"{text} %"
    return f"{number(100 * share, 3)} %"


def records(table: Table) -> list[dict[str, Any]]:
    """A table as JSON has it, line by line."""
    columns = [column.tolist() for column in table.values()]
    return [dict(zip(table, row, strict=True)) for row in zip(*columns, strict=True)]


def _plain(value: Any) -> Any:
    """As JSON has it: null for what is no finite number."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value
