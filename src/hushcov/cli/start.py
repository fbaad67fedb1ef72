"""`hushcov start`: asks for all that a first release needs, shows the plan, and runs it on yes."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
from rich.console import Console

from hushcov._charged import NOTHING_CHARGED, charge_begun
from hushcov._words import counted
from hushcov.cli.files import check_parent, sign_of, stem_of
from hushcov.cli.options import INTEGER, Command
from hushcov.cli.output import console, facts, heading, paragraph, show, warning
from hushcov.cli.prompts import NOTHING_HAPPENED, Prompts
from hushcov.cli.settings import (
    DATA,
    MOST_ROWS,
    Settings,
    read_settings,
    write_settings,
)
from hushcov.cli.start_budget import ask_ledger, ask_missing, ask_output, ask_promise
from hushcov.cli.start_codebook import ToFillIn, ask_codebook
from hushcov.cli.start_columns import Draft, ask_columns, ask_rows, ask_whose
from hushcov.exceptions import DataError, HushcovError, ParameterError, TooFewCompleteError
from hushcov.tables.files import Header, may_be_record, read_header

# The order in which options are printed and kept; others come before the promise.
_FIRST = (DATA, "output", "unit", MOST_ROWS, "neighbours", "columns", "codebook")
_LAST = ("epsilon", "delta", "ledger", "dataset")
_RUN, _CHANGE, _LEAVE = "yes", "change", "no"
Commands = list[tuple[click.Command, list[str]]]
_TOO_FEW = (
    "{} are too few to leave out those with gaps, as about how many are complete would be noise. "
    "Use more rows or a larger epsilon; or say that no value is missing, if that is certain."
)
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


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
    try:
        _run(commands)
        _keep(draft, kept)
    except HushcovError as error:
        error.add_note(
            f"Answers are changed by 'hushcov start --settings {shlex.quote(str(kept))}'."
            f"{'' if charge_begun() else f' {NOTHING_CHARGED}'}"
        )
        raise
    _say_next(out, draft.known("output"))


def _run(commands: Commands) -> None:
    """Run what was printed, as if it had been typed; the ledger is not made for a wrong file."""
    from hushcov.cli.start_plan import check_data

    group = click.get_current_context().parent
    if len(commands) > 1:
        check_data(commands[-1][1])
    for tool, words in commands:
        with tool.make_context(str(tool.name), list(words), parent=group) as context:
            tool.invoke(context)


def _say_next(out: Console, folder: str) -> None:
    """What to do with the release; none of it costs anything more."""
    heading(out, "What now")
    place = shlex.quote(folder)
    facts(
        out,
        (
            ("read", f"open {folder}/report.html in a browser"),
            ("check", f"hushcov show {place}"),
            (
                "ask",
                f"hushcov ask components {place}, or regression, predict, partial: as often as "
                "you like, nothing more is charged",
            ),
            ("hand on", f"the folder {folder}/ as it is; never the records"),
        ),
    )


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
    check_parent(kept)
    settings = read_settings(kept) if kept.exists() else Settings()
    before = settings.options.get(DATA)
    if file is None:
        if before is None:
            raise click.UsageError(f"Missing argument 'DATA': {kept} does not name it.")
        file = Path(before)
    ask = Prompts(out, defaults=yes)
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


def _header(ask: Prompts, file: Path, settings: Settings) -> Header:
    """The columns; a text file may have another separator than a comma, and no names."""
    options = settings.options
    names, sign = options.get("names"), sign_of(options.get("delimiter"))
    names = names.split(",") if isinstance(names, str) else names
    try:
        bare = bool(options.get("no-header"))
        return read_header(file, delimiter=sign, header=not bare, names=names)
    except DataError:
        if _other_separator(ask, file, settings) or _without_names(ask, file, settings):
            return _header(ask, file, settings)
        raise


def _other_separator(ask: Prompts, file: Path, settings: Settings) -> bool:
    """Ask for another separator, if the first line has one field by commas and more by it."""
    sign = next((sign for sign in _SEPARATORS if _fields(file, sign) > 1), None)
    if "delimiter" in settings.options or sign is None or _fields(file, None) != 1:
        return False
    found = ask.yes(
        f"Are the fields of this file separated by {_SEPARATORS[sign]}?",
        default=True,
        help="Its first line has a single name if they are separated by commas.",
    )
    if found:
        settings.options["delimiter"] = "tab" if sign == "\t" else sign
    return found


def _fields(file: Path, sign: str | None) -> int:
    """How many fields the first line has."""
    try:
        return read_header(file, delimiter=sign, header=False).n_columns
    except HushcovError:
        return 0


def _without_names(ask: Prompts, file: Path, settings: Settings) -> bool:
    """Ask whether the first line is a record, if it may be one."""
    options = settings.options
    sign = sign_of(options.get("delimiter"))
    known = "no-header" in options or "names" in options
    if known or not _fields(file, sign) or not may_be_record(file, delimiter=sign):
        return False
    bare = ask.yes(
        "Is the first line a record, so that the columns have no names?",
        default=True,
        help="Some of it reads as numbers, dates or nulls. yes: it is a record as all others, none "
        "of it is shown, and the columns are called column_1, column_2 and so on. no: nothing "
        "happens. Then give other names, in the file or by names = [...] in the settings.",
    )
    if bare:
        options["no-header"] = True
    return bare


def _answered(draft: Draft, kept: Path) -> Commands | None:
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
    again = draft.answered
    ask_missing(draft)
    ask_promise(draft, rows)
    ask_ledger(draft, again=again)
    ask_output(draft)
    draft.settings.plan["features"] = n_features
    from hushcov.cli.start_plan import show_commands, show_plan  # takes seconds to import

    if not draft.ask.defaults or not kept.exists():  # what nobody answered is kept when it has run
        _keep(draft, kept)
    names = None if draft.header.names is None else tuple(used)
    try:
        show_plan(draft, rows, n_features, names)
    except HushcovError as error:
        if draft.ask.defaults:
            raise
        show(draft.out, "")
        few = isinstance(error, TooFewCompleteError)
        why = _TOO_FEW.format(counted(rows, "row")) if few else error
        warning(draft.out, f"this would be refused: {why}")
        if not draft.ask.yes(
            "Go through the questions again, with your answers as defaults?",
            default=True,
            help="A larger epsilon, fewer columns or other answers may do. " + NOTHING_HAPPENED,
        ):
            raise
        return _answered(draft, kept)
    return show_commands(draft, kept)


def _keep(draft: Draft, kept: Path) -> None:
    """Keep the answers, in the order of the questions."""
    options = draft.settings.options
    middle = [key for key in options if key not in (*_FIRST, *_LAST)]
    draft.settings.options = {k: options[k] for k in (*_FIRST, *middle, *_LAST) if k in options}
    write_settings(kept, draft.settings)


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
