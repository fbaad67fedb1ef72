"""The entry point `hushcov`: finds a command, runs it, and turns errors into exit codes."""

from __future__ import annotations

import difflib
import importlib
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click
from click.shell_completion import CompletionItem

from hushcov._version import __version__
from hushcov.cli.errors import (
    ANSWERED,
    BROKEN_PIPE,
    EXIT_CODES,
    INTERRUPTED,
    exit_code,
    interrupted_line,
    one_line,
)

# The help of the group is written here, so that showing it imports no command.
COMMANDS = {
    "start": "Be asked for all that a first release needs, and make it.",
    "demo": "See a private release of simulated records; takes about fifteen seconds.",
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
    "verify": "hushcov.lab.verification.command",
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

    def invoke(self, ctx: click.Context) -> int:
        """Run the command; output that nobody reads any more ends it quietly."""
        try:
            with _plain_warnings():
                super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            sys.stdout = None  # or the interpreter flushes it at exit
            return BROKEN_PIPE
        return 0

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> None:
        """Run the command line and leave with its exit code."""
        try:
            code = super().main(args, prog_name, standalone_mode=False, **extra)
        except (click.Abort, KeyboardInterrupt) as error:
            click.echo(interrupted_line(error), err=True)
            code = INTERRUPTED
        except ANSWERED as error:
            click.echo(one_line(error), err=True)
            code = exit_code(error)
        sys.exit(code)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show warnings as one line each, without the source line that raised them."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: click.echo(
            f"hushcov: warning: {' '.join(str(message).split())}", err=True
        )
        yield


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
    cli.main(prog_name="hushcov")


if __name__ == "__main__":
    main()
