"""Private centres and scales of features, wherever they lie: looks at noisy counts.

Shares are of mu^2, where mu is that of a Gaussian mechanism with the whole budget. How much a look
gets depends on public and released numbers alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from fractions import Fraction
from typing import ClassVar

import numpy as np

from hushcov._arrays import BoolArray, FloatArray, IntArray
from hushcov._validation import check_integer, check_real
from hushcov.bounds import Bounds
from hushcov.exceptions import DataError
from hushcov.fit import octaves
from hushcov.fit.octaves import ANYWHERE, Moments, deviations, moments
from hushcov.inputs import LARGEST_CALIBRATED_N, Found
from hushcov.kernel.accounting import ONE_REPLACED, Neighbours, smallest_sigma
from hushcov.kernel.queries import LARGEST_SIGMA, CellCounts, Query, SignedOctaves, histograms
from hushcov.kernel.session import Reserve, Session

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
_RARE_WORTH = 5.0  # in proportion to the part of the columns that they are, from a fifth on all
# Measured on normal columns a few scales from zero, whatever their number: which share of them is
# found, how likely all are, and how much larger errors are, by n / sigma of a first look that takes
# all it may.
_RATIOS = (15.0, 18.0, 21.0, 24.0, 32.0, 36.0, 46.0)
_FOUND = (0.0, 0.1, 0.27, 0.36, 0.36, 0.65, 1.0)
_ALL_FOUND = (0.0, 0.0, 0.0, 0.0, 0.0, 0.2, 1.0)
_STRAINED, _STRAIN = (46.0, 90.0, 180.0), (1.5, 1.35, 1.0)


@dataclass(frozen=True)
class LookUnits:
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

    def expected(self, known: float = 0.0) -> Found:
        """Return what is expected to be found, from public numbers; see `Found`.

        A share of the features is `known`: those with public bounds always are found.
        """
        if known == 1:
            return Found()
        mu = math.sqrt(_FIRST_LOOK) * self.total_mu
        ratio = self.n_records / self.sigma(LookUnits(octaves=self.n_features), mu)
        share, every = (float(np.interp(ratio, _RATIOS, each)) for each in (_FOUND, _ALL_FOUND))
        strain = float(np.interp(ratio, _STRAINED, _STRAIN))
        return Found(known + (1 - known) * share, every, strain)

    def look_mu(self, look: int, units: LookUnits, spent: tuple[float, ...]) -> float | None:
        """Return the cost of look number `look` (from 0), or None if it is not made."""
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

    def sigma(self, units: LookUnits, mu: float) -> int:
        """The noise of the counts of a look."""
        return smallest_sigma(histograms(units.histograms, self.neighbours), mu)  # proof: step 1

    def first_octaves(self, bounds: Bounds | None) -> SignedOctaves | None:
        """Return the counts of the first look, by public numbers; None where none is made."""
        columns = [each for each in start_columns(self.n_features, bounds) if each.way is not None]
        units = LookUnits(octaves=len(columns))
        made = columns and self.look_mu(0, units, ()) is not None
        return SignedOctaves(*_about(columns)) if made else None

    def _share(self, look: int, units: LookUnits) -> float:
        square = histograms(units.histograms, self.neighbours)

        def needed(ratio: float) -> float:
            """Share at which n / sigma is `ratio`."""
            return square * (ratio / (self.n_records * self.total_mu)) ** 2

        if look == 0:
            return min(_FIRST_LOOK, max(_LEAST_FIRST, needed(_AIM_FIRST)))
        aim = _AIM_REFINED if units.refined else _AIM_CELLS
        share = max(needed(aim), _LEAST_REFINED * units.refined / self.n_features)
        if units.octaves:
            rare = needed(_RARE_DEVIATIONS / _RAREST[look - 1])
            worth = min(1.0, _RARE_WORTH * units.octaves / self.n_features)
            share = max(share, min(worth * _RARE_SHARES[look - 1], rare))
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


# What a search knows between its looks: of every column, and of the look that is taken.


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
class CellWindow:
    """Where cells are counted."""

    start: float
    width: float


@dataclass(frozen=True)
class ColumnPlace:
    """A centre, a scale, and a cap in scales."""

    centre: float
    scale: float
    reach: float


@dataclass(eq=False)
class Column:
    """Knowledge of a column from the looks so far; settled if it has no way."""

    index: int
    way: Way | None = Way.OCTAVES
    found: ColumnPlace | None = None
    centre: float = 0.0  # about which octaves are counted
    nothing: float = 0.0  # what is nearer to it counts as nothing
    counts: FloatArray | None = None  # mean of the noisy counts by octave about this centre
    precision: float = 0.0
    window: CellWindow = CellWindow(0.0, 1.0)
    fallback: ColumnPlace | None = None  # what to take if it is a mixture
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

    def constant(self, n: int) -> bool:
        """Whether it was found in one place, and no records beside it."""
        return (
            self.depth > 0
            and self.counts is not None
            and n - float(self.counts[-1]) < _SURELY * self.precision**-0.5
        )

    def count_about(self, centre: float, nothing: float = 0.0) -> None:
        """Count octaves about a new centre: what was counted before says nothing of them."""
        self.centre, self.nothing = centre, nothing
        self.counts, self.precision = None, 0.0

    def settle(self, found: ColumnPlace | None) -> None:
        """Be done with it."""
        self.found, self.way = found, None


@dataclass(frozen=True, eq=False)
class Look:
    """One look: the columns that are not settled, the noise, and how much is evidence."""

    reserve: Reserve
    parameters: LocationParameters
    columns: tuple[Column, ...]
    sigma: int
    n: int  # complete records, about
    low_reach: float
    popular: tuple[tuple[int, int], ...]
    first: SignedOctaves | None = None  # of the columns, where it may have been read before

    @property
    def level(self) -> float:
        """Of one kind of tests in this look."""
        return self.parameters.evidence_level / (MOST_LOOKS * _KINDS)

    def offset_deviations(self, tests: int) -> float:
        """How many deviations show that a column is not in one place."""
        return deviations(tests, _OFFSET_LEVEL / (MOST_LOOKS * _KINDS))

    def noisy(self, counts: Query) -> FloatArray:
        """Counts with the noise of this look."""
        return np.asarray(self.reserve.measure(counts).integers, dtype=np.float64)  # proof: step 2


# What public bounds add to a search: where to count from, and what to take where nothing is found.


# Deviations of noise that are added to a second moment, where there is no evidence of it.
_ABOVE = 2.0
# A column in which nothing is seen is not looked at again once a share of the records at its
# largest value has noise of this deviation.
_ENOUGH = 0.004
# Deviations by which records that have another value than most show that a column varies, and
# those in a bin of many other columns that they are there.
_SURELY, _FITTING = 4.0, 3.5


def start_columns(n_features: int, bounds: Bounds | None) -> list[Column]:
    """Columns before the first look: counted about zero, or the possible value nearest to it.

    A column that is publicly constant is settled.
    """
    if bounds is None:
        return [Column(index) for index in range(n_features)]
    known = zip(bounds.nearest.tolist(), bounds.low, bounds.high, strict=True)
    columns = [Column(i, centre=c, low=low, high=high) for i, (c, low, high) in enumerate(known)]
    for i in np.flatnonzero(bounds.constant):
        columns[i].settle(ColumnPlace(bounds.low[i], 0.0, 0.0))
    return columns


def _about(columns: Sequence[Column]) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return centres, what is nothing, and indices of columns that are counted by octave."""
    index = np.array([column.index for column in columns], dtype=np.int64)
    centre = np.array([column.centre for column in columns])
    nothing = np.array([column.nothing for column in columns])
    return centre, nothing, index


