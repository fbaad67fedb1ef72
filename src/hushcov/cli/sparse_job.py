"""`hushcov fit` by `PrivateSparseCovariance`: whichever mechanism has the smallest error."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rich.console import Console

from hushcov._words import counted, memory, noise_level, number
from hushcov.accounting import Guarantee, calibrate_zcdp
from hushcov.cli.forecasts import forecast_dict
from hushcov.cli.jobs import Source
from hushcov.cli.output import heading, paragraph, show
from hushcov.cli.pairs import Found, found_pairs, pair_remarks, pair_table
from hushcov.cli.progress import busy
from hushcov.cli.words import detection, privacy_promise, typical_error
from hushcov.estimators import PrivateSparseCovariance
from hushcov.estimators.scaled import LARGEST_DENSE
from hushcov.exceptions import AccuracyWarning, PrivacyWarning
from hushcov.inputs import ReleaseInputs, spent_rho
from hushcov.planning import Caution, Comparison, Forecast, Plan, fit_memory
from hushcov.postprocess import Matrix
from hushcov.records import FileRecords, Records, check_feature_scale
from hushcov.release import Release
from hushcov.stages.complete import complete_words

_SHOWN_PAIRS = 10


@dataclass(frozen=True)
class SparseJob:
    """What is settled before any record is read."""

    estimator: PrivateSparseCovariance
    plan: Plan
    gaps: bool
    files: bool

    @classmethod
    def prepare(
        cls, source: Source, mechanism: str, *, feature_scale: Any = None, **public: Any
    ) -> SparseJob:
        """Settle every public number of the release; no record is read."""
        records = source.records
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
        with busy("comparing the mechanisms, from public inputs"):
            plan = estimator.fit_plan(source.n_averaged, records.n_features, gaps=records.gaps)
        return cls(estimator, plan, records.gaps, isinstance(records, FileRecords))

    @property
    def inputs(self) -> ReleaseInputs:
        """What the mechanism gets."""
        return self.plan.inputs

    @property
    def chosen(self) -> Forecast | None:
        """What to expect of the mechanism that is run, where that is predicted."""
        return self.plan.chosen.forecast

    @property
    def cautions(self) -> tuple[Caution, ...]:
        """What `fit` warns of, or refuses."""
        return self.plan.cautions

    def announcement(self) -> list[tuple[str, str]]:
        """What will be released, how, and what to expect."""
        inputs, d = self.inputs, self.inputs.n_features
        return [
            ("release", f"a {d:,} x {d:,} covariance: integers, a unit, and {counted(d, 'scale')}"),
            ("guarantee", privacy_promise(inputs.epsilon, inputs.delta)),
            ("", "It holds whatever the records are."),
            ("public inputs", self._public()),
            ("not known", self._unknown()),
            ("mechanism", self._mechanism()),
            *self._expected(),
            ("memory", f"at most about {memory(self.memory)}; records are read in blocks"),
        ]

    def _expected(self) -> list[tuple[str, str]]:
        if self.chosen is None:
            return [("expected error", f"no prediction: {self.plan.chosen.mechanism.no_limit}")]
        return [
            ("expected error", typical_error(self.chosen)),
            ("will find", detection(self.chosen)),
        ]

    @property
    def memory(self) -> int:
        """Bytes that the fit is expected to need."""
        n, d = self.inputs.n_records, self.inputs.n_features
        mechanism = self.plan.chosen.mechanism.name
        return fit_memory(mechanism, n, d, sparse=d > LARGEST_DENSE, files=self.files)

    def _public(self) -> str:
        inputs = self.inputs
        scales = "" if self.estimator.feature_scale is None else ", the features' scales"
        mean = ", mean zero" if self.estimator.assume_centered else ""
        return (
            f"the size of the data, epsilon {number(inputs.epsilon)}, delta "
            f"{number(inputs.delta)}, row sparsity {inputs.row_sparsity}{scales}{mean}"
        )

    def _unknown(self) -> str:
        parts = []
        if not self.estimator.assume_centered:
            parts.append("the mean, which drops out of differences")
        budget = calibrate_zcdp(self.inputs.epsilon, self.inputs.delta)
        for stage in self.plan.stages:
            share = number(100 * spent_rho((stage.event,)) / budget, 2)
            parts.append(f"{stage.unknown}, estimated privately from {share} % of the budget")
        return "; ".join(parts) or "nothing else that is needed"

    def _mechanism(self) -> str:
        name = self.plan.chosen.mechanism.name
        reason = "the smallest" if self.estimator.mechanism == "auto" else "as you chose"
        error = (
            ""
            if self.chosen is None
            else f"predicted error {number(self.chosen.typical_error, 2)}, "
        )
        others = ", ".join(
            f"{each.mechanism} {number(each.typical_error, 2)}" + " (rough)" * each.rough
            for each in self.comparison.forecasts
            if each.mechanism != name
        )
        return f"{name}, {error}{reason}; others: {others}"

    @property
    def comparison(self) -> Comparison:
        """Predicted errors of all mechanisms."""
        assert self.plan.comparison is not None
        return self.plan.comparison

    def certify(self) -> Guarantee:
        """What `fit` will charge: it is private at any number of records."""
        return self.plan.certify(private=True)

    def fit(self, records: Records) -> None:
        """Run the mechanism; the announcement has said what to expect."""
        with warnings.catch_warnings():
            for category in (AccuracyWarning, PrivacyWarning):
                warnings.simplefilter("ignore", category)
            self.estimator.fit_planned(records, self.plan)

    @property
    def release(self) -> Release:
        """What was released."""
        result: Release = self.estimator.release_
        return result

    @property
    def covariance(self) -> Matrix:
        """The estimate."""
        return self.estimator.covariance_

    @cached_property
    def found(self) -> Found:
        """The pairs found; after `fit`."""
        return found_pairs(self.release, _SHOWN_PAIRS)

    def summary(self) -> list[tuple[str, str]]:
        """Pairs and noise."""
        selected = self.release.selected
        dropped = 0 if selected is None else selected.shape[1] - self.found.number
        note = f"; {dropped:,} more were released and lie below the threshold" if dropped else ""
        counted = "records" if self.estimator.assume_centered else "pairs of records"
        complete = complete_words(self.release.making.complete, counted)
        lines = [] if complete is None else [("complete", complete)]
        lines += self.found.lines(note)
        if self.release.noise_sd is not None and (selected is None or selected.size):
            sd = float(self.release.noise_sd[0])
            lines.append(("noise", noise_level(sd, self.inputs.n_records)))
        return lines

    def details(self, out: Console) -> None:
        """The largest correlations."""
        pairs = self.found.strongest
        if pairs:
            names = getattr(self.estimator, "feature_names_in_", None)
            heading(out, "Largest correlations" + ", features counted from 0" * (names is None))
            show(out, pair_table(pairs, names=names))
            paragraph(out, pair_remarks(pairs, projected=self.estimator.positive_semidefinite))

    def expected(self) -> dict[str, object]:
        """Return what is known before any record is read, as plain, JSON-ready data."""
        each = self.chosen
        return {
            "mechanism": self.plan.chosen.mechanism.name,
            "predicted_error": None if each is None else dict(each.predicted_error),
            "typical_error": None if each is None else each.typical_error,
            "detection_limit": None if each is None else each.detection_limit,
            "hopeless": None if each is None else each.hopeless,
            "warnings": [caution.sentence for caution in self.cautions],
            "predicted_memory_bytes": self.memory,
            "forecasts": [forecast_dict(each) for each in self.comparison.forecasts],
        }

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain, JSON-ready data."""
        found, release = self.found, self.release
        sd = release.noise_sd
        return self.expected() | {
            "unit": release.unit,
            "warnings": list(release.warnings),
            "found_pairs": found.number,
            "largest_pairs": [pair.to_dict() for pair in found.strongest],
            "noise_sd": None if sd is None else [float(value) for value in sd],
            "guarantee": release.guarantee.to_dict(),
            "parameters": dict(release.parameters),
            "complete_records": release.making.complete,
        }
