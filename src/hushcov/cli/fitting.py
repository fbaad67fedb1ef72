"""What `hushcov fit` runs: everything public is settled first, then the records are read."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from rich.console import Console

from hushcov._words import counted, memory, noise_level, number
from hushcov.accounting import ONE_REPLACED, RELATIONS, Guarantee
from hushcov.accounting.guarantee import promise_words
from hushcov.cli.fit_options import THEOREM
from hushcov.cli.fit_source import Source
from hushcov.cli.fit_units import (
    Columns,
    counted_records,
    guessed_records,
    whose_words,
)
from hushcov.cli.forecasts import command_memory, forecast_dict
from hushcov.cli.known_pairs import candidate_words, run_words
from hushcov.cli.output import busy, console, watched
from hushcov.cli.words import (
    Found,
    accuracy_verdict,
    complete_facts,
    detection,
    families_error,
    found_pairs,
    privacy_verdict,
    structure_facts,
    typical_error,
)
from hushcov.estimators import MultiscaleCovariance, PrivateSparseCovariance
from hushcov.estimators.base import PrivateCovariance
from hushcov.estimators.whose import OpenedRecords, Whose, paid_count
from hushcov.exceptions import (
    AccuracyWarning,
    PrivacyConditionError,
    PrivacyWarning,
)
from hushcov.paper import MULTISCALE, TheoremParameters, certify
from hushcov.planning import (
    Caution,
    Comparison,
    Families,
    Plan,
    compare,
    default_mechanism,
    forecast_families,
    large_delta,
)
from hushcov.planning.memory import COMPILING, reader_memory
from hushcov.postprocess import Matrix
from hushcov.release import Release
from hushcov.release.structure import structure_dict, verdict
from hushcov.steps.counting import Counted
from hushcov.sums.grids import check_feature_scale
from hushcov.sums.knowledge import Bounds
from hushcov.sums.protocol import Records, default_block_rows
from hushcov.tables.files import reader_bytes
from hushcov.tables.sources import is_file_source

_PUBLIC = ("epsilon", "delta", "row_sparsity", "scale", "target_error", "failure_probability")


@dataclass(frozen=True)
class Job(ABC):
    """A release: everything public is settled when it is made; `fit` reads the records."""

    source: Source
    estimator: PrivateCovariance

    shown_pairs: ClassVar[int] = 10

    @property
    @abstractmethod
    def cautions(self) -> tuple[Caution, ...]:
        """What should stop a careful user, if anything."""

    @abstractmethod
    def announcement(self) -> list[tuple[str, str]]:
        """What will happen, in labelled sentences."""

    @abstractmethod
    def certify(self) -> Guarantee:
        """What will be charged; what is not private is refused, before any record is read."""

    @abstractmethod
    def expected(self) -> dict[str, object]:
        """Return what is known before any record is read, as plain, JSON-ready data."""

    @property
    def spent_before(self) -> str:
        """The epsilon of a count that was released before; nothing where there was none."""
        return ""

    def watched(self) -> AbstractContextManager[Any]:
        """The records under a progress bar, to be fitted."""
        return watched(self.source.records, count_is_public=not self.source.about)

    def fit(self, records: Any) -> None:
        """Run the mechanism; the announcement has said what to heed."""
        with warnings.catch_warnings():
            for category in (AccuracyWarning, PrivacyWarning):
                warnings.simplefilter("ignore", category)
            self._run(records)
        release = self.release
        if release.making.dataset is None:
            named = replace(release.making, dataset=self.source.name)
            self.estimator.release_ = replace(release, making=named)

    @abstractmethod
    def _run(self, records: Any) -> None: ...

    @property
    def release(self) -> Release:
        """What was released; after `fit`."""
        result: Release = self.estimator.release_
        return result

    @property
    def covariance(self) -> Matrix:
        """The estimate; after `fit`."""
        return self.estimator.covariance_

    @cached_property
    def found(self) -> Found:
        """The pairs found; after `fit`."""
        return found_pairs(self.release, self.shown_pairs)

    def summary(self) -> list[tuple[str, str]]:
        """Pairs and noise, in labelled sentences."""
        release, selected = self.release, self.release.selected
        dropped = 0 if selected is None else selected.shape[1] - self.found.number
        note = f"; {dropped:,} more were released and lie below the threshold" if dropped else ""
        lines = structure_facts(release) + complete_facts(release) + self.found.lines(note)
        if release.noise_sd is not None and (selected is None or selected.size):
            sd = float(release.noise_sd[0])
            lines.append(("noise", noise_level(sd, self.source.records.n_records)))
        return lines

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain, JSON-ready data."""
        release, sd = self.release, self.release.noise_sd
        return self.expected() | {
            "unit": release.unit,
            "warnings": list(release.warnings),
            "verdict": asdict(verdict(release)),
            "structure": structure_dict(release),
            "found_pairs": self.found.number,
            "largest_pairs": [pair.to_dict() for pair in self.found.strongest],
            "noise_sd": None if sd is None else [float(value) for value in sd],
            "guarantee": release.guarantee.to_dict(),
            "parameters": dict(release.parameters),
            "complete_records": release.making.complete,
        }