def settle_columns(columns: list[Column], n: int, *, last: bool) -> None:
    """Settle columns by their bounds: those where more looks would help little, at last all."""
    for column in columns:
        unseen = column.way is Way.OCTAVES and not column.in_one_place
        if (
            column.bounded
            and column.found is None
            and (last or (unseen and _noise(column) <= _ENOUGH * n))
        ):
            column.settle(_by_bounds(column, n))


def settle_by_others(columns: list[Column], popular: Counter[int], n: int) -> None:
    """Settle columns of which few records surely vary: in a bin that many others have.

    Flags and counts share their values, so that what a few records have is in the octave of the
    others with the largest noisy count, if most of it can be there.
    """
    known = [each for each, k in popular.items() if k >= _POPULAR]
    for column in columns:
        if column.found is not None or column.way is None or column.counts is None or not known:
            continue
        sigma = column.precision**-0.5
        apart = n - float(column.counts[-1])
        if not _SURELY * sigma <= apart <= n / 2:
            continue
        counts = octaves.signed(column.counts).ravel()
        best = max(known, key=lambda each: float(counts[each]))
        held, square = float(counts[best]), float(column.moments.square.ravel()[best])
        share = min(held + sigma, apart, float(n)) / n
        if held > _FITTING * sigma and held + _FITTING * sigma > apart / 2 and square > 0:
            reach = octaves.bounded_reach(2 / math.sqrt(share), _LOW_REACH)
            column.settle(ColumnPlace(column.centre, math.sqrt(share * square), reach))


