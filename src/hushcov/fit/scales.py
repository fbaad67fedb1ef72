"""Scales of features, read off noisy counts: by octave, by sign and octave, or by equal cells.

A search (`location`) releases counts, and reads here what stands out of their noise. Octaves are as
fine as bins should be: the noise of a count does not depend on the width of its bin, and half as
wide bins tell the scale with 1.3 times the error. Counts by sign have two rows, for negative and
positive values.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from hushcov._arrays import BoolArray, Float32Array, FloatArray, IntArray
from hushcov.kernel.queries import (
    LARGEST_EXPONENT,
    N_OCTAVES,
    SMALLEST_EXPONENT,
)

# The laws that counts are compared with: eight to an octave, and these shares of values that are
# not zero. Scales stay clear of bin 0, so that a small scale is not mistaken for a constant.
_STEPS_PER_OCTAVE = 8
_SMALLEST_LOG2 = SMALLEST_EXPONENT + 8
_LARGEST_LOG2 = LARGEST_EXPONENT + 2
_NONZERO_SHARES = (1.0, 1 / 2, 1 / 4, 1 / 8, 1 / 16)
_HEAVY_DEGREES = 4  # Student's t, for heavy tails
_ROWS = 256  # features summarised at a time


#: Signed bins that can be evidence; one more counts what is nothing.
N_SIGNED = 2 * N_OCTAVES
_EXPONENTS = np.arange(SMALLEST_EXPONENT, LARGEST_EXPONENT, dtype=np.float64)
# Mean of |y| and of y^2 in an octave whose values are spread evenly.
_MIDDLE = 1.5 * np.exp2(_EXPONENTS)
_SQUARE = 7 / 3 * np.exp2(2 * _EXPONENTS)

_AT_ONCE = 512  # columns read at a time: they stay in the cache


@dataclass(frozen=True)
class ScaleRules:
    """Laws that counts are compared with, evidence in counts, and how scales are read off it."""

    # By `benchmarks/studies/proof_tables.py`.

    # A count is off its law by the noise, by chance (at most n/4; n/10 in the bins that matter),
    # and by this share of n because no law is exact.
    chance: float = 0.1
    misfit: float = 0.005
    # Before anything is learnt: scales around 1, give or take some octaves, and a few constants,
    # which count as so many features.
    usual_octaves: int = 4
    constant_share: float = 0.15
    start_weight: float = 2.0
    # Rounds of the EM algorithm, and the probability below which a scale is uncertain.
    rounds: int = 50
    likely: float = 0.9

    # By `benchmarks/studies/nothing_known.py`.

    # Octaves of a window: a law of one sign has most of its mass in 3, one about the centre in 6.
    signed_width: int = 3
    unsigned_width: int = 6
    # A range with evidence ends where its last octave has less than this many deviations. It goes
    # on while the next 1, 2 or 3 octaves stand out, for at most so many steps, and its last ones,
    # where they hold less than this part of it, must stand out together: noise does so in some
    # column with this probability. A false end makes a scale several times too large.
    last_deviations: float = 2.5
    next_octaves: int = 3
    most_steps: int = 8
    fringe: float = 0.2
    most_fringe: int = 6
    end_level: float = 1e-4
    # Octaves below the range hardly matter for its moments: they join where they are not just
    # noise.
    octaves_below: int = 6
    below_deviations: float = 1.5
    # A scale is no less than this share of the second moment about the old centre, and no more than
    # so many ends of the octave below which 80 % of the mass lies: heavy tails.
    least_variance: float = 0.02
    bulk: float = 0.8
    most_bulks: float = 4.0
    least_mass: float = 1e-4
    # A cap in scales is at most this, and what lies beyond `far` scales adds to the second moment
    # no more than the square of `far_part` scales.
    largest_reach: float = 64.0
    far: float = 6.0
    far_part: float = 2.0
    # Deviations of doubt about the mass of a range.
    doubt: float = 3.0
    # A sum of values, each taken for the middle of its octave, may be off by half, and usually by
    # a fifth.
    octave_doubt: float = 0.5
    octave_misfit: float = 0.2
    # One-sided: most of the mass, a mean well beyond the spread, and hardly anything on the other
    # side.
    one_sided_mass: float = 0.5
    one_sided_mean: float = 1.1
    other_side: float = 0.15
    other_deviations: float = 3.0
    # Cells: two that hold this share of the records hold nearly all, and are opened.
    concentrated: float = 0.8
    # Deviations in cells of the normal laws that counts are compared with. Narrow ones lie every
    # half cell, others every cell.
    law_deviations: tuple[float, ...] = (
        *(0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0),
        *(5.6, 8.0, 11.0, 16.0, 22.0, 32.0, 45.0, 64.0),
    )
    narrow: float = 1.4
    fine_step: float = 0.5
    coarse_step: float = 1.0
    # A count is off by the noise, by chance, and because no law is exact: as for scales.
    by_chance: float = 0.05
    not_exact: float = 0.005
    # Below the first level a law that holds less than this, by three deviations, is half of a
    # mixture.
    whole: float = 0.6
    whole_deviations: float = 3.0
    # Cells that stand out beyond `outside` deviations and a cell are other clusters; the law itself
    # is taken to be within `within` deviations and half a cell.
    outside: float = 2.5
    within: float = 2.0
    # Narrower than this many cells is a value that most records have, the others being elsewhere.
    narrowest: float = 0.75


RULES = ScaleRules()
_WINDOWS = N_OCTAVES * (2 * RULES.signed_width + RULES.unsigned_width)


def estimate_scales(
    noisy_counts: IntArray, n_records: int, sigma: int
) -> tuple[FloatArray, BoolArray]:
    """Return scales and which of them are uncertain, from noisy counts and public numbers alone.

    The noisy counts of a feature are compared with those that a normal law would have, with any
    standard deviation and with part of its values zero, or a law with heavy tails, or a constant.
    How common each law is among the features is learnt from all noisy counts together. The scale
    is the median standard deviation over the laws, weighted by how well they fit this feature and
    by how common they are among the others, averaged within a factor of 2. So a feature whose
    counts drown in noise gets a scale that is usual among the others. A feature is constant, of
    scale 0, if that is more likely than not. A scale is uncertain if it could be off by more than a
    factor of 2, or if being constant is in doubt, with a probability of more than 10 %.
    """
    shares, log2_scale = _scale_laws()  # proof: step 1
    # Of each law (columns) for each feature (rows), over the largest of its row. It falls with
    # |counts - n shares|^2 / (2 variance); left out is what is the same for all laws. Single
    # precision halves the memory, and is wrong by 0.01 at most because n^2 / variance <= 40,000.
    n = n_records
    variance = float(sigma) ** 2 + RULES.chance * n + (RULES.misfit * n) ** 2
    expected = (shares * (n / variance)).astype(np.float32)
    half_square = (0.5 * n * n / variance * np.sum(shares**2, axis=1)).astype(np.float32)
    likelihood: Float32Array = noisy_counts.astype(np.float32) @ expected.T
    likelihood -= half_square
    likelihood -= likelihood.max(axis=1, keepdims=True)
    np.exp(likelihood, out=likelihood)
    common = 1 / (1 + (log2_scale / RULES.usual_octaves) ** 2)  # before any feature is seen
    common *= (1 - RULES.constant_share) / common.sum()
    common[0] = RULES.constant_share
    possible = likelihood.max(axis=0) > 0  # laws that some feature can have
    possible[0] = True  # the constant
    likelihood = np.ascontiguousarray(likelihood[:, possible])
    log2_scale, common = log2_scale[possible], common[possible]
    # Empirical Bayes by the EM algorithm: a law's new weight is the mean probability that a feature
    # has it, with the starting weights counting as `start_weight` features.
    start = common.astype(np.float32)
    total = weights = start
    for done in range(RULES.rounds + 1):
        if done:
            weights = total / np.float32(len(likelihood) + RULES.start_weight)
        evidence = 1 / (likelihood @ weights)
        total = weights * (evidence @ likelihood) + np.float32(RULES.start_weight) * start
    scale = np.empty(len(noisy_counts))
    uncertain = np.empty(len(noisy_counts), dtype=np.bool_)
    for first in range(0, len(noisy_counts), _ROWS):
        rows = slice(first, first + _ROWS)
        posterior = likelihood[rows] * weights
        posterior /= posterior.sum(axis=1, keepdims=True)
        # A feature must not count as one of those that make its own scale common.
        posterior = likelihood[rows] * np.maximum(total - posterior, 0)
        posterior /= posterior.sum(axis=1, keepdims=True)
        scale[rows], uncertain[rows] = _summary(posterior, log2_scale)
    return scale, uncertain


@functools.cache
def _scale_laws() -> tuple[FloatArray, FloatArray]:
    """Shares of the bins under each law (rows), and log2 of its deviation, in its order.

    The first law is the constant, with log2 -inf.
    """
    n_steps = (_LARGEST_LOG2 - _SMALLEST_LOG2) * _STEPS_PER_OCTAVE
    position = _SMALLEST_LOG2 + np.arange(n_steps + 1) / _STEPS_PER_OCTAVE
    edges = np.exp2(np.arange(SMALLEST_EXPONENT, LARGEST_EXPONENT + 1) - position[:, None])
    heavy = 1 - 2 * special.stdtr(_HEAVY_DEGREES, -edges)
    heavy_sd = math.sqrt(_HEAVY_DEGREES / (_HEAVY_DEGREES - 2))
    shares = [np.eye(1, edges.shape[1] + 1), np.diff(heavy, axis=1, prepend=0, append=1)]
    log2_scale = [np.array([-np.inf]), position + math.log2(heavy_sd)]
    normal = np.diff(special.erf(edges / math.sqrt(2)), axis=1, prepend=0, append=1)
    for nonzero in _NONZERO_SHARES:
        shares.append(nonzero * normal + (1 - nonzero) * shares[0])
        log2_scale.append(position + math.log2(nonzero) / 2)
    order = np.argsort(np.concatenate(log2_scale), kind="stable")
    return np.concatenate(shares)[order], np.concatenate(log2_scale)[order]


def _summary(posterior: Float32Array, log2_scale: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Scale of each feature (rows), and whether it is uncertain."""
    constant, posterior, log2_scale = posterior[:, 0], posterior[:, 1:], log2_scale[1:]
    cumulative = np.cumsum(posterior, axis=1)
    median = log2_scale[np.argmax(cumulative >= cumulative[:, -1:] / 2, axis=1)]
    near = np.where(np.abs(log2_scale - median[:, None]) <= 1, posterior, 0)
    mass = near.sum(axis=1)
    scale = np.exp2(near @ log2_scale / np.maximum(mass, np.finfo(np.float32).tiny))
    found_constant = constant > 0.5
    certainty = np.where(found_constant, constant, mass)
    return np.where(found_constant, 0.0, scale), certainty < RULES.likely


