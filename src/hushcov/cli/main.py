"""The entry point `hushcov`: finds a command, runs it, and turns errors into exit codes."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

import click
from click.shell_completion import CompletionItem

from hushcov._charged import stated_charges
from hushcov._version import __version__
from hushcov.cli.errors import (
    ANSWERED,
    BROKEN_PIPE,
    BY_SIGNAL,
    EXIT_CODES,
    ending,
    exit_code,
    one_line,
    signals,
    unread_line,
)

# The help of the group is written here, so that showing it imports no command.
COMMANDS = {
    "start": "Be asked for all that a first release needs, and make it.",
    "demo": "Make a release of a simulated table, step by step; takes about ten seconds.",
    "plan": "The error to expect of every mechanism at any number of records; no data needed.",
    "fit": "Release the covariance of the records in .npy, Parquet, Arrow or CSV files.",
    "show": "Check a release on disk for damage, and say what it is and what it promises.",
    "ask": "Regression, prediction, components, partial correlations of a release on disk.",
    "report": "Write a release on disk up as one HTML page, for a browser.",
    "export": "Write a release on disk for other programs: npz, zarr, Parquet or CSV.",
    "params": "Every public quantity of the paper's theorem, and how many records it needs.",
    "ledger": "Keep the privacy budget of datasets, over all releases, in one file.",
    "verify": "Check the theorem, claim by claim, at its own constants.",
    "audit": "Attack every mechanism, and compare what leaks with what it claims.",
    "bench": "Measure every estimator on the same simulated records, and draw the figures.",
    "completion": "Print the script by which a shell completes commands and options.",
}
# Commands of the laboratory, which nothing else imports, by their module.
_LABORATORY = {
    "params": "hushcov.paper.params_command",
    "verify": "hushcov.paper.verification.command",
    "audit": "hushcov.lab.audit.command",
    "bench": "hushcov.lab.benchmark.command",
}
_EPILOG = "\b\nExit codes:\n" + "\n".join(
    f"  {code:<4} {meaning}" for code, meaning in EXIT_CODES.items()
)


class CommandGroup(click.Group):
    """Commands imported when they are run, with errors answered on one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a command and return its click object."""
        if cmd_name not in COMMANDS:
            return None
        module = _LABORATORY.get(cmd_name, f"hushcov.cli.{cmd_name}")
        command: click.Command = importlib.import_module(module).command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names of commands without importing them, and options as usual."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        found = (item for item in COMMANDS.items() if item[0].startswith(incomplete))
        return [CompletionItem(name, help=meaning) for name, meaning in found]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which ones there are."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            known = ", ".join(COMMANDS)
            if args[0] in importlib.import_module("hushcov.cli.ask").command.commands:
                raise click.UsageError(
                    f"no command is named {args[0]!r}: did you mean 'hushcov ask {args[0]}'?", ctx
                )
            close = difflib.get_close_matches(args[0], COMMANDS, 1, 0.5)
            hint = f"did you mean {close[0]!r}? The commands are" if close else "choose one of"
            raise click.UsageError(f"no command is named {args[0]!r}: {hint} {known}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Read the options; help that nobody reads ends quietly, too."""
        try:
            return super().make_context(*args, **extra)
        except BrokenPipeError:
            raise click.exceptions.Exit(BROKEN_PIPE) from None

    def invoke(self, ctx: click.Context) -> int:
        """Run the command; whatever ends it says what was charged."""
        try:
            with stated_charges(), warnings.catch_warnings():
                # One line each, without the source line that raised them.
                warnings.showwarning = lambda message, *_, **__: click.echo(
                    f"hushcov: warning: {' '.join(str(message).split())}", err=True
                )
                super().invoke(ctx)
                sys.stdout.flush()
        except BrokenPipeError as error:
            click.echo(unread_line(error), err=True, nl=False)
            return BROKEN_PIPE
        return 0

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> None:
        """Run the command line and leave with its exit code."""
        with _open_streams(), signals():
            code, words = 0, ""
            try:
                code = super().main(args, prog_name, standalone_mode=False, **extra)
            except (click.Abort, KeyboardInterrupt) as error:
                words, code = ending(error)
            except ANSWERED as error:
                words, code = one_line(error), exit_code(error)
            if words:
                click.echo(words, err=True)
            sys.exit(code)


class _Heedless:
    """Standard error, which may be gone: what cannot be written there ends nothing."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write, if somebody listens."""
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Write at once, if somebody listens."""
        with suppress(OSError):
            self._stream.flush()


@contextmanager
def _open_streams() -> Iterator[None]:
    """Have all three streams: what was closed leads nowhere, and no file takes its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:  # the lowest number that is free is its own
            setattr(sys, name, open(os.devnull, "w" if number else "r"))  # noqa: SIM115
    heard, sys.stderr = sys.stderr, cast("TextIO", _Heedless(sys.stderr))
    try:
        yield
    finally:
        sys.stderr = heard
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
    with signals(last=True):
        try:
            cli.main(prog_name="hushcov")
        except SystemExit as stop:
            if stop.code in BY_SIGNAL:
                # All is said and written. The interpreter would wait for threads, for ever if the
                # signal came while one was starting.
                os._exit(int(stop.code))
            raise


if __name__ == "__main__":
    main()
