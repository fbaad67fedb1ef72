"""Exact sums of products of signs, kept as bits: 64 records in a word, of one reading.

Two bits say a sign: whether it is positive, and whether it is not zero. Where two features have no
zeros, their product sums to the number of records less twice the number of records in which the
first bits differ. Elsewhere the second bits mask both.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from hushcov._arrays import BoolArray, FloatArray, IntArray
from hushcov._compiled import compiled, run_parts, threads
from hushcov._compiled import popcount as _popcount
from hushcov.kernel.records.base import PartitionedRecords, Records, hands_out_arrays, source_of
from hushcov.kernel.sums.gram import PANEL_BYTES, pair_sums
from hushcov.kernel.sums.rows import RowSums, row_parts, rows_near

WordArray = npt.NDArray[np.uint64]
Eight = tuple[Any, Any, Any, Any, Any, Any, Any, Any]

# A cell has the bits of 512 records for 128 features: 8 rows of 128 words, which stay in the
# nearest cache while all rows of a strip meet them. Powers of two, known to the compiler.
_WORDS = 8
_WIDTH = 128
_CELL = _WORDS * _WIDTH
CELL_ROWS = 64 * _WORDS
_STRIP_ROWS = 32  # rows of sums that stay in the second cache meanwhile

_ALL_BITS = np.uint64(2**64 - 1)

PACKED_BYTES = 2**31  # most bytes of signs that are kept where that saves readings
PACKED_PANEL_BYTES = 2**25  # of sums, where signs are kept: a panel costs no reading
# Signs that wait to be multiplied, so that sums are seldom read and written: of so many records,
# and of fewer where they would take more bytes and are not kept.
TILE_ROWS, TILE_BYTES = 2**15, 2**26

#: Makes scores of a panel of products of signs, the sums of signs, and which features these are.
Score = Callable[[IntArray, IntArray, int, int], IntArray]


@dataclass
class SignTile:
    """Bits of the signs of some records: cells by rows, then by features."""

    n_features: int
    positive: WordArray
    nonzero: WordArray  # may be `positive` itself where `full` is true everywhere
    full: BoolArray  # by cell: whether no sign in it is zero
    n_rows: int = 0

    @classmethod
    def empty(cls, n_rows: int, n_features: int) -> SignTile:
        """Return room for so many records, rounded up to whole cells."""
        shape = -(-n_rows // CELL_ROWS), -(-n_features // _WIDTH)
        words = shape[0] * shape[1] * _CELL
        positive, nonzero = (np.zeros(words, dtype=np.uint64) for _ in range(2))
        return cls(n_features, positive, nonzero, np.zeros(shape, dtype=np.bool_))

    @property
    def n_free(self) -> int:
        """Number of records that still fit."""
        return len(self.full) * CELL_ROWS - self.n_rows

    def pack(self, block: Any, ready: Any) -> bool:
        """Add the signs of rows that `ready` centres, on all cores; False if one is not finite."""
        # No two threads get bits of the same word.
        cuts = _whole_words(len(block), self.n_rows % 64, len(row_parts(block, threads())))

        def pack(first: int, stop: int) -> bool:
            finite, position = True, self.n_rows + first
            for near in rows_near(block[first:stop]):
                with np.errstate(all="ignore"):
                    rows, whole = ready(near)
                _pack(rows, position, self.positive, self.nonzero, self.full.shape[1])
                finite, position = finite & whole, position + len(near)
            return finite

        finite = all(run_parts(pack, cuts))
        self.n_rows += len(block)
        return finite

    def finish(self) -> IntArray:
        """Find the cells without zeros; return the sums of signs."""
        sums = np.zeros(self.n_features, dtype=np.int64)
        self.full = self.full[: -(-self.n_rows // CELL_ROWS)]
        _finish(self.positive, self.nonzero, self.n_features, self.full, sums)
        return sums

    def add_products(self, start: int, sums: IntArray) -> None:
        """Add the sums of products of features from `start` on to rows of the upper triangle."""
        strips = -(-(start % _STRIP_ROWS + len(sums)) // _STRIP_ROWS)
        step = min(threads(), strips)
        planes = self.positive, self.nonzero, self.full, self.n_features
        run_parts(_add_products, [(*planes, start, sums, first, step) for first in range(step)])

    def add_pairs(self, rows: IntArray, columns: IntArray, sums: IntArray) -> None:
        """Add the sums of products of listed pairs of features, in any order."""
        cuts = np.linspace(0, len(rows), threads() + 1).astype(np.int64)
        planes = self.positive, self.nonzero, self.full
        parts = [*itertools.pairwise(cuts.tolist())]
        run_parts(_add_pairs, [(*planes, rows[a:b], columns[a:b], sums[a:b]) for a, b in parts])


def _whole_words(n_rows: int, filled: int, number: int) -> list[tuple[int, int]]:
    """Cut rows into so many parts, after the last bits of words; the first has `filled` bits."""
    words = -(-(filled + n_rows) // 64)
    ends = {64 * (words * k // number) - filled for k in range(1, number)}
    cuts = [0, *sorted(end for end in ends if 0 < end < n_rows), n_rows]
    return [*itertools.pairwise(cuts)]


@compiled
def _pack(
    rows: FloatArray, position: int, positive: WordArray, nonzero: WordArray, cells: int
) -> None:
    """Set the bits of rows from a position on, where so many `cells` lie side by side."""
    for a in range(len(rows)):
        word, bit = divmod(position + a, 64)
        shift = np.uint64(bit)
        for cell in range(cells):
            at = ((word // _WORDS * cells + cell) * _WORDS + word % _WORDS) * _WIDTH
            x = rows[a, cell * _WIDTH : (cell + 1) * _WIDTH]
            p, q = positive[at : at + len(x)], nonzero[at : at + len(x)]
            for j in range(len(x)):
                p[j] |= np.uint64(x[j] > 0.0) << shift
                q[j] |= np.uint64(x[j] != 0.0) << shift


@compiled
def _finish(
    positive: WordArray, nonzero: WordArray, d: int, full: BoolArray, sums: IntArray
) -> None:
    """Find cells without zeros, and add the sums of signs: twice the positive, less the nonzero."""
    cells = full.shape[1]
    for row in range(len(full)):
        for cell in range(cells):
            common = _ALL_BITS
            left, at = cell * _WIDTH, (row * cells + cell) * _CELL
            width = min(_WIDTH, d - left)
            for k in range(at, at + _CELL, _WIDTH):
                p, q, out = positive[k : k + width], nonzero[k : k + width], sums[left:]
                for j in range(width):
                    common &= q[j]
                    out[j] += 2 * np.int64(_popcount(p[j])) - np.int64(_popcount(q[j]))
            full[row, cell] = common == _ALL_BITS


@compiled
def _add_products(
    positive: WordArray,
    nonzero: WordArray,
    full: BoolArray,
    d: int,
    start: int,
    sums: IntArray,
    first: int,
    step: int,
) -> None:
    """Add products of features from `start` on, in strips of rows: the first and each step-th."""
    stop, cells = start + len(sums), full.shape[1]
    unused = np.empty(_WIDTH, dtype=np.int64)
    for top in range((start // _STRIP_ROWS + first) * _STRIP_ROWS, stop, step * _STRIP_ROWS):
        own, end = top // _WIDTH, min(stop, top + _STRIP_ROWS)
        for other in range(own, cells):
            right = min(d, (other + 1) * _WIDTH)
            for row in range(len(full)):
                a, b = (row * cells + own) * _CELL, (row * cells + other) * _CELL - other * _WIDTH
                simple = full[row, own] and full[row, other]
                for i in range(max(top, start), end, 2):
                    j = max(other * _WIDTH, i)
                    out = sums[i - start, j - start : right - start]
                    second = unused[: len(out)]
                    if i + 1 < end:
                        second = sums[i + 1 - start, j - start : right - start]
                    if simple:
                        _add_full(positive, a + i % _WIDTH, b + j, out, second)
                    else:
                        _add_masked(positive, nonzero, a + i % _WIDTH, b + j, out)
                        if i + 1 < end:
                            _add_masked(positive, nonzero, a + i % _WIDTH + 1, b + j, second)
        for i in range(max(top, start) + 1, end, 2):  # below the diagonal
            sums[i - start, i - 1 - start] = 0


@compiled
def _eight(w: WordArray, j: int) -> Eight:
    """Return the words of one feature in a cell, which `w` begins with."""
    low = w[j], w[_WIDTH + j], w[2 * _WIDTH + j], w[3 * _WIDTH + j]
    high = w[4 * _WIDTH + j], w[5 * _WIDTH + j], w[6 * _WIDTH + j], w[7 * _WIDTH + j]
    return (*low, *high)


@compiled
def _differences(a: Eight, b: Eight) -> Any:
    """Return in how many records first bits differ."""
    low = _popcount(a[0] ^ b[0]) + _popcount(a[1] ^ b[1]) + _popcount(a[2] ^ b[2])
    high = _popcount(a[5] ^ b[5]) + _popcount(a[6] ^ b[6]) + _popcount(a[7] ^ b[7])
    return np.int64(low + _popcount(a[3] ^ b[3]) + _popcount(a[4] ^ b[4]) + high)


@compiled
def _add_full(words: WordArray, at: int, to: int, out: IntArray, second: IntArray) -> None:
    """Add products of two features, at `at` and after, with those from `to` on: none has zeros."""
    a, b = _eight(words[at:], 0), _eight(words[at:], 1)
    others = words[to:]
    for j in range(len(out)):
        w = _eight(others, j)
        out[j] += CELL_ROWS - 2 * _differences(a, w)
        second[j] += CELL_ROWS - 2 * _differences(b, w)


@compiled
def _add_masked(words: WordArray, nonzero: WordArray, at: int, to: int, out: IntArray) -> None:
    """Add products of one feature, whatever is zero."""
    for k in range(0, _CELL, 2 * _WIDTH):
        a0, a1 = words[at + k], words[at + k + _WIDTH]
        m0, m1 = nonzero[at + k], nonzero[at + k + _WIDTH]
        if not (m0 | m1):
            continue
        w, v = words[to + k :], nonzero[to + k :]
        for j in range(len(out)):
            both0, both1 = m0 & v[j], m1 & v[j + _WIDTH]
            apart = _popcount((a0 ^ w[j]) & both0) + _popcount((a1 ^ w[j + _WIDTH]) & both1)
            out[j] += np.int64(_popcount(both0) + _popcount(both1)) - 2 * np.int64(apart)


@compiled
def _add_pairs(
    positive: WordArray,
    nonzero: WordArray,
    full: BoolArray,
    rows: IntArray,
    columns: IntArray,
    sums: IntArray,
) -> None:
    """Add products of listed pairs; the bits of one row of cells stay near for all of them."""
    cells = full.shape[1]
    for row in range(len(full)):
        for e in range(len(rows)):
            own, other = rows[e] // _WIDTH, columns[e] // _WIDTH
            a = (row * cells + own) * _CELL + rows[e] % _WIDTH
            b = (row * cells + other) * _CELL + columns[e] % _WIDTH
            if full[row, own] and full[row, other]:
                apart = _differences(_eight(positive[a:], 0), _eight(positive[b:], 0))
                sums[e] += CELL_ROWS - 2 * apart
            else:
                _add_masked(positive, nonzero, a, b, sums[e : e + 1])


class PackedSigns:
    """The signs of all records, as bits; `sums` has the sums of sgn(x_i) over them.

    The records are read once, here. On a cluster or a device use `sign_gram_and_sums`.
    """

    def __init__(self, records: Records) -> None:
        assert hands_out_arrays(records), "tiles would not come back from elsewhere"
        self._tiles: list[SignTile] = []
        self._n_features = d = records.n_features
        rows = _whole_cells(min(TILE_ROWS, records.n_rows))
        packing = _Tiles(keep_tile, (self._tiles,), (d,), tile_shape=(rows, d))
        self.sums = records.map_sum(packing)

    def gram(self, start: int = 0, stop: int | None = None) -> IntArray:
        """Return what `sign_gram_and_sums` does, without reading a record again."""
        stop = self._n_features if stop is None else stop
        sums = np.zeros((stop - start, self._n_features - start), dtype=np.int64)
        for tile in self._tiles:
            tile.add_products(start, sums)
        return sums


def sign_gram_and_sums(
    records: Records, start: int = 0, stop: int | None = None
) -> tuple[IntArray, IntArray]:
    """Return the sums over records of sgn(x_i) sgn(x_j), and those of sgn(x_i); sgn(0) is 0.

    The rows of the matrix are features `start` to `stop` - 1, its columns and the sums are of
    features from `start` on. Entries below the diagonal may be left out, as zeros.
    """
    stop = records.n_features if stop is None else stop
    shape = (1 + stop - start, records.n_features - start)
    panel = _Tiles(add_panel, (start, stop), shape, tile_shape=_waiting(records))
    found = records.map_sum(panel)
    return found[1:], found[0]


def sign_scores(records: Records, score: Score, largest: int) -> NDArray[Any]:
    """Return `pair_sums` of `score(products, sums, start, stop)`, for panels of products of signs.

    Records whose signs fit into `signs_kept` bytes are read once. For others, and on a cluster or a
    device, there is a pass for each panel of sums.
    """
    d = records.n_features
    if records.on_device and d > 1 and not isinstance(source_of(records), PartitionedRecords):
        from hushcov.engines import device

        return np.asarray(device.sign_scores(records, score, largest))
    if not (signs_kept(records.n_records, d) and hands_out_arrays(records)):
        return pair_sums(lambda i, j: score(*sign_gram_and_sums(records, i, j), i, j), d, largest)
    signs = PackedSigns(records)

    def panel(start: int, stop: int) -> IntArray:
        return score(signs.gram(start, stop), signs.sums[start:], start, stop)

    return pair_sums(panel, d, largest, panel_bytes=PACKED_PANEL_BYTES)


def candidate_sign_sums(
    records: Records, rows: IntArray, columns: IntArray
) -> tuple[IntArray, IntArray]:
    """Return the sums of sgn(x_i) sgn(x_j) of listed pairs, and of sgn(x_i) of all features.

    They take one reading and nothing of size n_features^2.
    """
    shape = (len(rows) + records.n_features,)
    pairs = _Tiles(add_pairs, (rows, columns), shape, tile_shape=_waiting(records))
    found = records.map_sum(pairs)
    return found[: len(rows)], found[len(rows) :]


def signs_kept(n_records: int, n_features: int) -> int:
    """Return bytes of signs that `sign_scores` keeps, at most; 0 if none.

    They are kept where there would be several readings without them, or more bytes of sums.
    """
    signs, sums = 2 * n_records * n_features // 8 + 1, 8 * n_features**2
    return signs if signs <= (PACKED_BYTES if sums > PANEL_BYTES else sums) else 0


def _waiting(records: Records) -> tuple[int, int]:
    """Return the shape of a tile of signs that wait to be multiplied."""
    most = TILE_BYTES * 8 // (2 * records.n_features)
    return _whole_cells(min(TILE_ROWS, most, records.n_rows)), records.n_features


def _whole_cells(n_rows: int) -> int:
    return max(1, n_rows // CELL_ROWS) * CELL_ROWS


@dataclass(frozen=True, eq=False)
class _Tiles(RowSums):
    """Sums of signs and their products: rows are packed into tiles, the kernel takes full ones.

    It is `kernel(tile, sums of signs, *arguments, total)`; on a device it is one of that name.
    """

    tile_shape: tuple[int, int] = (0, 0)

    def begin(self) -> list[Any]:
        return [SignTile.empty(*self.tile_shape), np.zeros(self.shape, dtype=np.int64)]

    def add(self, block: Any, sums: list[Any]) -> bool:
        while len(block):
            fitting = min(len(block), sums[0].n_free)
            if not sums[0].pack(block[:fitting], self.ready):
                return False
            if not sums[0].n_free:
                self.total(sums)
                sums[0] = SignTile.empty(*self.tile_shape)
            block = block[fitting:]
        return True

    def total(self, sums: list[Any]) -> IntArray:
        tile, total = sums
        if tile.n_rows:
            self.kernel(tile, tile.finish(), *self.arguments, total)
        return np.asarray(total)


def add_panel(tile: SignTile, signs: IntArray, start: int, stop: int, total: IntArray) -> None:
    """Add the sums of signs as a first row, and those of products of features start..stop-1."""
    total[0] += signs[start:]
    tile.add_products(start, total[1:])


def add_pairs(
    tile: SignTile, signs: IntArray, rows: IntArray, columns: IntArray, total: IntArray
) -> None:
    """Add the sums of products of listed pairs, and after them those of signs."""
    tile.add_pairs(rows, columns, total[: len(rows)])
    total[len(rows) :] += signs


def keep_tile(tile: SignTile, signs: IntArray, tiles: list[SignTile], total: IntArray) -> None:
    """Add the sums of signs, and keep the tile in this process."""
    total += signs
    tile.nonzero = tile.positive if tile.full.all() else tile.nonzero
    tiles.append(tile)
