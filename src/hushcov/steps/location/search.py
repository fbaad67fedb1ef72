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

import numpy as np

from hushcov._arrays import BoolArray
from hushcov.accounting import Budget
from hushcov.exceptions import DataError
from hushcov.noise import Entropy, check_entropy
from hushcov.steps.location import known, octaves
from hushcov.steps.location.descent import look_at_cells
from hushcov.steps.location.parameters import MOST_LOOKS, Location, LocationParameters, Units
from hushcov.steps.location.state import Column, Found, Look, Way, Window
from hushcov.sums.counts import signed_octaves
from hushcov.sums.grids import Bounds
from hushcov.sums.records import Records

# Signed bins that the ranges of so many columns have, found in earlier looks, are popular.
_POPULAR, _MOST_POPULAR = 3, 8
# Pooled scales hold for columns whose centre was right, to so many scales.
_CENTRED, _CENTRED_AGAIN = 0.5, 0.7
# A refined column with less of its mass in evidence is taken for a point.
_LEAST_REFINED_MASS = 0.3
# One with less than this, beyond doubt, has parts that were not seen: it is looked at again.
_MOST_MASS = 0.75
# Smallest cap in scales: tails are worth their noise only if much can be seen of them.
_LOW_REACH, _LOW_REACH_SEEN, _SEEN = 6.0, 16.0, 60.0


def find_location(
    records: Records,
    parameters: LocationParameters,
    budget: Budget,
    entropy: Entropy,
    *,
    share: float = 1.0,
    bounds: Bounds | None = None,
) -> Location:
    """Find centre, scale and reach of every column, in at most six looks.

    `share` is about which share of the records is complete, if that was released: others count
    nowhere. A column with public `bounds` is always found: it is counted about its possible value
    nearest to zero, and where a look sees nothing in it, its noisy counts and bounds say how much
    it can spread.

    Privacy
    -------
    Neighbours: those of the parameters; no precondition. Each look is the rounding of a Gaussian
    mechanism that is spent before it, and the sum of the squares of their mu is at most that of
    `parameters.largest_mu` whatever is seen. See `docs/proofs/location.md`.
    """
    if (records.n_records, records.n_features) != (parameters.n_records, parameters.n_features):
        raise DataError(
            f"records must be {parameters.n_records:,} with {parameters.n_features} features as "
            f"declared, got {records.n_records:,} with {records.n_features}: declare their true "
            "size."
        )
    check_entropy(entropy)
    columns = known.start(records.n_features, bounds)
    spent: list[float] = []
    popular: Counter[int] = Counter()
    low_reach, n = _LOW_REACH, max(1, round(share * records.n_records))
    for number in range(MOST_LOOKS):
        unsettled = tuple(column for column in columns if column.way is not None)
        units = _units(unsettled)
        mu = parameters.look_mu(number, units, tuple(spent)) if unsettled else None
        if mu is None:
            break
        spent.append(mu)
        budget.gaussian(mu, f"{parameters.released}, look {len(spent)}")
        sigma = parameters.sigma(units, mu)  # proof: step 1
        if number == 0 and n > _SEEN * sigma:
            low_reach = _LOW_REACH_SEEN
        common = tuple((b, k) for b, k in popular.most_common(_MOST_POPULAR) if k >= _POPULAR)
        popular += _take_look(
            Look(records, parameters, entropy.generator, unsettled, sigma, n, low_reach, common)
        )
        known.settle(columns, n, last=False)
    known.settle(columns, n, last=True)  # proof: step 5
    return known.within(_location(columns), bounds)  # proof: step 4


def _units(columns: Sequence[Column]) -> Units:
    ways = Counter(column.way for column in columns)
    return Units(*(ways[way] for way in (Way.OCTAVES, Way.REFINED, Way.CELLS, Way.BOTH)))


def _location(columns: Sequence[Column]) -> Location:
    found = [
        column.found or Found(column.centre if column.depth else 0.0, 0.0, 0.0)
        for column in columns
    ]
    scale = np.array([each.scale for each in found])
    return Location(
        centre=np.array([each.centre for each in found]),
        scale=scale,
        reach=scale * np.array([each.reach for each in found]),
        found=np.array([column.found is not None for column in columns]),
    )


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
    index = np.array([column.index for column in columns], dtype=np.int64)
    centre = np.array([column.centre for column in columns])
    nothing = np.array([column.nothing for column in columns])
    noisy = look.noisy(signed_octaves(look.records, centre, nothing, index))
    for column, counts in zip(columns, noisy, strict=True):
        column.average(counts, look.sigma)
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
    """What two octaves of a column hold, by sign, and their ends; the noise; the pooled scale."""

    look: Look
    held: list[float]
    ends: list[int]
    sigma: float
    pooled: float

    def result(self, column: Column, reading: octaves.Reading, centred: float) -> Found:
        """What the reading says; the pooled scale if the centre was right, to `centred` scales."""
        scale = octaves.chosen_scale(reading, self.pooled, centred)
        reach = reading.reach(scale, self.look.low_reach)
        return Found(column.centre + reading.offset, scale, reach)

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


def _window(centre: float, reading: octaves.Reading, end: int) -> Window:
    width = 2.0**end
    return Window(centre if reading.side else centre - width, width)
