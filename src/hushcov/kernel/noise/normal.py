"""Normal noise, rounded to integers, exactly.

|Z| of a standard normal Z is k + x: an integer k drawn with weight exp(-k^2/2) and a uniform x in
[0, 1), kept with probability exp(-x (2k + x) / 2) (Karney 2016, "Sampling exactly from the normal
distribution"). The three uniforms of a trial are real numbers of which only the leading 63 bits
are drawn. Almost always these bits decide which k is meant, whether x is kept and to which
integer sigma (k + x) rounds. Where they do not, or where doubles are too coarse to tell, more bits
are appended to the same uniforms, and the comparison is repeated in exact arithmetic, until they
do. Nothing is ever decided by a rounding error, and nothing is drawn again.
"""

from __future__ import annotations

import decimal
import functools
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from hushcov._arrays import IntArray
from hushcov._compiled import compiled, even_parts, run_parts
from hushcov._triangle import mirror, spread_pairs
from hushcov._validation import check_integer
from hushcov.kernel.noise.entropy import (
    GROUP,
    Key,
    LazyUniform,
    buffer_length,
    fill_groups,
    fresh_key,
    has_keys,
)

#: The largest deviation that is drawn.
LARGEST_SIGMA = 2**40
#: Pairs that get noise at a time.
NOISE_STRIP = 2**22
_BLOCK = 2**18  # draws made at a time: their words stay in the cache

_NEAR = 2**13  # draws whose arrays stay in the cache together

_STREAM = 2**12  # draws from one stream of a key
_STREAMS = 4  # for which a thread pays
_KEYED = 2**16  # draws from which on they are made so: compiling it takes seconds, once
_UNCLEAR = 64  # draws of a part that quick arithmetic may leave open, at first

BITS = 63  # leading bits of a uniform; with 64 the kernel could not use signed integers
_ALL_BITS = 2**BITS - 1
_HALF = 2 ** (BITS - 1)
_LIMB = 21  # three limbs make a uniform, and sigma times a limb fits in 61 bits
_LIMB_MASK = 2**_LIMB - 1

# The kernel's coin minus exp(-t), t = x (2k + x) / 2, differs from the real one by less than 2^-46:
# roundings move t by at most 8 t 2^-53 and exp(-t) by that times exp(-t), together below 2^-51;
# the bits of x and of the coin not seen add less than 11 2^-63, as k <= 9; the library's exp is
# trusted to 32 units in the last place, 2^-47; the other roundings stay below 2^-51.
COIN_MARGIN = 2.0**-45

_REJECTED = -1
_UNDECIDED = -2

# A scaled decimal below has an error of less than 1e-15 units of the last bit it is compared to.
_SLACK = Fraction(1, 10**12)


def rounded_normal(generator: np.random.Generator, sigma: int, size: int) -> IntArray:
    """Draw `size` independent copies of round(sigma Z), Z standard normal, exactly.

    P(j) = Phi((j + 1/2) / sigma) - Phi((j - 1/2) / sigma) for every integer j, without any
    approximation: a draw depends on the generator only through independent fair bits.

    Privacy
    -------
    Let S be a vector of integers that moves by at most D in Euclidean norm between neighbouring
    datasets. For an integer a and a real b, round(a + b) = a + round(b) unless a + b is half an
    odd integer, which has probability zero here. So S plus independent draws of this law is the
    rounding of S + sigma Z, a post-processing of the continuous Gaussian mechanism, and inherits
    its guarantee in any dimension: (D / sigma)-Gaussian DP, with the exact (epsilon, delta) curve
    of Balle and Wang (2018, theorem 8). Precondition: S is an integer before the noise is added,
    and the sum does not overflow.
    """
    cure = "scale the statistic so that its noise is a whole number of steps."
    sigma = check_integer("sigma", sigma, at_least=1, at_most=LARGEST_SIGMA, cure=cure)
    size = check_integer("size", size, at_least=0, cure="ask for a number of draws.")
    return _draw(generator, sigma, size, widening=0)


