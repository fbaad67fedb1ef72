"""Every kernel of sums beside a literal implementation, on small hostile inputs.

Sizes lie around every tile, lane, panel and block; values at every limit, as missing ones, ties,
zeros of both signs, and the largest and smallest that there are.
"""

import math

import numpy as np
import pytest

from exact_sums import bounded_sums, norm_histogram
from hushcov.kernel.grids import INSIDE, FeatureGrid
from hushcov.kernel.records.base import CompleteRecords, GroupedRecords
from hushcov.kernel.sums import bounded, counts, gram, products, rows
from hushcov.kernel.sums.bounded import fourth_sums_of, unit_means
from hushcov.kernel.sums.products import MOST_PRODUCTS, ProductMap
from hushcov.tables.sources import ArrayRecords

LARGEST = np.finfo(np.float64).max
TINY = 5e-324
ENDS = (2.0**-64, 2.0**-65, 1.0, 2.0**63, 2.0**64)
SIZES = [0.0, TINY, LARGEST, 1.5, *ENDS, *(math.nextafter(each, 0.0) for each in ENDS)]
VALUES = np.array([*SIZES, *(-each for each in SIZES)])


def hostile(n_rows, n_features, seed=0):
    """Return rows with all kinds of numbers."""
    random = np.random.default_rng([seed, n_rows, n_features])
    drawn = 3 * random.standard_normal((n_rows, n_features))
    odd = random.random((n_rows, n_features)) < 0.4
    drawn[odd] = random.choice(VALUES, odd.sum())
    return drawn


# Rows.


def literal_integers(x, centre, reach, grid):
    """Centre, clip and round to even, in this order."""
    multipliers, half_width = grid
    with np.errstate(over="ignore"):
        near = np.clip(x - centre, -reach, reach) * multipliers
    return np.rint(np.clip(near, -half_width, half_width)).astype(np.int64)


def test_norms_are_counted_by_half_octaves_of_their_squares():
    root = math.sqrt(0.5)
    for exponent in (-3, 0, 1, 2, 7, 52):
        for mantissa in (0.5, math.nextafter(root, 0), root, math.nextafter(1.0, 0.0)):
            expected = 2 * exponent + (mantissa >= root)
            square = np.array([0.0, math.ldexp(mantissa, exponent)])
            assert rows.norm_bins(square, 200).tolist() == [0, expected]
            assert rows.norm_bins(square, 4).tolist() == [0, min(expected, 3)]


def test_squares_of_a_unit_are_added_within_the_error_that_is_proved():
    for n in (0, 1, 2**12 - 1, 2**12, 2**12 + 1, 2**13 + 1):
        v = np.stack([np.arange(n) % 7 - 3.0, np.ones(n)])
        assert bounded.near_square_norms(v).tolist() == (v * v).sum(axis=1).tolist()
    together = bounded._SQUARES_TOGETHER  # roundings after each other, in a part and of parts
    assert (together + MOST_PRODUCTS / together) * 2.0**-53 < 2.0**-40


# Counts.


def literal_octave(y, nothing):
    """Bins of `signed_octaves`."""
    if abs(y) < 2.0**-64 or abs(y) <= nothing:
        return 256
    place = min(math.frexp(y)[1] - 1, 63) + 64
    return place + 128 * (y > 0)


