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

from hushcov._arrays import (
    LARGEST_EXACT_FLOAT32,
    LARGEST_SUM,
    BoolArray,
    Float32Array,
    FloatArray,
    IntArray,
)
from hushcov._compiled import compiled, even_parts, popcount, run_parts

CodeArray = npt.NDArray[np.uint32]
WordArray = npt.NDArray[np.uint64]

#: Records in a word of codes, and words that rows are filled up to: whole lines of the cache.
CODES = 16
ROW_WORDS = 16
#: The code of a missing call.
MISSING_CODE = 1
#: What stands for anything that is no genotype.
WRONG_CODE = np.uint32(4)

_LOW, _HIGH = np.uint64(0x5555555555555555), np.uint64(0xAAAAAAAAAAAAAAAA)
_BIT = np.uint64(1)
# Words of codes for which sums of a window stay in the nearest cache; words of bits, and variants,
# whose planes stay in the second.
_NORM_WORDS = 512
_FLOAT_STEPS = 256
# Each step rounds three times, and rounding loses at most 2^-24: together less than this.
_MORE = 1 + 2.0**-14
_BEYOND = np.iinfo(np.int64).max
_PLANE_WORDS = 512
_PLANE_VARIANTS = 64


def row_words(n_records: int) -> int:
    """Return how many words a variant has."""
    return -(-n_records // (CODES * ROW_WORDS)) * ROW_WORDS


def count_codes(codes: CodeArray, n_records: int) -> tuple[IntArray, IntArray]:
    """Return by variant the sum of x = copies - 1 where called, and how many are called."""
    found = np.empty((len(codes), 2), dtype=np.int64)
    words = codes.view(np.uint64)
    run_parts(_count, [(*part, words, n_records, found) for part in even_parts(len(codes), 16)])
    return found[:, 0].copy(), found[:, 1].copy()


@compiled
def _bits(word: Any) -> int:
    return np.int64(popcount(word))  # type: ignore[return-value]


@compiled
def _count(start: int, stop: int, words: WordArray, n_records: int, found: IntArray) -> None:
    for variant in range(start, stop):
        low, high, both = 0, 0, 0
        for word in words[variant]:
            low += _bits(word & _LOW)
            high += _bits(word & _HIGH)
            both += _bits(word & (word >> _BIT) & _LOW)
        missing = low - both
        # None: both bits. Two: neither, and what fills the row is zero.
        found[variant, 0] = (n_records - low - high + both) - both
        found[variant, 1] = n_records - missing


def pack_calls(calls: Any, codes: CodeArray) -> bool:
    """Pack numbers of copies, records by variants; negative or NaN where missing.

    False if there is anything else.
    """
    kind = np.int8 if calls.dtype in (np.int8, np.bool_) else np.float64
    table = np.array(calls, dtype=kind, order="C")  # a copy: loops are compiled for each layout
    jobs = [(*part, table, codes) for part in even_parts(codes.shape[1], 64)]
    return all(run_parts(_pack, jobs))


@compiled
def _pack(start: int, stop: int, calls: Any, codes: CodeArray) -> bool:
    n, d = calls.shape
    words = np.empty(d, dtype=np.uint32)
    right = True
    for place in range(start, stop):
        words[:] = 0
        for r in range(min(CODES, n - place * CODES)):
            row, shift = calls[place * CODES + r], np.uint32(2 * r)
            for v in range(d):
                code = _code(row[v])
                right &= code < WRONG_CODE
                words[v] |= np.uint32(code << shift)
        for v in range(d):
            codes[v, place] = words[v]
    return right


@compiled
def _code(copies: Any) -> Any:
    """Return the code of 0, 1 or 2 copies, or of a missing call."""
    called = np.uint32(3) if copies == 0 else np.uint32(2) if copies == 1 else WRONG_CODE
    called = np.uint32(0) if copies == 2 else called
    return np.uint32(MISSING_CODE) if copies < 0 or copies != copies else called  # noqa: PLR0124


def squares_of(slopes: IntArray, offsets: IntArray) -> IntArray:
    """Return squares of slope * copies - offset by code: two copies, missing, one, none."""
    values = np.stack([2 * slopes - offsets, 0 * slopes, slopes - offsets, -offsets], axis=1)
    return values * values


def norm_bounds(
    codes: CodeArray, squares: IntArray, ends: IntArray, pair: int, diagonal: int
) -> IntArray:
    """Return by record at least pair * sum of u_i u_j + diagonal * sum of u_i^2.

    `u` are the squares of variants. The first sum is over i in 0..len(ends)-1 and j from i + 1 to
    ends[i] - 1, the second over i, where it is called. Sums are taken in float32, where many fit
    into a register: squares are rounded up so far that sums of a window are exact, and what adding
    these up may lose is added in the end, less than 1 in 10,000.
    """
    widest = int(np.max(ends - np.arange(len(ends)), initial=1)) + 1
    unit = 1
    while -(-int(squares.max(initial=0)) // unit) * widest > LARGEST_EXACT_FLOAT32:
        unit *= 2
    # The last row of each is for steps that no variant enters, or leaves.
    tables = np.zeros((len(codes) + 1, 8), dtype=np.float32)
    tables[:-1, :4] = -(-squares // unit)
    scale = pair * unit**2
    own = diagonal / scale * squares.astype(np.float64) ** 2
    own[:, MISSING_CODE] = 0
    tables[:-1, 4:] = np.where(own > 0, np.nextafter(own.astype(np.float32), np.float32(np.inf)), 0)
    sums = np.zeros((codes.shape[1], CODES))
    parts = even_parts(codes.shape[1] // ROW_WORDS, 4)
    jobs = [
        (a * ROW_WORDS, b * ROW_WORDS, codes, window_steps(ends), tables, sums) for a, b in parts
    ]
    run_parts(_add_norms, jobs)
    sums *= scale * _MORE
    fits = sums < LARGEST_SUM
    return np.where(fits, np.ceil(np.where(fits, sums, 0)).astype(np.int64), _BEYOND)


def window_steps(ends: IntArray) -> IntArray:
    """Return which variant enters the window and which leaves it in each step; -1 where none does.

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
    start: int, stop: int, codes: CodeArray, steps: IntArray, tables: Float32Array, sums: FloatArray
) -> None:
    """Slide the window over the variants, for places start..stop-1 of words."""
    inside = np.empty((CODES, _NORM_WORDS), dtype=np.float32)
    totals = np.empty((CODES, _NORM_WORDS), dtype=np.float32)
    for left in range(start, stop, _NORM_WORDS):
        width = min(_NORM_WORDS, stop - left)
        inside[:] = 0
        for first in range(0, len(steps), _FLOAT_STEPS):
            totals[:] = 0
            for s in range(first, min(first + _FLOAT_STEPS, len(steps))):
                j, i = steps[s]
                enter, leave = codes[j, left : left + width], codes[i, left : left + width]
                for t in range(CODES):
                    bit = np.uint32(1 << (2 * t))
                    _slide(enter, leave, bit, tables[j], tables[i], inside[t], totals[t])
            for t in range(CODES):
                for k in range(width):
                    sums[left + k, t] += totals[t, k]


@compiled
def _slide(
    enter: CodeArray,
    leave: CodeArray,
    bit: Any,
    new: Float32Array,
    old: Float32Array,
    inside: Float32Array,
    totals: Float32Array,
) -> None:
    """Let one variant enter and one leave, whose codes have the bits `bit` and the next one."""
    high = np.uint32(2 * bit)
    u0, u1, u2, u3 = new[0], new[1], new[2], new[3]
    v0, v1, v2, v3, w0, w1, w2, w3 = old[0], old[1], old[2], old[3], old[4], old[5], old[6], old[7]
    for k in range(len(enter)):
        a, b = enter[k], leave[k]
        low, second = np.uint32(a & bit) != 0, np.uint32(b & bit) != 0
        a_high, b_high = np.uint32(a & high) != 0, np.uint32(b & high) != 0
        u = (u3 if low else u2) if a_high else (u1 if low else u0)
        v = (v3 if second else v2) if b_high else (v1 if second else v0)
        w = (w3 if second else w2) if b_high else (w1 if second else w0)
        others = inside[k] + u - v
        inside[k] = others
        totals[k] += v * others + w


def kept_words(kept: BoolArray, n_words: int) -> WordArray:
    """Return bits of records as in planes: of 64 the first 32 are even bits."""
    bits = np.zeros((n_words, 2, 32), dtype=np.uint8)
    bits.reshape(-1)[: len(kept)] = kept
    mixed = np.ascontiguousarray(bits.transpose(0, 2, 1)).reshape(n_words, 64)
    return np.packbits(mixed, axis=1, bitorder="little").view("<u8")[:, 0].astype(np.uint64)


def product_sums(
    codes: CodeArray, kept: BoolArray, slopes: IntArray, offsets: IntArray, ends: IntArray
) -> tuple[IntArray, IntArray]:
    """Return sums over kept records of v_i v_j, i < j < ends[i], and of v_i^2."""
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
    """Add products of variants start..stop-1, by strips of records and of variants."""
    n_words = len(mask)
    strips = -(-n_words // _PLANE_WORDS)
    room = 1
    for top in range(start, stop, _PLANE_VARIANTS):
        room = max(room, ends[min(stop, top + _PLANE_VARIANTS) - 1] - top)
    most = -(-n_words // strips)
    planes = np.empty((room, 3 * most), dtype=np.uint64)
    facts, crossed = np.empty((room, 4), dtype=np.int64), np.empty(room, dtype=np.int64)
    for top in range(start, stop, _PLANE_VARIANTS):
        bottom = min(stop, top + _PLANE_VARIANTS)
        for strip in range(strips):
            left, right = n_words * strip // strips, n_words * (strip + 1) // strips
            width = right - left
            for v in range(top, ends[bottom - 1]):
                row = planes[v - top, : 3 * width]
                _fill_planes(words[v, 2 * left : 2 * right], mask[left:right], row, facts[v - top])
            for i in range(top, bottom):
                a, c = lines[i]
                f = facts[i - top]
                own[i] += a * a * f[0] + 2 * a * c * f[1] + c * c * f[2]
                _one_variant(planes, 3 * width, i - top, ends[i] - top, crossed)
                mine = planes[i - top, : 3 * width]
                for j in range(i + 1, ends[i]):
                    other, g = planes[j - top, : 3 * width], facts[j - top]
                    moments = _moments(crossed[j - top], mine, other, f, g)
                    pairs[places[i] + j - i - 1] += _of_lines(moments, lines[i], lines[j])


@compiled
def _one_variant(planes: WordArray, width: int, i: int, end: int, crossed: IntArray) -> None:
    """Sum x_i x_j for all j after i, four at a time: bits of i are loaded once for them."""
    row = planes[i, :width]
    j = i + 1
    while j + 4 <= end:
        p, q, r, s = (
            planes[j, :width],
            planes[j + 1, :width],
            planes[j + 2, :width],
            planes[j + 3, :width],
        )
        crossed[j], crossed[j + 1], crossed[j + 2], crossed[j + 3] = _crossed_four(row, p, q, r, s)
        j += 4
    while j < end:
        crossed[j] = _crossed(row, planes[j, :width])
        j += 1


@compiled
def _fill_planes(words: WordArray, mask: WordArray, row: WordArray, facts: IntArray) -> None:
    """Fill bits of a variant (not zero, negative, called), their counts, and missing calls."""
    n = len(mask)
    nonzero, negative, called = row[:n], row[n : 2 * n], row[2 * n :]
    n_nonzero, n_negative, n_called, n_kept = 0, 0, 0, 0
    for k in range(n):
        a, b, m = words[2 * k], words[2 * k + 1], mask[k]
        low = (a & _LOW) | ((b & _LOW) << _BIT)
        high = ((a >> _BIT) & _LOW) | (b & _HIGH)
        nonzero[k] = ~(low ^ high) & m
        negative[k] = low & high & m
        called[k] = (high | ~low) & m
        n_nonzero += _bits(nonzero[k])
        n_negative += _bits(negative[k])
        n_called += _bits(called[k])
        n_kept += _bits(m)
    facts[0], facts[1], facts[2] = n_nonzero, n_nonzero - 2 * n_negative, n_called
    facts[3] = n_kept - n_called


@compiled
def _moments(
    xx: int, row: WordArray, other: WordArray, f: IntArray, g: IntArray
) -> tuple[int, int, int, int]:
    """Return sums of x_i x_j, x_i m_j, m_i x_j and m_i m_j; m is 1 where there is a call."""
    if not f[3] and not g[3]:
        return xx, f[1], g[1], g[2]
    n = len(row) // 3
    n0, s0, c0 = row[:n], row[n : 2 * n], row[2 * n :]
    n1, s1, c1 = other[:n], other[n : 2 * n], other[2 * n :]
    in0, below0, in1, below1, mm = 0, 0, 0, 0, 0
    for k in range(n):
        in0 += _bits(n0[k] & c1[k])
        below0 += _bits(s0[k] & c1[k])
        in1 += _bits(n1[k] & c0[k])
        below1 += _bits(s1[k] & c0[k])
        mm += _bits(c0[k] & c1[k])
    return xx, in0 - 2 * below0, in1 - 2 * below1, mm


@compiled
def _of_lines(moments: tuple[int, int, int, int], line: IntArray, other: IntArray) -> int:
    """Return the sum of (a x_i + c m_i) (b x_j + e m_j)."""
    xx, xm, mx, mm = moments
    a, c, b, e = line[0], line[1], other[0], other[1]
    return int(a * b * xx + a * e * xm + c * b * mx + c * e * mm)


@compiled
def _crossed(row: WordArray, other: WordArray) -> int:
    """Return the sum of x_i x_j: where neither is zero, less twice where signs differ."""
    n = len(row) // 3
    n0, s0, n1, s1 = row[:n], row[n : 2 * n], other[:n], other[n : 2 * n]
    both, apart = 0, 0
    for k in range(n):
        shared = n0[k] & n1[k]
        both += _bits(shared)
        apart += _bits((s0[k] ^ s1[k]) & shared)
    return both - 2 * apart


@compiled
def _crossed_four(
    row: WordArray, p: WordArray, q: WordArray, r: WordArray, s: WordArray
) -> tuple[int, int, int, int]:
    n = len(row) // 3
    n0, s0, n1, s1 = row[:n], row[n : 2 * n], p[:n], p[n : 2 * n]
    n2, s2, n3, s3, n4, s4 = q[:n], q[n : 2 * n], r[:n], r[n : 2 * n], s[:n], s[n : 2 * n]
    b1, a1, b2, a2, b3, a3, b4, a4 = 0, 0, 0, 0, 0, 0, 0, 0
    for k in range(n):
        nonzero, negative = n0[k], s0[k]
        both = nonzero & n1[k]
        b1 += _bits(both)
        a1 += _bits((negative ^ s1[k]) & both)
        both = nonzero & n2[k]
        b2 += _bits(both)
        a2 += _bits((negative ^ s2[k]) & both)
        both = nonzero & n3[k]
        b3 += _bits(both)
        a3 += _bits((negative ^ s3[k]) & both)
        both = nonzero & n4[k]
        b4 += _bits(both)
        a4 += _bits((negative ^ s4[k]) & both)
    return b1 - 2 * a1, b2 - 2 * a2, b3 - 2 * a3, b4 - 2 * a4