# Reading noisy counts by sign and octave: what stands out of the noise, and what it says.


@functools.lru_cache(maxsize=256)
def deviations(tests: float, level: float) -> float:
    """Return how many deviations so many normal numbers exceed together with this probability."""
    return float(-special.ndtri(min(0.5, level / max(tests, 1.0))))


@dataclass(frozen=True)
class Thresholds:
    """Deviations that a bin, a window of octaves, an end and each popular bin must exceed."""

    single: float
    window: float
    end: float
    popular: tuple[tuple[int, float], ...] = ()


def thresholds(n_columns: int, level: float, popular: dict[int, int]) -> Thresholds:
    """Return thresholds that any bin or window of noise exceeds with probability `level` each kind.

    `popular` says in how many other columns a signed bin was part of the range, for a few bins:
    these get their share of the level whatever the number of bins.
    """
    total = sum(popular.values())
    return Thresholds(
        deviations(n_columns * N_SIGNED, level),
        deviations(n_columns * _WINDOWS, level),
        deviations(n_columns * (RULES.next_octaves + RULES.most_fringe), RULES.end_level),
        tuple((b, deviations(n_columns, level * k / total)) for b, k in popular.items()),
    )


def find_evidence(
    counts: FloatArray, sigma: FloatArray, limits: Thresholds
) -> tuple[BoolArray, BoolArray]:
    """Find the smallest windows of octaves whose counts stand out, for all columns at once.

    Return signed bins (columns, 2, octaves) in such windows, and octaves that stand out alone.
    """
    mask = np.zeros(counts.shape, dtype=np.bool_)
    alone = np.zeros((len(counts), N_OCTAVES), dtype=np.bool_)
    for signs in ([0], [1], [0, 1]):
        sums = np.cumsum(counts[:, signs].sum(axis=1), axis=1)
        sums = np.concatenate([np.zeros((len(counts), 1)), sums], axis=1)
        both = len(signs) == 2
        inside = np.zeros((len(counts), N_OCTAVES + 1), dtype=np.bool_)  # holds a narrower window
        for width in range(1, (RULES.unsigned_width if both else RULES.signed_width) + 1):
            z = limits.single if width == 1 and not both else limits.window
            noise = sigma * math.sqrt(len(signs) * width)
            stands_out = sums[:, width:] - sums[:, :-width] > (z * noise)[:, None]
            inside = inside[:, :-1] | inside[:, 1:]
            smallest = stands_out & ~inside
            inside |= stands_out
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
    return mask, alone


