"""`hushcov fit --mechanism theorem`: the paper's mechanism at the constants of its proof."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from rich.console import Console

from hushcov._arrays import FloatArray
from hushcov._words import number
from hushcov.accounting import Guarantee
from hushcov.cli.jobs import Source
from hushcov.cli.pairs import Found, found_pairs
from hushcov.cli.words import accuracy_verdict, privacy_promise, privacy_verdict
from hushcov.estimators import MultiscaleCovariance
from hushcov.exceptions import PrivacyConditionError, PrivacyWarning
from hushcov.mechanisms.multiscale import TheoremParameters, certify
from hushcov.planning import Caution, large_delta
from hushcov.records import Records
from hushcov.release import Release

_PUBLIC = ("epsilon", "delta", "row_sparsity", "scale", "target_error", "failure_probability")


@dataclass(frozen=True)
class TheoremJob:
    """What is settled before any record is read."""

    estimator: MultiscaleCovariance
    parameters: TheoremParameters

    @classmethod
    def prepare(cls, source: Source, **public: Any) -> TheoremJob:
        """Settle every public number of the release; no record is read."""
        estimator = MultiscaleCovariance(
            **public, assume_centered=source.known_mean, store_precision=False
        )
        parameters = estimator.public_parameters(source.n_averaged, source.records.n_features)
        assert isinstance(parameters, TheoremParameters)
        return cls(estimator, parameters)

    @property
    def cautions(self) -> tuple[Caution, ...]:
        """Of delta alone: what is not accurate is not proved to be, no more."""
        inputs = self.parameters.inputs
        rows = inputs.n_records * (1 if self.estimator.assume_centered else 2)
        caution = large_delta(inputs.delta, rows)
        return () if caution is None else (caution,)

    def announcement(self) -> list[tuple[str, str]]:
        """What will be released, how, and what is proved of it."""
        inputs = self.parameters.inputs
        d, values = inputs.n_features, asdict(inputs)
        listed = ", ".join(f"{name.replace('_', ' ')} {number(values[name])}" for name in _PUBLIC)
        return [
            ("release", f"a {d:,} x {d:,} covariance: integers and a unit"),
            ("mechanism", "multiscale threshold tests at the constants of the paper's theorem"),
            ("guarantee", privacy_promise(inputs.epsilon, inputs.delta)),
            ("private?", privacy_verdict(self.parameters)),
            ("accurate?", accuracy_verdict(self.parameters)),
            ("public inputs", f"the size of the data, {listed}"),
        ]

    def certify(self) -> Guarantee:
        """Check the condition of the privacy proof, before any record is read."""
        try:
            return certify(self.parameters, private=True, exact_statistic=False)
        except PrivacyConditionError as error:
            pairs = (
                ""
                if self.estimator.assume_centered
                else " Here n_records counts pairs of records: --known-mean would not."
            )
            advice = " Or leave out --mechanism: the others are private at any number of records."
            raise PrivacyConditionError(
                str(error) + pairs + advice, error.smallest_private_n
            ) from None

    def fit(self, records: Records) -> None:
        """Run the mechanism; the announcement has said what to heed."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)
            self.estimator.fit(records)

    @property
    def release(self) -> Release:
        """What was released."""
        result: Release = self.estimator.release_
        return result

    @property
    def covariance(self) -> FloatArray:
        """The estimate."""
        return np.asarray(self.estimator.covariance_)

    def summary(self) -> list[tuple[str, str]]:
        """Pairs."""
        return self.found.lines()

    def details(self, out: Console) -> None:
        """Nothing: this mechanism has no single noise level, and so no intervals."""

    @cached_property
    def found(self) -> Found:
        """The pairs found; after `fit`."""
        return found_pairs(self.release, 0)

    def expected(self) -> dict[str, object]:
        """Return what is known before any record is read, as plain, JSON-ready data."""
        return {
            "mechanism": "theorem",
            "warnings": [caution.sentence for caution in self.cautions],
        }

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain, JSON-ready data."""
        return self.expected() | {
            "unit": self.release.unit,
            "found_pairs": self.found.number,
            "guarantee": self.release.guarantee.to_dict(),
            "parameters": dict(self.release.parameters),
        }
