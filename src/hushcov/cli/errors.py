"""Exit codes, and errors as one line on standard error instead of a traceback."""

from __future__ import annotations

import difflib
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import click

from hushcov.exceptions import (
    BudgetError,
    CapacityError,
    DamagedReleaseError,
    DataError,
    HopelessError,
    HushcovError,
    LedgerError,
    MissingPackageError,
    ParameterError,
    PrivacyConditionError,
    RecordsFileError,
    ReleaseError,
    SignatureError,
    StatisticsError,
)

CHECK_FAILED = 1
INTERRUPTED, TERMINATED = 130, 143
HUNG_UP = 129
BY_SIGNAL = (HUNG_UP, INTERRUPTED, TERMINATED)
BROKEN_PIPE = 141  # what a shell reports for a program ended by SIGPIPE

EXIT_CODES = {
    0: "done",
    CHECK_FAILED: "a check failed (verify, audit, show, ask, report, export)",
    2: "an option is missing, unknown or outside its range",
    3: "the records cannot be used as they are",
    4: "the privacy condition does not hold: nothing was released",
    5: "valid, but larger than this program can represent or hold",
    6: "a file or a package is missing, or cannot be read or written",
    7: "the budget in the ledger does not allow it: the release was not charged or made",
    8: "no better than the zero matrix is to be expected: no estimate was released",
    HUNG_UP: "the terminal was closed",
    INTERRUPTED: "interrupted",
    BROKEN_PIPE: "whoever read the output stopped reading",
    TERMINATED: "ended by a signal",
}

# The first class that matches decides.
_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (click.ClickException, 2),
    (ParameterError, 2),
    (RecordsFileError, 6),
    (DataError, 3),
    (HopelessError, 8),
    (BudgetError, 7),
    (PrivacyConditionError, 4),
    (CapacityError, 5),
    (MemoryError, 5),
    (LedgerError, 6),
    (DamagedReleaseError, CHECK_FAILED),
    (SignatureError, CHECK_FAILED),
    (ReleaseError, 6),
    (StatisticsError, 6),
    (MissingPackageError, 6),
    (HushcovError, 2),
    (OSError, 6),
    (ImportError, 6),
)

# What the library says as "header=False (--no-header)", of which people here need the option.
_IN_PYTHON = re.compile(
    r"\w+(?:\([^()]*\)|=(?:\[[^]]*\]|[^\s(]+)) \((--[^)]*?)(?: on the command line)?\)"
)

#: Errors that are answered with one line. Any other exception is a bug and keeps its traceback.
ANSWERED = tuple(kind for kind, _ in _CODES)


def exit_code(error: BaseException) -> int:
    """Return the documented exit code of one of the `ANSWERED` errors."""
    return next(code for kind, code in _CODES if isinstance(error, kind))


def one_line(error: BaseException) -> str:
    """Return what to tell the user, on one line."""
    words = " ".join(" ".join((_message(error), *_notes(error))).split())
    return "hushcov: error: " + _IN_PYTHON.sub(r"\1", words)


class Signalled(KeyboardInterrupt):
    """A signal that ends the program as Ctrl-C does: `number` says which."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def ending(error: BaseException) -> tuple[str, int]:
    """Return what to tell somebody who ended the program, on one line, and the exit code."""
    chain = list(_chain(error))
    notes = dict.fromkeys(note for each in chain for note in _notes(each))
    numbers = [each.number for each in chain if isinstance(each, Signalled)]
    code = 128 + numbers[0] if numbers else INTERRUPTED
    verb = "interrupted" if code == INTERRUPTED else "ended by a signal"
    return ". ".join((f"hushcov: {verb}", *([" ".join(notes)] if notes else []))), code


def unread_line(error: BaseException) -> str:
    """Return what was charged, for whoever does not read the output any more."""
    notes = " ".join(_notes(error))
    return f"hushcov: the output was closed. {notes}\n" if notes else ""


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what it came from: click raises its own from an interrupt, which has notes."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


@contextmanager
def signals(*, last: bool = False) -> Iterator[None]:
    """Let signals that end a program be exceptions, so that it ends in an orderly way.

    Once one is on its way out another changes nothing. What is ignored stays ignored (nohup).
    Where this is the `last` thing that the program does, nothing interrupts its end either.
    """

    def end(number: int, _: object) -> None:
        if not any(isinstance(each, Signalled) for each in _chain(sys.exception())):
            raise Signalled(number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = (signal.SIG_DFL, signal.default_int_handler)
    known = [getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP")]
    before = {each: signal.getsignal(each) for each in known if each is not None}
    mine = {each: handler for each, handler in before.items() if handler in usual}
    try:
        for each in mine:
            signal.signal(each, end)
        yield
    finally:
        for each, handler in mine.items():
            signal.signal(each, signal.SIG_IGN if last else handler)


def _notes(error: BaseException | None) -> list[str]:
    """Return notes added on the way, as of charges before the error."""
    return getattr(error, "__notes__", [])


def _usage(error: click.UsageError) -> str:
    """Return click's message, with nothing suggested that is not close."""
    if not isinstance(error, click.NoSuchOption):
        param = error.param if isinstance(error, click.BadParameter) else None
        words = error.format_message()
        if param is None or not isinstance(param.type, click.Choice) or param.required:
            return words
        usual = param.default if isinstance(param.default, str) else ""
        return words + (f" Or leave it out: {usual!r} is the default." if usual else "")
    known = [] if error.ctx is None else error.ctx.command.get_params(error.ctx)
    names = [name for param in known for name in param.opts if name.startswith("--")]
    close = difflib.get_close_matches(error.option_name, names, 2, 0.7)
    hint = f" Did you mean {' or '.join(close)}?" if close else ""
    return f"There is no option {error.option_name}.{hint}"


def _message(error: BaseException) -> str:
    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx is not None else "hushcov"
        message = _usage(error)
        return message + ("" if message.endswith((".", "?")) else ".") + f" See '{path} --help'."
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, OSError) and error.strerror is not None:
        where = f"{error.filename}: " if error.filename is not None else ""
        return f"{where}{error.strerror}. Check the path, its permissions and the disk."
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        package = error.name.partition(".")[0]
        return f"the package {package} is missing: install it with 'pip install {package}'."
    if isinstance(error, MemoryError):
        return f"not enough memory. Use fewer features. {error}"
    return str(error)
