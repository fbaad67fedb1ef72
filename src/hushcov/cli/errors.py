"""Exit codes, and errors as one line on standard error instead of a traceback."""

from __future__ import annotations

import difflib
import re

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
INTERRUPTED = 130
BROKEN_PIPE = 141  # what a shell reports for a program ended by SIGPIPE

EXIT_CODES = {
    0: "done",
    CHECK_FAILED: "a check failed (verify, audit, show, report)",
    2: "an option is missing, unknown or outside its range",
    3: "the records cannot be used as they are",
    4: "the privacy condition does not hold: nothing was released",
    5: "valid, but larger than this program can represent or hold",
    6: "a file or a package is missing, or cannot be read or written",
    7: "the budget in the ledger does not allow it: nothing was charged or released",
    8: "no better than the zero matrix is to be expected: no estimate was released",
    INTERRUPTED: "interrupted",
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


def interrupted_line(error: BaseException) -> str:
    """Return what to tell somebody who ended the program, on one line."""
    # click raises its own exception from that of the interpreter, which has the notes; whoever
    # presses twice raises another one while the first is on its way.
    notes: list[str] = []
    found: BaseException | None = error
    while found is not None:
        notes += _notes(found)
        found = found.__cause__ or found.__context__
    return "hushcov: interrupted" + (f". {' '.join(dict.fromkeys(notes))}" if notes else "")


def _notes(error: BaseException | None) -> list[str]:
    """What was added on the way, as what had been charged before the error."""
    return getattr(error, "__notes__", [])


def _usage(error: click.UsageError) -> str:
    """What click says, with nothing suggested that is not close."""
    if not isinstance(error, click.NoSuchOption):
        return error.format_message() + _default(error)
    known = [] if error.ctx is None else error.ctx.command.get_params(error.ctx)
    names = [name for param in known for name in param.opts if name.startswith("--")]
    close = difflib.get_close_matches(error.option_name, names, 2, 0.7)
    hint = f" Did you mean {' or '.join(close)}?" if close else ""
    return f"There is no option {error.option_name}.{hint}"


def _default(error: click.UsageError) -> str:
    """What is taken where a choice is left out, if anything is."""
    param = error.param if isinstance(error, click.BadParameter) else None
    if param is None or not isinstance(param.type, click.Choice) or param.required:
        return ""
    if not param.default:
        return ""
    return f" Or leave it out: {param.default!r} is the default."


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