def _noise(column: Column) -> float:
    """Deviation of the noise of a second moment, in counts of the largest value."""
    square = column.moments.square
    if column.counts is None or not square.any():
        return math.inf
    return math.sqrt(float((square**2).sum()) / column.precision) / float(square.max())


def _by_bounds(column: Column, n: int) -> ColumnPlace:
    """The scale that noisy counts allow at most, about; half the width where there are none.

    About any point the second moment is at least the variance, so that the scale is not too small
    by more than noise makes it.
    """
    half, square = column.high / 2 - column.low / 2, column.moments.square
    scale = half
    if column.counts is not None and square.any():
        noise = _ABOVE * _noise(column) * float(square.max())
        seen = float((octaves.signed(column.counts) * square).sum())
        scale = min(half, math.sqrt(max(seen + noise, noise) / n + column.nothing**2))
    if scale == half:
        return ColumnPlace(column.low / 2 + column.high / 2, half, 1.0)
    return ColumnPlace(column.centre, scale, octaves.bounded_reach(half / scale * 2, 1.0))


def inside(centre: FloatArray, bounds: Bounds | None) -> FloatArray:
    """Centres moved into their bounds."""
    return centre if bounds is None else np.clip(centre, bounds.lows, bounds.highs)


# Looks at cells: where a column lies that may be far from its centre for its spread.


# Clusters beyond so many scales are a law of their own.
_CLUSTERS = 6.01
# So often a column that lies in one place is looked at in narrower cells, too: 2^30 scales.
_DEEPEST = 3


def look_at_cells(look: Look, columns: Sequence[Column], n_tested: int) -> None:
    """Two levels of cells: the second in the four cells that hold nearly all."""
    firsts = np.zeros(len(columns), dtype=np.int64)
    level = _Level(look, columns, firsts, octaves.N_CELLS, 1, None, n_tested)
    opened = level.take_spreads()
    if not opened:
        return
    firsts = np.array([octaves.first_opened(level.counts[i]) for i in opened], dtype=np.int64)
    parents = np.stack(
        [
            octaves.opened_counts(level.counts[i], int(f))
            for i, f in zip(opened, firsts, strict=True)
        ]
    )
    inner = [columns[i] for i in opened]
    level = _Level(look, inner, firsts * octaves.N_CELLS, octaves.N_CHILDREN, 2, parents, n_tested)
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
        index = np.array([column.index for column in columns], dtype=np.int64)
        self.starts = np.array([column.window.start for column in columns])
        self.widths = np.array([column.window.width / octaves.N_CELLS**depth for column in columns])
        self.counts = look.noisy(CellCounts(index, self.starts, self.widths, firsts, n_cells))

    def take_spreads(self) -> list[int]:
        """Take in columns that spread over more than two cells; return the places of others."""
        look = self.look
        # Each column is tested at two levels.
        z = look.offset_deviations(2 * self.n_tested)
        narrow = octaves.concentrated(self.counts, look.n, look.sigma, z)
        wide = np.flatnonzero(~narrow)
        if len(wide):
            z = octaves.deviations(self.n_tested * octaves.CELLS_LOOKED_AT, look.level)
            parents = None if self.parents is None else self.parents[wide]
            spreads = octaves.read_spreads(self.counts[wide], parents, look.sigma, look.n, z)
            for i, spread in zip(wide, spreads, strict=True):
                if spread is not None and spread.in_one_place:
                    narrow[i] = True
                else:
                    self._take_spread(int(i), spread)
        return [int(i) for i in np.flatnonzero(narrow)]

    def _take_spread(self, i: int, spread: octaves.CellSpread | None) -> None:
        column = self.columns[i]
        if spread is None:
            column.settle(column.fallback)
            return
        centre, scale = self._position(i, spread.centre), spread.scale * float(self.widths[i])
        if spread.reach is not None and spread.reach > _CLUSTERS * spread.scale:
            reach = octaves.bounded_reach(spread.reach / spread.scale, self.look.low_reach)
            column.settle(ColumnPlace(centre, scale, reach))
        else:
            column.way = Way.REFINED
            column.count_about(centre)

    def take_place(self, i: int) -> None:
        """Take in a column that lies in two cells: it may be constant, or nearly.

        Where some of it surely lies elsewhere, narrower cells would not show its spread.
        """
        column = self.columns[i]
        first, width = octaves.first_opened(self.counts[i]), float(self.widths[i])
        column.count_about(
            self._position(i, first + octaves.N_OPENED / 2), octaves.N_OPENED / 2 * width
        )
        column.window = CellWindow(self._position(i, first), octaves.N_OPENED * width)
        column.depth += 1
        column.in_one_place, column.fallback = True, None
        held = float((self.counts[i][1:] + self.counts[i][:-1]).max())
        z = self.look.offset_deviations(2 * self.n_tested)
        elsewhere = self.look.n - held > z * math.sqrt(2) * self.look.sigma
        deeper = column.depth < _DEEPEST and not elsewhere
        column.way = Way.BOTH if deeper else Way.OCTAVES

    def _position(self, i: int, cell: float) -> float:
        """Where a cell of this level begins."""
        return float(self.starts[i] + (self.firsts[i] + cell) * self.widths[i])


