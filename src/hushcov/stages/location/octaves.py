"""Reading noisy counts by sign and octave: what stands out of the noise, and what it says.

Everything here is computed from noisy counts and public or released numbers: post-processing.
Counts of a column have two rows, for negative and positive values, and an entry for each octave.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from hushcov._arrays import BoolArray, FloatArray
from hushcov.records import LARGEST_EXPONENT, SMALLEST_EXPONENT
from hushcov.records.counts import N_OCTAVES
from hushcov.stages.scales import ScaleParameters, estimate_scales

#: Signed bins that can be evidence; one more counts what is nothing.
N_SIGNED = 2 * N_OCTAVES
_EXPONENTS = np.arange(SMALLEST_EXPONENT, LARGEST_EXPONENT, dtype=np.float64)
_SIGNS = np.array([-1.0, 1.0])
# Mean of |y| and of y^2 in an octave whose values are spread evenly.
_MIDDLE = 1.5 * np.exp2(_EXPONENTS)
_SQUARE = 7 / 3 * np.exp2(2 * _EXPONENTS)

# Octaves of a window: a law of one sign has most of its mass in 3, one about the centre in 6.
_SIGNED_WIDTH, _UNSIGNED_WIDTH = 3, 6
_WINDOWS = N_OCTAVES * (2 * _SIGNED_WIDTH + _UNSIGNED_WIDTH)

# A range with evidence ends where its last octave has less than this many deviations, and goes on
# while the next 1, 2 or 3 octaves have more than these. 3.2, 3.5 and 3.8 gave false ends.
_LAST_DEVIATIONS = 2.5
_NEXT_DEVIATIONS = (4.0, 4.2, 4.4)
_MOST_STEPS = 8
# Octaves below the range hardly matter for its moments: they join where they are not just noise.
_BELOW, _BELOW_DEVIATIONS = 6, 1.5
# A scale is no less than this share of the second moment about the old centre, and no more than so
# many ends of the octave below which 80 % of the mass lies: heavy tails.
_LEAST_VARIANCE = 0.02
_BULK, _MOST_BULKS = 0.8, 4.0
_LEAST_MASS = 1e-4
# The scale pooled over features replaces that of the moments within this factor.
_POOLED_FACTOR = 4.0
# A cap in scales lies between `low` and this, and what lies beyond `_FAR` scales adds to the second
# moment no more than the square of `_FAR_PART` scales.
_LARGEST_REACH, _FAR, _FAR_PART = 64.0, 6.0, 2.0
_DOUBT = 3.0  # deviations
# One-sided: most of the mass, a mean well beyond the spread, and hardly anything on the other side.
_ONE_SIDED_MASS, _ONE_SIDED_MEAN, _OTHER_SIDE, _OTHER_DEVIATIONS = 0.5, 1.1, 0.15, 3.0


def deviations(tests: float, level: float) -> float:
    """How many deviations so many normal numbers exceed together with this probability."""
    return float(-special.ndtri(min(0.5, level / max(tests, 1.0))))


@dataclass(frozen=True)
class Thresholds:
    """Deviations that a single bin, a window of octaves and each popular bin must exceed."""

    single: float
    window: float
    popular: tuple[tuple[int, float], ...] = ()


def thresholds(n_columns: int, level: float, popular: dict[int, int]) -> Thresholds:
    """Thresholds that any bin or window of noise exceeds with probability `level` each kind.

    `popular` says in how many other columns a signed bin was part of the range, for a few bins:
    these get their share of the level whatever the number of bins.
    """
    total = sum(popular.values())
    return Thresholds(
        deviations(n_columns * N_SIGNED, level),
        deviations(n_columns * _WINDOWS, level),
        tuple((b, deviations(n_columns, level * k / total)) for b, k in popular.items()),
    )


@dataclass(frozen=True, eq=False)
class Evidence:
    """Signed bins (columns, 2, octaves) in windows that stand out, and octaves that do alone."""

    mask: BoolArray
    alone: BoolArray


def find_evidence(counts: FloatArray, sigma: FloatArray, limits: Thresholds) -> Evidence:
    """The smallest windows of octaves whose counts stand out, for all columns at once."""
    mask = np.zeros(counts.shape, dtype=np.bool_)
    alone = np.zeros((len(counts), N_OCTAVES), dtype=np.bool_)
    for signs in ([0], [1], [0, 1]):
        for width, smallest in _smallest_windows(
            counts[:, signs].sum(axis=1), signs, sigma, limits
        ):
            if width == 1:
                alone |= smallest
            for shift in range(width):
                covered = slice(shift, shift + smallest.shape[1])
                mask[:, signs, covered] |= smallest[:, None, :]
    for signed_bin, z in limits.popular:
        sign, octave = divmod(signed_bin, N_OCTAVES)
        stands_out = counts[:, sign, octave] > z * sigma
        mask[stands_out, sign, octave] = True
        alone[stands_out, octave] = True
    return Evidence(mask, alone)


def _smallest_windows(
    counts: FloatArray, signs: list[int], sigma: FloatArray, limits: Thresholds
) -> Iterator[tuple[int, BoolArray]]:
    """Widths, and where windows start that stand out and hold no narrower one that does."""
    sums = np.cumsum(counts, axis=1)
    sums = np.concatenate([np.zeros((len(counts), 1)), sums], axis=1)
    both = len(signs) == 2
    inside = np.zeros((len(counts), N_OCTAVES + 1), dtype=np.bool_)  # holds a narrower one
    for width in range(1, (_UNSIGNED_WIDTH if both else _SIGNED_WIDTH) + 1):
        z = limits.single if width == 1 and not both else limits.window
        noise = sigma * math.sqrt(len(signs) * width)
        stands_out = sums[:, width:] - sums[:, :-width] > (z * noise)[:, None]
        inside = inside[:, :-1] | inside[:, 1:]
        yield width, stands_out & ~inside
        inside |= stands_out


@dataclass(frozen=True, eq=False)
class Moments:
    """Means of |y| and of y^2 in signed bins (2, octaves), 0 where no value can be."""

    middle: FloatArray
    square: FloatArray


def moments(below: float = math.inf, above: float = math.inf) -> Moments:
    """Moments in bins, where values lie at most so far below and above the centre."""
    most = np.minimum([[below], [above]], 2.0**LARGEST_EXPONENT)  # what is beyond counts there
    possible = np.exp2(_EXPONENTS) <= most
    return Moments(
        np.where(possible, np.minimum(_MIDDLE, most), 0.0),
        np.where(possible, np.minimum(_SQUARE, most**2), 0.0),
    )


ANYWHERE = moments()


@dataclass(frozen=True, eq=False)
class Reading:
    """What the noisy counts of one column say: moments about the old centre, and the range.

    `shares` are those of all records, by sign and octave; `offset` is to be added to the centre.
    `used` are the signed bins of the range, and `end` the exponent at which it ends.
    """

    shares: FloatArray
    used: BoolArray
    offset: float
    scale: float
    end: int

    @property
    def mass(self) -> float:
        """Share of the records in the range."""
        return float(self.shares.sum())

    @property
    def side(self) -> int:
        """The row of the sign of the offset."""
        return int(self.offset > 0)

    def is_centred(self, scales: float) -> bool:
        """Whether the old centre was right, to so many scales."""
        return abs(self.offset) < scales * self.scale

    def reach(self, scale: float, low: float) -> float:
        """Cap in scales: the end of what was seen, and not so far that the tail is all there is."""
        reach = (2.0**self.end + abs(self.offset)) / scale
        far = self.shares[:, np.exp2(_EXPONENTS + 1) > _FAR * scale].sum()
        if far > 0:
            reach = min(reach, max(low, _FAR_PART / math.sqrt(far)))
        return bounded_reach(reach, low)

    def may_hold(self, share: float, sigma: float, n: int) -> bool:
        """Whether this share of the records may be in the range, within three deviations."""
        noise = sigma * math.sqrt(self.used.sum()) / n
        return self.mass + _DOUBT * noise >= share

    def one_sided(self, sigma: float, n: int) -> bool:
        """Whether nearly all lies on one side, further from the old centre than it spreads."""
        lesser, greater = sorted(self.shares.sum(axis=1))
        return (
            self.mass > _ONE_SIDED_MASS
            and abs(self.offset) > _ONE_SIDED_MEAN * self.scale
            and lesser < _OTHER_SIDE * greater + _OTHER_DEVIATIONS * sigma / n
        )


def bounded_reach(reach: float, low: float) -> float:
    """A cap in scales between `low` and the largest one."""
    return min(max(reach, low), _LARGEST_REACH)


def signed(counts: FloatArray) -> FloatArray:
    """Counts (.., 2, octaves) of those in 257 bins."""
    return counts[..., :N_SIGNED].reshape(*counts.shape[:-1], 2, N_OCTAVES)


def read_all(
    counts: FloatArray,
    sigma: FloatArray,
    n: int,
    limits: Thresholds,
    known: Sequence[Moments] | None = None,
) -> list[Reading | None]:
    """Read every column, counts (columns, 257); None where nothing stands out.

    `known` has the moments in the bins of every column.
    """
    known = known or [ANYWHERE] * len(counts)
    by_sign = signed(counts)
    evidence = find_evidence(by_sign, sigma, limits)
    return [
        read_octaves(*column, n)
        for column in zip(by_sign, evidence.mask, evidence.alone, sigma, known, strict=True)
    ]


def read_octaves(
    counts: FloatArray, mask: BoolArray, alone: BoolArray, sigma: float, known: Moments, n: int
) -> Reading | None:
    """Read one column, counts (2, octaves), from its evidence; None if there is none."""
    if not mask.any():
        return None
    first = int(np.flatnonzero(mask.any(axis=0)).min())
    used = _upwards(counts, sigma, _without_weak_end(counts, sigma, mask, alone))
    end = int(np.flatnonzero(used.any(axis=0)).max()) + 1
    shares = np.where(used, counts, 0.0)
    below = slice(max(0, first - _BELOW), first)
    joins = counts[:, below] >= _BELOW_DEVIATIONS * sigma
    shares[:, below] = np.where(joins, counts[:, below], 0.0)
    shares = np.maximum(shares, 0.0) / n
    total = float(shares.sum())
    if total <= 0:
        return None
    shares /= max(total, 1.0)
    offset = float(_SIGNS @ (shares * known.middle).sum(axis=1))
    second = float((shares * known.square).sum())
    scale = _scale_of_moments(shares.sum(axis=0), offset, second)
    return Reading(shares, used, offset, scale, end + SMALLEST_EXPONENT)


def _without_weak_end(
    counts: FloatArray, sigma: float, mask: BoolArray, alone: BoolArray
) -> BoolArray:
    """Leave out octaves at the upper end of a window that do not stand out by themselves."""
    kept = mask.copy()
    octaves = np.flatnonzero(kept.any(axis=0))
    for octave in octaves[:0:-1]:
        signs = kept[:, octave]
        limit = _LAST_DEVIATIONS * math.sqrt(signs.sum()) * sigma
        if alone[octave] or counts[signs, octave].sum() >= limit:
            break
        kept[:, octave] = False
    return kept


def _upwards(counts: FloatArray, sigma: float, mask: BoolArray) -> BoolArray:
    """Let the range go on as long as the next octaves stand out, of signs that have evidence."""
    used = mask.copy()
    signs = used.any(axis=1)
    end = int(np.flatnonzero(used.any(axis=0)).max()) + 1
    for _ in range(_MOST_STEPS):
        for width, z in enumerate(_NEXT_DEVIATIONS, start=1):
            more = counts[signs, end : end + width].sum()
            noise = sigma * math.sqrt(signs.sum() * width)
            if end + width <= N_OCTAVES and more > z * noise:
                used[signs, end : end + width] = True
                end += width
                break
        else:
            break
    return used


def _scale_of_moments(shares: FloatArray, offset: float, second: float) -> float:
    scale = math.sqrt(max(second - offset * offset, _LEAST_VARIANCE * second))
    cumulative = np.cumsum(shares)
    bulk = int(np.searchsorted(cumulative, _BULK * cumulative[-1]))
    most = _MOST_BULKS * 2.0 ** (_EXPONENTS[bulk] + 1) * math.sqrt(max(cumulative[-1], _LEAST_MASS))
    return float(min(scale, most))


def best_pair(counts: FloatArray) -> tuple[float, int]:
    """The largest count of two neighbouring octaves of one sign, and the exponent of their end."""
    pairs = counts[1:] + counts[:-1]
    first = int(np.argmax(pairs))
    return float(pairs[first]), first + 2 + SMALLEST_EXPONENT


def pooled_scales(counts: FloatArray, sigma: float, n: int) -> FloatArray:
    """Scales by empirical Bayes over all columns, counts (columns, 257); 0 where not certain."""
    unsigned = counts[:, :N_OCTAVES] + counts[:, N_OCTAVES:N_SIGNED]
    bins = np.concatenate([counts[:, N_SIGNED:], unsigned, np.zeros((len(counts), 1))], axis=1)
    # Of these parameters only n and sigma count. Both signs have noise.
    deviation = max(1, math.ceil(sigma * math.sqrt(2)))
    cost = 2 * math.sqrt(2 * len(counts)) / deviation
    parameters = ScaleParameters(n, len(counts), cost, deviation)
    noisy = np.rint(bins).astype(np.int64)
    scale, uncertain = estimate_scales(noisy, parameters, fast=True)
    return np.where(uncertain, 0.0, scale)


def chosen_scale(reading: Reading, pooled: float, centred: float) -> float:
    """The pooled scale where the old centre was right, to `centred` scales, and both agree."""
    if not reading.is_centred(centred):
        return reading.scale
    near = reading.scale / _POOLED_FACTOR <= pooled <= _POOLED_FACTOR * reading.scale
    return float(pooled) if near else reading.scale
