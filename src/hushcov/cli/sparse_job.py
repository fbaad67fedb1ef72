"""`hushcov fit` by `PrivateSparseCovariance`: whichever mechanism has the smallest error."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
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
from hushcov.estimators.base import Preview
from hushcov.estimators.scaled import LARGEST_DENSE
from hushcov.exceptions import AccuracyWarning, PrivacyWarning
from hushcov.inputs import ReleaseInputs, spent_rho
from hushcov.planning import Caution, Comparison, Forecast, fit_memory, forecast
from hushcov.postprocess import Matrix
from hushcov.records import FileRecords, Records, check_feature_scale
from hushcov.release import Release
from hushcov.stages.complete import complete_words

_SHOWN_PAIRS = 10


@dataclass(frozen=True)
class SparseJob:
    """What is settled before any record is read."""

    estimator: PrivateSparseCovariance
    inputs: ReleaseInputs
    comparison: Comparison
    chosen: Forecast
    preview: Preview
    gaps: bool
    files: bool

    @classmethod
    def prepare(
        cls,
        source: Source,
        mechanism: str,
        *,
        epsilon: float,
        delta: float,
        row_sparsity: int,
        feature_scale: Any = None,
        psd: bool = False,
        device: str | None = None,
        ledger: Path | None = None,
        dataset: str | None = None,
        on_hopeless: str = "raise",
        on_large_delta: str = "raise",
    ) -> SparseJob:
        """Settle every public number of the release; no record is read."""
        n, d = source.n_averaged, source.records.n_features
        if feature_scale is not None:
            check_feature_scale(feature_scale, d)
        estimator = PrivateSparseCovariance(
            epsilon=epsilon,
            delta=delta,
            row_sparsity=row_sparsity,
            feature_scale=feature_scale,
            mechanism=mechanism,
            positive_semidefinite=psd,
            assume_centered=source.known_mean,
            store_precision=False,
            device=device,
            ledger=ledger,
            dataset=dataset,
            on_hopeless=on_hopeless,
            on_large_delta=on_large_delta,
        )
        inputs = estimator.public_inputs(n, d)
        with busy("comparing the mechanisms, from public inputs"):
            comparison = estimator.plan(n, d)
            # Not rough: it is to be run.
            chosen = forecast(inputs, estimator.chosen_mechanism(comparison))
            preview = estimator.preview(n, d, gaps=source.records.gaps)
        records = source.records
        in_files = isinstance(records, FileRecords)
        return cls(estimator, inputs, comparison, chosen, preview, records.gaps, in_files)

    @property
    def cautions(self) -> tuple[Caution, ...]:
        """What `fit` warns of, or refuses."""
        return self.preview.cautions

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
            ("expected error", typical_error(self.chosen)),
            ("will find", detection(self.chosen)),
            ("memory", f"at most about {memory(self.memory)}; records are read in blocks"),
        ]

    @property
    def memory(self) -> int:
        """Bytes that the fit is expected to need."""
        n, d = self.inputs.n_records, self.inputs.n_features
        return fit_memory(self.chosen.mechanism, n, d, sparse=d > LARGEST_DENSE, files=self.files)

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
        if self.inputs.spent:
            budget = calibrate_zcdp(self.inputs.epsilon, self.inputs.delta)
            share = number(100 * spent_rho(self.inputs.spent) / budget, 2)
            parts.append(f"the features' scales, estimated privately from {share} % of the budget")
        if self.gaps:
            parts.append("the number of complete records, estimated with 0.5 % of the budget")
        return "; ".join(parts) or "nothing else that is needed"

    def _mechanism(self) -> str:
        error = number(self.chosen.typical_error, 2)
        reason = "the smallest" if self.estimator.mechanism == "auto" else "as you chose"
        others = ", ".join(
            f"{each.mechanism} {number(each.typical_error, 2)}" + " (rough)" * each.rough
            for each in self.comparison.forecasts
            if each.mechanism != self.chosen.mechanism
        )
        return f"{self.chosen.mechanism}, predicted error {error}, {reason}; others: {others}"

    def certify(self) -> Guarantee:
        """What `fit` will charge: it is private at any number of records."""
        return self.preview.guarantee

    def fit(self, records: Records) -> None:
        """Run the mechanism; the announcement has said what to expect."""
        with warnings.catch_warnings():
            for category in (AccuracyWarning, PrivacyWarning):
                warnings.simplefilter("ignore", category)
            self.estimator.fit(records)

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
        return {
            "mechanism": self.chosen.mechanism,
            "predicted_error": dict(self.chosen.predicted_error),
            "typical_error": self.chosen.typical_error,
            "detection_limit": self.chosen.detection_limit,
            "hopeless": self.chosen.hopeless,
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
