"""What a report is about: a release, the names of its features, and what is known of its making."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hushcov._arrays import BoolArray
from hushcov.exceptions import ParameterError
from hushcov.release import Part, Release
from hushcov.release.coverage import coverage
from hushcov.release.findings import interval_holds
from hushcov.report.pages import short

_LARGEST = 10**18  # as many records as any mechanism takes
_SHORTEST_NAME, _LONGEST_NAME = 12, 60
_MOST_NAMES = 100_000  # that a page may have all of
_MOST_NAME_BYTES = 4_000_000  # of all names together


@dataclass(frozen=True, eq=False)
class Subject:
    """A release, and the names of its features as they are shown.

    `parameters` of a release that was read from a file may be anything, so that every number in
    them is looked at before it is used.
    """

    release: Release
    names: Sequence[str]

    @property
    def named(self) -> bool:
        """Whether features have names; otherwise they are counted from 0."""
        return self.release.column_names is not None

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.release.n_features

    @cached_property
    def holds(self) -> BoolArray:
        """For every feature, whether intervals of its entries can be believed."""
        release = self.release
        if release.noise_sd is None or release.n_sampled is None:
            return np.ones(release.n_features, dtype=bool)
        return interval_holds(release)

    @property
    def told(self) -> bool:
        """Whether there were records enough to tell whether intervals hold."""
        return coverage(self.release).told

    @property
    def why_not(self) -> str:
        """Why some intervals are not to be believed, in words."""
        if self.told:
            return (
                "The interval may not hold: bounding the records may have taken too much off the "
                "large values of a feature, as of one with long tails or of mostly zeros"
            )
        return (
            "intervals hold if the columns are like normal ones; there are too few records at this "
            "budget to tell"
        )

    @property
    def candidates(self) -> int:
        """Pairs of features that could be found."""
        known = self.release.n_candidates
        return self.n_features * (self.n_features - 1) // 2 if known is None else known

    @property
    def pairs_word(self) -> str:
        """What these are called."""
        return "candidate pairs" if self.release.told_pairs else "pairs of features"

    @property
    def theorem(self) -> bool:
        """Whether the constants are those of the paper's proof, which names the records needed."""
        return "smallest_accurate_n" in self.release.parameters

    @property
    def inputs(self) -> Mapping[str, object]:
        """The public inputs that the release names."""
        found = self.release.parameters.get("inputs")
        return found if isinstance(found, Mapping) else {}

    @property
    def n_records(self) -> int | None:
        """Records that were averaged."""
        return self.release.making.n_records

    @property
    def before(self) -> tuple[Part, ...]:
        """What was released before the mechanism itself: scales, the number of complete records."""
        making = self.release.making
        if self.release.location is not None:  # what was taken for means is not set aside again
            return ()
        number = (making.scales == "released") + (making.complete is not None)
        return making.parts[:number]

    @property
    def row_sparsity(self) -> int | None:
        """Declared nonzeros of a row; None if there is no sensible number."""
        value = self.inputs.get("row_sparsity")
        return value if type(value) is int and 0 < value <= _LARGEST else None

    def real(self, name: str) -> float | None:
        """A public input that is a positive number; None if there is no sensible one."""
        value = self.inputs.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool) or value > _LARGEST:
            return None
        return float(value) if math.isfinite(value) and value > 0 else None


def subject_of(release: Release) -> Subject:
    """A release with the names of its features, or with their numbers."""
    listed = release.column_names or tuple(map(str, range(release.n_features)))
    if len(listed) != release.n_features:
        raise ParameterError(
            f"column_names must be as many as features, {release.n_features}, got {len(listed)}: "
            "name every feature, or none."
        )
    many = release.n_features > _MOST_NAMES
    return Subject(release, _Names(listed) if many else page_names(listed))


class _Names(Sequence[str]):
    """Names as a page shows them, of which few are asked for."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, place: Any) -> Any:
        return short(printable(self._names[place][: _LONGEST_NAME + 1]), _LONGEST_NAME)


def printable(text: str) -> str:
    """Text of one line, without characters that steer how the text around them is shown."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def page_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names as the page shows them: of one line, and short enough for a page of bounded size."""
    # Cut first, so that a name of a billion characters is not looked at in full.
    cleaned = [printable(name[: _LONGEST_NAME + 1]) for name in names]
    longest = _LONGEST_NAME
    while longest > _SHORTEST_NAME and _size(cleaned, longest) > _MOST_NAME_BYTES:
        longest = max(_SHORTEST_NAME, longest // 2)
    return tuple(short(name, longest) for name in cleaned)


def _size(names: Sequence[str], longest: int) -> int:
    return sum(len(name[:longest].encode()) for name in names)