@dataclass(frozen=True)
class PlannedJob(Job):
    """By any mechanism but the theorem: the one asked for, or that with the smallest error."""

    estimator: PrivateSparseCovariance
    plan: Plan
    whose: Whose = field(default_factory=Whose)
    opened: OpenedRecords | None = None  # after a count

    @classmethod
    def prepare(
        cls,
        source: Source,
        mechanism: str,
        *,
        feature_scale: Any = None,
        columns: Columns | None = None,
        out: Console | None = None,
        **public: Any,
    ) -> PlannedJob:
        """Settle every public number of the release; no record is read.

        Where the number of records is not public, it is released first.
        """
        records, columns = source.records, columns or Columns()
        if feature_scale is not None:
            check_feature_scale(feature_scale, records.n_features)
        estimator = PrivateSparseCovariance(
            feature_scale=feature_scale,
            mechanism=mechanism,
            positive_semidefinite=public.pop("psd", False),
            assume_centered=source.known_mean,
            store_precision=False,
            **public,
        )
        whose = Whose.checked(estimator, columns.word, columns.identifiers, columns.weights)
        opened = None
        if whose.counts:
            if columns.guess is not None:
                records = guessed_records(records, columns)
            else:
                opened = counted_records(out or console(), records, estimator, whose)
                records = opened.records
            source = replace(source, records=records)
        with paid_count(estimator), busy("comparing the mechanisms, from public inputs"):
            if opened is not None:
                plan = estimator.plan_opened(opened)
            else:
                size = records.n_records, records.n_features
                plan = estimator.fit_plan(*size, gaps=records.gaps, whose=whose)
        return cls(source, estimator, plan, whose, opened)

    @property
    def _found(self) -> Counted | None:
        return None if self.opened is None else self.opened.counted

    @property
    def cautions(self) -> tuple[Caution, ...]:
        """What `fit` warns of, or refuses."""
        return self.plan.cautions

    @property
    def spent_before(self) -> str:
        """See `Job.spent_before`."""
        found = self._found
        return "" if found is None else number(found.guarantee.epsilon)

    def announcement(self) -> list[tuple[str, str]]:
        """What will be released, how, and what to expect."""
        inputs, d = self.plan.inputs, self.plan.inputs.n_features
        mechanism = self.plan.chosen.mechanism
        unspent = f" The delta of {number(inputs.delta)} is not used." if mechanism.pure else ""
        epsilon = self.certify().epsilon  # with what a count before it spends
        to_whom = RELATIONS[inputs.neighbours.relation], inputs.neighbours.unit
        delta = 0.0 if mechanism.pure else inputs.delta
        return [
            ("release", f"{d:,} x {d:,} covariance, rounded to integers, and scales of features"),
            ("guarantee", promise_words(epsilon, delta, *to_whom)),
            ("", f"It holds whatever the records are.{unspent}"),
            *self._protected(),
            ("public inputs", self._public()),
            ("not known", self._unknown()),
            ("mechanism", self._mechanism()),
            *self._expected(),
            ("memory", self._memory()),
        ]

    def _protected(self) -> list[tuple[str, str]]:
        """Whom it protects, where that is not one record that is replaced."""
        if self.whose.neighbours == ONE_REPLACED:
            return []
        most = self.plan.inputs.neighbours.most_rows
        guessed = self.whose.most_rows is None and self._found is None
        as_if = f" (found from the records; predicted as if {most})" * guessed
        return [("protects", whose_words(self.whose, most) + as_if)]

    def _public(self) -> str:
        inputs = self.plan.inputs
        scales = "" if self.estimator.feature_scale is None else ", the features' scales"
        mean = ", mean zero" if self.source.known_mean else ""
        bounds: Bounds | None = self.estimator.bounds
        known = 0 if bounds is None else int((np.isfinite([bounds.low, bounds.high])).any(0).sum())
        scales += f", bounds of {counted(known, 'feature')}" if known else ""
        return (
            f"{'the number of features' if self.source.about else 'the size of the data'}, epsilon "
            f"{number(self.estimator.epsilon or 0.0)}, delta {number(inputs.delta)}"
            f"{self._sparsity()}{self._pairs()}{scales}{mean}"
        )

    def _pairs(self) -> str:
        known = self.plan.inputs.candidates
        return "" if known is None else f", {candidate_words(known)}"

    def _sparsity(self) -> str:
        """The sparsity as it was given, or that it was assumed by a mechanism that needs one."""
        given, k = self.estimator.row_sparsity, self.plan.inputs.row_sparsity
        if given is None:
            return (
                ""
                if self.adaptive or self.plan.inputs.candidates is not None
                else f", row sparsity {k} (assumed; give --row-sparsity)"
            )
        return f", row sparsity {k}" + " (as advice)" * self.adaptive

    @property
    def adaptive(self) -> bool:
        """Whether the structure is found out."""
        return self.plan.chosen.mechanism is default_mechanism()

    def _unknown(self) -> str:
        parts = []
        budget = self.plan.inputs.rho
        for stage in self.plan.stages:
            share = number(100 * stage.cost**2 / 2 / budget, 2)
            parts.append(f"{stage.unknown}, estimated privately from {share} % of the budget")
        return "; ".join(parts) or "nothing else that is needed"

    def _mechanism(self) -> str:
        if self.adaptive:
            name = self.plan.chosen.mechanism.name
            return f"{name}: finds out whether few pairs, few factors or neither matter"
        chosen, error, known = self.plan.chosen, "", self.plan.inputs.candidates
        if known is not None and self.estimator.mechanism == "auto":
            found = bool(self.estimator.adaptive_width)
            return run_words(chosen.mechanism.name, known, adaptive_width=found)
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
        if self.adaptive:
            found = self.families
            lines = [
                ("expected error", families_error(found)),
                ("will find", detection(found.usual)),
            ]
        elif forecast is not None:
            lines = [
                ("expected error", typical_error(forecast)),
                ("will find", detection(forecast)),
            ]
        else:
            lines = [("expected error", f"not predicted for {mechanism.name}")]
        most = mechanism.most_features
        if most is not None and self.source.records.n_features > most:
            lines.append(("time", f"long, with more than {most:,} features: {mechanism.limit}"))
        return lines

    @property
    def memory(self) -> int:
        """Bytes that the fit is expected to need."""
        name, prepared = self.plan.chosen.mechanism.name, self.plan.request.private_centre
        return command_memory(name, self.plan.inputs, prepared=prepared) + self._reader

    @cached_property
    def _reader(self) -> int:
        """Bytes of these that reading files of columns takes."""
        d = self.source.records.n_features
        if not is_file_source(self.source.file):
            return 0
        return reader_memory(d, default_block_rows(d), reader_bytes(d))

    def _memory(self) -> str:
        """The same in words, with what a plan says of it."""
        reading = ""
        if self._reader:
            fit, files = memory(self.memory - self._reader), memory(self._reader)
            reading = f": {fit} for the fit and {files} for reading the files"
        first = f"about {memory(COMPILING)} more the first time, when code is compiled"
        return f"at most about {memory(self.memory)}{reading} ({first})"

    @cached_property
    def comparison(self) -> Comparison:
        """Predicted errors of all mechanisms that have one."""
        return compare(self.plan.inputs, refine=False)

    @cached_property
    def families(self) -> Families:
        """Predicted errors of the default by family of structure."""
        inputs = self.plan.inputs
        return forecast_families(self.plan.request, inputs.n_records, inputs.n_features)

    def certify(self) -> Guarantee:
        """What `fit` will charge: it is private at any number of records."""
        guarantee, found = self.plan.budget().certificate, self._found
        if found is not None:
            return guarantee.after(found.guarantee)
        counting = self.whose.counting(self.estimator.epsilon or 0.0)
        return guarantee if counting is None else guarantee.after(counting.budget().certificate)

    def _run(self, records: Records) -> None:
        if self.opened is not None:
            self.estimator.fit_counted(replace(self.opened, records=records), self.plan)
        else:
            self.estimator.fit_planned(records, self.plan)

    def expected(self) -> dict[str, object]:
        """Return what is known before any record is read, as plain, JSON-ready data."""
        each, found = self.plan.chosen.forecast, self._found
        return {
            "mechanism": self.plan.chosen.mechanism.name,
            "predicted_error": None if each is None else dict(each.predicted_error),
            "typical_error": None if each is None else each.typical_error,
            "families": self.families.to_dict() if self.adaptive else None,
            "detection_limit": None if each is None else each.detection_limit,
            "hopeless": None if each is None else each.hopeless,
            "warnings": [caution.sentence for caution in self.cautions],
            "predicted_memory_bytes": self.memory,
            "neighbours": self.whose.relation,
            "protected": self.whose.unit,
            "max_rows_per_unit": self.plan.inputs.neighbours.most_rows,
            "estimand": self.whose.estimand,
            "counted": None if found is None else found.to_dict(),
            "forecasts": [forecast_dict(each) for each in self.comparison.forecasts],
        }