# The search for centres and scales: a few looks, each at the columns that are not settled yet.


# Signed bins that the ranges of so many columns have, found in earlier looks, are popular.
_POPULAR, _MOST_POPULAR = 3, 8
# The scale pooled over features replaces that of the moments within this factor.
_POOLED_FACTOR = 4.0
# Pooled scales hold for columns whose centre was right, to so many scales.
_CENTRED, _CENTRED_AGAIN = 0.5, 0.7
# A refined column with less of its mass in evidence is taken for a point.
_LEAST_REFINED_MASS = 0.3
# One with less than this, beyond doubt, has parts that were not seen: it is looked at again.
_MOST_MASS = 0.75
# Smallest cap in scales: tails are worth their noise only if much can be seen of them.
_LOW_REACH, _LOW_REACH_SEEN, _SEEN = 6.0, 16.0, 60.0


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
    if (session.n_records, session.n_features) != (parameters.n_records, parameters.n_features):
        raise DataError(
            f"records must be {parameters.n_records:,} with {parameters.n_features} features as "
            f"declared, got {session.n_records:,} with {session.n_features}: declare their true "
            "size."
        )
    columns = start_columns(session.n_features, bounds)
    spent: list[float] = []
    popular: Counter[int] = Counter()
    low_reach, n = _LOW_REACH, max(1, round(share * session.n_records))
    for number in range(MOST_LOOKS):
        unsettled = tuple(column for column in columns if column.way is not None)
        ways = Counter(column.way for column in unsettled)
        units = LookUnits(*(ways[way] for way in (Way.OCTAVES, Way.REFINED, Way.CELLS, Way.BOTH)))
        mu = parameters.look_mu(number, units, tuple(spent)) if unsettled else None
        if mu is None:
            break
        spent.append(mu)
        sigma = parameters.sigma(units, mu)  # proof: step 1
        reserve = session.reserve(mu, sigma, f"{parameters.released}, look {len(spent)}")
        if number == 0 and n > _SEEN * sigma:
            low_reach = _LOW_REACH_SEEN
        common = tuple((b, k) for b, k in popular.most_common(_MOST_POPULAR) if k >= _POPULAR)
        known = first if number == 0 else None
        look = Look(reserve, parameters, unsettled, sigma, n, low_reach, common, known)
        popular += _take_look(look)
        settle_columns(columns, n, last=False)
    settle_columns(columns, n, last=True)  # proof: step 5
    settle_by_others(columns, popular, n)  # proof: step 4
    return _location(columns, bounds, n)  # proof: step 4


def _location(columns: Sequence[Column], bounds: Bounds | None, n: int) -> Location:
    """Return what was found: centres inside their bounds, scales and reaches limited by them."""
    places = [
        column.found or ColumnPlace(column.centre if column.constant(n) else 0.0, 0.0, 0.0)
        for column in columns
    ]
    centre, scale = np.array([each.centre for each in places]), np.array([p.scale for p in places])
    reach = scale * np.array([each.reach for each in places])
    if bounds is not None:
        half = bounds.half_width
        scale, reach = np.minimum(scale, half), np.minimum(reach / 2, half) * 2
    found = np.array([column.found is not None for column in columns])
    return Location(inside(centre, bounds), scale, reach, found)


