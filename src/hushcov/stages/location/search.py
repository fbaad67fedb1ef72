"""The search for centres and scales: a few looks, each at the columns that are not settled yet.

The first look counts every column by sign and octave about zero. A column whose counts may all be
in two octaves is far from zero for its spread: it is counted in cells, which are opened where
nearly all records are, and then once more by octave about the centre found.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.accounting import Gaussian, smallest_sigma
from hushcov.exceptions import DataError
from hushcov.noise import Entropy, check_entropy, rounded_normal
from hushcov.records import Records
from hushcov.stages.location import cells, octaves
from hushcov.stages.location._counts_standin import cell_counts, signed_octaves
from hushcov.stages.location.parameters import MOST_LOOKS, Location, LocationParameters, Units

# Kinds of tests in a look, each with its part of the level: single bins, windows, popular bins and
# cells.
_KINDS = 4
# That a column is not far from zero, or not in one place, is taken to be so at this level, over
# all looks; wrongly doubted it costs a look, wrongly taken it gives a scale that is far too large.
_OFFSET_LEVEL = 1e-3
# Signed bins that the ranges of so many columns have, found in earlier looks, are popular.
_POPULAR, _MOST_POPULAR = 3, 8
# Pooled scales hold for columns whose centre was right, to so many scales.
_CENTRED, _CENTRED_AGAIN = 0.5, 0.7
# A refined column with less of its mass in evidence is taken for a point.
_LEAST_REFINED_MASS = 0.3
# Smallest cap in scales: tails are worth their noise only if much can be seen of them.
_LOW_REACH, _LOW_REACH_SEEN, _SEEN = 6.0, 16.0, 60.0
# Clusters beyond so many scales are a law of their own.
_CLUSTERS = 6.01
# So often a column that lies in one place is looked at in narrower cells, too: 2^30 scales.
_DEEPEST = 3


class _Way(Enum):
    """How a column is looked at next."""

    OCTAVES = auto()
    REFINED = auto()  # octaves about a centre found in cells
    CELLS = auto()
    BOTH = auto()  # it lies in one place: octaves about it, and narrower cells


@dataclass(frozen=True)
class _Window:
    """Where cells are counted."""

    start: float
    width: float


@dataclass(frozen=True)
class _Found:
    """A centre, a scale, and a cap in scales."""

    centre: float
    scale: float
    reach: float


@dataclass(eq=False)
class _Column:
    """What is known of a column from the looks so far; settled if it has no way."""

    index: int
    way: _Way | None = _Way.OCTAVES
    found: _Found | None = None
    centre: float = 0.0  # about which octaves are counted
    nothing: float = 0.0  # what is nearer to it counts as nothing
    counts: FloatArray | None = None  # mean of the noisy counts by octave about this centre
    precision: float = 0.0
    window: _Window = _Window(0.0, 1.0)
    fallback: _Found | None = None  # what to take if it is a mixture
    depth: int = 0  # how often it was found in one place
    in_one_place: bool = False

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

    def settle(self, found: _Found | None) -> None:
        """Be done with it."""
        self.found, self.way = found, None


@dataclass(frozen=True, eq=False)
class _Look:
    """One look: the columns that are not settled, the noise, and how much is evidence."""

    records: Records
    parameters: LocationParameters
    generator: np.random.Generator
    columns: tuple[_Column, ...]
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
        return octaves.deviations(tests, _OFFSET_LEVEL / (MOST_LOOKS * _KINDS))

    def noisy(self, counts: IntArray) -> FloatArray:
        """Counts with the noise of this look."""
        noise = rounded_normal(self.generator, self.sigma, counts.size)
        return (counts + noise.reshape(counts.shape)).astype(np.float64)  # proof: step 2


def find_location(
    records: Records, parameters: LocationParameters, entropy: Entropy, *, share: float = 1.0
) -> Location:
    """Find centre, scale and reach of every column, in at most six looks.

    `share` is about which share of the records is complete, if that was released: others count
    nowhere.

    Privacy
    -------
    Neighbours: replace one record; no precondition. Each look is the rounding of a Gaussian
    mechanism with the mu of its event, and the sum of their squares is at most that of
    `parameters.largest_mu` whatever is seen. See `docs/proofs/location.md`.
    """
    if (records.n_records, records.n_features) != (parameters.n_records, parameters.n_features):
        raise DataError(
            f"records must be {parameters.n_records:,} with {parameters.n_features} features as "
            f"declared, got {records.n_records:,} with {records.n_features}: declare their true "
            "size."
        )
    check_entropy(entropy)
    columns = [_Column(index) for index in range(records.n_features)]
    events: list[Gaussian] = []
    popular: Counter[int] = Counter()
    low_reach, n = _LOW_REACH, max(1, round(share * records.n_records))
    for number in range(MOST_LOOKS):
        unsettled = tuple(column for column in columns if column.way is not None)
        units = _units(unsettled)
        mu = parameters.look_mu(number, units, tuple(events)) if unsettled else None
        if mu is None:
            break
        events.append(Gaussian(mu))
        sigma = smallest_sigma(2 * units.histograms, mu)  # proof: step 1
        if number == 0 and n > _SEEN * sigma:
            low_reach = _LOW_REACH_SEEN
        common = tuple((b, k) for b, k in popular.most_common(_MOST_POPULAR) if k >= _POPULAR)
        popular += _take_look(
            _Look(records, parameters, entropy.generator, unsettled, sigma, n, low_reach, common)
        )
    return _location(columns, tuple(events))  # proof: step 4


def _units(columns: Sequence[_Column]) -> Units:
    ways = Counter(column.way for column in columns)
    return Units(*(ways[way] for way in (_Way.OCTAVES, _Way.REFINED, _Way.CELLS, _Way.BOTH)))


def _location(columns: Sequence[_Column], events: tuple[Gaussian, ...]) -> Location:
    found = [
        column.found or _Found(column.centre if column.depth else 0.0, 0.0, 0.0)
        for column in columns
    ]
    scale = np.array([each.scale for each in found])
    return Location(
        centre=np.array([each.centre for each in found]),
        scale=scale,
        reach=scale * np.array([each.reach for each in found]),
        found=np.array([column.found is not None for column in columns]),
        events=events,
    )


def _take_look(look: _Look) -> Counter[int]:
    """Count the columns and take in what is seen; return which bins ranges have."""
    by_cell = [column for column in look.columns if column.way is _Way.CELLS]
    by_octave = [column for column in look.columns if column.way is not _Way.CELLS]
    n_cells = len(by_cell) + sum(column.way is _Way.BOTH for column in by_octave)
    used: Counter[int] = Counter()
    if by_octave:
        used = _look_at_octaves(look, by_octave)
        by_cell += [column for column in by_octave if column.way is _Way.BOTH]
    if by_cell:
        _look_at_cells(look, by_cell, n_cells)
    return used


# Octaves


def _look_at_octaves(look: _Look, columns: Sequence[_Column]) -> Counter[int]:
    index = np.array([column.index for column in columns], dtype=np.int64)
    centre = np.array([column.centre for column in columns])
    nothing = np.array([column.nothing for column in columns])
    noisy = look.noisy(signed_octaves(look.records, centre, nothing, index))
    for column, counts in zip(columns, noisy, strict=True):
        column.average(counts, look.sigma)
    means = np.stack([column.counts for column in columns if column.counts is not None])
    sigma = np.array([column.precision**-0.5 for column in columns])
    signed = means[:, : octaves.N_SIGNED].reshape(len(columns), 2, octaves.N_OCTAVES)
    limits = octaves.thresholds(len(columns), look.level, dict(look.popular))
    evidence = octaves.find_evidence(signed, sigma, limits)
    pooled = octaves.pooled_scales(means, float(sigma.max()), look.n)
    used = np.zeros(octaves.N_SIGNED, dtype=np.int64)
    for i, column in enumerate(columns):
        reading = octaves.read_octaves(
            signed[i], sigma[i], look.n, evidence.mask[i], evidence.alone[i]
        )
        seen = _Seen(look, signed[i], float(sigma[i]), float(pooled[i]))
        if column.way is _Way.REFINED:
            _take_refined(column, reading, seen)
        elif reading is not None:
            used += reading.used.ravel()
            _take_octaves(column, reading, seen)
    return Counter({int(b): int(used[b]) for b in np.flatnonzero(used)})


@dataclass(frozen=True, eq=False)
class _Seen:
    """Noisy counts of one column (2, octaves), their deviation, and the pooled scale."""

    look: _Look
    counts: FloatArray
    sigma: float
    pooled: float

    def result(self, column: _Column, reading: octaves.Reading, centred: float) -> _Found:
        """What the reading says; the pooled scale if the centre was right, to `centred` scales."""
        scale = octaves.chosen_scale(reading, self.pooled, centred)
        reach = reading.reach(scale, self.look.low_reach)
        return _Found(column.centre + reading.offset, scale, reach)

    def offset_end(self, reading: octaves.Reading) -> int | None:
        """Exponent at which two octaves end that may hold everything; None if they cannot."""
        held, end = octaves.best_pair(self.counts[reading.side])
        z = self.look.offset_deviations(self.look.parameters.n_features)
        return end if held > self.look.n - z * math.sqrt(2) * self.sigma else None


def _take_octaves(column: _Column, reading: octaves.Reading, seen: _Seen) -> None:
    """Settle the column, or have it looked at in cells if it may be far from the centre."""
    found = seen.result(column, reading, _CENTRED)
    end = None
    if not column.in_one_place:
        end = seen.offset_end(reading)
        if reading.one_sided(seen.sigma, seen.look.n):
            end = max(octaves.best_pair(seen.counts[reading.side])[1], reading.end)
    if end is None:
        column.settle(found)
    else:
        column.way, column.fallback = _Way.CELLS, found
        column.window = _window(column.centre, reading, end)


def _take_refined(column: _Column, reading: octaves.Reading | None, seen: _Seen) -> None:
    """Settle the column if it spreads about the centre found in cells."""
    if reading is None or reading.mass < _LEAST_REFINED_MASS:
        column.way, column.in_one_place = _Way.OCTAVES, True
        return
    end = seen.offset_end(reading)
    if end is None:
        column.settle(seen.result(column, reading, _CENTRED_AGAIN))
    else:  # there was no spread after all
        column.way, column.fallback = _Way.CELLS, None
        column.window = _window(column.centre, reading, end)


def _window(centre: float, reading: octaves.Reading, end: int) -> _Window:
    width = 2.0**end
    return _Window(centre if reading.side else centre - width, width)


# Cells


def _look_at_cells(look: _Look, columns: Sequence[_Column], n_tested: int) -> None:
    """Two levels of cells: the second in the four cells that hold nearly all."""
    firsts = np.zeros(len(columns), dtype=np.int64)
    level = _Level(look, columns, firsts, cells.N_CELLS, 1, None, n_tested)
    opened = level.take_spreads()
    if not opened:
        return
    firsts = np.array([cells.first_opened(level.counts[i]) for i in opened], dtype=np.int64)
    parents = np.stack(
        [cells.opened_counts(level.counts[i], int(f)) for i, f in zip(opened, firsts, strict=True)]
    )
    inner = [columns[i] for i in opened]
    level = _Level(look, inner, firsts * cells.N_CELLS, cells.N_CHILDREN, 2, parents, n_tested)
    for i in level.take_spreads():
        level.take_place(i)


class _Level:
    """One level of cells of some columns, counted with noise."""

    def __init__(
        self,
        look: _Look,
        columns: Sequence[_Column],
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
        self.widths = np.array([column.window.width / cells.N_CELLS**depth for column in columns])
        self.counts = look.noisy(
            cell_counts(look.records, index, self.starts, self.widths, firsts, n_cells)
        )

    def take_spreads(self) -> list[int]:
        """Take in columns that spread over more than two cells; return the places of others."""
        look = self.look
        # Each column is tested at two levels.
        z = look.offset_deviations(2 * self.n_tested)
        narrow = cells.concentrated(self.counts, look.n, look.sigma, z)
        wide = np.flatnonzero(~narrow)
        if len(wide):
            z = octaves.deviations(self.n_tested * cells.CELLS_LOOKED_AT, look.level)
            parents = None if self.parents is None else self.parents[wide]
            spreads = cells.read_spreads(self.counts[wide], parents, look.sigma, look.n, z)
            for i, spread in zip(wide, spreads, strict=True):
                self._take_spread(int(i), spread)
        return [int(i) for i in np.flatnonzero(narrow)]

    def _take_spread(self, i: int, spread: cells.Spread | None) -> None:
        column = self.columns[i]
        if spread is None:
            column.settle(column.fallback)
            return
        centre, scale = self._position(i, spread.centre), spread.scale * float(self.widths[i])
        if spread.reach is not None and spread.reach > _CLUSTERS * spread.scale:
            reach = octaves.bounded_reach(spread.reach / spread.scale, self.look.low_reach)
            column.settle(_Found(centre, scale, reach))
        else:
            column.way = _Way.REFINED
            column.count_about(centre)

    def take_place(self, i: int) -> None:
        """Take in a column that lies in two cells: it may be constant, or nearly."""
        column = self.columns[i]
        first, width = cells.first_opened(self.counts[i]), float(self.widths[i])
        column.count_about(
            self._position(i, first + cells.N_OPENED / 2), cells.N_OPENED / 2 * width
        )
        column.window = _Window(self._position(i, first), cells.N_OPENED * width)
        column.depth += 1
        column.in_one_place, column.fallback = True, None
        column.way = _Way.BOTH if column.depth < _DEEPEST else _Way.OCTAVES

    def _position(self, i: int, cell: float) -> float:
        """Where a cell of this level begins."""
        return float(self.starts[i] + (self.firsts[i] + cell) * self.widths[i])
