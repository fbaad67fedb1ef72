"""Counts of records: by the size or place of each feature, by norm, and without missing values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hushcov._arrays import LARGEST_EXACT_FLOAT, FloatArray, IntArray
from hushcov._compiled import compiled
from hushcov._validation import check_integer
from hushcov.exceptions import ParameterError
from hushcov.kernel.grids import FeatureGrid, check_numbers
from hushcov.kernel.records.base import Records
from hushcov.kernel.sums.rows import (
    MISSING,
    Multipliers,
    Reaches,
    RowSums,
    centre_row,
    count_below,
    finite_row,
    round_row,
    square_norm,
)

# Bins of `log2_histogram`: values from 2^-64 (5e-20) up to 2^64 (2e19) have bins of their own.
SMALLEST_EXPONENT = -64
LARGEST_EXPONENT = 64
N_BINS = LARGEST_EXPONENT - SMALLEST_EXPONENT + 2

# Bins of `signed_octaves`: the same octaves on both sides, larger values in the last ones, and one
# bin for what is hardly anything.
N_OCTAVES = LARGEST_EXPONENT - SMALLEST_EXPONENT
N_SIGNED_BINS = 2 * N_OCTAVES + 1
# Differences of cells up to this are exact in doubles, and so is the sum of two.
_LARGEST_CELL = LARGEST_EXACT_FLOAT // 2

# A double is sign, 11 bits of exponent, 52 bits of fraction. Its size lies in [2^e, 2^(e+1)) for
# e the exponent bits minus 1023; zero and subnormal numbers have exponent bits 0.
_FRACTION_BITS = 52
_EXPONENT_MASK = 0x7FF
_EXPONENT_OF_ONE = 1023
# The exponent bits of the smallest value that is not in bin 0 become 1.
OCTAVE_SHIFT = 1 - (_EXPONENT_OF_ONE + SMALLEST_EXPONENT)

_ROWS_TOGETHER = 4  # rows of which octaves are counted together
_BINS_TOGETHER = 2**12  # values of a column whose bins are filled in together
_ONE_EACH = "give one for each of the columns, public or released."


def log2_histogram(records: Records) -> IntArray:
    """Count for each feature (row) the records whose value lies in each octave (column).

    Column k of the `N_BINS` columns counts |x| in [2^(k-65), 2^(k-64)). Column 0 counts all smaller
    values, zeros included, and the last column all larger ones. The octave is read from the bits of
    a number, so the counts are the same on every machine.

    Privacy
    -------
    Nothing here is private by itself. A record adds one count to every row, so replacing a
    record moves the counts by at most sqrt(2 n_features) in Euclidean norm.
    """
    counts = RowSums(count_octaves, (), (records.n_features, N_BINS), centring=False)
    return records.map_sum(counts)


@compiled
def count_octaves(block: FloatArray, counts: IntArray) -> bool:
    """Count rows by octave."""
    finite, last = True, counts.shape[1] - 1
    for a in range(block.shape[0]):
        if not finite_row(block[a]):
            finite = False
            continue
        bits = block[a].view(np.int64)
        for i in range(len(bits)):
            octave = (bits[i] >> _FRACTION_BITS & _EXPONENT_MASK) + OCTAVE_SHIFT
            counts[i, min(max(octave, 0), last)] += 1
    return finite


def signed_octaves(
    records: Records, centre: FloatArray, nothing: FloatArray, columns: IntArray
) -> IntArray:
    """Return the counts of `signed_octaves_of`.

    Privacy
    -------
    Nothing here is private by itself. A record adds at most one count to every row, whatever its
    values. So replacing one moves the counts by at most sqrt(2 n_columns) in Euclidean norm.
    """
    counts = signed_octaves_of(records.n_features, centre, nothing, columns)
    return records.map_sum_complete(counts)


def signed_octaves_of(
    n_features: int, centre: FloatArray, nothing: FloatArray, columns: IntArray
) -> RowSums:
    """Count for each of some columns (row) in which octave about its centre the values lie.

    With y = x - centre, bins 0 to 127 count negative y by octave, [2^k, 2^(k+1)) for k from -64 to
    63, and bins 128 to 255 positive y. Larger y are in the last octave. Bin 256 counts |y| below
    2^-64 or at most `nothing`. The difference is rounded once, and its octave read from its bits,
    so the counts are the same on every machine, whatever the block size and the order of the
    records. Records that `CompleteRecords` leaves out count nowhere, and others once in every row.
    `columns` are indices of features; `centre` and `nothing` have one number for each of them,
    public or released.
    """
    columns = _check_columns(columns, n_features)
    arguments = (
        check_numbers("centre", centre, len(columns), cure=_ONE_EACH),
        check_numbers("nothing", nothing, len(columns), at_least=0, finite=False, cure=_ONE_EACH),
        columns,
    )
    return Octaves(count_signed_octaves, arguments, (len(columns), N_SIGNED_BINS), centring=False)


@dataclass(frozen=True, eq=False)
class Octaves(RowSums):
    """Counts of `signed_octaves_of`; in place of rows, bins may come that `fill_bins` filled."""

    def add_rows(self, total: Any, rows: Any, *starts: IntArray) -> bool:
        """See `RowSums`."""
        if rows.dtype != np.int16:
            return super().add_rows(total, rows)
        count_bins(rows, total)
        return True


@compiled
def fill_bins(column: FloatArray, centre: float, nothing: float, bins: Any) -> int:
    """Fill in the bins of a column; return how many numbers are not finite."""
    odd = 0
    for first in range(0, len(column), _BINS_TOGETHER):
        y = column[first : first + _BINS_TOGETHER] - centre
        own = bins[first : first + _BINS_TOGETHER]
        odd += not _signed_bins(y.view(np.uint64), own)
        for a in range(len(y) if nothing > 0 else 0):
            own[a] = N_SIGNED_BINS - 1 if abs(y[a]) <= nothing else own[a]
    return odd


@compiled
def count_bins(bins: Any, counts: IntArray) -> None:
    """Count rows of bins, without those that miss a value."""
    for first in range(0, len(bins), _ROWS_TOGETHER):
        own = bins[first : first + _ROWS_TOGETHER]
        if len(own) == _ROWS_TOGETHER and (own[:, 0] != MISSING).all():
            _add_bins(own, counts)
            continue
        for a in range(len(own)):
            for i in range(own.shape[1] if own[a, 0] != MISSING else 0):
                counts[i, own[a, i]] += 1


def _check_columns(columns: object, n_features: int) -> IntArray:
    """Return indices of features, or raise: compiled loops do not check them."""
    indices = np.asarray(columns)
    if indices.ndim != 1 or (indices.size and indices.dtype.kind not in "iu"):
        raise ParameterError(
            f"columns must be a list of integers, got shape {indices.shape} of {indices.dtype}: "
            "give the indices of features."
        )
    if indices.size and not 0 <= indices.min() <= indices.max() < n_features:
        raise ParameterError(
            f"columns must be features, 0 to {n_features - 1}, got others: give their indices."
        )
    return indices.astype(np.int64)


@compiled
def count_signed_octaves(
    block: FloatArray, centre: FloatArray, nothing: FloatArray, columns: IntArray, counts: IntArray
) -> bool:
    """Count rows by sign and octave about a centre."""
    finite, everything, n = True, len(columns) == block.shape[1], len(columns)
    for i in range(n):
        everything &= columns[i] == i
    y, bins, filled = np.empty(n), np.empty((_ROWS_TOGETHER, n), dtype=np.uint32), 0
    bits = y.view(np.uint64)
    for a in range(len(block)):
        if everything:
            for i in range(n):
                y[i] = block[a, i] - centre[i]
        else:
            for i in range(n):
                y[i] = block[a, columns[i]] - centre[i]
        _signed_bins(bits, bins[filled])
        for i in range(n):  # a difference of 0 is nothing in any case
            bins[filled, i] = N_SIGNED_BINS - 1 if abs(y[i]) <= nothing[i] else bins[filled, i]
        complete = finite_row(block[a])
        finite &= complete
        filled += complete
        if filled == _ROWS_TOGETHER:
            _add_bins(bins, counts)
            filled = 0
    for b in range(filled):
        for i in range(n):
            counts[i, bins[b, i]] += 1
    return finite


@compiled
def _add_bins(bins: Any, counts: IntArray) -> None:
    """Count several rows, a column at a time: its counts are in the cache for all of them."""
    for i in range(bins.shape[1]):
        own = counts[i]
        for b in range(_ROWS_TOGETHER):
            own[bins[b, i]] += 1


@compiled
def _signed_bins(bits: Any, bins: Any) -> bool:
    """Fill in the bins of numbers, given by their bits; False if one is not finite.

    Without branches and in 32 bits: the loop is vectorised.
    """
    seen = np.int32(0)
    for i in range(len(bits)):
        head = np.int32(bits[i] >> np.uint64(_FRACTION_BITS))  # sign and exponent
        exponent = head & np.int32(_EXPONENT_MASK)
        seen |= exponent + np.int32(1)  # carries where all bits are set
        octave = exponent + np.int32(OCTAVE_SHIFT)
        place = min(octave, np.int32(N_OCTAVES)) - np.int32(1)
        place += np.int32(N_OCTAVES) if head == exponent else np.int32(0)
        bins[i] = np.int32(N_SIGNED_BINS - 1) if octave <= np.int32(0) else place
    return bool(seen <= np.int32(_EXPONENT_MASK))


def cell_counts(
    records: Records,
    columns: IntArray,
    starts: FloatArray,
    widths: FloatArray,
    firsts: IntArray,
    n_cells: int,
) -> IntArray:
    """Count for each of some columns (row) in which cell of its own grid (column) the values lie.

    Cell i counts x with floor((x - start) / width) - first = i. Values outside the `n_cells` cells
    count nowhere. The difference and the quotient are doubles, each rounded once, so the counts
    are the same on every machine, whatever the block size and the order of the records. Records
    that `CompleteRecords` leaves out count nowhere. `columns` are indices of features; `starts`,
    `widths` and `firsts`, within 2^52 of the start, have one number for each, public or released.

    Privacy
    -------
    Nothing here is private by itself. A record adds at most one count to every row, whatever its
    values. So replacing one moves the counts by at most sqrt(2 n_columns) in Euclidean norm.
    """
    columns = _check_columns(columns, records.n_features)
    size = len(columns)
    cells = check_integer("n_cells", n_cells, at_least=1, at_most=2**30, cure="count fewer cells.")
    wide = check_numbers("widths", widths, size, at_least=0, cure=_ONE_EACH)
    if not wide.all():
        raise ParameterError(f"widths must be positive, got zeros: {_ONE_EACH}")
    first = check_numbers("firsts", firsts, size, cure=_ONE_EACH)
    if np.any(first != np.rint(first)) or np.any(np.abs(first) > _LARGEST_CELL):
        raise ParameterError(f"firsts must be integers within 2**52, got others: {_ONE_EACH}")
    begin = check_numbers("starts", starts, size, cure=_ONE_EACH)
    arguments = (columns, begin, wide, first, cells)
    counts = RowSums(count_cells, arguments, (size, cells), centring=False)
    return records.map_sum_complete(counts)


@compiled
def count_cells(
    block: FloatArray,
    columns: IntArray,
    starts: FloatArray,
    widths: FloatArray,
    firsts: FloatArray,
    n_cells: int,
    counts: IntArray,
) -> bool:
    """Count rows by cell."""
    finite, cells = True, np.empty(len(columns))
    for a in range(block.shape[0]):
        if not finite_row(block[a]):
            finite = False
            continue
        for i in range(len(columns)):
            cells[i] = block[a, columns[i]]
        for i in range(len(columns)):
            cells[i] = np.floor((cells[i] - starts[i]) / widths[i]) - firsts[i]
        for i in range(len(columns)):
            if 0 <= cells[i] < n_cells:
                counts[i, np.int64(cells[i])] += 1
    return finite


def edge_counts(records: Records, columns: IntArray, edges: FloatArray) -> IntArray:
    """Count for each of some columns (row) between which of its edges (row) the values lie.

    Bin k counts x with exactly k edges at most x; records that `CompleteRecords` leaves out count
    nowhere. Edges do not decrease, and are public or released.

    Privacy
    -------
    Nothing here is private by itself. A record adds at most one count to every row, whatever its
    values. So replacing one moves the counts by at most sqrt(2 n_columns) in Euclidean norm.
    """
    columns = _check_columns(columns, records.n_features)
    if edges.ndim != 2 or len(edges) != len(columns) or not (np.diff(edges) >= 0).all():
        raise ParameterError(f"edges must be a row for each column, in order: {_ONE_EACH}")
    size = (len(columns), edges.shape[1] + 1)
    return records.map_sum_complete(RowSums(count_between, (columns, edges), size, centring=False))


@compiled
def count_between(
    block: FloatArray, columns: IntArray, edges: FloatArray, counts: IntArray
) -> bool:
    """Count rows between edges."""
    finite = True
    for a in range(block.shape[0]):
        if not finite_row(block[a]):
            finite = False
            continue
        for i in range(len(columns)):
            counts[i, np.searchsorted(edges[i], block[a, columns[i]], side="right")] += 1
    return finite


def norm_histogram(records: Records, grid: FeatureGrid, squared_edges: tuple[int, ...]) -> IntArray:
    """Count the records whose squared norm lies between successive edges.

    With y the record's integers on `grid` and q = ||y||^2, bin j counts the records for which
    exactly j edges are below q: bin 0 has q <= the first edge, the last bin q > the last edge, and
    an edge belongs to the bin below it. Squared norms are exact integers, so the counts are the
    same whatever the block size, the order of the records and the machine.

    Privacy
    -------
    Nothing here is private by itself. A record adds one to one count, so replacing a record moves
    the counts by at most sqrt(2) in Euclidean norm.
    """
    counts = norm_counts_of(records, grid, squared_edges)
    return records.map_sum(counts)


def norm_counts_of(
    records: Records, grid: FeatureGrid, squared_edges: tuple[int, ...], *, signs: bool = False
) -> RowSums:
    """Return what `norm_histogram` sums up, after the sums of signs if asked for."""
    grid.check_features(records.n_features)
    grid.check_squared_norms()
    edges = np.array(squared_edges, dtype=np.int64)
    if np.any(np.diff(edges) <= 0) or np.any(edges < 0) or np.any(edges >= LARGEST_EXACT_FLOAT):
        raise ParameterError(
            f"squared_edges must be integers from 0 to below 2**53 that increase, got {len(edges)} "
            "that do not: they are public squared norms, in steps of the grid."
        )
    n_signs = grid.n_features * signs
    arguments = (grid.numbers, edges.astype(np.float64), n_signs)
    return RowSums(count_norms, arguments, (n_signs + len(edges) + 1,))


@compiled
def count_norms(
    block: FloatArray,
    about: Reaches,
    grid: Multipliers,
    edges: FloatArray,
    n_signs: int,
    total: IntArray,
) -> bool:
    """Count rows by squared norm, after the sums of so many signs."""
    (centre, reach), (multipliers, half_width) = about, grid
    finite, y = True, np.empty(block.shape[1])
    signs, counts = total[:n_signs], total[n_signs:]
    for a in range(block.shape[0]):
        finite &= centre_row(block[a], centre, reach, y)
        add_signs(y[:n_signs], signs)
        round_row(y, multipliers, half_width)
        counts[count_below(edges, square_norm(y))] += 1
    return finite


@compiled
def add_signs(y: FloatArray, sums: IntArray) -> None:
    """Add the signs of a row to sums; sgn(0) is 0."""
    for i in range(len(y)):
        sums[i] += np.int64(y[i] > 0.0) - np.int64(y[i] < 0.0)


def sign_sums(records: Records) -> IntArray:
    """Return the sum over records of sgn(x_i) for every feature; sgn(0) is 0.

    Privacy
    -------
    Nothing here is private by itself. Replacing one record moves every sum by at most 2.
    """
    return records.map_sum(RowSums(sum_signs, (), (records.n_features,)))


@compiled
def sum_signs(block: FloatArray, about: Reaches, sums: IntArray) -> bool:
    """Add the signs of centred rows."""
    finite, y, (centre, reach) = True, np.empty(block.shape[1]), about
    for a in range(block.shape[0]):
        finite &= centre_row(block[a], centre, reach, y)
        add_signs(y, sums)
    return finite


def count_complete(records: Records) -> int:
    """Return how many records miss no value.

    Privacy
    -------
    Nothing here is private by itself. Replacing one record moves the count by at most 1.
    """
    return int(records.map_sum(RowSums(count_rows, (), (1,), centring=False, takes_gaps=True))[0])


@compiled
def count_rows(block: FloatArray, total: IntArray) -> bool:
    """Count rows."""
    found = 0
    for a in range(block.shape[0]):
        found += finite_row(block[a])
    total[0] += found
    return bool(found == block.shape[0])