def _take_look(look: Look) -> Counter[int]:
    """Count the columns and take in what is seen; return which bins ranges have."""
    by_cell = [column for column in look.columns if column.way is Way.CELLS]
    by_octave = [column for column in look.columns if column.way is not Way.CELLS]
    n_cells = len(by_cell) + sum(column.way is Way.BOTH for column in by_octave)
    used: Counter[int] = Counter()
    if by_octave:
        used = _look_at_octaves(look, by_octave)
        by_cell += [column for column in by_octave if column.way is Way.BOTH]
    if by_cell:
        look_at_cells(look, by_cell, n_cells)
    return used


# Octaves


def _look_at_octaves(look: Look, columns: Sequence[Column]) -> Counter[int]:
    noisy = look.noisy(look.first or SignedOctaves(*_about(columns)))
    more = float(look.sigma) ** -2.0
    for column, counts in zip(columns, noisy, strict=True):  # averaged by precision
        before = 0.0 if column.counts is None else column.counts * column.precision
        column.precision += more
        column.counts = (before + counts * more) / column.precision
    means = np.stack([column.counts for column in columns if column.counts is not None])
    sigma = np.array([column.precision**-0.5 for column in columns])
    limits = octaves.thresholds(len(columns), look.level, dict(look.popular))
    moments = [column.moments for column in columns]
    readings = octaves.read_all(means, sigma, look.n, limits, moments)
    pooled = np.zeros(len(columns))
    if any(reading is not None and reading.is_centred(_CENTRED_AGAIN) for reading in readings):
        pooled = octaves.pooled_scales(means, float(sigma.max()), look.n)
    held, ends = octaves.best_pairs(octaves.signed(means))
    used: list[BoolArray] = []
    for i, (column, reading) in enumerate(zip(columns, readings, strict=True)):
        # What can be in a bin is known better by bounds than by other columns.
        scale = 0.0 if column.bounded else float(pooled[i])
        seen = _Seen(look, held[i].tolist(), ends[i].tolist(), float(sigma[i]), scale)
        if column.way is Way.REFINED:
            _take_refined(column, reading, seen)
        elif reading is not None:
            used.append(reading.used.ravel())
            _take_octaves(column, reading, seen)
    return Counter(np.nonzero(np.stack(used))[1].tolist()) if used else Counter()


@dataclass(frozen=True, eq=False)
class _Seen:
    """Contents of two octaves of a column, by sign, their ends, the noise, the pooled scale."""

    look: Look
    held: list[float]
    ends: list[int]
    sigma: float
    pooled: float

    def result(self, column: Column, reading: octaves.Reading, centred: float) -> ColumnPlace:
        """Return the place; the pooled scale if the centre was right, to `centred` scales."""
        scale, most = reading.scale, _POOLED_FACTOR * reading.scale
        near = reading.scale / _POOLED_FACTOR <= self.pooled <= most
        if near and reading.is_centred(centred):
            scale = float(self.pooled)
        reach = reading.reach(scale, self.look.low_reach)
        return ColumnPlace(column.centre + reading.offset, scale, reach)

    def offset_end(self, reading: octaves.Reading) -> int | None:
        """Exponent at which two octaves end that may hold everything; None if they cannot."""
        held, end = self.held[reading.side], self.ends[reading.side]
        z = self.look.offset_deviations(self.look.parameters.n_features)
        return end if held > self.look.n - z * math.sqrt(2) * self.sigma else None


def _take_octaves(column: Column, reading: octaves.Reading, seen: _Seen) -> None:
    """Settle the column, or have it looked at in cells if it may be far from the centre."""
    found = seen.result(column, reading, _CENTRED)
    end = None
    if not column.in_one_place:
        end = seen.offset_end(reading)
        if reading.one_sided(seen.sigma, seen.look.n):
            end = max(seen.ends[reading.side], reading.end)
    if end is None:
        column.settle(found)
    else:
        column.way, column.fallback = Way.CELLS, found
        column.window = _window(column.centre, reading, end)


def _take_refined(column: Column, reading: octaves.Reading | None, seen: _Seen) -> None:
    """Settle the column if it spreads about the centre found in cells."""
    if reading is None or reading.mass < _LEAST_REFINED_MASS:
        column.way, column.in_one_place = Way.OCTAVES, True
        return
    end = seen.offset_end(reading)
    if end is None:
        if reading.may_hold(_MOST_MASS, seen.sigma, seen.look.n):
            column.settle(seen.result(column, reading, _CENTRED_AGAIN))
    else:  # there was no spread after all
        column.way, column.fallback = Way.CELLS, None
        column.window = _window(column.centre, reading, end)


def _window(centre: float, reading: octaves.Reading, end: int) -> CellWindow:
    width = 2.0**end
    return CellWindow(centre if reading.side else centre - width, width)