def symmetric_noise(
    generator: np.random.Generator, n_features: int, sigma: int, diagonal_sigma: int
) -> IntArray:
    """Draw independent rounded normals on the upper triangle, and mirror them."""
    d = n_features
    noise = np.empty((d, d), dtype=np.int64)
    for start in range(0, d * (d - 1) // 2, NOISE_STRIP):
        number = min(NOISE_STRIP, d * (d - 1) // 2 - start)
        spread_pairs(start, rounded_normal(generator, sigma, number), noise)
    mirror(noise)
    np.fill_diagonal(noise, rounded_normal(generator, diagonal_sigma, d))
    return noise


def _draw(generator: np.random.Generator, sigma: int, size: int, *, widening: int) -> IntArray:
    """`rounded_normal`, which has `widening` zero.

    Comparisons within `widening` 2^-63 of a tie are left to the exact path although the quick
    one is certain of them. That must not change anything, and the tests see to it.
    """
    if size >= _KEYED and has_keys(generator):
        return _draw_keyed(generator, sigma, size, widening)
    drawn = np.empty(size, dtype=np.int64)
    for start in range(0, size, _BLOCK):
        _fill(generator, sigma, drawn[start : start + _BLOCK], widening)
    return drawn


def _fill(generator: np.random.Generator, sigma: int, drawn: IntArray, widening: int) -> None:
    pending = np.arange(len(drawn))
    while len(pending):
        words = generator.integers(0, 2**64, size=(3, len(pending)), dtype=np.uint64)
        uniforms = (words >> np.uint64(1)).view(np.int64)
        parts = np.array_split(uniforms, -(-len(pending) // _NEAR), axis=1)
        jobs = [(*part, sigma, widening) for part in parts]
        magnitudes = np.concatenate(run_parts(_trial, jobs))
        for position in np.flatnonzero(magnitudes == _UNDECIDED):
            level, offset, coin = (
                LazyUniform(generator, int(word) >> 1, BITS) for word in words[:, position]
            )
            magnitudes[position] = _exact_trial(sigma, level, offset, coin)
        kept = magnitudes != _REJECTED
        signs = 1 - 2 * (words[0, kept] & np.uint64(1)).astype(np.int64)  # a bit no uniform uses
        drawn[pending[kept]] = signs * magnitudes[kept]
        pending = pending[~kept]


def _draw_keyed(generator: np.random.Generator, sigma: int, size: int, widening: int) -> IntArray:
    """Draw from the streams of one fresh key, each for so many draws, in compiled code."""
    drawn, key = np.empty(size, dtype=np.int64), fresh_key(generator)

    def draw(start: int, stop: int) -> IntArray:
        room, found = _UNCLEAR, -1
        while found < 0:  # the same words again, where there were more to note than expected
            unclear = np.empty((room, 4), dtype=np.int64)
            found = _draw_streams(start, stop, key, sigma, widening, drawn, unclear)
            room *= 8
        return unclear[:found]

    parts = run_parts(draw, even_parts(-(-size // _STREAM), _STREAMS))
    for place, *words in np.concatenate(parts):
        uniforms = [LazyUniform(generator, int(word) % 2**64 >> 1, BITS) for word in words]
        magnitude = _exact_trial(sigma, *uniforms)
        if magnitude == _REJECTED:
            _fill(generator, sigma, drawn[place : place + 1], widening)
        else:
            drawn[place] = magnitude * (1 - 2 * (words[0] & 1))
    return drawn


def _exact_trial(sigma: int, level: LazyUniform, offset: LazyUniform, coin: LazyUniform) -> int:
    """Return |round(sigma Z)|, or `_REJECTED`, from as many bits as that takes."""
    k, kept = exact_parts(level, offset, coin)
    if not kept:
        return _REJECTED
    while True:
        unit = 1 << offset.length
        low = sigma * (k * unit + offset.leading)
        # The uniform is below the end of its cell, so the last value it can take is one less.
        first, last = low + unit // 2, low + sigma - 1 + unit // 2
        if first // unit == last // unit:
            return first // unit
        offset.refine()


def exact_parts(level: LazyUniform, offset: LazyUniform, coin: LazyUniform) -> tuple[int, bool]:
    """Return the integer k, and whether x is kept, from as many bits as that takes."""
    k = 0
    while _reaches(level, k):
        k += 1
    return k, _is_kept(k, offset, coin)


def _reaches(level: LazyUniform, k: int) -> bool:
    """Return whether the uniform is at least P(0) + .. + P(k), so that more than k is drawn."""
    while True:
        below, above = _cumulative(k, level.length)
        if level.leading >= above:
            return True
        if level.leading < below:
            return False
        level.refine()


def _is_kept(k: int, offset: LazyUniform, coin: LazyUniform) -> bool:
    """Return whether the coin is below exp(-x (2k + x) / 2); both uniforms have the same length."""
    while True:
        highest = _scaled_survival(k, offset.leading, offset.length)
        lowest = _scaled_survival(k, offset.leading + 1, offset.length)
        if coin.leading + 1 <= lowest - _SLACK:
            return True
        if coin.leading >= highest + _SLACK:
            return False
        offset.refine()
        coin.refine()


@functools.lru_cache(maxsize=1024)
def _cumulative(k: int, length: int) -> tuple[int, int]:
    """Integers around 2^length (P(0) + .. + P(k)), where P(i) is proportional to exp(-i^2/2)."""
    context = _context(length)
    cumulated = [Decimal(1)]
    # The weights left out add up to less than twice the first of them.
    while len(cumulated) <= k or len(cumulated) ** 2 < 5 * context.prec:
        weight = context.exp(context.divide(Decimal(-(len(cumulated) ** 2)), Decimal(2)))
        cumulated.append(context.add(cumulated[-1], weight))
    share = context.divide(cumulated[k], cumulated[-1])
    scaled = Fraction(context.multiply(share, Decimal(2**length)))
    return math.floor(scaled - _SLACK), math.ceil(scaled + _SLACK)


def _scaled_survival(k: int, leading: int, length: int) -> Fraction:
    """2^length exp(-x (2k + x) / 2) at x = leading / 2^length, up to `_SLACK`."""
    context = _context(length)
    numerator = -leading * ((2 * k << length) + leading)
    exponent = context.divide(Decimal(numerator), Decimal(2 ** (2 * length + 1)))
    return Fraction(context.multiply(context.exp(exponent), Decimal(2**length)))


def _context(length: int) -> decimal.Context:
    """Return arithmetic to 2^-length with 25 digits to spare; its exp is correctly rounded."""
    return decimal.Context(prec=length // 3 + 25, rounding=decimal.ROUND_HALF_EVEN)


# The uniform means k where it lies between the entries k-1 and k, and is undecided at an entry.
# The last entry is the largest uniform there is, so the exact path alone meets k > 9 (1e-22).
LEVELS = np.array([_cumulative(k, BITS)[0] for k in range(10)], dtype=np.int64)


def _trial(level: Any, offset: Any, coin: Any, sigma: int, widening: int) -> Any:
    """Return the value of `_exact_trial`, or `_UNDECIDED` where 63 bits or doubles do not tell.

    The same lines serve arrays of trials, and single ones in compiled code.
    """
    k = 0 * level
    for reached in range(len(LEVELS) - 1):  # without branches, which nobody can predict
        k += level > LEVELS[reached]
    unclear = (LEVELS[k] - level <= widening) | ((k > 0) & (level - LEVELS[k - 1] <= widening))
    x = offset * 2.0**-BITS
    excess = coin * 2.0**-BITS - np.exp(-0.5 * x * (2.0 * k + x))
    unclear |= np.abs(excess) <= COIN_MARGIN + widening * 2.0**-BITS
    # sigma x, in integers: its whole part, and its fraction in units of 2^-63.
    low = sigma * (offset & _LIMB_MASK)
    middle = sigma * (offset >> _LIMB & _LIMB_MASK) + (low >> _LIMB)
    high = sigma * (offset >> 2 * _LIMB) + (middle >> _LIMB)
    whole = sigma * k + (high >> _LIMB)
    fraction = (
        (high & _LIMB_MASK) << 2 * _LIMB | (middle & _LIMB_MASK) << _LIMB | (low & _LIMB_MASK)
    )
    # The bits not seen add less than sigma units to the fraction.
    beyond = fraction - _HALF
    unclear_place = ((beyond >= 0) & (beyond < widening)) | (
        (beyond < 0) & (-beyond < sigma + widening)
    )
    kept = excess <= 0.0
    unclear |= kept & unclear_place
    place = kept * (whole + (beyond >= 0)) + _REJECTED * (1 - kept)
    return _UNDECIDED * unclear + (1 - unclear) * place


_quick_trial = compiled(_trial)


_BUFFER = buffer_length(3 * _STREAM)


@compiled
def _draw_streams(
    start: int, stop: int, key: Key, sigma: int, widening: int, drawn: IntArray, unclear: IntArray
) -> int:
    """Fill in the draws of streams start..stop-1, but for those noted in `unclear`.

    It gets places and words of trials. Returns how many they are, -1 where there is no room.
    """
    words, pending = np.empty(_BUFFER, dtype=np.uint64), np.empty(_STREAM, dtype=np.int64)
    halves, signed, noted = words.view(np.uint32), words.view(np.int64), 0
    for stream in range(start, stop):
        first, group = stream * _STREAM, 0
        left = min(_STREAM, len(drawn) - first)
        for position in range(left):
            pending[position] = first + position
        while left > 0:
            groups = -(-3 * left // GROUP)
            fill_groups(group, group + groups, stream, key, halves)
            group, now, left = group + groups, left, 0
            for position in range(now):
                level, offset = signed[position], signed[now + position]
                coin = signed[2 * now + position]
                magnitude = _quick_trial(
                    level >> 1 & _ALL_BITS,
                    offset >> 1 & _ALL_BITS,
                    coin >> 1 & _ALL_BITS,
                    sigma,
                    widening,
                )
                place = pending[position]
                drawn[place] = (1 - 2 * (level & 1)) * magnitude
                pending[left] = place
                left += magnitude == _REJECTED
                if magnitude == _UNDECIDED:
                    if noted == len(unclear):
                        return -1
                    note = unclear[noted]
                    note[0], note[1], note[2], note[3] = place, level, offset, coin
                    noted += 1
    return noted
