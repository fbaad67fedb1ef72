"""`hushcov start`: asks for all that a first release needs, shows the plan, and runs it on yes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from hushcov._charged import NOTHING_CHARGED, charge_begun
from hushcov._validation import LARGEST_EPSILON, OF_COMPLETE, check_real
from hushcov._words import counted, number, shell_word
from hushcov.cli.files import (
    check_paths,
    free_path,
    refuse_taken,
    sign_of,
    split_names,
    stem_of,
)
from hushcov.cli.options import (
    DATA,
    INTEGER,
    MOST_ROWS,
    Command,
    Settings,
    plain_number,
    read_settings,
    write_settings,
)
from hushcov.cli.output import console, facts, heading, paragraph, show, text_table, warning
from hushcov.cli.prompts import (
    NONE,
    NOTHING_HAPPENED,
    Draft,
    Prompts,
    ToFillIn,
    a_number,
    ask_codebook,
    ask_columns,
    ask_rows,
    ask_transforms,
    ask_unit,
)
from hushcov.exceptions import DataError, HushcovError, ParameterError
from hushcov.kernel.accounting import ONE_REPLACED, RECORD, RELATIONS
from hushcov.ledger import Ledger
from hushcov.promise import PRIORS, guess_words, highest_posterior, in_percent, odds_of
from hushcov.tables.codebook import read_codebook
from hushcov.tables.files import Header, may_be_record, read_header
from hushcov.tables.sources import DeclaredRecords

if TYPE_CHECKING:
    from hushcov.kernel.records.base import Records

# The order in which options are printed and kept; others come before the promise.
_FIRST = (DATA, "output", "unit", MOST_ROWS, "neighbours", "columns", "codebook", "transform")
_LAST = ("epsilon", "delta", "ledger", "dataset")
_RUN, _CHANGE, _LEAVE = "yes", "change", "no"
Commands = list[tuple[click.Command, list[str]]]
_EPSILONS = (0.5, 1.0, 2.0)  # of which the table tells the odds
_USUAL_EPSILON, _USUAL_DELTA = 1.0, 1e-6
_LEDGER, _COMMON = "budget.db", "1 is a common choice."
# What the plan says of what 'fit' announces.
_PLANNED = ("guarantee", "protects", "expected error", "will find", "time", "memory")
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
    with _nothing_happened():
        draft = _draft(out, file, settings_file, rows, yes)
    with _unchanged(draft.kept if yes else None):
        with _nothing_happened():
            commands, answer = _answered(draft), _CHANGE
            while commands is not None and (answer := _confirm(draft)) == _CHANGE:
                commands = _answered(draft)
        if commands is None:
            return
        if answer == _RUN:
            _run(commands, draft)
    if answer == _LEAVE:
        show(out, "")
        kept = draft.kept
        paragraph(out, f"{NOTHING_HAPPENED} The answers are in {kept}: run the command above, or")
        click.echo(f"  {draft.again}")
        return
    _say_next(out, draft.known("output"))


@contextmanager
def _nothing_happened() -> Iterator[None]:
    """Say of an interrupt among the questions that nothing has happened yet."""
    try:
        yield
    except KeyboardInterrupt as error:
        error.add_note(NOTHING_HAPPENED)
        raise


@contextmanager
def _unchanged(kept: Path | None) -> Iterator[None]:
    """Bring back a file of answers that nobody was asked about, where an error ends the command."""
    before = kept.read_bytes() if kept is not None and kept.exists() else None
    try:
        yield
    except BaseException:
        if kept is not None and before is not None:
            kept.write_bytes(before)
        raise


def _run(commands: Commands, draft: Draft) -> None:
    """Run what was printed, as if it had been typed; the ledger is not made for a wrong file."""
    group = click.get_current_context().parent
    try:
        if len(commands) > 1:
            # Opened as 'fit' does, which refuses wrong columns and types before a ledger is made.
            from hushcov.cli.fit import settle

            tool, words = commands[-1]
            with tool.make_context("fit", list(words), parent=group) as context:
                settle(context.params)
        for tool, words in commands:
            with tool.make_context(str(tool.name), list(words), parent=group) as context:
                tool.invoke(context)
    except HushcovError as error:
        charged = "" if charge_begun() else f" {NOTHING_CHARGED}"
        error.add_note(f"Answers are changed by '{draft.again}'.{charged}")
        raise


def _say_next(out: Console, folder: str) -> None:
    """Say what to do with the release; none of it costs anything more."""
    heading(out, "What now")
    place = shell_word(folder)
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
) -> Draft:
    """Return what is known before the first question."""
    if file is None and kept is None:
        raise click.UsageError("Missing argument 'DATA'.")
    if kept is None:
        assert file is not None
        kept = Path(f"{stem_of(file)}-settings.toml")
    elif file is None and not kept.exists():
        raise click.UsageError(f"Missing argument 'DATA': {kept} does not exist.")
    check_paths(None, kept)
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
    return Draft(ask, out, file, stem_of(file), header, settings, kept, rows)


def _header(ask: Prompts, file: Path, settings: Settings) -> Header:
    """Read the columns; a text file may have another separator than a comma, and no names."""

    def fields(sign: str | None) -> int:
        """Return how many fields the first line has."""
        try:
            return read_header(file, delimiter=sign, header=False).n_columns
        except HushcovError:
            return 0

    options = settings.options
    names, sign = split_names(options.get("names")), sign_of(options.get("delimiter"))
    try:
        bare = bool(options.get("no-header"))
        return read_header(file, delimiter=sign, header=not bare, names=names)
    except DataError:
        other = next((sign for sign in _SEPARATORS if fields(sign) > 1), None)
        if "delimiter" not in options and other and fields(None) == 1:
            question = f"Are the fields of this file separated by {_SEPARATORS[other]}?"
            why = "Its first line has a single name if they are separated by commas."
            if ask.yes(question, default=True, help=why):
                options["delimiter"] = "tab" if other == "\t" else other
                return _header(ask, file, settings)
        named = "no-header" in options or "names" in options
        if named or not fields(sign) or not may_be_record(file, delimiter=sign):
            raise
        if not ask.yes(
            "Is the first line a record, so that the columns have no names?",
            default=True,
            help="Some of it reads as numbers, dates or nulls. yes: it is a record as all others, "
            "none of it is shown, and the columns are called column_1, column_2 and so on. no: "
            "nothing happens. Then give other names, in the file or by names = [...] in the "
            "settings.",
        ):
            raise
        options["no-header"] = True
        return _header(ask, file, settings)


def _answered(draft: Draft) -> Commands | None:
    """Ask everything, show the plan and the commands; None if something is to be done by hand."""
    try:
        ask_unit(draft)
        rows = ask_rows(draft)
        used = ask_columns(draft)
        n_features = ask_codebook(draft, used)
        ask_transforms(draft, used)
    except ToFillIn as stop:
        _keep(draft)
        heading(draft.out, "Something to fill in first")
        paragraph(draft.out, f"Fill in {stop}, in {draft.known('codebook')}. Then go on with")
        show(draft.out, "")
        click.echo(f"    {draft.again}")
        show(draft.out, "")
        paragraph(draft.out, f"Your answers are in {draft.kept}. {NOTHING_HAPPENED}")
        return None
    again = draft.answered
    _ask_missing(draft)
    _ask_promise(draft, rows)
    _ask_ledger(draft, again=again)
    _ask_output(draft)
    draft.settings.plan["features"] = n_features
    _keep(draft)
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
        return _answered(draft)
    return _show_commands(draft)


def _keep(draft: Draft) -> None:
    """Keep the answers, in the order of the questions."""
    options = draft.settings.options
    middle = [key for key in options if key not in (*_FIRST, *_LAST)]
    draft.settings.options = {k: options[k] for k in (*_FIRST, *middle, *_LAST) if k in options}
    write_settings(draft.kept, draft.settings)


def _confirm(draft: Draft) -> str:
    """Ask whether to run it."""

    def check(text: str) -> str:
        for word in (_RUN, _LEAVE, _CHANGE):
            if text.casefold() in (word, word[0]):
                return word
        raise ParameterError(f"write {_RUN}, {_LEAVE} or {_CHANGE}.")

    return draft.ask.ask(
        f"Run it now? ({_RUN}, {_LEAVE}, {_CHANGE}, ?)",
        check,
        default=_RUN if draft.ask.defaults else _LEAVE,
        help=f"{_RUN}: the ledger is charged, then the records are read, and the release is "
        f"written. {_LEAVE}: nothing happens; the settings and the command stay. {_CHANGE}: go "
        "through the questions again, with your answers as defaults.",
    )


def _whom(draft: Draft) -> tuple[str, str]:
    """Return the relation and the unit of the promise, as the ledger calls them."""
    unit = draft.known("unit")
    word = RECORD if unit is None else unit if draft.header.names is not None else "unit"
    return draft.known("neighbours") or ONE_REPLACED.relation, word


def _ask_missing(draft: Draft) -> None:
    """Ask whether values may be missing."""
    missing = draft.ask.yes(
        "May values be missing?",
        default=draft.known("no-nulls") is None,
        help="yes: rows with a gap are left out, and about how many are complete is released, from "
        f"{100 * OF_COMPLETE:g} % of the budget. Do not remove such rows yourself: that breaks the "
        "promise.",
        note="In doubt say yes. If you say no and there is a gap, the release stops there, and its "
        "budget is spent all the same.",
    )
    draft.put("no-nulls", not missing)


def _ask_promise(draft: Draft, rows: int) -> None:
    """Ask for epsilon, with what it means in odds, and for delta."""
    heading(draft.out, "3. The promise")
    relation, unit = _whom(draft)
    adjacency = RELATIONS[relation]
    guess = guess_words(adjacency, unit)
    paragraph(
        draft.out, f"How sure somebody can become, at most, {guess}, by how sure they were before:"
    )
    show(draft.out, "")
    titles = ["epsilon", *(f"was {in_percent(prior)}" for prior in PRIORS)]
    odds = ([number(e), *(in_percent(highest_posterior(p, e)) for p in PRIORS)] for e in _EPSILONS)
    show(draft.out, text_table(titles, odds))
    epsilon = draft.ask.ask(
        "Epsilon? (smaller: more privacy, more noise)",
        lambda text: check_real(
            "epsilon", a_number(text), above=0, at_most=LARGEST_EPSILON, cure=_COMMON
        ),
        default=plain_number(draft.known("epsilon") or _USUAL_EPSILON),
        help="How much a release may give away of anybody. 1 is a common choice; above 2 the "
        "promise is weak, below 0.5 many rows are needed. Choose without looking at the records.",
    )
    draft.put("epsilon", epsilon)

    def delta_for(text: str) -> float:
        delta = check_real("delta", a_number(text), above=0, cure="try 1e-6.")
        if delta * rows >= 1:
            raise ParameterError(
                f"delta must be below 1 / rows, {number(1 / rows)}: try a tenth of it."
            )
        return delta

    usual = min(_USUAL_DELTA, 10.0 ** math.floor(math.log10(0.05 / rows)))
    delta = draft.ask.ask(
        "Delta? (the probability that the guarantee fails)",
        delta_for,
        default=plain_number(draft.known("delta") or usual),
        help="Far below 1 / rows: with a delta of 1 / rows a release might publish somebody as "
        "they are. 1e-6 is usual.",
    )
    draft.put("delta", delta)
    if epsilon not in _EPSILONS:
        paragraph(draft.out, f"So {odds_of(epsilon, delta, adjacency, unit)}")


def _ask_ledger(draft: Draft, *, again: bool) -> None:
    """Ask which ledger keeps count, and what total it is to promise if the dataset is new.

    `again` says that an earlier answer may have been that there is none.
    """
    heading(draft.out, "4. The ledger")
    usual = NONE if again else _LEDGER
    paragraph(
        draft.out,
        "Releases of the same rows add up. A ledger is a file that holds the total you promise, "
        "and refuses what goes beyond.",
    )

    def existing(text: str) -> Path | None:
        if text.casefold() == NONE:
            return None
        path = Path(text)
        check_paths(None, path)
        if path.exists():
            Ledger(path).datasets()  # refuses what is no ledger
        return path

    path = draft.ask.ask(
        f"Which file is the ledger? (new or existing, or {NONE})",
        existing,
        default=str(draft.known("ledger") or usual),
        help="One file can hold many datasets. Keep it where it is backed up, and use the same one "
        f"for all releases. {NONE}: nobody keeps count.",
    )
    draft.settings.budget.clear()
    draft.put("ledger", None if path is None else str(path))
    draft.put("dataset", draft.known("dataset") if path is not None else None)
    if path is None:
        return
    budgets, lines = {}, []
    if path.exists():
        ledger = Ledger(path)
        for name in ledger.datasets():
            budgets[name] = budget = ledger.statement(name).budget
            left = f"epsilon {number(ledger.remaining(name).epsilon)} left"
            lines.append((name, f"{left} of {number(budget.epsilon)}, for {budget.change}"))
        show(draft.out, "")
        facts(draft.out, lines)

    def check(name: str) -> str:
        budget = budgets.get(name)
        if budget is not None and (budget.neighbours, budget.unit) != _whom(draft):
            raise ParameterError(
                f"the budget of {name!r} is for {budget.change}, and this release is for another "
                "promise: choose another name, or change the answers about whom it protects."
            )
        return name

    dataset = draft.ask.ask(
        "Under which name are these rows in it?",
        check,
        default=str(draft.known("dataset") or draft.stem),
        help="A name for the people in this table. Another file about the same people belongs "
        "under the same name: one name, one budget.",
    )
    draft.put("dataset", dataset)
    if dataset not in budgets:
        _ask_total(draft)


def _ask_total(draft: Draft) -> None:
    epsilon, delta = draft.known("epsilon"), draft.known("delta")

    def check(text: str) -> float:
        total = a_number(text)
        if not math.isfinite(total) or total < epsilon:
            raise ParameterError(f"it must be at least the {number(epsilon)} of this release.")
        return total

    total = draft.ask.ask(
        "Total epsilon for all releases of these rows?",
        check,
        default=plain_number(epsilon),
        help="What all releases together may give away. The default leaves no room for a second "
        "release, and is the strongest promise; twice as much leaves room for one or two. It can "
        "be raised later, as a new promise, by 'hushcov ledger change'.",
    )
    draft.settings.budget.update(epsilon=total, delta=delta)


def _ask_output(draft: Draft) -> None:
    """Ask where the release goes: into a folder that is free."""
    free = free_path(Path(str(draft.known("output") or f"{draft.stem}-release")))

    def check(text: str) -> str:
        folder = Path(text)
        refuse_taken(folder)
        if folder.exists() and not folder.is_dir():
            raise ParameterError(f"{folder} is a file: name a folder.")
        return text

    folder = draft.ask.ask(
        "Into which folder does the release go?",
        check,
        default=str(free),
        help="A new folder: the estimate, tables, a report to open in a browser, and what was "
        "promised. All of it may be handed on.",
    )
    draft.put("output", str(Path(folder)))


def _show_plan(draft: Draft, rows: int, n_features: int, names: tuple[str, ...] | None) -> None:
    """Say what to expect, by the path of 'fit' but with records that are only declared."""
    # It takes seconds to import, so that questions come before it.
    from hushcov.cli.fit import command as fit
    from hushcov.cli.fit import prepare, quoted, refuse, warn

    path, features = draft.known("codebook"), names
    if path is not None and names is not None:  # one feature for each answer of a category
        book = read_codebook(path).of_columns(draft.names)
        known = {column.name: column.features for column in book.columns}
        features = tuple(each for name in names for each in known.get(name, (name,)))

    @contextmanager
    def declared(*_: Any, **__: Any) -> Iterator[Records]:
        yield DeclaredRecords(rows, n_features, features)

    group = click.get_current_context().parent
    with fit.make_context("fit", ["--settings", str(draft.kept)], parent=group) as context:
        options = context.params | {"dry_run": True}
        options["n_records"] = None if draft.public_rows else rows
        guess = draft.settings.plan.get(MOST_ROWS)
        options["max_rows_per_unit"] = options["max_rows_per_unit"] or guess
        job = prepare(options, open_data=declared)
        heading(draft.out, f"5. The plan, for about {counted(rows, 'row')}")
        n_features = job.plan.inputs.n_features
        plain = names is None or n_features == len(names)
        made = "" if plain else f", from {len(names or ())} columns"
        lines = [("release", f"covariance of {counted(n_features, 'feature')}{made}")]
        lines += [line for line in job.announcement() if line[0] in _PLANNED]
        if guess is not None:
            lines.append(("guessed", f"{guess} rows; the release finds how many of one it sums"))
        reading = "the number of lines, and types by the first ones; its columns after the charge"
        reading = "its columns, after the charge" if draft.header.states_rows else reading
        lines.append(("will read", f"{draft.file}: {reading}"))
        lines.append(("odds", str(job.certify().odds())))
        facts(draft.out, lines)
        warn(draft.out, job)
        guarantee = job.certify()
        refuse(job)
        if draft.known("ledger") is not None and not draft.settings.budget:
            quoted(Path(draft.known("ledger")), draft.known("dataset"), guarantee)


def _show_commands(draft: Draft) -> Commands:
    """Print what will be run, to be copied, and return it."""
    from hushcov.cli.fit import command as fit
    from hushcov.cli.ledger import command as ledger

    found: Commands = []
    heading(draft.out, "6. The command")
    budget = draft.settings.budget
    if budget:
        relation, unit = _whom(draft)
        words = ["init", str(draft.known("ledger")), "--dataset", str(draft.known("dataset"))]
        words += ["--epsilon", plain_number(budget["epsilon"])]
        words += ["--delta", plain_number(budget["delta"])]
        words += ["--neighbours", relation, "--unit", unit]
        found.append((ledger, words))
    found.append((fit, ["--settings", str(draft.kept)]))
    show(draft.out, "")
    for tool, words in found:  # each in one line, to be copied
        click.echo(" ".join(map(shell_word, ["hushcov", str(tool.name), *words])))
    return found
