"""The levels of a schedule as a table, whoever chose its numbers."""

from __future__ import annotations

from rich.table import Table

from hushcov._words import count, number
from hushcov.cli.output import plain_table
from hushcov.mechanisms.multiscale import Schedule


def level_table(schedule: Schedule) -> Table:
    """Return one row a level, and one for the largest threshold."""
    table = plain_table()
    for title in (
        "level",
        "threshold\nt",
        "tests per\nentry m",
        "active\nshare p",
        "all tests\nM",
        "tests kept\ns",
        "selection\nnoise b",
    ):
        table.add_column(title, justify="right", no_wrap=True)
    for ell, level in enumerate(schedule.levels):
        b = level.selection_scale
        table.add_row(
            str(ell),
            number(level.threshold),
            count(level.repetitions),
            f"{level.activation:.6f}",
            count(level.candidates),
            count(level.quota),
            "keeps all" if b is None else number(b),
        )
    table.add_row(f"{len(schedule.levels)} (top)", number(2 * schedule.levels[-1].threshold))
    return table
