"""Private centres and scales of features, wherever they lie: a few releases of noisy counts.

A "look" is one release of noisy counts of the columns that are not settled yet. How much it gets
depends on public and released numbers alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from hushcov._arrays import BoolArray, FloatArray, IntArray
from hushcov.bounds import Bounds
from hushcov.fit import scales
from hushcov.fit.mechanism import Stage
from hushcov.fit.scales import ANYWHERE, Moments, deviations, moments
from hushcov.inputs import Found
from hushcov.kernel.accounting import ONE_REPLACED, Neighbours, smallest_sigma
from hushcov.kernel.queries import (
    LARGEST_SIGMA,
    SMALLEST_EXPONENT,
    CellCounts,
    Query,
    SignedOctaves,
    histograms,
)
from hushcov.kernel.session import Reserve, Session

MOST_LOOKS = 6


@dataclass(frozen=True)
class LocationRules:
    """Shares of the budget of the looks, and the evidence that settles a column.

    Shares are of mu^2 of the whole budget. The numbers were chosen by
    `benchmarks/studies/nothing_known.py`, those about rare values by `raw_tables.py`.
    """

    # All looks together, the first and any other at most, and the first at least.
    all_looks: float = 0.35
    first_look: float = 0.25
    later_look: float = 0.15
    least_first: float = 0.04
    # n / sigma that looks aim at: a normal law has 0.3 n / sigma deviations in the best window of
    # its octaves, and 7 to 8 are evidence. Cells are few, and their counts large; a scale is to be
    # good. A least share where all columns are refined.
    first_ratio: float = 30.0
    cell_ratio: float = 22.0
    refined_ratio: float = 40.0
    least_refined: float = 0.03
    # n / sigma below which nothing can be read: the look is not made, and nothing is spent.
    least_ratio: float = 12.0
    # The same where means are known: below it scales may be off by orders of magnitude.
    least_pooled: float = 10.0
    # Columns that were not found yet, from the second look on: a value that this share of the
    # records has must stand out by so many deviations. A look takes at most so much of the budget,
    # until all looks took so much together, and less than that where fewer than a fifth of the
    # columns are left.
    rarest: tuple[float, ...] = (0.01, 0.005)
    rare_look: float = 0.1
    rare_looks: float = 0.26
    least_rare: float = 0.02
    rare_deviations: float = 5.0
    rare_part: float = 5.0
    # Measured on normal columns a few scales from zero, for any number of columns: the share that
    # is found, the chance that all are, and how much larger errors are, by n / sigma of a first
    # look that takes its largest share.
    ratios: tuple[float, ...] = (15.0, 18.0, 21.0, 24.0, 32.0, 36.0, 46.0)
    found: tuple[float, ...] = (0.0, 0.1, 0.27, 0.36, 0.36, 0.65, 1.0)
    all_found: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0, 0.0, 0.2, 1.0)
    strained: tuple[float, ...] = (46.0, 90.0, 180.0)
    strain: tuple[float, ...] = (1.5, 1.35, 1.0)
    # Kinds of tests in a look, each with its part of the level: single bins, windows, popular bins
    # and cells. That a column is not far from its centre, or not in one place, is taken to be so at
    # another level: wrongly doubted it costs a look, wrongly taken it gives a far too large scale.
    kinds: int = 4
    offset_level: float = 1e-3
    # Deviations of noise that are added to a second moment, where there is no evidence of it. A
    # column in which nothing is seen is not looked at again once a share of the records at its
    # largest value has noise of a least deviation.
    added_deviations: float = 2.0
    enough_noise: float = 0.004
    # Deviations by which records that have another value than most show that a column varies, and
    # those in a bin of many other columns that they are there.
    sure_deviations: float = 4.0
    fitting_deviations: float = 3.5
    # Deviations by which records of a column that lies in one place are missing from its range.
    elsewhere_deviations: float = 2.0
    # Octaves beside one that stands out in which others may be.
    octaves_beside: int = 2
    # A column is found with others if it has this part of their mean share, at least.
    least_of_mean: float = 0.25
    # Clusters beyond so many scales are a law of their own. So often a column that lies in one
    # place is looked at in narrower cells, too: 2^30 scales.
    clusters: float = 6.01
    deepest: int = 3
    # Signed bins that the ranges of so many columns have, found in earlier looks, are popular.
    popular: int = 3
    most_popular: int = 8
    # The scale pooled over features replaces that of the moments within this factor. Pooled scales
    # hold for columns whose centre was right, to so many scales.
    pooled_factor: float = 4.0
    centred: float = 0.5
    centred_again: float = 0.7
    # A refined column with less of its mass in evidence is taken for a point; one with less than
    # the other, beyond doubt, has parts that were not seen, and is looked at again.
    least_mass: float = 0.3
    most_mass: float = 0.75
    # Deviations of noise by which more records may be unseen than seem to be (known means).
    unseen_deviations: float = 3.0
    # Smallest cap in scales: tails are worth their noise only if much can be seen of them.
    low_reach: float = 6.0
    low_reach_seen: float = 16.0
    seen_ratio: float = 60.0


RULES = LocationRules()


@dataclass(frozen=True)
class LookUnits:
    """Numbers of columns that a look counts by octave, again finer, by cell, or in both ways."""

    octaves: int = 0
    refined: int = 0
    cells: int = 0
    both: int = 0

    @property
    def histograms(self) -> int:
        """Number of histograms in which a record is counted: two levels of cells."""
        return self.octaves + self.refined + 2 * self.cells + 3 * self.both


@dataclass(frozen=True)
class LocationParameters:
    """The search for centres and scales: the size, and what all looks may spend.

    `total_mu` is the mu of a Gaussian mechanism that would spend the whole budget. What is really
    spent is never more than `largest_mu` allows. All bins that are noise are mistaken for evidence,
    in any column and any look, with a probability of at most `evidence_level`. Where `known_mean`
    says that all means are zero, scales alone are searched, about zero.
    """

    released: ClassVar[str] = "centres and scales of the features"

    n_records: int
    n_features: int
    total_mu: float
    evidence_level: float = 1e-5
    known_mean: bool = False
    neighbours: Neighbours = ONE_REPLACED

    @property
    def part(self) -> str:
        """Description of what a look releases."""
        return "scales of the features" if self.known_mean else self.released

    @property
    def largest_mu(self) -> float:
        """The most that all looks together cost, as one Gaussian mechanism."""
        return math.sqrt(RULES.all_looks) * self.total_mu  # proof: step 3

    def expected(self, known: float = 0.0) -> Found:
        """Return what is expected to be found, from public numbers; see `Found`.

        A share of the features is `known`: those with public bounds always are found.
        """
        if known == 1 or self.known_mean:  # a usual scale is taken where nothing is seen
            return Found()
        ratio = self._largest_ratio
        share = float(np.interp(ratio, RULES.ratios, RULES.found))
        every = float(np.interp(ratio, RULES.ratios, RULES.all_found))
        strain = float(np.interp(ratio, RULES.strained, RULES.strain))
        return Found(known + (1 - known) * share, every, strain)

    @property
    def drowns(self) -> bool:
        """Whether the first look shows hardly anything, even if it takes its largest share."""
        return self._largest_ratio < RULES.least_pooled

    @property
    def _largest_ratio(self) -> float:
        """The most that n / sigma of a first look can be."""
        mu = math.sqrt(RULES.first_look) * self.total_mu
        return self.n_records / self.sigma(LookUnits(octaves=self.n_features), mu)

    def look_mu(self, look: int, units: LookUnits, spent: tuple[float, ...]) -> float | None:
        """Return the cost of look number `look` (from 0), or None if it is not made."""
        share = self._share(look, units, math.fsum(mu**2 for mu in spent) / self.total_mu**2)
        left = Fraction(self.largest_mu) ** 2 - sum(Fraction(mu) ** 2 for mu in spent)
        square = min(share * self.total_mu**2, float(left))
        if square <= 0:
            return None
        mu = math.sqrt(square)
        while Fraction(mu) ** 2 > left:  # proof: step 3
            mu = math.nextafter(mu, 0)
        sigma = self.sigma(units, mu)
        pooled = self.known_mean and look == 0  # counts of all columns together say something
        enough = pooled or self.n_records >= RULES.least_ratio * sigma
        return mu if enough and sigma <= LARGEST_SIGMA else None

    def sigma(self, units: LookUnits, mu: float) -> int:
        """Return the noise of the counts of a look."""
        return smallest_sigma(histograms(units.histograms, self.neighbours), mu)  # proof: step 1

    def first_octaves(self, bounds: Bounds | None) -> SignedOctaves | None:
        """Return the counts of the first look, by public numbers; None where none is made."""
        columns = start_columns(self.n_features, bounds, known_mean=self.known_mean)
        columns = [each for each in columns if each.way is not None]
        units = LookUnits(octaves=len(columns))
        made = columns and self.look_mu(0, units, ()) is not None
        return octave_counts(columns) if made else None

    def _share(self, look: int, units: LookUnits, spent: float) -> float:
        """Return the share of a look: what its aims need, within bounds.

        Looks at rare values take less where earlier ones have `spent` more.
        """
        # At the share square (ratio / size)^2, n / sigma is the ratio.
        square = histograms(units.histograms, self.neighbours)
        size = self.n_records * self.total_mu
        if look == 0:
            return min(
                RULES.first_look, max(RULES.least_first, square * (RULES.first_ratio / size) ** 2)
            )
        aim = RULES.refined_ratio if units.refined else RULES.cell_ratio
        share = max(
            square * (aim / size) ** 2, RULES.least_refined * units.refined / self.n_features
        )
        if units.octaves:
            rarest = RULES.rarest[min(look, len(RULES.rarest)) - 1]
            rare = square * (RULES.rare_deviations / rarest / size) ** 2
            worth = min(1.0, RULES.rare_part * units.octaves / self.n_features)
            most = min(RULES.rare_look, max(RULES.least_rare, RULES.rare_looks - spent))
            share = max(share, min(worth * most, rare))
        return min(share, RULES.later_look)


class SearchStage(Stage):
    """A stage that begins with the search, unless centres and scales were `located` before it."""

    n_records: int
    n_features: int
    total: float
    bounds: Bounds | None
    located: bool = False
    known_mean: bool = False
    known_scale: bool = False
    neighbours: Neighbours

    @cached_property
    def looks(self) -> LocationParameters:
        """The parameters of the search for centres and scales."""
        return LocationParameters(
            self.n_records,
            self.n_features,
            self.total,
            known_mean=self.known_mean,
            neighbours=self.neighbours,
        )

    @property
    def first_octaves(self) -> SignedOctaves | None:
        """See `Stage.first_octaves`."""
        skipped = self.located or (self.known_mean and self.known_scale)
        return None if skipped else self.looks.first_octaves(self.bounds)


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


# What a search knows between its looks: of every column, and of the look that is taken.


class Way(Enum):
    """The way in which a column is counted next."""

    OCTAVES = auto()
    REFINED = auto()  # octaves about a centre found in cells
    CELLS = auto()
    BOTH = auto()  # it lies in one place: octaves about it, and narrower cells


@dataclass(frozen=True)
class ColumnPlace:
    """A centre, a scale, and a cap in scales."""

    centre: float
    scale: float
    reach: float


@dataclass(eq=False)
class Column:
    """Knowledge of a column from the looks so far; settled if it has no way.

    Octaves are counted about `centre`, and values within the `dead_zone` of it count as zero;
    `counts` are the mean of the noisy counts about this centre. Cells are counted in a window that
    begins at `start`. `fallback` is the place to take if the column is a mixture, and `depth` says
    how often it was found in one place. `low` and `high` are public bounds, and
    `widest` is the most that a deviation can be.
    """

    index: int
    way: Way | None = Way.OCTAVES
    found: ColumnPlace | None = None
    centre: float = 0.0
    dead_zone: float = 0.0
    counts: FloatArray | None = None
    precision: float = 0.0
    start: float = 0.0
    width: float = 1.0
    fallback: ColumnPlace | None = None
    depth: int = 0
    in_one_place: bool = False
    low: float = -math.inf
    high: float = math.inf
    widest: float = math.inf

    @property
    def moments(self) -> Moments:
        """Moments in the bins about its centre."""
        if self.low == -math.inf and self.high == math.inf:
            return ANYWHERE
        return moments(max(self.centre - self.low, 0.0), max(self.high - self.centre, 0.0))

    def count_about(self, centre: float, dead_zone: float = 0.0) -> None:
        """Count octaves about a new centre: counts from before say nothing of them."""
        self.centre, self.dead_zone = centre, dead_zone
        self.counts, self.precision = None, 0.0

    def settle(self, found: ColumnPlace | None) -> None:
        """Be done with it."""
        self.found, self.way = found, None


@dataclass(frozen=True, eq=False)
class Look:
    """One look: the columns that are not settled, the noise, and how much is evidence.

    `n` is about the number of complete records, and `level` that of one kind of tests. `first` are
    counts of the columns that may have been read before.
    """

    reserve: Reserve
    n_features: int
    columns: tuple[Column, ...]
    sigma: int
    n: int
    level: float
    low_reach: float
    popular: tuple[tuple[int, int], ...]
    first: SignedOctaves | None = None
    known_mean: bool = False

    def offset_deviations(self, tests: int) -> float:
        """Return how many deviations show that a column is not in one place."""
        return deviations(tests, RULES.offset_level / (MOST_LOOKS * RULES.kinds))

    def noisy(self, counts: Query) -> FloatArray:
        """Return counts with the noise of this look."""
        return np.asarray(self.reserve.measure(counts).integers, dtype=np.float64)  # proof: step 2


def start_columns(
    n_features: int, bounds: Bounds | None, *, known_mean: bool = False
) -> list[Column]:
    """Return columns before the first look: about zero, or the nearest possible value to it.

    A column that is publicly constant is settled. A `known_mean` is zero, whatever bounds say.
    """
    if bounds is None:
        return [Column(index) for index in range(n_features)]
    nearest = np.zeros(n_features) if known_mean else bounds.nearest
    widest = bounds.largest_deviation(known_mean=known_mean)
    known = zip(nearest.tolist(), bounds.low, bounds.high, widest.tolist(), strict=True)
    columns = [
        Column(i, centre=centre, low=low, high=high, widest=most)
        for i, (centre, low, high, most) in enumerate(known)
    ]
    for i in np.flatnonzero(bounds.constant):
        columns[i].settle(ColumnPlace(columns[i].centre, 0.0, 0.0))
    return columns


def octave_counts(columns: Sequence[Column]) -> SignedOctaves:
    """Return the query that counts columns by octave, each about its own centre."""
    index = np.array([column.index for column in columns], dtype=np.int64)
    centre = np.array([column.centre for column in columns])
    return SignedOctaves(centre, np.array([column.dead_zone for column in columns]), index)


# The search: a few looks, each at the columns that are not settled yet.


def find_location(
    session: Session,
    parameters: LocationParameters,
    *,
    share: float = 1.0,
    bounds: Bounds | None = None,
    first: SignedOctaves | None = None,
) -> Location:
    """Find centre, scale and reach of every column, in at most six looks.

    `share` is about which share of the records is complete, if that was released: others count
    nowhere. A column with public `bounds` is always found: it is counted about its possible value
    nearest to zero, and where a look sees nothing in it, its noisy counts and bounds say how much
    it can spread. `first` is `LocationParameters.first_octaves`, where the session may hold it from
    another pass.

    Privacy
    -------
    Neighbours: those of the parameters; no precondition. Each look is the rounding of a Gaussian
    mechanism that is spent before it, and the sum of the squares of their mu is at most that of
    `parameters.largest_mu` whatever is seen. See `docs/proofs/location.md`.
    """
    known_mean = parameters.known_mean
    columns = start_columns(session.n_features, bounds, known_mean=known_mean)
    spent: list[float] = []
    popular: Counter[int] = Counter()
    low_reach, n = RULES.low_reach, max(1, round(share * session.n_records))
    level = parameters.evidence_level / (MOST_LOOKS * RULES.kinds)
    for number in range(MOST_LOOKS):
        unsettled = tuple(column for column in columns if column.way is not None)
        ways = Counter(column.way for column in unsettled)
        units = LookUnits(*(ways[way] for way in Way))
        mu = parameters.look_mu(number, units, tuple(spent)) if unsettled else None
        if mu is None:
            break
        spent.append(mu)
        sigma = parameters.sigma(units, mu)  # proof: step 1
        reserve = session.reserve(mu, sigma, f"{parameters.part}, look {len(spent)}")
        if number == 0 and n > RULES.seen_ratio * sigma:
            low_reach = RULES.low_reach_seen
        common = popular.most_common(RULES.most_popular)
        common = [(each, k) for each, k in common if k >= RULES.popular]
        known = first if number == 0 else None
        d = session.n_features
        look = Look(
            reserve, d, unsettled, sigma, n, level, low_reach, tuple(common), known, known_mean
        )
        by_octave = [column for column in unsettled if column.way is not Way.CELLS]
        by_cell = [column for column in unsettled if column.way is Way.CELLS]
        n_cells = ways[Way.CELLS] + ways[Way.BOTH]
        if by_octave:
            popular += _look_at_octaves(look, by_octave)
            by_cell += [column for column in by_octave if column.way is Way.BOTH]
        if by_cell:
            _look_at_cells(look, by_cell, n_cells)
        _settle_by_bounds(columns, n, last=False, known_mean=known_mean)
    if known_mean:
        _settle_centred(columns, low_reach, n)  # proof: step 6
    _settle_by_bounds(columns, n, last=True, known_mean=known_mean)  # proof: step 5
    _settle_together(columns, n, parameters.evidence_level)  # proof: step 4
    _settle_by_others(columns, popular, n)  # proof: step 4
    for column in columns:
        if column.way is Way.OCTAVES and column.fallback is not None:
            column.settle(column.fallback)
    return _location(columns, bounds, n, known_mean=known_mean)  # proof: step 4


def _location(
    columns: Sequence[Column], bounds: Bounds | None, n: int, *, known_mean: bool
) -> Location:
    """Return what was found: centres inside their bounds, scales and reaches limited by them.

    A column that was found in one place, without records beside it, has a centre and no scale.
    """
    found = np.array([column.found is not None for column in columns])
    centre, scale, reach = np.zeros((3, len(columns)))
    for i, column in enumerate(columns):
        if column.found is not None:
            centre[i], scale[i] = column.found.centre, column.found.scale
            reach[i] = scale[i] * column.found.reach
        elif column.depth > 0 and column.counts is not None:
            beside = n - float(column.counts[-1])
            if beside < RULES.sure_deviations * column.precision**-0.5:
                centre[i] = column.centre
    if bounds is not None:
        scale = np.minimum(scale, bounds.largest_deviation(known_mean=known_mean))
        farthest = bounds.farthest / 2 if known_mean else bounds.half_width
        reach = np.minimum(reach / 2, farthest) * 2
        centre = centre if known_mean else np.clip(centre, bounds.lows, bounds.highs)
    return Location(centre, scale, reach, found)


# Octaves.


def _look_at_octaves(look: Look, columns: Sequence[Column]) -> Counter[int]:
    """Count columns by octave and take in what is seen; return which bins ranges have."""
    noisy = look.noisy(look.first or octave_counts(columns))
    more = float(look.sigma) ** -2.0
    for column, own in zip(columns, noisy, strict=True):  # averaged by precision
        before = 0.0 if column.counts is None else column.counts * column.precision
        column.precision += more
        column.counts = (before + own * more) / column.precision
    means = np.stack([column.counts for column in columns if column.counts is not None])
    sigma = np.array([column.precision**-0.5 for column in columns])
    limits = scales.thresholds(len(columns), look.level, dict(look.popular))
    known = [column.moments for column in columns]
    readings = scales.read_all(means, sigma, look.n, limits, known)
    pooled, again = np.zeros(len(columns)), RULES.centred_again
    if any(each is not None and abs(each.offset) < again * each.scale for each in readings):
        pooled = scales.pooled_scales(means, float(sigma.max()), look.n)
    # The largest counts of two neighbouring octaves, by sign, and the exponents of their ends.
    counts = scales.signed(means)
    pairs = counts[..., 1:] + counts[..., :-1]
    held, ends = pairs.max(axis=-1), np.argmax(pairs, axis=-1) + 2 + SMALLEST_EXPONENT
    # Everything but noise that two octaves may lack to hold all records.
    least = look.n - look.offset_deviations(look.n_features) * math.sqrt(2) * sigma
    used: list[BoolArray] = []
    for i, (column, reading) in enumerate(zip(columns, readings, strict=True)):
        refined = column.way is Way.REFINED
        if reading is None or (refined and reading.mass < RULES.least_mass):
            if refined:
                column.way, column.in_one_place, column.fallback = Way.OCTAVES, True, None
            continue
        if not refined:
            used.append(reading.used.ravel())
        # What can be in a bin is known better by bounds than by other columns.
        bounded = math.isfinite(column.low) and math.isfinite(column.high)
        scale = 0.0 if bounded else float(pooled[i])
        if look.known_mean:
            _take_centred(look, column, reading, scale, float(sigma[i]))
            continue
        side = int(reading.offset > 0)
        end = int(ends[i, side]) if held[i, side] > least[i] else None
        _take_reading(look, column, reading, scale, float(sigma[i]), end, int(ends[i, side]))
    return Counter(np.nonzero(np.stack(used))[1].tolist()) if used else Counter()


def _take_reading(
    look: Look,
    column: Column,
    reading: scales.Reading,
    pooled: float,
    sigma: float,
    end: int | None,
    best_end: int,
) -> None:
    """Settle a column, or have it looked at in cells if it may be far from the centre.

    Two octaves may hold everything that end at the exponent `end`; None says that none do. The
    pooled scale is taken if the centre was right.
    """
    refined = column.way is Way.REFINED
    centred = RULES.centred_again if refined else RULES.centred
    factor, scale = RULES.pooled_factor, reading.scale
    near = scale / factor <= pooled <= factor * scale
    if near and abs(reading.offset) < centred * scale:
        scale = pooled
    found = ColumnPlace(column.centre + reading.offset, scale, reading.reach(scale, look.low_reach))
    if refined and end is None:
        if reading.may_hold(RULES.most_mass, sigma, look.n):
            column.settle(found)
        return
    if column.in_one_place and not refined:
        end, noise = None, sigma * math.sqrt(1 + np.count_nonzero(reading.used))
        if column.counts is not None and look.n * (1 - reading.mass) > (
            float(column.counts[-1]) + RULES.elsewhere_deviations * noise
        ):  # others lie elsewhere, and maybe far away
            column.fallback = found
            return
    elif not refined and reading.one_sided(sigma, look.n):
        end = max(best_end, reading.end)
    if end is None:
        column.settle(found)
    else:  # of a refined column there was no spread after all
        column.fallback = None if refined else found
        # Cells are on the side of the offset, up to 2^end.
        column.way, column.width = Way.CELLS, 2.0**end
        column.start = column.centre if reading.offset > 0 else column.centre - column.width


# Columns whose mean is known to be zero.


def _take_centred(
    look: Look, column: Column, reading: scales.Reading, pooled: float, sigma: float
) -> None:
    """Settle a column whose mean is zero, or have it looked at again.

    What was seen on one side has its balance on the other, where few records may be that no look
    shows. The fewer these can be, the farther away they are.
    """
    offset, own, n = abs(reading.offset), reading.scale, look.n
    if not reading.lopsided(sigma, n):
        near = own / RULES.pooled_factor <= pooled <= RULES.pooled_factor * own
        scale = pooled if near and offset < RULES.centred * own else own
        column.settle(ColumnPlace(0.0, scale, reading.reach(scale, look.low_reach)))
        return
    balanced = scales.balanced_scale(reading, column.moments, sigma / n)
    if balanced > 0:
        column.settle(ColumnPlace(0.0, balanced, reading.reach(balanced, look.low_reach)))
        return
    unseen = max(1 - reading.mass, 0.0) + RULES.unseen_deviations * sigma / n
    scale = math.hypot(own, offset, offset / math.sqrt(unseen))
    # Of two values -a and b the deviation is sqrt(a b); it may be off by a factor of 2.
    reach = scales.bounded_reach(4 * scale / max(offset, own / 16), look.low_reach)
    column.fallback = ColumnPlace(0.0, scale, reach)


def _settle_centred(columns: list[Column], low_reach: float, n: int) -> None:
    """Settle columns of mean zero of which nothing was seen, by what is usual among all.

    No uncertain scale is larger than the largest that was seen: it may be off by orders of
    magnitude, and the noise of a column grows with its scale.
    """
    for column in columns:
        if column.way is not None and column.fallback is not None:
            column.settle(column.fallback)
    counted = [(column, column.counts) for column in columns if column.counts is not None]
    if all(column.way is None for column, _ in counted):
        return
    largest = max(column.precision**-0.5 for column, _ in counted)
    usual, certain = scales.usual_scales(np.stack([own for _, own in counted]), largest, n)
    seen = [column.found.scale for column in columns if column.found is not None]
    most = max(seen, default=float(np.median(usual[usual > 0])) if usual.any() else 0.0)
    for (column, _), scale, sure in zip(counted, usual.tolist(), certain, strict=True):
        bounded = math.isfinite(column.low) and math.isfinite(column.high)
        if column.way is not None and scale > 0 and not bounded:
            column.settle(ColumnPlace(0.0, scale if sure else min(scale, most), low_reach))


# Cells: where a column lies that may be far from its centre for its spread.


def _look_at_cells(look: Look, columns: Sequence[Column], n_tested: int) -> None:
    """Count two levels of cells: the second in the four cells that hold nearly all."""
    firsts = np.zeros(len(columns), dtype=np.int64)
    level = _Level(look, columns, firsts, scales.N_CELLS, 1, None, n_tested)
    opened = level.take_spreads()
    if not opened:
        return
    firsts = np.array([scales.first_opened(level.counts[i]) for i in opened], dtype=np.int64)
    # Cells outside were not counted, and are taken for empty.
    padded = np.pad(level.counts[opened], ((0, 0), (1, 1)))
    parents = np.take_along_axis(
        padded, firsts[:, None] + np.arange(1, 1 + scales.N_OPENED), axis=1
    )
    inner, firsts = [columns[i] for i in opened], firsts * scales.N_CELLS
    level = _Level(look, inner, firsts, scales.N_CHILDREN, 2, parents, n_tested)
    for i in level.take_spreads():
        level.take_place(i)


class _Level:
    """One level of cells of some columns, counted with noise."""

    def __init__(
        self,
        look: Look,
        columns: Sequence[Column],
        firsts: IntArray,
        n_cells: int,
        depth: int,
        parents: FloatArray | None,
        n_tested: int,
    ) -> None:
        self.look, self.columns, self.firsts, self.parents = look, columns, firsts, parents
        self.n_tested = n_tested
        # Each column is tested at two levels.
        self.deviations = look.offset_deviations(2 * n_tested)
        index = np.array([column.index for column in columns], dtype=np.int64)
        self.starts = np.array([column.start for column in columns])
        self.widths = np.array([column.width / scales.N_CELLS**depth for column in columns])
        self.counts = look.noisy(CellCounts(index, self.starts, self.widths, firsts, n_cells))

    def take_spreads(self) -> list[int]:
        """Take in columns that spread over more than two cells; return the places of others."""
        look = self.look
        # Columns of which two neighbouring cells hold nearly all records.
        most = (self.counts[:, 1:] + self.counts[:, :-1]).max(axis=1)
        missing = self.deviations * math.sqrt(2) * look.sigma
        narrow = most > min(scales.RULES.concentrated * look.n, look.n - missing)
        wide = np.flatnonzero(~narrow)
        if len(wide):
            z = deviations(self.n_tested * scales.CELLS_LOOKED_AT, look.level)
            parents = None if self.parents is None else self.parents[wide]
            spreads = scales.read_spreads(self.counts[wide], parents, look.sigma, look.n, z)
            for i, spread in zip(wide.tolist(), spreads, strict=True):
                if spread is not None and spread.in_one_place:
                    narrow[i] = True
                else:
                    self._take_spread(i, spread)
        return [int(i) for i in np.flatnonzero(narrow)]

    def _take_spread(self, i: int, spread: scales.CellSpread | None) -> None:
        column = self.columns[i]
        if spread is None:
            column.settle(column.fallback)
            return
        centre, scale = self._position(i, spread.centre), spread.scale * float(self.widths[i])
        if spread.reach is not None and spread.reach > RULES.clusters * spread.scale:
            reach = scales.bounded_reach(spread.reach / spread.scale, self.look.low_reach)
            column.settle(ColumnPlace(centre, scale, reach))
        else:
            column.way = Way.REFINED
            column.count_about(centre)

    def take_place(self, i: int) -> None:
        """Take in a column that lies in two cells: it may be constant, or nearly.

        Where some of it surely lies elsewhere, narrower cells would not show its spread.
        """
        column, look = self.columns[i], self.look
        first, opened = scales.first_opened(self.counts[i]), scales.N_OPENED
        width = float(self.widths[i])
        column.count_about(self._position(i, first + opened / 2), opened / 2 * width)
        column.start, column.width = self._position(i, first), opened * width
        column.depth += 1
        column.in_one_place, column.fallback = True, None
        held = float((self.counts[i][1:] + self.counts[i][:-1]).max())
        elsewhere = look.n - held > self.deviations * math.sqrt(2) * look.sigma
        deeper = column.depth < RULES.deepest and not elsewhere
        column.way = Way.BOTH if deeper else Way.OCTAVES

    def _position(self, i: int, cell: float) -> float:
        """Return where a cell of this level begins."""
        return float(self.starts[i] + (self.firsts[i] + cell) * self.widths[i])


# Columns that no look settled: by their bounds, or by values that others have, too.


def _settle_by_bounds(
    columns: list[Column], n: int, *, last: bool, known_mean: bool = False
) -> None:
    """Settle columns by their bounds: those where more looks would help little, at last all.

    About any point the second moment is at least the variance, so that the scale is not too small
    by more than noise makes it. Where there are no counts it is half the width.
    """
    for column in columns:
        half, farthest = column.widest, max(abs(column.low), abs(column.high))
        if column.found is not None or not math.isfinite(column.high - column.low):
            continue
        if known_mean and column.fallback is not None:
            continue
        unseen = column.way is Way.OCTAVES and not column.in_one_place
        square, noise, scale = column.moments.square, math.inf, half
        if column.counts is not None and square.any():
            noise = math.sqrt(float((square**2).sum()) / column.precision) / float(square.max())
        if not last and not (unseen and noise <= RULES.enough_noise * n):
            continue
        if column.counts is not None and square.any():
            noise = RULES.added_deviations * noise * float(square.max())
            seen = float((scales.signed(column.counts) * square).sum())
            scale = min(half, math.sqrt(max(seen + noise, noise) / n + column.dead_zone**2))
        place = ColumnPlace(column.low / 2 + column.high / 2, half, 1.0)
        if known_mean:
            place = ColumnPlace(0.0, scale, scales.bounded_reach(farthest / scale, 1.0))
        elif scale != half:
            reach = scales.bounded_reach(half / scale * 2, 1.0)
            place = ColumnPlace(column.centre, scale, reach)
        column.settle(place)


def _settle_by_others(columns: list[Column], popular: Counter[int], n: int) -> None:
    """Settle columns of which few records surely vary: in a bin that many others have.

    Flags and counts share their values, so that what a few records have is in the octave of the
    others with the largest noisy count, if most of it can be there.
    """
    known = [each for each, k in popular.items() if k >= RULES.popular]
    for column in columns if known else ():
        if column.found is not None or column.way is None or column.counts is None:
            continue
        sigma, fitting = column.precision**-0.5, RULES.fitting_deviations
        apart = n - float(column.counts[-1])
        if not RULES.sure_deviations * sigma <= apart <= n / 2:
            continue
        counts = scales.signed(column.counts).ravel()
        best = max(known, key=lambda each: float(counts[each]))
        held, square = float(counts[best]), float(column.moments.square.ravel()[best])
        share = min(held + sigma, apart, float(n)) / n
        if held > fitting * sigma and held + fitting * sigma > apart / 2 and square > 0:
            reach = scales.bounded_reach(2 / math.sqrt(share), RULES.low_reach)
            column.settle(ColumnPlace(column.centre, math.sqrt(share * square), reach))


def _settle_together(columns: list[Column], n: int, level: float) -> None:
    """Settle columns that nearly always have one value: where others are, all of them show.

    Rare flags have their other value in octaves that are alike. Counts of one column are hidden by
    noise there, but not their sum over columns. Each column is taken to have about its own share
    of them, moved by noise towards the mean of those that are not settled; one that has hardly any
    may be constant. Scales of settled ones grow where they left out such values.
    """
    asked = [(each, each.counts) for each in columns if each.way is not None or each.in_one_place]
    left = [(each, own) for each, own in asked if own is not None and 2 * own[-1] > n]
    if len(left) < RULES.popular:
        return
    counts = np.stack([own[: scales.N_SIGNED] for _, own in left])
    sigma = np.array([each.precision**-0.5 for each, _ in left])
    together = counts.sum(axis=0) / math.sqrt(float(sigma @ sigma))
    surely = np.flatnonzero(together > deviations(scales.N_SIGNED, level))
    beside = np.add.outer(surely, np.arange(-RULES.octaves_beside, RULES.octaves_beside + 1))
    bins = np.unique(beside.clip(0, scales.N_SIGNED - 1))
    bins = bins[together[bins] > RULES.fitting_deviations]
    if not len(bins):
        return
    shares, noise = counts[:, bins] / n, sigma[:, None] / n
    settled = np.array([each.way is None for each, _ in left])
    for group in (settled, ~settled):
        mean = np.maximum(shares[group].mean(axis=0), 0.0) if group.any() else 0.0
        trust = mean**2 / (mean**2 + noise[group] ** 2)
        shares[group] = np.maximum(mean + trust * (shares[group] - mean), 0.0)
    least = (
        0.0 if settled.all() else RULES.least_of_mean * float(shares[~settled].sum(axis=1).mean())
    )
    ends = np.exp2(bins % (scales.N_SIGNED // 2) + 1.0 + SMALLEST_EXPONENT)
    for (column, _), own in zip(left, shares, strict=True):
        square = float(own @ column.moments.square.ravel()[bins])
        known = 0.0 if column.found is None else column.found.scale
        if square > known**2 and (known > 0 or own.sum() > least):
            scale = math.sqrt(square)
            reach = scales.bounded_reach(float(ends.max()) / scale, RULES.low_reach)
            column.settle(ColumnPlace(column.centre, scale, reach))
