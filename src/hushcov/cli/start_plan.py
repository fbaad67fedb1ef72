"""What `hushcov start` would run: the plan, by the path of `fit` without a file, and the commands.

This imports all of `fit`, so that questions come before it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from hushcov._words import counted
from hushcov.cli.files import opened
from hushcov.cli.fit import certified, settle
from hushcov.cli.fit import command as fit
from hushcov.cli.fit_source import quoted
from hushcov.cli.fitting import prepare
from hushcov.cli.ledger import command as ledger
from hushcov.cli.output import facts, heading, paragraph, show
from hushcov.cli.settings import MOST_ROWS, argument, arguments
from hushcov.cli.start_budget import whom
from hushcov.cli.start_columns import Draft
from hushcov.sums.records import Records
from hushcov.tables.codebook import Codebook, read_codebook
from hushcov.tables.headers import DeclaredRecords

_WIDTH = 76
# What the plan says of what 'fit' announces, and options that are no public inputs of it.
_PLANNED = ("guarantee", "protects", "expected error", "will find", "time", "memory")
_NOT_PUBLIC = ("dry_run", "as_json")


def show_plan(draft: Draft, rows: int, n_features: int, names: tuple[str, ...] | None) -> None:
    """Say what to expect, by the path of 'fit' but with records that are only declared."""
    path = draft.known("codebook")
    book = None if path is None else read_codebook(path)
    features = None if names is None else _features(names, book)

    @contextmanager
    def declared(_: Path, *, drop_nulls: bool, **__: Any) -> Iterator[Records]:
        yield DeclaredRecords(rows, n_features, features, gaps=drop_nulls)

    group = click.get_current_context().parent
    with fit.make_context("fit", arguments(draft.settings), parent=group) as context:
        options = {key: value for key, value in context.params.items() if key not in _NOT_PUBLIC}
        options["n_records"] = None if draft.public_rows else rows
        guess = draft.settings.plan.get(MOST_ROWS)
        options["max_rows_per_unit"] = options["max_rows_per_unit"] or guess
        source, mechanism, public = settle(declared, dry_run=True, **options)
        job = prepare(source, mechanism, **public)
        heading(draft.out, f"5. The plan, for about {counted(rows, 'row')}")
        plain = names is None or n_features == len(names)
        made = "" if plain else f", from {len(names or ())} columns"
        lines = [("release", f"covariance of {counted(n_features, 'feature')}{made}")]
        lines += [line for line in job.announcement() if line[0] in _PLANNED]
        if guess is not None:
            lines.append(("guessed", f"{guess} rows; the release finds how many of one it sums"))
        lines.append(("will read", f"{draft.file}: {_reading(draft)}"))
        lines.append(("odds", str(job.certify().odds())))
        facts(draft.out, lines)
        guarantee = certified(draft.out, job)
        if draft.known("ledger") is not None and not draft.settings.budget:
            quoted(Path(draft.known("ledger")), draft.known("dataset"), guarantee)


def check_data(words: Sequence[str]) -> None:
    """Open the records as 'fit' does, which refuses wrong columns and types before a charge."""
    group = click.get_current_context().parent
    with fit.make_context("fit", list(words), parent=group) as context:
        options = {key: value for key, value in context.params.items() if key not in _NOT_PUBLIC}
        settle(opened, dry_run=False, **options)


def _reading(draft: Draft) -> str:
    """What 'fit' reads when."""
    if draft.header.states_rows:
        return "its columns, after the charge"
    return "the number of lines, and types by the first ones; its columns after the charge"


def _features(names: Sequence[str], book: Codebook | None) -> tuple[str, ...]:
    """Names of features: one for each answer of a category."""
    known = {} if book is None else {column.name: column.features for column in book.columns}
    return tuple(feature for name in names for feature in known.get(name, (name,)))


def show_commands(draft: Draft, kept: Path) -> list[tuple[click.Command, list[str]]]:
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
