"""Progress over rows or steps, on standard error and in terminals only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from hushcov.cli.output import console
from hushcov.records import Records, WatchedRecords


@contextmanager
def watched(records: Records) -> Iterator[Records]:
    """Yield `records` under a progress bar that starts again with each pass over the rows."""
    bar = _bar(_RowsPerSecond())
    task = bar.add_task("", total=records.n_records)
    passes = 0

    def start() -> None:
        nonlocal passes
        passes += 1
        bar.reset(task, description=f"reading records, pass {passes}")

    with bar:
        yield WatchedRecords(records, start, lambda rows: bar.advance(task, rows))


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


class _RowsPerSecond(ProgressColumn):
    """How fast rows are read, once that is known."""

    def render(self, task: Task) -> Text:
        """What the bar shows of a task."""
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} rows/s")


def _bar(*more: ProgressColumn) -> Progress:
    out = console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        *more,
        TimeRemainingColumn(),
        console=out,
        transient=True,
        disable=not out.is_terminal,
    )