@dataclass(frozen=True, eq=False)
class Moments:
    """Means of |y| and of y^2 in signed bins (2, octaves), 0 where no value can be."""

    middle: FloatArray
    square: FloatArray


def moments(below: float = math.inf, above: float = math.inf) -> Moments:
    """Return moments in bins, where values lie at most so far below and above the centre."""
    most = np.minimum([[below], [above]], 2.0**LARGEST_EXPONENT)  # what is beyond counts there
    possible = np.exp2(_EXPONENTS) <= most
    return Moments(
        np.where(possible, np.minimum(_MIDDLE, most), 0.0),
        np.where(possible, np.minimum(_SQUARE, most**2), 0.0),
    )


ANYWHERE = moments()


@dataclass(frozen=True, eq=False)
class Reading:
    """Reading of the noisy counts of one column: moments about the old centre, and the range.

    `shares` are those of all records, by sign and octave; `offset` is to be added to the centre.
    `used` are the signed bins of the range, and `end` the exponent at which it ends. `mass` is the
    share of the records in the range, `sides` are those by sign, and no share is beyond 2^`top`.
    """

    shares: FloatArray
    used: BoolArray
    offset: float
    scale: float
    end: int
    mass: float
    sides: tuple[float, float]
    top: float

    def reach(self, scale: float, low: float) -> float:
        """Cap in scales: the end of what was seen, and not so far that the tail is all there is."""
        reach = (2.0**self.end + abs(self.offset)) / scale
        if 2.0**self.top > RULES.far * scale:
            far = self.shares[:, np.exp2(_EXPONENTS + 1) > RULES.far * scale].sum()
            reach = min(reach, max(low, RULES.far_part / math.sqrt(far)))
        return bounded_reach(reach, low)

    def may_hold(self, share: float, sigma: float, n: int) -> bool:
        """Return whether this share of the records may be in the range, within three deviations."""
        noise = sigma * math.sqrt(np.count_nonzero(self.used)) / n
        return self.mass + RULES.doubt * noise >= share

    def one_sided(self, sigma: float, n: int) -> bool:
        """Whether nearly all lies on one side, further from the old centre than it spreads."""
        return (
            self.mass > RULES.one_sided_mass
            and abs(self.offset) > RULES.one_sided_mean * self.scale
            and self.lopsided(sigma, n)
        )

    def lopsided(self, sigma: float, n: int) -> bool:
        """Whether hardly anything surely lies on one of the sides."""
        lesser, greater = sorted(self.sides)
        return lesser < RULES.other_side * greater + RULES.other_deviations * sigma / n


