"""Progress over rows or steps, on standard error and in terminals only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from hushcov.cli.output import console
from hushcov.records import Records


class WatchedRecords(Records):
    """The same records, telling `progress` how many rows have been passed over."""

    def __init__(self, records: Records, progress: Callable[[int], object]) -> None:
        self.n_records = records.n_records
        self.n_features = records.n_features
        self._records = records
        self._progress = progress

    def _blocks(self) -> Iterator[NDArray[np.float64]]:
        for block in self._records._blocks():
            yield block
            self._progress(len(block))


@contextmanager
def watched(records: Records, afterwards: str) -> Iterator[Records]:
    """Yield `records` under a progress bar, which says `afterwards` once all rows are read."""
    bar = _bar()
    task = bar.add_task("reading records", total=records.n_records)

    def advance(rows: int) -> None:
        bar.advance(task, rows)
        if bar.tasks[task].finished:
            bar.update(task, description=afterwards)

    with bar:
        yield WatchedRecords(records, advance)


@contextmanager
def steps(total: int) -> Iterator[Callable[[str], None]]:
    """Yield a function to call at the start of each of `total` steps with what it is about."""
    bar = _bar()
    task = bar.add_task("", total=total)
    started = 0

    def step(description: str) -> None:
        nonlocal started
        bar.update(task, description=description, completed=started)
        started += 1

    with bar:
        yield step


@contextmanager
def busy(description: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner for work of unknown length; the function yielded changes what it says."""
    with console(stderr=True).status(description) as status:
        yield status.update


def _bar() -> Progress:
    out = console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=out,
        transient=True,
        disable=not out.is_terminal,
    )