COLUMNS = {
    "all": range(6),
    "first": (0, 1, 2),
    "some": (4, 0, 5),
    "reversed": range(5, -1, -1),
    "one": (3,),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_octaves_are_counted_whatever_is_missing(name):
    columns = np.array(COLUMNS[name])
    size = len(columns)
    for n in (1, 4, 30):
        x = hostile(n, 6)
        x[1::4, 2] = math.nan
        kept, records = np.isfinite(x).all(axis=1), CompleteRecords(ArrayRecords(x).with_gaps())
        for centre in (np.zeros(size), np.arange(size) / 4 - 0.5):
            for nothing in (np.zeros(size), np.linspace(0.0, 2.0, size)):
                expected = np.zeros((size, 257), dtype=np.int64)
                for row in x[kept]:
                    for i, column in enumerate(columns):
                        y = float(row[column]) - float(centre[i])
                        expected[i, literal_octave(y, nothing[i])] += 1
                found = counts.signed_octaves(records, centre, nothing, columns)
                assert np.array_equal(found, expected)
    octaves = counts.log2_histogram(ArrayRecords(x[kept]))
    for i in range(6):
        sizes = [math.frexp(each)[1] + 64 if each else 0 for each in x[kept, i].tolist()]
        places = np.clip(sizes, 0, counts.N_BINS - 1)
        assert octaves[i].tolist() == np.bincount(places, minlength=counts.N_BINS).tolist()


def test_cells_edges_norms_and_signs_are_counted():
    x = hostile(25, 3)
    x[::5] = [[0.5, -1.0, 2.0]]
    records, columns = ArrayRecords(x, block_rows=7), np.array([2, 0])
    starts, widths, firsts = np.array([-1.0, 0.5]), np.array([0.5, 0.25]), np.array([-2.0, 0.0])
    edges = np.array([[-1.0, 0.0, 0.0, 2.0], [-5.0, 0.5, 0.5, LARGEST]])
    cells, between = np.zeros((2, 9), dtype=np.int64), np.zeros((2, 5), dtype=np.int64)
    for row in x.tolist():
        for i, column in enumerate(columns):
            cell = (row[column] - float(starts[i])) / float(widths[i])
            cell = math.floor(cell) - firsts[i] if math.isfinite(cell) else -1
            if 0 <= cell < 9:
                cells[i, int(cell)] += 1
            between[i, sum(edge <= row[column] for edge in edges[i])] += 1
    found = counts.cell_counts(records, columns, starts, widths, firsts, 9)
    assert np.array_equal(found, cells)
    assert np.array_equal(counts.edge_counts(records, columns, edges), between)
    assert counts.sign_sums(records).tolist() == np.sign(x).sum(axis=0).tolist()
    grid = FeatureGrid(np.array([1.0, 2.0, 0.0]), 4.0, 50)
    y = literal_integers(x, 0.0, LARGEST, grid.numbers)
    squares = sorted({0, *(y**2).sum(axis=1).tolist()})[:-1:2]
    expected = [sum(edge < q for edge in squares) for q in (y**2).sum(axis=1)]
    both = records.map_sum(counts.norm_counts_of(records, grid, tuple(squares), signs=True))
    assert both[:3].tolist() == np.sign(x).sum(axis=0).tolist()
    assert both[3:].tolist() == np.bincount(expected, minlength=len(squares) + 1).tolist()
    assert norm_histogram(records, grid, tuple(squares)).tolist() == both[3:].tolist()


# Products and bounded rows.


def literal_row(z, square, bound):
    """Return numbers scaled down to a bound and truncated, and the factor."""
    factor = 1.0 if square <= bound**2 else bound / math.sqrt(square) * INSIDE
    return [int(each * factor) for each in z], factor


def literal_products(own, y):
    """Sums of `ProductMap`, record by record."""
    total = [0] * (own.n_products + 2)
    for row in y.tolist():
        z = [own.pair_weight * row[i] * row[j] for i, j in zip(own.rows, own.columns, strict=True)]
        z += [own.diagonal_weight * (each**2 - own.centre) for each in row]
        added, factor = literal_row(z, sum(int(each) ** 2 for each in z), own.norm_bound)
        size = min(sum(each**2 for each in row), own.size_cap)
        added += [int(factor * own.factor_range), size * own.size_range // own.size_cap]
        total = [a + int(b) for a, b in zip(total, added, strict=True)]
    return total


@pytest.mark.parametrize(("half_width", "weight"), [(4095, 1), (4096, 1), (200, 30)])
@pytest.mark.parametrize("n", [1, 15, 127, 128, 129, 257])
def test_products_are_those_of_every_record(half_width, weight, n):
    d = 11
    random = np.random.default_rng(n)
    y = random.integers(-half_width, half_width + 1, (n, d))
    y[: n // 2], y[n // 3] = half_width, 0
    y[1::9] = random.integers(-3, 4, (len(y[1::9]), d))
    pairs = [(0, j) for j in range(1, d)] + [(3, 5), (3, 4), (7, 2)]
    left, right = (np.array([pair[k] for pair in pairs]) for k in (0, 1))
    grid = FeatureGrid(np.ones(d), half_width, half_width)
    bound = weight * half_width**2
    own = ProductMap(grid, left, right, weight, 1, 7, bound, 1000, 50, 3 * half_width**2)
    expected = literal_products(own, y)
    records = ArrayRecords(y.astype(np.float64), block_rows=200)
    assert own.sums_of(records).arguments[-1] == [bound, 1000, 50, 3 * half_width**2]
    assert records.map_sum(own.sums_of(records)).tolist() == expected
    alone = ProductMap(grid, left[:0], right[:0], 1, weight, 7, bound, 1000, 50, half_width**2)
    assert alone.sum(records).tolist() == literal_products(alone, y)


@pytest.mark.parametrize("seed", range(6))
def test_norms_of_pairs_are_exact_however_windows_of_neighbours_move(seed):
    """Wider, narrower, to the left and to the right, beside single pairs."""
    random = np.random.default_rng(seed)
    row = [(0, j) for j in range(3, 14)]  # whose second pair is another one
    pairs = [(0, 1), (5, 7), *row, (0, 1), (0, 20), *row]
    for _ in range(25):
        i, first = random.integers(0, 24, 2).tolist()
        pairs += [
            (i, j) for j in range(first, min(24, first + int(random.choice([1, 3, 8, 9, 14]))))
        ]
    left, right = (np.array([pair[k] for pair in pairs]) for k in (0, 1))
    lanes = random.integers(-500, 501, (24, 16)).astype(np.int16)
    squares, wide = np.zeros(16), lanes.astype(np.int64)
    products._fill_squares(lanes, left, right, squares)
    assert np.array_equal(squares, ((wide[left] * wide[right]) ** 2).sum(axis=0))


def test_a_unit_that_stays_too_long_is_scaled_down_once_more():
    """Nothing is truncated at half its size, and the bound is to be kept strictly."""
    records = GroupedRecords(
        ArrayRecords(np.full((1, 1), 200.0)), np.zeros(1, int), np.ones(1, bool), 2
    )
    found = gram.unit_bounded_gram(records, FeatureGrid(np.ones(1), 200, 200), 10_000, 2)
    assert found.tolist() == [[99**2]]
    assert 2.0**-30 <= 1 - gram._UNIT_INSIDE < 2.0**-29  # sums of squares are within 2**-31


def test_units_are_bounded_as_one():
    d, most = 3, 4
    y = np.random.default_rng(1).integers(-60, 61, (40, d))
    y[5:9], y[20:] = 60, y[20:] // 20
    codes = np.repeat(np.arange(16), [1, 4, 2, 4, 3, 1, 4, 1, 2, 4, 3, 1, 4, 2, 3, 1])
    units = [y[codes == code] for code in range(16)]
    records = GroupedRecords(
        ArrayRecords(y.astype(np.float64), block_rows=7), codes, np.ones(40, np.bool_), most
    )
    grid, means = FeatureGrid(np.ones(d), 60, 60), np.array([5, -9, 40, 30, 20])
    pairs = np.array([0, 1]), np.array([2, 1])
    own = ProductMap(grid, *pairs, 3, 2, 100, 9000, 103, 90, 1500, most, means)
    sums, histogram, centres = [0] * 7, [0] * 124, [0] * 4
    squares, whole = [], np.zeros((d, d), dtype=np.int64)
    for unit in units:
        m = len(unit)
        v = [3 * unit[:, i] @ unit[:, j] for i, j in zip(*pairs, strict=True)]
        v += [2 * (unit[:, i] @ unit[:, i] - 100 * m) for i in range(d)]
        for total, each, bound, share in (
            (sums, [a - m * b for a, b in zip(v, means.tolist(), strict=True)], 9000, 103),
            (centres, unit.sum(axis=0).tolist(), 99, 41),
        ):
            square = sum(int(one) ** 2 for one in each)
            factor = 1.0 if square <= bound**2 * INSIDE else bound / math.sqrt(square) * INSIDE
            added = [int(factor * one) for one in each] + [int(factor * (share * m // most))]
            total[: len(added)] = [a + b for a, b in zip(total[: len(added)], added, strict=True)]
            if total is sums:
                mantissa, exponent = math.frexp(square)
                histogram[2 * exponent + (mantissa >= math.sqrt(0.5))] += 1
        size = min(int((unit**2).sum()), 1500 * most)
        sums[-1] += int(size / (1500 * most) * 90)
        squares.append(int(((unit.T @ unit) ** 2).sum()))
        factor, z = math.sqrt(8000 / math.sqrt(squares[-1] or 1)), unit
        while ((z.T @ z) ** 2).sum() > 8000**2 * (1 - 2.0**-30):
            z = np.trunc(unit * factor).astype(np.int64)
            factor *= 0.99
        whole += z.T @ z
    assert own.sum(records).tolist() == sums
    assert own.norm_histogram(records).tolist() == histogram
    assert unit_means(records, grid, 99, 41, most).tolist() == centres
    assert gram.unit_bounded_gram(records, grid, 8000, most).tolist() == whole.tolist()
    places = [2 * math.frexp(q)[1] + (math.frexp(q)[0] >= math.sqrt(0.5)) for q in squares]
    found = gram.unit_norm_histogram(records, grid, most)
    assert found.tolist() == np.bincount(places, minlength=4 * 57).tolist()


def test_rows_and_their_fourth_powers_are_bounded():
    x = hostile(60, 5)
    grid, bound = FeatureGrid(np.array([1.0, 0.5, 0.0, 2.0, 1.0]), 8.0, 100), 77
    y = literal_integers(x, 0.0, LARGEST, grid.numbers)
    y[:3] = [[0] * 5, [77, 0, 0, 0, 0], [46, 46, 0, 42, 1]]
    x = np.where(np.arange(60)[:, None] < 3, y / np.maximum(grid.multipliers, 1e-9), x)
    records = ArrayRecords(x, block_rows=9)
    shortened = [literal_row(row, sum(each**2 for each in row), bound)[0] for row in y.tolist()]
    assert bounded_sums(records, grid, bound).tolist() == np.sum(shortened, axis=0).tolist()
    z = np.array(shortened)
    assert gram.row_bounded_gram(records, grid, bound).tolist() == (z.T @ z).tolist()
    powers = [[min(math.isqrt(1000 << 9), each**2) ** 2 >> 9 for each in row] for row in y.tolist()]
    short = [literal_row(row, sum(each**2 for each in row), 1000)[0] for row in powers]
    found = records.map_sum(fourth_sums_of(records, grid, 9, 1000))
    assert found.tolist() == np.sum(short, axis=0).tolist()
