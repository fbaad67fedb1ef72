"""What `hushcov fit` asks of a job, and where its records come from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rich.console import Console

from hushcov._words import counted
from hushcov.accounting import Guarantee
from hushcov.estimators.base import PrivateCovariance
from hushcov.exceptions import DataError
from hushcov.planning import Caution
from hushcov.postprocess import Matrix
from hushcov.records import Records
from hushcov.release import Release, SigningKey


@dataclass(frozen=True)
class Source:
    """The records, and where the release goes. Nothing is read here."""

    file: Path
    folder: Path
    records: Records
    known_mean: bool
    key: SigningKey | None = None  # to sign the release with

    def __post_init__(self) -> None:
        if self.n_averaged < 1:
            raise DataError(
                f"{self.file} must hold at least 2 records for differences of pairs, got 1: add "
                "records, or use --known-mean if their mean is zero."
            )

    @property
    def n_averaged(self) -> int:
        """How many records, or differences of two, the mechanism averages."""
        n = self.records.n_records
        return n if self.known_mean else n // 2

    def __str__(self) -> str:
        n, d = self.records.n_records, self.records.n_features
        pairs = "" if self.known_mean else f", used as {counted(n // 2, 'difference')} of pairs"
        odd = "" if self.known_mean or n % 2 == 0 else "; the last record is left out"
        return f"{self.file}: {counted(n, 'record')} of {counted(d, 'feature')}{pairs}{odd}"

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain, JSON-ready data."""
        return {
            "file": str(self.file),
            "n_records": self.records.n_records,
            "n_features": self.records.n_features,
            "n_averaged": self.n_averaged,
            "known_mean": self.known_mean,
            "output": str(self.folder),
            "signed": self.key is not None,
        }


class Job(Protocol):
    """A release: everything public is settled when it is made; `fit` reads the records."""

    @property
    def estimator(self) -> PrivateCovariance:
        """What fits."""

    @property
    def cautions(self) -> tuple[Caution, ...]:
        """What should stop a careful user, if anything."""

    @property
    def release(self) -> Release:
        """What was released; after `fit`."""

    @property
    def covariance(self) -> Matrix:
        """The estimate; after `fit`."""

    def announcement(self) -> list[tuple[str, str]]:
        """What will happen, in labelled sentences."""

    def certify(self) -> Guarantee:
        """What will be charged; what is not private is refused, before any record is read."""

    def fit(self, records: Records) -> None:
        """Run the mechanism."""

    def summary(self) -> list[tuple[str, str]]:
        """What came out, in labelled sentences."""

    def details(self, out: Console) -> None:
        """Print what else came out."""

    def expected(self) -> dict[str, object]:
        """Return what is known before any record is read, as plain, JSON-ready data."""

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain, JSON-ready data."""
