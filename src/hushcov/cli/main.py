"""The entry point `hushcov`: find a command, run it, and turn errors into exit codes.

Errors are one line on standard error instead of a traceback.
"""

from __future__ import annotations

import difflib
import importlib
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

import click

from hushcov import exceptions
from hushcov._charged import stated_charges
from hushcov._plugins import (
    PROVIDERS,
    installed_plugins,
    load_plugin,
    missing_plugins,
    require_plugin,
)
from hushcov._version import __version__
from hushcov.cli import CHECK_FAILED
from hushcov.exceptions import printable

_HUNG_UP, _INTERRUPTED, _TERMINATED = 129, 130, 143
_BROKEN_PIPE = 141  # what a shell reports for a program ended by SIGPIPE

EXIT_CODES = {
    0: "done",
    CHECK_FAILED: "a check failed (verify, audit, show, ask, report, export)",
    2: "an option is missing, unknown or outside its range",
    3: "the records cannot be used",
    4: "the privacy condition does not hold: nothing was released",
    5: "valid, but larger than this program can represent or hold",
    6: "a file or a package is missing, or cannot be read or written",
    7: "the budget in the ledger does not allow it: the release was not charged or made",
    8: "the expected error is no better than that of a matrix of zeros: nothing was released",
    _HUNG_UP: "the terminal was closed",
    _INTERRUPTED: "interrupted",
    _BROKEN_PIPE: "output pipe closed",
    _TERMINATED: "ended by a signal",
}

# The first class that matches decides.
_CODES: tuple[tuple[tuple[type[BaseException], ...], int], ...] = (
    ((click.ClickException, exceptions.ParameterError), 2),
    ((exceptions.RecordsFileError, exceptions.LedgerError), 6),
    ((exceptions.DataError,), 3),
    ((exceptions.HopelessError,), 8),
    ((exceptions.BudgetError,), 7),
    ((exceptions.PrivacyConditionError,), 4),
    ((exceptions.CapacityError, MemoryError), 5),
    ((exceptions.DamagedReleaseError, exceptions.SignatureError), CHECK_FAILED),
    ((exceptions.ReleaseError, exceptions.StatisticsError, exceptions.MissingPackageError), 6),
    ((exceptions.HushcovError,), 2),
    ((OSError, ImportError), 6),
)

# The library says "header=False (no-header = true in a settings file)": keep what is in brackets.
_IN_PYTHON = re.compile(
    r"\w+(?:\([^()]*\)|=(?:\[[^]]*\]|[^\s(]+)) "
    r"\((--[^)]*?|[a-z-]+[^()]* in a settings file)(?: on the command line)?\)"
)

# Errors that are answered with one line. Any other exception is a bug and keeps its traceback.
_ANSWERED = tuple(kind for kinds, _ in _CODES for kind in kinds)

# The help of the group is written here, so that showing it imports no command, nor the other
# distributions of this project.
COMMANDS = {
    "start": "Set up and make a first release, step by step.",
    "demo": "Go from a table to a release, a regression and a report, in under twenty seconds.",
    "plan": "Predict the error of a release at any number of records; no data needed.",
    "fit": "Release the covariance of the records in .npy, Parquet, Arrow or CSV files.",
    "show": "Check a release on disk for damage, and print what it is and what it promises.",
    "ask": "Ask a release for regressions, predictions, components or partial correlations.",
    "report": "Write a release on disk as one HTML page, for a browser.",
    "export": "Write a release on disk for other programs, or synthetic rows drawn from it.",
    "sign": "Sign a release on disk, so that others can check who made it.",
    "paper": "Compute the parameters of the paper's theorem, or check its claims.",
    "ledger": "Keep the privacy budget of datasets, over all releases, in one file.",
    "audit": "Attack every mechanism, and compare what leaks with what it claims.",
    "bench": "Measure estimators and their rivals on the same records, and draw the figures.",
}
_EPILOG = "\b\nExit codes:\n" + "\n".join(
    f"  {code:<4} {meaning}" for code, meaning in EXIT_CODES.items()
)


def commands() -> dict[str, str]:
    """Return the help of every command by name, plug-ins included."""
    others = {
        name: f"Provided by {each.dist.name if each.dist else each.module}."
        for name, each in installed_plugins("commands").items()
        if name not in COMMANDS
    }
    needed = {name: PROVIDERS["commands"][name] for name in missing_plugins("commands")}
    notes = {name: f"{COMMANDS[name]} Needs {package}." for name, package in needed.items()}
    return COMMANDS | notes | others


