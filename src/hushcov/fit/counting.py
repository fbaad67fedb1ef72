"""The number of records, where that is not public, and the number of a unit that are summed.

It is the first thing that is released. All else is planned for the released number, with what is
left of the budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hushcov._words import number
from hushcov.exceptions import ParameterError
from hushcov.inputs import LARGEST_CALIBRATED_N
from hushcov.kernel.accounting import UP, Budget, Guarantee, Neighbours, Pure
from hushcov.kernel.queries import RowCount, UnitSizes
from hushcov.kernel.session import Session
from hushcov.release import Part, parts_of

# Of epsilon: for the number of records, and for how many records units have.
_COUNT, _SIZES = 0.02, 0.01
# Units are counted by the octave of their number of records.
_OCTAVES = 21
_SIZES_PART, _COUNT_PART = "how many records units have", "the number of records"
_MIDDLE = 1.4  # of an octave, over where it begins
# Deviations of noise that are evidence of units of one record, and for each octave more: a number
# that is too large costs in proportion. Noise is taken for 16 records or more 1 in 5,000 times.
_EVIDENCE, _MORE_EVIDENCE = 4.0, 0.5
# Largest scale of the noise of the count. 32 times that is 2^33, the most records that all
# mechanisms can sum: noise alone passes it with a probability of exp(-32) / 2.
_LARGEST_NOISE = 2**28


@dataclass(frozen=True)
class Counting:
    """The first release of a fit: what it spends, from public inputs alone.

    `neighbours.most_rows` is public, unless `chooses` says that it is found from the records.
    """

    epsilon: float
    neighbours: Neighbours
    chooses: bool = False

    def __post_init__(self) -> None:
        if self.most_rows_allowed < (1 if self.chooses else self.neighbours.most_rows):
            rows = 1 if self.chooses else self.neighbours.most_rows
            least = rows / (_COUNT * _LARGEST_NOISE)
            raise ParameterError(
                f"epsilon must be at least {least:.1g} where the number of records is not public "
                f"and {rows:,} of a unit count, got {self.epsilon:g}: the number would drown in "
                "its noise. Choose a larger epsilon, or fewer records of a unit."
            )

    @property
    def most_rows_allowed(self) -> int:
        """The most records of a unit at which the noise of the count is not too large."""
        return math.floor(_LARGEST_NOISE * self.count_epsilon)

    @property
    def count_epsilon(self) -> float:
        """Epsilon of the count."""
        return _COUNT * self.epsilon

    @property
    def sizes_epsilon(self) -> float:
        """Epsilon of the sizes of units; 0 where they are not looked at."""
        return _SIZES * self.epsilon if self.chooses else 0.0

    @property
    def left(self) -> float:
        """The epsilon that is left for all else."""
        return (self.epsilon - self.count_epsilon - self.sizes_epsilon) / UP

    def budget(self, *, private: bool = True) -> Budget:
        """Certify the count, before anything is read; its costs are those of a whole unit."""
        spent = [each for each in (self.sizes_epsilon, self.count_epsilon) if each]
        return Budget(
            math.fsum(spent),
            0.0,
            replace(self.neighbours, most_rows=1),
            fixed=[Pure(each) for each in spent],  # proof: step 4
            mu=0.0,
            checked=("none: counts are integers, and their noise is exact",),
            private=private,
        )

    def run(self, session: Session) -> tuple[Counted, Session]:
        """Release how many records there are, and return access to those that are counted.

        `session` knows the units of the records, where these are of several; those of each are
        bounded.

        Privacy
        -------
        Neighbours: those given; no precondition. See `docs/proofs/neighbours.md`, steps 3 and 4.
        """
        neighbours = self.neighbours
        if session.has_units:
            if self.chooses:
                most = release_most_rows(session, self.sizes_epsilon)
                most = min(most, self.most_rows_allowed)
                neighbours = replace(neighbours, most_rows=most)
            session = session.bounded(neighbours.most_rows)  # proof: step 3
        return self.number(session, neighbours), session

    def number(self, session: Session, neighbours: Neighbours) -> Counted:
        """Release how many records there are, of which each unit has at most so many.

        Privacy
        -------
        Neighbours: those given; no precondition. See `docs/proofs/neighbours.md`, step 4.
        """
        noisy = session.count(RowCount(neighbours.most_rows), self.count_epsilon, _COUNT_PART)
        count = min(max(1, noisy.integers[0]), LARGEST_CALIBRATED_N)  # proof: step 4
        guarantee = replace(session.guarantee, **neighbours.guaranteed())
        return Counted(count, noisy.sd, neighbours, guarantee, self.left, parts_of(session))


@dataclass(frozen=True, eq=False)
class Counted:
    """The released number of records, and what it cost. `scale` is that of its noise.

    `left` is the epsilon for all else.
    """

    released: int
    scale: int
    neighbours: Neighbours
    guarantee: Guarantee
    left: float
    parts: tuple[Part, ...] = ()

    @property
    def paid(self) -> str:
        """Sentence for people who get no estimate after it."""
        spent = number(self.guarantee.epsilon)
        return f"The number of records was released before, and its epsilon of {spent} is spent."

    def to_dict(self) -> dict[str, Any]:
        """Return it as the document of a release has it."""
        return {
            "released": self.released,
            "noise_sd": math.sqrt(2) * self.scale,
            "unit": self.neighbours.unit,
            "max_rows_per_unit": self.neighbours.most_rows,
            "relation": self.neighbours.relation,
        }


def release_most_rows(session: Session, epsilon: float) -> int:
    """Release how many records of a unit to sum, at most: the larger, the more of them units have.

    Privacy
    -------
    Neighbours: those of the session; no precondition. A unit is in one bin, so that the counts move
    by 2 in sum where it is replaced, and by 1 where it is removed. All else is computed from them.
    """
    noisy = session.count(UnitSizes(_OCTAVES), epsilon, _SIZES_PART)
    return most_rows(noisy.integers.astype(np.float64), math.sqrt(2) * noisy.sd)  # proof: step 4


def most_rows(noisy_counts: Any, noise_sd: float) -> int:
    """Return how many records of a unit to sum, at most, from noisy counts of their sizes.

    It is the power of two that is best for selecting pairs and for their values.

    With W records of at most M of a unit, selections see as much as in W / M records, and values
    of units that are bounded as one have noise of sqrt(M) / W. The product of both counts.
    """
    enough = _EVIDENCE + _MORE_EVIDENCE * np.arange(len(noisy_counts))
    seen = np.flatnonzero(noisy_counts > enough * noise_sd)
    last = seen[-1] if len(seen) else 0
    counts = np.where(np.arange(len(noisy_counts)) <= last, np.maximum(noisy_counts, 0.0), 0.0)
    usual = _MIDDLE * 2.0 ** np.arange(len(counts))
    choices = 2 ** np.arange(len(counts))
    summed = np.minimum(usual, choices[:, None]) @ counts
    return int(choices[np.argmax(summed**2 / choices**1.5)])
