"""Run one release of `hushcov fit`: plan it from public inputs, then read the records."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from rich.console import Console

from hushcov._validation import check_feature_scale
from hushcov._words import counted, memory, number, some_of
from hushcov.bounds import Bounds
from hushcov.cli.files import candidate_words
from hushcov.cli.output import busy, console, facts, heading, watched
from hushcov.cli.plan import command_memory, expected_facts
from hushcov.estimators import PrivateSparseCovariance
from hushcov.estimators.scaled import PrivacyUnit
from hushcov.exceptions import AccuracyWarning, DataError, ParameterError, PrivacyWarning
from hushcov.fit import Caution, Comparison, Families, compare, default_mechanism, forecast_families
from hushcov.fit.counting import Counted
from hushcov.fit.registry import COMPILING, reader_memory
from hushcov.kernel.accounting import ONE_REPLACED, RECORD, Guarantee
from hushcov.kernel.queries import default_block_rows
from hushcov.options import ESTIMANDS, Taker, read_bandwidth
from hushcov.promise import promise_words
from hushcov.release import Making, Release
from hushcov.release.findings import released_pairs
from hushcov.tables.files import reader_bytes
from hushcov.tables.sources import (
    DeclaredRecords,
    TableRecords,
    are_elsewhere,
    check_enough,
    is_file_source,
    memory_given,
    with_count,
)
from hushcov.tables.units import split_columns
from hushcov.text.description import (
    MOST_NAMED,
    Description,
    counted_facts,
    describe,
    noise_words,
    structure_dict,
    verdict,
)

if TYPE_CHECKING:
    from hushcov.kernel.records.base import Records

NULLS_LEFT_OUT = (
    "records with a missing value in any column are left out: see that no column is known to be "
    "mostly empty"
)
NULLS_REFUSED = "there must be none: one that is found stops the fit, and the budget is spent"


@dataclass(frozen=True)
class Source:
    """The records, and where the release goes. Nothing is read here."""

    file: Path
    folder: Path
    records: Records
    known_mean: bool
    about: bool = False  # how many records there are is not public: released, or guessed
    left_out: Mapping[str, str] = field(default_factory=dict)  # columns that are no features, why

    def __post_init__(self) -> None:
        if not self.about:
            check_enough(self.file, self.records)

    def __str__(self) -> str:
        n, d = self.records.n_records, self.records.n_features
        about = "about " * self.about
        return f"{self.file}: {about}{counted(n, 'record')} of {counted(d, 'feature')}"

    def left_words(self) -> list[tuple[str, str]]:
        """Return a labelled sentence on columns that were left out without being asked to."""
        listed = some_of([f"{name} ({why})" for name, why in self.left_out.items()], MOST_NAMED)
        take = "--columns takes them in, and --unit says whose rows are whose"
        return [("left out", f"{listed}. {take}")] if self.left_out else []

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain, JSON-ready data."""
        return {
            "file": str(self.file),
            "left_out": dict(self.left_out),
            "n_records": self.records.n_records,
            "n_features": self.records.n_features,
            "known_mean": self.known_mean,
            "output": str(self.folder),
        }


class OtherColumns(NamedTuple):
    """Columns that are no features: identifiers of units, or weights.

    `guess` is a public number of records to plan for where nothing is to be read.
    """

    word: str = RECORD
    identifiers: Any = None
    weights: Any = None
    guess: int | None = None


def split_off(records: Any, column: str, what: str) -> tuple[Any, Any, str]:
    """Return the records without a column, the column, and its name; nothing is read."""
    if isinstance(records, DeclaredRecords):  # which were declared without it
        return records, records.column, what if column.isdecimal() else column
    place = int(column) if isinstance(records, TableRecords) and column.isdecimal() else column
    return split_columns(records, place, what=what)


def check_count(*, counts: bool, n_records: int | None, dry_run: bool) -> None:
    """Refuse a number of records where that is not public, and its lack in a dry run."""
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


def check_size(file: Path, records: Any, n_records: int | None) -> None:
    """Check the number of records against the declared one; no record is read."""
    if n_records is not None and n_records != records.n_records:
        raise DataError(
            f"--records must be what {file} holds, {records.n_records:,}, got {n_records:,}: check "
            "that this is the right file, or leave --records out. No record was read."
        )