@dataclass(frozen=True)
class TheoremJob(Job):
    """By the paper's mechanism at the constants of its proof."""

    estimator: MultiscaleCovariance
    parameters: TheoremParameters

    shown_pairs: ClassVar[int] = 0  # pairs have no single noise level, and so no intervals

    @classmethod
    def prepare(cls, source: Source, **public: Any) -> TheoremJob:
        """Settle every public number of the release; no record is read."""
        estimator = MultiscaleCovariance(
            **public, assume_centered=source.known_mean, store_precision=False
        )
        parameters = estimator.public_parameters(
            source.records.n_records, source.records.n_features
        )
        assert isinstance(parameters, TheoremParameters)
        return cls(source, estimator, parameters)

    @property
    def cautions(self) -> tuple[Caution, ...]:
        """Of delta alone: what is not accurate is not proved to be, no more."""
        inputs = self.parameters.inputs
        caution = large_delta(inputs.delta, inputs.n_records)
        return () if caution is None else (caution,)

    def announcement(self) -> list[tuple[str, str]]:
        """What will be released, how, and what is proved of it."""
        inputs = self.parameters.inputs
        d, values = inputs.n_features, asdict(inputs)
        listed = ", ".join(f"{name.replace('_', ' ')} {number(values[name])}" for name in _PUBLIC)
        return [
            ("release", f"{d:,} x {d:,} covariance, rounded to integers"),
            ("mechanism", "multiscale threshold tests at the constants of the paper's theorem"),
            ("guarantee", promise_words(inputs.epsilon, inputs.delta)),
            ("private?", privacy_verdict(self.parameters)),
            ("accurate?", accuracy_verdict(self.parameters)),
            ("public inputs", f"the size of the data, {listed}"),
        ]

    def certify(self) -> Guarantee:
        """Check the condition of the privacy proof, before any record is read."""
        try:
            return certify(self.parameters, private=True, exact_statistic=False)
        except PrivacyConditionError as error:
            if error.smallest_private_n is None:
                raise
            words = f"{error} Or leave out --mechanism: the others are private at any number of "
            raise PrivacyConditionError(words + "records.", error.smallest_private_n) from None

    def _run(self, records: Records) -> None:
        self.estimator.fit(records)

    def expected(self) -> dict[str, object]:
        """Return what is known before any record is read, as plain, JSON-ready data."""
        sentences = [caution.sentence for caution in self.cautions]
        name = MULTISCALE.name  # as it is called in the release
        return {"mechanism": name, "constants": THEOREM, "warnings": sentences}


def prepare(source: Source, mechanism: str, **public: Any) -> Job:
    """Settle everything public about a release, by options that were checked; reads no record."""
    if mechanism != THEOREM:
        return PlannedJob.prepare(source, mechanism, **public)
    for name in ("psd", "columns", "out"):
        public.pop(name, None)
    return TheoremJob.prepare(source, **public)
