"""What the search for centres and scales may spend, and what it hands on.

Shares are of mu^2, where mu is that of a Gaussian mechanism with the whole budget. How much a look
gets depends on public and released numbers alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from hushcov._arrays import BoolArray, FloatArray
from hushcov._validation import check_integer, check_real
from hushcov.accounting import ONE_REPLACED, Neighbours, smallest_sigma
from hushcov.inputs import LARGEST_CALIBRATED_N, Found
from hushcov.noise import LARGEST_SIGMA

MOST_LOOKS = 6

# All looks together, the first and every other.
_ALL_LOOKS, _FIRST_LOOK, _LATER_LOOK = 0.35, 0.25, 0.15
_LEAST_FIRST = 0.04
# n / sigma that looks aim at: a normal law has 0.3 n / sigma deviations in the best window of its
# octaves, and 7 to 8 are evidence. Cells are few, and their counts large; a scale is to be good.
_AIM_FIRST, _AIM_CELLS, _AIM_REFINED = 30.0, 22.0, 40.0
_LEAST_REFINED = 0.03  # if all columns are refined
# Below this nothing can be read: the look is not made, and nothing is spent.
LEAST_RATIO = 12.0
# Columns not found yet: a value that this share of the records has is to stand out by so many
# deviations in looks 2, 3, .., for at most these shares of the budget.
_RAREST = (0.01, 0.005, 0.005, 0.005, 0.005)
_RARE_DEVIATIONS = 5.0
_RARE_SHARES = (0.08, 0.10, 0.04, 0.02, 0.02)
# Measured on normal columns a few scales from zero, whatever their number: which share of them is
# found, how likely all are, and how much larger errors are, by n / sigma of a first look that takes
# all it may.
_RATIOS = (15.0, 18.0, 21.0, 24.0, 32.0, 36.0, 46.0)
_FOUND = (0.0, 0.1, 0.27, 0.36, 0.36, 0.65, 1.0)
_ALL_FOUND = (0.0, 0.0, 0.0, 0.0, 0.0, 0.2, 1.0)
_STRAINED, _STRAIN = (46.0, 90.0, 180.0), (1.5, 1.35, 1.0)


@dataclass(frozen=True)
class Units:
    """How many columns a look counts in which way: by octave, again finer, by cell, or both."""

    octaves: int = 0
    refined: int = 0
    cells: int = 0
    both: int = 0

    @property
    def histograms(self) -> int:
        """In how many histograms a record is counted: two levels of cells."""
        return self.octaves + self.refined + 2 * self.cells + 3 * self.both


@dataclass(frozen=True)
class LocationParameters:
    """The stage that finds centres and scales: the size, and what all looks may spend.

    `total_mu` is the mu of a Gaussian mechanism that would spend the whole budget. What is really
    spent is never more than `largest_mu` allows. All bins
    that are noise are mistaken for evidence, in any column and any look, with a probability of at
    most `evidence_level`.
    """

    released: ClassVar[str] = "centres and scales of the features"

    n_records: int
    n_features: int
    total_mu: float
    evidence_level: float = 1e-5
    neighbours: Neighbours = ONE_REPLACED

    def __post_init__(self) -> None:
        check_integer(
            "n_records",
            self.n_records,
            at_least=1,
            at_most=LARGEST_CALIBRATED_N,
            cure="give the number of records.",
        )
        check_integer(
            "n_features", self.n_features, at_least=1, cure="it is the number of columns."
        )
        check_real("total_mu", self.total_mu, above=0, cure="it is the mu of the whole budget.")
        cure = "it is how often noise may be taken for a value; 1e-5 is usual."
        check_real("evidence_level", self.evidence_level, above=0, at_most=0.1, cure=cure)

    @property
    def largest_mu(self) -> float:
        """The most that all looks together cost, as one Gaussian mechanism."""
        return math.sqrt(_ALL_LOOKS) * self.total_mu  # proof: step 3

    def first_mu(self) -> float | None:
        """What the first look spends; None if too few records are there to find anything."""
        return self.look_mu(0, Units(octaves=self.n_features), ())

    def expected(self, known: float = 0.0) -> Found:
        """What is expected to be found, from public numbers; see `Found`.

        A share of the features is `known`: those with public bounds always are found.
        """
        if known == 1:
            return Found()
        mu = math.sqrt(_FIRST_LOOK) * self.total_mu
        ratio = self.n_records / self.sigma(Units(octaves=self.n_features), mu)
        share, every = (float(np.interp(ratio, _RATIOS, each)) for each in (_FOUND, _ALL_FOUND))
        strain = float(np.interp(ratio, _STRAINED, _STRAIN))
        return Found(known + (1 - known) * share, every, strain)

    def look_mu(self, look: int, units: Units, spent: tuple[float, ...]) -> float | None:
        """What look number `look` (from 0) spends after others, or None if it is not made."""
        share = self._share(look, units)
        left = Fraction(self.largest_mu) ** 2 - sum(Fraction(mu) ** 2 for mu in spent)
        square = min(share * self.total_mu**2, float(left))
        if square <= 0:
            return None
        mu = math.sqrt(square)
        while Fraction(mu) ** 2 > left:  # proof: step 3
            mu = math.nextafter(mu, 0)
        sigma = self.sigma(units, mu)
        enough = self.n_records >= LEAST_RATIO * sigma and sigma <= LARGEST_SIGMA
        return mu if enough else None

    def sigma(self, units: Units, mu: float) -> int:
        """The noise of the counts of a look."""
        return smallest_sigma(self._moved * units.histograms, mu)  # proof: step 1

    @property
    def _moved(self) -> int:
        """The square of how far one record moves a histogram."""
        return self.neighbours.moved(replaced=2, removed=1)

    def _share(self, look: int, units: Units) -> float:
        def needed(ratio: float) -> float:
            """Share at which n / sigma is `ratio`."""
            return self._moved * units.histograms * (ratio / (self.n_records * self.total_mu)) ** 2

        if look == 0:
            return min(_FIRST_LOOK, max(_LEAST_FIRST, needed(_AIM_FIRST)))
        aim = _AIM_REFINED if units.refined else _AIM_CELLS
        share = max(needed(aim), _LEAST_REFINED * units.refined / self.n_features)
        if units.octaves:
            rare = needed(_RARE_DEVIATIONS / _RAREST[look - 1])
            share = max(share, min(_RARE_SHARES[look - 1], rare))
        return min(share, _LATER_LOOK)


@dataclass(frozen=True, eq=False)
class Location:
    """Released centres and scales.

    Parameters
    ----------
    centre, scale : ndarray
        About the mean and the standard deviation of each column; both robust against few values
        far away. The scale is 0 where none was found. The centre is 0 there, or the
        value that nearly all records have.
    reach : ndarray
        How far from the centre values count: 6 to 64 scales.
    found : ndarray of bool
        Whether there was evidence of a column's scale.
    """

    centre: FloatArray
    scale: FloatArray
    reach: FloatArray
    found: BoolArray