def balanced_scale(reading: Reading, known: Moments, noise_sd: float) -> float:
    """Return the scale of a column whose mean is zero; 0 where one side of it was not seen.

    Sums of both sides are the same then. Each is moved by its part of what is unsure: the noise,
    mostly in the side of few values far away, and where in their octaves values lie. `noise_sd` is
    that of a share.
    """
    sums = (reading.shares * known.middle).sum(axis=1)
    noise = noise_sd**2 * (reading.used * known.middle**2).sum(axis=1)
    unseen = abs(reading.offset) - RULES.octave_doubt * sums.max()
    if not sums.all() or unseen > RULES.doubt * math.sqrt(noise.sum()):
        return 0.0
    unsure = noise + (RULES.octave_misfit * sums) ** 2
    middle = float(sums @ unsure[::-1]) / float(unsure.sum())
    squares = (reading.shares * known.square).sum(axis=1)
    return math.sqrt(float(squares @ (middle / sums)))


def bounded_reach(reach: float, low: float) -> float:
    """A cap in scales between `low` and the largest one."""
    return min(max(reach, low), RULES.largest_reach)


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
    by_sign, readings = signed(counts), []
    for start in range(0, len(counts), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        own = [ANYWHERE] if known is None else known[part]
        joined = own[0]  # the same for all columns, or (columns, 2, octaves)
        if any(each is not joined for each in own):
            middle, square = [each.middle for each in own], [each.square for each in own]
            joined = Moments(np.stack(middle), np.stack(square))
        readings += _read(by_sign[part], sigma[part], n, limits, joined)
    return readings


def _read(
    counts: FloatArray, sigma: FloatArray, n: int, limits: Thresholds, known: Moments
) -> list[Reading | None]:
    """Read columns, counts (columns, 2, octaves), from their evidence."""
    mask, alone = find_evidence(counts, sigma, limits)
    seen = mask.any(axis=(1, 2))
    first = mask.any(axis=1).argmax(axis=1)
    used = _upwards(counts, sigma, _without_weak_end(counts, sigma, mask, alone), limits.end)
    used = _without_fringe(counts, sigma, used, alone, limits.end)
    place = np.arange(N_OCTAVES)
    below = (place >= first[:, None] - RULES.octaves_below) & (place < first[:, None])
    joins = counts >= (RULES.below_deviations * sigma)[:, None, None]
    shares = np.where(used | (below[:, None] & joins), counts, 0.0)
    shares = np.maximum(shares, 0.0) / n
    total = _sum_all(shares)
    shares /= np.maximum(total, 1.0)[:, None, None]
    means = (shares * known.middle).sum(axis=2)
    offset = means[:, 1] - means[:, 0]
    second, unsigned = _sum_all(shares * known.square), shares.sum(axis=1)
    scale = np.sqrt(np.maximum(second - offset * offset, RULES.least_variance * second))
    cumulative = np.cumsum(unsigned, axis=1)
    held = cumulative[:, -1]
    bulk = np.minimum((cumulative < (RULES.bulk * held)[:, None]).sum(axis=1), N_OCTAVES - 1)
    most = RULES.most_bulks * np.exp2(_EXPONENTS[bulk] + 1)
    scale = np.minimum(scale, most * np.sqrt(np.maximum(held, RULES.least_mass)))
    seen &= scale > 0  # what stands out is not all noise where no value can be
    numbers = zip(
        offset.tolist(),
        scale.tolist(),
        (_ends(used) + SMALLEST_EXPONENT).tolist(),
        _sum_all(shares).tolist(),
        map(tuple, shares.sum(axis=2).tolist()),
        (_ends(shares > 0) + float(SMALLEST_EXPONENT)).tolist(),
        strict=True,
    )
    return [Reading(shares[i], used[i], *own) if seen[i] else None for i, own in enumerate(numbers)]


def _sum_all(values: FloatArray) -> FloatArray:
    """Sums over the bins of each column."""
    return np.asarray(values.reshape(len(values), math.prod(values.shape[1:])).sum(axis=1))


def _ends(mask: BoolArray) -> IntArray:
    """Return where the octaves of each column end that have a mark."""
    octaves: BoolArray = np.asarray(mask.any(axis=1))
    return np.asarray(N_OCTAVES - octaves[:, ::-1].argmax(axis=1))


def _without_weak_end(
    counts: FloatArray, sigma: FloatArray, mask: BoolArray, alone: BoolArray
) -> BoolArray:
    """Leave out octaves at the upper end of a window that do not stand out by themselves."""
    kept = mask.copy()
    first = kept.any(axis=1).argmax(axis=1)
    left = np.flatnonzero(kept.any(axis=(1, 2)))
    while len(left):
        last = _ends(kept[left]) - 1
        signs = kept[left, :, last]
        held = np.where(signs, counts[left, :, last], 0.0).sum(axis=1)
        limit = RULES.last_deviations * np.sqrt(signs.sum(axis=1)) * sigma[left]
        weak = (last > first[left]) & ~alone[left, last] & (held < limit)
        left, last = left[weak], last[weak]
        kept[left, :, last] = False
    return kept


def _upwards(counts: FloatArray, sigma: FloatArray, mask: BoolArray, surely: float) -> BoolArray:
    """Extend the range while the next octaves stand out, of signs that have evidence."""
    used, end = mask.copy(), _ends(mask)
    signs: BoolArray = np.asarray(mask.any(axis=2))
    left = np.flatnonzero(signs.any(axis=1))
    for _ in range(RULES.most_steps):
        going = np.zeros(len(counts), dtype=np.bool_)
        for width in range(1, RULES.next_octaves + 1):
            at = left[~going[left] & (end[left] + width <= N_OCTAVES)]
            following = end[at, None] + np.arange(width)
            more = np.where(signs[at, :, None], counts[at[:, None], :, following].swapaxes(1, 2), 0)
            noise = sigma[at] * np.sqrt(signs[at].sum(axis=1) * width)
            at = at[_sum_all(np.ascontiguousarray(more)) > surely * noise]
            for octave in range(width):
                used[at, :, end[at] + octave] |= signs[at]
            end[at] += width
            going[at] = True
        left = left[going[left]]
        if not len(left):
            break
    return used


def _without_fringe(
    counts: FloatArray, sigma: FloatArray, used: BoolArray, alone: BoolArray, surely: float
) -> BoolArray:
    """Leave out as many of the last octaves as do not stand out together, if they hold little."""
    held = np.where(used, counts, 0.0).sum(axis=1)
    bins, ends = used.sum(axis=1), _ends(used)
    whole = held.sum(axis=1)
    fringe, noise, dropped = np.zeros(len(counts)), np.zeros(len(counts)), np.zeros_like(ends)
    open_ends, every = used.any(axis=(1, 2)), np.arange(len(counts))
    for width in range(1, RULES.most_fringe + 1):
        last = np.maximum(ends - width, 0)
        open_ends &= ~alone[every, last] & (ends > width)
        fringe += held[every, last]
        noise += bins[every, last]
        weak = (fringe < surely * np.sqrt(noise) * sigma) & (fringe < RULES.fringe * whole)
        dropped[open_ends & weak] = width
    place = np.arange(N_OCTAVES)
    return np.asarray(used & (place < (ends - dropped)[:, None])[:, None])


def pooled_scales(counts: FloatArray, sigma: float, n: int) -> FloatArray:
    """Scales by empirical Bayes over all columns, counts (columns, 257); 0 where not certain."""
    scale, certain = usual_scales(counts, sigma, n)
    return np.where(certain, scale, 0.0)


def usual_scales(counts: FloatArray, sigma: float, n: int) -> tuple[FloatArray, BoolArray]:
    """Return scales by empirical Bayes, counts (columns, 257), and which of them are certain."""
    unsigned = counts[:, :N_OCTAVES] + counts[:, N_OCTAVES:N_SIGNED]
    bins = np.concatenate([counts[:, N_SIGNED:], unsigned, np.zeros((len(counts), 1))], axis=1)
    deviation = max(1, math.ceil(sigma * math.sqrt(2)))  # both signs have noise
    noisy = np.rint(bins).astype(np.int64)
    scale, uncertain = estimate_scales(noisy, n, deviation)
    return scale, ~uncertain


# Reading noisy counts of equal cells: where a column lies that is far from zero for its spread.


#: Cells of the first level, and children of a cell of it.
N_CELLS = 64
#: Cells opened: the two that hold most, and their neighbours.
N_OPENED = 4
N_CHILDREN = N_CELLS * N_OPENED
#: Cells of one column that can stand out in one look.
CELLS_LOOKED_AT = N_CELLS + N_CHILDREN

_TOGETHER = 256  # columns compared at a time


@dataclass(frozen=True)
class CellSpread:
    """A law inside the cells: centre, scale and, if there are other clusters, their reach.

    It is `in_one_place` if it holds most records and is narrower than cells can tell.
    """

    centre: float
    scale: float
    reach: float | None = None
    in_one_place: bool = False


def first_opened(counts: FloatArray) -> int:
    """The cell before the two neighbouring ones that hold most; it may be -1."""
    return int(np.argmax(counts[1:] + counts[:-1])) - 1


def read_spreads(
    counts: FloatArray, parents: FloatArray | None, sigma: float, n: int, z: float
) -> list[CellSpread | None]:
    """Return the place of each column (row of counts) in cells; None for one half of a mixture.

    `parents` are the counts of the opened cells, whose children these are. Cells with more than
    `z` deviations stand out.
    """
    location, deviation = _fit_normal(counts, parents, sigma, n)
    found: list[CellSpread | None] = []
    # Whether the law of each column may hold most records, by least squares.
    law = _normal_shares(counts.shape[1], location[:, None], deviation[:, None])
    square = np.einsum("ij,ij->i", law, law)
    held = np.einsum("ij,ij->i", law, counts) / square
    wholes = held + RULES.whole_deviations * sigma / np.sqrt(square) > RULES.whole * n
    stands_out = counts > z * sigma
    away = np.abs(np.arange(counts.shape[1]) + 0.5 - location[:, None])
    clusters = np.any(stands_out & (away > RULES.outside * deviation[:, None] + 1), axis=1).tolist()
    columns = zip(location.tolist(), deviation.tolist(), wholes.tolist(), clusters, strict=True)
    for i, (centre, sd, whole, others) in enumerate(columns):
        if parents is not None and not whole:
            found.append(None)
        elif others:
            found.append(_with_clusters(counts[i], away[i], sd, stands_out[i]))
        else:
            found.append(CellSpread(centre, sd, in_one_place=whole and sd < RULES.narrowest))
    return found


def _fit_normal(
    counts: FloatArray, parents: FloatArray | None, sigma: float, n: int
) -> tuple[FloatArray, FloatArray]:
    """Posterior means of the location and the log deviation over normal laws, flat prior."""
    laws, centres, log_sd = _cell_laws(counts.shape[1])
    variance = sigma**2 + RULES.by_chance * n + (RULES.not_exact * n) ** 2
    if parents is not None:
        grouped = laws.reshape(len(laws), N_OPENED, -1).sum(axis=2)
        laws = np.concatenate([laws, grouped], axis=1)
        counts = np.concatenate([counts, parents], axis=1)
    half_square = 0.5 * n * np.sum(laws**2, axis=1)
    location, deviation = np.empty(len(counts)), np.empty(len(counts))
    for start in range(0, len(counts), _TOGETHER):
        rows = slice(start, start + _TOGETHER)
        log_likelihood = (counts[rows] @ laws.T - half_square) * (n / variance)
        weights = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        location[rows] = weights @ centres
        deviation[rows] = np.exp(weights @ log_sd)
    return location, deviation


@functools.cache
def _cell_laws(n_cells: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Shares of the cells under each law (rows), and its centre and log deviation in cells."""
    shares, centres, log_sd = [], [], []
    for sd in RULES.law_deviations:
        step = RULES.fine_step if sd < RULES.narrow else RULES.coarse_step
        centre = np.arange(RULES.fine_step / 2, n_cells, step)
        shares.append(_normal_shares(n_cells, centre[:, None], sd))
        centres.append(centre)
        log_sd.append(np.full(len(centre), math.log(sd)))
    return np.concatenate(shares), np.concatenate(centres), np.concatenate(log_sd)


def _normal_shares(n_cells: int, centre: FloatArray, sd: FloatArray | float) -> FloatArray:
    edges = np.arange(n_cells + 1, dtype=np.float64)
    return np.asarray(np.diff(special.ndtr((edges - centre) / sd), axis=-1))


def _with_clusters(
    counts: FloatArray, away: FloatArray, sd: float, stands_out: BoolArray
) -> CellSpread:
    """The moments of the law and of the cells far from it that stand out."""
    middle = np.arange(len(counts)) + 0.5
    counted = stands_out | ((away <= RULES.within * sd + 0.5) & (counts > 0))
    weights = np.where(counted, counts, 0.0)
    weights /= weights.sum()
    mean = float(weights @ middle)
    spread = math.sqrt(float(weights @ (middle - mean) ** 2) + 1 / 12)
    reach = float(np.abs(middle[stands_out] - mean).max()) + 0.5
    return CellSpread(mean, spread, reach)
