"""The largest of very many scores with Gumbel noise, by exact comparison.

A standard Gumbel variable is -log E with E standard exponential, so the largest of
rate * score + Gumbel are the smallest of log E - rate * score, here called keys. E is
-log(1 - U), and of the uniform U only 64 bits are drawn at first. They give an interval that holds
the key, widened by a bound on every error of double precision. An item whose interval lies clear
of the cut is decided. The others, hardly ever any, get more bits of the same uniform, and their
keys are bounded in decimals, until the cut is clear. No comparison is decided by a rounding error,
however large the scores are or however far they lie apart.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from hushcov._arrays import BoolArray, FloatArray, IntArray
from hushcov._compiled import compiled, even_parts, run_parts, share_out, threads
from hushcov._validation import check_integer, check_real
from hushcov.exceptions import ParameterError
from hushcov.kernel.noise.entropy import LazyUniform, buffer_length, random_words

#: The score of an item that is no candidate.
TAKEN = -1
LARGEST_SCORE = 2**53  # doubles hold all integers up to here, so differences are exact
_LARGEST_RATE = 1e100  # rate * score is far from overflow
_CHUNK, _LARGEST_CHUNK = 2**20, 2**22  # items drawn at a time, more where there are many threads
_A_THREAD = 2**18
_PART = 2**15  # items for which a thread pays

# log(E) of the kernel differs from that of the middle of the cell by less than 2^-42, apart from
# the cell's width: |log E| < 46 at 64 bits, and the library's log and log1p are trusted to a
# relative error of 2^-48 only (16 to 32 units in the last place).
_LIBRARY_ERROR = 2.0**-41
# Product, difference and interval ends are rounded once each: 3 * 2^-53 of the product.
_PRODUCT_ERROR = 2.0**-50
# At this distance (in keys) from the reference the two errors are alike: moving it gains nothing.
_NEAR = _LIBRARY_ERROR / _PRODUCT_ERROR
# Each move divides the error by about 2^50, and scores differ by at most 2^53.
_MOST_MOVES = 2

# Rough bounds on log E from the leading bits of U. Read as an integer in units of 2^-52, the bits
# of a double are log2 of it plus the bias, up to what a chord misses: at most 0.0861, in logarithms
# `_CHORD`. Below 1/2, log E - log U is convex in U, from slope 1/2 on, and 0.32664 at 1/2.
_LOG_2 = math.log(2.0)
_CHORD, _SLOPES = 0.0597, (0.5, 0.6533)
# From 1/2 on, log E is at least log(log 2) = -0.3666, and at most log(44 log 2) = 3.42 where 1 - U
# is at least 2^-44. Fewer than so many cells from an end nothing is said.
_UPPER_HALF = (-0.367, 3.5)
_NO_CELLS = 2.0**20
_DOUBLE_OFFSET = float(1023 + 64)  # the bias, and the 64 bits
# More than `_Ruler.bounds` adds there for the library, the width of a cell, and all roundings.
_ROUGH_ERROR = 2.0**-18
_BATCH = 1024  # items whose bounds stay in the cache
_SAMPLE = 2**13  # items from which the cut is guessed
_STRIDE = 40_009  # a prime
_SPARSE = 16  # a guess pays where at most one in so many is selected


def gumbel_top(
    generator: np.random.Generator, scores: npt.NDArray[Any], rate: float, count: int
) -> IntArray:
    """Draw the indices, ascending, of the `count` largest of rate * scores[a] + G_a, exactly.

    The G_a are independent standard Gumbel variables. `scores` are integers from 0 to 2^53, or
    `TAKEN` for items that are left out, in 32 or 64 bits; `rate` is the exact value of the given
    double. Beyond `scores` itself, memory is needed for about ten times `count` items and a chunk
    of a million.

    Privacy
    -------
    The set has the law of `count` rounds of the exponential mechanism without replacement (Durfee
    and Rogers 2019): each picks one of the items left, item a with probability proportional to
    exp(rate * scores[a]). If no score moves by more than D, each round is (2 * rate * D)-DP.
    """
    n_candidates = _check_scores(scores)
    cure = "give the inverse scale of the noise."
    rate = check_real("rate", rate, above=0, at_most=_LARGEST_RATE, cure=cure)
    cure = "no more items can be selected than have scores."
    count = check_integer("count", count, at_least=0, at_most=n_candidates, cure=cure)
    if count in (0, n_candidates):
        return np.flatnonzero(scores != TAKEN) if count else np.empty(0, dtype=np.int64)
    chunk = min(max(_CHUNK, _A_THREAD * threads()), _LARGEST_CHUNK)
    return _select(generator, scores, rate, count, chunk=chunk, widening=0.0)


def _check_scores(scores: object) -> int:
    """Refuse anything but a vector of integers in range, without naming a score; count candidates.

    Those are the items that are not left out.
    """
    integers = isinstance(scores, np.ndarray) and scores.dtype in (np.int32, np.int64)
    if not isinstance(scores, np.ndarray) or not integers or scores.ndim != 1:
        raise ParameterError(
            "scores must be a one-dimensional array of 32- or 64-bit integers: scale and round "
            "them to integers."
        )
    parts = [scores[start : start + _CHUNK] for start in range(0, len(scores), _CHUNK)]
    if min(share_out(np.min, parts), default=0) < TAKEN or (
        max(share_out(np.max, parts), default=0) > LARGEST_SCORE
    ):
        raise ParameterError(
            f"scores must be integers from 0 to {LARGEST_SCORE}, and one is not: shift them, or "
            "use a coarser unit and a larger rate."
        )
    return sum(share_out(lambda part: int(np.count_nonzero(part != TAKEN)), parts))


@dataclass(frozen=True)
class _Items:
    """Items by ascending index, with the first 64 bits of their uniforms, as signed integers."""

    indices: IntArray
    words: IntArray
    scores: IntArray

    def __len__(self) -> int:
        return len(self.indices)

    def where(self, mask: BoolArray) -> _Items:
        kept = np.flatnonzero(mask)
        return _Items(self.indices[kept], self.words[kept], self.scores[kept])

    @staticmethod
    def joined(parts: Sequence[_Items]) -> _Items:
        columns = ((part.indices, part.words, part.scores) for part in parts)
        return _Items(*(np.concatenate(column) for column in zip(*columns, strict=True)))


@dataclass(frozen=True)
class _Ruler:
    """Measure of keys: log E - rate * (score - reference), give or take `widening`.

    The reference only moves all keys alike. Near it doubles are accurate however large the scores
    are. A positive `widening` leaves decided items undecided, which must not change the selection.
    """

    rate: float
    reference: int
    widening: float

    def bounds(self, items: _Items) -> tuple[FloatArray, FloatArray]:
        low, high = np.empty(len(items)), np.empty(len(items))

        def fill(start: int, stop: int) -> None:
            words, part = items.words[start:stop], slice(start, stop)
            # How many cells the uniform is away from the nearer end of [0, 1]; the sign says which.
            near = words ^ (words >> 63)
            share = (near + 0.5) * 2.0**-64
            product = self.rate * (items.scores[part] - self.reference)
            key = np.log(np.where(words >= 0, -np.log1p(-share), -np.log(share))) - product
            # In a cell log E varies by at most 2^-64 / ((1 - U) E), which 2 / near bounds at both
            # ends.
            with np.errstate(divide="ignore"):
                error = _LIBRARY_ERROR + _PRODUCT_ERROR * np.abs(product) + 2.0 / near
            low[part], high[part] = key - error - self.widening, key + error + self.widening

        cuts = range(0, len(items), _PART)
        run_parts(fill, [(start, start + _PART) for start in cuts])
        return low, high

    def rough_bounds(
        self, words: IntArray, scores: npt.NDArray[Any]
    ) -> tuple[FloatArray, FloatArray]:
        """Return wider bounds than `bounds`, without logarithms; infinite for `TAKEN`."""
        low, high = np.empty(len(words)), np.empty(len(words))
        _bound_roughly(words, scores, self.rate, self.reference, self.widening, low, high)
        return low, high

    def find_below(
        self, words: IntArray, scores: npt.NDArray[Any], threshold: float
    ) -> tuple[IntArray, int]:
        """Find candidates whose keys may be up to a threshold, and count those that surely are."""
        if threshold == math.inf:  # then nothing has to be measured
            return np.flatnonzero(scores != TAKEN), 0
        given = (self.rate, self.reference, self.widening, threshold)
        parts = even_parts(len(words), _PART)
        jobs = [(words[start:stop], scores[start:stop], *given) for start, stop in parts]
        found = run_parts(_find_below, jobs)
        places = [start + each for (start, _), (each, _) in zip(parts, found, strict=True)]
        return np.concatenate(places), sum(number for _, number in found)


def _select(
    generator: np.random.Generator,
    scores: npt.NDArray[Any],
    rate: float,
    count: int,
    *,
    chunk: int,
    widening: float,
) -> IntArray:
    """`gumbel_top` for 0 < count < len(scores), a chunk of items at a time."""
    ruler, threshold = _Ruler(rate, int(scores[0]), widening), math.inf
    pool: list[_Items] = []
    buffer = np.empty(buffer_length(min(chunk, len(scores))), dtype=np.uint64)
    start = stop = 0
    while stop < len(scores):
        start, part = stop, scores[stop : stop + chunk]
        stop = start + len(part)
        words = random_words(generator, len(part), buffer).view(np.int64)
        guess = _guess_cut(words, part, ruler, count) if threshold == math.inf else threshold
        kept, certain = ruler.find_below(words, part, guess)
        if threshold < math.inf or certain >= count:
            threshold = guess
        elif guess < math.inf:  # too low
            kept, _ = ruler.find_below(words, part, math.inf)
        pool.append(_Items(start + kept, words[kept], part[kept].astype(np.int64)))
        if sum(map(len, pool)) >= 2 * count:
            pool, ruler, threshold = _pruned(pool, count, ruler)
    (finalists,), ruler, _ = _pruned(pool, count, ruler)
    inside, outside = _sorted_out(*ruler.bounds(finalists), count)
    undecided = ~(inside | outside)
    wanted = count - int(inside.sum())
    inside[undecided] = _settle(generator, finalists.where(undecided), rate, wanted)
    return finalists.indices[inside]


def _guess_cut(words: IntArray, scores: npt.NDArray[Any], ruler: _Ruler, count: int) -> float:
    """Guess from some items a key that the `count` smallest do not exceed; infinite for none.

    It holds if so many keys are surely below it.
    """
    step = max(1, len(scores) // _SAMPLE)
    if count * _SPARSE > len(scores):
        return math.inf
    # One of every so many, not always the same one: there may be patterns in the scores.
    sample = np.arange(len(scores) // step)
    sample = sample * step + sample * _STRIDE % step
    _, high = ruler.rough_bounds(words[sample], scores[sample])
    expected = count / step
    rank = math.ceil(expected + 4 * math.sqrt(expected) + 4)
    return float(np.partition(high, rank)[rank]) if rank < len(high) else math.inf


def _pruned(pool: list[_Items], count: int, ruler: _Ruler) -> tuple[list[_Items], _Ruler, float]:
    """Drop what cannot be among the `count` smallest keys; move the reference to the cut.

    Returns the remaining items, the new ruler, and a key which the `count` smallest do not exceed.
    """
    items, at_cut = _Items.joined(pool), ruler.reference
    for _ in range(_MOST_MOVES + 1):
        ruler = replace(ruler, reference=at_cut)
        low, high = ruler.bounds(items)
        threshold = float(np.partition(high, count - 1)[count - 1])
        at_cut = int(items.scores[np.argmax(high == threshold)])
        items = items.where(low <= threshold)
        if ruler.rate * abs(at_cut - ruler.reference) <= _NEAR:
            break
    return [items], ruler, threshold


def _sorted_out(
    low: npt.NDArray[Any], high: npt.NDArray[Any], count: int
) -> tuple[BoolArray, BoolArray]:
    """Find intervals that surely hold one of the `count` smallest keys, and that surely hold none.

    `count` keys do not exceed the count-th smallest upper end; all but `count` keys are at least
    the next smallest lower end.
    """
    if count in (0, len(low)):
        return np.full(len(low), count > 0), np.full(len(low), count == 0)
    outside = low > np.partition(high, count - 1)[count - 1]
    inside = high < np.partition(low, count)[count]
    return inside, outside


def _settle(generator: np.random.Generator, items: _Items, rate: float, count: int) -> BoolArray:
    """Find the items with the `count` smallest keys, from as many bits as that takes."""
    uniforms = [LazyUniform(generator, int(word) % 2**64, 64) for word in items.words]
    inside = np.zeros(len(items), dtype=np.bool_)
    left = np.arange(len(items))
    while len(left):
        wanted = count - int(inside.sum())
        bounds = [
            _exact_bounds(uniforms[item], rate, int(items.scores[item] - items.scores[0]))
            for item in left
        ]
        low, high = (np.array(ends, dtype=object) for ends in zip(*bounds, strict=True))
        certain, outside = _sorted_out(low, high, wanted)
        inside[left[certain]] = True
        left = left[~(certain | outside)]
        for item in left:
            uniforms[item].refine()
    return inside


def _exact_bounds(uniform: LazyUniform, rate: float, score: int) -> tuple[Decimal, Decimal]:
    """Bound log E - rate * score, with ends as close as the bits that are seen allow.

    log E increases with U from minus to plus infinity. U and 1 - U are exact at this precision,
    the logarithms are correctly rounded, and `digits` of the product stand before the point.
    """
    digits = max(0, Decimal(rate * abs(score)).adjusted())
    context = decimal.Context(
        prec=2 * uniform.length + digits + 25, rounding=decimal.ROUND_HALF_EVEN
    )
    product = context.multiply(Decimal(rate), Decimal(score))
    slack, unit = Decimal((0, (1,), -2 * uniform.length)), 2**uniform.length
    ends = []
    for end, error in ((uniform.leading, slack.copy_negate()), (uniform.leading + 1, slack)):
        remainder = context.divide(Decimal(unit - end), Decimal(unit))
        waiting = context.minus(context.ln(remainder))
        key = context.subtract(context.ln(waiting), product)
        ends.append(context.add(key, error))
    return ends[0], ends[1]


@compiled
def _bound_roughly(
    words: IntArray,
    scores: npt.NDArray[Any],
    rate: float,
    reference: int,
    widening: float,
    low: FloatArray,
    high: FloatArray,
) -> None:
    """Fill in wider intervals than `_Ruler.bounds`. Without branches: the loops are vectorised."""
    bits = low.view(np.int64)
    for item in range(len(words)):
        word = words[item]
        low[item] = (word ^ (word >> 63)) + 0.5
    for item in range(len(words)):
        cells = low[item]
        share = cells * 2.0**-64
        logarithm = _LOG_2 * (bits[item] * 2.0**-52 - _DOUBLE_OFFSET)
        below = words[item] >= 0
        least = logarithm + _SLOPES[0] * share if below else _UPPER_HALF[0]
        most = logarithm + _CHORD + _SLOPES[1] * share if below else _UPPER_HALF[1]
        product = rate * (scores[item] - reference)
        error = _ROUGH_ERROR + _PRODUCT_ERROR * abs(product) + widening
        least = least - product - error if cells > _NO_CELLS else -np.inf
        most = most - product + error if cells > _NO_CELLS else np.inf
        low[item] = np.inf if scores[item] == TAKEN else least
        high[item] = np.inf if scores[item] == TAKEN else most


@compiled
def _find_below(
    words: IntArray,
    scores: npt.NDArray[Any],
    rate: float,
    reference: int,
    widening: float,
    threshold: float,
) -> tuple[IntArray, int]:
    """Return positions of keys that may be at most a threshold, and how many surely are."""
    low, high, number, certain = np.empty(_BATCH), np.empty(_BATCH), 0, 0
    found = np.empty(len(words) + 1, dtype=np.int64)  # what is not written takes no memory
    for start in range(0, len(words), _BATCH):
        own, part = words[start : start + _BATCH], scores[start : start + _BATCH]
        if not _may_be_below(own, part, rate, reference, widening, threshold, low):
            continue
        _bound_roughly(own, part, rate, reference, widening, low[: len(own)], high[: len(own)])
        for item in range(len(own)):
            found[number] = start + item
            number += low[item] <= threshold
            certain += high[item] <= threshold
    return found[:number], certain


@compiled
def _may_be_below(
    words: IntArray,
    scores: npt.NDArray[Any],
    rate: float,
    reference: int,
    widening: float,
    threshold: float,
    low: FloatArray,
) -> bool:
    """Return whether a key may be at most a threshold; few are, and this takes half the time."""
    bits, below = low.view(np.int64), False
    for item in range(len(words)):
        word = words[item]
        low[item] = (word ^ (word >> 63)) + 0.5
    for item in range(len(words)):
        cells = low[item]
        logarithm = _LOG_2 * (bits[item] * 2.0**-52 - _DOUBLE_OFFSET)
        least = logarithm + _SLOPES[0] * (cells * 2.0**-64) if words[item] >= 0 else _UPPER_HALF[0]
        product = rate * (scores[item] - reference)
        error = _ROUGH_ERROR + _PRODUCT_ERROR * abs(product) + widening
        below |= (least - product - error <= threshold) | (cells <= _NO_CELLS)
    return below
