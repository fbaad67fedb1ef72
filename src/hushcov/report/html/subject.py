"""What a report is about: a release, the names of its features, and what is known of its making."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from hushcov.accounting import NOT_CERTIFIED
from hushcov.release import Part, Release

_LARGEST = 10**18  # as many records as any mechanism takes


@dataclass(frozen=True, eq=False)
class Subject:
    """A release, and the names of its features as they are shown.

    `parameters` of a release that was read from a file may be anything, so that every number in
    them is looked at before it is used.
    """

    release: Release
    names: tuple[str, ...]

    @property
    def named(self) -> bool:
        """Whether features have names; otherwise they are counted from 0."""
        return self.release.column_names is not None

    @property
    def known_mean(self) -> bool | None:
        """Whether records were taken to have mean zero; None where nobody said."""
        paired = self.release.making.paired
        return None if paired is None else not paired

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.release.n_features

    @property
    def candidates(self) -> int:
        """Pairs of features."""
        return self.n_features * (self.n_features - 1) // 2

    @property
    def certified(self) -> bool:
        """Whether there is a proof behind the guarantee."""
        return self.release.guarantee.method != NOT_CERTIFIED

    @property
    def theorem(self) -> bool:
        """Whether the mechanism ran at the constants of the paper's proof."""
        return self.release.mechanism == "multiscale" and "Gamma" in self.release.parameters

    @property
    def inputs(self) -> Mapping[str, object]:
        """The public inputs that the release names."""
        found = self.release.parameters.get("inputs")
        return found if isinstance(found, Mapping) else {}

    @property
    def n_records(self) -> int | None:
        """Records that were averaged, or pairs of them."""
        return self.release.making.n_averaged

    @property
    def before(self) -> tuple[Part, ...]:
        """What was released before the mechanism itself: scales, the number of complete records."""
        making = self.release.making
        number = (making.scales == "released") + (making.complete is not None)
        return making.parts[:number]

    @property
    def row_sparsity(self) -> int | None:
        """Declared nonzeros of a row."""
        return self.integer("row_sparsity")

    def integer(self, name: str) -> int | None:
        """A public input that counts something; None if there is no sensible one."""
        value = self.inputs.get(name)
        return value if type(value) is int and 0 < value <= _LARGEST else None

    def real(self, name: str) -> float | None:
        """A public input that is a positive number; None if there is no sensible one."""
        return positive(self.inputs.get(name))


def positive(value: object) -> float | None:
    """A positive number as it is, None for anything else."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    if isinstance(value, int) and value > _LARGEST:
        return None
    return float(value) if math.isfinite(value) and value > 0 else None