def say_count(out: Console, counting: Any) -> None:
    """Print that the number of records is released first, and what that spends."""
    heading(out, "The number of records is not public")
    found = f"epsilon {number(counting.count_epsilon)} of {number(counting.epsilon)}"
    if counting.chooses:
        found += f", and {number(counting.sizes_epsilon)} for how many a unit has"
    facts(out, [("first", f"it is released with noise, which spends {found}")])


@contextmanager
def quiet() -> Iterator[None]:
    """Silence warnings of estimators that the announcement prints already."""
    with warnings.catch_warnings():
        for category in (AccuracyWarning, PrivacyWarning):
            warnings.simplefilter("ignore", category)
        yield


@dataclass(frozen=True)
class Job:
    """A release of a table: everything public is settled when it is made; `fit` reads the records.

    Slices derive their own, for plans of their own.
    """

    source: Source
    estimator: Any
    plan: Any
    privacy_unit: PrivacyUnit = field(default_factory=PrivacyUnit)
    opened: Any = None  # the records with what was settled about them; None in some dry runs

    shown_pairs: ClassVar[int] = 10

    @classmethod
    def prepare(
        cls,
        source: Source,
        known: dict[str, Any],
        columns: OtherColumns,
        out: Console | None = None,
    ) -> Job:
        """Settle every public number of the release; no record is read.

        `known` are parameters of the estimator. Where the number of records is not public, it is
        released first.
        """
        records = source.records
        if known.get("feature_scale") is not None:
            check_feature_scale(known["feature_scale"], records.n_features)
        estimator = PrivateSparseCovariance(**known)
        privacy_unit = PrivacyUnit.checked(
            estimator, columns.word, columns.identifiers, columns.weights
        )
        if columns.guess is not None:  # nothing is to be read
            source = replace(source, records=with_count(records, columns.guess))
            with busy("comparing the mechanisms, from public inputs"):
                plan = estimator._fit_plan(
                    columns.guess, records.n_features, privacy_unit=privacy_unit
                )
            return cls(source, estimator, plan, privacy_unit)
        counting, out = privacy_unit.counting(estimator.epsilon or 0.0), out or console()
        if counting is not None:
            say_count(out, counting)
        with quiet(), busy("comparing the mechanisms"):
            opened = estimator._count(records, privacy_unit)
        if opened.counted is not None:
            found = Making(counted=opened.counted.to_dict()).counted_words
            facts(out, [("found", found or "")])
            source = replace(source, records=opened.records)
        return cls(source, estimator, opened.plan, privacy_unit, opened)

    @property
    def counted(self) -> Counted | None:
        """The released number of records; None where it is public, or guessed."""
        return None if self.opened is None else self.opened.counted

    @property
    def cautions(self) -> tuple[Caution, ...]:
        """Cautions that should stop a careful user, if any."""
        found: tuple[Caution, ...] = self.plan.cautions
        return found

    def announcement(self) -> list[tuple[str, str]]:
        """Return what will be released, how, and what to expect, in labelled sentences."""
        inputs, d = self.plan.inputs, self.plan.inputs.n_features
        mechanism = self.plan.chosen.mechanism
        unspent = f" The delta of {number(inputs.delta)} is not used." if mechanism.pure else ""
        epsilon = self.certify().epsilon  # with what a count before it spends
        delta = 0.0 if mechanism.pure else inputs.delta
        unknown = []
        for stage in filter(lambda stage: stage.cost().mu, self.plan.stages):
            share = number(100 * stage.cost().mu ** 2 / 2 / inputs.rho, 2)
            unknown.append(f"{stage.unknown}, estimated privately from {share} % of the budget")
        needed, reading = self._memory()
        files = f": {memory(needed)} for the fit and {memory(reading)} for reading the files"
        elsewhere = are_elsewhere(self.source.records)
        files = files if reading else " in this process, beside its workers" * elsewhere
        first = f"about {memory(COMPILING)} more the first time, when code is compiled"
        return [
            ("release", f"{d:,} x {d:,} covariance, rounded to integers, and scales of features"),
            ("guarantee", promise_words(epsilon, delta, *inputs.neighbours.whom)),
            ("", f"It holds whatever the records are.{unspent}"),
            *self._protected(),
            ("public inputs", self._public()),
            ("not known", "; ".join(unknown) or "nothing else that is needed"),
            ("nulls", NULLS_LEFT_OUT if self.plan.request.drop_nulls else NULLS_REFUSED),
            ("mechanism", self._mechanism()),
            *self._expected(),
            ("memory", f"at most about {memory(needed + reading)}{files} ({first})"),
        ]

    def _protected(self) -> list[tuple[str, str]]:
        """Return what one unit of privacy is, where it is not one record that is replaced."""
        privacy_unit, most = self.privacy_unit, self.plan.inputs.neighbours.most_rows
        if privacy_unit.neighbours == ONE_REPLACED:
            return []
        if privacy_unit.weights is not None:
            words = "one record, whatever its weight"
        elif privacy_unit.identifiers is None:
            words = "one record"
        elif privacy_unit.estimand == ESTIMANDS[1]:
            words = f"all rows of one {privacy_unit.unit}, whose mean counts"
        else:
            words = f"all rows of one {privacy_unit.unit}, of which at most {most:,} are summed"
        guessed = privacy_unit.most_rows is None and self.counted is None
        return [
            ("protects", words + f" (found from the records; predicted as if {most})" * guessed)
        ]

    def _public(self) -> str:
        inputs, estimator = self.plan.inputs, self.estimator
        given, k = estimator.row_sparsity, inputs.row_sparsity
        parts = [
            "the number of features" if self.source.about else "the size of the data",
            f"epsilon {number(estimator.epsilon or 0.0)}",
            f"delta {number(inputs.delta)}",
        ]
        if given is not None:
            parts.append(f"row sparsity {k}" + " (as advice)" * self.adaptive)
        elif not self.adaptive and inputs.candidates is None:
            parts.append(f"row sparsity {k} (assumed; give --row-sparsity)")
        if inputs.candidates is not None:
            parts.append(candidate_words(inputs.candidates))
        if estimator.feature_scale is not None:
            parts.append("the features' scales")
        bounds: Bounds | None = estimator.bounds
        known = 0 if bounds is None else int((np.isfinite([bounds.low, bounds.high])).any(0).sum())
        if known:
            parts.append(f"bounds of {counted(known, 'feature')}")
        transforms = self.plan.request.transforms
        if transforms is not None:
            mapped = sum(own is not None for own in transforms.columns)
            parts.append(f"transforms of {counted(mapped, 'feature')}")
        return ", ".join([*parts, *["mean zero"] * self.source.known_mean])

    @property
    def adaptive(self) -> bool:
        """Whether the mechanism finds out the structure by itself."""
        return self.plan.chosen.mechanism is default_mechanism()

    def _mechanism(self) -> str:
        if self.adaptive:
            name = self.plan.chosen.mechanism.name
            return f"{name}: finds out whether few pairs, few factors or neither matter"
        chosen, error, known = self.plan.chosen, "", self.plan.inputs.candidates
        if known is not None and self.estimator.mechanism == "auto":
            does = "looks at the candidate pairs alone"
            if read_bandwidth(self.estimator.bandwidth)[1]:
                does = f"finds how far apart features covary, up to {known.bandwidth} columns"
            return f"{chosen.mechanism.name}: {does}"
        if chosen.forecast is not None:
            error = f"predicted error {number(chosen.forecast.typical_error, 2)}, "
        listed = "others" if error else "predicted errors of others"
        others = ", ".join(
            f"{each.mechanism} {number(each.typical_error, 2)}" + " (rough)" * each.rough
            for each in self.comparison.forecasts
            if each.mechanism != chosen.mechanism.name
        )
        return f"{chosen.mechanism.name}, {error}as you chose; {listed}: {others}"

    def _expected(self) -> list[tuple[str, str]]:
        mechanism, forecast = self.plan.chosen.mechanism, self.plan.chosen.forecast
        lines = [("expected error", f"not predicted for {mechanism.name}")]
        if forecast is not None:
            lines = expected_facts(self.families if self.adaptive else forecast)
        most = mechanism.most_features
        if most is not None and self.source.records.n_features > most:
            lines.append(("time", f"long, with more than {most:,} features: {mechanism.limit}"))
        return lines

    def _memory(self) -> tuple[int, int]:
        """Return the bytes that the fit is expected to need, and those that reading files does."""
        name, prepared = self.plan.chosen.mechanism.name, self.plan.request.prepares
        records, reading = self.source.records, 0
        d, elsewhere, given = records.n_features, are_elsewhere(records), memory_given(records)
        if is_file_source(self.source.file) and not elsewhere:
            reading = reader_memory(d, default_block_rows(d), reader_bytes(d))
        needed = command_memory(
            name, self.plan.inputs, prepared=prepared, elsewhere=elsewhere, given=given
        )
        return needed, reading

    @cached_property
    def comparison(self) -> Comparison:
        """Predicted errors of all mechanisms that have one."""
        return compare(self.plan.inputs, refine=False)

    @cached_property
    def families(self) -> Families:
        """Predicted errors of the default by family of structure."""
        return forecast_families(self.plan.inputs)

    def certify(self) -> Guarantee:
        """Return what will be charged; what is not private is refused before a record is read."""
        guarantee: Guarantee = self.plan.budget().certificate
        found = self.counted
        if found is not None:
            return guarantee.after(found.guarantee)
        counting = self.privacy_unit.counting(self.estimator.epsilon or 0.0)
        return guarantee if counting is None else guarantee.after(counting.budget().certificate)

    def watched(self) -> AbstractContextManager[Any]:
        """Return the records under a progress bar, to be fitted."""
        records = self.source.records if self.opened is None else self.opened.records
        return watched(records, count_is_public=not self.source.about)

    def fit(self, records: Any) -> None:
        """Run the mechanism."""
        self.estimator._fit_counted(replace(self.opened, records=records))

    @property
    def release(self) -> Release:
        """The release; after `fit`."""
        result: Release = self.estimator.release_
        return result

    @cached_property
    def found(self) -> Description:
        """The pairs found; after `fit`."""
        return describe(self.release, self.shown_pairs)

    def summary(self) -> list[tuple[str, str]]:
        """Return pairs and noise, in labelled sentences."""
        release, selected = self.release, self.release.selected
        dropped = 0 if selected is None else released_pairs(release) - self.found.number
        note = f"; {dropped:,} more were released and lie below the threshold" if dropped else ""
        lines = self.found.facts() + counted_facts(release) + self.found.lines(note)
        noise = noise_words(release)
        if noise is not None and (selected is None or selected.size):
            lines.append(("noise", noise))
        return lines

    def expected(self) -> dict[str, object]:
        """Return what is known before any record is read, as plain, JSON-ready data."""
        each, found = self.plan.chosen.forecast, self.counted
        return {
            "mechanism": self.plan.chosen.mechanism.name,
            "predicted_error": None if each is None else dict(each.predicted_error),
            "typical_error": None if each is None else each.typical_error,
            "families": self.families.to_dict() if self.adaptive else None,
            "detection_limit": None if each is None else each.detection_limit,
            "hopeless": None if each is None else each.hopeless,
            "warnings": [caution.sentence for caution in self.cautions],
            "predicted_memory_bytes": sum(self._memory()),
            "neighbours": self.privacy_unit.relation,
            "protected": self.privacy_unit.unit,
            "max_rows_per_unit": self.plan.inputs.neighbours.most_rows,
            "estimand": self.privacy_unit.estimand,
            "counted": None if found is None else found.to_dict(),
            "forecasts": [each.to_dict() for each in self.comparison.forecasts],
        }

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain, JSON-ready data."""
        release, sd = self.release, self.release.noise_sd
        return self.expected() | {
            "unit": release.unit,
            "warnings": list(release.warnings),
            "verdict": verdict(release).to_dict(),
            "structure": structure_dict(release),
            "found_pairs": self.found.number,
            "largest_pairs": [pair.to_dict() for pair in self.found.strongest],
            "noise_sd": None if sd is None else [float(value) for value in sd],
            "guarantee": release.guarantee.to_dict(),
            "parameters": dict(release.parameters),
            "complete_records": release.making.complete,
        }


#: What a job is made of: where the records are, parameters of an estimator, and other columns.
Settled = tuple[Source, dict[str, Any], OtherColumns]


@dataclass(frozen=True)
class Slice:
    """A way to fit that comes with a slice: its options, and how its job is made.

    Parameters
    ----------
    taker : Taker
        Options that it takes, and why not others.
    prepare : callable
        Makes the job from the options, a function that settles them for a table, and a console.
    suffix, reads : str
        Files that only it reads, and what to say where another mechanism is asked for.
    plan : callable, optional
        Plans for `hushcov plan`, from numbers of features and of records, whether to print JSON,
        and the options.
    """

    taker: Taker
    prepare: Callable[[dict[str, Any], Callable[[], Settled], Console | None], Job]
    suffix: str | None = None
    reads: str = ""
    plan: Callable[[int, tuple[int, ...], bool, dict[str, Any]], None] | None = None