class CommandGroup(click.Group):
    """Commands imported when they are run, with errors answered on one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of the help."""
        return list(commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a command and return its click object."""
        require_plugin("commands", cmd_name, f"'hushcov {cmd_name}'")
        found: click.Command | None = self.commands.get(cmd_name)
        if found is None and cmd_name in COMMANDS and cmd_name not in PROVIDERS["commands"]:
            # The paper's command lies in its folder, which nothing else imports.
            folder = "hushcov.paper.command" if cmd_name == "paper" else f"hushcov.cli.{cmd_name}"
            found = importlib.import_module(folder).command
        elif found is None and cmd_name in installed_plugins("commands"):
            found = load_plugin("commands", cmd_name)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which ones there are."""
        if args[0] not in COMMANDS and args[0] not in commands() and args[0][:1] != "-":
            known = ", ".join(commands())
            for group in ("ask", "paper"):
                found = self.get_command(ctx, group)
                if isinstance(found, click.Group) and args[0] in found.commands:
                    hint = f"did you mean 'hushcov {group} {args[0]}'?"
                    raise click.UsageError(f"no command is named {args[0]!r}: {hint}", ctx)
            close = difflib.get_close_matches(args[0], commands(), 1, 0.5)
            hint = f"did you mean {close[0]!r}? The commands are" if close else "choose one of"
            raise click.UsageError(f"no command is named {args[0]!r}: {hint} {known}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(commands().items()))

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Read the options; help whose output pipe is closed ends quietly."""
        try:
            return super().make_context(*args, **extra)
        except BrokenPipeError:
            raise click.exceptions.Exit(_BROKEN_PIPE) from None

    def invoke(self, ctx: click.Context) -> int:
        """Run the command; errors and interrupts say what was charged."""
        try:
            with stated_charges(), warnings.catch_warnings():
                # One line each, without the source line that raised them.
                warnings.showwarning = lambda message, *_, **__: click.echo(
                    f"hushcov: warning: {_one_line(str(message))}", err=True
                )
                super().invoke(ctx)
                sys.stdout.flush()
        except BrokenPipeError as error:
            if notes := " ".join(_notes(error)):
                click.echo(f"hushcov: the output was closed. {notes}", err=True)
            return _BROKEN_PIPE
        return 0

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> None:
        """Run the command line and leave with its exit code."""
        with _open_streams(), _signals():
            code = 0
            try:
                code = super().main(args, prog_name, standalone_mode=False, **extra)
            except (click.Abort, KeyboardInterrupt) as error:
                chain = list(_chain(error))
                numbers = [each.number for each in chain if isinstance(each, _Signalled)]
                code = 128 + numbers[0] if numbers else _INTERRUPTED
                verb = "interrupted" if code == _INTERRUPTED else "ended by a signal"
                notes = " ".join(dict.fromkeys(note for each in chain for note in _notes(each)))
                click.echo(f"hushcov: {verb}. {notes}" if notes else f"hushcov: {verb}", err=True)
            except _ANSWERED as error:
                words = _one_line(" ".join((_message(error), *_notes(error))))
                click.echo("hushcov: error: " + _IN_PYTHON.sub(r"\1", words), err=True)
                code = next(code for kinds, code in _CODES if isinstance(error, kinds))
            sys.exit(code)


class _Signalled(KeyboardInterrupt):
    """A signal that ends the program as Ctrl-C does: `number` says which."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes; click raises its own error from an interrupt with notes."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


@contextmanager
def _signals(*, last: bool = False) -> Iterator[None]:
    """Turn signals that end a program into exceptions, so that it cleans up.

    Once one is on its way out another changes nothing. What is ignored stays ignored (nohup).
    Where this is the `last` thing that the program does, nothing interrupts its end either.
    """

    def end(number: int, _: object) -> None:
        if not any(isinstance(each, _Signalled) for each in _chain(sys.exception())):
            raise _Signalled(number)

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
    """Return the notes that were added to an error, such as charges before it."""
    return getattr(error, "__notes__", [])


def _one_line(text: str) -> str:
    """Return text in one line, without control characters."""
    return printable(" ".join(text.split()))


def _usage(error: click.UsageError) -> str:
    """Return click's message, and suggest only names that are close."""
    if not isinstance(error, click.NoSuchOption):
        param, words = getattr(error, "param", None), error.format_message()
        if param is None or not isinstance(param.type, click.Choice) or param.required:
            return words
        usual = isinstance(param.default, str) and param.default
        return words + (f" Or leave it out: {usual!r} is the default." if usual else "")
    known = [] if error.ctx is None else error.ctx.command.get_params(error.ctx)
    names = [name for param in known for name in param.opts if name.startswith("--")]
    close = difflib.get_close_matches(error.option_name, names, 2, 0.7)
    hint = f" Did you mean {' or '.join(close)}?" if close else ""
    lines = {f"--{key}": key for param in known if (key := getattr(param, "settings_key", None))}
    if error.option_name in lines:
        key = lines[error.option_name]
        hint = f" Write a line '{key} = ...' into a settings file, and pass it by --settings."
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


class _BestEffortStream:
    """Standard error that may be closed: a failed write to it does not end the program."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write, unless the stream is closed."""
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush, unless the stream is closed."""
        with suppress(OSError):
            self._stream.flush()


@contextmanager
def _open_streams() -> Iterator[None]:
    """Open closed standard streams on the null device, so that no file takes their numbers."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:  # the lowest number that is free is its own
            setattr(sys, name, open(os.devnull, "w" if number else "r"))  # noqa: SIM115
    before, sys.stderr = sys.stderr, cast("TextIO", _BestEffortStream(sys.stderr))
    try:
        yield
    finally:
        sys.stderr = before
        try:
            sys.stdout.flush()
        except OSError:  # it was said before; the interpreter would try again at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(
    cls=CommandGroup,
    name="hushcov",
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=_EPILOG,
)
@click.version_option(__version__, prog_name="hushcov", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Sparse covariance estimation under differential privacy.

    Start with 'hushcov demo', or with your own table: 'hushcov start DATA'. Each command explains
    itself: 'hushcov fit --help'.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main() -> None:
    """Run the console script."""
    with _signals(last=True):
        try:
            cli.main(prog_name="hushcov")
        except SystemExit as stop:
            if stop.code in (_HUNG_UP, _INTERRUPTED, _TERMINATED):
                # All is said and written. The interpreter would wait for threads, for ever if the
                # signal came while one was starting.
                os._exit(int(stop.code))
            raise


if __name__ == "__main__":
    main()
