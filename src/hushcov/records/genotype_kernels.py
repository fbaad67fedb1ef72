"""Compiled loops over packed genotypes: counts, squared norms of records, sums of products.

Genotypes are in the code of PLINK's `.bed` files, two bits each: 00 is two copies of the counted
allele, 10 is one, 11 is none, 01 is a missing call. A variant is a row of words with 16 records in
each. Sums of products count bits. With x = copies - 1, which is -1, 0 or 1, the product of two
variants sums to the number of records in which neither is zero, less twice the number of those in
which the signs differ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hushcov._arrays import BoolArray, IntArray
from hushcov._compiled import compiled, even_parts, intrinsic, run_parts

CodeArray = npt.NDArray[np.uint32]
WordArray = npt.NDArray[np.uint64]

#: Records in a word of codes, and words that rows are filled up to: whole lines of the cache.
CODES = 16
ROW_WORDS = 16

_LOW, _HIGH = np.uint64(0x5555555555555555), np.uint64(0xAAAAAAAAAAAAAAAA)
_BIT = np.uint64(1)
_NO_BITS = np.uint64(0)
# Words of codes for which sums of a window stay in the nearest cache; words of bits, and variants,
# whose planes stay in the second.
_NORM_WORDS = 128
_PLANE_WORDS = 512
_PLANE_VARIANTS = 64


def row_words(n_records: int) -> int:
    """Words of one variant."""
    return -(-n_records // (CODES * ROW_WORDS)) * ROW_WORDS


@intrinsic
def _popcount(context: Any, word: Any) -> Any:
    """The number of bits that are one, in compiled code."""
    from numba import types

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), code


def count_codes(codes: CodeArray, n_records: int) -> tuple[IntArray, IntArray]:
    """For each variant the sum of x = copies - 1 where it is called, and how many are called."""
    found = np.empty((len(codes), 2), dtype=np.int64)
    words = codes.view(np.uint64)
    run_parts(_count, [(*part, words, n_records, found) for part in even_parts(len(codes), 16)])
    return found[:, 0].copy(), found[:, 1].copy()


@compiled
def _count(start: int, stop: int, words: WordArray, n_records: int, found: IntArray) -> None:
    for variant in range(start, stop):
        low, high, both = 0, 0, 0
        for word in words[variant]:
            low += np.int64(_popcount(word & _LOW))
            high += np.int64(_popcount(word & _HIGH))
            both += np.int64(_popcount(word & (word >> _BIT) & _LOW))
        missing = low - both
        # None: both bits. Two: neither, and what fills the row is zero.
        found[variant, 0] = (n_records - low - high + both) - both
        found[variant, 1] = n_records - missing


def pack_calls(calls: npt.NDArray[np.int8], codes: CodeArray) -> bool:
    """Pack numbers of copies, records by variants, negative where missing; False if above 2."""
    kernel = _pack_variants if calls.strides[0] < calls.strides[1] else _pack_records
    parts = even_parts(codes.shape[1], 64)
    return all(run_parts(kernel, [(*part, calls, codes) for part in parts]))


@compiled
def _pack_records(start: int, stop: int, calls: Any, codes: CodeArray) -> bool:
    """Where the variants of a record are side by side."""
    n, d = calls.shape
    words = np.empty(d, dtype=np.uint32)
    most = np.int8(0)
    for place in range(start, stop):
        words[:] = 0
        for r in range(min(CODES, n - place * CODES)):
            row, shift = calls[place * CODES + r], np.uint32(2 * r)
            for v in range(d):
                g = row[v]
                most = max(most, g)
                code = np.uint32(1) if g < 0 else np.uint32(0 if g == 2 else 3 - g)
                words[v] |= np.uint32(code << shift)
        for v in range(d):
            codes[v, place] = words[v]
    return bool(most <= 2)


@compiled
def _pack_variants(start: int, stop: int, calls: Any, codes: CodeArray) -> bool:
    """Where the records of a variant are side by side."""
    n, d = calls.shape
    most = np.int8(0)
    for v in range(d):
        for place in range(start, stop):
            word = np.uint32(0)
            for r in range(min(CODES, n - place * CODES)):
                g = calls[place * CODES + r, v]
                most = max(most, g)
                code = np.uint32(1) if g < 0 else np.uint32(0 if g == 2 else 3 - g)
                word |= np.uint32(code << np.uint32(2 * r))
            codes[v, place] = word
    return bool(most <= 2)


def squares_of(slopes: IntArray, offsets: IntArray) -> IntArray:
    """Squares of slope * copies - offset by variant and code: two copies, missing, one, none."""
    values = np.stack([2 * slopes - offsets, 0 * slopes, slopes - offsets, -offsets], axis=1)
    return values * values


def norm_sums(
    codes: CodeArray, squares: IntArray, ends: IntArray, pair: int, diagonal: int, centre: int
) -> IntArray:
    """For each place of a code: pair * sum of u_i u_j + diagonal * sum of (u_i - centre)^2.

    `u` are the squares of variants. The first sum is over i in 0..len(ends)-1 and j from i + 1 to
    ends[i] - 1, the second over i, where it is called. Exact.
    """
    n_owned = len(ends)
    steps = window_steps(ends)
    most = int(squares.max(initial=0))
    widest = int(np.max(ends - np.arange(n_owned), initial=1)) + 1
    slope, offset = diagonal - pair, 2 * diagonal * centre
    bound = pair * most * (widest + 1) + abs(slope) * most + abs(offset)
    small = np.int32 if bound < 2**31 else np.int64
    # The last row of each is for steps that add, or finish, no variant.
    tables = np.zeros((len(codes) + 1, 4), dtype=small)
    tables[:-1] = squares
    sums = np.full((codes.shape[1], CODES), diagonal * centre**2 * n_owned, dtype=np.int64)
    scaled = (tables * small(pair)).astype(small)
    numbers = np.array([slope, offset], dtype=small)
    parts = even_parts(codes.shape[1] // ROW_WORDS, 4)
    jobs = [
        (a * ROW_WORDS, b * ROW_WORDS, codes, steps, tables, scaled, numbers, sums)
        for a, b in parts
    ]
    run_parts(_add_norms, jobs)
    if diagonal * centre:
        run_parts(_drop_missing, [(*job[:3], n_owned, diagonal * centre**2, sums) for job in jobs])
    return sums


def window_steps(ends: IntArray) -> IntArray:
    """Which variant enters the window and which leaves it in each step; -1 where none does.

    A variant leaves when it meets all that are in the window with it.
    """
    own = np.arange(len(ends))
    tops = np.maximum.accumulate(np.maximum(ends, own + 1))
    counts = np.diff(tops, prepend=0)
    rows = np.maximum(counts, 1)
    last = np.cumsum(rows) - 1
    steps = np.full((int(rows.sum()), 2), -1, dtype=np.int64)
    steps[last, 1] = own
    entering = np.ones(len(steps), dtype=bool)
    entering[last[counts == 0]] = False
    steps[entering, 0] = np.arange(int(tops[-1]) if len(tops) else 0)
    return steps


@compiled
def _add_norms(
    start: int,
    stop: int,
    codes: CodeArray,
    steps: IntArray,
    tables: Any,
    scaled: Any,
    numbers: Any,
    sums: IntArray,
) -> None:
    """Slide the window over the variants, for places start..stop-1 of words."""
    acc = np.empty((CODES, _NORM_WORDS), dtype=tables.dtype)
    totals = np.empty((CODES, _NORM_WORDS), dtype=np.int64)
    for left in range(start, stop, _NORM_WORDS):
        width = min(_NORM_WORDS, stop - left)
        acc[:] = 0
        totals[:] = 0
        for s in range(len(steps)):
            j, i = steps[s]
            enter, leave = codes[j, left : left + width], codes[i, left : left + width]
            p, q, u = scaled[j], scaled[i], tables[i]
            for t in range(CODES):
                _step(enter, leave, np.uint32(1 << (2 * t)), p, q, u, numbers, acc[t], totals[t])
        for t in range(CODES):
            for k in range(width):
                sums[left + k, t] += totals[t, k]


@compiled
def _step(
    enter: CodeArray,
    leave: CodeArray,
    bit: Any,
    p: Any,
    q: Any,
    u: Any,
    numbers: Any,
    acc: Any,
    totals: IntArray,
) -> None:
    high = np.uint32(2 * bit)
    p0, p2, p3 = p[0], p[2], p[3]
    q0, q2, q3 = q[0], q[2], q[3]
    u0, u2, u3 = u[0], u[2], u[3]
    zero = 0 * p0
    e0, e2, e3 = (numbers[0] * u0 - numbers[1]), (numbers[0] * u2 - numbers[1]), (numbers[0] * u3 - numbers[1])
    for k in range(len(enter)):
        w, x = enter[k], leave[k]
        wl, wh, xl, xh = (w & bit) != 0, (w & high) != 0, (x & bit) != 0, (x & high) != 0
        first = (p3 if wl else p2) if wh else (zero if wl else p0)
        inside = acc[k] + first
        factor = inside + ((e3 if xl else e2) if xh else (zero if xl else e0))
        own = (u3 if xl else u2) if xh else (zero if xl else u0)
        acc[k] = inside - ((q3 if xl else q2) if xh else (zero if xl else q0))
        totals[k] += np.int64(own) * np.int64(factor)


@compiled
def _drop_missing(
    start: int, stop: int, codes: CodeArray, n_owned: int, constant: int, sums: IntArray
) -> None:
    """Take back what was added for calls that are missing."""
    for i in range(n_owned):
        for k in range(start, stop):
            word = np.uint64(codes[i, k])
            missing = word & ~(word >> _BIT) & _LOW
            if missing != _NO_BITS:
                for t in range(CODES):
                    sums[k, t] -= constant * np.int64((missing >> np.uint64(2 * t)) & _BIT)


def kept_words(kept: BoolArray, n_words: int) -> WordArray:
    """Bits of records in the order of planes: the first 32 of 64 are even bits, others are odd."""
    bits = np.zeros((n_words, 2, 32), dtype=np.uint8)
    bits.reshape(-1)[: len(kept)] = kept
    mixed = np.ascontiguousarray(bits.transpose(0, 2, 1)).reshape(n_words, 64)
    return np.packbits(mixed, axis=1, bitorder="little").view("<u8")[:, 0].astype(np.uint64)


def product_sums(
    codes: CodeArray, kept: BoolArray, slopes: IntArray, offsets: IntArray, ends: IntArray
) -> tuple[IntArray, IntArray]:
    """Sums over kept records of v_i v_j for j from i + 1 to ends[i] - 1, and of v_i^2."""
    n_owned = len(ends)
    places = np.zeros(n_owned + 1, dtype=np.int64)
    np.cumsum(np.maximum(ends - np.arange(n_owned) - 1, 0), out=places[1:])
    pairs, own = np.zeros(places[-1], dtype=np.int64), np.zeros(n_owned, dtype=np.int64)
    words = codes.view(np.uint64)
    mask = kept_words(kept, words.shape[1] // 2)
    lines = np.stack([slopes, slopes - offsets], axis=1)
    jobs = [
        (*part, words, mask, lines, np.maximum(ends, np.arange(n_owned) + 1), places, pairs, own)
        for part in even_parts(n_owned, 16)
    ]
    run_parts(_add_products, jobs)
    return pairs, own


@compiled
def _add_products(
    start: int,
    stop: int,
    words: WordArray,
    mask: WordArray,
    lines: IntArray,
    ends: IntArray,
    places: IntArray,
    pairs: IntArray,
    own: IntArray,
) -> None:
    """Products of variants start..stop-1, by strips of records and of variants."""
    n_words = len(mask)
    strips = -(-n_words // _PLANE_WORDS)
    room = 1
    for top in range(start, stop, _PLANE_VARIANTS):
        room = max(room, ends[min(stop, top + _PLANE_VARIANTS) - 1] - top)
    planes = np.empty((3, room, -(-n_words // strips)), dtype=np.uint64)
    facts = np.empty((room, 4), dtype=np.int64)
    for top in range(start, stop, _PLANE_VARIANTS):
        bottom = min(stop, top + _PLANE_VARIANTS)
        for strip in range(strips):
            left, right = n_words * strip // strips, n_words * (strip + 1) // strips
            width = right - left
            for v in range(top, ends[bottom - 1]):
                _planes(words[v], mask, left, planes[:, v - top, :width], facts[v - top])
            for i in range(top, bottom):
                a, c = lines[i]
                f = facts[i - top]
                own[i] += a * a * f[0] + 2 * a * c * f[1] + c * c * f[2]
                mine = planes[:, i - top, :width]
                for j in range(i + 1, ends[i]):
                    pairs[places[i] + j - i - 1] += _one_pair(
                        mine, planes[:, j - top, :width], f, facts[j - top], lines[i], lines[j]
                    )


@compiled
def _planes(words: WordArray, mask: WordArray, left: int, planes: Any, facts: IntArray) -> None:
    """Bits of one variant: not zero, negative, called; their counts; whether calls are missing."""
    nonzero, negative, called = planes[0], planes[1], planes[2]
    n_nonzero, n_negative, n_called, n_kept = 0, 0, 0, 0
    for k in range(len(nonzero)):
        a, b, m = words[2 * (left + k)], words[2 * (left + k) + 1], mask[left + k]
        low = (a & _LOW) | ((b & _LOW) << _BIT)
        high = ((a >> _BIT) & _LOW) | (b & _HIGH)
        nonzero[k] = ~(low ^ high) & m
        negative[k] = low & high & m
        called[k] = (high | ~low) & m
        n_nonzero += np.int64(_popcount(nonzero[k]))
        n_negative += np.int64(_popcount(negative[k]))
        n_called += np.int64(_popcount(called[k]))
        n_kept += np.int64(_popcount(m))
    facts[0], facts[1], facts[2] = n_nonzero, n_nonzero - 2 * n_negative, n_called
    facts[3] = n_called != n_kept


@compiled
def _one_pair(p: Any, q: Any, f: IntArray, g: IntArray, line: IntArray, other: IntArray) -> int:
    """The sum of v_i v_j from the bits of both."""
    both, apart = _crossed(p[0], p[1], q[0], q[1])
    xx = both - 2 * apart
    xm, mx, mm = f[1], g[1], g[2]
    if g[3]:
        xm = _masked(p[0], p[1], q[2])
    if f[3]:
        mx = _masked(q[0], q[1], p[2])
        mm = f[2]
    if f[3] and g[3]:
        mm = _shared(p[2], q[2])
    a, c, b, e = line[0], line[1], other[0], other[1]
    return int(a * b * xx + a * e * xm + c * b * mx + c * e * mm)


@compiled
def _crossed(n0: WordArray, s0: WordArray, n1: WordArray, s1: WordArray) -> tuple[int, int]:
    both, apart = 0, 0
    for k in range(len(n0)):
        shared = n0[k] & n1[k]
        both += np.int64(_popcount(shared))
        apart += np.int64(_popcount((s0[k] ^ s1[k]) & shared))
    return both, apart


@compiled
def _masked(nonzero: WordArray, negative: WordArray, called: WordArray) -> int:
    total = 0
    for k in range(len(called)):
        total += np.int64(_popcount(nonzero[k] & called[k]))
        total -= 2 * np.int64(_popcount(negative[k] & called[k]))
    return total


@compiled
def _shared(called: WordArray, other: WordArray) -> int:
    total = 0
    for k in range(len(called)):
        total += np.int64(_popcount(called[k] & other[k]))
    return total
