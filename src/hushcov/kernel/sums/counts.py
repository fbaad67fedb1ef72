"""Counts of records: by the size or place of each feature, by norm, and without missing values.

Counts are the same on every machine, whatever the block size and the order of the records: octaves
are read from the bits of a number, squared norms are exact integers, and differences and quotients
are rounded once. Where records miss values, counts of columns leave them out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hushcov._arrays import LARGEST_EXACT_FLOAT, FloatArray, IntArray, like, namespace
from hushcov._compiled import compiled
from hushcov._validation import check_integer, check_numbers
from hushcov.exceptions import ParameterError
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.records.base import Records
from hushcov.kernel.sums.rows import INTEGERS, Multipliers, RowSums, add_rows, count_in_bins

# Bins of `signed_octaves`: from 2^-64 (5e-20) up to 2^64 (2e19) on both sides, larger values in the
# last ones, and one bin for what is hardly anything.
SMALLEST_EXPONENT = -64
LARGEST_EXPONENT = 64
N_OCTAVES = LARGEST_EXPONENT - SMALLEST_EXPONENT
N_SIGNED_BINS = 2 * N_OCTAVES + 1
# Differences of cells up to this are exact in doubles, and so is the sum of two.
_LARGEST_CELL = LARGEST_EXACT_FLOAT // 2

# A double is sign, 11 bits of exponent, 52 bits of fraction. Its size lies in [2^e, 2^(e+1)) for
# e the exponent bits minus 1023; zero and subnormal numbers have exponent bits 0.
FRACTION_BITS = 52
EXPONENT_MASK = 0x7FF
_EXPONENT_OF_ONE = 1023
# The exponent bits of the smallest value that is not in bin 0 become 1.
OCTAVE_SHIFT = 1 - (_EXPONENT_OF_ONE + SMALLEST_EXPONENT)

_ROWS_TOGETHER = 4
_NO_RANGES = np.zeros(0, np.int64)
_ONE_EACH = "give one for each of the columns, public or released."


def signed_octaves(
    records: Records, centre: FloatArray, dead_zone: FloatArray, columns: IntArray
) -> IntArray:
    """Count for each of some columns (row) in which octave about its centre the values lie.

    With y = x - centre, bins 0 to 127 count negative y by octave, [2^k, 2^(k+1)) for k from -64 to
    63, and bins 128 to 255 positive y. Larger y are in the last octave. Bin 256 counts |y| below
    2^-64 or at most `dead_zone`. `centre` and `dead_zone` have one number for each of `columns`,
    public or released.
    """
    columns = _check_columns(columns, records.n_features)
    arguments = (
        check_numbers("centre", centre, len(columns), cure=_ONE_EACH),
        check_numbers(
            "dead_zone", dead_zone, len(columns), at_least=0, finite=False, cure=_ONE_EACH
        ),
        columns,
    )
    shape = len(columns), N_SIGNED_BINS
    return records.map_sum_complete(RowSums(count_signed_octaves, arguments, shape, centring=False))


def count_signed_octaves(
    rows: Any, centre: FloatArray, dead_zone: FloatArray, columns: IntArray, total: Any
) -> None:
    """Count values by octave on each side of a centre."""
    y, bins = np.empty(len(centre)), np.empty((_ROWS_TOGETHER, len(centre)), np.uint32)
    zones = centre, dead_zone
    _count_signed(chosen(rows, columns), zones, y, y.view(np.uint64), bins, total)


@compiled
def _count_signed(
    rows: FloatArray, zones: tuple[FloatArray, FloatArray], y: Any, bits: Any, bins: Any, total: Any
) -> None:
    """Count a few rows a column at a time: its counts are in the cache for all of them.

    `bits` are those of `y`. Bins are found in 32 bits and without branches.
    """
    for first in range(0, len(rows), len(bins)):
        few = min(len(bins), len(rows) - first)
        for a in range(few):
            for i in range(len(y)):
                y[i] = rows[first + a, i] - zones[0][i]
            for i in range(len(y)):
                octave = np.int32(bits[i] >> np.uint64(FRACTION_BITS)) & np.int32(EXPONENT_MASK)
                octave += np.int32(OCTAVE_SHIFT)
                place = min(octave, np.int32(N_OCTAVES)) - np.int32(1)
                place += np.int32(N_OCTAVES) if y[i] > 0 else np.int32(0)
                near = (octave <= 0) | (abs(y[i]) <= zones[1][i])
                bins[a, i] = np.int32(N_SIGNED_BINS - 1) if near else place
        for i in range(len(y)):
            own = total[i]
            for a in range(_ROWS_TOGETHER if few == _ROWS_TOGETHER else few):
                own[bins[a, i]] += 1


def chosen(rows: Any, columns: IntArray) -> Any:
    """Return some columns, or the rows themselves where these are all columns in their order."""
    every = len(columns) == rows.shape[1] and (np.diff(columns) == 1).all()
    return rows if every else rows[:, columns]


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
    count nowhere. `starts`, `widths` and `firsts`, within 2^52 of the start, have one number for
    each of `columns`, public or released.
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
    return records.map_sum_complete(RowSums(count_cells, arguments, (size, cells), centring=False))


def count_cells(
    rows: Any,
    columns: IntArray,
    starts: FloatArray,
    widths: FloatArray,
    firsts: FloatArray,
    n_cells: int,
    total: Any,
) -> None:
    """Count values by cell."""
    xp, (begin, width, first) = namespace(rows), (like(x, rows) for x in (starts, widths, firsts))
    cells = xp.floor((chosen(rows, columns) - begin) / width) - first
    inside = (cells >= 0) & (cells < n_cells)
    count_columns(xp.asarray(xp.where(inside, cells, n_cells), dtype=xp.int32), total)


def edge_counts(records: Records, columns: IntArray, edges: FloatArray) -> IntArray:
    """Count for each of some columns (row) between which of its edges (row) the values lie.

    Bin k counts x with exactly k edges at most x. Edges never decrease, public or released.
    """
    columns = _check_columns(columns, records.n_features)
    if edges.ndim != 2 or len(edges) != len(columns) or not (np.diff(edges) >= 0).all():
        raise ParameterError(f"edges must be a row for each column, in order: {_ONE_EACH}")
    size = (len(columns), edges.shape[1] + 1)
    return records.map_sum_complete(RowSums(count_between, (columns, edges), size, centring=False))


def count_between(rows: Any, columns: IntArray, edges: FloatArray, total: Any) -> None:
    """Count values between edges."""
    xp, pairs = namespace(rows), zip(like(edges, rows), chosen(rows, columns).T, strict=True)
    bins = [xp.searchsorted(own, 1 * values, side="right") for own, values in pairs]
    count_columns(xp.stack(bins, 1), total)


def count_columns(bins: Any, total: Any) -> None:
    """Add how often each bin occurs in each column; those beyond the last one count nowhere."""
    size, n_bins = total.shape
    first = like(np.arange(size) * (n_bins + 1), bins)
    places = (bins + first).reshape(-1)
    found = namespace(bins).bincount(places, minlength=size * (n_bins + 1))
    total += found.reshape(size, n_bins + 1)[:, :n_bins]


def norm_counts_of(
    records: Records, grid: FeatureGrid, squared_edges: tuple[int, ...], *, signs: bool = False
) -> RowSums:
    """Count records by squared norm between edges, after the sums of signs if asked for.

    With y the record's integers on `grid`, bin j counts the records for which exactly j edges are
    below ||y||^2: an edge belongs to the bin below it.
    """
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


def count_norms(rows: Any, grid: Multipliers, edges: FloatArray, n_signs: int, total: Any) -> None:
    """Count rows by squared norm, after the sums of so many signs."""
    if n_signs:
        sum_signs(rows, total[:n_signs])
    square = np.zeros(len(rows))
    add_rows(rows, grid, (INTEGERS, 0.0, 0.0), 0.0, _NO_RANGES, square, np.zeros(1, np.int64))
    count_in_bins(np.searchsorted(edges, square), total[n_signs:])


def sign_sums(records: Records) -> IntArray:
    """Return the sum over records of sgn(x_i) for every feature; sgn(0) is 0."""
    return records.map_sum(RowSums(sum_signs, (), (records.n_features,)))


@compiled
def sum_signs(rows: Any, total: Any) -> None:
    """Add the signs of each column; sgn(0) is 0."""
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            total[j] += np.int64(rows[i, j] > 0) - np.int64(rows[i, j] < 0)


def count_complete(records: Records) -> int:
    """Return how many records miss no value."""
    return int(records.map_sum(RowSums(count_rows, (), (1,), centring=False, takes_gaps=True))[0])


def count_rows(rows: Any, total: Any) -> None:
    """Count rows."""
    total += len(rows)
