"""`hushcov start`: asks for all that a first release needs, shows the plan, and runs it on yes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from hushcov._words import counted
from hushcov.cli.fit import certified, settle, stem_of
from hushcov.cli.fit import command as fit
from hushcov.cli.fitting import prepare, quoted
from hushcov.cli.ledger import command as ledger
from hushcov.cli.options import INTEGER, Command
from hushcov.cli.output import console, facts, heading, paragraph, show, warning
from hushcov.cli.questions import NOTHING_HAPPENED, Questions
from hushcov.cli.settings import (
    DATA,
    Settings,
    argument,
    arguments,
    read_settings,
    write_settings,
)
from hushcov.cli.start_budget import ask_ledger, ask_missing, ask_output, ask_promise, whom
from hushcov.cli.start_codebook import ToFillIn, ask_codebook
from hushcov.cli.start_columns import Draft, ask_columns, ask_rows, ask_whose
from hushcov.exceptions import DataError, HushcovError, ParameterError
from hushcov.records import Codebook, Records, read_codebook
from hushcov.records.headers import DeclaredRecords, Header, read_header

# The order in which options are printed and kept; others come before the promise.
_FIRST = (DATA, "output", "unit", "max-rows-per-unit", "neighbours", "columns", "codebook")
_LAST = ("epsilon", "delta", "ledger", "dataset")
_RUN, _CHANGE, _LEAVE = "yes", "change", "no"
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
_WIDTH = 76
# What the plan says of what 'fit' announces, and options that are no public inputs of it.
_PLANNED = ("guarantee", "protects", "expected error", "will find", "time", "memory")
_NOT_PUBLIC = ("dry_run", "profile", "profile_file", "as_json")


@click.command(cls=Command, name="start")
@click.argument("file", metavar="DATA", required=False, type=click.Path(path_type=Path))
@click.option(
    "--settings",
    "settings_file",
    type=click.Path(path_type=Path),
    metavar="FILE.toml",
    help="Where answers are kept; what is in it already is offered as the default.  "
    "[default: NAME-settings.toml, after DATA]",
)
@click.option(
    "--records",
    "rows",
    type=INTEGER,
    metavar="N",
    help="About how many rows there are, for the plan: a rough public number.",
)
@click.option(
    "--yes",
    is_flag=True,
    help="Ask nothing: take what the settings have, or the default, for every question, and run.",
)
def command(file: Path | None, settings_file: Path | None, rows: int | None, yes: bool) -> None:
    """Ask for what a release of DATA needs, show the plan, and run 'hushcov fit' on yes.

    DATA is whatever 'hushcov fit' takes. One question comes at a time, with a default in brackets;
    '?' explains it. Of DATA the names of the columns are read, and no record before you say yes.
    Answers are kept in a small file, for 'hushcov fit --settings' and for the next time.

    \b
    Examples:
      hushcov start patients.csv
      hushcov start --settings patients-settings.toml
    """
    out = console()
    try:
        draft, kept = _draft(out, file, settings_file, rows, yes)
        while True:
            commands = _answered(draft, kept)
            if commands is None:
                return
            answer = _confirm(draft)
            if answer != _CHANGE:
                break
    except KeyboardInterrupt as error:
        error.add_note(NOTHING_HAPPENED)
        raise
    if answer == _LEAVE:
        show(out, "")
        paragraph(out, f"{NOTHING_HAPPENED} The answers are in {kept}: run the command above, or")
        paragraph(out, f"hushcov start --settings {shlex.quote(str(kept))}")
        return
    group = click.get_current_context().parent
    for tool, words in commands:
        with tool.make_context(str(tool.name), list(words), parent=group) as context:
            tool.invoke(context)


def _draft(
    out: Console, file: Path | None, kept: Path | None, rows: int | None, yes: bool
) -> tuple[Draft, Path]:
    """What is known before the first question, and the file that answers are kept in."""
    if file is None and kept is None:
        raise click.UsageError("Missing argument 'DATA'.")
    if kept is None:
        assert file is not None
        kept = Path(f"{stem_of(file)}-settings.toml")
    elif file is None and not kept.exists():
        raise click.UsageError(f"Missing argument 'DATA': {kept} does not exist.")
    settings = read_settings(kept, fit) if kept.exists() else Settings()
    before = settings.options.get(DATA)
    if file is None:
        if before is None:
            raise click.UsageError(f"Missing argument 'DATA': {kept} does not name it.")
        file = Path(before)
    ask = Questions(out, defaults=yes)
    heading(out, f"A private release of {file}")
    paragraph(
        out,
        "Enter takes the default in brackets, ? explains a question, Ctrl-C leaves. Only the names "
        "of the columns are read until you say yes at the end.",
    )
    if settings.options:
        paragraph(out, f"Defaults are the answers in {kept}.")
    header = _header(ask, file, settings)
    settings.options[DATA] = str(file)
    return Draft(ask, out, file, stem_of(file), header, settings, rows), kept


def _header(ask: Questions, file: Path, settings: Settings) -> Header:
    """The columns; the first line of a text file may have another separator than a comma."""
    delimiter = settings.options.get("delimiter")
    try:
        return read_header(file, delimiter=delimiter)
    except DataError:
        sign = next((sign for sign in _SEPARATORS if _splits(file, sign)), None)
        if delimiter is not None or sign is None:
            raise
        if not ask.yes(
            f"Are the fields of this file separated by {_SEPARATORS[sign]}?",
            default=True,
            help="Its first line has a single name if they are separated by commas.",
        ):
            raise
        settings.options["delimiter"] = "tab" if sign == "\t" else sign
        return read_header(file, delimiter=sign)


def _splits(file: Path, sign: str) -> bool:
    try:
        return read_header(file, delimiter=sign).n_columns > 1
    except HushcovError:
        return False


def _answered(draft: Draft, kept: Path) -> list[tuple[click.Command, list[str]]] | None:
    """Ask everything, show the plan and the commands; None if something is to be done by hand."""
    try:
        ask_whose(draft)
        rows = ask_rows(draft)
        used = ask_columns(draft)
        n_features = ask_codebook(draft, used)
    except ToFillIn as stop:
        _keep(draft, kept)
        heading(draft.out, "Something to fill in first")
        paragraph(draft.out, f"Fill in {stop}, in {draft.known('codebook')}. Then go on with")
        show(draft.out, "")
        click.echo(f"    hushcov start --settings {shlex.quote(str(kept))}")
        show(draft.out, "")
        paragraph(draft.out, f"Your answers are in {kept}. {NOTHING_HAPPENED}")
        return None
    ask_missing(draft)
    ask_promise(draft, rows)
    ask_ledger(draft)
    ask_output(draft)
    draft.settings.plan["features"] = n_features
    _keep(draft, kept)
    names = None if draft.header.names is None else tuple(used)
    try:
        _show_plan(draft, rows, n_features, names)
    except HushcovError as error:
        if draft.ask.defaults:
            raise
        show(draft.out, "")
        warning(draft.out, f"this would be refused: {error}")
        if not draft.ask.yes(
            "Go through the questions again, with your answers as defaults?",
            default=True,
            help="A larger epsilon, fewer columns or other answers may do. " + NOTHING_HAPPENED,
        ):
            raise
        return _answered(draft, kept)
    return _show_commands(draft, kept)


def _keep(draft: Draft, kept: Path) -> None:
    """Keep the answers, in the order of the questions."""
    options = draft.settings.options
    middle = [key for key in options if key not in (*_FIRST, *_LAST)]
    draft.settings.options = {k: options[k] for k in (*_FIRST, *middle, *_LAST) if k in options}
    write_settings(kept, draft.settings, fit)


def _show_plan(draft: Draft, rows: int, n_features: int, names: tuple[str, ...] | None) -> None:
    """Say what to expect, by the path of 'fit' but with records that are only declared."""
    path = draft.known("codebook")
    book = None if path is None else read_codebook(path)
    features = None if names is None else _features(names, book)

    @contextmanager
    def declared(_: Path, *, drop_nulls: bool, **__: Any) -> Iterator[Records]:
        reader = {"reader_bytes": 0} if names is None else {}
        yield DeclaredRecords(rows, n_features, features, gaps=drop_nulls, **reader)

    with fit.make_context("fit", arguments(draft.settings)) as context:
        options = {key: value for key, value in context.params.items() if key not in _NOT_PUBLIC}
        options["n_records"] = None if draft.public_rows else rows
        source, mechanism, public = settle(declared, dry_run=True, **options)
        job = prepare(source, mechanism, **public)
        heading(draft.out, f"5. The plan, for about {counted(rows, 'row')}")
        plain = names is None or n_features == len(names)
        made = "" if plain else f", from {len(names or ())} columns"
        lines = [("release", f"covariance of {counted(n_features, 'feature')}{made}")]
        lines += [line for line in job.announcement() if line[0] in _PLANNED]
        lines.append(("will read", f"the used columns of {draft.file}, after the charge"))
        lines.append(("odds", str(job.certify().odds())))
        facts(draft.out, lines)
        guarantee = certified(draft.out, job)
        if draft.known("ledger") is not None and not draft.settings.budget:
            quoted(Path(draft.known("ledger")), draft.known("dataset"), guarantee)


def _features(names: Sequence[str], book: Codebook | None) -> tuple[str, ...]:
    """Names of features: one for each answer of a category."""
    known = {} if book is None else {column.name: column.features for column in book.columns}
    return tuple(feature for name in names for feature in known.get(name, (name,)))


def _show_commands(draft: Draft, kept: Path) -> list[tuple[click.Command, list[str]]]:
    """Print what will be run, to be copied; return the same."""
    found: list[tuple[click.Command, list[str]]] = []
    heading(draft.out, "6. The command")
    budget = draft.settings.budget
    if budget:
        relation, unit = whom(draft)
        words = ["init", str(draft.known("ledger")), "--dataset", str(draft.known("dataset"))]
        words += ["--epsilon", argument(budget["epsilon"]), "--delta", argument(budget["delta"])]
        words += ["--neighbours", relation, "--unit", unit]
        found.append((ledger, words))
    found.append((fit, arguments(draft.settings)))
    show(draft.out, "")
    for tool, words in found:
        click.echo(command_line([str(tool.name), *words]))
    show(draft.out, "")
    short = shlex.quote(str(kept))
    paragraph(draft.out, f"The same from the settings: hushcov fit --settings {short}")
    return found


def command_line(words: Sequence[str]) -> str:
    """A command for a shell, over several lines where it is long."""
    parts: list[str] = []
    for word in words:
        quoted_word = shlex.quote(word)
        if parts and parts[-1].startswith("--") and " " not in parts[-1] and word[:2] != "--":
            parts[-1] += f" {quoted_word}"
        else:
            parts.append(quoted_word)
    lines = ["hushcov"]
    for part in parts:
        if len(lines[-1]) + len(part) < _WIDTH - 2:
            lines[-1] += f" {part}"
        else:
            lines.append(f"  {part}")
    return " \\\n".join(lines)


def _confirm(draft: Draft) -> str:
    """Ask whether to run it."""
    return draft.ask.ask(
        f"Run it now? ({_RUN}, {_LEAVE}, {_CHANGE}, ?)",
        _confirmed,
        default=_RUN if draft.ask.defaults else _LEAVE,
        help=f"{_RUN}: the ledger is charged, then the records are read, and the release is "
        f"written. {_LEAVE}: nothing happens; the settings and the command stay. {_CHANGE}: go "
        "through the questions again, with your answers as defaults.",
    )


def _confirmed(text: str) -> str:
    for word in (_RUN, _LEAVE, _CHANGE):
        if text.casefold() in (word, word[0]):
            return word
    raise ParameterError(f"write {_RUN}, {_LEAVE} or {_CHANGE}.")
