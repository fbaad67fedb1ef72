"""What `hushcov fit` reads, and where the release goes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushcov._words import counted
from hushcov.accounting import Guarantee
from hushcov.accounting.ledger import Ledger
from hushcov.release import SigningKey
from hushcov.sums.protocol import Records, check_enough
from hushcov.tables.sources import WILDCARDS


@dataclass(frozen=True)
class Source:
    """The records, and where the release goes. Nothing is read here."""

    file: Path
    folder: Path
    records: Records
    known_mean: bool
    key: SigningKey | None = None  # to sign the release with
    tables: str = "csv"  # what tables beside it are written as
    about: bool = False  # how many records there are is not public: released, or guessed

    def __post_init__(self) -> None:
        if not self.about:
            check_enough(self.file, self.records)

    @property
    def name(self) -> str | None:
        """What the table is called where nobody says: by its file, or the folder of a pattern."""
        place = self.file.absolute()
        return (place.parent if set(place.name) & WILDCARDS else place).name or None

    def __str__(self) -> str:
        n, d = self.records.n_records, self.records.n_features
        about = "about " * self.about
        return f"{self.file}: {about}{counted(n, 'record')} of {counted(d, 'feature')}"

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain, JSON-ready data."""
        return {
            "file": str(self.file),
            "n_records": self.records.n_records,
            "n_features": self.records.n_features,
            "known_mean": self.known_mean,
            "output": str(self.folder),
            "signed": self.key is not None,
        }


def quoted(ledger: Path, dataset: str, guarantee: Guarantee) -> dict[str, Any]:
    """What the ledger would say to a charge; a refusal is the same as that of the charge."""
    left = Ledger(ledger).quote(dataset, guarantee)
    return {
        "file": str(ledger),
        "dataset": dataset,
        "epsilon_left": left.epsilon,
        "pure_epsilon_left": left.pure_epsilon,
        "delta": left.delta,
    }
