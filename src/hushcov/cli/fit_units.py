"""Whose privacy `hushcov fit` protects: columns that are no features, and the count before all."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import click
from rich.console import Console

from hushcov._words import number
from hushcov.accounting import RECORD
from hushcov.cli.options import NUMBER, Function
from hushcov.cli.output import facts, heading
from hushcov.estimators import PrivateSparseCovariance
from hushcov.estimators.whose import ESTIMANDS, OpenedRecords, Whose
from hushcov.exceptions import AccuracyWarning, ParameterError, PrivacyWarning
from hushcov.release import Making
from hushcov.sums.protocol import Records
from hushcov.sums.views import CountedRecords
from hushcov.tables.sources import DeclaredRecords, TableRecords
from hushcov.tables.units import split_columns

_UNIT = click.option(
    "--unit",
    metavar="COLUMN",
    help="Identifiers, as of patients: all rows of one are protected together. The column, or its "
    "position in a .npy file from 0 on, is no feature.",
)
_ESTIMAND = click.option(
    "--estimand",
    type=click.Choice(ESTIMANDS),
    help="With --unit: the covariance of rows, each of which counts, or of the means of units.  "
    f"[default: {ESTIMANDS[0]}]",
)
_WEIGHT = click.option(
    "--weight",
    "sample_weight",
    metavar="COLUMN",
    help="Public survey weights; the column is no feature. Needs --max-weight.",
)
_MAX_WEIGHT = click.option(
    "--max-weight",
    "max_sample_weight",
    type=NUMBER,
    metavar="W",
    help="The largest weight that any record can have; public. Larger ones count as that.",
)


def unit_options(function: Function) -> Function:
    """Add whose the rows are, and how much each counts."""
    for option in (_MAX_WEIGHT, _WEIGHT, _ESTIMAND, _UNIT):
        function = option(function)
    return function


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns that are no features: whose the rows are, or how much each counts.

    `guess` is a public number of records to plan for where nothing is to be read.
    """

    word: str = RECORD
    identifiers: Any = None
    weights: Any = None
    guess: int | None = None

    @classmethod
    def of(
        cls, records: Records, unit: str | None, weight: str | None, **known: Any
    ) -> tuple[Records, Columns]:
        """The records without these columns, and the columns; nothing is read."""
        if unit is not None and weight is not None:
            raise ParameterError(
                "--weight must be left out with --unit: rows of one unit with weights of their own "
                "are not bounded together. Use one of them."
            )
        word, identifiers, weights = RECORD, None, None
        if unit is not None:
            records, identifiers, word = _split(records, unit, "unit")
        if weight is not None:
            records, weights, _ = _split(records, weight, "sample_weight")
        return records, cls(word, identifiers, weights, **known)


def _split(records: Records, column: str, what: str) -> tuple[Any, Any, str]:
    """The records without a column, the column, and its name; in files without names by place."""
    if isinstance(records, DeclaredRecords):  # which were declared without it
        return records, records.column, what if column.isdecimal() else column
    place = int(column) if isinstance(records, TableRecords) and column.isdecimal() else column
    return split_columns(records, place, what=what)


def check_columns(
    *,
    unit: str | None,
    weight: str | None,
    scheduler: str | None,
    counts: bool,
    n_records: int | None,
    dry_run: bool,
) -> None:
    """Refuse options that do not go together where the number of records is not public."""
    if scheduler is not None and (unit is not None or weight is not None):
        raise ParameterError(
            "--scheduler must be left out with --unit and --weight: workers that read files would "
            "see parts of a unit. Use fit(dask.dataframe.read_parquet(...), unit=...) in Python, "
            "which brings units together, or leave the option out."
        )
    if counts and dry_run and n_records is None:
        raise ParameterError(
            "--records is required with --dry-run where the number of records is not public: give "
            "a number that is known or guessed without looking at them."
        )
    if counts and not dry_run and n_records is not None:
        raise ParameterError(
            "--records must be left out where the number of records is not public: it is released "
            "first, with noise. With --dry-run it is a guess."
        )


def counted_records(
    out: Console, records: Records, estimator: PrivateSparseCovariance, whose: Whose
) -> OpenedRecords:
    """Say that the number of records is released first, charge and release it, and say it."""
    counting = whose.counting(estimator.epsilon or 0.0)
    if counting is not None:
        heading(out, "The number of records is not public")
        found = f"epsilon {number(counting.count_epsilon)} of {number(counting.epsilon)}"
        if counting.chooses:
            found += f", and {number(counting.sizes_epsilon)} for how many a unit has"
        facts(out, [("first", f"it is released with noise, which spends {found}")])
    with warnings.catch_warnings():
        for category in (AccuracyWarning, PrivacyWarning):
            warnings.simplefilter("ignore", category)
        opened = estimator.count(records, whose)
    if opened.counted is not None:
        facts(out, [("found", Making(counted=opened.counted.to_dict()).counted_words or "")])
    return opened


def guessed_records(records: Records, columns: Columns) -> Records:
    """The same, of which so many are said to be as was guessed; nothing is read."""
    assert columns.guess is not None
    return CountedRecords(records, columns.guess)


def whose_words(whose: Whose, most_rows: int) -> str:
    """Whom the promise protects, in words."""
    if whose.weights is not None:
        return "one record, whatever its weight"
    if whose.identifiers is None:
        return "one record"
    if whose.estimand != ESTIMANDS[0]:
        return f"all rows of one {whose.unit}, whose mean counts"
    return f"all rows of one {whose.unit}, of which at most {most_rows:,} are summed"
