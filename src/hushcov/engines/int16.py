"""Exact Gram matrices of integers of two bytes, by the integer products of the processor.

An instruction (AVX-512 or AVX2: vpmaddwd, vpdpwssd) multiplies 32 or 16 pairs of integers of two
bytes, and adds products in twos to sums of four bytes: up to four times as many as of doubles. So
two rows go together: the integers of a feature in both are the halves of a word of four bytes.
Words lie by strips of rows, panels of features, pairs of rows and features, and sums of a tile of
the matrix stay in registers while pairs of rows go by.

Sums of four bytes must not overflow. For rows of a chunk, the sum of z_i z_j is at most the larger
sum of squares of i and j (Cauchy-Schwarz), and so is that of some of these rows. A chunk ends
before the sum of squares of any feature passes 2^31 - 1; then its sums are added to int64. Two rows
of integers within 32767 always fit.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcov._arrays import FloatArray, IntArray
from hushcov._compiled import compiled, intrinsic, run_parts, share_out
from hushcov._triangle import mirror
from hushcov.kernel.sums.gram import GramSoFar

#: Rows of a strip. The words of a panel then stay in the nearest cache.
STRIP = 256
#: A strip of more chunks is quicker in doubles.
MOST_CHUNKS = STRIP // 6

_PANEL, _ROWS = 32, 8  # a tile has so many columns, and rows
_PAIRS = STRIP // 2
_LARGEST_SUM = np.uint32(2**31 - 1)
_NEAR = 2**18  # integers that are packed while they are in cache
_HALF, _LOW = np.int32(16), np.int32(0xFFFF)

#: Words by strip, panel, pair of rows and feature.
Words = NDArray[np.int32]


class PackedSoFar(GramSoFar):
    """An exact Gram matrix so far, in integers of two bytes; in doubles where chunks are short."""

    def __init__(self, n_features: int, half_width: int) -> None:
        super().__init__(n_features, half_width)
        self._gram = empty_gram(n_features)
        self._words, self._ends = empty_words(0, n_features)

    def take(self, parts: list[tuple[Any, ...]], sizes: list[int], fill: Any) -> bool:
        """See `GramSoFar`."""
        d = len(self.recent)
        stops = np.cumsum([-(-size // STRIP) for size in sizes])
        if len(self._words) < stops[-1]:
            self._words, self._ends = empty_words(stops[-1], d)
        words, ends = self._words[: stops[-1]], self._ends[: stops[-1]]
        own = np.split(words, stops[:-1]), np.split(ends, stops[:-1])
        jobs = [(fill, *each) for each in zip(sizes, *own, parts, strict=True)]
        if not all(run_parts(_pack, jobs)):
            return False
        for strip in np.flatnonzero(np.count_nonzero(ends, axis=1) > MOST_CHUNKS):
            self.add(unpacked(words[strip], d)[: 2 * ends[strip].max()])
            ends[strip] = 0
        add_products(words, ends, self._gram)
        return True

    def total(self) -> IntArray:
        """See `GramSoFar`."""
        gram = whole(self._gram, len(self.recent))
        del self._gram, self._words
        if self.n_rows or self.settled is not None:
            gram += super().total()
        return gram


def _pack(fill: Any, size: int, words: Any, ends: IntArray, part: tuple[Any, ...]) -> bool:
    """Make rows integers, and pack them: a few strips at a time, or where there are units all."""
    rows, *starts = part
    finite, d = True, rows.shape[1]
    strips = len(words) if starts else max(1, _NEAR // (d * STRIP))
    step = strips * STRIP
    near = np.empty((min(step, size), d))
    for first in range(0, size, step):
        integers, begin = near[: size - first], first // STRIP
        finite &= fill(integers, rows if starts else rows[first : first + step], *starts)
        own = slice(begin, begin + strips)
        pack_rows(integers, words[own], ends[own])
    return finite


@functools.cache
def vector_words() -> int:
    """Return how many words the processor multiplies at once; 0 where it has no such products."""
    from numba.core.registry import cpu_target

    try:
        features = cpu_target.target_context.codegen().magic_tuple()[2].split(",")
    except AttributeError:  # another numba, which says it elsewhere: products in doubles
        return 0
    return 16 if "+avx512bw" in features else 8 if "+avx2" in features else 0


def empty_words(n_strips: int, n_features: int) -> tuple[Words, IntArray]:
    """Return room for strips, and for ends of their chunks; features beyond the last are zero."""
    words = np.zeros((n_strips, -(-n_features // _PANEL), _PAIRS, _PANEL), dtype=np.int32)
    return words, np.zeros((n_strips, _PAIRS), dtype=np.int64)


def empty_gram(n_features: int) -> IntArray:
    """Return zeros for the columns of each panel: rows of a tile lie one after the other."""
    n_panels = -(-n_features // _PANEL)
    return np.zeros((n_panels, n_panels * _PANEL, _PANEL), dtype=np.int64)


def whole(panels: IntArray, n_features: int) -> IntArray:
    """Return the matrix whose columns above the diagonal lie by panels."""
    gram = np.empty((n_features, n_features), dtype=np.int64)
    for panel, start in zip(panels, range(0, n_features, _PANEL), strict=True):
        own = gram[: start + _PANEL, start : start + _PANEL]
        own[:] = panel[: len(own), : own.shape[1]]
    mirror(gram)
    return gram


def unpacked(words: Words, n_features: int) -> FloatArray:
    """Return the rows of one strip in doubles."""
    halves = words.view(np.int16).reshape(-1, _PAIRS, _PANEL, 2).transpose(1, 3, 0, 2)
    return halves.reshape(STRIP, -1)[:, :n_features].astype(np.float64)


def add_products(words: Words, ends: IntArray, gram: IntArray) -> None:
    """Add the products of strips to a matrix, above its diagonal and in panels that it crosses."""
    panels = range(words.shape[1])[::-1]  # those with most tiles first
    share_out(lambda panel: _add_panel(words, ends, panel, gram), panels)


@compiled
def pack_rows(integers: FloatArray, words: Words, ends: IntArray) -> None:
    """Make rows the words of strips, and fill in where chunks end; zeros follow the last end.

    A last single row goes with zeros.
    """
    d, n_panels, chunk = integers.shape[1], words.shape[1], 0
    flat, line, nothing = words.ravel(), np.zeros(n_panels * _PANEL, np.int32), np.zeros((1, d))
    squares = np.zeros((2, d), dtype=np.uint32)  # of the chunk so far, and of two rows
    ends[:] = 0
    for a in range(0, len(integers), 2):
        strip, pair = a // STRIP, a % STRIP // 2
        other, b = (integers, a + 1) if a + 1 < len(integers) else (nothing, 0)
        largest = _pair_rows(integers, a, other, b, line, squares)
        for panel in range(n_panels):
            place = np.uint64(((strip * n_panels + panel) * _PAIRS + pair) * _PANEL)
            start = np.uint64(panel * _PANEL)
            for i in range(np.uint64(_PANEL)):
                flat[place + i] = line[start + i]
        begins = pair == 0 or largest > _LARGEST_SUM
        if pair == 0:
            chunk = 0
        elif begins:
            ends[strip, chunk] = pair
            chunk += 1
        for i in range(d):  # adding whole rows takes a second longer to compile
            squares[0, i] = squares[1, i] + (np.uint32(0) if begins else squares[0, i])
        ends[strip, chunk] = pair + 1


@compiled
def _pair_rows(
    above: FloatArray, a: int, below: FloatArray, b: int, line: Words, squares: Any
) -> Any:
    """Make two rows words, and fill in their squares; return the largest sum with those before."""
    largest = np.uint32(0)
    for i in range(np.uint64(above.shape[1])):
        x, y = np.int32(above[a, i]), np.int32(below[b, i])
        line[i] = np.int32(y << _HALF) | np.int32(x & _LOW)
        own = np.uint32(np.int32(x * x) + np.int32(y * y))
        squares[1, i] = own
        largest = max(largest, np.uint32(squares[0, i] + own))
    return largest


@compiled
def _add_panel(words: Words, ends: IntArray, panel: int, gram: IntArray) -> None:
    """Add the products of features up to a panel with those in it."""
    flat, sums = words.ravel(), gram.ravel()
    for strip in range(words.shape[0]):
        base = strip * words.shape[1] * _PAIRS * _PANEL
        right = base + panel * _PAIRS * _PANEL
        for top in range(0, (panel + 1) * _PANEL, _ROWS):
            left = base + top // _PANEL * _PAIRS * _PANEL + top % _PANEL
            to, begin = (panel * gram.shape[1] + top) * _PANEL, 0
            for end in ends[strip]:
                if end > 0:
                    at = begin * _PANEL
                    _add_tile(flat, left + at, right + at, end - begin, sums, to)
                    begin = end


@intrinsic
def _add_tile(
    context: Any, words: Any, left: Any, right: Any, n_pairs: Any, sums: Any, to: Any
) -> Any:
    """Add products of pairs of rows: `_ROWS` features from `left` on, a panel's from `right` on.

    As many parts of the tile as have room in registers, one after the other.
    """
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils as untyped

    cgutils: Any = untyped
    lanes = vector_words()
    rows, n_vectors = (8, 2) if lanes == 16 else (4, 2)
    name = f"llvm.x86.avx{'512.pmaddw.d.512' if lanes == 16 else '2.pmadd.wd'}"
    short, word, long = (ir.IntType(bits) for bits in (16, 32, 64))
    vector, halves = ir.VectorType(word, lanes), ir.VectorType(short, 2 * lanes)

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, left, right, n_pairs, _, to = arguments
        multiply = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(vector, [halves, halves]), name
        )

        def pointer(which: int, place: Any, shift: int, kind: Any) -> Any:
            array = context.make_array(signature.args[which])(context, builder, arguments[which])
            start = builder.gep(array.data, [builder.add(place, long(shift))])
            return builder.bitcast(start, kind.as_pointer())

        def add_part(top: int, first: int) -> None:
            columns = [first + lanes * v for v in range(n_vectors)]
            places = itertools.product(range(top, top + rows), columns)
            parts = {place: cgutils.alloca_once(builder, vector) for place in places}
            for part in parts.values():
                builder.store(vector([0] * lanes), part)
            with cgutils.for_range(builder, n_pairs) as loop:
                at = builder.mul(loop.index, long(_PANEL))
                own = builder.add(right, at)
                others = {c: builder.load(pointer(0, own, c, halves), align=4) for c in columns}
                for r in range(top, top + rows):
                    one = builder.load(pointer(0, builder.add(left, at), r, word))
                    spread = builder.insert_element(vector(ir.Undefined), one, word(0))
                    spread = builder.shuffle_vector(spread, spread, vector([0] * lanes))
                    spread = builder.bitcast(spread, halves)
                    for c in columns:
                        products = builder.call(multiply, [spread, others[c]])
                        part = parts[r, c]
                        builder.store(builder.add(builder.load(part), products), part)
            for (r, c), part in parts.items():
                place = pointer(4, to, _PANEL * r + c, ir.VectorType(long, lanes))
                more = builder.sext(builder.load(part), place.type.pointee)
                builder.store(builder.add(builder.load(place, align=8), more), place, align=8)

        for top in range(0, _ROWS, rows):
            for first in range(0, _PANEL, lanes * n_vectors):
                add_part(top, first)
        return context.get_dummy_value()

    place = types.int64
    return types.void(words, place, place, place, sums, place), code
