"""Records side by side: the numbers of one feature in a row, so that products are of whole rows.

A product of two features is then a product of successive numbers, for many records at once. They
are integers of two bytes. Products are made in four bytes, and their squares and sums in doubles:
all of it is exact, in any order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcov._arrays import FloatArray, IntArray
from hushcov._compiled import compiled, intrinsic
from hushcov.records.rows import MISSING, exact_reduction, finite_row

Lanes = NDArray[np.int16]

#: Largest integers: products of two of them, less another, have room in four bytes.
LARGEST_LANE = 2**14
# Records side by side: a multiple of 8, as many as leave all features in the second cache.
_MOST_LANES, _FEWEST_LANES, _LANE_VALUES = 64, 16, 2**18
# Records and features that are turned together; they stay in the nearest cache.
_TOGETHER, _PIECE = 8, 128


@compiled
def empty_lanes(n_features: int) -> Lanes:
    """Room for as many records as are best taken together: features by records."""
    fitting = _LANE_VALUES // n_features // _TOGETHER * _TOGETHER
    return np.zeros((n_features, max(_FEWEST_LANES, min(_MOST_LANES, fitting))), dtype=np.int16)


@compiled
def fill_lanes(
    rows: FloatArray,
    taken: FloatArray,
    reach: FloatArray,
    multipliers: FloatArray,
    half_width: float,
    centre: float,
    lanes: Lanes,
    sizes: FloatArray,
) -> bool:
    """Put rows side by side, centred and made integers y; False if a number is not finite.

    Their sums of y_i^2, and of (y_i^2 - `centre`)^2, become the two rows of `sizes`.
    """
    sizes[:] = 0.0
    y, integers = np.empty(_PIECE), np.zeros((_TOGETHER, _PIECE), dtype=np.int16)
    for k in range(len(rows)):
        if taken.ndim == 1 and not finite_row(rows[k]):
            return False
    for first in range(0, len(rows), _TOGETHER):
        for left in range(0, len(lanes), _PIECE):
            right = min(len(lanes), left + _PIECE)
            for k in range(first, min(first + _TOGETHER, len(rows))):
                _fill_piece(rows, k, left, right, taken, reach, multipliers, half_width, y)
                square, about = _small_integers(y, right - left, centre, integers, k - first)
                sizes[0, k] += square
                sizes[1, k] += about
            _turn(integers, lanes[left:right, first : first + _TOGETHER])
    return True


# Loops below get whole arrays and where to begin: an array for each part would be counted for the
# release of memory, which takes as long as the loop. Places are unsigned, as none counts from the
# end. How many there are is not known to the compiler, which would not use vectors for so few.


@compiled
def _fill_piece(
    rows: FloatArray,
    k: int,
    left: int,
    right: int,
    taken: FloatArray,
    reach: FloatArray,
    multipliers: FloatArray,
    half_width: float,
    y: FloatArray,
) -> None:
    """Fill y with part of row k, as `centre_row` and `round_row` do."""
    start = np.uint64(left)
    if taken.ndim == 2 and rows[k, 0] == MISSING:
        y[:] = 0.0
        return
    for i in range(np.uint64(right - left)):
        if taken.ndim == 2:  # known when this is compiled
            centred = rows[k, start + i] * taken[1, start + i] - taken[0, start + i]
        else:
            centred = rows[k, start + i] - taken[start + i]
        near = min(max(centred, -reach[start + i]), reach[start + i])
        scaled = near * multipliers[start + i]
        y[i] = np.rint(min(max(scaled, -half_width), half_width))


@exact_reduction
def _small_integers(
    y: FloatArray, n_values: int, centre: float, integers: Lanes, k: int
) -> tuple[float, float]:
    square, about = 0.0, 0.0
    for i in range(np.uint64(n_values)):
        integers[k, i] = np.int16(y[i])
        own = y[i] * y[i]
        square += own
        about += (own - centre) * (own - centre)
    return square, about


@compiled
def _turn(integers: Lanes, lanes: Lanes) -> None:
    """Put eight rows side by side."""
    whole = len(lanes) // _TOGETHER * _TOGETHER
    for i in range(0, whole, _TOGETHER):
        _turn_eight(integers[:, i:], lanes[i:])
    for i in range(whole, len(lanes)):
        for k in range(_TOGETHER):
            lanes[i, k] = integers[k, i]


@intrinsic
def _turn_eight(context: Any, rows: Any, lanes: Any) -> Any:
    """Turn eight times eight integers: compilers do not see that whole rows can be shuffled."""
    from llvmlite import ir
    from numba import types

    every, word = range(_TOGETHER), ir.IntType(64)
    vector, places = (ir.VectorType(ir.IntType(bits), _TOGETHER) for bits in (16, 32))

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def pointers(which: int) -> list[Any]:
            array = context.make_array(signature.args[which])(context, builder, arguments[which])
            start = builder.ptrtoint(array.data, word)
            stride = builder.extract_value(array.strides, 0)
            starts = [builder.add(start, builder.mul(stride, word(k))) for k in every]
            return [builder.inttoptr(each, vector.as_pointer()) for each in starts]

        values = [builder.load(each, align=2) for each in pointers(0)]
        for step in (1, 2, 4):  # exchange halves of blocks, twice as large each time
            upper = places([k + _TOGETHER - step if k & step else k for k in every])
            lower = places([k + _TOGETHER if k & step else k + step for k in every])
            values = [
                builder.shuffle_vector(values[k - step], values[k], lower)
                if k & step
                else builder.shuffle_vector(values[k], values[k + step], upper)
                for k in every
            ]
        for value, each in zip(values, pointers(1), strict=True):
            builder.store(value, each, align=2)
        return context.get_dummy_value()

    return types.void(rows, lanes), code


@compiled
def fill_squares(lanes: Lanes, rows: IntArray, columns: IntArray, squares: FloatArray) -> None:
    """Fill in the sum over pairs of (y_i y_j)^2 for each record."""
    squares[:] = 0.0
    flat, even = lanes.ravel(), len(rows) // 2 * 2
    for e in range(0, even, 2):  # squares are read and written half as often
        _add_squares(flat, rows[e], columns[e], rows[e + 1], columns[e + 1], squares)
    if even < len(rows):
        for k in range(len(squares)):
            squares[k] += np.float64(_product(lanes[rows[even], k], lanes[columns[even], k])) ** 2


@compiled
def _add_squares(flat: Lanes, i: int, j: int, g: int, h: int, squares: FloatArray) -> None:
    n = np.uint64(len(squares))
    x, y, v, w = np.uint64(i) * n, np.uint64(j) * n, np.uint64(g) * n, np.uint64(h) * n
    for k in range(n):
        one = np.float64(_product(flat[x + k], flat[y + k]))
        other = np.float64(_product(flat[v + k], flat[w + k]))
        squares[k] += one * one + other * other


@compiled
def _product(x: Any, y: Any) -> Any:
    return np.int32(np.int32(x) * np.int32(y))


@compiled
def add_products(
    lanes: Lanes,
    rows: IntArray,
    columns: IntArray,
    weights: FloatArray,
    factors: FloatArray,
    sums: FloatArray,
) -> None:
    """Add the products z of `ProductMap`, each times the factor of its record, rounded to zero."""
    flat = lanes.ravel()
    weight, own_weight, centre = np.int32(weights[0]), np.int32(weights[1]), np.int32(weights[2])
    for e in range(len(rows)):
        sums[e] += _scaled_sum(flat, rows[e], columns[e], weight, np.int32(0), factors)
    for i in range(len(lanes)):
        sums[len(rows) + i] += _scaled_sum(flat, i, i, own_weight, centre, factors)


@exact_reduction
def _scaled_sum(
    flat: Lanes, i: int, j: int, weight: Any, centre: Any, factors: FloatArray
) -> float:
    # Weighted in integers: the only product that is rounded is the last one, in whatever order
    # the sum is made.
    n, total = np.uint64(len(factors)), 0.0
    x, y = np.uint64(i) * n, np.uint64(j) * n
    for k in range(n):
        z = np.int32(weight * np.int32(_product(flat[x + k], flat[y + k]) - centre))
        total += np.trunc(np.float64(z) * factors[k])
    return total
