"""What a search knows between its looks: of every column, and of the look that is taken."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.noise import rounded_normal
from hushcov.steps.location.octaves import ANYWHERE, Moments, deviations, moments
from hushcov.steps.location.parameters import MOST_LOOKS, LocationParameters
from hushcov.sums.records import Records

# Kinds of tests in a look, each with its part of the level: single bins, windows, popular bins and
# cells.
_KINDS = 4
# That a column is not far from its centre, or not in one place, is taken to be so at this level, of
# all looks; wrongly doubted it costs a look, wrongly taken it gives a scale that is far too large.
_OFFSET_LEVEL = 1e-3


class Way(Enum):
    """How a column is looked at next."""

    OCTAVES = auto()
    REFINED = auto()  # octaves about a centre found in cells
    CELLS = auto()
    BOTH = auto()  # it lies in one place: octaves about it, and narrower cells


@dataclass(frozen=True)
class Window:
    """Where cells are counted."""

    start: float
    width: float


@dataclass(frozen=True)
class Found:
    """A centre, a scale, and a cap in scales."""

    centre: float
    scale: float
    reach: float


@dataclass(eq=False)
class Column:
    """What is known of a column from the looks so far; settled if it has no way."""

    index: int
    way: Way | None = Way.OCTAVES
    found: Found | None = None
    centre: float = 0.0  # about which octaves are counted
    nothing: float = 0.0  # what is nearer to it counts as nothing
    counts: FloatArray | None = None  # mean of the noisy counts by octave about this centre
    precision: float = 0.0
    window: Window = Window(0.0, 1.0)
    fallback: Found | None = None  # what to take if it is a mixture
    depth: int = 0  # how often it was found in one place
    in_one_place: bool = False
    low: float = -math.inf  # public bounds
    high: float = math.inf

    @property
    def bounded(self) -> bool:
        """Whether both bounds are known."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def moments(self) -> Moments:
        """Moments in the bins about its centre."""
        if self.low == -math.inf and self.high == math.inf:
            return ANYWHERE
        return moments(self.centre - self.low, self.high - self.centre)

    def count_about(self, centre: float, nothing: float = 0.0) -> None:
        """Count octaves about a new centre: what was counted before says nothing of them."""
        self.centre, self.nothing = centre, nothing
        self.counts, self.precision = None, 0.0

    def average(self, counts: FloatArray, sigma: float) -> None:
        """Take in more noisy counts, by precision."""
        more = sigma**-2.0
        before = 0.0 if self.counts is None else self.counts * self.precision
        self.precision += more
        self.counts = (before + counts * more) / self.precision

    def settle(self, found: Found | None) -> None:
        """Be done with it."""
        self.found, self.way = found, None


@dataclass(frozen=True, eq=False)
class Look:
    """One look: the columns that are not settled, the noise, and how much is evidence."""

    records: Records
    parameters: LocationParameters
    generator: np.random.Generator
    columns: tuple[Column, ...]
    sigma: int
    n: int  # complete records, about
    low_reach: float
    popular: tuple[tuple[int, int], ...]

    @property
    def level(self) -> float:
        """Of one kind of tests in this look."""
        return self.parameters.evidence_level / (MOST_LOOKS * _KINDS)

    def offset_deviations(self, tests: int) -> float:
        """How many deviations show that a column is not in one place."""
        return deviations(tests, _OFFSET_LEVEL / (MOST_LOOKS * _KINDS))

    def noisy(self, counts: IntArray) -> FloatArray:
        """Counts with the noise of this look."""
        noise = rounded_normal(self.generator, self.sigma, counts.size)
        return (counts + noise.reshape(counts.shape)).astype(np.float64)  # proof: step 2
