"""Print what commands say: plain text in a pipe, with a little colour in a terminal.

Progress goes to standard error: bars in a terminal, elsewhere a plain line now and then.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
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

from hushcov.text.printing import (  # the others are for commands
    WIDEST,
    clean,
    facts,
    heading,
    paragraph,
    plain_table,
    short_name,
    show,
    text_table,
    warning,
)

if TYPE_CHECKING:
    from hushcov.kernel.records.base import Records

_EVERY = 10.0  # seconds between lines of progress where there is no terminal


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave the answer to the entry point, which says what was charged."""
        self.quiet = True
        raise BrokenPipeError


def console(*, stderr: bool = False) -> Console:
    """Return a console on standard output (or error), at most 100 columns wide.

    Markup is off: file names may contain brackets.
    """
    result = _Console(stderr=stderr, markup=False, highlight=False, emoji=False)
    result.width = min(result.width, WIDEST)
    return result


def echo_json(result: object) -> None:
    """Print plain data as JSON on standard output, with null for what is no finite number."""
    text = json.dumps(_finite(result), indent=1, allow_nan=False)
    click.echo(
        text.replace("\x7f", "\\u007f")
    )  # the one control character that JSON does not escape


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def progress(
    total: int | None, *columns: ProgressColumn, counts: bool = True
) -> Iterator[Callable[[str, int], None]]:
    """Yield a function to call with what is being done, and how much of it is; 0 begins anew.

    It shows a bar, or lines far enough apart without a terminal.
    """
    out = console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        *((MofNCompleteColumn(), *columns, TimeRemainingColumn()) if counts else ()),
        console=out,
        transient=True,
        disable=not out.is_terminal,
    )
    task, last = bar.add_task("", total=total), time.monotonic()

    def tell(words: str, done: int) -> None:
        nonlocal last
        if done:
            bar.update(task, description=words, completed=done if counts else 0)
        else:
            bar.reset(task, description=words)
        if not out.is_terminal and time.monotonic() >= last + _EVERY:
            last = time.monotonic()
            share = "" if total is None else f": {100 * done // max(1, total)} % done"
            click.echo(f"hushcov: {words}{share}", err=True)

    # Without a terminal, rich 13 writes an empty line at the end of a bar it never showed.
    with bar if out.is_terminal else nullcontext():
        yield tell


@contextmanager
def watched(records: Records, *, count_is_public: bool = True) -> Iterator[Records]:
    """Yield `records` under a progress bar that starts again with each pass over the rows.

    Where their number is not public, the bar says that rows are read, and not how many: neither a
    count nor a share of the released number.
    """
    from hushcov.tables.progress import WatchedRecords

    total, passes, done = records.n_records if count_is_public else None, 0, 0

    def start() -> None:
        nonlocal passes, done
        passes, done = passes + 1, 0
        tell(f"reading records, pass {passes}", 0)

    def advance(rows: int) -> None:
        nonlocal done
        done += rows
        tell(f"reading records, pass {passes}", done)

    with progress(total, _RowsPerSecond(), counts=count_is_public) as tell:
        yield WatchedRecords(records, start, advance)


@contextmanager
def steps(total: int) -> Iterator[Callable[[str], None]]:
    """Yield a function to call at the start of each of `total` steps with what it is about."""
    started = itertools.count()
    with progress(total) as tell:
        yield lambda description: tell(description, next(started))


@contextmanager
def busy(description: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner for work of unknown length; the function yielded changes what it says."""
    with console(stderr=True).status(description) as status:
        yield status.update


class _RowsPerSecond(ProgressColumn):
    """Show how fast rows are read, once that is known."""

    def render(self, task: Task) -> Text:
        """Return the speed as text."""
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} rows/s")
